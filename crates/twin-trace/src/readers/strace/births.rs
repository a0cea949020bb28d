//! Learns, before the text is read, which process made which and where each began.
//!
//! Contract: a child may write lines before the call that made it has ended, so births are
//! collected ahead, from the few lines that can show one. A number may be used again: births of a
//! number come in their order. Lines without a number belong to the first process, or to the only
//! one that there is.

use std::collections::{BTreeMap, BTreeSet};

use twin_rt::FixedMap;

use super::args::{string, unsigned};
use super::call::Call;
use super::line::{Parser, Said};
use super::table::Shared;

/// A process was made: by which other one, and what the two share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Birth {
    parent: Option<u32>,
    pub(super) shared: Shared,
}

/// The births of all processes, learned ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Births {
    of: BTreeMap<u32, Vec<Birth>>,
    /// Processes that have lines with their numbers in brackets.
    named: BTreeSet<u32>,
    /// The first working directory that the text tells, unless it was changed before.
    pub(super) cwd: Option<Vec<u8>>,
    cwd_changed: bool,
    parser: Quick,
    /// For each process, how many of its births have been used, and how many calls have shown one.
    done: FixedMap<u32, (usize, usize)>,
}

/// A parser that is not copied.
#[derive(Default)]
struct Quick(Parser);

impl Clone for Quick {
    fn clone(&self) -> Quick {
        Quick::default()
    }
}

impl std::fmt::Debug for Quick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Quick")
    }
}

impl Births {
    /// Learns the births in a line. Damage is reported when the line is read again.
    pub(super) fn learn(&mut self, line: &str) {
        if let Some((pid, _)) = line.strip_prefix("[pid").and_then(|rest| rest.split_once(']'))
            && let Ok(pid) = pid.trim().parse()
        {
            self.named.insert(pid);
        }
        let is_told = ["fork", "clone", "getcwd", "chdir"].iter().any(|name| line.contains(name));
        // The beginning of such a call may be cut by a note.
        if !is_told && !line.trim_start().starts_with("<unfinished") {
            return;
        }
        let Ok(Said::Call(call)) = self.parser.0.line(line) else { return };
        match call.name.as_str() {
            "chdir" | "fchdir" => self.cwd_changed |= call.result.is_some(),
            "getcwd" if self.cwd.is_none() && !self.cwd_changed && call.result.is_some() => {
                self.cwd = string(call.arg(0)).filter(|path| path.starts_with(b"/"));
            }
            _ => {
                if let Some((child, birth)) = birth_of(&call) {
                    self.of.entry(child).or_default().push(birth);
                }
            }
        }
    }

    /// The process of lines without a number.
    pub(super) fn first(&self) -> u32 {
        self.named.iter().copied().find(|pid| !self.of.contains_key(pid)).unwrap_or(1)
    }

    /// The next birth of a process that is not known yet: its parent, and what they share.
    pub(super) fn next(&mut self, pid: u32) -> Option<(u32, Shared)> {
        let done = self.done.entry(pid).or_default();
        let birth = *self.of.get(&pid)?.get(done.0)?;
        done.0 += 1;
        Some((birth.parent.unwrap_or_else(|| self.first()), birth.shared))
    }

    /// A call has shown a birth; true if the process has not been seen since it was created.
    pub(super) fn is_told(&mut self, pid: u32) -> bool {
        let done = self.done.entry(pid).or_default();
        done.1 += 1;
        done.0 < done.1
    }
}

/// True for the calls that make processes.
pub(super) fn makes_process(name: &str) -> bool {
    matches!(name, "fork" | "vfork" | "clone" | "clone2" | "clone3")
}

/// The child of a call, and its birth.
pub(super) fn birth_of(call: &Call) -> Option<(u32, Birth)> {
    if !makes_process(&call.name) {
        return None;
    }
    // In another namespace of numbers, the number that strace uses follows the result.
    let inside = call.said.split_once("/* ").filter(|(_, rest)| rest.contains("strace's PID NS"));
    let number = match inside {
        Some((_, rest)) => unsigned(rest)?,
        None => u64::try_from(call.result?).ok()?,
    };
    let child = u32::try_from(number).ok().filter(|child| *child > 0)?;
    let has = |name| call.args.iter().any(|arg| arg.contains(name));
    let shared = Shared { files: has("CLONE_FILES"), cwd: has("CLONE_FS") };
    Some((child, Birth { parent: call.pid, shared }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_used_again_has_births_in_their_order() {
        let mut births = Births::default();
        births.learn("1 fork() = 5");
        births.learn("2 clone(child_stack=NULL, flags=CLONE_VM|CLONE_FS|CLONE_FILES) = 5");
        assert_eq!(births.next(5), Some((1, Shared::default())));
        assert!(!births.is_told(5) && births.is_told(5));
        assert_eq!(births.next(5), Some((2, Shared { files: true, cwd: true })));
        assert_eq!(births.next(5), None);
    }

    #[test]
    fn lines_without_a_number_are_those_of_the_process_that_was_not_made() {
        let mut births = Births::default();
        births.learn("clone(child_stack=NULL, flags=SIGCHLD) = 101");
        births.learn("[pid   101] close(3) = 0");
        births.learn("[pid   100] close(3) = 0");
        assert_eq!((births.first(), births.next(101)), (100, Some((100, Shared::default()))));
    }

    #[test]
    fn a_birth_is_learned_though_a_note_cut_its_call() {
        let mut births = Births::default();
        births.learn("vfork(strace: Process 101 attached");
        births.learn(" <unfinished ...>");
        births.learn("[pid   101] close(3) = 0");
        births.learn("[pid   100] <... vfork resumed>) = 101");
        assert_eq!((births.first(), births.next(101)), (100, Some((100, Shared::default()))));
    }

    #[test]
    fn the_first_directory_is_that_before_it_was_changed() {
        let mut births = Births::default();
        births.learn("1 getcwd(\"/w\", 4096) = 3");
        births.learn("1 chdir(\"/v\") = 0");
        births.learn("1 getcwd(\"/v\", 4096) = 3");
        assert_eq!(births.cwd.as_deref(), Some(&b"/w"[..]));
    }
}

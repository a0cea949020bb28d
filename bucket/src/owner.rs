//! Who has a volume, in words that its next writer can judge.
//!
//! Contract: a writer names its machine, the machine's boot, its process and when that started, and its journal if it has
//! one. Whoever finds these words on the same machine knows whether the writer has ended; on another machine nobody does. A
//! writer with a journal may have acknowledged what is only there, so it has ended for those alone that have the same journal.

use std::fs::read_to_string;
use std::path::Path;

/// Before the path of a journal in words.
const JOURNAL: &str = " with the journal ";

/// The words of this process, with this journal.
pub(crate) fn words(journal: Option<&Path>) -> String {
    let pid = std::process::id();
    let started = started(pid).unwrap_or_default();
    let journal = journal.map_or(String::new(), |path| format!("{JOURNAL}{}", path.display()));
    format!("{} boot {} process {pid} of {started}{journal}", machine(), boot())
}

/// Whether the writer with these words is known to have ended, for one that has this journal.
pub(crate) fn has_ended(words: &str, journal: Option<&Path>) -> bool {
    let (words, theirs) = match words.split_once(JOURNAL) {
        Some((words, path)) => (words, Some(path)),
        None => (words, None),
    };
    if theirs.is_some_and(|path| journal.is_none_or(|ours| ours.display().to_string() != path)) {
        return false;
    }
    let fields: Vec<&str> = words.split(' ').collect();
    let [their_machine, "boot", their_boot, "process", pid, "of", their_start] = fields[..] else {
        return false;
    };
    if their_machine != machine() {
        return false;
    }
    let is_alive = || {
        let start = pid.parse().ok().and_then(started);
        start.is_some_and(|start| start == their_start)
    };
    their_boot != boot() || !is_alive()
}

fn machine() -> String {
    let id = read_to_string("/etc/machine-id").unwrap_or_default();
    let host = rustix::system::uname().nodename().to_string_lossy().replace(' ', "-");
    format!("{host}/{}", id.trim())
}

fn boot() -> String {
    read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
}

/// When a process that lives started, in ticks since the boot.
fn started(pid: u32) -> Option<String> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything; the state comes next.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let is_zombie = fields.next() == Some("Z");
    fields.nth(18).filter(|_| !is_zombie).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_others_have_ended_if_that_is_known() {
        let has_ended = |words: &str| super::has_ended(words, None);
        let mine = words(None);
        assert!(mine.len() <= 256, "{mine}");
        assert!(!has_ended(&mine), "{mine}");
        let pid = std::process::id();
        let later = mine.replace(&started(pid).unwrap(), "1");
        assert!(has_ended(&later), "another process has the number now: {later}");
        assert!(has_ended(&mine.replace(&boot(), "earlier")));
        assert!(!has_ended(&mine.replace(&machine(), "elsewhere")));
        assert!(!has_ended("somebody"));
    }

    #[test]
    fn a_writer_with_a_journal_has_ended_for_those_that_have_it() {
        let ours = Path::new("/var/lib/a journal");
        let earlier = words(Some(ours)).replace(&boot(), "earlier");
        assert!(has_ended(&earlier, Some(ours)));
        assert!(!has_ended(&earlier, None) && !has_ended(&earlier, Some(Path::new("/other"))));
        assert!(!has_ended(&words(Some(ours)), Some(ours)), "this process lives");
        assert!(has_ended(&words(None).replace(&boot(), "earlier"), Some(ours)));
    }
}

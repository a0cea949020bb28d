//! Processes from `/proc`: descendants of a process, and processes that work in a folder.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// The numbers of all processes.
pub(crate) fn all() -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|p| p.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Kills a child process that was not waited for yet, and all its descendants.
pub(crate) fn kill_family(pid: Pid) {
    // Its children first, because they are no longer known as its children once it has exited.
    // Meanwhile it is stopped; otherwise it might start more children, or exit by itself as if
    // nothing were wrong.
    let _ = kill_process(pid, Signal::STOP);
    for child in all().into_iter().filter(|&child| parent(child) == Some(pid)) {
        kill_family(child);
    }
    let _ = kill_process(pid, Signal::KILL);
}

/// Kills all processes whose working directory is a folder or below it.
pub(crate) fn kill_at(folder: &Path) {
    for pid in all() {
        let place = fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero()));
        if place.is_ok_and(|place| place.starts_with(folder)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parent_in(&stat).and_then(Pid::from_raw)
}

/// The parent in a line `pid (name) state parent ..`; names may contain anything.
fn parent_in(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_in("7 (a) b) S 3 7 7"), Some(3));
        assert_eq!(parent_in("odd"), None);
    }

    #[test]
    fn a_family_ends_as_a_whole() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 100 & echo $!; wait"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut first = [0];
        output.read_exact(&mut first).unwrap();
        kill_family(Pid::from_child(&child));
        assert!(!child.wait().unwrap().success());
        // The grandchild holds the other end: this read ends only if the grandchild has exited.
        output.read_to_end(&mut Vec::new()).unwrap();
    }
}

//! The supplementary groups of a client, which the kernel does not send.

use std::fs;

/// The groups of a process, from `/proc`. Empty if the process has ended or is not visible from
/// here.
pub(super) fn groups_of(pid: u32) -> Box<[u32]> {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return Box::default();
    };
    parse_groups(&status)
}

fn parse_groups(status: &str) -> Box<[u32]> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.into_iter().flat_map(str::split_whitespace).filter_map(|id| id.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_the_status_of_a_process() {
        assert_eq!(*parse_groups("Name:\tsh\nGroups:\t4 24 1000 \nVmPeak: 1\n"), [4, 24, 1000]);
        assert_eq!(*parse_groups("Name:\tsh\nGroups:\t\n"), []);
        assert_eq!(*groups_of(u32::MAX), []);
    }
}

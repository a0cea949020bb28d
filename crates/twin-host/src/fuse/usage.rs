//! The memory use of a mount's daemon, seen from another process.
//!
//! The daemon is found as for unmounting: it answers an ioctl on the mounted root with its process
//! number. The figures come from `/proc`; the daemon itself is asked nothing else, so the
//! measurement does not change what it measures.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::server::{Server, ask_daemon, find_server, resolve};
use super::unmount::UnmountError;

/// The memory use of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonUsage {
    /// The number of its process.
    pub pid: u32,
    /// Bytes of memory that it uses now.
    pub resident_bytes: u64,
    /// The most bytes that it has used since its start.
    pub most_bytes: u64,
    /// The words of its command line.
    pub command: Vec<String>,
}

/// The memory use of the daemon that serves the mount at `dir`.
///
/// # Errors
/// If none of our mounts is there, or its daemon is not visible from here (another user's, or in
/// another pid namespace).
pub fn daemon_usage(dir: &Path) -> Result<DaemonUsage, UnmountError> {
    let place = resolve(dir).map_err(UnmountError::Host)?;
    let root = match find_server(&place).map_err(UnmountError::Host)? {
        Server::None => return Err(UnmountError::NotMounted(place)),
        Server::Dead => return Err(UnmountError::Host(io::ErrorKind::NotConnected.into())),
        Server::Unseen => return Err(UnmountError::Host(io::ErrorKind::PermissionDenied.into())),
        Server::Alive(root) => root,
    };
    usage_of(&root).map_err(UnmountError::Host)
}

fn usage_of(root: &File) -> io::Result<DaemonUsage> {
    let pid = ask_daemon(root)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let command = fs::read(format!("/proc/{pid}/cmdline"))?;
    let words = command.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    let kib = |name| kib_of(&status, name).ok_or(io::ErrorKind::InvalidData);
    Ok(DaemonUsage {
        pid,
        resident_bytes: kib("VmRSS:")? << 10,
        most_bytes: kib("VmHWM:")? << 10,
        command: words.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
    })
}

fn kib_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status_of_a_process() {
        let status = "Name:\ttwinfs\nVmHWM:\t  123456 kB\nVmRSS:\t   98304 kB\n";
        assert_eq!(kib_of(status, "VmRSS:"), Some(98_304));
        assert_eq!(kib_of(status, "VmHWM:"), Some(123_456));
        assert_eq!(kib_of(status, "VmPeak:"), None);
    }

    #[test]
    fn a_directory_that_is_no_mount_says_so() {
        let refused = daemon_usage(Path::new("/"));
        assert!(matches!(refused, Err(UnmountError::NotMounted(_))), "{refused:?}");
    }
}

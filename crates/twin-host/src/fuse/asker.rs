//! Whether the process that asks for attributes by a handle can be a writer.
//!
//! A kernel asks for the attributes of a file by a handle before a write, but it does so before a
//! read too if it has no attributes that it may use. The request does not say which of the two it
//! is for. What a process can do with a file is in `/proc/PID/fdinfo`, and reading that makes no
//! request to a file system of ours, as a `stat` of the descriptor would.

use std::fs;
use std::io;

/// The bits of `flags` in fdinfo, which are those of `open`.
const ACCESS: u32 = libc::O_ACCMODE as u32;
const READ_ONLY: u32 = libc::O_RDONLY as u32;

/// Returns false if no descriptor of the process `pid` can write to a file of this inode number.
/// Files of the same number in other file systems count too, so the answer errs towards true.
///
/// # Errors
/// If the descriptors of the process cannot be read, for example because it has another name in
/// this namespace of processes.
pub(super) fn can_write(pid: u32, ino: u64) -> io::Result<bool> {
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        match fs::read_to_string(entry?.path()) {
            Ok(text) if writes_to(&text, ino) => return Ok(true),
            Ok(_) => {}
            // The process has closed it meanwhile, so this is not what the process waits with.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// True if this text of fdinfo is that of a descriptor that can write to the file. Kernels before
/// 5.14 tell no inode number: there, a descriptor that can write counts whatever its file is.
fn writes_to(fdinfo: &str, ino: u64) -> bool {
    let field = |name: &str| {
        let line = fdinfo.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let flags = field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    let other = field("ino:").is_some_and(|number| number.parse() != Ok(ino));
    !other && flags.is_none_or(|flags| flags & ACCESS != READ_ONLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_process_can_write_what_it_has_open_for_writing() {
        let dir = std::env::temp_dir().join(format!("asker-{}", std::process::id()));
        fs::write(&dir, "x").unwrap();
        let pid = std::process::id();
        let reader = fs::File::open(&dir).unwrap();
        let ino = reader.metadata().unwrap().ino();
        assert!(!can_write(pid, ino).unwrap());
        let writer = fs::OpenOptions::new().append(true).open(&dir).unwrap();
        assert!(can_write(pid, ino).unwrap());
        drop(writer);
        fs::remove_file(&dir).unwrap();
    }

    #[test]
    fn nothing_is_known_of_a_process_that_is_not_there() {
        assert!(can_write(u32::MAX, 1).is_err());
    }

    #[test]
    fn a_descriptor_of_unknown_file_or_access_counts_as_one_that_writes() {
        assert!(writes_to("pos:\t0\nflags:\t0100001\nmnt_id:\t5\n", 7));
        assert!(!writes_to("pos:\t0\nflags:\t0100000\nmnt_id:\t5\n", 7));
        assert!(!writes_to("pos:\t0\nflags:\t0100001\nino:\t8\n", 7));
        assert!(writes_to("", 7));
    }
}

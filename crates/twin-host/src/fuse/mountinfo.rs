//! What is mounted where, without asking the file systems themselves (which might be us).

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) dir: PathBuf,
    /// Its device number, as `major:minor`.
    pub(super) device: String,
    pub(super) kind: String,
}

/// The file system mounted last at this directory.
pub(super) fn mounted_at(dir: &Path) -> io::Result<Option<Mounted>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(table.lines().filter_map(parse).rfind(|mounted| mounted.dir == dir))
}

/// A line is `id parent major:minor root dir options [fields ..] - type source options`.
fn parse(line: &str) -> Option<Mounted> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ');
    let device = fields.nth(2)?.to_string();
    let dir = unescape(fields.nth(1)?);
    let kind = right.split(' ').next()?.to_string();
    Some(Mounted { dir, device, kind })
}

/// Blanks and backslashes of paths are written as a backslash and three octal digits.
fn unescape(text: &str) -> PathBuf {
    let raw = text.as_bytes();
    let mut path = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let code = raw.get(at + 1..at + 4).filter(|_| raw[at] == b'\\');
        let octal = code.and_then(|c| u8::from_str_radix(std::str::from_utf8(c).ok()?, 8).ok());
        path.push(octal.unwrap_or(raw[at]));
        at += if octal.is_some() { 4 } else { 1 };
    }
    PathBuf::from(std::ffi::OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_with_its_escapes() {
        let line = "45 28 0:41 / /mnt/a\\040b rw,nosuid shared:9 - fuse.twinfs disk.img rw";
        let mounted = parse(line).unwrap();
        assert_eq!(mounted.dir, Path::new("/mnt/a b"));
        assert_eq!((mounted.device.as_str(), mounted.kind.as_str()), ("0:41", "fuse.twinfs"));
    }

    #[test]
    fn the_root_is_mounted_and_a_plain_file_is_not() {
        assert!(mounted_at(Path::new("/")).unwrap().is_some());
        assert_eq!(mounted_at(Path::new("/proc/self/mountinfo")).unwrap(), None);
    }
}

//! The table of mounts, read without a call to the mounted file systems (one of which may be our
//! own).

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The type by which `unmount` recognizes our mounts.
pub(super) const MOUNT_TYPE: &str = "fuse.twinfs";

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) dir: PathBuf,
    /// The directory of the file system that is visible there.
    root: PathBuf,
    /// The device number as `major:minor`.
    pub(super) device: String,
    pub(super) kind: String,
    /// What is mounted; of a volume of ours, the absolute path of its image.
    source: PathBuf,
}

/// The file system mounted last at this directory.
pub(super) fn mounted_at(dir: &Path) -> io::Result<Option<Mounted>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(table.lines().filter_map(parse).rfind(|mounted| mounted.dir == dir))
}

/// The directory at which a mount of ours shows the volume of this image.
pub(crate) fn mounted_from(image: &Path) -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounted_in(&table, &fs::canonicalize(image).ok()?)
}

fn mounted_in(table: &str, image: &Path) -> Option<PathBuf> {
    let ours = |mounted: &Mounted| mounted.kind == MOUNT_TYPE && mounted.source == image;
    table.lines().filter_map(parse).rfind(ours).map(|mounted| mounted.dir)
}

/// The meaning of an absolute path without links, independent of mounts: the number of its file
/// system, and the path within it. Two mounts of one directory give the same result.
pub(crate) fn place_of(path: &Path) -> Option<(String, PathBuf)> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    place_in(&table, path)
}

fn place_in(table: &str, path: &Path) -> Option<(String, PathBuf)> {
    let above = table.lines().filter_map(parse).filter(|mounted| path.starts_with(&mounted.dir));
    // Of several mounts at one directory, the last one is visible.
    let mounted = above.max_by_key(|mounted| mounted.dir.components().count())?;
    let within = path.strip_prefix(&mounted.dir).ok()?;
    Some((mounted.device, mounted.root.join(within)))
}

/// A line is `id parent major:minor root dir options [fields ..] - type source options`.
fn parse(line: &str) -> Option<Mounted> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ');
    let device = fields.nth(2)?.to_string();
    let (root, dir) = (unescape(fields.next()?), unescape(fields.next()?));
    let mut right = right.split(' ');
    let kind = right.next()?.to_string();
    let source = unescape(right.next()?);
    Some(Mounted { dir, root, device, kind, source })
}

/// In paths, blanks and backslashes are written as a backslash and three octal digits.
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
    fn the_mount_of_an_image_is_found_by_its_source() {
        let table = "45 28 0:41 / /mnt/a\\040b rw - fuse.twinfs /i/disk\\0401 rw\n\
                     46 28 0:42 / /mnt/c rw - fuse.other /i/disk\\0402 rw\n";
        assert_eq!(mounted_in(table, Path::new("/i/disk 1")), Some("/mnt/a b".into()));
        assert_eq!(mounted_in(table, Path::new("/i/disk 2")), None);
    }

    #[test]
    fn a_directory_that_is_seen_twice_is_one_place() {
        let table = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     30 20 8:1 /data/a /srv/b rw - ext4 /dev/sda1 rw\n\
                     31 20 0:9 / /srv/b/c rw - tmpfs none rw\n";
        let place = |path: &str| place_in(table, Path::new(path)).unwrap();
        assert_eq!(place("/srv/b/x"), ("8:1".into(), "/data/a/x".into()));
        assert_eq!(place("/srv/b/x"), place("/data/a/x"));
        assert_eq!(place("/srv/b"), place("/data/a"));
        assert_eq!(place("/srv/b/c/d"), ("0:9".into(), "/d".into()));
    }

    #[test]
    fn the_root_is_mounted_and_a_plain_file_is_not() {
        assert!(mounted_at(Path::new("/")).unwrap().is_some());
        assert_eq!(mounted_at(Path::new("/proc/self/mountinfo")).unwrap(), None);
    }
}

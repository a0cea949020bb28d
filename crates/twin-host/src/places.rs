//! Whether one of two places contains the other, by whatever paths they are reached.
//!
//! A process that serves a directory must not use a path through it, because the call would wait
//! for the process that makes it. Names are not sufficient to detect this: symbolic links, bind
//! mounts and `..` give one directory many names. Therefore places are compared as inodes along the
//! path to the root, and as paths within their file system, which also detects a directory that is
//! mounted twice.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fuse::mountinfo::place_of;

/// The position of a path relative to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The path is the directory.
    Same,
    /// The path is inside the directory, at any depth.
    Inside,
    /// Neither of the two.
    Apart,
}

/// The text of an image's name that is no path: `s3://bucket/volume`.
pub fn is_remote(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_scheme.then_some(text)
}

/// A path that still means the same in the root directory, where background processes work.
///
/// # Errors
/// If the current directory is gone.
pub fn absolute(path: &Path) -> Result<PathBuf, String> {
    if is_remote(path).is_some() {
        return Ok(path.into());
    }
    std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The position of `path`, which need not exist yet, relative to the directory `dir`.
pub fn relation(path: &Path, dir: &Path) -> Relation {
    if is_remote(path).is_some() || is_remote(dir).is_some() {
        return if path == dir { Relation::Same } else { Relation::Apart };
    }
    let (path, dir) = (real(path), real(dir));
    if path == dir {
        return Relation::Same;
    }
    let inode = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let dir_inode = inode(&dir);
    let is_dir = |at: &Path| at == dir || (dir_inode.is_some() && inode(at) == dir_inode);
    if is_dir(&path) {
        return Relation::Same;
    }
    if path.ancestors().skip(1).any(is_dir) {
        return Relation::Inside;
    }
    match (place_of(&path), place_of(&dir)) {
        (Some(path), Some(dir)) if path == dir => Relation::Same,
        (Some(path), Some(dir)) if path.0 == dir.0 && path.1.starts_with(&dir.1) => {
            Relation::Inside
        }
        _ => Relation::Apart,
    }
}

/// A path without links. If part of it does not exist or cannot be accessed (a mount whose server
/// was killed), only the part above is resolved.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let above = || Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    fs::canonicalize(&path).ok().or_else(above).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_dots_do_not_hide_where_a_place_lies() {
        let base = std::env::temp_dir().join(format!("twin-host-places-{}", std::process::id()));
        let (inner, other) = (base.join("dir/inner"), base.join("other"));
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir_all(&other).unwrap();
        std::os::unix::fs::symlink(&inner, other.join("link")).unwrap();
        let dir = base.join("dir");
        let to = |path: &str| relation(&base.join(path), &dir);
        assert_eq!(to("dir"), Relation::Same);
        assert_eq!(to("other/../dir/."), Relation::Same);
        for inside in ["dir/new", "dir/inner", "other/link", "other/link/new", "dir/inner/../new"] {
            assert_eq!(to(inside), Relation::Inside, "{inside}");
        }
        for apart in ["other", "other/new", "directory", "", "dir/inner/../../new"] {
            assert_eq!(to(apart), Relation::Apart, "{apart}");
        }
        assert_eq!(relation(&base, Path::new("/")), Relation::Inside);
        fs::remove_dir_all(&base).unwrap();
    }
}

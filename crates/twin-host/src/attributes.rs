//! Extended attributes of a file of the host, for commands that ask a mounted volume through them.

use std::path::Path;

use rustix::fs::XattrFlags;
use twin_fs::FsError;

use crate::fuse::from_errno;

/// The longest value of an attribute.
const VALUE_MAX: usize = 65_536;

/// The value of an attribute.
///
/// # Errors
/// `NoAttribute` if there is none of this name, `NotSupported` if its file system has none like it.
pub fn attribute(path: &Path, name: &[u8]) -> Result<Vec<u8>, FsError> {
    let mut value = vec![0; VALUE_MAX];
    let len = rustix::fs::getxattr(path, name, &mut value[..]);
    value.truncate(len.map_err(|errno| from_errno(errno, "getxattr"))?);
    Ok(value)
}

/// Gives an attribute a value.
///
/// # Errors
/// What the file system answers.
pub fn set_attribute(path: &Path, name: &[u8], value: &[u8]) -> Result<(), FsError> {
    let set = rustix::fs::setxattr(path, name, value, XattrFlags::empty());
    set.map_err(|errno| from_errno(errno, "setxattr"))
}

/// Removes an attribute.
///
/// # Errors
/// As for [`attribute`], and what else the file system answers.
pub fn remove_attribute(path: &Path, name: &[u8]) -> Result<(), FsError> {
    rustix::fs::removexattr(path, name).map_err(|errno| from_errno(errno, "removexattr"))
}

//! Who may do what, as pure rules on attributes and credentials. The one place of permissions.
//!
//! The rules are POSIX's where it decides and Linux's where it leaves a choice, so that a mount
//! answers as ext4 does. User 0 has every capability. `Cred::checked` (the front end's kernel has
//! checked permission bits) turns off only the rwx checks of [`access`]; rules of ownership hold
//! for everyone. Rules here never look at names or at the tree: what exists is the caller's
//! matter, and where several errors apply the order is: missing or existing name, then the rules
//! here, then the state of the tree (not empty, too many links).
//!
//! Reading, writing, listing and seeking an inode are not checked: [`may_open`] has been.

use crate::{Attr, Cred, FsError, Result, SetAttr, SetTime, Timestamp, mode};

/// Asks for reading, in masks of [`access`].
pub const READ: u32 = 4;
/// Asks for writing, in masks of [`access`].
pub const WRITE: u32 = 2;
/// Asks for execution, or for passing through a directory, in masks of [`access`].
pub const EXECUTE: u32 = 1;

/// True if the credentials have every capability.
pub fn is_root(cred: &Cred) -> bool {
    cred.uid == 0
}

/// True for the owner and for root: who may change what is the owner's to change.
pub fn is_owner(attr: &Attr, cred: &Cred) -> bool {
    cred.uid == attr.uid || is_root(cred)
}

/// True if the group is the primary one or one of the further ones.
pub fn in_group(cred: &Cred, gid: u32) -> bool {
    cred.gid == gid || cred.groups.contains(&gid)
}

/// Whether the permission bits allow all of `mask`, whatever `cred.checked` says. The first
/// class that fits decides (owner, group, others), even if a later one would allow more. Root may
/// read and write everything, pass through every directory and execute what anyone may execute.
pub fn allows(attr: &Attr, cred: &Cred, mask: u32) -> bool {
    if is_root(cred) {
        return mask & EXECUTE == 0 || attr.is_dir() || attr.mode & 0o111 != 0;
    }
    let shift = if cred.uid == attr.uid {
        6
    } else if in_group(cred, attr.gid) {
        3
    } else {
        0
    };
    (attr.mode >> shift) & mask == mask
}

/// Checks the permission bits, unless a kernel has.
///
/// # Errors
/// [`FsError::Access`].
pub fn access(attr: &Attr, cred: &Cred, mask: u32) -> Result<()> {
    if cred.checked || allows(attr, cred, mask) { Ok(()) } else { Err(FsError::Access) }
}

/// Checks the right to add a name to a directory.
///
/// # Errors
/// [`FsError::Access`].
pub fn may_create(dir: &Attr, cred: &Cred) -> Result<()> {
    access(dir, cred, WRITE | EXECUTE)
}

/// What is removed, or replaced by a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// It must be a directory: `rmdir`, or the target of a directory's rename.
    Directory,
    /// It must not be: `unlink`, or the target of a file's rename.
    NotDirectory,
}

impl Victim {
    /// What a rename of `attr` may replace.
    pub fn like(attr: &Attr) -> Victim {
        if attr.is_dir() { Victim::Directory } else { Victim::NotDirectory }
    }
}

/// Checks the right to remove `victim` from `dir`: write permission, the sticky rule, and that it
/// is of the kind that the operation removes.
///
/// # Errors
/// [`FsError::Access`], [`FsError::NotPermitted`] (sticky), [`FsError::NotDirectory`],
/// [`FsError::IsDirectory`], in this order.
pub fn may_delete(dir: &Attr, victim: &Attr, cred: &Cred, must_be: Victim) -> Result<()> {
    access(dir, cred, WRITE | EXECUTE)?;
    if sticky_forbids(dir, victim, cred) {
        return Err(FsError::NotPermitted);
    }
    match (must_be, victim.is_dir()) {
        (Victim::Directory, false) => Err(FsError::NotDirectory),
        (Victim::NotDirectory, true) => Err(FsError::IsDirectory),
        _ => Ok(()),
    }
}

/// In a sticky directory only the owners of the name's inode and of the directory remove it.
fn sticky_forbids(dir: &Attr, victim: &Attr, cred: &Cred) -> bool {
    dir.mode & mode::STICKY != 0 && cred.uid != victim.uid && !is_owner(dir, cred)
}

/// The two sides of a rename. `target` is what the new name leads to now.
#[derive(Clone, Copy, Debug)]
pub struct RenameSides<'a> {
    /// The directory that loses the name.
    pub from_dir: &'a Attr,
    /// What moves.
    pub source: &'a Attr,
    /// The directory that gets it.
    pub to_dir: &'a Attr,
    /// What it replaces, or changes places with.
    pub target: Option<&'a Attr>,
    /// The two change places, so they need not be of one kind.
    pub exchange: bool,
}

/// Checks the right to rename: to delete on the old side, to create or to delete on the new one,
/// and to write a directory whose parent changes (its `..` does). Not for a rename of an inode
/// over itself, which does nothing and is always allowed.
///
/// # Errors
/// Those of [`may_delete`] and [`may_create`].
pub fn may_rename(sides: &RenameSides<'_>, cred: &Cred) -> Result<()> {
    let RenameSides { from_dir, source, to_dir, target, exchange } = *sides;
    may_delete(from_dir, source, cred, Victim::like(source))?;
    match target {
        None => may_create(to_dir, cred)?,
        Some(target) => {
            let must_be = Victim::like(if exchange { target } else { source });
            may_delete(to_dir, target, cred, must_be)?;
        }
    }
    if from_dir.ino == to_dir.ino {
        return Ok(());
    }
    if source.is_dir() {
        access(source, cred, WRITE)?;
    }
    match target {
        Some(target) if exchange && target.is_dir() => access(target, cred, WRITE),
        _ => Ok(()),
    }
}

/// Checks the right to make another name for an inode. Directories have one name.
///
/// # Errors
/// [`FsError::Access`], [`FsError::NotPermitted`] for a directory.
pub fn may_link(dir: &Attr, attr: &Attr, cred: &Cred) -> Result<()> {
    may_create(dir, cred)?;
    if attr.is_dir() { Err(FsError::NotPermitted) } else { Ok(()) }
}

/// Checks the right to open.
///
/// # Errors
/// [`FsError::Invalid`] for a symbolic link, [`FsError::IsDirectory`] for writing or cutting a
/// directory, [`FsError::Access`].
pub fn may_open(attr: &Attr, cred: &Cred, read: bool, write: bool, truncate: bool) -> Result<()> {
    let changes = write || truncate;
    match attr.kind() {
        mode::SYMLINK => return Err(FsError::Invalid("a symbolic link cannot be opened")),
        mode::DIRECTORY if changes => return Err(FsError::IsDirectory),
        _ => {}
    }
    access(attr, cred, if read { READ } else { 0 } | if changes { WRITE } else { 0 })
}

/// Checks that `mode` names a kind that `mknod` makes, and the right to make it: devices are for
/// root, but for the whiteout (character device 0). Gives the mode, with the type that was meant.
///
/// # Errors
/// [`FsError::NotPermitted`] for directories and devices, [`FsError::Invalid`] for the rest.
pub fn may_make_node(cred: &Cred, mode: u32, rdev: u64) -> Result<u32> {
    match mode & mode::TYPE {
        0 => Ok(mode | mode::REGULAR),
        mode::REGULAR | mode::FIFO | mode::SOCKET => Ok(mode),
        mode::CHAR if rdev == 0 => Ok(mode),
        mode::CHAR | mode::BLOCK if is_root(cred) => Ok(mode),
        mode::CHAR | mode::BLOCK | mode::DIRECTORY => Err(FsError::NotPermitted),
        _ => Err(FsError::Invalid("mknod makes files, devices, FIFOs and sockets")),
    }
}

/// Owner, group and mode of an inode to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What a new inode starts with. `mode` has the type bits and has gone through the umask. In a
/// set-gid directory the group is the directory's, and a new directory is set-gid too; `mkdir`
/// itself sets no set-id bits.
pub fn birth(dir: &Attr, cred: &Cred, mode: u32) -> Birth {
    let is_dir = mode & mode::TYPE == mode::DIRECTORY;
    let settable = if is_dir { 0o1777 } else { mode::PERMISSIONS };
    let mut mode = mode & (mode::TYPE | settable);
    if dir.mode & mode::SETGID == 0 {
        return Birth { mode, uid: cred.uid, gid: cred.gid };
    }
    if is_dir {
        mode |= mode::SETGID;
    } else if mode & 0o010 != 0 && !in_group(cred, dir.gid) && !is_root(cred) {
        mode &= !mode::SETGID;
    }
    Birth { mode, uid: cred.uid, gid: dir.gid }
}

/// The attributes after a change, if it is allowed. Size changes nothing but the size, the times
/// and the set-id bits here: cutting the data is the caller's.
///
/// Rules: the mode is the owner's to change, without set-gid for those outside the group. Root
/// gives files away; an owner may give one to a group of his. A new owner or group of anything
/// but a directory ends set-id (set-gid only with group execution, or for those outside the
/// group). Both times may be set to now by anyone who may write; other times by the owner. The
/// change time itself is for root, and for a kernel that writes back its own.
///
/// # Errors
/// [`FsError::NotPermitted`], [`FsError::Access`], [`FsError::IsDirectory`] and
/// [`FsError::Invalid`] for the size of what is not a regular file.
pub fn set_attr(attr: &Attr, cred: &Cred, set: &SetAttr, now: Timestamp) -> Result<Attr> {
    check_size(attr, cred, set)?;
    check_owner_change(attr, cred, set)?;
    check_times(attr, cred, set)?;
    let mut new = attr.clone();
    if let Some(mode) = set.mode {
        if !is_owner(attr, cred) {
            return Err(FsError::NotPermitted);
        }
        new.mode = attr.kind() | (mode & mode::PERMISSIONS);
        if !in_group(cred, set.gid.unwrap_or(attr.gid)) && !is_root(cred) {
            new.mode &= !mode::SETGID;
        }
    }
    if (set.uid.is_some() || set.gid.is_some()) && !attr.is_dir() {
        new.mode = without_set_id(new.mode, attr.gid, cred);
    }
    new.uid = set.uid.unwrap_or(attr.uid);
    new.gid = set.gid.unwrap_or(attr.gid);
    if let Some(size) = set.size {
        new.size = size;
        after_write(&mut new, cred, now);
    }
    let time = |set: SetTime| match set {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    new.atime = set.atime.map_or(new.atime, time);
    new.mtime = set.mtime.map_or(new.mtime, time);
    if *set != SetAttr::default() {
        new.ctime = set.ctime.unwrap_or(now);
    }
    Ok(new)
}

fn check_size(attr: &Attr, cred: &Cred, set: &SetAttr) -> Result<()> {
    match (set.size, attr.kind()) {
        (None, _) => Ok(()),
        (Some(_), mode::REGULAR) => access(attr, cred, WRITE),
        (Some(_), mode::DIRECTORY) => Err(FsError::IsDirectory),
        (Some(_), _) => Err(FsError::Invalid("only a regular file has a length to set")),
    }
}

fn check_owner_change(attr: &Attr, cred: &Cred, set: &SetAttr) -> Result<()> {
    if is_root(cred) {
        return Ok(());
    }
    let owns = cred.uid == attr.uid;
    let uid_fits = set.uid.is_none_or(|uid| owns && uid == attr.uid);
    let gid_fits = set.gid.is_none_or(|gid| owns && (gid == attr.gid || in_group(cred, gid)));
    if uid_fits && gid_fits { Ok(()) } else { Err(FsError::NotPermitted) }
}

fn check_times(attr: &Attr, cred: &Cred, set: &SetAttr) -> Result<()> {
    if is_owner(attr, cred) && (set.ctime.is_none() || cred.checked || is_root(cred)) {
        return Ok(());
    }
    // A kernel with a write-back cache sends the times of a write that it has allowed, in the
    // name of the writer.
    if set.ctime.is_some() {
        return if cred.checked { Ok(()) } else { Err(FsError::NotPermitted) };
    }
    match (set.atime, set.mtime) {
        (None, None) => Ok(()),
        (Some(SetTime::Now), Some(SetTime::Now)) => access(attr, cred, WRITE),
        // A front end may send the modification time together with the size.
        (None, Some(SetTime::Now)) if set.size.is_some() => Ok(()),
        _ => Err(FsError::NotPermitted),
    }
}

/// The mode after a change of owner or group by `cred`: root's changes end set-id too.
fn without_set_id(mode: u32, gid: u32, cred: &Cred) -> u32 {
    let mode = mode & !mode::SETUID;
    let outside = !in_group(cred, gid) && !is_root(cred);
    if mode & 0o010 != 0 || outside { mode & !mode::SETGID } else { mode }
}

/// The mode after content was changed by `cred`: a changed program runs as its caller. Root's
/// changes keep the bits.
pub fn mode_after_write(attr: &Attr, cred: &Cred) -> u32 {
    if is_root(cred) || attr.kind() != mode::REGULAR {
        return attr.mode;
    }
    without_set_id(attr.mode, attr.gid, cred)
}

/// Marks content as changed now by `cred`: both times, and the set-id bits.
pub fn after_write(attr: &mut Attr, cred: &Cred, now: Timestamp) {
    attr.mode = mode_after_write(attr, cred);
    attr.mtime = now;
    attr.ctime = now;
}

/// Checks the right to read, or to set or remove, the extended attribute `name`: `user.` follows
/// the permission bits and is for regular files and directories; `trusted.` is root's;
/// `security.` is everyone's to read and root's to write. For a listing, an attribute that may
/// not be read is left out.
///
/// # Errors
/// [`FsError::Range`] for an impossible name, [`FsError::NotSupported`] for another name space,
/// [`FsError::NotPermitted`], [`FsError::Access`], and [`FsError::NoAttribute`] instead of a
/// refusal to read.
pub fn may_xattr(attr: &Attr, cred: &Cred, name: &[u8], write: bool) -> Result<()> {
    if name.is_empty() || name.len() > crate::NAME_MAX || name.contains(&0) {
        return Err(FsError::Range);
    }
    let refused = if write { FsError::NotPermitted } else { FsError::NoAttribute };
    let follow_bits = || access(attr, cred, if write { WRITE } else { READ });
    let dot = name.iter().position(|&b| b == b'.').unwrap_or(name.len());
    match &name[..dot] {
        b"user" => {
            if !matches!(attr.kind(), mode::REGULAR | mode::DIRECTORY) {
                return Err(refused);
            }
            let sticky = attr.is_dir() && attr.mode & mode::STICKY != 0;
            if write && sticky && !is_owner(attr, cred) {
                return Err(FsError::NotPermitted);
            }
            follow_bits()?;
        }
        b"trusted" if !is_root(cred) => return Err(refused),
        b"security" if write && !is_root(cred) => return Err(FsError::NotPermitted),
        b"trusted" | b"security" => {}
        b"system" => return Err(NO_NAME_SPACE),
        _ => return follow_bits().and(Err(NO_NAME_SPACE)),
    }
    if dot + 1 < name.len() {
        Ok(())
    } else {
        Err(FsError::Invalid("an extended attribute needs a name after its name space"))
    }
}

const NO_NAME_SPACE: FsError =
    FsError::NotSupported("extended attributes outside user., trusted. and security.");

/// Whether a listing shows the attribute: all but `trusted.` to those who are not root.
pub fn lists_xattr(cred: &Cred, name: &[u8]) -> bool {
    is_root(cred) || !name.starts_with(b"trusted.")
}

#[cfg(test)]
#[path = "perm_tests.rs"]
mod tests;

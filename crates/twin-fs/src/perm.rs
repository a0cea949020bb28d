//! Permissions: who may do what, as pure rules on attributes and credentials. No other code decides
//! on permissions.
//!
//! The rules are POSIX's where it decides and Linux's where it leaves a choice, so that a mount
//! answers as ext4 does. The access ACL of an inode is a part of its [`Attr`]. User 0 has every
//! capability. `Cred::checked` (the front end's kernel has
//! checked permission bits) turns off only the rwx checks of [`access`]; rules of ownership hold
//! for everyone. The rules never look at names or at the tree; the caller does. Where several
//! errors apply, the caller reports a missing or existing name first, then the errors of these
//! rules, then those of the state of the tree (not empty, too many links).
//!
//! There are no rules for reading, writing, listing and seeking, because [`may_open`] checked them.

use crate::acl::{self, AccessAcl, Acl, Which};
use crate::{Attr, Cred, FsError, Result, SetAttr, SetTime, Timestamp, mode};

/// The bit for reading in masks of [`access`].
pub const READ: u32 = 4;
/// The bit for writing in masks of [`access`].
pub const WRITE: u32 = 2;
/// The bit for execution, or for passing through a directory, in masks of [`access`].
pub const EXECUTE: u32 = 1;

/// True if the credentials have every capability.
pub fn is_root(cred: &Cred) -> bool {
    cred.uid == 0
}

/// True for the owner and for root, who may do what only an owner may.
pub fn is_owner(attr: &Attr, cred: &Cred) -> bool {
    cred.uid == attr.uid || is_root(cred)
}

/// True if the group is the primary group or a supplementary one.
pub fn in_group(cred: &Cred, gid: u32) -> bool {
    cred.is_member(gid)
}

/// True if the permissions allow all of `mask`, whatever `cred.checked` says. The first class that
/// fits (owner, group, others) decides, even if a later one would allow more; for all but the
/// owner an access ACL decides in place of the bits, if there is one. Root may
/// read and write everything, pass through every directory and execute what anyone may execute.
pub fn allows(attr: &Attr, cred: &Cred, mask: u32) -> bool {
    if is_root(cred) {
        return mask & EXECUTE == 0 || attr.is_dir() || attr.mode & 0o111 != 0;
    }
    let shift = if cred.uid == attr.uid {
        6
    } else if let Some(allowed) = attr.acl.allows(attr, cred, mask) {
        return allowed;
    } else if in_group(cred, attr.gid) {
        3
    } else {
        0
    };
    (attr.mode >> shift) & mask == mask
}

/// True if the rules cannot judge an access by `cred`, because the ACL that decides it has not been
/// read. Whoever changes permissions, or lets an ACL be inherited, needs it in any case.
pub fn needs_acl(attr: &Attr, cred: &Cred) -> bool {
    attr.acl.is_unread() && !cred.checked && !is_owner(attr, cred)
}

/// Checks the permissions, unless a kernel has checked them.
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

/// The kind that an inode must have to be removed, or replaced by a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// It must be a directory: `rmdir`, or the target of a directory's rename.
    Directory,
    /// It must not be a directory: `unlink`, or the target of a file's rename.
    NotDirectory,
}

impl Victim {
    /// The kind that a rename of `attr` may replace.
    pub fn like(attr: &Attr) -> Victim {
        if attr.is_dir() { Victim::Directory } else { Victim::NotDirectory }
    }
}

/// Checks the right to remove `victim` from `dir`: write permission, the sticky rule, and the kind
/// that the operation removes.
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

/// True if `dir` is sticky and `cred` is not root and owns neither `victim` nor `dir`.
fn sticky_forbids(dir: &Attr, victim: &Attr, cred: &Cred) -> bool {
    dir.mode & mode::STICKY != 0 && cred.uid != victim.uid && !is_owner(dir, cred)
}

/// The two sides of a rename. `target` is the inode that the new name leads to now.
#[derive(Clone, Copy, Debug)]
pub struct RenameSides<'a> {
    /// The directory that loses the name.
    pub from_dir: &'a Attr,
    /// The inode that moves.
    pub source: &'a Attr,
    /// The directory that gets the name.
    pub to_dir: &'a Attr,
    /// The inode that the rename replaces, or with which the source changes places.
    pub target: Option<&'a Attr>,
    /// True if the two are exchanged, so that they may be of different kinds.
    pub exchange: bool,
}

/// Checks the right to rename: to delete on the old side, to create or to delete on the new one,
/// and to write a directory that gets another parent, because its `..` changes. A rename of an
/// inode over itself does nothing and is always allowed; the caller does not ask for it.
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

/// Checks the right to add another name to an inode. A directory has only one name.
///
/// # Errors
/// [`FsError::Access`], [`FsError::NotPermitted`] for a directory.
pub fn may_link(dir: &Attr, attr: &Attr, cred: &Cred) -> Result<()> {
    may_create(dir, cred)?;
    if attr.is_dir() { Err(FsError::NotPermitted) } else { Ok(()) }
}

/// Checks the right to open an inode.
///
/// # Errors
/// [`FsError::Invalid`] for a symbolic link, [`FsError::IsDirectory`] for writing or truncating a
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

/// Checks that `mode` names a kind that `mknod` makes, and the right to make it: only root makes
/// devices, except the whiteout (character device 0). Returns the mode with its type bits, which
/// are those of a regular file if there were none.
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

/// Owner, group and mode of a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialAttrs {
    /// Type and permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// Owner, group and mode of a new inode in `dir`. `mode` has the type bits and the umask has been
/// applied. In a set-gid directory the new inode gets the group of the directory, and a new
/// directory becomes set-gid too; `mkdir` itself sets no set-id bits.
pub fn initial_attrs(dir: &Attr, cred: &Cred, mode: u32) -> InitialAttrs {
    let is_dir = mode & mode::TYPE == mode::DIRECTORY;
    let settable = if is_dir { 0o1777 } else { mode::PERMISSIONS };
    let mut mode = mode & (mode::TYPE | settable);
    if dir.mode & mode::SETGID == 0 {
        return InitialAttrs { mode, uid: cred.uid, gid: cred.gid };
    }
    if is_dir {
        mode |= mode::SETGID;
    } else if mode & 0o010 != 0 && !in_group(cred, dir.gid) && !is_root(cred) {
        mode &= !mode::SETGID;
    }
    InitialAttrs { mode, uid: cred.uid, gid: dir.gid }
}

/// The attributes after a change, if the change is allowed. A new size changes only the size, the
/// times and the set-id bits; the caller truncates the data.
///
/// Rules: the owner may change the mode (of an access ACL: owner, mask and others), but cannot set set-gid for a group that does not include
/// the owner. Only root changes the owner; an owner may change the group to one of the owner's
/// groups. A new owner or group of an inode that is not a directory clears set-uid, and clears
/// set-gid if the group may execute or the caller is outside the group. A caller with write
/// permission may set access and modification time together to now; the owner may set them to any
/// time. Only root may set the change time, and a kernel that writes back its own times.
///
/// # Errors
/// [`FsError::NotPermitted`], [`FsError::Access`], [`FsError::IsDirectory`] and
/// [`FsError::Invalid`] for the size of an inode that is not a regular file.
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
        new.acl = attr.acl.after_chmod(new.mode);
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
    // A kernel with a write-back cache sends the times of a write that it has allowed, with the
    // credentials of the writer.
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

/// The mode after a change of owner or group by `cred`. Changes by root clear set-id bits too.
fn without_set_id(mode: u32, gid: u32, cred: &Cred) -> u32 {
    let mode = mode & !mode::SETUID;
    let outside = !in_group(cred, gid) && !is_root(cred);
    if mode & 0o010 != 0 || outside { mode & !mode::SETGID } else { mode }
}

/// The mode after `cred` changed the content: the set-id bits are cleared, so that a changed
/// program runs with the rights of its caller. Changes by root keep the bits.
pub fn mode_after_write(attr: &Attr, cred: &Cred) -> u32 {
    if is_root(cred) || attr.kind() != mode::REGULAR {
        return attr.mode;
    }
    without_set_id(attr.mode, attr.gid, cred)
}

/// Updates the attributes after `cred` changed the content: modification and change time, and the
/// set-id bits.
pub fn after_write(attr: &mut Attr, cred: &Cred, now: Timestamp) {
    attr.mode = mode_after_write(attr, cred);
    attr.mtime = now;
    attr.ctime = now;
}

/// Checks the right to read the extended attribute `name`, or to set or remove it. `user.` follows
/// the permission bits and exists on regular files and directories only; `trusted.` is for root
/// alone; `security.` may be read by everyone and written by root. The ACLs under `system.` may be
/// read by everyone; [`may_set_acl`] has the rules for setting them.
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
        b"system" if acl::Which::named(name).is_some() && attr.kind() != mode::SYMLINK => {
            return if write && !is_owner(attr, cred) {
                Err(FsError::NotPermitted)
            } else {
                Ok(())
            };
        }
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
    FsError::NotSupported("extended attributes outside user., trusted. and security., but ACLs");

/// Checks the right to set an ACL, or to remove it if there is no `new` one. Returns false if there
/// is nothing to do: only a directory has a default ACL, and removing that of others does nothing.
///
/// # Errors
/// [`FsError::NotSupported`] for a symbolic link, [`FsError::Access`] for a default ACL of what is
/// no directory, [`FsError::NotPermitted`].
pub fn may_set_acl(attr: &Attr, cred: &Cred, which: Which, new: Option<&Acl>) -> Result<bool> {
    match (attr.kind(), which, new) {
        (mode::SYMLINK, ..) => Err(FsError::NotSupported("ACLs of symbolic links")),
        (mode::DIRECTORY, ..) | (_, Which::Access, _) if is_owner(attr, cred) => Ok(true),
        (mode::DIRECTORY, ..) | (_, Which::Access, _) => Err(FsError::NotPermitted),
        (_, Which::Default, None) => Ok(false),
        (_, Which::Default, Some(_)) => Err(FsError::Access),
    }
}

/// The attributes after a change of the access ACL, which may make a mode of it: its owner, mask
/// (without one, its owning group) and others become the permission bits, and set-gid falls as it
/// does in a chmod. A removal leaves the bits as they are.
pub fn with_access_acl(attr: &Attr, cred: &Cred, new: Option<&Acl>, now: Timestamp) -> Attr {
    let mut attr = Attr { ctime: now, acl: AccessAcl::default(), ..attr.clone() };
    if let Some(new) = new {
        attr.mode = attr.mode & !0o777 | new.bits();
        if !in_group(cred, attr.gid) && !is_root(cred) {
            attr.mode &= !mode::SETGID;
        }
        attr.acl = AccessAcl::new(new.clone());
    }
    attr
}

/// True if a listing for `cred` shows the attribute: only root sees `trusted.`.
pub fn lists_xattr(cred: &Cred, name: &[u8]) -> bool {
    is_root(cred) || !name.starts_with(b"trusted.")
}

#[cfg(test)]
#[path = "perm_tests.rs"]
mod tests;

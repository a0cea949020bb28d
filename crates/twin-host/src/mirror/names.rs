//! Operations on names: lookup, creation, renaming, removal, and listing.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags, SeekFrom};
use rustix::io::Errno;
use rustix::path::DecInt;
use twin_fs::{DirEntry, Ino, LookupEntry, ROOT_INO, RenameMode, Reply, Result, mode};

use super::Mirror;

/// The cost of a directory entry beyond its name, and beyond that with its attributes, in bytes.
const ENTRY_COST: usize = 24;
const PLUS_COST: usize = 128;
/// The most bytes of a directory that one call reads.
const DIR_BUFFER: usize = 64 << 10;

impl Mirror {
    fn dir_fd(&self, dir: Ino) -> Result<Rc<OwnedFd>, Errno> {
        self.nodes.borrow_mut().path_fd(dir)
    }

    fn enter(&self, dir: &OwnedFd, name: &[u8]) -> Result<LookupEntry, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
        self.nodes.borrow_mut().enter(fd)
    }

    pub(super) fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Reply, Errno> {
        // The parent of the mirrored directory is not part of the mirror.
        let name = if dir == ROOT_INO && name == b".." { b"." } else { name };
        self.enter(&*self.dir_fd(dir)?, name).map(Reply::Entry)
    }

    pub(super) fn make_node(
        &self,
        dir: Ino,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Reply, Errno> {
        let dir = self.dir_fd(dir)?;
        let kind = FileType::from_raw_mode(mode & mode::TYPE);
        let permissions = Mode::from_raw_mode(mode & mode::PERMISSIONS);
        rustix::fs::mknodat(&*dir, name, kind, permissions, rdev)?;
        self.enter(&dir, name).map(Reply::Entry)
    }

    pub(super) fn make_dir(&self, dir: Ino, name: &[u8], mode: u32) -> Result<Reply, Errno> {
        let dir = self.dir_fd(dir)?;
        rustix::fs::mkdirat(&*dir, name, Mode::from_raw_mode(mode & mode::PERMISSIONS))?;
        self.enter(&dir, name).map(Reply::Entry)
    }

    pub(super) fn symlink(&self, dir: Ino, name: &[u8], target: &[u8]) -> Result<Reply, Errno> {
        let dir = self.dir_fd(dir)?;
        rustix::fs::symlinkat(target, &*dir, name)?;
        self.enter(&dir, name).map(Reply::Entry)
    }

    pub(super) fn create(
        &self,
        dir: Ino,
        name: &[u8],
        mode: u32,
        exclusive: bool,
    ) -> Result<Reply, Errno> {
        let dir = self.dir_fd(dir)?;
        let mut flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        flags.set(OFlags::EXCL, exclusive);
        let permissions = Mode::from_raw_mode(mode & mode::PERMISSIONS);
        let file = rustix::fs::openat(&*dir, name, flags, permissions)?;
        // Uses the descriptor and not the name, which may refer to another file by now.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let path = rustix::fs::openat(&self.held, DecInt::from_fd(&file), flags, Mode::empty())?;
        let mut nodes = self.nodes.borrow_mut();
        let entry = nodes.enter(path)?;
        let ino = entry.attr.ino;
        nodes.count_open(ino);
        let mut files = nodes.files(ino)?;
        let file = Rc::new(file);
        (files.read, files.write) = (Some(Rc::clone(&file)), Some(file));
        nodes.keep_files(ino, files);
        Ok(Reply::Entry(entry))
    }

    pub(super) fn remove(&self, dir: Ino, name: &[u8], flags: AtFlags) -> Result<Reply, Errno> {
        let dir = self.dir_fd(dir)?;
        self.nodes.borrow_mut().hold_victim(&dir, name);
        rustix::fs::unlinkat(&*dir, name, flags)?;
        Ok(Reply::Done)
    }

    pub(super) fn rename(
        &self,
        (dir, name): (Ino, &[u8]),
        (to_dir, to_name): (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<Reply, Errno> {
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            RenameMode::Whiteout => RenameFlags::WHITEOUT,
            RenameMode::WhiteoutNoReplace => RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
        };
        let (dir, to_dir) = (self.dir_fd(dir)?, self.dir_fd(to_dir)?);
        self.nodes.borrow_mut().hold_victim(&to_dir, to_name);
        rustix::fs::renameat_with(&*dir, name, &*to_dir, to_name, flags)?;
        Ok(Reply::Done)
    }

    pub(super) fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<Reply, Errno> {
        let (file, dir) = (self.dir_fd(ino)?, self.dir_fd(dir)?);
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(&self.held, DecInt::from_fd(&*file), &*dir, name, flags)?;
        self.enter(&dir, name).map(Reply::Entry)
    }

    pub(super) fn read_link(&self, ino: Ino) -> Result<Reply, Errno> {
        let link = self.dir_fd(ino)?;
        let target: CString = rustix::fs::readlinkat(&*link, c"", Vec::new())?;
        Ok(Reply::Bytes(target.into_bytes().into()))
    }

    pub(super) fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        max_bytes: usize,
        plus: bool,
    ) -> Result<Reply, Errno> {
        let mut files = self.nodes.borrow().files(dir)?;
        let fresh = files.dir.is_none();
        let stream = match &files.dir {
            Some(stream) => Rc::clone(stream),
            None => Rc::new(self.reopen(dir, OFlags::RDONLY | OFlags::DIRECTORY)?),
        };
        if (fresh && cookie != 0) || (!fresh && (files.dir_at != cookie || cookie == 0)) {
            rustix::fs::seek(&*stream, SeekFrom::Start(cookie))?;
        }
        let listed = self.list(dir, &stream, max_bytes, plus);
        // The position of the stream is known only if all entries that it returned were used.
        let at = match &listed {
            Ok((entries, true)) => entries.last().map_or(cookie, |entry| entry.next),
            _ => u64::MAX,
        };
        (files.dir, files.dir_at) = (Some(stream), at);
        self.nodes.borrow_mut().keep_files(dir, files);
        listed.map(|(entries, _)| Reply::Dir(entries))
    }

    /// Lists entries from the position of the stream on. The flag is true if all of its entries
    /// fitted.
    fn list(
        &self,
        dir: Ino,
        stream: &OwnedFd,
        max_bytes: usize,
        plus: bool,
    ) -> Result<(Vec<DirEntry>, bool), Errno> {
        // Entries of the host take about as much space as our plain ones.
        let share = if plus { 5 } else { 1 };
        let room = (max_bytes / share).clamp(512, DIR_BUFFER);
        let mut buffer = vec![MaybeUninit::uninit(); room];
        let mut entries = Vec::new();
        let mut cost = 0;
        let mut raw = RawDir::new(stream, &mut buffer);
        while let Some(found) = raw.next() {
            let found = found?;
            let name = found.file_name().to_bytes();
            cost += ENTRY_COST + name.len().next_multiple_of(8) + if plus { PLUS_COST } else { 0 };
            if cost > max_bytes {
                return Ok((entries, false));
            }
            entries.push(self.dir_entry(dir, &found, plus));
            if raw.is_buffer_empty() {
                break;
            }
        }
        Ok((entries, true))
    }

    fn dir_entry(&self, dir: Ino, found: &rustix::fs::RawDirEntry<'_>, plus: bool) -> DirEntry {
        let name = found.file_name().to_bytes();
        let dots = name == b"." || name == b"..";
        let held = plus && !dots && self.nodes.borrow().has_room();
        // An entry that was removed meanwhile is listed without its inode.
        let entry =
            if held { self.dir_fd(dir).and_then(|dir| self.enter(&dir, name)).ok() } else { None };
        let ino = match &entry {
            Some(entry) => entry.attr.ino,
            None => self.nodes.borrow().number_in(dir, found.ino()),
        };
        let kind = found.file_type().as_raw_mode();
        let (next, entry) = (found.next_entry_cookie(), entry.map(Box::new));
        DirEntry { name: name.into(), ino, kind, next, entry }
    }
}

//! The caches of the kernel before a mount, as a part: names, attributes and pages, for which a client's
//! operation often becomes no request.
//!
//! Contract: [`Kernel`] stands between clients whose operations are system calls (generated workloads)
//! and a mount's front end ([`Fuse`](crate::fuse::Fuse)). It behaves as Linux does for a mount of ours,
//! which allows the kernel to keep names, missing names and attributes until they change, and to collect
//! writes (`writeback_cache`):
//!
//! - A write goes to pages. Pages that it covers in part are read first.
//! - Dirty pages become requests of up to a mebibyte, several in flight, when the file is closed or
//!   synced, or when 64 MiB are dirty. The times of the file follow.
//! - A read fetches the pages that are missing, and reads ahead for a sequential reader.
//! - An inode is given back when it has no name and no user.
//!
//! A recording of a mount has all of this behind it and must not go through it again. Contents are not
//! kept: what a read returns is as long as the data, and zero.
//!
//! Not modelled: the kernel's own time for a system call, writing after 30 seconds of a file that stays
//! open, mapped memory, and reclaiming names and inodes.

mod kept;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Range;

use twin_disk::Block;
use twin_fs::{
    Attr, Data, FileSystem, FsError, Ino, Name, Op, Reply, Request, Room, SetAttr, SetTime,
    Timestamp,
};
use twin_rt::{Rt, join_all};

use kept::{Kept, MAX_WRITE, PAGE, pages_of};

/// How far the kernel reads ahead of a sequential reader.
const READ_AHEAD: u64 = 1 << 20;

/// The kernel before a mount.
pub struct Kernel<F> {
    inner: F,
    rt: Rt,
    kept: RefCell<Kept>,
}

/// Who asks.
#[derive(Clone)]
struct From(Request);

impl From {
    fn ask(&self, op: Op) -> Request {
        Request { op, ..self.0.clone() }
    }
}

impl<F: FileSystem> Kernel<F> {
    /// Puts a kernel that keeps nothing yet before a mount.
    pub fn new(rt: &Rt, inner: F) -> Kernel<F> {
        Kernel { inner, rt: rt.clone(), kept: RefCell::default() }
    }

    /// Writes all dirty pages to the mount.
    ///
    /// # Errors
    /// The first of the mount.
    pub async fn write_out(&self) -> Result<(), FsError> {
        let from = From(Request::root(u64::MAX, Op::Sync));
        let mut dirty: Vec<Ino> = {
            let kept = self.kept.borrow();
            kept.files.iter().filter(|(_, file)| file.touched).map(|(&ino, _)| ino).collect()
        };
        dirty.sort_unstable();
        for ino in dirty {
            self.flush(ino, &from).await?;
        }
        Ok(())
    }

    /// Forgets names, attributes and clean pages.
    pub fn drop_caches(&self) {
        let mut kept = self.kept.borrow_mut();
        kept.names.clear();
        for file in kept.files.values_mut() {
            file.pages.clone_from(&file.dirty);
            if !file.touched {
                file.attr = None;
            }
        }
        kept.pages = kept.dirty_pages;
        kept.order.clear();
    }

    /// Writes the dirty pages of a file to the mount, and its times.
    async fn flush(&self, ino: Ino, from: &From) -> Result<(), FsError> {
        let (runs, touched) = self.kept.borrow_mut().take_dirty(ino);
        let writes = runs.into_iter().map(|(off, len)| {
            let data = Data::Synthetic(len);
            self.inner.execute(from.ask(Op::WriteBack { ino, off, data }))
        });
        let written: Result<Vec<Reply>, FsError> = join_all(writes).await.into_iter().collect();
        written?;
        if touched {
            let now = Timestamp::from(self.rt.now());
            let mtime = Some(SetTime::At(now));
            let set = SetAttr { mtime, ctime: Some(now), ..SetAttr::default() };
            self.inner.execute(from.ask(Op::SetAttr { ino, set })).await?;
        }
        Ok(())
    }

    async fn attr(&self, ino: Ino, from: &From) -> Result<Attr, FsError> {
        if let Some(attr) = self.kept.borrow().files.get(&ino).and_then(|file| file.attr.clone()) {
            return Ok(attr);
        }
        let reply = self.inner.execute(from.ask(Op::GetAttr { ino })).await?;
        let Reply::Attr(attr) = reply else { return Err(FsError::Stale) };
        self.kept.borrow_mut().file(ino).attr = Some(attr.clone());
        Ok(attr)
    }

    /// Fetches the pages of a range that are missing, in requests of consecutive ones.
    async fn fetch(&self, ino: Ino, pages: Range<u64>, from: &From) -> Result<(), FsError> {
        let runs = self.kept.borrow().missing(ino, pages);
        let reads = runs.iter().map(|&(first, count)| {
            let len = (count * PAGE) as u32;
            self.inner.execute(from.ask(Op::Read { ino, off: first * PAGE, len }))
        });
        let read: Result<Vec<Reply>, FsError> = join_all(reads).await.into_iter().collect();
        read?;
        let mut kept = self.kept.borrow_mut();
        runs.into_iter().for_each(|(first, count)| kept.add_pages(ino, first..first + count));
        Ok(())
    }

    async fn read(&self, ino: Ino, off: u64, len: u32, from: &From) -> Result<Reply, FsError> {
        let size = self.attr(ino, from).await?.size;
        let end = size.min(off.saturating_add(len.into()));
        if off >= end {
            return Ok(Reply::Data(Vec::new()));
        }
        let is_sequential = self.kept.borrow().files.get(&ino).is_some_and(|f| f.read_to == off);
        let mut last = end;
        // Nothing is read ahead as long as what is wanted is there.
        if is_sequential && !self.kept.borrow().missing(ino, pages_of(off, end)).is_empty() {
            last = size.min(end + READ_AHEAD);
        }
        self.fetch(ino, pages_of(off, last), from).await?;
        self.kept.borrow_mut().file(ino).read_to = end;
        let blocks = (off..end).step_by(MAX_WRITE as usize);
        let block = |at: u64| Block::Zero((end - at).min(MAX_WRITE) as u32);
        Ok(Reply::Data(blocks.map(block).collect()))
    }

    async fn write(&self, ino: Ino, off: u64, len: u64, from: &From) -> Result<Reply, FsError> {
        let size = self.attr(ino, from).await?.size;
        let end = off + len;
        // A page that is written in part must be there, if the file has something in it.
        for at in [off, end] {
            let page = at / PAGE;
            if at % PAGE != 0
                && page * PAGE < size
                && !(at == end && end >= size && page != off / PAGE)
            {
                self.fetch(ino, page..page + 1, from).await?;
            }
        }
        let now = Timestamp::from(self.rt.now());
        let is_full = self.kept.borrow_mut().written(ino, off, end, now);
        if is_full {
            self.flush(ino, from).await?;
        }
        Ok(Reply::Written(len))
    }

    async fn lookup(&self, dir: Ino, name: Name, from: &From) -> Result<Reply, FsError> {
        if let Some(known) = self.kept.borrow_mut().known(dir, &name) {
            return known;
        }
        let result = self.inner.execute(from.ask(Op::Lookup { dir, name: name.clone() })).await;
        if matches!(result, Err(FsError::NotFound)) {
            self.kept.borrow_mut().names.insert((dir, name.clone()), None);
        }
        self.entered(dir, name, &result);
        result
    }

    /// Keeps an entry of a reply.
    fn entered(&self, dir: Ino, name: Name, result: &Result<Reply, FsError>) {
        let Ok(Reply::Entry(entry)) = result else { return };
        let mut kept = self.kept.borrow_mut();
        kept.names.insert((dir, name), Some(entry.attr.ino));
        kept.referenced(&entry.attr);
    }

    /// After a change of a directory: its own attributes are those of the mount.
    fn changed(&self, dir: Ino) {
        if let Some(file) = self.kept.borrow_mut().files.get_mut(&dir) {
            file.attr = None;
        }
    }

    /// A name is gone. Gives an inode back that has no name and no user.
    async fn unnamed(&self, dir: Ino, name: Name, from: &From) {
        let gone = self.kept.borrow_mut().unname(dir, name);
        if let Some(ino) = gone {
            self.give_back(ino, from).await;
        }
    }

    /// Gives an inode back if it has no name, and nobody uses it.
    async fn give_back(&self, ino: Ino, from: &From) {
        let count = self.kept.borrow_mut().take_unused(ino);
        if let Some(count) = count {
            let _ = self.inner.execute(from.ask(Op::Forget { ino, count })).await;
        }
    }

    async fn set_attr(&self, ino: Ino, set: SetAttr, from: &From) -> Result<Reply, FsError> {
        if set.size.is_some() {
            self.flush(ino, from).await?;
        }
        let reply = self.inner.execute(from.ask(Op::SetAttr { ino, set: set.clone() })).await?;
        let mut kept = self.kept.borrow_mut();
        if let Some(size) = set.size {
            kept.cut(ino, size);
        }
        if let Reply::Attr(attr) = &reply {
            let file = kept.file(ino);
            let size = if file.dirty.is_empty() { attr.size } else { file.size().max(attr.size) };
            file.attr = Some(Attr { size, ..attr.clone() });
        }
        Ok(reply)
    }

    async fn names(&self, from: From) -> Result<Reply, FsError> {
        let op = from.0.op.clone();
        let result = self.inner.execute(from.0.clone()).await;
        if result.is_err() {
            return result;
        }
        match op {
            Op::Create { dir, name, .. }
            | Op::MakeNode { dir, name, .. }
            | Op::MakeDir { dir, name, .. }
            | Op::Symlink { dir, name, .. }
            | Op::Link { dir, name, .. } => {
                self.entered(dir, name, &result);
                if let (Op::Create { .. }, Ok(Reply::Entry(entry))) = (&from.0.op, &result) {
                    self.kept.borrow_mut().file(entry.attr.ino).opens += 1;
                }
                self.changed(dir);
            }
            Op::Unlink { dir, name } | Op::RemoveDir { dir, name } => {
                self.unnamed(dir, name, &from).await;
                self.changed(dir);
            }
            Op::Rename { dir, name, to_dir, to_name, .. } => {
                let moved = self.kept.borrow_mut().names.insert((dir, name), None);
                self.unnamed(to_dir, to_name.clone(), &from).await;
                if let Some(moved) = moved {
                    self.kept.borrow_mut().names.insert((to_dir, to_name), moved);
                } else {
                    self.kept.borrow_mut().names.remove(&(to_dir, to_name));
                }
                self.changed(dir);
                self.changed(to_dir);
            }
            _ => {}
        }
        result
    }
}

impl<F: FileSystem> FileSystem for Kernel<F> {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        let from = From(request);
        match from.0.op.clone() {
            Op::Lookup { dir, name } => self.lookup(dir, name, &from).await,
            Op::GetAttr { ino } => self.attr(ino, &from).await.map(Reply::Attr),
            Op::SetAttr { ino, set } => self.set_attr(ino, set, &from).await,
            Op::Read { ino, off, len } => self.read(ino, off, len, &from).await,
            Op::Write { ino, off, data } => self.write(ino, off, Data::len(&data), &from).await,
            Op::Fsync { ino, .. } => {
                self.flush(ino, &from).await?;
                self.inner.execute(from.0).await
            }
            Op::Open { ino, truncate, .. } => {
                let result = self.inner.execute(from.0).await;
                if result.is_ok() {
                    let mut kept = self.kept.borrow_mut();
                    kept.file(ino).opens += 1;
                    if truncate {
                        kept.cut(ino, 0);
                        kept.file(ino).attr = None;
                    }
                }
                result
            }
            // Closing waits until the file's pages have been written.
            Op::Release { ino } => {
                let is_last = self.kept.borrow_mut().release(ino);
                let flushed = if is_last { self.flush(ino, &from).await } else { Ok(()) };
                let result = self.inner.execute(from.0.clone()).await;
                self.give_back(ino, &from).await;
                flushed.and(result)
            }
            Op::Forget { ino, count } => {
                self.kept.borrow_mut().forget(ino, count);
                self.give_back(ino, &from).await;
                Ok(Reply::Done)
            }
            Op::Sync => {
                self.write_out().await?;
                self.inner.execute(from.0).await
            }
            Op::Fallocate { ino, .. } | Op::Seek { ino, .. } => {
                self.flush(ino, &from).await?;
                let result = self.inner.execute(from.0).await;
                self.changed(ino);
                result
            }
            Op::ReadDir { dir, .. } => {
                let result = self.inner.execute(from.0).await;
                if let Ok(Reply::Dir(entries)) = &result {
                    let mut kept = self.kept.borrow_mut();
                    for each in entries.iter().filter(|e| &*e.name != b"." && &*e.name != b"..") {
                        let Some(entry) = &each.entry else { continue };
                        kept.names.insert((dir, each.name.clone()), Some(entry.attr.ino));
                        kept.referenced(&entry.attr);
                    }
                }
                result
            }
            _ => self.names(from).await,
        }
    }

    fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        self.inner.room_of(ino)
    }

    fn held(&self) -> Vec<Ino> {
        self.inner.held()
    }
}

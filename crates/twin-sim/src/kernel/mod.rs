//! The caches of the kernel before a mount, as a part: names, attributes and pages, for which a client's
//! operation often becomes no request.
//!
//! Contract: [`Kernel`] stands between clients whose operations are system calls (generated workloads)
//! and a mount's front end ([`Fuse`](crate::fuse::Fuse)). It behaves as Linux does for a mount of ours,
//! which allows the kernel to keep names, missing names and attributes until they change, and to collect
//! writes (`writeback_cache`):
//!
//! - A write goes to pages. Pages that it covers in part are read first, and before the first write to a
//!   file the kernel asks for its capabilities, which a write would take away.
//! - Dirty pages become requests of up to a mebibyte, several in flight, when the file is closed or
//!   synced, or when 64 MiB are dirty. The times of the file follow, if its last change came in another
//!   tick of the kernel's clock than the one before.
//! - A read fetches the pages that are missing, and reads ahead for a sequential reader.
//! - A name that is made is looked for first, unless the kernel knows it. Whoever walks through a directory
//!   whose names have changed since makes the kernel ask for its attributes, for the permissions in them.
//! - A file that gets or loses a name gets its change time in a request of its own, even if that was its
//!   last name.
//! - An inode is given back when it has no name and no user.
//!
//! These are what a mount of ours was seen to be asked; the scenario `kernel` holds this part against one.
//!
//! A recording of a mount has all of this behind it and must not go through it again. Contents are not
//! kept: what a read returns is as long as the data, and zero.
//!
//! Not modelled: the kernel's own time for a system call, writing after 30 seconds of a file that stays
//! open, mapped memory, and reclaiming names and inodes.

mod cache;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Range;

use twin_disk::Block;
use twin_fs::quota::Quota;
use twin_fs::{
    Attr, Data, FileSystem, FsError, Ino, Name, Op, RenameMode, Reply, Request, Room, SetAttr,
    SetTime, Timestamp,
};
use twin_rt::{Rt, join_all};

use cache::{KernelCache, MAX_WRITE, PAGE, pages_of};

/// The attribute with the capabilities of a program.
const CAPABILITIES: &[u8] = b"security.capability";
/// How far the kernel reads ahead of a sequential reader.
const READ_AHEAD: u64 = 1 << 20;

/// The kernel before a mount.
pub struct Kernel<F> {
    inner: F,
    rt: Rt,
    kept: RefCell<KernelCache>,
}

/// The request of a program on whose behalf the kernel asks the mount.
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
    pub async fn write_out(&self) -> Result<(), FsError> {
        let from = From(Request::root(u64::MAX, Op::Sync));
        let mut dirty: Vec<Ino> = {
            let kept = self.kept.borrow();
            kept.files.iter().filter(|(_, file)| file.is_dirty()).map(|(&ino, _)| ino).collect()
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
            if !file.is_dirty() {
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

    /// Attributes that do for walking, reading and writing.
    async fn attr(&self, ino: Ino, from: &From) -> Result<Attr, FsError> {
        if let Some(attr) = self.kept.borrow().files.get(&ino).and_then(|file| file.attr.clone()) {
            return Ok(attr);
        }
        self.refresh(ino, from).await
    }

    /// Attributes as a client wants to see them.
    async fn stat(&self, ino: Ino, from: &From) -> Result<Attr, FsError> {
        if self.kept.borrow().files.get(&ino).is_some_and(|file| file.stale) {
            return self.refresh(ino, from).await;
        }
        self.attr(ino, from).await
    }

    async fn refresh(&self, ino: Ino, from: &From) -> Result<Attr, FsError> {
        let reply = self.inner.execute(from.ask(Op::GetAttr { ino })).await?;
        let Reply::Attr(attr) = reply else { return Err(FsError::Stale) };
        let mut kept = self.kept.borrow_mut();
        kept.refreshed(&attr);
        Ok(kept.file(ino).attr.clone().unwrap_or(attr))
    }

    /// Asks for a name that is not known, before it is made, moved or taken away.
    async fn look_for(&self, dir: Ino, name: &Name, from: &From) -> Result<(), FsError> {
        self.attr(dir, from).await?;
        let key = (dir, name.clone());
        if self.kept.borrow().names.contains_key(&key) {
            return Ok(());
        }
        let asked = from.ask(Op::Lookup { dir, name: name.clone() });
        if let Ok(Reply::Entry(entry)) = self.inner.execute(asked).await {
            let mut kept = self.kept.borrow_mut();
            kept.names.insert(key, Some(entry.attr.ino));
            kept.given(&entry.attr);
        }
        Ok(())
    }

    /// A file has got or lost a name: the kernel, whose times count, sets its change time.
    async fn name_changed(&self, ino: Ino, from: &From) {
        let set = SetAttr { ctime: Some(Timestamp::from(self.rt.now())), ..SetAttr::default() };
        // The name is changed already, so a failure here is nobody's.
        let _ = self.inner.execute(from.ask(Op::SetAttr { ino, set })).await;
        self.kept.borrow_mut().file(ino).stale = true;
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
        // The mount has set the time of the last access.
        kept.file(ino).stale |= !runs.is_empty();
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
        // The kernel reads nothing ahead as long as it has the wanted pages.
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
        if !std::mem::replace(&mut self.kept.borrow_mut().file(ino).capless, true) {
            let name = CAPABILITIES.into();
            let _ = self.inner.execute(from.ask(Op::GetXattr { ino, name })).await;
        }
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
        self.attr(dir, from).await?;
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
            kept.refreshed(attr);
        }
        Ok(reply)
    }

    async fn names(&self, from: From) -> Result<Reply, FsError> {
        match from.0.op.clone() {
            Op::Create { dir, name, .. }
            | Op::MakeNode { dir, name, .. }
            | Op::MakeDir { dir, name, .. }
            | Op::Symlink { dir, name, .. }
            | Op::Link { dir, name, .. } => self.make_name(dir, name, from).await,
            Op::Unlink { dir, name } | Op::RemoveDir { dir, name } => {
                self.look_for(dir, &name, &from).await?;
                let ino = self.kept.borrow().named(dir, &name);
                let reply = self.inner.execute(from.0.clone()).await?;
                self.changed(dir);
                if let Some(ino) = ino {
                    self.name_changed(ino, &from).await;
                }
                self.unnamed(dir, name, &from).await;
                Ok(reply)
            }
            Op::Rename { dir, name, to_dir, to_name, mode } => {
                self.look_for(dir, &name, &from).await?;
                self.look_for(to_dir, &to_name, &from).await?;
                self.rename((dir, name), (to_dir, to_name), mode, from).await
            }
            _ => self.inner.execute(from.0).await,
        }
    }

    async fn make_name(&self, dir: Ino, name: Name, from: From) -> Result<Reply, FsError> {
        self.look_for(dir, &name, &from).await?;
        let result = Ok(self.inner.execute(from.0.clone()).await?);
        self.entered(dir, name, &result);
        self.changed(dir);
        match (&from.0.op, &result) {
            (Op::Create { .. }, Ok(Reply::Entry(entry))) => {
                self.kept.borrow_mut().file(entry.attr.ino).opens += 1;
            }
            (Op::Link { ino, .. }, _) => self.name_changed(*ino, &from).await,
            _ => {}
        }
        result
    }

    async fn rename(
        &self,
        old: (Ino, Name),
        new: (Ino, Name),
        mode: RenameMode,
        from: From,
    ) -> Result<Reply, FsError> {
        let (moved, replaced) = {
            let kept = self.kept.borrow();
            (kept.named(old.0, &old.1), kept.named(new.0, &new.1))
        };
        let reply = self.inner.execute(from.0.clone()).await?;
        self.changed(old.0);
        self.changed(new.0);
        for ino in [moved, replaced].into_iter().flatten() {
            self.name_changed(ino, &from).await;
        }
        match mode {
            RenameMode::Exchange => _ = self.kept.borrow_mut().names.insert(old, replaced),
            // The kernel forgets the old name, and asks again when somebody looks it up.
            RenameMode::Whiteout | RenameMode::WhiteoutNoReplace => {
                self.kept.borrow_mut().names.remove(&old);
            }
            RenameMode::Replace | RenameMode::NoReplace => {
                self.kept.borrow_mut().names.insert(old, None);
            }
        }
        if mode != RenameMode::Exchange {
            self.unnamed(new.0, new.1.clone(), &from).await;
        }
        self.kept.borrow_mut().names.insert(new, moved);
        Ok(reply)
    }
}

impl<F: FileSystem> FileSystem for Kernel<F> {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        let from = From(request);
        match from.0.op.clone() {
            Op::Lookup { dir, name } => self.lookup(dir, name, &from).await,
            Op::GetAttr { ino } => self.stat(ino, &from).await.map(Reply::Attr),
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

    fn quota_of(&self, ino: Ino) -> Option<Quota> {
        self.inner.quota_of(ino)
    }

    fn held(&self) -> Vec<Ino> {
        self.inner.held()
    }
}

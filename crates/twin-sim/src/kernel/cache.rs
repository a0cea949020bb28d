//! What the kernel keeps of the files of a mount: names, attributes, pages, and who uses them.
//!
//! Contract: this file holds state and asks nobody; [`Kernel`](super::Kernel) sends the requests that
//! follow from it. Dirty pages are among the pages of a file.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use twin_fs::{Attr, FsError, Ino, LookupEntry, Name, Reply, Timestamp};
use twin_rt::FixedMap;

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;
/// The largest request that collects pages: the mount's `max_write`.
pub(super) const MAX_WRITE: u64 = 1 << 20;
/// The kernel's clock for the times of files: a tick of 250 Hz.
const TICK: u64 = 4_000_000;
/// Dirty bytes that the kernel collects for a mount of ours.
const DIRTY_LIMIT: u64 = 64 << 20;
/// Bytes of clean pages that are kept.
const PAGES_LIMIT: u64 = 1 << 30;

/// The state that the kernel keeps of one file.
#[derive(Default)]
pub(super) struct File {
    pub(super) attr: Option<Attr>,
    /// The attributes do for walking and writing, but a client that wants them makes the kernel ask anew.
    pub(super) stale: bool,
    /// The kernel knows that the file has no capabilities which a write would take away.
    pub(super) capless: bool,
    pub(super) pages: BTreeSet<u64>,
    pub(super) dirty: BTreeSet<u64>,
    /// The times are newer than those of the mount.
    pub(super) touched: bool,
    /// The offset at which the last read ended.
    pub(super) read_to: u64,
    pub(super) opens: u32,
    /// References of clients, and those that the mount has given.
    client_refs: u64,
    refs: u64,
}

#[derive(Default)]
pub(super) struct KernelCache {
    /// The names that the kernel keeps, by directory and name: the inode, or that there is none.
    pub(super) names: FixedMap<(Ino, Name), Option<Ino>>,
    pub(super) files: FixedMap<Ino, File>,
    pub(super) dirty_pages: u64,
    pub(super) pages: u64,
    /// Files with pages, those that got some first in front.
    pub(super) order: VecDeque<Ino>,
}

pub(super) fn pages_of(off: u64, end: u64) -> Range<u64> {
    off / PAGE..end.div_ceil(PAGE)
}

/// Adds a page to runs of consecutive pages of at most `most`.
fn join(mut runs: Vec<(u64, u64)>, page: u64, most: u64) -> Vec<(u64, u64)> {
    match runs.last_mut() {
        Some((first, count)) if *first + *count == page && *count < most => *count += 1,
        _ => runs.push((page, 1)),
    }
    runs
}

/// When the kernel's clock said this.
fn tick(time: Timestamp) -> (i64, u64) {
    (time.secs, u64::from(time.nanos) / TICK)
}

impl File {
    /// True if the kernel has something of it that the mount has not.
    pub(super) fn is_dirty(&self) -> bool {
        self.touched || !self.dirty.is_empty()
    }

    pub(super) fn size(&self) -> u64 {
        self.attr.as_ref().map_or(0, |attr| attr.size)
    }
}

impl KernelCache {
    pub(super) fn file(&mut self, ino: Ino) -> &mut File {
        self.files.entry(ino).or_default()
    }

    /// The answer to a look-up that needs no request.
    pub(super) fn known(&mut self, dir: Ino, name: &Name) -> Option<Result<Reply, FsError>> {
        let Some(ino) = *self.names.get(&(dir, name.clone()))? else {
            return Some(Err(FsError::NotFound));
        };
        let file = self.files.get_mut(&ino)?;
        let attr = file.attr.clone()?;
        file.client_refs += 1;
        Some(Ok(Reply::Entry(LookupEntry { attr, generation: 0 })))
    }

    /// The inode that is known to have this name.
    pub(super) fn named(&self, dir: Ino, name: &Name) -> Option<Ino> {
        self.names.get(&(dir, name.clone())).copied().flatten()
    }

    /// The mount has given a reference with attributes, for which a client has asked.
    pub(super) fn referenced(&mut self, attr: &Attr) {
        self.given(attr);
        self.file(attr.ino).client_refs += 1;
    }

    /// The mount has given a reference with attributes.
    pub(super) fn given(&mut self, attr: &Attr) {
        self.refreshed(attr);
        self.file(attr.ino).refs += 1;
    }

    /// The mount has given attributes. While pages are dirty, the kernel knows the size better.
    pub(super) fn refreshed(&mut self, attr: &Attr) {
        let file = self.file(attr.ino);
        let size = if file.dirty.is_empty() { attr.size } else { file.size().max(attr.size) };
        file.attr = Some(Attr { size, ..attr.clone() });
        file.stale = false;
    }

    /// Runs of pages that are missing, as first page and number.
    pub(super) fn missing(&self, ino: Ino, pages: Range<u64>) -> Vec<(u64, u64)> {
        let there = self.files.get(&ino).map(|file| &file.pages);
        pages
            .filter(|page| !there.is_some_and(|pages| pages.contains(page)))
            .fold(Vec::new(), |runs, page| join(runs, page, MAX_WRITE / PAGE))
    }

    pub(super) fn add_pages(&mut self, ino: Ino, pages: Range<u64>) {
        let file = self.files.entry(ino).or_default();
        if file.pages.is_empty() {
            self.order.push_back(ino);
        }
        self.pages += pages.filter(|&page| file.pages.insert(page)).count() as u64;
        while self.pages > PAGES_LIMIT / PAGE
            && let Some(oldest) = self.order.pop_front()
        {
            let Some(file) = self.files.get_mut(&oldest) else { continue };
            self.pages -= (file.pages.len() - file.dirty.len()) as u64;
            file.pages.clone_from(&file.dirty);
        }
    }

    /// A write has gone to pages; true if the kernel has collected all that it may.
    pub(super) fn written(&mut self, ino: Ino, off: u64, end: u64, now: Timestamp) -> bool {
        let pages = pages_of(off, end);
        self.add_pages(ino, pages.clone());
        let file = self.files.entry(ino).or_default();
        self.dirty_pages += pages.filter(|&page| file.dirty.insert(page)).count() as u64;
        if let Some(attr) = &mut file.attr {
            file.touched |= tick(attr.mtime) != tick(now);
            attr.size = attr.size.max(end);
            (attr.mtime, attr.ctime) = (now, now);
        }
        self.dirty_pages * PAGE >= DIRTY_LIMIT
    }

    /// The dirty ranges of a file, which are clean from now on, and whether its times are dirty.
    pub(super) fn take_dirty(&mut self, ino: Ino) -> (Vec<(u64, u64)>, bool) {
        let Some(file) = self.files.get_mut(&ino) else { return (Vec::new(), false) };
        let dirty = std::mem::take(&mut file.dirty);
        self.dirty_pages -= dirty.len() as u64;
        let size = file.size();
        let runs =
            dirty.into_iter().fold(Vec::new(), |runs, page| join(runs, page, MAX_WRITE / PAGE));
        let range = |(first, count): (u64, u64)| {
            let off = first * PAGE;
            (off, ((first + count) * PAGE).min(size).saturating_sub(off))
        };
        let ranges = runs.into_iter().map(range).filter(|&(_, len)| len > 0).collect();
        (ranges, std::mem::take(&mut file.touched))
    }

    /// Forgets pages beyond a size.
    pub(super) fn cut(&mut self, ino: Ino, size: u64) {
        let file = self.files.entry(ino).or_default();
        let first = size.div_ceil(PAGE);
        self.pages -= file.pages.split_off(&first).len() as u64;
        self.dirty_pages -= file.dirty.split_off(&first).len() as u64;
    }

    /// Takes a name away; returns its inode if that has none left.
    pub(super) fn unname(&mut self, dir: Ino, name: Name) -> Option<Ino> {
        let ino = self.names.insert((dir, name), None)??;
        let attr = self.files.get_mut(&ino)?.attr.as_mut()?;
        attr.nlink = if attr.is_dir() { 0 } else { attr.nlink.saturating_sub(1) };
        (attr.nlink == 0).then_some(ino)
    }

    /// Forgets an inode without name and user, with its pages; returns the references to give back.
    pub(super) fn take_unused(&mut self, ino: Ino) -> Option<u64> {
        let file = self.files.get(&ino)?;
        let nameless = file.attr.as_ref().is_some_and(|attr| attr.nlink == 0);
        if !nameless || file.opens > 0 || file.client_refs > 0 {
            return None;
        }
        let file = self.files.remove(&ino)?;
        self.pages -= file.pages.len() as u64;
        self.dirty_pages -= file.dirty.len() as u64;
        Some(file.refs)
    }

    /// A client gives references back.
    pub(super) fn forget(&mut self, ino: Ino, count: u64) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.client_refs = file.client_refs.saturating_sub(count);
        }
    }
}

impl KernelCache {
    /// A client closes a file. True if its pages must be written now: those of a file without a name
    /// and other users never are.
    pub(super) fn release(&mut self, ino: Ino) -> bool {
        let Some(file) = self.files.get_mut(&ino) else { return false };
        file.opens = file.opens.saturating_sub(1);
        let nameless = file.attr.as_ref().is_some_and(|attr| attr.nlink == 0);
        !(nameless && file.opens == 0)
    }
}

//! Reading directories.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::Origin;

use super::Operations;
use crate::dir::with_bytes;
use crate::inodes::Inode;
use crate::{DirEntry, FsError, Ino, ROOT_INO, Reply, Result, Work, mode};

/// The bytes that an entry takes of the reader's `max_bytes`: see [`Op::ReadDir`](crate::Op).
pub(crate) fn entry_cost(name_len: usize, plus: bool) -> u64 {
    let plain = (24 + name_len as u64).next_multiple_of(8);
    if plus { plain + 128 } else { plain }
}

/// What a reader is going to get.
struct Listing {
    entries: Vec<DirEntry>,
    /// Bytes of the reader's room that are left.
    left: u64,
    plus: bool,
}

impl Listing {
    /// Adds an entry; false if there is no room for it.
    fn add(&mut self, entry: DirEntry) -> bool {
        let cost = entry_cost(entry.name.len(), self.plus);
        let fits = cost <= self.left;
        if fits {
            self.left -= cost;
            self.entries.push(entry);
        }
        fits
    }
}

impl Operations {
    pub(crate) async fn op_read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        max_bytes: u32,
        plus: bool,
    ) -> Result<Reply> {
        let dir = self.dirs.directory(dir).await?;
        let _shared = dir.lock.read().await;
        let block = u64::from(self.core.geometry.block_size);
        let mut listing = Listing { entries: Vec::new(), left: u64::from(max_bytes), plus };
        let mut lbn = cookie / block;
        let mut first = None;
        while lbn < self.dirs.dir_blocks(&dir) && dir.d.borrow().nlink > 0 {
            let (frame, all_fit) = self.list_block(&dir, lbn, cookie, &mut listing).await?;
            first = first.or((lbn == 0).then_some(frame));
            if !all_fit {
                break;
            }
            lbn += 1;
        }
        let Listing { entries: mut out, left, .. } = listing;
        if out.is_empty()
            && left < 280
            && dir.d.borrow().nlink > 0
            && lbn < self.dirs.dir_blocks(&dir)
        {
            return Err(FsError::Invalid("no room for one directory entry"));
        }
        if plus {
            self.add_entries(&dir, &mut out).await?;
        } else if dir.d.borrow().nlink == 0 {
            return Err(FsError::NotFound);
        }
        if let Some(frame) = first {
            self.renew_parent(&dir, &frame, &mut out);
        }
        Ok(Reply::Dir(out))
    }

    /// The entries of a block of a directory. The caller holds its lock.
    pub(super) async fn names_in_block(&self, dir: &Inode, lbn: u64) -> Result<Vec<DirEntry>> {
        let block = u64::from(self.core.geometry.block_size);
        let mut listing = Listing { entries: Vec::new(), left: u64::MAX, plus: false };
        self.list_block(dir, lbn, lbn * block, &mut listing).await?;
        Ok(listing.entries)
    }

    /// Brings the entry `..` up to date. A rename that moves this directory holds the locks of the
    /// two parents but not of this directory, so it may have taken place while the rest was read.
    fn renew_parent(&self, dir: &Inode, first: &Frame, items: &mut [DirEntry]) {
        let parent = items.iter_mut().find(|item| &*item.name == b"..");
        if let Some(item) = parent.filter(|_| dir.ino != ROOT_INO) {
            let (format, len) = (self.core.features.directories, self.dirs.dir_len(dir, 0));
            if let Some(now) = with_bytes(first, |bytes| format.find(&bytes[..len], b"..")) {
                (item.ino, item.kind) = (now.ino, now.kind);
            }
        }
    }

    /// Adds the entries of a block of a directory from a cookie on. Returns the block, and whether there was
    /// room for all.
    async fn list_block(
        &self,
        dir: &Inode,
        lbn: u64,
        cookie: u64,
        listing: &mut Listing,
    ) -> Result<(Rc<Frame>, bool)> {
        let block = u64::from(self.core.geometry.block_size);
        self.core.cpu.charge(Work::Block).await;
        // A reader usually continues with the following blocks, so they are read with one request.
        let ahead = (lbn + 8).min(self.dirs.dir_blocks(dir));
        if self.core.cache.peek(&dir.frames, lbn as Lbn).is_none() {
            self.core.blocks(dir, lbn, ahead, Origin::User).await?;
        }
        let frame = self.dirs.dir_block(dir, lbn).await?;
        let len = self.dirs.dir_len(dir, lbn);
        let from = cookie.saturating_sub(lbn * block).min(block) as usize;
        let all_fit = with_bytes(&frame, |bytes| {
            let mut items = self.core.features.directories.items(&bytes[..len], from);
            items.all(|item| {
                let (ino, kind) = match item.name {
                    b".." if dir.ino == ROOT_INO => (dir.ino, mode::DIRECTORY),
                    _ => (item.ino, item.kind),
                };
                let next = lbn * block + item.next as u64;
                listing.add(DirEntry { name: item.name.into(), ino, kind, next, entry: None })
            })
        });
        Ok((frame, all_fit))
    }

    /// Adds the inodes to the entries of a listing with `plus`. All inodes are loaded before the
    /// first is added, so that the attributes are those of one moment.
    async fn add_entries(&self, dir: &Inode, items: &mut [DirEntry]) -> Result<()> {
        let mut inodes = Vec::with_capacity(items.len());
        for item in &*items {
            inodes.push(match &*item.name {
                b"." | b".." => None,
                _ => Some(self.files.inode(item.ino).await.map_err(|error| match error {
                    FsError::NotFound => FsError::inconsistent(format!(
                        "an entry of directory {} leads to inode {}, which is free",
                        dir.ino, item.ino
                    )),
                    other => other,
                })?),
            });
        }
        if dir.d.borrow().nlink == 0 {
            return Err(FsError::NotFound);
        }
        for (item, inode) in items.iter_mut().zip(inodes) {
            item.entry = inode.map(|inode| Box::new(self.entry(&inode)));
        }
        Ok(())
    }
}

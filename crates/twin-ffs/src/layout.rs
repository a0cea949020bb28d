//! The layout seam, implemented: see [`twin_fs::Layout`].

use std::cell::Cell;
use std::rc::Rc;

use twin_cache::{FlushState, Lbn};
use twin_fs::shape::{Ptr, UNWRITTEN};
use twin_fs::{
    Change, Core, FsError, Ino, Inode, Layout, Need, Picked, Result, Room, VolumeStat, Written,
};
use twin_rt::{Category, Time};

use crate::ffs::Ffs;
use crate::ordering::Wait;
use crate::space::Freed;

/// Held while an admitted operation runs: the bytes that it may make dirty.
pub struct Permit {
    bytes: u64,
    permitted: Rc<Cell<u64>>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permitted.set(self.permitted.get() - self.bytes);
    }
}

impl Ffs {
    fn frags(&self, len: u32) -> u32 {
        len / self.sb.shape.frag_size
    }

    /// A place for a block that has none.
    fn place_new(&self, core: &Core, inode: &Inode, lbn: Lbn, len: u32) -> Option<u64> {
        let wanted = self.wanted(core, inode, lbn);
        let mut space = self.space.borrow_mut();
        let addr = space.take(&self.sb, &wanted, self.frags(len))?;
        space.note_fresh(inode.ino, addr);
        space.unwritten.insert(inode.ino);
        if lbn < 0 && self.ordering.maps() == Wait::InOrder {
            self.new_maps.borrow_mut().insert(inode.ino);
        }
        Some(addr)
    }

    /// A place for the last block of a file, which becomes longer or shorter.
    fn replace(&self, core: &Core, inode: &Inode, lbn: Lbn, old: Ptr, len: u32) -> Option<u64> {
        let (old_frags, frags) = (self.frags(old.len), self.frags(len));
        let wanted = self.wanted(core, inode, lbn);
        let mut space = self.space.borrow_mut();
        if frags > old_frags {
            space.unwritten.insert(inode.ino);
            let addr = space.grow(&self.sb, inode.ino, old, &wanted, frags)?;
            if addr != old.addr {
                self.note_freed(old.addr);
            }
            return Some(addr);
        }
        let fresh = space.is_fresh(inode.ino, old.addr);
        let freed = Freed { addr: old.addr + u64::from(frags), frags: old_frags - frags };
        space.free_part(&self.sb, inode.ino, freed, fresh);
        Some(old.addr)
    }

    /// Tells the journal that what it has of a place is void.
    fn note_freed(&self, addr: u64) {
        if let Some(journal) = &self.journal {
            journal.note_freed(addr, self.settings.sabotage);
        }
    }

    /// True if an operation that takes up to `bytes` finds its blocks.
    fn has_room(&self, bytes: u64) -> bool {
        self.space.borrow().has_room(bytes + self.permitted.get())
    }

    /// True if waiting makes room: space was given up, perhaps to a transaction that is on its way.
    fn awaits_space(&self) -> bool {
        let space = self.space.borrow();
        space.has_pending() || self.journal.is_some() && space.is_releasing()
    }

    /// Makes space that was given up safe to use again.
    async fn release_pending(&self, core: &Rc<Core>, bytes: u64) -> Result<()> {
        self.count(|s| s.space_waits += 1);
        core.rt.log(Category::Admission, "waits", || {
            [("bytes", bytes), ("permitted_bytes", self.permitted.get())]
        });
        match &self.journal {
            Some(_) => self.commit(core).await.map(|_| ()),
            None => self.write_pending_files(core).await,
        }
    }
}

impl Layout for Ffs {
    type Permit = Permit;

    async fn load_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>> {
        self.read_inode(core, ino).await
    }

    async fn pick_inode(&self, core: &Rc<Core>, near: Ino, mode: u32) -> Result<Picked> {
        self.pick(core, near, mode).await
    }

    fn unpick(&self, _core: &Core, picked: Picked) {
        self.unpick_number(picked.ino);
    }

    fn born(&self, core: &Core, inode: &Rc<Inode>) {
        self.bear(core, inode);
    }

    fn free_inode(&self, core: &Core, inode: &Rc<Inode>) {
        self.free_number_of(core, inode);
    }

    fn set_orphan(&self, _core: &Core, inode: &Inode, orphan: bool) {
        let mut orphans = self.orphans.borrow_mut();
        match orphan {
            true => orphans.insert(inode.ino),
            false => orphans.remove(&inode.ino),
        };
    }

    fn reserve(&self, _core: &Core, bytes: u64) -> Result<()> {
        self.space.borrow_mut().promise(bytes)
    }

    fn unreserve(&self, _core: &Core, bytes: u64) {
        self.space.borrow_mut().unpromise(bytes);
    }

    fn inode_bytes(&self) -> u64 {
        // The tables have their room from the start.
        0
    }

    fn place(&self, core: &Core, inode: &Inode, lbn: Lbn, old: Ptr, len: u32) -> Ptr {
        let addr = match old.is_on_disk() {
            true => self.replace(core, inode, lbn, old, len),
            false => self.place_new(core, inode, lbn, len),
        };
        match addr {
            Some(addr) => Ptr { addr, len, crc: 0 },
            None => {
                // Promises are there to prevent this.
                core.poison(FsError::inconsistent("space that was promised is not there"));
                Ptr { addr: UNWRITTEN, len, crc: 0 }
            }
        }
    }

    fn recast(&self, core: &Core, inode: &Inode, lbn: Lbn, ptr: Ptr) -> Ptr {
        // In place, the cut content could be on the disk before the journal has the new length.
        let wanted = self.wanted(core, inode, lbn);
        let mut space = self.space.borrow_mut();
        if self.journal.is_none() || space.is_fresh(inode.ino, ptr.addr) {
            return ptr;
        }
        // On a full volume there may be no other place: cutting must go on all the same.
        let Some(addr) = space.take(&self.sb, &wanted, self.frags(ptr.len)) else { return ptr };
        space.free(&self.sb, inode.ino, Freed { addr: ptr.addr, frags: self.frags(ptr.len) });
        space.note_fresh(inode.ino, addr);
        space.unwritten.insert(inode.ino);
        drop(space);
        self.note_freed(ptr.addr);
        Ptr { addr, ..ptr }
    }

    fn free_block(&self, _core: &Core, inode: &Inode, ptr: Ptr, len: u32) {
        let mut space = self.space.borrow_mut();
        space.unpromise(len.into());
        if ptr.is_on_disk() {
            let freed = Freed { addr: ptr.addr, frags: self.frags(ptr.len) };
            space.free(&self.sb, inode.ino, freed);
            self.note_freed(ptr.addr);
        }
    }

    async fn settle(&self, core: &Rc<Core>, change: Change<'_>) -> Result<()> {
        self.settle_change(core, change).await
    }

    fn has_dirty(&self, core: &Core) -> bool {
        core.dirty_inode_count() > 0
            || core.cache.dirty_bytes() > 0
            || self.space.borrow().maps_dirty
    }

    async fn admit(&self, core: &Rc<Core>, bytes: u64, need: Need) -> Result<Permit> {
        let limit = core.settings.cache_bytes / 2;
        loop {
            core.check_writable()?;
            if core.cache.dirty_bytes() > limit {
                // More is dirty than write-back keeps up with: the writer helps.
                self.write_back_all(core).await?;
            } else if self.journal_is_pressed(core, bytes) {
                self.commit(core).await?;
            } else if need == Need::Grow && !self.has_room(bytes) && self.awaits_space() {
                self.release_pending(core, bytes).await?;
            } else {
                self.permitted.set(self.permitted.get() + bytes);
                return Ok(Permit { bytes, permitted: Rc::clone(&self.permitted) });
            }
        }
    }

    fn flush_state(&self, core: &Core) -> FlushState {
        let inodes = core.dirty_inode_count() as u64 * u64::from(self.sb.shape.inode_size);
        let dirty_bytes = core.cache.dirty_bytes() + inodes;
        let oldest = match self.has_dirty(core) {
            true => Some(self.oldest.get().unwrap_or(core.rt.now())),
            false => None,
        };
        self.oldest.set(oldest);
        FlushState {
            dirty_bytes,
            oldest,
            capacity_bytes: core.cache.capacity_bytes(),
            unit_bytes: self.cluster_bytes(core).max(1 << 20),
        }
    }

    async fn write_back(&self, core: &Rc<Core>, _until: Time) -> Result<()> {
        // As 4.4BSD's update daemon: all of it.
        self.write_back_all(core).await
    }

    async fn fsync(&self, core: &Rc<Core>, inode: &Rc<Inode>, data_only: bool) -> Result<()> {
        self.fsync_file(core, inode, data_only).await
    }

    async fn sync(&self, core: &Rc<Core>) -> Result<()> {
        self.sync_all(core).await
    }

    async fn close(&self, core: &Rc<Core>) -> Result<()> {
        self.close_volume(core).await
    }

    fn room(&self, _core: &Core) -> Room {
        self.space.borrow().room()
    }

    fn written(&self) -> Written {
        let stats = self.stats();
        Written {
            bytes: stats.data_bytes + stats.meta_bytes + stats.journal_bytes,
            data_bytes: stats.data_bytes,
            meta_bytes: stats.meta_bytes + stats.journal_bytes,
            batches: stats.commits,
            checkpoints: stats.checkpoints,
            ..Written::default()
        }
    }

    fn stat(&self, _core: &Core) -> VolumeStat {
        let unit = u64::from(self.sb.shape.frag_size);
        let space = self.space.borrow();
        let free_inodes = space.groups.iter().map(|g| u64::from(g.counts.free_inodes)).sum();
        VolumeStat {
            block_size: self.sb.shape.frag_size,
            io_size: self.sb.shape.block_size,
            blocks: space.limit / unit,
            free: space.limit.saturating_sub(space.used) / unit,
            inodes: self.sb.inodes(),
            free_inodes,
        }
    }
}

//! The layout seam, implemented: see [`twin_fs::Layout`].

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Origin;
use twin_fs::geometry::{Ptr, UNWRITTEN};
use twin_fs::{
    Change, Chosen, Core, Dirty, FsError, Ino, Inode, Layout, Need, Picked, Result, Room, SpaceMap,
    Told, VolumeStat, Written,
};
use twin_rt::Category;

use crate::admission::AdmissionGuard;
use crate::ffs::Ffs;
use crate::ordering::Wait;
use crate::space::Freed;

impl Ffs {
    fn frags(&self, len: u32) -> u32 {
        len / self.sb.geometry.frag_size
    }

    /// Finds a place for a block that has none.
    fn place_new(&self, core: &Core, inode: &Inode, lbn: Lbn, len: u32) -> Option<u64> {
        let frags = self.frags(len);
        let addr = match self.told.take(inode.ino, lbn, frags) {
            Some(addr) => addr,
            None => {
                let wanted = self.wanted(core, inode, lbn);
                self.alloc_mut().take(&self.sb, &wanted, frags)?
            }
        };
        let mut space = self.alloc_mut();
        space.note_fresh(inode.ino, addr);
        space.note_unwritten(inode.ino);
        if lbn < 0 && self.ordering.maps() == Wait::InOrder {
            self.new_maps.note(inode.ino);
        }
        Some(addr)
    }

    /// Finds a place for the last block of a file, which becomes longer or shorter.
    fn replace(&self, core: &Core, inode: &Inode, lbn: Lbn, old: Ptr, len: u32) -> Option<u64> {
        let (old_frags, frags) = (self.frags(old.len), self.frags(len));
        let wanted = self.wanted(core, inode, lbn);
        let mut space = self.alloc_mut();
        if frags > old_frags {
            space.note_unwritten(inode.ino);
            if self.told.grow(inode.ino, lbn, old.addr, frags) {
                return Some(old.addr);
            }
            let was_fresh = space.is_fresh(inode.ino, old.addr);
            let addr = space.grow(&self.sb, inode.ino, old, &wanted, frags)?;
            if addr != old.addr {
                self.note_freed(old.addr);
                // Directories follow their blocks anyway.
                if self.ordering.maps() == Wait::InOrder && !was_fresh && !inode.d.borrow().is_dir()
                {
                    self.moved.note(inode.ino);
                }
            }
            return Some(addr);
        }
        let fresh = space.is_fresh(inode.ino, old.addr);
        let freed = Freed { addr: old.addr + u64::from(frags), frags: old_frags - frags };
        space.free_part(&self.sb, inode.ino, freed, fresh);
        Some(old.addr)
    }

    /// Tells the journal that its contents for a place are void.
    fn note_freed(&self, addr: u64) {
        if let Some(journal) = &self.journal {
            journal.note_freed(addr, self.settings.planted());
        }
    }

    /// True if an operation that takes up to `bytes` will find its blocks.
    fn has_room(&self, bytes: u64) -> bool {
        self.alloc().has_room(bytes + self.admission.admitted_bytes())
    }

    /// True if waiting makes room, because freed space waits for a transaction that may be under
    /// way.
    fn awaits_space(&self) -> bool {
        let space = self.alloc();
        space.has_pending() || self.journal.is_some() && space.is_releasing()
    }

    /// Makes freed space safe to reuse.
    async fn release_pending(&self, core: &Rc<Core>, bytes: u64) -> Result<()> {
        self.count(|s| s.space_waits += 1);
        core.rt.log(Category::Admission, "waits", || {
            [("bytes", bytes), ("permitted_bytes", self.admission.admitted_bytes())]
        });
        match &self.journal {
            Some(_) => self.commit(core).await.map(|_| ()),
            None => self.write_pending_files(core).await,
        }
    }
}

impl Layout for Ffs {
    type AdmissionGuard = AdmissionGuard;

    async fn load_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>> {
        self.read_inode(core, ino).await
    }

    async fn pick_inode(&self, core: &Rc<Core>, near: Ino, mode: u32) -> Result<Picked> {
        self.pick(core, near, mode).await
    }

    fn unpick(&self, _core: &Core, picked: Picked) {
        self.unpick_number(picked.ino);
    }

    fn inode_created(&self, core: &Core, inode: &Rc<Inode>) {
        self.mark_inode_created(core, inode);
    }

    fn free_inode(&self, core: &Core, inode: &Rc<Inode>) {
        self.free_number_of(core, inode);
    }

    fn set_orphan(&self, _core: &Core, inode: &Inode, orphan: bool) {
        match orphan {
            true => self.orphans.insert(inode.ino),
            false => self.orphans.remove(inode.ino),
        }
    }

    fn reserve(&self, _core: &Core, bytes: u64) -> Result<()> {
        self.alloc_mut().reserve(bytes)
    }

    fn unreserve(&self, _core: &Core, bytes: u64) {
        self.alloc_mut().unreserve(bytes);
    }

    fn inode_bytes(&self) -> u64 {
        // The tables have their space from the start.
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
                // Reservations exist to prevent this.
                core.poison(FsError::inconsistent("space that was reserved is not there"));
                Ptr { addr: UNWRITTEN, len, crc: 0 }
            }
        }
    }

    fn relocate_tail(&self, core: &Core, inode: &Inode, lbn: Lbn, ptr: Ptr) -> Ptr {
        // In place, the cut content could reach the disk before the journal has the new length.
        let wanted = self.wanted(core, inode, lbn);
        let mut space = self.alloc_mut();
        if self.journal.is_none() || space.is_fresh(inode.ino, ptr.addr) {
            return ptr;
        }
        // A full volume may have no other place, but the truncation must succeed.
        let Some(addr) = space.take(&self.sb, &wanted, self.frags(ptr.len)) else { return ptr };
        space.free(&self.sb, inode.ino, Freed { addr: ptr.addr, frags: self.frags(ptr.len) });
        space.note_fresh(inode.ino, addr);
        space.note_unwritten(inode.ino);
        drop(space);
        self.note_freed(ptr.addr);
        Ptr { addr, ..ptr }
    }

    fn free_block(&self, _core: &Core, inode: &Inode, ptr: Ptr, len: u32) {
        let mut space = self.alloc_mut();
        space.unreserve(len.into());
        if ptr.is_on_disk() {
            let freed = Freed { addr: ptr.addr, frags: self.frags(ptr.len) };
            space.free(&self.sb, inode.ino, freed);
            self.note_freed(ptr.addr);
        }
    }

    async fn enforce_ordering(&self, core: &Rc<Core>, change: Change<'_>) -> Result<()> {
        self.order_change(core, change).await
    }

    fn has_dirty(&self, core: &Core) -> bool {
        core.dirty_inode_count() > 0 || core.cache.dirty_bytes() > 0 || self.alloc().maps_dirty()
    }

    async fn admit(&self, core: &Rc<Core>, bytes: u64, need: Need) -> Result<AdmissionGuard> {
        loop {
            core.check_writable()?;
            if self.journal_needs_commit(core, bytes) {
                self.commit(core).await?;
            } else if need == Need::Grow && !self.has_room(bytes) && self.awaits_space() {
                self.release_pending(core, bytes).await?;
            } else {
                return Ok(self.admission.admit(bytes));
            }
        }
    }

    fn dirty(&self, core: &Core) -> Dirty {
        let inodes = core.dirty_inode_count() as u64 * u64::from(self.sb.geometry.inode_size);
        Dirty {
            bytes: core.cache.dirty_bytes() + inodes,
            any: self.has_dirty(core),
            unit_bytes: self.cluster_bytes(core).max(1 << 20),
        }
    }

    async fn write_back(&self, core: &Rc<Core>) -> Result<()> {
        // As 4.4BSD's update daemon: all of it.
        self.write_back_all(core).await
    }

    async fn write_some(&self, core: &Rc<Core>, chosen: Vec<Chosen>) -> Result<()> {
        self.write_back_some(core, &chosen).await
    }

    async fn settle(&self, core: &Rc<Core>, durable: bool) -> Result<()> {
        self.writes.wait_all().await;
        match durable {
            true => self.writes.barrier(core, Origin::WriteBack).await,
            false => core.check_writable(),
        }
    }

    async fn before_replace(&self, core: &Rc<Core>, source: &Rc<Inode>) -> Result<()> {
        self.write_before_replace(core, source).await
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
        self.alloc().room()
    }

    fn written(&self) -> Written {
        let stats = self.stats();
        Written {
            bytes: stats.data_bytes + stats.meta_bytes + stats.journal_bytes,
            data_bytes: stats.data_bytes,
            new_data_bytes: stats.data_bytes,
            meta_bytes: stats.meta_bytes + stats.journal_bytes,
            batches: stats.commits,
            checkpoints: stats.checkpoints,
            ..Written::default()
        }
    }

    fn tell_places(&self, _core: &Core, told: Told<'_>) -> Result<()> {
        self.note_told(told)
    }

    fn space_map(&self, _core: &Core) -> SpaceMap {
        let space = self.alloc();
        let groups = space.free_by_group();
        let used = groups.map(|(free, all)| 1.0 - free as f64 / f64::from(all.max(1)));
        SpaceMap::settled("cylinder groups", used)
    }

    fn stat(&self, _core: &Core) -> VolumeStat {
        let unit = u64::from(self.sb.geometry.frag_size);
        let space = self.alloc();
        let (used, limit) = space.used_and_limit();
        VolumeStat {
            block_size: self.sb.geometry.frag_size,
            io_size: self.sb.geometry.block_size,
            blocks: limit / unit,
            free: limit.saturating_sub(used) / unit,
            inodes: self.sb.inodes(),
            free_inodes: space.free_inodes(),
        }
    }
}

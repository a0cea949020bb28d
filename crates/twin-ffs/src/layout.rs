//! The layout seam, implemented: see [`twin_fs::Layout`].

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Origin;
use twin_fs::geometry::{Ptr, UNWRITTEN};
use twin_fs::{
    AdmissionGuard, Answer, Change, Chosen, Core, Dirty, Figures, FsError, Ino, Inode, InodeEvent,
    Layout, Need, Picked, Result, Room, SpaceMap, SyncScope, UpdateOrder, Views, VolumeStat,
    Written,
};
use twin_rt::{BoxFuture, Category};

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
        let addr = match self.hints.take(inode.ino, lbn, frags) {
            Some(addr) => addr,
            None => {
                let wanted = self.wanted(core, inode, lbn);
                self.alloc_mut().take(&self.sb, &wanted, frags)?
            }
        };
        // What the inode itself held moves to a place where the disk does not have it yet.
        if lbn == 0 && self.ordering.maps() == Wait::InOrder && self.is_inline_on_disk(core, inode)
        {
            self.moved.note(inode.ino);
        }
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
            if self.hints.grow(inode.ino, lbn, old.addr, frags) {
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

    /// Admits an operation that need not wait; otherwise the reason why it must.
    fn admit_now(
        &self,
        core: &Core,
        bytes: u64,
        need: Need,
    ) -> Result<std::result::Result<AdmissionGuard, Lack>> {
        core.check_writable()?;
        if self.journal_needs_commit(core, bytes) {
            Ok(Err(Lack::Journal))
        } else if need == Need::Grow && !self.has_room(bytes) && self.awaits_space() {
            Ok(Err(Lack::Space))
        } else {
            Ok(Ok(self.admission.admit(bytes)))
        }
    }

    async fn admit_later(
        &self,
        core: &Rc<Core>,
        bytes: u64,
        need: Need,
        mut lack: Lack,
    ) -> Result<AdmissionGuard> {
        loop {
            match lack {
                Lack::Journal => drop(self.commit(core).await?),
                Lack::Space => self.release_pending(core, bytes).await?,
            }
            lack = match self.admit_now(core, bytes, need)? {
                Ok(admitted) => return Ok(admitted),
                Err(lack) => lack,
            };
        }
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

    fn stat(&self) -> VolumeStat {
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

/// Why an operation has to wait before it begins.
#[derive(Clone, Copy)]
enum Lack {
    /// So much metadata is dirty that the journal must take it first.
    Journal,
    /// Freed space must become safe to reuse.
    Space,
}

impl Layout for Ffs {
    fn load_inode<'a>(&'a self, core: &'a Rc<Core>, ino: Ino) -> BoxFuture<'a, Result<Rc<Inode>>> {
        Box::pin(self.read_inode(core, ino))
    }

    fn pick_inode<'a>(
        &'a self,
        core: &'a Rc<Core>,
        near: Ino,
        mode: u32,
    ) -> BoxFuture<'a, Result<Picked>> {
        Box::pin(self.pick(core, near, mode))
    }

    fn inode_event(&self, core: &Core, event: InodeEvent<'_>) {
        match event {
            InodeEvent::Unpicked(picked) => self.unpick_number(picked.ino),
            InodeEvent::Created(inode) => self.mark_inode_created(core, inode),
            InodeEvent::Orphaned(inode) => self.orphans.insert(inode.ino),
            InodeEvent::Adopted(inode) => self.orphans.remove(inode.ino),
            InodeEvent::Freed(inode) => self.free_number_of(core, inode),
        }
    }

    fn admit<'a>(
        &'a self,
        core: &'a Rc<Core>,
        bytes: u64,
        need: Need,
    ) -> Answer<'a, Result<AdmissionGuard>> {
        match self.admit_now(core, bytes, need) {
            Ok(Err(lack)) => Answer::later(self.admit_later(core, bytes, need, lack)),
            Ok(Ok(admitted)) => Answer::ready(Ok(admitted)),
            Err(error) => Answer::ready(Err(error)),
        }
    }

    fn reserve(&self, _core: &Core, bytes: u64) -> Result<()> {
        self.alloc_mut().reserve(bytes)
    }

    fn release(&self, core: &Core, bytes: u64) {
        let released = self.alloc_mut().unreserve(bytes);
        if let Err(error) = released {
            core.poison(error);
        }
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

    fn free_block(&self, core: &Core, inode: &Inode, ptr: Ptr, len: u32) {
        self.release(core, len.into());
        let mut space = self.alloc_mut();
        if ptr.is_on_disk() {
            let freed = Freed { addr: ptr.addr, frags: self.frags(ptr.len) };
            space.free(&self.sb, inode.ino, freed);
            self.note_freed(ptr.addr);
        }
    }

    fn dirty(&self, core: &Core) -> Dirty {
        let dirty_inodes = core.dirty_inode_count() as u64;
        let bytes =
            core.cache.dirty_bytes() + dirty_inodes * u64::from(self.sb.geometry.inode_size);
        let any = bytes > 0 || self.alloc().maps_dirty();
        let unit_bytes = self.cluster_bytes(core).max(1 << 20);
        Dirty { bytes, any, wakes_flusher: any, unit_bytes }
    }

    fn write_back<'a>(
        &'a self,
        core: &'a Rc<Core>,
        chosen: Option<Vec<Chosen>>,
    ) -> BoxFuture<'a, Result<()>> {
        match chosen {
            // As 4.4BSD's update daemon: all of it.
            None => Box::pin(self.write_back_all(core)),
            Some(chosen) => Box::pin(async move { self.write_back_some(core, &chosen).await }),
        }
    }

    fn drain<'a>(&'a self, core: &'a Rc<Core>, durable: bool) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.writes.wait_all().await;
            match durable {
                true => self.writes.barrier(core, Origin::WriteBack).await,
                false => core.check_writable(),
            }
        })
    }

    fn sync<'a>(&'a self, core: &'a Rc<Core>, scope: SyncScope<'a>) -> BoxFuture<'a, Result<()>> {
        match scope {
            SyncScope::File { inode, data_only } => {
                Box::pin(self.fsync_file(core, inode, data_only))
            }
            SyncScope::Volume => Box::pin(self.sync_all(core)),
            SyncScope::Checkpoint => Box::pin(async move {
                self.sync_all(core).await?;
                self.write_state(core, false).await
            }),
            SyncScope::Close => Box::pin(self.close_volume(core)),
        }
    }

    fn room(&self, _core: &Core) -> Room {
        self.alloc().room()
    }

    fn figures(&self, _core: &Core) -> Figures {
        Figures { stat: self.stat(), written: self.written() }
    }

    fn space_map(&self, _core: &Core) -> SpaceMap {
        let space = self.alloc();
        let groups = space.free_by_group();
        let used = groups.map(|(free, all)| 1.0 - free as f64 / f64::from(all.max(1)));
        SpaceMap::of("cylinder groups", used)
    }

    fn views(&self) -> Views<'_> {
        Views { order: Some(self), hints: Some(self), scrub: Some(self), ..Views::default() }
    }
}

impl UpdateOrder for Ffs {
    fn enforce<'a>(&'a self, core: &'a Rc<Core>, change: Change<'a>) -> Answer<'a, Result<()>> {
        Answer::later(self.order_change(core, change))
    }

    fn before_replace<'a>(
        &'a self,
        core: &'a Rc<Core>,
        source: &'a Rc<Inode>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.write_before_replace(core, source))
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
}

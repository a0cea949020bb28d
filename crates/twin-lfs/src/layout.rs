//! The implementation of [`twin_fs::Layout`].

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Io;
use twin_fs::geometry::{Ptr, UNWRITTEN};
use twin_fs::{
    Chosen, Core, Dirty, FsError, Ino, Inode, Layout, LogStatus, Need, Picked, Result, Room,
    SpaceMap, VolumeStat, Written,
};
use twin_rt::Category;

use crate::admission::{AdmissionGuard, AdmissionWait, LONGEST_WAIT_NS};
use crate::format::ImapEntry;
use crate::forwards::Holder;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;
use crate::pacing::PacedWriter;
use crate::segment_usage::Death;

impl Lfs {
    /// How long an operation waits for room, counted from now.
    fn admission_wait(&self) -> AdmissionWait {
        let live = self.usage.live_bytes();
        let segment = u64::from(self.sb.segment_size);
        match self.admission.refused_at() {
            Some(then) if live + segment / 2 > then => AdmissionWait::small(),
            _ => {
                self.admission.forget_refused();
                AdmissionWait::default()
            }
        }
    }

    /// True if an operation that makes this much dirty may begin now.
    fn may_begin(&self, core: &Core, bytes: u64, need: Need) -> bool {
        let kept = match need {
            Need::Grow => self.cleaner_reserve(),
            Need::Shrink => self.cleaner_reserve() - u64::from(self.sb.segment_size),
        };
        self.room_left(core) >= bytes + kept
    }
}

impl Layout for Lfs {
    type AdmissionGuard = AdmissionGuard;

    async fn load_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>> {
        self.read_inode(core, ino).await
    }

    async fn pick_inode(&self, core: &Rc<Core>, _near: Ino, _mode: u32) -> Result<Picked> {
        self.pick(core).await
    }

    fn unpick(&self, core: &Core, picked: Picked) {
        Lfs::unpick(self, core, picked);
    }

    fn inode_created(&self, core: &Core, inode: &Rc<Inode>) {
        let frame = self.numbers.take_picked(inode.ino);
        let Some(frame) = frame else { panic!("inode {} was not picked", inode.ino) };
        let generation = inode.d.borrow().generation;
        let entry = ImapEntry::Used { at: 0, crc: 0, generation, orphan: false };
        self.set_entry(core, &frame, inode.ino, entry);
        InodeState::of(inode).set_map_block(frame);
    }

    fn free_inode(&self, core: &Core, inode: &Rc<Inode>) {
        let anchor = InodeState::of(inode).take_map_block();
        let Some(anchor) = anchor else { panic!("inode {} has no map block", inode.ino) };
        let size = self.sb.geometry.inode_size;
        if let ImapEntry::Used { at, generation, .. } = self.entry_in(&anchor, inode.ino) {
            if at != 0 {
                self.usage.block_dies(at * u64::from(size), size, Death::Deleted);
            }
            self.numbers.note_freed(inode.ino, generation);
        }
        self.checkpoints.forget(inode.ino);
        self.forwards.drop_holder(inode.ino, Holder::Inode);
        let next = self.numbers.put_back(inode.ino);
        let generation = inode.d.borrow().generation.wrapping_add(1);
        self.set_entry(core, &anchor, inode.ino, ImapEntry::Free { next, generation });
        core.drop_inode(inode);
    }

    fn set_orphan(&self, core: &Core, inode: &Inode, orphan: bool) {
        let changed = self.numbers.set_orphan(inode.ino, orphan);
        let anchor = InodeState::of(inode).map_block();
        if let (true, Some(anchor)) = (changed, anchor)
            && let ImapEntry::Used { at, crc, generation, .. } = self.entry_in(&anchor, inode.ino)
        {
            let entry = ImapEntry::Used { at, crc, generation, orphan };
            self.set_entry(core, &anchor, inode.ino, entry);
        }
    }

    fn reserve(&self, _core: &Core, bytes: u64) -> Result<()> {
        self.reservations.reserve(bytes)
    }

    fn unreserve(&self, _core: &Core, bytes: u64) {
        self.reservations.release(bytes);
    }

    fn inode_bytes(&self) -> u64 {
        self.sb.geometry.inode_size.into()
    }

    fn place(&self, _core: &Core, _inode: &Inode, _lbn: Lbn, old: Ptr, len: u32) -> Ptr {
        match old.is_on_disk() {
            // The block gets its new place when it is written. Until then the old place is in use.
            true => old,
            false => Ptr { addr: UNWRITTEN, len, crc: 0 },
        }
    }

    fn relocate_tail(&self, _core: &Core, inode: &Inode, _lbn: Lbn, ptr: Ptr) -> Ptr {
        InodeState::of(inode).note_cut();
        ptr
    }

    fn free_block(&self, _core: &Core, _inode: &Inode, ptr: Ptr, len: u32) {
        self.reservations.release(len.into());
        if ptr.is_on_disk() {
            self.usage.block_dies(self.sb.geometry.byte_of(ptr.addr), ptr.len, Death::Deleted);
        }
    }

    async fn admit(&self, core: &Rc<Core>, bytes: u64, need: Need) -> Result<AdmissionGuard> {
        if bytes > self.reservations.limit() {
            // The cleaner can never gain that much room.
            return Err(FsError::NoSpace);
        }
        if self.settings.writers_wait && need == Need::Grow {
            self.wait_written(core, self.progress.last()).await?;
        }
        let mut admission_wait: Option<AdmissionWait> = None;
        let (mut waits_since, mut writer) = (None, PacedWriter::default());
        loop {
            core.check_writable()?;
            let has_room = self.may_begin(core, bytes, need);
            let keeps_pace =
                !has_room || need == Need::Shrink || self.keeps_pace(core, bytes, &mut writer);
            if !(has_room && keeps_pace) && waits_since.is_none() {
                waits_since = Some(core.rt.now());
                self.count(|stats| stats.space_waits += 1);
            }
            if !has_room {
                let admission_wait = admission_wait.get_or_insert_with(|| self.admission_wait());
                let keep_waiting = admission_wait.keep_waiting(
                    self.cleaner.rounds(),
                    self.admission.admitted(),
                    self.usage.log_room(),
                );
                let since = waits_since.unwrap_or(core.rt.now());
                if !keep_waiting || core.rt.now() - since > LONGEST_WAIT_NS {
                    self.admission.note_refused(self.usage.live_bytes());
                    return Err(FsError::NoSpace);
                }
                let _waits = self.admission.begin_waiting();
                self.cleaner.request();
                self.space.wait().await;
            } else if !keeps_pace {
                self.space.wait().await;
            } else {
                if let Some(since) = waits_since {
                    let waited = core.rt.now() - since;
                    core.rt.log(Category::Admission, "waited", || {
                        [("bytes", bytes), ("waited_ns", waited)]
                    });
                    self.count(|stats| {
                        stats.space_wait_ns += waited;
                        stats.longest_space_wait_ns = stats.longest_space_wait_ns.max(waited);
                    });
                }
                return Ok(self.admission.admit(bytes));
            }
        }
    }

    fn dirty(&self, core: &Core) -> Dirty {
        let inodes = core.dirty_inode_count() as u64 * u64::from(self.sb.geometry.inode_size);
        let blocks = core.cache.dirty_bytes().saturating_sub(self.checkpoints.deferred_bytes());
        let bytes = blocks + inodes;
        let any = bytes > 0 || self.numbers.any_freed();
        Dirty { bytes, any, unit_bytes: self.sb.segment_size.into() }
    }

    async fn write_back(&self, core: &Rc<Core>) -> Result<()> {
        // A log write takes everything dirty: see `build`.
        if self.checkpoint_due(core) {
            self.checkpoint(core, false).await
        } else {
            self.write_log(core).await
        }
    }

    async fn write_some(&self, core: &Rc<Core>, chosen: Vec<Chosen>) -> Result<()> {
        // A checkpoint takes everything, so it is made only when it must be.
        if self.checkpoint_needed(core) {
            self.checkpoint(core, false).await
        } else {
            self.write_files(core, &chosen).await
        }
    }

    async fn settle(&self, core: &Rc<Core>, durable: bool) -> Result<()> {
        let target = self.progress.last();
        self.wait_written(core, target).await?;
        match durable {
            true => self.flush_up_to(core, target).await,
            false => Ok(()),
        }
    }

    fn preserve(&self, core: &Rc<Core>) -> Option<Result<Vec<Io>>> {
        Some(self.log_in_memory(core))
    }

    /// A log write has names and data of one instant, except those of files that a flush policy writes
    /// alone.
    async fn before_replace(&self, core: &Rc<Core>, source: &Rc<Inode>) -> Result<()> {
        if !source.is_dirty() || !self.stands_alone(source) {
            return Ok(());
        }
        let chosen = [Chosen { inode: Rc::clone(source), blocks: None }];
        self.write_files(core, &chosen).await
    }

    async fn fsync(&self, core: &Rc<Core>, inode: &Rc<Inode>, _data_only: bool) -> Result<()> {
        if self.settings.lazy_fsync {
            return self.wait_written(core, self.progress.last()).await;
        }
        let written = InodeState::of(inode).written_in();
        if !inode.is_dirty() && written <= self.progress.durable() {
            return Ok(());
        }
        self.commit(core).await
    }

    async fn sync(&self, core: &Rc<Core>) -> Result<()> {
        self.commit(core).await
    }

    async fn close(&self, core: &Rc<Core>) -> Result<()> {
        // The cleaner must stop first: what it wrote after the last checkpoint would be found again
        // by roll-forward at the next start.
        self.cleaner.stop().await;
        self.checkpoint(core, true).await
    }

    fn room(&self, _core: &Core) -> Room {
        let limit_bytes = self.reservations.limit();
        Room { free_bytes: self.reservations.free(), limit_bytes }
    }

    fn written(&self) -> Written {
        let stats = self.stats();
        Written {
            bytes: stats.log_bytes,
            data_bytes: stats.data_bytes,
            meta_bytes: stats.meta_bytes,
            new_data_bytes: stats.new_data_bytes,
            moved_bytes: stats.moved_bytes,
            cleaner_read_bytes: stats.cleaner_read_bytes,
            cleaned_segments: stats.cleaned_segments,
            space_waits: stats.space_waits,
            batches: stats.log_writes,
            checkpoints: stats.checkpoints,
        }
    }

    fn segment_at(&self, byte: u64) -> Option<(u32, u64)> {
        let segment = self.sb.segment_of(byte)?;
        Some((segment, byte - self.sb.segment_start(segment)))
    }

    fn log_status(&self, core: &Core) -> Option<LogStatus> {
        Some(self.status(core))
    }

    fn space_map(&self, _core: &Core) -> SpaceMap {
        self.map_of_segments()
    }

    fn stat(&self, _core: &Core) -> VolumeStat {
        let unit = u64::from(self.sb.geometry.frag_size);
        let free = self.reservations.free();
        let inodes = self.imap_len();
        // Free numbers, and the numbers by which the map could grow into free space.
        let room = free / u64::from(self.sb.geometry.inode_size);
        VolumeStat {
            block_size: self.sb.geometry.frag_size,
            io_size: self.sb.geometry.block_size,
            blocks: self.reservations.limit() / unit,
            free: free / unit,
            inodes: inodes.saturating_sub(self.numbers.free()) + room,
            free_inodes: room,
        }
    }
}

//! The layout seam, implemented: see [`twin_fs::Layout`].

use std::rc::Rc;

use twin_cache::{FlushState, Lbn};
use twin_fs::shape::{Ptr, UNWRITTEN};
use twin_fs::{Core, FsError, Ino, Inode, Layout, Need, Picked, Result, Room, VolumeStat, Written};
use twin_rt::{Category, Time};

use crate::admission::{LONGEST_WAIT_NS, Patience, Permit};
use crate::format::ImapEntry;
use crate::forwards::Holder;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;
use crate::pacing::Turn;
use crate::segment_usage::Death;

impl Lfs {
    /// Bytes that the log must take if everything that is dirty now were written with a
    /// checkpoint.
    pub(crate) fn log_debt(&self, core: &Core) -> u64 {
        let inode = u64::from(self.sb.shape.inode_size.max(self.sb.shape.frag_size));
        let table = self.sb.usage_blocks() * u64::from(self.sb.shape.block_size);
        core.cache.dirty_bytes()
            + core.dirty_inode_count() as u64 * inode
            + self.checkpoints.deferred_count() as u64 * inode
            + table
    }

    /// How long an operation that begins to wait for room goes on waiting.
    fn patience(&self) -> Patience {
        let live = self.usage.live_bytes();
        let segment = u64::from(self.sb.segment_size);
        match self.admission.refused_at() {
            Some(then) if live + segment / 2 > then => Patience::small(),
            _ => {
                self.admission.forget_refused();
                Patience::default()
            }
        }
    }

    /// True if an operation that makes this much dirty may begin now.
    fn may_begin(&self, core: &Core, bytes: u64, need: Need) -> bool {
        let kept = match need {
            Need::Grow => self.kept_back(),
            Need::Shrink => self.kept_back() - u64::from(self.sb.segment_size),
        };
        self.room_left(core) >= bytes + kept
    }
}

impl Layout for Lfs {
    type Permit = Permit;

    async fn load_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>> {
        self.read_inode(core, ino).await
    }

    async fn pick_inode(&self, core: &Rc<Core>, _near: Ino, _mode: u32) -> Result<Picked> {
        self.pick(core).await
    }

    fn unpick(&self, core: &Core, picked: Picked) {
        Lfs::unpick(self, core, picked);
    }

    fn born(&self, core: &Core, inode: &Rc<Inode>) {
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
        let size = self.sb.shape.inode_size;
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
        self.sb.shape.inode_size.into()
    }

    fn place(&self, _core: &Core, _inode: &Inode, _lbn: Lbn, old: Ptr, len: u32) -> Ptr {
        match old.is_on_disk() {
            // It gets its new place when it is written; until then the old one counts.
            true => old,
            false => Ptr { addr: UNWRITTEN, len, crc: 0 },
        }
    }

    fn free_block(&self, _core: &Core, _inode: &Inode, ptr: Ptr, len: u32) {
        self.reservations.release(len.into());
        if ptr.is_on_disk() {
            self.usage.block_dies(self.sb.shape.byte_of(ptr.addr), ptr.len, Death::Deleted);
        }
    }

    async fn admit(&self, core: &Rc<Core>, bytes: u64, need: Need) -> Result<Permit> {
        if bytes > self.reservations.limit() {
            // No cleaning ever makes so much room.
            return Err(FsError::NoSpace);
        }
        if self.settings.writers_wait && need == Need::Grow {
            self.wait_written(core, self.progress.last()).await?;
        }
        let limit = core.settings.cache_bytes / 2;
        let mut patience: Option<Patience> = None;
        let (mut waits_since, mut turn) = (None, Turn::default());
        loop {
            core.check_writable()?;
            let has_room = self.may_begin(core, bytes, need);
            let keeps_pace =
                !has_room || need == Need::Shrink || self.keeps_pace(core, bytes, &mut turn);
            if !(has_room && keeps_pace) && waits_since.is_none() {
                waits_since = Some(core.rt.now());
                self.count(|stats| stats.space_waits += 1);
            }
            if !has_room {
                let patience = patience.get_or_insert_with(|| self.patience());
                let lasts = patience.lasts(
                    self.cleaner.rounds(),
                    self.admission.admitted(),
                    self.usage.log_room(),
                );
                let since = waits_since.unwrap_or(core.rt.now());
                if !lasts || core.rt.now() - since > LONGEST_WAIT_NS {
                    self.admission.note_refused(self.usage.live_bytes());
                    return Err(FsError::NoSpace);
                }
                let _waits = self.admission.wait_begins();
                self.cleaner.request();
                self.space.wait().await;
            } else if !keeps_pace {
                self.space.wait().await;
            } else if core.cache.dirty_bytes() > limit {
                // More is dirty than write-back keeps up with: the writer helps.
                let deferred = self.checkpoints.deferred_bytes() > limit / 2;
                if deferred {
                    self.checkpoint(core, false).await?
                } else {
                    self.write_log(core).await?
                }
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

    fn flush_state(&self, core: &Core) -> FlushState {
        let inodes = core.dirty_inode_count() as u64 * u64::from(self.sb.shape.inode_size);
        let blocks = core.cache.dirty_bytes().saturating_sub(self.checkpoints.deferred_bytes());
        let dirty_bytes = blocks + inodes;
        let any = dirty_bytes > 0 || self.numbers.any_freed();
        let oldest = self.see_dirty(any, core.rt.now());
        FlushState {
            dirty_bytes,
            oldest,
            capacity_bytes: core.cache.capacity_bytes(),
            unit_bytes: self.sb.segment_size.into(),
        }
    }

    async fn write_back(&self, core: &Rc<Core>, _until: Time) -> Result<()> {
        // A log write takes everything that is dirty: see `build`.
        if self.checkpoint_due(core) {
            self.checkpoint(core, false).await
        } else {
            self.write_log(core).await
        }
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
        // Whatever it wrote behind the last checkpoint would be found again at the next start.
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
            moved_bytes: stats.moved_bytes,
            cleaner_read_bytes: stats.cleaner_read_bytes,
            cleaned_segments: stats.cleaned_segments,
            batches: stats.groups,
            checkpoints: stats.checkpoints,
        }
    }

    fn segment_at(&self, byte: u64) -> Option<(u32, u64)> {
        let segment = self.sb.segment_of(byte)?;
        Some((segment, byte - self.sb.segment_start(segment)))
    }

    fn stat(&self, _core: &Core) -> VolumeStat {
        let unit = u64::from(self.sb.shape.frag_size);
        let free = self.reservations.free();
        let inodes = self.imap_len();
        // Free numbers, and those that the map could grow by in the free space.
        let room = free / u64::from(self.sb.shape.inode_size);
        VolumeStat {
            block_size: self.sb.shape.frag_size,
            io_size: self.sb.shape.block_size,
            blocks: self.reservations.limit() / unit,
            free: free / unit,
            inodes: inodes.saturating_sub(self.numbers.free()) + room,
            free_inodes: room,
        }
    }
}

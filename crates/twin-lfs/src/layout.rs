//! The implementation of [`twin_fs::Layout`].

use std::rc::Rc;

use twin_cache::Lbn;
use twin_fs::geometry::{Ptr, UNWRITTEN};
use twin_fs::{
    AdmissionGuard, Answer, Chosen, Core, Dirty, Figures, FsError, Ino, Inode, InodeEvent, Layout,
    Need, Picked, Result, Room, SpaceMap, SyncScope, UpdateOrder, Views, VolumeStat, Written,
};
use twin_fs::{GrowthView, SnapshotView};
use twin_rt::{BoxFuture, Category};

use crate::admission::{AdmissionWait, LONGEST_WAIT_NS};
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
            && (need == Need::Shrink || self.fits_beside_snapshots(bytes, core.cache.dirty_bytes()))
    }

    /// True if this many bytes can be changed beside what snapshots hold, and `waiting` that are dirty already: what
    /// replaces a block that a snapshot needs takes space like what is new. Without snapshots it takes none.
    fn fits_beside_snapshots(&self, bytes: u64, waiting: u64) -> bool {
        let held = self.usage.held_bytes();
        let more = self.admission.admitted_bytes() + waiting + bytes;
        held == 0 || self.reservations.used() + held + more <= self.reservations.limit()
    }

    /// Admits an operation for which there is room and whose turn it is; otherwise `Err` with what is
    /// missing.
    fn admit_now(
        &self,
        core: &Core,
        bytes: u64,
        need: Need,
        writer: &mut PacedWriter,
    ) -> Result<std::result::Result<AdmissionGuard, Lack>> {
        core.check_writable()?;
        if need == Need::Grow && !self.fits_beside_snapshots(bytes, 0) {
            // No cleaning gains what snapshots hold.
            return Err(FsError::NoSpace);
        }
        if !self.may_begin(core, bytes, need) {
            return Ok(Err(Lack::Room));
        }
        if need == Need::Grow && !self.keeps_pace(core, bytes, writer) {
            return Ok(Err(Lack::Pace));
        }
        Ok(Ok(self.admission.admit(bytes)))
    }

    /// Waits until an operation that was not admitted at once may begin.
    async fn admit_later(
        &self,
        core: &Rc<Core>,
        bytes: u64,
        need: Need,
        mut writer: PacedWriter,
        mut lack: Lack,
    ) -> Result<AdmissionGuard> {
        let since = core.rt.now();
        self.count(|stats| stats.space_waits += 1);
        let mut admission_wait: Option<AdmissionWait> = None;
        loop {
            if lack == Lack::Room {
                let admission_wait = admission_wait.get_or_insert_with(|| self.admission_wait());
                let keep_waiting = admission_wait.keep_waiting(
                    self.cleaner.rounds(),
                    self.admission.admitted(),
                    self.usage.log_room(),
                );
                let waited = core.rt.now() - since;
                if !keep_waiting || waited > LONGEST_WAIT_NS {
                    self.admission.note_refused(self.usage.live_bytes());
                    self.count(|stats| stats.cleaner.waits.add(waited));
                    return Err(FsError::NoSpace);
                }
                let _waits = self.admission.begin_waiting();
                self.cleaner.request();
                self.space.wait().await;
            } else {
                self.space.wait().await;
            }
            lack = match self.admit_now(core, bytes, need, &mut writer)? {
                Err(lack) => lack,
                Ok(admitted) => {
                    self.note_waited(core, bytes, core.rt.now() - since);
                    return Ok(admitted);
                }
            };
        }
    }

    fn note_waited(&self, core: &Core, bytes: u64, waited: u64) {
        core.rt.log(Category::Admission, "waited", || [("bytes", bytes), ("waited_ns", waited)]);
        self.count(|stats| stats.cleaner.waits.add(waited));
    }

    fn inode_created(&self, core: &Core, inode: &Rc<Inode>) {
        let frame = self.numbers.take_picked(inode.ino);
        let Some(frame) = frame else { panic!("inode {} was not picked", inode.ino) };
        let generation = inode.d.borrow().generation;
        let entry = ImapEntry::Used { at: 0, crc: 0, generation, orphan: false };
        self.ifile.set_entry(core, &frame, inode.ino, entry);
        InodeState::of(inode).set_map_block(frame);
    }

    fn free_inode(&self, core: &Core, inode: &Rc<Inode>) {
        let anchor = InodeState::of(inode).take_map_block();
        let Some(anchor) = anchor else { panic!("inode {} has no map block", inode.ino) };
        let size = self.sb.geometry.inode_size;
        if let ImapEntry::Used { at, generation, .. } = self.ifile.entry(&anchor, inode.ino) {
            if at != 0 {
                self.usage.inode_dies(at * u64::from(size), size, Death::Deleted);
            }
            self.numbers.note_freed(inode.ino, generation);
        }
        self.checkpoints.forget(inode.ino);
        self.forwards.drop_holder(inode.ino, Holder::Inode);
        let next = self.numbers.put_back(inode.ino);
        let generation = inode.d.borrow().generation.wrapping_add(1);
        self.ifile.set_entry(core, &anchor, inode.ino, ImapEntry::Free { next, generation });
        core.drop_inode(inode);
    }

    fn set_orphan(&self, core: &Core, inode: &Inode, orphan: bool) {
        let changed = self.numbers.set_orphan(inode.ino, orphan);
        let anchor = InodeState::of(inode).map_block();
        if let (true, Some(anchor)) = (changed, anchor)
            && let ImapEntry::Used { at, crc, generation, .. } =
                self.ifile.entry(&anchor, inode.ino)
        {
            let entry = ImapEntry::Used { at, crc, generation, orphan };
            self.ifile.set_entry(core, &anchor, inode.ino, entry);
        }
    }

    async fn fsync(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
        if self.settings.lazy_fsync {
            return self.wait_written(core, self.progress.last()).await;
        }
        let written = InodeState::of(inode).written_in();
        if !inode.is_dirty() && written <= self.progress.durable() {
            return Ok(());
        }
        self.commit(core).await?;
        self.checkpoint_if_overdue(core).await
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

    fn stat(&self) -> VolumeStat {
        let unit = u64::from(self.sb.geometry.frag_size);
        let free = self.reservations.free(self.usage.held_bytes());
        let inodes = self.ifile.map_len();
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

/// What an operation that is not admitted has to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// Clean segments, which the cleaner must gain.
    Room,
    /// Its turn among the writers, which go no faster than the cleaner.
    Pace,
}

impl Layout for Lfs {
    fn load_inode<'a>(&'a self, core: &'a Rc<Core>, ino: Ino) -> BoxFuture<'a, Result<Rc<Inode>>> {
        Box::pin(self.read_inode(core, ino))
    }

    fn pick_inode<'a>(
        &'a self,
        core: &'a Rc<Core>,
        _near: Ino,
        _mode: u32,
    ) -> BoxFuture<'a, Result<Picked>> {
        Box::pin(self.pick(core))
    }

    fn inode_event(&self, core: &Core, event: InodeEvent<'_>) {
        match event {
            InodeEvent::Unpicked(picked) => self.unpick(core, picked),
            InodeEvent::Created(inode) => self.inode_created(core, inode),
            InodeEvent::Orphaned(inode) => self.set_orphan(core, inode, true),
            InodeEvent::Adopted(inode) => self.set_orphan(core, inode, false),
            InodeEvent::Freed(inode) => self.free_inode(core, inode),
        }
    }

    fn admit<'a>(
        &'a self,
        core: &'a Rc<Core>,
        bytes: u64,
        need: Need,
    ) -> Answer<'a, Result<AdmissionGuard>> {
        if bytes > self.reservations.limit() {
            // The cleaner can never gain that much room.
            return Answer::ready(Err(FsError::NoSpace));
        }
        let mut writer = PacedWriter::default();
        if self.settings.writers_wait && need == Need::Grow {
            return Answer::later(async move {
                self.wait_written(core, self.progress.last()).await?;
                match self.admit_now(core, bytes, need, &mut writer)? {
                    Ok(admitted) => Ok(admitted),
                    Err(lack) => self.admit_later(core, bytes, need, writer, lack).await,
                }
            });
        }
        match self.admit_now(core, bytes, need, &mut writer) {
            Ok(Err(lack)) => Answer::later(self.admit_later(core, bytes, need, writer, lack)),
            Ok(Ok(admitted)) => Answer::ready(Ok(admitted)),
            Err(error) => Answer::ready(Err(error)),
        }
    }

    fn reserve(&self, _core: &Core, bytes: u64) -> Result<()> {
        self.reservations.reserve(bytes, self.usage.held_bytes())
    }

    fn release(&self, core: &Core, bytes: u64) {
        if let Err(error) = self.reservations.release(bytes) {
            core.poison(error);
        }
    }

    fn place(&self, _core: &Core, _inode: &Inode, _lbn: Lbn, old: Ptr, len: u32) -> Ptr {
        match old.is_on_disk() {
            // The block gets its new place when it is written. Until then the old place is in use.
            true => old,
            false => Ptr { addr: UNWRITTEN, len, crc: 0 },
        }
    }

    fn free_block(&self, core: &Core, _inode: &Inode, ptr: Ptr, len: u32) {
        self.release(core, len.into());
        if ptr.is_on_disk() {
            self.usage.block_dies(self.sb.geometry.byte_of(ptr.addr), ptr.len, Death::Deleted);
        }
    }

    fn dirty(&self, core: &Core) -> Dirty {
        let dirty_inodes = core.dirty_inode_count() as u64;
        let inodes = dirty_inodes * u64::from(self.sb.geometry.inode_size);
        let blocks = core.cache.dirty_bytes().saturating_sub(self.checkpoints.deferred_bytes());
        let bytes = blocks + inodes;
        let any = bytes > 0 || self.numbers.any_freed();
        let wakes_flusher = dirty_inodes > 0;
        Dirty { bytes, any, wakes_flusher, unit_bytes: self.sb.segment_size.into() }
    }

    fn write_back<'a>(
        &'a self,
        core: &'a Rc<Core>,
        chosen: Option<Vec<Chosen>>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            // A checkpoint takes everything, so it is made for chosen files only when it must be.
            let checkpoint = match &chosen {
                None => self.checkpoint_due(core),
                Some(_) => self.checkpoint_needed(core),
            };
            match chosen {
                _ if checkpoint => self.checkpoint(core, false).await,
                // A log write takes everything dirty: see `build`.
                None => self.write_log(core).await,
                Some(chosen) => self.write_files(core, &chosen).await,
            }
        })
    }

    fn drain<'a>(&'a self, core: &'a Rc<Core>, durable: bool) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let target = self.progress.last();
            self.wait_written(core, target).await?;
            match durable {
                true => self.flush_up_to(core, target).await,
                false => Ok(()),
            }
        })
    }

    fn sync<'a>(&'a self, core: &'a Rc<Core>, scope: SyncScope<'a>) -> BoxFuture<'a, Result<()>> {
        match scope {
            SyncScope::File { inode, .. } => Box::pin(self.fsync(core, inode)),
            SyncScope::Volume => Box::pin(self.commit(core)),
            SyncScope::Checkpoint => Box::pin(self.checkpoint(core, false)),
            SyncScope::Close => Box::pin(async move {
                // The cleaner must stop first: what it wrote after the last checkpoint would be
                // found again by roll-forward at the next start.
                self.cleaner.stop().await;
                self.checkpoint(core, true).await
            }),
        }
    }

    fn room(&self, _core: &Core) -> Room {
        let limit_bytes = self.reservations.limit();
        let free_bytes = self.reservations.free(self.usage.held_bytes());
        Room { free_bytes, limit_bytes }
    }

    fn figures(&self, _core: &Core) -> Figures {
        Figures { stat: self.stat(), written: self.written() }
    }

    fn space_map(&self, _core: &Core) -> SpaceMap {
        self.map_of_segments()
    }

    fn views(&self) -> Views<'_> {
        Views {
            order: Some(self),
            log: Some(self),
            scrub: Some(self),
            snapshots: self.snapshots.can_keep().then_some(self as &dyn SnapshotView),
            growth: self.snapshots.can_keep().then_some(self as &dyn GrowthView),
            ..Views::default()
        }
    }
}

impl UpdateOrder for Lfs {
    /// A log write has names and data of one instant, except those of files that a flush policy writes
    /// alone.
    fn before_replace<'a>(
        &'a self,
        core: &'a Rc<Core>,
        source: &'a Rc<Inode>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if !source.is_dirty() || !self.stands_alone(source) {
                return Ok(());
            }
            let chosen = [Chosen { inode: Rc::clone(source), blocks: None }];
            self.write_files(core, &chosen).await
        })
    }

    fn relocate_tail(&self, _core: &Core, inode: &Inode, _lbn: Lbn, ptr: Ptr) -> Ptr {
        InodeState::of(inode).note_cut();
        ptr
    }
}

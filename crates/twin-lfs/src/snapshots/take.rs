//! Making records of states, and deleting them.
//!
//! To keep the present state, two log writes are built in one step, so that nothing changes between them. The first
//! is that of a checkpoint: it has everything dirty and the ifile, whose inode goes into the record. The second has
//! the record, and the usage table with a pin more for each segment that was in use by the first. One checkpoint puts
//! both in force. After a power failure before it, roll-forward finds two log writes that change nothing, since it
//! computes the files of the layout and does not read them.

use std::rc::Rc;

use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::geometry::Ptr;
use twin_fs::{Core, FsError, Inode, Result};
use twin_rt::{MILLIS, Nanos};

use crate::commit::Whole;
use crate::format::{
    RecordKind, SNAPSHOTS_MAX, SegEntry, SnapshotRecord, SnapshotsFile, Superblock,
    is_snapshot_name,
};
use crate::lfs::Lfs;
use crate::open::read_table;
use crate::segment_usage::Death;

/// Segments that are cleaned at a time where a snapshot would hold too much garbage.
const CLEANED_AT_A_TIME: u64 = 16;
/// How often, and after which time, is looked whether a state is still being read before it is deleted.
const UNVIEWED_LOOKS: u32 = 20;
const UNVIEWED_NS: Nanos = 10 * MILLIS;
/// The least share of garbage of a segment that is cleaned then.
const WORTH: f64 = 1.0 / 16.0;

impl Lfs {
    /// Keeps the present state under a name.
    ///
    /// # Errors
    /// `Exists` if the name is taken, `NoSpace` if the garbage among what is live would leave too little room: it
    /// could not be cleaned while the snapshot exists.
    pub(crate) async fn keep_state(
        &self,
        core: &Rc<Core>,
        name: &str,
        kind: RecordKind,
    ) -> Result<()> {
        core.check_writable()?;
        self.check_new_name(name)?;
        self.clean_for_snapshot(core).await?;
        self.mark_superblock(core).await?;
        let _alone = self.checkpointing.write().await;
        core.check_writable()?;
        self.check_new_name(name)?;
        if !self.has_room_for_snapshot(core) {
            return Err(FsError::NoSpace);
        }
        if self.usage.most_pins() == u16::MAX {
            return Err(FsError::Invalid("there are as many snapshots as can be counted"));
        }
        let reserved = self.reserve_records(self.snapshots.content().records.len() + 1)?;
        let kept = self.keep_now(core, name, kind, reserved);
        // What was begun cannot be taken back.
        let written = kept.inspect_err(|error| core.poison(error.clone()))?;
        self.complete_checkpoint(core, written).await
    }

    /// The step in which the present state is kept.
    fn keep_now(
        &self,
        core: &Rc<Core>,
        name: &str,
        kind: RecordKind,
        reserved: u64,
    ) -> Result<Whole> {
        let (first, record) = self.write_state(core, name, kind)?;
        self.usage.pin(&self.usage.live_segments())?;
        let places = self.snapshots.file.ptrs(core);
        self.count_snapshots_file(&places);
        let mut content = self.snapshots.content().clone();
        content.next_id += 1;
        content.records.push(record);
        self.store_snapshots(core, content, reserved)?;
        self.usage.assert_held();
        let second = self.build_whole(core, true)?;
        let mut whole = self.describe_whole(core, second, false);
        whole.log_writes.insert(0, first);
        Ok(whole)
    }

    /// Builds the log write of a checkpoint without the snapshots' file, whose blocks count as dead afterwards, and
    /// the record of the state that is in it.
    pub(super) fn write_state(
        &self,
        core: &Rc<Core>,
        name: &str,
        kind: RecordKind,
    ) -> Result<(Option<crate::build::LogWrite>, SnapshotRecord)> {
        for (_, ptr) in self.snapshots.file.ptrs(core) {
            if ptr.is_on_disk() {
                self.usage.block_dies(
                    self.sb.geometry.byte_of(ptr.addr),
                    ptr.len,
                    Death::Rewritten,
                );
            }
        }
        let first = self.build_whole(core, false)?;
        let record = SnapshotRecord {
            name: name.into(),
            kind,
            id: self.snapshots.content().next_id,
            serial: self.position.serial(),
            time: core.rt.civil(),
            free_head: self.numbers.free_head(),
            free_inodes: self.numbers.free(),
            orphans: self.numbers.orphans().len() as u64,
            picked: self.numbers.picked().len() as u32,
            live_bytes: self.usage.live_bytes(),
            ifile: self.ifile.inode.d.borrow().clone(),
        };
        Ok((first, record))
    }

    /// The blocks of the snapshots' file count as live again.
    fn count_snapshots_file(&self, places: &[(twin_cache::Lbn, Ptr)]) {
        for (_, ptr) in places.iter().filter(|(_, ptr)| ptr.is_on_disk()) {
            let at = self.sb.geometry.byte_of(ptr.addr);
            // Their segment is as old as it was.
            self.usage.block_lives(at, ptr.len, twin_rt::Time(0), None);
        }
    }

    /// Makes a branch of a state that is kept already.
    ///
    /// # Errors
    /// `NotFound` if there is no such state, `Exists` if the name is taken.
    pub(crate) async fn branch_state(&self, core: &Rc<Core>, name: &str, from: &str) -> Result<()> {
        core.check_writable()?;
        let _alone = self.checkpointing.write().await;
        self.check_new_name(name)?;
        let record = self.snapshots.record(from)?;
        let segments = self.segments_of(core, &record).await?;
        core.check_writable()?;
        let mut content = self.snapshots.content().clone();
        let id = content.next_id;
        content.next_id += 1;
        content.records.push(SnapshotRecord {
            name: name.into(),
            kind: RecordKind::Branch,
            id,
            ..record
        });
        if self.usage.most_pins() == u16::MAX {
            return Err(FsError::Invalid("there are as many snapshots as can be counted"));
        }
        let reserved = self.reserve_records(content.records.len())?;
        let changed = (|| {
            self.usage.pin(&segments)?;
            self.store_and_describe(core, content, reserved)
        })();
        let written = changed.inspect_err(|error| core.poison(error.clone()))?;
        self.complete_checkpoint(core, written).await
    }

    /// Deletes records. What only they needed is clean when the call returns.
    ///
    /// # Errors
    /// `NotFound` if there is no such record, `Busy` if one is open; then none is deleted.
    pub(crate) async fn delete_states(&self, core: &Rc<Core>, names: &[String]) -> Result<()> {
        core.check_writable()?;
        for name in names {
            self.wait_unviewed(core, self.snapshots.record(name)?.id).await;
        }
        let _alone = self.checkpointing.write().await;
        let mut deleted = Vec::new();
        for name in names {
            let record = self.snapshots.record(name)?;
            let segments = self.segments_of(core, &record).await?;
            deleted.push((record, segments));
        }
        core.check_writable()?;
        if deleted.iter().any(|(record, _)| self.snapshots.is_viewed(record.id)) {
            return Err(FsError::Busy);
        }
        let changed = (|| {
            let mut content = self.snapshots.content().clone();
            for (record, segments) in &deleted {
                let Some(nth) = content.records.iter().position(|other| other.id == record.id)
                else {
                    continue;
                };
                content.records.swap_remove(nth);
                self.usage.unpin(segments)?;
            }
            self.store_and_describe(core, content, 0)
        })();
        let written = changed.inspect_err(|error| core.poison(error.clone()))?;
        self.complete_checkpoint(core, written).await
    }

    /// Waits a moment for what reads a state ahead although nobody reads it any more.
    async fn wait_unviewed(&self, core: &Core, id: u64) {
        for _ in 0..UNVIEWED_LOOKS {
            if !self.snapshots.is_viewed(id) {
                return;
            }
            core.rt.sleep(UNVIEWED_NS).await;
        }
    }

    /// Stores records in the step of the checkpoint that puts them in force.
    fn store_and_describe(
        &self,
        core: &Rc<Core>,
        content: SnapshotsFile,
        reserved: u64,
    ) -> Result<Whole> {
        self.store_snapshots(core, content, reserved)?;
        self.usage.assert_held();
        let log_write = self.build_whole(core, true)?;
        Ok(self.describe_whole(core, log_write, false))
    }

    /// The usage table of a kept state.
    pub(super) async fn table_of(
        &self,
        core: &Core,
        record: &SnapshotRecord,
    ) -> Result<Vec<SegEntry>> {
        let ifile = Inode::new(record.ifile.clone());
        ifile.frames.set_of_layout();
        let read = read_table(core, &self.sb, &ifile).await;
        core.cache.remove_range(&ifile.frames, i64::MIN..i64::MAX);
        let (entries, _) = read?;
        let live: u64 = entries.iter().map(|entry| u64::from(entry.live_bytes)).sum();
        if live != record.live_bytes {
            let what = format!("snapshot {:?} has a usage table of another state", record.name);
            return Err(FsError::inconsistent(what));
        }
        Ok(entries)
    }

    /// The segments that a kept state needs.
    async fn segments_of(&self, core: &Core, record: &SnapshotRecord) -> Result<Vec<u32>> {
        let table = self.table_of(core, record).await?;
        Ok((0..)
            .zip(table)
            .filter(|(_, entry)| entry.live_bytes > 0)
            .map(|(segment, _)| segment)
            .collect())
    }

    pub(super) fn check_new_name(&self, name: &str) -> Result<()> {
        if !is_snapshot_name(name) {
            return Err(FsError::Invalid(
                "a name of a snapshot has 1 to 128 bytes, no slash or control character, and begins with no hyphen",
            ));
        }
        let content = self.snapshots.content();
        if content.head == name || content.records.iter().any(|record| record.name == name) {
            return Err(FsError::Exists);
        }
        match content.records.len() < SNAPSHOTS_MAX {
            true => Ok(()),
            false => Err(FsError::Invalid("there are as many snapshots as a volume can have")),
        }
    }

    /// True if all that is in use now could be pinned: the garbage in it could not be had afterwards.
    pub(super) fn has_room_for_snapshot(&self, core: &Core) -> bool {
        let block = u64::from(self.sb.geometry.block_size);
        // Two log writes with the table; the record; their summaries; and each stream may change its segment.
        let table = 2 * self.sb.usage_blocks() * block;
        let written = self.pending_log_bytes(core) + table + 16 * block;
        // Each stream may begin a segment, all of which is held then.
        let begun = self.position.streams() as u64 * u64::from(self.sb.segment_size);
        let kept = self.reservations.used() + self.usage.held_if_all_pinned() + begun;
        kept + written <= self.reservations.limit()
            && self.room_left(core) >= written + self.cleaner_reserve()
    }

    /// Cleans until a snapshot would leave enough room, or nothing more is gained. A log that is not near its limit
    /// needs none.
    async fn clean_for_snapshot(&self, core: &Rc<Core>) -> Result<()> {
        let garbage = || self.usage.held_if_all_pinned();
        while !self.has_room_for_snapshot(core) {
            let before = garbage();
            let cleaned = self.clean(core, CLEANED_AT_A_TIME, WORTH).await?;
            if cleaned.segments == 0 || garbage() >= before {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Says in the superblock that there are snapshots, before there is one. A copy is written when the one before is
    /// durable, so that one of them is sound at any time. A scrub compares the copies under the same lock.
    async fn mark_superblock(&self, core: &Core) -> Result<()> {
        let _alone = self.checkpointing.write().await;
        if self.snapshots.marked.get() {
            return Ok(());
        }
        let raw = Block::Bytes(Buf::copy_of(&self.sb.with_snapshots().encode()).freeze());
        for at in Superblock::places(self.sb.size(), self.sb.copies).into_iter().rev() {
            let io = Io::write(at, vec![raw.clone()], Class::Meta, Origin::Checkpoint);
            core.device.submit(io).await?;
            core.device.submit(Io::flush(Origin::Checkpoint)).await?;
        }
        self.snapshots.marked.set(true);
        Ok(())
    }

    /// The superblock as it is on the device: the first snapshot of a volume changes it.
    pub(crate) fn stored_superblock(&self) -> Superblock {
        self.stored(&self.sb)
    }

    /// This superblock as it is stored once it is the volume's.
    pub(crate) fn stored(&self, sb: &Superblock) -> Superblock {
        if self.snapshots.marked.get() { sb.with_snapshots() } else { sb.clone() }
    }
}

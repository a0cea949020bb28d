//! Writes a repair to the device.
//!
//! Contract: the repaired volume is known in memory: its inodes and their places, the changes over
//! them, and which places are in use. From this a new log is begun, with a new ifile and with
//! streams that fill segments in which neither the repaired volume nor the damaged one has
//! anything. Files stay in their places. The first checkpoint puts all of it in force. After a
//! power failure before that checkpoint, the old checkpoint and everything that it leads to are
//! unchanged, so the repair can begin again and comes to the same result.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_check::{FindingKind, NumberState, Report, Walk};
use twin_disk::{Block, BlockDevice, Buf, Bytes, Origin};
use twin_fs::dinode::Dinode;
use twin_fs::geometry::Ptr;
use twin_fs::quota::QuotaNote;
use twin_fs::{
    Core, Cpu, FsError, Ino, Inode, ROOT_INO, Result, Settings, VolumeOf, dirty_parents,
};
use twin_rt::Rt;

use super::image::LfsImage;
use super::map_entry::MapEntry;
use crate::format::{
    Checkpoint, HeadPos, IFILE_INO, IMAP_ENTRY_BYTES, ImapEntry, Profile, SEG_ENTRY_BYTES,
    SegEntry, Superblock,
};
use crate::forwards::load_forwards;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;
use crate::open::{core, new_ifile, write_superblocks};
use crate::segment_usage::SegmentTable;
use crate::settings::LfsSettings;

/// Segments that each stream needs beyond the bytes written: the one that it fills, and the next.
const SEGMENTS_A_STREAM: u64 = 2;

/// Writes all copies of the superblock again if one of them was wrong.
pub(super) async fn superblocks(
    device: &dyn BlockDevice,
    sb: &Superblock,
    report: &Report,
) -> Result<()> {
    match report.has(FindingKind::Superblock) {
        true => write_superblocks(device, sb).await,
        false => Ok(()),
    }
}

/// Writes the repaired volume. `closes` says that the volume counts as closed afterwards.
pub(super) async fn rebuild(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    image: &mut LfsImage,
    newest: Option<Checkpoint>,
    closes: bool,
) -> Result<()> {
    let sb = image.view.sb.clone();
    let core = core(rt, device, Cpu::none(), &sb, Settings::default())?;
    // The next start counts what quotas are used.
    let quotas = newest.as_ref().map_or(QuotaNote::Uncounted, |newest| newest.quotas.outdated());
    core.quotas.set_note(quotas);
    let entries = image.segment_entries();
    let mut table = SegmentTable::new(&sb, entries.clone());
    for segment in image.segments_found_in_use() {
        table.set_open(segment);
        table.set_used(segment);
    }
    let heads = image.streams(&mut table)?;
    let (free_head, free_inodes) = image.link_free_numbers();
    let ifile = new_ifile(&sb, core.now());
    let first = Checkpoint {
        number: newest.as_ref().map_or(0, |newest| newest.number),
        serial: 1,
        time: rt.now(),
        closed: false,
        free_head,
        free_inodes,
        orphans: 0,
        heads,
        picked: Vec::new(),
        ifile: ifile.d.borrow().clone(),
        snapshots: None,
        quotas: QuotaNote::None,
    };
    // No log write may defer blocks to a checkpoint: the only one comes at the end.
    let settings =
        LfsSettings { background_cleaning: false, eager_indirect: true, ..LfsSettings::default() };
    let lfs = Lfs::assemble(sb.clone(), settings, ifile, &first, table, &core)?;
    let serial = image.view.log_state.serial;
    lfs.skip_serials(&core, if serial == u64::MAX { image.last_serial().await } else { serial });
    load_forwards(&*core.device, &sb, entries.iter().copied(), serial, &lfs.forwards).await?;
    fill_ifile(&lfs, &core, &entries, &image.map);
    let unwritten = lfs.ifile.inode.d.borrow().allocated + image.unwritten_bytes();
    lfs.reservations.set_used(lfs.usage.live_bytes() + unwritten);
    let content = image.snapshots.content.clone();
    let reserved = match content.is_default() {
        true => 0,
        false => lfs.reserve_records(content.records.len())?,
    };
    lfs.store_snapshots(&core, content, reserved)?;
    let volume = VolumeOf::new(Rc::clone(&core), lfs)?;
    let writer = Writer { volume: &volume, image };
    writer.write_changes().await?;
    writer.move_segments().await?;
    // A second checkpoint replaces the older slot, so that no slot leads to the damaged volume.
    volume.layout.checkpoint(&core, false).await?;
    match closes {
        true => volume.close().await,
        false => volume.layout.checkpoint(&core, false).await,
    }
}

/// Opens the volume, gives inodes without a name one in `lost+found` through the volume's own code,
/// and closes it. Gives how many got a name.
pub(super) async fn reconnect_lost(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    lost: BTreeSet<Ino>,
) -> Result<u64> {
    let opening =
        Lfs::open(rt, device, Cpu::none(), Settings::default(), LfsSettings::default()).await;
    let (volume, _) = opening?;
    let adopted = volume.reconnect_all(lost, true).await;
    volume.close().await?;
    adopted
}

/// Fills the ifile: every block of the usage table and of the inode map.
fn fill_ifile(lfs: &Lfs, core: &Core, entries: &[SegEntry], map: &[MapEntry]) {
    let block = lfs.sb.geometry.block_size as usize;
    let mut blocks = entries.chunks(block / SEG_ENTRY_BYTES).map(|entries| {
        let mut buf = Buf::zeroed(block);
        for (raw, entry) in buf.chunks_exact_mut(SEG_ENTRY_BYTES).zip(entries) {
            entry.encode(raw);
        }
        buf
    });
    for nth in 0..lfs.sb.usage_blocks() {
        let content = blocks.next().unwrap_or_else(|| Buf::zeroed(block));
        let content = Block::Bytes(content.freeze());
        let frame = match lfs.sb.table_lbn(nth) {
            lbn if lbn == nth => lfs.ifile.append(core, lbn, content),
            lbn => lfs.ifile.add(core, lbn, content),
        };
        lfs.ifile.pin([frame]);
    }
    for (lbn, entries) in (lfs.sb.first_table_blocks()..).zip(map.chunks(block / IMAP_ENTRY_BYTES))
    {
        let mut buf = Buf::zeroed(block);
        for (raw, entry) in buf.chunks_exact_mut(IMAP_ENTRY_BYTES).zip(entries) {
            entry.on_device().encode(raw);
        }
        lfs.ifile.append(core, lbn, Block::Bytes(buf.freeze()));
    }
}

impl MapEntry {
    /// The entry in the form of the inode map. A repair leaves no inode marked as unfinished.
    fn on_device(&self) -> ImapEntry {
        let MapEntry { at, crc, generation, next, .. } = *self;
        match self.state {
            NumberState::Used => ImapEntry::Used { at, crc, generation, orphan: false },
            _ => ImapEntry::Free { next, generation },
        }
    }
}

impl LfsImage {
    /// The usage table as counted, without the blocks of the old ifile, which a new one replaces.
    fn segment_entries(&self) -> Vec<SegEntry> {
        let entries = self.table.iter().zip(0..);
        let entries = entries.map(|(entry, segment)| {
            let ifile = self.ifile_bytes.get(&segment).copied().unwrap_or(0);
            let live_bytes = self.claims.segment(segment).live_bytes as u32 - ifile;
            // If a part of the ifile is lost, the flags of the table may be lost as well.
            let forwards = entry.forwards || self.lost.is_some();
            let pins = self.snapshots.pins.get(&segment).copied().unwrap_or(0);
            SegEntry { live_bytes, forwards: forwards && live_bytes > 0, pins, ..*entry }
        });
        entries.collect()
    }

    /// Segments that the damaged volume needs: after a crash it is in force again.
    fn segments_found_in_use(&self) -> BTreeSet<u32> {
        let log_state = &self.view.log_state;
        let live = |&segment: &u32| {
            let entry = &self.table[segment as usize];
            entry.live_bytes > 0 || entry.pins > 0
        };
        let mut found: BTreeSet<u32> = (0..self.view.sb.segments()).filter(live).collect();
        found.extend(self.ifile_bytes.keys());
        let heads = log_state.heads.iter().flat_map(|head| [head.segment, head.next]);
        found.extend(heads.filter(|&segment| segment < self.view.sb.segments()));
        found.extend(&log_state.log_segments);
        found
    }

    /// Chooses clean segments for all streams of the log.
    fn streams(&self, table: &mut SegmentTable) -> Result<Vec<HeadPos>> {
        let sb = &self.view.sb;
        let mut streams = match self.view.log_state.heads.len() as u64 {
            0 if sb.profile == Profile::Classic => 1,
            0 => 2,
            streams => streams,
        };
        let usage = sb.usage_blocks() * u64::from(sb.geometry.block_size);
        let map = (self.map.len() * IMAP_ENTRY_BYTES) as u64;
        let moved = self.moves.len() as u64 * u64::from(sb.segment_size);
        let bytes = usage + map + self.changed_bytes() + moved;
        let written = bytes.div_ceil(u64::from(sb.segment_size));
        let clean = u64::from(table.clean_count());
        if clean < written + streams * SEGMENTS_A_STREAM {
            streams = 1;
        }
        let needed = written + streams * SEGMENTS_A_STREAM;
        if clean < needed {
            return Err(FsError::inconsistent(format!(
                "a repair writes to clean segments, and needs {needed} where there are {clean}: \
                 copy the volume to a larger device and repair the copy"
            )));
        }
        let mut heads = Vec::new();
        for stream in 0..streams {
            let from = (u64::from(sb.segments()) * stream / streams) as u32;
            let (Some(segment), Some(next)) = (table.take_clean(from), table.take_clean(from))
            else {
                return Err(FsError::NoSpace);
            };
            heads.push(HeadPos { segment, offset: 0, next });
        }
        Ok(heads)
    }

    /// Links all free numbers into an ascending list. Gives the first one and their number.
    fn link_free_numbers(&mut self) -> (Ino, u64) {
        let (mut head, mut count) = (0, 0);
        for (ino, entry) in self.map.iter_mut().enumerate().rev() {
            if entry.state == NumberState::Used {
                continue;
            }
            (entry.state, entry.next) = (NumberState::Free, 0);
            if ino as Ino > ROOT_INO {
                entry.next = std::mem::replace(&mut head, ino as Ino);
                count += 1;
            }
        }
        (head, count)
    }

    /// Removes blocks of files that do not match their checksums, and unreadable blocks in segments
    /// whose live blocks must move. Gives true if there were any.
    pub(super) async fn cut_unreadable(&mut self, report: &mut Report) -> Result<bool> {
        let mut cuts: BTreeMap<Ino, Vec<Lbn>> = BTreeMap::new();
        for (ino, lbn) in std::mem::take(&mut self.rotten) {
            // The summary that named the block may itself be wrong.
            let Ok(found) = self.inode(ino).await else { continue };
            let ptr = self.view.ptr(&found.d, lbn).await?;
            if ptr.is_on_disk() && self.view.block(ino, lbn, ptr).await.is_err() {
                cuts.entry(ino).or_default().push(lbn);
            }
        }
        if !self.moves.is_empty() {
            for ino in ROOT_INO..self.map.len() as Ino {
                if let Ok(found) = self.inode(ino).await {
                    let unreadable = self.unreadable(&found.d).await?;
                    cuts.entry(ino).or_default().extend(unreadable);
                }
            }
        }
        cuts.retain(|_, lbns| !lbns.is_empty());
        for (&ino, lbns) in &cuts {
            if let Ok(found) = self.inode(ino).await {
                twin_check::cut(self, found.d, lbns.clone(), report).await?;
            }
        }
        Ok(!cuts.is_empty())
    }

    /// The data blocks of a file that would have to move and cannot be read.
    async fn unreadable(&self, d: &Dinode) -> Result<Vec<Lbn>> {
        let mut found = Vec::new();
        let mut walk = Walk::new(d);
        while let Some(step) = walk.next(&self.view.sb.geometry) {
            let place = lies_at(step.ptr, &self.view.sb);
            let segment = place.and_then(|byte| self.view.sb.segment_of(byte));
            if step.lbn < 0 {
                walk.descend(step, self.view.indirect(d.ino, step.lbn, step.ptr).await?);
            } else if segment.is_some_and(|segment| self.moves.contains(&segment))
                && self.view.block(d.ino, step.lbn, step.ptr).await.is_err()
            {
                found.push(step.lbn);
            }
        }
        Ok(found)
    }

    /// The highest serial number of the log.
    async fn last_serial(&self) -> u64 {
        let sb = &self.view.sb;
        let mut last = 1;
        for segment in 0..sb.segments() {
            let mut parts = crate::partial_segments::PartialSegments::of(sb, segment);
            while let Ok(Some(part)) = parts.next(sb, &self.view).await {
                last = last.max(part.summary.header.serial);
            }
        }
        last
    }

    /// An upper bound for the bytes of all changes.
    fn changed_bytes(&self) -> u64 {
        let geometry = &self.view.sb.geometry;
        let log_state = &self.view.log_state;
        log_state.blocks().count() as u64 * u64::from(geometry.block_size)
            + log_state.inodes().count() as u64 * u64::from(geometry.block_size)
    }

    /// An upper bound for the bytes of blocks and inodes without a place.
    fn unwritten_bytes(&self) -> u64 {
        let inode_size = u64::from(self.view.sb.geometry.inode_size);
        let new = self.view.log_state.inodes().filter(|d| self.byte_of_inode(d.ino) == 0);
        let new = new.map(|d| d.allocated + inode_size).sum::<u64>();
        let blocks = self.view.log_state.blocks().count() as u64;
        new + blocks * u64::from(self.view.sb.geometry.block_size)
    }
}

/// Loads the changes of a repair into the memory of the new volume.
struct Writer<'a> {
    volume: &'a VolumeOf<Lfs>,
    image: &'a LfsImage,
}

impl Writer<'_> {
    fn core(&self) -> &Rc<Core> {
        self.volume.core()
    }

    /// Loads all inodes and blocks that the repair has changed.
    async fn write_changes(&self) -> Result<()> {
        let log_state = &self.image.view.log_state;
        let mut inos: BTreeSet<Ino> = log_state.inodes().map(|d| d.ino).collect();
        inos.extend(log_state.blocks().map(|(ino, ..)| ino));
        inos.remove(&IFILE_INO);
        for ino in inos {
            // An inode that was freed has no blocks to load.
            let Ok(found) = self.image.inode(ino).await else { continue };
            let inode = self.inode(found.d).await?;
            self.core().mark_inode_dirty(&inode);
            for (of, lbn, content) in log_state.blocks() {
                if of == ino {
                    self.put_block(&inode, lbn, content).await?;
                }
            }
            self.write_some().await?;
        }
        Ok(())
    }

    /// Loads an inode into the volume's memory.
    async fn inode(&self, d: Dinode) -> Result<Rc<Inode>> {
        if let Some(inode) = self.core().cached_inode(d.ino) {
            return Ok(inode);
        }
        let map_block = self.volume.layout.ifile.map_block(self.core(), d.ino).await?;
        let inode = Inode::new(d);
        InodeState::of(&inode).set_map_block(map_block);
        Ok(self.core().add_inode(inode))
    }

    async fn put_block(&self, inode: &Rc<Inode>, lbn: Lbn, content: &Bytes) -> Result<()> {
        let mut whole = content.to_vec();
        whole.resize(self.core().geometry.block_size as usize, 0);
        let whole = Block::Bytes(Bytes::copy_of(&whole));
        let frame = match self.core().cache.peek(&inode.frames, lbn) {
            Some(frame) => {
                frame.change(|block| *block = whole);
                frame
            }
            None => self.core().cache.insert(&inode.frames, lbn, Some(whole)),
        };
        self.dirty_block(inode, &frame).await
    }

    async fn dirty_block(&self, inode: &Rc<Inode>, frame: &Rc<Frame>) -> Result<()> {
        let mut pinned = Vec::new();
        self.core().pin_parents(inode, frame.lbn(), &mut pinned).await?;
        self.core().cache.mark_dirty(&inode.frames, frame);
        dirty_parents(self.core(), inode, frame.lbn());
        Ok(())
    }

    /// Moves live blocks out of segments with wrong summaries. The cleaner finds blocks through
    /// summaries, so it could not move them later.
    async fn move_segments(&self) -> Result<()> {
        if self.image.moves.is_empty() {
            return Ok(());
        }
        for ino in ROOT_INO..self.image.map.len() as Ino {
            if let Ok(found) = self.image.inode(ino).await {
                self.move_file(found.at, found.d).await?;
                self.write_some().await?;
            }
        }
        Ok(())
    }

    async fn move_file(&self, at: u64, d: Dinode) -> Result<()> {
        let view = &self.image.view;
        let must_move = |byte: u64| {
            let segment = view.sb.segment_of(byte);
            segment.is_some_and(|segment| self.image.moves.contains(&segment))
        };
        if at != 0 && must_move(at) {
            let inode = self.inode(d.clone()).await?;
            self.core().mark_inode_dirty(&inode);
        }
        let mut walk = Walk::new(&d);
        while let Some(step) = walk.next(&view.sb.geometry) {
            if lies_at(step.ptr, &view.sb).is_some_and(must_move) {
                let inode = self.inode(d.clone()).await?;
                if let Some(frame) = self.core().block(&inode, step.lbn, Origin::Recovery).await? {
                    self.dirty_block(&inode, &frame).await?;
                }
            }
            if step.lbn < 0 {
                walk.descend(step, view.indirect(d.ino, step.lbn, step.ptr).await?);
            }
        }
        Ok(())
    }

    /// Writes dirty blocks to the log when there are many, to bound memory. They are not in force
    /// before the checkpoint.
    async fn write_some(&self) -> Result<()> {
        let core = self.core();
        match core.cache.dirty_bytes() > core.settings.cache_bytes / 4 {
            true => self.volume.layout.commit(core).await,
            false => Ok(()),
        }
    }
}

fn lies_at(ptr: Ptr, sb: &Superblock) -> Option<u64> {
    ptr.is_on_disk().then(|| sb.geometry.byte_of(ptr.addr))
}

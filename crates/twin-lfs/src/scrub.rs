//! What a scrub looks at in a log, beside the blocks of files: the ifile, the records of snapshots, inodes, superblocks, checkpoints,
//! and the summaries of segments that hold something live.
//!
//! Contract: nothing is changed. An inode is held against the checksum in the inode map. A summary is sound
//! by itself; besides, the summaries of a segment must name everything in it that was seen live, and
//! the content of such a block must match its entry, because a summary of the segment's earlier life is
//! sound too. In the classic profile the checksum of a partial segment is the only one that file data
//! has, so all of it is read. Segments that were begun after the scrub are left out: they have just been
//! written, and what was seen live may have been there before.

use std::rc::Rc;

use twin_disk::{Block, Class, Io, Origin, gather};
use twin_fs::{
    Core, Flaw, FsError, Ino, Inode, Layout, Result, ScrubNotes, ScrubView, ScrubbedInodes,
};
use twin_rt::BoxFuture;

use crate::format::{
    BlockContents, CHECKPOINT_BYTES, Checkpoint, IFILE_INO, ImapEntry, PlacedBlock, Profile,
    SUPERBLOCK_BYTES, Summary, Superblock,
};
use crate::lfs::Lfs;
use crate::partial_segments::{FromDevice, PartialSegment, PartialSegments};

/// Inode numbers that a step looks at.
const NUMBERS_AT_ONCE: u64 = 128;
/// Inodes with smaller gaps between them than this are read with one request, in bytes.
const GAP_MAX: u64 = 16 << 10;
/// The largest request, in bytes.
const RUN_MAX: u64 = 128 << 10;
/// How often an inode is looked at that does not come to rest.
const LOOKS: usize = 4;
/// The structures before the segments: superblocks, checkpoints.
const BEFORE_SEGMENTS: u64 = 2;

/// The place of an inode as the map has it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// First byte on the device.
    byte: u64,
    crc: u32,
    generation: u32,
}

impl Lfs {
    /// Reads bytes of the device, whatever its sectors are. Gives the blocks, as they were written, and how
    /// many bytes of them are too much at the beginning.
    async fn read_blocks(
        &self,
        core: &Core,
        at: u64,
        len: u64,
        notes: &ScrubNotes,
    ) -> Result<(Vec<Block>, usize)> {
        let sector = u64::from(core.info.sector);
        let start = at / sector * sector;
        let end = (at + len).next_multiple_of(sector);
        let _pass = core.reads.enter();
        let io = Io::read(start, end - start, Class::Mixed, Origin::Recovery);
        let blocks = core.device.submit(io).await;
        notes.count_read(end - start);
        Ok((blocks?, (at - start) as usize))
    }

    /// The same as one block.
    async fn read_past_cache(
        &self,
        core: &Core,
        at: u64,
        len: u64,
        notes: &ScrubNotes,
    ) -> Result<Block> {
        let (blocks, before) = self.read_blocks(core, at, len, notes).await?;
        Ok(gather(&blocks, before, len as usize))
    }

    /// Where the map says that an inode is; `None` if the number is free or the inode was never written.
    async fn place_of(&self, core: &Core, ino: Ino) -> Result<Option<Entry>> {
        let block = self.ifile.map_block(core, ino).await?;
        Ok(match self.ifile.entry(&block, ino) {
            ImapEntry::Used { at, crc, generation, .. } if at != 0 => {
                let byte = at.saturating_mul(self.sb.geometry.inode_size.into());
                Some(Entry { byte, crc, generation })
            }
            _ => None,
        })
    }

    /// What is wrong with an inode at its place.
    fn wrong_inode(&self, core: &Core, ino: Ino, entry: &Entry, raw: &[u8]) -> Option<String> {
        if self.sb.geometry.has_checksums() && crc32c::crc32c(raw) != entry.crc {
            return Some("the inode does not match the checksum in the inode map".into());
        }
        match twin_fs::dinode::Dinode::decode(&self.sb.geometry, raw, core.frags()) {
            Err(what) => Some(format!("the inode: {what}")),
            Ok(d) if (d.ino, d.generation) != (ino, entry.generation) => {
                Some(format!("there is inode {} in life {} instead", d.ino, d.generation))
            }
            Ok(_) => None,
        }
    }

    async fn scrub_numbers(
        &self,
        core: &Rc<Core>,
        first: Ino,
        notes: &ScrubNotes,
    ) -> Result<ScrubbedInodes> {
        let first = first.max(IFILE_INO + 1);
        let per_block = self.ifile.numbers_per_block();
        let block_end = (first / per_block + 1) * per_block;
        let next = (first + NUMBERS_AT_ONCE).min(block_end);
        let mut places = Vec::new();
        let mut in_use = Vec::new();
        for ino in first..next.min(self.ifile.map_len()) {
            match self.place_of(core, ino).await {
                Ok(Some(entry)) => places.push((entry, ino)),
                Ok(None) if core.cached_inode(ino).is_some() => in_use.push(ino),
                Ok(None) => {}
                // The walk over the ifile has reported the block of the map.
                Err(error) if error.is_damage() => {
                    return Ok(ScrubbedInodes { in_use, next: block_end });
                }
                Err(error) => return Err(error),
            }
        }
        places.sort_by_key(|(entry, _)| entry.byte);
        let size = u64::from(self.sb.geometry.inode_size);
        let mut rest = &places[..];
        while let Some(&(Entry { byte: start, .. }, _)) = rest.first() {
            let near = |pair: &[(Entry, Ino)]| {
                pair[1].0.byte <= pair[0].0.byte.saturating_add(size + GAP_MAX)
                    && pair[1].0.byte.saturating_add(size) - start <= RUN_MAX
            };
            let count = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
            let (run, after) = rest.split_at(count);
            rest = after;
            let len = run[count - 1].0.byte.saturating_add(size) - start;
            let read = match start.saturating_add(len) <= self.sb.size() {
                true => self.read_past_cache(core, start, len, notes).await.ok(),
                false => None,
            };
            for (entry, ino) in run {
                let raw = read.as_ref().map(|block| {
                    block.slice((entry.byte - start) as usize, size as usize).to_bytes()
                });
                let is_good = raw
                    .is_some_and(|raw| self.wrong_inode(core, *ino, entry, &raw).is_none())
                    && self.place_of(core, *ino).await? == Some(*entry);
                match is_good {
                    true => self.see_inode(entry, notes),
                    false => self.look_again(core, *ino, notes).await?,
                }
                in_use.push(*ino);
            }
        }
        in_use.sort_unstable();
        Ok(ScrubbedInodes { in_use, next })
    }

    fn see_inode(&self, entry: &Entry, notes: &ScrubNotes) {
        let frag = u64::from(self.sb.geometry.frag_size);
        notes.see(entry.byte / frag, 1);
    }

    /// Looks at an inode alone, until it is found good, bad, or not to come to rest.
    async fn look_again(&self, core: &Rc<Core>, ino: Ino, notes: &ScrubNotes) -> Result<()> {
        let size = u64::from(self.sb.geometry.inode_size);
        let mut bad = None;
        for _ in 0..LOOKS {
            let _ = self.drain(core, false).await;
            let Some(entry) = self.place_of(core, ino).await? else { return Ok(()) };
            let what = if entry.byte.saturating_add(size) > self.sb.size() {
                Some("the inode map leads out of the volume".into())
            } else {
                match self.read_past_cache(core, entry.byte, size, notes).await {
                    Ok(raw) => self.wrong_inode(core, ino, &entry, &raw.to_bytes()),
                    Err(error) => Some(format!("the inode cannot be read: {error}")),
                }
            };
            if self.place_of(core, ino).await? != Some(entry) {
                bad = None;
                continue;
            }
            match what {
                None => {
                    self.see_inode(&entry, notes);
                    return Ok(());
                }
                Some(what) if bad == Some(entry) => {
                    self.see_inode(&entry, notes);
                    notes.add(Flaw::new(entry.byte, size, what).of(ino));
                    return Ok(());
                }
                Some(_) => bad = Some(entry),
            }
        }
        notes.count_skipped();
        Ok(())
    }

    /// Looks at all copies of the superblock. Meanwhile no snapshot changes them.
    async fn scrub_superblocks(&self, core: &Core, notes: &ScrubNotes) {
        let _still = self.checkpointing.read().await;
        let right = self.stored_superblock().encode();
        for at in Superblock::places(self.sb.size(), self.sb.copies) {
            let what = match self.read_past_cache(core, at, SUPERBLOCK_BYTES, notes).await {
                Ok(found) if found.to_bytes()[..] == right[..] => continue,
                Ok(_) => "the superblock is not that of the volume".into(),
                Err(error) => format!("the superblock cannot be read: {error}"),
            };
            notes.add(Flaw::new(at, SUPERBLOCK_BYTES, what));
        }
    }

    /// Looks at all copies of both checkpoints. Meanwhile none is written.
    async fn scrub_checkpoints(&self, core: &Core, notes: &ScrubNotes) {
        let _still = self.checkpointing.read().await;
        let number = self.checkpoints.number();
        for slot in [number % 2, (number + 1) % 2] {
            for at in self.sb.checkpoint_places(slot) {
                let what = match self.read_past_cache(core, at, CHECKPOINT_BYTES, notes).await {
                    Ok(found) => self.wrong_checkpoint(&found.to_bytes(), at, slot, number),
                    Err(error) => Some(format!("a checkpoint cannot be read: {error}")),
                };
                if let Some(what) = what {
                    notes.add(Flaw::new(at, CHECKPOINT_BYTES, what));
                }
            }
        }
    }

    /// What is wrong with a checkpoint in a slot, `number` being the last one that was written.
    fn wrong_checkpoint(&self, raw: &[u8], at: u64, slot: u64, number: u64) -> Option<String> {
        let is_last = slot == number % 2;
        // mkfs writes one checkpoint, and leaves the other slot empty.
        if !is_last && number <= 1 && raw.iter().all(|&byte| byte == 0) {
            return None;
        }
        match Checkpoint::decode(&self.sb, raw, at) {
            Ok(found) if is_last && found.number != number => {
                Some(format!("here is checkpoint {} instead of {number}", found.number))
            }
            Ok(found) if found.number % 2 != slot || found.number > number => {
                Some(format!("here is checkpoint {}, which belongs elsewhere", found.number))
            }
            // A crash may have left any in the slot that this mount has not written yet.
            Ok(found) if !is_last && self.stats().checkpoints >= 2 && found.number + 1 < number => {
                Some(format!("here is checkpoint {} instead of {}", found.number, number - 1))
            }
            Ok(_) => None,
            Err(FsError::Corrupt { what, .. }) => Some(format!("a checkpoint: {what}")),
            Err(error) => Some(format!("a checkpoint: {error}")),
        }
    }

    /// True if a segment holds something live that was written before the scrub began.
    fn is_old(&self, segment: u32, mark: u64) -> bool {
        self.usage.with(|table| {
            let serial = table.info().get(segment as usize).map_or(u64::MAX, |info| info.serial);
            table.entry(segment).live_bytes > 0 && serial <= mark
        })
    }

    async fn scrub_segment(&self, core: &Rc<Core>, segment: u32, notes: &ScrubNotes) {
        if !self.is_old(segment, notes.mark()) {
            return;
        }
        let pass = core.reads.enter();
        let start = self.sb.segment_start(segment);
        let frag = u64::from(self.sb.geometry.frag_size);
        let (first, all) = (start / frag, u64::from(self.sb.segment_size) / frag);
        let mut named = ScrubNotes::default();
        let mut parts = PartialSegments::of(&self.sb, segment);
        let mut failed = None;
        loop {
            match parts.next(&self.sb, &FromDevice(&*core.device)).await {
                Ok(Some(part)) => {
                    notes.count_read(part.summary.header.summary_bytes.into());
                    self.scrub_part(core, start, &part, &mut named, notes).await;
                }
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        drop(pass);
        let is_unnamed = |addr: &u64| notes.has_seen(*addr) && !named.has_seen(*addr);
        let unnamed = (first..first + all).find(is_unnamed);
        // It may have been emptied and begun anew.
        if !self.is_old(segment, notes.mark()) {
            return;
        }
        let end = start + u64::from(parts.offset());
        match (failed, unnamed) {
            (Some(error), _) => {
                let what = format!("segment {segment}: a summary cannot be read: {error}");
                notes.add(Flaw::new(end, frag, what));
            }
            (None, Some(addr)) => {
                let what = format!(
                    "segment {segment}: what is live at byte {} is in no sound summary; they end here",
                    addr * frag
                );
                notes.add(Flaw::new(end, frag, what));
            }
            (None, None) => {}
        }
    }

    /// Notes what a partial segment names, and compares its summary with what lies behind it.
    async fn scrub_part(
        &self,
        core: &Core,
        start: u64,
        part: &PartialSegment,
        named: &mut ScrubNotes,
        notes: &ScrubNotes,
    ) {
        let PartialSegment { offset, summary } = part;
        let at = start + u64::from(*offset);
        let frag = u64::from(self.sb.geometry.frag_size);
        let blocks = summary.blocks(&self.sb);
        let mut is_any_live = false;
        for placed in &blocks {
            let addr = (at + u64::from(placed.at)) / frag;
            named.see(addr, u64::from(placed.len) / frag);
            is_any_live |= notes.has_seen(addr);
        }
        if !is_any_live {
            return;
        }
        let wrong = match self.sb.profile {
            Profile::Modern => self.first_live_differs(core, at, &blocks, notes).await,
            Profile::Classic => self.differs(core, at, summary, notes).await,
        };
        let flaw = |what: String| {
            let len = match self.sb.profile {
                Profile::Modern => summary.header.summary_bytes,
                Profile::Classic => summary.header.total_bytes,
            };
            Flaw::new(at, len.into(), what)
        };
        match wrong {
            Ok(None) => {}
            Ok(Some(what)) => notes.add(flaw(what)),
            Err(error) => notes.add(flaw(format!("a partial segment cannot be read: {error}"))),
        }
    }

    /// Modern: compares the first block behind a summary that is live, and no flaw already, with its entry.
    async fn first_live_differs(
        &self,
        core: &Core,
        start: u64,
        blocks: &[PlacedBlock<'_>],
        notes: &ScrubNotes,
    ) -> Result<Option<String>> {
        let frag = u64::from(self.sb.geometry.frag_size);
        let mut differs = false;
        for placed in blocks {
            let at = start + u64::from(placed.at);
            let (len, crc) = match placed.what {
                BlockContents::Block { block, .. } => (block.len, block.crc),
                BlockContents::Inodes(list) => match list.first() {
                    Some(first) => (self.sb.geometry.inode_size, first.crc),
                    None => continue,
                },
            };
            if !notes.has_seen(at / frag) || notes.has_flaw_at(at) {
                continue;
            }
            let content = self.read_past_cache(core, at, len.into(), notes).await?;
            if content.crc32c() == crc {
                return Ok(None);
            }
            differs = true;
        }
        Ok(differs.then(|| "the summary names other blocks than those behind it".into()))
    }

    /// Classic: compares all that is behind a summary with its checksum.
    async fn differs(
        &self,
        core: &Core,
        at: u64,
        summary: &Summary,
        notes: &ScrubNotes,
    ) -> Result<Option<String>> {
        let total = summary.header.total_bytes;
        let (whole, before) = self.read_blocks(core, at, total.into(), notes).await?;
        let sum_of =
            |at: u32, len: u32| gather(&whole, before + at as usize, len as usize).crc32c();
        if summary.verify(&self.sb, sum_of) {
            return Ok(None);
        }
        let frag = u64::from(self.sb.geometry.frag_size);
        let live = |placed: &PlacedBlock<'_>| match placed.what {
            BlockContents::Block { ino, block, .. }
                if notes.has_seen((at + u64::from(placed.at)) / frag) =>
            {
                Some(format!("block {} of inode {ino}", block.lbn))
            }
            _ => None,
        };
        let some: Vec<String> = summary.blocks(&self.sb).iter().filter_map(live).take(8).collect();
        Ok(Some(format!(
            "the blocks here do not match their only checksum; live among them: {}",
            some.join(", ")
        )))
    }
}

impl ScrubView for Lfs {
    fn mark(&self) -> u64 {
        self.usage.with(|table| table.info().iter().map(|info| info.serial).max().unwrap_or(0))
    }

    fn own_files(&self) -> Vec<Rc<Inode>> {
        vec![Rc::clone(&self.ifile.inode), Rc::clone(&self.snapshots.file.inode)]
    }

    fn numbers_end(&self) -> Ino {
        self.ifile.map_len()
    }

    fn scrub_inodes<'a>(
        &'a self,
        core: &'a Rc<Core>,
        first: Ino,
        notes: &'a ScrubNotes,
    ) -> BoxFuture<'a, Result<ScrubbedInodes>> {
        Box::pin(self.scrub_numbers(core, first, notes))
    }

    fn structures(&self) -> u64 {
        BEFORE_SEGMENTS + u64::from(self.sb.segments())
    }

    fn scrub_structure<'a>(
        &'a self,
        core: &'a Rc<Core>,
        nth: u64,
        notes: &'a ScrubNotes,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match nth.checked_sub(BEFORE_SEGMENTS) {
                None if nth == 0 => {
                    // All files were walked. What was seen in them lies behind summaries, of which some
                    // may be on their way to the device.
                    let _ = self.drain(core, false).await;
                    self.scrub_superblocks(core, notes).await;
                }
                None => self.scrub_checkpoints(core, notes).await,
                Some(segment) => self.scrub_segment(core, segment as u32, notes).await,
            }
            Ok(())
        })
    }

    fn is_in_place(&self, _at: u64, _len: u64) -> bool {
        // Nothing is written where something live lies.
        true
    }
}

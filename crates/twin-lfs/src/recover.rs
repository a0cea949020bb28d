//! Roll-forward: from the last checkpoint to the last whole log write of the log.
//!
//! The log after a checkpoint is a sequence of log writes, each a snapshot. They are found by
//! following each stream from where the checkpoint says it stood, and counted in the order of
//! their serial numbers for as long as every partial segment is there and matches its checksums.
//! Applying a log write gives inodes their new place and content, and blocks behind indirect blocks
//! that were deferred their new pointers; the accounts of segments follow from the difference.
//! Nothing is written here.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Bytes, Class, Io, Origin};
use twin_fs::dinode::{Dinode, TRUNCATING};
use twin_fs::geometry::Ptr;
use twin_fs::{Core, FsError, Ino, Inode, ROOT_INO, Result};

use crate::format::HolderVersion;
use crate::format::IFILE_INO;
use crate::format::{
    BlockContents, Checkpoint, HeadPos, ImapEntry, LOG_WRITE_LAST, PICKED_MAX, PlacedBlock,
    Summary, SummaryEntry,
};
use crate::forwards::Holder;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;
use crate::partial_segments::{Content, PartialSegment, PartialSegments};
use crate::segment_usage::Death;
use crate::settings::PlantedFault;

/// Serial numbers skipped at every start, at the least and in addition by chance: more than could
/// be under way when the log ended before, so that nothing written then can pass for what follows
/// now. By chance, because a start that is itself interrupted leaves something too.
const SERIAL_GAP: (u64, u64) = (1 << 20, 1 << 32);

/// A partial segment that was found.
struct FoundPartialSegment {
    summary: Summary,
    /// First byte on the device.
    start: u64,
    segment: u32,
    offset: u32,
    /// Contents that applying needs: inode blocks and indirect blocks, by place in the part.
    contents: BTreeMap<u32, Bytes>,
}

/// What a log write says of one file.
#[derive(Default)]
struct FileLog {
    generation: u32,
    /// Blocks with their new places, data and indirect.
    blocks: BTreeMap<Lbn, Ptr>,
    /// Of these, the forwarded ones, with the form in which their holder stays.
    forwarded: BTreeMap<Lbn, HolderVersion>,
    /// The contents of indirect blocks among them.
    indirect: BTreeMap<Lbn, Bytes>,
    /// The inode, its place, its checksum.
    inode: Option<(Dinode, u64, u32)>,
}

/// What happened to inode numbers since the checkpoint.
#[derive(Default)]
struct NumberChanges {
    /// Numbers that were free then and have been used since, with the link that they had.
    links: BTreeMap<Ino, Ino>,
    /// Numbers that were in use then and are free now.
    freed: BTreeSet<Ino>,
}

/// What roll-forward found behind the last checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The number of log writes that were applied.
    pub log_writes: u64,
    /// Bytes of log read.
    pub log_bytes: u64,
    /// Inodes that were open without names, or being cut: finished now.
    pub orphans: u64,
}

impl Lfs {
    /// Finds and applies what follows a checkpoint. Leaves the log after the last whole log write.
    pub(crate) async fn roll_forward(
        &self,
        core: &Rc<Core>,
        from: &Checkpoint,
    ) -> Result<Recovered> {
        let mut done = Recovered::default();
        let mut parts: BTreeMap<u64, FoundPartialSegment> = BTreeMap::new();
        for stream in 0..from.heads.len() {
            self.follow(core, from, stream, &mut parts, &mut done).await?;
        }
        let mut expected = from.serial;
        let mut numbers = NumberChanges::default();
        let old_len = self.ifile.map_len();
        while let Some(log_write) = take_log_write(&mut parts, expected) {
            expected += log_write.len() as u64;
            done.log_writes += 1;
            self.move_heads(&log_write);
            self.apply_log_write(core, &log_write, &mut numbers).await?;
        }
        self.skip_serials(core, expected);
        self.rebuild_free_list(core, from, old_len, &numbers).await?;
        Ok(done)
    }

    /// Makes what lies where the streams go on unreadable: partial segments of a log write that
    /// does not count. Their serial numbers are higher than those before them, and lower than that
    /// of the next checkpoint, so without this they would pass for a part of the log, should the
    /// stream go on elsewhere.
    pub(crate) async fn invalidate_log_tail(&self, core: &Core) -> Result<()> {
        let heads = self.position.heads();
        for head in heads.iter().filter(|head| head.offset < self.sb.segment_size) {
            let at = self.sb.segment_start(head.segment) + u64::from(head.offset);
            let len = self.sb.align;
            let zeros = vec![Block::Zero(len)];
            let io = Io::write(at, zeros, Class::Meta, Origin::Recovery);
            core.device.submit(io).await?;
        }
        Ok(())
    }

    /// The next partial segment gets a serial number that no earlier start can have used.
    pub(crate) fn skip_serials(&self, core: &Core, from: u64) {
        let (least, chance) = SERIAL_GAP;
        let serial = from + least + core.rt.rng("serial").below(chance);
        self.position.set_serial(serial);
        self.progress.begin_after(serial - 1);
    }

    /// Reads a stream's partial segments from where it stood.
    async fn follow(
        &self,
        core: &Core,
        from: &Checkpoint,
        stream: usize,
        parts: &mut BTreeMap<u64, FoundPartialSegment>,
        done: &mut Recovered,
    ) -> Result<()> {
        let HeadPos { mut segment, mut offset, mut next } = from.heads[stream];
        let mut least_serial = from.serial;
        let mut visited = BTreeSet::new();
        loop {
            let start = self.sb.segment_start(segment);
            let left = self.sb.segment_size - offset;
            let mut found = false;
            if left > 0 {
                let at = start + u64::from(offset);
                let io = Io::read(at, left.into(), Class::Mixed, Origin::Recovery);
                let blocks = core.device.submit(io).await?;
                let content = Content { start: at, blocks: &blocks };
                let mut walk = PartialSegments::from(&self.sb, segment, offset, least_serial);
                while let Some(part) = walk.next(&self.sb, &content).await? {
                    let header = part.summary.header;
                    if header.stream as usize != stream || !self.is_sound(&part, start, &content) {
                        break;
                    }
                    (least_serial, next, found) =
                        (header.serial.saturating_add(1), header.next_segment, true);
                    done.log_bytes += u64::from(header.total_bytes);
                    let part = self.with_contents(part, segment, &content);
                    parts.insert(header.serial, part);
                }
            }
            // A stream leaves a segment when the next item does not fit, so its end says nothing:
            // look into the next one, until one has nothing to add.
            let first_visit = visited.insert(segment);
            if !first_visit || (!found && visited.len() > 1) {
                return Ok(());
            }
            (segment, offset) = (next, 0);
        }
    }

    /// True if the blocks of a partial segment match its checksums.
    fn is_sound(&self, part: &PartialSegment, segment_start: u64, content: &Content<'_>) -> bool {
        let start = segment_start + u64::from(part.offset);
        let crc_at = |at: u32, len: u32| content.block(start + u64::from(at), len).crc32c();
        self.settings.planted().is(PlantedFault::SkipChecksum)
            || part.summary.verify(&self.sb, crc_at)
    }

    /// The partial segment with those of its blocks that applying it needs.
    fn with_contents(
        &self,
        part: PartialSegment,
        segment: u32,
        content: &Content<'_>,
    ) -> FoundPartialSegment {
        let PartialSegment { offset, summary } = part;
        let start = self.sb.segment_start(segment) + u64::from(offset);
        let wanted = |p: &PlacedBlock<'_>| match p.what {
            BlockContents::Block { block, .. } => block.lbn < 0,
            BlockContents::Inodes(_) => true,
        };
        let contents = summary.blocks(&self.sb).into_iter().filter(wanted);
        let contents = contents
            .map(|p| (p.at, content.block(start + u64::from(p.at), p.len).to_bytes()))
            .collect();
        FoundPartialSegment { summary, start, segment, offset, contents }
    }

    /// The streams stand behind this log write now.
    fn move_heads(&self, log_write: &[FoundPartialSegment]) {
        for part in log_write {
            let header = part.summary.header;
            let stream = header.stream as usize;
            let old = self.position.head(stream);
            let offset = part.offset + header.total_bytes;
            let head = HeadPos { segment: part.segment, offset, next: header.next_segment };
            if old.segment != head.segment {
                self.usage.set_used(old.segment);
            }
            self.usage.set_open(head.segment);
            self.usage.set_open(head.next);
            self.position.set_head(stream, head);
        }
    }

    async fn apply_log_write(
        &self,
        core: &Rc<Core>,
        log_write: &[FoundPartialSegment],
        numbers: &mut NumberChanges,
    ) -> Result<()> {
        let mut files: BTreeMap<Ino, FileLog> = BTreeMap::new();
        for part in log_write {
            for entry in &part.summary.entries {
                if let SummaryEntry::Freed { ino, generation } = entry {
                    self.free_recovered(core, *ino, *generation, numbers).await?;
                }
            }
            for placed in part.summary.blocks(&self.sb) {
                self.note_block(core, part, &placed, &mut files)?;
            }
        }
        for (ino, file) in files {
            // What the layout keeps in files of its own is computed, and not read.
            if ino > IFILE_INO {
                self.apply_file(core, ino, file, numbers).await?;
            }
        }
        Ok(())
    }

    /// Notes what a block of a log write says of its file.
    fn note_block(
        &self,
        core: &Core,
        part: &FoundPartialSegment,
        placed: &PlacedBlock<'_>,
        files: &mut BTreeMap<Ino, FileLog>,
    ) -> Result<()> {
        let at = part.start + u64::from(placed.at);
        match placed.what {
            BlockContents::Block { ino, generation, block } => {
                let file = files.entry(ino).or_default();
                file.generation = generation;
                let addr = at / u64::from(self.sb.geometry.frag_size);
                file.blocks.insert(block.lbn, Ptr { addr, len: block.len, crc: block.crc });
                if let Some(form) = block.holder {
                    file.forwarded.insert(block.lbn, form);
                }
                if let Some(content) = part.contents.get(&placed.at)
                    && block.lbn < 0
                {
                    file.indirect.insert(block.lbn, content.clone());
                }
            }
            BlockContents::Inodes(list) => {
                let size = self.sb.geometry.inode_size as usize;
                let Some(raw) = part.contents.get(&placed.at) else { return Ok(()) };
                for (i, info) in list.iter().enumerate() {
                    let byte = at + (i * size) as u64;
                    let decoded = Dinode::decode(
                        &self.sb.geometry,
                        &raw[i * size..(i + 1) * size],
                        core.frags(),
                    );
                    let d = decoded.map_err(|what| FsError::corrupt(byte, what))?;
                    let file = files.entry(d.ino).or_default();
                    file.generation = d.generation;
                    file.inode = Some((d, byte / size as u64, info.crc));
                }
            }
        }
        Ok(())
    }

    /// An inode as it stood before a log write, or a new one.
    async fn before(
        &self,
        core: &Rc<Core>,
        ino: Ino,
        generation: u32,
        numbers: &mut NumberChanges,
    ) -> Result<Rc<Inode>> {
        // The map has a block more than it needs at the most.
        let most = self.sb.size() / u64::from(self.sb.geometry.inode_size)
            + self.ifile.numbers_per_block();
        if !(ROOT_INO..most).contains(&ino) {
            return Err(FsError::inconsistent(format!("the log has an impossible inode {ino}")));
        }
        while ino >= self.ifile.map_len() {
            self.extend_imap_unlisted(core)?;
        }
        if let Some(inode) = core.cached_inode(ino) {
            return Ok(inode);
        }
        let anchor = self.ifile.map_block(core, ino).await?;
        match self.ifile.entry(&anchor, ino) {
            ImapEntry::Used { generation: now, .. } if now != generation => {
                let what =
                    format!("the log has inode {ino} in life {generation}, the map in {now}");
                return Err(FsError::inconsistent(what));
            }
            ImapEntry::Used { .. } => return self.read_inode(core, ino).await,
            ImapEntry::Free { next, .. } => {
                if !numbers.freed.remove(&ino) {
                    numbers.links.entry(ino).or_insert(next);
                }
            }
        }
        let entry = ImapEntry::Used { at: 0, crc: 0, generation, orphan: false };
        self.ifile.set_entry(core, &anchor, ino, entry);
        let inode = Inode::new(Dinode::new(&self.sb.geometry, ino, generation, 0, core.now()));
        InodeState::of(&inode).set_map_block(anchor);
        Ok(core.add_inode(inode))
    }

    async fn apply_file(
        &self,
        core: &Rc<Core>,
        ino: Ino,
        file: FileLog,
        numbers: &mut NumberChanges,
    ) -> Result<()> {
        let inode = self.before(core, ino, file.generation, numbers).await?;
        let geometry = self.sb.geometry.clone();
        let old_ptrs = inode.d.borrow().ptrs.clone();
        let mut new_ptrs = match &file.inode {
            Some((d, ..)) => d.ptrs.clone(),
            None => old_ptrs.clone(),
        };
        let mut pinned = Vec::new();
        for (slot, old) in old_ptrs.iter().enumerate() {
            let lbn = geometry.inode_child(slot);
            if file.inode.is_none()
                && let Some(ptr) = file.blocks.get(&lbn)
            {
                new_ptrs[slot] = *ptr;
            }
            let new = new_ptrs[slot];
            if lbn < 0 {
                Box::pin(self.apply_indirect(core, &inode, lbn, *old, new, &file, &mut pinned))
                    .await?;
            } else {
                self.change_block(core, &inode, lbn, *old, new);
            }
        }
        match file.inode {
            Some((d, at, crc)) => {
                let orphan = d.nlink == 0 || d.flags & TRUNCATING != 0;
                inode.renew(d);
                self.move_inode(core, &inode, at, crc, orphan);
            }
            None => {
                let slots = old_ptrs.iter().zip(&new_ptrs).enumerate();
                let moved = slots.filter(|(_, (old, new))| old.addr != new.addr);
                let moved: Vec<Lbn> = moved.map(|(slot, _)| geometry.inode_child(slot)).collect();
                inode.d.borrow_mut().ptrs = new_ptrs;
                if !self.forward_recovered(core, &inode, &moved, &file) {
                    core.mark_inode_dirty(&inode);
                }
            }
        }
        // As after a log write: what is above an indirect block that waits for a checkpoint goes
        // with it, also above one that waited before this log write, whose parent the log write
        // has.
        self.defer(core, &inode);
        Ok(())
    }

    /// Forwards the blocks that moved, all children of one holder, if the log says so of each;
    /// otherwise the holder has to be written.
    fn forward_recovered(&self, core: &Core, inode: &Inode, moved: &[Lbn], file: &FileLog) -> bool {
        let stays = |lbn: &Lbn| {
            let form = file.forwarded.get(lbn);
            form.is_some() && self.clean_holder(core, inode, *lbn).as_ref() == form
        };
        if !moved.iter().all(stays) {
            return false;
        }
        for lbn in moved {
            if let (Some(form), Some(ptr)) = (file.forwarded.get(lbn), file.blocks.get(lbn)) {
                self.forward(inode.ino, *lbn, *form, *ptr);
            }
        }
        true
    }

    fn move_inode(&self, core: &Core, inode: &Rc<Inode>, at: u64, crc: u32, orphan: bool) {
        let anchor = InodeState::of(inode).map_block();
        let Some(anchor) = anchor else { panic!("inode {} has no map block", inode.ino) };
        let size = self.sb.geometry.inode_size;
        if let ImapEntry::Used { at: old, generation, .. } = self.ifile.entry(&anchor, inode.ino) {
            if old != 0 {
                self.usage.block_dies(old * u64::from(size), size, Death::Rewritten);
            }
            self.usage.block_lives(at * u64::from(size), size, core.rt.now(), None);
            self.numbers.set_orphan(inode.ino, orphan);
            let entry = ImapEntry::Used { at, crc, generation, orphan };
            self.ifile.set_entry(core, &anchor, inode.ino, entry);
        }
        core.mark_inode_clean(inode);
        self.forwards.drop_holder(inode.ino, Holder::Inode);
    }

    /// A block changes its place: updates segment usage and drops what memory has of the old one.
    fn change_block(&self, core: &Core, inode: &Inode, lbn: Lbn, old: Ptr, new: Ptr) {
        if old.addr == new.addr {
            return;
        }
        if old.is_on_disk() {
            self.usage.block_dies(self.sb.geometry.byte_of(old.addr), old.len, Death::Rewritten);
        }
        if new.is_on_disk() {
            let at = self.sb.geometry.byte_of(new.addr);
            self.usage.block_lives(at, new.len, core.rt.now(), None);
        }
        if lbn >= 0 {
            core.cache.remove(&inode.frames, lbn);
        }
    }

    /// Brings an indirect block and all below it to its state after a log write. Children first,
    /// because they are found through the old pointers.
    #[allow(clippy::too_many_arguments)] // A recursion over two trees carries both.
    async fn apply_indirect(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        lbn: Lbn,
        old: Ptr,
        new: Ptr,
        file: &FileLog,
        pinned: &mut Vec<Rc<Frame>>,
    ) -> Result<()> {
        let geometry = &self.sb.geometry;
        let (first, span) = (geometry.first_data(lbn), geometry.span(lbn));
        let touched = |at: &Lbn| {
            let data = geometry.first_data(*at);
            (first..first + span).contains(&data) && geometry.span(*at) < span
        };
        let is_touched = file.blocks.keys().any(touched);
        if old.addr == new.addr && !is_touched {
            return Ok(());
        }
        let old_content = self.indirect_content(core, inode, lbn, old).await?;
        let is_logged = file.blocks.get(&lbn).is_some_and(|p| p.addr == new.addr);
        let mut new_content = match file.indirect.get(&lbn) {
            _ if new.is_hole() => vec![0; geometry.block_size as usize],
            Some(logged) if is_logged => logged.to_vec(),
            _ => old_content.clone(),
        };
        let mut moved = Vec::new();
        for index in 0..geometry.per_block() as usize {
            let child = geometry.child(lbn, index);
            if !is_logged
                && !new.is_hole()
                && let Some(ptr) = file.blocks.get(&child)
            {
                geometry.set_ptr(&mut new_content, index, *ptr);
            }
            let (from, to) =
                (geometry.get_ptr(&old_content, index), geometry.get_ptr(&new_content, index));
            geometry.check_ptr(to, core.frags()).map_err(|what| {
                FsError::inconsistent(format!(
                    "indirect block {lbn} of inode {}: {what}",
                    inode.ino
                ))
            })?;
            if from.addr != to.addr {
                moved.push(child);
            }
            if child < 0 {
                Box::pin(self.apply_indirect(core, inode, child, from, to, file, pinned)).await?;
            } else {
                self.change_block(core, inode, child, from, to);
            }
        }
        self.change_block(core, inode, lbn, old, new);
        if old.addr != new.addr {
            self.forwards.drop_holder(inode.ino, Holder::Indirect(lbn));
        }
        if new.is_hole() {
            core.cache.remove(&inode.frames, lbn);
            return Ok(());
        }
        let frame = put_block(core, inode, lbn, Block::Bytes(Bytes::copy_of(&new_content)));
        if is_logged {
            core.cache.mark_clean(&inode.frames, &frame);
        } else if old.addr != new.addr || !self.forward_recovered(core, inode, &moved, file) {
            core.cache.mark_dirty(&inode.frames, &frame);
        }
        pinned.push(frame); // Until it is known what is written with what.
        Ok(())
    }

    async fn indirect_content(
        &self,
        core: &Core,
        inode: &Inode,
        lbn: Lbn,
        ptr: Ptr,
    ) -> Result<Vec<u8>> {
        if ptr.is_hole() {
            return Ok(vec![0; self.sb.geometry.block_size as usize]);
        }
        match core.block(inode, lbn, Origin::Recovery).await? {
            Some(frame) => Ok(frame.block().to_bytes().to_vec()),
            None => Ok(vec![0; self.sb.geometry.block_size as usize]),
        }
    }

    /// An inode number became free: so do all blocks that its inode had.
    async fn free_recovered(
        &self,
        core: &Rc<Core>,
        ino: Ino,
        generation: u32,
        numbers: &mut NumberChanges,
    ) -> Result<()> {
        if ino <= IFILE_INO || ino >= self.ifile.map_len() {
            return Ok(());
        }
        let anchor = self.ifile.map_block(core, ino).await?;
        let ImapEntry::Used { generation: now, at, .. } = self.ifile.entry(&anchor, ino) else {
            return Ok(());
        };
        if now != generation {
            return Ok(());
        }
        let inode = match core.cached_inode(ino) {
            Some(inode) => inode,
            None => self.read_inode(core, ino).await?,
        };
        let none = FileLog::default();
        let ptrs = inode.d.borrow().ptrs.clone();
        for (slot, ptr) in ptrs.into_iter().enumerate() {
            let lbn = self.sb.geometry.inode_child(slot);
            if lbn < 0 {
                let gone = Ptr::HOLE;
                let mut unused = Vec::new();
                self.apply_indirect(core, &inode, lbn, ptr, gone, &none, &mut unused).await?;
            } else {
                self.change_block(core, &inode, lbn, ptr, Ptr::HOLE);
            }
        }
        {
            let size = self.sb.geometry.inode_size;
            if at != 0 {
                // Policies know nothing yet of what recovery finds.
                self.usage.block_dies(at * u64::from(size), size, Death::Rewritten);
            }
            self.numbers.set_orphan(ino, false);
            self.checkpoints.forget(ino);
        }
        self.forwards.drop_holder(ino, Holder::Inode);
        if !numbers.links.contains_key(&ino) {
            numbers.freed.insert(ino);
        }
        let entry = ImapEntry::Free { next: 0, generation: generation.wrapping_add(1) };
        self.ifile.set_entry(core, &anchor, ino, entry);
        core.drop_inode(&inode);
        Ok(())
    }

    /// Makes the map longer without putting the new numbers on the free list.
    fn extend_imap_unlisted(&self, core: &Core) -> Result<()> {
        let geometry = &self.sb.geometry;
        let lbn = self.ifile.next_map_block().ok_or(FsError::NoInodes)?;
        let mut content = vec![0; geometry.block_size as usize];
        for raw in content.chunks_exact_mut(crate::format::IMAP_ENTRY_BYTES) {
            ImapEntry::Free { next: 0, generation: 0 }.encode(raw);
        }
        let frame = self.ifile.append(core, lbn, Block::Bytes(Bytes::copy_of(&content)));
        // Nothing may push it out before the checkpoint that ends the recovery.
        self.ifile.pin([frame]);
        Ok(())
    }

    /// Takes the numbers that came into use off the free list, and puts on it those that became
    /// free, those that were picked and not used, and those that the map grew by.
    async fn rebuild_free_list(
        &self,
        core: &Rc<Core>,
        from: &Checkpoint,
        old_len: u64,
        numbers: &NumberChanges,
    ) -> Result<()> {
        if from.picked.len() >= PICKED_MAX {
            // It may not have noted all: put every free number on a new list.
            return self
                .add_to_free_list(core, (ROOT_INO + 1..self.ifile.map_len()).collect(), 0, 0)
                .await;
        }
        let in_list = |ino: &Ino| *ino < old_len && !from.picked.contains(ino);
        let mut missing = numbers.links.keys().filter(|ino| in_list(ino)).count();
        let mut numbers_to_add: BTreeSet<Ino> = numbers.freed.clone();
        numbers_to_add.extend(&from.picked);
        numbers_to_add.extend((old_len..self.ifile.map_len()).filter(|&ino| ino > ROOT_INO));
        let (mut at, mut steps) = (from.free_head, 0);
        while missing > 0 && at != 0 {
            let anchor = self.ifile.map_block(core, at).await?;
            let next = match (numbers.links.get(&at), self.ifile.entry(&anchor, at)) {
                (Some(&link), _) => {
                    missing -= 1;
                    link
                }
                (None, ImapEntry::Free { next, .. }) => next,
                (None, ImapEntry::Used { .. }) => 0,
            };
            numbers_to_add.insert(at);
            at = next;
            steps += 1;
            if steps > old_len {
                return Err(FsError::inconsistent("the list of free inodes runs in a circle"));
            }
        }
        self.add_to_free_list(core, numbers_to_add, at, from.free_inodes.saturating_sub(steps))
            .await
    }

    /// Puts those of these numbers that are free before the list that begins at `head` and has
    /// `count` numbers.
    pub(crate) async fn add_to_free_list(
        &self,
        core: &Rc<Core>,
        numbers: BTreeSet<Ino>,
        mut head: Ino,
        mut count: u64,
    ) -> Result<()> {
        for ino in numbers.into_iter().rev() {
            let anchor = self.ifile.map_block(core, ino).await?;
            if let ImapEntry::Free { generation, .. } = self.ifile.entry(&anchor, ino) {
                self.ifile.set_entry(
                    core,
                    &anchor,
                    ino,
                    ImapEntry::Free { next: head, generation },
                );
                (head, count) = (ino, count + 1);
            }
        }
        self.numbers.set_list(head, count);
        Ok(())
    }
}

/// The next whole log write, if the log has it: the partial segments from `serial` on up to the one
/// that says that it is the last.
fn take_log_write(
    parts: &mut BTreeMap<u64, FoundPartialSegment>,
    serial: u64,
) -> Option<Vec<FoundPartialSegment>> {
    let mut end = serial;
    loop {
        let header = parts.get(&end)?.summary.header;
        if header.group != serial {
            return None;
        }
        end += 1;
        if header.flags & LOG_WRITE_LAST != 0 {
            break;
        }
    }
    (serial..end).map(|s| parts.remove(&s)).collect()
}

/// Puts content in the place of a block in memory.
fn put_block(core: &Core, inode: &Inode, lbn: Lbn, content: Block) -> Rc<Frame> {
    match core.cache.peek(&inode.frames, lbn) {
        Some(frame) => {
            frame.change(|block| *block = content);
            frame
        }
        None => core.cache.insert(&inode.frames, lbn, Some(content)),
    }
}

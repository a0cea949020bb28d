//! Building a log write: the step that turns dirty state into partial segments.
//!
//! A log write is a snapshot: it takes everything that is dirty at one instant, so that recovery
//! finds the state of the volume at some instant. Operations are applied in one step (see
//! `twin_fs::Volume`), so no operation is ever half there. There are two exceptions: the log writes of
//! the cleaner move blocks and change nothing, and those of single files ([`some_files`]) leave out
//! what is independent of them.
//!
//! Building does not wait. It goes through its items three times. First it gives each item its
//! place. Then it updates the usage of segments. Last, children before parents, it takes the
//! content of each item, computes the checksum, and puts place and checksum into the parent.
//!
//! [`some_files`]: crate::some_files

use std::collections::BTreeSet;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::geometry::Ptr;
use twin_fs::{Core, FsError, Ino, Inode, Result};

use crate::format::IFILE_INO;
use crate::format::{
    BlockInfo, HeadPos, Header, ImapEntry, InodeInfo, LOG_WRITE_CLEANER, LOG_WRITE_LAST, Summary,
    SummaryDraft, SummaryEntry, inode_block_len,
};
use crate::forwards::Holder;
use crate::gather;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;
use crate::log_items::LogItem;
use crate::segment_usage::{BlockHistory, Death};

/// An item with its place.
struct PlacedItem {
    item: LogItem,
    at: u64,
    /// Index into the drafts.
    part: usize,
    history: BlockHistory,
}

/// A partial segment whose blocks have places and no content yet.
struct PartialSegmentPlan {
    stream: usize,
    start: u64,
    next: u32,
    summary_bytes: u32,
    total_bytes: u32,
}

/// A log write, ready to go to the device.
pub(crate) struct LogWrite {
    pub(crate) number: u64,
    pub(crate) ios: Vec<Io>,
    /// Frames that must stay in memory until the device has them.
    pub(crate) held: Vec<Rc<Frame>>,
    pub(crate) bytes: u64,
}

impl Lfs {
    /// The dirty blocks of a file: data, as far as it is `wanted` (block and length), then indirect
    /// blocks from the lowest level up; those that could be deferred are among them with `all`.
    pub(crate) fn collect_blocks(
        &self,
        core: &Core,
        inode: &Rc<Inode>,
        all: bool,
        wanted: &dyn Fn(Lbn, u32) -> bool,
        items: &mut Vec<LogItem>,
    ) {
        let geometry = &self.sb.geometry;
        let size = inode.d.borrow().size;
        let dirty = inode.frames.dirty_frames();
        let first_data = dirty.partition_point(|frame| frame.lbn() < 0);
        for frame in &dirty[first_data..] {
            let len = geometry.data_len(frame.lbn() as u64, size);
            if !wanted(frame.lbn(), len) {
                continue;
            }
            let (inode, frame) = (Rc::clone(inode), Rc::clone(frame));
            items.push(LogItem::Block { inode, frame, len, holder: None, crc: None });
        }
        let mut indirect: Vec<_> = dirty[..first_data].iter().collect();
        indirect.sort_by_key(|frame| (geometry.indirect(frame.lbn()).0, -frame.lbn()));
        for frame in indirect {
            let lbn = frame.lbn();
            let is_new = || core.resident_ptr(inode, lbn).is_some_and(|p| !p.is_on_disk());
            if all || is_new() || InodeState::of(inode).has_lost_pointers(lbn) {
                let (inode, frame) = (Rc::clone(inode), Rc::clone(frame));
                let len = geometry.block_size;
                items.push(LogItem::Block { inode, frame, len, holder: None, crc: None });
            }
        }
    }

    /// Adds the ifile to the items of a checkpoint. Writing the ifile changes the segment usage
    /// table, which is a part of the ifile, so all blocks of the table that this log write will
    /// change are found first.
    ///
    /// The snapshots' file goes with it, unless the log write is to be of a state that is kept.
    pub(crate) fn add_ifile(&self, core: &Core, items: &mut Vec<LogItem>, with_snapshots: bool) {
        if with_snapshots {
            self.collect_blocks(core, &self.snapshots.file.inode, true, &|_, _| true, items);
        }
        for item in items.iter() {
            if let LogItem::Inodes(inodes) = item {
                for anchor in inodes.iter().filter_map(|i| InodeState::of(i).map_block()) {
                    self.ifile.mark_dirty(core, &anchor);
                }
            }
        }
        loop {
            let mut table = self.usage.with(|table| table.changed().clone());
            self.touched_table_blocks(core, items, &mut table);
            let mut grew = false;
            for nth in table {
                let lbn = self.sb.table_lbn(nth) as Lbn;
                if let Some(frame) = core.cache.peek(&self.ifile.inode.frames, lbn)
                    && !frame.is_dirty()
                {
                    self.ifile.mark_dirty(core, &frame);
                    grew = true;
                }
            }
            if !grew {
                break;
            }
        }
        self.collect_blocks(core, &self.ifile.inode, true, &|_, _| true, items);
    }

    /// Blocks of the usage table that a log write with these items and the dirty ifile changes.
    fn touched_table_blocks(&self, core: &Core, items: &[LogItem], table: &mut BTreeSet<u64>) {
        let mut bytes = 0u64;
        let mut old = |byte: u64| {
            if let Some(segment) = self.sb.segment_of(byte) {
                table.insert(self.usage.table_block(segment));
            }
        };
        let mut old_block = |inode: &Inode, lbn: Lbn| {
            if let Some(ptr) = core.resident_ptr(inode, lbn).filter(Ptr::is_on_disk) {
                old(self.sb.geometry.byte_of(ptr.addr));
            }
        };
        for item in items {
            match item {
                LogItem::Block { inode, frame, len, .. } => {
                    bytes += u64::from(*len);
                    old_block(inode, frame.lbn());
                }
                LogItem::Inodes(inodes) => {
                    bytes += u64::from(inode_block_len(&self.sb, inodes.len()));
                }
                LogItem::RawInodes(_) | LogItem::Freed { .. } => {}
            }
        }
        for frame in self.ifile.inode.frames.dirty_frames() {
            bytes += u64::from(self.sb.geometry.block_size);
            old_block(&self.ifile.inode, frame.lbn());
        }
        for item in items {
            if let LogItem::Inodes(inodes) = item {
                for inode in inodes {
                    if let Some(ImapEntry::Used { at, .. }) = self.current_entry(inode)
                        && at != 0
                    {
                        old(at * u64::from(self.sb.geometry.inode_size));
                    }
                }
            }
        }
        let heads = self.position.heads();
        let streams = heads.len() as u64;
        let most = bytes / u64::from(self.sb.segment_size) * 2 + 2 + streams;
        for head in &heads {
            let ahead = self.usage.clean_after(head.next, most as usize);
            for segment in [head.segment, head.next].into_iter().chain(ahead) {
                table.insert(self.usage.table_block(segment));
            }
        }
    }

    fn current_entry(&self, inode: &Inode) -> Option<ImapEntry> {
        InodeState::of(inode).map_block().as_ref().map(|anchor| self.ifile.entry(anchor, inode.ino))
    }

    /// Builds a log write of the items, each in the stream that the placement policy chooses. Gives
    /// `None` if there are no items.
    ///
    /// # Errors
    /// If the log has no clean segment left, which admission is there to prevent.
    pub(crate) fn build(
        &self,
        core: &Core,
        items: Vec<LogItem>,
        flags: u32,
        origin: Origin,
    ) -> Result<Option<LogWrite>> {
        if items.is_empty() {
            return Ok(None);
        }
        let streams = self.assign(core, &items, flags & LOG_WRITE_CLEANER != 0);
        let (placed, parts) = self.lay_out(items, &streams)?;
        for p in &placed {
            self.account_for_item(core, p);
        }
        let number = self.position.serial();
        let mut log_write = LogWrite { number, ios: Vec::new(), held: Vec::new(), bytes: 0 };
        let last = parts.len() - 1;
        let mut taken: Vec<SegmentContents> =
            parts.iter().map(|_| SegmentContents::default()).collect();
        // Content is taken in the order of the items and not of the partial segments, so that
        // children come before parents.
        for p in placed {
            let part = p.part;
            self.take(core, p, number, &mut taken[part]);
        }
        for (index, (part, taken)) in parts.into_iter().zip(taken).enumerate() {
            let flags = if index == last { flags | LOG_WRITE_LAST } else { flags };
            let io = self.seal(core, part, taken, number, flags, origin, &mut log_write);
            log_write.bytes += io.len;
            log_write.ios.push(io);
        }
        self.note_built(&log_write);
        // The cleaner's own writes do not wake it, or it could run for ever.
        if flags == 0 || !self.cleaner.is_busy() {
            self.consider_cleaning();
        }
        Ok(Some(log_write))
    }

    /// Gives every item its place, stream by stream.
    fn lay_out(
        &self,
        items: Vec<LogItem>,
        streams: &[(u8, BlockHistory)],
    ) -> Result<(Vec<PlacedItem>, Vec<PartialSegmentPlan>)> {
        let mut places = vec![(0, 0); items.len()];
        let mut parts = Vec::new();
        let heads = self.position.streams();
        for stream in 0..heads {
            let its = |nth: &usize| usize::from(streams[*nth].0) == stream;
            let its: Vec<usize> = (0..items.len()).filter(its).collect();
            self.lay_out_stream(&items, &its, stream, &mut places, &mut parts)?;
        }
        let with_place =
            |((item, (at, part)), &(_, history))| PlacedItem { item, at, part, history };
        let mut placed: Vec<PlacedItem> =
            items.into_iter().zip(places).zip(streams).map(with_place).collect();
        if self.settings.gathering.newest_first {
            // The blocks of a file go into its partial segments in the order of their places.
            let runs = placed.chunk_by_mut(|a, b| gather::same_file(&a.item, &b.item));
            runs.for_each(|run| run.sort_by_key(|p| (p.part, p.at)));
        }
        Ok((placed, parts))
    }

    /// Gives the items of a stream, which `its` names, their places, filling one partial segment
    /// after the other.
    fn lay_out_stream(
        &self,
        items: &[LogItem],
        its: &[usize],
        stream: usize,
        places: &mut [(u64, usize)],
        parts: &mut Vec<PartialSegmentPlan>,
    ) -> Result<()> {
        let segment_size = u64::from(self.sb.segment_size);
        let align = u64::from(self.sb.align);
        let mut rest = its.iter().peekable();
        while rest.peek().is_some() {
            let head = self.position.head(stream);
            let room = segment_size - u64::from(head.offset);
            let mut draft = SummaryDraft::new(&self.sb);
            let mut blocks = 0u64;
            let mut fitted = Vec::new();
            while let Some(&&nth) = rest.peek() {
                let mut longer = draft.clone();
                let len = self.item_len(&items[nth]);
                let fits = self.draft(&mut longer, &items[nth])
                    && (longer.len() as u64 + blocks + len).next_multiple_of(align) <= room;
                if !fits {
                    break;
                }
                draft = longer;
                rest.next();
                fitted.push(nth);
                blocks += len;
            }
            if draft.is_empty() {
                self.next_segment(stream)?;
                continue;
            }
            let start = self.sb.segment_start(head.segment) + u64::from(head.offset);
            let summary_bytes = draft.len() as u32;
            let total = (u64::from(summary_bytes) + blocks).next_multiple_of(align);
            if self.settings.gathering.newest_first {
                gather::files_ascend(items, &mut fitted);
            }
            let mut at = start + u64::from(summary_bytes);
            for nth in fitted {
                places[nth] = (at, parts.len());
                at += self.item_len(&items[nth]);
            }
            let total_bytes = total as u32;
            parts.push(PartialSegmentPlan {
                stream,
                start,
                next: head.next,
                summary_bytes,
                total_bytes,
            });
            let filled = head.offset + total_bytes;
            self.position.set_head(stream, HeadPos { offset: filled, ..head });
            self.usage.set_filled(head.segment, filled);
        }
        Ok(())
    }

    /// Moves a stream on to its next segment.
    fn next_segment(&self, stream: usize) -> Result<()> {
        let head = self.position.head(stream);
        let Some(next) = self.usage.next_segment(head, stream as u8) else {
            return Err(FsError::inconsistent("the log has no clean segment left"));
        };
        self.position.set_head(stream, next);
        let start = self.sb.segment_start(head.next);
        self.inode_blocks.written(start..start + u64::from(self.sb.segment_size));
        Ok(())
    }

    fn item_len(&self, item: &LogItem) -> u64 {
        match item {
            LogItem::Block { len, .. } => u64::from(*len),
            LogItem::Inodes(inodes) => inode_block_len(&self.sb, inodes.len()).into(),
            LogItem::RawInodes(inodes) => inode_block_len(&self.sb, inodes.len()).into(),
            LogItem::Freed { .. } => 0,
        }
    }

    pub(crate) fn draft(&self, draft: &mut SummaryDraft, item: &LogItem) -> bool {
        match item {
            LogItem::Block { inode, len, holder, .. } => {
                draft.add_block(inode.ino, *len, holder.is_some())
            }
            LogItem::Inodes(inodes) => draft.add_inodes(inodes.len()),
            LogItem::RawInodes(inodes) => draft.add_inodes(inodes.len()),
            LogItem::Freed { .. } => draft.add_freed(),
        }
    }

    /// Updates segment usage for an item: its old place becomes dead, its new one live.
    fn account_for_item(&self, core: &Core, placed: &PlacedItem) {
        let geometry = &self.sb.geometry;
        // A block that the cleaner moves keeps its age.
        let now = placed.history.written.unwrap_or(core.rt.now());
        match &placed.item {
            LogItem::Block { inode, frame, len, .. } => {
                let old = core.resident_ptr(inode, frame.lbn()).unwrap_or(Ptr::HOLE);
                if old.is_on_disk() {
                    self.usage.block_dies(geometry.byte_of(old.addr), old.len, Death::Rewritten);
                }
                self.usage.block_lives(placed.at, *len, now, Some(&placed.history));
                let addr = placed.at / u64::from(geometry.frag_size);
                core.set_ptr(inode, frame.lbn(), Ptr { addr, len: *len, crc: 0 });
            }
            LogItem::Inodes(inodes) => {
                for (i, inode) in inodes.iter().enumerate() {
                    let anchor = InodeState::of(inode).map_block();
                    self.account_for_inode(core, inode.ino, anchor, placed, i);
                }
            }
            LogItem::RawInodes(inodes) => {
                for (i, raw) in inodes.iter().enumerate() {
                    self.account_for_inode(core, raw.ino, Some(Rc::clone(&raw.anchor)), placed, i);
                }
            }
            LogItem::Freed { .. } => {}
        }
    }

    fn account_for_inode(
        &self,
        core: &Core,
        ino: Ino,
        anchor: Option<Rc<Frame>>,
        placed: &PlacedItem,
        i: usize,
    ) {
        let now = placed.history.written.unwrap_or(core.rt.now());
        let Some(anchor) = anchor else { panic!("inode {ino} has no map block") };
        let ImapEntry::Used { at: old, crc, generation, orphan } = self.ifile.entry(&anchor, ino)
        else {
            panic!("inode {ino} is written but free")
        };
        let size = u64::from(self.sb.geometry.inode_size);
        let byte = placed.at + i as u64 * size;
        if old != 0 {
            self.usage.inode_dies(old * size, size as u32, Death::Rewritten);
        }
        self.usage.block_lives(byte, size as u32, now, Some(&placed.history));
        let entry = ImapEntry::Used { at: byte / size, crc, generation, orphan };
        self.ifile.set_entry(core, &anchor, ino, entry);
    }

    /// Takes an item's content and puts its checksum into its parent.
    fn take(&self, core: &Core, placed: PlacedItem, number: u64, taken: &mut SegmentContents) {
        let wide = self.sb.geometry.has_checksums();
        match placed.item {
            LogItem::Block { inode, frame, len, holder, crc } => {
                let lbn = frame.lbn();
                self.refresh_table(&inode, &frame);
                let block = frame.with(|b| b.slice(0, len as usize));
                debug_assert!(crc.is_none_or(|crc| crc == block.crc32c()), "it changed");
                debug_assert!(
                    lbn >= 0 || core.check_indirect(&frame).is_ok(),
                    "indirect block {lbn} of inode {} points to a block that has no place",
                    inode.ino
                );
                let crc = crc.unwrap_or_else(|| block.crc32c());
                let addr = placed.at / u64::from(self.sb.geometry.frag_size);
                let kept = if wide { crc } else { 0 };
                core.set_ptr(&inode, lbn, Ptr { addr, len, crc: kept });
                let generation = inode.d.borrow().generation;
                let info = BlockInfo { lbn, len, crc: kept, holder };
                taken.add_block(inode.ino, generation, info, &self.sb);
                self.forwards.drop_holder(inode.ino, Holder::Indirect(lbn));
                if inode.class(lbn) == Class::Data {
                    taken.is_data = true;
                    taken.contents_bytes += u64::from(len);
                }
                match lbn < 0 || inode.ino <= IFILE_INO {
                    true => taken.meta_bytes += u64::from(len),
                    false => taken.data_bytes += u64::from(len),
                }
                taken.crcs.push(crc);
                taken.blocks.push(block);
                core.cache.mark_sent(&inode.frames, &frame);
                InodeState::of(&inode).block_written(lbn, number);
                taken.held.push(frame);
            }
            LogItem::Inodes(inodes) => {
                let list = inodes.iter().map(|inode| {
                    let mut raw = vec![0; self.sb.geometry.inode_size as usize];
                    inode.d.borrow().encode(&self.sb.geometry, &mut raw);
                    core.mark_inode_clean(inode);
                    InodeState::of(inode).set_written_in(number);
                    InodeState::of(inode).set_links_on_disk(&inode.d.borrow());
                    if !inode.frames.has_dirty_data() {
                        InodeState::of(inode).forget_cut();
                    }
                    self.forwards.drop_holder(inode.ino, Holder::Inode);
                    (inode.ino, raw, InodeState::of(inode).map_block())
                });
                let list: Vec<_> = list.collect();
                for inode in &inodes {
                    self.defer(core, inode);
                }
                self.take_inodes(core, placed.at, list, taken);
            }
            LogItem::RawInodes(inodes) => {
                let list = inodes.into_iter().map(|i| (i.ino, i.raw, Some(i.anchor))).collect();
                self.take_inodes(core, placed.at, list, taken);
            }
            LogItem::Freed { ino, generation } => {
                taken.entries.push(SummaryEntry::Freed { ino, generation });
            }
        }
    }

    /// Takes the blocks of the usage table last of all, when the usage of the whole log write is
    /// known.
    fn refresh_table(&self, inode: &Inode, frame: &Frame) {
        let Ok(lbn) = u64::try_from(frame.lbn()) else { return };
        if let Some(nth) = self.sb.table_block_at(lbn).filter(|_| inode.ino == IFILE_INO) {
            self.usage.with(|table| {
                frame.change(|block| match block {
                    // As it was made: zeros that take no memory.
                    Block::Zero(_) if table.is_unused(nth) => {}
                    block => table.encode_block(nth, block.bytes_mut()),
                });
            });
        }
    }

    fn take_inodes(
        &self,
        core: &Core,
        at: u64,
        list: Vec<(Ino, Vec<u8>, Option<Rc<Frame>>)>,
        taken: &mut SegmentContents,
    ) {
        let wide = self.sb.geometry.has_checksums();
        let len = inode_block_len(&self.sb, list.len()) as usize;
        let size = self.sb.geometry.inode_size as usize;
        let mut buf = Buf::zeroed(len);
        let mut infos = Vec::with_capacity(list.len());
        for (i, (ino, raw, anchor)) in list.into_iter().enumerate() {
            buf[i * size..(i + 1) * size].copy_from_slice(&raw);
            let crc = if wide { crc32c::crc32c(&raw) } else { 0 };
            infos.push(InodeInfo { ino: if wide { ino } else { 0 }, crc });
            if let Some(anchor) = anchor
                && let ImapEntry::Used { at, generation, orphan, .. } =
                    self.ifile.entry(&anchor, ino)
            {
                self.ifile.set_entry(
                    core,
                    &anchor,
                    ino,
                    ImapEntry::Used { at, crc, generation, orphan },
                );
            }
        }
        let block = Block::Bytes(buf.freeze());
        self.inode_blocks.begin(at, block.clone());
        taken.crcs.push(block.crc32c());
        taken.meta_bytes += len as u64;
        taken.entries.push(SummaryEntry::Inodes(infos));
        taken.blocks.push(block);
    }

    /// Keeps an inode whose indirect blocks wait for a checkpoint, with everything above them
    /// dirty.
    pub(crate) fn defer(&self, core: &Core, inode: &Rc<Inode>) {
        let mut any = false;
        for frame in inode.frames.dirty_frames().iter().take_while(|f| f.lbn() < 0) {
            any = true;
            dirty_indirect(core, inode, frame.lbn());
        }
        if any {
            self.checkpoints.defer(inode);
        }
    }

    /// Makes the summary of a partial segment and the request that writes it.
    #[allow(clippy::too_many_arguments)] // All of it goes into one header.
    fn seal(
        &self,
        core: &Core,
        part: PartialSegmentPlan,
        taken: SegmentContents,
        group: u64,
        flags: u32,
        origin: Origin,
        out: &mut LogWrite,
    ) -> Io {
        let serial = self.position.take_serial();
        self.count(|stats| {
            stats.partial_segments += 1;
            stats.data_bytes += taken.data_bytes;
            stats.meta_bytes += taken.meta_bytes;
            if flags & LOG_WRITE_CLEANER == 0 {
                stats.new_data_bytes += taken.contents_bytes;
            }
        });
        let header = Header {
            serial,
            group,
            flags,
            stream: part.stream as u32,
            next_segment: part.next,
            total_bytes: part.total_bytes,
            summary_bytes: part.summary_bytes,
            time: core.rt.now(),
        };
        let raw = Summary::new(header, taken.entries, &taken.crcs).encode(&self.sb);
        debug_assert_eq!(raw.len(), part.summary_bytes as usize, "a draft was wrong");
        let mut blocks = Vec::with_capacity(taken.blocks.len() + 2);
        blocks.push(Block::Bytes(Buf::copy_of(&raw).freeze()));
        blocks.extend(taken.blocks);
        let used: usize = blocks.iter().map(Block::len).sum();
        let padding = part.total_bytes as usize - used;
        if padding > 0 {
            blocks.push(Block::Zero(padding as u32));
        }
        out.held.extend(taken.held);
        let class = if taken.is_data { Class::Mixed } else { Class::Meta };
        Io::write(part.start, blocks, class, origin)
    }

    fn note_built(&self, log_write: &LogWrite) {
        self.count(|stats| {
            stats.log_writes += 1;
            stats.log_bytes += log_write.bytes;
        });
        self.checkpoints.note_written(log_write.bytes);
        self.progress.begin(log_write.number);
    }
}

/// Marks the indirect blocks above a block dirty, but not the inode.
pub(crate) fn dirty_indirect(core: &Core, inode: &Rc<Inode>, lbn: Lbn) {
    let mut at = lbn;
    while let twin_fs::geometry::Parent::Indirect(up, _) = core.geometry.parent(at) {
        if let Some(frame) = core.cache.peek(&inode.frames, up) {
            core.cache.mark_dirty(&inode.frames, &frame);
        }
        at = up;
    }
}

/// The content of one partial segment while it is built.
#[derive(Default)]
struct SegmentContents {
    entries: Vec<SummaryEntry>,
    blocks: Vec<Block>,
    crcs: Vec<u32>,
    held: Vec<Rc<Frame>>,
    is_data: bool,
    data_bytes: u64,
    meta_bytes: u64,
    /// Of `data_bytes`, the contents of files.
    contents_bytes: u64,
}

impl SegmentContents {
    /// Adds a block to the entry of its file, or begins an entry. It must agree with
    /// `SummaryDraft::add_block`, which has reserved the bytes.
    fn add_block(
        &mut self,
        ino: Ino,
        generation: u32,
        info: BlockInfo,
        sb: &crate::format::Superblock,
    ) {
        let narrow = !sb.geometry.is_modern();
        if let Some(SummaryEntry::File { ino: open, blocks, .. }) = self.entries.last_mut()
            && *open == ino
            && blocks.last().is_some_and(|b| b.holder.is_some() == info.holder.is_some())
            && (!narrow || blocks.last().is_some_and(|b| b.len == sb.geometry.block_size))
        {
            blocks.push(info);
            return;
        }
        self.entries.push(SummaryEntry::File { ino, generation, blocks: vec![info] });
    }
}

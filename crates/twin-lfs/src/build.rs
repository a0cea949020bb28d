//! Building a log write: the step that turns dirty state into partial segments.
//!
//! A log write (a *group*) is a snapshot. It takes everything that is dirty at one instant, so
//! that what recovery finds is the state of the volume at some instant: operations are applied in
//! one step (see `twin_fs::Volume`), so no operation is ever half there. The cleaner's groups are
//! the exception: they move blocks and change nothing.
//!
//! Building does not wait. It goes through its pieces three times: gives each its place, settles
//! the accounts of segments, then, children before parents, takes the content, checksums it and
//! puts place and checksum into the parent.

use std::collections::BTreeSet;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::shape::{PointerFormat, Ptr};
use twin_fs::{Core, FsError, Ino, Inode, Result};

use crate::format::Form;
use crate::format::IFILE_INO;
use crate::format::{
    BlockInfo, Draft, Entry, GROUP_CLEANER, GROUP_LAST, HeadPos, Header, ImapEntry, InodeInfo,
    Summary, inode_block_len,
};
use crate::forwards::Holder;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;
use crate::segment_usage::{BlockHistory, Death};

/// An inode that moves unchanged: its bytes as they are on disk, and its map block.
pub(crate) struct RawInode {
    pub(crate) ino: Ino,
    pub(crate) raw: Vec<u8>,
    pub(crate) anchor: Rc<Frame>,
}

/// A part of a log write.
pub(crate) enum Piece {
    /// `holder`: the cleaner moves the block and leaves what points to it in this form. `crc`: its
    /// checksum, if it is known since the block moves unchanged; to make it anew would cost time, and
    /// hide damage.
    Block {
        inode: Rc<Inode>,
        frame: Rc<Frame>,
        len: u32,
        holder: Option<Form>,
        crc: Option<u32>,
    },
    Inodes(Vec<Rc<Inode>>),
    RawInodes(Vec<RawInode>),
    Freed {
        ino: Ino,
        generation: u32,
    },
}

/// A piece with its place: the first byte on the device, and the partial segment.
struct PlacedPiece {
    piece: Piece,
    at: u64,
    /// Index into the drafts.
    part: usize,
    history: BlockHistory,
}

/// A partial segment before its blocks are taken.
struct Part {
    stream: usize,
    start: u64,
    next: u32,
    summary_bytes: u32,
    total_bytes: u32,
}

/// A log write, ready to go to the device.
pub(crate) struct Group {
    pub(crate) number: u64,
    pub(crate) ios: Vec<Io>,
    /// Frames that must stay in memory until the device has them.
    pub(crate) held: Vec<Rc<Frame>>,
    pub(crate) bytes: u64,
}

impl Lfs {
    /// The pieces of a snapshot: everything that is dirty now, files in the order in which they
    /// became dirty, each with its data, its indirect blocks and its inode. With `all`, deferred
    /// indirect blocks too.
    pub(crate) fn snapshot(&self, core: &Core, all: bool) -> Vec<Piece> {
        if all {
            for inode in self.checkpoints.take_deferred() {
                core.mark_inode_dirty(&inode);
            }
        }
        let shape = &self.sb.shape;
        let per_block = (shape.block_size / shape.inode_size) as usize;
        let mut pieces = Vec::new();
        let mut inodes: Vec<Rc<Inode>> = Vec::new();
        for inode in core.dirty_inodes() {
            self.collect_blocks(core, &inode, all || self.settings.eager_indirect, &mut pieces);
            inodes.push(inode);
            if inodes.len() == per_block {
                pieces.push(Piece::Inodes(std::mem::take(&mut inodes)));
            }
        }
        if !inodes.is_empty() {
            pieces.push(Piece::Inodes(inodes));
        }
        let freed = self.numbers.take_freed();
        pieces.extend(freed.into_iter().map(|(ino, generation)| Piece::Freed { ino, generation }));
        pieces
    }

    /// A file's dirty blocks: data, then indirect blocks from the lowest level up.
    fn collect_blocks(&self, core: &Core, inode: &Rc<Inode>, all: bool, pieces: &mut Vec<Piece>) {
        let shape = &self.sb.shape;
        let size = inode.d.borrow().size;
        let dirty = inode.frames.dirty_frames();
        let first_data = dirty.partition_point(|frame| frame.lbn() < 0);
        for frame in &dirty[first_data..] {
            let len = shape.data_len(frame.lbn() as u64, size);
            let (inode, frame) = (Rc::clone(inode), Rc::clone(frame));
            pieces.push(Piece::Block { inode, frame, len, holder: None, crc: None });
        }
        let mut indirect: Vec<_> = dirty[..first_data].iter().collect();
        indirect.sort_by_key(|frame| (shape.indirect(frame.lbn()).0, -frame.lbn()));
        for frame in indirect {
            let lbn = frame.lbn();
            let is_new = || core.resident_ptr(inode, lbn).is_some_and(|p| !p.is_on_disk());
            if all || is_new() || InodeState::of(inode).has_lost_pointers(lbn) {
                let (inode, frame) = (Rc::clone(inode), Rc::clone(frame));
                let len = shape.block_size;
                pieces.push(Piece::Block { inode, frame, len, holder: None, crc: None });
            }
        }
    }

    /// Adds the ifile to the pieces of a checkpoint. Writing the ifile changes the segment usage
    /// table, which is in the ifile: all blocks of the table that this group will change are
    /// found first.
    pub(crate) fn add_ifile(&self, core: &Core, pieces: &mut Vec<Piece>) {
        for piece in pieces.iter() {
            if let Piece::Inodes(inodes) = piece {
                for anchor in inodes.iter().filter_map(|i| InodeState::of(i).map_block()) {
                    self.dirty_ifile_block(core, &anchor);
                }
            }
        }
        loop {
            let mut table = self.usage.with(|table| table.changed().clone());
            self.touched_table_blocks(core, pieces, &mut table);
            let mut grew = false;
            for lbn in table {
                if let Some(frame) = core.cache.peek(&self.ifile.frames, lbn as Lbn)
                    && !frame.is_dirty()
                {
                    self.dirty_ifile_block(core, &frame);
                    grew = true;
                }
            }
            if !grew {
                break;
            }
        }
        self.collect_blocks(core, &self.ifile, true, pieces);
    }

    /// Blocks of the usage table that a group with these pieces and the dirty ifile changes.
    fn touched_table_blocks(&self, core: &Core, pieces: &[Piece], table: &mut BTreeSet<u64>) {
        let mut bytes = 0u64;
        let mut old = |byte: u64| {
            if let Some(segment) = self.sb.segment_of(byte) {
                table.insert(self.usage.table_block(segment));
            }
        };
        let mut old_block = |inode: &Inode, lbn: Lbn| {
            if let Some(ptr) = core.resident_ptr(inode, lbn).filter(Ptr::is_on_disk) {
                old(self.sb.shape.byte_of(ptr.addr));
            }
        };
        for piece in pieces {
            match piece {
                Piece::Block { inode, frame, len, .. } => {
                    bytes += u64::from(*len);
                    old_block(inode, frame.lbn());
                }
                Piece::Inodes(inodes) => {
                    bytes += u64::from(inode_block_len(&self.sb, inodes.len()));
                }
                Piece::RawInodes(_) | Piece::Freed { .. } => {}
            }
        }
        for frame in self.ifile.frames.dirty_frames() {
            bytes += u64::from(self.sb.shape.block_size);
            old_block(&self.ifile, frame.lbn());
        }
        for piece in pieces {
            if let Piece::Inodes(inodes) = piece {
                for inode in inodes {
                    if let Some(ImapEntry::Used { at, .. }) = self.current_entry(inode)
                        && at != 0
                    {
                        old(at * u64::from(self.sb.shape.inode_size));
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
        InodeState::of(inode).map_block().as_ref().map(|anchor| self.entry_in(anchor, inode.ino))
    }

    /// Builds a group of the pieces, each in the stream that the placement policy says. There is
    /// no group if there are none.
    ///
    /// # Errors
    /// If the log has no clean segment left, which admission is there to prevent.
    pub(crate) fn build(
        &self,
        core: &Core,
        pieces: Vec<Piece>,
        flags: u32,
        origin: Origin,
    ) -> Result<Option<Group>> {
        if pieces.is_empty() {
            if flags & GROUP_CLEANER == 0 {
                self.note_taken(core);
            }
            return Ok(None);
        }
        let streams = self.assign(core, &pieces, flags & GROUP_CLEANER != 0);
        let (placed, parts) = self.lay_out(pieces, &streams)?;
        for p in &placed {
            self.settle(core, p);
        }
        let number = self.position.serial();
        let mut group = Group { number, ios: Vec::new(), held: Vec::new(), bytes: 0 };
        let last = parts.len() - 1;
        let mut taken: Vec<Taken> = parts.iter().map(|_| Taken::default()).collect();
        // In the order of the pieces, whatever their parts: children before parents.
        for p in placed {
            let part = p.part;
            self.take(core, p, number, &mut taken[part]);
        }
        for (index, (part, taken)) in parts.into_iter().zip(taken).enumerate() {
            let flags = if index == last { flags | GROUP_LAST } else { flags };
            let io = self.seal(core, part, taken, number, flags, origin, &mut group);
            group.bytes += io.len;
            group.ios.push(io);
        }
        if flags & GROUP_CLEANER == 0 {
            self.note_taken(core);
        }
        self.note_built(&group);
        // What the cleaner writes itself is no reason to clean: it could go on for ever.
        if flags == 0 || !self.cleaner.is_busy() {
            self.consider_cleaning();
        }
        Ok(Some(group))
    }

    /// Gives every piece its place, stream by stream.
    fn lay_out(
        &self,
        pieces: Vec<Piece>,
        streams: &[(u8, BlockHistory)],
    ) -> Result<(Vec<PlacedPiece>, Vec<Part>)> {
        let mut places = vec![(0, 0); pieces.len()];
        let mut parts = Vec::new();
        let heads = self.position.streams();
        for stream in 0..heads {
            let its = |nth: &usize| usize::from(streams[*nth].0) == stream;
            let its: Vec<usize> = (0..pieces.len()).filter(its).collect();
            self.lay_out_stream(&pieces, &its, stream, &mut places, &mut parts)?;
        }
        let with_place =
            |((piece, (at, part)), &(_, history))| PlacedPiece { piece, at, part, history };
        Ok((pieces.into_iter().zip(places).zip(streams).map(with_place).collect(), parts))
    }

    /// Gives those pieces of a stream that `its` names their places (first byte, part), filling
    /// partial segments one after the other.
    fn lay_out_stream(
        &self,
        pieces: &[Piece],
        its: &[usize],
        stream: usize,
        places: &mut [(u64, usize)],
        parts: &mut Vec<Part>,
    ) -> Result<()> {
        let segment_size = u64::from(self.sb.segment_size);
        let align = u64::from(self.sb.align);
        let mut rest = its.iter().peekable();
        while rest.peek().is_some() {
            let head = self.position.head(stream);
            let room = segment_size - u64::from(head.offset);
            let mut draft = Draft::new(&self.sb);
            let mut blocks = 0u64;
            let mut fitted = Vec::new();
            while let Some(&&nth) = rest.peek() {
                let mut longer = draft.clone();
                let len = self.piece_len(&pieces[nth]);
                let fits = self.draft(&mut longer, &pieces[nth])
                    && (longer.len() as u64 + blocks + len).next_multiple_of(align) <= room;
                if !fits {
                    break;
                }
                draft = longer;
                rest.next();
                fitted.push((nth, blocks));
                blocks += len;
            }
            if draft.is_empty() {
                self.next_segment(stream)?;
                continue;
            }
            let start = self.sb.segment_start(head.segment) + u64::from(head.offset);
            let summary_bytes = draft.len() as u32;
            let total = (u64::from(summary_bytes) + blocks).next_multiple_of(align);
            for (nth, at) in fitted {
                places[nth] = (start + u64::from(summary_bytes) + at, parts.len());
            }
            let total_bytes = total as u32;
            parts.push(Part { stream, start, next: head.next, summary_bytes, total_bytes });
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

    fn piece_len(&self, piece: &Piece) -> u64 {
        match piece {
            Piece::Block { len, .. } => u64::from(*len),
            Piece::Inodes(inodes) => inode_block_len(&self.sb, inodes.len()).into(),
            Piece::RawInodes(inodes) => inode_block_len(&self.sb, inodes.len()).into(),
            Piece::Freed { .. } => 0,
        }
    }

    fn draft(&self, draft: &mut Draft, piece: &Piece) -> bool {
        match piece {
            Piece::Block { inode, len, holder, .. } => {
                draft.add_block(inode.ino, *len, holder.is_some())
            }
            Piece::Inodes(inodes) => draft.add_inodes(inodes.len()),
            Piece::RawInodes(inodes) => draft.add_inodes(inodes.len()),
            Piece::Freed { .. } => draft.add_freed(),
        }
    }

    /// Settles the accounts for a piece: its old place dies, its new one lives.
    fn settle(&self, core: &Core, placed: &PlacedPiece) {
        let shape = &self.sb.shape;
        // What the cleaner moves stays as old as it was.
        let now = placed.history.written.unwrap_or(core.rt.now());
        match &placed.piece {
            Piece::Block { inode, frame, len, .. } => {
                let old = core.resident_ptr(inode, frame.lbn()).unwrap_or(Ptr::HOLE);
                if old.is_on_disk() {
                    self.usage.block_dies(shape.byte_of(old.addr), old.len, Death::Rewritten);
                }
                self.usage.block_lives(placed.at, *len, now, Some(&placed.history));
                let addr = placed.at / u64::from(shape.frag_size);
                core.set_ptr(inode, frame.lbn(), Ptr { addr, len: *len, crc: 0 });
            }
            Piece::Inodes(inodes) => {
                for (i, inode) in inodes.iter().enumerate() {
                    let anchor = InodeState::of(inode).map_block();
                    self.settle_inode(core, inode.ino, anchor, placed, i);
                }
            }
            Piece::RawInodes(inodes) => {
                for (i, raw) in inodes.iter().enumerate() {
                    self.settle_inode(core, raw.ino, Some(Rc::clone(&raw.anchor)), placed, i);
                }
            }
            Piece::Freed { .. } => {}
        }
    }

    fn settle_inode(
        &self,
        core: &Core,
        ino: Ino,
        anchor: Option<Rc<Frame>>,
        placed: &PlacedPiece,
        i: usize,
    ) {
        let now = placed.history.written.unwrap_or(core.rt.now());
        let Some(anchor) = anchor else { panic!("inode {ino} has no map block") };
        let ImapEntry::Used { at: old, crc, generation, orphan } = self.entry_in(&anchor, ino)
        else {
            panic!("inode {ino} is written but free")
        };
        let size = u64::from(self.sb.shape.inode_size);
        let byte = placed.at + i as u64 * size;
        if old != 0 {
            self.usage.block_dies(old * size, size as u32, Death::Rewritten);
        }
        self.usage.block_lives(byte, size as u32, now, Some(&placed.history));
        let entry = ImapEntry::Used { at: byte / size, crc, generation, orphan };
        self.set_entry(core, &anchor, ino, entry);
    }

    /// Takes a piece's content and puts its checksum into its parent.
    fn take(&self, core: &Core, placed: PlacedPiece, number: u64, taken: &mut Taken) {
        let wide = self.sb.shape.pointer == PointerFormat::Wide;
        match placed.piece {
            Piece::Block { inode, frame, len, holder, crc } => {
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
                let addr = placed.at / u64::from(self.sb.shape.frag_size);
                let kept = if wide { crc } else { 0 };
                core.set_ptr(&inode, lbn, Ptr { addr, len, crc: kept });
                let generation = inode.d.borrow().generation;
                let info = BlockInfo { lbn, len, crc: kept, holder };
                taken.add_block(inode.ino, generation, info, &self.sb);
                self.forwards.drop_holder(inode.ino, Holder::Indirect(lbn));
                taken.is_data |= inode.class(lbn) == Class::Data;
                match lbn < 0 || inode.ino == IFILE_INO {
                    true => taken.meta_bytes += u64::from(len),
                    false => taken.data_bytes += u64::from(len),
                }
                taken.crcs.push(crc);
                taken.blocks.push(block);
                core.cache.mark_sent(&inode.frames, &frame);
                InodeState::of(&inode).block_written(lbn, number);
                taken.held.push(frame);
            }
            Piece::Inodes(inodes) => {
                let list = inodes.iter().map(|inode| {
                    let mut raw = vec![0; self.sb.shape.inode_size as usize];
                    inode.d.borrow().encode(&self.sb.shape, &mut raw);
                    core.mark_inode_clean(inode);
                    InodeState::of(inode).set_written_in(number);
                    self.forwards.drop_holder(inode.ino, Holder::Inode);
                    (inode.ino, raw, InodeState::of(inode).map_block())
                });
                let list: Vec<_> = list.collect();
                for inode in &inodes {
                    self.defer(core, inode);
                }
                self.take_inodes(core, placed.at, list, taken);
            }
            Piece::RawInodes(inodes) => {
                let list = inodes.into_iter().map(|i| (i.ino, i.raw, Some(i.anchor))).collect();
                self.take_inodes(core, placed.at, list, taken);
            }
            Piece::Freed { ino, generation } => {
                taken.entries.push(Entry::Freed { ino, generation });
            }
        }
    }

    /// The usage table's blocks get their content at the last moment, when the accounts of the
    /// whole group are settled.
    fn refresh_table(&self, inode: &Inode, frame: &Frame) {
        let lbn = frame.lbn();
        if inode.ino == IFILE_INO && lbn >= 0 && (lbn as u64) < self.sb.usage_blocks() {
            self.usage.with(|table| {
                frame.change(|block| table.encode_block(lbn as u64, block.bytes_mut()));
            });
        }
    }

    fn take_inodes(
        &self,
        core: &Core,
        at: u64,
        list: Vec<(Ino, Vec<u8>, Option<Rc<Frame>>)>,
        taken: &mut Taken,
    ) {
        let wide = self.sb.shape.pointer == PointerFormat::Wide;
        let len = inode_block_len(&self.sb, list.len()) as usize;
        let size = self.sb.shape.inode_size as usize;
        let mut buf = Buf::zeroed(len);
        let mut infos = Vec::with_capacity(list.len());
        for (i, (ino, raw, anchor)) in list.into_iter().enumerate() {
            buf[i * size..(i + 1) * size].copy_from_slice(&raw);
            let crc = if wide { crc32c::crc32c(&raw) } else { 0 };
            infos.push(InodeInfo { ino: if wide { ino } else { 0 }, crc });
            if let Some(anchor) = anchor
                && let ImapEntry::Used { at, generation, orphan, .. } = self.entry_in(&anchor, ino)
            {
                self.set_entry(core, &anchor, ino, ImapEntry::Used { at, crc, generation, orphan });
            }
        }
        let block = Block::Bytes(buf.freeze());
        self.inode_blocks.begin(at, block.clone());
        taken.crcs.push(block.crc32c());
        taken.meta_bytes += len as u64;
        taken.entries.push(Entry::Inodes(infos));
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

    /// Turns what was taken into a partial segment and the request that writes it.
    #[allow(clippy::too_many_arguments)] // All of it goes into one header.
    fn seal(
        &self,
        core: &Core,
        part: Part,
        taken: Taken,
        group: u64,
        flags: u32,
        origin: Origin,
        out: &mut Group,
    ) -> Io {
        let serial = self.position.take_serial();
        self.count(|stats| {
            stats.partial_segments += 1;
            stats.data_bytes += taken.data_bytes;
            stats.meta_bytes += taken.meta_bytes;
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

    /// What is still dirty after a snapshot was taken waits for a checkpoint.
    fn note_taken(&self, core: &Core) {
        self.checkpoints.set_deferred_bytes(core.cache.dirty_bytes());
        self.forget_dirty();
    }

    fn note_built(&self, group: &Group) {
        self.count(|stats| {
            stats.groups += 1;
            stats.log_bytes += group.bytes;
        });
        self.checkpoints.note_written(group.bytes);
        self.progress.begin(group.number);
    }
}

/// Marks the indirect blocks above a block dirty, but not the inode.
pub(crate) fn dirty_indirect(core: &Core, inode: &Rc<Inode>, lbn: Lbn) {
    let mut at = lbn;
    while let twin_fs::shape::Parent::Indirect(up, _) = core.shape.parent(at) {
        if let Some(frame) = core.cache.peek(&inode.frames, up) {
            core.cache.mark_dirty(&inode.frames, &frame);
        }
        at = up;
    }
}

/// What goes into one partial segment.
#[derive(Default)]
struct Taken {
    entries: Vec<Entry>,
    blocks: Vec<Block>,
    crcs: Vec<u32>,
    held: Vec<Rc<Frame>>,
    is_data: bool,
    data_bytes: u64,
    meta_bytes: u64,
}

impl Taken {
    /// Adds a block to the entry of its file, or begins one. In step with `Draft::add_block`.
    fn add_block(
        &mut self,
        ino: Ino,
        generation: u32,
        info: BlockInfo,
        sb: &crate::format::Superblock,
    ) {
        let narrow = sb.shape.pointer == PointerFormat::Narrow;
        if let Some(Entry::File { ino: open, blocks, .. }) = self.entries.last_mut()
            && *open == ino
            && blocks.last().is_some_and(|b| b.holder.is_some() == info.holder.is_some())
            && (!narrow || blocks.last().is_some_and(|b| b.len == sb.shape.block_size))
        {
            blocks.push(info);
            return;
        }
        self.entries.push(Entry::File { ino, generation, blocks: vec![info] });
    }
}

//! Finds the live blocks and inodes of a segment.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Class, Io, Origin, Pending};
use twin_fs::dinode::Dinode;
use twin_fs::{Core, FsError, Ino, Inode, ReadPass, Result, Work};

use super::Pace;
use crate::format::{BlockContents, ImapEntry, PlacedBlock, Superblock};
use crate::format::{IFILE_INO, SNAPSHOTS_INO};
use crate::forwards::Holder;
use crate::lfs::Lfs;
use crate::log_items::RawInode;
use crate::partial_segments::{Content, PartialSegment, PartialSegments};

/// The number of live blocks after which the scan lets clients run. A request that comes meanwhile waits for
/// some ten microseconds, about the time from an answer to the client's next request.
const HEARS_AFTER: usize = 8;

/// A segment that is being read to be cleaned. No checkpoint can end while it exists, so its holder
/// must not wait for one.
pub(super) struct Victim {
    pub(super) segment: u32,
    /// Bytes that are read together.
    step: u64,
    first: Pending,
    pass: ReadPass,
}

/// A live block or inode.
pub(super) enum LiveItem {
    Block {
        inode: Rc<Inode>,
        frame: Rc<Frame>,
        addr: u64,
        len: u32,
    },
    /// `_loaded`: its raw form is out of date; this one counts, and is kept in memory.
    Inode {
        raw: RawInode,
        at: u64,
        _loaded: Option<Rc<Inode>>,
    },
}

/// The live items of some segments.
#[derive(Default)]
pub(super) struct LiveItems {
    pub(super) found: Vec<LiveItem>,
    /// The indirect blocks above the found blocks. They must stay in memory until those have moved.
    pub(super) parents: Vec<Rc<Frame>>,
}

impl LiveItem {
    /// Its first byte on the device.
    pub(super) fn at(&self, sb: &Superblock) -> u64 {
        match self {
            LiveItem::Block { addr, .. } => addr * u64::from(sb.geometry.frag_size),
            LiveItem::Inode { at, .. } => at * u64::from(sb.geometry.inode_size),
        }
    }

    /// The file that it belongs to, and its number there: an inode comes behind its file's blocks.
    pub(super) fn in_file(&self) -> (u64, i64) {
        match self {
            LiveItem::Block { inode, frame, .. } => (inode.ino, frame.lbn()),
            LiveItem::Inode { raw, .. } => (raw.ino, i64::MAX),
        }
    }

    pub(super) fn len(&self, sb: &Superblock) -> u32 {
        match self {
            LiveItem::Block { len, .. } => *len,
            LiveItem::Inode { .. } => sb.geometry.inode_size,
        }
    }

    /// Its level above data: a block of pointers is above the blocks that they lead to.
    pub(super) fn level(&self, sb: &Superblock) -> u32 {
        match self {
            LiveItem::Block { frame, .. } if frame.lbn() < 0 => {
                sb.geometry.indirect(frame.lbn()).0 as u32
            }
            LiveItem::Block { .. } => 0,
            LiveItem::Inode { .. } => u32::MAX,
        }
    }
}

impl Lfs {
    /// Requests the content of a segment, or its first step if the cleaner reads in steps.
    pub(super) fn begin_reading(&self, core: &Core, segment: u32, pace: Pace) -> Victim {
        let size = u64::from(self.sb.segment_size);
        let step = match pace {
            Pace::Whole => size,
            Pace::Steps { bytes, .. } => {
                bytes.next_multiple_of(u64::from(core.info.sector)).max(4096).min(size)
            }
        };
        // The segment must not be reused before the whole of it has been scanned.
        let pass = core.reads.enter();
        let first = self.read_segment(core, segment, 0, step);
        Victim { segment, step, first, pass }
    }

    /// Requests a step of a segment. It counts as read from here on, because a victim that is given
    /// up after it was requested has cost the device its time too.
    fn read_segment(&self, core: &Core, segment: u32, at: u64, step: u64) -> Pending {
        let len = step.min(u64::from(self.sb.segment_size) - at);
        self.count(|stats| stats.cleaner_read_bytes += len);
        let at = self.sb.segment_start(segment) + at;
        core.device.submit(Io::read(at, len, Class::Mixed, Origin::Cleaner))
    }

    /// Finds the live items of a segment. Live blocks of the ifile are marked dirty, because the
    /// next checkpoint moves them anyway. Dirty blocks are left to that checkpoint, too.
    pub(super) async fn scan_segment(
        &self,
        core: &Rc<Core>,
        victim: Victim,
        live: &mut LiveItems,
    ) -> Result<()> {
        let Victim { segment, step, first, pass } = victim;
        let start = self.sb.segment_start(segment);
        let size = u64::from(self.sb.segment_size);
        let (began, in_steps) = (core.rt.now(), step < size);
        let mut blocks = first.await?;
        for at in (step..size).step_by(step as usize) {
            blocks.extend(self.read_segment(core, segment, at, step).await?);
        }
        self.cleaner.quick.read(in_steps.then(|| core.rt.now() - began));
        if self.settings.copies {
            // A process outside of the kernel reads it (lfs_cleanerd/library.c, mmap_segment).
            core.cpu.charge(Work::Copy(size)).await;
        }
        let mut heard = live.found.len();
        let content = Content { start, blocks: &blocks };
        let mut parts = PartialSegments::of(&self.sb, segment);
        while let Some(PartialSegment { offset, summary }) = parts.next(&self.sb, &content).await? {
            for placed in summary.blocks(&self.sb) {
                let at = start + u64::from(offset + placed.at);
                let block = content.block(at, placed.len);
                self.find_live(core, &placed, at, block, live).await?;
                if live.found.len() >= heard + HEARS_AFTER {
                    core.rt.yield_to_all().await;
                    heard = live.found.len();
                }
            }
        }
        drop(pass);
        Ok(())
    }

    async fn find_live(
        &self,
        core: &Rc<Core>,
        placed: &PlacedBlock<'_>,
        at: u64,
        content: Block,
        live: &mut LiveItems,
    ) -> Result<()> {
        match placed.what {
            BlockContents::Block { ino: ino @ (IFILE_INO | SNAPSHOTS_INO), block, .. } => {
                let file = if ino == IFILE_INO { &self.ifile } else { &self.snapshots.file };
                let addr = at / u64::from(self.sb.geometry.frag_size);
                let ptr = core.ptr(&file.inode, block.lbn).await?;
                if ptr.addr == addr
                    && let Some(frame) = core.block(&file.inode, block.lbn, Origin::Cleaner).await?
                {
                    file.mark_dirty(core, &frame);
                }
                Ok(())
            }
            BlockContents::Block { ino, generation, block } => {
                let Some(inode) = self.owner(core, ino, generation).await? else { return Ok(()) };
                let addr = at / u64::from(self.sb.geometry.frag_size);
                let held = live.parents.len();
                core.pin_parents(&inode, block.lbn, &mut live.parents).await?;
                match self.live_frame(core, &inode, block.lbn, addr, content).await? {
                    Some(frame) => {
                        let len = placed.len;
                        live.found.push(LiveItem::Block { inode, frame, addr, len });
                    }
                    None => live.parents.truncate(held),
                }
                Ok(())
            }
            BlockContents::Inodes(list) => {
                let size = self.sb.geometry.inode_size as usize;
                let raw = content.to_bytes();
                for (i, info) in list.iter().enumerate() {
                    let raw = raw[i * size..(i + 1) * size].to_vec();
                    let decoded = Dinode::decode(&self.sb.geometry, &raw, core.frags());
                    let ino = match (info.ino, &decoded) {
                        (0, Ok(d)) => d.ino,
                        (0, Err(_)) => continue,
                        (ino, _) => ino,
                    };
                    let place = (at + (i * size) as u64) / size as u64;
                    let Some(anchor) = self.live_inode(core, ino, place).await? else { continue };
                    if let Err(what) = &decoded {
                        return Err(FsError::corrupt(at + (i * size) as u64, *what));
                    }
                    let mut loaded = None;
                    if self.forwards.has(ino, Holder::Inode) {
                        // The inode may have been freed meanwhile.
                        let generation = decoded.map_or(0, |d| d.generation);
                        loaded = self.owner(core, ino, generation).await?;
                    }
                    let raw = RawInode { ino, raw, anchor };
                    live.found.push(LiveItem::Inode { raw, at: place, _loaded: loaded });
                }
                Ok(())
            }
        }
    }

    /// The map block of an inode, if the live inode is at `place`.
    async fn live_inode(&self, core: &Core, ino: Ino, place: u64) -> Result<Option<Rc<Frame>>> {
        if ino <= IFILE_INO || ino >= self.ifile.map_len() {
            return Ok(None);
        }
        let anchor = self.ifile.map_block(core, ino).await?;
        match self.ifile.entry(&anchor, ino) {
            ImapEntry::Used { at, .. } if at == place => Ok(Some(anchor)),
            _ => Ok(None),
        }
    }

    /// The file that a block belonged to, if it still exists.
    async fn owner(&self, core: &Rc<Core>, ino: Ino, generation: u32) -> Result<Option<Rc<Inode>>> {
        if ino <= IFILE_INO || ino >= self.ifile.map_len() {
            return Ok(None);
        }
        let anchor = self.ifile.map_block(core, ino).await?;
        match self.ifile.entry(&anchor, ino) {
            ImapEntry::Used { generation: now, .. } if now == generation => {}
            _ => return Ok(None),
        }
        if let Some(inode) = core.cached_inode(ino) {
            return Ok(Some(inode));
        }
        match self.read_inode(core, ino).await {
            Ok(inode) => Ok(Some(inode)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The frame of a block, filled from the content that was read; `None` if `addr` is not the
    /// block's present place, or the block is dirty. Its parents are in memory.
    async fn live_frame(
        &self,
        core: &Core,
        inode: &Rc<Inode>,
        lbn: Lbn,
        addr: u64,
        content: Block,
    ) -> Result<Option<Rc<Frame>>> {
        // The same test is made again when the log write is built.
        let Some(ptr) = core.resident_ptr(inode, lbn) else { return Ok(None) };
        if ptr.addr != addr || ptr.len as usize != content.len() {
            return Ok(None);
        }
        if let Some(frame) = core.cache.peek(&inode.frames, lbn) {
            frame.wait().await?;
            return Ok((!frame.is_dirty()).then_some(frame));
        }
        let wide = self.sb.geometry.has_checksums();
        if wide && core.settings.check_data && ptr.crc != content.crc32c() {
            let what = format!("block {lbn} of inode {} does not match its checksum", inode.ino);
            return Err(FsError::corrupt(self.sb.geometry.byte_of(addr), what));
        }
        let whole = twin_cache::whole(content, self.sb.geometry.block_size as usize);
        let frame = core.cache.insert(&inode.frames, lbn, Some(whole));
        if lbn >= 0 {
            // Blocks that clients use are worth more in the cache than blocks that merely moved.
            frame.set_drop_behind();
        }
        self.forwards.bring_up_to_date(core, inode, &frame, ptr);
        Ok(Some(frame))
    }
}

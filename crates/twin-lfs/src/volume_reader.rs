//! A volume as it lies on a device, read past the volume's own code: for the checker and the dump.
//!
//! Contract: nothing is written. What a reader gets has passed the checksums that lead to it, or
//! it gets an error with the place. If the volume was not closed, its state is that after
//! roll-forward: what roll-forward changed in memory lies over what is on the device.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, BlockDevice, Bytes, Class, Io, Origin, gather};
use twin_fs::dinode::Dinode;
use twin_fs::geometry::Ptr;
use twin_fs::{Cpu, FsError, Ino, Inode, Result, Settings, Timestamp, VolumeOf};
use twin_rt::Rt;

use crate::format::HolderVersion;
use crate::format::IFILE_INO;
use crate::format::{
    CHECKPOINT_BYTES, Checkpoint, HeadPos, IMAP_ENTRY_BYTES, SEG_ENTRY_BYTES, SUPERBLOCK_BYTES,
    SegEntry, SnapshotRecord, SnapshotsFile, Superblock,
};
use crate::forwards::load_forwards;
use crate::forwards::{Forwards, Holder};
use crate::lfs::Lfs;
use crate::partial_segments::ReadBytes;
use crate::recover::Recovered;
use crate::segment_usage::SegmentState;
use crate::settings::LfsSettings;

/// How much is read at once when reads follow one another, in bytes.
const SEQUENTIAL_READ: u64 = 128 << 10;

/// Where the log and its tables stand: as a checkpoint says, or as roll-forward left it.
pub(crate) struct LogState {
    pub(crate) ifile: Dinode,
    /// The inode of the snapshots' file, if there is one.
    pub(crate) snapshots: Option<Dinode>,
    pub(crate) free_head: Ino,
    pub(crate) free_inodes: u64,
    pub(crate) orphans: u64,
    pub(crate) heads: Vec<HeadPos>,
    /// Partial segments of this state have smaller serial numbers.
    pub(crate) serial: u64,
    pub(crate) picked: Vec<Ino>,
    /// Segments that roll-forward found in use.
    pub(crate) log_segments: Vec<u32>,
    /// The usage table, if it differs from what the ifile holds.
    pub(crate) table: Option<Vec<SegEntry>>,
    /// Blocks in place of what their pointers lead to.
    blocks: BTreeMap<(Ino, Lbn), Bytes>,
    /// Inodes in place of what the map leads to.
    inodes: BTreeMap<Ino, Dinode>,
    /// Pointers in place of those in their holders.
    forwards: Forwards,
}

impl LogState {
    /// The state that a checkpoint describes.
    pub(crate) fn of(checkpoint: &Checkpoint) -> LogState {
        LogState {
            ifile: checkpoint.ifile.clone(),
            snapshots: checkpoint.snapshots.clone(),
            free_head: checkpoint.free_head,
            free_inodes: checkpoint.free_inodes,
            orphans: checkpoint.orphans,
            heads: checkpoint.heads.clone(),
            serial: checkpoint.serial,
            picked: checkpoint.picked.clone(),
            log_segments: Vec::new(),
            table: None,
            blocks: BTreeMap::new(),
            inodes: BTreeMap::new(),
            forwards: Forwards::default(),
        }
    }

    /// A state that is kept under a name. It has no log to go on with.
    pub(crate) fn of_record(record: &SnapshotRecord) -> LogState {
        LogState {
            free_head: record.free_head,
            free_inodes: record.free_inodes,
            orphans: record.orphans,
            serial: record.serial,
            ..LogState::around(record.ifile.clone())
        }
    }

    /// Nothing is known of the volume but its superblock.
    pub(crate) fn unknown(sb: &Superblock) -> LogState {
        LogState::around(Dinode::new(&sb.geometry, IFILE_INO, 0, 0, Timestamp::default()))
    }

    /// A state of which nothing but the ifile is known.
    fn around(ifile: Dinode) -> LogState {
        LogState {
            ifile,
            snapshots: None,
            free_head: 0,
            free_inodes: 0,
            orphans: 0,
            heads: Vec::new(),
            serial: u64::MAX,
            picked: Vec::new(),
            log_segments: Vec::new(),
            table: None,
            blocks: BTreeMap::new(),
            inodes: BTreeMap::new(),
            forwards: Forwards::default(),
        }
    }

    /// Rolls the log forward in memory.
    ///
    /// # Errors
    /// What keeps the volume from being opened.
    pub(crate) async fn rolled_forward(
        rt: &Rt,
        device: &Rc<dyn BlockDevice>,
    ) -> Result<(LogState, Recovered)> {
        let settings = Settings { read_only: true, ..Settings::default() };
        let lfs_settings = LfsSettings { background_cleaning: false, ..LfsSettings::default() };
        let opened = Lfs::open(rt, Rc::clone(device), Cpu::none(), settings, lfs_settings).await;
        let (volume, recovered) = opened?;
        Ok((LogState::in_memory(&volume), recovered))
    }

    /// What an open volume has in memory that is not on the device.
    fn in_memory(volume: &VolumeOf<Lfs>) -> LogState {
        let (core, lfs) = (volume.core(), &volume.layout);
        let mut blocks = BTreeMap::new();
        let mut take = |inode: &Inode| {
            for frame in inode.frames.dirty_frames() {
                blocks.insert((inode.ino, frame.lbn()), frame.block().to_bytes());
            }
        };
        take(&lfs.ifile.inode);
        lfs.checkpoints.deferred().iter().for_each(|inode| take(inode));
        let mut inodes = BTreeMap::new();
        for inode in core.dirty_inodes() {
            take(&inode);
            inodes.insert(inode.ino, inode.d.borrow().clone());
        }
        LogState {
            ifile: lfs.ifile.inode.d.borrow().clone(),
            snapshots: lfs.snapshots.inode(),
            free_head: lfs.numbers.free_head(),
            free_inodes: lfs.numbers.free(),
            orphans: lfs.numbers.orphans().len() as u64,
            heads: lfs.position.heads(),
            serial: lfs.position.serial(),
            picked: lfs.numbers.picked(),
            log_segments: lfs
                .usage
                .with(|t| (0..t.count()).filter(|&s| t.state(s) != SegmentState::Clean).collect()),
            table: Some(lfs.usage.with(|t| (0..t.count()).map(|s| t.entry(s)).collect())),
            blocks,
            inodes,
            forwards: (*lfs.forwards).clone(),
        }
    }

    /// Puts an inode in place of the one on the device.
    pub(crate) fn put_inode(&mut self, d: Dinode) {
        self.inodes.insert(d.ino, d);
    }

    /// Puts content in place of what a block's pointer leads to.
    pub(crate) fn put_block(&mut self, ino: Ino, lbn: Lbn, content: Bytes) {
        self.blocks.insert((ino, lbn), content);
    }

    /// Forgets what lies over an inode and its blocks: there is none.
    pub(crate) fn drop_inode(&mut self, ino: Ino) {
        self.inodes.remove(&ino);
        let blocks: Vec<(Ino, Lbn)> =
            self.blocks.range((ino, Lbn::MIN)..=(ino, Lbn::MAX)).map(|(&id, _)| id).collect();
        blocks.iter().for_each(|id| drop(self.blocks.remove(id)));
    }

    /// The inodes in place of those on the device, ascending.
    pub(crate) fn inodes(&self) -> impl Iterator<Item = &Dinode> {
        self.inodes.values()
    }

    /// The blocks in place of those on the device, by file.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (Ino, Lbn, &Bytes)> {
        self.blocks.iter().map(|(&(ino, lbn), content)| (ino, lbn, content))
    }

    /// The inode in place of the one on the device.
    pub(crate) fn inode(&self, ino: Ino) -> Option<&Dinode> {
        self.inodes.get(&ino)
    }

    /// True if a block's content is not what its pointer leads to.
    pub(crate) fn overlays(&self, ino: Ino, lbn: Lbn) -> bool {
        self.blocks.contains_key(&(ino, lbn))
    }
}

/// What was read last, so that reads that follow one another are few.
struct Chunk {
    start: u64,
    end: u64,
    blocks: Vec<Block>,
}

/// A volume, for reading. See the module.
pub(crate) struct VolumeReader {
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) sb: Superblock,
    pub(crate) log_state: LogState,
    /// Fragments of the volume.
    pub(crate) frags: u64,
    chunk: RefCell<Chunk>,
}

impl VolumeReader {
    pub(crate) fn new(
        device: Rc<dyn BlockDevice>,
        sb: Superblock,
        log_state: LogState,
    ) -> VolumeReader {
        let frags = sb.size() / u64::from(sb.geometry.frag_size);
        let chunk = RefCell::new(Chunk { start: 0, end: 0, blocks: Vec::new() });
        VolumeReader { device, sb, log_state, frags, chunk }
    }

    /// Finds the forwarded blocks of a volume whose state is that of a checkpoint. What of the
    /// usage table cannot be read is passed over: others tell of it.
    pub(crate) async fn load_forwards(&self) -> Result<()> {
        if self.log_state.table.is_some() || !self.is_wide() {
            return Ok(());
        }
        let mut table = Vec::new();
        let per_block = self.sb.geometry.block_size as usize / SEG_ENTRY_BYTES;
        for nth in 0..self.sb.usage_blocks() {
            let lbn = self.sb.table_lbn(nth) as Lbn;
            let raw = match self.ptr(&self.log_state.ifile, lbn).await {
                // The volume has grown, and what it has more is clean.
                Ok(ptr) if ptr.is_hole() && lbn as u64 != nth => break,
                Ok(ptr) => self.block(IFILE_INO, lbn, ptr).await,
                Err(error) => Err(error),
            };
            match raw {
                Ok(raw) => table.extend(raw.chunks_exact(SEG_ENTRY_BYTES).map(SegEntry::decode)),
                // Any of these may.
                Err(_) => {
                    let unknown = SegEntry { forwards: true, ..SegEntry::default() };
                    table.resize(table.len() + per_block, unknown);
                }
            }
        }
        let (serial, forwards) = (self.log_state.serial, &self.log_state.forwards);
        load_forwards(&*self.device, &self.sb, table.into_iter(), serial, forwards).await
    }

    /// Reads bytes of the device, whole sectors if need be.
    ///
    /// # Errors
    /// If they lie outside the volume or the device fails.
    pub(crate) async fn read(&self, at: u64, len: u64) -> Result<Block> {
        if at.checked_add(len).is_none_or(|end| end > self.sb.size()) {
            return Err(FsError::corrupt(at, "a place outside the volume"));
        }
        let follows = {
            let chunk = self.chunk.borrow();
            if at >= chunk.start && at + len <= chunk.end {
                return Ok(gather(&chunk.blocks, (at - chunk.start) as usize, len as usize));
            }
            (chunk.start..=chunk.end).contains(&at)
        };
        let sector = u64::from(self.device.info().sector);
        let start = at / sector * sector;
        let most = self.device.info().size / sector * sector;
        let want = if follows { len.max(SEQUENTIAL_READ) } else { len };
        let end = (at + want).next_multiple_of(sector).min(most);
        if end < at + len {
            return Err(FsError::corrupt(at, "a place behind the last whole sector"));
        }
        let io = Io::read(start, end - start, Class::Mixed, Origin::Recovery);
        let blocks = self.device.submit(io).await?;
        let block = gather(&blocks, (at - start) as usize, len as usize);
        *self.chunk.borrow_mut() = Chunk { start, end, blocks };
        Ok(block)
    }

    /// The content of a block of a file: as many bytes as its pointer says, or a whole block if
    /// it is only in memory.
    ///
    /// # Errors
    /// If it cannot be read or does not match its checksum.
    pub(crate) async fn block(&self, ino: Ino, lbn: Lbn, ptr: Ptr) -> Result<Bytes> {
        if let Some(bytes) = self.log_state.blocks.get(&(ino, lbn)) {
            return Ok(bytes.clone());
        }
        let at = self.byte_of(ptr)?;
        let block = self.read(at, ptr.len.into()).await?;
        if self.is_wide() && block.crc32c() != ptr.crc {
            return Err(FsError::corrupt(at, "the content does not match its checksum"));
        }
        Ok(block.to_bytes())
    }

    /// The content of an indirect block, whole.
    pub(crate) async fn indirect(&self, ino: Ino, lbn: Lbn, ptr: Ptr) -> Result<Bytes> {
        let content = self.block(ino, lbn, ptr).await?;
        if content.len() != self.sb.geometry.block_size as usize {
            let what = "an indirect block that is not a whole block";
            return Err(FsError::corrupt(self.byte_of(ptr)?, what));
        }
        let (holder, form) = (Holder::Indirect(lbn), HolderVersion { at: ptr.addr, crc: ptr.crc });
        if self.log_state.overlays(ino, lbn) || !self.log_state.forwards.has(ino, holder) {
            return Ok(content);
        }
        let mut raw = content.to_vec();
        let set = |index, ptr| self.sb.geometry.set_ptr(&mut raw, index, ptr);
        self.log_state.forwards.apply(ino, holder, form, set);
        Ok(Bytes::copy_of(&raw))
    }

    /// First byte of a block that lies on the device.
    fn byte_of(&self, ptr: Ptr) -> Result<u64> {
        if !ptr.is_on_disk() {
            return Err(FsError::inconsistent("a block that is nowhere"));
        }
        let what = |what| FsError::inconsistent(format!("{what} (address {})", ptr.addr));
        self.sb.geometry.check_ptr(ptr, self.frags).map_err(what)?;
        Ok(self.sb.geometry.byte_of(ptr.addr))
    }

    /// The bytes of the inode at byte `at`.
    pub(crate) async fn raw_inode(&self, at: u64) -> Result<Bytes> {
        Ok(self.read(at, self.sb.geometry.inode_size.into()).await?.to_bytes())
    }

    /// Reads a volume's inode from its bytes, found at byte `at`.
    pub(crate) fn decode_inode(&self, raw: &[u8], at: u64) -> Result<Dinode> {
        let decoded = Dinode::decode(&self.sb.geometry, raw, self.frags);
        decoded.map_err(|what| FsError::corrupt(at, what))
    }

    /// The inode in bytes found at byte `at`, if it is the one that the inode map leads to; or the
    /// one that roll-forward made of it.
    pub(crate) fn inode_in(
        &self,
        raw: &[u8],
        at: u64,
        ino: Ino,
        generation: u32,
        crc: u32,
    ) -> Result<Dinode> {
        if self.is_wide() && crc32c::crc32c(raw) != crc {
            return Err(FsError::corrupt(at, "it does not match the checksum in the inode map"));
        }
        let mut d = self.decode_inode(raw, at)?;
        if (d.ino, d.generation) != (ino, generation) {
            let what = format!(
                "the inode map says life {generation}, there is inode {} in life {}",
                d.ino, d.generation
            );
            return Err(FsError::corrupt(at, what));
        }
        let form = HolderVersion { at: at / u64::from(self.sb.geometry.inode_size), crc };
        let set = |slot, ptr| d.set_ptr(slot, ptr);
        self.log_state.forwards.apply(ino, Holder::Inode, form, set);
        Ok(self.log_state.inode(ino).cloned().unwrap_or(d))
    }

    /// True if pointers carry checksums.
    pub(crate) fn is_wide(&self) -> bool {
        self.sb.geometry.has_checksums()
    }

    /// The states that are kept, and the name of the head.
    ///
    /// # Errors
    /// If the file with the records cannot be read.
    pub(crate) async fn snapshots(&self) -> Result<SnapshotsFile> {
        let Some(d) = &self.log_state.snapshots else { return Ok(SnapshotsFile::default()) };
        let mut raw = Vec::new();
        for lbn in 0..self.sb.geometry.blocks_for(d.size) as Lbn {
            let ptr = self.ptr(d, lbn).await?;
            raw.extend_from_slice(&self.block(d.ino, lbn, ptr).await?);
        }
        SnapshotsFile::decode(&self.sb, &raw)
    }

    /// Entries of a block of the inode map.
    pub(crate) fn map_entries(&self) -> u64 {
        u64::from(self.sb.geometry.block_size) / IMAP_ENTRY_BYTES as u64
    }

    /// The pointer to a block of a file; a hole if there is none.
    pub(crate) async fn ptr(&self, d: &Dinode, lbn: Lbn) -> Result<Ptr> {
        use twin_fs::geometry::Parent;
        let mut way = Vec::new();
        let mut at = lbn;
        let mut ptr = loop {
            match self.sb.geometry.parent(at) {
                Parent::Inode(slot) => break d.ptrs.get(slot).copied().unwrap_or(Ptr::HOLE),
                Parent::Indirect(up, index) => {
                    way.push((up, index));
                    at = up;
                }
            }
        };
        for (up, index) in way.into_iter().rev() {
            if ptr.is_hole() {
                return Ok(Ptr::HOLE);
            }
            let content = self.indirect(d.ino, up, ptr).await?;
            ptr = self.sb.geometry.get_ptr(&content, index);
        }
        Ok(ptr)
    }
}

impl ReadBytes for VolumeReader {
    const FIRST_BYTES: u32 = 4096;

    async fn read_bytes(&self, at: u64, len: u32) -> Result<Bytes> {
        Ok(self.read(at, len.into()).await?.to_bytes())
    }
}

/// Reads the superblock at a place.
pub(crate) async fn superblock_at(
    device: &dyn BlockDevice,
    at: u64,
) -> Result<(Superblock, Bytes)> {
    let raw = read_at(device, at, SUPERBLOCK_BYTES).await?;
    Ok((Superblock::decode(&raw, at, device.info().size)?, raw))
}

/// Reads the checkpoint at a place.
pub(crate) async fn checkpoint_at(
    device: &dyn BlockDevice,
    sb: &Superblock,
    at: u64,
) -> Result<(Checkpoint, Bytes)> {
    let raw = read_at(device, at, CHECKPOINT_BYTES).await?;
    Ok((Checkpoint::decode(sb, &raw, at)?, raw))
}

async fn read_at(device: &dyn BlockDevice, at: u64, len: u64) -> Result<Bytes> {
    let blocks = device.submit(Io::read(at, len, Class::Meta, Origin::Recovery)).await?;
    Ok(gather(&blocks, 0, len as usize).to_bytes())
}

//! Making and opening a volume.

use std::ops::Range;
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin};
use twin_fs::dinode::{Dinode, HIDDEN};
use twin_fs::geometry::Geometry;
use twin_fs::quota::QuotaNote;
use twin_fs::{
    Core, Cpu, Features, FsError, Ino, Inode, Picked, ROOT_INO, Result, Settings, Timestamp,
    VolumeOf,
};
use twin_rt::{BoxFuture, Category, Rt};

use crate::cleaner::{self, Watch};
use crate::format::IFILE_INO;
use crate::format::{
    CHECKPOINT_BYTES, Checkpoint, HeadPos, IMAP_ENTRY_BYTES, ImapEntry, Profile, SEG_ENTRY_BYTES,
    SUPERBLOCK_BYTES, SegEntry, Superblock,
};
use crate::forwards::load_forwards;
use crate::lfs::Lfs;
use crate::recover::Recovered;
use crate::segment_usage::SegmentTable;
use crate::settings::LfsSettings;

/// What a new volume shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// The structures on disk.
    pub profile: Profile,
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of a fragment.
    pub frag_size: u32,
    /// Bytes of a segment; `None` for what suits the size of the device.
    pub segment_size: Option<u32>,
    /// Copies of superblock and checkpoints, 1 or 2.
    pub copies: u32,
    /// Streams of the log: 1, or 2 with one for the cleaner.
    pub streams: u32,
    /// Percent of the log that is never given to files, 1 to 50.
    pub minfree: u32,
    /// The number that distinguishes the volume from all others.
    pub uuid: [u8; 16],
    /// Owner and permission bits of the root directory.
    pub root: (u32, u32, u32),
}

impl MkfsOptions {
    /// The modern profile: 4 KiB blocks in 512-byte fragments.
    pub fn modern(uuid: [u8; 16]) -> MkfsOptions {
        MkfsOptions {
            profile: Profile::Modern,
            block_size: 4096,
            frag_size: 512,
            segment_size: None,
            copies: 2,
            streams: 2,
            minfree: 10,
            uuid,
            root: (0, 0, 0o755),
        }
    }

    /// The classic profile: 4.4BSD's structures, 4 KiB blocks in 1 KiB fragments, one stream.
    pub fn classic(uuid: [u8; 16]) -> MkfsOptions {
        MkfsOptions {
            profile: Profile::Classic,
            frag_size: 1024,
            segment_size: Some(1 << 20),
            copies: 1,
            streams: 1,
            minfree: Superblock::MINFREE_UNSAID,
            ..MkfsOptions::modern(uuid)
        }
    }

    fn superblock(&self, size: u64) -> Result<Superblock> {
        let geometry = match self.profile {
            Profile::Classic => Geometry::classic(self.block_size, self.frag_size),
            Profile::Modern => Geometry::modern(self.block_size, self.frag_size),
        };
        // Small volumes get small segments, so that the reserve is a small part of them.
        let suits = (size / 256).next_power_of_two().clamp(64 << 10, 1 << 20) as u32;
        let segment = self.segment_size.unwrap_or(suits.max(self.block_size.saturating_mul(16)));
        if !(1..=2).contains(&self.copies) || !(1..=2).contains(&self.streams) {
            return Err(FsError::Invalid("copies and streams are 1 or 2"));
        }
        if !(1..=Superblock::MINFREE_MAX).contains(&self.minfree) {
            return Err(FsError::Invalid("minfree is 1 to 50 percent"));
        }
        let mut sb =
            Superblock::plan(self.uuid, self.profile, geometry, segment, size, self.copies)?;
        sb.minfree = self.minfree;
        Ok(sb)
    }
}

impl Lfs {
    /// Makes a new volume on a device. The superblock is written last: until then the device
    /// holds no volume.
    ///
    /// # Errors
    /// If the sizes do not fit, or the device fails.
    pub fn mkfs<'a>(
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        options: &'a MkfsOptions,
    ) -> BoxFuture<'a, Result<Superblock>> {
        Box::pin(Lfs::make(rt, device, options))
    }

    async fn make(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        options: &MkfsOptions,
    ) -> Result<Superblock> {
        let info = device.info();
        let sb = options.superblock(info.size)?;
        if !sb.geometry.frag_size.is_multiple_of(info.sector)
            && !info.sector.is_multiple_of(sb.align)
        {
            return Err(FsError::Invalid(
                "the device's sectors are larger than the volume's blocks",
            ));
        }
        erase(&*device, &sb).await?;
        let core = core(rt, Rc::clone(&device), Cpu::none(), &sb, Settings::default())?;
        let ifile = new_ifile(&sb, core.now());
        let mut segments = SegmentTable::new(&sb, Vec::new());
        let mut heads = Vec::new();
        for stream in 0..options.streams {
            // Streams start apart, so that each runs forward for a while.
            let from = (u64::from(sb.segments()) * u64::from(stream) / 2) as u32;
            let (Some(segment), Some(next)) =
                (segments.take_clean(from), segments.take_clean(from))
            else {
                return Err(FsError::Invalid("the device is too small"));
            };
            heads.push(HeadPos { segment, offset: 0, next });
        }
        let first = Checkpoint {
            number: 0,
            serial: 1,
            time: rt.now(),
            closed: false,
            free_head: 0,
            free_inodes: 0,
            orphans: 0,
            heads,
            picked: Vec::new(),
            ifile: ifile.d.borrow().clone(),
            snapshots: None,
            quotas: QuotaNote::None,
        };
        let settings = LfsSettings { background_cleaning: false, ..LfsSettings::default() };
        let lfs = Lfs::assemble(sb.clone(), settings, ifile, &first, segments, &core)?;
        lfs.fill_ifile(&core)?;
        let volume = VolumeOf::new(Rc::clone(&core), lfs)?;
        volume.make_root(Picked { ino: ROOT_INO, generation: 0 }, options.root.2)?;
        if let Some(root) = core.cached_inode(ROOT_INO) {
            let mut d = root.d.borrow_mut();
            (d.uid, d.gid) = (options.root.0, options.root.1);
        }
        volume.close().await?;
        write_superblocks(&*device, &sb).await?;
        Ok(sb)
    }

    /// The ifile of a new volume: a usage table and one block of the inode map.
    fn fill_ifile(&self, core: &Core) -> Result<()> {
        let block = self.sb.geometry.block_size as usize;
        for lbn in 0..self.sb.usage_blocks() {
            let frame = self.ifile.append(core, lbn, Block::Zero(block as u32));
            self.ifile.pin([frame]);
        }
        let mut buf = Buf::zeroed(block);
        let numbers = (block / IMAP_ENTRY_BYTES) as Ino;
        for ino in 0..numbers {
            let next = if ino + 1 < numbers { ino + 1 } else { 0 };
            let entry = ImapEntry::Free { next, generation: 0 };
            let at = ino as usize * IMAP_ENTRY_BYTES;
            entry.encode(&mut buf[at..at + IMAP_ENTRY_BYTES]);
        }
        let lbn = self.sb.first_table_blocks();
        let frame = self.ifile.append(core, lbn, Block::Bytes(buf.freeze()));
        self.reservations.reserve(self.ifile.inode.d.borrow().allocated, 0)?;
        self.numbers.set_list(3, numbers - 3);
        self.numbers.pick(ROOT_INO, frame);
        Ok(())
    }

    /// Opens the volume on a device, recovering it if it was not closed.
    ///
    /// # Errors
    /// If there is no volume, or it is damaged; the error names the place.
    pub fn open(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
        lfs_settings: LfsSettings,
    ) -> BoxFuture<'_, Result<(VolumeOf<Lfs>, Recovered)>> {
        Box::pin(Lfs::start(rt, device, cpu, settings, lfs_settings))
    }

    async fn start(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
        lfs_settings: LfsSettings,
    ) -> Result<(VolumeOf<Lfs>, Recovered)> {
        let sb = read_superblock(&*device).await?;
        let checkpoint = read_checkpoint(&*device, &sb).await?;
        let read_only = settings.read_only;
        if !sb.may_be_written() && !read_only {
            return Err(FsError::Invalid(
                "the volume has features that this program cannot write: mount it read-only",
            ));
        }
        let check_data = settings.check_data && !sb.without_contents;
        let settings = Settings { check_data, ..settings };
        let watch = Rc::new(Watch::new(rt.clone(), device));
        let device = Rc::clone(&watch) as Rc<dyn BlockDevice>;
        let core = core(rt, device, cpu, &sb, settings)?;
        let lfs = around(&core, sb, lfs_settings, &checkpoint).await?;
        let mut recovered = Recovered::default();
        if checkpoint.closed {
            lfs.skip_serials(&core, checkpoint.serial);
        } else {
            recovered = lfs.roll_forward(&core, &checkpoint).await?;
            rt.log(Category::Recovery, "rolled-forward", || {
                [("log_writes", recovered.log_writes), ("log_bytes", recovered.log_bytes)]
            });
            lfs.reservations.set_used(lfs.usage.live_bytes() + lfs.unwritten_ifile(&core));
        }
        // Before anything else writes: the streams go on at these places.
        if !read_only && !checkpoint.closed {
            lfs.invalidate_log_tail(&core).await?;
        }
        if !read_only {
            lfs.set_streams(&core)?;
            lfs.complete_table(&core);
        }
        core.quotas.set_note(match checkpoint.closed {
            true => checkpoint.quotas,
            false => checkpoint.quotas.outdated(),
        });
        let volume = VolumeOf::new(core, lfs)?;
        if !read_only {
            if !checkpoint.closed {
                volume.layout.checkpoint(volume.core(), false).await?;
            }
            // Finishing what was interrupted may need clean segments.
            volume.layout.cleaner.watch(watch);
            volume.layout.cleaner.begin();
            rt.spawn("cleaner", cleaner::run(volume.clone()));
            recovered.orphans = finish_recovery(&volume, !checkpoint.closed).await?;
        }
        volume.start_quotas().await?;
        Ok((volume, recovered))
    }

    /// The ifile must be long enough for what every volume has.
    fn check_ifile(&self) -> Result<()> {
        let free_head = self.numbers.free_head();
        if self.ifile.map_len() <= ROOT_INO {
            return Err(FsError::inconsistent("the ifile is too short for its tables"));
        }
        if free_head >= self.ifile.map_len() || (1..=ROOT_INO).contains(&free_head) {
            return Err(FsError::inconsistent("the list of free inodes starts outside the map"));
        }
        Ok(())
    }

    /// Bytes of the ifile that have no place on the device yet.
    fn unwritten_ifile(&self, core: &Core) -> u64 {
        let frames = self.ifile.inode.frames.dirty_frames();
        let unwritten = frames.iter().filter(|f| {
            core.resident_ptr(&self.ifile.inode, f.lbn()).is_some_and(|p| !p.is_on_disk())
        });
        unwritten.count() as u64 * u64::from(self.sb.geometry.block_size)
    }

    /// Finds the inodes that the map marks as in need of work.
    pub(crate) async fn find_orphans(&self, core: &Core) -> Result<()> {
        for ino in ROOT_INO..self.ifile.map_len() {
            let frame = self.ifile.map_block(core, ino).await?;
            if matches!(self.ifile.entry(&frame, ino), ImapEntry::Used { orphan: true, .. }) {
                self.numbers.set_orphan(ino, true);
            }
        }
        Ok(())
    }
}

/// The layout's state at a checkpoint, before roll-forward.
pub(crate) async fn around(
    core: &Rc<Core>,
    sb: Superblock,
    lfs_settings: LfsSettings,
    checkpoint: &Checkpoint,
) -> Result<Lfs> {
    let ifile = Inode::new(checkpoint.ifile.clone());
    let (entries, frames) = read_table(core, &sb, &ifile).await?;
    let segments = SegmentTable::new(&sb, entries);
    around_table(core, sb, lfs_settings, checkpoint, (ifile, segments, frames)).await
}

/// As [`around`], with a usage table that may be another than the ifile's, and the frames of that.
pub(crate) async fn around_table(
    core: &Rc<Core>,
    sb: Superblock,
    lfs_settings: LfsSettings,
    checkpoint: &Checkpoint,
    (ifile, segments, frames): (Rc<Inode>, SegmentTable, Vec<Rc<Frame>>),
) -> Result<Lfs> {
    let lfs = Lfs::assemble(sb, lfs_settings, ifile, checkpoint, segments, core)?;
    for head in &checkpoint.heads {
        lfs.usage.set_open(head.segment);
        lfs.usage.set_open(head.next);
    }
    let table = lfs.with_segments(|segments| segments.entries().to_vec());
    let (device, serial) = (&*core.device, checkpoint.serial);
    load_forwards(device, &lfs.sb, table.into_iter(), serial, &lfs.forwards).await?;
    lfs.ifile.pin_indirect(core, lfs.ifile.blocks()).await?;
    lfs.ifile.pin_indirect(core, second_part(&lfs.sb)).await?;
    lfs.ifile.pin(frames);
    lfs.check_ifile()?;
    lfs.snapshots.load(core, &lfs.sb).await?;
    if checkpoint.orphans > 0 {
        lfs.find_orphans(core).await?;
    }
    lfs.reservations.set_used(lfs.usage.live_bytes());
    Ok(lfs)
}

/// What the layers of a volume share. What files can do follows from the profile.
pub(crate) fn core(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    cpu: Cpu,
    sb: &Superblock,
    settings: Settings,
) -> Result<Rc<Core>> {
    let (geometry, features) = (sb.geometry.clone(), Features::of(&sb.geometry));
    Core::new(rt.clone(), device, cpu, geometry, features, settings)
}

/// The ifile of a volume whose tables are about to be written, without a block.
pub(crate) fn new_ifile(sb: &Superblock, now: Timestamp) -> Rc<Inode> {
    let ifile = Dinode::new(&sb.geometry, IFILE_INO, 0, 0, now);
    Inode::new(Dinode { flags: HIDDEN, nlink: 1, ..ifile })
}

/// Writes all copies of a superblock.
pub(crate) async fn write_superblocks(device: &dyn BlockDevice, sb: &Superblock) -> Result<()> {
    let raw = Block::Bytes(Buf::copy_of(&sb.encode()).freeze());
    for at in Superblock::places(sb.size(), sb.copies) {
        let io = Io::write(at, vec![raw.clone()], Class::Meta, Origin::Checkpoint);
        device.submit(io).await?;
    }
    device.submit(Io::flush(Origin::Checkpoint)).await?;
    Ok(())
}

/// Overwrites what an earlier volume may have left where this one's superblocks and checkpoints
/// will be.
async fn erase(device: &dyn BlockDevice, sb: &Superblock) -> Result<()> {
    let mut places = Superblock::places(sb.size(), 2);
    let mut both = sb.clone();
    both.copies = 2;
    places.extend(both.checkpoint_places(0));
    places.extend(both.checkpoint_places(1));
    for at in places {
        let zeros = vec![Block::Zero(SUPERBLOCK_BYTES as u32)];
        device.submit(Io::write(at, zeros, Class::Meta, Origin::Checkpoint)).await?;
    }
    device.submit(Io::flush(Origin::Checkpoint)).await?;
    Ok(())
}

async fn read(device: &dyn BlockDevice, at: u64, len: u64) -> Result<Vec<u8>> {
    let blocks = device.submit(Io::read(at, len, Class::Meta, Origin::Recovery)).await?;
    Ok(twin_disk::gather(&blocks, 0, len as usize).to_bytes().to_vec())
}

/// Reads the superblock, or its copy at the end of the device.
///
/// # Errors
/// What is wrong with the first one, if neither is sound.
pub async fn read_superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let size = device.info().size;
    if size < 4 * SUPERBLOCK_BYTES {
        return Err(FsError::corrupt(0, "the device is too small to hold a volume"));
    }
    let mut first_error = None;
    for at in Superblock::places(size, 2) {
        let tried = match read(device, at, SUPERBLOCK_BYTES).await {
            Ok(raw) => Superblock::decode(&raw, at, size),
            Err(error) => Err(error),
        };
        match tried {
            Ok(sb) => return Ok(sb),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Err(first_error.unwrap_or(FsError::corrupt(0, "no superblock")))
}

/// Reads the newest sound checkpoint.
///
/// # Errors
/// What is wrong with the first one, if none is sound.
pub async fn read_checkpoint(device: &dyn BlockDevice, sb: &Superblock) -> Result<Checkpoint> {
    let mut best: Option<Checkpoint> = None;
    let mut first_error = None;
    for at in [0, 1].into_iter().flat_map(|slot| sb.checkpoint_places(slot)) {
        let tried = match read(device, at, CHECKPOINT_BYTES).await {
            Ok(raw) => Checkpoint::decode(sb, &raw, at),
            Err(error) => Err(error),
        };
        match tried {
            Ok(found) if best.as_ref().is_none_or(|b| found.number > b.number) => {
                best = Some(found);
            }
            Ok(_) => {}
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    match (best, first_error) {
        (Some(best), _) => Ok(best),
        (None, Some(error)) => Err(error),
        (None, None) => Err(FsError::inconsistent("the volume has no checkpoint")),
    }
}

/// The ifile's blocks that are the second part of the usage table.
fn second_part(sb: &Superblock) -> Range<u64> {
    let (first, start) = (sb.first_table_blocks(), sb.second_table_part());
    start..start + (sb.usage_blocks() - first)
}

/// Reads the segment usage table of an ifile, as far as there is something in it. Its frames come with it.
pub(crate) async fn read_table(
    core: &Core,
    sb: &Superblock,
    ifile: &Rc<Inode>,
) -> Result<(Vec<SegEntry>, Vec<Rc<Frame>>)> {
    let first = sb.first_table_blocks();
    let mut frames = core.blocks(ifile, 0, first, Origin::Recovery).await?;
    if frames.len() as u64 != first {
        return Err(FsError::inconsistent("the segment usage table has holes"));
    }
    let second = second_part(sb);
    let more = core.blocks(ifile, second.start, second.end, Origin::Recovery).await?;
    // A state from before the volume grew has a shorter table.
    if (second.start..).zip(&more).any(|(lbn, frame)| frame.lbn() != lbn as Lbn) {
        return Err(FsError::inconsistent("the segment usage table has holes"));
    }
    frames.extend(more);
    let is_used = |frame: &Rc<Frame>| frame.block().to_bytes().iter().any(|byte| *byte != 0);
    let used = frames.iter().rposition(is_used).map_or(0, |last| last + 1);
    // On a large volume the rest is most of it.
    let rest = frames[used..].iter();
    rest.for_each(|frame| frame.change(|block| *block = Block::Zero(block.len() as u32)));
    let mut entries = Vec::new();
    for frame in &frames[..used] {
        let raw = frame.block().to_bytes();
        entries.extend(raw.chunks_exact(SEG_ENTRY_BYTES).map(SegEntry::decode));
    }
    entries.truncate(sb.segments() as usize);
    if entries.iter().any(|e| e.live_bytes > sb.segment_size) {
        return Err(FsError::inconsistent("the usage table has a segment with more than all live"));
    }
    Ok((entries, frames))
}

/// Frees what lost its name and cuts what was being cut, and makes the result the new starting
/// point.
async fn finish_recovery(volume: &VolumeOf<Lfs>, crashed: bool) -> Result<u64> {
    let lfs = &volume.layout;
    let orphans = lfs.numbers.orphans();
    let count = orphans.len() as u64;
    for ino in orphans {
        volume.finish_orphan(ino).await?;
    }
    if count > 0 || !crashed {
        // From here on the volume is in use: the next start must look for what follows.
        lfs.checkpoint(volume.core(), false).await?;
    }
    Ok(count)
}

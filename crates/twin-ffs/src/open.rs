//! Making and opening a volume.

use std::rc::Rc;

use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin, gather};
use twin_fs::geometry::Geometry;
use twin_fs::quota::QuotaNote;
use twin_fs::{Core, Cpu, Features, FsError, Picked, ROOT_INO, Result, Settings, VolumeOf};
use twin_rt::{BoxFuture, Category, Rt, join_all};

use crate::ffs::{Ffs, FfsParts};
use crate::format::{
    CgImage, DiskGeometry, JOURNAL_HEADERS, JournalHeader, Plan, Profile, SUPERBLOCK_BYTES,
    Superblock, Tuning, VolumeState, header_io, read_state, read_superblock,
};
use crate::group::Group;
use crate::journal::{Journal, LiveRecord};
use crate::ordering::{self, Ordering};
use crate::replay::{Replay, read_header, read_journal};
use crate::settings::{FfsSettings, PlantedFault};
use crate::sums::format::SumsPlan;
use crate::sums::{Summed, Use};

/// Requests that are under way at once while groups are read or written.
const AT_ONCE: usize = 64;
/// The largest journal that is made unless more is asked for, in bytes.
const JOURNAL_MOST: u64 = 64 << 20;

/// The options of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// The structures on disk.
    pub profile: Profile,
    /// The metadata ordering, by name: one of [`ordering::REGISTRY`].
    pub ordering: String,
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of a fragment.
    pub frag_size: u32,
    /// Bytes of a cylinder group; `None` for what suits the size of the device.
    pub group_bytes: Option<u64>,
    /// Bytes of space for each inode.
    pub bytes_per_inode: u32,
    /// Bytes of the journal, if the ordering has one; `None` for a size that suits the volume.
    pub journal_bytes: Option<u64>,
    /// The disk as the allocator imagines it.
    pub disk_geometry: DiskGeometry,
    /// The parameters of the allocator.
    pub tuning: Tuning,
    /// The number that distinguishes the volume from all others.
    pub uuid: [u8; 16],
    /// Owner and permission bits of the root directory.
    pub root: (u32, u32, u32),
    /// Checksums of all data and metadata lie behind the volume.
    pub data_checksums: bool,
}

impl MkfsOptions {
    /// The modern profile with a journal: 8 KiB blocks in 1 KiB fragments.
    pub fn modern(uuid: [u8; 16]) -> MkfsOptions {
        MkfsOptions {
            profile: Profile::Modern,
            ordering: ordering::REGISTRY.default_entry().name.into(),
            block_size: 8192,
            frag_size: 1024,
            group_bytes: None,
            bytes_per_inode: 8192,
            journal_bytes: None,
            disk_geometry: DiskGeometry {
                rpm: 7200,
                sectors_per_track: 64,
                tracks_per_cylinder: 16,
            },
            tuning: Tuning {
                minfree: 5,
                maxcontig: 128,
                rotdelay_ms: 0,
                cpc: 0,
                maxbpg: 2048,
                optimize_time: true,
            },
            uuid,
            root: (0, 0, 0o755),
            data_checksums: false,
        }
    }

    /// The classic profile: 4.4BSD's structures with clusters of 64 KiB and no rotational delay,
    /// written in 4.4BSD's order.
    pub fn classic(uuid: [u8; 16]) -> MkfsOptions {
        MkfsOptions {
            profile: Profile::Classic,
            ordering: ordering::by_number(2).map_or_else(String::new, |e| e.name.into()),
            bytes_per_inode: 4096,
            disk_geometry: DiskGeometry {
                rpm: 5400,
                sectors_per_track: 57,
                tracks_per_cylinder: 14,
            },
            tuning: Tuning {
                minfree: 10,
                maxcontig: 8,
                rotdelay_ms: 0,
                cpc: 0,
                maxbpg: 2048,
                optimize_time: true,
            },
            ..MkfsOptions::modern(uuid)
        }
    }

    /// Computes the superblock of a volume of `size` bytes on a device with sectors of `sector`
    /// bytes.
    ///
    /// # Errors
    /// If the sizes do not fit together.
    pub fn superblock(&self, size: u64, sector: u32) -> Result<Superblock> {
        let ordering = ordering::REGISTRY
            .get(&self.ordering)
            .map_err(|_| FsError::Invalid("no such metadata ordering"))?;
        let frag_size = self.frag_size.max(sector);
        let geometry = match self.profile {
            Profile::Classic => Geometry::classic(self.block_size, frag_size),
            Profile::Modern => Geometry::modern_in_place(self.block_size, frag_size),
        };
        geometry.check()?;
        let size = match self.data_checksums {
            true => SumsPlan::volume_bytes(size, geometry.frag_size, geometry.block_size),
            false => size,
        };
        let block = u64::from(geometry.block_size);
        let group_bytes = self.group_size(&geometry, size);
        let per_block = u64::from(geometry.block_size / geometry.inode_size);
        let density = u64::from(self.bytes_per_inode.max(geometry.frag_size));
        let inodes = (group_bytes / density).max(1).next_multiple_of(per_block);
        let groups = size.div_ceil(group_bytes.max(block));
        let journal_bytes = match (ordering.journals(), self.journal_bytes) {
            (false, _) => 0,
            (true, Some(bytes)) => bytes / block * block,
            (true, None) => {
                // A transaction may change the maps of all groups.
                let least = (4 * groups + 96) * block;
                (size / 64).min(JOURNAL_MOST).max(least) / block * block
            }
        };
        let plan = Plan {
            uuid: self.uuid,
            profile: self.profile,
            ordering: ordering.number,
            size,
            journal_bytes,
            group_frags: small(group_bytes / u64::from(geometry.frag_size))?,
            group_inodes: small(inodes)?,
            disk_geometry: self.disk_geometry,
            tuning: self.tuning,
            data_checksums: self.data_checksums,
            geometry,
        };
        let sb = Superblock::plan(plan)?;
        let journal_blocks = sb.journal_bytes / block;
        if ordering.journals() && journal_blocks < 4 * u64::from(sb.groups) + 64 {
            return Err(FsError::Invalid("the journal is too small for this many groups"));
        }
        Ok(sb)
    }

    /// Bytes of a group: in the classic profile sixteen cylinders of the imagined disk, in the
    /// modern one as many fragments as its maps have room for; but a volume has several groups in
    /// any case.
    fn group_size(&self, geometry: &Geometry, size: u64) -> u64 {
        let block = u64::from(geometry.block_size);
        let cylinders = 16 * self.disk_geometry.sectors_per_cylinder() * 512;
        let frag = u64::from(geometry.frag_size);
        let density = u64::from(self.bytes_per_inode.max(geometry.frag_size));
        // The maps of a group, one bit for each fragment and inode, must fit one block.
        let bits = block.saturating_sub(CG_BESIDE_BYTES) * 8;
        let most = (block * 4 * frag).min(bits * frag / (frag + density) * density);
        let default = match self.profile {
            Profile::Classic => cylinders.min(most),
            Profile::Modern => most.min(size / 4),
        };
        self.group_bytes.unwrap_or(default.max(256 * block)) / block * block
    }
}

/// What a block of maps has beside the maps, and what rounding to whole blocks of inodes adds.
const CG_BESIDE_BYTES: u64 = 512;

/// The features of the files of this layout, whose blocks stay in place.
pub(crate) fn features(sb: &Superblock) -> Features {
    Features { in_place: true, new_inode_bytes: 0, ..Features::of(&sb.geometry) }
}

fn small(n: u64) -> Result<u32> {
    u32::try_from(n).map_err(|_| FsError::Invalid("a cylinder group is too large"))
}

/// The recovery that was made when a volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// True if the volume had not been closed.
    pub was_open: bool,
    /// Records of the journal that were replayed.
    pub records: u64,
    /// The number of bytes in these records.
    pub journal_bytes: u64,
    /// Files whose removal or truncation was finished.
    pub orphans: u64,
    /// The number of inconsistencies that the repair found, if there is no journal.
    pub repaired: u64,
    /// The number of files that the repair moved to lost+found.
    pub rescued: u64,
}

/// A volume that was found on a device.
pub(crate) struct FoundVolume {
    pub(crate) sb: Superblock,
    pub(crate) state: VolumeState,
    /// True if it was repaired except for files without names, which will be given names.
    pub(crate) rescuing: bool,
    /// The device that compares what is read, if the volume has checksums.
    pub(crate) sums: Option<Rc<Summed>>,
}

impl FoundVolume {
    /// # Errors
    /// If there is none.
    pub(crate) async fn on(device: &dyn BlockDevice) -> Result<FoundVolume> {
        let sb = read_superblock(device).await?;
        let state = read_state(device, &sb).await?;
        Ok(FoundVolume { sb, state, rescuing: false, sums: None })
    }
}

impl Ffs {
    /// Makes a new volume on a device. The superblock is written last, so that a crash before that
    /// leaves no volume.
    ///
    /// # Errors
    /// If the sizes do not fit, or the device fails.
    pub fn mkfs<'a>(
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        options: &'a MkfsOptions,
    ) -> BoxFuture<'a, Result<Superblock>> {
        Box::pin(Ffs::make(rt, device, options))
    }

    async fn make(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        options: &MkfsOptions,
    ) -> Result<Superblock> {
        let info = device.info();
        let sb = options.superblock(info.size, info.sector)?;
        erase(&*device).await?;
        let mut sums = None;
        let device: Rc<dyn BlockDevice> = match sb.data_checksums {
            true => {
                Summed::make(&*device, &sb).await?;
                let summed = Summed::open(rt, device, &sb, Use::Work).await?;
                sums = Some(Rc::clone(&summed));
                summed
            }
            false => device,
        };
        let mut groups = Group::all_empty(&sb);
        if sb.journal_bytes == 0 {
            // A journal writes a block of inodes whole or not at all. Without one, all blocks are
            // zeroed here, because old content must not appear when a block is torn.
            groups.iter_mut().for_each(|g| g.inodes_written = sb.group_inodes);
        }
        write_groups(&*device, &sb, &groups).await?;
        let mut journal = None;
        if sb.journal_bytes > 0 {
            let header = JournalHeader { number: 1, first_record: 1, tail: 0 };
            device.submit(header_io(&sb, &header, info.sector)).await?;
            let none = LiveRecord { number: 0, at: 0, len: 0 };
            journal = Some(Journal::new(&sb, 1, none, std::iter::empty(), Vec::new()));
        }
        // Numbers 0 and 1 are never given out; the root's is.
        (0..=ROOT_INO as u32).for_each(|index| groups[0].use_inode(index));
        let core = Core::new(
            rt.clone(),
            Rc::clone(&device),
            Cpu::none(),
            sb.geometry.clone(),
            features(&sb),
            Settings::default(),
        )?;
        let state = VolumeState { closed: false, opened: 0, quotas: QuotaNote::None };
        let ordering = named(ordering::by_number(sb.ordering))?;
        let settings = FfsSettings::default();
        let parts =
            FfsParts { sb: sb.clone(), state, settings, groups, journal, ordering, sums: None };
        let ffs = Ffs::assemble(parts)?;
        let frame = ffs.inode_block(&core, ROOT_INO).await?;
        ffs.picked.insert(ROOT_INO, Some(frame));
        let volume = VolumeOf::new(Rc::clone(&core), ffs)?;
        volume.make_root(Picked { ino: ROOT_INO, generation: 1 }, options.root.2)?;
        if let Some(root) = core.cached_inode(ROOT_INO) {
            let mut d = root.d.borrow_mut();
            (d.uid, d.gid) = (options.root.0, options.root.1);
        }
        volume.close().await?;
        let raw = Block::Bytes(Buf::copy_of(&sb.encode(0)).freeze());
        device.submit(Io::write(0, vec![raw], Class::Meta, Origin::Checkpoint)).await?;
        device.submit(Io::flush(Origin::Checkpoint)).await?;
        if let Some(sums) = sums {
            sums.finish().await?;
        }
        Ok(sb)
    }

    /// Opens a volume that needs no repair or was repaired. If it was not closed, replays its
    /// journal.
    ///
    /// # Errors
    /// If it is damaged (the error names the place).
    pub(crate) async fn open_sound(
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
        ffs_settings: FfsSettings,
        found: FoundVolume,
    ) -> Result<(VolumeOf<Ffs>, Recovered)> {
        let FoundVolume { sb, state, rescuing, sums } = found;
        let mut recovered = Recovered { was_open: !state.closed, ..Recovered::default() };
        let mut orphans = Vec::new();
        let mut journal = None;
        if sb.journal_bytes > 0 && !state.closed {
            let replay = read_journal(&*device, &sb, ffs_settings.planted()).await?;
            replay.write(&*device, &sb).await?;
            (recovered.records, recovered.journal_bytes) = (replay.records, replay.bytes);
            rt.log(Category::Recovery, "replayed", || {
                [("records", replay.records), ("journal_bytes", replay.bytes)]
            });
            let mentioned = replay.mentioned.iter().copied();
            let header = move_header(&*device, &sb, &replay, ffs_settings.planted()).await?;
            orphans = replay.orphans;
            journal = Some(Journal::new(&sb, header, replay.last, mentioned, orphans.clone()));
        } else if sb.journal_bytes > 0 {
            journal = Some(empty_journal(&*device, &sb).await?);
        }
        let groups = read_groups(&*device, &sb).await?;
        let cluster = sb.tuning.maxcontig.saturating_mul(sb.geometry.block_size);
        let read_only = settings.read_only;
        let settings = Settings { cluster_bytes: cluster, ..settings };
        let core =
            Core::new(rt.clone(), device, cpu, sb.geometry.clone(), features(&sb), settings)?;
        core.quotas.set_note(match state.closed {
            true => state.quotas,
            false => state.quotas.outdated(),
        });
        let state = VolumeState { opened: state.opened + 1, ..state };
        let ordering = named(ordering::for_mount(sb.ordering, rescuing))?;
        let parts = FfsParts { sb, state, settings: ffs_settings, groups, journal, ordering, sums };
        let ffs = Ffs::assemble(parts)?;
        orphans.iter().for_each(|&ino| ffs.orphans.insert(ino));
        let volume = VolumeOf::new(core, ffs)?;
        if !read_only {
            volume.layout.write_state(volume.core(), false).await?;
            for ino in orphans {
                match volume.finish_orphan(ino).await {
                    Ok(()) => recovered.orphans += 1,
                    Err(FsError::NotFound) => {
                        volume.layout.orphans.remove(ino);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        volume.start_quotas().await?;
        Ok((volume, recovered))
    }
}

fn named(entry: Option<&ordering::OrderingEntry>) -> Result<Box<dyn Ordering>> {
    Ok(entry.ok_or(FsError::Invalid("no such metadata ordering"))?.build())
}

/// Makes the last replayed record the first valid one, as a checkpoint does. Returns the number of
/// the header that says so. If the header still named an older record, a second crash would replay
/// records whose blocks have been freed since without a revocation; or it would find them
/// overwritten, and then no newer record behind them.
async fn move_header(
    device: &dyn BlockDevice,
    sb: &Superblock,
    replay: &Replay,
    planted: PlantedFault,
) -> Result<u64> {
    if replay.records == 0 || planted.is(PlantedFault::HeaderStays) {
        return Ok(replay.header);
    }
    let (first_record, tail) = (replay.last.number, replay.last.at);
    let header = JournalHeader { number: replay.header + 1, first_record, tail };
    device.submit(header_io(sb, &header, device.info().sector)).await?;
    device.submit(Io::flush(Origin::Recovery)).await?;
    Ok(header.number)
}

/// Overwrites the structures of earlier volumes in the places where they would be looked for.
async fn erase(device: &dyn BlockDevice) -> Result<()> {
    let size = device.info().size;
    let end = (size - SUPERBLOCK_BYTES) / SUPERBLOCK_BYTES * SUPERBLOCK_BYTES;
    for (at, len) in [(0, 2 * SUPERBLOCK_BYTES), (end, SUPERBLOCK_BYTES)] {
        let zeros = vec![Block::Zero(len as u32)];
        device.submit(Io::write(at, zeros, Class::Meta, Origin::Checkpoint)).await?;
    }
    device.submit(Io::flush(Origin::Checkpoint)).await?;
    Ok(())
}

/// Writes a replica of the superblock and the maps of every group.
async fn write_groups(device: &dyn BlockDevice, sb: &Superblock, groups: &[Group]) -> Result<()> {
    let block = sb.geometry.block_size;
    for some in groups.chunks(AT_ONCE) {
        let writes = some.iter().map(|group| {
            let at = sb.geometry.byte_of(sb.group_start(group.index));
            let mut blocks = vec![Block::Bytes(Buf::copy_of(&sb.encode(group.index)).freeze())];
            if u64::from(block) > SUPERBLOCK_BYTES {
                blocks.push(Block::Zero(block - SUPERBLOCK_BYTES as u32));
            }
            let raw = group.to_image(&[], &[]).encode(sb);
            blocks.push(Block::Bytes(Buf::copy_of(&raw).freeze()));
            blocks.push(Block::Zero(group.inodes_written * sb.geometry.inode_size));
            blocks.retain(|b| !b.is_empty());
            device.submit(Io::write(at, blocks, Class::Meta, Origin::Checkpoint))
        });
        for result in join_all(writes.collect::<Vec<_>>()).await {
            result?;
        }
    }
    Ok(())
}

/// Reads the maps of all groups.
/// Writes the maps of a group.
pub(crate) async fn write_map(
    device: &dyn BlockDevice,
    sb: &Superblock,
    group: &Group,
) -> Result<()> {
    let raw = Buf::copy_of(&group.to_image(&[], &[]).encode(sb)).freeze();
    let at = sb.geometry.byte_of(sb.cg_addr(group.index));
    let blocks = vec![Block::Bytes(raw)];
    device.submit(Io::write(at, blocks, Class::Meta, Origin::Checkpoint)).await?;
    Ok(())
}

pub(crate) async fn read_groups(device: &dyn BlockDevice, sb: &Superblock) -> Result<Vec<Group>> {
    let block = sb.geometry.block_size as usize;
    let all: Vec<u32> = (0..sb.groups).collect();
    let mut groups = Vec::with_capacity(all.len());
    for some in all.chunks(AT_ONCE) {
        let reads = some.iter().map(|&group| {
            let at = sb.geometry.byte_of(sb.cg_addr(group));
            device.submit(Io::read(at, block as u64, Class::Meta, Origin::Recovery))
        });
        let results = join_all(reads.collect::<Vec<_>>()).await;
        for (&group, result) in some.iter().zip(results) {
            let raw = gather(&result?, 0, block).to_bytes();
            let image = CgImage::decode(sb, group, &raw)?;
            let mut found = Group::from_image(sb, &image, groups.last());
            found.checksum = Some(CgImage::checksum(sb, &raw));
            groups.push(found);
        }
    }
    Ok(groups)
}

/// Writes the journal of a closed volume, which has no valid record.
async fn empty_journal(device: &dyn BlockDevice, sb: &Superblock) -> Result<Journal> {
    let header = read_header(device, sb).await?;
    let blocks = sb.journal_bytes / u64::from(sb.geometry.block_size) - JOURNAL_HEADERS;
    let number = header.first_record.wrapping_sub(1);
    let none = LiveRecord { number, at: header.tail % blocks, len: 0 };
    Ok(Journal::new(sb, header.number, none, std::iter::empty(), Vec::new()))
}

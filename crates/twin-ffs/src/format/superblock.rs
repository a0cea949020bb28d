//! The superblock, which describes the volume. mkfs writes it once, at byte 0 and at the start of
//! every cylinder group.
//!
//! Contract: [`Superblock::plan`] is the only place where sizes are computed and checked, both for
//! mkfs and for a superblock from a disk. Nothing in it changes during the life of the volume; the
//! changing part is in [`VolumeState`](super::VolumeState).

use twin_disk::{BlockDevice, Class, Io, Origin, gather};
use twin_fs::dinode::{FieldReader, FieldWriter};
use twin_fs::geometry::Geometry;
use twin_fs::{FsError, Ino, Result};

use crate::ordering;

/// Bytes before the bitmaps.
pub const CG_FIXED_BYTES: usize = 192;
/// Bytes of a superblock.
pub const SUPERBLOCK_BYTES: u64 = 4096;
/// The byte with the group whose replica it is.
const GROUP_AT: usize = 72;
/// The feature bit that everyone must know: checksums lie behind the volume.
const DATA_CHECKSUMS: u64 = 1;
/// What a superblock begins with.
pub(crate) const MAGIC: &[u8; 8] = b"twinffs1";
const VERSION: u32 = 2;
/// The first possible byte of the journal or of the first group.
const FRONT_BYTES: u64 = 65_536;
/// Replicas are searched in the first bytes of a device, up to this many.
const REPLICA_SEARCH_BYTES: u64 = 1 << 30;

/// The two sets of sizes that a volume can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// 4.4BSD's structures: 128-byte inodes, 4-byte pointers.
    Classic,
    /// 64-bit, nanoseconds, checksums over the file system's own structures, indexed directories,
    /// extended attributes.
    Modern,
}

/// The disk as the allocator imagines it, for rotational placement (McKusick, Joy, Leffler and
/// Fabry 1984, section 3.3). Real disks have hidden their geometry for a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskGeometry {
    /// The number of rotations a minute.
    pub rpm: u32,
    /// Sectors of 512 bytes on a track.
    pub sectors_per_track: u32,
    /// Tracks of a cylinder.
    pub tracks_per_cylinder: u32,
}

impl DiskGeometry {
    /// Sectors of a cylinder.
    pub fn sectors_per_cylinder(&self) -> u64 {
        u64::from(self.sectors_per_track) * u64::from(self.tracks_per_cylinder)
    }
}

/// The parameters of the allocator, as in `tunefs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Percent of the space that is kept free.
    pub minfree: u32,
    /// The number of adjacent blocks before a gap. It is also the size of a cluster, which is read
    /// and written with one request.
    pub maxcontig: u32,
    /// The gap, as time in milliseconds.
    pub rotdelay_ms: u32,
    /// The number of cylinders after which rotational positions repeat; 0 ignores the positions.
    pub cpc: u32,
    /// The number of blocks that a file may take from one group before it must continue in another
    /// one.
    pub maxbpg: u32,
    /// If true, growing fragments take whole blocks and return the rest, to save copies (4.4BSD's
    /// "time"); otherwise they take only what they need ("space").
    pub optimize_time: bool,
}

/// The description of a volume, which is fixed when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Identifies the volume, and distinguishes it from earlier volumes on the device.
    pub uuid: [u8; 16],
    /// Which structures it has.
    pub profile: Profile,
    /// Sizes of blocks and inodes.
    pub geometry: Geometry,
    /// How metadata is ordered: the number on disk of one of [`ordering::REGISTRY`].
    pub ordering: u32,
    /// Bytes on the device that belong to the volume.
    pub size: u64,
    /// First byte of the journal.
    pub journal_start: u64,
    /// Bytes of the journal; 0 for none.
    pub journal_bytes: u64,
    /// First byte of the first group.
    pub first_group: u64,
    /// Fragments of a group; the last one may have fewer.
    pub group_frags: u32,
    /// Inodes of a group.
    pub group_inodes: u32,
    /// The number of cylinder groups.
    pub groups: u32,
    /// The disk as the allocator imagines it.
    pub disk_geometry: DiskGeometry,
    /// The parameters of the allocator.
    pub tuning: Tuning,
    /// Feature bits that a writer must know. None are defined yet: a volume with any of them can
    /// only be read.
    pub must_write: u64,
    /// Checksums of everything lie behind the volume: a feature that everyone must know.
    pub data_checksums: bool,
}

/// The input of [`Superblock::plan`].
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) uuid: [u8; 16],
    pub(crate) profile: Profile,
    pub(crate) geometry: Geometry,
    pub(crate) ordering: u32,
    pub(crate) size: u64,
    pub(crate) journal_bytes: u64,
    pub(crate) group_frags: u32,
    pub(crate) group_inodes: u32,
    pub(crate) disk_geometry: DiskGeometry,
    pub(crate) tuning: Tuning,
    pub(crate) data_checksums: bool,
}

impl Superblock {
    /// Computes the places of a volume.
    ///
    /// # Errors
    /// If the sizes do not fit together or the device is too small.
    pub(crate) fn plan(plan: Plan) -> Result<Superblock> {
        plan.geometry.check()?;
        check_tuning(&plan)?;
        let block = u64::from(plan.geometry.block_size);
        if plan.geometry.block_size < 4096 {
            return Err(FsError::Invalid("the block size must be at least 4096 bytes"));
        }
        if !plan.journal_bytes.is_multiple_of(block) || plan.journal_bytes > plan.size / 2 {
            return Err(FsError::Invalid("the journal must be whole blocks and half the volume"));
        }
        let first_group = FRONT_BYTES.next_multiple_of(block) + plan.journal_bytes;
        let frag = u64::from(plan.geometry.frag_size);
        let narrow = !plan.geometry.is_modern();
        if narrow && plan.size / frag >= u64::from(u32::MAX) {
            return Err(FsError::Invalid(
                "the classic profile's addresses have 32 bits: make the volume smaller",
            ));
        }
        let mut sb = Superblock {
            uuid: plan.uuid,
            profile: plan.profile,
            geometry: plan.geometry,
            ordering: plan.ordering,
            size: plan.size,
            journal_start: FRONT_BYTES.next_multiple_of(block),
            journal_bytes: plan.journal_bytes,
            first_group,
            group_frags: plan.group_frags,
            group_inodes: plan.group_inodes,
            groups: 0,
            disk_geometry: plan.disk_geometry,
            tuning: plan.tuning,
            must_write: 0,
            data_checksums: plan.data_checksums,
        };
        sb.check_group()?;
        let frags = plan.size.saturating_sub(first_group) / block * block / frag;
        let least = sb.group_data_start() + 8 * sb.frags_per_block();
        let whole = frags / u64::from(sb.group_frags);
        let rest = frags % u64::from(sb.group_frags);
        let groups = whole + u64::from(rest >= u64::from(least));
        if groups == 0 {
            return Err(FsError::Invalid("the device is too small for a cylinder group"));
        }
        sb.groups = u32::try_from(groups).map_err(|_| FsError::Invalid("too many groups"))?;
        Ok(sb)
    }

    fn check_group(&self) -> Result<()> {
        let per_block = self.frags_per_block();
        if !self.group_frags.is_multiple_of(per_block) {
            return Err(FsError::Invalid("a group is a whole number of blocks"));
        }
        let per = self.inodes_per_block();
        if self.group_inodes == 0 || !self.group_inodes.is_multiple_of(per) {
            return Err(FsError::Invalid("a group's inodes fill whole blocks"));
        }
        if CgImageLen::of(self) > self.geometry.block_size as usize {
            return Err(FsError::Invalid("a group's maps must fit one block: make groups smaller"));
        }
        let least = u64::from(self.group_data_start()) + 8 * u64::from(per_block);
        if u64::from(self.group_frags) < least {
            return Err(FsError::Invalid("a group has no room for data beside its inodes"));
        }
        Ok(())
    }

    /// Fragments of a block.
    pub fn frags_per_block(&self) -> u32 {
        self.geometry.block_size / self.geometry.frag_size
    }

    /// Inodes of a block of the inode table.
    pub fn inodes_per_block(&self) -> u32 {
        self.geometry.block_size / self.geometry.inode_size
    }

    /// First fragment of a group, from the start of the device.
    pub fn group_start(&self, group: u32) -> u64 {
        let first = self.first_group / u64::from(self.geometry.frag_size);
        first + u64::from(group) * u64::from(self.group_frags)
    }

    /// The number of fragments of a group. The last group may be shorter.
    pub fn frags_of(&self, group: u32) -> u32 {
        let end =
            self.size / u64::from(self.geometry.block_size) * u64::from(self.frags_per_block());
        let rest = end.saturating_sub(self.group_start(group));
        rest.min(self.group_frags.into()) as u32
    }

    /// The first fragment for data within a group: after a replica of the superblock, the maps
    /// and the inodes.
    pub fn group_data_start(&self) -> u32 {
        (2 + self.group_inodes / self.inodes_per_block()) * self.frags_per_block()
    }

    /// The group of an address, and the fragment within it; `None` if no group contains the
    /// address.
    pub fn locate(&self, addr: u64) -> Option<(u32, u32)> {
        let off = addr.checked_sub(self.group_start(0))?;
        let group = u32::try_from(off / u64::from(self.group_frags)).ok()?;
        let within = (off % u64::from(self.group_frags)) as u32;
        (group < self.groups && within < self.frags_of(group)).then_some((group, within))
    }

    /// Checks that this program knows all features that a writer must know.
    ///
    /// # Errors
    /// If there is an unknown feature.
    pub fn check_writable(&self) -> Result<()> {
        match self.must_write {
            0 => Ok(()),
            _ => Err(FsError::Invalid(
                "the volume has features that this program cannot write: mount it read-only",
            )),
        }
    }

    /// The address of a group's maps.
    pub fn cg_addr(&self, group: u32) -> u64 {
        self.group_start(group) + u64::from(self.frags_per_block())
    }

    /// The group that contains an inode.
    pub fn inode_group(&self, ino: Ino) -> u32 {
        (ino / u64::from(self.group_inodes)) as u32
    }

    /// The number of inodes of the volume. All inode numbers are below it.
    pub fn inodes(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.group_inodes)
    }

    /// Address of the block of the inode table that holds an inode, and its first byte there.
    pub fn inode_place(&self, ino: Ino) -> (u64, usize) {
        let index = (ino % u64::from(self.group_inodes)) as u32;
        let per = self.inodes_per_block();
        let block = self.group_start(self.inode_group(ino))
            + u64::from((2 + index / per) * self.frags_per_block());
        (block, (index % per) as usize * self.geometry.inode_size as usize)
    }

    /// A number that every structure of this volume carries.
    pub fn tag(&self) -> u32 {
        crc32c::crc32c(&self.uuid)
    }

    /// Fragments for data, all groups together.
    pub fn data_frags(&self) -> u64 {
        let data = u64::from(self.group_data_start());
        (0..self.groups).map(|g| u64::from(self.frags_of(g)) - data).sum()
    }

    /// Encodes the superblock. `group` is the group of the replica, and 0 for the first superblock.
    pub fn encode(&self, group: u32) -> Vec<u8> {
        let mut raw = vec![0; SUPERBLOCK_BYTES as usize];
        let mut w = FieldWriter { raw: &mut raw, at: 0 };
        w.u64(u64::from_le_bytes(*MAGIC));
        w.u32(0);
        w.u32(VERSION);
        // Feature bits: those that a reader may ignore, those that a writer must know, those that
        // everyone must know.
        for bits in [0, self.must_write, u64::from(self.data_checksums) * DATA_CHECKSUMS] {
            w.u64(bits);
        }
        for half in self.uuid.as_chunks::<8>().0 {
            w.u64(u64::from_le_bytes(*half));
        }
        w.u32(match self.profile {
            Profile::Classic => 1,
            Profile::Modern => 2,
        });
        let (g, t) = (&self.disk_geometry, &self.tuning);
        for n in [
            self.ordering,
            self.geometry.block_size,
            self.geometry.frag_size,
            group,
            self.groups,
            self.group_frags,
            self.group_inodes,
            g.rpm,
            g.sectors_per_track,
            g.tracks_per_cylinder,
            t.minfree,
            t.maxcontig,
            t.rotdelay_ms,
            t.cpc,
            t.maxbpg,
            u32::from(t.optimize_time),
        ] {
            w.u32(n);
        }
        for n in [self.size, self.journal_start, self.journal_bytes, self.first_group] {
            w.u64(n);
        }
        let crc = crc32c::crc32c(&raw[12..]);
        raw[8..12].copy_from_slice(&crc.to_le_bytes());
        raw
    }

    /// True if these bytes are the replica in a group of this superblock, whatever features the two name.
    pub(crate) fn is_replica(&self, raw: &[u8], group: u32) -> bool {
        let Ok(found) = Superblock::decode(raw, 0, u64::MAX) else { return false };
        let says = FieldReader { raw, at: GROUP_AT }.u32();
        says == group && Superblock { must_write: self.must_write, ..found } == *self
    }

    /// Reads a superblock from its bytes, found at byte `at` of a device of `device_size` bytes.
    pub fn decode(raw: &[u8], at: u64, device_size: u64) -> Result<Superblock> {
        if raw.len() < SUPERBLOCK_BYTES as usize {
            return Err(FsError::corrupt(at, "too short for a superblock"));
        }
        let mut r = FieldReader { raw, at: 0 };
        if r.u64() != u64::from_le_bytes(*MAGIC) {
            return Err(FsError::corrupt(at, "no twinfs FFS superblock here (made by mkfs?)"));
        }
        if r.u32() != crc32c::crc32c(&raw[12..SUPERBLOCK_BYTES as usize]) {
            return Err(FsError::corrupt(at, "the superblock's checksum does not match"));
        }
        let version = r.u32();
        if version != VERSION {
            let what = format!(
                "format version {version}; this program knows version {VERSION}: use the one that made it"
            );
            return Err(FsError::corrupt(at, what));
        }
        let (_may_ignore, must_write, must_know) = (r.u64(), r.u64(), r.u64());
        if must_know & !DATA_CHECKSUMS != 0 {
            return Err(FsError::corrupt(at, "the volume has features that this program lacks"));
        }
        let data_checksums = must_know & DATA_CHECKSUMS != 0;
        let sizes = Superblock::decode_sizes(r, at)?;
        let sb = Superblock { must_write, data_checksums, ..sizes };
        if sb.size > device_size {
            let what = format!(
                "the volume has {} bytes but the device only {device_size}: is this a part of a copy?",
                sb.size
            );
            return Err(FsError::corrupt(at, what));
        }
        Ok(sb)
    }

    fn decode_sizes(mut r: FieldReader<'_>, at: u64) -> Result<Superblock> {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&r.u64().to_le_bytes());
        uuid[8..].copy_from_slice(&r.u64().to_le_bytes());
        let profile = r.u32();
        let [ordering, block, frag, _group, groups, group_frags, group_inodes] =
            std::array::from_fn(|_| r.u32());
        let [rpm, sectors_per_track, tracks_per_cylinder] = std::array::from_fn(|_| r.u32());
        let [minfree, maxcontig, rotdelay_ms, cpc, maxbpg, time] = std::array::from_fn(|_| r.u32());
        let [size, journal_start, journal_bytes, first_group] = std::array::from_fn(|_| r.u64());
        let (profile, geometry) = match profile {
            1 => (Profile::Classic, Geometry::classic(block, frag)),
            2 => (Profile::Modern, Geometry::modern_in_place(block, frag)),
            _ => return Err(FsError::corrupt(at, "unknown profile")),
        };
        geometry.check()?;
        let optimize_time = time != 0;
        let plan = Plan {
            uuid,
            profile,
            geometry,
            ordering,
            size,
            journal_bytes,
            group_frags,
            group_inodes,
            disk_geometry: DiskGeometry { rpm, sectors_per_track, tracks_per_cylinder },
            tuning: Tuning { minfree, maxcontig, rotdelay_ms, cpc, maxbpg, optimize_time },
            data_checksums: false,
        };
        let planned = Superblock::plan(plan);
        let sb = planned.map_err(|e| FsError::corrupt(at, format!("impossible sizes: {e}")))?;
        let same =
            (sb.groups, sb.journal_start, sb.first_group) == (groups, journal_start, first_group);
        if !same {
            return Err(FsError::corrupt(at, "the sizes contradict each other"));
        }
        Ok(sb)
    }
}

fn check_tuning(plan: &Plan) -> Result<()> {
    let (g, t) = (&plan.disk_geometry, &plan.tuning);
    let within = |n: u32, low: u32, high: u32| (low..=high).contains(&n);
    if !within(g.rpm, 60, 100_000)
        || !within(g.sectors_per_track, 1, 100_000)
        || !within(g.tracks_per_cylinder, 1, 1000)
    {
        return Err(FsError::Invalid("the imagined disk's geometry is impossible"));
    }
    if !within(t.minfree, 0, 50) || !within(t.maxcontig, 1, 4096) || !within(t.maxbpg, 1, 1 << 20) {
        return Err(FsError::Invalid(
            "minfree is 0 to 50 percent, maxcontig 1 to 4096 blocks, maxbpg at least 1",
        ));
    }
    if t.rotdelay_ms > 1000 || t.cpc > 1024 {
        return Err(FsError::Invalid("rotdelay is at most 1000 ms, cpc at most 1024 cylinders"));
    }
    match (ordering::by_number(plan.ordering), plan.journal_bytes) {
        (None, _) => Err(FsError::Invalid("no such ordering")),
        (Some(entry), 0) if entry.journals() => {
            Err(FsError::Invalid("this ordering needs a journal"))
        }
        (Some(entry), 1..) if !entry.journals() => {
            Err(FsError::Invalid("this ordering has no journal"))
        }
        _ => Ok(()),
    }
}

/// Bytes of a group's maps.
struct CgImageLen;

impl CgImageLen {
    fn of(sb: &Superblock) -> usize {
        CG_FIXED_BYTES
            + (sb.group_inodes as usize).div_ceil(8)
            + (sb.group_frags as usize).div_ceil(8)
    }
}

async fn read(device: &dyn BlockDevice, at: u64, len: u64) -> Result<Vec<u8>> {
    let blocks = device.submit(Io::read(at, len, Class::Meta, Origin::Recovery)).await?;
    Ok(gather(&blocks, 0, len as usize).to_bytes().to_vec())
}

/// Reads the superblock at the start of the device.
///
/// # Errors
/// What is wrong with it. A replica may help: [`find_replica`].
pub async fn read_superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let size = device.info().size;
    if size < 2 * FRONT_BYTES {
        return Err(FsError::corrupt(0, "the device is too small to hold a volume"));
    }
    let raw = read(device, 0, SUPERBLOCK_BYTES).await?;
    Superblock::decode(&raw, 0, size)
}

/// Searches the cylinder groups for a replica of the superblock. Used if the first one is damaged.
///
/// # Errors
/// If there is none in the first GiB of the device.
pub async fn find_replica(device: &dyn BlockDevice) -> Result<Superblock> {
    const STRIDE: u64 = 1 << 20;
    let size = device.info().size;
    let end = size.min(REPLICA_SEARCH_BYTES) / SUPERBLOCK_BYTES * SUPERBLOCK_BYTES;
    let mut at = 0;
    while at < end {
        let len = STRIDE.min(end - at);
        // A part that cannot be read must not end the search: the replica may be behind it.
        let raw = read(device, at, len).await.unwrap_or_default();
        for (i, chunk) in raw.chunks_exact(SUPERBLOCK_BYTES as usize).enumerate() {
            let place = at + i as u64 * SUPERBLOCK_BYTES;
            if chunk.starts_with(MAGIC)
                && let Ok(sb) = Superblock::decode(chunk, place, size)
            {
                return Ok(sb);
            }
        }
        at += len;
    }
    Err(FsError::corrupt(0, "no replica of a superblock found"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(size: u64) -> Superblock {
        crate::MkfsOptions::modern([7; 16]).superblock(size, 512).unwrap()
    }

    #[test]
    fn a_superblock_survives_the_disk() {
        let sb = sample(64 << 20);
        assert_eq!(Superblock::decode(&sb.encode(0), 0, 64 << 20), Ok(sb));
    }

    #[test]
    fn a_changed_bit_is_noticed() {
        let raw = sample(64 << 20).encode(0);
        for bit in 0..200 * 8 {
            let mut bad = raw.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&bad, 0, 64 << 20).is_err());
        }
    }

    #[test]
    fn every_address_belongs_to_one_group() {
        let sb = sample(70 << 20);
        for group in 0..sb.groups {
            let start = sb.group_start(group);
            assert_eq!(sb.locate(start), Some((group, 0)));
            let last = start + u64::from(sb.frags_of(group)) - 1;
            assert_eq!(sb.locate(last), Some((group, sb.frags_of(group) - 1)));
        }
        let end = sb.group_start(sb.groups - 1) + u64::from(sb.frags_of(sb.groups - 1));
        assert_eq!(sb.locate(end), None);
        assert!(end * u64::from(sb.geometry.frag_size) <= sb.size);
    }

    #[test]
    fn inodes_lie_before_the_data_of_their_group() {
        let sb = sample(64 << 20);
        for ino in [0, 1, 2, sb.inodes() - 1] {
            let (addr, off) = sb.inode_place(ino);
            let (group, within) = sb.locate(addr).unwrap();
            assert_eq!(group, sb.inode_group(ino));
            assert!(within < sb.group_data_start());
            assert!(off + sb.geometry.inode_size as usize <= sb.geometry.block_size as usize);
        }
    }
}

//! The superblock: what the volume is. Written by mkfs, at both ends of the device, and again when the volume
//! gets its first snapshot or grows.

use std::cell::Cell;

use twin_fs::dinode::{FieldReader, FieldWriter};
use twin_fs::geometry::Geometry;
use twin_fs::{FsError, Result};

use super::ifile::SEG_ENTRY_BYTES;

/// Bytes of a superblock.
pub const SUPERBLOCK_BYTES: u64 = 4096;
/// Bytes of a checkpoint.
pub const CHECKPOINT_BYTES: u64 = 4096;
/// What a superblock begins with.
pub(crate) const MAGIC: &[u8; 8] = b"twinlfs1";
const VERSION: u32 = 2;
/// Where the first segment starts, in bytes: a round number past superblock and checkpoints.
const FIRST_SEGMENT: u64 = 65_536;

/// The two sets of sizes that a volume can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// 4.4BSD's structures: narrow pointers, 512-byte summaries.
    Classic,
    /// 64-bit, nanoseconds, checksums throughout.
    Modern,
}

/// The bit of `must_write` that says that there are snapshots, or were: a writer must not fill segments
/// that they need.
pub const HAS_SNAPSHOTS: u64 = 1;

/// The bit of `may_ignore` for [`Superblock::without_contents`].
const WITHOUT_CONTENTS: u64 = 1;

/// The bit of `must_know` for a volume whose usage table is in two parts, because it has grown.
const TABLE_IN_PARTS: u64 = 1;

/// What of a volume changes when it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Bytes on the device that belong to the volume.
    size: u64,
    /// The number of segments.
    segments: u32,
    /// Blocks of the usage table before the inode map, on a volume that has more of them; 0 on others.
    table_blocks: u32,
}

/// What a volume is: fixed when it is made, but for its size, which may grow (`Superblock::take_extent`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Tells volumes, and two lives of one device, apart.
    pub uuid: [u8; 16],
    /// Which structures it has.
    pub profile: Profile,
    /// Sizes of blocks and inodes.
    pub geometry: Geometry,
    /// Bytes of a segment.
    pub segment_size: u32,
    extent: Cell<Extent>,
    /// Bytes that a log write is a multiple of.
    pub align: u32,
    /// Copies of the superblock and of each checkpoint: 1, or 2 with one at the end.
    pub copies: u32,
    /// Feature bits that a writer must know: [`HAS_SNAPSHOTS`], and others that this program does not
    /// know, with which a volume can only be read.
    pub must_write: u64,
    /// The contents of files are missing, as in a fork: what is read in their place matches no
    /// checksum.
    pub without_contents: bool,
    /// Percent of the log that is never given to files, at most 50: the fuller a log, the more a
    /// cleaner must move for each segment that it gains.
    pub minfree: u32,
}

impl Superblock {
    /// Works out the geometry of a volume of `size` bytes.
    ///
    /// # Errors
    /// If the sizes do not fit together or the device is too small.
    pub fn plan(
        uuid: [u8; 16],
        profile: Profile,
        geometry: Geometry,
        segment_size: u32,
        size: u64,
        copies: u32,
    ) -> Result<Superblock> {
        geometry.check()?;
        if !segment_size.is_power_of_two()
            || segment_size < 16 * geometry.block_size
            || segment_size > 1 << 30
        {
            return Err(FsError::Invalid(
                "the segment size must be a power of two from 16 blocks to 1 GiB",
            ));
        }
        let align = match profile {
            Profile::Classic => geometry.frag_size,
            Profile::Modern => geometry.block_size,
        };
        let tail = SUPERBLOCK_BYTES + 2 * CHECKPOINT_BYTES;
        let room = size.saturating_sub(FIRST_SEGMENT + tail);
        let segments = room / u64::from(segment_size);
        if segments < u64::from(Superblock::MIN_SEGMENTS) {
            return Err(FsError::Invalid(
                "the device is too small: it needs at least 16 segments; make it larger, or segments smaller",
            ));
        }
        if segments > u64::from(Superblock::MOST_SEGMENTS) {
            return Err(FsError::Invalid(
                "the device has more than 67,108,864 segments, whose table would not fit into memory; make segments larger",
            ));
        }
        let segments = segments as u32;
        let narrow = !geometry.is_modern();
        if narrow && size / u64::from(geometry.frag_size) >= u64::from(u32::MAX) {
            return Err(FsError::Invalid(
                "the classic profile's addresses have 32 bits: make the volume smaller",
            ));
        }
        let must_write = 0;
        Ok(Superblock {
            uuid,
            profile,
            geometry,
            segment_size,
            extent: Cell::new(Extent { size, segments, table_blocks: 0 }),
            align,
            copies,
            must_write,
            without_contents: false,
            minfree: Superblock::MINFREE_UNSAID,
        })
    }

    /// What volumes keep free that do not say it.
    pub const MINFREE_UNSAID: u32 = 5;
    /// What can be kept free at most.
    pub const MINFREE_MAX: u32 = 50;

    /// The most segments that a volume can have: 64 TiB with segments of 1 MiB. The set of clean ones is in memory
    /// while a volume is open, so a program that is told an impossible size would run out of it.
    pub const MOST_SEGMENTS: u32 = 1 << 26;

    /// The fewest segments that a volume can have.
    pub const MIN_SEGMENTS: u32 = 16;

    /// True if this program knows all that a writer must know.
    pub fn may_be_written(&self) -> bool {
        self.must_write & !HAS_SNAPSHOTS == 0
    }

    /// The superblock of the same volume once it has, or had, snapshots.
    pub fn with_snapshots(&self) -> Superblock {
        Superblock { must_write: self.must_write | HAS_SNAPSHOTS, ..self.clone() }
    }

    /// Bytes on the device that belong to the volume.
    pub fn size(&self) -> u64 {
        self.extent.get().size
    }

    /// The number of segments.
    pub fn segments(&self) -> u32 {
        self.extent.get().segments
    }

    /// The superblock of the same volume when it has grown to `size` bytes.
    ///
    /// # Errors
    /// If the volume cannot have this size.
    pub fn grown_to(&self, size: u64) -> Result<Superblock> {
        let Superblock { uuid, profile, segment_size, copies, .. } = *self;
        let geometry = self.geometry.clone();
        let plan = Superblock::plan(uuid, profile, geometry, segment_size, size, copies)?;
        let grown = Superblock { extent: plan.extent, ..self.clone() };
        if size < self.size() {
            return Err(FsError::Invalid("a log does not become smaller"));
        }
        let before = self.first_table_blocks();
        if self.extent.get().table_blocks != 0 || grown.usage_blocks() > before {
            let Extent { size, segments, .. } = grown.extent.get();
            grown.extent.set(Extent { size, segments, table_blocks: before as u32 });
        }
        Ok(grown)
    }

    /// The volume has grown as this superblock says.
    pub(crate) fn take_extent(&self, grown: &Superblock) {
        self.extent.set(grown.extent.get());
    }

    /// First byte of a segment.
    pub fn segment_start(&self, segment: u32) -> u64 {
        FIRST_SEGMENT + u64::from(segment) * u64::from(self.segment_size)
    }

    /// The segment that a byte of the device lies in.
    pub fn segment_of(&self, byte: u64) -> Option<u32> {
        let segment = byte.checked_sub(FIRST_SEGMENT)? / u64::from(self.segment_size);
        (segment < u64::from(self.segments())).then_some(segment as u32)
    }

    /// Where the superblocks lie.
    pub fn places(size: u64, copies: u32) -> Vec<u64> {
        let end = (size - SUPERBLOCK_BYTES) / SUPERBLOCK_BYTES * SUPERBLOCK_BYTES;
        [0, end].into_iter().take(copies as usize).collect()
    }

    /// Where the copies of checkpoint slot 0 or 1 lie.
    pub fn checkpoint_places(&self, slot: u64) -> Vec<u64> {
        let end = Superblock::places(self.size(), 2)[1];
        let places =
            [SUPERBLOCK_BYTES + slot * CHECKPOINT_BYTES, end - (slot + 1) * CHECKPOINT_BYTES];
        places.into_iter().take(self.copies as usize).collect()
    }

    /// A number that every summary and checkpoint of this volume carries.
    pub fn tag(&self) -> u32 {
        crc32c::crc32c(&self.uuid)
    }

    /// Blocks of the segment usage table.
    pub fn usage_blocks(&self) -> u64 {
        let per_block = u64::from(self.geometry.block_size) / SEG_ENTRY_BYTES as u64;
        u64::from(self.segments()).div_ceil(per_block)
    }

    /// Blocks of the segment usage table that lie before the inode map.
    pub fn first_table_blocks(&self) -> u64 {
        match self.extent.get().table_blocks {
            0 => self.usage_blocks(),
            blocks => blocks.into(),
        }
    }

    /// The ifile's block where the second part of the usage table begins: a quarter into what the last tree of
    /// an inode's pointers maps. No inode map reaches it.
    pub fn second_table_part(&self) -> u64 {
        let last = self.geometry.inode_child(self.geometry.inode_pointers() - 1);
        self.geometry.first_data(last) + self.geometry.span(last) / 4
    }

    /// The ifile's block with this block of the usage table.
    pub fn table_lbn(&self, nth: u64) -> u64 {
        match nth.checked_sub(self.first_table_blocks()) {
            None => nth,
            Some(more) => self.second_table_part() + more,
        }
    }

    /// The block of the usage table that is this block of the ifile, if it is one.
    pub fn table_block_at(&self, lbn: u64) -> Option<u64> {
        let first = self.first_table_blocks();
        match lbn.checked_sub(self.second_table_part()) {
            None => (lbn < first).then_some(lbn),
            Some(more) => Some(first + more).filter(|nth| *nth < self.usage_blocks()),
        }
    }

    /// Blocks of the inode map in an ifile of `size` bytes. The second part of the usage table is not counted there.
    pub fn map_blocks(&self, size: u64) -> u64 {
        let end = self.geometry.blocks_for(size).min(self.second_table_part());
        end.saturating_sub(self.first_table_blocks())
    }

    /// The superblock as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut raw = vec![0; SUPERBLOCK_BYTES as usize];
        let mut w = FieldWriter { raw: &mut raw, at: 0 };
        w.u64(u64::from_le_bytes(*MAGIC));
        w.u32(0);
        w.u32(VERSION);
        // Feature bits: those that a reader may ignore, those that a writer must know, those that
        // everyone must know.
        let may_ignore = if self.without_contents { WITHOUT_CONTENTS } else { 0 };
        let Extent { size, segments, table_blocks } = self.extent.get();
        let must_know = if table_blocks > 0 { TABLE_IN_PARTS } else { 0 };
        for bits in [may_ignore, self.must_write, must_know] {
            w.u64(bits);
        }
        for half in self.uuid.as_chunks::<8>().0 {
            w.u64(u64::from_le_bytes(*half));
        }
        w.u32(match self.profile {
            Profile::Classic => 1,
            Profile::Modern => 2,
        });
        for n in [
            self.geometry.block_size,
            self.geometry.frag_size,
            self.segment_size,
            segments,
            self.align,
            self.copies,
        ] {
            w.u32(n);
        }
        w.u64(size);
        w.u32(self.minfree);
        w.u32(table_blocks);
        let crc = crc32c::crc32c(&raw[12..]);
        raw[8..12].copy_from_slice(&crc.to_le_bytes());
        raw
    }

    /// Reads a superblock from its bytes, found at byte `at` of a device of `device_size` bytes.
    pub fn decode(raw: &[u8], at: u64, device_size: u64) -> Result<Superblock> {
        if raw.len() < SUPERBLOCK_BYTES as usize {
            return Err(FsError::corrupt(at, "too short for a superblock"));
        }
        let mut r = FieldReader { raw, at: 0 };
        if r.u64() != u64::from_le_bytes(*MAGIC) {
            return Err(FsError::corrupt(at, "no twinfs LFS superblock here (made by mkfs?)"));
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
        let (may_ignore, must_write, must_know) = (r.u64(), r.u64(), r.u64());
        if must_know & !TABLE_IN_PARTS != 0 {
            return Err(FsError::corrupt(at, "the volume has features that this program lacks"));
        }
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&r.u64().to_le_bytes());
        uuid[8..].copy_from_slice(&r.u64().to_le_bytes());
        let profile = r.u32();
        let [block, frag, segment_size, segments, align, copies] = std::array::from_fn(|_| r.u32());
        let size = r.u64();
        let minfree = match r.u32() {
            0 => Superblock::MINFREE_UNSAID,
            percent @ ..=Superblock::MINFREE_MAX => percent,
            _ => return Err(FsError::corrupt(at, "minfree is more than 50 percent")),
        };
        let table_blocks = r.u32();
        let (profile, geometry) = match profile {
            1 => (Profile::Classic, Geometry::classic(block, frag)),
            2 => (Profile::Modern, Geometry::modern(block, frag)),
            _ => return Err(FsError::corrupt(at, "unknown profile")),
        };
        let plan = Superblock::plan(uuid, profile, geometry, segment_size, size, copies);
        let without_contents = may_ignore & WITHOUT_CONTENTS != 0;
        let plan = plan.map(|sb| Superblock { must_write, without_contents, minfree, ..sb });
        let sb = plan.map_err(|e| FsError::corrupt(at, format!("impossible sizes: {e}")))?;
        let in_parts = must_know & TABLE_IN_PARTS != 0;
        if in_parts {
            sb.extent.set(Extent { table_blocks, ..sb.extent.get() });
        }
        if (sb.segments(), sb.align) != (segments, align)
            || !(1..=2).contains(&copies)
            || in_parts && !(1..=sb.usage_blocks()).contains(&table_blocks.into())
        {
            return Err(FsError::corrupt(at, "the sizes contradict each other"));
        }
        if size > device_size {
            let what = format!(
                "the volume has {size} bytes but the device only {device_size}: is this a part of a copy?"
            );
            return Err(FsError::corrupt(at, what));
        }
        Ok(sb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        let geometry = Geometry::modern(4096, 512);
        Superblock::plan([7; 16], Profile::Modern, geometry, 1 << 20, 64 << 20, 2).unwrap()
    }

    #[test]
    fn a_superblock_survives_the_disk() {
        let sb = sample();
        assert_eq!(Superblock::decode(&sb.encode(), 0, 64 << 20), Ok(sb));
    }

    #[test]
    fn segments_and_copies_do_not_overlap() {
        let sb = sample();
        let last_end = sb.segment_start(sb.segments() - 1) + u64::from(sb.segment_size);
        assert!(sb.checkpoint_places(1)[1] >= last_end);
        assert_eq!(sb.segment_of(sb.segment_start(3) - 1), Some(2));
        assert_eq!(sb.segment_of(last_end), None);
    }

    #[test]
    fn a_changed_bit_is_noticed() {
        let raw = sample().encode();
        for bit in 0..100 * 8 {
            let mut bad = raw.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&bad, 0, 64 << 20).is_err());
        }
    }

    #[test]
    fn a_superblock_that_does_not_say_what_is_kept_free_keeps_five_percent() {
        let said = Superblock { minfree: 12, ..sample() };
        assert_eq!(Superblock::decode(&said.encode(), 0, 64 << 20), Ok(said));
        let unsaid = Superblock { minfree: 0, ..sample() };
        assert_eq!(Superblock::decode(&unsaid.encode(), 0, 64 << 20).unwrap().minfree, 5);
        let absurd = Superblock { minfree: 51, ..sample() };
        assert!(Superblock::decode(&absurd.encode(), 0, 64 << 20).is_err());
    }

    #[test]
    fn a_small_device_is_refused() {
        let geometry = Geometry::modern(4096, 512);
        assert!(Superblock::plan([0; 16], Profile::Modern, geometry, 1 << 20, 8 << 20, 2).is_err());
    }

    #[test]
    fn a_size_that_no_memory_has_tables_for_is_refused_with_the_remedy() {
        let plan = |segment, size| {
            Superblock::plan(
                [0; 16],
                Profile::Modern,
                Geometry::modern(4096, 512),
                segment,
                size,
                2,
            )
        };
        let why = plan(1 << 20, 1 << 63).unwrap_err().to_string();
        assert!(why.contains("make segments larger"), "{why}");
        assert!(plan(1 << 20, 1 << 45).is_ok() && plan(1 << 30, 1 << 55).is_ok());
    }
}

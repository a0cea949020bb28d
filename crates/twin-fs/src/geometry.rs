//! The geometry of a layout's files: sizes of blocks and inodes, pointers, and the tree of indirect
//! blocks.
//!
//! Contract: pure arithmetic. A file's data blocks are numbered from 0; its indirect blocks have
//! negative numbers as in 4.4BSD (McKusick et al., "The Design and Implementation of the 4.4BSD
//! Operating System", section 8.2 and `ufs_bmap.c`): the indirect block of level `k` whose first
//! data block is `f` has the number `-f - (k - 1)`.

use twin_cache::Lbn;

use crate::FsError;

/// The on-disk format of pointers to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerFormat {
    /// 4 bytes: the address, as in 4.4BSD.
    Narrow,
    /// 8 bytes: the address. For layouts that write in place, where a pointer must not change with
    /// the contents of the block.
    Long,
    /// 16 bytes: address, length in bytes, CRC-32C of the content.
    Wide,
}

impl PointerFormat {
    /// The size of a pointer in bytes.
    pub fn size(self) -> usize {
        match self {
            PointerFormat::Narrow => 4,
            PointerFormat::Long => 8,
            PointerFormat::Wide => 16,
        }
    }
}

/// A pointer: the address of a block, with length and checksum where the format has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ptr {
    /// Address in fragments from the start of the device; 0 for a hole.
    pub addr: u64,
    /// Length of the block on the device, in bytes.
    pub len: u32,
    /// CRC-32C of these bytes (wide pointers only, otherwise 0).
    pub crc: u32,
}

/// The size in bytes of a chunk, in directories with several chunks in a block (4.4BSD's
/// `DIRBLKSIZ`).
pub const DIR_CHUNK: usize = 512;

/// The address of a block whose space is reserved but which has not been written yet.
pub const UNWRITTEN: u64 = u64::MAX;

impl Ptr {
    /// The pointer of a hole, which leads to no block.
    pub const HOLE: Ptr = Ptr { addr: 0, len: 0, crc: 0 };

    /// True if there is no block.
    #[inline]
    pub fn is_hole(&self) -> bool {
        self.addr == 0
    }

    /// True if the block lies on the device.
    #[inline]
    pub fn is_on_disk(&self) -> bool {
        self.addr != 0 && self.addr != UNWRITTEN
    }
}

/// The place that holds the pointer to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The inode, at this index of its pointers.
    Inode(usize),
    /// The indirect block with this number, at this index of its pointers.
    Indirect(Lbn, usize),
}

/// The sizes of a layout's files, in bytes unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The size of a block.
    pub block_size: u32,
    /// The size of a fragment: the unit of addresses, and of the space that the last block of a
    /// small file takes.
    pub frag_size: u32,
    /// The size of an inode on disk.
    pub inode_size: u32,
    /// The number of pointers in the inode that lead to data.
    pub direct: usize,
    /// The number of levels of indirect blocks.
    pub levels: usize,
    /// The format of pointers.
    pub pointer_format: PointerFormat,
    /// The most data that an inode holds in place of pointers; 0 for none.
    pub inline_max: u32,
    /// The longest target of a symbolic link that an inode holds in place of pointers.
    pub inline_link_max: u32,
}

impl Geometry {
    /// The sizes of 4.4BSD: 128-byte inodes, twelve direct and three indirect 4-byte pointers.
    pub fn classic(block_size: u32, frag_size: u32) -> Geometry {
        Geometry {
            block_size,
            frag_size,
            inode_size: 128,
            direct: 12,
            levels: 3,
            pointer_format: PointerFormat::Narrow,
            inline_max: 0,
            inline_link_max: 60,
        }
    }

    /// The modern sizes: 512-byte inodes, 16-byte checksummed pointers, four levels, inline data.
    pub fn modern(block_size: u32, frag_size: u32) -> Geometry {
        Geometry {
            block_size,
            frag_size,
            inode_size: 512,
            direct: 12,
            levels: 4,
            pointer_format: PointerFormat::Wide,
            inline_max: 256,
            inline_link_max: 256,
        }
    }

    /// The modern sizes for a layout that writes in place: as [`modern`](Self::modern), with 8-byte
    /// pointers.
    pub fn modern_in_place(block_size: u32, frag_size: u32) -> Geometry {
        Geometry { pointer_format: PointerFormat::Long, ..Geometry::modern(block_size, frag_size) }
    }

    /// True for the modern profile's structures: wide inodes, 64-bit inode numbers, directories
    /// with checksums and indexes, extended attributes.
    pub fn is_modern(&self) -> bool {
        self.pointer_format != PointerFormat::Narrow
    }

    /// True if a pointer carries the checksum of what it points to.
    pub fn has_checksums(&self) -> bool {
        self.pointer_format == PointerFormat::Wide
    }

    /// The number of pointers in an indirect block.
    #[inline]
    pub fn per_block(&self) -> u64 {
        1 << self.fan_bits()
    }

    /// The binary logarithm of [`per_block`](Self::per_block). The sizes of blocks and pointers are
    /// powers of two ([`check`](Self::check)), and shifts are faster than divisions where the
    /// parent of every block is computed several times.
    #[inline]
    fn fan_bits(&self) -> u32 {
        self.block_size.trailing_zeros() - self.pointer_format.size().trailing_zeros()
    }

    /// The binary logarithm of the number of data blocks that an indirect block of `level` maps.
    #[inline]
    fn span_bits(&self, level: usize) -> u32 {
        self.fan_bits() * level as u32
    }

    /// The number of pointers in an inode: the direct ones, then one for each level.
    pub fn inode_pointers(&self) -> usize {
        self.direct + self.levels
    }

    /// The first data block that the tree of `level` maps.
    fn tree_start(&self, level: usize) -> u64 {
        (1..level).map(|k| 1u64 << self.span_bits(k)).sum::<u64>() + self.direct as u64
    }

    /// The number of data blocks that a file can have.
    pub fn max_blocks(&self) -> u64 {
        // Four levels of large indirect blocks overflow 64 bits; no file needs more than 2^52
        // blocks.
        let n = u128::from(self.per_block());
        let blocks = (1..=self.levels as u32).map(|k| n.pow(k)).sum::<u128>() + self.direct as u128;
        u64::try_from(blocks).unwrap_or(u64::MAX).min(1 << 52)
    }

    /// The largest size of a file, in bytes.
    pub fn max_file_size(&self) -> u64 {
        let by_map = self.max_blocks().saturating_mul(u64::from(self.block_size));
        by_map.min(i64::MAX as u64)
    }

    /// The number of the indirect block of `level` that starts at data block `first`.
    #[inline]
    pub fn indirect_lbn(&self, level: usize, first: u64) -> Lbn {
        -(first as Lbn) - (level as Lbn - 1)
    }

    /// Level and first data block of an indirect block.
    #[inline]
    pub fn indirect(&self, lbn: Lbn) -> (usize, u64) {
        let x = lbn.unsigned_abs();
        // The first data block of every indirect block is `direct` modulo `per_block`, and there
        // are fewer levels than `per_block`, so the remainder is the level.
        let level = ((x - self.direct as u64) & (self.per_block() - 1)) as usize + 1;
        (level, x - (level as u64 - 1))
    }

    /// True if `lbn` is a number that a block of a file can have.
    pub fn is_valid_lbn(&self, lbn: Lbn) -> bool {
        if lbn >= 0 {
            return (lbn as u64) < self.max_blocks();
        }
        if lbn.unsigned_abs() < self.direct as u64 {
            return false;
        }
        let (level, first) = self.indirect(lbn);
        level <= self.levels && first < self.max_blocks() && {
            let (tree, start) = self.tree_of(first);
            level <= tree && (first - start).is_multiple_of(1u64 << self.span_bits(level))
        }
    }

    /// The level of the tree that maps data block `lbn`, which is not direct (1: single indirect),
    /// and the first data block of that tree.
    #[inline]
    fn tree_of(&self, lbn: u64) -> (usize, u64) {
        let (mut tree, mut start) = (1, self.direct as u64);
        while tree < self.levels {
            let next = start + (1u64 << self.span_bits(tree));
            if lbn < next {
                break;
            }
            (tree, start) = (tree + 1, next);
        }
        (tree, start)
    }

    /// The place of the pointer to a block, data or indirect.
    #[inline]
    pub fn parent(&self, lbn: Lbn) -> Parent {
        if lbn >= 0 && (lbn as usize) < self.direct {
            return Parent::Inode(lbn as usize);
        }
        let (level, first) = if lbn >= 0 { (0, lbn as u64) } else { self.indirect(lbn) };
        let (tree, start) = self.tree_of(first);
        if level == tree {
            return Parent::Inode(self.direct + tree - 1);
        }
        let span_bits = self.span_bits(level + 1);
        let parent_first = start + ((first - start) >> span_bits << span_bits);
        let index = (first - parent_first) >> self.span_bits(level);
        Parent::Indirect(self.indirect_lbn(level + 1, parent_first), index as usize)
    }

    /// The number of the block that pointer `index` of the indirect block `lbn` points to.
    pub fn child(&self, lbn: Lbn, index: usize) -> Lbn {
        let (level, first) = self.indirect(lbn);
        let child_first = first + ((index as u64) << self.span_bits(level - 1));
        match level {
            1 => child_first as Lbn,
            _ => self.indirect_lbn(level - 1, child_first),
        }
    }

    /// The number of the block that pointer `slot` of an inode points to.
    pub fn inode_child(&self, slot: usize) -> Lbn {
        if slot < self.direct {
            return slot as Lbn;
        }
        let level = slot - self.direct + 1;
        self.indirect_lbn(level, self.tree_start(level))
    }

    /// The number of data blocks that a block maps: 1 for a data block, more for an indirect one.
    pub fn span(&self, lbn: Lbn) -> u64 {
        if lbn >= 0 { 1 } else { 1u64 << self.span_bits(self.indirect(lbn).0) }
    }

    /// The first data block that a block maps; for a data block, itself.
    pub fn first_data(&self, lbn: Lbn) -> u64 {
        if lbn >= 0 { lbn as u64 } else { self.indirect(lbn).1 }
    }

    /// The length on disk, in bytes, of data block `lbn` of a file of `size` bytes. It is the block
    /// size, except for the last block of a file without indirect blocks, which takes only the
    /// fragments that it needs.
    #[inline]
    pub fn data_len(&self, lbn: u64, size: u64) -> u32 {
        let block = u64::from(self.block_size);
        let direct_bytes = self.direct as u64 * block;
        if size >= direct_bytes || lbn >= self.direct as u64 || (lbn + 1) * block <= size {
            return self.block_size;
        }
        let used = size.saturating_sub(lbn * block).max(1);
        used.next_multiple_of(u64::from(self.frag_size)) as u32
    }

    /// The length on disk, in bytes, of a block, data or indirect, of a file of `size` bytes.
    pub fn len_on_disk(&self, lbn: Lbn, size: u64) -> u32 {
        if lbn < 0 { self.block_size } else { self.data_len(lbn as u64, size) }
    }

    /// The number of bytes by which directories grow, which is also the size of an empty one.
    pub fn dir_unit(&self) -> usize {
        match self.pointer_format {
            PointerFormat::Narrow => DIR_CHUNK,
            PointerFormat::Long | PointerFormat::Wide => self.block_size as usize,
        }
    }

    /// The number of data blocks of a file of `size` bytes.
    pub fn blocks_for(&self, size: u64) -> u64 {
        size.div_ceil(u64::from(self.block_size))
    }

    /// The offset on the device, in bytes, of an address.
    #[inline]
    pub fn byte_of(&self, addr: u64) -> u64 {
        addr * u64::from(self.frag_size)
    }

    /// Reads pointer `index` of an indirect block's content.
    #[inline]
    pub fn get_ptr(&self, content: &[u8], index: usize) -> Ptr {
        let size = self.pointer_format.size();
        self.decode_ptr(&content[index * size..(index + 1) * size])
    }

    /// Writes pointer `index` of an indirect block's content.
    #[inline]
    pub fn set_ptr(&self, content: &mut [u8], index: usize, ptr: Ptr) {
        let size = self.pointer_format.size();
        self.encode_ptr(ptr, &mut content[index * size..(index + 1) * size]);
    }

    /// Decodes a pointer. In formats without a length the length is that of a whole block.
    #[inline]
    pub(crate) fn decode_ptr(&self, raw: &[u8]) -> Ptr {
        let word = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        match self.pointer_format {
            PointerFormat::Narrow => match word(0) {
                0 => Ptr::HOLE,
                u32::MAX => Ptr { addr: UNWRITTEN, len: self.block_size, crc: 0 },
                addr => Ptr { addr: addr.into(), len: self.block_size, crc: 0 },
            },
            PointerFormat::Long => match u64::from(word(0)) | u64::from(word(4)) << 32 {
                0 => Ptr::HOLE,
                addr => Ptr { addr, len: self.block_size, crc: 0 },
            },
            PointerFormat::Wide => {
                let addr = u64::from(word(0)) | u64::from(word(4)) << 32;
                Ptr { addr, len: word(8), crc: word(12) }
            }
        }
    }

    /// Encodes a pointer in the format of the volume.
    #[inline]
    pub(crate) fn encode_ptr(&self, ptr: Ptr, raw: &mut [u8]) {
        match self.pointer_format {
            PointerFormat::Narrow => raw[..4].copy_from_slice(&(ptr.addr as u32).to_le_bytes()),
            PointerFormat::Long => raw[..8].copy_from_slice(&ptr.addr.to_le_bytes()),
            PointerFormat::Wide => {
                raw[..8].copy_from_slice(&ptr.addr.to_le_bytes());
                raw[8..12].copy_from_slice(&ptr.len.to_le_bytes());
                raw[12..16].copy_from_slice(&ptr.crc.to_le_bytes());
            }
        }
    }

    /// Checks that a pointer that was read from disk is a hole or leads to a block on a device of
    /// `frags` fragments.
    pub fn check_ptr(&self, ptr: Ptr, frags: u64) -> Result<(), &'static str> {
        if ptr.is_hole() {
            return Ok(());
        }
        if ptr.len == 0 || ptr.len > self.block_size || !ptr.len.is_multiple_of(self.frag_size) {
            return Err("a pointer has an impossible length");
        }
        match ptr.addr.checked_add(u64::from(ptr.len / self.frag_size)) {
            Some(end) if end <= frags => Ok(()),
            _ => Err("a pointer leads out of the volume"),
        }
    }

    /// Checks that the sizes fit together.
    pub fn check(&self) -> crate::Result<()> {
        let bad = |what| Err(FsError::Invalid(what));
        let power = |n: u32, low: u32, high: u32| n.is_power_of_two() && n >= low && n <= high;
        if !power(self.block_size, 1024, 65536) {
            return bad("the block size must be a power of two from 1024 to 65536");
        }
        if !power(self.frag_size, 512, self.block_size) {
            return bad("the fragment size must be a power of two from 512 to the block size");
        }
        if self.block_size / self.frag_size > 8 {
            return bad("a block has at most eight fragments: take a larger fragment size");
        }
        Ok(())
    }

    /// The default fragment size for a block size: `usual`, or the nearest size that such a block
    /// can have.
    pub fn fragment_for(block_size: u32, usual: u32) -> u32 {
        usual.max(block_size / 8).min(block_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block size without a fragment size was refused as damage, because the fragments stayed
    /// those of 4 KiB blocks.
    #[test]
    fn every_block_size_has_a_fragment_size_that_goes_with_it() {
        for block in [1024, 2048, 4096, 8192, 16384, 32768, 65536] {
            for usual in [512, 1024, 4096] {
                let frag = Geometry::fragment_for(block, usual);
                Geometry::modern(block, frag).check().unwrap();
                assert!(frag == usual || usual * 8 < block || usual > block, "{block} {usual}");
            }
        }
        let error = Geometry::modern(8192, 512).check().unwrap_err();
        assert!(matches!(error, FsError::Invalid(why) if why.contains("fragment size")));
    }

    fn geometries() -> [Geometry; 3] {
        [Geometry::classic(4096, 1024), Geometry::classic(8192, 1024), Geometry::modern(4096, 512)]
    }

    fn samples(geometry: &Geometry) -> Vec<u64> {
        let n = geometry.per_block();
        let mut all = vec![0, 11, 12, 13];
        for level in 2..=geometry.levels {
            let start = geometry.tree_start(level);
            all.extend([start - 1, start, start + 1, start + n - 1, start + n, start + n * n / 2]);
        }
        all.push(geometry.max_blocks() - 1);
        all
    }

    #[test]
    fn walking_up_and_down_again_gives_the_same_block() {
        for geometry in geometries() {
            for lbn in samples(&geometry) {
                let mut at = lbn as Lbn;
                loop {
                    assert!(geometry.is_valid_lbn(at));
                    match geometry.parent(at) {
                        Parent::Inode(slot) => {
                            assert_eq!(geometry.inode_child(slot), at);
                            break;
                        }
                        Parent::Indirect(up, index) => {
                            assert_eq!(geometry.child(up, index), at, "{lbn} through {up}");
                            let (first, span) = (geometry.first_data(up), geometry.span(up));
                            assert!((first..first + span).contains(&lbn));
                            at = up;
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_classic_numbers_are_those_of_4_4bsd() {
        let geometry = Geometry::classic(4096, 1024);
        assert_eq!(geometry.parent(12), Parent::Indirect(-12, 0));
        assert_eq!(geometry.parent(-12), Parent::Inode(12));
        assert_eq!(geometry.parent(12 + 1024), Parent::Indirect(-(12 + 1024), 0));
        assert_eq!(geometry.parent(-(12 + 1024)), Parent::Indirect(-(12 + 1024) - 1, 0));
        assert_eq!(geometry.parent(-(12 + 1024) - 1), Parent::Inode(13));
    }

    #[test]
    fn numbers_between_indirect_blocks_are_not_valid() {
        let geometry = Geometry::classic(4096, 1024);
        assert!(!geometry.is_valid_lbn(-1));
        assert!(!geometry.is_valid_lbn(-13)); // a double indirect block cannot start at 12
        assert!(!geometry.is_valid_lbn(-100));
        assert!(!geometry.is_valid_lbn(geometry.max_blocks() as Lbn));
    }

    #[test]
    fn modern_files_pass_four_tebibytes() {
        assert!(Geometry::modern(4096, 512).max_file_size() > 4 << 40);
    }

    #[test]
    fn the_last_block_of_a_small_file_is_in_fragments() {
        let geometry = Geometry::classic(4096, 1024);
        assert_eq!(geometry.data_len(0, 1), 1024);
        assert_eq!(geometry.data_len(0, 1025), 2048);
        assert_eq!(geometry.data_len(0, 5000), 4096);
        assert_eq!(geometry.data_len(1, 5000), 1024);
        assert_eq!(geometry.data_len(12, 12 * 4096 + 1), 4096);
    }

    #[test]
    fn pointers_survive_the_disk() {
        for geometry in geometries() {
            let mut raw = vec![0; geometry.block_size as usize];
            let crc = if geometry.pointer_format == PointerFormat::Wide { 77 } else { 0 };
            let ptr = Ptr { addr: 123_456, len: geometry.block_size, crc };
            geometry.set_ptr(&mut raw, 3, ptr);
            assert_eq!(geometry.get_ptr(&raw, 3), ptr);
            assert_eq!(geometry.get_ptr(&raw, 2), Ptr::HOLE);
        }
    }
}

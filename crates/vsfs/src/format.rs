//! The places on the disk: the superblock, and the regions that follow from it.
//!
//! Contract: pure arithmetic and bytes. [`Superblock::encode`] and [`Superblock::decode`] are
//! inverse. A decoded superblock is consistent, so that no other code checks the sizes again.
//! Inodes, directories and indirect blocks have the small ("narrow") form of twin-fs.
//! `docs/ondisk-vsfs.md` describes every byte.

use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin, gather};
use twin_fs::dinode::{FieldReader, FieldWriter};
use twin_fs::geometry::{Geometry, PointerFormat};
use twin_fs::{Features, FsError, Ino, Result};

/// The first bytes of a volume.
pub const MAGIC: &[u8; 8] = b"twinvsfs";
/// The version of the format that this code reads and writes.
pub const VERSION: u32 = 1;
/// Bytes of an inode, as in the book.
pub const INODE_BYTES: u32 = 256;
/// Where the pointers of an inode begin, and how many there are: 12 direct ones, an indirect and a double
/// indirect one.
pub const POINTERS_AT: usize = 40;
/// The number of pointers of an inode, which begin at [`POINTERS_AT`].
pub const POINTERS: usize = 14;
/// The bytes of block 0 that are used.
pub const SUPERBLOCK_BYTES: usize = 64;
/// The state in the superblock of a volume that was unmounted.
pub const CLEAN: u32 = 1;
/// The state of a volume that is in use, or was in use when the power failed.
pub const IN_USE: u32 = 2;

/// The superblock. Places are numbers of blocks from the start of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The number that distinguishes the volume from all others.
    pub uuid: [u8; 16],
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the volume.
    pub blocks: u32,
    /// Inodes in the table.
    pub inodes: u32,
    /// First block of the inode bitmap: bit n says that inode n is in use.
    pub inode_bitmap: u32,
    /// First block of the data bitmap: bit n says that block `data + n` is in use.
    pub data_bitmap: u32,
    /// First block of the inode table.
    pub inode_table: u32,
    /// The number of the first data block.
    pub data: u32,
}

impl Superblock {
    /// Divides a device of `size` bytes into the regions of the book's picture.
    ///
    /// # Errors
    /// If the sizes do not fit together.
    pub fn plan(uuid: [u8; 16], size: u64, block_size: u32, inodes: u64) -> Result<Superblock> {
        geometry(block_size).check()?;
        let per_block = block_size / INODE_BYTES;
        // Pointers have 32 bits, and their largest value is not an address.
        let small = |n: u64| u32::try_from(n).ok().filter(|&n| n < u32::MAX / 2);
        // The table has whole blocks, at least one, because the numbers 0 to 2 are taken.
        let table_blocks = inodes.div_ceil(per_block.into()).max(1);
        let blocks = small(size / u64::from(block_size));
        let (Some(blocks), Some(inodes)) = (blocks, small(table_blocks * u64::from(per_block)))
        else {
            return Err(FsError::Invalid(
                "a vsfs volume has fewer than 2^31 blocks, and fewer inodes: make it smaller, or its \
                 blocks or bytes-per-inode larger",
            ));
        };
        let bits_per_block = block_size * 8;
        let inode_bitmap = 1;
        let data_bitmap = inode_bitmap + inodes.div_ceil(bits_per_block);
        // The bitmap has a bit for every block of the volume: slightly too long, but simple.
        let inode_table = data_bitmap + blocks.div_ceil(bits_per_block);
        let data = inode_table + inodes / per_block;
        if data >= blocks {
            return Err(FsError::Invalid(
                "the volume has no room for data beside its inodes: make it larger, or its \
                 bytes-per-inode",
            ));
        }
        Ok(Superblock {
            uuid,
            block_size,
            blocks,
            inodes,
            inode_bitmap,
            data_bitmap,
            inode_table,
            data,
        })
    }

    /// The sizes that the rest of twinfs works with.
    pub fn geometry(&self) -> Geometry {
        geometry(self.block_size)
    }

    /// The features of its files.
    pub fn features(&self) -> Features {
        features(&self.geometry())
    }

    /// The number of data blocks.
    pub fn data_blocks(&self) -> u32 {
        self.blocks - self.data
    }

    /// True if the number is that of a data block. 0, a hole, is not.
    pub fn is_data(&self, block: u64) -> bool {
        (u64::from(self.data)..u64::from(self.blocks)).contains(&block)
    }

    /// The place of an inode: its block, and the byte in the block. It is the book's `blk =
    /// (inumber * sizeof(inode_t)) / blockSize`, counted from the start of the table.
    pub fn inode_place(&self, ino: Ino) -> (u64, usize) {
        let per_block = u64::from(self.block_size / INODE_BYTES);
        let block = u64::from(self.inode_table) + ino / per_block;
        (block, (ino % per_block) as usize * INODE_BYTES as usize)
    }

    /// The first byte of a block.
    pub fn byte_of(&self, block: u64) -> u64 {
        block * u64::from(self.block_size)
    }

    /// Block 0, which says whether the volume was unmounted.
    pub fn encode(&self, state: u32) -> Vec<u8> {
        let mut raw = vec![0; self.block_size as usize];
        raw[..8].copy_from_slice(MAGIC);
        raw[16..32].copy_from_slice(&self.uuid);
        let mut put = FieldWriter { raw: &mut raw, at: 8 };
        put.u32(VERSION);
        put.u32(state);
        put.at = 32;
        let sizes = [self.block_size, INODE_BYTES, self.blocks, self.inodes];
        let places = [self.inode_bitmap, self.data_bitmap, self.inode_table, self.data];
        for number in sizes.into_iter().chain(places) {
            put.u32(number);
        }
        raw
    }

    /// Reads the superblock of a device of `size` bytes, and its state.
    pub fn decode(raw: &[u8], size: u64) -> Result<(Superblock, u32)> {
        let wrong = |at: u64, what: &str| Err(FsError::corrupt(at, what));
        if raw.len() < SUPERBLOCK_BYTES || !raw.starts_with(MAGIC) {
            return wrong(0, "there is no vsfs superblock");
        }
        let mut get = FieldReader { raw, at: 8 };
        if get.u32() != VERSION {
            return wrong(8, "the superblock has an unknown version");
        }
        let state = get.u32();
        get.at = 32;
        let [block_size, inode_bytes, blocks, inodes] = std::array::from_fn(|_| get.u32());
        let places: [u32; 4] = std::array::from_fn(|_| get.u32());
        let uuid = std::array::from_fn(|i| raw[16 + i]);
        let volume = u64::from(blocks) * u64::from(block_size);
        if volume > size {
            return wrong(40, "the volume is larger than its device: was the image cut short?");
        }
        // All places follow from the sizes, so a superblock with other places is damaged.
        match Superblock::plan(uuid, volume, block_size, inodes.into()) {
            Ok(sb)
                if inode_bytes == INODE_BYTES
                    && sb.inodes == inodes
                    && [sb.inode_bitmap, sb.data_bitmap, sb.inode_table, sb.data] == places =>
            {
                Ok((sb, state))
            }
            _ => wrong(32, "the sizes and places in the superblock contradict each other"),
        }
    }

    /// Writes block 0.
    pub async fn write(&self, device: &dyn BlockDevice, state: u32) -> Result<()> {
        let block = Block::Bytes(Buf::copy_of(&self.encode(state)).freeze());
        let origin = Origin::Checkpoint;
        device.submit(Io::write(0, vec![block], Class::Meta, origin)).await?;
        device.submit(Io::flush(origin)).await?;
        Ok(())
    }

    /// Reads block 0, and so the sizes, the places and the state.
    ///
    /// # Errors
    /// If there is no volume, its superblock is damaged, or the device fails.
    pub async fn read(device: &dyn BlockDevice) -> Result<(Superblock, u32)> {
        let info = device.info();
        let len = (SUPERBLOCK_BYTES as u64).next_multiple_of(info.sector.into());
        if info.size < len {
            return Err(FsError::corrupt(0, "the device is too small to hold a volume"));
        }
        let (sb, state) = Superblock::decode(&read(device, 0, len).await?, info.size)?;
        if sb.block_size < info.sector {
            return Err(FsError::Invalid(
                "the volume's blocks are smaller than the device's sectors",
            ));
        }
        Ok((sb, state))
    }
}

/// Reads bytes of the device.
pub(crate) async fn read(device: &dyn BlockDevice, at: u64, len: u64) -> Result<Vec<u8>> {
    let blocks = device.submit(Io::read(at, len, Class::Meta, Origin::Recovery)).await?;
    Ok(gather(&blocks, 0, len as usize).to_bytes().to_vec())
}

/// Files of blocks without fragments. An inode has 12 direct pointers, an indirect and a double indirect
/// one, of 4 bytes each: with blocks of 4 KiB a file has up to 4 GiB.
fn geometry(block_size: u32) -> Geometry {
    Geometry {
        block_size,
        frag_size: block_size,
        inode_size: INODE_BYTES,
        direct: POINTERS - 2,
        levels: 2,
        pointer_format: PointerFormat::Narrow,
        inline_max: 0,
        inline_link_max: 0,
    }
}

/// The features of files. Most of them follow from the narrow form of inodes: no checksums, no
/// extended attributes, no directory indexes, no times of creation. The operations above ask this
/// value and refuse what needs more.
fn features(geometry: &Geometry) -> Features {
    Features { in_place: true, new_inode_bytes: 0, ..Features::of(geometry) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_of_64_blocks_is_divided_as_in_the_book() {
        let sb = Superblock::plan([7; 16], 64 * 4096, 4096, 80).unwrap();
        assert_eq!((sb.inode_bitmap, sb.data_bitmap, sb.inode_table, sb.data), (1, 2, 3, 8));
        assert_eq!((sb.inodes, sb.data_blocks()), (80, 56));
        // The book's example is inode 32, at byte 20 KiB of the device.
        let (block, offset) = sb.inode_place(32);
        assert_eq!(sb.byte_of(block) + offset as u64, 20 << 10);
    }

    #[test]
    fn a_superblock_survives_the_disk() {
        let sb = Superblock::plan([7; 16], 10 << 20, 1024, 333).unwrap();
        assert_eq!(Superblock::decode(&sb.encode(IN_USE), 10 << 20), Ok((sb.clone(), IN_USE)));
        let error = Superblock::decode(&sb.encode(CLEAN), 9 << 20).unwrap_err();
        assert!(error.to_string().contains("larger than its device"), "{error}");
    }

    /// Without a checksum, this much is noticed: not the name, the state, or fewer blocks than there are.
    #[test]
    fn a_changed_bit_in_the_sizes_and_places_is_noticed() {
        let raw = Superblock::plan([7; 16], 10 << 20, 4096, 333).unwrap().encode(CLEAN);
        for byte in (0..64).filter(|byte| !(12..32).contains(byte) && !(40..44).contains(byte)) {
            for bit in 0..8 {
                let mut bad = raw.clone();
                bad[byte] ^= 1 << bit;
                assert!(Superblock::decode(&bad, 10 << 20).is_err(), "byte {byte}");
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        for (size, block, inodes) in
            [(4096, 4096, 1), (1 << 20, 3000, 9), (1 << 50, 4096, 9), (1 << 20, 4096, 1 << 40)]
        {
            assert!(Superblock::plan([7; 16], size, block, inodes).is_err(), "{size} {block}");
        }
    }
}

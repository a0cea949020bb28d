//! A cylinder group's maps: one block with counts, rotors and the bitmaps of inodes and fragments.
//!
//! Contract: [`CgImage`] is the decoded block; [`Group`](crate::group::Group) is its form in
//! memory. In the modern profile the block has a checksum. Counts and summaries follow from the
//! bitmaps. They are stored for tools that read the disk; this code recomputes them.

use twin_fs::dinode::{FieldReader, FieldWriter};
use twin_fs::{FsError, Result};

use super::superblock::{CG_FIXED_BYTES, Superblock};

const MAGIC: u32 = u32::from_le_bytes(*b"ffcg");
/// Clusters of up to this many blocks are counted by length.
const CLUSTERS: usize = 16;
/// The free and used parts of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgCounts {
    /// The number of directories.
    pub dirs: u32,
    /// The number of free whole blocks.
    pub free_blocks: u32,
    /// The number of free inodes.
    pub free_inodes: u32,
    /// Fragments free in blocks that are partly used.
    pub free_frags: u32,
}

/// The maps of a cylinder group as they are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgImage {
    /// The number of the group.
    pub group: u32,
    /// The counts of what is free.
    pub counts: CgCounts,
    /// The block of the last allocation, relative to the group.
    pub rotor: u32,
    /// The fragment of the last allocation of fragments.
    pub frag_rotor: u32,
    /// The inode of the last allocation.
    pub inode_rotor: u32,
    /// The number of inodes whose blocks have been written. Inodes from here on were never used.
    pub inodes_written: u32,
    /// The numbers of runs of 1 to 7 free fragments in partly used blocks; index 0 is not used.
    pub frag_runs: [u32; 8],
    /// The numbers of runs of 1, 2, ... free blocks; the last one counts all longer runs.
    pub clusters: [u32; CLUSTERS],
    /// One bit an inode: 1 if it is used.
    pub inodes: Vec<u8>,
    /// One bit a fragment: 1 if it is free.
    pub free: Vec<u8>,
}

impl CgImage {
    /// Encodes the maps into their block.
    pub fn encode(&self, sb: &Superblock) -> Vec<u8> {
        let mut raw = vec![0; sb.geometry.block_size as usize];
        let mut w = FieldWriter { raw: &mut raw, at: 0 };
        w.u32(MAGIC);
        w.u32(0);
        let c = &self.counts;
        for n in [sb.tag(), self.group, sb.frags_of(self.group), sb.group_inodes] {
            w.u32(n);
        }
        for n in [c.dirs, c.free_blocks, c.free_inodes, c.free_frags] {
            w.u32(n);
        }
        for n in [self.rotor, self.frag_rotor, self.inode_rotor, self.inodes_written] {
            w.u32(n);
        }
        for n in self.frag_runs.iter().chain(&self.clusters) {
            w.u32(*n);
        }
        debug_assert!(w.at <= CG_FIXED_BYTES);
        let (inodes, free) = (CG_FIXED_BYTES, CG_FIXED_BYTES + self.inodes.len());
        raw[inodes..free].copy_from_slice(&self.inodes);
        raw[free..free + self.free.len()].copy_from_slice(&self.free);
        if sb.geometry.is_modern() {
            let crc = crc32c::crc32c(&raw[8..]);
            raw[4..8].copy_from_slice(&crc.to_le_bytes());
        }
        raw
    }

    /// The checksum of a block of maps: the one that is in it, where there is one.
    pub(crate) fn checksum(sb: &Superblock, raw: &[u8]) -> u32 {
        match sb.geometry.is_modern() {
            true => FieldReader { raw, at: 4 }.u32(),
            false => crc32c::crc32c(raw),
        }
    }

    /// Reads the maps of `group` from their block.
    pub fn decode(sb: &Superblock, group: u32, raw: &[u8]) -> Result<CgImage> {
        let at = sb.geometry.byte_of(sb.cg_addr(group));
        let bad = |what: String| Err(FsError::corrupt(at, format!("group {group}: {what}")));
        if raw.len() < sb.geometry.block_size as usize {
            return bad("too short for its maps".into());
        }
        let mut r = FieldReader { raw, at: 0 };
        if r.u32() != MAGIC {
            return bad("no maps of a cylinder group here".into());
        }
        let crc = r.u32();
        if sb.geometry.is_modern() && crc != crc32c::crc32c(&raw[8..]) {
            return bad("the checksum of its maps does not match".into());
        }
        let own = [r.u32(), r.u32(), r.u32(), r.u32()];
        if own != [sb.tag(), group, sb.frags_of(group), sb.group_inodes] {
            return bad("its maps are those of another group or volume".into());
        }
        let [dirs, free_blocks, free_inodes, free_frags] = std::array::from_fn(|_| r.u32());
        let [rotor, frag_rotor, inode_rotor, inodes_written] = std::array::from_fn(|_| r.u32());
        let frag_runs = std::array::from_fn(|_| r.u32());
        let clusters = std::array::from_fn(|_| r.u32());
        if inodes_written > sb.group_inodes || !inodes_written.is_multiple_of(sb.inodes_per_block())
        {
            return bad(format!("{inodes_written} inodes cannot have been written"));
        }
        let inodes_len = (sb.group_inodes as usize).div_ceil(8);
        let free_len = (sb.frags_of(group) as usize).div_ceil(8);
        let free_at = CG_FIXED_BYTES + inodes_len;
        Ok(CgImage {
            group,
            counts: CgCounts { dirs, free_blocks, free_inodes, free_frags },
            rotor,
            frag_rotor,
            inode_rotor,
            inodes_written,
            frag_runs,
            clusters,
            inodes: raw[CG_FIXED_BYTES..free_at].to_vec(),
            free: raw[free_at..free_at + free_len].to_vec(),
        })
    }
}

//! The record of an inode, on disk and in memory.
//!
//! Contract: [`Dinode::decode`] inverts [`Dinode::encode`] for all values that a profile can hold.
//! The narrow form is 4.4BSD's with 128 bytes; the wide form has 512 bytes and a checksum. The
//! byte-level description is `docs/ondisk-lfs.md`, section "Inodes".

use crate::acl::AccessAcl;
use crate::geometry::{Geometry, PointerFormat, Ptr};
use crate::quota::QuotaUse;
use crate::{Attr, Ino, Timestamp, mode};

/// Flag: the pointer area holds the data itself.
pub const INLINE: u16 = 1;
/// Flag: a hidden file (an index or extended attributes), which is in no directory.
pub const HIDDEN: u16 = 2;
/// Flag: a truncation is under way, so there may be blocks beyond the end of the file.
pub const TRUNCATING: u16 = 4;
/// Flag: a repair gave up parts of the file. A block without a place may be one of these, so reading
/// it is an error and not zeros. Overwriting a block whole makes it good again; a file without
/// content loses the flag.
pub const DAMAGED: u16 = 8;

/// The version of a wide inode, and that of one that counts for a quota: a program that does not
/// know quotas must not change what is counted.
const VERSION: u16 = 1;
const VERSION_WITH_QUOTA: u16 = 2;

/// The offset of the pointers in a wide inode, in bytes.
const WIDE_POINTERS: usize = 128;
/// The offset of the extended attributes in a wide inode, in bytes.
const WIDE_XATTRS: usize = 384;
/// The most bytes of extended attributes that an inode can store.
pub const XATTR_INLINE_MAX: usize = 128;

/// The record of an inode, without its place on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dinode {
    pub ino: Ino,
    /// The generation of the number.
    pub generation: u32,
    /// Type and permission bits; type 0 for a hidden file.
    pub mode: u32,
    pub nlink: u32,
    /// The user id of the owner.
    pub uid: u32,
    pub gid: u32,
    /// A combination of [`INLINE`], [`HIDDEN`], [`TRUNCATING`] and [`DAMAGED`].
    pub flags: u16,
    /// Device number of a special file.
    pub rdev: u64,
    /// The number of entries of a directory without `.` and `..` (wide only).
    pub entries: u64,
    /// The [quota](crate::quota) that it counts for; 0 for none (wide only, and no device has one).
    pub quota: u32,
    pub size: u64,
    /// Bytes of its blocks, data and indirect, including reserved ones.
    pub allocated: u64,
    /// The time of the last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// The time of creation; only wide inodes have it.
    pub btime: Timestamp,
    /// The hidden file with a directory's index; 0 for none (wide only).
    pub index_ino: Ino,
    /// The hidden file with extended attributes that do not fit; 0 for none (wide only).
    pub xattr_ino: Ino,
    /// The pointers: the direct ones, then one for each level. All are holes if [`INLINE`] is set.
    pub ptrs: Vec<Ptr>,
    /// If [`INLINE`] is set, the data of the file or the target of the symbolic link.
    pub inline: Vec<u8>,
    /// The extended attributes, if they fit the inode (wide only).
    pub xattrs: Vec<u8>,
}

impl Dinode {
    /// A new inode without data, all times `now`.
    pub fn new(
        geometry: &Geometry,
        ino: Ino,
        generation: u32,
        mode: u32,
        now: Timestamp,
    ) -> Dinode {
        Dinode {
            ino,
            generation,
            mode,
            nlink: 0,
            uid: 0,
            gid: 0,
            flags: 0,
            rdev: 0,
            entries: 0,
            quota: 0,
            size: 0,
            allocated: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: match geometry.is_modern() {
                false => Timestamp::default(),
                true => now,
            },
            index_ino: 0,
            xattr_ino: 0,
            ptrs: vec![Ptr::HOLE; geometry.inode_pointers()],
            inline: Vec::new(),
            xattrs: Vec::new(),
        }
    }

    /// The attributes that clients see, as far as they are in the record: without an ACL.
    pub fn attr(&self) -> Attr {
        Attr {
            ino: self.ino,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.size,
            blocks: self.allocated.div_ceil(512),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            acl: AccessAcl::default(),
        }
    }

    /// Stores the attributes that the rules of [`perm`](crate::perm) compute: mode, owners, times.
    pub(crate) fn set_attributes(&mut self, attr: &Attr) {
        (self.mode, self.uid, self.gid) = (attr.mode, attr.uid, attr.gid);
        (self.atime, self.mtime, self.ctime) = (attr.atime, attr.mtime, attr.ctime);
    }

    /// Updates the count of space for a block that took `old` bytes and takes `new` ones now. On a
    /// damaged volume the count may be wrong; then it saturates and stays wrong.
    pub(crate) fn count_space(&mut self, old: u64, new: u64) {
        self.allocated = self.allocated.saturating_add(new).saturating_sub(old);
    }

    /// What it adds to the use of a quota.
    pub fn quota_use(&self) -> QuotaUse {
        QuotaUse { bytes: self.allocated, files: u64::from(self.flags & HIDDEN == 0) }
    }

    /// Type bits of the mode.
    pub fn kind(&self) -> u32 {
        self.mode & mode::TYPE
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == mode::DIRECTORY
    }

    /// True if a repair gave up parts of the file: see [`DAMAGED`].
    pub fn is_damaged(&self) -> bool {
        self.flags & DAMAGED != 0
    }

    /// True if the data is stored in the inode.
    pub fn is_inline(&self) -> bool {
        self.flags & INLINE != 0
    }

    /// Writes the inode into `raw`, of the geometry's inode size.
    pub fn encode(&self, geometry: &Geometry, raw: &mut [u8]) {
        raw.fill(0);
        match geometry.is_modern() {
            false => self.encode_narrow(geometry, raw),
            true => self.encode_wide(geometry, raw),
        }
    }

    fn encode_wide(&self, geometry: &Geometry, raw: &mut [u8]) {
        let mut w = FieldWriter { raw: &mut *raw, at: 4 };
        w.u16(if self.quota == 0 { VERSION } else { VERSION_WITH_QUOTA });
        w.u16(self.flags);
        w.u64(self.ino);
        for n in [self.generation, self.mode, self.nlink, self.uid, self.gid] {
            w.u32(n);
        }
        w.u16(self.inline.len() as u16);
        w.u16(self.xattrs.len() as u16);
        w.u64(self.size);
        w.u64(self.allocated);
        // The two share a field: only a directory counts entries, only a device has a number. A
        // quota takes the upper half of it, which no directory fills, and no device has one.
        let number = if self.is_dir() { self.entries } else { self.rdev };
        w.u64(match self.quota {
            0 => number,
            quota => u64::from(quota) << 32 | number & u64::from(u32::MAX),
        });
        let times = [self.atime, self.mtime, self.ctime, self.btime];
        for time in times {
            w.u64(time.secs as u64);
        }
        for time in times {
            w.u32(time.nanos);
        }
        w.u64(self.index_ino);
        w.u64(self.xattr_ino);
        debug_assert_eq!(w.at, WIDE_POINTERS);
        if self.is_inline() {
            raw[WIDE_POINTERS..WIDE_POINTERS + self.inline.len()].copy_from_slice(&self.inline);
        } else {
            self.encode_ptrs(geometry, &mut raw[WIDE_POINTERS..WIDE_XATTRS]);
        }
        raw[WIDE_XATTRS..WIDE_XATTRS + self.xattrs.len()].copy_from_slice(&self.xattrs);
        let crc = crc32c(&raw[4..]);
        raw[..4].copy_from_slice(&crc.to_le_bytes());
    }

    fn encode_narrow(&self, geometry: &Geometry, raw: &mut [u8]) {
        let mut w = FieldWriter { raw: &mut *raw, at: 0 };
        w.u16(self.mode as u16);
        w.u16(self.nlink as u16);
        w.u32(self.ino as u32);
        w.u64(self.size);
        for time in [self.atime, self.mtime, self.ctime] {
            w.u32(time.secs as u32);
            w.u32(time.nanos);
        }
        let pointers = w.at;
        if self.is_inline() {
            w.raw[pointers..pointers + self.inline.len()].copy_from_slice(&self.inline);
        } else if matches!(self.kind(), mode::CHAR | mode::BLOCK) {
            // 4.4BSD keeps the device number in the first pointer.
            w.raw[pointers..pointers + 8].copy_from_slice(&self.rdev.to_le_bytes());
        } else {
            self.encode_ptrs(geometry, &mut w.raw[pointers..pointers + 60]);
        }
        w.at = pointers + 60;
        w.u32(self.flags.into());
        w.u32((self.allocated / 512) as u32);
        w.u32(self.generation);
        w.u32(self.uid);
        w.u32(self.gid);
        w.u16(self.inline.len() as u16);
    }

    /// Changes the pointer in a slot. The call does nothing if the inode has no such slot, or has
    /// inline data in place of pointers.
    pub fn set_ptr(&mut self, slot: usize, ptr: Ptr) {
        if self.flags & INLINE == 0
            && let Some(there) = self.ptrs.get_mut(slot)
        {
            *there = ptr;
        }
    }

    fn encode_ptrs(&self, geometry: &Geometry, raw: &mut [u8]) {
        let size = geometry.pointer_format.size();
        for (ptr, raw) in self.ptrs.iter().zip(raw.chunks_exact_mut(size)) {
            geometry.encode_ptr(*ptr, raw);
        }
    }

    /// Reads an inode from `raw`, of the geometry's inode size. `frags` is the size of the volume
    /// in fragments.
    pub fn decode(geometry: &Geometry, raw: &[u8], frags: u64) -> Result<Dinode, &'static str> {
        let dinode = Self::decode_unplaced(geometry, raw, frags)?;
        for ptr in &dinode.ptrs {
            geometry.check_ptr(*ptr, frags)?;
        }
        Ok(dinode)
    }

    /// As [`decode`](Self::decode), without checking the pointers. The checker uses it, so that one
    /// wrong pointer does not cost the whole file.
    ///
    /// # Errors
    /// What is wrong with the inode, apart from its pointers.
    pub fn decode_unplaced(
        geometry: &Geometry,
        raw: &[u8],
        frags: u64,
    ) -> Result<Dinode, &'static str> {
        let dinode = match geometry.is_modern() {
            false => Self::decode_narrow(geometry, raw)?,
            true => Self::decode_wide(geometry, raw)?,
        };
        if dinode.size > geometry.max_file_size() {
            return Err("the size is larger than the format can map");
        }
        if dinode.is_inline() && dinode.size != dinode.inline.len() as u64 {
            return Err("the size is not that of the inline data");
        }
        dinode.check(geometry, frags)?;
        Ok(dinode)
    }

    /// Checks the conditions that hold for the fields of every inode. All code that works on inodes
    /// relies on them.
    fn check(&self, geometry: &Geometry, frags: u64) -> Result<(), &'static str> {
        let hidden = self.flags & HIDDEN != 0;
        let known = mode::KINDS.contains(&self.kind());
        if self.flags & !(INLINE | HIDDEN | TRUNCATING | DAMAGED) != 0 {
            return Err("the inode has unknown flags");
        }
        if hidden && self.mode != 0 {
            return Err("a hidden file has a mode");
        }
        if !hidden && (!known || self.mode & !(mode::TYPE | mode::PERMISSIONS) != 0) {
            return Err("the mode is not a possible one");
        }
        let volume = frags * u64::from(geometry.frag_size);
        if self.allocated > volume {
            return Err("the inode counts more space than the volume has");
        }
        let kind = if hidden { 0 } else { self.kind() };
        let inline_max = match kind {
            mode::REGULAR => geometry.inline_max,
            mode::SYMLINK => geometry.inline_link_max,
            _ => 0,
        };
        if self.is_inline() && (inline_max == 0 || self.size > inline_max.into()) {
            return Err("the inode has inline data that it cannot hold");
        }
        match kind {
            mode::DIRECTORY if !self.size.is_multiple_of(geometry.dir_unit() as u64) => {
                Err("the size of a directory is no multiple of its unit")
            }
            // Directories and hidden files have no holes, except indexes, and those are at least
            // half full. The limit therefore never refuses a sound one.
            mode::DIRECTORY | 0 if self.size / 4 > volume => {
                Err("a directory or hidden file is longer than the volume")
            }
            mode::SYMLINK if self.size > geometry.block_size.into() => {
                Err("a symbolic link is longer than a block")
            }
            mode::CHAR | mode::BLOCK | mode::FIFO | mode::SOCKET if self.size > 0 => {
                Err("a special file has a size")
            }
            _ => Ok(()),
        }
    }

    fn decode_wide(geometry: &Geometry, raw: &[u8]) -> Result<Dinode, &'static str> {
        let mut r = FieldReader { raw, at: 0 };
        if r.u32() != crc32c(&raw[4..]) {
            return Err("the inode's checksum does not match");
        }
        let has_quota = match r.u16() {
            VERSION => false,
            VERSION_WITH_QUOTA => true,
            _ => return Err("the inode has an unknown version"),
        };
        let flags = r.u16();
        let ino = r.u64();
        let [generation, mode, nlink, uid, gid] = std::array::from_fn(|_| r.u32());
        let (inline_len, xattr_len) = (r.u16() as usize, r.u16() as usize);
        let [size, allocated, number] = std::array::from_fn(|_| r.u64());
        let is_dir = mode & mode::TYPE == mode::DIRECTORY;
        let (quota, number) = match has_quota {
            true => ((number >> 32) as u32, number & u64::from(u32::MAX)),
            false => (0, number),
        };
        let (rdev, entries) = if is_dir { (0, number) } else { (number, 0) };
        let secs: [i64; 4] = std::array::from_fn(|_| r.u64() as i64);
        let times = secs.map(|secs| Timestamp { secs, nanos: r.u32() });
        let [atime, mtime, ctime, btime] = times;
        let (index_ino, xattr_ino) = (r.u64(), r.u64());
        if inline_len > WIDE_XATTRS - WIDE_POINTERS || xattr_len > XATTR_INLINE_MAX {
            return Err("the inode's inline data is too long");
        }
        let inline_area = &raw[WIDE_POINTERS..WIDE_XATTRS];
        let is_inline = flags & INLINE != 0;
        let mut dinode = Dinode {
            ino,
            generation,
            mode,
            nlink,
            uid,
            gid,
            flags,
            rdev,
            entries,
            quota,
            size,
            allocated,
            atime,
            mtime,
            ctime,
            btime,
            index_ino,
            xattr_ino,
            ptrs: Self::decode_ptrs(geometry, inline_area, is_inline),
            inline: if is_inline { inline_area[..inline_len].to_vec() } else { Vec::new() },
            xattrs: raw[WIDE_XATTRS..WIDE_XATTRS + xattr_len].to_vec(),
        };
        if geometry.pointer_format == PointerFormat::Long {
            dinode.find_lengths(geometry, size);
        }
        Ok(dinode)
    }

    fn decode_narrow(geometry: &Geometry, raw: &[u8]) -> Result<Dinode, &'static str> {
        let mut r = FieldReader { raw, at: 0 };
        let (mode, nlink, ino) = (u32::from(r.u16()), u32::from(r.u16()), Ino::from(r.u32()));
        let size = r.u64();
        let [atime, mtime, ctime] =
            std::array::from_fn(|_| Timestamp { secs: i64::from(r.u32() as i32), nanos: r.u32() });
        let area = &raw[r.at..r.at + 60];
        r.at += 60;
        let flags = r.u32() as u16;
        let allocated = u64::from(r.u32()) * 512;
        let (generation, uid, gid) = (r.u32(), r.u32(), r.u32());
        let inline_len = r.u16() as usize;
        if inline_len > area.len() {
            return Err("the inode's inline data is too long");
        }
        let is_inline = flags & INLINE != 0;
        let is_device = matches!(mode & mode::TYPE, mode::CHAR | mode::BLOCK);
        let device = || u64::from_le_bytes(std::array::from_fn(|i| area[i]));
        let mut dinode = Dinode::new(geometry, ino, generation, mode, ctime);
        dinode.ptrs = Self::decode_ptrs(geometry, area, is_inline || is_device);
        dinode.find_lengths(geometry, size);
        Ok(Dinode {
            nlink,
            uid,
            gid,
            flags,
            size,
            allocated,
            atime,
            mtime,
            rdev: if is_device { device() } else { 0 },
            inline: if is_inline { area[..inline_len].to_vec() } else { Vec::new() },
            ..dinode
        })
    }

    /// Sets the lengths of direct pointers from the size of the file, because narrow and long
    /// pointers do not store them.
    fn find_lengths(&mut self, geometry: &Geometry, size: u64) {
        for lbn in 0..geometry.direct {
            if self.ptrs[lbn].is_on_disk() {
                self.ptrs[lbn].len = geometry.data_len(lbn as u64, size);
            }
        }
    }

    /// Writes a free inode into `raw`. It keeps only the inode number and the last generation.
    pub fn encode_free(geometry: &Geometry, ino: Ino, generation: u32, raw: &mut [u8]) {
        let mut d = Dinode::new(geometry, ino, generation, 0, Timestamp::default());
        d.btime = Timestamp::default();
        d.encode(geometry, raw);
    }

    /// The last generation of the inode in `raw` if the inode is free, 0 if it was never used;
    /// `None` if it is in use.
    pub fn free_generation(geometry: &Geometry, raw: &[u8]) -> Option<u32> {
        let word = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        if !geometry.is_modern() {
            return (raw[0] == 0 && raw[1] == 0 && word(100) == 0).then(|| word(108));
        }
        let is_new = raw.iter().all(|&b| b == 0);
        let (flags, mode) = (u16::from_le_bytes([raw[6], raw[7]]), word(20));
        (is_new || (mode == 0 && flags == 0)).then(|| word(16))
    }

    fn decode_ptrs(geometry: &Geometry, area: &[u8], none: bool) -> Vec<Ptr> {
        if none {
            return vec![Ptr::HOLE; geometry.inode_pointers()];
        }
        let chunks = area.chunks_exact(geometry.pointer_format.size());
        chunks.take(geometry.inode_pointers()).map(|raw| geometry.decode_ptr(raw)).collect()
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Writes little-endian numbers one after the other.
pub struct FieldWriter<'a> {
    /// The bytes to write into.
    pub raw: &'a mut [u8],
    /// The offset of the next number.
    pub at: usize,
}

impl FieldWriter<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.raw[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
    /// Writes a number of two bytes.
    pub fn u16(&mut self, n: u16) {
        self.bytes(&n.to_le_bytes());
    }
    /// Writes a number of four bytes.
    pub fn u32(&mut self, n: u32) {
        self.bytes(&n.to_le_bytes());
    }
    /// Writes a number of eight bytes.
    pub fn u64(&mut self, n: u64) {
        self.bytes(&n.to_le_bytes());
    }
}

/// Reads little-endian numbers one after the other.
///
/// # Panics
/// If a number lies beyond the end of `raw`. Callers check the length of the whole first.
pub struct FieldReader<'a> {
    /// The bytes to read from.
    pub raw: &'a [u8],
    /// The offset of the next number.
    pub at: usize,
}

impl FieldReader<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let at = self.at;
        self.at += N;
        std::array::from_fn(|i| self.raw[at + i])
    }
    /// Reads a number of two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }
    /// Reads a number of four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }
    /// Reads a number of eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(geometry: &Geometry) -> Dinode {
        let now = Timestamp { secs: 1_000_000, nanos: 5 };
        let mut d = Dinode::new(geometry, 77, 3, mode::REGULAR | 0o644, now);
        (d.nlink, d.uid, d.gid) = (2, 1000, 100);
        d.size = 5000;
        d.allocated = 4096 + 1024;
        d.ptrs[0] = Ptr { addr: 99, len: 4096, crc: 0 };
        d.ptrs[1] = Ptr { addr: 103, len: 1024, crc: 0 };
        d
    }

    #[test]
    fn inodes_survive_the_disk() {
        let long = Geometry::modern_in_place(4096, 1024);
        for geometry in [Geometry::classic(4096, 1024), Geometry::modern(4096, 1024), long] {
            let d = sample(&geometry);
            let mut raw = vec![0; geometry.inode_size as usize];
            d.encode(&geometry, &mut raw);
            assert_eq!(Dinode::decode(&geometry, &raw, 1000), Ok(d));
        }
    }

    #[test]
    fn inline_data_survives_the_disk() {
        let geometry = Geometry::modern(4096, 512);
        let mut d = sample(&geometry);
        d.ptrs = vec![Ptr::HOLE; 16];
        d.flags = INLINE;
        d.inline = vec![7; 256];
        d.size = 256;
        d.xattrs = vec![1, 2, 3];
        let mut raw = vec![0; 512];
        d.encode(&geometry, &mut raw);
        assert_eq!(Dinode::decode(&geometry, &raw, 1000), Ok(d));
    }

    #[test]
    fn a_free_inode_keeps_the_number_of_its_life() {
        for geometry in [Geometry::classic(4096, 1024), Geometry::modern_in_place(4096, 1024)] {
            let mut raw = vec![0; geometry.inode_size as usize];
            assert_eq!(Dinode::free_generation(&geometry, &raw), Some(0));
            Dinode::encode_free(&geometry, 5, 9, &mut raw);
            assert_eq!(Dinode::free_generation(&geometry, &raw), Some(9));
            sample(&geometry).encode(&geometry, &mut raw);
            assert_eq!(Dinode::free_generation(&geometry, &raw), None);
        }
    }

    #[test]
    fn a_pointer_out_of_the_volume_is_refused() {
        let geometry = Geometry::classic(4096, 1024);
        let mut raw = vec![0; 128];
        sample(&geometry).encode(&geometry, &mut raw);
        assert!(Dinode::decode(&geometry, &raw, 100).is_err());
    }

    #[test]
    fn no_mutation_of_a_wide_inode_passes_its_checksum() {
        let geometry = Geometry::modern(4096, 512);
        let mut raw = vec![0; 512];
        sample(&geometry).encode(&geometry, &mut raw);
        for bit in 0..512 * 8 {
            raw[bit / 8] ^= 1 << (bit % 8);
            assert!(Dinode::decode(&geometry, &raw, 1000).is_err(), "bit {bit}");
            raw[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = twin_rt::Rng::new(1);
        for geometry in [Geometry::classic(4096, 1024), Geometry::modern(4096, 512)] {
            let mut raw = vec![0; geometry.inode_size as usize];
            for _ in 0..10_000 {
                raw.fill_with(|| rng.next_u64() as u8);
                let crc = crc32c(&raw[4..]).to_le_bytes();
                if geometry.is_modern() {
                    raw[..4].copy_from_slice(&crc);
                }
                let _ = Dinode::decode(&geometry, &raw, 1000);
            }
        }
    }
}

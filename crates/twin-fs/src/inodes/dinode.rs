//! Inodes as they are on disk, and their form in memory.
//!
//! Contract: [`Dinode::encode`] and [`Dinode::decode`] are inverse for what a profile can hold.
//! The narrow form is 4.4BSD's 128 bytes; the wide one has 512 and a checksum over itself and its
//! number. The byte-level description is `docs/ondisk-lfs.md`, section "Inodes".

use crate::shape::{PointerFormat, Ptr, Shape};
use crate::{Attr, Ino, Timestamp, mode};

/// Flag: the pointer area holds the data itself.
pub const INLINE: u16 = 1;
/// Flag: a hidden file of the file system (an index, attributes), in no directory.
pub const HIDDEN: u16 = 2;
/// Flag: blocks past the end may remain from an interrupted truncation.
pub const TRUNCATING: u16 = 4;

/// Where the pointers start in a wide inode.
const WIDE_POINTERS: usize = 128;
/// Where extended attributes start in a wide inode.
const WIDE_XATTRS: usize = 384;
/// The most extended attributes that an inode holds, in bytes.
pub const XATTR_INLINE_MAX: usize = 128;

/// An inode without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dinode {
    /// Its number.
    pub ino: Ino,
    /// Tells two lives of the number apart.
    pub generation: u32,
    /// Type and permission bits; type 0 for a hidden file.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// [`INLINE`], [`HIDDEN`], [`TRUNCATING`].
    pub flags: u16,
    /// Device number of a special file.
    pub rdev: u64,
    /// Entries of a directory but for the dots, where inodes count them.
    pub entries: u64,
    /// Length in bytes.
    pub size: u64,
    /// Bytes of blocks, data and indirect, written or promised.
    pub allocated: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Birth (wide only).
    pub btime: Timestamp,
    /// The hidden file with a directory's index; 0 for none (wide only).
    pub index_ino: Ino,
    /// The hidden file with extended attributes that do not fit; 0 for none (wide only).
    pub xattr_ino: Ino,
    /// Pointers: direct ones, then one for each level. Holes if [`INLINE`].
    pub ptrs: Vec<Ptr>,
    /// The data itself if [`INLINE`], or a short symbolic link's target.
    pub inline: Vec<u8>,
    /// Extended attributes that fit (wide only).
    pub xattrs: Vec<u8>,
}

impl Dinode {
    /// A new inode without data, all times `now`.
    pub fn new(shape: &Shape, ino: Ino, generation: u32, mode: u32, now: Timestamp) -> Dinode {
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
            size: 0,
            allocated: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: match shape.pointer {
                PointerFormat::Narrow => Timestamp::default(),
                PointerFormat::Long | PointerFormat::Wide => now,
            },
            index_ino: 0,
            xattr_ino: 0,
            ptrs: vec![Ptr::HOLE; shape.inode_pointers()],
            inline: Vec::new(),
            xattrs: Vec::new(),
        }
    }

    /// The attributes that clients see. `inode_size` counts as used if data is inline.
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
        }
    }

    /// Takes over the attributes that rules decide on: mode, owners, times.
    pub(crate) fn set_attributes(&mut self, attr: &Attr) {
        (self.mode, self.uid, self.gid) = (attr.mode, attr.uid, attr.gid);
        (self.atime, self.mtime, self.ctime) = (attr.atime, attr.mtime, attr.ctime);
    }

    /// Counts a block that took `old` bytes and takes `new`. On a damaged volume the count may be
    /// wrong; it stays so then.
    pub(crate) fn count_space(&mut self, old: u64, new: u64) {
        self.allocated = self.allocated.saturating_add(new).saturating_sub(old);
    }

    /// Type bits of the mode.
    pub fn kind(&self) -> u32 {
        self.mode & mode::TYPE
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == mode::DIRECTORY
    }

    /// True if the data lies in the inode.
    pub fn is_inline(&self) -> bool {
        self.flags & INLINE != 0
    }

    /// Writes the inode into `raw`, of the shape's inode size.
    pub fn encode(&self, shape: &Shape, raw: &mut [u8]) {
        raw.fill(0);
        match shape.pointer {
            PointerFormat::Narrow => self.encode_narrow(shape, raw),
            PointerFormat::Long | PointerFormat::Wide => self.encode_wide(shape, raw),
        }
    }

    fn encode_wide(&self, shape: &Shape, raw: &mut [u8]) {
        let mut w = Put { raw: &mut *raw, at: 4 };
        w.u16(1);
        w.u16(self.flags);
        w.u64(self.ino);
        for n in [self.generation, self.mode, self.nlink, self.uid, self.gid] {
            w.u32(n);
        }
        w.u16(self.inline.len() as u16);
        w.u16(self.xattrs.len() as u16);
        w.u64(self.size);
        w.u64(self.allocated);
        // One field: a directory has entries, a device its number.
        w.u64(if self.is_dir() { self.entries } else { self.rdev });
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
            self.encode_ptrs(shape, &mut raw[WIDE_POINTERS..WIDE_XATTRS]);
        }
        raw[WIDE_XATTRS..WIDE_XATTRS + self.xattrs.len()].copy_from_slice(&self.xattrs);
        let crc = crc32c(&raw[4..]);
        raw[..4].copy_from_slice(&crc.to_le_bytes());
    }

    fn encode_narrow(&self, shape: &Shape, raw: &mut [u8]) {
        let mut w = Put { raw: &mut *raw, at: 0 };
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
            self.encode_ptrs(shape, &mut w.raw[pointers..pointers + 60]);
        }
        w.at = pointers + 60;
        w.u32(self.flags.into());
        w.u32((self.allocated / 512) as u32);
        w.u32(self.generation);
        w.u32(self.uid);
        w.u32(self.gid);
        w.u16(self.inline.len() as u16);
    }

    /// Changes the pointer in a slot. Slots that the inode does not have are passed over, all of
    /// them if it has data in their place.
    pub fn set_ptr(&mut self, slot: usize, ptr: Ptr) {
        if self.flags & INLINE == 0
            && let Some(there) = self.ptrs.get_mut(slot)
        {
            *there = ptr;
        }
    }

    fn encode_ptrs(&self, shape: &Shape, raw: &mut [u8]) {
        let size = shape.pointer.size();
        for (ptr, raw) in self.ptrs.iter().zip(raw.chunks_exact_mut(size)) {
            shape.encode_ptr(*ptr, raw);
        }
    }

    /// Reads an inode from `raw`, of the shape's inode size. `frags` is the size of the volume.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(shape: &Shape, raw: &[u8], frags: u64) -> Result<Dinode, &'static str> {
        let dinode = match shape.pointer {
            PointerFormat::Narrow => Self::decode_narrow(shape, raw)?,
            PointerFormat::Long | PointerFormat::Wide => Self::decode_wide(shape, raw)?,
        };
        if dinode.size > shape.max_file_size() {
            return Err("the size is past what the format can map");
        }
        if dinode.is_inline() && dinode.size != dinode.inline.len() as u64 {
            return Err("the size is not that of the inline data");
        }
        dinode.check(shape, frags)?;
        for ptr in &dinode.ptrs {
            shape.check_ptr(*ptr, frags)?;
        }
        Ok(dinode)
    }

    /// What the fields of every inode have in common, whatever it holds: code that works on an
    /// inode takes this for granted.
    fn check(&self, shape: &Shape, frags: u64) -> Result<(), &'static str> {
        let hidden = self.flags & HIDDEN != 0;
        let known = mode::KINDS.contains(&self.kind());
        if self.flags & !(INLINE | HIDDEN | TRUNCATING) != 0 {
            return Err("the inode has unknown flags");
        }
        if hidden && self.mode != 0 {
            return Err("a hidden file has a mode");
        }
        if !hidden && (!known || self.mode & !(mode::TYPE | mode::PERMISSIONS) != 0) {
            return Err("the mode is none that there is");
        }
        let volume = frags * u64::from(shape.frag_size);
        if self.allocated > volume {
            return Err("the inode counts more space than the volume has");
        }
        let kind = if hidden { 0 } else { self.kind() };
        let inline_max = match kind {
            mode::REGULAR => shape.inline_max,
            mode::SYMLINK => shape.inline_link_max,
            _ => 0,
        };
        if self.is_inline() && (inline_max == 0 || self.size > inline_max.into()) {
            return Err("the inode has no room for data inside");
        }
        match kind {
            mode::DIRECTORY if !self.size.is_multiple_of(shape.dir_unit() as u64) => {
                Err("the size of a directory is no multiple of its unit")
            }
            // Neither is sparse but for an index, and that is at least half full.
            mode::DIRECTORY | 0 if self.size / 4 > volume => {
                Err("a directory or hidden file is longer than the volume")
            }
            mode::SYMLINK if self.size > shape.block_size.into() => {
                Err("a symbolic link is longer than a block")
            }
            mode::CHAR | mode::BLOCK | mode::FIFO | mode::SOCKET if self.size > 0 => {
                Err("a special file has a size")
            }
            _ => Ok(()),
        }
    }

    fn decode_wide(shape: &Shape, raw: &[u8]) -> Result<Dinode, &'static str> {
        let mut r = Get { raw, at: 0 };
        if r.u32() != crc32c(&raw[4..]) {
            return Err("the inode's checksum does not match");
        }
        if r.u16() != 1 {
            return Err("the inode has an unknown version");
        }
        let flags = r.u16();
        let ino = r.u64();
        let [generation, mode, nlink, uid, gid] = std::array::from_fn(|_| r.u32());
        let (inline_len, xattr_len) = (r.u16() as usize, r.u16() as usize);
        let [size, allocated, number] = std::array::from_fn(|_| r.u64());
        let is_dir = mode & mode::TYPE == mode::DIRECTORY;
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
            size,
            allocated,
            atime,
            mtime,
            ctime,
            btime,
            index_ino,
            xattr_ino,
            ptrs: Self::decode_ptrs(shape, inline_area, is_inline),
            inline: if is_inline { inline_area[..inline_len].to_vec() } else { Vec::new() },
            xattrs: raw[WIDE_XATTRS..WIDE_XATTRS + xattr_len].to_vec(),
        };
        if shape.pointer == PointerFormat::Long {
            dinode.find_lengths(shape, size);
        }
        Ok(dinode)
    }

    fn decode_narrow(shape: &Shape, raw: &[u8]) -> Result<Dinode, &'static str> {
        let mut r = Get { raw, at: 0 };
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
        let mut dinode = Dinode::new(shape, ino, generation, mode, ctime);
        dinode.ptrs = Self::decode_ptrs(shape, area, is_inline || is_device);
        dinode.find_lengths(shape, size);
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

    /// A narrow or long pointer has no length: that of the last block follows from the size.
    fn find_lengths(&mut self, shape: &Shape, size: u64) {
        for lbn in 0..shape.direct {
            if self.ptrs[lbn].is_on_disk() {
                self.ptrs[lbn].len = shape.data_len(lbn as u64, size);
            }
        }
    }

    /// Writes a free inode into `raw`: nothing but the number of its last life.
    pub fn encode_free(shape: &Shape, ino: Ino, generation: u32, raw: &mut [u8]) {
        let mut d = Dinode::new(shape, ino, generation, 0, Timestamp::default());
        d.btime = Timestamp::default();
        d.encode(shape, raw);
    }

    /// The number of the last life of the inode in `raw` if it is free; 0 if it never lived.
    pub fn free_generation(shape: &Shape, raw: &[u8]) -> Option<u32> {
        let word = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        if !shape.pointer.is_modern() {
            return (raw[0] == 0 && raw[1] == 0 && word(100) == 0).then(|| word(108));
        }
        let is_new = raw.iter().all(|&b| b == 0);
        let (flags, mode) = (u16::from_le_bytes([raw[6], raw[7]]), word(20));
        (is_new || (mode == 0 && flags == 0)).then(|| word(16))
    }

    fn decode_ptrs(shape: &Shape, area: &[u8], none: bool) -> Vec<Ptr> {
        if none {
            return vec![Ptr::HOLE; shape.inode_pointers()];
        }
        let chunks = area.chunks_exact(shape.pointer.size());
        chunks.take(shape.inode_pointers()).map(|raw| shape.decode_ptr(raw)).collect()
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Writes little-endian numbers one after the other.
pub struct Put<'a> {
    /// Where to.
    pub raw: &'a mut [u8],
    /// The next byte.
    pub at: usize,
}

impl Put<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.raw[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
    /// Two bytes.
    pub fn u16(&mut self, n: u16) {
        self.bytes(&n.to_le_bytes());
    }
    /// Four bytes.
    pub fn u32(&mut self, n: u32) {
        self.bytes(&n.to_le_bytes());
    }
    /// Eight bytes.
    pub fn u64(&mut self, n: u64) {
        self.bytes(&n.to_le_bytes());
    }
}

/// Reads little-endian numbers one after the other.
///
/// # Panics
/// Past the end of `raw`: callers check the length of the whole first.
pub struct Get<'a> {
    /// Where from.
    pub raw: &'a [u8],
    /// The next byte.
    pub at: usize,
}

impl Get<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let at = self.at;
        self.at += N;
        std::array::from_fn(|i| self.raw[at + i])
    }
    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }
    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }
    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(shape: &Shape) -> Dinode {
        let now = Timestamp { secs: 1_000_000, nanos: 5 };
        let mut d = Dinode::new(shape, 77, 3, mode::REGULAR | 0o644, now);
        (d.nlink, d.uid, d.gid) = (2, 1000, 100);
        d.size = 5000;
        d.allocated = 4096 + 1024;
        d.ptrs[0] = Ptr { addr: 99, len: 4096, crc: 0 };
        d.ptrs[1] = Ptr { addr: 103, len: 1024, crc: 0 };
        d
    }

    #[test]
    fn inodes_survive_the_disk() {
        let long = Shape::modern_in_place(4096, 1024);
        for shape in [Shape::classic(4096, 1024), Shape::modern(4096, 1024), long] {
            let d = sample(&shape);
            let mut raw = vec![0; shape.inode_size as usize];
            d.encode(&shape, &mut raw);
            assert_eq!(Dinode::decode(&shape, &raw, 1000), Ok(d));
        }
    }

    #[test]
    fn inline_data_survives_the_disk() {
        let shape = Shape::modern(4096, 512);
        let mut d = sample(&shape);
        d.ptrs = vec![Ptr::HOLE; 16];
        d.flags = INLINE;
        d.inline = vec![7; 256];
        d.size = 256;
        d.xattrs = vec![1, 2, 3];
        let mut raw = vec![0; 512];
        d.encode(&shape, &mut raw);
        assert_eq!(Dinode::decode(&shape, &raw, 1000), Ok(d));
    }

    #[test]
    fn a_free_inode_keeps_the_number_of_its_life() {
        for shape in [Shape::classic(4096, 1024), Shape::modern_in_place(4096, 1024)] {
            let mut raw = vec![0; shape.inode_size as usize];
            assert_eq!(Dinode::free_generation(&shape, &raw), Some(0));
            Dinode::encode_free(&shape, 5, 9, &mut raw);
            assert_eq!(Dinode::free_generation(&shape, &raw), Some(9));
            sample(&shape).encode(&shape, &mut raw);
            assert_eq!(Dinode::free_generation(&shape, &raw), None);
        }
    }

    #[test]
    fn a_pointer_out_of_the_volume_is_refused() {
        let shape = Shape::classic(4096, 1024);
        let mut raw = vec![0; 128];
        sample(&shape).encode(&shape, &mut raw);
        assert!(Dinode::decode(&shape, &raw, 100).is_err());
    }

    #[test]
    fn no_mutation_of_a_wide_inode_passes_its_checksum() {
        let shape = Shape::modern(4096, 512);
        let mut raw = vec![0; 512];
        sample(&shape).encode(&shape, &mut raw);
        for bit in 0..512 * 8 {
            raw[bit / 8] ^= 1 << (bit % 8);
            assert!(Dinode::decode(&shape, &raw, 1000).is_err(), "bit {bit}");
            raw[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = twin_rt::Rng::new(1);
        for shape in [Shape::classic(4096, 1024), Shape::modern(4096, 512)] {
            let mut raw = vec![0; shape.inode_size as usize];
            for _ in 0..10_000 {
                raw.fill_with(|| rng.next_u64() as u8);
                let crc = crc32c(&raw[4..]).to_le_bytes();
                if shape.pointer.is_modern() {
                    raw[..4].copy_from_slice(&crc);
                }
                let _ = Dinode::decode(&shape, &raw, 1000);
            }
        }
    }
}

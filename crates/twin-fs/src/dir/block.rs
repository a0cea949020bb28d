//! Directory blocks: a linear list of entries, as in the fast file system.
//!
//! Contract: a directory is a sequence of bytes made of *chunks*. Entries fill a chunk without
//! gaps and never cross its end. In the classic profile, and in the modern profile of layouts that
//! write in place, a chunk is 512 bytes. A chunk lies in one sector, so a crash during a write
//! leaves each chunk either changed or unchanged (McKusick, Joy, Leffler and Fabry 1984, section
//! 3.4). In a log a modern chunk is a whole block, except for a tail that is reserved; the checksum
//! is in the pointer to the block.
//!
//! An entry never moves once it is placed. When it is removed, its space goes to the entry before
//! it; the first entry of a chunk becomes an entry without inode instead. A new entry takes the
//! spare space after another one. So the byte offset of an entry in its directory is a stable
//! cookie for readers.
//!
//! | field   | classic | modern | |
//! |---------|---------|--------|-|
//! | ino     | u32     | u64    | 0: the space is free |
//! | reclen  | u16     | u16    | bytes from here to the next entry; a multiple of 4 |
//! | kind    | u8      | u8     | type bits of the mode, shifted right by 12 |
//! | namlen  | u8      | u8     | bytes of the name |
//! | name    | namlen + 1 | namlen | classic names end in a zero byte; padded with zeros to 4 |
//!
//! Numbers are little-endian. No function panics because of the contents of a block. Their results
//! are right for blocks that [`Format::validate`] accepts, so call it once after reading a block.

use std::fmt;

pub use crate::features::DirFormat as Format;
pub use crate::geometry::DIR_CHUNK as CHUNK;
use crate::{FsError, Ino, NAME_MAX, mode};

/// The number of bytes at the end of a modern block that are always zero.
pub const TAIL: usize = 8;
/// The size in bytes of the largest modern block; lengths of entries have 16 bits.
pub const MODERN_BLOCK_MAX: usize = 65536;

/// The place of an entry, and the inode that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Byte offset in the block.
    pub offset: usize,
    /// The number of the inode that the entry leads to.
    pub ino: Ino,
    /// Type bits of its mode.
    pub kind: u32,
}

/// Where a new entry was placed, and the room that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Byte offset in the block.
    pub offset: usize,
    /// What [`Format::room`] is now.
    pub room: usize,
}

/// An entry with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Byte offset in the block.
    pub offset: usize,
    /// The number of the inode that the entry leads to.
    pub ino: Ino,
    /// Type bits of its mode.
    pub kind: u32,
    /// The name, without padding.
    pub name: &'a [u8],
    /// Byte offset of the next entry: the cookie with which reading continues.
    pub next: usize,
}

impl Item<'_> {
    fn found(&self) -> Found {
        Found { offset: self.offset, ino: self.ino, kind: self.kind }
    }

    pub(crate) fn is_dot(&self) -> bool {
        matches!(self.name, b"." | b"..")
    }
}

/// What is wrong with a directory block, and at which byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirError {
    /// Byte offset in the block.
    pub offset: usize,
    /// What contradicts the format.
    pub what: &'static str,
}

impl fmt::Display for DirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "directory block, byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for DirError {}

impl From<DirError> for FsError {
    fn from(error: DirError) -> FsError {
        FsError::inconsistent(error.to_string())
    }
}

/// The raw fields at the start of an entry.
#[derive(Clone, Copy)]
struct Head {
    ino: Ino,
    reclen: usize,
    kind: u8,
    namlen: usize,
}

impl Format {
    const fn ino_len(self) -> usize {
        match self {
            Format::Classic => 4,
            Format::Sectored | Format::Modern => 8,
        }
    }

    const fn head_len(self) -> usize {
        self.ino_len() + 4
    }

    /// The largest inode number that an entry can hold.
    pub const fn ino_max(self) -> Ino {
        match self {
            Format::Classic => u32::MAX as Ino,
            Format::Sectored | Format::Modern => Ino::MAX,
        }
    }

    /// The bytes that an entry with a name of this length takes.
    pub const fn entry_len(self, name_len: usize) -> usize {
        let terminator = match self {
            Format::Classic => 1,
            Format::Sectored | Format::Modern => 0,
        };
        (self.head_len() + name_len + terminator).next_multiple_of(4)
    }

    /// The end of the chunk that begins at `start`; `None` if the block has no chunk there.
    fn chunk_end(self, start: usize, block_len: usize) -> Option<usize> {
        let (end, limit) = match self {
            Format::Classic | Format::Sectored => (start.saturating_add(CHUNK), block_len),
            Format::Modern if start == 0 => (block_len.saturating_sub(TAIL), MODERN_BLOCK_MAX),
            Format::Modern => return None,
        };
        (end <= limit && end >= start + self.entry_len(1)).then_some(end)
    }

    /// The start of the chunk after the one that ends at `end`.
    fn chunk_after(self, end: usize) -> usize {
        match self {
            Format::Classic | Format::Sectored => end,
            Format::Modern => end + TAIL,
        }
    }

    fn chunk_start(self, offset: usize) -> usize {
        match self {
            Format::Classic | Format::Sectored => offset - offset % CHUNK,
            Format::Modern => 0,
        }
    }

    fn read_head(self, block: &[u8], offset: usize) -> Option<Head> {
        let raw = block.get(offset..offset.checked_add(self.head_len())?)?;
        // Lengths that the compiler knows: every search reads the heads of all entries.
        let ino = match self {
            Format::Classic => u64::from(u32::from_le_bytes(*raw.first_chunk()?)),
            Format::Sectored | Format::Modern => u64::from_le_bytes(*raw.first_chunk()?),
        };
        let rest = raw.last_chunk::<4>()?;
        Some(Head {
            ino,
            reclen: usize::from(u16::from_le_bytes([rest[0], rest[1]])),
            kind: rest[2],
            namlen: usize::from(rest[3]),
        })
    }

    fn write_head(self, block: &mut [u8], offset: usize, head: Head) {
        let n = self.ino_len();
        block[offset..offset + n].copy_from_slice(&head.ino.to_le_bytes()[..n]);
        let reclen = (head.reclen as u16).to_le_bytes();
        block[offset + n..offset + n + 2].copy_from_slice(&reclen);
        block[offset + n + 2] = head.kind;
        block[offset + n + 3] = head.namlen as u8;
    }

    fn write_reclen(self, block: &mut [u8], offset: usize, reclen: usize) {
        let n = self.ino_len();
        block[offset + n..offset + n + 2].copy_from_slice(&(reclen as u16).to_le_bytes());
    }

    /// The bytes of an entry that are in use; the rest of `reclen` is spare.
    fn used(self, head: Head) -> usize {
        if head.ino == 0 { 0 } else { self.entry_len(head.namlen) }
    }

    /// Iterates over all entries of a block, those without inode too. It ends at the first
    /// impossible entry.
    fn places<'a>(self, block: &'a [u8], start: usize) -> impl Iterator<Item = (usize, Head)> + 'a {
        let mut offset = start;
        let mut end = self.chunk_end(start, block.len());
        std::iter::from_fn(move || {
            let chunk_end = end?;
            let head = self.read_head(block, offset)?;
            let here = offset;
            offset += head.reclen;
            let bad = head.reclen < self.head_len()
                || head.reclen % 4 != 0
                || offset > chunk_end
                || self.used(head) > head.reclen;
            if bad {
                end = None;
                return None;
            }
            if offset == chunk_end {
                offset = self.chunk_after(chunk_end);
                end = self.chunk_end(offset, block.len());
            }
            Some((here, head))
        })
    }

    fn item<'a>(self, block: &'a [u8], offset: usize, head: Head) -> Item<'a> {
        let at = offset + self.head_len();
        Item {
            offset,
            ino: head.ino,
            kind: u32::from(head.kind) << 12,
            name: &block[at..at + head.namlen],
            next: offset + head.reclen,
        }
    }

    /// Initializes a block, or in the formats with small chunks any number of chunks, without
    /// entries.
    ///
    /// # Panics
    /// If a block of the format cannot have this length.
    pub fn init(self, block: &mut [u8]) {
        let whole = match self {
            Format::Classic | Format::Sectored => {
                !block.is_empty() && block.len().is_multiple_of(CHUNK)
            }
            Format::Modern => {
                block.len().is_multiple_of(4) && (CHUNK..=MODERN_BLOCK_MAX).contains(&block.len())
            }
        };
        assert!(whole, "a directory block of {} bytes", block.len());
        block.fill(0);
        let mut start = 0;
        while let Some(end) = self.chunk_end(start, block.len()) {
            self.write_reclen(block, start, end - start);
            start = self.chunk_after(end);
        }
    }

    /// Initializes the first block of a directory, with `.` and `..`.
    ///
    /// # Panics
    /// As for [`Format::init`], and if an inode number is zero or does not fit the format.
    pub fn init_first(self, block: &mut [u8], own: Ino, parent: Ino) {
        self.init(block);
        for (name, ino) in [(&b"."[..], own), (b"..", parent)] {
            let placed = self.insert(block, name, ino, mode::DIRECTORY);
            assert!(placed.is_some(), "an empty chunk has room for the dots");
        }
    }

    /// All entries from byte `offset` of the block on, in the order of their offsets. A stale
    /// cookie may be an offset inside an entry; then the next entry is the first.
    pub fn items(self, block: &[u8], offset: usize) -> impl Iterator<Item = Item<'_>> {
        self.places(block, self.chunk_start(offset))
            .filter(move |(at, head)| *at >= offset && head.ino != 0)
            .map(move |(at, head)| self.item(block, at, head))
    }

    /// Finds the entry of a name in a block.
    pub fn find(self, block: &[u8], name: &[u8]) -> Option<Found> {
        // This is the most frequent search of all, so it looks at no more of an entry than it has to: its lengths, and
        // the name if it is as long. Names of one directory often have a beginning in common, too; the last byte rules
        // out most of them.
        let (ino_len, head_len, last) = (self.ino_len(), self.head_len(), *name.last()?);
        let (mut offset, mut end) = (0, self.chunk_end(0, block.len())?);
        loop {
            let lengths: [u8; 4] = *block.get(offset + ino_len..)?.first_chunk()?;
            if usize::from(lengths[3]) == name.len() {
                let found = block.get(offset + head_len..)?.get(..name.len())?;
                let head = (found[name.len() - 1] == last && found == name)
                    .then(|| self.read_head(block, offset))
                    .flatten()
                    .filter(|head| head.ino != 0);
                if let Some(head) = head {
                    return Some(self.item(block, offset, head).found());
                }
            }
            let reclen = usize::from(u16::from_le_bytes([lengths[0], lengths[1]]));
            // No entry of a sound block is shorter, and the search comes to an end in any other.
            offset += (reclen >= head_len).then_some(reclen)?;
            if offset >= end {
                offset = self.chunk_after(end);
                end = self.chunk_end(offset, block.len())?;
            }
        }
    }

    /// The entry that begins at byte `offset`; `None` if none begins there.
    pub fn entry_at(self, block: &[u8], offset: usize) -> Option<Item<'_>> {
        self.items(block, offset).next().filter(|item| item.offset == offset)
    }

    /// Adds an entry and returns its place; `None` if there is no room. The caller makes sure that
    /// the directory does not have the name yet.
    ///
    /// # Panics
    /// If the name is empty or too long, or the inode number is zero or does not fit.
    pub fn insert(self, block: &mut [u8], name: &[u8], ino: Ino, kind: u32) -> Option<Placed> {
        assert!((1..=NAME_MAX).contains(&name.len()), "a name of {} bytes", name.len());
        assert!((1..=self.ino_max()).contains(&ino), "inode number {ino} in a directory");
        let need = self.entry_len(name.len());
        // One look at all entries finds the first that has enough spare space, and the most that others have.
        let (mut first, mut room) = (None, 0);
        for (at, head) in self.places(block, 0) {
            let spare = head.reclen - self.used(head);
            if first.is_none() && spare >= need {
                (first, room) = (Some((at, head)), room.max(spare - need));
            } else {
                room = room.max(spare);
            }
        }
        let (at, head) = first?;
        let used = self.used(head);
        if used > 0 {
            self.write_reclen(block, at, used);
        }
        let offset = at + used;
        block[offset..offset + need].fill(0);
        let kind = (kind >> 12) as u8;
        let entry = Head { ino, reclen: head.reclen - used, kind, namlen: name.len() };
        self.write_head(block, offset, entry);
        let at = offset + self.head_len();
        block[at..at + name.len()].copy_from_slice(name);
        Some(Placed { offset, room })
    }

    /// Removes the entry at byte `offset`. Returns the length of the largest entry that now fits where it was: the room of
    /// the block is that, or what it was before if that is more.
    ///
    /// # Errors
    /// [`DirError`] if no entry begins there.
    pub fn remove(self, block: &mut [u8], offset: usize) -> Result<usize, DirError> {
        let mut before = None;
        let mut here = None;
        for (at, head) in self.places(block, self.chunk_start(offset)) {
            if at >= offset {
                here = (at == offset && head.ino != 0).then_some(head);
                break;
            }
            before = Some((at, head));
        }
        let head = here.ok_or(no_entry(offset))?;
        block[offset..offset + self.used(head)].fill(0);
        let (at, used, reclen) = match before {
            None => (offset, 0, head.reclen),
            Some((at, first)) => (at, self.used(first), first.reclen + head.reclen),
        };
        self.write_reclen(block, at, reclen);
        Ok(reclen - used)
    }

    /// Makes the entry at byte `offset` lead to another inode.
    ///
    /// # Errors
    /// [`DirError`] if no entry begins there.
    ///
    /// # Panics
    /// If the inode number is zero or does not fit.
    pub fn set_ino(
        self,
        block: &mut [u8],
        offset: usize,
        ino: Ino,
        kind: u32,
    ) -> Result<(), DirError> {
        assert!((1..=self.ino_max()).contains(&ino), "inode number {ino} in a directory");
        let places = self.places(block, self.chunk_start(offset));
        let head = places
            .skip_while(|(at, _)| *at < offset)
            .map(|(at, head)| (at == offset && head.ino != 0).then_some(head))
            .next()
            .flatten()
            .ok_or(no_entry(offset))?;
        self.write_head(block, offset, Head { ino, kind: (kind >> 12) as u8, ..head });
        Ok(())
    }

    /// The length in bytes of the largest entry that can be added (see [`Format::entry_len`]).
    pub fn room(self, block: &[u8]) -> usize {
        // This is the most frequent search. With iterators its speed differed by a sixth from build
        // to build, so it is a loop.
        let mut most = 0;
        for (_, head) in self.places(block, 0) {
            most = most.max(head.reclen - self.used(head));
        }
        most
    }

    /// True if the block has no entry except `.` and `..`.
    pub fn is_empty(self, block: &[u8]) -> bool {
        self.items(block, 0).all(|item| item.is_dot())
    }

    /// Checks every field of a block. `first` is the directory's own inode number if this is its
    /// first block, which begins with `.` and `..`. No other entry may have these names.
    ///
    /// # Errors
    /// [`DirError`] names the first wrong byte.
    pub fn validate(self, block: &[u8], first: Option<Ino>) -> Result<(), DirError> {
        if self.chunk_end(0, block.len()).is_none() {
            return Err(DirError { offset: 0, what: "the block is too short" });
        }
        let mut start = 0;
        let mut entries = 0;
        while start < block.len() {
            let end = self.chunk_end(start, block.len());
            let end = end.ok_or(DirError { offset: start, what: "the last chunk is cut off" })?;
            let mut at = start;
            while at < end {
                let head = self.check_head(block, at, start, end)?;
                if head.ino != 0 {
                    self.check_dots(&self.item(block, at, head), first, entries)?;
                } else if first.is_some() && entries < 2 {
                    return Err(DirError { offset: at, what: "the first block lacks its dots" });
                }
                entries += 1;
                at += head.reclen;
            }
            start = self.chunk_after(end);
        }
        if first.is_some() && entries < 2 {
            return Err(DirError { offset: 0, what: "the first block lacks its .." });
        }
        Ok(())
    }

    fn check_head(
        self,
        block: &[u8],
        at: usize,
        start: usize,
        end: usize,
    ) -> Result<Head, DirError> {
        let err = |what| DirError { offset: at, what };
        if end - at < self.head_len() {
            return Err(err("an entry's head crosses the end of its chunk"));
        }
        let head = self.read_head(block, at).ok_or(err("an entry is cut off"))?;
        if head.reclen < self.head_len() || head.reclen % 4 != 0 {
            return Err(err("an entry's length is too short or no multiple of 4"));
        }
        if head.reclen > end - at {
            return Err(err("an entry crosses the end of its chunk"));
        }
        if head.ino == 0 {
            return if at != start {
                Err(err("a free entry in the middle of its chunk"))
            } else if head.namlen != 0 || head.kind != 0 {
                Err(err("a free entry with a name or a kind"))
            } else {
                Ok(head)
            };
        }
        if head.namlen == 0 || self.entry_len(head.namlen) > head.reclen {
            return Err(err("a name is empty or longer than its entry"));
        }
        let name = self.item(block, at, head).name;
        if name.iter().any(|b| matches!(b, 0 | b'/')) {
            return Err(err("a name with a slash or a zero"));
        }
        let padding = at + self.head_len() + head.namlen..at + self.entry_len(head.namlen);
        if block[padding].iter().any(|&b| b != 0) {
            return Err(err("a name is not padded with zeros"));
        }
        if !mode::is_kind(u32::from(head.kind) << 12) {
            return Err(err("an entry of an unknown kind"));
        }
        Ok(head)
    }

    /// Checks that `.` and `..` are the first two entries of the first block and are nowhere else.
    fn check_dots(self, item: &Item<'_>, first: Option<Ino>, nth: usize) -> Result<(), DirError> {
        let err = |what| Err(DirError { offset: item.offset, what });
        let expected: Option<&[u8]> = match (first, nth) {
            (Some(_), 0) => Some(b"."),
            (Some(_), 1) => Some(b".."),
            _ => None,
        };
        match expected {
            None if item.is_dot() => err("a . or .. out of its place"),
            Some(name) if item.name != name => err("the first block does not begin with . and .."),
            Some(_) if item.kind != mode::DIRECTORY => err("a . or .. that is no directory"),
            Some(b".") if Some(item.ino) != first => err("a . that leads elsewhere"),
            _ => Ok(()),
        }
    }
}

fn no_entry(offset: usize) -> DirError {
    DirError { offset, what: "no entry begins here" }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;

//! What the files of a layout can do, as a value: the layout gives it when a volume is opened.
//!
//! Contract: code above the layouts asks here what is possible, never the format of records. An operation that
//! the layout has no room for in its format ends with [`FsError::NotSupported`], which names what is
//! missing, before anything was changed.

use crate::shape::{PointerFormat, Shape};
use crate::{FsError, Result, Timestamp};

/// The most names that an inode may have in today's formats; of a directory, the most
/// subdirectories and two.
pub const LINK_MAX: u32 = 65_000;

/// How the entries of directories are laid out; what that means is in
/// [`dir::block`](crate::dir::block).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirFormat {
    /// 4.4BSD's: 32-bit inode numbers, chunks of 512 bytes. Works on any number of chunks.
    Classic,
    /// 64-bit inode numbers, chunks of 512 bytes: for blocks that are overwritten in place, where
    /// a crash may leave some sectors old and others new. Works on any number of chunks.
    Sectored,
    /// 64-bit inode numbers, a chunk a block. Works on one whole block.
    Modern,
}

/// What a layout can do. See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Blocks are overwritten where they are: a changed block changes no pointer, unless
    /// [`Layout::place`](crate::Layout::place) gives another one. Otherwise every dirty block will
    /// move, and all that leads to it is dirty with it.
    pub in_place: bool,
    /// A pointer carries the checksum of what it points to.
    pub checksummed_pointers: bool,
    /// A file may have holes. The index of a directory has some.
    pub holes: bool,
    /// The most data of a file that its inode holds; 0 for none.
    pub inline_bytes: u32,
    /// The longest target of a symbolic link that its inode holds; 0 for none.
    pub inline_link_bytes: u32,
    /// How directories look.
    pub directories: DirFormat,
    /// A directory of more than a few blocks gets an index, in a hidden file, and its inode counts
    /// its entries.
    pub indexed_directories: bool,
    /// Inodes have extended attributes.
    pub extended_attributes: bool,
    /// Inodes keep the time of their birth.
    pub birth_time: bool,
    /// Times are kept to the nanosecond, otherwise to the second.
    pub nanoseconds: bool,
    /// The first and the last second that a time can have.
    pub seconds: (i64, i64),
    /// The most bytes of a file.
    pub file_bytes_max: u64,
    /// The most names of an inode; of a directory, its subdirectories and two.
    pub link_max: u32,
}

impl Features {
    /// What the records of such files have room for, with blocks that move when they are written.
    /// A layout changes what it does otherwise.
    pub fn of(shape: &Shape) -> Features {
        let modern = shape.pointer.is_modern();
        Features {
            in_place: false,
            checksummed_pointers: shape.pointer.has_checksum(),
            holes: true,
            inline_bytes: shape.inline_max,
            inline_link_bytes: shape.inline_link_max,
            directories: match shape.pointer {
                PointerFormat::Narrow => DirFormat::Classic,
                PointerFormat::Long => DirFormat::Sectored,
                PointerFormat::Wide => DirFormat::Modern,
            },
            indexed_directories: modern,
            extended_attributes: modern,
            birth_time: modern,
            nanoseconds: true,
            seconds: match modern {
                true => (i64::MIN, i64::MAX),
                false => (i32::MIN.into(), i32::MAX.into()),
            },
            file_bytes_max: shape.max_file_size(),
            link_max: if modern { LINK_MAX } else { 32_767 },
        }
    }

    /// The nearest time that an inode can have.
    pub fn nearest_time(&self, time: Timestamp) -> Timestamp {
        Timestamp {
            secs: time.secs.clamp(self.seconds.0, self.seconds.1),
            nanos: if self.nanoseconds { time.nanos } else { 0 },
        }
    }

    /// An error if inodes have no extended attributes.
    pub(crate) fn need_attributes(&self) -> Result<()> {
        match self.extended_attributes {
            true => Ok(()),
            false => Err(FsError::NotSupported("this layout has no extended attributes")),
        }
    }

    /// An error if files have no holes and this change would make one.
    pub(crate) fn need_holes(&self, makes_one: bool) -> Result<()> {
        match self.holes || !makes_one {
            true => Ok(()),
            false => Err(FsError::NotSupported("files of this layout have no holes")),
        }
    }
}

//! What the files of a layout can do, as a value that the layout provides when a volume is opened.
//!
//! Contract: code above the layouts asks here what is possible and never looks at the format of
//! records. An operation that the layout's format cannot express fails with
//! [`FsError::NotSupported`], which names what is missing, before anything has changed.

use crate::geometry::{Geometry, PointerFormat};
use crate::{FsError, Result, Timestamp};

/// The largest link count of an inode in the modern profile. A directory's count is the number of
/// its subdirectories and two.
pub const LINK_MAX: u32 = 65_000;

/// The format of the entries of directories, which [`dir::block`](crate::dir::block) describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirFormat {
    /// 4.4BSD's format: 32-bit inode numbers, chunks of 512 bytes. A block may have any number of
    /// chunks.
    Classic,
    /// 64-bit inode numbers, chunks of 512 bytes: for blocks that are overwritten in place, where
    /// a crash may leave some sectors old and others new. A block may have any number of chunks.
    Sectored,
    /// 64-bit inode numbers; each block is one chunk.
    Modern,
}

/// The features of a layout. See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Blocks are overwritten where they are: a changed block changes no pointer, unless
    /// [`Layout::place`](crate::Layout::place) returns another one. In other layouts every dirty
    /// block will move, so the blocks and the inode that lead to it become dirty as well.
    pub in_place: bool,
    /// A pointer carries the checksum of what it points to.
    pub checksummed_pointers: bool,
    /// A file may have holes. Directory indexes need them.
    pub holes: bool,
    /// The space to reserve for a new inode; 0 if inodes have their space from the start.
    pub new_inode_bytes: u64,
    /// The most bytes of a file's data that fit the inode; 0 if inline data is not supported.
    pub inline_bytes: u32,
    /// The longest target of a symbolic link that fits the inode, in bytes; 0 for none.
    pub inline_link_bytes: u32,
    /// The format of directory entries.
    pub directories: DirFormat,
    /// A directory with more than a few blocks gets an index in a hidden file, and its inode counts
    /// its entries.
    pub indexed_directories: bool,
    /// Inodes have extended attributes.
    pub extended_attributes: bool,
    /// Inodes store the time of their creation.
    pub birth_time: bool,
    /// Times are stored in nanoseconds; otherwise in seconds.
    pub nanoseconds: bool,
    /// The first and the last second that can be stored.
    pub seconds: (i64, i64),
    /// The largest size of a file.
    pub file_bytes_max: u64,
    /// The largest link count of an inode. A directory's count is its subdirectories and two.
    pub link_max: u32,
}

impl Features {
    /// The features that the records of this geometry have room for, in a layout whose blocks move
    /// when they are written. A layout that differs overwrites single fields.
    pub fn of(geometry: &Geometry) -> Features {
        let modern = geometry.is_modern();
        Features {
            in_place: false,
            checksummed_pointers: geometry.has_checksums(),
            holes: true,
            new_inode_bytes: geometry.inode_size.into(),
            inline_bytes: geometry.inline_max,
            inline_link_bytes: geometry.inline_link_max,
            directories: match geometry.pointer_format {
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
            file_bytes_max: geometry.max_file_size(),
            link_max: if modern { LINK_MAX } else { 32_767 },
        }
    }

    /// The nearest time that an inode of this layout can store.
    pub fn nearest_time(&self, time: Timestamp) -> Timestamp {
        Timestamp {
            secs: time.secs.clamp(self.seconds.0, self.seconds.1),
            nanos: if self.nanoseconds { time.nanos } else { 0 },
        }
    }

    /// True if a client may collect writes and keep the times of files meanwhile, as the kernel above a
    /// mount does: whatever it accepts on its own account can be stored later, apart from room and a file
    /// beyond the largest. Otherwise each write and each time has to be asked for, so that the client sees
    /// what is refused, and what is stored in place of what it asked for.
    pub fn lets_clients_collect(&self) -> bool {
        self.holes && self.nanoseconds && self.seconds == (i64::MIN, i64::MAX)
    }

    /// Fails if inodes have no extended attributes.
    pub(crate) fn need_attributes(&self) -> Result<()> {
        match self.extended_attributes {
            true => Ok(()),
            false => Err(FsError::NotSupported("this layout has no extended attributes")),
        }
    }

    /// Fails if files have no holes and this change would make one.
    pub(crate) fn need_holes(&self, makes_one: bool) -> Result<()> {
        match self.holes || !makes_one {
            true => Ok(()),
            false => Err(FsError::NotSupported("files of this layout have no holes")),
        }
    }
}

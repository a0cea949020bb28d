//! The items of a log write, before any has a place.

use std::rc::Rc;

use twin_cache::Frame;
use twin_fs::{Ino, Inode};

use crate::format::HolderVersion;

/// An inode that moves unchanged: its bytes as they are on disk, and its map block.
pub(crate) struct RawInode {
    pub(crate) ino: Ino,
    pub(crate) raw: Vec<u8>,
    pub(crate) anchor: Rc<Frame>,
}

/// A part of a log write.
pub(crate) enum LogItem {
    /// `holder`: the cleaner moves the block and leaves what points to it in this form. `crc`: its
    /// checksum, if it is known since the block moves unchanged; to make it anew would cost time,
    /// and hide damage.
    Block {
        inode: Rc<Inode>,
        frame: Rc<Frame>,
        len: u32,
        holder: Option<HolderVersion>,
        crc: Option<u32>,
    },
    Inodes(Vec<Rc<Inode>>),
    RawInodes(Vec<RawInode>),
    Freed {
        ino: Ino,
        generation: u32,
    },
}

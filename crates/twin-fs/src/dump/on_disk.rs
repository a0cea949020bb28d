//! What a layout says of a volume as it lies on a device.

use twin_cache::Lbn;
use twin_disk::Bytes;
use twin_rt::BoxFuture;

use super::Fields;
use crate::dinode::Dinode;
use crate::shape::{Ptr, Shape};
use crate::{Features, Ino, Result};

/// A volume as it lies on a device, read past its own code.
pub trait OnDisk {
    /// The sizes of its files.
    fn shape(&self) -> &Shape;

    /// What its files can do.
    fn features(&self) -> &Features;

    /// Fragments of the volume.
    fn frags(&self) -> u64;

    /// What the device is divided in: "segment", "group".
    fn region(&self) -> &'static str;

    /// Which of these a byte lies in.
    fn region_of(&self, at: u64) -> Option<u64>;

    /// Inode numbers below this one may be in use.
    fn numbers(&self) -> Ino;

    /// What the layout's maps say of an inode number: a headline and fields. None if the inode is not
    /// in them.
    fn map_entry(&self, ino: Ino) -> BoxFuture<'_, Result<Option<(&'static str, Fields)>>>;

    /// An inode in use, and the byte where it lies, if it lies by itself.
    fn inode(&self, ino: Ino) -> BoxFuture<'_, Result<(Option<u64>, Dinode)>>;

    /// The inodes in use from a number on, as many as are found together, and the number to go on
    /// with. An error is about all numbers up to that.
    fn inodes_from(&self, first: Ino) -> BoxFuture<'_, (Ino, Result<Vec<InUse>>)>;

    /// What is wrong with a pointer.
    ///
    /// # Errors
    /// In words.
    fn check_ptr(&self, ptr: Ptr) -> std::result::Result<(), &'static str>;

    /// The content of a block: as many bytes as its pointer says.
    fn block(&self, ino: Ino, lbn: Lbn, ptr: Ptr) -> BoxFuture<'_, Result<Bytes>>;

    /// The content of an indirect block, whole.
    fn indirect(&self, ino: Ino, lbn: Lbn, ptr: Ptr) -> BoxFuture<'_, Result<Bytes>> {
        self.block(ino, lbn, ptr)
    }

    /// The content of a block is not what its pointer leads to: recovery has it in memory.
    fn is_in_memory(&self, _ino: Ino, _lbn: Lbn) -> bool {
        false
    }
}

/// An inode number in use.
#[derive(Debug)]
pub struct InUse {
    /// The number.
    pub ino: Ino,
    /// Its life's number, as far as the maps say.
    pub generation: Option<u32>,
    /// What the maps say beside that, in a word or nothing.
    pub mark: &'static str,
    /// The inode, and the byte where it lies.
    pub read: Result<(u64, Dinode)>,
}

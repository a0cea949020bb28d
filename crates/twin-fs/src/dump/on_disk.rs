//! The interface through which a dump reads a volume of any layout.

use std::ops::Range;

use twin_cache::Lbn;
use twin_disk::Bytes;
use twin_rt::BoxFuture;

use super::Fields;
use crate::dinode::Dinode;
use crate::geometry::{Geometry, Ptr};
use crate::{Features, Ino, Result};

/// A volume on a device, read without the code that runs it.
pub trait OnDisk {
    /// The geometry of its files.
    fn geometry(&self) -> &Geometry;

    /// The features of its files.
    fn features(&self) -> &Features;

    /// The size of the volume in fragments.
    fn frags(&self) -> u64;

    /// The layout's word for the parts of the device: "segment", "group".
    fn region(&self) -> &'static str;

    /// The number of the region that a byte lies in; `None` if it lies in none.
    fn region_of(&self, at: u64) -> Option<u64>;

    /// The parts of the device within which space is given to files, in ascending order, as ranges
    /// of bytes: groups, segments, or one range for all.
    fn areas(&self) -> Vec<Range<u64>>;

    /// The free ranges of bytes in the areas from number `first` on, in ascending order, in as many
    /// areas as the layout reads at a time, and the number of the area to continue with. Free is
    /// what may be written without moving anything; dead blocks in a segment of a log are not. An
    /// error concerns all areas from `first` up to that one.
    fn free_from(&self, first: usize) -> BoxFuture<'_, (usize, Result<Vec<Range<u64>>>)>;

    /// Inode numbers below this one may be in use.
    fn numbers(&self) -> Ino;

    /// The entry of an inode number in the layout's maps: a headline and fields. `None` if the
    /// layout has no entry for it.
    fn map_entry(&self, ino: Ino) -> BoxFuture<'_, Result<Option<(&'static str, Fields)>>>;

    /// An inode in use, and its byte offset on the device if it has a place of its own.
    fn inode(&self, ino: Ino) -> BoxFuture<'_, Result<(Option<u64>, Dinode)>>;

    /// The inodes in use from the number `first` on, as many as the layout reads at a time, and
    /// the number to continue with. An error concerns all numbers from `first` up to that one.
    fn inodes_from(&self, first: Ino) -> BoxFuture<'_, (Ino, Result<Vec<InUse>>)>;

    /// Checks a pointer.
    ///
    /// # Errors
    /// What is wrong with the pointer, for display.
    fn check_ptr(&self, ptr: Ptr) -> std::result::Result<(), &'static str>;

    /// The content of a block, of the length in its pointer.
    fn block(&self, ino: Ino, lbn: Lbn, ptr: Ptr) -> BoxFuture<'_, Result<Bytes>>;

    /// The content of an indirect block, in the length of a whole block. A layout that knows newer
    /// pointers puts them in place of the stored ones.
    fn indirect(&self, ino: Ino, lbn: Lbn, ptr: Ptr) -> BoxFuture<'_, Result<Bytes>> {
        self.block(ino, lbn, ptr)
    }

    /// True if recovery has the content of a block in memory, so that its pointer is not to be
    /// followed.
    fn is_in_memory(&self, _ino: Ino, _lbn: Lbn) -> bool {
        false
    }
}

/// An inode number in use.
#[derive(Debug)]
pub struct InUse {
    /// The number of the inode.
    pub ino: Ino,
    /// The generation, if the maps contain it.
    pub generation: Option<u32>,
    /// A further remark of the maps in one word, or an empty text.
    pub mark: &'static str,
    /// The inode, and its byte offset on the device.
    pub read: Result<(u64, Dinode)>,
}

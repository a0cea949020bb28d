//! A volume as it lies on its device, read past the code that runs it: for the check and the dump.
//!
//! Contract: changes stay in memory until [`Disk::write`]. What was changed is read back as it is now, so a check
//! that writes nothing is a repair that is thrown away.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin};
use twin_fs::Result;
use twin_fs::dinode::Dinode;
use twin_fs::shape::{Parent, Ptr, Shape};

use crate::format::{Superblock, read};

/// See the module.
pub(crate) struct Disk {
    pub(crate) sb: Superblock,
    pub(crate) shape: Shape,
    device: Rc<dyn BlockDevice>,
    changed: BTreeMap<u64, Vec<u8>>,
}

impl Disk {
    pub(crate) fn new(device: Rc<dyn BlockDevice>, sb: Superblock) -> Disk {
        Disk { shape: sb.shape(), sb, device, changed: BTreeMap::new() }
    }

    /// A block's content.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) async fn block(&self, place: u64) -> Result<Vec<u8>> {
        match self.changed.get(&place) {
            Some(bytes) => Ok(bytes.clone()),
            None => read(&*self.device, self.sb.byte_of(place), self.sb.block_size.into()).await,
        }
    }

    /// Changes a block.
    pub(crate) fn put(&mut self, place: u64, bytes: Vec<u8>) {
        self.changed.insert(place, bytes);
    }

    /// Where block `lbn` of a file is; a hole if it has none.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) async fn place_of(&self, d: &Dinode, lbn: Lbn) -> Result<Ptr> {
        let mut way = Vec::new();
        let mut at = lbn;
        let mut ptr = loop {
            match self.shape.parent(at) {
                Parent::Inode(slot) => break d.ptrs[slot],
                Parent::Indirect(up, index) => {
                    way.push(index);
                    at = up;
                }
            }
        };
        while let (Some(index), true) = (way.pop(), self.sb.is_data(ptr.addr)) {
            ptr = self.shape.get_ptr(&self.block(ptr.addr).await?, index);
        }
        Ok(if self.sb.is_data(ptr.addr) { ptr } else { Ptr::HOLE })
    }

    /// Writes what was changed.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) async fn write(&mut self) -> Result<()> {
        for (place, bytes) in std::mem::take(&mut self.changed) {
            let block = vec![Block::Bytes(Buf::copy_of(&bytes).freeze())];
            let at = self.sb.byte_of(place);
            self.device.submit(Io::write(at, block, Class::Meta, Origin::Recovery)).await?;
        }
        self.device.submit(Io::flush(Origin::Recovery)).await?;
        Ok(())
    }
}

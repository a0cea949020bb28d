//! A volume on its device, read without the code that runs it: for the check and the dump.
//!
//! Contract: changes stay in memory until [`Disk::write`], and later reads see them. So a check is
//! a repair whose changes are not written.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin};
use twin_fs::Result;
use twin_fs::geometry::Geometry;

use crate::format::{Superblock, read};

/// A volume on its device. See the module.
pub(crate) struct Disk {
    pub(crate) sb: Superblock,
    pub(crate) geometry: Geometry,
    device: Rc<dyn BlockDevice>,
    changed: BTreeMap<u64, Vec<u8>>,
}

impl Disk {
    pub(crate) fn new(device: Rc<dyn BlockDevice>, sb: Superblock) -> Disk {
        Disk { geometry: sb.geometry(), sb, device, changed: BTreeMap::new() }
    }

    /// A block's content.
    pub(crate) async fn block(&self, place: u64) -> Result<Vec<u8>> {
        match self.changed.get(&place) {
            Some(bytes) => Ok(bytes.clone()),
            None => read(&*self.device, self.sb.byte_of(place), self.sb.block_size.into()).await,
        }
    }

    /// Changes a block in memory; the device keeps the old one.
    pub(crate) fn put(&mut self, place: u64, bytes: Vec<u8>) {
        self.changed.insert(place, bytes);
    }

    /// Writes what was changed.
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

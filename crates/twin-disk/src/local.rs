//! A device beside the one that holds a volume, read and written in whole units.

use std::rc::Rc;

use crate::{Block, BlockDevice, Class, Io, IoError, Origin, all_parts, cut, gather, total};

/// The unit of places: no sector of a local device is larger.
pub const UNIT: u64 = 4096;

/// A local device. Clones are the same.
#[derive(Clone)]
pub struct LocalDevice(Rc<dyn BlockDevice>);

impl LocalDevice {
    /// A device.
    ///
    /// # Errors
    /// If its sectors are larger than a [`UNIT`].
    pub fn new(device: Rc<dyn BlockDevice>) -> Result<LocalDevice, String> {
        let info = device.info();
        match u64::from(info.sector) <= UNIT {
            true => Ok(LocalDevice(device)),
            false => Err(format!("{}: sectors of {} bytes are too large", info.name, info.sector)),
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        self.0.info().name
    }

    /// Bytes in whole units.
    pub fn size(&self) -> u64 {
        self.0.info().size / UNIT * UNIT
    }

    /// Writes blocks at a unit. What follows up to the next unit becomes zeros.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn write(&self, at: u64, mut blocks: Vec<Block>) -> Result<(), IoError> {
        let len = total(&blocks);
        let rest = len.next_multiple_of(UNIT) - len;
        if rest > 0 {
            blocks.push(Block::Zero(rest as u32));
        }
        self.submit(Io::write(at, blocks, Class::Mixed, Origin::User)).await.map(drop)
    }

    /// Reads `len` bytes from any byte on.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn read(&self, at: u64, len: u64) -> Result<Block, IoError> {
        Ok(gather(&self.read_blocks(at, len).await?, 0, len as usize))
    }

    /// The same as the device has it.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn read_blocks(&self, at: u64, len: u64) -> Result<Vec<Block>, IoError> {
        let first = at / UNIT * UNIT;
        let end = (at + len).next_multiple_of(UNIT);
        let io = Io::read(first, end - first, Class::Mixed, Origin::User);
        let blocks = self.submit(io).await?;
        Ok(cut(&blocks, at - first, len))
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn flush(&self) -> Result<(), IoError> {
        self.0.submit(Io::flush(Origin::User)).await.map(drop)
    }

    async fn submit(&self, io: Io) -> Result<Vec<Block>, IoError> {
        let parts = io.parts(self.0.info().max_io);
        all_parts(parts.into_iter().map(|part| self.0.submit(part)).collect()).await
    }
}

//! A disk in memory that remembers what each unit of it held before, and on which a unit can be changed
//! behind the back of whoever uses it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use twin_disk::{Block, BlockDevice, Buf, DeviceInfo, Io, IoKind, Pending};

/// Bytes of a unit.
pub(super) const UNIT: usize = 4096;

/// See the module.
pub(super) struct RotDisk {
    bytes: RefCell<Vec<u8>>,
    /// What a unit held last before it got other content.
    before: RefCell<BTreeMap<usize, Vec<u8>>>,
}

impl RotDisk {
    pub(super) fn new(bytes: Vec<u8>) -> RotDisk {
        RotDisk { bytes: RefCell::new(bytes), before: RefCell::default() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.borrow().clone()
    }

    /// The content that each unit had before the one that it has.
    pub(super) fn before(&self) -> BTreeMap<usize, Vec<u8>> {
        self.before.borrow().clone()
    }

    /// Changes a unit. Nobody is told.
    pub(super) fn put(&self, unit: usize, content: &[u8]) {
        self.bytes.borrow_mut()[unit * UNIT..(unit + 1) * UNIT].copy_from_slice(content);
    }

    fn remember(&self, io: &Io) {
        let bytes = self.bytes.borrow();
        let units = io.at as usize / UNIT..(io.at + io.len).div_ceil(UNIT as u64) as usize;
        let mut before = self.before.borrow_mut();
        for unit in units {
            let old = &bytes[unit * UNIT..(unit + 1) * UNIT];
            if old.iter().any(|&byte| byte != 0) {
                before.insert(unit, old.to_vec());
            }
        }
    }
}

impl BlockDevice for RotDisk {
    fn info(&self) -> DeviceInfo {
        let size = self.bytes.borrow().len() as u64;
        DeviceInfo { size, sector: 512, max_io: 1 << 30, name: "rotting".into() }
    }

    fn submit(&self, io: Io) -> Pending {
        if let Err(error) = self.info().check(&io) {
            return Pending::ready(Err(error));
        }
        let range = io.at as usize..(io.at + io.len) as usize;
        match io.kind {
            IoKind::Read => {
                let buf = Buf::copy_of(&self.bytes.borrow()[range]);
                return Pending::ready(Ok(vec![Block::Bytes(buf.freeze())]));
            }
            IoKind::Write => {
                self.remember(&io);
                let (mut bytes, mut at) = (self.bytes.borrow_mut(), range.start);
                for block in &io.blocks {
                    block.copy_to(&mut bytes[at..at + block.len()]);
                    at += block.len();
                }
            }
            IoKind::Flush => {}
            IoKind::Discard => self.bytes.borrow_mut()[range].fill(0),
        }
        Pending::ready(Ok(Vec::new()))
    }

    fn in_flight(&self) -> usize {
        0
    }
}

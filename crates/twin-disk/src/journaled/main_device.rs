//! The device behind a journal: its content without the mark, and writes of many places at once.
//!
//! Contract: the first sector is kept in memory as it would be without the mark. Reads show it, and whatever writes to it
//! writes the marked sector.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::mark::{self, JournalId, mark_of};
use crate::{
    Block, BlockDevice, Buf, Class, DeviceInfo, Io, IoError, Origin, all_parts, cut, gather, total,
};

/// Data and its place.
pub(super) type Placed = (u64, Vec<Block>);

pub(super) struct MainDevice {
    device: Rc<dyn BlockDevice>,
    /// The first sector without the mark.
    first: RefCell<Vec<u8>>,
    mark: Cell<Option<JournalId>>,
}

impl MainDevice {
    pub(super) async fn read_mark(device: Rc<dyn BlockDevice>) -> Result<MainDevice, IoError> {
        let len = u64::from(device.info().sector).max(512);
        let io = Io::read(0, len, Class::Meta, Origin::Recovery);
        let read = device.submit(io).await?;
        let mut first = gather(&read, 0, len as usize).to_bytes().to_vec();
        let mark = Cell::new(mark_of(&first).map(|(id, _)| id));
        mark::clear(&mut first);
        Ok(MainDevice { device, first: RefCell::new(first), mark })
    }

    pub(super) fn device(&self) -> &Rc<dyn BlockDevice> {
        &self.device
    }

    pub(super) fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    pub(super) fn mark(&self) -> Option<JournalId> {
        self.mark.get()
    }

    /// Bytes at the beginning that are not as on the device.
    pub(super) fn first_len(&self) -> u64 {
        self.first.borrow().len() as u64
    }

    /// Writes the first sector with a mark, or without one, and makes that durable. False if there is no room for a mark.
    pub(super) async fn set_mark(&self, mark: Option<JournalId>) -> Result<bool, IoError> {
        let mut first = self.first.borrow().clone();
        if let Some(id) = &mark
            && !mark::set(&mut first, id)
        {
            return Ok(false);
        }
        self.mark.set(mark);
        let io = Io::write(0, vec![block(first)], Class::Meta, Origin::WriteBack);
        self.device.submit(io).await?;
        self.flush().await?;
        Ok(true)
    }

    pub(super) async fn flush(&self) -> Result<(), IoError> {
        self.device.submit(Io::flush(Origin::WriteBack)).await.map(drop)
    }

    /// Reads as if there were no mark.
    pub(super) async fn read(&self, io: Io) -> Result<Vec<Block>, IoError> {
        let (at, len) = (io.at, io.len);
        let read = self.device.submit(io).await?;
        let first_len = self.first_len();
        if at >= first_len {
            return Ok(read);
        }
        let end = first_len.min(at + len);
        let mut blocks = vec![block(self.first.borrow()[at as usize..end as usize].to_vec())];
        blocks.extend(cut(&read, end - at, len - (end - at)));
        Ok(blocks)
    }

    /// Writes all of this, which does not overlap, in few requests in ascending order. It is durable when this returns.
    pub(super) async fn write_out(&self, mut all: Vec<Placed>) -> Result<(), IoError> {
        all.sort_by_key(|(at, _)| *at);
        let mut runs: Vec<Placed> = Vec::new();
        for (at, blocks) in all {
            match runs.last_mut() {
                Some((start, run)) if *start + total(run) == at => run.extend(blocks),
                _ => runs.push((at, blocks)),
            }
        }
        let most = self.info().max_io;
        let mut under_way = Vec::new();
        for (at, blocks) in runs {
            for (at, blocks) in self.with_mark(at, blocks) {
                let io = Io::write(at, blocks, Class::Mixed, Origin::WriteBack);
                under_way.extend(io.parts(most).into_iter().map(|part| self.device.submit(part)));
            }
        }
        all_parts(under_way).await?;
        self.flush().await
    }

    /// The same as it goes to the device: the first sector as a whole, with the mark.
    fn with_mark(&self, at: u64, blocks: Vec<Block>) -> Vec<Placed> {
        let first_len = self.first_len();
        if at >= first_len {
            return vec![(at, blocks)];
        }
        let len = total(&blocks);
        let end = first_len.min(at + len);
        let mut first = self.first.borrow_mut();
        let changed = gather(&blocks, 0, (end - at) as usize).to_bytes();
        first[at as usize..end as usize].copy_from_slice(&changed);
        let mut marked = first.clone();
        if let Some(id) = self.mark.get() {
            // A layout that uses that room now has none of our marks; without the mark the volume could be mounted without
            // its journal, so it keeps the mark and loses those bytes on the device, not in memory.
            marked[mark::ROOM].fill(0);
            mark::set(&mut marked, &id);
        }
        let mut out = vec![(0, vec![block(marked)])];
        if len > end - at {
            out.push((end, cut(&blocks, end - at, len - (end - at))));
        }
        out
    }
}

fn block(bytes: Vec<u8>) -> Block {
    Block::Bytes(Buf::taking(bytes).freeze())
}

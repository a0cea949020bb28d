//! Frames: blocks of files in memory.
//!
//! Contract: a frame always belongs to the same file and logical block. It is loading, valid or
//! failed, and it becomes detached when it is removed from its file while a task holds it. A task
//! that holds a frame across an `.await` must call [`Frame::is_attached`] afterwards.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_disk::{Block, Bytes, IoError};
use twin_rt::{Event, Nanos, Time};

use crate::Lbn;
use crate::by_block::{BlockSet, ByBlock};

/// The reason why a frame could not be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The device could not read the block.
    Io(IoError),
    /// The content does not match its checksum.
    Checksum {
        /// Byte offset of the block on the device.
        at: u64,
    },
}

#[derive(Clone, Debug)]
enum FrameState {
    Loading,
    Valid,
    Failed(FrameError),
}

/// What the cache remembers of the versions of a block, for flush policies.
#[derive(Default)]
pub(crate) struct Life {
    /// The position among the dirty frames, and whether it is of clients' data; 0 if the frame is clean.
    pub(crate) turn: Cell<u64>,
    /// When the frame became dirty; meaningful while it is dirty.
    pub(crate) since: Cell<Time>,
    /// When its content last changed in memory; `None` if it is as it was read.
    pub(crate) changed: Cell<Option<Time>>,
    /// How long the version before this one lived, if there was one in memory.
    pub(crate) last_life_ns: Cell<Option<Nanos>>,
}

/// One block of a file in memory.
pub struct Frame {
    ino: u64,
    lbn: Lbn,
    /// The index in the cache's table, by which the replacement policy knows the frame.
    pub(crate) slot: Cell<u32>,
    pub(crate) attached: Cell<bool>,
    pub(crate) dirty: Cell<bool>,
    /// The number of device writes of its content that are under way.
    pub(crate) sent: Cell<u32>,
    /// True if the content came from the device and has not changed since.
    pub(crate) read: Cell<bool>,
    /// True if the frame was used since it was inserted or last became dirty.
    pub(crate) used: Cell<bool>,
    /// True if the frame is in memory only to be written elsewhere and no lookup has found it
    /// since.
    pub(crate) drop_behind: Cell<bool>,
    pub(crate) life: Life,
    /// What its file has found out about the content; 0 for nothing.
    note: Cell<u64>,
    state: RefCell<FrameState>,
    block: RefCell<Block>,
    filled: Event,
}

impl Frame {
    pub(crate) fn new(ino: u64, lbn: Lbn, block: Option<Block>) -> Rc<Frame> {
        let state = if block.is_some() { FrameState::Valid } else { FrameState::Loading };
        Rc::new(Frame {
            ino,
            lbn,
            slot: Cell::new(u32::MAX),
            attached: Cell::new(true),
            dirty: Cell::new(false),
            sent: Cell::new(0),
            read: Cell::new(false),
            used: Cell::new(false),
            drop_behind: Cell::new(false),
            life: Life::default(),
            note: Cell::new(0),
            state: RefCell::new(state),
            block: RefCell::new(block.unwrap_or(Block::Zero(0))),
            filled: Event::new(),
        })
    }

    /// The inode number of the file that the frame belongs to.
    #[inline]
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// The logical number of the block in the frame.
    #[inline]
    pub fn lbn(&self) -> Lbn {
        self.lbn
    }

    /// True until the frame is removed from its file, for example by a truncation.
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.attached.get()
    }

    /// True if the content has changed and no write of it has begun.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.dirty.get()
    }

    /// Marks a frame that is in memory only to be written to another place. It is dropped after the
    /// write, unless a lookup finds it before.
    #[inline]
    pub fn set_drop_behind(&self) {
        self.drop_behind.set(true);
    }

    #[inline]
    pub(crate) fn set_dirty(&self) {
        self.read.set(false);
        self.used.set(false);
        self.drop_behind.set(false);
        self.dirty.set(true);
    }

    /// True if the frame has its content.
    #[inline]
    pub fn is_valid(&self) -> bool {
        matches!(*self.state.borrow(), FrameState::Valid)
    }

    /// True until the device read that fills the frame has ended.
    #[inline]
    pub fn is_loading(&self) -> bool {
        matches!(*self.state.borrow(), FrameState::Loading)
    }

    /// A handle to the content, which is empty while the frame is loading.
    pub fn block(&self) -> Block {
        self.block.borrow().clone()
    }

    /// Calls `f` with the content, without copying the handle.
    #[inline]
    pub fn with<T>(&self, f: impl FnOnce(&Block) -> T) -> T {
        f(&self.block.borrow())
    }

    /// Changes the content; the caller marks the frame dirty. A write that is under way keeps the
    /// old content, because shared content is copied before a change.
    #[inline]
    pub fn change<T>(&self, f: impl FnOnce(&mut Block) -> T) -> T {
        self.note.set(0);
        f(&mut self.block.borrow_mut())
    }

    /// What [`set_note`](Self::set_note) has set since the content last changed; otherwise 0.
    #[inline]
    pub fn note(&self) -> u64 {
        self.note.get()
    }

    /// Keeps what its file has found out about the content and would have to look for once more. Whoever
    /// changes the content, or fills the frame, clears it.
    #[inline]
    pub fn set_note(&self, note: u64) {
        self.note.set(note);
    }

    /// Copies the content to a buffer of its own if it is a small part of a large buffer.
    pub(crate) fn compact(&self) {
        if let Block::Bytes(bytes) = &mut *self.block.borrow_mut()
            && bytes.buffer_len() > 4 * bytes.len()
        {
            *bytes = Bytes::copy_of(bytes);
        }
    }

    /// Sets the content after a device read and wakes the tasks that wait for it.
    pub fn fill(&self, block: Block) {
        self.note.set(0);
        *self.block.borrow_mut() = block;
        self.read.set(true);
        *self.state.borrow_mut() = FrameState::Valid;
        self.filled.notify();
    }

    /// Marks the frame as failed and wakes the tasks that wait for its content.
    pub fn fail(&self, error: FrameError) {
        *self.state.borrow_mut() = FrameState::Failed(error);
        self.filled.notify();
    }

    /// Waits until the frame is filled.
    pub async fn wait(&self) -> Result<(), FrameError> {
        loop {
            match &*self.state.borrow() {
                FrameState::Valid => return Ok(()),
                FrameState::Failed(error) => return Err(error.clone()),
                FrameState::Loading => {}
            }
            self.filled.wait().await;
        }
    }
}

/// The frames of one file, by logical block. The file's inode in memory owns them; only
/// [`Cache`](crate::Cache), which counts the memory, adds and removes frames.
#[derive(Default)]
pub struct FileFrames {
    pub(crate) ino: u64,
    pub(crate) frames: RefCell<ByBlock<Rc<Frame>>>,
    /// The blocks of the dirty frames.
    pub(crate) dirty: RefCell<BlockSet>,
    /// Lookups of its blocks are not counted among the hits and misses.
    pub(crate) apart: Cell<bool>,
    /// The part of the cache to which its frames belong: that of the policy that replaces them.
    pub(crate) part: Cell<u8>,
    /// It is a structure of the layout, not a file of clients.
    pub(crate) of_layout: Cell<bool>,
}

impl FileFrames {
    /// An empty map for the file with inode number `ino`.
    pub fn new(ino: u64) -> Rc<FileFrames> {
        Rc::new(FileFrames { ino, ..FileFrames::default() })
    }

    /// An empty map for structures of the layout that are no file.
    pub fn of_layout() -> Rc<FileFrames> {
        let frames = FileFrames::new(0);
        frames.set_of_layout();
        frames
    }

    /// The inode number of the file.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// It is a structure of the layout, whose dirty blocks go with the files that need them: flush
    /// policies do not see them. To be called before a block of it is dirty.
    pub fn set_of_layout(&self) {
        self.of_layout.set(true);
    }

    /// Lookups of the file's blocks count among the hits and misses of the cache, or not, as those of
    /// streams.
    pub fn set_apart(&self, apart: bool) {
        self.apart.set(apart);
    }

    /// True if the file is read by streams, which read ahead by themselves.
    pub fn is_apart(&self) -> bool {
        self.apart.get()
    }

    /// True if some frames are dirty.
    pub fn has_dirty(&self) -> bool {
        !self.dirty.borrow().is_empty()
    }

    /// True if some frames of data, not of indirect blocks, are dirty.
    pub fn has_dirty_data(&self) -> bool {
        self.dirty.borrow().has_data()
    }

    /// The number of dirty frames of indirect blocks.
    pub fn dirty_indirect_count(&self) -> usize {
        self.dirty.borrow().len_below_0()
    }

    /// The numbers of the blocks of the dirty frames, in ascending order.
    pub fn dirty_blocks(&self) -> Vec<Lbn> {
        self.dirty.borrow().blocks().collect()
    }

    /// The dirty frames in ascending order: first indirect blocks, whose numbers are negative, then
    /// data.
    pub fn dirty_frames(&self) -> Vec<Rc<Frame>> {
        self.dirty.borrow().of(&self.frames.borrow()).into_iter().cloned().collect()
    }

    /// The number of all frames, and the number of dirty ones.
    pub fn counts(&self) -> (usize, usize) {
        (self.frames.borrow().len(), self.dirty.borrow().len())
    }

    /// The frames of a range that are in memory. The lookup does not count as a use.
    pub fn resident(&self, range: std::ops::Range<Lbn>) -> Vec<Rc<Frame>> {
        self.frames.borrow().range(range).map(|(_, f)| Rc::clone(f)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_stands_until_the_content_changes() {
        let frame = Frame::new(7, 0, None);
        assert_eq!(frame.note(), 0);
        frame.fill(Block::Zero(4096));
        frame.set_note(5);
        frame.with(|block| assert_eq!(block.len(), 4096));
        assert_eq!(frame.note(), 5);
        frame.change(|block| *block = Block::Zero(512));
        assert_eq!(frame.note(), 0);
        frame.set_note(6);
        frame.fill(Block::Zero(4096));
        assert_eq!(frame.note(), 0);
    }
}

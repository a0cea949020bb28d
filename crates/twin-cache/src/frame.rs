//! Frames: blocks of files in memory.
//!
//! Contract: a frame belongs to one file and one logical block for life. It is loading, valid,
//! failed, or detached (removed from its file while a task still held it). A task that held a
//! frame over an `.await` asks [`Frame::is_attached`] again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_disk::{Block, Bytes, IoError};
use twin_rt::Event;

use crate::Lbn;
use crate::by_block::{BlockSet, ByBlock};

/// Why a frame could not be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The device failed.
    Io(IoError),
    /// The content does not match its checksum; the place on the device, in bytes.
    Checksum {
        /// First byte on the device.
        at: u64,
    },
}

#[derive(Clone, Debug)]
enum State {
    Loading,
    Valid,
    Failed(FrameError),
}

/// One block of a file in memory.
pub struct Frame {
    ino: u64,
    lbn: Lbn,
    /// Index in the cache's table; how the replacement policy names it.
    pub(crate) slot: Cell<u32>,
    pub(crate) attached: Cell<bool>,
    pub(crate) dirty: Cell<bool>,
    /// Device writes of its content that are under way.
    pub(crate) sent: Cell<u32>,
    /// Its content came from the device, and has not been changed since.
    pub(crate) read: Cell<bool>,
    /// It was used since it came in or was last written.
    pub(crate) used: Cell<bool>,
    /// It came to be written elsewhere, and nobody has asked for it.
    pub(crate) passing: Cell<bool>,
    state: RefCell<State>,
    block: RefCell<Block>,
    filled: Event,
}

impl Frame {
    pub(crate) fn new(ino: u64, lbn: Lbn, block: Option<Block>) -> Rc<Frame> {
        let state = if block.is_some() { State::Valid } else { State::Loading };
        Rc::new(Frame {
            ino,
            lbn,
            slot: Cell::new(u32::MAX),
            attached: Cell::new(true),
            dirty: Cell::new(false),
            sent: Cell::new(0),
            read: Cell::new(false),
            used: Cell::new(false),
            passing: Cell::new(false),
            state: RefCell::new(state),
            block: RefCell::new(block.unwrap_or(Block::Zero(0))),
            filled: Event::new(),
        })
    }

    /// The file that it belongs to.
    #[inline]
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// The logical block that it holds.
    #[inline]
    pub fn lbn(&self) -> Lbn {
        self.lbn
    }

    /// False once it was removed from its file (truncation, eviction of the file).
    #[inline]
    pub fn is_attached(&self) -> bool {
        self.attached.get()
    }

    /// True if it must be written before it may go.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.dirty.get()
    }

    /// Says that it is in memory only to be written to another place: it leaves once it has been,
    /// unless it is asked for before.
    #[inline]
    pub fn set_passing(&self) {
        self.passing.set(true);
    }

    #[inline]
    pub(crate) fn set_dirty(&self) {
        self.read.set(false);
        self.used.set(false);
        self.passing.set(false);
        self.dirty.set(true);
    }

    /// True once its content is there.
    #[inline]
    pub fn is_valid(&self) -> bool {
        matches!(*self.state.borrow(), State::Valid)
    }

    /// True while a device read is to fill it.
    #[inline]
    pub fn is_loading(&self) -> bool {
        matches!(*self.state.borrow(), State::Loading)
    }

    /// Its content. Empty while loading.
    pub fn block(&self) -> Block {
        self.block.borrow().clone()
    }

    /// Looks at its content without copying the handle.
    #[inline]
    pub fn with<T>(&self, f: impl FnOnce(&Block) -> T) -> T {
        f(&self.block.borrow())
    }

    /// Changes its content. The caller marks it dirty; a write under way keeps the old content,
    /// because content is copied when shared.
    #[inline]
    pub fn change<T>(&self, f: impl FnOnce(&mut Block) -> T) -> T {
        f(&mut self.block.borrow_mut())
    }

    /// Has the content in memory of its own, if that is a small part of a large buffer.
    pub(crate) fn compact(&self) {
        if let Block::Bytes(bytes) = &mut *self.block.borrow_mut()
            && bytes.buffer_len() > 4 * bytes.len()
        {
            *bytes = Bytes::copy_of(bytes);
        }
    }

    /// Puts the content in and wakes the tasks that wait for it.
    pub fn fill(&self, block: Block) {
        *self.block.borrow_mut() = block;
        self.read.set(true);
        *self.state.borrow_mut() = State::Valid;
        self.filled.notify();
    }

    /// Says that the content cannot be had, and wakes the tasks that wait for it.
    pub fn fail(&self, error: FrameError) {
        *self.state.borrow_mut() = State::Failed(error);
        self.filled.notify();
    }

    /// Waits until the frame is filled.
    ///
    /// # Errors
    /// Why it could not be.
    pub async fn wait(&self) -> Result<(), FrameError> {
        loop {
            match &*self.state.borrow() {
                State::Valid => return Ok(()),
                State::Failed(error) => return Err(error.clone()),
                State::Loading => {}
            }
            self.filled.wait().await;
        }
    }
}

/// The frames of one file, by logical block. Owned by the file's in-core inode; filled and
/// emptied only through [`Cache`](crate::Cache), which counts the memory.
#[derive(Default)]
pub struct FileFrames {
    pub(crate) ino: u64,
    pub(crate) frames: RefCell<ByBlock<Rc<Frame>>>,
    /// Which of them are dirty.
    pub(crate) dirty: RefCell<BlockSet>,
}

impl FileFrames {
    /// No frames, for the file `ino`.
    pub fn new(ino: u64) -> Rc<FileFrames> {
        Rc::new(FileFrames { ino, ..FileFrames::default() })
    }

    /// The file.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// True if it has frames that must be written.
    pub fn has_dirty(&self) -> bool {
        !self.dirty.borrow().is_empty()
    }

    /// Its dirty frames: indirect blocks first (they are below 0), then data, ascending.
    pub fn dirty_frames(&self) -> Vec<Rc<Frame>> {
        self.dirty.borrow().of(&self.frames.borrow()).into_iter().cloned().collect()
    }

    /// The number of frames, and of dirty ones.
    pub fn counts(&self) -> (usize, usize) {
        (self.frames.borrow().len(), self.dirty.borrow().len())
    }

    /// The resident frames of a range, without counting as a use.
    pub fn resident(&self, range: std::ops::Range<Lbn>) -> Vec<Rc<Frame>> {
        self.frames.borrow().range(range).map(|(_, f)| Rc::clone(f)).collect()
    }
}

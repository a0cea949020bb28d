//! What a layout tells a scrub: which inodes there are, and whether what lies on the device is what
//! the layout wrote there.
//!
//! Contract: nothing is changed, and what is judged was read from the device and not from memory. What
//! moves, dies or is being written while it is looked at is no flaw: a view looks again before it
//! reports anything. Walking the blocks of files is the same for all layouts and no part of this.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_rt::BoxFuture;

use crate::core::Core;
use crate::inodes::Inode;
use crate::{Ino, Result};

/// Something on the device that is not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The inode that it belongs to; `None` for a structure of the layout.
    pub ino: Option<Ino>,
    /// Its first byte in the file, if it is content of one.
    pub offset: Option<u64>,
    /// The first byte on the device.
    pub at: u64,
    /// The length in bytes.
    pub len: u64,
    /// What is wrong, in words.
    pub what: String,
}

impl Flaw {
    /// A flaw of a structure that is no part of a file.
    pub fn new(at: u64, len: u64, what: impl Into<String>) -> Flaw {
        Flaw { ino: None, offset: None, at, len, what: what.into() }
    }

    /// Adds the inode that it belongs to.
    #[must_use]
    pub fn of(mut self, ino: Ino) -> Flaw {
        self.ino = Some(ino);
        self
    }

    /// Adds the first byte in the file.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Flaw {
        self.offset = Some(offset);
        self
    }
}

/// Fragments of a map word.
const WORD: u64 = 64;

/// What one scrub notes down: flaws, the amount that was read, and which fragments it saw in use.
#[derive(Default)]
pub struct ScrubNotes {
    flaws: RefCell<Vec<Flaw>>,
    /// The places of all flaws, those that were taken too.
    flawed: RefCell<BTreeSet<u64>>,
    read_bytes: Cell<u64>,
    skipped: Cell<u64>,
    uncompared_bytes: Cell<u64>,
    /// One bit a fragment, by the number of the word.
    seen: RefCell<BTreeMap<u64, u64>>,
    /// What the layout counted when the scrub began; see [`ScrubView::mark`].
    mark: Cell<u64>,
}

impl ScrubNotes {
    /// Empty notes of a scrub that begins when the layout counts `mark`.
    pub fn begin(mark: u64) -> ScrubNotes {
        ScrubNotes { mark: Cell::new(mark), ..ScrubNotes::default() }
    }

    /// What the layout counted when the scrub began.
    pub fn mark(&self) -> u64 {
        self.mark.get()
    }

    /// Adds a flaw, unless there is one at its place: a scrub that goes on looks at an inode once more.
    pub fn add(&self, flaw: Flaw) {
        if self.flawed.borrow_mut().insert(flaw.at) {
            self.flaws.borrow_mut().push(flaw);
        }
    }

    /// True if a flaw begins at this byte of the device.
    pub fn has_flaw_at(&self, at: u64) -> bool {
        self.flawed.borrow().contains(&at)
    }

    /// Takes the flaws that were added.
    pub fn take_flaws(&self) -> Vec<Flaw> {
        self.flaws.take()
    }

    /// Counts bytes that were read from the device.
    pub fn count_read(&self, bytes: u64) {
        self.read_bytes.set(self.read_bytes.get() + bytes);
    }

    /// The bytes that were read from the device.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// Counts something that could not be judged, because it is on its way to the device.
    pub fn count_skipped(&self) {
        self.skipped.set(self.skipped.get() + 1);
    }

    /// The number of things that could not be judged.
    pub fn skipped(&self) -> u64 {
        self.skipped.get()
    }

    /// Counts bytes that could be read, and that nothing says what they should be.
    pub fn count_uncompared(&self, bytes: u64) {
        self.uncompared_bytes.set(self.uncompared_bytes.get() + bytes);
    }

    /// The bytes that could be read, and that nothing says what they should be.
    pub fn uncompared_bytes(&self) -> u64 {
        self.uncompared_bytes.get()
    }

    /// Notes that fragments are in use.
    pub fn see(&self, addr: u64, count: u64) {
        let mut seen = self.seen.borrow_mut();
        for frag in addr..addr + count {
            *seen.entry(frag / WORD).or_default() |= 1 << (frag % WORD);
        }
    }

    /// True if a fragment was seen in use.
    pub fn has_seen(&self, addr: u64) -> bool {
        self.seen.borrow().get(&(addr / WORD)).is_some_and(|word| word >> (addr % WORD) & 1 != 0)
    }
}

/// The inode records that a step looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubbedInodes {
    /// The numbers among them that are in use, and whose blocks can be walked.
    pub in_use: Vec<Ino>,
    /// The number with which the next step begins.
    pub next: Ino,
}

/// A layout that can be scrubbed. See the module.
pub trait ScrubView {
    /// Something that grows, for [`ScrubNotes::mark`]: what the layout writes later is told from what was
    /// there when the scrub began.
    fn mark(&self) -> u64 {
        0
    }

    /// Files of the layout itself, whose blocks are walked as those of other files.
    fn own_files(&self) -> Vec<Rc<Inode>> {
        Vec::new()
    }

    /// The inode numbers of the volume are below this.
    fn numbers_end(&self) -> Ino;

    /// Looks at the records of some inodes on the device, from this number on.
    fn scrub_inodes<'a>(
        &'a self,
        core: &'a Rc<Core>,
        first: Ino,
        notes: &'a ScrubNotes,
    ) -> BoxFuture<'a, Result<ScrubbedInodes>>;

    /// The number of structures beside inodes and the blocks of files.
    fn structures(&self) -> u64;

    /// Looks at the structure with this number, counted from 0. It is called after all files were walked.
    fn scrub_structure<'a>(
        &'a self,
        core: &'a Rc<Core>,
        nth: u64,
        notes: &'a ScrubNotes,
    ) -> BoxFuture<'a, Result<()>>;

    /// True if the device below compares what is read with checksums of its own, and fails otherwise.
    fn compares_reads(&self) -> bool {
        false
    }

    /// True if what memory has of a block was written to its place, and no write to it is under way. Only
    /// asked where pointers have no checksums.
    fn is_in_place(&self, at: u64, len: u64) -> bool;
}

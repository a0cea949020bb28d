//! Places that are chosen by others: those of a volume that is made as a copy of another one.
//!
//! Contract: a held place counts as used in the maps from the beginning, so that no search finds it,
//! and it is handed to the block for which it is. A block of which nothing was told, or which does
//! not fit its place, is placed by the policy as always. Blocks are not moved together meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use twin_cache::Lbn;
use twin_fs::Ino;
use twin_rt::FixedMap;

use crate::space::Freed;

/// The first fragments of the blocks of a file.
type Places = BTreeMap<Lbn, u64>;

/// A held place.
#[derive(Clone, Copy, Debug)]
struct Held {
    frags: u32,
    /// Of these the ones that are handed out.
    taken: u32,
}

/// What was told. See the module.
#[derive(Default)]
pub(crate) struct ToldPlaces {
    is_active: Cell<bool>,
    files: RefCell<FixedMap<Ino, Places>>,
    /// Those of the next file of which nothing was told.
    next: RefCell<Option<Places>>,
    /// By the first fragment.
    held: RefCell<BTreeMap<u64, Held>>,
}

impl ToldPlaces {
    /// True while a copy is made.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.get()
    }

    fn place(&self, ino: Ino, lbn: Lbn) -> Option<u64> {
        if !self.is_active() {
            return None;
        }
        let mut files = self.files.borrow_mut();
        let places = match files.entry(ino) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(self.next.take()?),
        };
        places.get(&lbn).copied()
    }

    /// The place of a new block, if one is held for it.
    pub(crate) fn take(&self, ino: Ino, lbn: Lbn, frags: u32) -> Option<u64> {
        let addr = self.place(ino, lbn)?;
        let mut held = self.held.borrow_mut();
        let held = held.get_mut(&addr).filter(|held| held.taken == 0 && held.frags >= frags)?;
        held.taken = frags;
        Some(addr)
    }

    /// True if a block at `addr` may grow there, because the place was held for all of it.
    pub(crate) fn grow(&self, ino: Ino, lbn: Lbn, addr: u64, frags: u32) -> bool {
        if self.place(ino, lbn) != Some(addr) {
            return false;
        }
        let mut held = self.held.borrow_mut();
        let Some(held) = held.get_mut(&addr).filter(|held| held.frags >= frags) else {
            return false;
        };
        held.taken = frags;
        true
    }

    /// Notes where the blocks of a file go; without a number, of the next one of which nothing was
    /// told.
    pub(crate) fn note_file(&self, ino: Option<Ino>, places: BTreeMap<Lbn, u64>) {
        *self.next.borrow_mut() = None;
        match ino {
            Some(ino) => drop(self.files.borrow_mut().insert(ino, places)),
            None => *self.next.borrow_mut() = Some(places),
        }
    }

    /// Notes places that are held.
    pub(crate) fn note_held(&self, places: &[Freed]) {
        let held = places.iter().map(|place| (place.addr, Held { frags: place.frags, taken: 0 }));
        self.held.borrow_mut().extend(held);
        self.is_active.set(true);
    }

    /// Forgets everything. Returns what was held and not handed out.
    pub(crate) fn end(&self) -> Vec<Freed> {
        self.files.take();
        self.next.take();
        self.is_active.set(false);
        let held = self.held.take().into_iter().filter(|(_, held)| held.taken < held.frags);
        let rest = |(addr, Held { frags, taken })| Freed {
            addr: addr + u64::from(taken),
            frags: frags - taken,
        };
        held.map(rest).collect()
    }
}

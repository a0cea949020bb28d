//! Placement hints: places that blocks are to have, while a volume is made as a copy of another one.
//!
//! Contract: nothing waits. A claimed place counts as used in the maps from the beginning, so that no
//! search finds it, and it is handed to the block for which it is. The policy places, as always, a
//! block that no hint covers or that does not fit its place. Blocks are not moved together meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use twin_cache::Lbn;
use twin_fs::Ino;
use twin_rt::FixedMap;

use crate::space::Freed;

/// The first fragments of the blocks of a file.
pub(crate) type Places = BTreeMap<Lbn, u64>;

/// A place that was claimed.
#[derive(Clone, Copy, Debug)]
struct Claim {
    frags: u32,
    /// Of these the ones that are handed out.
    taken: u32,
}

/// The hints of a volume. See the module.
#[derive(Default)]
pub(crate) struct Hints {
    is_active: Cell<bool>,
    files: RefCell<FixedMap<Ino, Places>>,
    /// The places of the next file that no hint covers.
    next: RefCell<Option<Places>>,
    /// The claims, by their first fragment.
    claims: RefCell<BTreeMap<u64, Claim>>,
}

impl Hints {
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

    /// The place of a new block, if one was claimed for it.
    pub(crate) fn take(&self, ino: Ino, lbn: Lbn, frags: u32) -> Option<u64> {
        let addr = self.place(ino, lbn)?;
        let mut claims = self.claims.borrow_mut();
        let claim = claims.get_mut(&addr).filter(|c| c.taken == 0 && c.frags >= frags)?;
        claim.taken = frags;
        Some(addr)
    }

    /// True if a block at `addr` may grow there, because all of it was claimed.
    pub(crate) fn grow(&self, ino: Ino, lbn: Lbn, addr: u64, frags: u32) -> bool {
        if self.place(ino, lbn) != Some(addr) {
            return false;
        }
        let mut claims = self.claims.borrow_mut();
        let Some(claim) = claims.get_mut(&addr).filter(|c| c.frags >= frags) else {
            return false;
        };
        claim.taken = frags;
        true
    }

    /// Notes where the blocks of a file go; without a number, those of the next file that no hint
    /// covers.
    pub(crate) fn note_file(&self, ino: Option<Ino>, places: Places) {
        *self.next.borrow_mut() = None;
        match ino {
            Some(ino) => drop(self.files.borrow_mut().insert(ino, places)),
            None => *self.next.borrow_mut() = Some(places),
        }
    }

    /// Notes places that were claimed.
    pub(crate) fn note_claims(&self, places: &[Freed]) {
        let claims =
            places.iter().map(|place| (place.addr, Claim { frags: place.frags, taken: 0 }));
        self.claims.borrow_mut().extend(claims);
        self.is_active.set(true);
    }

    /// Forgets everything. Returns what was claimed and not handed out.
    pub(crate) fn take_rest(&self) -> Vec<Freed> {
        self.files.take();
        self.next.take();
        self.is_active.set(false);
        let claims = self.claims.take().into_iter().filter(|(_, claim)| claim.taken < claim.frags);
        let rest = |(addr, Claim { frags, taken })| Freed {
            addr: addr + u64::from(taken),
            frags: frags - taken,
        };
        claims.map(rest).collect()
    }
}

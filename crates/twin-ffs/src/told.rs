//! Places that are chosen by others: those of a volume that is made as a copy of another one.
//!
//! Contract: a held place counts as used in the maps from the beginning, so that no search finds it,
//! and it is handed to the block for which it is. A block of which nothing was told, or which does
//! not fit its place, is placed by the policy as always. Blocks are not moved together meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use twin_cache::Lbn;
use twin_fs::{FsError, Ino, Result, Told, ToldRun};
use twin_rt::FixedMap;

use crate::ffs::Ffs;
use crate::format::Superblock;
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
        if !files.contains_key(&ino) {
            files.insert(ino, self.next.take()?);
        }
        files.get(&ino)?.get(&lbn).copied()
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
}

/// The blocks of a run: number in the file, first fragment, fragments.
fn blocks<'a>(
    sb: &'a Superblock,
    run: &'a ToldRun,
) -> impl Iterator<Item = (Lbn, u64, u32)> + use<'a> {
    let (block, frag) = (u64::from(sb.geometry.block_size), u64::from(sb.geometry.frag_size));
    (0..run.bytes.div_ceil(block)).map(move |nth| {
        let bytes = block.min(run.bytes - nth * block);
        let addr = (run.at + nth * block) / frag;
        (run.lbn + nth as Lbn, addr, bytes.div_ceil(frag) as u32)
    })
}

impl Ffs {
    pub(crate) fn note_told(&self, told: Told<'_>) -> Result<()> {
        match told {
            Told::Hold(runs) => self.hold(runs),
            Told::File(ino, runs) => {
                let blocks = runs.iter().flat_map(|run| blocks(&self.sb, run));
                let places = blocks.map(|(lbn, addr, _)| (lbn, addr)).collect();
                *self.told.next.borrow_mut() = None;
                match ino {
                    Some(ino) => drop(self.told.files.borrow_mut().insert(ino, places)),
                    None => *self.told.next.borrow_mut() = Some(places),
                }
                Ok(())
            }
            Told::End => {
                let held = self.told.held.take();
                let rest = held.into_iter().filter(|(_, held)| held.taken < held.frags);
                for (addr, Held { frags, taken }) in rest {
                    let freed = Freed { addr: addr + u64::from(taken), frags: frags - taken };
                    self.alloc_mut().give_back(&self.sb, freed);
                }
                self.told.files.take();
                self.told.next.take();
                self.told.is_active.set(false);
                Ok(())
            }
        }
    }

    fn hold(&self, runs: &[ToldRun]) -> Result<()> {
        let mut space = self.alloc_mut();
        let mut here = Vec::new();
        for (_, addr, frags) in runs.iter().flat_map(|run| blocks(&self.sb, run)) {
            if !space.hold(&self.sb, Freed { addr, frags }) {
                here.into_iter().for_each(|place| space.give_back(&self.sb, place));
                return Err(FsError::Invalid("a place that is to be held is not free"));
            }
            here.push(Freed { addr, frags });
        }
        let held = here.iter().map(|place| (place.addr, Held { frags: place.frags, taken: 0 }));
        self.told.held.borrow_mut().extend(held);
        self.told.is_active.set(true);
        Ok(())
    }
}

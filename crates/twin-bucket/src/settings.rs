//! How a volume is opened.

use std::rc::Rc;

use twin_rt::{Nanos, Rt, SECS};

use crate::Identity;
use crate::counted::Counted;
use crate::planted::PlantedFault;
use crate::requests::Requests;
use crate::store::ObjectStore;

/// Tells whether a writer that did not close the volume is known to have ended, by its words about itself.
pub type HasEnded = Rc<dyn Fn(&str) -> bool>;

/// How long opening waits for a silent store.
pub(crate) const OPENING_PATIENCE: Nanos = 20 * SECS;

/// How a volume is opened.
#[derive(Clone)]
pub struct Settings {
    /// A number that no other writer has: random.
    pub writer: Identity,
    /// Who the writer is, for people and for [`HasEnded`]: at most 1,024 bytes.
    pub owner: String,
    /// How long the store may be silent before requests fail, in nanoseconds. It bounds how long a flush waits.
    pub patience: Nanos,
    /// Bytes of memory for what is not yet in the store; at least two packs.
    pub memory: u64,
    /// Packs that are written at once, 1 to 64.
    pub uploads: u32,
    /// Packs after which a head is due, 1 to 4,096; of a large map later. A new writer reads as many headers after
    /// one that did not close the volume.
    pub packs_a_head: u32,
    /// Faults for tests.
    pub planted: PlantedFault,
}

impl Settings {
    /// The usual ones: 64 MiB, 16 packs at once, a head after 64, five minutes.
    pub fn new(writer: Identity, owner: &str) -> Settings {
        Settings {
            writer,
            owner: owner.into(),
            patience: 300 * SECS,
            memory: 64 << 20,
            uploads: 16,
            packs_a_head: 64,
            planted: PlantedFault::None,
        }
    }

    /// Requests of opening, whose user waits and can try again: a store that is not there is an error soon.
    pub(crate) fn requests(&self, rt: &Rt, store: Rc<dyn ObjectStore>) -> Requests {
        let patience = self.patience.min(OPENING_PATIENCE);
        Requests { rt: rt.clone(), store: Counted::of(store), patience, planted: self.planted }
    }
}

//! The dirty frames of a cache, in the order in which they became dirty.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use twin_rt::Time;

use crate::Frame;

/// The slots of the dirty frames. A frame keeps its place until it is clean, however often it
/// changes. Indirect blocks have an order of their own: layouts defer to write them, and who looks for the
/// oldest data would pass thousands of them each time.
#[derive(Default)]
pub(crate) struct DirtyFrames {
    data: RefCell<BTreeMap<u64, u32>>,
    indirect: RefCell<BTreeMap<u64, u32>>,
    last: Cell<u64>,
}

impl DirtyFrames {
    pub(crate) fn add(&self, frame: &Frame, now: Time) {
        // Turns start at 1 because 0 marks a clean frame.
        let turn = self.last.get() + 1;
        self.last.set(turn);
        frame.life.turn.set(turn);
        frame.life.since.set(now);
        self.order_of(frame).borrow_mut().insert(turn, frame.slot.get());
    }

    pub(crate) fn remove(&self, frame: &Frame) {
        let turn = frame.life.turn.replace(0);
        if turn != 0 {
            self.order_of(frame).borrow_mut().remove(&turn);
        }
    }

    fn order_of(&self, frame: &Frame) -> &RefCell<BTreeMap<u64, u32>> {
        if frame.lbn() < 0 { &self.indirect } else { &self.data }
    }

    /// Calls `f` with the slots of data blocks, the oldest first, until it returns false.
    pub(crate) fn each_of_data(&self, mut f: impl FnMut(u32) -> bool) {
        for slot in self.data.borrow().values() {
            if !f(*slot) {
                return;
            }
        }
    }
}

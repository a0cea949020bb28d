//! The dirty frames of a cache, in the order in which they became dirty.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use twin_rt::Time;

use crate::Frame;

/// The slots of the dirty frames. A frame keeps its place until it is clean, however often it
/// changes. Data of clients' files has an order of its own: layouts defer to write the rest (indirect blocks,
/// their own structures), and who looks for the oldest data would pass thousands of these each time.
#[derive(Default)]
pub(crate) struct DirtyFrames {
    data: RefCell<BTreeMap<u64, u32>>,
    others: RefCell<BTreeMap<u64, u32>>,
    last: Cell<u64>,
}

/// The bit of a turn that says that the frame is not of clients' data.
const OTHER: u64 = 1 << 63;

impl DirtyFrames {
    pub(crate) fn add(&self, frame: &Frame, of_layout: bool, now: Time) {
        // Turns start at 1 because 0 marks a clean frame.
        let turn = self.last.get() + 1;
        self.last.set(turn);
        let kind = if of_layout || frame.lbn() < 0 { OTHER } else { 0 };
        frame.life.turn.set(turn | kind);
        frame.life.since.set(now);
        self.order_of(turn | kind).borrow_mut().insert(turn, frame.slot.get());
    }

    pub(crate) fn remove(&self, frame: &Frame) {
        let turn = frame.life.turn.replace(0);
        if turn != 0 {
            self.order_of(turn).borrow_mut().remove(&(turn & !OTHER));
        }
    }

    fn order_of(&self, turn: u64) -> &RefCell<BTreeMap<u64, u32>> {
        if turn & OTHER == 0 { &self.data } else { &self.others }
    }

    /// Calls `f` with the slots of clients' data, the oldest first, until it returns false.
    pub(crate) fn each_of_data(&self, mut f: impl FnMut(u32) -> bool) {
        for slot in self.data.borrow().values() {
            if !f(*slot) {
                return;
            }
        }
    }
}

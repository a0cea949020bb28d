//! Reads under way: space is reused only when no read that began before may still find it.

use std::cell::Cell;
use std::rc::Rc;

use twin_rt::Event;

/// Reads under way, so that space can be reused only when nobody still reads it.
#[derive(Default)]
pub struct ReadGate {
    epoch: Cell<u64>,
    /// Reads under way that began in the current epoch, and in earlier ones.
    counts: Cell<[u64; 2]>,
    drained: Event,
}

impl ReadGate {
    /// Says that a read begins.
    pub fn enter(self: &Rc<Self>) -> ReadPass {
        let [now, before] = self.counts.get();
        self.counts.set([now + 1, before]);
        ReadPass { gate: Rc::clone(self), epoch: self.epoch.get() }
    }

    /// Waits until all reads that began before this call have ended. One caller at a time.
    pub async fn drain(&self) {
        let [now, before] = self.counts.get();
        self.epoch.set(self.epoch.get() + 1);
        self.counts.set([0, now + before]);
        self.drained.wait_until(|| self.counts.get()[1] == 0).await;
    }
}

/// Held for the length of a read.
pub struct ReadPass {
    gate: Rc<ReadGate>,
    epoch: u64,
}

impl Drop for ReadPass {
    fn drop(&mut self) {
        let mut counts = self.gate.counts.get();
        counts[usize::from(self.epoch != self.gate.epoch.get())] -= 1;
        self.gate.counts.set(counts);
        if counts[1] == 0 {
            self.gate.drained.notify();
        }
    }
}

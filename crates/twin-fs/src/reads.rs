//! Reads under way: freed space is reused only after all reads that may still look at it.

use std::cell::Cell;
use std::rc::Rc;

use twin_rt::Event;

/// Counts the reads under way. A layout that wants to reuse freed space first waits with
/// [`drain`](Self::drain) until no read that may have seen an old pointer to it is left.
#[derive(Default)]
pub struct ReadGate {
    epoch: Cell<u64>,
    /// The number of reads under way that began in the current epoch, and in earlier ones.
    counts: Cell<[u64; 2]>,
    drained: Event,
}

impl ReadGate {
    /// Called in the step in which a read looks up its pointers. The read holds the pass until it
    /// has its data.
    pub fn enter(self: &Rc<Self>) -> ReadPass {
        let [now, before] = self.counts.get();
        self.counts.set([now + 1, before]);
        ReadPass { gate: Rc::clone(self), epoch: self.epoch.get() }
    }

    /// True if no read is under way.
    pub fn is_idle(&self) -> bool {
        self.counts.get() == [0, 0]
    }

    /// Waits until all reads that began before this call have ended. Reads that begin later are not
    /// waited for. Only one task may call this at a time.
    pub async fn drain(&self) {
        // Reads that begin from here on belong to a new epoch. They are not waited for, because the
        // caller has already replaced the pointers to the space.
        let [now, before] = self.counts.get();
        self.epoch.set(self.epoch.get() + 1);
        self.counts.set([0, now + before]);
        self.drained.wait_until(|| self.counts.get()[1] == 0).await;
    }
}

/// Held by a read from [`ReadGate::enter`] to its end.
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

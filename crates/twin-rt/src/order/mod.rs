//! The order of tasks that could run: which of several waiting for the processor goes on next.
//!
//! Contract: a policy is a pure function of what waits, asked by the executor about ready tasks, and by a
//! [`Budget`](crate::Budget) of processors about work that waits for one. A new one takes one file and one line in
//! [`REGISTRY`]. Every policy has a bound on how long it passes over one that waits. After Bosch and Mullender,
//! "Cut-and-paste file systems" (1996), section 2: the thread scheduler is a component, and files with real-time
//! constraints need another policy than its first.

mod deadline;
#[cfg(test)]
mod tests;

use std::fmt;

use twin_settings::{Registry, RegistryEntry};

use crate::Time;

/// What waits, in the order of its arrival, as a policy sees it.
pub struct Waiting<'a> {
    /// Of each that waits its deadline, if it has one.
    pub deadlines: &'a mut dyn Iterator<Item = Option<Time>>,
    /// How many times in a row another one was chosen before the first of them.
    pub passed: u32,
}

/// A policy: the place of the one that goes on next. A place that does not exist stands for the first.
#[derive(Clone, Copy)]
pub struct TaskOrder(pub fn(Waiting<'_>) -> usize);

impl TaskOrder {
    /// Chooses of `waiting`, and counts in `passed` how often its first was passed over.
    pub(crate) fn choose(
        self,
        mut deadlines: impl ExactSizeIterator<Item = Option<Time>>,
        passed: &mut u32,
    ) -> usize {
        let len = deadlines.len();
        let place = (self.0)(Waiting { deadlines: &mut deadlines, passed: *passed });
        match place < len {
            true if place > 0 => {
                *passed = passed.saturating_add(1);
                place
            }
            _ => {
                *passed = 0;
                0
            }
        }
    }
}

impl PartialEq for TaskOrder {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for TaskOrder {}

impl fmt::Debug for TaskOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskOrder")
    }
}

/// The order in which ready tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ready tasks run in the order in which they became ready.
    Fifo,
    /// Ready tasks run in a random order, drawn from the run's seed, with extra yields at
    /// [`Rt::maybe_yield`](crate::Rt::maybe_yield).
    Shuffled,
    /// As [`Shuffled`](Order::Shuffled). In addition, wherever an operation may have to wait for a
    /// lock, a device or a block, other tasks may run first even if there is nothing to wait for.
    /// So tests see what can happen between any two steps of an operation.
    Yielding,
    /// A policy chooses, which knows the deadlines of [`Rt::by`](crate::Rt::by).
    Chosen(TaskOrder),
}

/// All orders that a run or a mount can have.
pub static REGISTRY: Registry<Order> = Registry::with_default(
    "order of tasks",
    "fifo",
    &[
        RegistryEntry::new("fifo", "as they became ready", Order::Fifo),
        RegistryEntry::new("random", "at random, from the seed: for tests", Order::Shuffled),
        RegistryEntry::new(
            "deadline",
            "those of real-time files first, by deadline; one in nine is the one that waited longest",
            Order::Chosen(TaskOrder(deadline::earliest)),
        ),
    ],
);

//! The time seam: what an executor does when no task can run.
//!
//! The simulator's driver jumps the clock to the next deadline; a host's driver sleeps in the
//! kernel until a device, a client or the deadline wakes it.

use crate::Time;

/// Supplies time and outside events to an [`Rt`](crate::Rt).
pub trait Driver: 'static {
    /// The time at which the run starts.
    fn start(&mut self) -> Time;

    /// Called when no task is ready. Waits for outside events or until `deadline`, delivers the
    /// events (by waking tasks), and returns the new current time, not before the previous one.
    ///
    /// `None` says that nothing can ever happen again: no deadline was given and no outside
    /// event is expected. The run is then [`Stalled`](crate::Stalled).
    fn park(&mut self, deadline: Option<Time>) -> Option<Time>;
}

/// A clock and nothing else: time jumps from deadline to deadline. The simulator's driver.
#[derive(Debug, Default, Clone, Copy)]
pub struct ClockOnly {
    /// The time at which the run starts.
    pub start: Time,
}

impl Driver for ClockOnly {
    fn start(&mut self) -> Time {
        self.start
    }

    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        deadline
    }
}

//! The time seam: what an executor does when no task can run.
//!
//! The driver of a simulation moves the clock to the next deadline. The driver of a host sleeps in
//! the kernel until a device, a client or the deadline wakes it.

use crate::Time;

/// Supplies time and outside events to an [`Rt`](crate::Rt).
pub trait Driver: 'static {
    /// The time at which the run starts.
    fn start(&mut self) -> Time;

    /// Called by the executor when no task is ready. Waits for outside events or until `deadline`,
    /// delivers the events by waking tasks, and returns the new current time, which must not be
    /// before the previous one.
    ///
    /// The result `None` means that nothing can ever happen again, because there is no deadline and
    /// no outside event is expected. The run is then [`Stalled`](crate::Stalled).
    fn park(&mut self, deadline: Option<Time>) -> Option<Time>;

    /// True if [`park`](Self::park) never waits and never ends a run while there is a deadline: time jumps, and
    /// nothing comes from outside. A clock that somebody watches, who may end the run, does not.
    fn jumps(&self) -> bool {
        false
    }

    /// The civil time at `now`, which [`start`](Self::start) or [`park`](Self::park) has just
    /// returned. It may go back, when somebody sets the clock of the host.
    fn civil(&self, now: Time) -> Time {
        now
    }
}

/// The driver of simulations: it has a clock only, and time jumps from deadline to deadline.
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

    fn jumps(&self) -> bool {
        true
    }
}

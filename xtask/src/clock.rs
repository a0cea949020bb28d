//! Real time, for measuring durations. Development tools may read the clock; the core may not.

use std::time::Duration;
#[allow(clippy::disallowed_types)]
use std::time::Instant;

/// Measures the time since its creation.
#[derive(Clone, Copy)]
#[allow(clippy::disallowed_types)]
pub(crate) struct Stopwatch(Instant);

#[allow(clippy::disallowed_types)]
impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

/// Sleeps.
#[allow(clippy::disallowed_methods)]
pub(crate) fn pause_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

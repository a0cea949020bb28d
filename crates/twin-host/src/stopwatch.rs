//! The clock of commands that measure.

/// Seconds since some instant.
pub fn real_clock() -> impl Fn() -> f64 + Sync {
    // A program may read the clock; only the core may not.
    #[allow(clippy::disallowed_types)]
    let start = std::time::Instant::now();
    move || start.elapsed().as_secs_f64()
}

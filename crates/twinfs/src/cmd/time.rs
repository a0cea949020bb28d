//! The clock of commands that measure, and the bar of those that take long.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Seconds since some instant.
pub(crate) fn real_clock() -> impl Fn() -> f64 + Sync {
    // A program may read the clock; only the core may not.
    #[allow(clippy::disallowed_types)]
    let start = std::time::Instant::now();
    move || start.elapsed().as_secs_f64()
}

/// A bar on standard error, hidden when that is no terminal.
pub(crate) fn progress_bar(len: u64) -> ProgressBar {
    let bar = ProgressBar::new(len);
    let style = ProgressStyle::with_template("{spinner} {wide_bar} {pos} of {len} ({elapsed})");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

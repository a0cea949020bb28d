//! How far a reproduction is.

use std::sync::Arc;

/// Who is told how much is done of how much, from any thread.
pub type Progress = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// Steps of progress that a run is worth.
pub(crate) const STEPS: usize = 1000;

/// Progress of which nobody is told.
pub fn silent() -> Progress {
    Arc::new(|_, _| {})
}

/// Tells of a part that begins behind `before` steps, is `len` steps long, and is one of `all` steps.
pub(crate) fn part_of(progress: &Progress, (before, len, all): (usize, usize, usize)) -> Progress {
    let progress = Arc::clone(progress);
    Arc::new(move |done, of| progress(before + done * len / of.max(1), all))
}

//! How far a reproduction is.

use std::sync::Arc;

/// Who is told how much is done of how much, from any thread.
pub type Progress = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// Progress that nobody sees.
pub fn silent() -> Progress {
    Arc::new(|_, _| {})
}

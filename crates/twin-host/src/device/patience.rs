//! Patience with an image that is in use, perhaps for a moment only.
//!
//! Contract: it holds up the thread, for half a second at most. It serves the opening of images.

use rustix::io::Errno;

/// How often to try to lock an image. A process that was killed keeps its lock until the kernel has
/// finished its requests.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Tries until the answer is another than `again`, or until patience ends; then that is the answer.
#[allow(clippy::disallowed_methods)] // The runtime does not exist yet, or must not be held up.
pub(super) fn with_patience<T>(
    mut try_it: impl FnMut() -> Result<T, Errno>,
    again: Errno,
) -> Result<T, Errno> {
    for _ in 1..LOCK_TRIES {
        match try_it() {
            Err(errno) if errno == again => std::thread::sleep(LOCK_PAUSE),
            result => return result,
        }
    }
    try_it()
}

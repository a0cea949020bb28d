//! A mount, by the status that it writes.

use twin_host::real_clock;
use twin_lab::Status;

use crate::screen::Screen;
use crate::wait_until;

/// How often a mount is looked at, in seconds, and how long its status may stand still.
const LOOK_S: f64 = 0.5;
const GONE_S: f64 = 5.0;

/// Shows a mount for as long as its status, which `read` gives, changes; at most `count` pictures.
///
/// # Errors
/// If the status cannot be read, or standard output fails.
pub fn watch(
    read: &dyn Fn() -> Result<Status, String>,
    count: Option<u64>,
    screen: &Screen,
) -> Result<(), String> {
    let clock = real_clock();
    let (mut before, mut shown, mut changed_s) = (read()?, 0, 0.0);
    screen.show(&before.frame(&before, screen.look()))?;
    while count.is_none_or(|count| shown + 1 < count) && clock() - changed_s < GONE_S {
        wait_until(&clock, clock() + LOOK_S);
        let status = read()?;
        if status.at_ns != before.at_ns {
            screen.show(&status.frame(&before, screen.look()))?;
            (before, changed_s, shown) = (status, clock(), shown + 1);
        }
    }
    Ok(())
}

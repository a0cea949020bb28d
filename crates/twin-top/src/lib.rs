//! Logs, watched while they are written and cleaned: what `twinfs top` shows.
//!
//! Contract: pictures depend on what is watched alone, and a terminal gets one in place of the other. How long each is
//! shown, or a key that asks for the next, changes when they come and not what they show.
//!
//! Main types: [`Screen`] (where pictures go), [`Bare`] (a bare volume that is written for this), [`Simulated`] (a run
//! of a configuration), [`watch`] (a mount, by what it tells). Start at [`Screen::of`].

mod bare;
mod mount;
mod screen;
mod simulation;

pub use bare::Bare;
pub use mount::watch;
pub use screen::Screen;
pub use simulation::Simulated;

fn wait_until(clock: &impl Fn() -> f64, seconds: f64) {
    let left = seconds - clock();
    if left > 0.0 {
        // A program may wait; only the core may not.
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(std::time::Duration::from_secs_f64(left.min(3600.0)));
    }
}

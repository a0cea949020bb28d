//! The guard of a daemon: a thread that makes sure that no client of a mount waits for ever.
//!
//! Contract: it observes the thread of the core a few times a second. If that thread computes for
//! [`BUSY`] without looking for events (a bug), or if [`CLOSING`] passes without an advance while a
//! volume is closed (a device that does not answer, or a bug), the guard reports it and ends the
//! process. The kernel then ends every call on the mount with an error. Data that was acknowledged by
//! fsync is on the device, and the next mount recovers the volume. A request to a device that succeeds is
//! an advance, so a closing that made requests without an end would not be ended.
//!
//! A supervisor that waits for signs of life gets them from here, and only while the core looks for events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::supervisor::Supervisor;
use crate::words::{Grade, Words};

/// The longest that the core may compute without looking for events.
pub(crate) const BUSY: Duration = Duration::from_secs(60);
/// The longest that closing a volume may take without an advance.
pub(crate) const CLOSING: Duration = Duration::from_secs(60);
/// The interval of its observations.
const LOOK: Duration = Duration::from_millis(250);
/// The exit code of a daemon that the guard ended (EX_SOFTWARE).
const GAVE_UP: i32 = 70;

/// The state of the core's thread that the guard observes.
#[derive(Default)]
pub(crate) struct Pulse {
    /// How often the thread has looked for events.
    beats: AtomicU64,
    /// True while the thread sleeps until the next event.
    asleep: AtomicBool,
    closing: AtomicBool,
    /// How many requests to devices succeeded, and how often closing was reported to advance by others.
    advances: AtomicU64,
    over: AtomicBool,
}

impl Pulse {
    pub(crate) fn beat(&self) {
        count(&self.beats);
    }

    pub(crate) fn advance(&self) {
        count(&self.advances);
    }

    pub(crate) fn sleeps(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::Relaxed);
    }
}

/// Adds one. Only the core's thread writes, so no atomic addition is needed.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Guards the core's thread until it is dropped.
pub struct Guard {
    pulse: Arc<Pulse>,
    supervisor: Option<Arc<Supervisor>>,
}

impl Guard {
    pub(crate) fn start(pulse: Arc<Pulse>, words: &Words) -> std::io::Result<Guard> {
        let (say, watched) = (words.from_elsewhere(), Arc::clone(&pulse));
        // A daemon in the background is not what a supervisor of its parent waits for.
        let supervisor = words.is_foreground().then(Supervisor::of_environment).flatten();
        let supervisor = supervisor.map(Arc::new);
        let mut signs = SignsOfLife::to(supervisor.clone());
        let work = move || {
            let give_up = || std::process::exit(GAVE_UP);
            watch(&watched, &say, BUSY, CLOSING, &mut signs, give_up);
        };
        thread::Builder::new().name("guard".into()).spawn(work)?;
        Ok(Guard { pulse, supervisor })
    }

    /// Reports that the volume is being closed from now on.
    pub fn closing(&self) {
        self.pulse.closing.store(true, Ordering::Relaxed);
        if let Some(supervisor) = &self.supervisor {
            supervisor.stopping();
        }
    }
}

/// What a supervisor hears while the core is alive.
struct SignsOfLife {
    supervisor: Option<Arc<Supervisor>>,
    since: Duration,
}

impl SignsOfLife {
    fn to(supervisor: Option<Arc<Supervisor>>) -> SignsOfLife {
        SignsOfLife { supervisor, since: Duration::MAX }
    }

    /// The core was alive at this observation, `look` after the one before.
    fn seen(&mut self, look: Duration) {
        let Some(supervisor) = &self.supervisor else { return };
        let Some(interval) = supervisor.interval() else { return };
        self.since = self.since.saturating_add(look);
        if self.since >= interval {
            supervisor.alive();
            self.since = Duration::ZERO;
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pulse.over.store(true, Ordering::Relaxed);
    }
}

#[allow(clippy::disallowed_methods)] // Its own thread, which has nothing to do but wait.
fn watch(
    pulse: &Pulse,
    say: &dyn Fn(Grade, &str),
    busy: Duration,
    closing: Duration,
    signs: &mut SignsOfLife,
    give_up: impl Fn(),
) {
    let look = LOOK.min(busy / 4);
    let mut observed = Observed::of(pulse);
    while !pulse.over.load(Ordering::Relaxed) {
        thread::sleep(look);
        if observed.renew(pulse, look) {
            signs.seen(look);
        }
        let why = if observed.same > busy {
            format!("the daemon has heard nobody for {} s", busy.as_secs())
        } else if observed.closes > closing {
            format!("closing has not come further for {} s", closing.as_secs())
        } else {
            continue;
        };
        let text = format!(
            "{why}: it gives up, which is a bug or a device that does not answer; what was \
             synced is on the device, and the next mount recovers the volume"
        );
        say(Grade::Error, &text);
        return give_up();
    }
}

/// What was observed. Time is counted in observations: a process that is stopped and continued has not
/// computed meanwhile.
struct Observed {
    beats: u64,
    advances: u64,
    /// For how long the core has not looked for events.
    same: Duration,
    /// For how long closing has not advanced.
    closes: Duration,
}

impl Observed {
    fn of(pulse: &Pulse) -> Observed {
        let [beats, advances] = [&pulse.beats, &pulse.advances].map(|n| n.load(Ordering::Relaxed));
        Observed { beats, advances, same: Duration::ZERO, closes: Duration::ZERO }
    }

    /// Observes once more, `look` after the time before. True if the core is alive.
    fn renew(&mut self, pulse: &Pulse, look: Duration) -> bool {
        let now = Observed::of(pulse);
        let alive = now.beats != self.beats || pulse.asleep.load(Ordering::Relaxed);
        let closing = pulse.closing.load(Ordering::Relaxed) && now.advances == self.advances;
        self.same = if alive { Duration::ZERO } else { self.same + look };
        self.closes = if closing { self.closes + look } else { Duration::ZERO };
        (self.beats, self.advances) = (now.beats, now.advances);
        alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const SHORT: Duration = Duration::from_millis(80);

    fn watched(pulse: &Pulse) -> Vec<String> {
        let said = RefCell::new(Vec::new());
        let say = |_: Grade, text: &str| said.borrow_mut().push(text.to_string());
        let mut signs = SignsOfLife::to(None);
        let give_up = || said.borrow_mut().push("gave up".into());
        watch(pulse, &say, SHORT, SHORT, &mut signs, give_up);
        said.into_inner()
    }

    #[test]
    fn a_core_that_computes_without_end_is_ended() {
        let said = watched(&Pulse::default());
        assert!(said[0].contains("has heard nobody") && said[1] == "gave up", "{said:?}");
    }

    #[test]
    fn closing_lasts_only_from_its_last_advance() {
        let pulse = Pulse::default();
        pulse.sleeps(true);
        pulse.closing.store(true, Ordering::Relaxed);
        let mut observed = Observed::of(&pulse);
        for _ in 0..1000 {
            observed.renew(&pulse, SHORT);
            assert!(observed.closes <= SHORT, "{:?}", observed.closes);
            pulse.advance();
        }
        observed.renew(&pulse, SHORT);
        observed.renew(&pulse, SHORT);
        observed.renew(&pulse, SHORT);
        assert_eq!(observed.closes, SHORT * 2, "from the second observation after the advance");
    }

    #[test]
    fn closing_without_end_is_ended_and_sleeping_is_not() {
        let pulse = Pulse::default();
        pulse.sleeps(true);
        pulse.closing.store(true, Ordering::Relaxed);
        let said = watched(&pulse);
        assert!(
            said[0].contains("closing has not come further") && said[1] == "gave up",
            "{said:?}"
        );
        pulse.over.store(true, Ordering::Relaxed);
        assert!(watched(&pulse).is_empty());
    }
}

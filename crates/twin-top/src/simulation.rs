//! A simulated run, watched: its log at equal distances of simulated time, or at each disk access.
//!
//! Contract: pictures depend on nothing but the arguments. The time for which each is shown, or a key
//! that asks for the next, changes when they come and not what they show.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use twin_cli::say;
use twin_disk::{IoKind, Origin};
use twin_host::real_clock;
use twin_lab::segment_map::Look;
use twin_lab::{Config, Figures, Status, Watcher, Workload, World, simulate_watched};
use twin_rt::{Nanos, SECS, Time};
use twin_sim::Served;
use twin_trace::replay::Pace;

use crate::screen::Screen;
use crate::wait_until;

/// Pictures in a real second, of a run that is slowed down.
const PICTURES_PER_S: f64 = 10.0;
/// Simulated seconds between pictures, of one that is not.
const EVERY_S: f64 = 0.1;
/// Bytes written to the log from which on a write cost means something.
const LATELY_BYTES: u64 = 1 << 20;

/// How a run is shown.
pub struct Simulated {
    /// Simulated seconds in a real one; none for as fast as can be.
    pub slow: Option<f64>,
    /// Simulated seconds between pictures; by default a few in a real second.
    pub every: Option<f64>,
    /// A picture for each disk access, when it begins.
    pub accesses: bool,
    /// The next picture comes when somebody asks for it.
    pub by_hand: bool,
    /// The most pictures that are shown.
    pub count: Option<u64>,
}

impl Simulated {
    /// Runs a workload on a configuration that has a log, and shows it. `None` if it was ended before its end.
    ///
    /// # Errors
    /// If the run fails, which has `place` before it, or standard input or output.
    pub fn show(
        &self,
        config: &Config,
        workload: &Workload,
        pace: Pace,
        place: &str,
        screen: Screen,
    ) -> Result<Option<Figures>, String> {
        let show = Rc::new(RefCell::new(Show::new(self, screen)));
        let figures = simulate_watched(config, workload, pace, show.clone());
        if let Some(failed) = show.borrow_mut().failed.take() {
            return Err(failed);
        }
        figures.map_err(|error| format!("{place}: {error}"))
    }
}

/// Who watches, and shows it.
struct Show {
    screen: Screen,
    clock: Box<dyn Fn() -> f64>,
    /// Simulated seconds in a real one; none for as fast as can be.
    slow: Option<f64>,
    accesses: bool,
    by_hand: bool,
    /// Pictures that are still wanted.
    left: Option<u64>,
    /// By hand: pictures to show before asking again.
    ahead: u64,
    begun: Time,
    /// With pictures at equal distances: the distance, and when the next is due.
    every: Nanos,
    next: Time,
    /// Requests that the disk turned to since the last look.
    served: Vec<Served>,
    before: Option<Status>,
    failed: Option<String>,
}

impl Show {
    fn new(args: &Simulated, screen: Screen) -> Show {
        let every_s = args.every.or(args.slow.map(|slow| slow / PICTURES_PER_S)).unwrap_or(EVERY_S);
        Show {
            screen,
            clock: Box::new(real_clock()),
            slow: args.slow,
            accesses: args.accesses,
            by_hand: args.by_hand,
            left: args.count,
            ahead: 0,
            begun: Time(0),
            every: ((every_s * SECS as f64) as Nanos).max(1),
            next: Time(0),
            served: Vec::new(),
            before: None,
            failed: None,
        }
    }

    /// Shows the log as it is at `at`, in its turn; `access`: what the disk turns to.
    fn picture(&mut self, world: &dyn World, at: Time, access: Option<&Served>) -> ControlFlow<()> {
        if self.left == Some(0) {
            return ControlFlow::Break(());
        }
        let Some(mut status) = world.status() else { return ControlFlow::Continue(()) };
        // Nothing has happened since: it has only become later.
        status.idle_ns = status.idle_ns.map(|ns| ns + at.since(world.now()));
        status.at_ns = at.0;
        let at_s = at.since(self.begun) as f64 / SECS as f64;
        let place =
            access.and_then(|served| world.segment_at(served.at).filter(|_| served.len > 0));
        let look =
            Look { marked: place.map(|(segment, _)| segment as usize), ..self.screen.look() };
        let before = self.before.get_or_insert_with(|| status.clone());
        let access = access.map_or(String::new(), |served| format!(": {}", told(served, place)));
        let mut text = format!("at {at_s:.6} s{access}\n");
        text += &status.frame(before, look);
        // What was written lately: since a picture that is far enough back to tell.
        if status.log_bytes - before.log_bytes >= LATELY_BYTES {
            self.before = Some(status);
        }
        if let Some(slow) = self.slow {
            wait_until(&self.clock, at_s / slow);
        }
        let shown = self.screen.show(&text).and_then(|()| self.ask());
        self.left = self.left.map(|left| left - 1);
        match shown {
            Ok(true) if self.left != Some(0) => ControlFlow::Continue(()),
            Ok(_) => ControlFlow::Break(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// By hand: waits for a line. False if no more is wanted.
    fn ask(&mut self) -> Result<bool, String> {
        if !self.by_hand {
            return Ok(true);
        }
        if self.ahead > 1 {
            self.ahead -= 1;
            return Ok(true);
        }
        say("Enter: the next; a number: so many; q: end")?;
        let mut line = String::new();
        let read =
            std::io::stdin().read_line(&mut line).map_err(|e| format!("standard input: {e}"))?;
        self.ahead = line.trim().parse().unwrap_or(1);
        Ok(read > 0 && line.trim() != "q")
    }
}

impl Watcher for Show {
    fn begin(&mut self, world: &dyn World) {
        self.begun = world.now();
        self.next = self.begun + self.every;
    }

    fn served(&mut self, served: &Served) {
        if self.accesses {
            self.served.push(*served);
        }
    }

    fn look(&mut self, world: &dyn World, next: Time) -> ControlFlow<()> {
        if self.accesses {
            for served in std::mem::take(&mut self.served) {
                self.picture(world, served.begun, Some(&served))?;
            }
            return ControlFlow::Continue(());
        }
        while self.next <= next {
            // Of a pause that nobody is to sit through, the end is enough.
            if self.slow.is_none() {
                self.next = self.next + next.since(self.next) / self.every * self.every;
            }
            self.picture(world, self.next, None)?;
            self.next += self.every;
        }
        ControlFlow::Continue(())
    }

    fn end(&mut self, world: &dyn World) {
        let _ = self.picture(world, world.now(), None);
    }
}

/// A disk access in words: what, for whom, where, and what its time is spent on.
fn told(served: &Served, place: Option<(u32, u64)>) -> String {
    let what = match served.kind {
        IoKind::Read => "reads",
        IoKind::Write => "writes",
        IoKind::Flush => "flushes its cache",
        IoKind::Discard => "discards",
    };
    let whose = match served.origin {
        Origin::User => "a user",
        Origin::WriteBack => "write-back",
        Origin::ReadAhead => "read-ahead",
        Origin::Cleaner => "the cleaner",
        Origin::Checkpoint => "a checkpoint",
        Origin::Recovery => "recovery",
    };
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let amount = match (served.len, place) {
        (0, _) => String::new(),
        (len, Some((segment, offset))) => {
            format!(" {:.1} KiB at segment {segment} + {:.1} KiB", kib(len), kib(offset))
        }
        (len, None) => format!(" {:.1} KiB at byte {}", kib(len), served.at),
    };
    let ms = |ns: Nanos| ns as f64 / 1e6;
    let own = served.parts.named().into_iter().filter(|(name, ns)| *name != "queue" && *ns > 0);
    let parts: Vec<String> = own.map(|(name, ns)| format!("{name} {:.2}", ms(ns))).collect();
    format!(
        "the disk {what}{amount} for {whose}\n  after {:.2} ms in the queue, in {:.2} ms: {}",
        ms(served.parts.queue_ns),
        ms(served.done - served.begun),
        if parts.is_empty() { "-".into() } else { parts.join(", ") }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_sim::TimeBreakdown;

    #[test]
    fn an_access_is_told_with_its_place_and_time() {
        let (queue_ns, seek_ns, transfer_ns) = (20_000, 3_000_000, 1_500_000);
        let parts = TimeBreakdown { queue_ns, seek_ns, transfer_ns, ..TimeBreakdown::default() };
        let (begun, done) = (Time(7), Time(4_500_007));
        let (kind, origin) = (IoKind::Read, Origin::Cleaner);
        let (waiting, cylinders) = (0, None);
        let at = 99 << 10;
        let served = Served { kind, at, len: 4096, origin, begun, done, parts, waiting, cylinders };
        assert_eq!(
            told(&served, Some((3, 2048))),
            "the disk reads 4.0 KiB at segment 3 + 2.0 KiB for the cleaner\n  after 0.02 ms in the \
             queue, in 4.50 ms: seek 3.00, transfer 1.50"
        );
        assert!(told(&served, None).contains("at byte 101376 for"));
        let flush =
            Served { kind: IoKind::Flush, len: 0, parts: TimeBreakdown::default(), ..served };
        assert!(told(&flush, None).starts_with("the disk flushes its cache for the cleaner\n"));
    }
}

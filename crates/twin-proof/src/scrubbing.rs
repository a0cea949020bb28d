//! Scrubs beside clients at work: what moves, dies, is overwritten or waits in a journal while a scrub looks
//! at it is no flaw, and clients get the same answers as without it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_fs::scrub::{Scrub, ScrubHow, ScrubPhase};
use twin_rt::{SECS, Time};

use super::{
    AnyWorld, Failure, History, Place, Scenario, Subject, Timing, drive, generator, prepare_any,
};

/// What scrubs beside clients came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Scrubs that looked at everything.
    pub scrubs: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// What they left out because it was being written.
    pub skipped: u64,
    /// Requests of clients.
    pub requests: u64,
}

impl std::ops::AddAssign for Scrubbed {
    fn add_assign(&mut self, other: Scrubbed) {
        self.scrubs += other.scrubs;
        self.read_bytes += other.read_bytes;
        self.skipped += other.skipped;
        self.requests += other.requests;
    }
}

/// Runs the scenario's clients beside one scrub after the other, and a last scrub when they have ended.
///
/// # Errors
/// A flaw, since there is none; or a wrong answer of the volume.
pub fn scrubbed<L: Subject>(scenario: &Scenario) -> Result<Scrubbed, Failure> {
    run::<L>(scenario).map_err(|what| Failure { kind: "scrub", scenario: scenario.clone(), what })
}

fn run<L: Subject>(scenario: &Scenario) -> Result<Scrubbed, String> {
    let (platter, model) = prepare_any::<L>(scenario)?;
    let mut world = AnyWorld::<L>::new(scenario, platter, Timing::Jitter, Time(SECS));
    world.open()?;
    let mut history = History::new(scenario, &model);
    let (sums, ends) = (Rc::new(Cell::new(Scrubbed::default())), Rc::new(Cell::new(false)));
    let wrong = Rc::new(RefCell::new(Vec::new()));
    let (its, stops, wrongs) = (Rc::clone(&sums), Rc::clone(&ends), Rc::clone(&wrong));
    let volume = world.volume().volume.clone();
    let scrubbing = world.rt.spawn("scrubs", async move {
        loop {
            let is_last = stops.get();
            let scrub = Rc::new(Scrub::default());
            let done = volume.scrub(&scrub, ScrubHow::default()).await;
            let figures = scrub.figures();
            let mut sum = its.get();
            sum += Scrubbed {
                scrubs: u64::from(figures.phase == ScrubPhase::Complete),
                read_bytes: figures.read_bytes,
                skipped: figures.skipped,
                requests: 0,
            };
            its.set(sum);
            let mut wrong = wrongs.borrow_mut();
            wrong.extend(scrub.flaws().into_iter().map(|flaw| format!("{flaw:?}")));
            wrong.extend(done.err().map(|error| error.to_string()));
            if is_last || !wrong.is_empty() {
                return;
            }
        }
    });
    let (journal, _) = drive(scenario, &world, generator(scenario)?, scenario.ops, None)?;
    ends.set(true);
    world.wait("the last scrub", scrubbing)?;
    if let Some(what) = wrong.borrow().first() {
        return Err(format!("a scrub of a healthy volume: {what}"));
    }
    history.follow(&journal)?;
    let tree = world.dump()?;
    if let Place::Wrong(what) = history.find(&tree, history.len() - 1) {
        return Err(format!("after the scrubs: {what}"));
    }
    world.close()?;
    Ok(Scrubbed { requests: journal.order.len() as u64, ..sums.get() })
}

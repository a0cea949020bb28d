//! What a policy must not do, and how it is found out.
//!
//! Contract: each check runs the policy as a stage does, under guard, on a part of the first public input.
//!
//! - The future: what follows a beginning is exchanged. Decisions in the beginning must be the same.
//! - The trace by heart: blocks get other numbers, and a foreign block is accessed now and then. Misses must not rise
//!   by more than that explains.
//! - Long calls: each call of a hook is timed by the processor time of its thread.
//!
//! That answers make sense, the guard finds in every run; that runs repeat themselves and cost what they may, the
//! arena. Values that only a run knows (what a policy reads from files, or does on other threads) are out of reach.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use twin_cache::Capacity;
use twin_cache::study::{Blocks, Study};
use twin_clean::placement::PlacementEntry;
use twin_clean::victim::VictimEntry;
use twin_clean::volume::study::Source;
use twin_clean::volume::{Volume, VolumeGeometry};
use twin_lab::{Watcher, Workload, World, simulate_watched};
use twin_rt::{Nanos, Rng, Time};
use twin_settings::outside;
use twin_sim::Served;
use twin_studies::caches::PolicyEntry;
use twin_trace::Verb;

use crate::contender::Contender;
use crate::guard::{self, Decision, Notes, Seen, Watch};
use crate::runs::{Case, Ready, run_of};

/// Accesses that are looked at.
const ACCESSES: usize = 200_000;
/// Accesses whose calls are timed.
const TIMED: usize = 20_000;
/// One access in this number is to a foreign block.
const FOREIGN: usize = 1000;
/// How much misses may rise in a trace with other names. Sketches of hashes differ by a percent or two.
const RISE: f64 = 1.05;
/// Misses of which a rise tells nothing.
const FEW: u64 = 200;
/// Operations before the exchanged part that are not compared: those of other clients may have begun.
const MARGIN: u64 = 256;

/// Why a policy gets nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was checked, in a word that programs may go by.
    pub check: &'static str,
    /// What was found.
    pub words: String,
}

impl Refusal {
    pub(crate) fn new(check: &'static str, words: impl Into<String>) -> Refusal {
        Refusal { check, words: words.into() }
    }

    /// A fault that a run ended with.
    pub(crate) fn fault(words: String) -> Refusal {
        Refusal::new("answers", words)
    }
}

/// The checks of a policy on a case. Returns the time of the longest call, where calls can be timed.
pub(crate) fn probe(contender: Contender, case: &Case) -> Result<Option<Nanos>, Refusal> {
    match (&case.ready, contender) {
        (Ready::Cache(accesses, ..), Contender::Replacement(entry)) => {
            let stream = accesses.first(ACCESSES);
            let all = *stream.iter().max().unwrap_or(&0) + 1;
            foresight(&stream, "access", &mut |stream| {
                on_cache(entry, stream, all, TRAIL).map(|r| r.0.trail)
            })?;
            by_heart(entry, &stream, all)?;
            let timed = &stream[..stream.len().min(TIMED)];
            let (notes, _) =
                on_cache(entry, timed, all, Watch { timed: true, ..Watch::default() })?;
            Ok(Some(notes.longest_call_ns))
        }
        (Ready::Volume(geometry, source, placement, seed), Contender::Victim(entry)) => {
            let stream = writes(source, *geometry, *seed);
            let run = |stream: &[u32], watch| {
                on_volume(entry, placement, (*geometry, *seed), stream, watch)
            };
            foresight(&stream, "write", &mut |stream| run(stream, TRAIL).map(|notes| notes.trail))?;
            let timed = Watch { timed: true, ..Watch::default() };
            Ok(Some(run(&stream, timed)?.longest_call_ns))
        }
        (Ready::Run { config, pace, workload, seed }, _) => {
            let count = operations(workload);
            let run = |part: &Workload, until| {
                let run = run_of(contender, config, *seed).map_err(Refusal::fault)?;
                requests(run, part, *pace, until)
            };
            same_requests(workload, count, &run)?;
            Ok(None)
        }
        _ => Ok(None),
    }
}

const TRAIL: Watch = Watch { trail: true, timed: false, renamed_by: 0 };

/// The decisions of a run.
type Trail = Result<Vec<Decision>, Refusal>;

/// Exchanges the second half of a stream and compares the decisions in the first.
pub(crate) fn foresight(
    stream: &[u32],
    what: &str,
    decisions: &mut dyn FnMut(&[u32]) -> Trail,
) -> Result<(), Refusal> {
    let cut = stream.len() / 2;
    let mut other = stream.to_vec();
    // A shuffled rest has the same blocks, so that whoever made room for them all has enough.
    Rng::stream(cut as u64, "arena: what follows").shuffle(&mut other[cut..]);
    let here = |all: Vec<Decision>| -> Vec<Decision> {
        all.into_iter().take_while(|(at, _)| *at <= cut as u64).collect()
    };
    let (first, second) = (here(decisions(stream)?), here(decisions(&other)?));
    let differs = first.iter().zip(&second).find(|(one, other)| one != other);
    let at = match differs {
        Some((one, other)) => Some(one.0.min(other.0)),
        None if first.len() != second.len() => {
            let longer = if first.len() > second.len() { &first } else { &second };
            longer.get(first.len().min(second.len())).map(|(at, _)| *at)
        }
        None => None,
    };
    match at {
        None => Ok(()),
        Some(at) => Err(Refusal::new(
            "future",
            format!(
                "it reads the future: at {what} {at} it decides otherwise if what comes after {what} {cut} is another"
            ),
        )),
    }
}

/// A run on a cache of a tenth of the blocks: what the guard has seen, and the misses.
fn on_cache(
    entry: &'static PolicyEntry,
    stream: &[u32],
    blocks: u32,
    watch: Watch,
) -> Result<(Notes, u64), Refusal> {
    let seen = Seen::default();
    let capacity = Capacity::frames(u64::from(blocks / 10).max(8));
    let policy = guard::Guard::new(entry.name, entry.make(capacity), capacity, watch, seen.clone());
    let _ = outside::take_fault_of_run();
    // What is accessed beside the trace has numbers behind its blocks.
    let all = blocks + (stream.len() / FOREIGN) as u32 + 1;
    let mut study = Study::new(Box::new(policy), capacity, all, Blocks);
    match entry.needs_future() {
        true => {
            let next = twin_cache::study::next_accesses(stream, all);
            study.feed_with_future(stream.iter().copied().zip(next), &mut ());
        }
        false => study.feed(stream.iter().copied(), &mut ()),
    }
    let misses = study.misses();
    drop(study);
    match outside::take_fault_of_run() {
        Some(words) => Err(Refusal::fault(words)),
        None => Ok((seen.take(), misses)),
    }
}

/// Whether a policy knows a trace by heart: by its blocks, or by how far it is.
fn by_heart(entry: &'static PolicyEntry, stream: &[u32], blocks: u32) -> Result<(), Refusal> {
    let (_, plain) = on_cache(entry, stream, blocks, Watch::default())?;
    let mut other = Vec::with_capacity(stream.len() + stream.len() / FOREIGN + 1);
    let mut foreign = 0;
    for chunk in stream.chunks(FOREIGN) {
        other.push(blocks + foreign);
        foreign += 1;
        other.extend_from_slice(chunk);
    }
    let renamed = Watch { renamed_by: 1 << 33, ..Watch::default() };
    let (_, misses) = on_cache(entry, &other, blocks, renamed)?;
    // A foreign block is a miss, and pushes out one that may be missed for it.
    let misses = misses.saturating_sub(2 * u64::from(foreign));
    if plain >= FEW && misses as f64 > plain as f64 * RISE {
        return Err(Refusal::new(
            "by-heart",
            format!(
                "it knows this trace by heart: with other numbers of blocks and a foreign access now and then it has \
                 {misses} misses in place of {plain}"
            ),
        ));
    }
    Ok(())
}

/// The first writes to a volume, enough to clean it several times.
fn writes(source: &Source, geometry: VolumeGeometry, seed: u64) -> Vec<u32> {
    let most = (geometry.blocks as usize * 3).min(ACCESSES);
    match source {
        Source::Generated(workload, count) => {
            let mut writes = workload.start(geometry.blocks, seed);
            let mut all = vec![0; most.min(*count as usize)];
            writes.fill(&mut all);
            all
        }
        Source::Trace(trace) => {
            let written = trace.requests().iter().filter(|request| !request.is_trim);
            let blocks = written
                .flat_map(|request| request.first_block..request.first_block + request.blocks);
            blocks.take(most).collect()
        }
    }
}

/// A run on a bare volume.
fn on_volume(
    entry: &'static VictimEntry,
    placement: &'static PlacementEntry,
    (geometry, seed): (VolumeGeometry, u64),
    stream: &[u32],
    watch: Watch,
) -> Result<Notes, Refusal> {
    let seen = Seen::default();
    let setting = geometry.setting(seed);
    let _ = outside::take_fault_of_run();
    let victim = guard::guarded_victim(entry, &setting, watch, &seen);
    let mut volume = Volume::new(&geometry, placement.make(&setting), victim);
    stream.iter().for_each(|block| volume.write(*block));
    drop(volume);
    match outside::take_fault_of_run() {
        Some(words) => Err(Refusal::fault(words)),
        None => Ok(seen.take()),
    }
}

fn operations(workload: &Workload) -> u64 {
    let Ok(mut source) = workload.start() else { return 0 };
    let mut count = 0;
    while let Ok(Some(record)) = source.next_record() {
        count += u64::from(matches!(record, twin_trace::Record::Request { .. }));
    }
    count
}

/// A fingerprint of the requests to a disk until a number of operations have ended.
type Requests = Result<u64, Refusal>;

/// Cuts a workload off after a half, and compares what the disk was asked for before.
pub(crate) fn same_requests(
    workload: &Workload,
    operations: u64,
    run: &dyn Fn(&Workload, u64) -> Requests,
) -> Result<(), Refusal> {
    let half = operations / 2;
    let until = half.saturating_sub(MARGIN).max(half / 2);
    if until == 0 {
        return Ok(());
    }
    let part = Workload::Part(Box::new(workload.clone()), half);
    if run(workload, until)? == run(&part, until)? {
        return Ok(());
    }
    let words = format!(
        "it reads the future: what the disk is asked for up to operation {until} is another if the workload ends \
         after operation {half}"
    );
    Err(Refusal::new("future", words))
}

/// Runs a workload until a number of operations have ended.
pub(crate) fn requests(
    run: twin_lab::Run,
    workload: &Workload,
    pace: twin_trace::replay::Pace,
    until: u64,
) -> Requests {
    let watcher = Rc::new(RefCell::new(Fingerprint { until, ended: 0, digest: 0 }));
    let watching: Rc<RefCell<dyn Watcher>> = watcher.clone();
    let ran = simulate_watched(run, workload, pace, watching);
    ran.map_err(|error| Refusal::fault(error.to_string()))?;
    let digest = watcher.borrow().digest;
    Ok(digest)
}

/// Watches what a disk is asked for.
struct Fingerprint {
    until: u64,
    ended: u64,
    digest: u64,
}

impl Watcher for Fingerprint {
    fn served(&mut self, served: &Served) {
        if self.ended < self.until {
            for word in [served.begun.0, served.at, served.len] {
                self.digest =
                    (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
            }
        }
    }

    fn ended(&mut self, _: Verb, _: Nanos) {
        self.ended += 1;
    }

    fn look(&mut self, _: &dyn World, _: Time) -> ControlFlow<()> {
        if self.ended < self.until { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use twin_cache::flush::{
        self, DirtyView, FlushAdvice, FlushPolicy, FlushSpec, FlushState, Grain, Which,
    };
    use twin_cache::replacement;
    use twin_clean::victim::{self, Candidates, VictimPolicy, VictimSpec};
    use twin_clean::{placement, volume::workload};
    use twin_settings::RegistryEntry;
    use twin_trace::replay::Pace;

    use super::*;

    /// Accesses with reuse at several distances.
    fn stream() -> Vec<u32> {
        let mut rng = Rng::new(5);
        (0..12_000).map(|_| (rng.below(900) * rng.below(900) / 900) as u32).collect()
    }

    #[test]
    fn of_the_policies_of_the_program_only_those_that_know_the_future_are_refused() {
        let stream = stream();
        for entry in &replacement::REGISTRY {
            let found = foresight(&stream, "access", &mut |stream| {
                Ok(on_cache(entry, stream, 900, TRAIL)?.0.trail)
            });
            assert_eq!(found.is_err(), entry.needs_future(), "{}: {found:?}", entry.name);
            if !entry.needs_future() {
                assert_eq!(by_heart(entry, &stream, 900), Ok(()), "{}", entry.name);
            }
        }
    }

    /// What a cheat has learned of the run that it is in: how long it will be, or its end.
    type Learned = Arc<AtomicU64>;

    fn geometry() -> VolumeGeometry {
        VolumeGeometry { blocks: 400, segment_blocks: 10, garbage_share: 0.15, open_segments: 6 }
    }

    #[test]
    fn a_victim_policy_that_knows_what_comes_is_refused_and_those_of_the_program_are_not() {
        /// Prefers one end of the log or the other, by a number that it should not have.
        struct Cheat(Learned);
        impl VictimPolicy for Cheat {
            fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
                let numbers = candidates.iter().map(|(number, _)| number);
                if self.0.load(Ordering::Relaxed).is_multiple_of(2) {
                    numbers.min()
                } else {
                    numbers.max()
                }
            }
        }
        let workload = workload::parse("zipf").unwrap();
        let stream = writes(&Source::Generated(workload, 2000), geometry(), 1);
        let learned = Learned::default();
        let of_cheat = Arc::clone(&learned);
        let cheat: &'static VictimEntry = Box::leak(Box::new(RegistryEntry::new(
            "cheat",
            "",
            VictimSpec::from_outside("", move |_| Box::new(Cheat(Arc::clone(&of_cheat)))),
        )));
        let placement = placement::REGISTRY.get("none").unwrap();
        for entry in victim::REGISTRY.iter().chain([cheat]) {
            let found = foresight(&stream, "write", &mut |stream| {
                // The parity of the place of a write near the end: it is another after an exchange.
                let at = stream.iter().rposition(|block| *block == stream[0]).unwrap_or(0);
                learned.store(at as u64, Ordering::Relaxed);
                Ok(on_volume(entry, placement, (geometry(), 1), stream, TRAIL)?.trail)
            });
            assert_eq!(found.is_err(), entry.name == "cheat", "{}: {found:?}", entry.name);
        }
    }

    #[test]
    fn a_flush_policy_that_knows_when_the_end_comes_is_refused() {
        /// Writes nothing until half of what it knows to come has passed.
        struct Cheat(u64, Learned);
        impl FlushPolicy for Cheat {
            fn advise(&mut self, _: Time, _: &FlushState, _: &dyn DirtyView) -> FlushAdvice {
                self.0 += 1;
                match self.0 > self.1.load(Ordering::Relaxed) / 4 {
                    true => FlushAdvice::Write(Which::All),
                    false => FlushAdvice::Wait,
                }
            }
            fn start_bytes(&self, _: &FlushState) -> u64 {
                4096
            }
        }
        let learned = Learned::default();
        let of_cheat = Arc::clone(&learned);
        let make = move |_| -> Box<dyn FlushPolicy> { Box::new(Cheat(0, Arc::clone(&of_cheat))) };
        let spec = FlushSpec::from_outside(0, Grain::Everything, make);
        flush::REGISTRY.add("ends", "a cheat", spec).unwrap();
        let workload = Workload::Generated("zipf:file-bytes=2M,writes=1500".into(), 1);
        let count = operations(&workload);
        let check = |name: &str| {
            let contender = Contender::named(crate::task::Kind::Flush, name).unwrap();
            same_requests(&workload, count, &|part, until| {
                learned.store(operations(part), Ordering::Relaxed);
                let run = run_of(contender, "lfs:size=32M,cache=2M", 1).map_err(Refusal::fault)?;
                requests(run, part, Pace::Asap, until)
            })
        };
        assert!(count > 1000);
        assert_eq!(check("ends").unwrap_err().check, "future");
        assert_eq!(check(flush::REGISTRY.default_entry().name), Ok(()));
    }
}

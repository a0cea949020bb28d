//! The search through the states: which come first, which were looked at, and what is wrong with those that failed.
//!
//! Contract: whoever runs checks asks for a [`Trial`] at a time and tells its [`Outcome`]; several may be under way. A
//! content is tried once, and again only if more is acknowledged at it than before. The order is fixed by the history and
//! the seed: first what is certain alone, at every sync, then in turns every prefix, one part missing, one part alone,
//! torn blocks, and names without data, at last random sets. A search that ends early says what it has not looked at.

use std::sync::Arc;

use twin_rt::{FixedMap, Rng};

use crate::model::{PartId, Sort};
use crate::state::{Space, State, Tear};
use crate::tree::Tree;

mod explain;

pub use explain::{Class, Line, Mark};

/// The number of random states in a row that were known which ends the search.
const ALL_KNOWN: u32 = 2000;

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The most states that are tried.
    pub states: u64,
    /// The seed of what is chosen at random.
    pub seed: u64,
}

/// A state to be checked.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Its name.
    pub state: State,
    /// What is there.
    pub tree: Tree,
    /// What was acknowledged before.
    pub acked: Vec<String>,
    /// The event before which the power failed.
    pub moment: usize,
    digest: u64,
}

/// What a check says of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Passed,
    /// It is not.
    Failed {
        /// How the check ended.
        how: String,
        /// The end of what it wrote.
        said: String,
    },
}

/// What of a kind of states was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// The kind, in words.
    pub what: &'static str,
    /// How many there are; `None`: nobody counts them.
    pub all: Option<u64>,
    /// How many were looked at, those with known content included.
    pub looked_at: u64,
}

/// A state that failed.
#[derive(Clone, Debug)]
struct Failure {
    state: State,
    moment: usize,
    outcome: Outcome,
}

/// What a search has found so far.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Different contents that were tried.
    pub tried: u64,
    /// States that were looked at and whose content was known.
    pub known: u64,
    /// States that failed.
    pub failed: u64,
    /// The kinds of states.
    pub coverage: Vec<Coverage>,
    /// Why it ended before its time, if it did.
    pub cut: Option<String>,
}

/// A kind of states, in order.
struct Round {
    what: &'static str,
    all: Option<u64>,
    /// The distance between those that are looked at.
    step: u64,
    looked_at: u64,
    next: Box<dyn Iterator<Item = State> + Send>,
}

/// See the module.
pub struct Search {
    space: Arc<Space>,
    budget: Budget,
    rounds: Vec<Round>,
    turn: usize,
    /// How many labels were acknowledged when a content was tried.
    known: FixedMap<u64, usize>,
    findings: Findings,
    failures: Vec<Failure>,
    passed: Vec<State>,
    in_a_row: u32,
    /// Only states of a failure at the end are tried.
    at_end: bool,
}

/// A moment just before something becomes certain, or the end: what was done before, and not certain then.
#[derive(Clone, Copy)]
struct Epoch {
    event: usize,
    upto: PartId,
}

fn epochs(space: &Space) -> Vec<Epoch> {
    let mut events = space.certain.clone();
    events.push(space.history.events.len());
    events.sort_unstable();
    events.dedup();
    events.reverse();
    events.into_iter().map(|event| Epoch { event, upto: space.parts_before(event) }).collect()
}

/// The parts that may be missing just before this event.
fn loose(space: &Space, epoch: Epoch) -> Vec<PartId> {
    (0..epoch.upto).filter(|&part| space.certain[part as usize] >= epoch.event).collect()
}

/// A round over the loose parts of all epochs.
fn over_loose(
    space: &Arc<Space>,
    all: &Arc<Vec<Epoch>>,
    state: impl Fn(&Space, Epoch, PartId) -> State + Send + Clone + 'static,
) -> Box<dyn Iterator<Item = State> + Send> {
    let (space, all) = (Arc::clone(space), Arc::clone(all));
    let epochs = (0..all.len()).map(move |number| all[number]);
    Box::new(epochs.flat_map(move |epoch| {
        let (space, state) = (Arc::clone(&space), state.clone());
        loose(&space, epoch).into_iter().map(move |part| state(&space, epoch, part))
    }))
}

/// A round with some states for each epoch.
fn over_epochs(
    space: &Arc<Space>,
    all: &Arc<Vec<Epoch>>,
    states: impl Fn(&Space, Epoch) -> Vec<State> + Send + 'static,
) -> Box<dyn Iterator<Item = State> + Send> {
    let (space, all) = (Arc::clone(space), Arc::clone(all));
    let epochs = (0..all.len()).map(move |number| all[number]);
    Box::new(epochs.flat_map(move |epoch| states(&space, epoch)))
}

/// The state in which only what these parts need is there, beside what is certain.
fn only(space: &Space, epoch: Epoch, part: PartId) -> State {
    let there = space.needs(part);
    let missing = loose(space, epoch).into_iter().filter(|part| !there.contains(part));
    space.without(epoch.upto, missing)
}

fn without_sort(space: &Space, epoch: Epoch, gone: impl Fn(Sort) -> bool) -> State {
    let parts =
        loose(space, epoch).into_iter().filter(|&part| gone(space.parts[part as usize].sort));
    space.without(epoch.upto, parts)
}

fn random(
    space: &Arc<Space>,
    all: &Arc<Vec<Epoch>>,
    seed: u64,
) -> Box<dyn Iterator<Item = State> + Send> {
    let (space, all, mut rng) = (Arc::clone(space), Arc::clone(all), Rng::stream(seed, "crashlab"));
    Box::new(std::iter::repeat_with(move || {
        let epoch = *rng.pick(&all);
        let loose = loose(&space, epoch);
        // Few missing, half of them, or few there.
        let chance = *rng.pick(&[0.02, 0.1, 0.5, 0.9]);
        let mut missing: Vec<PartId> =
            loose.iter().copied().filter(|_| rng.chance(chance)).collect();
        if missing.is_empty() && !loose.is_empty() {
            missing.push(*rng.pick(&loose));
            missing.push(*rng.pick(&loose));
        }
        space.without(epoch.upto, missing)
    }))
}

fn rounds(space: &Arc<Space>, budget: Budget) -> Vec<Round> {
    let all = Arc::new(epochs(space));
    let of_loose: u64 = {
        let events: Vec<usize> = all.iter().rev().map(|epoch| epoch.event).collect();
        let epochs_of = |(part, &certain): (usize, &usize)| {
            let upto = events.partition_point(|&event| event <= certain);
            (upto - events.partition_point(|&event| event <= space.parts[part].event)) as u64
        };
        space.certain.iter().enumerate().map(epochs_of).sum()
    };
    let tears: Vec<(PartId, Tear)> = (0..space.len())
        .flat_map(|part| Tear::ALL.map(|tear| (part, tear)))
        .filter(|&(part, tear)| space.tears(part, tear))
        .collect();
    let count = |n: usize| Some(n as u64);
    let share = (budget.states / 4).max(1);
    let round = |what, all: Option<u64>, next| {
        let step = all.map_or(1, |all| all.div_ceil(share)).max(1);
        Round { what, all, step, looked_at: 0, next }
    };
    let prefixes = {
        let space = Arc::clone(space);
        (0..=space.len()).map(move |upto| space.whole(upto))
    };
    let torn = {
        let (space, tear_count) = (Arc::clone(space), tears.len());
        let torn = tears
            .into_iter()
            .map(move |(part, tear)| State { torn: Some((part, tear)), ..space.whole(part + 1) });
        (tear_count, torn)
    };
    let names = |space: &Space, epoch: Epoch| {
        vec![
            without_sort(space, epoch, |sort| sort == Sort::Data),
            without_sort(space, epoch, |sort| sort == Sort::Name),
            without_sort(space, epoch, |sort| sort == Sort::Size),
        ]
    };
    let least = |space: &Space, epoch: Epoch| vec![space.without(epoch.upto, loose(space, epoch))];
    vec![
        round(
            "only what is certain, at every sync",
            count(all.len()),
            over_epochs(space, &all, least),
        ),
        round(
            "one write or name missing",
            Some(of_loose),
            over_loose(space, &all, |space, epoch, part| space.without(epoch.upto, [part])),
        ),
        round("every prefix", count(space.parts.len() + 1), Box::new(prefixes)),
        round("a block torn between sectors", count(torn.0), Box::new(torn.1)),
        round("one write or name alone", Some(of_loose), over_loose(space, &all, only)),
        round(
            "names without data, data without names",
            count(3 * all.len()),
            over_epochs(space, &all, names),
        ),
        round("random sets of writes and names", None, random(space, &all, budget.seed)),
    ]
}

impl Search {
    /// A search through these states.
    pub fn new(space: Space, budget: Budget) -> Search {
        let space = Arc::new(space);
        let rounds = rounds(&space, budget);
        Search {
            space,
            budget,
            rounds,
            turn: 0,
            known: FixedMap::default(),
            findings: Findings::default(),
            failures: Vec::new(),
            passed: Vec::new(),
            in_a_row: 0,
            at_end: false,
        }
    }

    /// Leaves out states that a power failure before the end of the history leaves, and none at its end.
    pub fn only_at_the_end(&mut self) {
        self.at_end = true;
    }

    /// The states.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The state as a trial, whether or not its content is known.
    pub fn trial(&self, state: State) -> Option<Trial> {
        let moment = self.space.moment(&state)?;
        let tree = self.space.tree(&state);
        let acked = self.space.history.acked(moment);
        Some(Trial { digest: tree.digest(), state, tree, acked, moment })
    }

    /// The next state to be checked.
    pub fn next_trial(&mut self) -> Option<Trial> {
        while self.findings.tried < self.budget.states {
            let state = self.next_state()?;
            let Some(trial) = self.trial(state) else { continue };
            if self.at_end && trial.moment < self.space.history.events.len() {
                continue;
            }
            let acked = trial.acked.len();
            match self.known.get(&trial.digest) {
                Some(known) if *known >= acked => {
                    self.findings.known += 1;
                    self.in_a_row += 1;
                }
                _ => {
                    self.known.insert(trial.digest, acked);
                    self.findings.tried += 1;
                    self.in_a_row = 0;
                    return Some(trial);
                }
            }
        }
        let why = format!("{} states were allowed", self.budget.states);
        self.findings.cut.get_or_insert(why);
        None
    }

    /// The next state of the round whose turn it is: the first round comes wholly first and the random one last.
    fn next_state(&mut self) -> Option<State> {
        let last = self.rounds.len() - 1;
        if let Some(state) = self.rounds[0].take() {
            return Some(state);
        }
        for _ in 1..last {
            self.turn = self.turn % (last - 1) + 1;
            if let Some(state) = self.rounds[self.turn].take() {
                self.in_a_row = 0;
                return Some(state);
            }
        }
        if self.in_a_row >= ALL_KNOWN {
            return None;
        }
        // States that are impossible count too, so that the search ends where all are.
        self.in_a_row += 1;
        self.rounds[last].take()
    }

    /// Takes what the check said of a trial.
    pub fn judge(&mut self, trial: Trial, outcome: Outcome) {
        if outcome == Outcome::Passed {
            self.passed.push(trial.state);
            return;
        }
        self.findings.failed += 1;
        self.failures.push(Failure { state: trial.state, moment: trial.moment, outcome });
    }

    /// The number of states that were tried so far.
    pub fn tried(&self) -> u64 {
        self.findings.tried
    }

    /// At most `most` of the states that passed, from all over the search, and in an order whose every beginning is
    /// from all over it too: whoever runs out of time has not seen the prefixes alone.
    pub fn passed(&self, most: usize) -> Vec<State> {
        let step = self.passed.len().div_ceil(most.max(1)).max(1);
        let mut chosen: Vec<(usize, &State)> =
            self.passed.iter().step_by(step).enumerate().collect();
        chosen.sort_unstable_by_key(|(number, _)| number.reverse_bits());
        chosen.into_iter().map(|(_, state)| state.clone()).collect()
    }

    /// Says that the search ends before its time.
    pub fn cut(&mut self, why: String) {
        self.findings.cut = Some(why);
    }

    /// What was found so far.
    pub fn findings(&self) -> Findings {
        let coverage = self.rounds.iter().map(|round| Coverage {
            what: round.what,
            all: round.all,
            looked_at: round.looked_at,
        });
        Findings { coverage: coverage.collect(), ..self.findings.clone() }
    }

    /// What is wrong with one state.
    pub fn class_of(&self, trial: &Trial, outcome: Outcome) -> Class {
        explain::class_of(self, trial, outcome)
    }

    /// What is wrong, in classes of states that miss the same: each with the shortest history that fails. `check` is
    /// called for smaller states, `most` times at most.
    pub fn classes(&self, most: u64, check: &mut dyn FnMut(&Trial) -> Outcome) -> Vec<Class> {
        explain::classes(self, most, check)
    }
}

impl Round {
    fn take(&mut self) -> Option<State> {
        for _ in 1..self.step {
            self.next.next()?;
        }
        let state = self.next.next()?;
        self.looked_at += 1;
        Some(state)
    }
}

//! What is wrong with the states that failed: the least that must be missing, and who lacks which sync.
//!
//! Contract: a failing state is explained by a class if it misses all that the class misses. One that is not is shrunk:
//! parts are put back as long as the check still fails. States whose shortest histories miss the same kind of thing in
//! files of the same kind of name are one class.

use std::collections::BTreeSet;

use twin_rt::FixedMap;

use super::{Failure, Outcome, Search, Trial};
use crate::history::{Event, What};
use crate::model::{PartId, Sort};
use crate::state::State;
use crate::tree::DEVICE;

/// Classes beyond these are not looked for.
const MOST_CLASSES: usize = 12;
/// The number of single parts that are tried before sets of them.
const SINGLES: usize = 24;

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It is there.
    There,
    /// It is not.
    Lost,
    /// Only some of it is.
    InPart,
    /// It is a sync.
    Sync,
    /// It is an acknowledgement.
    Acked,
}

/// An event of a history that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The number of the event.
    pub event: usize,
    /// What became of it.
    pub mark: Mark,
    /// The event in words.
    pub words: String,
}

/// States that fail for one reason.
#[derive(Clone, Debug)]
pub struct Class {
    /// The smallest of them.
    pub state: State,
    /// The state in which a check was recovering when the power failed again.
    pub after: Option<State>,
    /// The event before which the power failed there.
    pub moment: usize,
    /// What was acknowledged before.
    pub acked: Vec<String>,
    /// What is missing, in words.
    pub missing: Vec<String>,
    /// Why it is missing: the sync that is not there.
    pub why: String,
    /// The events since the last sync before what is missing.
    pub lines: Vec<Line>,
    /// How the check ended.
    pub how: String,
    /// What it wrote.
    pub said: String,
    /// How many states failed for this reason.
    pub states: u64,
    /// Whether it was made as small as possible.
    pub is_least: bool,
}

/// What of a class decides whether a state belongs to it.
struct Known {
    absent: BTreeSet<PartId>,
    is_torn: bool,
    signature: String,
    class: Class,
}

pub(super) fn classes(
    search: &Search,
    most: u64,
    check: &mut dyn FnMut(&Trial) -> Outcome,
) -> Vec<Class> {
    let mut shrink = Shrink { search, check, left: most, seen: FixedMap::default() };
    let mut known: Vec<Known> = Vec::new();
    // Those that miss least come first: they explain the others.
    let mut failures: Vec<&Failure> = search.failures.iter().collect();
    let size = |failure: &&Failure| {
        let absent = search.space.absent(&failure.state, failure.moment).len();
        (absent, failure.state.torn.is_some())
    };
    failures.sort_by_cached_key(size);
    for failure in failures {
        let absent = search.space.absent(&failure.state, failure.moment);
        let explains = |known: &&mut Known| !known.is_torn && known.absent.is_subset(&absent);
        if let Some(found) = known.iter_mut().find(explains) {
            found.class.states += 1;
            continue;
        }
        let (least, outcome) = shrink.least(failure);
        let is_least = shrink.left > 0;
        let moment = search.space.moment(&least).unwrap_or(failure.moment);
        let absent = search.space.absent(&least, moment);
        let signature = signature(search, &least, &absent);
        if let Some(found) = known.iter_mut().find(|known| known.signature == signature) {
            found.class.states += 1;
        } else if known.len() < MOST_CLASSES {
            let class = class(search, &least, moment, &absent, outcome, is_least);
            known.push(Known { absent, is_torn: least.torn.is_some(), signature, class });
        }
    }
    let mut classes: Vec<Class> = known.into_iter().map(|known| known.class).collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.states));
    classes
}

pub(super) fn class_of(search: &Search, trial: &Trial, outcome: Outcome) -> Class {
    let absent = search.space.absent(&trial.state, trial.moment);
    class(search, &trial.state, trial.moment, &absent, outcome, false)
}

struct Shrink<'a, 'b> {
    search: &'a Search,
    check: &'b mut dyn FnMut(&Trial) -> Outcome,
    left: u64,
    /// What the check said of contents, by digest and number of labels.
    seen: FixedMap<(u64, usize), Outcome>,
}

impl Class {
    /// The name of its state; of a second failure with that of the first before it.
    pub fn state_name(&self) -> String {
        match &self.after {
            Some(first) => format!("{first}/{}", self.state),
            None => self.state.to_string(),
        }
    }
}

impl Shrink<'_, '_> {
    /// What the check says of a state; nothing if it is impossible or there is no time left.
    fn ask(&mut self, state: &State) -> Option<Outcome> {
        let trial = self.search.trial(state.clone())?;
        let key = (trial.digest, trial.acked.len());
        if let Some(known) = self.seen.get(&key) {
            return Some(known.clone());
        }
        self.left = self.left.checked_sub(1)?;
        let outcome = (self.check)(&trial);
        self.seen.insert(key, outcome.clone());
        Some(outcome)
    }

    fn fails(&mut self, state: &State) -> Option<Outcome> {
        self.ask(state).filter(|outcome| *outcome != Outcome::Passed)
    }

    /// The smallest state that still fails.
    fn least(&mut self, failure: &Failure) -> (State, Outcome) {
        let space = self.search.space();
        let upto = space.parts_before(failure.moment).max(failure.state.upto);
        let mut best = (failure.state.clone(), failure.outcome.clone());
        if let Some((part, tear)) = failure.state.torn {
            let alone = State { torn: Some((part, tear)), ..space.whole(part + 1) };
            let at_end = State { torn: Some((part, tear)), ..space.whole(upto) };
            for state in [at_end, alone] {
                if let Some(outcome) = self.fails(&state) {
                    return (state, outcome);
                }
            }
            return best;
        }
        let absent: Vec<PartId> =
            space.absent(&failure.state, failure.moment).into_iter().collect();
        let mut singles: Vec<State> =
            absent.iter().map(|&part| space.without(upto, [part])).collect();
        singles.sort_by_key(|state| state.missing.len());
        for state in singles.into_iter().take(SINGLES) {
            if state.missing.len() >= absent.len() {
                break;
            }
            if let Some(outcome) = self.fails(&state) {
                return (state, outcome);
            }
        }
        // No part alone: halves, quarters and so on are put back.
        let mut kept = absent;
        let mut pieces = 2;
        while kept.len() > 1 && pieces <= kept.len() && self.left > 0 {
            let size = kept.len().div_ceil(pieces);
            let smaller = kept.chunks(size).enumerate().find_map(|(number, _)| {
                let rest = kept.chunks(size).enumerate().filter(|(other, _)| *other != number);
                let rest: Vec<PartId> = rest.flat_map(|(_, chunk)| chunk.iter().copied()).collect();
                let state = space.without(upto, rest.iter().copied());
                let is_smaller = state.missing.len() < kept.len();
                let outcome = if is_smaller { self.fails(&state) } else { None };
                outcome.map(|outcome| (state, outcome))
            });
            match smaller {
                Some((state, outcome)) => {
                    kept = state.missing.iter().copied().collect();
                    best = (state, outcome);
                    pieces = 2.max(pieces - 1);
                }
                None if size == 1 => break,
                None => pieces = (pieces * 2).min(kept.len()),
            }
        }
        best
    }
}

/// A path without what changes from run to run: words with digits become stars.
fn pattern(path: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for letter in path.chars().chain(['/']) {
        if letter.is_alphanumeric() {
            word.push(letter);
            continue;
        }
        let hex = word.len() >= 4 && word.chars().all(|letter| letter.is_ascii_hexdigit());
        // As the names of temporary files are made: letters of both kinds at random.
        let mixed =
            word.chars().any(char::is_lowercase) && word.chars().skip(1).any(char::is_uppercase);
        let varies = hex || mixed || word.chars().any(|letter| letter.is_ascii_digit());
        out += if varies { "*" } else { &word };
        out.push(letter);
        word.clear();
    }
    out
}

fn signature(search: &Search, state: &State, absent: &BTreeSet<PartId>) -> String {
    let space = search.space();
    let Some(&first) = absent.first() else { return "nothing".into() };
    let part = &space.parts[first as usize];
    let event = &space.history.events[part.event];
    let verb = event.words().split(' ').next().unwrap_or_default().to_owned();
    format!("{:?} {verb} {} {}", part.sort, pattern(&event.path), state.torn.is_some())
}

/// What of an event is missing, in words.
fn missing_words(search: &Search, state: &State, part: PartId) -> String {
    let space = search.space();
    let found = &space.parts[part as usize];
    let event = &space.history.events[found.event];
    let words = match event.what.id().map(|id| space.history.last_path(id)) {
        Some(last) if !last.is_empty() && last != event.path => {
            format!("{}, later {last}", event.words())
        }
        _ => event.words(),
    };
    match (found.sort, state.torn) {
        (_, Some((torn, _))) if torn == part => format!("some sectors of: {words}"),
        (Sort::Data, _) => format!("data: {words}"),
        (Sort::Size, _) => format!("length: {words}"),
        (Sort::Name, _) => format!("name: {words}"),
        (Sort::Attr, _) => format!("attributes: {words}"),
    }
}

/// The directory of a path, as one would sync it.
fn directory(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((dir, _)) => format!("the directory {dir}"),
        None => "the volume's directory".into(),
    }
}

/// Which sync is not there.
fn why(search: &Search, state: &State, moment: usize, absent: &BTreeSet<PartId>) -> String {
    let space = search.space();
    if space.on_device {
        return why_on_device(search, moment, absent);
    }
    let Some(&first) = absent.first() else {
        return "nothing is missing: the check fails in the middle of the run".into();
    };
    let part = &space.parts[first as usize];
    let event = &space.history.events[part.event];
    let what = match part.sort {
        Sort::Name => directory(&event.path),
        _ => event.path.clone(),
    };
    let since = space.history.acked(part.event + 1).len();
    let labels = space.history.acked(moment);
    if state.torn.is_some() {
        return format!(
            "{} is overwritten in place: a power failure may tear it between two sectors",
            event.path
        );
    }
    if let Some(label) = labels.get(since) {
        return format!(
            "no fsync of {what} between `{}` and the acknowledgement of `{label}`",
            event.words()
        );
    }
    // What is there although it came later.
    let is_later = |other: &PartId| space.parts[*other as usize].event > part.event;
    let later = (first + 1..state.upto).find(|other| is_later(other) && !absent.contains(other));
    match later.map(|part| &space.history.events[space.parts[part as usize].event]) {
        Some(later) => {
            format!("no fsync of {what} between `{}` and `{}`", event.words(), later.words())
        }
        None if matches!(part.sort, Sort::Data | Sort::Size) => format!(
            "{} is changed in place: with nothing or only some of `{}` it does not pass the check",
            event.path,
            event.words()
        ),
        None => format!(
            "the power failed before `{}`, and what was there before does not pass the check",
            event.words()
        ),
    }
}

/// Why something is not there on a volume of our own: the program did not sync it, or the layout did not keep it.
fn why_on_device(search: &Search, moment: usize, absent: &BTreeSet<PartId>) -> String {
    let space = search.space();
    let events = &space.history.events[..moment.min(space.history.events.len())];
    let of_files = |event: &&Event| event.what.id() != Some(DEVICE);
    let is_change = |event: &Event| !event.what.effects().is_empty();
    let synced = events.iter().rposition(|event| of_files(&event) && event.what.is_sync());
    let since = synced.map_or(0, |synced| synced + 1);
    let label = |event: &&Event| matches!(event.what, What::Ack { .. } | What::Exit);
    let label = events[since..].iter().rfind(label);
    let changed = events[since..].iter().filter(of_files).find(|event| is_change(event));
    let lost =
        absent.first().map(|&part| space.history.events[space.parts[part as usize].event].words());
    match (changed, label, lost) {
        (Some(change), Some(label), _) => {
            format!(
                "no fsync of {} between `{}` and `{}`",
                change.path,
                change.words(),
                label.words()
            )
        }
        (_, _, Some(lost)) => {
            format!("the layout does not keep its promise without `{lost}`, which was not flushed")
        }
        (Some(change), None, None) => {
            format!("the power failed after `{}`, which was not synced", change.words())
        }
        _ => "nothing is missing: the check fails in the middle of the run".into(),
    }
}

/// The events from the last sync before what is missing to the failure.
fn lines(search: &Search, moment: usize, absent: &BTreeSet<PartId>) -> Vec<Line> {
    let space = search.space();
    let first = absent.first().map_or(moment, |&part| space.parts[part as usize].event);
    let events = &space.history.events;
    let begin =
        (0..first.min(events.len())).rev().find(|&event| events[event].what.is_sync()).unwrap_or(0);
    let mark = |number: usize| {
        let (from, to) = (space.parts_before(number), space.parts_before(number + 1));
        let gone = (from..to).filter(|part| absent.contains(part)).count();
        match &events[number].what {
            What::Exit | What::Ack { .. } => Mark::Acked,
            what if what.is_sync() => Mark::Sync,
            _ if gone == 0 => Mark::There,
            _ if gone == (to - from) as usize => Mark::Lost,
            _ => Mark::InPart,
        }
    };
    let shown = (begin..moment.min(events.len()))
        .filter(|&number| !matches!(events[number].what, What::Close { .. }));
    shown
        .map(|number| Line { event: number, mark: mark(number), words: events[number].words() })
        .collect()
}

/// What is missing, in words. Where something before the end of what is there is missing, that is what matters, and all
/// that comes later is one thing.
fn missing(search: &Search, state: &State, absent: &BTreeSet<PartId>) -> Vec<String> {
    let last = (0..state.upto).rev().find(|part| !absent.contains(part));
    let inner = |part: &&PartId| last.is_some_and(|last| **part < last);
    let is_torn = state.torn.is_some();
    let before: Vec<&PartId> = absent.iter().filter(inner).collect();
    let tail = absent.len() - before.len();
    let named: Vec<&PartId> =
        if before.is_empty() || is_torn { absent.iter().collect() } else { before };
    let has_tail = tail > 0 && named.len() < absent.len();
    let mut words: Vec<String> =
        named.into_iter().map(|&part| missing_words(search, state, part)).collect();
    words.dedup();
    if let (Some(last), true) = (last, has_tail) {
        let space = search.space();
        let event = &space.history.events[space.parts[last as usize].event];
        words.push(format!("all that came after `{}`", event.words()));
    }
    words
}

fn class(
    search: &Search,
    state: &State,
    moment: usize,
    absent: &BTreeSet<PartId>,
    outcome: Outcome,
    is_least: bool,
) -> Class {
    let (how, said) = match outcome {
        Outcome::Failed { how, said } => (how, said),
        Outcome::Passed => (String::new(), String::new()),
    };
    let missing = missing(search, state, absent);
    Class {
        state: state.clone(),
        after: None,
        moment,
        acked: search.space().history.acked(moment),
        missing,
        why: why(search, state, moment, absent),
        lines: lines(search, moment, absent),
        how,
        said,
        states: 1,
        is_least,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_differ_in_numbers_have_one_pattern() {
        assert_eq!(pattern(".git/objects/4b/825dc642"), pattern(".git/objects/e6/9de29bb2"));
        assert_eq!(pattern("tmp_obj_BTnxkB"), pattern("tmp_obj_0N2SQv"));
        assert_ne!(pattern("db/CURRENT"), pattern("db/LOCK"));
    }
}

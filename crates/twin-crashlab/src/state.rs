//! States that a power failure may leave, and the trees that they are.
//!
//! Contract: a state names the parts of a history that are there. It is possible if no part in it misses one that it
//! needs, and none is missing that was certain at a moment after all that is in it. A state belongs to the latest such
//! moment: at that one most is acknowledged, so it says most. The text of a state is its name in reports and commands.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::history::History;
use crate::model::{Model, Part, PartId, Parts};
use crate::tree::{Effect, Tree};

/// Bytes that a disk writes whole or not at all.
const SECTOR: u64 = 512;
/// The number of parts after which a tree is kept.
const KEPT_EVERY: usize = 256;

/// Which sectors of a torn part are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tear {
    /// The first one, or what of the part lies in it.
    First,
    /// The first half.
    Head,
    /// All but the first half.
    Tail,
}

impl Tear {
    /// All ways.
    pub const ALL: [Tear; 3] = [Tear::First, Tear::Head, Tear::Tail];

    fn letter(self) -> char {
        match self {
            Tear::First => 'f',
            Tear::Head => 'h',
            Tear::Tail => 't',
        }
    }
}

/// A state: of the first `upto` parts all are there but `missing`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    /// Parts before this number may be there.
    pub upto: PartId,
    /// Those that are not, in order.
    pub missing: BTreeSet<PartId>,
    /// A part that is there only in part.
    pub torn: Option<(PartId, Tear)>,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.upto)?;
        let mut rest = self.missing.iter().copied().peekable();
        while let Some(first) = rest.next() {
            let mut last = first;
            while rest.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last == first {
                true => write!(f, "-{first}")?,
                false => write!(f, "-{first}..{last}")?,
            }
        }
        match self.torn {
            Some((part, tear)) => write!(f, "~{part}{}", tear.letter()),
            None => Ok(()),
        }
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<State, String> {
        let wrong =
            || format!("{text:?} is no state: its form is 12-3-5..7~9h, as reports have it");
        let number = |text: &str| text.parse::<PartId>().map_err(|_| wrong());
        let (parts, torn) =
            text.split_once('~').map_or((text, None), |(parts, torn)| (parts, Some(torn)));
        let torn = match torn {
            None => None,
            Some(torn) => {
                let tear = Tear::ALL
                    .into_iter()
                    .find(|tear| torn.ends_with(tear.letter()))
                    .ok_or_else(wrong)?;
                Some((number(&torn[..torn.len() - 1])?, tear))
            }
        };
        let mut words = parts.split('-');
        let upto = number(words.next().unwrap_or_default())?;
        let mut missing = BTreeSet::new();
        for word in words {
            let (first, last) = word.split_once("..").unwrap_or((word, word));
            let (first, last) = (number(first)?, number(last)?);
            if last >= upto {
                return Err(wrong());
            }
            missing.extend(first..=last);
        }
        Ok(State { upto, missing, torn })
    }
}

/// The states of a history under a model.
pub struct Space {
    /// What happened.
    pub history: History,
    /// Its parts.
    pub parts: Vec<Part>,
    /// For each part, the sync after which it is certain; the number of events if there is none.
    pub certain: Vec<usize>,
    /// The parts are writes of a device.
    pub on_device: bool,
    /// For each part, those that need it.
    needed_by: Vec<Vec<PartId>>,
    /// The smallest of `certain` from each part on.
    certain_from: Vec<usize>,
    /// The trees after 0, 256, 512, ... parts.
    kept: Vec<Tree>,
}

impl Space {
    /// The states of a history under a model.
    pub fn of(history: History, model: &Model) -> Space {
        let Parts { parts, durable } = Parts::of(&history, model);
        let end = history.events.len();
        let certain: Vec<usize> = durable.into_iter().map(|sync| sync.unwrap_or(end)).collect();
        let mut needed_by = vec![Vec::new(); parts.len()];
        for (number, part) in parts.iter().enumerate() {
            for &need in &part.needs {
                needed_by[need as usize].push(number as PartId);
            }
        }
        let mut certain_from = vec![end; parts.len() + 1];
        for number in (0..parts.len()).rev() {
            certain_from[number] = certain_from[number + 1].min(certain[number]);
        }
        // An inode is there as soon as a name leads to it, whatever became of its first one.
        let mut tree = history.base.clone();
        let made = history.events.iter().flat_map(|event| event.what.effects());
        made.filter(|effect| matches!(effect, Effect::Make { .. }))
            .for_each(|effect| tree.apply(&effect));
        let mut kept = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            if number.is_multiple_of(KEPT_EVERY) {
                kept.push(tree.clone());
            }
            part.effects.iter().for_each(|effect| tree.apply(effect));
        }
        if kept.is_empty() {
            kept.push(tree);
        }
        Space { history, parts, certain, on_device: model.is_device, needed_by, certain_from, kept }
    }

    /// The number of parts.
    pub fn len(&self) -> PartId {
        self.parts.len() as PartId
    }

    /// True if nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The number of parts of the events before this one.
    pub fn parts_before(&self, event: usize) -> PartId {
        self.parts.partition_point(|part| part.event < event) as PartId
    }

    /// The state in which all of the first parts are there.
    pub fn whole(&self, upto: PartId) -> State {
        State { upto, missing: BTreeSet::new(), torn: None }
    }

    /// The state without these parts, and without all that need them.
    pub fn without(&self, upto: PartId, parts: impl IntoIterator<Item = PartId>) -> State {
        let mut missing = BTreeSet::new();
        let mut open: Vec<PartId> = parts.into_iter().collect();
        while let Some(part) = open.pop() {
            if part < upto && missing.insert(part) {
                open.extend(&self.needed_by[part as usize]);
            }
        }
        State { upto, missing, torn: None }
    }

    /// The parts that a part needs, with itself.
    pub fn needs(&self, part: PartId) -> BTreeSet<PartId> {
        let mut all = BTreeSet::new();
        let mut open = vec![part];
        while let Some(part) = open.pop() {
            if all.insert(part) {
                open.extend(&self.parts[part as usize].needs);
            }
        }
        all
    }

    /// The event before which the power failed, if the state is possible.
    pub fn moment(&self, state: &State) -> Option<usize> {
        let of_missing = state.missing.iter().map(|&part| self.certain[part as usize]).min();
        let of_later = self.certain_from[(state.upto as usize).min(self.parts.len())];
        let torn = state.torn.map(|(part, _)| self.certain[part as usize]);
        let moment = of_missing.into_iter().chain(torn).fold(of_later, usize::min);
        let last = (0..state.upto).rev().find(|part| !state.missing.contains(part));
        let possible = last.is_none_or(|part| self.parts[part as usize].event < moment);
        let closed = state.missing.iter().all(|&part| {
            self.needed_by[part as usize]
                .iter()
                .all(|user| *user >= state.upto || state.missing.contains(user))
        });
        let whole = state.upto as usize <= self.parts.len();
        (possible && closed && whole).then_some(moment)
    }

    /// The parts of events before this one that are not in the state.
    pub fn absent(&self, state: &State, moment: usize) -> BTreeSet<PartId> {
        let later = state.upto..self.parts_before(moment).max(state.upto);
        state.missing.iter().copied().chain(later).chain(state.torn.map(|(part, _)| part)).collect()
    }

    /// The tree of a state.
    pub fn tree(&self, state: &State) -> Tree {
        let torn = state.torn.map(|(part, _)| part);
        let first =
            state.missing.first().copied().into_iter().chain(torn).fold(state.upto, PartId::min);
        let kept = (first as usize / KEPT_EVERY).min(self.kept.len() - 1);
        let mut tree = self.kept[kept].clone();
        for number in (kept * KEPT_EVERY) as PartId..state.upto {
            if state.missing.contains(&number) {
                continue;
            }
            let effects = &self.parts[number as usize].effects;
            match state.torn {
                Some((part, tear)) if part == number => {
                    effects.iter().for_each(|effect| tree.apply(&torn_effect(effect, tear)));
                }
                _ => effects.iter().for_each(|effect| tree.apply(effect)),
            }
        }
        tree
    }

    /// Whether tearing this part gives anything else than having it or not.
    pub fn tears(&self, part: PartId, tear: Tear) -> bool {
        let part = &self.parts[part as usize];
        let splits = |effect: &Effect| match effect {
            Effect::Data { part: (_, len), .. } => {
                let torn = torn_effect(effect, tear);
                matches!(torn, Effect::Data { part: (_, left), .. } if left > 0 && left < *len)
            }
            _ => false,
        };
        part.tears && part.effects.iter().any(splits)
    }
}

/// What of an effect is there if its write is torn.
fn torn_effect(effect: &Effect, tear: Tear) -> Effect {
    let Effect::Data { id, off, bytes, part: (from, len), extends } = effect else {
        return effect.clone();
    };
    let (from, len) = (*from, *len);
    let end = off + len as u64;
    let to_border = |at: u64| (at.div_ceil(SECTOR) * SECTOR).clamp(*off, end) - off;
    let half = to_border(off + len as u64 / 2) as usize;
    let (skip, left) = match tear {
        Tear::First => (0, to_border(off + 1) as usize),
        Tear::Head => (0, half),
        Tear::Tail => (half, len - half),
    };
    let (off, part) = (off + skip as u64, (from + skip, left));
    Effect::Data { id: *id, off, bytes: Arc::clone(bytes), part, extends: *extends }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Event, What};
    use crate::model::model;
    use crate::tree::{Meta, ROOT};

    /// A file is written, renamed over another one, and perhaps synced between.
    fn replaced(synced: bool) -> History {
        let meta = Meta { mode: twin_fs::mode::REGULAR | 0o644, uid: 0, gid: 0, rdev: 0 };
        let mut whats = Vec::new();
        let mut file = |id: u64, name: &str, text: &[u8]| {
            whats.push(What::Make {
                dir: ROOT,
                name: name.as_bytes().into(),
                id,
                meta,
                target: None,
            });
            whats.push(What::Write { id, off: 0, bytes: text.into(), was: 0 });
        };
        file(1, "a", b"old");
        file(2, "b", b"new");
        let fsync = |id, since| What::Fsync { id, data_only: false, since };
        whats.insert(2, fsync(1, 2));
        whats.insert(3, fsync(ROOT, 3));
        if synced {
            whats.push(fsync(2, 6));
        }
        let name = |text: &[u8]| text.into();
        whats.push(What::Rename {
            dir: ROOT,
            name: name(b"b"),
            to_dir: ROOT,
            to_name: name(b"a"),
            id: 2,
            replaced: Some(1),
            exchange: false,
        });
        let events = whats.into_iter().map(|what| Event { what, path: String::new() }).collect();
        History { base: Tree::default(), events, promised: None }
    }

    /// Every content that the name `a` can have at the end.
    fn contents(history: History, like: &str) -> BTreeSet<String> {
        let space = Space::of(history, model(like).unwrap());
        let mut found = BTreeSet::new();
        for mask in 0..1u32 << space.len() {
            let missing = (0..space.len()).filter(|part| mask >> part & 1 == 1).collect();
            let state = State { upto: space.len(), missing, torn: None };
            if space.moment(&state) == Some(space.history.events.len()) {
                let tree = space.tree(&state);
                let text =
                    tree.find(ROOT, b"a").map(|id| String::from_utf8(tree.bytes(id)).unwrap());
                found.insert(text.unwrap_or("none".into()));
            }
        }
        found
    }

    fn set(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_rename_without_a_sync_leaves_an_empty_file_but_not_on_ext4_where_it_writes_the_data_first()
    {
        assert_eq!(contents(replaced(false), "ext4"), set(&["old", "new"]));
        assert_eq!(contents(replaced(false), "xfs"), set(&["old", "new", ""]));
        assert_eq!(contents(replaced(false), "posix"), set(&["old", "new", "", "\0\0\0"]));
    }

    #[test]
    fn after_an_fsync_a_rename_leaves_the_old_or_the_new_content_everywhere() {
        for like in ["ext4", "xfs", "posix"] {
            assert_eq!(contents(replaced(true), like), set(&["old", "new"]), "{like}");
        }
    }

    #[test]
    fn the_text_of_a_state_is_read_back() {
        for text in ["0", "12", "12-3", "12-3-5..7", "12-3-5..7~9h", "7~6f"] {
            assert_eq!(text.parse::<State>().unwrap().to_string(), text);
        }
        for wrong in ["", "x", "3-3", "3~", "3~1x"] {
            assert!(wrong.parse::<State>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_state_that_misses_what_another_part_needs_is_impossible() {
        let space = Space::of(replaced(false), model("ext4").unwrap());
        let state = State { upto: space.len(), missing: [2].into(), torn: None };
        assert_eq!(space.moment(&state), None);
        assert!(space.moment(&space.without(space.len(), [2])).is_some());
    }
}

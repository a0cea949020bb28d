//! The names and files of a volume, first as its map has them, then as a workload goes on to change
//! them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use twin_fs::{Ino, Name, ROOT_INO, mode};
use twin_rt::{FixedMap, FixedSet, Rng};

use super::recorded::{Kind, Turnover, is_dots};
use crate::map::{FileKind, VolumeMap};

/// A file of the volume: the inode number in its map, or a number from [`NEW`] on.
pub(super) type Key = u64;

/// Files that did not exist yet when the map was made have numbers from here on.
const NEW: Key = 1 << 63;
/// The deepest directory that is followed: more than any path has.
const DEEPEST: usize = 4096;

/// Among this many older and this many younger files, the one of the nearest size is chosen.
const NEAR: usize = 4;

/// The facts about a file that decide whether it can be a successor.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileFacts {
    pub(super) kind: Kind,
    /// Its length when the map was made, in bytes; 0 of newer files.
    pub(super) size: u64,
    mtime_s: i64,
    links: u32,
}

/// The volume. See the module.
#[derive(Debug)]
pub(super) struct Now {
    entries: FixedMap<Key, BTreeMap<Name, Key>>,
    about: FixedMap<Key, FileFacts>,
    /// A name of each file when the map was made.
    first_homes: FixedMap<Key, (Key, Name)>,
    /// The last name that a file got since.
    homes: FixedMap<Key, (Key, Name)>,
    next: Key,
}

impl Now {
    /// A volume with this map.
    pub(super) fn of(map: &VolumeMap) -> Now {
        let mut now = Now {
            entries: FixedMap::default(),
            about: FixedMap::default(),
            first_homes: FixedMap::default(),
            homes: FixedMap::default(),
            next: NEW,
        };
        let root = FileFacts { kind: mode::DIRECTORY, size: 0, mtime_s: 0, links: 1 };
        now.about.insert(ROOT_INO, root);
        for file in &map.files {
            let kind = match file.kind {
                FileKind::File => mode::REGULAR,
                FileKind::Directory => mode::DIRECTORY,
                // Which one is known once a recording tells of it.
                FileKind::Other => 0,
            };
            let links = u32::from(file.ino == ROOT_INO);
            let about = FileFacts { kind, size: file.size, mtime_s: file.mtime_s, links };
            now.about.insert(file.ino, about);
        }
        for name in map.names.iter().filter(|name| !is_dots(&name.name)) {
            now.put(name.dir, name.name.clone().into(), name.ino);
        }
        now.first_homes = std::mem::take(&mut now.homes);
        now
    }

    pub(super) fn at(&self, dir: Key, name: &Name) -> Option<Key> {
        self.entries.get(&dir)?.get(name).copied()
    }

    pub(super) fn about(&self, key: Key) -> FileFacts {
        let unknown = FileFacts { kind: 0, size: 0, mtime_s: 0, links: 0 };
        self.about.get(&key).copied().unwrap_or(unknown)
    }

    /// Sets what a file is, if the map does not tell.
    pub(super) fn is_kind(&mut self, key: Key, kind: Kind) {
        if let Some(about) = self.about.get_mut(&key).filter(|about| about.kind == 0) {
            about.kind = kind;
        }
    }

    /// True if a name leads to it.
    pub(super) fn exists(&self, key: Key) -> bool {
        self.about(key).links > 0
    }

    /// True if it existed when the map was made.
    pub(super) fn is_old(key: Key) -> bool {
        key < NEW
    }

    /// A name of it: the last that it got.
    pub(super) fn home(&self, key: Key) -> Option<&(Key, Name)> {
        self.homes.get(&key).or_else(|| self.first_home(key))
    }

    /// A name of it when the map was made.
    pub(super) fn first_home(&self, key: Key) -> Option<&(Key, Name)> {
        self.first_homes.get(&key)
    }

    pub(super) fn make(&mut self, dir: Key, name: Name, kind: Kind) -> Key {
        let key = self.next;
        self.next += 1;
        self.about.insert(key, FileFacts { kind, size: 0, mtime_s: i64::MAX, links: 0 });
        self.put(dir, name, key);
        key
    }

    pub(super) fn put(&mut self, dir: Key, name: Name, key: Key) {
        self.take(dir, &name);
        self.entries.entry(dir).or_default().insert(name.clone(), key);
        // Of a file that is not in the map, as an empty special file, its name is all that is known.
        let unknown = FileFacts { kind: 0, size: 0, mtime_s: 0, links: 0 };
        self.about.entry(key).or_insert(unknown).links += 1;
        self.homes.insert(key, (dir, name));
    }

    pub(super) fn take(&mut self, dir: Key, name: &Name) -> Option<Key> {
        let key = self.entries.get_mut(&dir)?.remove(name)?;
        if let Some(about) = self.about.get_mut(&key) {
            about.links = about.links.saturating_sub(1);
        }
        Some(key)
    }

    /// The names in a directory.
    pub(super) fn list(&self, dir: Key) -> Vec<(Name, Key)> {
        let entries = self.entries.get(&dir).into_iter().flatten();
        entries.map(|(name, key)| (name.clone(), *key)).collect()
    }

    /// True if `key` is `dir` or above it.
    pub(super) fn is_above(&self, key: Key, mut dir: Key) -> bool {
        for _ in 0..DEEPEST {
            if dir == key {
                return true;
            }
            match self.home(dir) {
                Some((above, _)) if dir != ROOT_INO => dir = *above,
                _ => return false,
            }
        }
        true
    }
}

/// Files that take the places of others. See [`Successors::pick`].
pub(super) struct Successors {
    /// Files that cannot be chosen: the recording has changed them, or they are successors already.
    taken: FixedSet<Key>,
    /// Files that the recording made and left behind, with the order in which it made them.
    left: FixedMap<Key, u64>,
    dirs: FixedMap<(Key, Kind), Candidates>,
    /// Files that the recording left behind, by kind and size.
    by_size: Option<FixedMap<Kind, BTreeSet<(u64, Key)>>>,
    /// By how many bytes the removed files were larger than their successors.
    debt: i64,
    rng: Rng,
}

/// A removed file that needs a successor.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemovedFile {
    /// The directory in which the successor is made.
    pub(super) dir: Key,
    pub(super) kind: Kind,
    /// Size of the removed file in bytes; `None` if it is not known.
    pub(super) size: Option<u64>,
    /// When a file was changed last, in seconds since 1970, that is as old when it goes as this one
    /// was when it went; `None` if that is not known.
    pub(super) changed_s: Option<i64>,
    /// How many names come and go in the directory.
    pub(super) turnover: Turnover,
}

/// The files of one kind in a directory that can take the place of another one.
#[derive(Default)]
struct Candidates {
    /// Files that the recording made, in that order.
    made: VecDeque<Key>,
    /// The others, the oldest first.
    old: VecDeque<Key>,
    /// All, by the time of their last change.
    by_time: BTreeSet<(i64, Key)>,
    /// How many of the files that the recording made are due, beside the others.
    due: f64,
}

impl Candidates {
    fn of(now: &Now, (dir, kind): (Key, Kind), left: &FixedMap<Key, u64>) -> Candidates {
        let of_kind = now.list(dir).into_iter().map(|(_, key)| key);
        let of_kind: Vec<Key> =
            of_kind.filter(|key| Now::is_old(*key) && now.about(*key).kind == kind).collect();
        let by_time = of_kind.iter().map(|key| (now.about(*key).mtime_s, *key)).collect();
        let (mut made, mut old): (Vec<Key>, Vec<Key>) =
            of_kind.into_iter().partition(|key| left.contains_key(key));
        made.sort_unstable_by_key(|key| left.get(key).copied());
        old.sort_unstable_by_key(|key| (now.about(*key).mtime_s, *key));
        Candidates { made: made.into(), old: old.into(), by_time, due: 0.0 }
    }

    /// Of the few files that were changed nearest to this time, the one whose size in bytes is
    /// nearest to the wanted one.
    fn nearest(
        &mut self,
        now: &Now,
        (at_s, wanted): (i64, Option<i64>),
        is_free: impl Fn(Key) -> bool,
    ) -> Option<Key> {
        let above = self.by_time.range((at_s, 0)..);
        let below = self.by_time.range(..(at_s, 0)).rev();
        let (mut near, mut gone) = (Vec::new(), Vec::new());
        let sides: [&mut dyn Iterator<Item = (i64, Key)>; 2] =
            [&mut above.copied(), &mut below.copied()];
        for side in sides {
            let mut found = 0;
            for at in side {
                match is_free(at.1) {
                    false => gone.push(at),
                    true => near.push(at),
                }
                found += usize::from(is_free(at.1));
                if found == NEAR {
                    break;
                }
            }
        }
        for at in gone {
            self.by_time.remove(&at);
        }
        let is_short_of = |key: Key| wanted.unwrap_or(0).abs_diff(now.about(key).size as i64);
        let order = |at: &(i64, Key)| (is_short_of(at.1), at.0.abs_diff(at_s), at.1);
        let nearest = near.into_iter().min_by_key(order)?;
        self.by_time.remove(&nearest);
        Some(nearest.1)
    }

    /// A file whose age suits the turnover of the directory.
    fn by_turnover(
        &mut self,
        turnover: Turnover,
        rng: &mut Rng,
        is_free: impl Fn(Key) -> bool,
    ) -> Option<Key> {
        let Turnover { made, made_gone, old_gone } = turnover;
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        // Those that were made were there for half of the time on average.
        let young = 2.0 * share(made_gone, made);
        let expected = young * made.saturating_sub(made_gone) as f64;
        self.due += (expected / old_gone.max(1) as f64).min(1.0);
        let before = self.old.len() as u64 + old_gone;
        let dies_at_any_age = made_gone > 0 && young >= share(old_gone, before) / 2.0;
        let next_made = |made: &mut VecDeque<Key>| {
            std::iter::from_fn(|| made.pop_front()).find(|key| is_free(*key))
        };
        if self.due >= 1.0
            && let Some(key) = next_made(&mut self.made)
        {
            self.due -= 1.0;
            return Some(key);
        }
        while !self.old.is_empty() {
            let place = match dies_at_any_age {
                true => rng.below(self.old.len() as u64) as usize,
                false => 0,
            };
            // The order of the rest matters only where the first is always taken.
            let key = match place {
                0 => self.old.pop_front(),
                place => self.old.swap_remove_back(place),
            };
            if let Some(key) = key.filter(|key| is_free(*key)) {
                return Some(key);
            }
        }
        next_made(&mut self.made)
    }
}

impl Successors {
    pub(super) fn new(left: FixedMap<Key, u64>, seed: u64) -> Successors {
        Successors {
            taken: FixedSet::default(),
            left,
            dirs: FixedMap::default(),
            by_size: None,
            debt: 0,
            rng: Rng::stream(seed, "successors"),
        }
    }

    /// The file stays as it is and is no successor: nothing else takes its place.
    pub(super) fn take(&mut self, key: Key) {
        self.taken.insert(key);
    }

    /// A file that takes the place of one that is gone.
    ///
    /// In the same directory, first: one of those that are as old one period later, if the recording tells
    /// when what went was changed last: the one with which all that goes has as many bytes as in the recording. Otherwise its age is inferred from the files that the recording made. If
    /// they die young, so do those that it left behind, the oldest first; as many as would be expected at
    /// their rate. The others were older: the oldest if young files do not die, and otherwise any.
    /// If there is none in the directory, the one of the nearest size that the recording left behind.
    pub(super) fn pick(&mut self, now: &Now, wanted: RemovedFile) -> Option<Key> {
        let RemovedFile { dir, kind, size, changed_s, turnover } = wanted;
        let (left, taken) = (&self.left, &self.taken);
        let candidates = self.dirs.entry((dir, kind));
        let candidates = candidates.or_insert_with(|| Candidates::of(now, (dir, kind), left));
        let is_free = |key: Key| {
            let is_there = |(at, name): &(Key, Name)| *at == dir && now.at(dir, name) == Some(key);
            !taken.contains(&key) && now.home(key).is_some_and(is_there)
        };
        let key = match changed_s {
            Some(at_s) => {
                let wanted = size.map(|size| self.debt + size as i64);
                let key = candidates.nearest(now, (at_s, wanted), is_free);
                if let (Some(key), Some(wanted)) = (key, wanted) {
                    self.debt = wanted - now.about(key).size as i64;
                }
                key
            }
            None => candidates.by_turnover(turnover, &mut self.rng, is_free),
        };
        let key = key.or_else(|| self.pick_by_size(now, kind, size.unwrap_or(0)))?;
        self.taken.insert(key);
        Some(key)
    }

    fn pick_by_size(&mut self, now: &Now, kind: Kind, size: u64) -> Option<Key> {
        // A directory elsewhere is nobody's successor: too much hangs on it.
        if kind == mode::DIRECTORY {
            return None;
        }
        let all = self.by_size.get_or_insert_with(|| {
            let mut all: FixedMap<Kind, BTreeSet<(u64, Key)>> = FixedMap::default();
            for key in self.left.keys() {
                let about = now.about(*key);
                all.entry(about.kind).or_default().insert((about.size, *key));
            }
            all
        });
        let of_kind = all.get_mut(&kind)?;
        loop {
            let above = of_kind.range((size, 0)..).next().copied();
            let below = of_kind.range(..(size, 0)).next_back().copied();
            let near = [above, below].into_iter().flatten();
            let nearest = near.min_by_key(|(other, _)| other.abs_diff(size))?;
            of_kind.remove(&nearest);
            let key = nearest.1;
            let is_at_home =
                now.home(key).is_some_and(|(dir, name)| now.at(*dir, name) == Some(key));
            if !self.taken.contains(&key) && is_at_home {
                return Some(key);
            }
        }
    }
}

/// A name that is free in a directory, made of one that is taken: repeated days count on. At most
/// 255 bytes.
pub(super) fn free_name(now: &Now, dir: Key, name: &Name) -> Name {
    let (stem, mut number) = match name.iter().rposition(|&byte| byte == b'~') {
        Some(at) if at > 0 => {
            let digits = std::str::from_utf8(&name[at + 1..]).ok();
            match digits.and_then(|digits| digits.parse::<u64>().ok()) {
                Some(number) => (&name[..at], number),
                None => (&name[..], 1),
            }
        }
        _ => (&name[..], 1),
    };
    loop {
        number = number.wrapping_add(1);
        let suffix = format!("~{number}");
        let stem = &stem[..stem.len().min(twin_fs::NAME_MAX - suffix.len())];
        let free: Name = [stem, suffix.as_bytes()].concat().into();
        if now.at(dir, &free).is_none() {
            return free;
        }
    }
}

/// The numbers of the recording for files of the volume.
pub(super) type Numbers = FixedMap<Ino, Key>;

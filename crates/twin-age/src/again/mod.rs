//! Continues a recorded workload: makes the next period of the same kind, for the volume as the
//! recording left it.
//!
//! Contract: [`again`] takes a recording and the map of the volume at its end, and returns the next
//! period, of the same length, as a trace to replay on that volume. The recording itself could not
//! be replayed there: files that it creates exist already, and files that it removes are gone. So
//! each name of the recording is mapped to a name of the volume:
//!
//! - A name that exists when the recording uses it must lead to a file of the same kind on the
//!   volume, and a name that does not exist must lead to nothing. Where that is so already, the
//!   name stays the same: temporary files come and go again, a file that was replaced by a new
//!   version is replaced again, a log is rotated again.
//! - A name that the recording creates, and that is taken now, gets a free name beside it. All
//!   further operations of the recording on the new file go to the new name.
//! - A file that the recording removes or moves away, and that is gone now, is replaced by a file
//!   of its kind, its *successor* (`Successors::pick` in the module `now`): in the same directory a file that
//!   is as old now as the removed one was then, or else the file of nearest size that the recording
//!   left behind.
//! - A directory that is removed is emptied first, as its remover did.
//! - Data that was appended to a file from before the recording is appended at its present end,
//!   until the recording makes the file shorter; overwriting overwrites in place.
//! - Operations whose file no longer exists are skipped and counted. So are operations that failed
//!   in the recording, unless they only looked. Attributes are removed only if they were set
//!   before.
//!
//! Every remaining change is checked against a model of the volume's names, so no operation of the
//! trace fails on the volume, except for lack of space. The same recording, map and seed give the
//! same trace.

mod now;
mod recorded;
#[cfg(test)]
mod tests;

use twin_fs::{Cred, Fallocate, Ino, Name, Op, ROOT_INO, RenameMode, Request, XattrMode, mode};
use twin_rt::{FixedMap, FixedSet, Nanos};
use twin_trace::{Header, Node, NodeAttr, Outcome, Record, Source, TraceError, Writer};

use self::now::{Key, Now, Numbers, RemovedFile, Successors, free_name};
pub use self::recorded::Window;
use self::recorded::{
    Answer, Names, Object, Recorded, Slot, dirs_of, ino_of, is_dots, node_kind, slots_of,
};
use crate::map::VolumeMap;

/// Size of the pages in which the kernel writes, in bytes.
const PAGE: u64 = 4096;
/// The deepest directory that is followed: more than any path has.
const DEEPEST: usize = 4096;

/// The next period: a workload of the same kind as the recorded one.
#[derive(Clone, Debug)]
pub struct Again {
    /// The workload as a trace of operations.
    pub trace: Vec<u8>,
    /// Counts of the recording's operations, by what was done with them.
    pub told: Told,
}

/// Counts of a recording's operations, by what was done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The requests of the trace.
    pub requests: u64,
    /// The time from its first to its last, in nanoseconds.
    pub span_ns: Nanos,
    /// Names that were free in the recording, are taken now, and became others.
    pub other_names: u64,
    /// Files that take the place of others that are gone.
    pub successors: u64,
    /// Files and directories that were removed beside, to empty a directory.
    pub emptied: u64,
    /// Operations of the recording that had nothing to fall on.
    pub left_out: u64,
}

/// The workload of the next period, from a recording that `open` opens and the map of the volume at its
/// end, with names. Memory is needed for each request and each file.
pub fn again<S: Source, E: From<TraceError>>(
    mut open: impl FnMut() -> Result<S, E>,
    window: Window,
    map: &VolumeMap,
    seed: u64,
) -> Result<Again, E> {
    let recorded = Recorded::of(&mut open, window)?;
    let mut source = open()?;
    let from = source.header();
    let mut traits = from.traits;
    (traits.contents, traits.nodes_first) = (false, false);
    let text = format!("the next period in kind after {}", from.text);
    let header = Header { traits, text, ..from.clone() };
    let mut next = Next::new(&recorded, map, seed, Writer::new(Vec::new(), &header)?);
    next.prepare()?;
    let mut numbers: FixedMap<u64, u64> = FixedMap::default();
    while let Some(record) = source.next_record()? {
        match record {
            Record::Request { request, .. } if request.id > recorded.last => break,
            Record::Request { at_ns, request } if request.id >= recorded.first => {
                next.at_ns = at_ns.saturating_sub(recorded.first_ns);
                let was = request.id;
                if let Some(number) = next.request(request)? {
                    numbers.insert(was, number);
                }
            }
            Record::Reply { at_ns, id, outcome } => {
                if let Some(number) = numbers.remove(&id) {
                    next.writer.reply(at_ns.saturating_sub(recorded.first_ns), number, &outcome)?;
                }
            }
            Record::Request { .. } | Record::Node(_) => {}
        }
    }
    next.told.span_ns = recorded.last_ns - recorded.first_ns;
    Ok(Again { trace: next.writer.finish()?, told: next.told })
}

/// Where a name of the recording is on the volume.
#[derive(Clone, Debug)]
struct Place {
    /// The directory's number in the trace.
    dir: Ino,
    at: Key,
    name: Name,
    /// The file at this place is a successor of another one.
    is_successor: bool,
}

/// The names from before of files that are gone.
type Homes = FixedMap<Ino, Slot>;

/// The next period in the making.
struct Next<'a> {
    recorded: &'a Recorded,
    /// The names in the recording, at the request that it has come to.
    names: Names,
    now: Now,
    successors: Successors,
    /// The files of the volume by their numbers in the trace.
    keys: Numbers,
    /// A number for each of them.
    numbers: FixedMap<Key, Ino>,
    /// How many opens and references a client of the trace has of each.
    held: FixedMap<Key, u64>,
    places: FixedMap<Slot, Place>,
    /// Numbers that stand for successors.
    foreign: FixedSet<Ino>,
    /// Files that the recording has begun to make shorter.
    rewritten: FixedSet<Ino>,
    /// Attributes that the trace has set.
    attributes: FixedSet<Slot>,
    next_ino: Ino,
    at_ns: Nanos,
    writer: Writer<Vec<u8>>,
    told: Told,
}

impl<'a> Next<'a> {
    fn new(recorded: &'a Recorded, map: &VolumeMap, seed: u64, writer: Writer<Vec<u8>>) -> Self {
        let mut now = Now::of(map);
        let mut left = FixedMap::default();
        for (id, key) in keys_of(&recorded.after, &now) {
            if let Some(object) = recorded.objects.get(&id) {
                now.is_kind(key, object.kind);
                left.extend(object.made.map(|made| (key, made)));
            }
        }
        Next {
            recorded,
            names: recorded.before.clone(),
            now,
            successors: Successors::new(left, seed),
            keys: [(ROOT_INO, ROOT_INO)].into_iter().collect(),
            numbers: [(ROOT_INO, ROOT_INO)].into_iter().collect(),
            held: FixedMap::default(),
            places: FixedMap::default(),
            foreign: FixedSet::default(),
            rewritten: FixedSet::default(),
            attributes: FixedSet::default(),
            next_ino: recorded.largest + 1,
            at_ns: 0,
            writer,
            told: Told::default(),
        }
    }

    /// Finds what was there before the recording, or successors of it, and tells of it in nodes.
    fn prepare(&mut self) -> Result<(), TraceError> {
        let recorded = self.recorded;
        let mut missing = Vec::new();
        let found: FixedMap<Ino, Key> = keys_of(&recorded.before, &self.now).into_iter().collect();
        let mut seen = FixedSet::default();
        let in_order = recorded.order.iter().filter_map(|slot| {
            let id = recorded.before.get(slot)?;
            seen.insert(id).then_some((slot, id))
        });
        for (slot, id) in in_order {
            let Some(object) = recorded.objects.get(&id) else { continue };
            match found.get(&id).filter(|key| self.now.about(**key).kind == object.kind) {
                Some(key) => {
                    self.keys.insert(id, *key);
                    if object.is_changed {
                        self.successors.take(*key);
                    }
                }
                None if object.is_named => missing.push((slot.clone(), id)),
                None => {}
            }
        }
        // Directories get their successors before the files in them do, as far as these are known.
        let homes: Homes = missing.iter().map(|(slot, id)| (*id, slot.clone())).collect();
        for (_, id) in missing {
            self.succeed(&homes, id, 0);
        }
        let named = recorded.order.iter().filter_map(|slot| recorded.before.get(slot));
        for id in named.collect::<Vec<_>>() {
            let is_named = recorded.objects.get(&id).is_some_and(|object| object.is_named);
            if let (true, Some(key)) = (is_named, self.keys.get(&id).copied()) {
                self.introduce(key, id, 0)?;
            }
        }
        Ok(())
    }

    /// Finds a successor of something from before the recording that is gone.
    fn succeed(&mut self, homes: &Homes, id: Ino, depth: usize) -> Option<Key> {
        if let Some(key) = self.keys.get(&id) {
            return Some(*key);
        }
        let object = *self.recorded.objects.get(&id)?;
        let slot = homes.get(&id).filter(|_| depth < DEEPEST)?;
        let dir = self.succeed(homes, slot.0, depth + 1)?;
        let there = self.now.at(dir, &slot.1);
        let there = there.filter(|key| self.now.about(*key).kind == object.kind);
        let key = match there {
            Some(key) => {
                self.successors.take(key);
                key
            }
            None => self.successor(slot, dir, &object)?.2,
        };
        self.keys.insert(id, key);
        self.foreign.insert(id);
        Some(key)
    }

    /// Chooses a successor for the file that was at a place in this directory: where it is, and its
    /// key.
    fn successor(&mut self, slot: &Slot, dir: Key, object: &Object) -> Option<(Key, Name, Key)> {
        let (kind, size) = (object.kind, object.last_size());
        let of = (slot.0, kind == mode::DIRECTORY);
        let turnover = self.recorded.turnover.get(&of).copied().unwrap_or_default();
        let changed_s = self.recorded.one_period_later_s(object);
        let key = self
            .successors
            .pick(&self.now, RemovedFile { dir, kind, size, changed_s, turnover })?;
        let (at, name) = self.now.home(key)?.clone();
        self.told.successors += 1;
        Some((at, name, key))
    }

    /// Gives a file that was there when the period begins this number, and tells of it.
    fn introduce(&mut self, key: Key, id: Ino, depth: usize) -> Result<(), TraceError> {
        if id == ROOT_INO || self.numbers.get(&key) == Some(&id) {
            return Ok(());
        }
        let Some((above, name)) = self.now.first_home(key).cloned() else { return Ok(()) };
        if depth > DEEPEST {
            return Ok(());
        }
        let dir = self.number(above, depth + 1)?;
        self.numbers.entry(key).or_insert(id);
        let about = self.now.about(key);
        let attr =
            NodeAttr { nlink: 1, size: about.size, allocated: about.size, ..NodeAttr::default() };
        let mode = about.kind | 0o755;
        self.writer.node(&Node { dir, name, ino: id, mode, attr: Some(attr) })
    }

    /// The number of a directory in the trace.
    fn number(&mut self, key: Key, depth: usize) -> Result<Ino, TraceError> {
        if let Some(id) = self.numbers.get(&key) {
            return Ok(*id);
        }
        let id = self.next_ino;
        self.next_ino += 1;
        self.introduce(key, id, depth)?;
        self.keys.insert(id, key);
        Ok(id)
    }

    /// Fits a request to the volume and writes it. Returns its number in the trace, unless it was left
    /// out.
    fn request(&mut self, mut request: Request) -> Result<Option<u64>, TraceError> {
        let recorded = self.recorded;
        let answer = recorded.answer(request.id);
        let mut was = request.op.clone();
        let was_answer = recorded.to_canonical(&mut was, answer);
        let gives_back = matches!(was, Op::Forget { .. } | Op::Release { .. });
        let fits = match answer {
            Answer::Missing if !gives_back => false,
            Answer::Failed if !only_looks(&was) => false,
            _ => self.fit(&mut request, &mut was, answer)?,
        };
        if matches!(was_answer, Answer::Entry(_) | Answer::Done) {
            self.names.apply(&was, was_answer);
            self.told.left_out += u64::from(!fits && !gives_back);
        }
        if !fits {
            return Ok(None);
        }
        self.write(&request).map(Some)
    }

    fn write(&mut self, request: &Request) -> Result<u64, TraceError> {
        self.told.requests += 1;
        self.writer.request(self.at_ns, request)
    }

    /// Fits a request to the volume. Returns false if its file no longer exists.
    fn fit(
        &mut self,
        request: &mut Request,
        was: &mut Op,
        answer: Answer,
    ) -> Result<bool, TraceError> {
        let mut is_successor = false;
        if let Some(raw) = ino_of(&mut request.op).map(|ino| *ino) {
            let known = ino_of(was).map_or(raw, |ino| *ino);
            if !self.fit_file(&mut request.op, raw, known, answer) {
                return Ok(false);
            }
            is_successor = self.foreign.contains(&raw);
        }
        if slots_of(&request.op)[0].is_some() {
            let Some(of_successor) = self.fit_names(&mut request.op, was, answer)? else {
                return Ok(false);
            };
            is_successor |= of_successor;
        }
        if is_successor {
            // Its owner may be another one.
            request.cred = Cred { checked: request.cred.checked, ..Cred::root() };
        }
        Ok(true)
    }

    /// Fits an operation on a file. `raw` and `id` are its numbers in the recording.
    fn fit_file(&mut self, op: &mut Op, raw: Ino, id: Ino, answer: Answer) -> bool {
        let Some(&key) = self.keys.get(&raw) else { return false };
        let held = self.held.entry(key).or_default();
        match op {
            Op::Forget { count, .. } => {
                *held = held.saturating_sub(*count);
                return true;
            }
            Op::Release { .. } => {
                *held = held.saturating_sub(1);
                return true;
            }
            // A file without a name exists as long as somebody has it open.
            _ if !self.now.exists(key) && (self.names.count(id) > 0 || *held == 0) => return false,
            Op::Open { .. } if answer == Answer::Done => *held += 1,
            _ => {}
        }
        let is_itself = !self.foreign.contains(&raw);
        match op {
            Op::SetXattr { name, mode, .. } => {
                *mode = XattrMode::Any;
                self.attributes.insert((id, name.clone()));
            }
            Op::GetXattr { name, .. } if answer != Answer::Failed => {
                let slot = (id, name.clone());
                let is_sure = is_itself && !self.recorded.lost_attributes.contains(&slot);
                return is_sure || self.attributes.contains(&slot);
            }
            Op::RemoveXattr { name, .. } => return self.attributes.remove(&(id, name.clone())),
            _ => {}
        }
        self.fit_length(op, id, key)
    }

    /// Moves what an operation adds to a file from before to where the file ends now. False if it has no
    /// meaning any more.
    fn fit_length(&mut self, op: &mut Op, id: Ino, key: Key) -> bool {
        let object = self.recorded.objects.get(&id).filter(|object| object.made.is_none());
        let Some(object) = object.filter(|_| Now::is_old(key)) else { return true };
        let before = object.size_before;
        let moves = !object.is_sparse && !self.rewritten.contains(&id);
        let size = if moves { self.now.about(key).size } else { before };
        match op {
            // Where data and holes are is another matter now.
            Op::Seek { .. } => return false,
            Op::Open { truncate: true, .. } => drop(self.rewritten.insert(id)),
            Op::SetAttr { set, .. } => {
                if let Some(length) = &mut set.size {
                    match *length < before {
                        true => drop(self.rewritten.insert(id)),
                        false => *length = moved(*length, before, size),
                    }
                }
            }
            Op::Write { off, data, .. } if off.saturating_add(data.len()) > before => {
                *off = moved(*off, before, size);
            }
            Op::WriteBack { off, data, .. } if off.saturating_add(data.len()) > before => {
                let end = moved(*off + data.len(), before, size);
                // Whole pages, of which the first may have an old part.
                let is_whole = *off % PAGE == 0 && *off < before;
                *off = moved(*off, before, size);
                if is_whole {
                    *off -= *off % PAGE;
                }
                *data = twin_fs::Data::Synthetic(end.saturating_sub(*off));
            }
            Op::Read { off, .. } if *off >= before => *off = moved(*off, before, size),
            Op::Fallocate { off, mode, .. }
                if *off >= before && !matches!(mode, Fallocate::PunchHole) =>
            {
                *off = moved(*off, before, size);
            }
            _ => {}
        }
        true
    }

    /// Fits an operation on names: true if one of them is a successor's, none if there is nothing.
    fn fit_names(
        &mut self,
        op: &mut Op,
        was: &Op,
        answer: Answer,
    ) -> Result<Option<bool>, TraceError> {
        let raw_dirs = dirs_of(op).map(|dir| dir.map(|dir| *dir));
        if let Op::Lookup { name, .. } = was
            && is_dots(name)
        {
            let dir = raw_dirs[0].and_then(|dir| self.keys.get(&dir).copied());
            return Ok(dir.filter(|dir| self.now.exists(*dir)).map(|_| false));
        }
        self.make_room(was, answer);
        let [from, to] = slots_of(was);
        let (Some(from), Some(from_dir)) = (from, raw_dirs[0]) else { return Ok(None) };
        let Some(place) = self.place(from_dir, &from)? else { return Ok(None) };
        let to = match (to, raw_dirs[1]) {
            (Some(to), Some(dir)) => match self.place(dir, &to)? {
                Some(place) => Some(place),
                None => return Ok(None),
            },
            _ => None,
        };
        if !self.change(op, (&place, to.as_ref()), answer)? {
            return Ok(None);
        }
        let is_successor = place.is_successor || to.as_ref().is_some_and(|to| to.is_successor);
        put_places(op, place, to);
        Ok(Some(is_successor))
    }

    /// If something was made, there was nothing of that name before, whatever else is known.
    fn make_room(&mut self, was: &Op, answer: Answer) {
        let makes = matches!(
            was,
            Op::Create { exclusive: true, .. }
                | Op::MakeDir { .. }
                | Op::MakeNode { .. }
                | Op::Symlink { .. }
                | Op::Link { .. }
        );
        if let (true, Answer::Entry(_), [Some((dir, name)), _]) = (makes, answer, slots_of(was)) {
            self.names.apply(&Op::Unlink { dir, name }, Answer::Done);
        }
    }

    /// The place of a name of the recording on the volume, where there is something of its kind if
    /// there is in the recording, and nothing otherwise. None if there is no such place.
    fn place(&mut self, dir: Ino, slot: &Slot) -> Result<Option<Place>, TraceError> {
        let Some(&at) = self.keys.get(&dir) else { return Ok(None) };
        let place = match self.places.get(slot) {
            Some(place) => place.clone(),
            None => Place { dir, at, name: slot.1.clone(), is_successor: false },
        };
        let id = self.names.get(slot);
        let object = id.and_then(|id| self.recorded.objects.get(&id)).copied();
        let there = self.now.at(place.at, &place.name);
        let is_dir_there = self.now.exists(place.at);
        let kind_there = there.map(|key| self.now.about(key).kind);
        let place = match (object, kind_there) {
            (None, None) if is_dir_there => place,
            (None, _) if self.now.exists(at) => {
                self.told.other_names += 1;
                let name = free_name(&self.now, at, &slot.1);
                Place { dir, at, name, is_successor: false }
            }
            (Some(object), Some(kind)) if object.kind == kind => place,
            (Some(object), _) => {
                // Files that the recording has found already stay where they were found.
                let known = id.and_then(|id| self.keys.get(&id)).copied();
                let known = known.filter(|key| self.now.exists(*key)).and_then(|key| {
                    let (at, name) = self.now.home(key)?.clone();
                    (self.now.at(at, &name) == Some(key)).then_some((at, name))
                });
                let found = match known {
                    Some(found) => Some(found),
                    None => self.successor(slot, at, &object).map(|(at, name, _)| (at, name)),
                };
                let Some((at, name)) = found else { return Ok(None) };
                Place { dir: self.number(at, 0)?, at, name, is_successor: true }
            }
            (None, _) => return Ok(None),
        };
        self.places.insert(slot.clone(), place.clone());
        Ok(Some(place))
    }

    /// Changes the volume's names as an operation does at these places. False if it cannot be done.
    fn change(
        &mut self,
        op: &Op,
        (place, to): (&Place, Option<&Place>),
        answer: Answer,
    ) -> Result<bool, TraceError> {
        let there = self.now.at(place.at, &place.name);
        let id = match answer {
            Answer::Entry(id) => id,
            Answer::Failed => return Ok(true),
            _ => 0,
        };
        match op {
            Op::Lookup { .. } | Op::Create { .. } if there.is_some() => {
                there.into_iter().for_each(|key| self.leads_to(id, key, place));
                self.opened(op, id);
            }
            Op::Create { .. } => {
                self.make(id, place, mode::REGULAR);
                self.opened(op, id);
            }
            Op::MakeDir { .. } => self.make(id, place, mode::DIRECTORY),
            Op::Symlink { .. } => self.make(id, place, mode::SYMLINK),
            Op::MakeNode { mode, .. } => self.make(id, place, node_kind(*mode)),
            Op::Link { ino, .. } => {
                let Some(&key) = self.keys.get(ino) else { return Ok(false) };
                if !self.now.exists(key) {
                    return Ok(false);
                }
                self.now.put(place.at, place.name.clone(), key);
                self.leads_to(id, key, place);
            }
            Op::Unlink { .. } | Op::RemoveDir { .. } => {
                let Some(key) = there else { return Ok(false) };
                if matches!(op, Op::RemoveDir { .. }) {
                    self.empty(key, 0)?;
                }
                self.now.take(place.at, &place.name);
            }
            Op::Rename { mode, .. } => {
                let (Some(key), Some(to)) = (there, to) else { return Ok(false) };
                return self.rename(key, (place, to), *mode);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn make(&mut self, id: Ino, place: &Place, kind: u32) {
        let key = self.now.make(place.at, place.name.clone(), kind);
        self.leads_to(id, key, place);
    }

    /// Who creates a file has it open.
    fn opened(&mut self, op: &Op, id: Ino) {
        if let (Op::Create { .. }, Some(key)) = (op, self.keys.get(&id)) {
            *self.held.entry(*key).or_default() += 1;
        }
    }

    /// From here on a number of the recording stands for this file.
    fn leads_to(&mut self, id: Ino, key: Key, place: &Place) {
        self.keys.insert(id, key);
        self.numbers.entry(key).or_insert(id);
        *self.held.entry(key).or_default() += 1;
        match place.is_successor {
            true => self.foreign.insert(id),
            false => self.foreign.remove(&id),
        };
    }

    fn rename(
        &mut self,
        key: Key,
        (from, to): (&Place, &Place),
        how: RenameMode,
    ) -> Result<bool, TraceError> {
        let over = self.now.at(to.at, &to.name);
        let is_same = over == Some(key);
        let leaves_whiteout = how == RenameMode::Whiteout;
        let exchanges = how == RenameMode::Exchange;
        let goes_into_itself = self.now.is_above(key, to.at)
            || (exchanges && over.is_some_and(|over| self.now.is_above(over, from.at)));
        if goes_into_itself || is_same || (exchanges && over.is_none()) {
            return Ok(false);
        }
        if let (Some(over), false) = (over, exchanges)
            && self.now.about(over).kind == mode::DIRECTORY
        {
            self.empty(over, 0)?;
        }
        self.now.take(from.at, &from.name);
        self.now.take(to.at, &to.name);
        self.now.put(to.at, to.name.clone(), key);
        if let (Some(over), true) = (over, exchanges) {
            self.now.put(from.at, from.name.clone(), over);
        }
        if leaves_whiteout {
            self.now.make(from.at, from.name.clone(), mode::CHAR);
        }
        Ok(true)
    }

    /// Removes all that is in a directory.
    fn empty(&mut self, dir: Key, depth: usize) -> Result<(), TraceError> {
        if depth > DEEPEST {
            return Ok(());
        }
        for (name, key) in self.now.list(dir) {
            let is_dir = self.now.about(key).kind == mode::DIRECTORY;
            if is_dir {
                self.empty(key, depth + 1)?;
            }
            let number = self.number(dir, 0)?;
            let op = match is_dir {
                true => Op::RemoveDir { dir: number, name: name.clone() },
                false => Op::Unlink { dir: number, name: name.clone() },
            };
            self.now.take(dir, &name);
            self.told.emptied += 1;
            let request = self.write(&Request::root(0, op))?;
            self.writer.reply(self.at_ns, request, &Outcome::Done)?;
        }
        Ok(())
    }
}

/// An offset in a file that had `before` bytes, in the same file with `size`: what lies behind its end
/// stays as far behind it.
fn moved(off: u64, before: u64, size: u64) -> u64 {
    match size >= before {
        true => off.saturating_add(size - before),
        false => off.saturating_sub(before - size),
    }
}

/// True for an operation that changes nothing.
fn only_looks(op: &Op) -> bool {
    matches!(
        op,
        Op::Lookup { .. }
            | Op::GetAttr { .. }
            | Op::ReadLink { .. }
            | Op::Access { .. }
            | Op::GetXattr { .. }
            | Op::ListXattr { .. }
            | Op::StatFs
    )
}

/// Sets the places of an operation on names.
fn put_places(op: &mut Op, place: Place, to: Option<Place>) {
    match op {
        Op::Lookup { dir, name }
        | Op::Create { dir, name, .. }
        | Op::MakeDir { dir, name, .. }
        | Op::MakeNode { dir, name, .. }
        | Op::Symlink { dir, name, .. }
        | Op::Link { dir, name, .. }
        | Op::Unlink { dir, name }
        | Op::RemoveDir { dir, name }
        | Op::Rename { dir, name, .. } => (*dir, *name) = (place.dir, place.name),
        _ => {}
    }
    if let (Op::Rename { to_dir, to_name, .. }, Some(to)) = (op, to) {
        (*to_dir, *to_name) = (to.dir, to.name);
    }
}

/// The files of the volume to which names of the recording lead, by inode.
fn keys_of(names: &Names, now: &Now) -> Vec<(Ino, Key)> {
    let mut below: FixedMap<Ino, Vec<(&Name, Ino)>> = FixedMap::default();
    for (slot, id) in names.iter() {
        below.entry(slot.0).or_default().push((&slot.1, id));
    }
    let mut found: FixedMap<Ino, Key> = [(ROOT_INO, ROOT_INO)].into_iter().collect();
    let mut waiting = vec![(ROOT_INO, ROOT_INO)];
    let mut all = Vec::new();
    while let Some((dir, at)) = waiting.pop() {
        let mut inside = below.remove(&dir).unwrap_or_default();
        inside.sort_unstable();
        for (name, id) in inside {
            if let Some(key) = now.at(at, name)
                && found.insert(id, key).is_none()
            {
                all.push((id, key));
                waiting.push((id, key));
            }
        }
    }
    all
}

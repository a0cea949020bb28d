//! The facts of a recording: the answers, and which names led where, from the window's beginning
//! on.

use twin_fs::{Fallocate, Ino, Name, Op, ROOT_INO, RenameMode, mode};
use twin_rt::{FixedMap, FixedSet, Nanos};
use twin_trace::{Header, Node, Outcome, Record, Source, TraceError};

/// Inodes of which a recording has no number have numbers from here on.
const UNKNOWN: Ino = 1 << 62;

/// A write that leaves a larger hole (in bytes) behind the end of a file does not append to it.
/// Kernels may send appended data out of order.
const LARGE_HOLE: u64 = 1 << 20;

/// A name in a directory of the recording.
pub(super) type Slot = (Ino, Name);

/// The kind of an inode: the type bits of its mode.
pub(super) type Kind = u32;

/// The answer to a request, as far as it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The request was in flight when the recording ended, or has no answer.
    Missing,
    /// The operation failed, so nothing changed.
    Failed,
    /// The request led to this inode. Of a rename that leaves a whiteout, to the whiteout.
    Entry(Ino),
    /// The operation succeeded without naming a file.
    Done,
}

/// A file of the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    /// Owner, group and permissions of the file.
    pub(super) owner: (u32, u32, u32),
    /// Length of the file when the window began, in bytes.
    pub(super) size_before: u64,
    size: u64,
    /// True if its node's attributes are in.
    sized: bool,
    /// When its content was changed last, since the beginning of the recording, if that is recorded.
    pub(super) changed_ns: Option<Nanos>,
    /// The number of the file among those that the window made.
    pub(super) made: Option<u64>,
    /// The window changes it, or what is in it.
    pub(super) is_changed: bool,
    /// The window names its inode.
    pub(super) is_named: bool,
    /// The window makes it longer by a large hole, and not by adding to it.
    pub(super) is_sparse: bool,
}

impl Object {
    /// Its length at the end, in bytes, if it is known.
    pub(super) fn last_size(&self) -> Option<u64> {
        self.sized.then_some(self.size)
    }
}

/// How many names come and go in a directory during the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turnover {
    /// Names that were made.
    pub(super) made: u64,
    /// Of these, the ones that were removed again.
    pub(super) made_gone: u64,
    /// Names from before that went.
    pub(super) old_gone: u64,
}

/// Names and where they lead.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    slots: FixedMap<Slot, Ino>,
    counts: FixedMap<Ino, u32>,
}

impl Names {
    pub(super) fn get(&self, slot: &Slot) -> Option<Ino> {
        self.slots.get(slot).copied()
    }

    /// All names, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Slot, Ino)> {
        self.slots.iter().map(|(slot, id)| (slot, *id))
    }

    /// The number of names of an inode.
    pub(super) fn count(&self, id: Ino) -> u32 {
        self.counts.get(&id).copied().unwrap_or(0)
    }

    fn put(&mut self, slot: Slot, id: Ino) {
        self.take(&slot);
        self.slots.insert(slot, id);
        *self.counts.entry(id).or_default() += 1;
    }

    fn take(&mut self, slot: &Slot) -> Option<Ino> {
        let id = self.slots.remove(slot)?;
        if let Some(count) = self.counts.get_mut(&id) {
            *count -= 1;
        }
        Some(id)
    }

    /// Changes names as an operation did that succeeded. The numbers in it are canonical.
    pub(super) fn apply(&mut self, op: &Op, answer: Answer) {
        match (op, answer) {
            (
                Op::Create { dir, name, .. }
                | Op::MakeDir { dir, name, .. }
                | Op::MakeNode { dir, name, .. }
                | Op::Symlink { dir, name, .. }
                | Op::Link { dir, name, .. }
                | Op::Lookup { dir, name },
                Answer::Entry(id),
            ) if !is_dots(name) => self.put((*dir, name.clone()), id),
            (Op::Unlink { dir, name } | Op::RemoveDir { dir, name }, Answer::Done) => {
                self.take(&(*dir, name.clone()));
            }
            (Op::Rename { dir, name, to_dir, to_name, mode }, answer) => {
                let (from, to) = ((*dir, name.clone()), (*to_dir, to_name.clone()));
                let (moved, over) = (self.get(&from), self.get(&to));
                if moved.is_none() || moved == over {
                    return;
                }
                self.take(&from);
                self.take(&to);
                moved.into_iter().for_each(|id| self.put(to.clone(), id));
                match (mode, answer) {
                    (RenameMode::Exchange, _) => {
                        over.into_iter().for_each(|id| self.put(from.clone(), id));
                    }
                    (RenameMode::Whiteout, Answer::Entry(white)) => self.put(from, white),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// True for the names that every directory has.
pub(super) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// The names in an operation.
pub(super) fn slots_of(op: &Op) -> [Option<Slot>; 2] {
    match op {
        Op::Lookup { dir, name }
        | Op::Create { dir, name, .. }
        | Op::MakeDir { dir, name, .. }
        | Op::MakeNode { dir, name, .. }
        | Op::Symlink { dir, name, .. }
        | Op::Link { dir, name, .. }
        | Op::Unlink { dir, name }
        | Op::RemoveDir { dir, name } => [Some((*dir, name.clone())), None],
        Op::Rename { dir, name, to_dir, to_name, .. } => {
            [Some((*dir, name.clone())), Some((*to_dir, to_name.clone()))]
        }
        _ => [None, None],
    }
}

/// The inode that an operation is about; a directory only if it is listed.
pub(super) fn ino_of(op: &mut Op) -> Option<&mut Ino> {
    match op {
        Op::Forget { ino, .. }
        | Op::GetAttr { ino }
        | Op::SetAttr { ino, .. }
        | Op::ReadLink { ino }
        | Op::Link { ino, .. }
        | Op::Open { ino, .. }
        | Op::Release { ino }
        | Op::Read { ino, .. }
        | Op::Write { ino, .. }
        | Op::WriteBack { ino, .. }
        | Op::Append { ino, .. }
        | Op::Fsync { ino, .. }
        | Op::Access { ino, .. }
        | Op::SetXattr { ino, .. }
        | Op::GetXattr { ino, .. }
        | Op::ListXattr { ino }
        | Op::RemoveXattr { ino, .. }
        | Op::Fallocate { ino, .. }
        | Op::Seek { ino, .. }
        | Op::ReadDir { dir: ino, .. } => Some(ino),
        _ => None,
    }
}

/// The directories in an operation on names.
pub(super) fn dirs_of(op: &mut Op) -> [Option<&mut Ino>; 2] {
    match op {
        Op::Lookup { dir, .. }
        | Op::Create { dir, .. }
        | Op::MakeDir { dir, .. }
        | Op::MakeNode { dir, .. }
        | Op::Symlink { dir, .. }
        | Op::Link { dir, .. }
        | Op::Unlink { dir, .. }
        | Op::RemoveDir { dir, .. } => [Some(dir), None],
        Op::Rename { dir, to_dir, .. } => [Some(dir), Some(to_dir)],
        _ => [None, None],
    }
}

/// The type bits of what an operation makes.
fn made_kind(op: &Op) -> Option<Kind> {
    Some(match op {
        Op::Create { .. } => mode::REGULAR,
        Op::MakeDir { .. } => mode::DIRECTORY,
        Op::Symlink { .. } => mode::SYMLINK,
        Op::MakeNode { mode, .. } => node_kind(*mode),
        _ => return None,
    })
}

/// The type bits of what `mknod` makes: a regular file, if there are none.
pub(super) fn node_kind(mode: u32) -> Kind {
    match mode & mode::TYPE {
        0 => mode::REGULAR,
        kind => kind,
    }
}

/// True if an operation changes the file that it is about, not only its time of access.
fn changes(op: &Op) -> bool {
    matches!(
        op,
        Op::SetAttr { .. }
            | Op::Link { .. }
            | Op::Write { .. }
            | Op::WriteBack { .. }
            | Op::Append { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::Fallocate { .. }
            | Op::Open { truncate: true, .. }
    )
}

/// The part of a recording that is continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Only the requests of this many nanoseconds before the last one.
    pub last_ns: Option<Nanos>,
    /// Only this many requests, from the first on.
    pub requests: Option<u64>,
}

/// The facts of a recording; the module explains them.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// The answers by the number of the request, the first of which is 1.
    answers: Vec<Answer>,
    /// The number of the window's first request, and of its last.
    pub(super) first: u64,
    pub(super) last: u64,
    /// When the recording began, in nanoseconds since 1970, if that is known.
    pub(super) start_ns: Option<Nanos>,
    /// The times of both.
    pub(super) first_ns: Nanos,
    pub(super) last_ns: Nanos,
    /// The names when the window began, as far as they occur in the recording, and the order in which
    /// they became known.
    pub(super) before: Names,
    pub(super) order: Vec<Slot>,
    /// The names at its end.
    pub(super) after: Names,
    pub(super) objects: FixedMap<Ino, Object>,
    /// Other numbers of an inode, by which generated workloads call it.
    aliases: FixedMap<Ino, Ino>,
    pub(super) turnover: FixedMap<(Ino, bool), Turnover>,
    /// Attributes that were removed from files.
    pub(super) lost_attributes: FixedSet<Slot>,
    /// Names that were made in the window and are still there.
    fresh: FixedSet<Slot>,
    /// Names that the recording has made or removed.
    used: FixedSet<Slot>,
    begun: bool,
    at_ns: Nanos,
    made: u64,
    unknown: u64,
    /// The largest number of an inode.
    pub(super) largest: Ino,
}

impl Recorded {
    /// Reads a recording twice.
    pub(super) fn of<S: Source, E: From<TraceError>>(
        open: &mut impl FnMut() -> Result<S, E>,
        window: Window,
    ) -> Result<Recorded, E> {
        let mut recorded = Recorded { largest: ROOT_INO, ..Recorded::default() };
        recorded.answers(&mut open()?, window)?;
        let mut source = open()?;
        let Header { start, traits, .. } = source.header();
        recorded.start_ns = traits.timed.then_some(start.0);
        while let Some(record) = source.next_record()? {
            match record {
                Record::Request { request, .. } if request.id > recorded.last => break,
                Record::Request { at_ns, request } => {
                    if request.id == recorded.first {
                        recorded.begin();
                    }
                    recorded.at_ns = at_ns;
                    let mut op = request.op;
                    recorded.note_whiteout(&op, request.id);
                    recorded.request(&mut op, recorded.answer(request.id));
                }
                // The places of data in a file do not matter for the next period.
                Record::Node(node) if node.as_data().is_some() => {}
                Record::Node(node) => recorded.was_there((node.dir, node.name), node.ino),
                Record::Reply { .. } => {}
            }
        }
        if !recorded.begun {
            recorded.begin();
        }
        Ok(recorded)
    }

    /// Reads the answers and what was there before.
    fn answers(&mut self, source: &mut impl Source, window: Window) -> Result<(), TraceError> {
        let most = window.requests.unwrap_or(u64::MAX);
        let mut times: Vec<(Nanos, u64)> = Vec::new();
        self.answers.push(Answer::Missing);
        while let Some(record) = source.next_record()? {
            match record {
                Record::Request { at_ns, request } => {
                    let place = request.id as usize;
                    if self.answers.len() <= place {
                        self.answers.resize(place + 1, Answer::Missing);
                    }
                    if request.id <= most {
                        // One request for each second is enough to find the window's beginning.
                        if times.last().is_none_or(|(at, _)| at_ns >= at + twin_rt::SECS) {
                            times.push((at_ns, request.id));
                        }
                        (self.last, self.last_ns) = (request.id, at_ns);
                    }
                }
                Record::Reply { id, outcome, .. } => {
                    if let Some(answer) = self.answers.get_mut(id as usize) {
                        *answer = match outcome {
                            Outcome::Failed(_) => Answer::Failed,
                            Outcome::Entry(ino) => Answer::Entry(ino),
                            _ => Answer::Done,
                        };
                    }
                }
                Record::Node(node) if node.as_data().is_some() => {}
                // It comes after the request with which it was found.
                Record::Node(node) => self.node(&node),
            }
        }
        let from_ns = window.last_ns.map_or(0, |last| self.last_ns.saturating_sub(last));
        let first = times.iter().find(|(at, _)| *at >= from_ns).or(times.last());
        (self.first_ns, self.first) = first.copied().unwrap_or((0, 1));
        Ok(())
    }

    /// When something was changed last that is now, one period later, as old as this object was then:
    /// in seconds since 1970. None if that is not known.
    pub(super) fn one_period_later_s(&self, object: &Object) -> Option<i64> {
        let at_ns = self.start_ns? + object.changed_ns? + (self.last_ns - self.first_ns);
        Some((at_ns / twin_rt::SECS) as i64)
    }

    pub(super) fn answer(&self, id: u64) -> Answer {
        self.answers.get(id as usize).copied().unwrap_or(Answer::Missing)
    }

    /// The number under which an inode is known here.
    pub(super) fn canonical(&self, id: Ino) -> Ino {
        self.aliases.get(&id).copied().unwrap_or(id)
    }

    /// The numbers in an operation, and in its answer, made canonical.
    pub(super) fn to_canonical(&self, op: &mut Op, answer: Answer) -> Answer {
        dirs_of(op).into_iter().flatten().for_each(|dir| *dir = self.canonical(*dir));
        if let Some(ino) = ino_of(op) {
            *ino = self.canonical(*ino);
        }
        match answer {
            Answer::Entry(id) => Answer::Entry(self.canonical(id)),
            other => other,
        }
    }

    /// Begins the window: everything that exists now existed before.
    fn begin(&mut self) {
        self.begun = true;
        self.before = self.after.clone();
        self.order = self.before.slots.keys().cloned().collect();
        self.order.sort_unstable();
        for object in self.objects.values_mut() {
            (object.size_before, object.made) = (object.size, None);
        }
    }

    fn node(&mut self, node: &Node) {
        self.largest = self.largest.max(node.ino);
        if node.ino == ROOT_INO || is_dots(&node.name) {
            return;
        }
        let object = self.object(node.ino, node.mode & mode::TYPE);
        if let (Some(attr), false) = (node.attr, object.sized) {
            object.owner = (attr.uid, attr.gid, node.mode & mode::PERMISSIONS);
            (object.size_before, object.size, object.sized) = (attr.size, attr.size, true);
        }
    }

    /// A name that is there now: since before the recording, unless the recording has used it.
    fn was_there(&mut self, slot: Slot, id: Ino) {
        if self.after.get(&slot).is_some() || is_dots(&slot.1) || id == ROOT_INO {
            return;
        }
        self.after.put(slot.clone(), id);
        if self.begun && self.before.get(&slot).is_none() && !self.used.contains(&slot) {
            self.before.put(slot.clone(), id);
            self.order.push(slot);
        }
    }

    fn object(&mut self, id: Ino, kind: Kind) -> &mut Object {
        self.largest = self.largest.max(if id < UNKNOWN { id } else { 0 });
        self.objects.entry(id).or_insert(Object {
            kind,
            owner: (0, 0, 0o755),
            size_before: 0,
            size: 0,
            sized: false,
            changed_ns: None,
            made: None,
            is_changed: false,
            is_named: false,
            is_sparse: false,
        })
    }

    /// A name from before of which the recording does not tell where it leads.
    fn unknown(&mut self, slot: &Slot, kind: Kind) -> Ino {
        self.unknown += 1;
        let id = UNKNOWN + self.unknown;
        self.object(id, kind);
        self.was_there(slot.clone(), id);
        id
    }

    /// A whiteout has a number here, though no answer tells it.
    fn note_whiteout(&mut self, op: &Op, request: u64) {
        if let (Op::Rename { mode: RenameMode::Whiteout, .. }, Answer::Done) =
            (op, self.answer(request))
        {
            self.unknown += 1;
            let id = UNKNOWN + self.unknown;
            self.object(id, mode::CHAR).made = Some(self.made);
            if let Some(answer) = self.answers.get_mut(request as usize) {
                *answer = Answer::Entry(id);
            }
        }
    }

    fn request(&mut self, op: &mut Op, answer: Answer) {
        let answer = self.to_canonical(op, answer);
        if matches!(answer, Answer::Failed | Answer::Missing) {
            // It changes nothing, and may be repeated.
            let begun = self.begun;
            let ino = ino_of(op).map(|ino| *ino);
            let dirs = dirs_of(op).map(|dir| dir.map(|dir| *dir));
            for id in dirs.into_iter().chain([ino]).flatten() {
                self.objects.get_mut(&id).into_iter().for_each(|object| object.is_named |= begun);
            }
            return;
        }
        let answer = self.learn(op, answer);
        self.count(op, answer);
        self.after.apply(op, answer);
        if !matches!(op, Op::Lookup { .. }) {
            self.used.extend(slots_of(op).into_iter().flatten());
        }
        self.resize(op);
        let begun = self.begun;
        for dir in dirs_of(op).into_iter().flatten() {
            let object = self.object(*dir, mode::DIRECTORY);
            object.is_changed |= begun;
            object.is_named |= begun;
        }
        let is_change = changes(op);
        let mut named: Vec<(Ino, bool)> =
            ino_of(op).map(|ino| (*ino, is_change)).into_iter().collect();
        if let Answer::Entry(id) = answer {
            named.push((id, false));
        }
        for (id, is_change) in named {
            if let Some(object) = self.objects.get_mut(&id) {
                object.is_changed |= begun && is_change;
                object.is_named |= begun;
            }
        }
        if let Op::RemoveXattr { ino, name } = op {
            self.lost_attributes.insert((*ino, name.clone()));
        }
    }

    /// Learns from an operation about inodes and about names from before. Returns the answer with
    /// the number under which the inode was known before.
    fn learn(&mut self, op: &Op, answer: Answer) -> Answer {
        let [from, to] = slots_of(op);
        let Some(slot) = from else { return answer };
        match (op, answer) {
            (_, Answer::Entry(_)) if is_dots(&slot.1) => {}
            (Op::Lookup { .. } | Op::Create { exclusive: false, .. }, Answer::Entry(id)) => {
                match self.after.get(&slot) {
                    Some(known) if known == id => {}
                    Some(known) => {
                        self.aliases.insert(id, known);
                        return Answer::Entry(known);
                    }
                    None if matches!(op, Op::Create { .. }) && !self.is_old(id) => {
                        self.make(op, id);
                    }
                    None => {
                        self.object(id, mode::REGULAR);
                        self.was_there(slot, id);
                    }
                }
            }
            (Op::Link { .. }, _) => {}
            (_, Answer::Entry(id)) if to.is_none() => self.make(op, id),
            (Op::Unlink { .. }, _) if self.after.get(&slot).is_none() => {
                self.unknown(&slot, mode::REGULAR);
            }
            (Op::RemoveDir { .. }, _) if self.after.get(&slot).is_none() => {
                self.unknown(&slot, mode::DIRECTORY);
            }
            (Op::Rename { mode, .. }, _) => {
                let kind = to.as_ref().and_then(|to| self.after.get(to));
                let kind = kind.and_then(|id| self.objects.get(&id)).map(|object| object.kind);
                if self.after.get(&slot).is_none() {
                    self.unknown(&slot, kind.unwrap_or(mode::REGULAR));
                }
                if let (RenameMode::Exchange, Some(to)) = (mode, to)
                    && self.after.get(&to).is_none()
                {
                    self.unknown(&to, mode::REGULAR);
                }
            }
            _ => {}
        }
        answer
    }

    fn is_old(&self, id: Ino) -> bool {
        self.objects.get(&id).is_some_and(|object| object.made.is_none() && object.sized)
    }

    fn make(&mut self, op: &Op, id: Ino) {
        let Some(kind) = made_kind(op) else { return };
        self.made += 1;
        let (made, changed_ns) = (Some(self.made), Some(self.at_ns));
        let object = *self.object(id, kind);
        self.objects.insert(id, Object { kind, made, changed_ns, sized: true, ..object });
    }

    /// Counts the names that come and go in directories, before names change.
    fn count(&mut self, op: &Op, answer: Answer) {
        if !self.begun {
            return;
        }
        let [from, to] = slots_of(op);
        let Some(from) = from else { return };
        match (op, to) {
            (Op::Rename { mode: RenameMode::Exchange, .. }, _) | (Op::Lookup { .. }, _) => {}
            (Op::Rename { .. }, Some(to)) => {
                let Some(id) = self.after.get(&from) else { return };
                let is_over = self.after.get(&to).is_some();
                let is_within = from.0 == to.0;
                let was_fresh = self.fresh.remove(&from);
                let is_dir = self.is_dir(id);
                let of = self.turnover.entry((from.0, is_dir)).or_default();
                match (is_within, was_fresh) {
                    // A new version that takes the old one's place is neither made nor gone.
                    (true, true) if is_over => of.made -= of.made.min(1),
                    (true, true) => drop(self.fresh.insert(to)),
                    (true, false) => {}
                    (false, true) => of.made_gone += 1,
                    (false, false) => of.old_gone += 1,
                }
                if !is_within && !is_over {
                    let to_dir = slots_of(op)[1].clone();
                    to_dir.into_iter().for_each(|to| self.count_made(to, is_dir));
                }
            }
            (Op::Unlink { .. } | Op::RemoveDir { .. }, _) => {
                let is_dir = matches!(op, Op::RemoveDir { .. });
                let was_fresh = self.fresh.remove(&from);
                let of = self.turnover.entry((from.0, is_dir)).or_default();
                match was_fresh {
                    true => of.made_gone += 1,
                    false => of.old_gone += 1,
                }
            }
            _ if self.after.get(&from).is_none() && matches!(answer, Answer::Entry(_)) => {
                self.count_made(from, matches!(op, Op::MakeDir { .. }));
            }
            _ => {}
        }
    }

    fn count_made(&mut self, slot: Slot, is_dir: bool) {
        self.turnover.entry((slot.0, is_dir)).or_default().made += 1;
        self.fresh.insert(slot);
    }

    fn is_dir(&self, id: Ino) -> bool {
        self.objects.get(&id).is_some_and(|object| object.kind == mode::DIRECTORY)
    }

    /// Follows the length of a file.
    fn resize(&mut self, op: &mut Op) {
        let mut from = 0;
        let grown = match &*op {
            Op::Write { off, data, .. }
            | Op::WriteBack { off, data, .. }
            | Op::Append { off, data, .. } => {
                from = *off;
                off.saturating_add(data.len())
            }
            Op::Fallocate { off, len, mode, .. } => match mode {
                Fallocate::Allocate { keep_size: false }
                | Fallocate::ZeroRange { keep_size: false } => off.saturating_add(*len),
                _ => return,
            },
            _ => 0,
        };
        let set = match &*op {
            Op::SetAttr { set, .. } => set.size,
            Op::Open { truncate: true, .. } => Some(0),
            _ => None,
        };
        let Some(ino) = ino_of(op).copied() else { return };
        if let Some(object) = self.objects.get_mut(&ino) {
            if op.written().is_some() || set.is_some() {
                object.changed_ns = Some(self.at_ns);
            }
            let hole = from.max(set.unwrap_or(0)).saturating_sub(object.size);
            object.is_sparse |= self.begun && hole > LARGE_HOLE;
            object.size = set.unwrap_or(object.size.max(grown));
        }
    }
}

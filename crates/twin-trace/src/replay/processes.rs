//! What a request of a mounted recording waits for ([`Order::Process`](super::Order::Process)).
//!
//! Contract: for each request, in the order of the recording, [`Processes`] says to which client's
//! chain it belongs and which earlier requests must have been issued, ended or handled before it is
//! issued. A request only ever waits for events that precede it in the recording, so that a replay
//! cannot deadlock. A recording does not tell why a client waited, so the rules are heuristics:
//!
//! - **Chains.** A client is a thread, which makes one request after the other.
//! - **Conflicts.** A request waits for those of other clients that touch the same name, listing or
//!   inode, if one of the two changes it: until they have ended if they had been answered when the
//!   request came, otherwise until they are issued, so that the order of issue stays. Two changes of
//!   different names in one directory do not conflict. A forget or release waits for everything
//!   that names its inode. Removing or replacing a name conflicts with everything that names the inode
//!   behind it, if an earlier answer told which that is. Before a directory of which none told, and
//!   before everything is synced, everything must have happened that had been answered. Two writes to one file conflict even where their ranges do not overlap.
//! - **The kernel.** Requests of client 0 (write-back and the times that go with it, forgets,
//!   releases) are given to the chain of the client that last opened, made or changed the inode:
//!   it waits for them in `close`, in `fsync` and when too much is dirty. A chain of their own
//!   would tie all clients together again; without a chain a client would not wait in `close`.
//! - **Births.** The first request of a client waits for everything that had been answered: some
//!   process started it, and nobody knows which.
//! - **Parents.** A client whose pause contains the whole life of others, from the first to the last
//!   request, waits for their ends: it may be a shell, or `make`.
//!
//! The rules order what a kernel lets through. What depends on the whole tree (a directory moved below
//! itself) or fails in the kernel (a link to a removed file) may come in another order.
//!
//! Where there is something to wait for, the pause before a request counts from the latest of the
//! recorded answers that it waited for, its own chain's included.

use std::collections::BTreeSet;
use std::hash::Hasher;

use twin_fs::{Ino, Op, RenameMode, Request};
use twin_rt::{FixedHasher, FixedMap, Nanos, Time};

use super::report::ClientEnd;
use crate::record::{Outcome, Verb};

/// The kernel's number among the clients.
const KERNEL: u32 = 0;
/// The smallest number of keys at which those that nobody uses any more are dropped: so few that they stay in the
/// processor's caches, since most are in question for a moment only.
const SWEEP_AT: usize = 1 << 12;

/// How far an earlier request must have got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Issued,
    Ended,
    /// The chain of the request has handled the answer, and with it all earlier events of the
    /// chain.
    Handled,
}

#[derive(Clone, Copy)]
struct Wait {
    track: u32,
    number: u64,
    until: Until,
}

/// The effect of a request on something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Change,
    Look,
    /// A forget or release, for which nobody waits.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// A hash of a directory and a name in it. Two names with the same hash only cost a wait.
    Name(u64),
    Listing(Ino),
    Inode(Ino),
}

/// The place of a request's track, and its number.
type User = (u32, u64);

/// A list that mostly has one entry, which needs no memory of its own.
#[derive(Default)]
struct Few {
    first: Option<User>,
    more: Vec<User>,
}

impl Few {
    fn iter(&self) -> impl Iterator<Item = &User> {
        self.first.iter().chain(&self.more)
    }

    fn push(&mut self, user: User) {
        match self.first {
            None => self.first = Some(user),
            Some(_) => self.more.push(user),
        }
    }

    fn retain(&mut self, mut keep: impl FnMut(&User) -> bool) {
        if !self.more.is_empty() {
            self.more.retain(&mut keep);
        }
        if self.first.as_ref().is_some_and(|first| !keep(first)) {
            self.first = (!self.more.is_empty()).then(|| self.more.remove(0));
        }
    }
}

/// The requests that may have to be waited for, by what they do. Of each chain those suffice that
/// had not been answered when the next one came, and the last.
#[derive(Default)]
struct Users {
    changes: Few,
    looks: Few,
}

impl Users {
    fn add(&mut self, marks: &[Mark], track: u32, what: Use) {
        let list = match what {
            Use::Change => &mut self.changes,
            Use::Look => &mut self.looks,
            Use::End => return,
        };
        let Mark { number, domain, .. } = marks[track as usize];
        // Answers of its own chain are known to it when it is issued.
        list.retain(|user| {
            let mark = &marks[user.0 as usize];
            let behind = mark.domain == domain && mark.answered_ns.is_some();
            is_live(marks, user) && user.0 != track && !behind
        });
        list.push((track, number));
    }
}

/// True if a request has not ended yet.
fn is_live(marks: &[Mark], &(track, number): &User) -> bool {
    let mark = &marks[track as usize];
    mark.number == number && !mark.ended
}

/// The state of a tracked request; its place is that of the track.
#[derive(Default)]
struct Mark {
    /// 0 once its answer has been handled.
    number: u64,
    client: u32,
    domain: u32,
    /// The time of its answer in the recording, once that was read.
    answered_ns: Option<Nanos>,
    issued: bool,
    ended: bool,
    waits: Vec<Wait>,
    /// The hashes of the names of which its answer tells something; 0 for none.
    names: [u64; 2],
    /// The latest recorded answer that it waits for.
    base_ns: Option<Nanos>,
    blocked: bool,
}

/// A client's place in the recording, in records from the start.
#[derive(Clone, Copy, Default)]
struct Life {
    born: u64,
    latest: u64,
}

/// The last answer of a client, or of a chain.
#[derive(Clone, Copy)]
struct LastAnswer {
    track: u32,
    number: u64,
    at_ns: Nanos,
}

struct Death {
    /// The record of its last answer, and that of its first request.
    at: u64,
    born: u64,
    last: LastAnswer,
}

/// The event from which a request's pause counts, if that is not its chain's last one.
pub(super) struct Base {
    pub(super) at_ns: Nanos,
    /// The replay had to wait for it.
    pub(super) waited: bool,
}

/// What the rules have to know of each process and file.
pub(super) struct Processes {
    marks: Vec<Mark>,
    users: FixedMap<Key, Users>,
    sweep_at: usize,
    /// The client that last worked on an inode.
    owners: FixedMap<Ino, u32>,
    /// The inodes to which names lead, as far as answers have shown it, by the hashes of the names.
    named: FixedMap<u64, Ino>,
    lives: FixedMap<u32, Life>,
    deaths: Vec<Death>,
    /// The number of each client's last request, as far as known.
    last_requests: FixedMap<u32, u64>,
    /// Chains that have events to handle, and the last answer read of each chain.
    busy: BTreeSet<u32>,
    answers: Vec<Option<LastAnswer>>,
    /// Number of records read, and the time of the last answer among them.
    position: u64,
    answered_ns: Nanos,
    /// When an answer was last handled.
    handled_at: Time,
    ends: FixedMap<u32, (Nanos, Time)>,
}

impl Processes {
    /// The rules for a recording in which each client's last request has the given number.
    pub(super) fn new(last_requests: FixedMap<u32, u64>, begun: Time) -> Processes {
        Processes {
            marks: Vec::new(),
            users: FixedMap::default(),
            sweep_at: SWEEP_AT,
            owners: FixedMap::default(),
            named: FixedMap::default(),
            lives: FixedMap::default(),
            deaths: Vec::new(),
            last_requests,
            busy: BTreeSet::new(),
            answers: Vec::new(),
            position: 0,
            answered_ns: 0,
            handled_at: begun,
            ends: FixedMap::default(),
        }
    }

    /// The client to whose chain a request belongs.
    pub(super) fn chain_of(&self, request: &mut Request) -> u32 {
        if request.client != KERNEL {
            return request.client;
        }
        let [ino, _] = request.op.inos_mut();
        ino.and_then(|ino| self.owners.get(ino)).copied().unwrap_or(KERNEL)
    }

    /// A request was read.
    pub(super) fn request(&mut self, track: u32, domain: u32, request: &mut Request) {
        self.position += 1;
        if self.marks.len() <= track as usize {
            self.marks.resize_with(track as usize + 1, Mark::default);
        }
        let mark = &mut self.marks[track as usize];
        let mut waits = std::mem::take(&mut mark.waits);
        waits.clear();
        let (number, client) = (request.id, request.client);
        *mark = Mark { number, client, domain, waits, ..Mark::default() };
        let mut barrier = matches!(request.op, Op::Sync);
        barrier |= self.wait_for_removed(track, &request.op);
        if client != KERNEL {
            barrier |= self.live(track, client);
            self.own(client, &request.op);
        }
        if barrier {
            self.wait_for_everything(track, domain);
        }
        self.wait_for_conflicts(track, &mut request.op);
        if let Op::Forget { ino, .. } = request.op {
            self.owners.remove(&ino);
        }
    }

    /// A client makes a request: waits for the clients that lived and died in its pause. Returns
    /// true if it is the client's first request.
    fn live(&mut self, track: u32, client: u32) -> bool {
        let position = self.position;
        let Some(life) = self.lives.get_mut(&client) else {
            self.lives.insert(client, Life { born: position, latest: position });
            return true;
        };
        let latest = std::mem::replace(&mut life.latest, position);
        let in_pause = self.deaths.iter().rev().take_while(|death| death.at > latest);
        let children: Vec<LastAnswer> =
            in_pause.filter(|death| death.born > latest).map(|death| death.last).collect();
        children.into_iter().for_each(|last| self.wait_for_answer(track, last));
        false
    }

    /// Notes who works on an inode.
    fn own(&mut self, client: u32, op: &Op) {
        match op {
            Op::Open { ino, .. }
            | Op::Write { ino, .. }
            | Op::WriteBack { ino, .. }
            | Op::Append { ino, .. }
            | Op::SetAttr { ino, .. }
            | Op::Fsync { ino, .. }
            | Op::Fallocate { ino, .. } => drop(self.owners.insert(*ino, client)),
            _ => {}
        }
    }

    fn wait_for_everything(&mut self, track: u32, domain: u32) {
        let others = self.busy.iter().filter(|&&other| other != domain);
        let answers: Vec<LastAnswer> =
            others.filter_map(|&other| *self.answers.get(other as usize)?).collect();
        answers.into_iter().for_each(|last| self.wait_for_answer(track, last));
        let mark = &mut self.marks[track as usize];
        mark.base_ns = mark.base_ns.max(Some(self.answered_ns));
    }

    fn wait_for_answer(&mut self, track: u32, last: LastAnswer) {
        let LastAnswer { track: other, number, at_ns } = last;
        let mark = &mut self.marks[track as usize];
        mark.base_ns = mark.base_ns.max(Some(at_ns));
        mark.waits.push(Wait { track: other, number, until: Until::Handled });
    }

    /// Waits for what uses the inode whose name is to be removed or replaced, and notes the names
    /// of which the answer will tell. Returns true for a directory with an unknown inode.
    fn wait_for_removed(&mut self, track: u32, op: &Op) -> bool {
        let (names, removed) = match op {
            Op::Lookup { dir, name }
            | Op::MakeDir { dir, name, .. }
            | Op::MakeNode { dir, name, .. }
            | Op::Symlink { dir, name, .. }
            | Op::Create { dir, name, .. }
            | Op::Link { dir, name, .. } => ([hash(*dir, name), 0], 0),
            Op::Unlink { dir, name } | Op::RemoveDir { dir, name } => {
                let name = hash(*dir, name);
                ([name, 0], name)
            }
            Op::Rename { dir, name, to_dir, to_name, mode } => {
                let names = [hash(*dir, name), hash(*to_dir, to_name)];
                if *mode == RenameMode::Exchange {
                    for name in &names {
                        self.named.remove(name);
                    }
                }
                (names, names[1])
            }
            _ => return false,
        };
        self.marks[track as usize].names = names;
        let known = self.named.get(&removed).copied();
        if let Some(ino) = known {
            self.touch(track, Key::Inode(ino), Use::Change);
        }
        known.is_none() && matches!(op, Op::RemoveDir { .. })
    }

    /// Remembers the inodes of the names that an answer shows.
    fn learn(&mut self, [name, to]: [u64; 2], verb: Verb, outcome: &Outcome) {
        match (verb, outcome) {
            (_, Outcome::Entry(ino)) => {
                self.named.insert(name, *ino);
            }
            (Verb::Unlink | Verb::RemoveDir, Outcome::Done) => drop(self.named.remove(&name)),
            (Verb::Rename, Outcome::Done) => {
                match self.named.remove(&name) {
                    Some(ino) => self.named.insert(to, ino),
                    None => self.named.remove(&to),
                };
            }
            _ => {}
        }
    }

    fn wait_for_conflicts(&mut self, track: u32, op: &mut Op) {
        for (dir, name) in changed_names(op).into_iter().flatten() {
            self.touch(track, Key::Name(hash(dir, name)), Use::Change);
            self.touch(track, Key::Listing(dir), Use::Change);
        }
        match op {
            Op::Lookup { dir, name } => {
                self.touch(track, Key::Name(hash(*dir, name)), Use::Look);
            }
            Op::ReadDir { dir, .. } => self.touch(track, Key::Listing(*dir), Use::Look),
            _ => {}
        }
        let what = use_of_inode(op);
        let [first, second] = op.inos_mut();
        let (first, second) = (first.map(|ino| *ino), second.map(|ino| *ino));
        // A link changes the inode and looks at the directory, which comes second.
        if let Some(ino) = first {
            self.touch(track, Key::Inode(ino), what);
        }
        if let Some(ino) = second {
            self.touch(track, Key::Inode(ino), Use::Look);
        }
    }

    /// The request uses something: it waits for the conflicting uses by other chains.
    fn touch(&mut self, track: u32, key: Key, what: Use) {
        if self.users.len() >= self.sweep_at {
            self.sweep();
        }
        let users = self.users.entry(key).or_default();
        users.changes.retain(|user| is_live(&self.marks, user));
        users.looks.retain(|user| is_live(&self.marks, user));
        let changes_matter = what != Use::Change || !matches!(key, Key::Listing(_));
        let changes = users.changes.iter().filter(|_| changes_matter);
        let looks = users.looks.iter().filter(|_| what != Use::Look);
        let mut mine = std::mem::take(&mut self.marks[track as usize]);
        for &(other, number) in changes.chain(looks) {
            let mark = &self.marks[other as usize];
            if mark.domain == mine.domain || other == track {
                continue;
            }
            mine.base_ns = mine.base_ns.max(mark.answered_ns);
            let until = mark.answered_ns.map_or(Until::Issued, |_| Until::Ended);
            mine.waits.push(Wait { track: other, number, until });
        }
        self.marks[track as usize] = mine;
        users.add(&self.marks, track, what);
    }

    /// Drops keys that no request in question uses.
    fn sweep(&mut self) {
        let is_live = |user: &User| is_live(&self.marks, user);
        self.users.retain(|_, users| users.changes.iter().chain(users.looks.iter()).any(is_live));
        self.sweep_at = SWEEP_AT.max(self.users.len() * 2);
    }

    /// The answer of a request was read.
    pub(super) fn answer(&mut self, track: u32, at_ns: Nanos, verb: Verb, outcome: &Outcome) {
        self.position += 1;
        self.answered_ns = self.answered_ns.max(at_ns);
        let mark = &mut self.marks[track as usize];
        mark.answered_ns = Some(at_ns);
        let names = mark.names;
        let (number, client, domain) = (mark.number, mark.client, mark.domain as usize);
        let last = LastAnswer { track, number, at_ns };
        if self.answers.len() <= domain {
            self.answers.resize(domain + 1, None);
        }
        self.answers[domain] = Some(last);
        if let Some(life) = self.lives.get_mut(&client) {
            life.latest = self.position;
            if self.last_requests.get(&client) == Some(&number) {
                self.deaths.push(Death { at: self.position, born: life.born, last });
            }
        }
        self.learn(names, verb, outcome);
        let makes = matches!(verb, Verb::Create | Verb::MakeDir | Verb::MakeNode | Verb::Symlink);
        match outcome {
            Outcome::Entry(ino) => {
                self.referenced(track, *ino, if makes { Use::Change } else { Use::Look });
                if client != KERNEL && (makes || !self.owners.contains_key(ino)) {
                    self.owners.insert(*ino, client);
                }
            }
            Outcome::Dir(dir) => {
                dir.referenced.iter().for_each(|&ino| self.referenced(track, ino, Use::Look));
            }
            _ => {}
        }
    }

    /// A request that was answered gave a reference to an inode, or made it.
    fn referenced(&mut self, track: u32, ino: Ino, what: Use) {
        if !self.marks[track as usize].ended {
            self.users.entry(Key::Inode(ino)).or_default().add(&self.marks, track, what);
        }
    }

    /// The next request that this one has to wait for.
    pub(super) fn next_wait(&mut self, track: u32) -> Option<u32> {
        let mut waits = std::mem::take(&mut self.marks[track as usize].waits);
        let is_over = |wait: &Wait| {
            let mark = &self.marks[wait.track as usize];
            mark.number != wait.number
                || match wait.until {
                    Until::Issued => mark.issued || mark.ended,
                    Until::Ended => mark.ended,
                    Until::Handled => false,
                }
        };
        while waits.last().is_some_and(is_over) {
            waits.pop();
        }
        let next = waits.last().map(|wait| wait.track);
        let mark = &mut self.marks[track as usize];
        mark.blocked |= next.is_some();
        mark.waits = waits;
        next
    }

    /// Everything has happened that the request waited for. Returns the event from which its pause
    /// counts, once, if it is not its chain's last.
    pub(super) fn base(&mut self, track: u32) -> Option<Base> {
        let mark = &mut self.marks[track as usize];
        let at_ns = mark.base_ns.take()?;
        Some(Base { at_ns, waited: mark.blocked })
    }

    /// When an answer of any chain was last handled.
    pub(super) fn handled_at(&self) -> Time {
        self.handled_at
    }

    /// The request is issued.
    pub(super) fn issued(&mut self, track: u32) {
        self.marks[track as usize].issued = true;
    }

    /// The request has ended, or is left out.
    pub(super) fn ended(&mut self, track: u32) {
        self.marks[track as usize].ended = true;
    }

    /// The answer of the request has been handled.
    pub(super) fn handled(&mut self, track: u32, at_ns: Nanos, now: Time) {
        let mark = &mut self.marks[track as usize];
        mark.number = 0;
        self.handled_at = now;
        if mark.client != KERNEL {
            self.ends.insert(mark.client, (at_ns, now));
        }
    }

    /// A chain has events to handle, or has none any more.
    pub(super) fn set_busy(&mut self, domain: u32, busy: bool) {
        match busy {
            true => self.busy.insert(domain),
            false => self.busy.remove(&domain),
        };
    }

    /// When the last request of each client ended, since the start, by client. `speed` divides the
    /// recorded times.
    pub(super) fn ends(&self, first_ns: Nanos, begun: Time, speed: f64) -> Vec<ClientEnd> {
        let end = |(&client, &(at_ns, at)): (&u32, &(Nanos, Time))| {
            let recorded = at_ns.saturating_sub(first_ns) as f64;
            let recorded_ns = if speed > 0.0 { recorded / speed } else { recorded } as Nanos;
            ClientEnd { client, recorded_ns, replayed_ns: at.since(begun) }
        };
        let mut ends: Vec<ClientEnd> = self.ends.iter().map(end).collect();
        ends.sort_unstable_by_key(|end| end.client);
        ends
    }
}

fn hash(dir: Ino, name: &[u8]) -> u64 {
    let mut hasher = FixedHasher::default();
    hasher.write_u64(dir);
    hasher.write(name);
    hasher.finish()
}

/// The names that an operation makes or removes.
fn changed_names(op: &Op) -> [Option<(Ino, &[u8])>; 2] {
    match op {
        Op::MakeNode { dir, name, .. }
        | Op::MakeDir { dir, name, .. }
        | Op::Symlink { dir, name, .. }
        | Op::Create { dir, name, .. }
        | Op::Unlink { dir, name }
        | Op::RemoveDir { dir, name }
        | Op::Link { dir, name, .. } => [Some((*dir, name)), None],
        Op::Rename { dir, name, to_dir, to_name, .. } => {
            [Some((*dir, name)), Some((*to_dir, to_name))]
        }
        _ => [None, None],
    }
}

/// The effect of an operation on the inode that it names first.
fn use_of_inode(op: &Op) -> Use {
    match op {
        Op::Write { .. }
        | Op::WriteBack { .. }
        | Op::Append { .. }
        | Op::SetAttr { .. }
        | Op::Fallocate { .. }
        | Op::SetXattr { .. }
        | Op::RemoveXattr { .. }
        | Op::Link { .. }
        | Op::Open { truncate: true, .. } => Use::Change,
        Op::Forget { .. } | Op::Release { .. } => Use::End,
        _ => Use::Look,
    }
}

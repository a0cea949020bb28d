//! Workloads by hand: groups of clients, each with files, a mix of operations, and distributions.
//!
//! A client works in sessions: a number of operations, then a pause. Within a session it issues bursts
//! of operations at once and thinks between them. Every draw is counted by what it was for, so that
//! what was drawn can be shown beside what was asked ([`Tally`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use twin_fs::{Ino, ROOT_INO, file_type};
use twin_rt::{Nanos, Rng, SECS};
use twin_settings::{SettingsError, Values};
use twin_trace::{Node, Source};

use crate::COMMON;
use crate::distribution::Distribution;
use crate::script::{Burst, FIRST_INO, Script, Scripted, TRANSFER, mix, node};

/// How long a player waits between opening a file and playing it: time for the first parts.
const BEFORE_PLAYING: Nanos = 15 * SECS;
/// Most bytes of a file.
const LARGEST: f64 = (1u64 << 40) as f64;
/// The longest pause that can be described, 1,000 days, in nanoseconds.
const LONGEST: f64 = (1000 * 24 * 3600 * SECS) as f64;

/// A group of clients that do the same.
#[derive(Clone, Debug)]
pub struct Group {
    /// The name of the group, as the file has it.
    pub name: String,
    /// Number of clients in the group.
    pub clients: u64,
    /// Files of each client at the start.
    pub files: u64,
    /// Operations of each client.
    pub operations: u64,
    /// Sizes of files, those at the start and new ones.
    pub size: Distribution,
    /// Bytes of a read, write or append of a part.
    pub length: Distribution,
    /// The rank of the file that an operation chooses; ranks beyond the files begin again.
    pub popularity: Distribution,
    /// The time between two bursts of a client.
    pub think: Distribution,
    /// Operations of a burst.
    pub burst: Distribution,
    /// Operations of a session, and the pause behind it; without it there is one session.
    pub session: Option<(Distribution, Distribution)>,
    /// The rate at which a stream plays, in bytes a second; 0 for groups that play none.
    pub rate_bytes_per_s: u64,
    /// The replacement policy that its files name as their own, if they do.
    pub replacement: Option<&'static str>,
    /// Kinds of operations with their weights.
    pub mix: Vec<(Kind, f64)>,
}

/// An operation of a client on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Reads a file from its beginning to its end.
    ReadWhole,
    /// Reads a part, anywhere.
    Read,
    /// Overwrites a part, anywhere.
    Write,
    /// The same, and makes it durable.
    WriteSync,
    /// Adds to its end.
    Append,
    /// Makes a new one and writes it.
    Create,
    /// Removes the file from its directory.
    Delete,
    /// Looks at its attributes.
    Stat,
    /// Plays it from its start to its end at the rate of the group, in parts: each part is requested
    /// while the one before it is played, and has to be there when that ends.
    Play,
}

impl Kind {
    /// All kinds with their names.
    pub const ALL: &[(&str, Kind)] = &[
        ("read-whole", Kind::ReadWhole),
        ("read", Kind::Read),
        ("write", Kind::Write),
        ("write-sync", Kind::WriteSync),
        ("append", Kind::Append),
        ("create", Kind::Create),
        ("delete", Kind::Delete),
        ("stat", Kind::Stat),
        ("play", Kind::Play),
    ];

    /// The kind with this name.
    pub fn named(name: &str) -> Result<Kind, SettingsError> {
        let found = Kind::ALL.iter().find(|(known, _)| *known == name);
        let names = Kind::ALL.iter().map(|(name, _)| *name);
        found.map(|(_, kind)| *kind).ok_or_else(|| SettingsError::unknown("operation", name, names))
    }

    fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A workload by hand.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the workload.
    pub name: String,
    /// The groups of clients, in the order of the file.
    pub groups: Vec<Group>,
}

impl Plan {
    /// True if some operations have to end in time.
    pub fn has_deadlines(&self) -> bool {
        self.groups.iter().any(|group| group.mix.iter().any(|(kind, _)| *kind == Kind::Play))
    }
}

/// The values that were drawn, by group and purpose: how often, and the sum.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<(usize, &'static str), (u64, f64)>);

/// A figure that was asked for beside what was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The name of the group.
    pub group: String,
    /// The figure that was drawn, in words.
    pub what: &'static str,
    /// The distribution in the file, as it was written.
    pub asked: String,
    /// The mean of that distribution: of bytes, of nanoseconds, or a share of the operations.
    pub asked_mean: f64,
    /// The mean of what was drawn.
    pub drawn_mean: f64,
    /// How often it was drawn.
    pub draws: u64,
}

impl Tally {
    fn note(&mut self, group: usize, what: &'static str, value: f64) {
        let (draws, sum) = self.0.entry((group, what)).or_default();
        *draws += 1;
        *sum += value;
    }

    /// The drawn values beside those for which the plan asks.
    pub fn drawn(&self, plan: &Plan) -> Vec<Drawn> {
        let mut all = Vec::new();
        for (number, group) in plan.groups.iter().enumerate() {
            let of = |what| self.0.get(&(number, what)).copied().unwrap_or_default();
            let mut add = |what, law: &Distribution| {
                let (draws, sum) = of(what);
                if draws > 0 {
                    let (asked_mean, drawn_mean) = (law.mean(), sum / draws as f64);
                    let (group, asked) = (group.name.clone(), law.text.clone());
                    all.push(Drawn { group, what, asked, asked_mean, drawn_mean, draws });
                }
            };
            add("size", &group.size);
            add("length", &group.length);
            add("popularity", &group.popularity);
            add("think", &group.think);
            add("burst", &group.burst);
            if let Some((operations, pause)) = &group.session {
                add("session", operations);
                add("pause", pause);
            }
            let weights: f64 = group.mix.iter().map(|(_, weight)| weight).sum();
            let operations: u64 = group.mix.iter().map(|(kind, _)| of(kind.name()).0).sum();
            for (kind, weight) in &group.mix {
                let (draws, _) = of(kind.name());
                all.push(Drawn {
                    group: group.name.clone(),
                    what: kind.name(),
                    asked: format!("weight {weight}"),
                    asked_mean: weight / weights,
                    drawn_mean: draws as f64 / operations.max(1) as f64,
                    draws,
                });
            }
        }
        all
    }
}

struct File {
    number: u64,
    ino: Ino,
    size: u64,
    /// True if its attributes are set.
    is_marked: bool,
}

#[derive(Default)]
struct Client {
    group: usize,
    /// The number of its directory among the nodes.
    first: u64,
    files: Vec<File>,
    named: u64,
    left: u64,
    /// Operations left of the session and of the burst.
    session: u64,
    burst: u64,
    begun: bool,
}

struct ByHand {
    seed: u64,
    plan: Arc<Plan>,
    clients: Vec<Client>,
    nodes: u64,
    tally: Rc<RefCell<Tally>>,
}

/// A workload that has been started, and what is drawn for it as it is read.
pub type Started = (Box<dyn Source>, Rc<RefCell<Tally>>);

/// Starts a workload by hand. The tally fills as it is read.
///
/// # Errors
/// If it has no clients, or too many.
pub fn start(plan: &Arc<Plan>, seed: u64) -> Result<Started, SettingsError> {
    let (mut clients, mut nodes) = (Vec::new(), 0);
    for (group, part) in plan.groups.iter().enumerate() {
        for _ in 0..part.clients {
            let (left, named) = (part.operations, part.files);
            clients.push(Client { group, first: nodes, left, named, ..Client::default() });
            nodes += 1 + part.files;
        }
    }
    let mut values = Values::of(&[COMMON]);
    values.apply(&format!("clients={},think=0us", clients.len()))?;
    let tally: Rc<RefCell<Tally>> = Rc::default();
    let mut script =
        ByHand { seed, plan: Arc::clone(plan), clients, nodes, tally: Rc::clone(&tally) };
    for client in 0..script.clients.len() {
        let (first, files) = (script.clients[client].first, script.group(client).files);
        let size = |number| script.first_size(client, number);
        let made = (0..files).map(|number| File {
            number,
            ino: FIRST_INO + first + 1 + number,
            size: size(number),
            is_marked: false,
        });
        let made: Vec<File> = made.collect();
        script.clients[client].files = made;
    }
    Ok((Scripted::start(&plan.name, script, &values, seed), tally))
}

fn name(number: u64) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

impl ByHand {
    fn group(&self, client: usize) -> &Group {
        &self.plan.groups[self.clients[client].group]
    }

    fn first_size(&self, client: usize, number: u64) -> u64 {
        let mut rng = Rng::new(mix(self.seed, mix(client as u64, number)));
        let size = self.group(client).size.draw(&mut rng);
        self.tally.borrow_mut().note(self.clients[client].group, "size", size);
        size.clamp(0.0, LARGEST) as u64
    }

    /// Draws a value of a client's group and notes it.
    fn draw(&self, client: usize, what: &'static str, law: &Distribution, out: &mut Burst) -> f64 {
        let value = law.draw(&mut out.rng);
        self.tally.borrow_mut().note(self.clients[client].group, what, value);
        value
    }

    fn kind(&self, client: usize, rng: &mut Rng) -> Kind {
        let weights = &self.group(client).mix;
        let mut at = rng.unit() * weights.iter().map(|(_, weight)| weight).sum::<f64>();
        let chosen = weights.iter().find(|(_, weight)| {
            at -= weight;
            at < 0.0
        });
        let kind = chosen.or(weights.last()).map_or(Kind::Stat, |(kind, _)| *kind);
        self.tally.borrow_mut().note(self.clients[client].group, kind.name(), 1.0);
        kind
    }

    /// Pauses as the session, the burst and the think time say.
    fn pace(&mut self, client: usize, out: &mut Burst) {
        let pause = |value: f64| value.clamp(0.0, LONGEST) as Nanos;
        let many = |value: f64| value.clamp(1.0, 1e15) as u64;
        let plan = Arc::clone(&self.plan);
        let group = &plan.groups[self.clients[client].group];
        if self.clients[client].burst == 0 {
            if std::mem::replace(&mut self.clients[client].begun, true) {
                let think = self.draw(client, "think", &group.think, out);
                out.wait(pause(think));
            }
            self.clients[client].burst = many(self.draw(client, "burst", &group.burst, out));
        }
        if self.clients[client].session == 0
            && let Some((operations, after)) = &group.session
        {
            if self.clients[client].left < group.operations {
                let rest = self.draw(client, "pause", after, out);
                out.wait(pause(rest));
            }
            self.clients[client].session = many(self.draw(client, "session", operations, out));
        }
        let state = &mut self.clients[client];
        state.burst -= 1;
        state.session = state.session.saturating_sub(1);
        state.left -= 1;
    }

    fn create(&mut self, client: usize, out: &mut Burst) {
        let plan = Arc::clone(&self.plan);
        let group = &plan.groups[self.clients[client].group];
        let size = self.draw(client, "size", &group.size, out).clamp(0.0, LARGEST) as u64;
        let state = &mut self.clients[client];
        let (dir, number) = (FIRST_INO + state.first, state.named);
        state.named += 1;
        let name = name(number);
        out.miss(dir, &name);
        let ino = out.create(dir, &name);
        out.write_whole(ino, size, TRANSFER);
        out.release(ino);
        out.forget(ino, 1);
        self.clients[client].files.push(File { number, ino, size, is_marked: false });
    }

    /// Does something to a file that exists.
    fn act(&mut self, client: usize, kind: Kind, out: &mut Burst) {
        let plan = Arc::clone(&self.plan);
        let group = &plan.groups[self.clients[client].group];
        let rank = self.draw(client, "popularity", &group.popularity, out) as u64;
        let dir = FIRST_INO + self.clients[client].first;
        let files = self.clients[client].files.len() as u64;
        let chosen = (rank % files) as usize;
        let File { number, ino, size, .. } = self.clients[client].files[chosen];
        let name = name(number);
        out.lookup(dir, &name, ino);
        let moves = !matches!(kind, Kind::Stat | Kind::Delete | Kind::ReadWhole);
        let len = match moves {
            true => self.draw(client, "length", &group.length, out).clamp(1.0, LARGEST) as u64,
            false => 0,
        };
        if let Some(policy) = group.replacement
            && !matches!(kind, Kind::Stat | Kind::Delete)
            && !std::mem::replace(&mut self.clients[client].files[chosen].is_marked, true)
        {
            out.set_xattr(ino, file_type::REPLACEMENT, policy);
        }
        match kind {
            Kind::Stat => out.getattr(ino),
            Kind::Delete => {
                out.unlink(dir, &name);
                self.clients[client].files.swap_remove(chosen);
            }
            Kind::ReadWhole => {
                out.open(ino, false);
                out.read_whole(ino, size);
                out.release(ino);
            }
            Kind::Play => play(ino, size, len.min(TRANSFER), group.rate_bytes_per_s, out),
            _ => {
                out.open(ino, kind != Kind::Read);
                let appends = kind == Kind::Append || size == 0;
                let inside = if appends { len } else { len.min(size) };
                let off = if appends { size } else { out.rng.below(size - inside + 1) };
                pieces(off, if kind == Kind::Read { len.min(size) } else { inside }, |off, len| {
                    match kind {
                        Kind::Read => out.read(ino, off, len),
                        _ => out.write(ino, off, len),
                    }
                });
                if kind != Kind::Read && appends {
                    self.clients[client].files[chosen].size = size + inside;
                }
                if kind == Kind::WriteSync {
                    out.fsync(ino, false);
                }
                out.release(ino);
            }
        }
        out.forget(ino, 1);
    }
}

/// Plays a file in parts of `part` bytes.
fn play(ino: Ino, size: u64, part: u64, rate_bytes_per_s: u64, out: &mut Burst) {
    let ns = |bytes: u64| {
        let ns = u128::from(bytes) * u128::from(SECS) / u128::from(rate_bytes_per_s.max(1));
        Nanos::try_from(ns).unwrap_or(Nanos::MAX).min(LONGEST as Nanos)
    };
    out.set_xattr(ino, file_type::TYPE, file_type::media());
    out.set_xattr(ino, file_type::RATE, &rate_bytes_per_s.to_string());
    out.open(ino, false);
    out.wait(BEFORE_PLAYING);
    pieces_of(0, size, part, |off, len| out.read_within(ino, off, len, ns(len)));
    out.release(ino);
}

/// Calls `access` for the pieces of a range that one request each moves.
fn pieces(off: u64, len: u64, access: impl FnMut(u64, u64)) {
    pieces_of(off, len, TRANSFER, access);
}

/// The same, for pieces of at most `most` bytes.
fn pieces_of(off: u64, len: u64, most: u64, mut access: impl FnMut(u64, u64)) {
    let mut done = 0;
    while done < len {
        let piece = most.min(len - done);
        access(off + done, piece);
        done += piece;
    }
}

impl Script for ByHand {
    fn has_deadlines(&self) -> bool {
        self.plan.has_deadlines()
    }

    fn nodes(&self) -> u64 {
        self.nodes
    }

    fn node(&mut self, index: u64) -> Node {
        let client = self.clients.partition_point(|client| client.first <= index) - 1;
        let Client { first, files, .. } = &self.clients[client];
        match index - first {
            0 => node(index, ROOT_INO, format!("client{client}").into_bytes(), None),
            file => {
                let File { number, size, .. } = files[file as usize - 1];
                node(index, FIRST_INO + first, name(number), Some(size))
            }
        }
    }

    fn burst(&mut self, client: usize, out: &mut Burst) -> bool {
        if self.clients[client].left == 0 {
            return false;
        }
        self.pace(client, out);
        let kind = self.kind(client, &mut out.rng);
        // Without a file there is only one thing to do.
        match kind == Kind::Create || self.clients[client].files.is_empty() {
            true => self.create(client, out),
            false => self.act(client, kind, out),
        }
        true
    }
}

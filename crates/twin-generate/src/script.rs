//! The machinery of every workload: clients with clocks, whose operations are merged by time.
//!
//! A [`Script`] lists the next operations of one client, a few at a time, in straight-line code;
//! [`Scripted`] turns the scripts of all clients into one stream of records.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use twin_fs::{Cred, Data, Ino, Name, Op, ROOT_INO, Request, SetAttr, mode};
use twin_rt::{Nanos, Rng, Time};
use twin_settings::Values;
use twin_trace::{
    ErrorCode, Header, Kind, Node, NodeAttr, Outcome, Record, Source, TraceError, Traits,
};

/// The user whose files the workloads use.
pub(crate) const USER: u32 = 1000;
/// The number of the first node; the node with index `i` has this plus `i`.
pub(crate) const FIRST_INO: Ino = ROOT_INO + 1;
/// The most bytes of one read or write.
pub(crate) const TRANSFER: u64 = 128 << 10;

/// The behaviour of the clients of a workload.
pub(crate) trait Script: 'static {
    /// The number of nodes at the start.
    fn nodes(&self) -> u64;

    /// The node with this index; parents come before children.
    fn node(&mut self, index: u64) -> Node;

    /// Adds the next operations of this client, one or more. Returns false, and adds none, when the
    /// client has finished its work.
    fn burst(&mut self, client: usize, out: &mut Burst) -> bool;

    /// True if some operations have to end in time.
    fn has_deadlines(&self) -> bool {
        false
    }
}

enum Event {
    Request(Op),
    Reply(Outcome),
}

/// A few operations of one client. Every operation advances the client's clock.
pub(crate) struct Burst {
    events: VecDeque<(Nanos, Event)>,
    clock: Nanos,
    next_ino: Ino,
    think_ns: f64,
    service_ns: f64,
    /// The random stream of the client.
    pub(crate) rng: Rng,
}

impl Burst {
    /// Adds an operation and its answer.
    pub(crate) fn op(&mut self, op: Op, outcome: Outcome) {
        if self.think_ns > 0.0 {
            self.clock += self.rng.exponential(self.think_ns) as Nanos;
        }
        let has_reply = !matches!(op, Op::Forget { .. });
        self.events.push_back((self.clock, Event::Request(op)));
        if self.service_ns > 0.0 {
            self.clock += self.rng.exponential(self.service_ns) as Nanos;
        }
        if has_reply {
            self.events.push_back((self.clock, Event::Reply(outcome)));
        }
    }

    /// Adds a read that must have ended within this time. The client goes on when it has passed.
    pub(crate) fn read_within(&mut self, ino: Ino, off: u64, len: u64, within: Nanos) {
        self.events.push_back((self.clock, Event::Request(Op::Read { ino, off, len: len as u32 })));
        self.clock += within;
        self.events.push_back((self.clock, Event::Reply(Outcome::Data(len))));
    }

    /// Sets an extended attribute.
    pub(crate) fn set_xattr(&mut self, ino: Ino, name: &[u8], value: &str) {
        let (name, value) = (name.into(), value.as_bytes().into());
        let mode = twin_fs::XattrMode::Any;
        self.op(Op::SetXattr { ino, name, value, mode }, Outcome::Done);
    }

    /// The client pauses for an exponentially distributed time with this mean.
    pub(crate) fn pause(&mut self, mean_ns: Nanos) {
        self.clock += self.rng.exponential(mean_ns as f64) as Nanos;
    }

    /// The client pauses for this time.
    pub(crate) fn wait(&mut self, ns: Nanos) {
        self.clock += ns;
    }

    /// The client pauses until this time, if it has not passed.
    pub(crate) fn wait_until(&mut self, at: Nanos) {
        self.clock = self.clock.max(at);
    }

    /// The client's time since the start.
    pub(crate) fn clock(&self) -> Nanos {
        self.clock
    }

    fn new_ino(&mut self) -> Ino {
        self.next_ino += 1;
        self.next_ino - 1
    }

    /// Looks up a name that exists.
    pub(crate) fn lookup(&mut self, dir: Ino, name: &[u8], ino: Ino) {
        self.op(Op::Lookup { dir, name: name.into() }, Outcome::Entry(ino));
    }

    /// Looks up a name that does not exist.
    pub(crate) fn miss(&mut self, dir: Ino, name: &[u8]) {
        self.op(Op::Lookup { dir, name: name.into() }, Outcome::Failed(ErrorCode::NotFound));
    }

    /// Creates and opens a file.
    pub(crate) fn create(&mut self, dir: Ino, name: &[u8]) -> Ino {
        let ino = self.new_ino();
        let op = Op::Create { dir, name: name.into(), mode: 0o644, exclusive: false };
        self.op(op, Outcome::Entry(ino));
        ino
    }

    /// Creates a directory called `name` in `dir`, and returns its inode.
    pub(crate) fn make_dir(&mut self, dir: Ino, name: &[u8]) -> Ino {
        let ino = self.new_ino();
        self.op(Op::MakeDir { dir, name: name.into(), mode: 0o755 }, Outcome::Entry(ino));
        ino
    }

    pub(crate) fn open(&mut self, ino: Ino, write: bool) {
        self.op(Op::Open { ino, read: true, write, truncate: false }, Outcome::Done);
    }

    pub(crate) fn release(&mut self, ino: Ino) {
        self.op(Op::Release { ino }, Outcome::Done);
    }

    pub(crate) fn getattr(&mut self, ino: Ino) {
        self.op(Op::GetAttr { ino }, Outcome::Attr);
    }

    pub(crate) fn setattr(&mut self, ino: Ino, set: SetAttr) {
        self.op(Op::SetAttr { ino, set }, Outcome::Attr);
    }

    /// Reads bytes that the file has.
    pub(crate) fn read(&mut self, ino: Ino, off: u64, len: u64) {
        self.op(Op::Read { ino, off, len: len as u32 }, Outcome::Data(len));
    }

    /// Reads a whole file of `size` bytes, as a kernel that reads ahead would.
    pub(crate) fn read_whole(&mut self, ino: Ino, size: u64) {
        let mut off = 0;
        while off < size {
            // Requests are whole pages; the last answer is shorter.
            let len = (size - off).next_multiple_of(4096).min(TRANSFER);
            let got = len.min(size - off);
            self.op(Op::Read { ino, off, len: len as u32 }, Outcome::Data(got));
            off += len;
        }
    }

    pub(crate) fn write(&mut self, ino: Ino, off: u64, len: u64) {
        self.op(Op::Write { ino, off, data: Data::Synthetic(len) }, Outcome::Written(len));
    }

    /// Writes a whole file of `size` bytes in pieces of at most `piece`.
    pub(crate) fn write_whole(&mut self, ino: Ino, size: u64, piece: u64) {
        let mut off = 0;
        while off < size {
            let len = piece.min(size - off);
            self.write(ino, off, len);
            off += len;
        }
    }

    pub(crate) fn fsync(&mut self, ino: Ino, data_only: bool) {
        self.op(Op::Fsync { ino, data_only }, Outcome::Done);
    }

    pub(crate) fn unlink(&mut self, dir: Ino, name: &[u8]) {
        self.op(Op::Unlink { dir, name: name.into() }, Outcome::Done);
    }

    pub(crate) fn rename(&mut self, dir: Ino, name: &[u8], to_dir: Ino, to_name: &[u8]) {
        let (name, to_name) = (name.into(), to_name.into());
        self.op(Op::Rename { dir, name, to_dir, to_name, mode: Default::default() }, Outcome::Done);
    }

    pub(crate) fn forget(&mut self, ino: Ino, count: u64) {
        self.op(Op::Forget { ino, count }, Outcome::Done);
    }
}

/// A directory or file of [`USER`] that exists at the start.
pub(crate) fn node(index: u64, dir: Ino, name: impl Into<Name>, size: Option<u64>) -> Node {
    let (kind, nlink) = match size {
        None => (mode::DIRECTORY | 0o755, 2),
        Some(_) => (mode::REGULAR | 0o644, 1),
    };
    let size = size.unwrap_or(0);
    let attr = NodeAttr { nlink, uid: USER, gid: USER, rdev: 0, size, allocated: size };
    Node { dir, name: name.into(), ino: FIRST_INO + index, mode: kind, attr: Some(attr) }
}

/// A length from a log-normal distribution with this median, between 1 and `max`.
pub(crate) fn log_normal(rng: &mut Rng, median: f64, sigma: f64, max: u64) -> u64 {
    // Box and Muller (1958).
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * rng.unit()).cos();
    ((median * (sigma * normal).exp()) as u64).clamp(1, max)
}

/// A fixed hash of two numbers, for sizes and names that must be the same at every call.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    Rng::new(a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b).next_u64()
}

/// A word of two or three syllables, derived from a number, like the names that people give.
pub(crate) fn word(number: u64) -> String {
    const SYLLABLES: [&str; 32] = [
        "net", "buf", "io", "hash", "tab", "sym", "lex", "fs", "mem", "str", "vec", "arg", "opt",
        "log", "err", "sig", "tim", "map", "par", "gen", "reg", "bit", "con", "dev", "ref", "obj",
        "ctl", "cmp", "enc", "max", "util", "core",
    ];
    let pick = |shift: u32| SYLLABLES[(mix(number, 1) >> shift) as usize % 32];
    match number % 3 {
        0 => format!("{}{}", pick(0), pick(8)),
        1 => format!("{}_{}", pick(0), pick(8)),
        _ => format!("{}{}_{}", pick(0), pick(8), pick(16)),
    }
}

struct Client {
    burst: Burst,
    /// The number of its last request; a client has one request in flight at a time.
    last: u64,
}

/// A running script: a stream of records.
pub(crate) struct Scripted<S> {
    header: Header,
    script: S,
    node: u64,
    clients: Vec<Client>,
    /// The next event of every client that has events.
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
    requests: u64,
    next_ino: Ino,
    started: bool,
}

impl<S: Script> Scripted<S> {
    pub(crate) fn start(name: &str, script: S, values: &Values, seed: u64) -> Box<dyn Source> {
        let mean = |name| values.number(name) as f64;
        let (think_ns, service_ns) = (mean("think"), mean("service"));
        let clients = (0..values.number("clients")).map(|i| {
            let rng = Rng::stream(seed, &format!("{name} client {i}"));
            let (events, clock, next_ino) = (VecDeque::new(), 0, 0);
            Client { burst: Burst { events, clock, next_ino, think_ns, service_ns, rng }, last: 0 }
        });
        let traits =
            Traits { timed: true, nodes_first: true, independent: true, ..Traits::default() };
        let traits = Traits { deadlines: script.has_deadlines(), ..traits };
        let text = format!("generated {name}:{}", values.text());
        let header = Header { kind: Kind::Operations, start: Time(0), seed, traits, text };
        Box::new(Scripted {
            header,
            next_ino: FIRST_INO + script.nodes(),
            script,
            node: 0,
            clients: clients.collect(),
            order: BinaryHeap::new(),
            requests: 0,
            started: false,
        })
    }

    /// Makes sure that the client has events, unless it has finished.
    fn refill(&mut self, client: usize) {
        let burst = &mut self.clients[client].burst;
        if burst.events.is_empty() {
            burst.next_ino = self.next_ino;
            while burst.events.is_empty() && self.script.burst(client, burst) {}
            self.next_ino = burst.next_ino;
        }
        if let Some(&(at_ns, _)) = burst.events.front() {
            self.order.push(Reverse((at_ns, client)));
        }
    }
}

impl<S: Script> Source for Scripted<S> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.node < self.script.nodes() {
            self.node += 1;
            return Ok(Some(Record::Node(self.script.node(self.node - 1))));
        }
        if !std::mem::replace(&mut self.started, true) {
            (0..self.clients.len()).for_each(|client| self.refill(client));
        }
        let Some(Reverse((_, client))) = self.order.pop() else { return Ok(None) };
        let state = &mut self.clients[client];
        let Some((at_ns, event)) = state.burst.events.pop_front() else { return Ok(None) };
        let record = match event {
            Event::Request(op) => {
                self.requests += 1;
                state.last = self.requests;
                let cred = Cred { checked: true, ..Cred::user(USER, USER) };
                let request = Request { id: self.requests, client: client as u32 + 1, cred, op };
                Record::Request { at_ns, request }
            }
            Event::Reply(outcome) => Record::Reply { at_ns, id: state.last, outcome },
        };
        self.refill(client);
        Ok(Some(record))
    }

    fn has_one_client(&self) -> bool {
        self.clients.len() == 1
    }
}

//! What a run is held against: the workload as it was written down, the requests that the disk
//! served, and the times at which they were submitted. Everything is counted here, from these
//! lists alone; none of it comes from the code that forms the figures.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use twin_disk::{IoKind, Origin};
use twin_fs::{Ino, Op, Request, mode};
use twin_lab::{
    Config, EventLog, Figures, PlantedFault, Run, Watcher, Workload, World, log_categories,
    simulate_watched,
};
use twin_rt::Time;
use twin_sim::Served;
use twin_trace::replay::Pace;
use twin_trace::{ErrorCode, Header, Kind, Node, NodeAttr, Outcome, Traits, Writer};

/// A workload of one client, one operation after the other, as it is written down.
#[derive(Default)]
pub(crate) struct Script {
    nodes: Vec<Node>,
    operations: Vec<(Op, Outcome)>,
}

impl Script {
    /// A file of this size that exists before the workload begins.
    pub(crate) fn existing(&mut self, ino: Ino, size: u64) {
        let attr = NodeAttr { nlink: 1, size, allocated: size, ..NodeAttr::default() };
        let name = format!("old{ino}").into_bytes().into();
        let mode = mode::REGULAR | 0o644;
        self.nodes.push(Node { dir: twin_fs::ROOT_INO, name, ino, mode, attr: Some(attr) });
    }

    /// An operation and its outcome.
    pub(crate) fn add(&mut self, op: Op, outcome: Outcome) {
        self.operations.push((op, outcome));
    }

    /// Creates a file in the root.
    pub(crate) fn create(&mut self, ino: Ino) {
        let name = format!("f{ino}").into_bytes().into();
        let op = Op::Create { dir: twin_fs::ROOT_INO, name, mode: 0o644, exclusive: true };
        self.add(op, Outcome::Entry(ino));
    }

    /// Writes bytes.
    pub(crate) fn write(&mut self, ino: Ino, off: u64, len: u64) {
        let op = Op::Write { ino, off, data: twin_fs::Data::Synthetic(len) };
        self.add(op, Outcome::Written(len));
    }

    /// Looks for a name in the root that is not there, as in the workload.
    pub(crate) fn look_in_vain(&mut self) {
        let op = Op::Lookup { dir: twin_fs::ROOT_INO, name: (*b"nothing").into() };
        self.add(op, Outcome::Failed(ErrorCode::NotFound));
    }

    /// Reads bytes.
    pub(crate) fn read(&mut self, ino: Ino, off: u64, len: u32) {
        self.add(Op::Read { ino, off, len }, Outcome::Data(len.into()));
    }

    /// Makes a file durable.
    pub(crate) fn fsync(&mut self, ino: Ino) {
        self.add(Op::Fsync { ino, data_only: false }, Outcome::Done);
    }

    /// Number of operations that `of` picks.
    pub(crate) fn count(&self, of: impl Fn(&Op) -> bool) -> u64 {
        self.operations.iter().filter(|(op, _)| of(op)).count() as u64
    }

    /// Bytes that clients write.
    pub(crate) fn written(&self) -> u64 {
        let bytes = |(op, _): &(Op, Outcome)| match op {
            Op::Write { data, .. } => data.len(),
            _ => 0,
        };
        self.operations.iter().map(bytes).sum()
    }

    /// Bytes that clients read.
    pub(crate) fn read_bytes(&self) -> u64 {
        let bytes = |(op, _): &(Op, Outcome)| match op {
            Op::Read { len, .. } => u64::from(*len),
            _ => 0,
        };
        self.operations.iter().map(bytes).sum()
    }

    pub(crate) fn operations(&self) -> &[(Op, Outcome)] {
        &self.operations
    }

    /// As a trace.
    pub(crate) fn workload(&self) -> Workload {
        let traits = Traits { nodes_first: true, ..Traits::default() };
        let (kind, text) = (Kind::Operations, "accounting".into());
        let header = Header { kind, start: Time(0), seed: 0, traits, text };
        let mut writer = Writer::new(Vec::new(), &header).unwrap();
        self.nodes.iter().for_each(|node| writer.node(node).unwrap());
        for (op, outcome) in &self.operations {
            let id = writer.request(0, &Request::root(0, op.clone())).unwrap();
            writer.reply(0, id, outcome).unwrap();
        }
        Workload::Trace(Arc::from(writer.finish().unwrap()))
    }
}

/// What was seen of the measured part of a run.
#[derive(Default)]
struct Seen {
    began: u64,
    ended: u64,
    served: Vec<Served>,
}

impl Watcher for Seen {
    fn begin(&mut self, world: &dyn World) {
        self.began = world.now().0;
    }

    fn served(&mut self, served: &Served) {
        self.served.push(*served);
    }

    fn look(&mut self, _: &dyn World, _: Time) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn end(&mut self, world: &dyn World) {
        self.ended = world.now().0;
    }
}

/// A run, its figures, and what is known of it from elsewhere. Times are in nanoseconds from the
/// start of virtual time.
pub(crate) struct Evidence {
    pub(crate) figures: Figures,
    /// When the measured part began.
    pub(crate) began: u64,
    /// The requests that the disk began to serve in the measured part, in that order. Their parts
    /// are what is judged here, and are not used.
    pub(crate) served: Vec<Served>,
    /// When all was done and on the disk.
    pub(crate) ended: u64,
    /// The requests that were submitted in the measured part.
    pub(crate) submitted: Vec<Submitted>,
}

/// A request on its way to the device.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    when: u64,
    /// As events call it.
    kind: String,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl Evidence {
    /// Runs the workload with a fault in the accounts.
    pub(crate) fn of(config: &Config, workload: &Workload, planted: PlantedFault) -> Evidence {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let tell = Arc::new(move |line: &str| heard.lock().unwrap().push(line.to_string()));
        let log = Some(EventLog { categories: log_categories("queue").unwrap(), tell });
        #[cfg(not(feature = "planted-faults"))]
        assert_eq!(planted, PlantedFault::None, "this build has no planted faults");
        let run = Run {
            log,
            #[cfg(feature = "planted-faults")]
            planted,
            ..Run::from(config)
        };
        let seen = Rc::new(RefCell::new(Seen::default()));
        let watcher: Rc<RefCell<dyn Watcher>> = seen.clone();
        let figures = simulate_watched(run, workload, Pace::Asap, watcher);
        let figures = figures.unwrap_or_else(|e| panic!("{}: {e}", config.name)).unwrap();
        let seen = seen.take();
        let mut submitted: Vec<_> =
            lines.lock().unwrap().iter().map(|line| arrival(line)).collect();
        submitted.retain(|one| (seen.began..=seen.ended).contains(&one.when));
        let Seen { began, ended, served } = seen;
        Evidence { figures, began, ended, served, submitted }
    }

    /// The requests of a kind that were finished in time. What is done in the background may be
    /// under way at the end.
    pub(crate) fn kind(&self, kind: IoKind) -> impl Iterator<Item = &Served> {
        let done = move |served: &&Served| served.kind == kind && served.done.0 <= self.ended;
        self.served.iter().filter(done)
    }

    /// Bytes of the requests of a kind.
    pub(crate) fn bytes(&self, kind: IoKind) -> u64 {
        self.kind(kind).map(|served| served.len).sum()
    }

    /// The reads or writes that were submitted.
    pub(crate) fn submitted(&self, kind: &'static str) -> impl Iterator<Item = &Submitted> {
        self.submitted.iter().filter(move |one| one.kind == kind)
    }

    /// Bytes that the cleaner asked for: of all reads, those that no client waited for.
    pub(crate) fn cleaner_read(&self) -> u64 {
        let of_others = |served: &&Served| served.origin != Origin::Cleaner;
        let others: u64 = self.kind(IoKind::Read).filter(of_others).map(|served| served.len).sum();
        self.submitted("read").map(|one| one.len).sum::<u64>() - others
    }

    /// Nanoseconds from the start of service to its end, added up.
    pub(crate) fn service(&self) -> u64 {
        self.served.iter().map(|served| served.done.0 - served.begun.0).sum()
    }

    /// When each request was submitted, in the order of `served`. A request that the disk serves in
    /// parts was submitted when the whole was.
    pub(crate) fn arrivals(&self) -> Vec<u64> {
        // The bytes of each that have not been served yet; a flush has none.
        let mut left: Vec<_> = self.submitted.iter().map(|one| (one, one.len.max(1))).collect();
        let arrival = |served: &Served| {
            let end = served.at + served.len;
            let holds = |(one, open): &(&Submitted, u64)| {
                let inside = one.at <= served.at && end <= one.at + one.len;
                *open > 0 && one.when <= served.begun.0 && inside
            };
            let found = left.iter().position(holds);
            let found = found.unwrap_or_else(|| panic!("{served:?} was never submitted"));
            left[found].1 -= served.len.max(1);
            left[found].0.when
        };
        self.served.iter().map(arrival).collect()
    }
}

/// Parses `seconds.nanos queue read at_byte=1 bytes=2 under_way=3`.
fn arrival(line: &str) -> Submitted {
    let words: Vec<&str> = line.split(' ').collect();
    let (seconds, nanos) = words[0].split_once('.').unwrap();
    let number = |text: &str| text.parse::<u64>().unwrap();
    let field = |word: &str| number(word.split_once('=').unwrap().1);
    let when = number(seconds) * 1_000_000_000 + number(nanos);
    Submitted { when, kind: words[2].into(), at: field(words[3]), len: field(words[4]) }
}

//! Replaying a workload on any file system, in virtual time and in real time alike.
//!
//! Start at [`Replayer`]. It first creates the files that existed before ([`Population`]), then
//! issues the requests to the file system in a chosen order and at a chosen pace ([`Order`],
//! [`Pace`]), with as many in flight at a time as the workload had, and compares the answers with
//! those of the trace ([`Report`]).
//!
//! Inode numbers in a workload are those of its recorder; the replayer maps them to those of the
//! volume. References and opens are kept consistent: a forget returns the references that the
//! replay got, so that removed files are freed.

mod elapsed;
mod engine;
mod flights;
mod ids;
mod inodes;
mod oracle;
mod population;
mod processes;
mod report;
mod tracks;

use std::fmt;
use std::rc::Rc;

use twin_fs::{
    Cred, Data, FileSystem, FsError, Ino, Name, Op, ROOT_INO, Reply, Request, SetAttr, mode,
};
use twin_rt::{FixedMap, Nanos, Rt, Time};

pub use oracle::{Verdict, WrongRead};
pub use population::Population;
pub use report::{ClientEnd, Deadlines, Divergence, Report, VerbStats};

use crate::error::TraceError;
use crate::record::Verb;
use crate::stream::Source;
use inodes::Inodes;
use oracle::Oracle;
use population::Item;

/// The operations that must have ended before a request is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Everything that had been answered in the trace when the request came, from any client:
    /// operations overlap only where they did in the trace. Right for recordings of one machine,
    /// where clients wait for each other in ways that a trace does not show.
    Trace,
    /// Everything of the same client that had been answered, and the operations that create the
    /// inodes that the request names. Clients run at their own speed; right where they are
    /// independent.
    Client,
    /// As [`Order::Client`], and the requests of other clients that had been answered and that
    /// conflict with the request, and what processes of one machine presumably wait for: the births
    /// and ends of others. Right for recordings of a mount ([`Traits::mounted`]), where clients are
    /// threads and client 0 is the kernel. The answers stay those of the recording, and clients
    /// that share nothing run at their own speed.
    ///
    /// [`Traits::mounted`]: crate::Traits::mounted
    Process,
    /// Choose: by client if the workload says that clients are independent, by process if it was
    /// recorded on a mount, otherwise by trace.
    Auto,
}

/// When a request is issued, once its [`Order`] allows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Issue requests as fast as possible: a closed loop.
    Asap,
    /// Issue each request at its time in the trace divided by `speed`, counted from the start, or
    /// at once if that time has passed: an open loop.
    Recorded {
        /// 2.0 is twice as fast as recorded.
        speed: f64,
    },
    /// After the same pause as in the trace, divided by `speed`, since the previous event (of its
    /// client, where each client has its own order): the last answer or, without one, the last
    /// request. With [`Order::Process`] a later answer of another client for which the request had
    /// to wait takes its place. A closed loop with think times.
    Think {
        /// 2.0 makes pauses half as long as recorded.
        speed: f64,
    },
}

impl Pace {
    /// The factor by which it is faster than the recording; `None` if it does not follow its times.
    pub fn speed(self) -> Option<f64> {
        match self {
            Pace::Asap => None,
            Pace::Recorded { speed } | Pace::Think { speed } => Some(speed),
        }
    }
}

/// A clock finer than [`Rt::now`], which stands still while tasks run.
pub type Clock = Rc<dyn Fn() -> Time>;

/// Called when an operation has ended, with its latency.
pub type Listener = Rc<dyn Fn(Verb, Nanos)>;

/// Options of a replay.
#[derive(Clone)]
pub struct Options {
    /// The operations that must have ended before a request is issued.
    pub order: Order,
    /// When a request is issued.
    pub pace: Pace,
    /// Maximum number of operations in flight.
    pub max_in_flight: usize,
    /// Maximum number of records that are read ahead of a client that waits ([`Order::Client`] and
    /// [`Order::Process`]).
    pub read_ahead: usize,
    /// Issue all requests as root, for any user in the trace.
    pub as_root: bool,
    /// Check every read against the last write; the volume's block size in bytes, or 0 if it is
    /// unknown. Takes memory for each piece of a file and time for each operation.
    pub verify: Option<u32>,
    /// The clock for latencies. The default is the run's own time, which is exact in a simulation
    /// and coarse on a host.
    pub clock: Option<Clock>,
    /// Called with each operation that has ended.
    pub listener: Option<Listener>,
    /// Nothing else goes on in the task of the replay: time may move on from within it
    /// ([`Rt::advance_alone`]), which saves time and changes nothing.
    pub is_alone: bool,
    /// The directory of the volume that stands for the workload's root.
    pub root: Ino,
    /// Maximum number of bytes in a write that fills a file of the population.
    pub populate_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            order: Order::Auto,
            pace: Pace::Asap,
            max_in_flight: 1024,
            read_ahead: 65_536,
            as_root: false,
            verify: None,
            clock: None,
            listener: None,
            is_alone: false,
            root: ROOT_INO,
            populate_bytes: 1 << 20,
        }
    }
}

/// Why a replay stopped. Failed operations do not stop it: they are reported.
#[derive(Debug)]
pub enum ReplayError {
    /// The workload could not be read.
    Trace(TraceError),
    /// A file that existed before could not be created.
    Populate {
        /// The name of the file.
        name: Name,
        /// The error of the operation that should have created it.
        error: FsError,
    },
}

impl From<TraceError> for ReplayError {
    fn from(error: TraceError) -> Self {
        ReplayError::Trace(error)
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Trace(error) => write!(f, "{error}"),
            ReplayError::Populate { name, error } => {
                let name = String::from_utf8_lossy(name);
                write!(f, "cannot create {name:?}, which existed before the trace: {error}")?;
                match error {
                    FsError::Exists => f.write_str(" with another kind or size"),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// Replays workloads on a file system. Its table of inodes persists from one workload to the next,
/// so a long trace may come in parts.
pub struct Replayer<'a, F> {
    rt: &'a Rt,
    fs: &'a F,
    options: Options,
    inodes: Inodes,
    oracle: Option<Oracle>,
    next_id: u64,
    /// The number of each client's last request, if the population tells.
    last_requests: FixedMap<u32, u64>,
}

impl<'a, F: FileSystem> Replayer<'a, F> {
    /// A replayer for a volume.
    pub fn new(rt: &'a Rt, fs: &'a F, options: Options) -> Replayer<'a, F> {
        let oracle = options.verify.map(Oracle::new);
        let last_requests = FixedMap::default();
        let inodes = Inodes::new(options.root);
        Replayer { rt, fs, options, inodes, oracle, next_id: 1, last_requests }
    }

    /// Sets the number of the next request; 1 by default. Each request to the volume has the next
    /// number, which is also the version of the data that it writes.
    pub fn set_next_id(&mut self, id: u64) {
        self.next_id = id;
    }

    /// The number that the next request will have.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Creates the files that existed before, one after the other, and makes them durable. Owners
    /// and permissions are restored, times are not; links get targets of the same length. What is on the
    /// volume already, of the same name, kind and size, stays as it is: so a recording goes on from a
    /// copy of the volume on which it was made. With [`Options::verify`] it is refused, since its
    /// contents are unknown.
    ///
    /// # Errors
    /// The first file that cannot be created.
    pub async fn populate(&mut self, population: &Population) -> Result<(), ReplayError> {
        self.last_requests = population.last_requests().clone();
        for item in population.items() {
            let made = match self.make(item).await {
                Err(FsError::Exists) if self.oracle.is_none() => self.find(item).await,
                made => made,
            };
            made.map_err(|error| ReplayError::Populate { name: item.node.name.clone(), error })?;
        }
        let synced = self.ask(Cred::root(), Op::Sync).await;
        synced.map_err(|error| ReplayError::Populate { name: (*b"everything").into(), error })?;
        Ok(())
    }

    /// Replays a workload from its next record to its end. Nodes are skipped.
    ///
    /// # Errors
    /// If the workload cannot be read; operations in flight are waited for first.
    pub async fn run(&mut self, source: &mut impl Source) -> Result<Report, ReplayError> {
        engine::run(self, source).await
    }

    async fn ask(&mut self, cred: Cred, op: Op) -> Result<Reply, FsError> {
        let request = Request { id: self.next_id, client: 0, cred, op };
        self.next_id += 1;
        self.fs.execute(request).await
    }

    async fn make(&mut self, item: &Item) -> Result<(), FsError> {
        let node = &item.node;
        let dir = self.inodes.actual(node.dir).ok_or(FsError::NotFound)?;
        let name = node.name.clone();
        if item.is_link {
            let ino = self.inodes.actual(node.ino).ok_or(FsError::NotFound)?;
            let reply = self.ask(Cred::root(), Op::Link { ino, dir, name }).await?;
            return self.give_back(&reply).await;
        }
        let attr = population::attr(node);
        let permissions = node.mode & mode::PERMISSIONS;
        let cred = Cred { checked: true, ..Cred::user(attr.uid, attr.gid) };
        let op = match node.mode & mode::TYPE {
            mode::DIRECTORY => Op::MakeDir { dir, name, mode: permissions },
            mode::SYMLINK => Op::Symlink { dir, name, target: population::link_target(node) },
            mode::REGULAR => Op::Create { dir, name, mode: permissions, exclusive: true },
            _ => Op::MakeNode { dir, name, mode: node.mode, rdev: attr.rdev },
        };
        let is_file = matches!(op, Op::Create { .. });
        let reply = self.ask(cred.clone(), op).await?;
        let Reply::Entry(entry) = &reply else {
            return Err(FsError::inconsistent("an entry was expected"));
        };
        let ino = entry.attr.ino;
        self.inodes.introduce(node.ino, ino);
        if is_file {
            if let Some(oracle) = &mut self.oracle {
                oracle.created(ino, 0);
            }
            self.fill(cred, ino, attr.size, (attr.allocated, &item.data)).await?;
            self.ask(Cred::root(), Op::Release { ino }).await?;
        }
        // Set-id bits and the group in a set-group-id directory may differ from the recorded ones.
        let owned = (entry.attr.uid, entry.attr.gid) == (attr.uid, attr.gid);
        let fixed_mode = node.mode & mode::TYPE != mode::SYMLINK
            && entry.attr.mode & mode::PERMISSIONS != permissions;
        if node.attr.is_some() && (!owned || fixed_mode) {
            let (uid, gid) = (Some(attr.uid), Some(attr.gid));
            let set = SetAttr { uid, gid, ..SetAttr::default() };
            self.ask(Cred::root(), Op::SetAttr { ino, set }).await?;
            if fixed_mode {
                let set = SetAttr { mode: Some(permissions), ..SetAttr::default() };
                self.ask(Cred::root(), Op::SetAttr { ino, set }).await?;
            }
        }
        self.give_back(&reply).await
    }

    /// Takes a file of the volume for one that existed before.
    async fn find(&mut self, item: &Item) -> Result<(), FsError> {
        let node = &item.node;
        let dir = self.inodes.actual(node.dir).ok_or(FsError::NotFound)?;
        let op = Op::Lookup { dir, name: node.name.clone() };
        let reply = self.ask(Cred::root(), op).await?;
        let Reply::Entry(entry) = &reply else {
            return Err(FsError::inconsistent("an entry was expected"));
        };
        let there = &entry.attr;
        let kind = node.mode & mode::TYPE;
        let is_it = there.mode & mode::TYPE == kind
            && (kind != mode::REGULAR || there.size == population::attr(node).size)
            && (!item.is_link || self.inodes.actual(node.ino) == Some(there.ino));
        if is_it {
            self.inodes.introduce(node.ino, there.ino);
        }
        self.give_back(&reply).await?;
        if is_it { Ok(()) } else { Err(FsError::Exists) }
    }

    /// Writes the ranges of a file that had data; if they are not known, as many bytes as the file had
    /// storage for, from its beginning on. Everything else is a hole.
    async fn fill(
        &mut self,
        cred: Cred,
        ino: Ino,
        size: u64,
        (allocated, data): (u64, &[(u64, u64)]),
    ) -> Result<(), FsError> {
        let from_beginning = [(0, allocated)];
        let ranges = if data.is_empty() { &from_beginning } else { data };
        let mut written = 0;
        for &(start, len) in ranges {
            let (mut off, end) = (start, start.saturating_add(len).min(size));
            while off < end {
                let len = self.options.populate_bytes.max(1).min(end - off);
                let op = Op::Write { ino, off, data: Data::Synthetic(len) };
                self.watched(cred.clone(), op).await?;
                off += len;
            }
            written = written.max(end);
        }
        if size > written {
            let set = SetAttr { size: Some(size), ..SetAttr::default() };
            self.watched(cred, Op::SetAttr { ino, set }).await?;
        }
        Ok(())
    }

    /// Issues a change and tells the oracle of it.
    async fn watched(&mut self, cred: Cred, op: Op) -> Result<Reply, FsError> {
        let id = self.next_id;
        let ticket = self.oracle.as_mut().map(|oracle| oracle.begin(id, &op));
        let result = self.ask(cred, op).await;
        if let (Some(oracle), Some(ticket)) = (&mut self.oracle, ticket) {
            oracle.changed(ticket, result.is_ok());
        }
        result
    }

    /// Releases all opens and references that the replay still holds, as the exit of a client does;
    /// removed files that were held are then freed on the volume.
    ///
    /// # Errors
    /// The first failure; everything else is released all the same.
    pub async fn release_all(&mut self) -> Result<(), FsError> {
        let mut outcome = Ok(());
        for (ino, refs, opens) in self.inodes.take_held() {
            let releases = (0..opens).map(|_| Op::Release { ino });
            let forget = (refs > 0).then_some(Op::Forget { ino, count: u64::from(refs) });
            for op in releases.chain(forget) {
                let result = self.ask(Cred::root(), op).await;
                outcome = outcome.and(result.map(|_| ()));
            }
        }
        outcome
    }

    /// Returns the reference of an entry.
    async fn give_back(&mut self, reply: &Reply) -> Result<(), FsError> {
        if let Reply::Entry(entry) = reply
            && entry.attr.ino != ROOT_INO
        {
            let op = Op::Forget { ino: entry.attr.ino, count: 1 };
            self.ask(Cred::root(), op).await?;
        }
        Ok(())
    }
}

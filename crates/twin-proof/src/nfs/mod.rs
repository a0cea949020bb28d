//! The write contract of the NFS server, explored over real layouts on simulated disks.
//!
//! Contract: [`run`] is a function of its scenario. Applications work on modelled clients
//! ([`twin_nfs::client::Client`]), each in a directory of its own, through a modelled network before the
//! product's server and volume. Servers are killed, lose their power, stop properly, fail to write back
//! and start anew on what the disk then has. Checked at each start, and all the time: what an fsync of an
//! application was acknowledged for is there; everything else is there in the end too, unless an
//! application was told of a loss; no operation is executed twice; handles lead to their files or are
//! stale.
//!
//! - [`Scenario::random`]: everything drawn from a seed.
//! - [`Scenario::ordered`]: one client with a fixed course, in a world without chance, with faults at
//!   chosen calls and messages: [`faults`] lists them all, and a [`walk`](faults::pairs) over the pairs
//!   explores every course with up to two faults.
//! - [`lease`]: clients that share files and keep their data under leases.
//! - [`Bug`]: faults that are planted in server and volume, each of which must be found.

mod app;
pub mod bugs;
pub mod faults;
pub mod front;
pub mod lease;
mod server;
mod world;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::Block;
use twin_lab::Config;
use twin_nfs::client::ClientSettings;
use twin_rt::{MICROS, MILLIS, Nanos, Rng, SECS, Time};
use twin_sim::Platter;
use twin_sim::faults::{Fault, FaultPlan, Trigger};
use twin_sim::network::{NetworkSettings, Proto};

pub use faults::{Strike, What, When};
pub use twin_model::NfsBug as Bug;
pub use world::run;

/// The layouts over which the contract is explored: those whose crashes keep what was acknowledged.
pub const VOLUMES: [&str; 3] = [
    "lfs:size=6M,segment=64K,cache=1M",
    "ffs:size=8M,cache=1M,ordering=journal",
    "ffs:size=8M,cache=1M,ordering=sync",
];

/// A new volume, from which runs start.
pub struct Volume {
    config: Config,
    platter: Platter,
    root_generation: u32,
    /// It has no journal: after a power failure data that was not made durable may be anything, and what
    /// lies between in a block that was new.
    loose: bool,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Of all random numbers.
    pub seed: u64,
    clients: usize,
    client: ClientSettings,
    network: NetworkSettings,
    /// Each life of the server: how long, how it ends, what its disk does.
    lives: Vec<Life>,
    /// Faults at certain calls and messages.
    strikes: Vec<Strike>,
    /// The application follows a fixed course.
    fixed: bool,
    /// The planted bug.
    pub bug: Option<Bug>,
    /// The terms of leases, and whether the server waits after a restart; `None` without leases.
    leases: Option<(twin_nfs::lease::Terms, bool)>,
}

/// How a life of the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The power fails: what is not certain on the disk is drawn at random.
    Power,
    /// The server is killed; the disk does what it was told.
    Kill,
    /// The server answers what it has begun and closes the volume.
    Stop,
}

#[derive(Clone, Debug)]
struct Life {
    long_ns: Nanos,
    end: End,
    faults: FaultPlan,
    /// How often a write-back fails and the volume goes on.
    losses: u64,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// A fingerprint of the calls, their order, starts, ends and replies of the server, and faults. It has
    /// no times and no seeds.
    pub digest: u64,
    /// Calls that reached the server.
    pub calls: u64,
    /// Copies of calls that clients sent after the first.
    pub resent: u64,
    /// Calls that the server recognized as repeated.
    pub repeated: u64,
    /// Starts of the server after the first.
    pub restarts: u64,
    /// Write-backs that failed.
    pub losses: u64,
    /// Operations of applications.
    pub operations: u64,
    /// Pieces of files that were compared.
    pub compared: u64,
}

impl std::ops::AddAssign for Ran {
    fn add_assign(&mut self, other: Ran) {
        self.calls += other.calls;
        self.resent += other.resent;
        self.repeated += other.repeated;
        self.restarts += other.restarts;
        self.losses += other.losses;
        self.operations += other.operations;
        self.compared += other.compared;
    }
}

impl Scenario {
    /// A random scenario on a disk that does not fail.
    pub fn random(seed: u64) -> Scenario {
        Scenario::draw(seed, false)
    }

    /// A random scenario in which writes to the disk may fail, so that applications may be told of errors.
    pub fn failing(seed: u64) -> Scenario {
        Scenario::draw(seed, true)
    }

    fn draw(seed: u64, failing: bool) -> Scenario {
        let mut rng = Rng::stream(seed, "nfs scenario");
        let writes = *rng.pick(&[
            twin_nfs::client::Writes::Behind,
            twin_nfs::client::Writes::Behind,
            twin_nfs::client::Writes::Behind,
            twin_nfs::client::Writes::Sync,
        ]);
        let client = ClientSettings {
            biods: rng.range(1, 4),
            rsize: 4096 * rng.range(1, 3),
            wsize: 4096 * rng.range(1, 3),
            writes,
            write_behind_ns: rng.range(10, 400) * MILLIS,
            cache_bytes: 64 << 10,
            read_ahead: rng.below(2),
            attributes_ns: (MILLIS, rng.range(1, 50) * MILLIS),
            timeout_ns: rng.range(30, 300) * MILLIS,
            ..ClientSettings::default()
        };
        let proto = *rng.pick(&[Proto::Tcp, Proto::Udp]);
        let bad = rng.chance(0.8);
        let mut share = |most: f64| if bad { rng.unit() * most } else { 0.0 };
        let network = NetworkSettings {
            proto,
            loss: if proto == Proto::Udp { share(0.08) } else { 0.0 },
            duplicate: share(0.2),
            reorder: share(0.2),
            breaks: share(0.05),
            late_ns: LATE_NS,
            reconnect_ns: MILLIS,
            ..NetworkSettings::default()
        };
        // A stable write would be told of a loss; the layer that loses cannot tell it.
        let loses = writes == twin_nfs::client::Writes::Behind;
        let lives = (0..rng.range(1, 4)).map(|_| Life::draw(&mut rng, failing, loses)).collect();
        let (strikes, bug) = (Vec::new(), None);
        let clients = rng.range(1, 4) as usize;
        let (fixed, leases) = (false, None);
        Scenario { seed, clients, client, network, lives, strikes, fixed, bug, leases }
    }

    /// The fixed course with faults.
    pub fn ordered(proto: Proto, strikes: Vec<Strike>) -> Scenario {
        let client = ClientSettings {
            biods: 2,
            rsize: 8192,
            wsize: 4096,
            write_behind_ns: 5 * MILLIS,
            cache_bytes: 64 << 10,
            read_ahead: 0,
            attributes_ns: (MILLIS, 2 * MILLIS),
            timeout_ns: 10 * MILLIS,
            ..ClientSettings::default()
        };
        let network = NetworkSettings { proto, reconnect_ns: MILLIS, ..NetworkSettings::default() };
        let (lives, bug, leases) = (Vec::new(), None, None);
        let (seed, clients, fixed) = (1, 1, true);
        Scenario { seed, clients, client, network, lives, strikes, fixed, bug, leases }
    }

    /// The same with a planted bug.
    #[must_use]
    pub fn with_bug(self, bug: Bug) -> Scenario {
        Scenario { bug: Some(bug), ..self }
    }

    /// True if an application may be told of errors.
    fn may_fail(&self) -> bool {
        self.lives.iter().any(|life| life.faults != FaultPlan::none())
    }
}

/// How late a datagram may be. A server that starts later takes no call that was sent to an earlier one.
const LATE_NS: Nanos = 30 * MILLIS;
/// The time from the end of a server to the start of the next.
const DOWN_NS: Nanos = LATE_NS + 10 * MILLIS;

impl Life {
    fn draw(rng: &mut Rng, failing: bool, loses: bool) -> Life {
        let end = *rng.pick(&[End::Power, End::Power, End::Kill, End::Stop]);
        let mut faults = FaultPlan::none();
        if failing && rng.chance(0.5) {
            let fault = *rng.pick(&[Fault::FailWrite, Fault::FailWrites, Fault::NoSpace]);
            faults = faults.and(Trigger::Write(rng.range(20, 200)), fault);
        }
        let losses = if loses && rng.chance(0.4) { rng.range(1, 6) } else { 0 };
        Life { long_ns: rng.range(50, 1500) * MILLIS, end, faults, losses }
    }
}

impl Volume {
    /// Makes a volume.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(text: &str) -> Result<Volume, String> {
        let config = Config::parse(text).map_err(|error| error.to_string())?;
        let (platter, root_generation) = world::make(&config)?;
        Ok(Volume { config, platter, root_generation, loose: text.contains("ordering=sync") })
    }
}

/// Counts that server and applications share.
#[derive(Default)]
struct Shared {
    digest: RefCell<twin_rt::EventDigest>,
    ran: RefCell<Ran>,
    /// The first promise that was broken.
    broken: RefCell<Option<String>>,
    /// Applications are to end.
    ending: Cell<bool>,
    /// The number of the server's life.
    life: Cell<u64>,
    /// Handles of files that are gone, and whether the server ended between the removal and its answer.
    dead: RefCell<Vec<(Vec<u8>, bool)>>,
}

impl Shared {
    fn note(&self, words: &[u64]) {
        self.digest.borrow_mut().add(words);
    }

    fn count(&self, change: impl FnOnce(&mut Ran)) {
        change(&mut self.ran.borrow_mut());
    }

    fn breaks(&self, what: String) {
        self.broken.borrow_mut().get_or_insert(what);
    }
}

/// The bytes of a read.
fn joined(blocks: &[Block]) -> Vec<u8> {
    let mut bytes = vec![0; blocks.iter().map(Block::len).sum()];
    let mut to = &mut bytes[..];
    for block in blocks {
        let (here, rest) = to.split_at_mut(block.len());
        block.copy_to(here);
        to = rest;
    }
    bytes
}

/// Pauses of servers and volumes, short enough that everything happens in a run.
const DURABLE_WITHIN_NS: Nanos = 40 * MILLIS;
/// A run takes less than this, unless it never ends.
const PATIENCE: Time = Time(2_000 * SECS);
/// A fixed course has pauses of this length.
const PAUSE_NS: Nanos = 500 * MICROS;

type Names<T> = BTreeMap<String, T>;
type Handles = Rc<RefCell<twin_rt::FixedMap<u64, Vec<u8>>>>;

//! The front of the NFS server, explored in virtual time.
//!
//! Contract: [`run`] is a function of its scenario. The product's state machine of connections
//! ([`twin_nfs::front`]) and its server stand over a real layout on a simulated disk, before modelled sockets.
//! Clients connect, pipeline, pause, read slowly, send half a record or nonsense, half-close, vanish; two that
//! behave work beside them. Checked all the time: what calls and replies take of memory is within the
//! bounds, counted independently of the machine's own figures; nothing panics; replies are whole, belong to a
//! call, come once and have the right bytes; who behaves is answered within thirty seconds, over however many
//! connections; and ten seconds after it is told to stop, the server has ended.
//!
//! A scenario is a list of steps that can be printed and read, so a failure is shrunk to few of them
//! ([`shrink`]). [`Planted`] are mistakes that were made once, as values around the machine.

mod net;
mod script;
mod watcher;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use twin_lab::Config;
use twin_nfs::front::Bounds;
use twin_rt::{Nanos, SECS};
use twin_sim::Platter;

pub use script::{Pace, Scenario, Step, What};
pub use world::bytes_of_call;

/// The layout under the server.
pub const VOLUME: &str = "lfs:size=6M,segment=64K,cache=1M";
/// The longest that a client waits which reads.
const WAIT_NS: Nanos = 30 * SECS;
/// The longest that the server takes to end.
const END_NS: Nanos = 10 * SECS;

/// Mistakes that were made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The reply to a connection that is gone resumes those that are paused while the table of connections is
    /// borrowed, which borrows it again: the process ended.
    Reenters,
    /// The reply to a connection that is gone is not counted, so that the end waits for it for ever.
    ForgetsTheGone,
    /// Nothing bounds the replies of all connections, and each record that came is executed at once.
    Unbounded,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 3] = [Planted::Reenters, Planted::ForgetsTheGone, Planted::Unbounded];
}

/// A new volume with files in it, from which runs start.
pub struct Base {
    config: Config,
    platter: Platter,
    root: Vec<u8>,
    /// A file whose bytes are known, and one that is written to.
    data: Vec<u8>,
    scratch: Vec<u8>,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Replies whose bytes were compared.
    pub replies: u64,
    /// The most bytes of calls and replies.
    pub most_bytes: u64,
    /// The longest that a client waited which behaves, in nanoseconds.
    pub longest_ns: u64,
    /// Connections that were closed for the room that they held.
    pub evicted: u64,
    /// Connections that the server closed.
    pub dropped: u64,
    /// Times at which connections could not be accepted.
    pub pauses: u64,
    /// The time that the end took, in nanoseconds.
    pub end_ns: u64,
}

impl std::ops::AddAssign for Ran {
    fn add_assign(&mut self, other: Ran) {
        self.replies += other.replies;
        self.evicted += other.evicted;
        self.dropped += other.dropped;
        self.pauses += other.pauses;
        self.most_bytes = self.most_bytes.max(other.most_bytes);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
    }
}

/// Runs a scenario.
///
/// # Errors
/// The first promise that was broken; a panic is one.
pub fn run(scenario: &Scenario, base: &Base) -> Result<Ran, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| world::run(scenario, base)));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("it panicked: {}", text.unwrap_or_default()))
    })
}

/// A scenario that breaks a promise with as few steps as are easily found, and what it breaks.
pub fn shrink(scenario: &Scenario, what: String, base: &Base) -> (Scenario, String) {
    let (mut best, mut why) = (scenario.clone(), what);
    let mut part = best.steps.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        while at < best.steps.len() {
            let mut fewer = best.clone();
            let end = (at + part).min(fewer.steps.len());
            fewer.steps.drain(at..end);
            match run(&fewer, base) {
                Ok(_) => at += part,
                Err(what) => (best, why) = (fewer, what),
            }
        }
        part = if part == 1 { 0 } else { part.div_ceil(2) };
    }
    (best, why)
}

/// The command that repeats a scenario.
pub fn command(scenario: &Scenario) -> String {
    format!("cargo run --release -p twin-proof --example nfs_front -- one '{scenario}'")
}

/// The bounds of a scenario: those of the product, for few connections.
fn bounds(scenario: &Scenario) -> Bounds {
    let default = Bounds::default();
    let shares = default.share_bytes * scenario.most;
    Bounds {
        connections: scenario.most,
        calls: 8,
        total_bytes: shares + (2 << 20) + (256 << 10),
        connection_bytes: 1 << 20,
        ..default
    }
}

//! Observers: statistics of a run, or of a mount, that are switched on by name ("Cut-and-paste file systems", section
//! 4: plug-in statistics objects).
//!
//! An observer collects values in `Channel`s: of operations, of disk requests, of a bus, or of a
//! state that it looks at many times an interval. Each channel is reported for every interval of
//! time ([`Observing::every_ns`], 15 minutes unless it is chosen) and for the whole run. What an observer
//! needs and a mount has not, it says itself (`Observer::unseen`).
//! A new observer needs a file here and a line in `REGISTRY`.
//!
//! Main types: [`Observing`] (what is observed), [`Panel`] (the observers of a simulated run, which it tells what
//! happens), [`Mounted`] (the same for a mount), [`Observed`] (what one of them has seen). Start at [`Panel`].
//!
//! Contract: observers do not change a run. They add no task, no timer and no event to a simulation, so an
//! observed run has the same digest and the same figures as one that is not. Nothing is called where no
//! observer is switched on. Of intervals beyond `MOST_INTERVALS` only the sum over the run is kept.

mod at_risk;
mod bus;
mod cache;
mod channel;
mod idle;
mod latency;
mod mounted;
mod panel;
mod queue;
mod report;
mod response;
mod rotation;
mod seek;
mod transfer;
mod write_cost;

use std::rc::Rc;

use twin_cache::Memory;
use twin_fs::Volume;
use twin_rt::{Nanos, SECS};
use twin_settings::{Registry, RegistryEntry, SettingsError};
use twin_sim::Served;
use twin_sim::bus::Span;
use twin_trace::Verb;

pub use channel::{Observed, Over};
pub use mounted::{Mounted, Unseen};
pub use panel::Panel;
pub use report::{Row, charts, named_rows, parts, rows, table};

use channel::Channel;

/// The observer of the dirty bytes that a power failure would take.
pub const AT_RISK: &str = "at-risk";

/// The interval of the paper's measurements.
pub const EVERY_NS: Nanos = 900 * SECS;

/// What is observed in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observing {
    /// Names of observers, each once.
    pub names: Vec<&'static str>,
    /// The interval of which figures are reported, in nanoseconds.
    pub every_ns: Nanos,
}

/// What stands for all observers.
const ALL: &str = "all";

impl Observing {
    /// The observers that these names name; `all` stands for every one.
    ///
    /// # Errors
    /// For an unknown name, or an interval of nothing.
    pub fn of<'a>(
        names: impl IntoIterator<Item = &'a str>,
        every_ns: Option<Nanos>,
    ) -> Result<Observing, SettingsError> {
        let mut found: Vec<&'static str> = Vec::new();
        for name in names {
            match name {
                ALL => found.extend(REGISTRY.names()),
                name => found.push(REGISTRY.get(name)?.name),
            }
        }
        // In the order of the registry, however they were named.
        let names = REGISTRY.names().filter(|name| found.contains(name)).collect();
        let every_ns = every_ns.unwrap_or(EVERY_NS);
        if every_ns == 0 {
            return Err(SettingsError::new("an interval of observation is longer than nothing"));
        }
        Ok(Observing { names, every_ns })
    }
}

/// The parts of a machine: the names of its disks and busses, and its volumes with theirs.
pub struct Parts {
    /// The names of its disks.
    pub disks: Vec<String>,
    /// The names of its busses.
    pub buses: Vec<String>,
    /// Its volumes with their names.
    pub volumes: Vec<(String, Volume)>,
    /// Its memory for blocks.
    pub pools: Vec<Pool>,
}

/// Memory for blocks, with the numbers of the volumes that share it.
pub struct Pool {
    /// Its name.
    pub name: String,
    /// The memory that is shared; `None` if a volume has its own.
    pub memory: Option<Rc<Memory>>,
    /// The numbers of its volumes.
    pub volumes: Vec<usize>,
}

impl Pool {
    /// The bytes that it has for blocks.
    fn bound_bytes(&self, parts: &Parts) -> u64 {
        match &self.memory {
            Some(memory) => memory.bound_bytes(),
            None => self.sum(parts, |volume| volume.core().cache.capacity_bytes()),
        }
    }

    /// The sum of a figure over its volumes.
    fn sum(&self, parts: &Parts, of: impl Fn(&Volume) -> u64) -> u64 {
        self.volumes.iter().map(|&number| of(&parts.volumes[number].1)).sum()
    }
}

/// Collects values of a run. All parts are named by their number in [`Parts`].
trait Observer {
    /// What it cannot see on a mount, and why; `None` if it sees everything.
    fn unseen(&self) -> Option<&'static str> {
        None
    }

    /// The measured part of the run begins. The observer makes its channels.
    fn begin(&mut self, parts: &Parts);

    /// An operation has ended.
    fn ended(&mut self, _verb: Verb, _latency_ns: Nanos) {}

    /// A disk begins to serve a request.
    fn served(&mut self, _disk: usize, _request: &Served) {}

    /// A bus has been given to a device that waited so long for it.
    fn bus_given(&mut self, _bus: usize, _wait_ns: Nanos, _span: Span) {}

    /// A moment of the run, one of many at equal distances; also the last one of an interval.
    fn look(&mut self, _parts: &Parts) {}

    /// Its channels.
    fn channels(&mut self) -> &mut Vec<Channel>;
}

/// Makes an observer.
type Maker = fn() -> Box<dyn Observer>;

/// All observers.
static REGISTRY: Registry<Maker> = Registry::new(
    "observer",
    &[
        RegistryEntry::new("latencies", "how long operations take, by kind", || {
            Box::<latency::Latencies>::default()
        }),
        RegistryEntry::new(
            "queue-length",
            "requests at a disk when it begins one, that one included",
            || Box::<queue::Queues>::default(),
        ),
        RegistryEntry::new(
            "response-times",
            "how long requests of a disk take from their arrival to their end",
            || Box::<response::Responses>::default(),
        ),
        RegistryEntry::new(
            "seek-distance",
            "how far the arm of a disk moves between requests",
            || Box::<seek::Seeks>::default(),
        ),
        RegistryEntry::new(
            "rotational-delay",
            "rotational delay of requests that reach the medium",
            || Box::<rotation::Rotations>::default(),
        ),
        RegistryEntry::new(
            "transfers",
            "time and size of transfers from and to the medium",
            || Box::<transfer::Transfers>::default(),
        ),
        RegistryEntry::new("bus-use", "use of a bus, and how long devices wait for it", || {
            Box::<bus::Buses>::default()
        }),
        RegistryEntry::new("idle-periods", "how long a disk has nothing to do at a time", || {
            Box::<idle::Idle>::default()
        }),
        RegistryEntry::new(
            "cache-state",
            "clean, dirty and free memory, and the hit ratio",
            || Box::<cache::Caches>::default(),
        ),
        RegistryEntry::new(
            "write-cost",
            "bytes to and from the disk for each byte of new data (Rosenblum and Ousterhout 1991)",
            || Box::<write_cost::WriteCost>::default(),
        ),
        RegistryEntry::new(AT_RISK, "dirty bytes that a power failure would take", || {
            Box::<at_risk::AtRisk>::default()
        }),
    ],
);

/// The names of all observers with their descriptions, and what stands for all of them.
pub fn abouts() -> Vec<(&'static str, &'static str)> {
    let mut all = REGISTRY.abouts();
    all.push((ALL, "all of them"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_order_and_all_means_all() {
        let observing = Observing::of(["queue-length", "latencies", "queue-length"], None).unwrap();
        assert_eq!(
            observing,
            Observing { names: vec!["latencies", "queue-length"], every_ns: EVERY_NS }
        );
        assert_eq!(Observing::of(["all"], Some(5)).unwrap().names.len(), REGISTRY.len());
        let error = Observing::of(["latencees"], None).unwrap_err().to_string();
        assert!(error.contains("did you mean \"latencies\"?"), "{error}");
        assert!(Observing::of(["all"], Some(0)).is_err());
    }
}

//! Leases, explored: clients that share files over a bad network, with a server that is killed, machines
//! that are cut off or crash, and clocks that run wrong.
//!
//! Contract: [`run`] is a function of its scenario. Applications on several machines read, write and sync the same
//! files; beside them there may be a client without leases. Checked over the whole history: every read shows
//! the last write of any client that has ended, as one copy of the file would (linearizable for each piece), also
//! across restarts of the server; what an fsync has covered is there in the end, on the disk without the power that
//! wrote it; a client that crashes, or is cut off for longer than its leases run, loses at most what it had not synced, and
//! gets a report if it is still there; where nothing is disturbed no loss is reported.
//!
//! [`Bug`]: wrong models, each of which must be found.

mod app;
mod bugs;
mod history;
mod world;

use twin_nfs::client::{ClientSettings, Consistency};
use twin_nfs::lease::Terms;
use twin_rt::{MICROS, MILLIS, Nanos, Rng};
use twin_sim::network::{NetworkSettings, Proto};

use super::Life;

pub use bugs::Bug;
pub use world::run;

/// What is run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Of all random numbers.
    pub seed: u64,
    machines: Vec<Machine>,
    /// A machine more has a client without leases.
    plain: bool,
    terms: Terms,
    client: ClientSettings,
    network: NetworkSettings,
    /// Each life of the server but the last.
    lives: Vec<Life>,
    /// How long the applications work.
    long_ns: Nanos,
    /// The planted bug.
    pub bug: Option<Bug>,
}

#[derive(Clone, Debug, Default)]
struct Machine {
    /// How fast its clock runs.
    clock: f64,
    /// When it is cut off, and for how long.
    cuts: Vec<(Nanos, Nanos)>,
    /// When it crashes.
    crashes: Vec<Nanos>,
    /// Its applications read only, so that nothing but a claim or the end of its leases tells it of others' writes.
    reads: bool,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// A fingerprint of the run.
    pub digest: u64,
    /// Reads and writes of pieces.
    pub deeds: u64,
    /// Losses that were reported to applications.
    pub reported: u64,
    /// Machines that crashed.
    pub crashed: u64,
    /// Times that machines were cut off.
    pub cuts: u64,
    /// Starts of the server after the first.
    pub restarts: u64,
    /// Leases that were granted, given back because others wanted the file, ended because their time was
    /// over, and reclaimed after a restart; and calls that were refused because their lease was gone.
    pub granted: u64,
    /// See `granted`.
    pub vacated: u64,
    /// See `granted`.
    pub expired: u64,
    /// See `granted`.
    pub reclaimed: u64,
    /// See `granted`.
    pub refused: u64,
}

impl std::ops::AddAssign for Ran {
    fn add_assign(&mut self, other: Ran) {
        self.deeds += other.deeds;
        self.reported += other.reported;
        self.crashed += other.crashed;
        self.cuts += other.cuts;
        self.restarts += other.restarts;
        self.granted += other.granted;
        self.vacated += other.vacated;
        self.expired += other.expired;
        self.reclaimed += other.reclaimed;
        self.refused += other.refused;
    }
}

/// The share by which clocks may be wrong.
const DRIFT: f64 = 0.1;

impl Scenario {
    /// A random scenario.
    pub fn random(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "lease scenario");
        let disturbed = rng.chance(0.7);
        // A plain WRITE that is repeated over a restart is executed twice, as everywhere in NFS.
        let plain = rng.chance(0.3);
        let ends = if disturbed && !plain { rng.below(4) } else { 0 };
        // Leases outlast a restart, which takes most of a second.
        let term_ns = if ends > 0 { rng.range(1500, 3000) } else { rng.range(150, 500) } * MILLIS;
        let terms = Terms { term_ns, slack_ns: rng.range(10, 60) * MILLIS, ..Terms::default() };
        let client = ClientSettings {
            biods: rng.range(1, 4),
            rsize: 4096 * rng.range(1, 3),
            wsize: 4096 * rng.range(1, 3),
            consistency: Consistency::Lease,
            drift: DRIFT,
            write_behind_ns: rng.range(20, 1000) * MILLIS,
            cache_bytes: 64 << 10,
            read_ahead: rng.below(2),
            timeout_ns: rng.range(20, 120) * MILLIS,
            ..ClientSettings::default()
        };
        let long_ns = rng.range(1500, 4000) * MILLIS;
        let proto = *rng.pick(&[Proto::Tcp, Proto::Udp]);
        let bad = rng.chance(0.5);
        let latency_ns = *rng.pick(&[100 * MICROS, MILLIS, 10 * MILLIS]);
        let mut share = |most: f64| if bad { rng.unit() * most } else { 0.0 };
        let network = NetworkSettings {
            proto,
            loss: if proto == Proto::Udp { share(0.08) } else { 0.0 },
            duplicate: share(0.2),
            reorder: share(0.2),
            breaks: share(0.03),
            late_ns: super::LATE_NS,
            latency_ns,
            reconnect_ns: MILLIS,
            ..NetworkSettings::default()
        };
        let count = rng.range(2, 5);
        let machines = (0..count).map(|_| Machine::draw(&mut rng, disturbed, (term_ns, long_ns)));
        let mut machines: Vec<Machine> = machines.collect();
        let mut lives: Vec<Life> = (0..ends).map(|_| Life::draw(&mut rng, false, false)).collect();
        let mut down = 0;
        for life in &mut lives {
            (life.losses, life.long_ns) = (0, life.long_ns.min(long_ns / 3));
            down += life.long_ns;
            // A machine that does not notice the restart.
            if rng.chance(0.7) {
                let machine = rng.below(count) as usize;
                let from = down.saturating_sub(rng.below(30 * MILLIS));
                machines[machine].cuts.push((from, rng.range(term_ns / 3, term_ns)));
            }
            down += super::DOWN_NS;
        }
        let mut readers = Rng::stream(seed, "lease readers");
        machines.iter_mut().skip(1).for_each(|machine| machine.reads = readers.chance(0.3));
        Scenario { seed, machines, plain, terms, client, network, lives, long_ns, bug: None }
    }

    /// The same with a planted bug. What [`Bug::DriftIgnored`] is about gets its chance: machines with slow clocks that
    /// read, and are cut off for longer than a term.
    #[must_use]
    pub fn with_bug(self, bug: Bug) -> Scenario {
        let mut scenario = Scenario { bug: Some(bug), ..self };
        if bug == Bug::DriftIgnored {
            scenario.client.drift = 0.0;
            let cut = (scenario.long_ns / 3, 2 * scenario.terms.term_ns);
            for machine in scenario.machines.iter_mut().skip(1) {
                (machine.clock, machine.reads) = (1.0 - DRIFT, true);
                machine.cuts.push(cut);
            }
        }
        scenario
    }

    /// True if nothing happens that may cost a client its leases.
    fn is_calm(&self) -> bool {
        let network = &self.network;
        let quiet = |machine: &Machine| machine.cuts.is_empty() && machine.crashes.is_empty();
        let faults = [network.loss, network.duplicate, network.reorder, network.breaks];
        self.machines.iter().all(quiet) && self.lives.is_empty() && faults == [0.0; 4]
    }
}

impl Machine {
    fn draw(rng: &mut Rng, disturbed: bool, (term_ns, long_ns): (Nanos, Nanos)) -> Machine {
        let clock = *rng.pick(&[1.0 - DRIFT, 1.0, 1.0 + DRIFT]);
        let mut machine = Machine { clock, ..Machine::default() };
        if disturbed {
            for _ in 0..rng.below(3) {
                machine.cuts.push((rng.below(long_ns), rng.range(10, 300) * term_ns / 100));
            }
            if rng.chance(0.4) {
                machine.crashes.push(rng.below(long_ns));
            }
        }
        machine
    }
}

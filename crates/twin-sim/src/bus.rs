//! A path between disks and host that moves one thing at a time.
//!
//! A *tenancy* is the time for which one device has the bus, from winning it to giving it up. On a
//! SCSI bus the host wins the bus, selects a disk and sends it a command, with the data of a write
//! behind it; the disk disconnects while it positions. To move the data of a read, and to report the
//! end of a write, the disk wins the bus and reselects the host. Who wins among several that wait is
//! decided when the bus gets free: by arbitration, in which the host comes before the disks and a
//! disk before those that were connected later (SCSI's order of addresses), or, on the ideal busses of
//! the papers, in order of request.
//!
//! A bus is a pure value under virtual time: whoever asks while it is taken is told when to
//! ask again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use twin_rt::{Nanos, SECS, Time};
use twin_settings::{Registry, RegistryEntry};

/// A shared bus. Cloning gives another connection to the same bus.
#[derive(Clone, Debug)]
pub struct Bus(Rc<BusState>);

#[derive(Debug)]
struct BusState {
    bytes_per_s: u64,
    largest_transfer: u32,
    protocol: Option<Protocol>,
    free_at: Cell<Time>,
    devices: Cell<u32>,
    tickets: Cell<u64>,
    waiting: RefCell<Vec<Waiter>>,
    granted: RefCell<BTreeMap<u64, Span>>,
    stats: Cell<BusStats>,
    observer: RefCell<Option<Observer>>,
}

/// Called for each tenancy as it gets the bus, with the time for which it waited and the time for
/// which it has the bus. It must not use the bus.
#[derive(Clone)]
struct Observer(Rc<dyn Fn(Nanos, Span)>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// A part of a tenancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The bus is free, and is won by one of those that want it.
    Arbitration,
    /// The host selects a disk.
    Selection,
    /// The host sends messages and a command.
    Command,
    /// The data of a request move between host and disk.
    Transfer,
    /// The disk leaves the bus until it can go on.
    Disconnect,
    /// The disk selects the host again.
    Reselection,
    /// The disk reports the end.
    Status,
}

impl Phase {
    /// All phases, in the order of their declaration.
    pub const ALL: [Phase; 7] = [
        Phase::Arbitration,
        Phase::Selection,
        Phase::Command,
        Phase::Transfer,
        Phase::Disconnect,
        Phase::Reselection,
        Phase::Status,
    ];

    /// The name of the phase in results.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Arbitration => "arbitration",
            Phase::Selection => "selection",
            Phase::Command => "command",
            Phase::Transfer => "transfer",
            Phase::Disconnect => "disconnect",
            Phase::Reselection => "reselection",
            Phase::Status => "status",
        }
    }
}

/// How long the phases of a bus take, except the transfer of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Time that arbitration for the bus takes.
    pub arbitration_ns: Nanos,
    /// Time that the selection of a disk takes.
    pub selection_ns: Nanos,
    /// Messages and a command.
    pub command_ns: Nanos,
    /// Messages before a disk leaves the bus.
    pub disconnect_ns: Nanos,
    /// Selecting the host again, with the message that says who does it.
    pub reselection_ns: Nanos,
    /// Status and the last message.
    pub status_ns: Nanos,
}

/// The purpose for which a device wants the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenancy {
    /// The host sends a command, followed by this many bytes of data.
    Command(u64),
    /// A disk sends this many bytes of data, and reports the end of its command.
    Data(u64),
    /// A disk sends the end of a command.
    Status,
}

/// The time for which a tenancy has the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it has won the bus.
    pub start: Time,
    /// When the first byte of its data moves; its end, if it has none.
    pub data: Time,
    /// When it gives the bus up.
    pub end: Time,
}

/// The answer to a request for the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The bus is theirs for this time, which may begin later.
    Granted(Span),
    /// The bus is taken until then; ask again with this ticket.
    Taken(Time, u64),
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    ticket: u64,
    /// The lowest wins; the host has 0.
    rank: u32,
    asked: Time,
    tenancy: Tenancy,
}

/// The phases before the data of a tenancy, the bytes of data, and the phase behind them.
type Phases = ([(Phase, Nanos); 3], u64, [(Phase, Nanos); 1]);

/// The counters of a bus since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusStats {
    /// Number of times that the bus was won.
    pub tenancies: u64,
    /// Number of tenancies that had to wait for the bus.
    pub waited: u64,
    /// The sum of their waits.
    pub waited_ns: Nanos,
    /// The longest time that anybody waited for the bus.
    pub longest_wait_ns: Nanos,
    /// Bytes of data moved.
    pub bytes: u64,
    /// Time for which the bus was taken, by phase, in the order of [`Phase::ALL`].
    phases_ns: [Nanos; Phase::ALL.len()],
}

impl BusStats {
    /// Time for which the bus was taken.
    pub fn busy_ns(&self) -> Nanos {
        self.phases_ns.iter().sum()
    }

    /// The part of it that a phase took.
    pub fn phase_ns(&self, phase: Phase) -> Nanos {
        self.phases_ns[phase as usize]
    }

    /// The mean wait of a tenancy.
    pub fn mean_wait_ns(&self) -> f64 {
        self.waited_ns as f64 / self.tenancies.max(1) as f64
    }
}

impl fmt::Display for BusStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tenancies, {} ns each waited", self.tenancies, self.mean_wait_ns())
    }
}

impl Bus {
    /// An ideal bus that moves `bytes_per_s` bytes a second, in requests of at most
    /// `largest_transfer` bytes, in order of request: commands take no time.
    ///
    /// # Panics
    /// If either is zero.
    pub fn new(bytes_per_s: u64, largest_transfer: u32) -> Bus {
        Bus::with_protocol(bytes_per_s, largest_transfer, None)
    }

    /// As [`new`](Self::new), with a protocol and arbitration.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn with_protocol(
        bytes_per_s: u64,
        largest_transfer: u32,
        protocol: Option<Protocol>,
    ) -> Bus {
        assert!(bytes_per_s > 0 && largest_transfer > 0, "a bus must be able to move something");
        Bus(Rc::new(BusState {
            bytes_per_s,
            largest_transfer,
            protocol,
            free_at: Cell::default(),
            devices: Cell::new(0),
            tickets: Cell::new(0),
            waiting: RefCell::default(),
            granted: RefCell::default(),
            stats: Cell::default(),
            observer: RefCell::default(),
        }))
    }

    /// Returns the same bus, to which nothing is connected yet, with another rate.
    ///
    /// # Panics
    /// If the rate is zero.
    #[must_use]
    pub fn at_rate(&self, bytes_per_s: u64) -> Bus {
        Bus::with_protocol(bytes_per_s, self.0.largest_transfer, self.0.protocol)
    }

    /// The largest request that the host makes over it, in bytes.
    pub fn largest_transfer(&self) -> u32 {
        self.0.largest_transfer
    }

    /// How long the bus takes to move `bytes` bytes.
    pub fn ns_for(&self, bytes: u64) -> Nanos {
        (u128::from(bytes) * u128::from(SECS) / u128::from(self.0.bytes_per_s)) as Nanos
    }

    /// Whether commands, reports and arbitration take time.
    pub(crate) fn has_protocol(&self) -> bool {
        self.0.protocol.is_some()
    }

    /// Connects a disk; the result is its rank in arbitrations.
    pub(crate) fn connect(&self) -> u32 {
        self.0.devices.set(self.0.devices.get() + 1);
        self.0.devices.get()
    }

    /// The phases before the data of a tenancy, the bytes of data, and the phases behind them.
    fn phases(&self, tenancy: Tenancy) -> Phases {
        let none = (Phase::Status, 0);
        let bytes = match tenancy {
            Tenancy::Command(bytes) | Tenancy::Data(bytes) => bytes,
            Tenancy::Status => 0,
        };
        let Some(p) = self.0.protocol else { return ([none; 3], bytes, [none]) };
        let arbitration = (Phase::Arbitration, p.arbitration_ns);
        let reselection = (Phase::Reselection, p.reselection_ns);
        match tenancy {
            Tenancy::Command(_) => {
                let selection = (Phase::Selection, p.selection_ns);
                let command = (Phase::Command, p.command_ns);
                let disconnect = (Phase::Disconnect, p.disconnect_ns);
                ([arbitration, selection, command], bytes, [disconnect])
            }
            Tenancy::Data(_) | Tenancy::Status => {
                ([arbitration, reselection, none], bytes, [(Phase::Status, p.status_ns)])
            }
        }
    }

    /// Requests the bus at `now`, which must not be earlier than that of any request before. `rank` is
    /// what [`connect`](Self::connect) said; commands are the host's.
    pub(crate) fn ask(&self, now: Time, rank: u32, tenancy: Tenancy) -> Answer {
        // Arbitrations that were due before this request are held without it: a device cannot win a
        // bus for a time at which it did not want it.
        self.arbitrate(now);
        let state = &self.0;
        if state.protocol.is_none() || state.free_at.get() <= now {
            return Answer::Granted(self.grant(now, tenancy));
        }
        let ticket = state.tickets.get();
        state.tickets.set(ticket + 1);
        let rank = if matches!(tenancy, Tenancy::Command(_)) { 0 } else { rank };
        state.waiting.borrow_mut().push(Waiter { ticket, rank, asked: now, tenancy });
        Answer::Taken(state.free_at.get(), ticket)
    }

    /// Asks again, at the time that the last answer named.
    pub(crate) fn poll(&self, now: Time, ticket: u64) -> Answer {
        self.arbitrate(now);
        match self.0.granted.borrow_mut().remove(&ticket) {
            Some(span) => Answer::Granted(span),
            None => Answer::Taken(self.0.free_at.get(), ticket),
        }
    }

    /// The device of this ticket is gone.
    pub(crate) fn cancel(&self, ticket: u64) {
        self.0.waiting.borrow_mut().retain(|waiter| waiter.ticket != ticket);
        self.0.granted.borrow_mut().remove(&ticket);
    }

    /// Holds the arbitrations that are due by `now`, one for each time at which the bus became free.
    /// They are computed when somebody asks, because a bus has no task of its own; the result does not
    /// depend on who asks first.
    fn arbitrate(&self, now: Time) {
        let state = &self.0;
        while state.free_at.get() <= now {
            let winner = {
                let mut waiting = state.waiting.borrow_mut();
                let best = (0..waiting.len()).min_by_key(|&i| (waiting[i].rank, waiting[i].ticket));
                let Some(best) = best else { return };
                waiting.remove(best)
            };
            let span = self.grant(winner.asked, winner.tenancy);
            state.granted.borrow_mut().insert(winner.ticket, span);
        }
    }

    /// Gives the bus, as soon as it is free, to a tenancy that has been wanted since `asked`.
    fn grant(&self, asked: Time, tenancy: Tenancy) -> Span {
        let state = &self.0;
        let (before, bytes, behind) = self.phases(tenancy);
        // The bus is reserved up to its end at once, so the next one to ask finds it taken.
        let start = asked.max(state.free_at.get());
        let sum = |phases: &[(Phase, Nanos)]| phases.iter().map(|(_, ns)| ns).sum::<Nanos>();
        let data = start + sum(&before);
        let end = data + self.ns_for(bytes) + sum(&behind);
        state.free_at.set(end);
        let (mut stats, wait) = (state.stats.get(), start - asked);
        stats.tenancies += 1;
        stats.waited += u64::from(wait > 0);
        stats.waited_ns += wait;
        stats.longest_wait_ns = stats.longest_wait_ns.max(wait);
        stats.bytes += bytes;
        for (phase, ns) in
            before.iter().chain(&behind).chain(&[(Phase::Transfer, self.ns_for(bytes))])
        {
            stats.phases_ns[*phase as usize] += ns;
        }
        state.stats.set(stats);
        let span = Span { start, data, end };
        if let Some(Observer(observer)) = &*state.observer.borrow() {
            observer(wait, span);
        }
        span
    }

    /// Calls `observer`, in place of an earlier one, for each tenancy as it gets the bus, with the
    /// time for which it waited and the time for which it has the bus. It must not use the bus; the
    /// run does not change.
    pub fn observe(&self, observer: Rc<dyn Fn(Nanos, Span)>) {
        *self.0.observer.borrow_mut() = Some(Observer(observer));
    }

    /// Statistics since the start or the last reset.
    pub fn stats(&self) -> BusStats {
        self.0.stats.get()
    }

    /// Begins the statistics anew, with all counters at zero.
    pub fn reset_stats(&self) {
        self.0.stats.set(BusStats::default());
    }

    /// Time for which the bus was taken.
    pub fn busy_ns(&self) -> Nanos {
        self.stats().busy_ns()
    }

    /// Time that tenancies waited for others.
    pub fn waited_ns(&self) -> Nanos {
        self.stats().waited_ns
    }
}

/// A kind of bus in the registry.
pub struct Kind {
    bytes_per_s: u64,
    largest_transfer: u32,
    protocol: Option<Protocol>,
}

impl Kind {
    /// A new bus of this kind.
    pub fn build(&self) -> Bus {
        Bus::with_protocol(self.bytes_per_s, self.largest_transfer, self.protocol)
    }
}

/// The largest transfer of a bus of which it is not published, in bytes.
const LARGEST: u32 = 64 << 10;

/// SCSI-2's protocol. Arbitration is the standard's bus free delay (0.8 us), arbitration delay (2.4
/// us), bus clear and bus settle delay (0.8 and 0.4 us) (ANSI X3.131-1994, 4.7, as drive manuals repeat
/// it). The standard bounds the answer to a selection by 200 us only: 2 us are assumed. Commands,
/// messages and status move asynchronously, at an assumed 1.5 MB/s: 13 bytes before a disconnection
/// (identify, a queue tag, a command of ten bytes), two for disconnecting (save data pointer,
/// disconnect), three with a reselection (identify, tag), two at the end (status, command complete).
const SCSI_2: Protocol = Protocol {
    arbitration_ns: 4_400,
    selection_ns: 2_000,
    command_ns: 13 * BYTE_NS,
    disconnect_ns: 2 * BYTE_NS,
    reselection_ns: 2_000 + 3 * BYTE_NS,
    status_ns: 2 * BYTE_NS,
};

/// Time of a byte that moves asynchronously.
const BYTE_NS: Nanos = 667;

/// The registry of buses.
///
/// The papers' "2.3 MB/sec" and "1.3 MB/sec" are taken as units of 2^20 bytes, because the Wren
/// IV's 1.3 is then its media rate (45 sectors, 3600 rpm). The largest transfer of the other two
/// is not published; 64 KB is what SunOS and 4.4BSD used. The papers' figures are of the whole path
/// between disk and memory, so their busses have no further cost for a command.
pub static REGISTRY: Registry<Kind> = Registry::new(
    "bus",
    &[
        RegistryEntry::new(
            "scsi-2",
            "SCSI-2 at 10 MB/s, with arbitration, disconnection and reselection",
            Kind { bytes_per_s: 10_000_000, largest_transfer: LARGEST, protocol: Some(SCSI_2) },
        ),
        RegistryEntry::new(
            "sparcstation-2",
            "Logging versus Clustering 1995, table 1: 2.3 MB/s, at most 64 KB",
            Kind { bytes_per_s: 23 * (1 << 20) / 10, largest_transfer: LARGEST, protocol: None },
        ),
        RegistryEntry::new(
            "sun-4-260",
            "Logging versus Clustering 1995, table 1: 1.3 MB/s (the Sprite machine)",
            Kind { bytes_per_s: 13 * (1 << 20) / 10, largest_transfer: LARGEST, protocol: None },
        ),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::{MILLIS, Rng};

    fn span(answer: Answer) -> Span {
        let Answer::Granted(span) = answer else { panic!("the bus is taken: {answer:?}") };
        span
    }

    #[test]
    fn transfers_of_an_ideal_bus_wait_for_each_other_in_order() {
        let bus = Bus::new(1_000_000, 1 << 16);
        let a = span(bus.ask(Time(0), 1, Tenancy::Data(2000)));
        let b = span(bus.clone().ask(Time(MILLIS), 2, Tenancy::Data(1000)));
        assert_eq!((a.start, a.end), (Time(0), Time(2 * MILLIS)));
        assert_eq!((b.start, b.end), (Time(2 * MILLIS), Time(3 * MILLIS)));
        assert_eq!((bus.busy_ns(), bus.waited_ns()), (3 * MILLIS, MILLIS));
    }

    #[test]
    fn the_host_wins_before_disks_and_an_earlier_disk_before_a_later_one() {
        let bus = REGISTRY.get("scsi-2").unwrap().build();
        let first = span(bus.ask(Time(0), 3, Tenancy::Data(10_000)));
        let taken = |answer| match answer {
            Answer::Taken(until, ticket) => {
                assert_eq!(until, first.end);
                ticket
            }
            Answer::Granted(_) => panic!("the bus was taken"),
        };
        let late = taken(bus.ask(Time(10), 2, Tenancy::Status));
        let early = taken(bus.ask(Time(20), 1, Tenancy::Status));
        let host = taken(bus.ask(Time(30), 2, Tenancy::Command(0)));
        // Only the winner gets the bus; the others ask again when it is free.
        let Answer::Taken(again, _) = bus.poll(first.end, late) else { panic!() };
        let command = span(bus.poll(first.end, host));
        assert_eq!((command.start, command.end), (first.end, again));
        let second = span(bus.poll(again, early));
        let third = span(bus.poll(second.end, late));
        assert_eq!((second.start, third.start), (again, second.end));
        let stats = bus.stats();
        assert_eq!((stats.tenancies, stats.waited, stats.bytes), (4, 3, 10_000));
        assert_eq!(stats.busy_ns(), third.end - Time(0));
        assert_eq!(stats.phase_ns(Phase::Arbitration), 4 * SCSI_2.arbitration_ns);
        assert_eq!(stats.phase_ns(Phase::Transfer), MILLIS);
        assert_eq!(stats.longest_wait_ns, third.start - Time(10));
    }

    #[test]
    fn a_device_that_is_gone_does_not_win_the_bus() {
        let bus = REGISTRY.get("scsi-2").unwrap().build();
        let first = span(bus.ask(Time(0), 1, Tenancy::Data(1000)));
        let Answer::Taken(_, gone) = bus.ask(Time(1), 1, Tenancy::Status) else { panic!() };
        let Answer::Taken(_, there) = bus.ask(Time(2), 2, Tenancy::Status) else { panic!() };
        bus.cancel(gone);
        assert_eq!(span(bus.poll(first.end, there)).start, first.end);
    }

    /// Waiters as a driver keeps them: each asks again when it was told to.
    fn mean_wait_ns(bus: &Bus, utilization: f64, bytes: u64) -> f64 {
        let one = span(bus.at_rate(10_000_000).ask(Time(0), 1, Tenancy::Data(bytes)));
        let service_ns = (one.end - one.start) as f64;
        let mut rng = Rng::new(3);
        let mut waiting: Vec<(Time, u64)> = Vec::new();
        let (mut now, mut arrivals) = (0.0, 0);
        while arrivals < 100_000 {
            now += -(1.0 - rng.unit()).ln() * service_ns / utilization;
            let at = Time(now as u64);
            while let Some(due) = waiting.iter().map(|(time, _)| *time).min().filter(|t| *t <= at) {
                for waiter in std::mem::take(&mut waiting) {
                    match if waiter.0 <= due {
                        bus.poll(due, waiter.1)
                    } else {
                        Answer::Taken(waiter.0, waiter.1)
                    } {
                        Answer::Granted(_) => {}
                        Answer::Taken(until, ticket) => waiting.push((until, ticket)),
                    }
                }
            }
            let disk = rng.below(10) as u32 + 1;
            if let Answer::Taken(until, ticket) = bus.ask(at, disk, Tenancy::Data(bytes)) {
                waiting.push((until, ticket));
            }
            arrivals += 1;
        }
        bus.stats().mean_wait_ns() / service_ns
    }

    /// Pollaczek and Khinchine: with Poisson arrivals and equal times of service the mean wait, in
    /// times of service, is u / (2 (1 - u)), for every order that does not look at the times.
    #[test]
    fn waits_are_those_of_queueing_theory() {
        for name in ["scsi-2", "sparcstation-2"] {
            for utilization in [0.3, 0.6, 0.8] {
                let bus = REGISTRY.get(name).unwrap().build().at_rate(10_000_000);
                let measured = mean_wait_ns(&bus, utilization, 8192);
                let theory = utilization / (2.0 * (1.0 - utilization));
                assert!(
                    (measured / theory - 1.0).abs() < 0.05,
                    "{name} at {utilization}: {measured} and {theory}"
                );
            }
        }
    }
}

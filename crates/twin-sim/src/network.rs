//! A network between the machines of a simulation: when a message arrives, how often, and whether it does.
//!
//! Contract: a [`Network`] is a pure object that is told the time. Each machine has a link of its own to the
//! server, whose two directions are independent. A message is cut into frames; it waits until the frames
//! before it have left its link, takes the time of its bytes at the link's rate, and then the latency. What is
//! done about a lost frame depends on [`Proto`]:
//!
//! - `tcp`: the sender sends the frame again after the retransmission timeout (RFC 6298: 200 ms at first,
//!   doubled each time), and everything behind it on the connection waits, so that messages arrive once and in
//!   order. A connection may break: then what is under way on it is lost, and the client connects anew.
//! - `udp`: a message with a lost frame is lost. Messages may arrive twice, and late ones behind later ones.

use std::collections::BTreeMap;

use twin_rt::{MICROS, MILLIS, Nanos, Rng, SECS, Time};
use twin_settings::{Key, Unit};

/// Bytes of headers of a frame: Ethernet with preamble and gap, IP, TCP.
const FRAME_HEADERS: u64 = 38 + 20 + 20;
/// The retransmission timeout of TCP at first.
const RTO_NS: Nanos = 200 * MILLIS;
/// The most often that it is doubled.
const BACKOFFS_MAX: u32 = 9;

/// How messages are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    /// A connection: messages arrive once and in order, or the connection breaks.
    Tcp,
    /// Datagrams: messages may be lost, repeated and late.
    Udp,
}

impl Proto {
    /// Both, with their names in settings.
    pub const ALL: [(&'static str, Proto); 2] = [("tcp", Proto::Tcp), ("udp", Proto::Udp)];
}

/// The settings of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkSettings {
    /// How messages are carried.
    pub proto: Proto,
    /// Time from machine to server, one way.
    pub latency_ns: Nanos,
    /// Bytes a second of each link, in each direction.
    pub bytes_per_s: u64,
    /// Bytes of data in a frame.
    pub frame_bytes: u64,
    /// The share of frames that are lost.
    pub loss: f64,
    /// The share of datagrams that arrive twice.
    pub duplicate: f64,
    /// The share of datagrams that are late, so that later ones overtake them.
    pub reorder: f64,
    /// How late those are at most.
    pub late_ns: Nanos,
    /// The probability that a connection breaks when a message is sent on it.
    pub breaks: f64,
    /// Time until a broken connection is made anew.
    pub reconnect_ns: Nanos,
}

impl Default for NetworkSettings {
    /// A local network of one gigabit a second without faults.
    fn default() -> NetworkSettings {
        NetworkSettings {
            proto: Proto::Tcp,
            latency_ns: 100 * MICROS,
            bytes_per_s: 125_000_000,
            frame_bytes: 1460,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            late_ns: 20 * MILLIS,
            breaks: 0.0,
            reconnect_ns: 100 * MILLIS,
        }
    }
}

/// The unit of a probability; at most 0.9, so that some packets always arrive.
const SHARE: Unit = Unit::Decimal(0.0, 0.9);

/// The keys of [`NetworkSettings`].
pub const KEYS: &[Key<NetworkSettings>] = &[
    Key::own(
        "proto",
        "how calls are carried: by a connection (tcp) or by datagrams (udp)",
        "tcp|udp",
        |n, text| {
            let names = Proto::ALL.iter().map(|(name, _)| *name);
            let found = Proto::ALL.iter().find(|(name, _)| *name == text);
            let unknown = || twin_settings::SettingsError::unknown("protocol", text, names);
            n.proto = found.ok_or_else(unknown)?.1;
            Ok(())
        },
        |n| Proto::ALL.iter().find(|(_, p)| *p == n.proto).map_or("", |(name, _)| name).into(),
    ),
    Key::new(
        "latency",
        "time of the network in one direction; 100us in a room, 1ms to 50ms between sites",
        Unit::Time(MICROS, 100 * SECS),
        |n| (&mut n.latency_ns).into(),
    ),
    Key::new(
        "bandwidth",
        "bytes a second of a link: 125M is gigabit Ethernet",
        Unit::bytes(100, 1 << 50),
        |n| (&mut n.bytes_per_s).into(),
    ),
    Key::new("frame", "bytes of data in a frame", Unit::bytes(64, 1 << 16), |n| {
        (&mut n.frame_bytes).into()
    }),
    Key::new(
        "loss",
        "share of frames that are lost, 0 to 0.9; 0.001 is a bad network",
        SHARE,
        |n| (&mut n.loss).into(),
    ),
    Key::new("duplicate", "share of datagrams that arrive twice", SHARE, |n| {
        (&mut n.duplicate).into()
    }),
    Key::new("reorder", "share of datagrams that later ones overtake", SHARE, |n| {
        (&mut n.reorder).into()
    }),
    Key::new(
        "late",
        "the longest time by which those are late",
        Unit::Time(MILLIS, 100 * SECS),
        |n| (&mut n.late_ns).into(),
    ),
    Key::new("breaks", "probability that a message breaks its connection", SHARE, |n| {
        (&mut n.breaks).into()
    }),
    Key::new("reconnect", "time to connect again", Unit::Time(MILLIS, 100 * SECS), |n| {
        (&mut n.reconnect_ns).into()
    }),
];

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The message goes from a machine to the server.
    There,
    /// The message goes from the server to a machine.
    Back,
}

/// The fate of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The message arrives at these times: none if it is lost, two if it is repeated.
    Arrives(Vec<Time>),
    /// The message breaks its connection, which is made anew at this time.
    Breaks(Time),
}

/// The counters of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkStats {
    /// Messages that were sent.
    pub messages: u64,
    /// Bytes of these, with headers and frames that were sent again.
    pub bytes: u64,
    /// Frames that were lost.
    pub lost_frames: u64,
    /// Number of connections that broke.
    pub broken: u64,
}

/// A fault of a network that strikes one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// The message is lost (datagrams), or its connection breaks.
    Lose,
    /// The message arrives twice, the second time this much later. Only datagrams are repeated.
    Repeat(Nanos),
    /// The message arrives this much later, and so does everything behind it on a connection.
    Late(Nanos),
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// When the last frame has left.
    free: Time,
    /// When the last message of the connection arrives.
    last: Time,
}

/// A network. See the module.
#[derive(Clone, Debug)]
pub struct Network {
    settings: NetworkSettings,
    rng: Rng,
    lanes: Vec<[Lane; 2]>,
    stats: NetworkStats,
    /// Faults of messages, by their number from 1 in the order in which they are sent.
    plan: BTreeMap<u64, Mishap>,
}

impl Network {
    /// A network that draws its faults from `rng`.
    pub fn new(settings: NetworkSettings, rng: Rng) -> Network {
        let (lanes, stats, plan) = Default::default();
        Network { settings, rng, lanes, stats, plan }
    }

    /// Returns the same network with faults for certain messages, by their number from 1.
    #[must_use]
    pub fn with_plan(self, plan: BTreeMap<u64, Mishap>) -> Network {
        Network { plan, ..self }
    }

    /// The settings with which the network was made.
    pub fn settings(&self) -> &NetworkSettings {
        &self.settings
    }

    /// The counters so far.
    pub fn stats(&self) -> NetworkStats {
        self.stats
    }

    /// Sends a message of `bytes` bytes between the server and a machine.
    pub fn send(&mut self, now: Time, machine: usize, way: Way, bytes: u64) -> Fate {
        if self.lanes.len() <= machine {
            self.lanes.resize(machine + 1, Default::default());
        }
        self.stats.messages += 1;
        let is_tcp = self.settings.proto == Proto::Tcp;
        let mishap = self.plan.get(&self.stats.messages).copied();
        if is_tcp && (mishap == Some(Mishap::Lose) || self.rng.chance(self.settings.breaks)) {
            self.stats.broken += 1;
            self.lanes[machine] = Default::default();
            return Fate::Breaks(now + self.settings.reconnect_ns);
        }
        let frames = bytes.div_ceil(self.settings.frame_bytes).max(1);
        let (lost, again_ns) = self.losses(frames);
        let sent = bytes + frames * FRAME_HEADERS;
        let sent = if is_tcp { sent + lost * (sent / frames) } else { sent };
        self.stats.bytes += sent;
        self.stats.lost_frames += lost;
        let takes_ns = self.ns_for(sent);
        let lane = &mut self.lanes[machine][usize::from(way == Way::Back)];
        lane.free = lane.free.max(now) + takes_ns;
        let late_ns = if let Some(Mishap::Late(late_ns)) = mishap { late_ns } else { 0 };
        let mut arrives = lane.free + self.settings.latency_ns + late_ns;
        if is_tcp {
            arrives = (arrives + again_ns).max(lane.last);
            lane.last = arrives;
            return Fate::Arrives(vec![arrives]);
        }
        if lost > 0 || mishap == Some(Mishap::Lose) {
            return Fate::Arrives(Vec::new());
        }
        let mut times = Vec::new();
        if let Some(Mishap::Repeat(late_ns)) = mishap {
            times.push(arrives + late_ns);
        }
        let copies = 1 + u64::from(self.rng.chance(self.settings.duplicate));
        for _ in 0..copies {
            let is_late = self.rng.chance(self.settings.reorder);
            let late = if is_late { self.rng.below(self.settings.late_ns.max(1)) } else { 0 };
            times.push(arrives + late);
        }
        Fate::Arrives(times)
    }

    fn ns_for(&self, bytes: u64) -> Nanos {
        let ns =
            u128::from(bytes) * u128::from(SECS) / u128::from(self.settings.bytes_per_s.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX / 4)
    }

    /// The number of frames that are lost, and the time until all of them have been sent again.
    fn losses(&mut self, frames: u64) -> (u64, Nanos) {
        let (mut lost, mut longest) = (0, 0);
        if self.settings.loss <= 0.0 {
            return (0, 0);
        }
        for _ in 0..frames {
            let (mut waited, mut tries) = (0, 0);
            while self.rng.chance(self.settings.loss) && tries < BACKOFFS_MAX {
                waited += RTO_NS << tries;
                tries += 1;
                lost += 1;
            }
            longest = longest.max(waited);
        }
        (lost, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(change: impl FnOnce(&mut NetworkSettings)) -> Network {
        let mut settings = NetworkSettings {
            latency_ns: 1000,
            bytes_per_s: SECS,
            frame_bytes: 1000,
            ..NetworkSettings::default()
        };
        change(&mut settings);
        Network::new(settings, Rng::new(1))
    }

    /// The times at which a message arrives.
    fn arrivals(network: &mut Network, now: u64, way: Way, bytes: u64) -> Vec<u64> {
        match network.send(Time(now), 0, way, bytes) {
            Fate::Arrives(times) => times.into_iter().map(|time| time.0).collect(),
            Fate::Breaks(_) => panic!("it broke"),
        }
    }

    #[test]
    fn a_message_takes_its_bytes_with_headers_and_the_latency() {
        let mut network = network(|_| {});
        assert_eq!(arrivals(&mut network, 0, Way::There, 2500), [2500 + 3 * FRAME_HEADERS + 1000]);
    }

    #[test]
    fn messages_of_one_direction_wait_for_each_other_and_those_of_the_other_do_not() {
        let mut network = network(|_| {});
        let one = 1000 + FRAME_HEADERS;
        assert_eq!(arrivals(&mut network, 0, Way::There, 1000), [one + 1000]);
        assert_eq!(arrivals(&mut network, 0, Way::There, 1000), [2 * one + 1000]);
        assert_eq!(arrivals(&mut network, 0, Way::Back, 1000), [one + 1000]);
        let Fate::Arrives(other) = network.send(Time(0), 1, Way::There, 1000) else { panic!() };
        assert_eq!(other, [Time(one + 1000)]);
    }

    #[test]
    fn a_connection_delivers_everything_once_and_in_order_whatever_is_lost() {
        let mut network = network(|settings| settings.loss = 0.3);
        let mut last = 0;
        for n in 0..200 {
            let times = arrivals(&mut network, n, Way::There, 100);
            assert_eq!(times.len(), 1);
            assert!(times[0] >= last);
            last = times[0];
        }
        assert!(last > RTO_NS && network.stats().lost_frames > 40);
    }

    #[test]
    fn datagrams_are_lost_repeated_and_late() {
        let mut network = network(|settings| {
            settings.proto = Proto::Udp;
            (settings.loss, settings.duplicate, settings.reorder) = (0.2, 0.2, 0.2);
        });
        let mut counts = [0; 3];
        let (mut last, mut overtaken) = (0, 0);
        for n in 0..500 {
            let times = arrivals(&mut network, 2000 * n, Way::There, 100);
            counts[times.len()] += 1;
            overtaken += times.iter().filter(|&&time| time < last).count();
            last = times.iter().copied().max().unwrap_or(last);
        }
        assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
        assert!(overtaken > 50);
    }

    #[test]
    fn a_planned_fault_strikes_its_message() {
        let plan =
            BTreeMap::from([(1, Mishap::Lose), (2, Mishap::Repeat(50)), (3, Mishap::Late(9))]);
        let sent = |proto| {
            let mut network = network(|settings| settings.proto = proto).with_plan(plan.clone());
            (0..4).map(|n| network.send(Time(10_000 * n), 0, Way::There, 22)).collect::<Vec<_>>()
        };
        let at = |n: u64, late: u64| Time(10_000 * n + 22 + FRAME_HEADERS + 1000 + late);
        let arrives = |times: &[Time]| Fate::Arrives(times.to_vec());
        let datagrams = sent(Proto::Udp);
        assert_eq!(datagrams[0], arrives(&[]));
        assert_eq!(datagrams[1], arrives(&[at(1, 50), at(1, 0)]));
        assert_eq!(datagrams[2..], [arrives(&[at(2, 9)]), arrives(&[at(3, 0)])]);
        let connection = sent(Proto::Tcp);
        assert!(matches!(connection[0], Fate::Breaks(_)));
        assert_eq!(
            connection[1..],
            [arrives(&[at(1, 0)]), arrives(&[at(2, 9)]), arrives(&[at(3, 0)])]
        );
    }

    #[test]
    fn a_connection_that_breaks_is_made_anew_after_a_time() {
        let mut network = network(|settings| settings.breaks = 0.5);
        let broken = (0..100).filter(
            |_| matches!(network.send(Time(5), 0, Way::There, 1), Fate::Breaks(at) if at > Time(5)),
        );
        assert!((30..70).contains(&broken.count()));
    }
}

//! The front of the NFS server: any order of bytes, times, replies and ends, given to its state machine.

use std::collections::{BTreeMap, VecDeque};

use twin_nfs::front::{Action, Bounds, Input as To, Machine, Steps};
use twin_nfs::rpc::{self, Caller};
use twin_nfs::xdr::Reader;
use twin_nfs::{Peer, proc};
use twin_rt::{MILLIS, SECS, Time};

use crate::Target;
use crate::bytes::Input;

/// Inputs of a state machine.
pub(crate) const FRONT: Target = Target {
    name: "nfs_front",
    about: "what sockets and server tell the front of the NFS server, in any order, at any time",
    run: front,
    seeds: || vec![story(false), story(true)],
};

/// So much of one input is done.
const STEPS_MAX: usize = 400;
/// Room for marks of fragments, which are not counted by the machine.
const SLACK: usize = 16 << 10;

fn bounds() -> Bounds {
    let default = Bounds::default();
    let connections = 6;
    let total_bytes = connections * default.share_bytes + (2 << 20) + (256 << 10);
    Bounds { connections, calls: 4, total_bytes, connection_bytes: 1 << 20, ..default }
}

/// What is known of a connection without asking the machine.
#[derive(Default)]
struct Held {
    /// Bytes that are on their way to the server.
    sent: VecDeque<u8>,
    came: usize,
    replies: usize,
    read: bool,
}

struct World {
    machine: Machine,
    now: Time,
    next: u64,
    open: BTreeMap<u64, Held>,
    /// Calls that are executed: connection, length of the record, length of its reply.
    calls: BTreeMap<u64, (u64, usize, usize)>,
    understood: bool,
    ended: bool,
}

impl World {
    fn tell(&mut self, input: To<'_>) {
        self.machine.handle(input, self.now);
        while let Some(action) = self.machine.next_action() {
            match action {
                Action::Start { call, key, record, .. } => {
                    let reply = longest(&record);
                    self.understood |= reply > 28;
                    self.calls.insert(call, (key, record.len(), reply));
                    if let Some(held) = self.open.get_mut(&key) {
                        held.came = held.came.saturating_sub(record.len() + 4);
                    }
                }
                Action::Close(key) => {
                    self.open.remove(&key);
                }
                Action::Watch { key, read, .. } => {
                    let held = self.open.get_mut(&key).expect("only what is open is watched");
                    held.read = read;
                }
                Action::EndListening => self.ended = true,
                Action::Listen(_) | Action::Send(_) | Action::Read(_) | Action::Shutdown(_) => {}
            }
        }
        self.check();
    }

    fn check(&self) {
        let figures = self.machine.figures();
        let of_open: usize = self.open.values().map(|held| held.came + held.replies).sum();
        let of_calls: usize = self.calls.values().map(|(_, len, _)| len).sum();
        let most = bounds().total_bytes;
        assert!(figures.held_bytes <= most, "{} bytes of {most}", figures.held_bytes);
        assert!(of_open + of_calls <= most + SLACK, "{of_open} and {of_calls} bytes of {most}");
        assert_eq!(figures.stats.oversized, 0);
        assert_eq!(figures.stats.open as usize, self.open.len());
        assert!(!figures.over || self.open.is_empty());
        for (&key, held) in &self.open {
            // What is watched for can be read; else it would be reported without end.
            assert!(!held.read || self.machine.room(key) > 0);
            let unsent: usize = self.machine.pieces(key).iter().map(|piece| piece.len()).sum();
            assert!(unsent <= held.replies);
        }
    }

    fn key(&self, which: u8) -> Option<u64> {
        let count = self.open.len().max(1);
        self.open.keys().nth(usize::from(which) % count).copied()
    }

    /// Bytes of a client reach the server, as far as it reads.
    fn read(&mut self, key: u64) {
        let room = self.machine.room(key);
        let Some(held) = self.open.get_mut(&key) else { return };
        let take = room.min(held.sent.len());
        let bytes: Vec<u8> = held.sent.drain(..take).collect();
        held.came += take;
        if take > 0 {
            self.tell(To::Came { key, bytes: &bytes });
        }
    }

    fn write(&mut self, key: u64, most: usize) {
        let len: usize = self.machine.pieces(key).iter().map(|piece| piece.len()).sum();
        let len = len.min(most);
        if len > 0 {
            if let Some(held) = self.open.get_mut(&key) {
                held.replies -= len;
            }
            self.tell(To::Sent { key, len });
        }
        self.tell(To::Full(key));
    }

    fn answer(&mut self, which: u8, silent: bool) {
        let count = self.calls.len().max(1);
        let Some(&call) = self.calls.keys().nth(usize::from(which) % count) else { return };
        let Some((key, _, len)) = self.calls.remove(&call) else { return };
        let reply = if silent { None } else { Some(vec![0; len]) };
        if let Some(held) = self.open.get_mut(&key) {
            held.replies += reply.as_ref().map_or(0, Vec::len);
        }
        self.tell(To::Answered { call, reply });
    }

    fn pass(&mut self, ns: u64) {
        self.now += ns;
        if self.machine.figures().deadline.is_some_and(|at| at <= self.now) {
            self.tell(To::Tick);
        }
    }

    /// Told to stop, it ends in bounded time, whatever clients do.
    fn end(&mut self) {
        self.tell(To::Stop);
        while !self.calls.is_empty() {
            self.answer(0, false);
        }
        for _ in 0..100 {
            self.pass(100 * MILLIS);
        }
        assert!(self.ended && self.machine.figures().over && self.open.is_empty());
        assert_eq!(self.machine.figures().held_bytes, 0);
    }
}

/// The longest reply to a record.
fn longest(record: &[u8]) -> usize {
    let Ok(call) = rpc::parse(record) else { return 28 };
    let mut args = Reader::new(&record[call.args_at..]);
    let count = args.opaque(64).and_then(|_| args.u64()).and_then(|_| args.u32());
    match (call.procedure, count) {
        (proc::READ, Ok(count)) if args.end().is_ok() => 128 + count.min(1 << 20) as usize,
        _ => 300,
    }
}

fn record(procedure: u32, len: usize) -> Vec<u8> {
    let root = Caller::User { uid: 0, gid: 0, groups: Vec::new() };
    let mut out = rpc::call(7, (proc::NFS, 3, procedure), &root);
    out.opaque(&[1; 32]);
    out.u64(0);
    out.u32(len as u32);
    if procedure == proc::WRITE {
        out.u32(0);
        out.opaque(&vec![7; len]);
    }
    rpc::finish(out)
}

/// Steps: what, which connection or call, how much.
fn front(data: &[u8]) -> bool {
    let mut input = Input(data);
    let machine = Machine::new(bounds(), 0);
    let (open, calls, now) = (BTreeMap::new(), BTreeMap::new(), Time(1000 * SECS));
    let mut world = World { machine, now, next: 0, open, calls, understood: false, ended: false };
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let (what, which, much) = (input.u8(), input.u8(), usize::from(input.u16()));
        let key = world.key(which);
        let send = |world: &mut World, bytes: &[u8]| {
            if let Some(held) = key.and_then(|key| world.open.get_mut(&key))
                && held.sent.len() < 4 << 20
            {
                held.sent.extend(bytes);
            }
        };
        match (what % 16, key) {
            (0, _) => {
                world.next += 1;
                let key = world.next;
                world.open.insert(key, Held::default());
                world.tell(To::Accepted { key, peer: Peer::LOCAL_ROOT });
            }
            (1, _) => world.tell(To::AcceptFailed),
            (2, _) => send(&mut world, input.take(much % 64)),
            (3, _) => send(&mut world, &record(proc::READ, much * 16)),
            (4, _) => send(&mut world, &record(proc::WRITE, much * 16)),
            (5, _) => send(&mut world, &record(proc::GETATTR, 0)),
            (6, _) => {
                let whole = record(proc::WRITE, 70_000);
                send(&mut world, &whole[..much.min(whole.len())]);
            }
            (7, Some(key)) => world.read(key),
            (8, Some(key)) => world.write(key, much * 16),
            (9, Some(key)) => world.tell(To::Ended(key)),
            (10, Some(key)) => world.tell(To::Broken(key)),
            (11, _) => world.answer(which, much == 7),
            (12, _) => world.pass(much as u64 * MILLIS),
            (13, _) => world.tell(To::Turn),
            (14, _) if much == 0 => world.tell(To::GiveUp),
            (15, _) if much == 0 => world.tell(To::Stop),
            _ => {}
        }
    }
    world.end();
    world.understood
}

/// Clients that work, and one that does not read.
fn story(slow: bool) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 0];
    let mut step = |what: u8, which: u8, much: u16| {
        bytes.extend([what, which]);
        bytes.extend(much.to_le_bytes());
    };
    for round in 0..20 {
        let which = round % 2;
        step([3, 4, 5, 6][usize::from(round) % 4], which, 4096);
        (0..4).for_each(|_| step(7, which, 0));
        step(13, 0, 0);
        step(11, 0, 0);
        if !slow || which == 0 {
            (0..4).for_each(|_| step(8, which, u16::MAX));
        }
        step(12, 0, 300);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fuzzer is not at hand in every run of the tests: steps drawn at random are.
    #[test]
    fn random_steps_leave_memory_and_the_end_within_their_bounds() {
        let mut understood = 0;
        for seed in 0..300 {
            let mut rng = twin_rt::Rng::stream(seed, "front");
            let mut bytes = Vec::new();
            for _ in 0..rng.range(10, 300) {
                // Ends are rare, or there would be nothing to end.
                let what =
                    *rng.pick(&[0, 3, 3, 3, 4, 5, 6, 7, 7, 7, 7, 8, 8, 9, 10, 11, 11, 12, 13, 13]);
                let much = *rng.pick(&[0, 7, 300, 4096, 30_000, 65_535u16]);
                let what = if rng.chance(0.02) { rng.below(16) as u8 } else { what };
                bytes.extend([what, rng.below(8) as u8]);
                bytes.extend(much.to_le_bytes());
            }
            understood += u32::from(front(&bytes));
        }
        assert!(understood > 200, "{understood}");
    }
}

//! The machine alone: what it does in situations that were once handled wrongly.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use twin_rt::{MILLIS, Nanos, SECS, Time};

use super::{Action, Bounds, FrontStats, Input, Machine, Steps};
use crate::rpc::{self, Caller};
use crate::{Peer, proc};

/// A machine, and what it has asked for.
struct Rig {
    machine: Machine,
    now: Time,
    /// Calls that are executed, with the bytes that a READ asks for.
    calls: VecDeque<(u64, u64, usize)>,
    open: BTreeSet<u64>,
    reads: BTreeMap<u64, bool>,
    listens: Vec<bool>,
    ended: bool,
}

fn small() -> Bounds {
    let default = Bounds::default();
    let total_bytes = 8 * default.share_bytes + (3 << 20);
    Bounds { connections: 8, calls: 8, total_bytes, connection_bytes: 1 << 20, ..default }
}

impl Rig {
    fn new(bounds: Bounds) -> Rig {
        let (machine, now) = (Machine::new(bounds, 0), Time(SECS));
        let (calls, open, reads, listens) = Default::default();
        Rig { machine, now, calls, open, reads, listens, ended: false }
    }

    fn tell(&mut self, input: Input<'_>) {
        self.machine.handle(input, self.now);
        while let Some(action) = self.machine.next_action() {
            match action {
                Action::Start { call, key, record, .. } => {
                    let head = rpc::parse(&record).ok();
                    let asked = head.filter(|head| head.procedure == proc::READ).map(|head| {
                        let count = &record[head.args_at + 44..];
                        u32::from_be_bytes(count.try_into().unwrap()) as usize
                    });
                    self.calls.push_back((call, key, asked.unwrap_or(0)));
                }
                Action::Close(key) => assert!(self.open.remove(&key)),
                Action::Watch { key, read, .. } => {
                    self.reads.insert(key, read);
                }
                Action::Listen(on) => self.listens.push(on),
                Action::EndListening => self.ended = true,
                Action::Send(_) | Action::Read(_) | Action::Shutdown(_) => {}
            }
        }
        assert!(self.machine.figures().held_bytes <= self.machine.bounds().total_bytes);
    }

    fn connect(&mut self, key: u64) {
        self.open.insert(key);
        self.tell(Input::Accepted { key, peer: Peer::LOCAL_ROOT });
    }

    /// Gives bytes as far as they are read; returns how many were left.
    fn send(&mut self, key: u64, mut bytes: &[u8]) -> usize {
        while !bytes.is_empty() && self.machine.room(key) > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(self.machine.room(key)));
            bytes = later;
            self.tell(Input::Came { key, bytes: now });
            self.turns();
        }
        bytes.len()
    }

    fn turns(&mut self) {
        while self.machine.figures().has_turns {
            self.tell(Input::Turn);
        }
    }

    /// Executes the oldest call.
    fn answer(&mut self) -> bool {
        let Some((call, key, asked)) = self.calls.pop_front() else { return false };
        self.tell(Input::Answered { call, reply: Some(vec![0; asked + 128]) });
        self.tell(Input::Full(key));
        self.turns();
        true
    }

    /// The client takes everything.
    fn take(&mut self, key: u64) -> usize {
        let mut taken = 0;
        loop {
            let len = self.machine.pieces(key).iter().map(|piece| piece.len()).sum();
            if len == 0 {
                return taken;
            }
            taken += len;
            self.tell(Input::Sent { key, len });
            self.turns();
        }
    }

    fn pass(&mut self, ns: Nanos) {
        self.now += ns;
        while self.machine.figures().deadline.is_some_and(|at| at <= self.now) {
            self.tell(Input::Tick);
            self.turns();
        }
    }

    fn stats(&self) -> FrontStats {
        self.machine.figures().stats
    }
}

fn record(procedure: u32, numbers: &[u32]) -> Vec<u8> {
    let mut out = rpc::call(1, (proc::NFS, 3, procedure), &Caller::Nobody);
    out.opaque(&[1; 32]);
    numbers.iter().for_each(|&number| out.u32(number));
    rpc::finish(out)
}

fn read(len: u32) -> Vec<u8> {
    record(proc::READ, &[0, 0, len])
}

const NONSENSE: [u8; 12] = [0x80, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 1];

/// One read of a socket brought 1,900 calls for a MiB, and all were executed before a bound was looked at.
#[test]
fn records_wait_unexecuted_until_their_replies_have_room() {
    let mut rig = Rig::new(small());
    rig.connect(1);
    let left = rig.send(1, &read(65_536).repeat(200));
    assert!(left > 0 && rig.calls.len() <= 8, "{left} bytes left, {} calls", rig.calls.len());
    while rig.answer() {}
    assert!(!rig.reads[&1], "what cannot be executed is not read");
    let unread: usize = rig.machine.pieces(1).iter().map(|piece| piece.len()).sum();
    assert!(unread > 500_000 && unread <= 1 << 20, "{unread}");
    // It goes on where it stopped.
    assert!(rig.take(1) > 500_000);
    assert!(!rig.calls.is_empty());
}

/// The reply resumed the paused connection while the table was borrowed, and the process ended.
#[test]
fn a_reply_to_a_connection_that_is_gone_leaves_a_paused_one_alone() {
    let mut rig = Rig::new(small());
    rig.connect(1);
    rig.send(1, &read(65_536).repeat(200));
    while rig.answer() {}
    assert!(!rig.reads[&1]);
    rig.connect(2);
    rig.send(2, &[record(proc::MKDIR, &[]), NONSENSE.to_vec()].concat());
    let (call, ..) = rig.calls.pop_back().unwrap();
    rig.tell(Input::Answered { call, reply: None });
    assert!(!rig.open.contains(&2));
    assert!(rig.answer() && rig.open.contains(&1));
}

/// The end waited for calls whose connection was gone: nothing counted their replies.
#[test]
fn calls_of_connections_that_are_gone_do_not_hold_the_end_up() {
    let mut rig = Rig::new(small());
    rig.connect(1);
    rig.send(1, &record(proc::MKDIR, &[]).repeat(40));
    rig.tell(Input::Broken(1));
    rig.tell(Input::Stop);
    assert!(rig.ended && !rig.machine.figures().over);
    while rig.answer() {}
    rig.pass(SECS);
    assert!(rig.machine.figures().over);
    assert_eq!(rig.machine.figures().held_bytes, 0);
}

#[test]
fn the_end_does_not_wait_for_clients_that_do_not_read() {
    let mut rig = Rig::new(small());
    rig.connect(1);
    rig.connect(2);
    rig.send(1, &read(65_536).repeat(20));
    rig.answer();
    rig.tell(Input::Stop);
    while rig.answer() {}
    assert_eq!(rig.open.len(), 2);
    rig.pass(SECS);
    assert!(rig.machine.figures().over && rig.open.is_empty());
}

/// The client of a core that does not answer is let go, and the end does not wait for it.
#[test]
fn calls_that_are_given_up_are_not_waited_for() {
    let mut rig = Rig::new(small());
    rig.connect(1);
    rig.send(1, &record(proc::MKDIR, &[]));
    assert_eq!(rig.machine.figures().oldest_wait, Some(rig.now));
    rig.tell(Input::GiveUp);
    assert_eq!((rig.machine.figures().oldest_wait, rig.open.len()), (None, 0));
    assert!(rig.machine.figures().held_bytes > 0, "it is executed still");
    rig.tell(Input::Stop);
    rig.pass(SECS);
    assert!(rig.machine.figures().over);
    assert!(rig.answer());
    assert_eq!(rig.machine.figures().held_bytes, 0);
}

#[test]
fn small_calls_are_executed_at_once_when_all_room_is_taken() {
    let mut rig = Rig::new(small());
    for key in 1..=6 {
        rig.connect(key);
        rig.send(key, &read(65_536).repeat(200));
    }
    while rig.answer() {}
    assert!(rig.machine.figures().held_bytes > 3 << 20);
    rig.connect(7);
    rig.send(7, &record(proc::GETATTR, &[]));
    assert!(rig.answer() && rig.take(7) > 0);
}

/// Who does not take replies loses its room to who waits for it, within a second.
#[test]
fn large_calls_wait_for_clients_that_stand_still_no_longer_than_a_second() {
    let mut rig = Rig::new(small());
    for key in 1..=6 {
        rig.connect(key);
        rig.send(key, &read(65_536).repeat(200));
    }
    while rig.answer() {}
    rig.connect(7);
    rig.send(7, &read(1 << 20));
    assert!(rig.calls.is_empty(), "there is no room");
    for _ in 0..10 {
        rig.pass(100 * MILLIS);
    }
    assert!(rig.calls.iter().any(|&(_, key, _)| key == 7));
    assert!(rig.stats().evicted > 0 && rig.open.contains(&7));
    while rig.answer() {}
    assert!(rig.take(7) > 1 << 20);
}

#[test]
fn clients_that_do_not_take_replies_or_send_the_rest_are_closed_after_thirty_seconds() {
    let mut rig = Rig::new(small());
    rig.connect(1);
    rig.send(1, &read(65_536));
    rig.answer();
    rig.connect(2);
    rig.send(2, &read(65_536)[..50]);
    rig.pass(29 * SECS);
    assert_eq!(rig.open.len(), 2);
    rig.pass(3 * SECS);
    assert!(rig.open.is_empty());
    assert_eq!(rig.machine.figures().held_bytes, 0);
}

/// Accepting failed without end, since the connection was reported again at once.
#[test]
fn nobody_is_accepted_for_a_while_when_there_are_no_descriptors() {
    let mut rig = Rig::new(small());
    rig.tell(Input::AcceptFailed);
    rig.tell(Input::AcceptFailed);
    assert_eq!(rig.listens, [false]);
    rig.pass(SECS);
    assert_eq!(rig.listens, [false, true]);
}

#[test]
fn of_too_many_connections_the_one_that_is_idle_longest_goes() {
    let mut rig = Rig::new(small());
    for key in 1..=8 {
        rig.connect(key);
        rig.pass(MILLIS);
    }
    rig.send(1, &record(proc::MKDIR, &[]));
    rig.pass(SECS);
    rig.connect(9);
    assert!(rig.open.contains(&1) && !rig.open.contains(&2) && rig.open.contains(&9));
}

/// Two clients contended for the one place that others left who took no replies: each closed the other's
/// new connection before a call was answered, for thirty seconds.
#[test]
fn a_client_that_takes_no_replies_makes_room_before_one_that_has_just_come() {
    let mut rig = Rig::new(small());
    for key in 1..=7 {
        rig.connect(key);
        rig.send(key, &read(4096));
        while rig.answer() {}
    }
    rig.connect(8);
    rig.connect(9);
    assert!(rig.open.contains(&8) && !rig.open.contains(&9), "8 has not had time for a call");
    rig.pass(SECS);
    rig.send(8, &record(proc::MKDIR, &[]));
    while rig.answer() {}
    rig.take(8);
    rig.connect(10);
    assert!(rig.open.contains(&8) && rig.open.contains(&10) && !rig.open.contains(&1));
}

#[test]
fn a_record_in_fragments_is_one_call() {
    let whole = record(proc::WRITE, &[0, 0, 9000, 0, 9000]);
    let whole = [&whole[4..], &[7; 9000]].concat();
    for piece in [1000, 4096, 9000, 20_000] {
        let mut rig = Rig::new(small());
        rig.connect(1);
        let count = whole.len().div_ceil(piece);
        for (n, piece) in whole.chunks(piece).enumerate() {
            let mark = piece.len() as u32 | if n + 1 == count { 1 << 31 } else { 0 };
            for byte in mark.to_be_bytes() {
                assert_eq!(rig.send(1, &[byte]), 0);
            }
            assert_eq!(rig.send(1, piece), 0);
        }
        assert_eq!(rig.calls.len(), 1, "{piece}");
        assert!(rig.answer());
        assert_eq!(rig.take(1), 128);
        assert_eq!(rig.machine.figures().held_bytes, 0);
    }
}

//! Around the machine: counts what it holds, and makes the mistakes that are planted.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_nfs::front::{Action, Bounds, Figures, Input, Machine, Steps};
use twin_rt::Time;

use super::Planted;
use super::net::Told;

/// The bytes of marks of fragments, which are not told from those of records.
const SLACK: usize = 64 << 10;

/// What is known of a connection without asking the machine.
#[derive(Default)]
struct Held {
    /// Bytes that came and of which no call was made.
    came: usize,
    /// Bytes of replies that have not left.
    replies: usize,
    /// The machine has closed it.
    closed: bool,
}

pub(super) struct Watcher {
    machine: Machine,
    bounds: Bounds,
    planted: Option<Planted>,
    connections: RefCell<BTreeMap<u64, Held>>,
    /// Connections that are not read.
    paused: RefCell<BTreeSet<u64>>,
    /// Calls that are executed: the connection, and bytes of the record.
    calls: BTreeMap<u64, (u64, usize)>,
    /// The connection whose input is handled.
    told: Rc<Told>,
}

impl Watcher {
    pub(super) fn new(
        bounds: Bounds,
        planted: Option<Planted>,
        machine: impl FnOnce(Bounds) -> Machine,
        told: &Rc<Told>,
    ) -> Watcher {
        let unbounded = Bounds {
            total_bytes: 1 << 40,
            share_bytes: 1 << 30,
            connection_bytes: 1 << 30,
            calls: usize::MAX,
            raw_bytes: 256 << 10,
            ..bounds
        };
        let machine = machine(if planted == Some(Planted::Unbounded) { unbounded } else { bounds });
        let (connections, paused) = Default::default();
        let told = Rc::clone(told);
        Watcher { machine, bounds, planted, connections, paused, calls: BTreeMap::new(), told }
    }

    /// The old way: everything that is paused is looked at again.
    fn resume(&self) {
        let paused = self.paused.take();
        for &key in &paused {
            let mut connections = self.connections.borrow_mut();
            connections.entry(key).or_default();
        }
        self.paused.replace(paused);
    }

    /// The reply to a call whose connection is gone. True if the machine is not told of it.
    fn loses(&self, call: u64) -> bool {
        let Some((key, _)) = self.calls.get(&call) else { return false };
        let connections = self.connections.borrow_mut();
        let gone = connections.get(key).is_none_or(|held| held.closed);
        if gone && self.planted == Some(Planted::Reenters) {
            // As it was: the guard is held.
            self.resume();
        }
        gone && self.planted == Some(Planted::ForgetsTheGone)
    }

    fn count(&mut self, input: &Input<'_>) {
        let connections = self.connections.get_mut();
        let mut of = |key: &u64, change: &mut dyn FnMut(&mut Held)| {
            connections.get_mut(key).filter(|held| !held.closed).map(change);
        };
        match input {
            Input::Came { key, bytes } => of(key, &mut |held| held.came += bytes.len()),
            Input::Sent { key, len } => of(key, &mut |held| held.replies -= len),
            Input::Answered { call, reply } => {
                if let Some((key, _)) = self.calls.remove(call) {
                    let len = reply.as_ref().map_or(0, Vec::len);
                    of(&key, &mut |held| held.replies += len);
                }
            }
            Input::Accepted { key, .. } => {
                connections.insert(*key, Held::default());
            }
            _ => {}
        }
    }

    fn check(&self) {
        let connections = self.connections.borrow();
        let open = connections.values().filter(|held| !held.closed);
        let of_connections: usize = open.map(|held| held.came + held.replies).sum();
        let of_calls: usize = self.calls.values().map(|(_, len)| len).sum();
        let held = of_connections + of_calls;
        self.told.most_bytes.set(self.told.most_bytes.get().max(held as u64));
        let figures = self.machine.figures();
        let most = self.bounds.total_bytes;
        if held > most + SLACK {
            self.told.breaks(format!("calls and replies take {held} bytes of {most}"));
        }
        if figures.held_bytes > most && self.planted.is_none() {
            self.told.breaks(format!("the machine holds {} bytes of {most}", figures.held_bytes));
        }
        if figures.stats.oversized > 0 {
            self.told.breaks("a reply was longer than the room that was taken for it".into());
        }
    }
}

impl Steps for Watcher {
    fn handle(&mut self, input: Input<'_>, now: Time) {
        if let Input::Answered { call, .. } = &input
            && self.loses(*call)
        {
            return;
        }
        self.count(&input);
        self.machine.handle(input, now);
        self.check();
    }

    fn next_action(&mut self) -> Option<Action> {
        let action = self.machine.next_action()?;
        match &action {
            Action::Start { call, key, record, .. } => {
                self.calls.insert(*call, (*key, record.len()));
                if let Some(held) = self.connections.get_mut().get_mut(key) {
                    held.came = held.came.saturating_sub(4 + record.len());
                }
            }
            Action::Watch { key, read, .. } => {
                let paused = self.paused.get_mut();
                if *read {
                    paused.remove(key)
                } else {
                    paused.insert(*key)
                };
            }
            Action::Close(key) => {
                self.paused.get_mut().remove(key);
                if let Some(held) = self.connections.get_mut().get_mut(key) {
                    *held = Held { closed: true, ..Held::default() };
                }
            }
            _ => {}
        }
        Some(action)
    }

    fn room(&self, key: u64) -> usize {
        self.machine.room(key)
    }

    fn pieces(&self, key: u64) -> Vec<&[u8]> {
        self.machine.pieces(key)
    }

    fn figures(&self) -> Figures {
        self.machine.figures()
    }
}

//! The state machine of all connections. See the [module](super) for its contract.

use std::collections::{BTreeMap, VecDeque};

use twin_rt::{MILLIS, Nanos, SECS, Time};

use super::connection::{Connection, Queue, Wants};
use super::pool::Pool;
use super::{Action, Bounds, Figures, FrontStats, Input, Steps, cost};
use crate::export::Peer;
use crate::record::RECORD_MAX;

/// At most this many records of one connection are executed in a row.
const QUANTUM: usize = 16;
/// Requests for no more than this much common memory are granted at once, if nobody waits for
/// memory.
const AT_ONCE_BYTES: usize = 32 << 10;
/// The most bytes that one read from a socket takes.
const READ_BYTES: usize = 256 << 10;
/// The number of classes of connections that wait for common memory, see [`Machine::class`].
const CLASSES: usize = 5;
/// Each time this many more connections wait, the time for which others may stand still is halved.
const CROWD: usize = 32;
/// At least this fraction of that time remains, however many wait.
const CROWDED: u64 = 16;
/// The interval at which slow and idle connections are looked for.
const SWEEP_NS: Nanos = SECS;
/// How long no connection is accepted when the host has no descriptor for one.
const PAUSE_NS: Nanos = 100 * MILLIS;
/// How long an ending server waits for clients to take their last replies and to close.
const LINGER_NS: Nanos = 300 * MILLIS;

/// A call that is executed.
#[derive(Debug)]
struct Call {
    key: u64,
    /// The bytes that were taken for it.
    cost: usize,
    since: Time,
    given_up: bool,
}

/// How far serving has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// Calls are still executed.
    Answering,
    /// The last replies leave, until this time at most.
    Until(Time),
}

/// The state of all connections; the [module](super) explains its inputs and actions.
#[derive(Debug)]
pub struct Machine {
    bounds: Bounds,
    /// The longest reply of other programs than NFS.
    special: usize,
    pool: Pool,
    connections: BTreeMap<u64, Connection>,
    /// Number of connections whose sockets are open.
    open: usize,
    /// Calls that are executed, by number.
    calls: BTreeMap<u64, Call>,
    /// Number of these calls whose reply somebody waits for.
    awaited: usize,
    next_call: u64,
    /// Connections with more to do than is done at a time.
    small: VecDeque<u64>,
    /// Connections that wait for common room, in classes that take turns.
    common: [VecDeque<u64>; CLASSES],
    /// The class whose turn it is.
    turn: usize,
    /// The class whose turn it is has no room, until something is freed or this time comes.
    short: Option<Option<Time>>,
    actions: VecDeque<Action>,
    listen_at: Option<Time>,
    sweep_at: Option<Time>,
    ending: Ending,
    stats: FrontStats,
}

impl Steps for Machine {
    fn handle(&mut self, input: Input<'_>, now: Time) {
        match input {
            Input::Accepted { key, peer } => self.accepted(key, peer, now),
            Input::AcceptFailed => self.accept_failed(now),
            Input::Came { key, bytes } => self.came(key, bytes, now),
            Input::Ended(key) => {
                self.change(key, |c| c.ended = true);
                self.go_on(key, now);
            }
            Input::Broken(key) => self.close(key),
            Input::Sent { key, len } => self.sent(key, len, now),
            Input::Full(key) => {
                self.change(key, |c| (c.full, c.sending) = (c.has_replies(), false));
                self.go_on(key, now);
            }
            Input::Answered { call, reply } => self.answered(call, reply, now),
            Input::Turn => self.take_turns(now),
            Input::Tick => self.tick(now),
            Input::Stop => self.stop(now),
            Input::GiveUp => self.give_up(now),
        }
    }

    fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn room(&self, key: u64) -> usize {
        match self.connections.get(&key) {
            Some(c) if c.interest.0 && self.ending != Ending::No => READ_BYTES,
            Some(c) if c.interest.0 => c.room(&self.bounds).min(READ_BYTES),
            _ => 0,
        }
    }

    fn pieces(&self, key: u64) -> Vec<&[u8]> {
        self.connections.get(&key).map(Connection::pieces).unwrap_or_default()
    }

    fn figures(&self) -> Figures {
        let waiting = self.waiting() > 0;
        let linger = match self.ending {
            Ending::Until(at) if self.open > 0 => Some(at),
            _ => None,
        };
        let pressure = if waiting { self.short.flatten() } else { None };
        let deadlines = [linger, pressure, self.listen_at, self.sweep_at];
        Figures {
            stats: FrontStats { open: self.open as u64, ..self.stats },
            oldest_wait: self.calls.values().find(|call| !call.given_up).map(|call| call.since),
            held_bytes: self.pool.held(),
            has_turns: !self.small.is_empty() || waiting && self.short.is_none(),
            deadline: deadlines.into_iter().flatten().min(),
            over: matches!(self.ending, Ending::Until(_)) && self.open == 0,
        }
    }
}

impl Machine {
    /// No connections. `special` is the longest reply to a call of another program than NFS.
    ///
    /// # Panics
    /// If the longest call finds no room beside the shares of all connections, or a share is no larger than what
    /// of it is for bytes that come unasked.
    pub fn new(bounds: Bounds, special: usize) -> Machine {
        let shares = bounds.share_bytes * bounds.connections;
        let longest = cost::of_long(RECORD_MAX).max(special);
        assert!(shares + longest <= bounds.total_bytes, "{bounds:?} have no room for a call");
        assert!(bounds.raw_bytes < bounds.share_bytes, "{bounds:?} have no share for calls");
        Machine {
            bounds,
            special,
            pool: Pool::new(
                bounds.total_bytes,
                (bounds.share_bytes, bounds.raw_bytes),
                bounds.connections,
            ),
            connections: BTreeMap::new(),
            open: 0,
            calls: BTreeMap::new(),
            awaited: 0,
            next_call: 0,
            small: VecDeque::new(),
            common: Default::default(),
            turn: 0,
            short: None,
            actions: VecDeque::new(),
            listen_at: None,
            sweep_at: None,
            ending: Ending::No,
            stats: FrontStats::default(),
        }
    }

    /// The bounds within which the machine keeps its memory.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Changes a connection, and reports the change of its memory to the pool. All changes go through
    /// here: a connection that grew elsewhere would break the bound for all.
    fn change<T>(&mut self, key: u64, change: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let connection = self.connections.get_mut(&key)?;
        let before = connection.held();
        let result = change(connection);
        if self.pool.change(before, connection.held()) {
            self.short = None;
        }
        Some(result)
    }

    fn open(&self, key: u64) -> Option<&Connection> {
        self.connections.get(&key).filter(|c| !c.closed)
    }

    fn accepted(&mut self, key: u64, peer: Peer, now: Time) {
        self.stats.accepted += 1;
        let full = self.connections.len() >= self.bounds.connections;
        if self.ending != Ending::No || full && !self.drop_idlest(now) {
            self.stats.dropped += 1;
            self.actions.push_back(Action::Close(key));
            return;
        }
        self.connections.insert(key, Connection::new(peer, now));
        self.open += 1;
        self.sweep_at.get_or_insert(now + SWEEP_NS);
        self.update_watch(key, now);
    }

    fn accept_failed(&mut self, now: Time) {
        if self.ending == Ending::No && self.listen_at.is_none() {
            self.stats.pauses += 1;
            self.listen_at = Some(now + PAUSE_NS);
            self.actions.push_back(Action::Listen(false));
        }
    }

    fn came(&mut self, key: u64, bytes: &[u8], now: Time) {
        // An ending server reads only to see the end.
        if self.ending == Ending::No && self.open(key).is_some() {
            let bounds = self.bounds;
            self.change(key, |c| c.came(bytes, &bounds, now));
            self.go_on(key, now);
        }
    }

    fn sent(&mut self, key: u64, len: usize, now: Time) {
        self.change(key, |c| {
            if !c.closed {
                c.sent(len, now);
                c.full &= c.has_replies();
                c.sending = false;
            }
        });
        self.go_on(key, now);
    }

    /// Goes on with a connection as far as its bounds and the memory allow, for a while.
    fn go_on(&mut self, key: u64, now: Time) {
        // A connection that always has another record must not keep the others from their turns.
        for _ in 0..QUANTUM {
            match self.step(key, now) {
                Some(true) => {}
                Some(false) => return self.update_watch(key, now),
                None => return,
            }
        }
        if self.change(key, |c| std::mem::replace(&mut c.queue, Queue::Small)) == Some(Queue::None)
        {
            self.small.push_back(key);
        }
        self.update_watch(key, now);
    }

    /// Performs one step of a connection. False if it cannot go on now; `None` if it is gone.
    fn step(&mut self, key: u64, now: Time) -> Option<bool> {
        let c = self.open(key)?;
        if self.ending != Ending::No || c.queue != Queue::None {
            return Some(false);
        }
        let (more, starts) = match c.wants(&self.bounds, self.special) {
            Wants::Bytes => return Some(false),
            Wants::Sense => {
                self.drop_connection(key);
                return None;
            }
            Wants::Nothing => (0, false),
            Wants::Room(more) => (more, false),
            Wants::Start(more) => (more, true),
        };
        if !self.may(c, more, starts) {
            return Some(false);
        }
        // While others wait for common memory, a newcomer may use only its own share: otherwise small
        // calls would overtake a large one for ever.
        let own = self.waiting() > 0 || more > AT_ONCE_BYTES;
        if self.pool.fits(c.held().granted, more, own) {
            self.advance(key, now);
            return Some(true);
        }
        let class = Machine::class(c, starts);
        self.change(key, |c| c.queue = Queue::Common(now));
        self.common[class].push_back(key);
        Some(false)
    }

    /// The class in which a connection waits. Thousands that never take a reply, or never send the rest of
    /// a record, are not before those that do.
    fn class(c: &Connection, starts: bool) -> usize {
        match (starts, c.has_replies()) {
            (true, false) => usize::from(!c.has_taken),
            (true, true) => 2,
            (false, _) => 3 + usize::from(!c.has_taken),
        }
    }

    /// The number of connections that wait for common room.
    fn waiting(&self) -> usize {
        self.common.iter().map(VecDeque::len).sum()
    }

    /// How long a connection may stand still that holds common room. The more wait, the shorter: otherwise
    /// a thousand that stand still in turn would hold everybody up.
    fn patience_with_still(&self) -> Nanos {
        let crowd = 1 + (self.waiting() / CROWD) as u64;
        self.bounds.pressure_ns / crowd.min(CROWDED)
    }

    /// True if a connection's own bounds allow it to go on.
    fn may(&self, c: &Connection, more: usize, starts: bool) -> bool {
        let held = c.held();
        let fits = held.raw + held.granted + more <= self.bounds.connection_bytes;
        (fits || c.is_quiet()) && !(starts && c.calls >= self.bounds.calls)
    }

    fn advance(&mut self, key: u64, now: Time) {
        let (bounds, special) = (self.bounds, self.special);
        let started = self.change(key, |c| {
            c.owes = None;
            (c.peer, c.advance(&bounds, special, now))
        });
        if self.connections.get(&key).is_some_and(Connection::is_receiving) {
            // The rest may be there already.
            self.actions.push_back(Action::Read(key));
        }
        if let Some((peer, Some((record, cost)))) = started {
            let call = self.next_call;
            self.next_call += 1;
            self.awaited += 1;
            self.calls.insert(call, Call { key, cost, since: now, given_up: false });
            self.actions.push_back(Action::Start { call, key, peer, record });
        }
    }

    /// Takes the reply of a call. The connection may be closed meanwhile; it was kept until now, because
    /// the memory of the call counts as long as the call is executed.
    fn answered(&mut self, call: u64, reply: Option<Vec<u8>>, now: Time) {
        let Some(Call { key, cost, given_up, .. }) = self.calls.remove(&call) else { return };
        self.awaited -= usize::from(!given_up);
        let nonsense = reply.is_none();
        let fits = self.change(key, |c| {
            c.done(cost);
            c.closed || c.push(reply.unwrap_or_default(), cost, now)
        });
        if self.connections.get(&key).is_some_and(|c| c.closed && c.calls == 0) {
            self.connections.remove(&key);
        } else if self.open(key).is_some() {
            // A client that sends something that is no call does not speak this protocol.
            if nonsense || fits == Some(false) {
                self.stats.oversized += u64::from(fits == Some(false));
                self.drop_connection(key);
            } else if self.change(key, |c| std::mem::replace(&mut c.sending, true)) == Some(false) {
                self.actions.push_back(Action::Send(key));
            }
        }
        self.end_answering(now);
    }

    /// Serves one connection that has more to do, and one that waits for common memory.
    fn take_turns(&mut self, now: Time) {
        if let Some(key) = self.small.pop_front() {
            self.change(key, |c| c.queue = Queue::None);
            self.go_on(key, now);
        }
        while self.short.is_none() {
            let next = (0..CLASSES).map(|n| (self.turn + n) % CLASSES);
            let next = next.filter_map(|class| Some((class, *self.common[class].front()?))).next();
            let Some((class, key)) = next else { return };
            self.turn = class;
            // The turn passes on only when somebody has gone on. While the first of a class finds no
            // room, nobody overtakes it: what becomes free is kept for it.
            if self.take_turn(key, now) {
                self.turn = (class + 1) % CLASSES;
                return;
            }
        }
    }

    /// The turn of a connection that waits for common room. True if it went on; otherwise another may.
    fn take_turn(&mut self, key: u64, now: Time) -> bool {
        let still_ns = self.patience_with_still();
        let c = self.open(key).filter(|c| matches!(c.queue, Queue::Common(_)));
        let Some(c) = c else {
            self.common[self.turn].pop_front();
            return false;
        };
        // A client that does not take replies gets no more of them; it goes on when it takes some.
        let stands = c.has_replies() && now.since(c.progress) >= still_ns;
        let more = match c.wants(&self.bounds, self.special) {
            Wants::Start(more) if !stands && self.may(c, more, true) => more,
            Wants::Room(more) if !stands && self.may(c, more, false) => more,
            _ => {
                self.common[self.turn].pop_front();
                self.change(key, |c| c.queue = Queue::None);
                self.update_watch(key, now);
                return false;
            }
        };
        if self.pool.fits(c.held().granted, more, false) {
            self.common[self.turn].pop_front();
            self.change(key, |c| c.queue = Queue::None);
            self.advance(key, now);
            self.go_on(key, now);
            return true;
        }
        self.make_room(key, now);
        false
    }

    /// Closes a connection that holds common room and does not move; otherwise says when to look again.
    fn make_room(&mut self, waits: u64, now: Time) {
        let (still_ns, patience_ns) = (self.patience_with_still(), self.bounds.patience_ns);
        let since = match self.open(waits).map(|c| c.queue) {
            Some(Queue::Common(since)) => since,
            _ => now,
        };
        let holders = self.connections.iter().filter(|(key, c)| {
            let theirs = c.has_replies() || c.is_receiving();
            **key != waits && !c.closed && theirs && self.pool.beyond(c.held().granted) > 0
        });
        let holders: Vec<_> = holders.map(|(&key, c)| (c.progress, c.under_way, key)).collect();
        let stands = holders.iter().map(|&(progress, _, key)| (progress + still_ns, key)).min();
        let longest = holders
            .iter()
            .map(|&(_, under_way, key)| (since.max(under_way) + patience_ns, under_way, key));
        let longest = longest.min().map(|(at, _, key)| (at, key));
        let next = [stands, longest].into_iter().flatten().min();
        match next {
            Some((at, key)) if at <= now => {
                self.stats.evicted += 1;
                self.drop_connection(key);
            }
            _ => self.short = Some(next.map(|(at, _)| at)),
        }
    }

    /// Sets what a connection is watched for; closes it if it is over.
    fn update_watch(&mut self, key: u64, now: Time) {
        let Some(c) = self.open(key) else { return };
        let wants_bytes = c.queue == Queue::None
            && c.wants(&self.bounds, self.special) == Wants::Bytes
            && !c.ended;
        let over = c.ended && c.is_quiet() && c.queue == Queue::None;
        let stuck = over && c.wants(&self.bounds, self.special) == Wants::Bytes;
        if stuck || over && self.ending != Ending::No {
            return self.close(key);
        }
        let lingers = matches!(self.ending, Ending::Until(_));
        if lingers && !c.has_replies() && !c.told {
            self.change(key, |c| c.told = true);
            self.actions.push_back(Action::Shutdown(key));
        }
        let Some(c) = self.open(key) else { return };
        let reads = match self.ending {
            Ending::No => wants_bytes,
            Ending::Answering => false,
            Ending::Until(_) => c.told && !c.ended,
        };
        let interest = (reads, c.full);
        let owes = wants_bytes && c.has_begun() && self.ending == Ending::No;
        let changes = interest != c.interest;
        self.change(key, |c| {
            c.interest = interest;
            c.owes = if owes { c.owes.or(Some(now)) } else { None };
        });
        if changes {
            self.actions.push_back(Action::Watch { key, read: interest.0, write: interest.1 });
        }
    }

    /// Closes the connection that has not moved for the longest time: an idle one, or one whose client takes
    /// no replies. False if all have moved a moment ago. One that was just accepted gets that moment for its
    /// first call; without it, two clients that contend for the last place would close each other for ever.
    fn drop_idlest(&mut self, now: Time) -> bool {
        let open = self.connections.iter().filter(|(_, c)| !c.closed && c.calls == 0);
        let since = open.map(|(&key, c)| match (c.has_replies(), c.queue) {
            (false, Queue::None) => (c.moved, key),
            _ => (c.progress, key),
        });
        match since.min() {
            Some((since, key)) if now.since(since) >= self.bounds.pressure_ns => {
                self.drop_connection(key);
                true
            }
            _ => false,
        }
    }

    fn tick(&mut self, now: Time) {
        if self.short.flatten().is_some_and(|at| at <= now) {
            self.short = None;
        }
        if self.listen_at.is_some_and(|at| at <= now) {
            self.listen_at = None;
            self.actions.push_back(Action::Listen(true));
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep(now);
            self.sweep_at = (self.open > 0).then_some(now + SWEEP_NS);
        }
        if let Ending::Until(at) = self.ending
            && at <= now
        {
            let open: Vec<u64> = self.open_keys();
            open.into_iter().for_each(|key| self.close(key));
        }
    }

    fn open_keys(&self) -> Vec<u64> {
        self.connections.iter().filter(|(_, c)| !c.closed).map(|(&key, _)| key).collect()
    }

    /// Closes who is slow or idle.
    fn sweep(&mut self, now: Time) {
        let Bounds { slow_ns, idle_ns, .. } = self.bounds;
        let over = self.connections.iter().filter(|(_, c)| {
            let sending = c.owes.is_some_and(|since| now.since(since) > slow_ns);
            let taking = c.has_replies() && now.since(c.progress) > slow_ns;
            let idle = c.is_quiet() && c.queue == Queue::None && now.since(c.moved) > idle_ns;
            !c.closed && (sending || taking || idle)
        });
        let over: Vec<u64> = over.map(|(&key, _)| key).collect();
        over.into_iter().for_each(|key| self.drop_connection(key));
    }

    /// Closes a connection that breaks the bounds or the protocol.
    fn drop_connection(&mut self, key: u64) {
        self.stats.dropped += 1;
        self.close(key);
    }

    /// Closes a connection. It is kept as long as calls of it are executed, since they hold memory.
    fn close(&mut self, key: u64) {
        if self.open(key).is_none() {
            return;
        }
        self.change(key, Connection::close);
        self.open -= 1;
        self.actions.push_back(Action::Close(key));
        if self.connections.get(&key).is_some_and(|c| c.calls == 0) {
            self.connections.remove(&key);
        }
    }

    fn stop(&mut self, now: Time) {
        if self.ending != Ending::No {
            return;
        }
        self.ending = Ending::Answering;
        self.actions.push_back(Action::EndListening);
        self.listen_at = None;
        self.small.clear();
        self.common.iter_mut().for_each(VecDeque::clear);
        for key in self.open_keys() {
            self.change(key, |c| {
                c.forget_records();
                c.queue = Queue::None;
            });
            self.update_watch(key, now);
        }
        self.end_answering(now);
    }

    /// Lets the last replies leave, if all calls have been executed. A socket that is closed with unread
    /// bytes in it takes replies back that the client has not read, so clients are told, and may close first.
    fn end_answering(&mut self, now: Time) {
        if self.ending == Ending::Answering && self.awaited == 0 {
            self.ending = Ending::Until(now + LINGER_NS);
            for key in self.open_keys() {
                self.update_watch(key, now);
            }
        }
    }

    /// Closes the connections of all calls that are executed: a core that does not answer any more.
    fn give_up(&mut self, now: Time) {
        let waiting = self.calls.values_mut().filter(|call| !call.given_up);
        let keys: Vec<u64> = waiting
            .map(|call| {
                call.given_up = true;
                call.key
            })
            .collect();
        self.awaited = 0;
        keys.into_iter().for_each(|key| {
            if self.open(key).is_some() {
                self.drop_connection(key);
            }
        });
        self.end_answering(now);
    }
}

//! Operations of a trace, inferred from the exchanges of a capture.
//!
//! Contract: the trace can be replayed, and every answer in it is the one that a replay gives. A file that is
//! met for the first time existed before, with the length that it had then; a handle whose name was never
//! seen gets a name of its own in the root directory. NFS has no opens and closes: `opens` infers them.
//! A write that had to be durable before its answer, and a COMMIT, become an fsync. What contradicts the
//! rest (something happened that was not captured, such as work on the server itself) becomes a getattr and is
//! counted, so that the load stays and the trace stays true. Listings are taken once, from their beginning.
//! All operations have the rights of the superuser, since the server has checked the callers' own.

mod known;
mod names;
mod opens;
mod steps;

use core::net::IpAddr;

use twin_fs::{Cred, Ino, Name, Op, Request};
use twin_rt::{FixedMap, Nanos, Time};
use twin_trace::{Header, Kind, Node, Outcome, Record, Traits};

use crate::gatherer::Exchange;
use known::Known;
use names::Names;
use opens::Opens;

/// Choices of the inference.
#[derive(Clone, Debug)]
pub struct Options {
    /// A file that its client has not used for this time is closed, in nanoseconds.
    pub close_after_ns: u64,
    /// Names are replaced by numbers.
    pub anonymous: bool,
    /// The description in the trace's header.
    pub text: String,
}

impl Default for Options {
    fn default() -> Options {
        // The longest time for which common clients cache attributes, and so the longest that they
        // use a file without asking the server (acregmax of nfs(5)).
        let close_after_ns = 60 * twin_rt::SECS;
        Options { close_after_ns, anonymous: false, text: "NFS packets".into() }
    }
}

/// The counts of inferred operations, and of exchanges that could not be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inferred {
    /// Operations that clients asked for.
    pub asked: u64,
    /// Lookups that lead to files whose own lookups were not captured.
    pub lookups: u64,
    /// Number of opens that were inferred.
    pub opens: u64,
    /// Files that existed before.
    pub nodes: u64,
    /// Number of them whose names were never seen.
    pub nameless: u64,
    /// Fsyncs, from writes that had to be durable.
    pub fsyncs: u64,
    /// Exchanges without a counterpart in a trace (NULL, FSINFO, PATHCONF, the rest of a listing).
    pub without_counterpart: u64,
    /// Failed exchanges that a replay would not fail (no permission, no space, stale handles, ...).
    pub failed: u64,
    /// Answers that contradict what was captured before; they became a getattr.
    pub contradictions: u64,
}

/// An operation, its answer, or a node, with its time.
enum Event {
    Node(Node),
    Request { number: u64, client: u32, op: Op },
    Reply { number: u64, outcome: Outcome },
}

/// Makes a trace of `exchanges`, which are in the order of their calls.
pub fn trace(exchanges: &[Exchange], options: &Options) -> (Header, Vec<Record>, Inferred) {
    let start_ns = exchanges.first().map_or(0, |exchange| exchange.asked_ns);
    let mut inference = Inference::new(Known::of(exchanges), options, start_ns);
    for exchange in exchanges {
        inference.exchange(exchange);
    }
    // Files that are still open are closed when the capture ends; nothing is known of later times.
    let end_ns = exchanges.iter().map(|exchange| exchange.answered_ns).max().unwrap_or(start_ns);
    inference.end_ns = end_ns.saturating_sub(start_ns);
    inference.close_idle(u64::MAX);
    let header = Header {
        kind: Kind::Operations,
        start: Time(start_ns),
        seed: 0,
        traits: Traits { timed: true, ..Traits::default() },
        text: options.text.clone(),
    };
    let counts = inference.counts;
    (header, inference.into_records(), counts)
}

struct Inference<'o> {
    options: &'o Options,
    known: Known,
    names: Names,
    /// The inodes of handles, by number.
    inos: Vec<Option<Ino>>,
    opens: Opens,
    clients: FixedMap<IpAddr, u32>,
    /// The replacements of names.
    masks: FixedMap<Name, Name>,
    events: Vec<(Nanos, Event)>,
    /// The number of requests so far.
    requests: u64,
    start_ns: u64,
    /// When the last exchange ended, since the start: nothing comes later.
    end_ns: Nanos,
    /// The present exchange: client, times of its call and answer since the start.
    client: u32,
    asked_ns: Nanos,
    answered_ns: Nanos,
    counts: Inferred,
}

/// True for a name that a directory can have.
fn usable(name: &[u8]) -> bool {
    let special = name.is_empty() || name == b"." || name == b"..";
    !special && name.len() <= twin_fs::NAME_MAX && !name.contains(&b'/') && !name.contains(&0)
}

impl<'o> Inference<'o> {
    fn new(known: Known, options: &'o Options, start_ns: u64) -> Inference<'o> {
        Inference {
            options,
            inos: vec![None; known.len()],
            known,
            names: Names::new(),
            opens: Opens::default(),
            clients: FixedMap::default(),
            masks: FixedMap::default(),
            events: Vec::new(),
            requests: 0,
            start_ns,
            end_ns: Nanos::MAX,
            client: 0,
            asked_ns: 0,
            answered_ns: 0,
            counts: Inferred::default(),
        }
    }

    /// Adds an operation that the client asked for, with its own times.
    fn did(&mut self, op: Op, outcome: Outcome) {
        self.counts.asked += 1;
        self.add(self.client, (self.asked_ns, self.answered_ns), op, outcome);
    }

    /// Adds an operation that was inferred, at the time of the call.
    fn made(&mut self, op: Op, outcome: Outcome) {
        self.add(self.client, (self.asked_ns, self.asked_ns), op, outcome);
    }

    fn add(
        &mut self,
        client: u32,
        (asked_ns, answered_ns): (Nanos, Nanos),
        op: Op,
        outcome: Outcome,
    ) {
        self.requests += 1;
        let number = self.requests;
        let answered = !matches!(op, Op::Forget { .. });
        self.events.push((asked_ns, Event::Request { number, client, op }));
        if answered {
            self.events.push((answered_ns, Event::Reply { number, outcome }));
        }
    }

    /// Closes the files that were last used at `since_ns`, or before, since the start.
    fn close_idle(&mut self, since_ns: Nanos) {
        while let Some(close) = self.opens.idle(since_ns) {
            let at_ns = close.last_ns.saturating_add(self.options.close_after_ns).min(self.end_ns);
            self.close(close, at_ns);
        }
    }

    fn close(&mut self, close: opens::Close, at_ns: Nanos) {
        for _ in 0..close.count {
            let op = Op::Release { ino: close.ino };
            self.add(close.client, (at_ns, at_ns), op, Outcome::Done);
        }
    }

    /// The records in the order of their times, numbered.
    fn into_records(mut self) -> Vec<Record> {
        // The sort keeps the order of equal times: what an operation needs stays before it.
        self.events.sort_by_key(|&(at_ns, _)| at_ns);
        let mut numbers: FixedMap<u64, u64> = FixedMap::default();
        let record = |(at_ns, event)| match event {
            Event::Node(node) => Record::Node(node),
            Event::Request { number, client, op } => {
                let id = numbers.len() as u64 + 1;
                numbers.insert(number, id);
                Record::Request { at_ns, request: Request { id, client, cred: Cred::root(), op } }
            }
            Event::Reply { number, outcome } => {
                let id = numbers.get(&number).copied().unwrap_or(0);
                Record::Reply { at_ns, id, outcome }
            }
        };
        self.events.into_iter().map(record).collect()
    }
}

#[cfg(test)]
mod tests;

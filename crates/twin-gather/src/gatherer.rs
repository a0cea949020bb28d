//! Packets in, exchanges of calls and answers out.
//!
//! Contract: an [`Exchange`] is a call of NFS version 2 or 3 with its answer. They are kept in memory until
//! the capture ends, some 200 bytes each, because the name of a file may only be learnt later than its use.

use core::net::SocketAddr;

use twin_rt::FixedSet;

use crate::capture::Packet;
use crate::nfs::{self, Answer, Call};
use crate::packet::{Dissector, Transport};
use crate::rpc::{self, CallIs, CallKey, Caller, Message, Pairs, ReplyIs, Target};
use crate::tally::Tally;
use crate::tcp::{Segment, StreamMessage, Streams};

/// Bytes that are kept of a reply whose call has not been captured yet.
const EARLY_BYTES: usize = 64 << 10;

/// A call with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the last byte of the call was captured, in nanoseconds since the Unix epoch.
    pub asked_ns: u64,
    /// When the last byte of the answer was captured.
    pub answered_ns: u64,
    /// The client's address.
    pub client: SocketAddr,
    /// The server's address.
    pub server: SocketAddr,
    /// The user who called.
    pub caller: Caller,
    /// The call.
    pub call: Call,
    /// The answer.
    pub answer: Answer,
}

/// All that was gathered.
#[derive(Debug, Default)]
pub struct Gathered {
    /// In the order of their calls.
    pub exchanges: Vec<Exchange>,
    /// The counts.
    pub tally: Tally,
}

/// Takes the packets of a capture.
#[derive(Default)]
pub struct Gatherer {
    dissector: Dissector,
    streams: Streams,
    matcher: Matcher,
}

impl Gatherer {
    /// Takes the next packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let Gatherer { dissector, streams, matcher } = self;
        matcher.tally.packets += 1;
        let at_ns = packet.at_ns;
        dissector.packet(packet, &mut |carried| {
            let (from, to) = (carried.from, carried.to);
            match carried.data {
                Transport::Datagram(bytes) => {
                    matcher.message(&StreamMessage { at_ns, from, to, bytes }, false);
                }
                Transport::Segment { seq, syn, data, missing } => {
                    let segment = Segment { at_ns, from, to, seq, syn, data, missing };
                    streams.segment(&segment, &mut |message| matcher.message(&message, true));
                }
            }
        });
    }

    /// The number of calls with answers so far.
    pub fn exchanges(&self) -> u64 {
        self.matcher.exchanges.len() as u64
    }

    /// Ends the capture.
    pub fn finish(mut self) -> Gathered {
        let Matcher { pairs, mut exchanges, mut tally, .. } = {
            let matcher = &mut self.matcher;
            self.streams.finish(&mut |message| matcher.message(&message, true));
            self.matcher
        };
        (tally.unanswered, tally.unasked) = pairs.finish();
        (tally.foreign_packets, tally.tcp) = (self.dissector.foreign, self.streams.counts());
        exchanges.sort_by_key(|exchange| (exchange.asked_ns, exchange.answered_ns));
        Gathered { exchanges, tally }
    }
}

/// What is kept of a call. Calls of other programs are kept too, so that their replies are known.
struct Asked {
    target: Target,
    caller: Caller,
    call: Option<Call>,
}

/// What is kept of an early reply: its results, unless it was refused.
type Early = Option<Box<[u8]>>;

impl Asked {
    /// It can be read.
    fn is_readable(&self) -> bool {
        self.target.program == nfs::PROGRAM && matches!(self.target.version, 2 | 3)
    }
}

/// Makes exchanges of messages.
struct Matcher {
    pairs: Pairs<Asked, Early>,
    /// Addresses that have been asked for NFS.
    servers: FixedSet<SocketAddr>,
    exchanges: Vec<Exchange>,
    tally: Tally,
}

impl Default for Matcher {
    fn default() -> Matcher {
        Matcher {
            pairs: Pairs::new(Asked::is_readable),
            servers: FixedSet::default(),
            exchanges: Vec::new(),
            tally: Tally::default(),
        }
    }
}

/// The port on which NFS is expected.
const NFS_PORT: u16 = 2049;

impl Matcher {
    /// Takes a message, from a stream (whose beginning looked like RPC) or a datagram (which may be anything).
    fn message(&mut self, message: &StreamMessage<'_>, stream: bool) {
        let (from, to) = (message.from, message.to);
        match rpc::parse(message.bytes) {
            Some(Message::Call { xid, target, caller, arguments }) => {
                let key = CallKey { client: from, server: to, xid };
                self.call(key, message.at_ns, target, caller, arguments);
            }
            Some(Message::Reply { xid, results }) => {
                let known = self.servers.contains(&from) || from.port() == NFS_PORT;
                if stream || known {
                    let key = CallKey { client: to, server: from, xid };
                    self.reply(key, message.at_ns, results);
                }
            }
            None => {}
        }
    }

    fn call(&mut self, key: CallKey, at_ns: u64, target: Target, caller: Caller, arguments: &[u8]) {
        let digest = u64::from(crc32c::crc32c(arguments)) << 32
            | u64::from(target.procedure) << 8
            | u64::from(target.version & 0xff);
        let is_nfs = target.program == nfs::PROGRAM;
        let readable = is_nfs && matches!(target.version, 2 | 3);
        let call = if readable { nfs::call(target, arguments) } else { None };
        let malformed = readable && call.is_none();
        let asked = Asked { target, caller, call };
        let is = self.pairs.call(key, at_ns, digest, asked);
        if matches!(is, CallIs::Again) {
            self.tally.retransmitted += u64::from(readable);
            return;
        }
        self.tally.malformed_calls += u64::from(malformed);
        if readable {
            self.servers.insert(key.server);
            let numbers = (target.version, target.procedure);
            self.tally.procedures.entry(numbers).or_default().calls += 1;
        } else if is_nfs {
            self.tally.version_4 += 1;
        } else {
            self.tally.other_programs += 1;
        }
        if let CallIs::Answered(reply_ns, asked, early) = is {
            self.tally.early_replies += u64::from(readable);
            self.exchange(key, (at_ns, reply_ns), asked, early.as_deref());
        }
    }

    fn reply(&mut self, key: CallKey, at_ns: u64, results: Option<&[u8]>) {
        let keep = || results.map(|results| results[..results.len().min(EARLY_BYTES)].into());
        match self.pairs.reply(key, at_ns, keep) {
            ReplyIs::Answer(asked_ns, asked) => {
                self.exchange(key, (asked_ns, at_ns), asked, results);
            }
            ReplyIs::Again => {
                let readable = self.servers.contains(&key.server);
                self.tally.repeated_replies += u64::from(readable);
            }
            ReplyIs::Early => {}
        }
    }

    fn exchange(
        &mut self,
        key: CallKey,
        (asked_ns, replied_ns): (u64, u64),
        asked: Asked,
        results: Option<&[u8]>,
    ) {
        if !asked.is_readable() {
            return;
        }
        let Asked { target, caller, call } = asked;
        let numbers = (target.version, target.procedure);
        let counts = self.tally.procedures.entry(numbers).or_default();
        counts.answered += 1;
        let Some(results) = results else {
            counts.failed += 1;
            self.tally.refused += 1;
            return;
        };
        // What is wrong with the call has been counted.
        let Some(call) = call else { return };
        let Some(answer) = nfs::answer(target, &call, results) else {
            self.tally.malformed_replies += 1;
            return;
        };
        counts.failed += u64::from(answer.status != 0);
        let CallKey { client, server, .. } = key;
        let answered_ns = replied_ns.max(asked_ns);
        let exchange = Exchange { asked_ns, answered_ns, client, server, caller, call, answer };
        self.exchanges.push(exchange);
    }
}

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
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Address and port of the server.
    pub server: SocketAddr,
    /// The user who called.
    pub caller: Caller,
    /// The decoded arguments of the call.
    pub call: Call,
    /// The decoded result of the call.
    pub answer: Answer,
}

/// All that was gathered.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The exchanges in the order of their calls.
    pub exchanges: Vec<Exchange>,
    /// How many packets and calls were found, and how many could not be used.
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

    /// Ends the capture, and returns everything that was gathered.
    pub fn finish(mut self) -> Gathered {
        let matcher = &mut self.matcher;
        self.streams.finish(&mut |message| matcher.message(&message, true));
        let mut gathered = self.matcher.finish();
        let tally = &mut gathered.tally;
        (tally.foreign_packets, tally.tcp) = (self.dissector.foreign, self.streams.counts());
        gathered
    }
}

/// The parts of a call that are kept until its reply comes. Calls of other programs are kept too,
/// so that their replies are recognized.
struct PendingCall {
    target: Target,
    caller: Caller,
    call: Option<Call>,
}

/// The results of a reply, as a packet has them, or read already.
enum Results<B> {
    Bytes(B),
    Read(Box<Answer>),
}

impl Results<&[u8]> {
    /// The parts of an early reply that are kept until its call comes.
    fn kept(&self) -> Results<Box<[u8]>> {
        match self {
            Results::Bytes(bytes) => Results::Bytes(bytes[..bytes.len().min(EARLY_BYTES)].into()),
            Results::Read(answer) => Results::Read(answer.clone()),
        }
    }
}

/// An early reply: its results, unless it was refused.
type Early = Option<Results<Box<[u8]>>>;

impl PendingCall {
    /// True if the call is of a version that can be read.
    fn is_readable(&self) -> bool {
        self.target.program == nfs::PROGRAM && matches!(self.target.version, 2 | 3)
    }
}

/// Makes exchanges of messages.
pub(crate) struct Matcher {
    pairs: Pairs<PendingCall, Early>,
    /// Addresses that have been asked for NFS.
    servers: FixedSet<SocketAddr>,
    exchanges: Vec<Exchange>,
    pub(crate) tally: Tally,
}

impl Default for Matcher {
    fn default() -> Matcher {
        Matcher {
            pairs: Pairs::new(PendingCall::is_readable),
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

    /// All that was paired.
    pub(crate) fn finish(self) -> Gathered {
        let Matcher { pairs, mut exchanges, mut tally, .. } = self;
        (tally.unanswered, tally.unasked) = pairs.finish();
        exchanges.sort_by_key(|exchange| (exchange.asked_ns, exchange.answered_ns));
        Gathered { exchanges, tally }
    }

    fn call(&mut self, key: CallKey, at_ns: u64, target: Target, caller: Caller, arguments: &[u8]) {
        let digest = u64::from(crc32c::crc32c(arguments)) << 32
            | u64::from(target.procedure) << 8
            | u64::from(target.version & 0xff);
        let readable = target.program == nfs::PROGRAM && matches!(target.version, 2 | 3);
        let call = if readable { nfs::call(target, arguments) } else { None };
        self.read_call(key, at_ns, (target, caller, digest), call);
    }

    /// Takes a call that has been read; `digest` tells calls with other arguments apart.
    pub(crate) fn read_call(
        &mut self,
        key: CallKey,
        at_ns: u64,
        (target, caller, digest): (Target, Caller, u64),
        call: Option<Call>,
    ) {
        let is_nfs = target.program == nfs::PROGRAM;
        let readable = is_nfs && matches!(target.version, 2 | 3);
        let malformed = readable && call.is_none();
        let asked = PendingCall { target, caller, call };
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
            self.exchange(key, (at_ns, reply_ns), asked, early);
        }
    }

    fn reply(&mut self, key: CallKey, at_ns: u64, results: Option<&[u8]>) {
        self.results(key, at_ns, results.map(Results::Bytes));
    }

    /// Takes a reply that has been read.
    pub(crate) fn read_reply(&mut self, key: CallKey, at_ns: u64, answer: Answer) {
        self.results(key, at_ns, Some(Results::Read(Box::new(answer))));
    }

    fn results(&mut self, key: CallKey, at_ns: u64, results: Option<Results<&[u8]>>) {
        let keep = || results.as_ref().map(Results::kept);
        match self.pairs.reply(key, at_ns, keep) {
            ReplyIs::Answer(asked_ns, asked) => {
                let times = (asked_ns, at_ns);
                self.exchange(key, times, asked, results);
            }
            ReplyIs::Again => {
                let readable = self.servers.contains(&key.server);
                self.tally.repeated_replies += u64::from(readable);
            }
            ReplyIs::Early => {}
        }
    }

    fn exchange<B: AsRef<[u8]>>(
        &mut self,
        key: CallKey,
        (asked_ns, replied_ns): (u64, u64),
        asked: PendingCall,
        results: Option<Results<B>>,
    ) {
        if !asked.is_readable() {
            return;
        }
        let PendingCall { target, caller, call } = asked;
        let numbers = (target.version, target.procedure);
        let counts = self.tally.procedures.entry(numbers).or_default();
        counts.answered += 1;
        let Some(results) = results else {
            counts.failed += 1;
            self.tally.refused += 1;
            return;
        };
        // The error of the call has been counted already.
        let Some(call) = call else { return };
        let answer = match results {
            Results::Bytes(bytes) => nfs::answer(target, &call, bytes.as_ref()),
            Results::Read(answer) => Some(*answer).filter(|answer| nfs::is_status(answer.status)),
        };
        let Some(answer) = answer else {
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

//! Messages of RPC version 2 (RFC 5531): their headers, and which reply answers which call.
//!
//! Contract: a call is known by its client, server, and number (xid). A reply that was captured before its
//! call, as on a machine with several receiving queues, finds it. A call that is sent again with the same
//! arguments is the same call, also after it was answered. Memory is bounded by what is under way: old
//! entries are dropped.

use core::net::SocketAddr;
use std::collections::VecDeque;

use twin_rt::FixedMap;

use crate::xdr::Xdr;

/// The longest credentials (RFC 5531, section 8.2).
const LONGEST_AUTH: usize = 400;
/// How long a reply waits for a call that was captured after it, and a call for its reply, in nanoseconds: a
/// hard client tries again for a minute.
const KEPT_NS: u64 = 120_000_000_000;

/// The credentials of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// User number, 0 if the call has none.
    pub uid: u32,
    /// Group number, 0 if the call has none.
    pub gid: u32,
}

/// A message of ONC RPC, version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A client's call of a procedure.
    Call {
        /// The number by which the reply is matched to the call.
        xid: u32,
        /// The procedure that is called.
        target: Target,
        /// The user who calls, as the client says.
        caller: Caller,
        /// The arguments, still encoded.
        arguments: &'a [u8],
    },
    /// A server's reply to a call.
    Reply {
        /// The number of its call.
        xid: u32,
        /// The encoded results; `None` if the server refused the call.
        results: Option<&'a [u8]>,
    },
}

/// A procedure of a version of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The program: 100003 is NFS, 100005 MOUNT.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The number of the procedure.
    pub procedure: u32,
}

/// True if `data` begins as a message does.
pub(crate) fn begins(data: &[u8]) -> bool {
    let mut xdr = Xdr::new(data);
    let (_, kind, next) = (xdr.u32(), xdr.u32(), xdr.u32());
    match (kind, next) {
        (Some(0), Some(version)) => version == 2,
        (Some(1), Some(status)) => status <= 1,
        _ => false,
    }
}

/// True if `data` begins with a call of NFS or its portmapper or mount protocol, or a plain answer, in so many
/// particulars that chance does not explain it.
pub(crate) fn surely_begins(data: &[u8]) -> bool {
    let mut xdr = Xdr::new(data);
    let mut word = || xdr.u32();
    match (word(), word(), word(), word(), word(), word()) {
        (Some(_), Some(0), Some(2), Some(program), Some(version), Some(procedure)) => {
            (100_000..100_100).contains(&program) && version <= 4 && procedure <= 32
        }
        // Accepted, without a verifier, successful.
        (Some(xid), Some(1), Some(0), Some(0), Some(0), Some(0)) => xid != 0,
        _ => false,
    }
}

/// Reads the header of a message; `None` if it is no message, or if too little of it was captured.
pub fn parse(data: &[u8]) -> Option<Message<'_>> {
    let mut xdr = Xdr::new(data);
    let (xid, kind) = (xdr.u32()?, xdr.u32()?);
    match kind {
        0 => {
            let (2, program) = (xdr.u32()?, xdr.u32()?) else { return None };
            let target = Target { program, version: xdr.u32()?, procedure: xdr.u32()? };
            let flavor = xdr.u32()?;
            let caller = caller(flavor, xdr.opaque(LONGEST_AUTH)?);
            auth(&mut xdr)?;
            Some(Message::Call { xid, target, caller, arguments: xdr.rest() })
        }
        1 => {
            let results = match xdr.u32()? {
                0 => {
                    auth(&mut xdr)?;
                    (xdr.u32()? == 0).then(|| xdr.rest())
                }
                1 => None,
                _ => return None,
            };
            Some(Message::Reply { xid, results })
        }
        _ => None,
    }
}

fn auth(xdr: &mut Xdr<'_>) -> Option<()> {
    xdr.u32()?;
    xdr.opaque(LONGEST_AUTH).map(|_| ())
}

/// The user in credentials of the flavor AUTH_SYS.
fn caller(flavor: u32, body: &[u8]) -> Caller {
    let system = |mut body: Xdr<'_>| {
        body.u32()?;
        body.opaque(255)?;
        Some(Caller { uid: body.u32()?, gid: body.u32()? })
    };
    (flavor == 1).then(|| system(Xdr::new(body))).flatten().unwrap_or_default()
}

/// Identifies a call: its client, its server and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Address and port of the server.
    pub server: SocketAddr,
    /// The number of the call.
    pub xid: u32,
}

/// A call of which `C` is kept.
struct Pending<C> {
    at_ns: u64,
    digest: u64,
    /// `None` once it was answered.
    call: Option<C>,
}

/// The result of matching a call.
#[derive(Debug, PartialEq, Eq)]
pub enum CallIs<C, R> {
    /// New: its reply is waited for.
    New,
    /// New, and its reply came before.
    Answered(u64, C, R),
    /// A call that was seen before: the client repeats it.
    Again,
}

/// The result of matching a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum ReplyIs<C> {
    /// The answer to this call of this time.
    Answer(u64, C),
    /// The call is not known yet.
    Early,
    /// An answer that was there already.
    Again,
}

/// Pairs calls with replies. Of a call `C` is kept, of an early reply `R`.
pub struct Pairs<C, R> {
    /// Whether a call counts that is not answered.
    counts: fn(&C) -> bool,
    calls: FixedMap<CallKey, Pending<C>>,
    early: FixedMap<CallKey, (u64, R)>,
    /// The entries of both in the order of their times, for dropping.
    order: VecDeque<(u64, CallKey)>,
    /// Calls that were dropped without an answer, and early replies without a call.
    dropped: (u64, u64),
}

impl<C, R> Pairs<C, R> {
    /// Without any yet. `counts` says of a call whether it counts if it is not answered.
    pub fn new(counts: fn(&C) -> bool) -> Pairs<C, R> {
        Pairs {
            counts,
            calls: FixedMap::default(),
            early: FixedMap::default(),
            order: VecDeque::new(),
            dropped: (0, 0),
        }
    }

    /// Notes a call that was not answered.
    fn unanswered(&mut self, call: Option<C>) {
        self.dropped.0 += u64::from(call.is_some_and(|call| (self.counts)(&call)));
    }

    /// Takes a call; `digest` tells calls with other arguments apart, whose client has begun to count anew.
    pub fn call(&mut self, key: CallKey, at_ns: u64, digest: u64, call: C) -> CallIs<C, R> {
        self.drop_before(at_ns);
        if let Some(known) = self.calls.get(&key) {
            if known.digest == digest {
                return CallIs::Again;
            }
            let known = self.calls.remove(&key);
            self.unanswered(known.and_then(|known| known.call));
        }
        self.order.push_back((at_ns, key));
        let early = self.early.remove(&key);
        if let Some((reply_ns, reply)) = early {
            self.calls.insert(key, Pending { at_ns, digest, call: None });
            return CallIs::Answered(reply_ns, call, reply);
        }
        self.calls.insert(key, Pending { at_ns, digest, call: Some(call) });
        CallIs::New
    }

    /// Takes a reply, which `keep` makes to something to keep if its call is not known.
    pub fn reply(&mut self, key: CallKey, at_ns: u64, keep: impl FnOnce() -> R) -> ReplyIs<C> {
        self.drop_before(at_ns);
        if let Some(known) = self.calls.get_mut(&key) {
            return match known.call.take() {
                Some(call) => ReplyIs::Answer(known.at_ns, call),
                None => ReplyIs::Again,
            };
        }
        if self.early.contains_key(&key) {
            return ReplyIs::Again;
        }
        self.order.push_back((at_ns, key));
        self.early.insert(key, (at_ns, keep()));
        ReplyIs::Early
    }

    /// Drops what has waited for too long.
    fn drop_before(&mut self, now_ns: u64) {
        while let Some(&(at_ns, key)) = self.order.front()
            && now_ns.saturating_sub(at_ns) > KEPT_NS
        {
            self.order.pop_front();
            if self.calls.get(&key).is_some_and(|call| call.at_ns == at_ns) {
                let call = self.calls.remove(&key);
                self.unanswered(call.and_then(|call| call.call));
            }
            if self.early.get(&key).is_some_and(|&(early_ns, _)| early_ns == at_ns) {
                self.early.remove(&key);
                self.dropped.1 += 1;
            }
        }
    }

    /// The numbers of calls without an answer and of replies without a call; ends the pairing.
    pub fn finish(mut self) -> (u64, u64) {
        self.drop_before(u64::MAX);
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn key(xid: u32) -> CallKey {
        let client = "192.0.2.1:700".parse().unwrap();
        CallKey { client, server: "192.0.2.2:2049".parse().unwrap(), xid }
    }

    #[test]
    fn a_call_has_its_target_caller_and_arguments() {
        // AUTH_SYS: stamp, an empty name, user 7, group 8, no groups.
        let call = words(&[5, 0, 2, 100_003, 3, 6, 1, 20, 9, 0, 7, 8, 0, 0, 0, 0xabcd]);
        let target = Target { program: 100_003, version: 3, procedure: 6 };
        let caller = Caller { uid: 7, gid: 8 };
        let arguments = &0xabcd_u32.to_be_bytes()[..];
        assert!(begins(&call));
        assert_eq!(parse(&call), Some(Message::Call { xid: 5, target, caller, arguments }));
        for len in 0..60 {
            assert_eq!(parse(&call[..len]), None, "{len}");
        }
    }

    #[test]
    fn a_reply_has_results_unless_it_was_refused() {
        let accepted = words(&[5, 1, 0, 0, 0, 0, 1]);
        let results = Some(&[0, 0, 0, 1][..]);
        assert_eq!(parse(&accepted), Some(Message::Reply { xid: 5, results }));
        let refused = Message::Reply { xid: 5, results: None };
        assert_eq!(parse(&words(&[5, 1, 1, 1, 2])), Some(refused));
        assert_eq!(parse(&words(&[5, 1, 0, 0, 0, 3])), Some(refused));
        assert_eq!(parse(&words(&[5, 2, 0, 0, 0, 3])), None);
    }

    #[test]
    fn calls_and_replies_meet_in_either_order_and_once() {
        let mut pairs = Pairs::<&str, &str>::new(|_| true);
        assert_eq!(pairs.call(key(1), 10, 0, "a"), CallIs::New);
        assert_eq!(pairs.call(key(1), 11, 0, "a"), CallIs::Again);
        assert_eq!(pairs.reply(key(1), 12, || "x"), ReplyIs::Answer(10, "a"));
        assert_eq!(pairs.reply(key(1), 13, || "x"), ReplyIs::Again);
        assert_eq!(pairs.call(key(1), 14, 0, "a"), CallIs::Again);
        assert_eq!(pairs.reply(key(2), 20, || "y"), ReplyIs::Early);
        assert_eq!(pairs.call(key(2), 21, 0, "b"), CallIs::Answered(20, "b", "y"));
        assert_eq!(pairs.finish(), (0, 0));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_call() {
        let mut pairs = Pairs::<&str, &str>::new(|_| true);
        assert_eq!(pairs.call(key(1), 10, 0, "a"), CallIs::New);
        assert_eq!(pairs.call(key(1), 20, 1, "b"), CallIs::New);
        assert_eq!(pairs.reply(key(1), 30, || "x"), ReplyIs::Answer(20, "b"));
        assert_eq!(pairs.finish(), (1, 0));
    }

    #[test]
    fn what_stays_alone_is_counted_and_forgotten() {
        let mut pairs = Pairs::<&str, &str>::new(|_| true);
        pairs.call(key(1), 10, 0, "a");
        pairs.reply(key(2), 20, || "x");
        assert_eq!(pairs.call(key(3), KEPT_NS + 30, 0, "c"), CallIs::New);
        assert_eq!((pairs.calls.len(), pairs.early.len()), (1, 0));
        assert_eq!(pairs.finish(), (2, 1));
    }
}

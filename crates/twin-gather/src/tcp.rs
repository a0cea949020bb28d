//! TCP streams, put in order and cut into messages by the record marks of RPC (RFC 5531, section 11).
//!
//! Contract: segments may be repeated, overlap, come in any order, or be missing. A stream is followed from
//! the first segment in which a message begins, so that captures may begin anywhere and other protocols
//! cost little. Where data is missing for good within a message, the message is kept up to there; where the
//! beginning of a message is missing, messages are lost up to the next segment in which one begins. Of a message
//! only the first [`KEEP`] bytes are kept.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use twin_rt::FixedMap;

use crate::rpc;

/// The bytes that are kept of a message: more than any arguments, and than most listings.
pub const KEEP: usize = 256 << 10;
/// The longest message that is believed: writes of 1 MiB are common, 16 MiB are not.
const LONGEST: u32 = 16 << 20;
/// The shortest: a reply with nothing in it.
const SHORTEST: u32 = 24;
/// Missing data is given up when this many bytes behind it have been captured.
const HELD_BYTES: usize = 4 << 20;
/// Data is given up as missing when it has not come for this time after what lies behind it, in nanoseconds:
/// longer than the retransmission timeouts of connections that live.
const HELD_NS: u64 = 5_000_000_000;

/// A segment of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// When it was captured, in nanoseconds.
    pub at_ns: u64,
    /// Address and port of the sender.
    pub from: SocketAddr,
    /// Address and port of the receiver.
    pub to: SocketAddr,
    /// The sequence number of its first byte.
    pub seq: u32,
    /// The segment opens the connection.
    pub syn: bool,
    /// The data of the segment, as much as was captured.
    pub data: &'a [u8],
    /// Bytes behind `data` that were sent and not captured.
    pub missing: usize,
}

/// A message of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamMessage<'a> {
    /// When its last byte was captured, in nanoseconds.
    pub at_ns: u64,
    /// Address and port of the sender.
    pub from: SocketAddr,
    /// Address and port of the receiver.
    pub to: SocketAddr,
    /// The bytes of the message: perhaps not all, but without a gap.
    pub bytes: &'a [u8],
}

/// Counts of irregular segments and of lost data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments whose data had all been seen before.
    pub repeated: u64,
    /// Places where data is missing for good.
    pub gaps: u64,
}

/// The directions of all connections, each a stream.
#[derive(Default)]
pub struct Streams {
    streams: FixedMap<(SocketAddr, SocketAddr), Stream>,
    counts: TcpCounts,
}

/// Called with every message that is complete.
type Take<'t> = &'t mut dyn FnMut(StreamMessage<'_>);

impl Streams {
    /// Takes a segment and hands the messages that it completes to `take`.
    pub fn segment(&mut self, segment: &Segment<'_>, take: Take<'_>) {
        let key = (segment.from, segment.to);
        if segment.syn {
            // A new connection between the same ports.
            self.streams.remove(&key);
            return;
        }
        if segment.data.is_empty() {
            return;
        }
        let stream = match self.streams.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if first_message(segment.data).is_none() => return,
            Entry::Vacant(new) => new.insert(Stream::new(segment.seq)),
        };
        stream.add(segment, &mut self.counts, take);
    }

    /// Gives up what is missing at the end of the capture, and hands what lies behind it to `take`.
    pub fn finish(&mut self, take: Take<'_>) {
        for (&(from, to), stream) in &mut self.streams {
            while !stream.held.is_empty() {
                stream.give_up(from, to, &mut self.counts, take);
            }
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> TcpCounts {
        self.counts
    }
}

/// Finds the first message in `data`: at its start, if that looks like a message, or at a place
/// that is one beyond doubt.
fn first_message(data: &[u8]) -> Option<usize> {
    if let Some((mark, rest)) = data.split_first_chunk::<4>()
        && plausible_length(u32::from_be_bytes(*mark) & !LAST)
        && rpc::begins(rest)
    {
        return Some(0);
    }
    data.windows(4).enumerate().skip(1).find_map(|(at, mark)| {
        let mark = u32::from_be_bytes(mark.try_into().ok()?);
        let fits = mark & LAST != 0 && plausible_length(mark & !LAST);
        (fits && rpc::surely_begins(&data[at + 4..])).then_some(at)
    })
}

fn plausible_length(len: u32) -> bool {
    (SHORTEST..=LONGEST).contains(&len)
}

/// The bit of a record mark that says that the fragment is the last of its message.
const LAST: u32 = 1 << 31;

/// Data that waits for what lies before it.
struct OutOfOrder {
    at_ns: u64,
    data: Vec<u8>,
    missing: usize,
}

/// One direction of a connection.
struct Stream {
    /// The position of the next byte, counted from 2^32 on so that earlier positions are numbers too.
    next: u64,
    records: Records,
    /// Segments that wait for earlier ones, by their position in the stream.
    held: BTreeMap<u64, OutOfOrder>,
    held_bytes: usize,
}

impl Stream {
    /// A stream of which a segment with this sequence number is the first that is known.
    fn new(seq: u32) -> Stream {
        let next = 1 << 32 | u64::from(seq);
        let records = Records { lost: true, ..Records::default() };
        Stream { next, records, held: BTreeMap::new(), held_bytes: 0 }
    }

    /// The position of a sequence number, which is less than 2^31 from the next one.
    fn position(&self, seq: u32) -> u64 {
        let ahead = seq.wrapping_sub(self.next as u32) as i32;
        self.next.wrapping_add_signed(i64::from(ahead))
    }

    fn add(&mut self, segment: &Segment<'_>, counts: &mut TcpCounts, take: Take<'_>) {
        let at = self.position(segment.seq);
        let end = at + (segment.data.len() + segment.missing) as u64;
        if end <= self.next {
            counts.repeated += 1;
            return;
        }
        if at > self.next {
            let held = OutOfOrder {
                at_ns: segment.at_ns,
                data: segment.data.to_vec(),
                missing: segment.missing,
            };
            // Of two segments that begin at the same place, the longer one is kept.
            let shorter = |old: &OutOfOrder| old.data.len() + old.missing < (end - at) as usize;
            if self.held.get(&at).is_none_or(shorter) {
                self.held_bytes += held.data.len();
                if let Some(old) = self.held.insert(at, held) {
                    self.held_bytes -= old.data.len();
                }
            } else {
                counts.repeated += 1;
            }
            let since = self.held.values().map(|held| held.at_ns).next().unwrap_or(0);
            if self.held_bytes > HELD_BYTES || segment.at_ns.saturating_sub(since) > HELD_NS {
                self.give_up(segment.from, segment.to, counts, take);
            }
            return;
        }
        let (at_ns, from, to) = (segment.at_ns, segment.from, segment.to);
        self.consume(at, (segment.data, segment.missing), counts, &mut |bytes| {
            take(StreamMessage { at_ns, from, to, bytes });
        });
        self.drain(from, to, counts, take);
    }

    /// Takes what is held and no longer has to wait.
    fn drain(&mut self, from: SocketAddr, to: SocketAddr, counts: &mut TcpCounts, take: Take<'_>) {
        while let Some(entry) = self.held.first_entry()
            && *entry.key() <= self.next
        {
            let (at, held) = entry.remove_entry();
            self.held_bytes -= held.data.len();
            let at_ns = held.at_ns;
            self.consume(at, (&held.data, held.missing), counts, &mut |bytes| {
                take(StreamMessage { at_ns, from, to, bytes });
            });
        }
    }

    /// Goes on behind the data that is missing. If it belongs to a single message, only its bytes are lost;
    /// otherwise messages are, up to the next segment in which one begins.
    fn give_up(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        counts: &mut TcpCounts,
        take: Take<'_>,
    ) {
        let Some((&at, held)) = self.held.first_key_value() else { return };
        counts.gaps += 1;
        let (missing, at_ns) = ((at - self.next) as usize, held.at_ns);
        self.records.skip(missing, &mut |bytes| {
            take(StreamMessage { at_ns, from, to, bytes });
        });
        self.records.newly_lost = false;
        self.next = at;
        self.drain(from, to, counts, take);
    }

    /// Takes the data at position `at`, which is not past the next byte; some of it may be known.
    fn consume(
        &mut self,
        at: u64,
        (data, missing): (&[u8], usize),
        counts: &mut TcpCounts,
        take: &mut dyn FnMut(&[u8]),
    ) {
        let known = (self.next - at) as usize;
        let end = data.len() + missing;
        if known >= end {
            counts.repeated += 1;
            return;
        }
        self.next = at + end as u64;
        let (mut new, missing) = match data.get(known..) {
            Some(new) => (new, missing),
            None => (&[][..], end - known),
        };
        if self.records.lost {
            let Some(first) = first_message(new) else { return };
            new = &new[first..];
            self.records = Records::default();
        }
        self.records.feed(new, take);
        self.records.skip(missing, take);
        counts.gaps += u64::from(std::mem::take(&mut self.records.newly_lost));
    }
}

/// Cuts a stream into messages.
#[derive(Default)]
struct Records {
    /// The bytes of a record mark that is not complete.
    mark: Vec<u8>,
    /// Bytes of the fragment that are still to come.
    left: u32,
    /// The fragment is the last one of its message.
    last: bool,
    /// The part of the message that is kept so far.
    message: Vec<u8>,
    /// Bytes of the message have been left out, so that nothing may follow.
    hole: bool,
    /// The place in the stream is not known: wait for a segment in which a message begins.
    lost: bool,
    /// This has just happened, and is not counted yet.
    newly_lost: bool,
}

impl Records {
    fn lose(&mut self) {
        *self = Records { lost: true, newly_lost: true, ..Records::default() };
    }

    fn feed(&mut self, mut data: &[u8], take: &mut dyn FnMut(&[u8])) {
        while !data.is_empty() && !self.lost {
            if self.left == 0 {
                let wanted = (4 - self.mark.len()).min(data.len());
                self.mark.extend_from_slice(&data[..wanted]);
                data = &data[wanted..];
                if let Ok(mark) = <[u8; 4]>::try_from(&self.mark[..]) {
                    self.begin(u32::from_be_bytes(mark));
                }
                continue;
            }
            let (part, rest) = data.split_at((self.left as usize).min(data.len()));
            data = rest;
            if !self.hole {
                let room = KEEP - self.message.len();
                self.message.extend_from_slice(&part[..room.min(part.len())]);
                self.hole = room < part.len();
            }
            self.pass(part.len(), take);
        }
    }

    /// Passes over bytes that were not captured.
    fn skip(&mut self, missing: usize, take: &mut dyn FnMut(&[u8])) {
        if missing == 0 || self.lost {
            return;
        }
        if missing > self.left as usize {
            // The next record mark is among them.
            if self.left > 0 && self.last {
                take(&self.message);
            }
            self.lose();
            return;
        }
        self.hole = true;
        self.pass(missing, take);
    }

    fn begin(&mut self, mark: u32) {
        self.mark.clear();
        let (len, last) = (mark & !LAST, mark & LAST != 0);
        // A further fragment of a message may be short.
        if !plausible_length(len) && (self.message.is_empty() || len > LONGEST || len == 0) {
            self.lose();
            return;
        }
        (self.left, self.last) = (len, last);
    }

    /// Counts `bytes` bytes of the fragment, which has at least that many left.
    fn pass(&mut self, bytes: usize, take: &mut dyn FnMut(&[u8])) {
        self.left -= bytes as u32;
        if self.left == 0 && self.last {
            take(&self.message);
            self.message.clear();
            self.hole = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use twin_rt::Rng;

    use super::*;

    /// A call of `len` bytes with this number, with its record mark.
    fn message(number: u32, len: usize) -> Vec<u8> {
        let mut out = (len as u32 | LAST).to_be_bytes().to_vec();
        out.extend_from_slice(&number.to_be_bytes());
        for word in [0u32, 2] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.resize(4 + len, number as u8);
        out
    }

    fn addresses() -> (SocketAddr, SocketAddr) {
        ("192.0.2.1:700".parse().unwrap(), "192.0.2.2:2049".parse().unwrap())
    }

    /// Sends pieces of a stream that begins at sequence number `first`; returns the numbers and lengths of
    /// the messages found.
    fn found(
        first: u32,
        stream: &[u8],
        pieces: &[std::ops::Range<usize>],
    ) -> (Vec<(u32, usize)>, TcpCounts) {
        let (from, to) = addresses();
        let (mut streams, mut all) = (Streams::default(), Vec::new());
        let mut take = |message: StreamMessage<'_>| {
            let number = u32::from_be_bytes(message.bytes[..4].try_into().unwrap());
            all.push((number, message.bytes.len()));
        };
        for (n, piece) in pieces.iter().enumerate() {
            let segment = Segment {
                at_ns: n as u64,
                from,
                to,
                seq: first.wrapping_add(piece.start as u32),
                syn: false,
                data: &stream[piece.clone()],
                missing: 0,
            };
            streams.segment(&segment, &mut take);
        }
        streams.finish(&mut take);
        (all, streams.counts())
    }

    fn stream(lengths: &[usize]) -> (Vec<u8>, Vec<(u32, usize)>) {
        let each = lengths.iter().enumerate().map(|(n, &len)| (n as u32, len));
        (each.clone().flat_map(|(n, len)| message(n, len)).collect(), each.collect())
    }

    #[test]
    fn segments_in_any_order_and_number_give_the_same_messages() {
        let (bytes, expected) = stream(&[100, 40, 3000, 24, 800, 120]);
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            // The first segment is known to be the first; the sequence numbers wrap.
            let mut pieces = vec![0..60, 60..400.min(bytes.len())];
            let mut at = 400;
            while at < bytes.len() {
                let end = (at + 1 + rng.below(700) as usize).min(bytes.len());
                let start = at - rng.below(200).min(at as u64 - 60) as usize;
                pieces.push(start..end);
                if rng.below(4) == 0 {
                    pieces.push(start..end);
                }
                at = end;
            }
            let last = pieces.len() as u64 - 1;
            for n in 1..pieces.len() {
                pieces.swap(n, 1 + rng.below(last) as usize);
            }
            let (all, counts) = found(u32::MAX - 1000, &bytes, &pieces);
            assert_eq!(all, expected, "seed {seed}: {pieces:?}");
            assert_eq!(counts.gaps, 0, "seed {seed}");
        }
    }

    #[test]
    fn behind_missing_data_the_next_message_is_found() {
        let (bytes, _) = stream(&[100, 100, 100, 100]);
        let (all, counts) = found(7, &bytes, &[0..104, 150..208, 208..312, 312..416]);
        assert_eq!(all, [(0, 100), (2, 100), (3, 100)]);
        assert_eq!(counts.gaps, 1);
        // What is missing lies within the second message, whose beginning is there.
        let (all, counts) = found(7, &bytes, &[0..104, 104..140, 150..208, 208..312, 312..416]);
        assert_eq!(all, [(0, 100), (1, 32), (2, 100), (3, 100)]);
        assert_eq!(counts.gaps, 1);
    }

    #[test]
    fn a_capture_may_begin_within_a_message() {
        let (bytes, _) = stream(&[100, 100, 100]);
        let (all, counts) = found(7, &bytes, &[40..104, 104..160, 160..312]);
        assert_eq!(all, [(1, 100), (2, 100)]);
        assert_eq!(counts, TcpCounts::default());
    }

    #[test]
    fn a_message_is_found_within_a_segment() {
        let mut call = message(9, 100);
        call[16..20].copy_from_slice(&100_003u32.to_be_bytes());
        call[20..28].copy_from_slice(&[0, 0, 0, 3, 0, 0, 0, 7]);
        let bytes = [&message(1, 900)[..], &call, &message(2, 100)].concat();
        let (all, counts) = found(7, &bytes, &[300..1000, 1000..1112]);
        assert_eq!(all, [(9, 100), (2, 100)]);
        assert_eq!(counts.gaps, 0);
    }

    #[test]
    fn messages_in_several_fragments_are_whole() {
        let whole = message(5, 100);
        let mut bytes = 60u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&whole[4..64]);
        bytes.extend_from_slice(&(40 | LAST).to_be_bytes());
        bytes.extend_from_slice(&whole[64..]);
        let (all, _) = found(0, &bytes, &[0..70, 70..108]);
        assert_eq!(all, [(5, 100)]);
    }

    #[test]
    fn bytes_that_were_not_captured_are_passed_over() {
        let (from, to) = addresses();
        let bytes = [message(1, 1000), message(2, 50)].concat();
        let (mut streams, mut all) = (Streams::default(), Vec::new());
        let mut take = |message: StreamMessage<'_>| all.push(message.bytes.len());
        let segment = |at: usize, data: usize, missing| Segment {
            at_ns: 0,
            from,
            to,
            seq: at as u32,
            syn: false,
            data: &bytes[at..at + data],
            missing,
        };
        streams.segment(&segment(0, 100, 500), &mut take);
        streams.segment(&segment(600, 100, 304), &mut take);
        streams.segment(&segment(1004, 54, 0), &mut take);
        assert_eq!(all, [96, 50]);
    }

    #[test]
    fn other_protocols_and_new_connections_leave_nothing_behind() {
        let (from, to) = addresses();
        let mut streams = Streams::default();
        let mut segment = Segment {
            at_ns: 0,
            from,
            to,
            seq: 0,
            syn: false,
            data: b"GET / HTTP/1.1 and so on, and so on",
            missing: 0,
        };
        streams.segment(&segment, &mut |_| panic!("no message"));
        assert!(streams.streams.is_empty());
        let call = message(1, 100);
        segment.data = &call[..50];
        streams.segment(&segment, &mut |_| panic!("not whole"));
        assert_eq!(streams.streams.len(), 1);
        segment.syn = true;
        streams.segment(&segment, &mut |_| panic!("no data"));
        assert!(streams.streams.is_empty());
    }
}

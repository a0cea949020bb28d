//! One connection: the bytes that came and are no record yet, the record that waits, the replies that leave.
//!
//! Contract: what it holds is counted by the capacity of its buffers, and grows beyond
//! [`Bounds::raw_bytes`](super::Bounds::raw_bytes) only by [`advance`](Connection::advance), by no more than
//! [`wants`](Connection::wants) says.

use std::collections::VecDeque;

use twin_disk::{Buf, Bytes};
use twin_rt::Time;

use super::pool::Memory;
use super::{Bounds, cost};
use crate::export::Peer;
use crate::record::{FRAGMENTS_MAX, LAST, RECORD_MAX};

/// Bytes of a reply besides its own: its place in the queue and in the allocator.
const REPLY_OVERHEAD: usize = 64;
/// A client makes progress when this many bytes have come or left, or when a record or a reply is
/// complete.
const PROGRESS_BYTES: usize = 64 << 10;
/// The most pieces that are sent at once.
const PIECES: usize = 64;

/// The resource that a connection needs to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// More bytes of the client.
    Bytes,
    /// Nothing: it can go on.
    Nothing,
    /// This many more bytes of memory, to take in a long record.
    Room(usize),
    /// This many more bytes of memory, to execute a record.
    Start(usize),
    /// Nothing helps: the bytes make no records.
    Sense,
}

/// The queue in which a connection waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    None,
    /// The connection has more to do than is done at a time.
    Small,
    /// The connection waits for common memory, since this time.
    Common(Time),
}

/// A record that is arriving in several pieces.
#[derive(Debug, Default)]
struct Arriving {
    partial: Vec<u8>,
    /// The bytes of the current fragment that have not arrived.
    missing: usize,
    is_last: bool,
    fragments: u32,
    /// Complete, but not executed.
    whole: Option<Bytes>,
    /// The memory that was granted to it.
    room: usize,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer,
    /// Bytes that have not been looked at, from `at` on.
    raw: Vec<u8>,
    at: usize,
    arriving: Arriving,
    replies: VecDeque<Vec<u8>>,
    /// Bytes of the first reply that are sent.
    sent: usize,
    reply_bytes: usize,
    /// Calls that are executed, and what was taken for them.
    pub(super) calls: usize,
    call_bytes: usize,
    pub(super) queue: Queue,
    /// The socket is closed; calls are still executed.
    pub(super) closed: bool,
    /// The client sends nothing more.
    pub(super) ended: bool,
    /// All replies have left.
    replied: bool,
    /// The client took all replies before it sent more; its first calls say nothing about that.
    pub(super) has_taken: bool,
    /// The client knows that nothing more will be sent.
    pub(super) told: bool,
    /// The socket takes nothing for now.
    pub(super) full: bool,
    /// An action to send is queued.
    pub(super) sending: bool,
    /// The events for which the socket is watched: bytes to read, room to write.
    pub(super) interest: (bool, bool),
    /// The last time at which bytes came or went.
    pub(super) moved: Time,
    /// The time since which the client owes the rest of a record.
    pub(super) owes: Option<Time>,
    /// The last progress of replies that are being sent, and of records that are arriving.
    pub(super) progress: Time,
    progress_bytes: usize,
    /// The time since which the first reply, or the record that has room, is under way.
    pub(super) under_way: Time,
}

impl Connection {
    pub(super) fn new(peer: Peer, now: Time) -> Connection {
        Connection {
            peer,
            raw: Vec::new(),
            at: 0,
            arriving: Arriving::default(),
            replies: VecDeque::new(),
            sent: 0,
            reply_bytes: 0,
            calls: 0,
            call_bytes: 0,
            queue: Queue::None,
            closed: false,
            ended: false,
            replied: false,
            has_taken: false,
            told: false,
            full: false,
            sending: false,
            interest: (false, false),
            moved: now,
            owes: None,
            progress: now,
            progress_bytes: 0,
            under_way: now,
        }
    }

    /// The bytes that it holds.
    pub(super) fn held(&self) -> Memory {
        let granted = self.arriving.room + self.call_bytes + self.reply_bytes;
        Memory { raw: self.raw.capacity(), granted }
    }

    /// True if replies wait for the client.
    pub(super) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// True if a record has room and has not arrived.
    pub(super) fn is_receiving(&self) -> bool {
        self.arriving.missing > 0
    }

    /// True if nothing of it is under way in the server.
    pub(super) fn is_quiet(&self) -> bool {
        self.calls == 0 && self.replies.is_empty()
    }

    /// True if a record has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.at < self.raw.len() || self.arriving.fragments > 0
    }

    /// The most bytes that may be read now.
    pub(super) fn room(&self, bounds: &Bounds) -> usize {
        // Bytes that have not been looked at come before those that are missing.
        let direct = if self.at < self.raw.len() { 0 } else { self.arriving.missing };
        direct + bounds.raw_bytes.saturating_sub(self.raw.len() - self.at)
    }

    /// Takes bytes that came.
    pub(super) fn came(&mut self, mut bytes: &[u8], bounds: &Bounds, now: Time) {
        self.moved = now;
        self.has_taken |= self.replied && self.is_quiet() && !self.has_begun();
        if self.at == self.raw.len() {
            let take = bytes.len().min(self.arriving.missing);
            self.take_in(take, |partial| partial.extend_from_slice(&bytes[..take]));
            bytes = &bytes[take..];
            self.advanced(take, now);
        }
        if bytes.is_empty() {
            return;
        }
        self.raw.drain(..self.at);
        self.at = 0;
        // Reserves all at once, so that the capacity is the counted one.
        let most = bounds.raw_bytes.max(self.raw.len() + bytes.len());
        self.raw.reserve_exact(most - self.raw.len());
        self.raw.extend_from_slice(bytes);
    }

    fn take_in(&mut self, len: usize, append: impl FnOnce(&mut Vec<u8>)) {
        let arriving = &mut self.arriving;
        if len == 0 {
            return;
        }
        append(&mut arriving.partial);
        arriving.missing -= len;
        self.complete();
    }

    /// Notes a record that has arrived to its end.
    fn complete(&mut self) {
        let arriving = &mut self.arriving;
        if arriving.missing == 0 && arriving.is_last && arriving.fragments > 0 {
            arriving.whole = Some(Buf::taking(std::mem::take(&mut arriving.partial)).freeze());
        }
    }

    fn advanced(&mut self, bytes: usize, now: Time) {
        self.progress_bytes += bytes;
        if self.progress_bytes >= PROGRESS_BYTES {
            self.progressed(now);
        }
    }

    fn progressed(&mut self, now: Time) {
        (self.progress, self.progress_bytes) = (now, 0);
    }

    /// The fragment that begins at the bytes that have not been looked at: its length, and whether it is the
    /// last one of its record.
    fn mark(&self) -> Option<(usize, bool)> {
        let mark = u32::from_be_bytes(*self.raw[self.at..].first_chunk()?);
        Some(((mark & !LAST) as usize, mark & LAST != 0))
    }

    /// The record that lies whole in the bytes that have not been looked at.
    fn short(&self, len: usize) -> Option<&[u8]> {
        self.raw.get(self.at + 4..self.at + 4 + len)
    }

    fn is_short(&self, (len, last): (usize, bool), bounds: &Bounds) -> bool {
        last && self.arriving.fragments == 0 && 4 + len <= bounds.raw_bytes
    }

    /// The resource that the connection needs to go on.
    pub(super) fn wants(&self, bounds: &Bounds, special: usize) -> Wants {
        let arriving = &self.arriving;
        if let Some(whole) = &arriving.whole {
            return Wants::Start(cost::of(whole, special).saturating_sub(arriving.room));
        }
        if arriving.missing > 0 {
            return if self.at < self.raw.len() { Wants::Nothing } else { Wants::Bytes };
        }
        let Some(mark) = self.mark() else { return Wants::Bytes };
        if self.is_short(mark, bounds) {
            let record = self.short(mark.0);
            return record.map_or(Wants::Bytes, |record| Wants::Start(cost::of(record, special)));
        }
        let len = arriving.partial.len() + mark.0;
        if len > RECORD_MAX || arriving.fragments >= FRAGMENTS_MAX {
            return Wants::Sense;
        }
        Wants::Room(cost::of_long(len).saturating_sub(arriving.room))
    }

    /// Goes on, with as much more memory as it wanted; returns a record to execute, and what is taken for it.
    pub(super) fn advance(
        &mut self,
        bounds: &Bounds,
        special: usize,
        now: Time,
    ) -> Option<(Bytes, usize)> {
        if let Some(whole) = self.arriving.whole.take() {
            let cost = cost::of(&whole, special).max(self.arriving.room);
            self.arriving = Arriving::default();
            return Some(self.begin(whole, cost, now));
        }
        if self.arriving.missing > 0 {
            let (at, raw) = (self.at, std::mem::take(&mut self.raw));
            let take = (raw.len() - at).min(self.arriving.missing);
            self.take_in(take, |partial| partial.extend_from_slice(&raw[at..at + take]));
            self.raw = raw;
            self.consume(take);
            self.advanced(take, now);
            return None;
        }
        let mark = self.mark()?;
        if self.is_short(mark, bounds) {
            let record = Bytes::copy_of(self.short(mark.0)?);
            let cost = cost::of(&record, special);
            self.consume(4 + mark.0);
            return Some(self.begin(record, cost, now));
        }
        let arriving = &mut self.arriving;
        let len = arriving.partial.len() + mark.0;
        arriving.room = arriving.room.max(cost::of_long(len));
        arriving.partial.reserve_exact(mark.0);
        (arriving.missing, arriving.is_last) = mark;
        arriving.fragments += 1;
        self.consume(4);
        self.complete();
        if self.replies.is_empty() {
            self.progressed(now);
            self.under_way = now;
        }
        None
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
        if self.at == self.raw.len() {
            // There may be thousands of connections.
            (self.raw, self.at) = (Vec::new(), 0);
        }
    }

    fn begin(&mut self, record: Bytes, cost: usize, now: Time) -> (Bytes, usize) {
        if self.replies.is_empty() {
            self.progressed(now);
        }
        self.calls += 1;
        self.call_bytes += cost;
        (record, cost)
    }

    /// A call has been executed.
    pub(super) fn done(&mut self, cost: usize) {
        self.calls -= 1;
        self.call_bytes -= cost;
    }

    /// Takes a reply for which so much was taken; false if it is longer.
    pub(super) fn push(&mut self, mut reply: Vec<u8>, cost: usize, now: Time) -> bool {
        if reply.is_empty() {
            return true;
        }
        if reply.capacity() > reply.len() + reply.len() / 4 + 512 {
            reply.shrink_to_fit();
        }
        let bytes = reply.capacity() + REPLY_OVERHEAD;
        if bytes > cost {
            return false;
        }
        if self.replies.is_empty() {
            self.progressed(now);
            self.under_way = now;
        }
        self.reply_bytes += bytes;
        self.replies.push_back(reply);
        true
    }

    /// The bytes to send next.
    pub(super) fn pieces(&self) -> Vec<&[u8]> {
        let all = self.replies.iter().take(PIECES).enumerate();
        all.map(|(n, reply)| if n == 0 { &reply[self.sent..] } else { &reply[..] }).collect()
    }

    /// The socket has taken `len` bytes of the replies that wait.
    pub(super) fn sent(&mut self, mut len: usize, now: Time) {
        self.moved = now;
        self.advanced(len, now);
        while let Some(first) = self.replies.front() {
            let left = first.len() - self.sent;
            if len < left {
                self.sent += len;
                return;
            }
            len -= left;
            self.sent = 0;
            self.reply_bytes -= first.capacity() + REPLY_OVERHEAD;
            self.replies.pop_front();
            self.progressed(now);
            self.under_way = now;
        }
        self.replied = true;
    }

    /// Forgets records that came and were not executed.
    pub(super) fn forget_records(&mut self) {
        (self.raw, self.at) = (Vec::new(), 0);
        self.arriving = Arriving::default();
        self.owes = None;
    }

    /// Forgets everything but the calls that are executed.
    pub(super) fn close(&mut self) {
        self.forget_records();
        self.replies.clear();
        (self.sent, self.reply_bytes) = (0, 0);
        self.closed = true;
    }
}

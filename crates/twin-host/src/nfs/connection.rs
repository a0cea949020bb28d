//! One connection of a client: its socket, the record that is arriving, the replies that leave.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

use twin_disk::Bytes;
use twin_nfs::{Peer, Records};
use twin_rt::Time;

use super::Bounds;

/// The most pieces that one system call takes.
const PIECES: usize = 64;

/// What a read of the socket brought.
pub(super) enum Came {
    /// Bytes, and the records that they completed.
    Records,
    /// Nothing yet.
    Nothing,
    /// The end of the connection, or bytes that make no records.
    End,
}

pub(super) struct Connection {
    stream: TcpStream,
    pub(super) peer: Peer,
    records: Records,
    replies: VecDeque<Vec<u8>>,
    /// Bytes of the first reply that are sent.
    sent: usize,
    reply_bytes: usize,
    /// Calls under way.
    pub(super) calls: usize,
    /// The last time at which bytes came or went.
    pub(super) moved: Time,
    /// When the record that is incomplete began.
    pub(super) began: Option<Time>,
    /// The client sends nothing more.
    pub(super) ended: bool,
    /// What epoll watches for: something to read, room to write.
    pub(super) interest: (bool, bool),
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: Peer, now: Time) -> Connection {
        Connection {
            stream,
            peer,
            records: Records::default(),
            replies: VecDeque::new(),
            sent: 0,
            reply_bytes: 0,
            calls: 0,
            moved: now,
            began: None,
            ended: false,
            interest: (true, false),
        }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Bytes of an incomplete record.
    pub(super) fn pending(&self) -> usize {
        self.records.pending()
    }

    /// Reads once, through `buffer`.
    pub(super) fn read(&mut self, buffer: &mut [u8], now: Time, out: &mut Vec<Bytes>) -> Came {
        match (&self.stream).read(buffer) {
            Ok(0) => Came::End,
            Ok(len) => {
                self.moved = now;
                if self.records.feed(&buffer[..len], |record| out.push(record)).is_err() {
                    return Came::End;
                }
                let began = if out.is_empty() { self.began.or(Some(now)) } else { Some(now) };
                self.began = began.filter(|_| self.records.pending() > 0);
                Came::Records
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Came::Nothing
            }
            Err(_) => Came::End,
        }
    }

    /// Reads and throws away what the client sends. Returns true at the end of the connection.
    pub(super) fn drain(&self, buffer: &mut [u8]) -> bool {
        match (&self.stream).read(buffer) {
            Ok(len) => len == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    pub(super) fn push(&mut self, reply: Vec<u8>) {
        self.reply_bytes += reply.len();
        self.replies.push_back(reply);
    }

    /// True if replies wait for the client to read.
    pub(super) fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// True if no further calls should be read now.
    pub(super) fn is_full(&self, bounds: &Bounds) -> bool {
        self.calls >= bounds.calls || self.reply_bytes >= bounds.reply_bytes
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(super) fn flush(&mut self, now: Time) -> io::Result<()> {
        while !self.replies.is_empty() {
            let mut pieces = Vec::with_capacity(self.replies.len().min(PIECES));
            for (n, reply) in self.replies.iter().take(PIECES).enumerate() {
                pieces.push(IoSlice::new(if n == 0 { &reply[self.sent..] } else { reply }));
            }
            match (&self.stream).write_vectored(&pieces) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => {
                    self.moved = now;
                    self.sent(len);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sent(&mut self, mut len: usize) {
        self.reply_bytes -= len;
        while let Some(first) = self.replies.front() {
            let left = first.len() - self.sent;
            if len < left {
                self.sent += len;
                return;
            }
            len -= left;
            self.sent = 0;
            self.replies.pop_front();
        }
    }
}

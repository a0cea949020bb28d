//! The front of a server: what stands between sockets and [`Server::answer`](crate::Server::answer).
//!
//! Contract: a state machine without sockets and clocks. [`Machine`] takes [`Input`]s (bytes that came,
//! bytes that left, replies, the time) and gives [`Action`]s (calls to start, replies to send, what to watch
//! for, connections to close). Each input is handled to its end by `&mut self`; what follows from it is queued
//! as actions, so nothing re-enters. [`Front::run`] carries inputs and actions between the machine, a server and
//! [`Sockets`]: those of a machine in twin-host, modelled ones in explorations and fuzzing.
//!
//! Memory. All bytes of calls and replies, of all connections together, take at most
//! [`Bounds::total_bytes`]. Each connection has a share of its own, in which a small call always finds room;
//! what is larger takes from what all have in common. Room for a call and for the longest reply that it can have
//! is taken before the call is executed. A record that finds no room waits unread, or unexecuted in its
//! connection, and its connection is read no further.
//!
//! Fairness. Who waits for common room is served in turn; those who take their replies take turns with those who
//! do not, however many these are. When there is none, connections lose it that hold it without moving: first those
//! that have stood still for [`Bounds::pressure_ns`], or less if many wait; then, if somebody has waited for
//! [`Bounds::patience_ns`], the one whose reply or record has been under way longest. Their clients lose nothing:
//! they connect again and repeat what was not answered.

mod connection;
mod cost;
mod machine;
mod pool;
mod run;
#[cfg(test)]
mod tests;

use twin_disk::Bytes;
use twin_rt::{MILLIS, Nanos, SECS, Time};

use crate::export::Peer;

pub use cost::CALL_BYTES;
pub use machine::Machine;
pub use run::Front;

/// The bounds on what clients may use of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most connections, with those that are closed and whose calls are still executed. When there are
    /// more, the one that has been idle longest is closed.
    pub connections: usize,
    /// The most calls of one connection that are executed at the same time.
    pub calls: usize,
    /// The most bytes of all calls that are incomplete, wait or are executed, and of all replies that were not
    /// taken.
    pub total_bytes: usize,
    /// The part of them that each connection has for itself.
    pub share_bytes: usize,
    /// The most that one connection has, as far as a single call does not need more.
    pub connection_bytes: usize,
    /// The most bytes that are read before they are known to be needed for a record.
    pub raw_bytes: usize,
    /// How long a client may take to send the rest of a call, or to read some of a reply.
    pub slow_ns: Nanos,
    /// How long a connection may be silent.
    pub idle_ns: Nanos,
    /// How long a client that holds common room may stand still while others wait for it.
    pub pressure_ns: Nanos,
    /// How long others wait before the slowest client loses its room, even if it moves.
    pub patience_ns: Nanos,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections: 4096,
            calls: 64,
            total_bytes: 128 << 20,
            share_bytes: 24 << 10,
            connection_bytes: 4 << 20,
            raw_bytes: 8 << 10,
            slow_ns: 30 * SECS,
            idle_ns: 15 * 60 * SECS,
            pressure_ns: 500 * MILLIS,
            patience_ns: SECS,
        }
    }
}

/// Counters of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontStats {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open.
    pub open: u64,
    /// Connections that were closed because they were slow, idle, too many, or sent nonsense.
    pub dropped: u64,
    /// Number of them that held memory for which others waited.
    pub evicted: u64,
    /// Replies that were longer than the room that was taken for them. There are none.
    pub oversized: u64,
    /// Times at which no connection could be accepted, for want of descriptors.
    pub pauses: u64,
}

/// An event for a front. Keys of connections and numbers of calls are never used again.
#[derive(Debug)]
pub enum Input<'a> {
    /// A connection was accepted.
    Accepted {
        /// The key of the connection from now on.
        key: u64,
        /// The client at the other end.
        peer: Peer,
    },
    /// A connection could not be accepted, for a reason that lasts.
    AcceptFailed,
    /// Bytes came, at most [`Steps::room`].
    Came {
        /// The key of the connection.
        key: u64,
        /// The bytes that came.
        bytes: &'a [u8],
    },
    /// The client sends nothing more.
    Ended(u64),
    /// The connection is broken.
    Broken(u64),
    /// Bytes of [`Steps::pieces`] were taken.
    Sent {
        /// The key of the connection.
        key: u64,
        /// Number of bytes that were taken.
        len: usize,
    },
    /// The socket takes no more for now.
    Full(u64),
    /// A call has been executed; without a reply if it was no call.
    Answered {
        /// The number of the call.
        call: u64,
        /// The encoded reply to send, if there is one.
        reply: Option<Vec<u8>>,
    },
    /// A record that waits for its turn has it.
    Turn,
    /// The time has come that [`Figures::deadline`] says.
    Tick,
    /// Serving is to end: no new connections and calls are taken.
    Stop,
    /// The calls that are executed are not waited for any more.
    GiveUp,
}

/// An action that the driver of a front performs.
#[derive(Debug)]
pub enum Action {
    /// Execute the call in a record.
    Start {
        /// The number by which the answer names the call.
        call: u64,
        /// The key of the connection that the call came from.
        key: u64,
        /// The client that calls.
        peer: Peer,
        /// The call, still encoded.
        record: Bytes,
    },
    /// Send what [`Steps::pieces`] has, as far as the socket takes it.
    Send(u64),
    /// Read the bytes of a record that have come, without waiting for more.
    Read(u64),
    /// Watch for bytes of a connection, and for room to write.
    Watch {
        /// The key of the connection.
        key: u64,
        /// Whether to report bytes that come.
        read: bool,
        /// Whether to report that more bytes can be written.
        write: bool,
    },
    /// Tell the client that nothing more is sent.
    Shutdown(u64),
    /// Close the connection with this key.
    Close(u64),
    /// Accept connections, or do not for a while.
    Listen(bool),
    /// Accept none any more.
    EndListening,
}

/// How a front is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The counters since the front was made.
    pub stats: FrontStats,
    /// The time since which the oldest call is being executed.
    pub oldest_wait: Option<Time>,
    /// Bytes of calls and replies.
    pub held_bytes: usize,
    /// A record can be executed in its turn.
    pub has_turns: bool,
    /// The next time at which something is to be done.
    pub deadline: Option<Time>,
    /// Whether serving has ended, so that nothing more will happen.
    pub over: bool,
}

/// A state machine of connections: [`Machine`], or one around it in tests.
pub trait Steps {
    /// Takes one input, and changes the state and the actions that are due.
    fn handle(&mut self, input: Input<'_>, now: Time);
    /// The next action that is due.
    fn next_action(&mut self) -> Option<Action>;
    /// The most bytes that may be read of a connection now.
    fn room(&self, key: u64) -> usize;
    /// The bytes to send next on a connection, in a few pieces.
    fn pieces(&self, key: u64) -> Vec<&[u8]>;
    /// The present counters and sizes.
    fn figures(&self) -> Figures;
}

/// A report about a watched socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// A connection asks to be accepted.
    Incoming,
    /// Something can be read or written.
    Ready(u64),
    /// The connection with this key is broken.
    Broken(u64),
}

/// The result of accepting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// A connection with its key and the client at its other end.
    One(u64, Peer),
    /// No connection waits to be accepted.
    Nobody,
    /// No connection can be accepted for now.
    Failed,
}

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came<'a> {
    /// These bytes, at least one.
    Bytes(&'a [u8]),
    /// No bytes are there yet.
    Nothing,
    /// The client has sent everything.
    Ended,
    /// The connection is broken.
    Broken,
}

/// The result of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Went {
    /// The socket took this many bytes.
    Bytes(usize),
    /// The socket takes no bytes for now.
    Full,
    /// The connection is broken.
    Broken,
}

/// Sockets that act only when they are asked to. Calls with the key of a closed connection do
/// nothing.
pub trait Sockets {
    /// Waits for the next event at the sockets that are watched.
    fn poll_event(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Socket>;
    /// Accepts a connection and gives it a key. It is not watched yet.
    fn accept(&mut self) -> Accepted;
    /// Reads at most `most` bytes.
    fn read(&mut self, key: u64, most: usize) -> Came<'_>;
    /// Writes as many bytes of `pieces` as the socket takes without waiting.
    fn write(&mut self, key: u64, pieces: &[&[u8]]) -> Went;
    /// Sets what is watched for.
    fn watch(&mut self, key: u64, read: bool, write: bool);
    /// Tells the client that nothing more will be sent.
    fn shutdown(&mut self, key: u64);
    /// Closes the connection and forgets its key.
    fn close(&mut self, key: u64);
    /// Watches for connections, or does not.
    fn listen(&mut self, on: bool);
    /// Stops listening for new connections.
    fn end_listening(&mut self);
}

//! The sockets of a server of NFS: connections as events of the core's thread.
//!
//! Contract: the thread of the core accepts, reads, executes and answers. What one read brings is
//! one event of the run; its calls are polled in place, in order, and a call that has to wait
//! continues as a task. Connections take turns. No client can take memory or time from the others
//! without bound: see [`Bounds`]. A connection that is closed loses nothing: its client sends again
//! what was not answered.
//!
//! All sockets are watched through one epoll descriptor, which is the only one that the host knows.

mod connection;
mod front;

pub use front::{Front, FrontStats};

use std::io;
use std::net::{SocketAddr, TcpListener};

use twin_rt::{Nanos, SECS};

/// What clients may use of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most connections. When there are more, the one that has been idle longest is closed.
    pub connections: usize,
    /// The most calls of one connection that are executed at the same time; beyond that its bytes
    /// wait in the socket.
    pub calls: usize,
    /// The most bytes of replies that wait for one client to read them, before its calls wait.
    pub reply_bytes: usize,
    /// The most bytes of all calls that are executed or incomplete.
    pub call_bytes: usize,
    /// How long a client may take to send the rest of a call, or to read some of a reply.
    pub slow_ns: Nanos,
    /// How long a connection may be silent.
    pub idle_ns: Nanos,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections: 4096,
            calls: 64,
            reply_bytes: 4 << 20,
            call_bytes: 128 << 20,
            slow_ns: 30 * SECS,
            idle_ns: 15 * 60 * SECS,
        }
    }
}

/// Opens a port. With port 0 the host picks one.
///
/// # Errors
/// If the address is not one of this machine, or the port is taken.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The most connections that this process may have, after it has raised its limit of descriptors
/// as far as it may.
pub fn connections_possible(wanted: usize) -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let needed = wanted as u64 + 64;
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let possible = getrlimit(Resource::Nofile).current.unwrap_or(needed);
    (possible.saturating_sub(64) as usize).clamp(1, wanted)
}

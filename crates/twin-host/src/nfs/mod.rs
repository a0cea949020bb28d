//! The sockets of an NFS server.
//!
//! Contract: the thread of the core accepts, reads, executes and answers, as [`twin_nfs::front`]
//! decides, where the bounds on clients are enforced. This module adds the sockets, which act only
//! when they are asked to. Everything that one socket has at once is one event of the run; calls
//! are polled in place, and a call that has to wait continues as a task. Closing a connection loses
//! nothing: its client sends unanswered calls again.
//!
//! All sockets are watched through one epoll descriptor, the only one that the host knows.

mod sockets;

pub use twin_nfs::front::{Bounds, FrontStats};

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use twin_nfs::{Server, front};
use twin_rt::Time;

use crate::host::Host;
use sockets::TcpSockets;

/// Serves the clients of a [`Server`]. Cheap to clone.
#[derive(Clone)]
pub struct Front {
    host: Host,
    front: front::Front,
    bounds: Bounds,
    /// Taken by the run.
    listeners: Rc<Cell<Vec<TcpListener>>>,
}

impl Front {
    /// A front end over listening sockets.
    pub fn new(
        host: &Host,
        server: Rc<Server>,
        listeners: Vec<TcpListener>,
        bounds: Bounds,
    ) -> Front {
        let front = front::Front::new(host.rt(), server);
        Front { host: host.clone(), front, bounds, listeners: Rc::new(Cell::new(listeners)) }
    }

    /// Serves until [`stop`](Self::stop): then the calls under way are executed and answered, and
    /// the connections closed.
    pub async fn run(&self) -> io::Result<()> {
        let sockets = TcpSockets::open(&self.host, self.listeners.take())?;
        self.front.run(sockets, self.front.machine(self.bounds)).await;
        Ok(())
    }

    /// Stops serving in order: calls that have begun are answered.
    pub fn stop(&self) {
        self.front.stop();
    }

    /// The counters so far.
    pub fn stats(&self) -> FrontStats {
        self.front.stats()
    }

    /// The time since when the oldest call waits that has to wait.
    pub fn oldest_wait(&self) -> Option<Time> {
        self.front.oldest_wait()
    }

    /// Closes the connections of all calls that wait. For a core that does not answer any more.
    pub fn give_up_waiting(&self) {
        self.front.give_up_waiting();
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

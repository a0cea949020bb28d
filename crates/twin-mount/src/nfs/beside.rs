//! A server of NFS beside a mount: the same volume, in the same process.
//!
//! Contract: the port is opened before anything is mounted, so that one that is taken costs nothing.
//! The server ends before the volume is closed: calls under way are answered.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::rc::Rc;

use twin_fs::{FsError, LayoutKind, Volume};
use twin_host::nfs::Front;
use twin_host::{Host, Words, watch_requests};
use twin_nfs::{Export, Keys, Served};
use twin_rt::JoinHandle;

use super::server::{front_of, identity, open_port};
use super::shares;

/// What is served beside a mount, and to whom.
#[derive(Clone, Debug)]
pub struct NfsBeside {
    /// The port, with the address on which to listen.
    pub at: SocketAddr,
    /// Exports of parts of the volume; none: all of it to this machine.
    pub exports: Vec<String>,
}

/// What is known of the server before the volume is open: its port, and who may come in.
pub struct Beside {
    listener: TcpListener,
    exports: Vec<Export>,
    /// What to tell of it.
    line: String,
}

/// A server that runs.
pub struct Running {
    front: Front,
    task: JoinHandle<std::io::Result<()>>,
}

impl Running {
    /// Ends the serving: calls under way are executed and answered.
    ///
    /// # Errors
    /// If it ended before because its sockets could not be watched.
    pub async fn end(self) -> Result<(), String> {
        self.front.stop();
        self.task.await.map_err(|error| format!("the server of NFS: {error}"))
    }
}

impl Beside {
    /// Opens the port.
    ///
    /// # Errors
    /// If the port cannot be had, or an export is none.
    pub fn prepare(asked: &NfsBeside, image: &Path) -> Result<Beside, String> {
        let all = shares::shares(&[image.to_path_buf()])?;
        let exports = shares::exports(&all, &asked.exports)?;
        let listener = open_port(asked.at).map_err(|why| format!("--serve {why}"))?;
        let address = TcpListener::local_addr(&listener).map_err(|e| e.to_string())?;
        let line = format!("also served over NFS as / on {address}");
        Ok(Beside { listener, exports, line })
    }

    /// What is to be told where it was mounted from.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Begins to serve an open volume.
    ///
    /// # Errors
    /// If the host refuses a descriptor, or the volume has no identity.
    pub fn start(
        self,
        host: &Host,
        layout: &'static dyn LayoutKind,
        image: &Path,
        volume: &Volume,
        words: &Rc<Words>,
    ) -> Result<Running, String> {
        let keys = Keys::of(identity(layout, volume, image)?);
        let port = TcpListener::local_addr(&self.listener).map_err(|e| e.to_string())?.port();
        let served = vec![Served::of(volume, keys)];
        let front = front_of(host, served, self.exports, vec![self.listener], port)?;
        let running = front.clone();
        let task = host.rt().spawn("nfs front", async move { running.run().await });
        let stopped = Rc::downgrade(volume.core());
        watch_requests(host, &front, words, move |error: FsError| {
            if let Some(core) = stopped.upgrade() {
                core.poison(error);
            }
        });
        Ok(Running { front, task })
    }
}

//! The clients of a replay, as far as they run beside each other.
//!
//! Contract: a client that syncs waits for the device while others go on, and syncs of several clients can share a
//! flush. So in a replay of several clients each sync is made by a thread of its client, of which there are as many
//! at a time as the recording had; everything else takes microseconds and is done in place, in the order that the
//! replayer allows. A replay of one client has no other thread, and what it costs to pass work to one.

use std::os::fd::OwnedFd;

use twin_fs::{FileSystem, FsError, Ino, LookupEntry, Op, Reply, Request, Room};
use twin_host::mirror::{Mirror, sync};
use twin_host::{Host, offload};

/// A mirrored directory on which clients work.
pub(crate) struct Clients {
    mirror: Mirror,
    host: Host,
    several: bool,
}

impl Clients {
    /// Clients of a mirror: `several` that work at a time, or one.
    pub(crate) fn new(mirror: Mirror, host: &Host, several: bool) -> Clients {
        Clients { mirror, host: host.clone(), several }
    }

    /// Syncs on a thread of its own; `None` if there can be none.
    async fn beside(&self, ino: Ino, data_only: bool) -> Option<Result<Reply, FsError>> {
        let file: OwnedFd = self.mirror.descriptor(ino).ok()?;
        let synced = offload(&self.host, move || sync(&file, data_only)).ok()?.await.ok()?;
        Some(synced.map(|()| Reply::Done))
    }
}

impl FileSystem for Clients {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        if self.several
            && let Op::Fsync { ino, data_only } = request.op
            && let Some(done) = self.beside(ino, data_only).await
        {
            return done;
        }
        self.mirror.execute(request).await
    }

    fn room(&self) -> Option<Room> {
        self.mirror.room()
    }

    fn known(&self, ino: Ino) -> Option<LookupEntry> {
        self.mirror.known(ino)
    }
}

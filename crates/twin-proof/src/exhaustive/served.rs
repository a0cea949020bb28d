//! The client of a workload as a client of NFS: its operations become calls to a server of the volume.
//!
//! Contract: what a client of NFS is promised differs from what a process on the volume is. Each change of names or
//! attributes that is answered is durable, and so is data that was synced or whose file was closed. The notes of the
//! volume have what the server asked of it; the promises are noted here, when the client has its answer, so a server
//! that answers too early is found. On a log a promise is about everything that took effect before. Network and server
//! are without faults: those are explored in [`nfs`](crate::nfs).

use std::cell::RefCell;
use std::rc::Rc;

use twin_fs::{Data, FileSystem, FsError, Op, ROOT_INO, Reply, Request, Result};
use twin_nfs::client::{Client, ClientSettings, Direct, Handles};
use twin_nfs::{Keys, Limits, Served, Server};
use twin_rt::{FixedMap, SECS};

use crate::Subject;
use crate::drive::Notes;

/// The client writes data of this age, so that the words which let time pass find it written.
const WRITE_BEHIND_NS: u64 = 3 * SECS;

/// The volume, as the server has it.
struct Noted<L: Subject>(Rc<Notes<L>>);

impl<L: Subject> FileSystem for Noted<L> {
    async fn execute(&self, mut request: Request) -> Result<Reply> {
        // Words write data whose content does not matter. The client has made zeros of it; the model has stamps, by
        // which the data of one write differs from that of another.
        if let Op::Write { data, .. } = &mut request.op {
            *data = Data::Synthetic(data.len());
        }
        self.0.ask(&request).await
    }
}

/// A server of a volume, and a client of it.
pub(super) struct Remote<L: Subject> {
    client: Client,
    notes: Rc<Notes<L>>,
}

impl<L: Subject> Remote<L> {
    /// Starts both. An `early` server answers before a change is durable.
    ///
    /// # Errors
    /// If the volume's root cannot be read.
    pub(super) async fn start(notes: &Rc<Notes<L>>, early: bool) -> Result<Remote<L>> {
        let rt = notes.volume().core().rt.clone();
        let keys = Keys::of(twin_remote::KEY);
        let export = twin_remote::export(early);
        let lookup = Op::Lookup { dir: ROOT_INO, name: (*b".").into() };
        let Reply::Entry(root) = notes.volume().execute(Request::root(1, lookup)).await? else {
            return Err(FsError::inconsistent("the root is no inode"));
        };
        let root = twin_remote::handle(&keys, &export, &root);
        let fs = Rc::new(Noted(Rc::clone(notes)));
        let served = Served::new(fs, keys, Limits::default(), || 0);
        let server = Rc::new(Server::new(twin_remote::KEY, vec![served], vec![export]));
        let wire = Box::new(Direct::to(&rt, &server));
        let settings =
            ClientSettings { write_behind_ns: WRITE_BEHIND_NS, ..ClientSettings::default() };
        let handles: Handles = Rc::new(RefCell::new(FixedMap::default()));
        let client = Client::new(&rt, settings, wire, handles, &root, 1);
        Ok(Remote { client, notes: Rc::clone(notes) })
    }

    /// Performs an operation, and notes what its answer promises.
    pub(super) async fn ask(&self, request: Request) -> Result<Reply> {
        let promises = match &request.op {
            // Data is collected.
            op if op.written().is_some() => false,
            Op::Fsync { .. } | Op::Sync | Op::Release { .. } => true,
            op => op.changes_volume(),
        };
        let reply = self.client.execute(request).await;
        if promises && reply.is_ok() {
            self.notes.promise_all();
        }
        reply
    }
}

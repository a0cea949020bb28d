//! What a simulated mount is asked: the requests that come through the front end, by kind.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_fs::quota::Quota;
use twin_fs::{FileSystem, FsError, Ino, Op, Reply, Request, Room};
use twin_rt::Time;
use twin_trace::Verb;

/// Numbers of requests by kind.
pub(crate) type Requests = Rc<RefCell<BTreeMap<&'static str, u64>>>;

/// A file system that counts what it is asked.
pub(crate) struct Asked<F> {
    inner: F,
    requests: Requests,
}

impl<F> Asked<F> {
    /// Counts in `requests`.
    pub(crate) fn new(inner: F, requests: Requests) -> Asked<F> {
        Asked { inner, requests }
    }
}

impl<F: FileSystem> FileSystem for Asked<F> {
    async fn execute(&self, request: Request) -> Result<Reply, FsError> {
        // The kernel opens and closes files without asking a mount of ours.
        if !matches!(request.op, Op::Open { .. } | Op::Release { .. }) {
            let verb = Verb::of(&request.op).name();
            *self.requests.borrow_mut().entry(verb).or_default() += 1;
        }
        self.inner.execute(request).await
    }

    fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    fn room_of(&self, ino: Ino) -> Option<u64> {
        self.inner.room_of(ino)
    }

    fn quota_of(&self, ino: Ino) -> Option<Quota> {
        self.inner.quota_of(ino)
    }

    fn due(&self, op: &Op) -> Option<Time> {
        self.inner.due(op)
    }

    fn held(&self) -> Vec<Ino> {
        self.inner.held()
    }
}

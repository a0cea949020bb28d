//! A client of a volume: operations one at a time, paths, references.

use std::cell::Cell;
use std::rc::Rc;

use twin_fs::{Data, FsError, Ino, LookupEntry, Name, Op, ROOT_INO, Reply, Request, Volume, mode};
use twin_rt::Rt;

/// Whoever asks a volume for something.
#[derive(Clone)]
pub(crate) struct Client {
    pub(super) rt: Rt,
    pub(super) volume: Volume,
    next: Rc<Cell<u64>>,
}

impl Client {
    pub(crate) fn new(rt: &Rt, volume: &Volume) -> Client {
        Client { rt: rt.clone(), volume: volume.clone(), next: Rc::new(Cell::new(1)) }
    }

    /// Executes one operation.
    pub(super) async fn ask(&self, op: Op) -> Result<Reply, FsError> {
        let id = self.next.get();
        self.next.set(id + 1);
        self.volume.execute(Request::root(id, op)).await
    }

    /// Drops the reference that a lookup gave.
    pub(super) async fn forget(&self, ino: Ino) {
        if ino != ROOT_INO {
            // It cannot fail.
            let _ = self.ask(Op::Forget { ino, count: 1 }).await;
        }
    }

    /// Executes an operation that makes a name, and drops the reference that its reply gives.
    pub(super) async fn made(&self, op: Op) -> Result<(), FsError> {
        if let Reply::Entry(entry) = self.ask(op).await? {
            self.forget(entry.attr.ino).await;
        }
        Ok(())
    }

    /// The directory of a path and the last name in it. The directory keeps its reference: a page lives shortly.
    pub(super) async fn parent(&self, path: &str) -> Result<(Ino, Name), FsError> {
        let path = path.trim_matches('/');
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() {
            return Err(FsError::Invalid("this is the root directory: name something in it"));
        }
        let dir = self.find(above).await?.attr.ino;
        self.forget(dir).await;
        Ok((dir, Name::from(name.as_bytes())))
    }

    /// Walks a path; the entry has a reference.
    pub(super) async fn find(&self, path: &str) -> Result<LookupEntry, FsError> {
        let root = Op::Lookup { dir: ROOT_INO, name: Name::from(b".".as_slice()) };
        let Reply::Entry(mut entry) = self.ask(root).await? else { return Err(FsError::NotFound) };
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let dir = entry.attr.ino;
            let lookup = Op::Lookup { dir, name: Name::from(name.as_bytes()) };
            let found = self.ask(lookup).await;
            self.forget(dir).await;
            let Reply::Entry(next) = found? else { return Err(FsError::NotFound) };
            entry = next;
        }
        Ok(entry)
    }

    /// The file with this path, made if it is missing.
    pub(super) async fn file(&self, path: &str) -> Result<Ino, FsError> {
        match self.find(path).await {
            Ok(entry) if entry.attr.is_dir() => Err(FsError::IsDirectory),
            Ok(entry) => {
                self.forget(entry.attr.ino).await;
                Ok(entry.attr.ino)
            }
            Err(FsError::NotFound) => {
                let (dir, name) = self.parent(path).await?;
                let mode = mode::REGULAR | 0o644;
                let made = self.ask(Op::Create { dir, name, mode, exclusive: true }).await?;
                let Reply::Entry(entry) = made else { return Err(FsError::NotFound) };
                let ino = entry.attr.ino;
                self.ask(Op::Release { ino }).await?;
                self.forget(ino).await;
                Ok(ino)
            }
            Err(why) => Err(why),
        }
    }

    /// Writes as programs do, in pieces of at most 64 KiB.
    pub(super) async fn write(&self, ino: Ino, at: u64, len: u64) -> Result<(), FsError> {
        let mut from = 0;
        while from < len {
            let piece = (len - from).min(64 << 10);
            let data = Data::Synthetic(piece);
            self.ask(Op::Write { ino, off: at + from, data }).await?;
            from += piece;
        }
        Ok(())
    }
}

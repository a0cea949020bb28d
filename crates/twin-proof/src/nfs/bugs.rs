//! The layer between the server and its volume that has the planted bugs of the volume.
//!
//! Contract: without a bug the layer changes nothing, except that a write-back may be made to fail: then a
//! file gets the content that is durable and the number of losses rises, as on a kernel that drops pages
//! which it cannot write.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::{Data, FileSystem, FsError, Ino, LookupEntry, Op, Reply, Request, Result, Volume};
use twin_model::NfsBug as Bug;
use twin_rt::{Rng, RwLock};

/// What a write replaced: offset and bytes.
type Before = (u64, Vec<u8>);

/// The layer. See the module.
pub(super) struct Layer {
    volume: Volume,
    bug: Option<Bug>,
    rng: RefCell<Rng>,
    /// What writes replaced that are not durable.
    unstable: RefCell<BTreeMap<Ino, Vec<Before>>>,
    /// Fsyncs under way: an error would be reported to who waits for them.
    promising: Cell<u32>,
    /// A failing write-back has the files alone: what is written meanwhile comes after it.
    alone: RwLock,
    wrote: Cell<bool>,
    graveyard: RefCell<BTreeMap<Ino, LookupEntry>>,
    pub(super) losses: Rc<Cell<u64>>,
    /// Write-backs may fail in this run: what writes replace is kept.
    keeps: bool,
}

fn request(op: Op) -> Request {
    Request::root(u64::MAX, op)
}

impl Layer {
    pub(super) fn new(volume: Volume, bug: Option<Bug>, rng: Rng, keeps: bool) -> Layer {
        let (unstable, promising, wrote, graveyard, losses) = Default::default();
        let (rng, alone) = (RefCell::new(rng), RwLock::new());
        Layer { volume, bug, rng, unstable, promising, alone, wrote, graveyard, losses, keeps }
    }

    fn chance(&self, p: f64) -> bool {
        self.rng.borrow_mut().chance(p)
    }

    /// A write-back fails: returns true if there was something to lose.
    pub(super) async fn lose(&self) -> bool {
        let _alone = self.alone.write().await;
        if self.promising.get() > 0 || self.volume.core().poisoned().is_some() {
            return false;
        }
        let files: Vec<Ino> = self.unstable.borrow().keys().copied().collect();
        if files.is_empty() {
            return false;
        }
        let ino = *self.rng.borrow_mut().pick(&files);
        let befores = self.unstable.borrow_mut().remove(&ino).unwrap_or_default();
        // From here on a COMMIT must tell: the verifier first, then the loss.
        if self.bug != Some(Bug::LossNotReported) {
            self.losses.set(self.losses.get() + 1);
        }
        for (off, bytes) in befores.into_iter().rev() {
            let data = Data::Bytes(Bytes::copy_of(&bytes));
            if !bytes.is_empty() {
                let _ = self.volume.execute(request(Op::WriteBack { ino, off, data })).await;
            }
        }
        true
    }

    /// Keeps what a write is about to replace. Past the end of the file that is zeros.
    async fn keep(&self, ino: Ino, off: u64, len: u64) {
        let read = self.volume.execute(request(Op::Read { ino, off, len: len as u32 })).await;
        let mut bytes = match read {
            Ok(Reply::Data(blocks)) => super::joined(&blocks),
            _ => return,
        };
        bytes.resize(len as usize, 0);
        self.unstable.borrow_mut().entry(ino).or_default().push((off, bytes));
    }

    async fn fsync(&self, sent: Request, ino: Ino) -> Result<Reply> {
        let wrote = self.wrote.replace(false);
        let looked = self.volume.execute(request(Op::GetAttr { ino })).await;
        let (is_dir, empty) = match looked {
            Ok(Reply::Attr(attr)) => (attr.is_dir(), attr.size == 0),
            _ => (false, false),
        };
        let ignored = match self.bug {
            Some(Bug::FsyncLies) => true,
            Some(Bug::NamesNotDurable) => is_dir || empty,
            Some(Bug::FilesNotDurable) => !is_dir,
            Some(Bug::StableWriteIsNot) => wrote,
            Some(Bug::CommitDoesNothing) => !wrote && !is_dir,
            Some(Bug::FsyncSometimesLies) => self.chance(0.1),
            _ => false,
        };
        if ignored {
            return Ok(Reply::Done);
        }
        let _shared = self.alone.read().await;
        self.promising.set(self.promising.get() + 1);
        let covered = self.unstable.borrow_mut().remove(&ino);
        let reply = self.volume.execute(sent).await;
        self.promising.set(self.promising.get() - 1);
        if reply.is_err() {
            self.unstable.borrow_mut().extend(covered.map(|covered| (ino, covered)));
        }
        reply
    }

    /// The generation that the server is to see.
    fn blur(&self, reply: &mut Result<Reply>) {
        if self.bug != Some(Bug::GenerationIgnored) {
            return;
        }
        match reply {
            Ok(Reply::Entry(entry)) => entry.generation = 1,
            Ok(Reply::Dir(entries)) => {
                let entries = entries.iter_mut().filter_map(|entry| entry.entry.as_mut());
                entries.for_each(|entry| entry.generation = 1);
            }
            _ => {}
        }
    }

    /// A removed file that goes on, with the bug that does so.
    fn undead(&self, sent: &Request, reply: &Result<Reply>) -> Option<Reply> {
        let Op::Lookup { dir, name } = &sent.op else { return None };
        if self.bug != Some(Bug::RemovedStays) || **name != *b"." {
            return None;
        }
        let mut graveyard = self.graveyard.borrow_mut();
        match reply {
            Ok(Reply::Entry(entry)) => {
                graveyard.insert(*dir, entry.clone());
                None
            }
            Err(FsError::NotFound | FsError::Stale) => {
                graveyard.get(dir).cloned().map(Reply::Entry)
            }
            _ => None,
        }
    }
}

impl FileSystem for Layer {
    async fn execute(&self, sent: Request) -> Result<Reply> {
        if let Op::Fsync { ino, .. } = sent.op {
            return self.fsync(sent, ino).await;
        }
        match (&sent.op, self.bug) {
            (Op::Write { data, .. }, Some(Bug::WriteDropped)) if self.chance(0.05) => {
                return Ok(Reply::Written(data.len()));
            }
            (Op::SetAttr { set, .. }, Some(Bug::ExclusiveForgets)) if set.mtime.is_some() => {
                return Ok(Reply::Done);
            }
            _ => {}
        }
        let _shared = self.alone.read().await;
        if let Op::Write { ino, off, data } = &sent.op
            && self.keeps
        {
            self.keep(*ino, *off, data.len()).await;
        }
        let is_write = matches!(sent.op, Op::Write { .. });
        let mut reply = self.volume.execute(sent.clone()).await;
        if is_write {
            self.wrote.set(true);
        }
        if let Some(undead) = self.undead(&sent, &reply) {
            return Ok(undead);
        }
        self.blur(&mut reply);
        reply
    }
}

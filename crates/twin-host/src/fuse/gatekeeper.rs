//! Makes the kernel ask before it accepts writes while room is short.
//!
//! A kernel that collects writes accepts them without a request to us. But before each write it
//! needs the mode of the file, because of set-id bits. If the attributes are out of date, it asks
//! for them by the file handle of the writer, and an error in our answer becomes the error of the
//! write. No other call asks in this way: stat names no handle, and reading or seeking by a handle
//! uses the size that the kernel keeps itself. (This holds from Linux 5.16 on, which speaks
//! protocol 7.35; older kernels are not gated. The attributes must also not expire by themselves:
//! see [`SessionOptions`](super::SessionOptions).)
//!
//! To shut the gate, we tell the kernel that the attributes of every node that it knows are out of
//! date, and keep them so: every answer that contains attributes is followed by such a notice, or
//! preceded by one, which makes the kernel treat the answer as old. The policy
//! [`Gate`](twin_fs::Gate) decides which writes may pass. To call back the writes that the kernel
//! has collected, another thread calls syncfs on the mount.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use twin_fs::{
    Attr, Cred, FileSystem, FsError, Gate, GateChange, Ino, Reply, Room, WriteVerdict, mode,
};

use super::abi::InHeader;
use super::porter::{Job, Porter, tell_stale};
use super::translate::{Expect, node};

/// The place where a session is mounted.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// The device number of the mount, to detect another file system mounted over it.
    pub(super) device: String,
    /// The most bytes of writes that the kernel collects.
    pub(super) collected_bytes: u64,
}

/// A client that waits at the gate.
pub(super) struct PendingWrite {
    pub(super) header: InHeader,
    pub(super) cred: Cred,
    pub(super) ino: Ino,
}

/// Keeps the gate of a session.
#[derive(Default)]
pub(super) struct Gatekeeper {
    gate: RefCell<Option<Gate>>,
    porter: RefCell<Option<Porter>>,
    place: RefCell<Option<Place>>,
    /// The writers that wait until the collected writes have arrived.
    waiting: RefCell<Vec<PendingWrite>>,
    /// The writers whose requests can be decided again.
    ready: RefCell<VecDeque<PendingWrite>>,
    calling: Cell<bool>,
    /// The thread that calls back; its requests must not be treated as those of a client.
    caller: Arc<AtomicU32>,
    /// Files that lost set-id bits without the kernel's knowledge.
    fell: RefCell<BTreeSet<u64>>,
    lost: Cell<u64>,
    /// The files that the kernel wrote last on its own account.
    recent: RefCell<VecDeque<Ino>>,
}

/// How many files to remember as recently written.
const RECENT: usize = 16;

/// The decision about a client that asks to write.
pub(super) enum Decision {
    Enter(PendingWrite),
    Refuse(u64),
    Wait,
    /// The client waits, and the caller must call the collected writes back.
    CallBack,
}

impl Gatekeeper {
    pub(super) fn place(&self, place: Place) {
        *self.place.borrow_mut() = Some(place);
    }

    /// Begins to watch the room, so that the kernel can be made to ask. If the place of the mount
    /// is unknown, nothing bounds how much the kernel collects.
    pub(super) fn begin(&self, room: Room) {
        let collected = self.place.borrow().as_ref().map(|place| place.collected_bytes);
        *self.gate.borrow_mut() = Some(Gate::new(room.limit_bytes, collected.unwrap_or(u64::MAX)));
    }

    pub(super) fn is_shut(&self) -> bool {
        self.gate.borrow().as_ref().is_some_and(Gate::is_shut)
    }

    /// The number of the kernel's own writes that found no room. Their callers learn of it at fsync
    /// or close.
    pub(super) fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// True if a request was caused by our own call.
    pub(super) fn is_caller(&self, pid: u32) -> bool {
        pid != 0 && self.caller.load(Ordering::Relaxed) == pid
    }

    /// Decides about a client that asks to write.
    pub(super) fn check<F: FileSystem>(&self, fs: &F, pending: PendingWrite) -> Decision {
        if self.calling.get() {
            self.waiting.borrow_mut().push(pending);
            return Decision::Wait;
        }
        let verdict = match (&mut *self.gate.borrow_mut(), fs.room()) {
            (Some(gate), Some(room)) => {
                // A file that is not in memory is not new: it has its room already.
                let takes = fs.room_of(pending.ino).unwrap_or(1);
                gate.check_write(pending.ino, room.free_bytes, takes)
            }
            _ => WriteVerdict::Pass,
        };
        match verdict {
            WriteVerdict::Pass => Decision::Enter(pending),
            WriteVerdict::Refuse => Decision::Refuse(pending.header.unique),
            WriteVerdict::CallBack => {
                self.waiting.borrow_mut().push(pending);
                self.calling.set(true);
                Decision::CallBack
            }
        }
    }

    /// Returns the function that calls everything back. It must run on another thread.
    pub(super) fn caller(&self, fd: &OwnedFd) -> io::Result<impl FnOnce() + Send + use<>> {
        let fd = rustix::io::dup(fd)?;
        let place = self.place.borrow().clone();
        let nodes: BTreeSet<u64> =
            self.waiting.borrow().iter().map(|pending| pending.header.nodeid).collect();
        let caller = Arc::clone(&self.caller);
        Ok(move || {
            caller.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
            if place.is_none_or(|place| sync(&place).is_err()) {
                // The mount is not visible from here. A notice for each node is slower, and the
                // kernel drops the data.
                for node in nodes {
                    let _ = tell_stale(&fd, node, 0);
                }
            }
            caller.store(0, Ordering::Relaxed);
        })
    }

    /// Called when everything has arrived: the waiting writers are decided again.
    pub(super) fn called_back(&self) {
        self.calling.set(false);
        if let Some(gate) = &mut *self.gate.borrow_mut() {
            gate.called_back();
        }
        self.ready.borrow_mut().extend(self.waiting.take());
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    pub(super) fn next_ready(&self) -> Option<PendingWrite> {
        self.ready.borrow_mut().pop_front()
    }

    /// Called at the end of each operation, which may have been a write of `bytes` by the kernel
    /// itself to this file. Checks the room that is left.
    pub(super) fn ended<F: FileSystem>(
        &self,
        fs: &F,
        fd: &OwnedFd,
        late: Option<(Ino, u64)>,
        result: &Result<Reply, FsError>,
    ) {
        if let (Some(_), Err(_)) = (late, result) {
            self.lost.set(self.lost.get() + 1);
        }
        let mut gate = self.gate.borrow_mut();
        let Some(gate) = &mut *gate else { return };
        match late {
            Some((ino, _)) => self.note(ino),
            None if !gate.is_shut() => return,
            None => {}
        }
        let Some(room) = fs.room() else { return };
        let change = gate.update(room.free_bytes);
        if let Some(GateChange::Shut) = change {
            self.shut(fs, fd);
        }
        let Some((ino, bytes)) = late else { return };
        match result {
            Ok(_) => {
                let announced = gate.data_arrived(ino, bytes, fs.room_of(ino).unwrap_or(1));
                if !announced {
                    self.tell(Job::After(node(ino)));
                }
            }
            Err(FsError::NoSpace) => gate.failed(ino, bytes),
            Err(_) => {}
        }
    }

    fn note(&self, ino: Ino) {
        let mut recent = self.recent.borrow_mut();
        if recent.back() == Some(&ino) {
            return;
        }
        recent.retain(|&other| other != ino);
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(ino);
    }

    /// Shuts the gate: makes the kernel ask from now on.
    pub(super) fn shut<F: FileSystem>(&self, fs: &F, fd: &OwnedFd) {
        let mut porter = self.porter.borrow_mut();
        if porter.is_none() {
            // Without the thread, writes are refused when they arrive, and close, fsync or msync
            // report it.
            *porter = Porter::start(fd).ok();
        }
        drop(porter);
        // The recent files come first: a process that is writing now would fill the room before the
        // other thread comes to its file.
        if let Some(porter) = &*self.porter.borrow() {
            porter.tell_now(self.recent.borrow().iter().copied().map(node).collect());
        }
        self.tell(Job::Sweep(fs.held().into_iter().map(node).collect()));
    }

    /// Checks the room for the first time.
    pub(super) fn look<F: FileSystem>(&self, fs: &F, fd: &OwnedFd) {
        let room = fs.room().map_or(u64::MAX, |room| room.free_bytes);
        let change = self.gate.borrow_mut().as_mut().and_then(|gate| gate.update(room));
        if change == Some(GateChange::Shut) {
            self.shut(fs, fd);
        }
    }

    fn tell(&self, job: Job) {
        if let Some(porter) = &*self.porter.borrow() {
            porter.tell(job);
        }
    }

    /// Notes that a file lost its set-id bits. The kernel must believe the answer to its next
    /// request for the attributes of the file.
    pub(super) fn fell(&self, node: u64) {
        if self.is_shut() {
            self.fell.borrow_mut().insert(node);
        }
    }

    /// Sends an answer with attributes so that they stay out of date, if they must. Returns the
    /// packet if it is to be sent in the usual way.
    pub(super) fn answer(&self, expect: Expect, reply: &Reply, packet: Vec<u8>) -> Option<Vec<u8>> {
        let (Expect::Attr | Expect::Gate | Expect::Statx, Reply::Attr(attr)) = (expect, reply)
        else {
            return Some(packet);
        };
        let number = node(attr.ino);
        if !self.regulates(attr) || self.fell.borrow().contains(&number) {
            return Some(packet);
        }
        self.tell(Job::Answer { node: number, packet });
        None
    }

    /// Called after an answer was sent: keeps the attributes in it out of date.
    pub(super) fn answered(&self, expect: Expect, reply: &Reply) {
        if !self.is_shut() {
            return;
        }
        match reply {
            Reply::Attr(attr) if self.regulates(attr) => {
                let number = node(attr.ino);
                let fell = expect != Expect::Changed && self.fell.borrow_mut().remove(&number);
                self.tell(if fell { Job::Later(number) } else { Job::After(number) });
            }
            Reply::Entry(entry) if self.regulates(&entry.attr) => {
                self.tell(Job::After(node(entry.attr.ino)));
            }
            Reply::Dir(entries) => {
                let told = entries.iter().filter_map(|e| e.entry.as_ref());
                for entry in told.filter(|entry| self.regulates(&entry.attr)) {
                    self.tell(Job::After(node(entry.attr.ino)));
                }
            }
            _ => {}
        }
    }

    fn regulates(&self, attr: &Attr) -> bool {
        self.porter.borrow().is_some() && attr.mode & mode::TYPE == mode::REGULAR && self.is_shut()
    }
}

/// Makes the kernel write out what it holds of the mount.
fn sync(place: &Place) -> io::Result<()> {
    let dir = File::open(&place.dir)?;
    let device = rustix::fs::fstat(&dir)?.st_dev;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    if device != place.device {
        return Err(io::ErrorKind::NotFound.into());
    }
    // Failed writes have been counted when they arrived.
    let _ = rustix::fs::syncfs(&dir);
    Ok(())
}

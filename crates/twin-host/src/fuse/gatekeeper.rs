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
//! preceded by one, which makes the kernel treat the answer as old. (The gate of files below `.twinfs`, which are in
//! states that were kept, is always shut. Their attributes are answered with no time for which they may be
//! kept, so there the kernel asks readers too, and who holds a descriptor for writing is refused.) The policy
//! [`Gate`](twin_fs::Gate) decides which writes may pass. The writes that the kernel has collected are
//! called back with the help of the mount's deputy (see [`Fetcher`](super::fetch::Fetcher)).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use twin_fs::snapshots::is_below;
use twin_fs::{
    Attr, Cred, FileSystem, FsError, Gate, GateChange, Ino, Reply, Room, WriteVerdict, mode,
};

use super::abi::InHeader;
use super::porter::{Job, Porter, tell_stale};
use super::translate::{Expect, node};

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
    /// The most bytes of writes that the kernel collects, if that is known.
    collected_bytes: Cell<Option<u64>>,
    /// The writers that wait until the collected writes have arrived.
    waiting: RefCell<Vec<PendingWrite>>,
    /// The writers whose requests can be decided again.
    ready: RefCell<VecDeque<PendingWrite>>,
    calling: Cell<bool>,
    /// The clients that are refused if they can be writers, and whether somebody looks at that.
    doubted: RefCell<Vec<PendingWrite>>,
    looking: Cell<bool>,
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
    Refuse(PendingWrite),
    Wait,
    /// The client waits, and the caller must call the collected writes back.
    CallBack,
}

impl Gatekeeper {
    /// Notes how many bytes of writes the kernel collects at most.
    pub(super) fn bound(&self, collected_bytes: u64) {
        self.collected_bytes.set(Some(collected_bytes));
    }

    /// Begins to watch the room, so that the kernel can be made to ask. If the place of the mount
    /// is unknown, nothing bounds how much the kernel collects.
    pub(super) fn begin(&self, room: Room) {
        let collected = self.collected_bytes.get();
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

    /// True if the gate of this file is always shut.
    pub(super) fn is_kept(ino: Ino) -> bool {
        is_below(ino)
    }

    /// True if a client that asks to write to this file has to be decided about.
    pub(super) fn guards(&self, ino: Ino) -> bool {
        self.is_shut() || is_below(ino)
    }

    /// Decides about a client that asks to write. To the files of kept states nobody does, however much room there is.
    pub(super) fn check<F: FileSystem>(&self, fs: &F, pending: PendingWrite) -> Decision {
        if is_below(pending.ino) {
            return Decision::Refuse(pending);
        }
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
            WriteVerdict::Refuse => Decision::Refuse(pending),
            WriteVerdict::CallBack => {
                self.waiting.borrow_mut().push(pending);
                self.calling.set(true);
                Decision::CallBack
            }
        }
    }

    /// The error of a client that is refused.
    pub(super) fn refusal(ino: Ino) -> Errno {
        if is_below(ino) { Errno::ROFS } else { Errno::NOSPC }
    }

    /// Adds a client that is refused if it can be a writer. True if the caller has to look, with
    /// [`doubted`](Self::doubted): one look at a time is under way, however many clients there are.
    pub(super) fn doubt(&self, pending: PendingWrite) -> bool {
        self.doubted.borrow_mut().push(pending);
        !self.looking.replace(true)
    }

    /// The clients that came since the last look; the looking ends when there are none.
    pub(super) fn doubted(&self) -> Vec<PendingWrite> {
        let doubted = self.doubted.take();
        self.looking.set(!doubted.is_empty());
        doubted
    }

    /// Returns the function that calls back the data of the waiting writers, for a mount that its
    /// deputy cannot see. It is slower, and the kernel drops the data. It must run on another thread.
    pub(super) fn notices(&self, fd: &OwnedFd) -> io::Result<impl FnOnce() + Send + use<>> {
        let fd = rustix::io::dup(fd)?;
        let nodes: BTreeSet<u64> =
            self.waiting.borrow().iter().map(|pending| pending.header.nodeid).collect();
        Ok(move || {
            for node in nodes {
                let _ = tell_stale(&fd, node, 0);
            }
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
        if let (Some((ino, _)), Err(_)) = (late, result) {
            self.lost.set(self.lost.get() + 1);
            if is_below(ino) {
                // Pages that were stored through a mapping: readers must not take them for what was kept.
                self.start_porter(fd);
                self.tell(Job::Drop(node(ino)));
            }
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

    fn start_porter(&self, fd: &OwnedFd) {
        let mut porter = self.porter.borrow_mut();
        if porter.is_none() {
            // Without the thread, writes are refused when they arrive, and close, fsync or msync
            // report it.
            *porter = Porter::start(fd).ok();
        }
    }

    /// Makes the attributes of a node out of date within a second or two.
    pub(super) fn tell_soon(&self, node: u64, fd: &OwnedFd) {
        self.start_porter(fd);
        if let Some(porter) = &*self.porter.borrow() {
            porter.tell_soon(node);
        }
    }

    /// Shuts the gate: makes the kernel ask from now on.
    pub(super) fn shut<F: FileSystem>(&self, fs: &F, fd: &OwnedFd) {
        self.start_porter(fd);
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

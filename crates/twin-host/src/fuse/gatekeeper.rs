//! Has the kernel ask before it accepts writes, when room gets short.
//!
//! A kernel that collects writes accepts them without a word to us. But before each write it makes
//! sure that it has the file's mode, for it has to know of set-id bits: if the file's attributes
//! are out of date it asks for them, by the writer's handle, and an error in our answer becomes the
//! error of the write. Nothing else asks so: stat names no handle, and what reads or seeks by one
//! trusts the size that the kernel itself keeps. (That is so from Linux 5.16 on, which speaks 7.35;
//! older kernels are not gated. And attributes must not grow old by themselves: see
//! [`SessionOptions`](super::SessionOptions).)
//!
//! So to shut the gate is to say of every node that the kernel knows that its attributes are out of
//! date, and to keep them so: whatever tells attributes of a file is followed by such a notice, or
//! preceded by one, which makes the kernel take the answer as old. What passes the gate is up to
//! the policy, [`Gate`](twin_fs::Gate). To call back what the kernel has collected is syncfs on
//! the mount, from another thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use twin_fs::{Attr, Cred, FileSystem, FsError, Gate, Ino, Reply, Room, Turn, Verdict, mode};

use super::abi::InHeader;
use super::porter::{Job, Porter, tell_stale};
use super::translate::{Expect, node};

/// Where a session is mounted.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// The device number of the mount: something else may have been put on top of it.
    pub(super) device: String,
    /// The most that the kernel collects of its writes, in bytes.
    pub(super) collected_bytes: u64,
}

/// A client that waits at the gate.
pub(super) struct Asked {
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
    /// The writers that wait until what was collected has come.
    waiting: RefCell<Vec<Asked>>,
    /// The writers that may ask again.
    ready: RefCell<VecDeque<Asked>>,
    calling: Cell<bool>,
    /// The thread that calls back, which is not to be taken for a client.
    caller: Arc<AtomicU32>,
    /// Files that lost set-id bits of which the kernel must hear.
    fell: RefCell<BTreeSet<u64>>,
    lost: Cell<u64>,
    /// The files that were written last, by the kernel on its own account.
    recent: RefCell<VecDeque<Ino>>,
}

/// How many files to remember as written last.
const RECENT: usize = 16;

/// What to do with a client that asks.
pub(super) enum Decision {
    Enter(Asked),
    Refuse(u64),
    Wait,
    /// It waits, and has to be called back.
    CallBack,
}

impl Gatekeeper {
    pub(super) fn place(&self, place: Place) {
        *self.place.borrow_mut() = Some(place);
    }

    /// The kernel asks before writes if it is made to. Without a known place, nothing bounds what
    /// it collects.
    pub(super) fn begin(&self, room: Room) {
        let collected = self.place.borrow().as_ref().map(|place| place.collected_bytes);
        *self.gate.borrow_mut() = Some(Gate::new(room.limit_bytes, collected.unwrap_or(u64::MAX)));
    }

    pub(super) fn is_shut(&self) -> bool {
        self.gate.borrow().as_ref().is_some_and(Gate::is_shut)
    }

    /// Writes of the kernel's own for which there was no place: their callers heard of it, if
    /// he asked.
    pub(super) fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// True if a request is our own doing.
    pub(super) fn is_caller(&self, pid: u32) -> bool {
        pid != 0 && self.caller.load(Ordering::Relaxed) == pid
    }

    /// A client wants to write.
    pub(super) fn ask<F: FileSystem>(&self, fs: &F, asked: Asked) -> Decision {
        if self.calling.get() {
            self.waiting.borrow_mut().push(asked);
            return Decision::Wait;
        }
        let verdict = match (&mut *self.gate.borrow_mut(), fs.room()) {
            (Some(gate), Some(room)) => {
                // A file that is not in memory is not new.
                let takes = fs.room_of(asked.ino).unwrap_or(1);
                gate.ask(asked.ino, room.free_bytes, takes)
            }
            _ => Verdict::Pass,
        };
        match verdict {
            Verdict::Pass => Decision::Enter(asked),
            Verdict::Refuse => Decision::Refuse(asked.header.unique),
            Verdict::CallBack => {
                self.waiting.borrow_mut().push(asked);
                self.calling.set(true);
                Decision::CallBack
            }
        }
    }

    /// What calls everything back, to be run on another thread.
    pub(super) fn caller(&self, fd: &OwnedFd) -> io::Result<impl FnOnce() + Send + use<>> {
        let fd = rustix::io::dup(fd)?;
        let place = self.place.borrow().clone();
        let nodes: BTreeSet<u64> =
            self.waiting.borrow().iter().map(|asked| asked.header.nodeid).collect();
        let caller = Arc::clone(&self.caller);
        Ok(move || {
            caller.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
            if place.is_none_or(|place| sync(&place).is_err()) {
                // The mount cannot be seen from here. Slower, and the kernel forgets the data.
                for node in nodes {
                    let _ = tell_stale(&fd, node, 0);
                }
            }
            caller.store(0, Ordering::Relaxed);
        })
    }

    /// Everything has come: who waits may ask again.
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

    pub(super) fn next_ready(&self) -> Option<Asked> {
        self.ready.borrow_mut().pop_front()
    }

    /// An operation has ended, perhaps a write of the kernel's own of so many bytes to
    /// this file: looks at the room
    /// that is left.
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
        let turn = gate.look(room.free_bytes);
        if let Some(Turn::Shut) = turn {
            self.shut(fs, fd);
        }
        let Some((ino, bytes)) = late else { return };
        match result {
            Ok(_) => {
                let asked = gate.came(ino, bytes, fs.room_of(ino).unwrap_or(1));
                if !asked {
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

    /// Begins to have the kernel ask.
    pub(super) fn shut<F: FileSystem>(&self, fs: &F, fd: &OwnedFd) {
        let mut porter = self.porter.borrow_mut();
        if porter.is_none() {
            // Without, writes are refused when they come, and close, fsync or msync tell of it.
            *porter = Porter::start(fd).ok();
        }
        drop(porter);
        // A process that is writing now would go on as fast as we read, until the other thread has come to
        // his file.
        if let Some(porter) = &*self.porter.borrow() {
            porter.tell_now(self.recent.borrow().iter().copied().map(node).collect());
        }
        self.tell(Job::Sweep(fs.held().into_iter().map(node).collect()));
    }

    /// Looks at the room for the first time.
    pub(super) fn look<F: FileSystem>(&self, fs: &F, fd: &OwnedFd) {
        let room = fs.room().map_or(u64::MAX, |room| room.free_bytes);
        let turn = self.gate.borrow_mut().as_mut().and_then(|gate| gate.look(room));
        if turn == Some(Turn::Shut) {
            self.shut(fs, fd);
        }
    }

    fn tell(&self, job: Job) {
        if let Some(porter) = &*self.porter.borrow() {
            porter.tell(job);
        }
    }

    /// A file lost its set-id bits, and the kernel's next question for its attributes must be
    /// answered so that it believes the answer.
    pub(super) fn fell(&self, node: u64) {
        if self.is_shut() {
            self.fell.borrow_mut().insert(node);
        }
    }

    /// An answer with a file's attributes: keeps them out of date if they are to be. Gives the
    /// packet back if it is to be sent as always.
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

    /// An answer was sent: keeps the attributes out of date that it told.
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

/// Has the kernel write out what it holds of the mount.
fn sync(place: &Place) -> io::Result<()> {
    let dir = File::open(&place.dir)?;
    let device = rustix::fs::fstat(&dir)?.st_dev;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    if device != place.device {
        return Err(io::ErrorKind::NotFound.into());
    }
    // What could not be written has been counted where it came.
    let _ = rustix::fs::syncfs(&dir);
    Ok(())
}

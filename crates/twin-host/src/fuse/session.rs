//! The conversation of a mounted file system with the kernel.
//!
//! Contract: the thread of the core reads, executes and answers every request. One packet is one
//! event of the run (see [`FlightLog`](crate::FlightLog)): its operations are polled in place, in
//! order, and an operation that has to wait continues as a task. Requests of the front end itself
//! (to give back an entry whose reply the kernel did not take) are events too.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use rustix::io::Errno;
use twin_disk::{Block, Buf, BufPool, Bytes};
use twin_fs::{Cred, FileSystem, FsError, LookupEntry, Op, Reply, Request};
use twin_rt::{Category, Time};

use zerocopy::{Immutable, IntoBytes};

use super::abi::{self, InHeader};
use super::asker::can_write;
use super::blanks::Blanks;
use super::counts::Counts;
use super::errand::Errand;
use super::errno::errno;
use super::fetch::{Fetcher, Waiter};
use super::gatekeeper::{Decision, Gatekeeper, PendingWrite};
use super::mount::Mount;
use super::negotiate::negotiate;
use super::options::{Agreed, SessionOptions};
use super::parse::parse;
use super::porter::tell_stale;
use super::replacement::{Replacement, replacement};
use super::reply::{Answer, Terms, debts, encode, negative_entry, own_attr, own_open, prime_entry};
use super::reply_batch::ReplyBatch;
use super::stat::stat_seen_from;
use super::translate::{Expect, Plan, WriteHow, node, plan, write_op};
use crate::host::{Host, Source, Watch};
use crate::offload::offload;

mod pages;
mod sending;

/// The position of packets in their buffers, chosen so that the data of a write is aligned.
const PACKET_AT: usize = PAYLOAD_AT - abi::WRITE_HEAD;
const PAYLOAD_AT: usize = 4096;
/// Data of writes of at least this many bytes stays in the packet's buffer. Shorter data is copied,
/// because a slice keeps its whole buffer in memory.
const KEEP_FROM: usize = 128 << 10;
/// Large buffers that are prepared when a session begins: as many as a sequential reader has in
/// flight.
const READY_BUFFERS: usize = 12;
/// How long a deputy may take to hear where the mount is.
const PROMPT: Duration = Duration::from_secs(10);
/// The most pieces that one system call takes (IOV_MAX).
const MAX_PIECES: usize = 1024;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The file system was unmounted.
    Unmounted,
    /// The session was told to stop while clients still used it.
    Abandoned,
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Packets of the kernel.
    pub packets: u64,
    /// Operations that the core executed.
    pub operations: u64,
    /// Operations that had to wait.
    pub waited: u64,
    /// Number of packets that made no sense.
    pub malformed: u64,
}

/// Serves a file system to the kernel. Cheap to clone.
pub struct Session<F>(Rc<Inner<F>>);

impl<F> Clone for Session<F> {
    fn clone(&self) -> Self {
        Session(Rc::clone(&self.0))
    }
}

struct Inner<F> {
    host: Host,
    fs: Rc<F>,
    fd: Rc<OwnedFd>,
    options: SessionOptions,
    agreed: Cell<Agreed>,
    prime_name: String,
    link: Link,
    watch: RefCell<Option<Watch>>,
    next_id: Cell<u64>,
    in_flight: Cell<usize>,
    /// Operations that have to wait, by their number.
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    stats: Cell<SessionStats>,
    /// A buffer for heads of answers.
    spare: RefCell<Vec<u8>>,
    reply_batch: ReplyBatch,
    keeper: Gatekeeper,
    fetcher: Fetcher,
    blanks: Blanks,
    counts: Counts,
    /// True while a packet is handled, so that the driver asks for the next one before it sleeps.
    in_packet: Cell<bool>,
}

/// An operation that has to wait.
struct Waiting {
    unique: u64,
    name: &'static str,
    since: Time,
    silent: bool,
    /// True if the client has already got an error, so that the result is not sent.
    given_up: bool,
}

/// The state that the driver, which reads, shares with the session's task, which executes.
struct Link {
    fd: Rc<OwnedFd>,
    buffer_len: usize,
    buffers: BufPool,
    packet: RefCell<Option<Buf>>,
    /// Bytes of the packet that was read; zero if there is none.
    filled: Cell<usize>,
    /// References and opens to give back.
    debts: RefCell<VecDeque<Op>>,
    state: RefCell<SessionState>,
    waker: RefCell<Option<Waker>>,
}

enum SessionState {
    Open,
    Ended(End),
    Failed(io::Error),
}

impl Link {
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Reads one packet. Returns false if there is none.
    fn read(&self) -> bool {
        let mut slot = self.packet.borrow_mut();
        let buf = slot.get_or_insert_with(|| self.buffers.take(self.buffer_len));
        loop {
            match rustix::io::read(&self.fd, &mut buf[PACKET_AT..]) {
                Ok(0) => {
                    *self.state.borrow_mut() = SessionState::Ended(End::Unmounted);
                    return true;
                }
                Ok(len) => {
                    self.filled.set(len);
                    return true;
                }
                // The client gave up before its request was read; there may be another request.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(Errno::NODEV | Errno::CONNABORTED) => {
                    *self.state.borrow_mut() = SessionState::Ended(End::Unmounted);
                    return true;
                }
                Err(error) => {
                    *self.state.borrow_mut() = SessionState::Failed(error.into());
                    return true;
                }
            }
        }
    }
}

impl<F: FileSystem> Source for Inner<F> {
    fn take_event(&self) -> bool {
        if !matches!(*self.link.state.borrow(), SessionState::Open) {
            return false;
        }
        let own = self.keeper.has_ready()
            || self.fetcher.has_ready()
            || !self.link.debts.borrow().is_empty();
        let something = own || self.link.read();
        if something {
            self.link.wake();
        } else {
            self.send_held();
        }
        something
    }
}

impl<F: FileSystem> Session<F> {
    /// A session over an open, non-blocking `/dev/fuse` whose mount exists or will follow.
    pub fn new(host: &Host, fd: Rc<OwnedFd>, fs: Rc<F>, options: SessionOptions) -> Session<F> {
        let link = Link {
            fd: Rc::clone(&fd),
            buffer_len: PAYLOAD_AT + options.max_write as usize,
            buffers: host.buffers(),
            packet: RefCell::default(),
            filled: Cell::new(0),
            debts: RefCell::default(),
            state: RefCell::new(SessionState::Open),
            waker: RefCell::default(),
        };
        // A name that no client uses by chance.
        let prime_name = format!(".twinfs-{}-{}", std::process::id(), host.rt().now().0);
        Session(Rc::new(Inner {
            host: host.clone(),
            fs,
            fd,
            options,
            agreed: Cell::default(),
            prime_name,
            link,
            watch: RefCell::default(),
            next_id: Cell::new(1),
            in_flight: Cell::new(0),
            waiting: RefCell::default(),
            stats: Cell::default(),
            spare: RefCell::default(),
            reply_batch: ReplyBatch::default(),
            keeper: Gatekeeper::default(),
            fetcher: Fetcher::default(),
            blanks: Blanks::default(),
            counts: Counts::default(),
            in_packet: Cell::new(false),
        }))
    }

    /// Serves until the file system is unmounted or the session is abandoned, and until every
    /// operation has ended.
    ///
    /// # Errors
    /// If `/dev/fuse` cannot be read.
    pub async fn run(&self) -> io::Result<End> {
        let inner = &self.0;
        let source: Rc<dyn Source> = Rc::clone(inner) as Rc<dyn Source>;
        let watch = inner.host.watch(Rc::clone(&inner.fd), source)?;
        *inner.watch.borrow_mut() = Some(watch);
        inner.link.buffers.prepare(READY_BUFFERS, inner.link.buffer_len);
        let end = poll_fn(|cx| {
            if inner.link.filled.get() > 0 {
                inner.handle_packet();
            } else if let Some(pending) = inner.keeper.next_ready() {
                inner.pass_gate(pending);
            } else if let Some((waiter, fetched)) = inner.fetcher.next_ready() {
                inner.go_on(waiter, fetched);
            } else {
                inner.pay_debt();
            }
            *inner.link.waker.borrow_mut() = Some(cx.waker().clone());
            let ended = !matches!(*inner.link.state.borrow(), SessionState::Open);
            if ended {
                // A closed connection would report itself readable for ever, so it is no longer
                // watched.
                inner.watch.borrow_mut().take();
                // No further packet is read, so nothing else would send the held answers.
                inner.send_held();
            }
            let idle = inner.in_flight.get() == 0;
            if ended && idle { Poll::Ready(()) } else { Poll::Pending }
        });
        end.await;
        match std::mem::replace(
            &mut *inner.link.state.borrow_mut(),
            SessionState::Ended(End::Abandoned),
        ) {
            SessionState::Failed(error) => Err(error),
            SessionState::Ended(end) => Ok(end),
            SessionState::Open => unreachable!("it ended"),
        }
    }

    /// Ends the session although the file system is still mounted. Operations under way end first.
    pub fn abandon(&self) {
        let mut state = self.0.link.state.borrow_mut();
        if matches!(*state, SessionState::Open) {
            *state = SessionState::Ended(End::Abandoned);
            self.0.link.wake();
        }
    }

    /// The operation that has waited longest, and the time when it began to wait.
    pub fn oldest_wait(&self) -> Option<(&'static str, Time)> {
        let waiting = self.0.waiting.borrow();
        waiting.values().find(|w| !w.given_up).map(|w| (w.name, w.since))
    }

    /// Fails the requests of all waiting clients with EIO, whatever becomes of their operations.
    /// For a core that does not answer any more.
    pub fn give_up_waiting(&self) {
        let inner = &self.0;
        let mut told = Vec::new();
        for waiting in inner.waiting.borrow_mut().values_mut().filter(|w| !w.given_up) {
            waiting.given_up = true;
            inner.in_flight.set(inner.in_flight.get() - 1);
            if !waiting.silent {
                told.push(waiting.unique);
            }
        }
        told.into_iter().for_each(|unique| inner.refuse(unique, Errno::IO));
        inner.link.wake();
    }

    /// True if opening our own file once tells the kernel that no open needs a request, not even that
    /// of a file just created.
    pub(super) fn wants_priming(&self) -> bool {
        !self.0.options.executes_opens()
    }

    /// Tells the session where it is mounted, and its deputy.
    ///
    /// # Errors
    /// If the host refuses to wait for the deputy.
    pub(super) fn placed(&self, mount: &Mount) -> io::Result<()> {
        let inner = &self.0;
        if let Some((place, collected_bytes)) = mount.place(&inner.prime_name) {
            inner.keeper.bound(collected_bytes);
            // It calls nothing for that, so this thread can wait for it.
            mount.deputy().ask_and_wait(&Errand::Know(place), PROMPT)?;
        }
        mount.deputy().attend(&inner.host)?;
        inner.fetcher.employ(mount.deputy(), mount.is_read_only());
        Ok(())
    }

    /// The name of our own file.
    #[cfg(test)]
    pub(super) fn own_name(&self) -> &str {
        &self.0.prime_name
    }

    /// Gives the session a deputy without a mount.
    #[cfg(test)]
    pub(super) fn employ(&self, deputy: &super::Deputy) {
        deputy.attend(&self.0.host).unwrap();
        self.0.fetcher.employ(deputy, false);
    }

    /// The counters so far.
    pub fn stats(&self) -> SessionStats {
        self.0.stats.get()
    }
}

impl<F: FileSystem> Inner<F> {
    fn count(&self, change: impl FnOnce(&mut SessionStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    fn handle_packet(self: &Rc<Self>) {
        let len = self.link.filled.replace(0);
        let Some(buf) = self.link.packet.borrow_mut().take() else { return };
        self.count(|stats| stats.packets += 1);
        let packet = &buf[PACKET_AT..PACKET_AT + len];
        let (header, planned) = match parse(packet) {
            Ok((header, call)) => {
                self.host.rt().log(Category::Fuse, abi::opcode_name(header.opcode), || {
                    [
                        ("node", header.nodeid),
                        ("bytes", header.len.into()),
                        ("pid", header.pid.into()),
                    ]
                });
                let (options, agreed) = (&self.options, self.agreed.get());
                let planned = plan(&header, call, options, &agreed, self.prime_name.as_bytes());
                match self.fetcher.is_own(header.pid) {
                    true => (header, planned.of_deputy()),
                    false => (header, planned),
                }
            }
            Err(malformed) => {
                self.count(|stats| stats.malformed += 1);
                (self.options.report)(&malformed.to_string());
                if let Some(unique) = malformed.unique {
                    self.refuse(unique, Errno::INVAL);
                }
                *self.link.packet.borrow_mut() = Some(buf);
                return;
            }
        };
        if let Plan::Write { cred, ino, off, len, how, stale } = planned {
            let data = self.take_data(buf, len);
            self.in_packet.set(true);
            let expect = Expect::Written { stale, late: how == WriteHow::Late };
            self.enter(&header, cred, write_op(ino, off, data, how), expect);
            self.in_packet.set(false);
            return;
        }
        // No slice of the packet is in use any more.
        *self.link.packet.borrow_mut() = Some(buf);
        self.carry_out(&header, planned);
    }

    /// Takes the data of a write out of the buffer into which it was read.
    fn take_data(&self, buf: Buf, len: usize) -> Bytes {
        if len >= KEEP_FROM {
            return buf.freeze().slice(PAYLOAD_AT, len);
        }
        let data = Bytes::copy_of(&buf[PAYLOAD_AT..PAYLOAD_AT + len]);
        *self.link.packet.borrow_mut() = Some(buf);
        data
    }

    fn carry_out(self: &Rc<Self>, header: &InHeader, plan: Plan) {
        let unique = header.unique;
        match plan {
            Plan::Ask(cred, Op::GetAttr { ino }, Expect::Gate) if self.keeper.guards(ino) => {
                self.pass_gate(PendingWrite { header: *header, cred, ino });
            }
            // The answer depends on pages that the kernel may hold.
            Plan::Ask(cred, op @ (Op::Seek { .. } | Op::Sync), expect)
                if self.must_fetch(&op, expect) =>
            {
                let node = matches!(op, Op::Seek { .. }).then_some(header.nodeid);
                self.fetch(node, Waiter::Enter { header: *header, cred, op, expect });
            }
            // The file that gets the name may have pages in the kernel.
            Plan::Ask(cred, op @ Op::Rename { .. }, expect) if self.collects() => {
                match replacement(&*self.fs, &op) {
                    Replacement::None => self.enter(header, cred, op, expect),
                    by => {
                        let waiter = Waiter::Enter { header: *header, cred, op, expect };
                        self.fetch_replacement(by.node(), waiter);
                    }
                }
            }
            Plan::Ask(cred, op, expect) => self.enter(header, cred, op, expect),
            Plan::Forget(ops) => {
                for op in ops {
                    if let Op::Forget { ino, .. } = op {
                        self.blanks.forget(node(ino));
                        self.counts.forget(node(ino));
                    }
                    self.enter(header, Cred::root(), op, Expect::Silence);
                }
            }
            Plan::Refuse(errno) => self.refuse(unique, errno),
            Plan::Accept => {
                let _ = self.send(unique, None, self.answer());
            }
            Plan::Prime => self.tell(unique, &prime_entry()),
            Plan::Fetch => self.fetch(None, Waiter::Pages { unique }),
            Plan::OwnAttr => self.tell(unique, &own_attr()),
            Plan::OwnOpen { dir } => self.tell(unique, &own_open(dir, &self.options)),
            Plan::OwnData { len } => {
                let mut answer = self.answer();
                answer.data.push(Block::Zero(len));
                let _ = self.send(unique, None, answer);
            }
            Plan::TellDaemon => {
                let mut answer = self.answer();
                answer.push(&abi::IoctlOut::default());
                answer.push(&std::process::id());
                let _ = self.send(unique, None, answer);
            }
            Plan::TellLost => {
                let mut answer = self.answer();
                answer.push(&abi::IoctlOut::default());
                answer.push(&self.keeper.lost());
                let _ = self.send(unique, None, answer);
            }
            Plan::TellRecording => {
                let ended = self.options.recording_ended.as_ref().is_some_and(|ended| ended());
                let mut answer = self.answer();
                answer.push(&abi::IoctlOut::default());
                answer.push(&u32::from(ended));
                let _ = self.send(unique, None, answer);
            }
            Plan::Init { init, flags2 } => self.agree(unique, &init, flags2),
            Plan::Write { .. } => unreachable!("it took its data from the packet"),
        }
    }

    /// Agrees with the kernel on the protocol.
    fn agree(&self, unique: u64, init: &abi::InitIn, flags2: u32) {
        match negotiate(init, flags2, &self.options) {
            Ok((out, agreed)) => {
                self.agreed.set(agreed);
                self.fetcher.begin(agreed.tells_written);
                self.blanks.begin(agreed.writeback, agreed.gated);
                let mut answer = self.answer();
                answer.push(&out);
                let _ = self.send(unique, None, answer);
                if let (true, Some(room)) = (agreed.gated, self.fs.room()) {
                    self.keeper.begin(room);
                    self.keeper.look(&*self.fs, &self.fd);
                }
            }
            Err(errno) => {
                let (major, minor) = (init.major, init.minor);
                (self.options.report)(&format!(
                    "the kernel speaks FUSE {major}.{minor}; 7.{} or newer is needed",
                    abi::OLDEST_MINOR
                ));
                self.refuse(unique, errno);
            }
        }
    }

    /// Gives an operation to the core and polls it in place. If it has to wait, it continues as a
    /// task.
    fn enter(self: &Rc<Self>, header: &InHeader, cred: Cred, op: Op, expect: Expect) {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let aside = self.fetcher.is_own(header.pid);
        let client = if aside { Request::NO_CLIENT } else { header.pid };
        let request = Request { id, client, cred, op };
        if let Some(flight) = self.host.flight() {
            flight.arrived(&request);
        }
        if !aside {
            self.count(|stats| stats.operations += 1);
        }
        self.in_flight.set(self.in_flight.get() + 1);
        let before = self.in_flight.get();
        let (inner, unique) = (Rc::clone(self), header.unique);
        let (name, silent) = (abi::opcode_name(header.opcode), expect == Expect::Silence);
        let (opcode, nodeid) = (header.opcode, header.nodeid);
        let late = match &request.op {
            Op::WriteBack { ino, data, .. } => Some((*ino, data.len())),
            _ => None,
        };
        self.host.rt().run_or_spawn(name, async move {
            let result = match expect {
                Expect::Stat(ino) => Box::pin(stat_seen_from(&*inner.fs, ino, request)).await,
                _ => inner.fs.execute(request).await,
            };
            inner.keeper.ended(&*inner.fs, &inner.fd, late, &result);
            inner.note_count(opcode, nodeid, late.is_some() && result.is_ok());
            let waited = inner.waiting.borrow_mut().remove(&id);
            if waited.is_some() {
                inner.fetcher.ended(id);
            }
            if waited.is_some_and(|waited| waited.given_up) {
                return;
            }
            inner.done((unique, aside), expect, result);
            inner.in_flight.set(inner.in_flight.get() - 1);
            if inner.in_flight.get() == 0
                && !matches!(*inner.link.state.borrow(), SessionState::Open)
            {
                inner.link.wake();
            }
        });
        if self.in_flight.get() == before {
            self.count(|stats| stats.waited += 1);
            let since = self.host.rt().now();
            let waiting = Waiting { unique, name, since, silent, given_up: false };
            self.waiting.borrow_mut().insert(id, waiting);
            if opcode == abi::opcode::WRITE {
                self.fetcher.write_waits(id);
            }
        }
    }

    /// Lets a client write, refuses, or makes it wait.
    fn pass_gate(self: &Rc<Self>, pending: PendingWrite) {
        if !Gatekeeper::is_kept(pending.ino) && self.blanks.take(pending.header.nodeid) {
            // The asker may be a reader, whose question comes because the kernel keeps no
            // attributes.
            let PendingWrite { header, cred, ino } = pending;
            return self.enter(&header, cred, Op::GetAttr { ino }, Expect::Gate);
        }
        match self.keeper.check(&*self.fs, pending) {
            Decision::Enter(PendingWrite { header, cred, ino }) => {
                self.enter(&header, cred, Op::GetAttr { ino }, Expect::Gate);
            }
            Decision::Refuse(pending) => self.refuse_writer(pending),
            Decision::Wait => {}
            Decision::CallBack => self.call_back(),
        }
    }

    /// Refuses a client if it can be a writer. A reader, for whom the kernel asks in the same way
    /// when it has no attributes that it may use, gets its answer. A thread looks, because the
    /// client may have any number of descriptors; there is one for all clients.
    fn refuse_writer(self: &Rc<Self>, pending: PendingWrite) {
        if !self.keeper.doubt(pending) {
            return;
        }
        let inner = Rc::clone(self);
        let decided = async move {
            loop {
                let doubted = inner.keeper.doubted();
                if doubted.is_empty() {
                    return;
                }
                let asked: Vec<(u32, u64)> =
                    doubted.iter().map(|one| (one.header.pid, one.header.nodeid)).collect();
                let look = offload(&inner.host, move || {
                    let reads =
                        |&(pid, node): &(u32, u64)| matches!(can_write(pid, node), Ok(false));
                    asked.iter().map(reads).collect::<Vec<bool>>()
                });
                let readers = match look {
                    Ok(look) => look.await.unwrap_or_default(),
                    Err(_) => Vec::new(),
                };
                for (at, PendingWrite { header, cred, ino }) in doubted.into_iter().enumerate() {
                    // Of whom nothing is known may write.
                    match readers.get(at) {
                        Some(true) => inner.enter(&header, cred, Op::GetAttr { ino }, Expect::Gate),
                        _ => inner.refuse(header.unique, Gatekeeper::refusal(ino)),
                    }
                }
                inner.nudge();
            }
        };
        self.host.rt().spawn("refuse", decided);
    }

    /// Makes the kernel send all writes that it has collected.
    fn call_back(self: &Rc<Self>) {
        let inner = Rc::clone(self);
        let called = async move {
            if !inner.fetcher.all().await {
                let failed = match inner.keeper.notices(&inner.fd) {
                    Ok(work) => match offload(&inner.host, work) {
                        Ok(work) => work.await.err().map(|error| error.to_string()),
                        Err(error) => Some(error.to_string()),
                    },
                    Err(error) => Some(error.to_string()),
                };
                if let Some(error) = failed {
                    (inner.options.report)(&format!("calling data back: {error}"));
                }
            }
            inner.keeper.called_back();
            inner.nudge();
        };
        self.host.rt().spawn("call back", called);
    }

    /// Tells the host that there is an event that the descriptor does not show.
    fn nudge(&self) {
        if let Some(watch) = &*self.watch.borrow() {
            watch.nudge();
        }
    }

    /// Answers an operation that has ended, of a client or (`aside`) of the deputy.
    fn done(
        self: &Rc<Self>,
        (unique, aside): (u64, bool),
        expect: Expect,
        result: Result<Reply, FsError>,
    ) {
        let reply = match result {
            Ok(reply) => reply,
            Err(error) => return self.failed(unique, expect, &error),
        };
        if expect == Expect::Silence {
            return;
        }
        if let (true, Expect::Written { stale: None, late: true }, Reply::Written(bytes)) =
            (self.in_packet.get(), expect, &reply)
        {
            if !self.reply_batch.hold(unique, *bytes) {
                self.send_held();
            }
            return;
        }
        match reply {
            // The deputy asks while it fetches.
            Reply::Attr(attr) if !aside && self.must_look(expect, &attr) => {
                self.fetch(Some(node(attr.ino)), Waiter::Attr { unique, expect, attr });
            }
            reply => self.reply(unique, expect, reply, true),
        }
    }

    /// Sends the reply of an operation. `fetched` is false if the kernel may hold pages of a file that
    /// are newer than its attributes.
    fn reply(&self, unique: u64, expect: Expect, mut reply: Reply, fetched: bool) {
        let now = self.host.rt().now();
        self.blanks.prepare(expect, &mut reply, now, self.keeper.is_shut(), fetched);
        let terms = Terms { options: &self.options, blanks: &self.blanks };
        let mut answer = self.answer();
        let errno = match encode(&mut answer, expect, &mut reply, terms) {
            Ok(fits) => fits.err(),
            Err(_) => {
                (self.options.report)(&format!(
                    "the core gave a wrong kind of reply to {expect:?}"
                ));
                Some(Errno::IO)
            }
        };
        if let Expect::Written { stale: Some(node), .. } | Expect::Allocated { stale: Some(node) } =
            expect
        {
            self.keeper.fell(node);
            let _ = tell_stale(&self.fd, node, -1);
        }
        // The kernel ignores the answer when it hands over times.
        if expect != Expect::Changed
            && let Reply::Attr(attr) | Reply::Entry(LookupEntry { attr, .. }) = &reply
        {
            let takes = || self.fs.room_of(attr.ino).unwrap_or(0);
            self.counts.told(node(attr.ino), takes);
        }
        if errno.is_none() && answer.data.is_empty() && self.keeper.is_shut() {
            answer.finish(unique, None);
            match self.keeper.answer(expect, &reply, std::mem::take(&mut answer.head)) {
                None => return,
                Some(packet) => answer.head = packet,
            }
        }
        let sent = self.send(unique, errno, answer);
        if sent.is_err() || errno.is_some() {
            // The kernel did not take the reply, so it does not know the references in it.
            self.link.debts.borrow_mut().extend(debts(expect, &reply));
            self.nudge();
        } else {
            self.keeper.answered(expect, &reply);
        }
    }

    fn failed(&self, unique: u64, expect: Expect, error: &FsError) {
        if error.is_damage() {
            (self.options.report)(&error.to_string());
        }
        if let (Expect::Written { late: true, .. }, FsError::NoSpace) = (expect, error) {
            (self.options.report)(
                "no room for data that was written before and that the kernel had collected: it \
                 is lost, and who closes or fsyncs its file is told (ENOSPC)",
            );
        }
        match (expect, error) {
            (Expect::Silence, _) => {}
            (Expect::Lookup, FsError::NotFound) if self.options.negative_timeout_ns > 0 => {
                let mut answer = self.answer();
                answer.push(&negative_entry(&self.options));
                let _ = self.send(unique, None, answer);
            }
            // The kernel then looks the name up again.
            (Expect::Create { exclusive: false, .. }, FsError::Exists) => {
                self.refuse(unique, Errno::STALE);
            }
            (_, error) => self.refuse(unique, errno(error)),
        }
    }

    /// Gives back one reference or open that the kernel did not take.
    fn pay_debt(self: &Rc<Self>) {
        let debt = self.link.debts.borrow_mut().pop_front();
        if let Some(op) = debt {
            let header = InHeader { opcode: abi::opcode::FORGET, ..InHeader::default() };
            self.enter(&header, Cred::root(), op, Expect::Silence);
        }
    }

    fn answer(&self) -> Answer {
        Answer::new(self.spare.take())
    }

    fn send_held(&self) {
        while let Some((unique, bytes)) = self.reply_batch.next() {
            let mut answer = self.answer();
            answer.push(&abi::WriteOut { size: bytes as u32, padding: 0 });
            // A client that gave up does not need its answer.
            let _ = self.send(unique, None, answer);
        }
    }

    /// Sends an answer that needs no operation.
    fn tell<T: IntoBytes + Immutable>(&self, unique: u64, part: &T) {
        let mut answer = self.answer();
        answer.push(part);
        let _ = self.send(unique, None, answer);
    }

    fn refuse(&self, unique: u64, errno: Errno) {
        let _ = self.send(unique, Some(errno), self.answer());
    }
}

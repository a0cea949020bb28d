//! Calls of a client that never gives up: numbers, retransmission, reconnection.
//!
//! Contract: [`Rpc::call`] returns when a reply has come, however long that takes. A call that has
//! no reply is sent again with the same number and the same bytes: after the timeout, which doubles,
//! or at once when its connection had to be made anew. A second reply to a call is dropped.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::{Cred, FsError};
use twin_rt::{Event, Nanos, Rt, SECS, Time};

use super::settings::TIMEOUT_MAX_NS;
use crate::rpc::{self, Caller};
use crate::status::Status;
use crate::xdr::{Garbage, Reader, Writer};

/// How long a client waits when the server asks it to come back later.
const LATER_NS: Nanos = 5 * SECS;
/// The most supplementary groups that a call names.
const GROUPS_MAX: usize = 16;

/// Takes the result of a call that was sent: the reply without its mark, or `None` if the
/// connection broke and was made anew, so that the call must be sent again.
pub type Deliver = Rc<dyn Fn(Option<Vec<u8>>)>;

/// Carries calls to a server and replies back: a network.
pub trait Carrier: 'static {
    /// Sends a call, without its mark. `deliver` may be called any number of times, also never.
    fn carry(&self, record: Bytes, deliver: Deliver);
}

/// Counters of a client's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Number of calls that were sent, without repetitions.
    pub calls: u64,
    /// Copies that were sent after the first.
    pub resent: u64,
    /// Replies that came for calls that had one.
    pub late: u64,
}

/// A call that waits for its reply.
struct Waiting {
    reply: RefCell<Option<Vec<u8>>>,
    /// When it is sent again.
    due: Cell<Time>,
    event: Event,
}

/// The calls of a client.
pub(super) struct Rpc {
    rt: Rt,
    carrier: Box<dyn Carrier>,
    next_xid: Cell<u32>,
    timeout_ns: Nanos,
    waiting: RefCell<BTreeMap<u32, Rc<Waiting>>>,
    /// The task that sends calls again is there.
    clock_runs: Cell<bool>,
    stats: Cell<CallStats>,
}

/// The results of a call.
pub(super) struct Results {
    record: Vec<u8>,
    at: usize,
    /// The status, which all results of NFS begin with.
    pub(super) status: u32,
    /// The call was sent more than once, so that an earlier copy may have been executed by a server
    /// that has forgotten it.
    pub(super) resent: bool,
    /// When the call was sent first.
    pub(super) sent: Time,
}

impl Results {
    fn of(record: Vec<u8>, resent: bool, sent: Time) -> Result<Results, FsError> {
        let (_, results) = rpc::parse_reply(&record).map_err(garbled)?;
        let refused = || FsError::inconsistent("the server refuses a call");
        let mut results = results.ok_or_else(refused)?;
        let status = results.u32().map_err(garbled)?;
        let at = results.position();
        Ok(Results { record, at, status, resent, sent })
    }

    /// The start of the server that refuses the call because its lease is not held; `None` if it does not.
    pub(super) fn lost(&self) -> Option<u64> {
        let lost = self.status == Status::LeaseLost as u32;
        lost.then(|| Reader::new(&self.record[self.at..]).u64().unwrap_or(0))
    }

    /// The results behind the status, or the error for which the status stands.
    pub(super) fn ok(&self) -> Result<Reader<'_>, FsError> {
        match Status::error(self.status) {
            Some(error) => Err(error),
            None => Ok(Reader::new(&self.record[self.at..])),
        }
    }
}

/// A reply that is not what the protocol says.
pub(super) fn garbled(_: Garbage) -> FsError {
    FsError::inconsistent("the server's reply is garbled")
}

fn caller(cred: &Cred) -> Caller {
    let groups = cred.groups.iter().copied().take(GROUPS_MAX).collect();
    Caller::User { uid: cred.uid, gid: cred.gid, groups }
}

impl Rpc {
    pub(super) fn new(rt: &Rt, carrier: Box<dyn Carrier>, xid: u32, timeout_ns: Nanos) -> Rpc {
        Rpc {
            rt: rt.clone(),
            carrier,
            next_xid: Cell::new(xid),
            timeout_ns,
            waiting: RefCell::default(),
            clock_runs: Cell::new(false),
            stats: Cell::default(),
        }
    }

    pub(super) fn stats(&self) -> CallStats {
        self.stats.get()
    }

    fn count(&self, change: impl FnOnce(&mut CallStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Calls a procedure of a program.
    pub(super) async fn call(
        self: &Rc<Self>,
        procedure: (u32, u32, u32),
        cred: &Cred,
        args: impl Fn(&mut Writer),
    ) -> Result<Results, FsError> {
        loop {
            let (xid, record) = self.record(procedure, cred, &args);
            let sent = self.rt.now();
            let (reply, resent) = self.exchange(xid, &record).await;
            let results = Results::of(reply, resent, sent)?;
            if results.status != Status::Jukebox as u32 {
                return Ok(results);
            }
            self.rt.sleep(LATER_NS).await;
        }
    }

    /// Calls a procedure once; `None` if there is no reply within `patience_ns`, or the connection breaks.
    pub(super) async fn once(
        self: &Rc<Self>,
        procedure: (u32, u32, u32),
        cred: &Cred,
        patience_ns: Nanos,
        args: impl Fn(&mut Writer),
    ) -> Option<Results> {
        let (xid, record) = self.record(procedure, cred, &args);
        let sent = self.rt.now();
        let waiting = self.begin(xid);
        let reply = self.copy(xid, &waiting, Bytes::copy_of(&record), patience_ns).await;
        self.waiting.borrow_mut().remove(&xid);
        Results::of(reply?, false, sent).ok()
    }

    /// The number and the bytes of a new call.
    fn record(
        &self,
        procedure: (u32, u32, u32),
        cred: &Cred,
        args: &impl Fn(&mut Writer),
    ) -> (u32, Vec<u8>) {
        let xid = self.next_xid.get();
        self.next_xid.set(xid.wrapping_add(1));
        let mut out = rpc::call(xid, procedure, &caller(cred));
        args(&mut out);
        self.count(|stats| stats.calls += 1);
        (xid, out.into_bytes().split_off(4))
    }

    fn begin(&self, xid: u32) -> Rc<Waiting> {
        let waiting = Rc::new(Waiting {
            reply: RefCell::default(),
            due: Cell::new(Time(0)),
            event: Event::new(),
        });
        self.waiting.borrow_mut().insert(xid, Rc::clone(&waiting));
        waiting
    }

    /// Sends a copy of a call and waits for a reply for so long.
    async fn copy(
        self: &Rc<Self>,
        xid: u32,
        waiting: &Waiting,
        record: Bytes,
        timeout_ns: Nanos,
    ) -> Option<Vec<u8>> {
        waiting.due.set(self.rt.now() + timeout_ns);
        self.carrier.carry(record, self.delivery(xid));
        self.run_clock();
        let rt = &self.rt;
        let over = || waiting.reply.borrow().is_some() || waiting.due.get() <= rt.now();
        waiting.event.wait_until(over).await;
        waiting.reply.borrow_mut().take()
    }

    /// Sends a record until a reply comes.
    async fn exchange(self: &Rc<Self>, xid: u32, record: &[u8]) -> (Vec<u8>, bool) {
        let waiting = self.begin(xid);
        let record = Bytes::copy_of(record);
        let (mut timeout_ns, mut copies) = (self.timeout_ns, 0u64);
        loop {
            copies += 1;
            if let Some(reply) = self.copy(xid, &waiting, record.clone(), timeout_ns).await {
                self.waiting.borrow_mut().remove(&xid);
                return (reply, copies > 1);
            }
            timeout_ns = (timeout_ns * 2).min(TIMEOUT_MAX_NS);
            self.count(|stats| stats.resent += 1);
        }
    }

    fn delivery(self: &Rc<Self>, xid: u32) -> Deliver {
        let rpc = Rc::downgrade(self);
        Rc::new(move |came| {
            let Some(rpc) = rpc.upgrade() else { return };
            let waiting = rpc.waiting.borrow().get(&xid).cloned();
            match (waiting, came) {
                (Some(waiting), Some(reply)) => {
                    waiting.reply.borrow_mut().get_or_insert(reply);
                    waiting.event.notify();
                }
                (Some(waiting), None) => {
                    waiting.due.set(Time(0));
                    waiting.event.notify();
                }
                (None, Some(_)) => rpc.count(|stats| stats.late += 1),
                (None, None) => {}
            }
        })
    }

    /// Starts the task that wakes calls whose timeout is over, unless it runs.
    fn run_clock(self: &Rc<Self>) {
        if self.clock_runs.replace(true) {
            return;
        }
        let (rpc, rt) = (Rc::downgrade(self), self.rt.clone());
        self.rt.spawn("retransmission", async move {
            loop {
                let due = {
                    let Some(rpc) = rpc.upgrade() else { return };
                    let waiting = rpc.waiting.borrow();
                    let Some(due) = waiting.values().map(|w| w.due.get()).min() else {
                        rpc.clock_runs.set(false);
                        return;
                    };
                    let now = rpc.rt.now();
                    waiting.values().filter(|w| w.due.get() <= now).for_each(|w| w.event.notify());
                    due.max(now + 1)
                };
                rt.sleep_until(due).await;
            }
        });
    }
}

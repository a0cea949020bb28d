//! Wrong models of leases, planted in the messages between clients and server, or in what the two are given.
//!
//! Contract: the product's code has no switch for them. A [`Cable`] is the network card of a machine: it is cut
//! when the machine is, dies with it, and has the bugs of a client; [`Meddler`] changes calls before the server
//! sees them, and has those of a server.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_nfs::client::{Carrier, Deliver};
use twin_nfs::lease::proc as lease;
use twin_nfs::{proc, rpc};
use twin_remote::Link;
use twin_rt::{Rt, SECS, Time};

/// A wrong model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A server that was started anew grants leases at once.
    NoGrace,
    /// A server that was started anew has the number of the start before, so that nobody notices.
    StartNotTold,
    /// A client uses its leases for ever.
    ExpiryNotChecked,
    /// A client counts its term from the reply, not from the call.
    TermFromReply,
    /// A client does not allow for clocks that run wrong.
    DriftIgnored,
    /// A client does not hear that its leases are claimed, and takes them as renewed.
    EvictionIgnored,
    /// A client gives its leases back before it has written what it owes.
    VacatedUnwritten,
    /// The server executes writes whose lease is not held any more.
    LateWriteAccepted,
    /// The server grants leases to read beside one to write.
    ReadBesideWrite,
    /// The server takes all clients for one.
    ClientsAlike,
    /// The server ends leases earlier than it says.
    EndsEarly,
    /// The calls of clients without leases do not wait for leases.
    PlainNotGated,
    /// The server answers COMMIT without doing it.
    CommitDoesNothing,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 13] = [
        Bug::NoGrace,
        Bug::StartNotTold,
        Bug::ExpiryNotChecked,
        Bug::TermFromReply,
        Bug::DriftIgnored,
        Bug::EvictionIgnored,
        Bug::VacatedUnwritten,
        Bug::LateWriteAccepted,
        Bug::ReadBesideWrite,
        Bug::ClientsAlike,
        Bug::EndsEarly,
        Bug::PlainNotGated,
        Bug::CommitDoesNothing,
    ];
}

/// Where the results of a reply are, and what they have: all results begin with a status.
mod at {
    pub(super) const STATUS: usize = 24;
    /// Of GET: whether the lease is to write, how long it runs, how long the call waited.
    pub(super) const WRITES: usize = 44;
    pub(super) const LEFT: usize = 48;
    pub(super) const WAITED: usize = 56;
    /// Of LISTEN: the term, how long the call waited, the number of claimed leases, and those.
    pub(super) const TERM: usize = 36;
    pub(super) const HELD: usize = 44;
    pub(super) const COUNT: usize = 56;
    pub(super) const CLAIMED: usize = 60;
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    let bytes = record.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from(u32_at(record, at)) << 32 | u64::from(u32_at(record, at + 4))
}

fn set_u64(record: &mut [u8], at: usize, value: u64) {
    if let Some(to) = record.get_mut(at..at + 8) {
        to.copy_from_slice(&value.to_be_bytes());
    }
}

/// The procedure of the program LEASE that a record calls, and where its arguments begin.
pub(super) fn lease_call(record: &[u8]) -> Option<(u32, usize)> {
    let call = rpc::parse(record).ok()?;
    (call.program == lease::LEASE).then_some((call.procedure, call.args_at))
}

/// The network card of a machine.
pub(super) struct Cable {
    pub(super) rt: Rt,
    pub(super) link: Link,
    /// No message gets through.
    pub(super) cut: Rc<Cell<bool>>,
    /// The machine has crashed.
    pub(super) dead: Rc<Cell<bool>>,
    pub(super) bug: Option<Bug>,
    /// When the first copy of each call was sent.
    pub(super) begun: RefCell<BTreeMap<u32, Time>>,
}

impl Carrier for Cable {
    fn carry(&self, record: Bytes, deliver: Deliver) {
        let now = self.rt.now();
        let sent = *self.begun.borrow_mut().entry(u32_at(&record, 0)).or_insert(now);
        if self.cut.get() || self.dead.get() {
            return;
        }
        let (cut, dead, bug) = (Rc::clone(&self.cut), Rc::clone(&self.dead), self.bug);
        let call = lease_call(&record);
        let (rt, link) = (self.rt.clone(), self.link.clone());
        let asked = record.clone();
        let deliver: Deliver = Rc::new(move |came| {
            if cut.get() || dead.get() {
                return;
            }
            let took_ns = rt.now().since(sent);
            let came = came.map(|reply| match call {
                Some((procedure, args_at)) if u32_at(&reply, at::STATUS) == 0 => {
                    if bug == Some(Bug::VacatedUnwritten) && procedure == lease::LISTEN {
                        give_back(&link, &asked, args_at, &reply);
                    }
                    spoil(bug, procedure, reply, took_ns)
                }
                _ => reply,
            });
            deliver(came);
        });
        self.link.carry(record, deliver);
    }
}

/// A term that is longer than a run.
const LONG_NS: u64 = 20 * SECS;

/// A reply as a client with a bug understands it.
fn spoil(bug: Option<Bug>, procedure: u32, mut reply: Vec<u8>, took_ns: u64) -> Vec<u8> {
    let (span, waited) = match procedure {
        lease::GET => (at::LEFT, at::WAITED),
        lease::LISTEN => (at::TERM, at::HELD),
        _ => return reply,
    };
    match bug {
        Some(Bug::ExpiryNotChecked) => set_u64(&mut reply, span, LONG_NS),
        Some(Bug::TermFromReply) => set_u64(&mut reply, waited, took_ns),
        Some(Bug::EvictionIgnored) if procedure == lease::LISTEN => {
            reply.truncate(at::COUNT);
            reply.extend([0; 4]);
        }
        Some(Bug::EndsEarly) => {
            let left = u64_at(&reply, span);
            set_u64(&mut reply, span, 2 * left);
        }
        _ => {}
    }
    reply
}

/// Sends a VACATE of all that a reply to LISTEN says is claimed.
fn give_back(link: &Link, asked: &[u8], args_at: usize, reply: &[u8]) {
    let count = u32_at(reply, at::COUNT);
    if count == 0 {
        return;
    }
    let root = rpc::Caller::User { uid: 0, gid: 0, groups: Vec::new() };
    let number = 0x4000_0000 | u32_at(asked, 0);
    let mut call = rpc::call(number, (lease::LEASE, lease::VERSION, lease::VACATE), &root);
    call.u64(u64_at(asked, args_at));
    call.u32(count);
    for nth in 0..count as usize {
        call.u64(u64_at(reply, at::CLAIMED + 16 * nth + 8));
    }
    link.carry(Bytes::copy_of(&call.into_bytes()[4..]), Rc::new(|_| {}));
}

/// Changes calls before the server sees them, and replies before the client does.
#[derive(Default)]
pub(super) struct Meddler {
    pub(super) bug: Option<Bug>,
    /// Who was last granted a lease to write, by handle.
    writers: RefCell<BTreeMap<Vec<u8>, u64>>,
}

impl Meddler {
    pub(super) fn new(bug: Option<Bug>) -> Meddler {
        Meddler { bug, writers: RefCell::default() }
    }

    /// The call that the server gets.
    pub(super) fn call(&self, record: &[u8]) -> Vec<u8> {
        let mut sent = record.to_vec();
        let Some((procedure, at)) = lease_call(record) else { return sent };
        match self.bug {
            Some(Bug::ClientsAlike) => set_u64(&mut sent, at, 1),
            Some(Bug::LateWriteAccepted)
                if procedure == lease::NFS
                    && [proc::WRITE, proc::COMMIT].contains(&u32_at(record, at + 16)) =>
            {
                set_u64(&mut sent, at + 8, 0);
            }
            Some(Bug::CommitDoesNothing) if commits(record) => {
                // A WRITE of nothing. Its arguments begin as those of COMMIT do, and it has two words more.
                let (procedure, end) = (at + 16, sent.len());
                sent[procedure..procedure + 4].copy_from_slice(&proc::WRITE.to_be_bytes());
                sent[end - 4..].fill(0);
                sent.extend([0; 8]);
            }
            Some(Bug::ReadBesideWrite) if reads(record) => {
                if let Some(&writer) = self.writers.borrow().get(&handle(record, at)) {
                    set_u64(&mut sent, at, writer);
                }
            }
            _ => {}
        }
        sent
    }

    /// The reply that the client gets.
    pub(super) fn reply(&self, record: &[u8], mut reply: Vec<u8>) -> Vec<u8> {
        const MARK: usize = 4;
        if self.bug == Some(Bug::CommitDoesNothing) && commits(record) {
            return as_of_commit(reply, MARK);
        }
        let Some((lease::GET, at)) = lease_call(record) else { return reply };
        if self.bug != Some(Bug::ReadBesideWrite) || u32_at(&reply, MARK + at::STATUS) != 0 {
            return reply;
        }
        if reads(record) {
            if let Some(to) = reply.get_mut(MARK + at::WRITES..MARK + at::WRITES + 4) {
                to.fill(0);
            }
        } else {
            self.writers.borrow_mut().insert(handle(record, at), u64_at(record, at));
        }
        reply
    }
}

/// True for a COMMIT under a lease.
fn commits(record: &[u8]) -> bool {
    let Some((lease::NFS, at)) = lease_call(record) else { return false };
    u32_at(record, at + 16) == proc::COMMIT
}

/// The reply to a WRITE as one to a COMMIT, which has the verifier alone behind the attributes.
fn as_of_commit(mut reply: Vec<u8>, mark: usize) -> Vec<u8> {
    let end = reply.len();
    if u32_at(&reply, mark + at::STATUS) == 0 {
        reply.drain(end - 16..end - 8);
        let left = 1 << 31 | (reply.len() - mark) as u32;
        reply[..mark].copy_from_slice(&left.to_be_bytes());
    }
    reply
}

/// The handle of a GET.
fn handle(record: &[u8], at: usize) -> Vec<u8> {
    let len = u32_at(record, at + 8) as usize;
    record.get(at + 12..at + 12 + len).unwrap_or_default().to_vec()
}

/// True for a GET of a lease to read.
fn reads(record: &[u8]) -> bool {
    let Some((lease::GET, at)) = lease_call(record) else { return false };
    u32_at(record, at + 12 + handle(record, at).len().next_multiple_of(4)) == 0
}

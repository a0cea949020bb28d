//! The write contract of the server under everything that may happen to it: calls that are lost,
//! repeated, late and out of order, restarts, power failures and failed write-back, in virtual
//! time.
//!
//! Contract: [`run`] is a function of its seed. Clients each work in a directory of their own, one
//! call at a time, and know what they may rely on. Checked are, after every restart and all the
//! time: what was acknowledged as durable is there; unstable data is gone only if the verifier
//! changed; no operation is executed twice; handles lead to their files or are stale.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_model::{ModelFs, NfsBug as Bug, Settings};
use twin_nfs::rpc;
use twin_nfs::{Export, Keys, Limits, Peer, Rules, Served, Server, proc};
use twin_rt::{ClockOnly, Event, MICROS, MILLIS, Rng, Rt, Time};

use super::client::{Client, Verdict};
use super::volume::{Disk, Volume};

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) calls: u64,
    pub(crate) sent_again: u64,
    pub(crate) losses: u64,
    pub(crate) restarts: u64,
    pub(crate) rewrites: u64,
}

/// Servers that are started one after the other.
const LIVES: u64 = 4;
const CLIENTS: u64 = 3;

/// The network and the server behind it, for one life of the server.
pub(crate) struct Net {
    pub(crate) rt: Rt,
    rng: RefCell<Rng>,
    server: Rc<Server>,
    bug: Option<Bug>,
    /// Calls under way, by their bytes; replies by number. For bugs.
    running: RefCell<BTreeSet<Vec<u8>>>,
    by_number: RefCell<std::collections::BTreeMap<u32, Vec<u8>>>,
    copies: Cell<u32>,
    pub(crate) sent_again: Cell<u64>,
    pub(crate) calls: Cell<u64>,
}

struct Slot {
    reply: RefCell<Option<Vec<u8>>>,
    late: Cell<bool>,
    event: Event,
}

impl Net {
    /// Sends a call until a reply comes back. The reply is without its mark.
    pub(crate) async fn exchange(self: &Rc<Self>, record: &[u8], calm: bool) -> Vec<u8> {
        self.calls.set(self.calls.get() + 1);
        let slot = Rc::new(Slot {
            reply: RefCell::default(),
            late: Cell::new(false),
            event: Event::new(),
        });
        loop {
            let (copies, wait) = {
                let mut rng = self.rng.borrow_mut();
                (if !calm && rng.chance(0.1) { 2 } else { 1 }, 20 * MILLIS)
            };
            for _ in 0..copies {
                self.send(record, &slot, calm);
            }
            slot.late.set(false);
            let (rt, alarm) = (self.rt.clone(), Rc::clone(&slot));
            self.rt.spawn("timeout", async move {
                rt.sleep(wait).await;
                alarm.late.set(true);
                alarm.event.notify();
            });
            slot.event.wait_until(|| slot.late.get() || slot.reply.borrow().is_some()).await;
            if let Some(reply) = slot.reply.borrow_mut().take() {
                return reply;
            }
            self.sent_again.set(self.sent_again.get() + 1);
        }
    }

    /// Sends one copy, which may be lost or late, and so may its reply.
    fn send(self: &Rc<Self>, record: &[u8], slot: &Rc<Slot>, calm: bool) {
        let (there, back, lost, reply_lost, port) = {
            let mut rng = self.rng.borrow_mut();
            let mut delay = || match rng.below(20) {
                _ if calm => 0,
                0 => rng.below(60 * MILLIS),
                _ => rng.below(500 * MICROS),
            };
            let (there, back) = (delay(), delay());
            (there, back, rng.chance(0.06), rng.chance(0.06), rng.below(900) as u16)
        };
        if lost && !calm {
            return;
        }
        let (net, slot, record) = (Rc::clone(self), Rc::clone(slot), record.to_vec());
        self.rt.spawn("packet", async move {
            net.rt.sleep(there).await;
            let peer = Peer { port, ..Peer::LOCAL_ROOT };
            let Some(reply) = net.answer(peer, record).await else { return };
            net.rt.sleep(back).await;
            if reply_lost && !calm {
                return;
            }
            // A late reply to a call that was answered is dropped by the client.
            slot.reply.borrow_mut().get_or_insert(reply);
            slot.event.notify();
        });
    }

    async fn answer(&self, peer: Peer, mut record: Vec<u8>) -> Option<Vec<u8>> {
        let xid = u32::from_be_bytes(record[..4].try_into().ok()?);
        let procedure = u32::from_be_bytes(record[20..24].try_into().ok()?);
        let again = match self.bug {
            Some(Bug::NoReplyCache) => true,
            Some(Bug::WritesNotCached) => procedure == proc::WRITE,
            Some(Bug::RunningNotCached) => self.running.borrow().contains(&record),
            Some(Bug::CallsByNumber) if proc::is_changing(procedure) => {
                if let Some(reply) = self.by_number.borrow().get(&xid) {
                    return Some(reply.clone());
                }
                false
            }
            _ => false,
        };
        let original = record.clone();
        if again {
            // A number of its own keeps the call out of the cache.
            self.copies.set(self.copies.get() + 1);
            record[..4].copy_from_slice(&(0x8000_0000 | self.copies.get()).to_be_bytes());
        }
        self.running.borrow_mut().insert(original.clone());
        let reply = self.server.answer(peer, Bytes::copy_of(&record)).await;
        self.running.borrow_mut().remove(&original);
        let mut reply = reply?[4..].to_vec();
        reply[..4].copy_from_slice(&xid.to_be_bytes());
        if self.bug == Some(Bug::CallsByNumber) && proc::is_changing(procedure) {
            self.by_number.borrow_mut().insert(xid, reply.clone());
        }
        Some(reply)
    }
}

/// Runs clients against servers that fail one after the other.
///
/// # Errors
/// The first promise that was broken.
pub(crate) fn run(seed: u64, bug: Option<Bug>) -> Verdict<Ran> {
    let mut rng = Rng::stream(seed, "contract");
    let mut ran = Ran::default();
    let model = ModelFs::new(Settings::default(), Time(0));
    let disk = Rc::new(RefCell::new(Disk::new(model)));
    let clients: Vec<_> =
        (0..CLIENTS).map(|n| Rc::new(RefCell::new(Client::new(n, seed)))).collect();
    for life in 0..=LIVES {
        let rt = Rt::new(Clock(Time((life + 1) * 1_000_000 * MILLIS)), seed);
        let volume = Rc::new(Volume::open(&rt, &disk, bug, rng.next_u64()));
        let net = start(&rt, &volume, bug, life, &mut rng);
        let lived = live(&rt, &net, &volume, &clients, life == LIVES, &mut rng);
        ran.calls += net.calls.get();
        ran.sent_again += net.sent_again.get();
        ran.losses += volume.losses.get();
        // Everything that is in memory or on its way is gone.
        rt.crash();
        lived.map_err(|what| format!("server {life}: {what}"))?;
        disk.borrow_mut().fail(&mut rng);
        ran.restarts += 1;
    }
    ran.rewrites = clients.iter().map(|client| client.borrow().rewrites).sum();
    Ok(ran)
}

/// The clock of a life.
struct Clock(Time);

impl twin_rt::Driver for Clock {
    fn start(&mut self) -> Time {
        self.0
    }

    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        ClockOnly::default().park(deadline)
    }
}

fn start(rt: &Rt, volume: &Rc<Volume>, bug: Option<Bug>, life: u64, rng: &mut Rng) -> Rc<Net> {
    let mut boot = [0; 16];
    boot[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
    if bug == Some(Bug::VerifierStays) {
        boot = [0; 16];
    }
    let key = if bug == Some(Bug::KeyChanges) { [life as u8; 16] } else { [7; 16] };
    let losses = Rc::clone(&volume.losses);
    let served =
        Served::new(Rc::clone(volume), Keys::of(key), Limits::default(), move || losses.get());
    let rules = Rules { lazy: bug == Some(Bug::EarlyReplies), ..Rules::default() };
    let export = Export { path: "/".into(), volume: 0, below: Vec::new(), rules };
    Rc::new(Net {
        rt: rt.clone(),
        rng: RefCell::new(Rng::new(rng.next_u64())),
        server: Rc::new(Server::new(boot, vec![served], vec![export])),
        bug,
        running: RefCell::default(),
        by_number: RefCell::default(),
        copies: Cell::new(0),
        sent_again: Cell::new(0),
        calls: Cell::new(0),
    })
}

fn live(
    rt: &Rt,
    net: &Rc<Net>,
    volume: &Rc<Volume>,
    clients: &[Rc<RefCell<Client>>],
    last: bool,
    rng: &mut Rng,
) -> Verdict<()> {
    let wait = |future| rt.block_on(future).map_err(|stalled| format!("{stalled:?}"))?;
    for client in clients {
        let client = Rc::clone(client);
        let net = Rc::clone(net);
        wait(Box::pin(async move { Client::verify(&client, &net).await })
            as twin_rt::BoxFuture<'_, Verdict<()>>)?;
    }
    if last {
        return Ok(());
    }
    let failed: Rc<RefCell<Option<String>>> = Rc::default();
    for client in clients {
        let (client, net, failed) = (Rc::clone(client), Rc::clone(net), Rc::clone(&failed));
        rt.spawn("client", async move {
            if let Err(what) = Client::work(&client, &net).await {
                failed.borrow_mut().get_or_insert(what);
            }
        });
    }
    let end = rng.range(5, 120) * MILLIS;
    let lossy = rng.chance(0.5);
    let mut spans = Vec::new();
    let mut at = 0;
    while at < end {
        let span = rng.range(1, 20) * MILLIS;
        spans.push(span);
        at += span;
    }
    let (rt2, volume) = (rt.clone(), Rc::clone(volume));
    wait(Box::pin(async move {
        for span in spans {
            rt2.sleep(span).await;
            if lossy {
                volume.lose();
            }
        }
        Ok(())
    }))?;
    let failed = failed.borrow_mut().take();
    failed.map_or(Ok(()), Err)
}

/// The head of a call of root.
pub(crate) fn head(xid: u32, program: u32, procedure: u32) -> twin_nfs::xdr::Writer {
    let root = rpc::Caller::User { uid: 0, gid: 0, groups: Vec::new() };
    rpc::call(xid, (program, 3, procedure), &root)
}

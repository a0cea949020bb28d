//! A life of the server: disk, volume, layer of bugs, server, and what is before it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_disk::{BlockDevice, Bytes, DeviceInfo, Io, IoKind, Pending, pending};
use twin_fs::Cpu;
use twin_nfs::{Keys, Limits, Peer, Served, Server, proc, rpc, xdr::Reader};
use twin_rt::{BoxFuture, Event, MICROS, Rng, Rt};
use twin_sim::{Platter, SimDisk, queue};

use super::Bug;
use super::bugs::Layer;
use super::faults::{Strike, What, When};
use super::{DURABLE_WITHIN_NS, Life, Scenario, Shared, Volume};

/// A device that can be cut from its power. Then nothing completes any more.
struct Plug {
    disk: SimDisk,
    on: Rc<Cell<bool>>,
    flushes: bool,
}

impl BlockDevice for Plug {
    fn info(&self) -> DeviceInfo {
        self.disk.info()
    }

    fn submit(&self, io: Io) -> Pending {
        match io.kind {
            _ if !self.on.get() => pending().1,
            IoKind::Flush if !self.flushes => Pending::ready(Ok(Vec::new())),
            _ => self.disk.submit(io),
        }
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight()
    }
}

/// A server that runs.
pub(super) struct Lived {
    pub(super) disk: SimDisk,
    pub(super) volume: twin_fs::Volume,
    pub(super) layer: Rc<Layer>,
    pub(super) server: Rc<Server>,
    on: Rc<Cell<bool>>,
}

impl Lived {
    /// Cuts the power.
    pub(super) fn off(&self) {
        self.on.set(false);
    }
}

/// Starts a server on what a disk holds.
pub(super) async fn start(
    rt: &Rt,
    scenario: &Scenario,
    (made, platter): (&Volume, Platter),
    life: &Life,
    number: u64,
    rng: &mut Rng,
) -> Result<Lived, String> {
    let model = if scenario.fixed { "instant" } else { "jitter" };
    let options = twin_sim::model::Options {
        size: Some(platter.size()),
        write_cache: Some(true),
        seed: rng.next_u64(),
        ..twin_sim::model::Options::default()
    };
    let entry = twin_sim::model::REGISTRY.get(model).map_err(|e| e.to_string())?;
    let model = entry.build(&options).map_err(|e| format!("{e:?}"))?;
    let disk = SimDisk::builder(rt, model).scheduler(queue::REGISTRY.default_entry().make());
    let disk = disk.platter(platter).faults(life.faults.clone()).crashable().start();
    let on = Rc::new(Cell::new(true));
    let flushes = scenario.bug != Some(Bug::FlushLies);
    let device = Rc::new(Plug { disk: disk.clone(), on: Rc::clone(&on), flushes });
    let settings = twin_fs::Settings {
        durable_within_ns: Some(DURABLE_WITHIN_NS),
        ..made.config.settings.clone().served()
    };
    let opened = made.config.of_layout.open(rt, device, Cpu::none(), settings).await;
    let volume = opened.map_err(|error| format!("server {number} does not start: {error}"))?.volume;
    let keeps = life.losses > 0 || scenario.strikes.iter().any(|strike| strike.what == What::Loss);
    let bug = scenario.bug;
    let layer = Rc::new(Layer::new(volume.clone(), bug, Rng::new(rng.next_u64()), keeps));
    let (losses, core) = (Rc::clone(&layer.losses), volume.core().clone());
    let stopped = move || core.poisoned().is_some();
    let also = stopped.clone();
    let losses = move || losses.get() + u64::from(also());
    let mut boot = [0; 16];
    if bug != Some(Bug::VerifierStays) {
        boot[..8].copy_from_slice(&(number + 1).to_le_bytes());
    }
    let key = if bug == Some(Bug::KeyChanges) { [number as u8; 16] } else { twin_remote::KEY };
    let served = Served::new(Rc::clone(&layer), Keys::of(key), Limits::default(), losses);
    let served = served.stopping(stopped);
    let export = twin_remote::export(bug == Some(Bug::EarlyReplies));
    let mut server = Server::new(boot, vec![served], vec![export]);
    if let Some((terms, waits)) = scenario.leases {
        server = server.with_leases(rt, terms, waits && number > 0);
    }
    let server = Rc::new(server);
    Ok(Lived { disk, volume, layer, server, on })
}

/// What is before a server: it counts calls, notes them, strikes, and has the bugs of repeated calls.
pub(super) struct Gate {
    pub(super) rt: Rt,
    pub(super) shared: Rc<Shared>,
    pub(super) bug: Option<Bug>,
    pub(super) strikes: Vec<Strike>,
    pub(super) arrived: Cell<u64>,
    /// A strike that ends the server.
    pub(super) struck: Cell<Option<What>>,
    pub(super) strike: Event,
    pub(super) running: RefCell<BTreeSet<Vec<u8>>>,
    pub(super) by_number: RefCell<BTreeMap<u32, Vec<u8>>>,
    pub(super) copies: Cell<u32>,
}

impl Gate {
    /// The answers of a server behind the gate.
    pub(super) fn before(self: &Rc<Self>, lived: &Rc<Lived>, number: u64) -> twin_remote::Answer {
        let (gate, lived) = (Rc::clone(self), Rc::downgrade(lived));
        Rc::new(move |peer, record| {
            let (gate, lived) = (Rc::clone(&gate), lived.clone());
            Box::pin(async move {
                let lived = lived.upgrade()?;
                gate.answer(&lived, number, peer, record).await
            }) as BoxFuture<'static, _>
        })
    }

    async fn answer(
        &self,
        lived: &Lived,
        number: u64,
        peer: Peer,
        record: Bytes,
    ) -> Option<Vec<u8>> {
        let machine = u64::from(peer.address.0[15]);
        let procedure = u32::from_be_bytes(record[20..24].try_into().ok()?);
        let nth = self.arrived.get() + 1;
        self.arrived.set(nth);
        self.shared.count(|ran| ran.calls += 1);
        self.shared.note(&[1, number, machine, procedure.into()]);
        self.strike(lived, nth, When::Before).await?;
        let reply = self.execute(lived, peer, &record, procedure).await?;
        // The mark, the head of the reply, the status.
        let status = rpc::parse_reply(&reply[4..]).ok().and_then(|(_, results)| results);
        let status = status.and_then(|mut r: Reader<'_>| r.u32().ok()).unwrap_or(u32::MAX);
        self.shared.note(&[2, number, machine, procedure.into(), status.into()]);
        self.strike(lived, nth, When::After).await?;
        Some(reply)
    }

    /// Executes the faults of a moment; `None` if the server has ended.
    async fn strike(&self, lived: &Lived, nth: u64, when: When) -> Option<()> {
        for strike in self.strikes.iter().filter(|strike| strike.at == nth && strike.when == when) {
            match strike.what {
                What::Message(_) => {}
                What::Loss => {
                    if lived.layer.lose().await {
                        self.shared.note(&[3]);
                        self.shared.count(|ran| ran.losses += 1);
                    }
                }
                what => {
                    self.struck.set(Some(what));
                    self.strike.notify();
                    return std::future::pending().await;
                }
            }
        }
        Some(())
    }

    async fn execute(
        &self,
        lived: &Lived,
        peer: Peer,
        record: &Bytes,
        procedure: u32,
    ) -> Option<Vec<u8>> {
        let xid = u32::from_be_bytes(record[..4].try_into().ok()?);
        let again = match self.bug {
            Some(Bug::NoReplyCache) => true,
            Some(Bug::WritesNotCached) => procedure == proc::WRITE,
            Some(Bug::RunningNotCached) => self.running.borrow().contains(&record.to_vec()),
            Some(Bug::CallsByNumber) if proc::is_changing(procedure) => {
                if let Some(reply) = self.by_number.borrow().get(&xid) {
                    return Some(reply.clone());
                }
                false
            }
            _ => false,
        };
        let mut sent = record.to_vec();
        if again {
            // A number of its own keeps the call out of the cache.
            self.copies.set(self.copies.get() + 1);
            sent[..4].copy_from_slice(&(0x8000_0000 | self.copies.get()).to_be_bytes());
        }
        if self.bug == Some(Bug::RunningNotCached) {
            self.running.borrow_mut().insert(record.to_vec());
            // Long enough that a copy may come.
            self.rt.sleep(100 * MICROS).await;
        }
        let reply = lived.server.answer(peer, Bytes::copy_of(&sent)).await;
        self.running.borrow_mut().remove(&record.to_vec());
        let mut reply = reply?;
        reply[4..8].copy_from_slice(&xid.to_be_bytes());
        if self.bug == Some(Bug::CallsByNumber) && proc::is_changing(procedure) {
            self.by_number.borrow_mut().insert(xid, reply.clone());
        }
        Some(reply)
    }
}

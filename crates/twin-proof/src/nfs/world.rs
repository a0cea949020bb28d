//! The run: servers one after the other, and what is compared at each start.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use twin_disk::Bytes;
use twin_fs::{Cpu, FsError, Identity, Op, ROOT_INO, Reply, Request};
use twin_lab::Config;
use twin_nfs::client::Client;
use twin_nfs::{Keys, Peer, Status, proc, rpc};
use twin_remote::{Link, Site};
use twin_rt::{Event, MILLIS, Rng, Rt, SECS, Time};
use twin_sim::faults::{FaultPlan, WriteOutcome};
use twin_sim::network::Network;
use twin_sim::{Platter, SimDisk, queue};

use super::app::{App, PIECE, Verdict};
use super::faults::{What, of_messages};
use super::server::{Gate, Lived, start};
use super::{DOWN_NS, End, Life, PATIENCE, Ran, Scenario, Shared, Volume};

/// A clock that stops a run that runs in circles.
pub(super) struct Patient {
    pub(super) steps: u64,
}

/// The most steps of a run.
pub(super) const STEPS: u64 = 2_000_000;

impl twin_rt::Driver for Patient {
    fn start(&mut self) -> Time {
        Time(1000 * SECS)
    }

    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        self.steps = self.steps.checked_sub(1)?;
        deadline.filter(|&deadline| deadline < PATIENCE)
    }
}

/// A new volume on a disk.
pub(super) fn make(config: &Config) -> Result<(Platter, u32), String> {
    let rt = Rt::new(Patient { steps: STEPS }, 1);
    let options = twin_sim::model::Options { size: config.size, ..Default::default() };
    let entry = twin_sim::model::REGISTRY.get("instant").map_err(|e| e.to_string())?;
    let model = entry.build(&options).map_err(|e| format!("{e:?}"))?;
    let disk =
        SimDisk::builder(&rt, model).scheduler(queue::REGISTRY.default_entry().make()).start();
    let identity = Identity { uuid: twin_remote::KEY, root: (0, 0, 0o755) };
    let device: Rc<dyn twin_disk::BlockDevice> = Rc::new(disk.clone());
    let made = rt.block_on(async {
        config.of_layout.mkfs(&rt, Rc::clone(&device), identity).await?;
        let settings = config.settings.clone();
        let opened = config.of_layout.open(&rt, device, Cpu::none(), settings).await?;
        let root = opened.volume.execute(Request::root(1, lookup(ROOT_INO, "."))).await?;
        opened.volume.close().await?;
        match root {
            Reply::Entry(root) => Ok((disk.platter(), root.generation)),
            _ => Err(FsError::inconsistent("the root is no inode")),
        }
    });
    rt.crash();
    made.map_err(|stalled| stalled.to_string())?.map_err(|error| error.to_string())
}

struct World<'a> {
    scenario: &'a Scenario,
    made: &'a Volume,
    rt: Rt,
    shared: Rc<Shared>,
    site: Site,
    gate: Rc<Gate>,
    apps: Vec<Rc<RefCell<App>>>,
    clients: Vec<Client>,
    rng: Rng,
}

/// Runs a scenario.
///
/// # Errors
/// The first promise that was broken.
pub fn run(scenario: &Scenario, made: &Volume) -> Result<Ran, String> {
    let rt = Rt::new(Patient { steps: STEPS }, scenario.seed);
    let mut world = World::new(&rt, scenario, made);
    let shared = Rc::clone(&world.shared);
    let ended = rt.block_on(world.run());
    let doing: Vec<_> = world.apps.iter().map(|app| format!("{:?}", app.borrow().doing)).collect();
    let (life, now, doing) = (shared.life.get(), rt.now(), doing.join(", "));
    rt.crash();
    let stats: Vec<_> = world.clients.iter().map(Client::stats).collect();
    let where_ = || {
        let calls = world.gate.arrived.get();
        format!("server {life}, at {now:?}, {calls} calls, {stats:?}, applications: {doing}")
    };
    ended.map_err(|stalled| format!("it does not end: {}; {stalled}", where_()))??;
    let digest = shared.digest.borrow().value();
    let ran = *shared.ran.borrow();
    Ok(Ran { digest, ..ran })
}

impl<'a> World<'a> {
    fn new(rt: &Rt, scenario: &'a Scenario, made: &'a Volume) -> World<'a> {
        let shared: Rc<Shared> = Rc::default();
        let rng = Rng::stream(scenario.seed, "nfs world");
        let network = Network::new(scenario.network.clone(), Rng::stream(scenario.seed, "network"));
        let network = network.with_plan(of_messages(&scenario.strikes));
        let network = Rc::new(RefCell::new(network));
        let site = Site::new(rt, Cpu::none(), 0);
        let (strikes, bug) = (scenario.strikes.clone(), scenario.bug);
        let gate = Rc::new(Gate {
            rt: rt.clone(),
            shared: Rc::clone(&shared),
            bug,
            strikes,
            arrived: Cell::new(0),
            struck: Cell::new(None),
            strike: Event::new(),
            running: RefCell::default(),
            by_number: RefCell::default(),
            copies: Cell::new(0),
        });
        let mut world = World {
            scenario,
            made,
            rt: rt.clone(),
            shared,
            site,
            gate,
            apps: Vec::new(),
            clients: Vec::new(),
            rng,
        };
        for number in 0..scenario.clients {
            world.add(&network, number);
        }
        world
    }

    fn add(&mut self, network: &Rc<RefCell<Network>>, number: usize) {
        let link = Link::new(&self.rt, network, &self.site, number);
        let handles = super::Handles::default();
        let root = self.root();
        // All clients use the same numbers, as clients do.
        let client = Client::new(
            &self.rt,
            self.scenario.client.clone(),
            Box::new(link),
            Rc::clone(&handles),
            &root,
            1,
        );
        let rng = Rng::stream(self.scenario.seed, &format!("application {number}"));
        let how = (self.scenario.may_fail(), self.scenario.fixed);
        let app = App::new(number, (client.clone(), handles), &self.shared, rng, how);
        self.apps.push(Rc::new(RefCell::new(app)));
        self.clients.push(client);
    }

    /// The handle of the root: it is known, as after an earlier mount.
    fn root(&self) -> Vec<u8> {
        let entry = twin_fs::LookupEntry {
            attr: twin_fs::Attr { ino: ROOT_INO, ..Default::default() },
            generation: self.made.root_generation,
        };
        twin_remote::handle(&Keys::of(twin_remote::KEY), &twin_remote::export(false), &entry)
    }

    async fn run(&mut self) -> Verdict<()> {
        let mut platter = self.made.platter.clone();
        let mut number = 0;
        let quiet = Life { long_ns: 0, end: End::Power, faults: FaultPlan::none(), losses: 0 };
        let mut planned = self.scenario.lives.clone().into_iter();
        self.begin();
        loop {
            let life = planned.next();
            let last = life.is_none();
            let life = life.unwrap_or_else(|| quiet.clone());
            let lived = self.up(platter, &life, number).await?;
            let what = if last { self.finish().await? } else { self.live(&lived, &life).await? };
            platter = self.down(lived, what).await?;
            number += 1;
            self.shared.count(|ran| ran.restarts += 1);
            if last && self.apps.iter().all(|app| app.borrow().ended) {
                break;
            }
        }
        // What is there now must be there for ever.
        let lived =
            start(&self.rt, self.scenario, (self.made, platter), &quiet, number, &mut self.rng);
        let lived = lived.await?;
        self.compare(&lived).await?;
        let resent = self.clients.iter().map(|client| client.stats().resent).sum();
        self.shared.count(|ran| ran.resent = resent);
        self.verdict()
    }

    /// Lets the applications work.
    fn begin(&self) {
        for app in &self.apps {
            let (app, rt, shared) = (Rc::clone(app), self.rt.clone(), Rc::clone(&self.shared));
            self.rt.spawn("application", async move {
                if let Err(what) = App::work(&app, &rt).await {
                    shared.breaks(what);
                }
            });
        }
    }

    fn verdict(&self) -> Verdict<()> {
        self.shared.broken.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Starts a server and compares what it has.
    async fn up(&mut self, platter: Platter, life: &Life, number: u64) -> Verdict<Rc<Lived>> {
        let lived =
            start(&self.rt, self.scenario, (self.made, platter), life, number, &mut self.rng);
        let lived = Rc::new(lived.await?);
        self.compare(&lived).await?;
        self.shared.life.set(number);
        self.shared.note(&[4, number]);
        self.site.up(self.gate.before(&lived, number));
        Ok(lived)
    }

    /// A life of the server; returns how it ends.
    async fn live(&mut self, lived: &Rc<Lived>, life: &Life) -> Verdict<End> {
        let pieces = life.losses + 1;
        for piece in 0..pieces {
            self.rt.sleep(life.long_ns / pieces).await;
            self.verdict()?;
            if piece < life.losses && lived.layer.lose().await {
                self.shared.note(&[3]);
                self.shared.count(|ran| ran.losses += 1);
            }
        }
        if lived.volume.core().poisoned().is_none() {
            self.handles(lived).await?;
        }
        Ok(life.end)
    }

    /// Waits until the applications have ended, or a strike ends the server.
    async fn finish(&mut self) -> Verdict<End> {
        self.shared.ending.set(true);
        loop {
            if self.gate.struck.get().is_some() {
                return Ok(End::Power);
            }
            self.verdict()?;
            if self.apps.iter().all(|app| app.borrow().ended) {
                return Ok(End::Power);
            }
            let (rt, strike) = (&self.rt, &self.gate.strike);
            let mut pause = pin!(rt.sleep(MILLIS));
            let mut strike = pin!(strike.wait());
            std::future::poll_fn(|cx| {
                let struck = strike.as_mut().poll(cx).is_ready();
                if struck || pause.as_mut().poll(cx).is_ready() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
    }

    /// Ends a server; returns what the disk holds then.
    async fn down(&mut self, lived: Rc<Lived>, end: End) -> Verdict<Platter> {
        let repeated = lived.server.counters().repeated;
        self.shared.count(|ran| ran.repeated += repeated);
        let struck = self.gate.struck.take();
        self.shared.note(&[
            5,
            end as u64,
            struck.map_or(0, |what| 1 + u64::from(what == What::Kill)),
        ]);
        if end == End::Stop && struck.is_none() {
            // What was begun is executed; replies may still be on their way.
            self.site.down();
            self.rt.sleep(DOWN_NS).await;
            let closed = lived.volume.close().await;
            if closed.is_ok() {
                let platter = lived.disk.platter();
                lived.off();
                return Ok(platter);
            }
        }
        if self.made.loose {
            let files = |app: &Rc<RefCell<App>>| {
                app.borrow_mut().files.values_mut().for_each(super::app::File::failed);
            };
            self.apps.iter().for_each(files);
        }
        let state = lived.disk.crash_state().ok_or("the disk has no state of a crash")?;
        let whole = vec![WriteOutcome::Whole; state.unstable_writes().len()];
        let platter = match (struck, end) {
            (Some(What::PowerLost), _) => state.durable().clone(),
            (Some(_), _) | (None, End::Kill) => state.with(&whole),
            (None, _) => state.random(&mut self.rng),
        };
        lived.off();
        self.site.down();
        self.rt.sleep(DOWN_NS).await;
        Ok(platter)
    }

    /// Compares everything with what a server has that was just started.
    async fn compare(&self, lived: &Lived) -> Verdict<()> {
        for app in &self.apps {
            // Applications go on with what their clients have in memory.
            let (number, own, dir, files, open) = {
                let app = app.borrow();
                (app.number, app.own(), app.dir, app.files.clone(), app.open_names())
            };
            let Some(dir) = dir else { continue };
            let what =
                |name: &str, why: &str| format!("client {number}: after a restart {name} {why}");
            match find(lived, ROOT_INO, &own).await? {
                Some(found) if found == dir => {}
                found => return Err(what(&own, &format!("is {found:?}"))),
            }
            for nth in 0..4 {
                let name = format!("f{nth}");
                if open.contains(&name) {
                    continue;
                }
                let found = find(lived, dir, &name).await?;
                match (files.get(&name), found) {
                    (None, None) => {}
                    (None, Some(_)) => return Err(what(&name, "is back")),
                    (Some(_), None) => return Err(what(&name, "is gone")),
                    (Some(file), Some(found)) if found != file.ino => {
                        return Err(what(&name, "is another file"));
                    }
                    (Some(file), Some(_)) => {
                        self.contents(lived, file).await.map_err(|why| what(&name, &why))?;
                    }
                }
            }
        }
        self.handles(lived).await
    }

    async fn contents(&self, lived: &Lived, file: &super::app::File) -> Verdict<()> {
        let len = file.pieces.len() as u64 * PIECE;
        let read = Op::Read { ino: file.ino, off: 0, len: len as u32 };
        let data = match lived.volume.execute(Request::root(u64::MAX, read)).await {
            Ok(Reply::Data(blocks)) => super::joined(&blocks),
            other => return Err(format!("cannot be read: {other:?}")),
        };
        for (nth, piece) in file.pieces.iter().enumerate() {
            // Without a journal new data may be anything until it is synced.
            if self.made.loose && !piece.later.is_empty() {
                continue;
            }
            let from = (nth * PIECE as usize).min(data.len());
            let to = (from + PIECE as usize).min(data.len());
            piece.possible(&data[from..to]).map_err(|why| format!("piece {nth}: {why}"))?;
            self.shared.count(|ran| ran.compared += 1);
        }
        Ok(())
    }

    /// Handles of removed files are stale.
    async fn handles(&self, lived: &Lived) -> Verdict<()> {
        let dead = self.shared.dead.borrow().clone();
        for (nth, (handle, interrupted)) in dead.iter().enumerate() {
            // Without a journal the name goes first. A file whose removal a failure interrupts then is
            // found without a name, and the repair puts it into lost+found.
            if self.made.loose && *interrupted {
                continue;
            }
            let root = rpc::Caller::User { uid: 0, gid: 0, groups: Vec::new() };
            let mut call = rpc::call(nth as u32, (proc::NFS, 3, proc::GETATTR), &root);
            call.opaque(handle);
            let record = Bytes::copy_of(&call.into_bytes()[4..]);
            let reply = lived.server.answer(Peer::LOCAL_ROOT, record).await.ok_or("no reply")?;
            let results = rpc::parse_reply(&reply[4..]).ok().and_then(|(_, results)| results);
            let Some(mut results) = results else { return Err("a call is refused".into()) };
            let status = results.u32();
            if status == Ok(Status::Io as u32) && lived.volume.core().poisoned().is_some() {
                // The disk has failed meanwhile: nobody is told that something is not there.
                return Ok(());
            }
            if status != Ok(Status::Stale as u32) {
                let attr = twin_nfs::attrs::read_attributes(&mut results);
                return Err(format!("a removed file's handle: {status:?}, {attr:?}"));
            }
        }
        Ok(())
    }
}

fn lookup(dir: u64, name: &str) -> Op {
    Op::Lookup { dir, name: name.as_bytes().into() }
}

async fn find(lived: &Lived, dir: u64, name: &str) -> Verdict<Option<u64>> {
    match lived.volume.execute(Request::root(u64::MAX, lookup(dir, name))).await {
        Ok(Reply::Entry(entry)) => {
            let ino = entry.attr.ino;
            let forget = Op::Forget { ino, count: 1 };
            let _ = lived.volume.execute(Request::root(u64::MAX, forget)).await;
            Ok(Some(ino))
        }
        Err(FsError::NotFound) => Ok(None),
        other => Err(format!("looking {name} up: {other:?}")),
    }
}

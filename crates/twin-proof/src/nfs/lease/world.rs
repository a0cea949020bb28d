//! The run: machines, the network, servers one after the other, and the judgement.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::{Data, Op, ROOT_INO, Reply, Request};
use twin_nfs::client::{Client, ClientSettings, Consistency, Writes};
use twin_nfs::lease::LeaseStats;
use twin_nfs::{Keys, Limits, Served, Server};
use twin_remote::{Link, Site};
use twin_rt::{BoxFuture, MILLIS, Rng, Rt};
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteOutcome};
use twin_sim::network::Network;

use super::super::server::{Lived, start};
use super::super::world::{Patient, STEPS};
use super::super::{Bug as NfsBug, DOWN_NS, End, Life, Scenario as Inner, Volume};
use super::app::{App, FILES, PIECE, PIECES, Shared, name, value};
use super::bugs::{Cable, Meddler, lease_call};
use super::{Bug, Ran, Scenario};

/// Who reads in the end.
const LAST: u64 = 1 << 32;
/// The longest pause of an application.
const PAUSE_NS: u64 = 12 * MILLIS;

/// A life of a machine.
struct MachineLife {
    dead: Rc<Cell<bool>>,
    ended: [Rc<Cell<bool>>; 2],
}

/// What is the same for all machines.
struct Ground {
    scenario: Scenario,
    rt: Rt,
    shared: Rc<Shared>,
    site: Site,
    network: Rc<RefCell<Network>>,
    root: Vec<u8>,
    lives: RefCell<Vec<MachineLife>>,
    next_life: Cell<u64>,
    ran: RefCell<Ran>,
}

/// Runs a scenario.
///
/// # Errors
/// The first promise that was broken.
pub fn run(scenario: &Scenario, made: &Volume) -> Result<Ran, String> {
    let rt = Rt::new(Patient { steps: STEPS }, scenario.seed);
    let network = Network::new(scenario.network.clone(), Rng::stream(scenario.seed, "network"));
    let entry = twin_fs::LookupEntry {
        attr: twin_fs::Attr { ino: ROOT_INO, ..Default::default() },
        generation: made.root_generation,
    };
    let root =
        twin_remote::handle(&Keys::of(twin_remote::KEY), &twin_remote::export(false), &entry);
    let ground = Rc::new(Ground {
        scenario: scenario.clone(),
        rt: rt.clone(),
        shared: Rc::default(),
        site: Site::new(&rt, twin_fs::Cpu::none(), 0),
        network: Rc::new(RefCell::new(network)),
        root,
        lives: RefCell::default(),
        next_life: Cell::new(1),
        ran: RefCell::default(),
    });
    let ended = rt.block_on(course(&ground, made));
    let now = rt.now();
    rt.crash();
    ended.map_err(|stalled| format!("it does not end: at {now:?}; {stalled}"))??;
    let shared = &ground.shared;
    shared.history.borrow().judge()?;
    let digest = shared.digest.borrow().value();
    let (deeds, reported) = (shared.history.borrow().len(), shared.reported.get());
    let ran = *ground.ran.borrow();
    Ok(Ran { digest, deeds, reported, ..ran })
}

impl Scenario {
    /// The scenario of servers.
    fn of_server(&self) -> Inner {
        let bug = match self.bug {
            Some(Bug::StartNotTold) => Some(NfsBug::VerifierStays),
            _ => None,
        };
        Inner {
            seed: self.seed,
            clients: self.machines.len(),
            client: self.client.clone(),
            network: self.network.clone(),
            lives: self.lives.clone(),
            strikes: Vec::new(),
            fixed: false,
            bug,
            leases: Some((self.terms, self.bug != Some(Bug::NoGrace))),
        }
    }
}

/// Servers, one after the other.
async fn course(ground: &Rc<Ground>, made: &Volume) -> Result<(), String> {
    let inner = ground.scenario.of_server();
    let mut rng = Rng::stream(ground.scenario.seed, "lease world");
    let (rt, shared) = (&ground.rt, &ground.shared);
    let quiet = Life { long_ns: 0, end: End::Power, faults: FaultPlan::none(), losses: 0 };
    let mut platter = made.platter.clone();
    let meddler = Rc::new(Meddler::new(ground.scenario.bug));
    for (number, life) in ground.scenario.lives.iter().chain([&quiet]).enumerate() {
        let lived = start(rt, &inner, (made, platter), life, number as u64, &mut rng).await?;
        let lived = Rc::new(lived);
        if number == 0 {
            make_files(&lived).await?;
        }
        ground.site.up(answers(ground, &meddler, &lived));
        if number == 0 {
            begin(ground);
        }
        let last = number == ground.scenario.lives.len();
        if last {
            work_to_the_end(ground).await?;
        } else {
            rt.sleep(life.long_ns).await;
        }
        if let Some(what) = shared.broken.borrow_mut().take() {
            return Err(what);
        }
        ground.count(lived.server.lease_stats().unwrap_or_default());
        shared.note(&[2, number as u64, life.end as u64]);
        platter = down(ground, &lived, if last { End::Power } else { life.end }, &mut rng).await?;
        ground.ran.borrow_mut().restarts += u64::from(!last);
    }
    // What is there now must be there for ever.
    let number = ground.scenario.lives.len() as u64 + 1;
    let lived = start(rt, &inner, (made, platter), &quiet, number, &mut rng).await?;
    let begin = rt.now();
    for file in 0..FILES {
        for (piece, value) in pieces(&lived, file).await?.into_iter().enumerate() {
            let (place, now) = ((file, piece as u64), rt.now() + 1);
            shared.history.borrow_mut().read(LAST, place, value, begin, now);
        }
    }
    Ok(())
}

impl Ground {
    fn count(&self, stats: LeaseStats) {
        let mut ran = self.ran.borrow_mut();
        ran.granted += stats.granted;
        ran.vacated += stats.vacated;
        ran.expired += stats.expired;
        ran.reclaimed += stats.reclaimed;
        ran.refused += stats.refused;
    }

    /// Starts a machine, with two applications. Returns the number of its life, and whether it has crashed.
    fn start(self: &Rc<Self>, machine: usize, cut: &Rc<Cell<bool>>) -> (u64, Rc<Cell<bool>>) {
        let scenario = &self.scenario;
        let plain = machine == scenario.machines.len();
        let who = self.next_life.replace(self.next_life.get() + 1);
        let dead = Rc::new(Cell::new(false));
        let link = Link::new(&self.rt, &self.network, &self.site, machine);
        let (rt, bug) = (self.rt.clone(), scenario.bug);
        let (cut, dead_too) = (Rc::clone(cut), Rc::clone(&dead));
        let cable = Cable { rt, link, cut, dead: dead_too, bug, begun: RefCell::default() };
        let settings = match scenario.machines.get(machine) {
            Some(of) => ClientSettings { clock: of.clock, ..scenario.client.clone() },
            // It asks for attributes at each use, and writes through.
            None => ClientSettings {
                consistency: Consistency::CloseToOpen,
                writes: Writes::Sync,
                attributes_ns: (0, 0),
                ..scenario.client.clone()
            },
        };
        let handles = super::super::Handles::default();
        // All clients use the same numbers of calls, as clients do, but not the same twice.
        let xid = 1 + (who as u32) * 0x10_0000;
        let client = Client::new(&self.rt, settings, Box::new(cable), handles, &self.root, xid);
        let client = client.called(who);
        let ended: [Rc<Cell<bool>>; 2] = Default::default();
        for nth in 0..2 {
            let app = App {
                rt: self.rt.clone(),
                who,
                client: client.clone(),
                shared: Rc::clone(&self.shared),
                dead: Rc::clone(&dead),
                syncs: nth == 0,
                plain,
                reads: scenario.machines.get(machine).is_some_and(|of| of.reads),
                calm: scenario.is_calm(),
                pause_ns: PAUSE_NS,
                ended: Rc::clone(&ended[nth]),
                other_ended: Rc::clone(&ended[1 - nth]),
            };
            let rng = Rng::stream(scenario.seed, &format!("application {who} {nth}"));
            self.rt.spawn("application", app.work(rng));
        }
        self.lives.borrow_mut().push(MachineLife { dead: Rc::clone(&dead), ended });
        (who, dead)
    }

    /// True if all applications have ended whose machine has not crashed.
    fn is_over(&self) -> bool {
        let over =
            |life: &MachineLife| life.dead.get() || life.ended.iter().all(|ended| ended.get());
        self.lives.borrow().iter().all(over)
    }

    /// Lets a machine live, be cut off, crash and start again.
    async fn live(self: Rc<Self>, machine: usize) {
        let cut = Rc::new(Cell::new(false));
        let (mut who, mut dead) = self.start(machine, &cut);
        let Some(of) = self.scenario.machines.get(machine) else { return };
        let cuts = of.cuts.iter().flat_map(|&(at, long)| [(at, 1), (at + long, 2)]);
        let mut events: Vec<_> = cuts.chain(of.crashes.iter().map(|&at| (at, 3))).collect();
        events.sort_unstable();
        let began = self.rt.now();
        for (at, what) in events {
            self.rt.sleep_until(began + at).await;
            if self.shared.ending.get() {
                break;
            }
            self.shared.note(&[3, machine as u64, what]);
            match what {
                1 => {
                    cut.set(true);
                    self.ran.borrow_mut().cuts += 1;
                }
                2 => cut.set(false),
                _ => {
                    dead.set(true);
                    self.shared.history.borrow_mut().doubts(who, None);
                    self.ran.borrow_mut().crashed += 1;
                    (who, dead) = self.start(machine, &cut);
                }
            }
        }
        cut.set(false);
    }
}

/// Lets the machines work.
fn begin(ground: &Rc<Ground>) {
    let machines = ground.scenario.machines.len() + usize::from(ground.scenario.plain);
    for machine in 0..machines {
        ground.rt.spawn("machine", Rc::clone(ground).live(machine));
    }
}

/// Lets the machines work for their time, and waits until all have ended.
async fn work_to_the_end(ground: &Ground) -> Result<(), String> {
    ground.rt.sleep(ground.scenario.long_ns).await;
    ground.shared.ending.set(true);
    while !ground.is_over() {
        if let Some(what) = ground.shared.broken.borrow_mut().take() {
            return Err(what);
        }
        ground.rt.sleep(MILLIS).await;
    }
    Ok(())
}

/// The answers of a server, with the bugs that are planted before it.
fn answers(ground: &Rc<Ground>, meddler: &Rc<Meddler>, lived: &Rc<Lived>) -> twin_remote::Answer {
    let plain = ground.scenario.machines.len();
    let ungated = (ground.scenario.bug == Some(Bug::PlainNotGated)).then(|| {
        let layer = Rc::clone(&lived.layer);
        let served = Served::new(layer, Keys::of(twin_remote::KEY), Limits::default(), || 0);
        Rc::new(Server::new([9; 16], vec![served], vec![twin_remote::export(false)]))
    });
    let (ground, meddler, lived) = (Rc::clone(ground), Rc::clone(meddler), Rc::downgrade(lived));
    Rc::new(move |peer, record: Bytes| {
        let (ground, meddler, lived) = (Rc::clone(&ground), Rc::clone(&meddler), lived.clone());
        let ungated = ungated.clone().filter(|_| peer == twin_remote::peer(plain));
        Box::pin(async move {
            let lived = lived.upgrade()?;
            let procedure = lease_call(&record).map_or(0, |(procedure, _)| procedure);
            ground.shared.note(&[4, u64::from(peer.address.0[15]), procedure.into()]);
            let sent = Bytes::copy_of(&meddler.call(&record));
            let reply = match ungated {
                Some(server) => server.answer(peer, sent).await?,
                None => lived.server.answer(peer, sent).await?,
            };
            Some(meddler.reply(&record, reply))
        }) as BoxFuture<'static, _>
    })
}

fn request(op: Op) -> Request {
    Request::root(u64::MAX, op)
}

/// Makes the files, with zeros.
async fn make_files(lived: &Lived) -> Result<(), String> {
    for file in 0..FILES {
        let op = Op::Create { dir: ROOT_INO, name: name(file), mode: 0o644, exclusive: true };
        let Ok(Reply::Entry(made)) = lived.volume.execute(request(op)).await else {
            return Err("a file cannot be made".into());
        };
        let ino = made.attr.ino;
        let data = Data::Bytes(Bytes::copy_of(&vec![0; (PIECES * PIECE) as usize]));
        for op in [
            Op::Write { ino, off: 0, data },
            Op::Release { ino },
            Op::Forget { ino, count: 1 },
            Op::Sync,
        ] {
            let done = lived.volume.execute(request(op)).await;
            done.map_err(|error| format!("making a file: {error}"))?;
        }
    }
    Ok(())
}

/// The values of a file's pieces on a volume.
async fn pieces(lived: &Lived, file: usize) -> Result<Vec<u64>, String> {
    let look = Op::Lookup { dir: ROOT_INO, name: name(file) };
    let Ok(Reply::Entry(found)) = lived.volume.execute(request(look)).await else {
        return Err(format!("file {file} is gone"));
    };
    let read = Op::Read { ino: found.attr.ino, off: 0, len: (PIECES * PIECE) as u32 };
    let Ok(Reply::Data(blocks)) = lived.volume.execute(request(read)).await else {
        return Err(format!("file {file} cannot be read"));
    };
    let data = super::super::joined(&blocks);
    let values = data.chunks(PIECE as usize).map(value);
    values.collect::<Option<_>>().ok_or_else(|| format!("file {file} has parts of two writes"))
}

/// Ends a server; returns what the disk holds then.
async fn down(
    ground: &Ground,
    lived: &Rc<Lived>,
    end: End,
    rng: &mut Rng,
) -> Result<Platter, String> {
    if end == End::Stop {
        ground.site.down();
        ground.rt.sleep(DOWN_NS).await;
        let closed = lived.volume.close().await;
        closed.map_err(|error| format!("the volume does not close: {error}"))?;
        lived.off();
        return Ok(lived.disk.platter());
    }
    let state = lived.disk.crash_state().ok_or("the disk has no state of a crash")?;
    let whole = vec![WriteOutcome::Whole; state.unstable_writes().len()];
    let platter = match end {
        End::Kill => state.with(&whole),
        _ if ground.shared.ending.get() => state.durable().clone(),
        _ => state.random(rng),
    };
    lived.off();
    ground.site.down();
    ground.rt.sleep(DOWN_NS).await;
    Ok(platter)
}

//! A run: the disk, the volume, the server, its front, and the clients.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use twin_disk::{BlockDevice, Bytes};
use twin_fs::{Cpu, Volume};
use twin_lab::Config;
use twin_nfs::front::Front;
use twin_nfs::rpc::{self, Caller};
use twin_nfs::xdr::Writer;
use twin_nfs::{Keys, Peer, Records, Served, Server, Status, proc};
use twin_rt::{MILLIS, Nanos, Order, Rng, Rt, SECS, Time};
use twin_sim::{Platter, SimDisk, queue};

use super::net::{Modelled, Net, Told};
use super::script::{Pace, Scenario, What};
use super::watcher::Watcher;
use super::{Base, END_NS, Ran, VOLUME, WAIT_NS};

/// Bytes of the file that is read.
const DATA_BYTES: usize = 256 << 10;
/// Clients that behave.
const GOOD: usize = 2;
/// How often slow clients take something, and how much.
const SLOW_NS: Nanos = 200 * MILLIS;
const SLOW_BYTES: usize = 2 << 10;
/// How often a client that behaves looks.
const LOOK_NS: Nanos = 20 * MILLIS;
/// The most steps of a run.
const STEPS: u64 = 3_000_000;

/// A clock that stops a run that runs in circles.
struct Clock(u64);

impl twin_rt::Driver for Clock {
    fn start(&mut self) -> Time {
        Time(1000 * SECS)
    }

    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        self.0 = self.0.checked_sub(1)?;
        deadline
    }
}

fn pattern(at: usize) -> u8 {
    (at * 7 + at / 251) as u8
}

fn root_user() -> Caller {
    Caller::User { uid: 0, gid: 0, groups: Vec::new() }
}

fn call(xid: u32, procedure: u32, handle: &[u8], rest: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = rpc::call(xid, (proc::NFS, 3, procedure), &root_user());
    out.opaque(handle);
    rest(&mut out);
    rpc::finish(out)
}

fn disk(rt: &Rt, model: &str, platter: Option<Platter>, size: Option<u64>) -> SimDisk {
    let size = platter.as_ref().map(Platter::size).or(size);
    let options = twin_sim::model::Options { size, seed: rt.seed(), ..Default::default() };
    let entry = twin_sim::model::REGISTRY.get(model).expect("a model");
    let model = entry.build(&options).expect("options of the model");
    let mut disk = SimDisk::builder(rt, model).scheduler(queue::REGISTRY.default_entry().make());
    if let Some(platter) = platter {
        disk = disk.platter(platter);
    }
    disk.start()
}

fn server(volume: &Volume) -> Rc<Server> {
    let served = Served::of(volume, Keys::of(twin_remote::KEY));
    Rc::new(Server::new([1; 16], vec![served], vec![twin_remote::export(false)]))
}

async fn open(rt: &Rt, config: &Config, disk: &SimDisk) -> Result<Volume, String> {
    let device: Rc<dyn BlockDevice> = Rc::new(disk.clone());
    let settings = config.settings.clone().served();
    let opened = config.of_layout.open(rt, device, Cpu::none(), settings).await;
    opened.map(|opened| opened.volume).map_err(|error| error.to_string())
}

impl Base {
    /// Makes the volume and its files.
    ///
    /// # Errors
    /// If they cannot be made.
    pub fn make() -> Result<Base, String> {
        let config = Config::parse(VOLUME).map_err(|error| error.to_string())?;
        let rt = Rt::new(Clock(STEPS), 1);
        let disk = disk(&rt, "instant", None, config.size);
        let made = rt.block_on(async {
            let identity = twin_fs::Identity { uuid: twin_remote::KEY, root: (0, 0, 0o755) };
            let device: Rc<dyn BlockDevice> = Rc::new(disk.clone());
            let made = config.of_layout.mkfs(&rt, device, identity).await;
            made.map_err(|error| error.to_string())?;
            let volume = open(&rt, &config, &disk).await?;
            let server = server(&volume);
            let ask = async |bytes: Vec<u8>| {
                let reply = server.answer(Peer::LOCAL_ROOT, Bytes::copy_of(&bytes[4..])).await;
                reply.ok_or_else(|| "no reply".to_owned())
            };
            let mut out = rpc::call(1, (proc::MOUNT, 3, proc::mount::MNT), &root_user());
            out.opaque(b"/");
            let root = ask(rpc::finish(out)).await?[36..68].to_vec();
            let mut files = Vec::new();
            for name in [&b"data"[..], b"scratch"] {
                let reply = ask(call(2 + files.len() as u32, proc::CREATE, &root, |out| {
                    out.opaque(name);
                    [0, 1, 0o666, 0, 0, 0, 0, 0].iter().for_each(|&word| out.u32(word));
                }));
                files.push(reply.await?[40..72].to_vec());
            }
            let bytes: Vec<u8> = (0..DATA_BYTES).map(pattern).collect();
            let write = call(9, proc::WRITE, &files[0], |out| {
                out.u64(0);
                [DATA_BYTES as u32, 2].iter().for_each(|&word| out.u32(word));
                out.opaque(&bytes);
            });
            ask(write).await?;
            volume.close().await.map_err(|error| error.to_string())?;
            let scratch = files.pop().unwrap_or_default();
            Ok::<_, String>((disk.platter(), root, files.pop().unwrap_or_default(), scratch))
        });
        rt.crash();
        let (platter, root, data, scratch) = made.map_err(|stalled| stalled.to_string())??;
        Ok(Base { config, platter, root, data, scratch })
    }
}

/// The bytes of a call that waits, without what it points to.
///
/// # Errors
/// If the volume does not open.
pub fn bytes_of_call(base: &Base) -> Result<usize, String> {
    let rt = Rt::new(Clock(STEPS), 1);
    let disk = disk(&rt, "instant", Some(base.platter.clone()), None);
    let volume = rt.block_on(open(&rt, &base.config, &disk)).map_err(|e| e.to_string())??;
    let server = server(&volume);
    let call = server.answer(Peer::LOCAL_ROOT, Bytes::copy_of(&[]));
    let bytes = size_of_val(&call);
    drop(call);
    rt.crash();
    Ok(bytes)
}

/// What a reply has to be.
#[derive(Clone, Copy)]
enum Expect {
    Done,
    /// So many bytes of the file from there.
    Data(usize, usize),
}

/// A client.
struct Client {
    key: Option<u64>,
    out: VecDeque<u8>,
    records: Records,
    pace: Pace,
    /// The rest of a half record.
    rest: Vec<u8>,
    /// Something else was sent in the middle of a record, so its calls are no calls.
    garbled: bool,
    calls: BTreeMap<u32, Expect>,
    xid: u32,
}

/// All clients.
struct Clients {
    net: Rc<RefCell<Net>>,
    told: Rc<Told>,
    /// Handles of the root, of the file that is read, and of the one that is written to.
    root: Vec<u8>,
    data: Vec<u8>,
    scratch: Vec<u8>,
    all: Vec<Client>,
    names: u32,
}

impl Clients {
    fn new(net: &Rc<RefCell<Net>>, told: &Rc<Told>, base: &Base, count: usize) -> Clients {
        Clients {
            net: Rc::clone(net),
            told: Rc::clone(told),
            root: base.root.clone(),
            data: base.data.clone(),
            scratch: base.scratch.clone(),
            all: (0..count).map(Client::new).collect(),
            names: 0,
        }
    }

    fn connect(&mut self, who: usize) {
        let mut net = self.net.borrow_mut();
        let c = &mut self.all[who];
        if let Some(pipe) = c.key.and_then(|key| net.pipes.get_mut(&key)) {
            pipe.reset = true;
        }
        c.key = net.connect();
        c.out.clear();
        c.rest.clear();
        c.garbled = false;
        c.records = Records::default();
        c.calls.clear();
    }

    /// A call, and what its reply has to be.
    fn call(&mut self, who: usize, procedure: u32, len: usize) -> Vec<u8> {
        self.names += 1;
        let name = format!("n{}", self.names);
        let c = &mut self.all[who];
        c.xid += 1;
        let at = (c.xid as usize * 4099) % DATA_BYTES;
        let expect = match procedure {
            proc::READ => Expect::Data(at, len.min(DATA_BYTES - at)),
            _ => Expect::Done,
        };
        c.calls.insert(c.xid, expect);
        let handle = match procedure {
            proc::READ => &self.data,
            proc::WRITE => &self.scratch,
            _ => &self.root,
        };
        call(c.xid, procedure, handle, |out| match procedure {
            proc::READ => {
                out.u64(at as u64);
                out.u32(len as u32);
            }
            proc::WRITE => {
                out.u64(0);
                [len as u32, 0].iter().for_each(|&word| out.u32(word));
                out.opaque(&vec![7; len]);
            }
            proc::MKDIR => {
                out.opaque(name.as_bytes());
                [1, 0o755, 0, 0, 0, 0, 0].iter().for_each(|&word| out.u32(word));
            }
            proc::READDIR => {
                out.u64(0);
                out.u64(0);
                out.u32(4096);
            }
            _ => {}
        })
    }

    fn calls(&mut self, who: usize, count: u32, procedure: u32, len: u32) {
        for _ in 0..count {
            let bytes = self.call(who, procedure, len as usize);
            self.all[who].out.extend(bytes);
        }
    }

    fn act(&mut self, who: usize, what: What) {
        let sends = !matches!(
            what,
            What::Connect
                | What::Rest
                | What::Pace(_)
                | What::Finish
                | What::Close
                | What::Starve(_)
        );
        self.all[who].garbled |= sends && !self.all[who].rest.is_empty();
        match what {
            What::Connect => self.connect(who),
            What::Look(n) => self.calls(who, n, proc::GETATTR, 0),
            What::Read(n, len) => self.calls(who, n, proc::READ, len),
            What::Write(n, len) => self.calls(who, n, proc::WRITE, len),
            What::Make(n) => self.calls(who, n, proc::MKDIR, 0),
            What::List(n) => self.calls(who, n, proc::READDIR, 0),
            What::Fragments(len, piece) => {
                let bytes = self.call(who, proc::WRITE, len as usize);
                let pieces: Vec<&[u8]> = bytes[4..].chunks(piece.max(16) as usize).collect();
                let last = pieces.len() - 1;
                if piece == 0 {
                    // One that is empty before all.
                    self.all[who].out.extend([0; 4]);
                }
                for (n, piece) in pieces.into_iter().enumerate() {
                    let mark = piece.len() as u32 | if n == last { 1 << 31 } else { 0 };
                    self.all[who].out.extend(mark.to_be_bytes());
                    self.all[who].out.extend(piece);
                }
            }
            What::Half(len) => {
                let bytes = self.call(who, proc::WRITE, len as usize);
                let (first, rest) = bytes.split_at(bytes.len() / 2);
                self.all[who].out.extend(first);
                self.all[who].rest = rest.to_vec();
            }
            What::Rest => {
                let rest = std::mem::take(&mut self.all[who].rest);
                self.all[who].out.extend(rest);
            }
            What::Nonsense => self.all[who].out.extend([0x80, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 1]),
            What::Endless => self.all[who].out.extend([0x7f; 4]),
            What::Pace(pace) => self.all[who].pace = pace,
            What::Finish | What::Close => {
                let mut net = self.net.borrow_mut();
                let key = self.all[who].key;
                if let Some(pipe) = key.and_then(|key| net.pipes.get_mut(&key)) {
                    pipe.finished = true;
                    pipe.reset |= what == What::Close;
                }
                net.wake();
            }
            What::Starve(_) => {}
        }
        self.pump();
    }

    /// Moves bytes wherever they can go.
    fn pump(&mut self) {
        for who in 0..self.all.len() {
            let c = &mut self.all[who];
            let Some(key) = c.key else { continue };
            self.net.borrow_mut().send(key, &mut c.out);
            if c.pace == Pace::Fast {
                self.take(who, usize::MAX);
            }
        }
    }

    fn slowly(&mut self) {
        for who in 0..self.all.len() {
            if self.all[who].pace == Pace::Slow {
                self.take(who, SLOW_BYTES);
            }
        }
    }

    fn take(&mut self, who: usize, most: usize) {
        let c = &mut self.all[who];
        let Some(key) = c.key else { return };
        let bytes = self.net.borrow_mut().take(key, most);
        let mut replies = Vec::new();
        if c.records.feed(&bytes, |record| replies.push(record)).is_err() {
            self.told.breaks("a reply has no end".into());
        }
        for reply in replies {
            if let Err(what) = c.check(&reply) {
                self.told.breaks(format!("client {who}: {what}"));
            }
            self.told.replies.set(self.told.replies.get() + 1);
        }
    }

    /// True if the server has ended the connection of a client, or it has none.
    fn is_cut(&self, who: usize) -> bool {
        let net = self.net.borrow();
        let pipe = self.all[who].key.and_then(|key| net.pipes.get(&key));
        pipe.is_none_or(|pipe| pipe.to_client.is_empty() && (pipe.closed || pipe.shut))
    }
}

impl Client {
    fn new(number: usize) -> Client {
        Client {
            key: None,
            out: VecDeque::new(),
            records: Records::default(),
            pace: Pace::Fast,
            rest: Vec::new(),
            garbled: false,
            calls: BTreeMap::new(),
            xid: (number as u32) << 20,
        }
    }

    fn check(&mut self, reply: &[u8]) -> Result<(), String> {
        let (xid, results) = rpc::parse_reply(reply).map_err(|_| "this is no reply")?;
        if self.garbled {
            return Ok(());
        }
        let expect = self.calls.remove(&xid).ok_or(format!("a reply to no call: {xid}"))?;
        let mut r = results.ok_or(format!("call {xid} was refused"))?;
        let garbage = |_| format!("the reply to call {xid} is cut off");
        let status = r.u32().map_err(garbage)?;
        let full = status == Status::NoSpace as u32 && matches!(expect, Expect::Done);
        if status != Status::Ok as u32 && !full {
            return Err(format!("call {xid}: status {status}"));
        }
        if let Expect::Data(at, len) = expect {
            if r.flag().map_err(garbage)? {
                r.fixed(84).map_err(garbage)?;
            }
            let count = r.u32().map_err(garbage)? as usize;
            r.flag().map_err(garbage)?;
            let data = r.opaque(DATA_BYTES).map_err(garbage)?;
            let right = data.iter().enumerate().all(|(n, &byte)| byte == pattern(at + n));
            if count != len || data.len() != len || !right {
                return Err(format!("call {xid}: {count} bytes of {len} at {at}, or wrong ones"));
            }
        }
        Ok(())
    }
}

/// A client that behaves: it sends a call, takes the reply, and rests.
async fn behave(rt: Rt, clients: Rc<RefCell<Clients>>, who: usize, mut rng: Rng) {
    let told = Rc::clone(&clients.borrow().told);
    loop {
        rt.sleep(rng.range(1, 3000) * MILLIS).await;
        let procedure =
            *rng.pick(&[proc::GETATTR, proc::READ, proc::READ, proc::WRITE, proc::MKDIR]);
        let len = *rng.pick(&[1000, 20_000, 65_536]);
        let begun = rt.now();
        let mut sent = false;
        loop {
            {
                let mut clients = clients.borrow_mut();
                if clients.net.borrow().over {
                    return;
                }
                if clients.is_cut(who) {
                    clients.connect(who);
                    sent = false;
                }
                if !sent {
                    clients.calls(who, 1, procedure, len);
                    sent = true;
                }
                clients.pump();
                if clients.all[who].calls.is_empty() {
                    break;
                }
            }
            let waited = rt.now().since(begun);
            told.longest_ns.set(told.longest_ns.get().max(waited));
            if waited > WAIT_NS {
                told.breaks(format!("a client that behaves waits for {} s", WAIT_NS / SECS));
                return;
            }
            rt.sleep(LOOK_NS).await;
        }
    }
}

/// Runs a scenario.
pub(super) fn run(scenario: &Scenario, base: &Base) -> Result<Ran, String> {
    let rt = Rt::with_order(Clock(STEPS), scenario.seed, Order::Shuffled);
    let told: Rc<Told> = Rc::default();
    let ended = rt.block_on(course(&rt, scenario, base, &told));
    let now = rt.now();
    rt.crash();
    let ran = ended.map_err(|stalled| format!("it does not end: {stalled}, at {now:?}"))??;
    told.broken.take().map_or(Ok(ran), Err)
}

/// Takes replies for clients that read slowly.
async fn read_slowly(rt: Rt, clients: Rc<RefCell<Clients>>) {
    loop {
        rt.sleep(SLOW_NS).await;
        let mut clients = clients.borrow_mut();
        clients.slowly();
        clients.pump();
    }
}

async fn course(rt: &Rt, scenario: &Scenario, base: &Base, told: &Rc<Told>) -> Result<Ran, String> {
    let disk = disk(rt, "jitter", Some(base.platter.clone()), None);
    let volume = open(rt, &base.config, &disk).await?;
    let front = Front::new(rt, server(&volume));
    let net = Rc::new(RefCell::new(Net::new(scenario.pipe)));
    let bounds = super::bounds(scenario);
    let make = |bounds| front.machine(bounds);
    let steps = Watcher::new(bounds, scenario.planted, make, told);
    let ended = Rc::new(Cell::new(false));
    let (its, sockets, done) = (front.clone(), Modelled::new(&net), Rc::clone(&ended));
    rt.spawn("front", async move {
        its.run(sockets, steps).await;
        done.set(true);
    });
    let count = scenario.steps.iter().map(|step| step.client as usize + 1).max().unwrap_or(0);
    let clients = Rc::new(RefCell::new(Clients::new(&net, told, base, GOOD + count)));
    for who in 0..GOOD {
        let rng = Rng::stream(scenario.seed, &format!("client {who}"));
        rt.spawn("client", behave(rt.clone(), Rc::clone(&clients), who, rng));
    }
    rt.spawn("slow", read_slowly(rt.clone(), Rc::clone(&clients)));
    for step in &scenario.steps {
        rt.sleep(u64::from(step.after_ms) * MILLIS).await;
        if let What::Starve(ms) = step.what {
            net.borrow_mut().starved = true;
            let (net, fed) = (Rc::clone(&net), rt.sleep(u64::from(ms) * MILLIS));
            rt.spawn("starve", async move {
                fed.await;
                net.borrow_mut().starved = false;
            });
        }
        clients.borrow_mut().act(GOOD + step.client as usize, step.what);
        if told.broken.borrow().is_some() {
            break;
        }
    }
    let stopped = rt.now();
    front.stop();
    while !ended.get() && rt.now().since(stopped) < END_NS {
        rt.sleep(LOOK_NS).await;
    }
    if !ended.get() {
        told.breaks(format!("{} s after it was told to stop it goes on", END_NS / SECS));
    }
    let closed = volume.close().await;
    closed.map_err(|error| format!("the volume does not close: {error}"))?;
    let stats = front.stats();
    Ok(Ran {
        replies: told.replies.get(),
        most_bytes: told.most_bytes.get(),
        longest_ns: told.longest_ns.get(),
        evicted: stats.evicted,
        dropped: stats.dropped,
        pauses: stats.pauses,
        end_ns: rt.now().since(stopped),
    })
}

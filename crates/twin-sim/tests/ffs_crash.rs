//! Power failures under FFS: whatever survives of the writes in doubt, the volume opens, keeps what
//! its metadata ordering promises, and is sound after it was closed.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_ffs::{Ffs, FfsSettings, MkfsOptions, Sabotage, check};
use twin_fs::{Cpu, Data, FileSystem, Op, ROOT_INO, Reply, Request, SetAttr, Settings, Volume};
use twin_rt::{ClockOnly, MILLIS, Rng, Rt, SECS};
use twin_sim::faults::{CrashPoint, Exploration, WriteLog};
use twin_sim::{Platter, SimDisk, model, queue};

const SIZE: u64 = 16 << 20;

/// What clients were told: names with the contents that fsync acknowledged, if nothing changed
/// since.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    /// Name to file.
    names: BTreeMap<String, u64>,
    /// File to the content that must be there.
    synced: BTreeMap<u64, Vec<u8>>,
}

struct Run {
    log: WriteLog,
    /// The state after each step, from none on.
    states: Vec<State>,
    /// For each step, how many steps were durable for sure once it was acknowledged.
    durable: Vec<usize>,
}

fn disk(rt: &Rt, platter: Platter, jitter: bool, seed: u64, log: Option<&WriteLog>) -> SimDisk {
    let options =
        model::Options { size: Some(SIZE), write_cache: Some(true), seed, ..Default::default() };
    let name = if jitter { "jitter" } else { "instant" };
    let model = model::by_name(name).unwrap().build(&options).unwrap();
    let scheduler = queue::registry()[0].build();
    let mut builder = SimDisk::builder(rt, model).scheduler(scheduler).platter(platter);
    if let Some(log) = log {
        builder = builder.log(log);
    }
    builder.start()
}

fn settings() -> Settings {
    Settings { cache_bytes: 2 << 20, flush_age_ns: Some(SECS / 4), ..Settings::default() }
}

/// A step of the script: what is asked, and what it does to the state.
struct Script {
    rng: Rng,
    state: State,
    contents: BTreeMap<u64, Vec<u8>>,
    /// The step that changed a file last, or a name of it.
    changed: BTreeMap<u64, usize>,
    now: usize,
    next: u64,
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed + 1);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

struct Client<'a> {
    rt: &'a Rt,
    volume: &'a Rc<Volume<Ffs>>,
    id: u64,
}

impl Client<'_> {
    fn ask(&mut self, op: Op) -> Reply {
        self.id += 1;
        let request = Request::root(self.id, op.clone());
        let reply = self.rt.block_on(self.volume.execute(request)).unwrap();
        reply.unwrap_or_else(|error| panic!("{op:?}: {error}"))
    }

    fn entry(&mut self, op: Op) -> u64 {
        match self.ask(op) {
            Reply::Entry(entry) => {
                let ino = entry.attr.ino;
                self.ask(Op::Forget { ino, count: 1 });
                ino
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Script {
    fn create(&mut self, client: &mut Client<'_>) {
        let name = format!("f{}", self.next);
        self.next += 1;
        let op = Op::Create {
            dir: ROOT_INO,
            name: name.as_bytes().into(),
            mode: 0o644,
            exclusive: true,
        };
        let ino = client.entry(op);
        client.ask(Op::Release { ino });
        self.contents.insert(ino, Vec::new());
        self.changed.insert(ino, self.now);
        self.state.synced.remove(&ino);
        self.state.names.insert(name, ino);
    }

    /// Does one step. Gives the step up to which everything is durable now, if it was an fsync:
    /// one of a file that nobody changed since has nothing to do.
    fn step(&mut self, client: &mut Client<'_>) -> Option<usize> {
        self.now += 1;
        let names: Vec<String> = self.state.names.keys().cloned().collect();
        let some = |rng: &mut Rng| names[rng.below(names.len() as u64) as usize].clone();
        match self.rng.below(10) {
            0..=2 => self.create(client),
            3..=4 if !names.is_empty() => {
                let ino = self.state.names[&some(&mut self.rng)];
                let max = if self.rng.chance(0.2) { 200_000 } else { 20_000 };
                let bytes = pattern(self.rng.next_u64() >> 8, self.rng.range(1, max) as usize);
                let content = self.contents.entry(ino).or_default();
                let off = self.rng.below(content.len() as u64 + 1);
                let end = off as usize + bytes.len();
                content.resize(content.len().max(end), 0);
                content[off as usize..end].copy_from_slice(&bytes);
                self.state.synced.remove(&ino);
                self.changed.insert(ino, self.now);
                let data = Data::Bytes(Bytes::copy_of(&bytes));
                client.ask(Op::Write { ino, off, data });
            }
            5 if !names.is_empty() => {
                let ino = self.state.names[&some(&mut self.rng)];
                let content = self.contents.entry(ino).or_default();
                let size = self.rng.below(content.len() as u64 + 1);
                content.truncate(size as usize);
                self.state.synced.remove(&ino);
                self.changed.insert(ino, self.now);
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                client.ask(Op::SetAttr { ino, set });
            }
            6 if !names.is_empty() => {
                let name = some(&mut self.rng);
                client.ask(Op::Unlink { dir: ROOT_INO, name: name.as_bytes().into() });
                self.state.names.remove(&name);
            }
            7 if !names.is_empty() => {
                let (from, to) = (some(&mut self.rng), format!("r{}", self.rng.below(8)));
                if from != to {
                    client.ask(Op::Rename {
                        dir: ROOT_INO,
                        name: from.as_bytes().into(),
                        to_dir: ROOT_INO,
                        to_name: to.as_bytes().into(),
                        mode: twin_fs::RenameMode::Replace,
                    });
                    let ino = self.state.names.remove(&from).unwrap();
                    self.changed.insert(ino, self.now);
                    self.state.names.insert(to, ino);
                }
            }
            8 if !names.is_empty() => {
                let ino = self.state.names[&some(&mut self.rng)];
                client.ask(Op::Fsync { ino, data_only: false });
                self.state.synced.insert(ino, self.contents[&ino].clone());
                return self.changed.get(&ino).copied();
            }
            _ => {
                let span = self.rng.below(600) * MILLIS;
                client.rt.block_on(client.rt.sleep(span)).unwrap();
            }
        }
        None
    }
}

/// Runs the script on a new volume.
fn run(options: &MkfsOptions, sabotage: Sabotage, seed: u64, steps: usize) -> Run {
    let rt = Rt::new(ClockOnly::default(), seed);
    let first = disk(&rt, Platter::new(SIZE), false, seed, None);
    rt.block_on(Ffs::mkfs(&rt, Rc::new(first.clone()), options)).unwrap().unwrap();
    let platter = first.platter();
    rt.crash();
    let (rt, log) = (Rt::new(ClockOnly::default(), seed), WriteLog::new());
    let device = Rc::new(disk(&rt, platter, true, seed, Some(&log)));
    let ffs = FfsSettings { sabotage, ..FfsSettings::default() };
    let opening = Ffs::open(&rt, device, Cpu::none(), settings(), ffs);
    let (volume, _) = rt.block_on(opening).unwrap().unwrap();
    let mut client = Client { rt: &rt, volume: &volume, id: 0 };
    let rng = Rng::stream(seed, "script");
    let mut script = Script {
        rng,
        state: State::default(),
        contents: BTreeMap::new(),
        changed: BTreeMap::new(),
        now: 0,
        next: 0,
    };
    let mut run = Run { log, states: vec![State::default()], durable: vec![0] };
    for step in 1..=steps {
        let durable = script.step(&mut client);
        // What fsync acknowledged of a file holds for the states after it.
        run.states.push(script.state.clone());
        let before = *run.durable.last().unwrap();
        run.durable.push(durable.unwrap_or(0).max(before));
        run.log.mark(step as u64);
    }
    drop(volume);
    rt.crash();
    run
}

/// What a restart finds: names with contents.
fn restart(platter: Platter) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let rt = Rt::new(ClockOnly::default(), 5);
    let device = Rc::new(disk(&rt, platter, false, 5, None));
    let found = rt.block_on(look(&rt, Rc::clone(&device))).map_err(|e| e.to_string());
    let found = found.and_then(|found| found);
    if found.is_ok() {
        let report = rt.block_on(check::check(device, &mut |_| {})).map_err(|e| e.to_string())?;
        let report = report.map_err(|e| format!("checking: {e}"))?;
        if !report.is_clean() {
            return Err(format!("after closing: {report}"));
        }
    }
    rt.crash();
    found
}

async fn look(rt: &Rt, device: Rc<SimDisk>) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let opening = Ffs::open(rt, device, Cpu::none(), settings(), FfsSettings::default());
    let (volume, _) = opening.await.map_err(|e| format!("opening: {e}"))?;
    let mut id = 1 << 40;
    let mut found = BTreeMap::new();
    let list = Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 1 << 20, plus: false };
    let Reply::Dir(entries) = ask(&volume, &mut id, list).await? else { unreachable!() };
    for entry in entries {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        if matches!(&name[..], "." | ".." | "lost+found") {
            continue;
        }
        let read = Op::Read { ino: entry.ino, off: 0, len: 8 << 20 };
        let Reply::Data(blocks) = ask(&volume, &mut id, read).await? else { unreachable!() };
        found.insert(name, blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect());
    }
    volume.close().await.map_err(|e| format!("closing: {e}"))?;
    Ok(found)
}

async fn ask(volume: &Volume<Ffs>, id: &mut u64, op: Op) -> Result<Reply, String> {
    *id += 1;
    let what = format!("{op:?}");
    volume.execute(Request::root(*id, op)).await.map_err(|e| format!("{what}: {e}"))
}

/// Compares what was found with what was promised: by the journal, names as at one step no older
/// than the last fsync; in 4.4BSD's order, names as at the last acknowledged step or the one
/// under way. In both, a file that was fsynced and not changed since has its content.
fn judge(
    run: &Run,
    ordering: &str,
    acked: usize,
    found: &BTreeMap<String, Vec<u8>>,
) -> Option<String> {
    let last = (acked + 1).min(run.states.len() - 1);
    let oldest = match ordering {
        "journal" => run.durable[acked],
        "sync" => acked,
        _ => return None,
    };
    let names_fit = |state: &State| {
        let under_way = ordering == "sync";
        // A rename under way may leave both names.
        let extra = found.keys().filter(|n| !state.names.contains_key(*n)).count();
        state.names.keys().all(|n| found.contains_key(n)) && (extra == 0 || under_way && extra == 1)
    };
    let Some(at) = (oldest..=last).rev().find(|&n| names_fit(&run.states[n])) else {
        let names: Vec<_> = found.keys().collect();
        let want: Vec<_> = run.states[oldest].names.keys().collect();
        return Some(format!("the names are {names:?}; promised were {want:?} (step {oldest})"));
    };
    let (promised, next) = (&run.states[acked], &run.states[last]);
    for (name, ino) in &run.states[at].names {
        // A step under way may have changed it.
        if let Some(content) = promised.synced.get(ino)
            && next.synced.get(ino) == Some(content)
            && promised.names.get(name) == Some(ino)
            && found.get(name) != Some(content)
        {
            let len = found.get(name).map(Vec::len);
            return Some(format!("{name} was fsynced with {} bytes, has {len:?}", content.len()));
        }
    }
    None
}

/// Looks at outcomes of power failures until `budget` were seen. Gives how many, and the first
/// that breaks a promise.
fn explore(run: &Run, ordering: &str, seed: u64, budget: usize) -> (usize, Option<String>) {
    let points: Vec<CrashPoint> = run.log.crash_points().collect();
    let mut rng = Rng::stream(seed, "explore");
    let exploration = Exploration { exhaustive: 2, torn: true, random: 2 };
    let mut seen = 0;
    while seen < budget {
        let point = rng.pick(&points);
        let acked = point.mark.unwrap_or(0) as usize;
        let mut fates = Rng::stream(rng.next_u64(), "fates");
        for platter in point.state.explore(&exploration, &mut fates) {
            seen += 1;
            let wrong = match restart(platter) {
                Ok(found) => judge(run, ordering, acked, &found),
                Err(error) => Some(error),
            };
            if let Some(wrong) = wrong {
                let at = format!("{ordering}, seed {seed}, event {}", point.index);
                return (seen, Some(format!("{at}, {acked} steps acknowledged: {wrong}")));
            }
        }
    }
    (seen, None)
}

fn kinds(ordering: &str) -> [MkfsOptions; 2] {
    [MkfsOptions::modern([1; 16]), MkfsOptions::classic([1; 16])]
        .map(|base| MkfsOptions { ordering: ordering.into(), ..base })
}

#[test]
fn every_ordering_keeps_what_it_promises() {
    for entry in twin_ffs::ordering::registry() {
        for (kind, options) in kinds(entry.name).iter().enumerate() {
            for seed in 1..=2 {
                let run = run(options, Sabotage::None, seed * 10 + kind as u64, 120);
                let (_, wrong) = explore(&run, entry.name, seed, 60);
                assert_eq!(wrong, None, "{:?}", options.profile);
            }
        }
    }
}

#[test]
fn faults_built_in_are_found() {
    for (ordering, sabotage) in [("journal", Sabotage::SkipFlush), ("sync", Sabotage::SkipFlush)] {
        let options = &kinds(ordering)[0];
        let found = (1..=6).any(|seed| {
            let run = run(options, sabotage, seed, 120);
            explore(&run, ordering, seed, 80).1.is_some()
        });
        assert!(found, "{ordering}: {sabotage:?} was not found");
    }
}

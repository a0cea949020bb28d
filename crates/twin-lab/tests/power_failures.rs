//! Power failures of every layout in the registry: whatever a failure leaves, opening or repairing the
//! volume makes it sound, and what was synced and left alone since is there. A failure prints the
//! command that repeats it.
//!
//! A new layout gets this test by its entry in the registry, so it demands only what every layout must
//! hold: a file that nothing has touched since its fsync is there, also on a layout that promises
//! nothing of what was changed since. The campaigns of twin-proof go much further for the layouts whose
//! guarantees they know.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_disk::{BlockDevice, Bytes};
use twin_fs::{
    CheckRequest, Cpu, Data, FsError, Identity, Ino, LayoutKind, Name, Op, ROOT_INO, RenameMode,
    Reply, Request, Settings, Volume,
};
use twin_lab::layouts::LAYOUTS;
use twin_rt::{ClockOnly, MILLIS, Rng, Rt};
use twin_sim::faults::Exploration;
use twin_sim::{Platter, SimDisk, model};

const SIZE: u64 = 32 << 20;
/// Seeds of each layout.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;
/// Power failures of each seed.
const FAILURES: usize = 4;
/// What a failure may leave of the writes in doubt.
const EXPLORED: Exploration = Exploration { exhaustive: 1, torn: true, random: 4 };
/// Names of files that are changed again and again.
const CHANGING: u64 = 24;

/// A run of one layout.
struct PowerFailureRun {
    layout: &'static dyn LayoutKind,
    seed: u64,
}

/// The numbers of the files that were synced and are never touched again.
type Synced = Rc<Cell<u64>>;

fn kept_name(number: u64) -> Name {
    Name::from(format!("kept {number}").as_bytes())
}

/// The content of a synced file: from nothing to a few blocks.
fn kept(seed: u64, number: u64) -> Vec<u8> {
    let len = (seed * 7919 + number * 5003) % 40_000;
    (0..len).map(|i| (i * 31 + i / 253 + number * 17 + seed) as u8).collect()
}

fn data(bytes: &[u8]) -> Data {
    Data::Bytes(Bytes::copy_of(bytes))
}

/// A client that syncs new files and, between, changes others in any way.
struct Client {
    volume: Volume,
    seed: u64,
    rng: Rng,
    synced: Synced,
}

impl Client {
    async fn ask(&self, op: Op) -> twin_fs::Result<Reply> {
        self.volume.execute(Request::root(0, op)).await
    }

    async fn create(&self, name: Name) -> twin_fs::Result<Ino> {
        match self.ask(Op::Create { dir: ROOT_INO, name, mode: 0o644, exclusive: false }).await? {
            Reply::Entry(entry) => Ok(entry.attr.ino),
            other => panic!("{other:?}"),
        }
    }

    async fn sync_another(&self) -> twin_fs::Result<()> {
        let number = self.synced.get();
        let ino = self.create(kept_name(number)).await?;
        self.ask(Op::Write { ino, off: 0, data: data(&kept(self.seed, number)) }).await?;
        self.ask(Op::Fsync { ino, data_only: false }).await?;
        self.synced.set(number + 1);
        Ok(())
    }

    /// Changes a file that is not synced. Names that are there or not make no difference.
    async fn change(&mut self) -> twin_fs::Result<()> {
        let any =
            |rng: &mut Rng| Name::from(format!("changing {}", rng.below(CHANGING)).as_bytes());
        let (name, to_name) = (any(&mut self.rng), any(&mut self.rng));
        let (dir, to_dir) = (ROOT_INO, ROOT_INO);
        match self.rng.below(8) {
            0 => drop(self.ask(Op::Unlink { dir, name }).await),
            1 => {
                let mode = RenameMode::default();
                drop(self.ask(Op::Rename { dir, name, to_dir, to_name, mode }).await);
            }
            2 => {
                let dir_name = Name::from(format!("dir {}", self.rng.below(8)).as_bytes());
                let made = self.ask(Op::MakeDir { dir, name: dir_name.clone(), mode: 0o755 }).await;
                if made.is_err() {
                    drop(self.ask(Op::RemoveDir { dir, name: dir_name }).await);
                }
            }
            _ => {
                let ino = self.create(name).await?;
                let (off, len) = (self.rng.below(60_000), self.rng.range(1, 30_000));
                let bytes = vec![self.rng.next_u64() as u8; len as usize];
                self.ask(Op::Write { ino, off, data: data(&bytes) }).await?;
            }
        }
        Ok(())
    }

    async fn work(mut self, rt: Rt) -> twin_fs::Result<()> {
        loop {
            for _ in 0..self.rng.below(20) {
                self.change().await?;
                rt.sleep(self.rng.below(20) * MILLIS).await;
            }
            self.sync_another().await?;
        }
    }
}

fn disk(rt: &Rt, platter: Platter) -> SimDisk {
    let options = model::Options { size: Some(SIZE), ..model::Options::default() };
    let model = model::REGISTRY.get("disk-7200").unwrap().build(&options).unwrap();
    SimDisk::builder(rt, model).platter(platter).crashable().start()
}

fn settings() -> Settings {
    // Write-back is to be under way between syncs, too.
    Settings { cache_bytes: 4 << 20, flush_age_ns: Some(100 * MILLIS), ..Settings::default() }
}

impl PowerFailureRun {
    /// What a restart may find, with the number of files that had been synced.
    fn platters(&self) -> Vec<(Platter, u64)> {
        let rt = Rt::new(ClockOnly::default(), self.seed);
        let mut rng = Rng::new(self.seed);
        let sim = disk(&rt, Platter::new(SIZE));
        let device: Rc<dyn BlockDevice> = Rc::new(sim.clone());
        let config = self.layout.config();
        let identity = Identity { uuid: *b"a power failure.", root: (0, 0, 0o755) };
        rt.block_on(config.mkfs(&rt, Rc::clone(&device), identity)).unwrap().unwrap();
        let opening = config.open(&rt, device, Cpu::none(), settings());
        let volume = rt.block_on(opening).unwrap().unwrap().volume;
        let synced = Synced::default();
        let client = Client {
            volume: volume.clone(),
            seed: self.seed,
            rng: Rng::new(self.seed + 1000),
            synced: Rc::clone(&synced),
        };
        let failed = Rc::new(RefCell::new(None));
        let (work, told) = (client.work(rt.clone()), Rc::clone(&failed));
        rt.spawn("client", async move { *told.borrow_mut() = Some(work.await) });
        let mut platters = Vec::new();
        for _ in 0..FAILURES {
            rt.block_on(rt.sleep(rng.range(1, 1500) * MILLIS + rng.below(MILLIS))).unwrap();
            assert!(failed.borrow().is_none(), "{self}: the client: {:?}", failed.borrow());
            let crash = sim.crash_state().unwrap();
            let left = crash.explore(&EXPLORED, &mut rng);
            platters.extend(left.map(|platter| (platter, synced.get())));
        }
        drop(volume);
        rt.crash();
        platters
    }

    /// What a check finds; `None` if the layout has no repair and was asked for one.
    fn check(&self, sim: &SimDisk, rt: &Rt, repair: bool) -> Option<Vec<String>> {
        let (mut quiet, how) = (|_, _| {}, CheckRequest { repair, data: false });
        let check = self.layout.check(rt, Rc::new(sim.clone()), how, &mut quiet);
        match rt.block_on(check).unwrap() {
            Ok(report) => Some(report.findings),
            Err(FsError::Invalid(_)) if repair => None,
            Err(error) => panic!("{self}: check: {error}"),
        }
    }

    fn must_be_sound(&self, sim: &SimDisk, rt: &Rt, after: &str) {
        assert_eq!(
            self.check(sim, rt, false).unwrap_or_default(),
            [""; 0],
            "{self}: after {after}"
        );
    }

    /// Opens what a failure has left, looks for the synced files, and closes it.
    fn open(&self, sim: &SimDisk, rt: &Rt, synced: u64) {
        let config = self.layout.config();
        let opening = config.open(rt, Rc::new(sim.clone()), Cpu::none(), settings());
        let opened = rt.block_on(opening).unwrap();
        let volume = opened.unwrap_or_else(|error| panic!("{self}: open: {error}")).volume;
        let ask = |op| rt.block_on(volume.execute(Request::root(0, op))).unwrap();
        for number in 0..synced {
            let found = ask(Op::Lookup { dir: ROOT_INO, name: kept_name(number) });
            let Ok(Reply::Entry(entry)) = found else {
                panic!("{self}: file {number} of {synced} that were synced: {found:?}")
            };
            let read = ask(Op::Read { ino: entry.attr.ino, off: 0, len: 1 << 20 });
            let Ok(Reply::Data(blocks)) = read else { panic!("{self}: file {number}: {read:?}") };
            let bytes: Vec<u8> = blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect();
            assert!(bytes == kept(self.seed, number), "{self}: the content of file {number}");
        }
        rt.block_on(volume.close()).unwrap().unwrap_or_else(|e| panic!("{self}: close: {e}"));
    }

    /// Gives the number of findings before repairs, and of files that were synced.
    fn run(&self) -> (usize, u64) {
        let (mut found, mut most) = (0, 0);
        for (platter, synced) in self.platters() {
            for repair_first in [false, true] {
                let rt = Rt::new(ClockOnly::default(), 1);
                let sim = disk(&rt, platter.clone());
                if repair_first && let Some(findings) = self.check(&sim, &rt, true) {
                    found += findings.len();
                    self.must_be_sound(&sim, &rt, "the repair");
                }
                self.open(&sim, &rt, synced);
                self.must_be_sound(&sim, &rt, "opening and closing it");
                rt.crash();
            }
            most = most.max(synced);
        }
        (found, most)
    }
}

impl std::fmt::Display for PowerFailureRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (layout, seed) = (self.layout.name(), self.seed);
        write!(f, "TWINFS_LAYOUT={layout} TWINFS_SEED={seed} cargo test --release -p twin-lab ")?;
        f.write_str("power_failures::")
    }
}

#[test]
fn every_layout_is_sound_after_power_failures_and_has_what_was_synced_and_left_alone() {
    let asked = std::env::var("TWINFS_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let only = std::env::var("TWINFS_LAYOUT").ok();
    for &layout in LAYOUTS {
        if only.as_deref().is_some_and(|name| name != layout.name()) {
            continue;
        }
        let (mut found, mut synced) = (0, 0);
        // A part of the seeds at every change, all of them by night.
        let at_night = std::env::var_os("TWINFS_NIGHT").is_some();
        let one_in = if at_night { 1 } else { 5 };
        for seed in asked.map_or(SEEDS, |seed: u64| seed..=seed).step_by(one_in) {
            let (more, most) = PowerFailureRun { layout, seed }.run();
            (found, synced) = (found + more, synced + most);
        }
        println!("{}: {found} findings were repaired, {synced} files were synced", layout.name());
        assert!(
            asked.is_some() || synced > 40 / one_in as u64,
            "{}: the client did too little",
            layout.name()
        );
    }
}

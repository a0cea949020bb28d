//! A mount that follows a volume in a bucket, explored: writers of a log at work, one after the other, and a follower.
//!
//! Contract: [`follow`] is a function of its scenario. Checked, whenever the follower is asked: its whole tree is the one that
//! the writer had after some request, of those that are not lost with a writer; not an earlier one than it showed before, and none
//! before the last sync that was acknowledged when the last look began; a file that is open is what it was, or stale; a directory that was found is the same, or stale; nothing
//! that it asks of its store changes the bucket. In the end it shows what the last writer left, and keeps no other state.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_bucket::{
    Bucket, Follower, Identity, MemoryStore, OpenError, Settings, Shape, create, open,
};
use twin_disk::{Block, gather};
use twin_fs::{
    Cpu, FileSystem, FsError, Ino, LayoutConfig, Op, ROOT_INO, Reply, Request, Timestamp, Volume,
};
use twin_lab::follow::{Begun, Followed, Watch};
use twin_lab::{NOBODY, layouts::LAYOUTS};
use twin_model::generate::{Generator, WorkloadParams};
use twin_model::{Compare, Dump, diff, dump};
use twin_rt::{ClockOnly, MILLIS, Nanos, Rng, Rt, SECS, Time};

use super::Scenario;
use super::wire::{Course, Wire};

/// The volume: small, so that the cleaner is soon at work.
const SHAPE: Shape = Shape { size: 6 << 20, sector: 512, pack_bytes: 64 << 10 };
const SEGMENT: &str = "64K";
/// Requests of each writer for each step of the scenario.
const REQUESTS: u64 = 12;
/// The longest file, in bytes.
const FILE: u64 = 30_000;

/// Files that are held open.
const HELD: usize = 12;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// States that were shown.
    pub states: u64,
    /// Trees that were compared.
    pub trees: u64,
    /// Trees that could not be walked, because what was shown was deleted or replaced meanwhile.
    pub interrupted: u64,
    /// Reads of files that had been opened in an earlier state.
    pub held: u64,
    /// Of these, those that were stale.
    pub stale: u64,
    /// Questions about directories that were found earlier and are gone.
    pub stale_directories: u64,
    /// Writers that were replaced.
    pub replaced: u64,
    /// Objects that writers deleted.
    pub deletes: u64,
}

impl std::ops::AddAssign for Shown {
    fn add_assign(&mut self, more: Shown) {
        self.states += more.states;
        self.trees += more.trees;
        self.interrupted += more.interrupted;
        self.held += more.held;
        self.stale += more.stale;
        self.stale_directories += more.stale_directories;
        self.replaced += more.replaced;
        self.deletes += more.deletes;
    }
}

/// What is known of the volume.
#[derive(Default)]
struct Known {
    /// The tree after each request.
    trees: Vec<Rc<Dump>>,
    /// When syncs were acknowledged, and the trees that they promise.
    acknowledged: Vec<(Time, usize)>,
    /// The tree that the follower showed last.
    shown: usize,
    replaced: u64,
    failed: Option<String>,
}

struct World {
    rt: Rt,
    scenario: Scenario,
    store: Rc<MemoryStore>,
    rng: RefCell<Rng>,
    known: RefCell<Known>,
    is_over: Cell<bool>,
    next_id: Cell<u64>,
}

/// Follows a volume.
///
/// # Errors
/// The first promise that is broken.
pub fn follow(scenario: &Scenario, every: Nanos) -> Result<Shown, String> {
    let rt = Rt::new(ClockOnly::default(), scenario.seed);
    let world = Rc::new(World {
        rt: rt.clone(),
        scenario: *scenario,
        store: Rc::default(),
        rng: RefCell::new(Rng::stream(scenario.seed, "followers")),
        known: RefCell::default(),
        is_over: Cell::new(false),
        next_id: Cell::new(1 << 40),
    });
    let ran = async move {
        let first = world.make().await?;
        let writing = Rc::clone(&world);
        world.rt.spawn("writers", async move {
            let written = writing.writers(first).await;
            let mut known = writing.known.borrow_mut();
            known.failed = known.failed.take().or(written.err());
            writing.is_over.set(true);
        });
        world.follower(every).await
    };
    rt.block_on(ran).map_err(|stalled| stalled.to_string())?
}

fn layout() -> Result<Box<dyn LayoutConfig>, String> {
    let log = LAYOUTS.iter().find(|kind| kind.is_log()).ok_or("there is no log")?;
    let mut config = log.config();
    config.set("segment", SEGMENT).map_err(|error| error.to_string())?;
    config.set_for_open("discard", "yes").map_err(|error| error.to_string())?;
    Ok(config)
}

fn of_volume(read_only: bool) -> twin_fs::Settings {
    let settings = twin_fs::Settings {
        cache_bytes: if read_only { 128 << 10 } else { 2 << 20 },
        expand_stamps: true,
        ..Default::default()
    };
    twin_fs::Settings { read_only, ..settings.mounted() }
}

impl World {
    fn below(&self, most: u64) -> u64 {
        self.rng.borrow_mut().below(most)
    }

    fn wire(&self, name: &str) -> Wire {
        Wire::new(&self.rt, &self.store, self.scenario.weather(), &Course::default(), name)
    }

    fn settings(&self, number: u64) -> Settings {
        let mut writer = [0; 16];
        writer[..8].copy_from_slice(&number.to_le_bytes());
        let packs_a_head = self.scenario.packs_a_head as u32;
        Settings { packs_a_head, ..Settings::new(Identity(writer), &format!("writer {number}")) }
    }

    /// Makes the volume.
    async fn make(&self) -> Result<Bucket, String> {
        let wire = self.wire("first");
        wire.clear(true);
        let (settings, volume) = (self.settings(1), Identity([9; 16]));
        let made = create(&self.rt, Rc::new(wire.clone()), volume, SHAPE, &settings).await;
        let made = made.map_err(|error| error.to_string())?;
        let mkfs = layout()?;
        let mkfs = mkfs.mkfs(&self.rt, Rc::new(made.clone()), NOBODY).await;
        mkfs.map_err(|error| error.to_string())?;
        wire.clear(false);
        Ok(made)
    }

    async fn tree<F: FileSystem>(&self, fs: &F) -> Result<Dump, twin_model::DumpError> {
        let mut next_id = self.next_id.get();
        let tree = dump(fs, &mut next_id).await;
        self.next_id.set(next_id);
        tree
    }

    /// One writer after the other.
    async fn writers(&self, first: Bucket) -> Result<(), String> {
        let params = WorkloadParams {
            clients: 1,
            users: false,
            files: 12,
            dirs: 4,
            file_size_max: FILE,
            far_size_max: FILE,
            write_max: FILE / 2,
            space_max: 16 * FILE,
            names: 12,
            invalid: 0.01,
            ..WorkloadParams::default()
        };
        let seed = self.scenario.seed;
        let mut clients = Generator::new("mixed", params, seed).ok_or("no such workload")?;
        let mut device = first;
        for writer in 2..2 + self.scenario.writers {
            let volume = self.open(&device).await?;
            self.begin(&volume).await?;
            clients.remount();
            for _ in 0..REQUESTS * self.scenario.steps {
                self.request(&volume, &mut clients).await?;
            }
            if self.below(3) == 0 {
                let to = self.known.borrow().trees.len() - 1;
                if volume.close().await.is_ok() && device.close().await.is_ok() {
                    self.acknowledge(to);
                }
            }
            let wire = self.wire(&format!("writer {writer}"));
            device = loop {
                let settings = self.settings(writer);
                match open(&self.rt, Rc::new(wire.clone()), Rc::new(|_| true), &settings).await {
                    Ok(device) => break device,
                    Err(OpenError::Store(_) | OpenError::Contended) => {}
                    Err(error) => return Err(format!("writer {writer}: {error}")),
                }
            };
        }
        let volume = self.open(&device).await?;
        self.begin(&volume).await?;
        Ok(())
    }

    async fn open(&self, device: &Bucket) -> Result<Volume, String> {
        let config = layout()?;
        let device = Rc::new(device.clone());
        let opened = config.open(&self.rt, device, Cpu::none(), of_volume(false)).await;
        Ok(opened.map_err(|error| error.to_string())?.volume)
    }

    /// A writer begins with a tree of before, at least as new as what was promised and shown.
    async fn begin(&self, volume: &Volume) -> Result<(), String> {
        let tree = self.tree(volume).await.map_err(|error| format!("a writer: {error:?}"))?;
        let mut known = self.known.borrow_mut();
        if known.trees.is_empty() {
            known.trees.push(Rc::new(tree));
            return Ok(());
        }
        let least = known.shown.max(known.acknowledged.last().map_or(0, |(_, tree)| *tree));
        let at = (least..known.trees.len()).rev().find(|at| is_same(&known.trees[*at], &tree));
        let at = at.ok_or("a writer begins with less than was acknowledged or shown")?;
        known.trees.truncate(at + 1);
        known.replaced += 1;
        Ok(())
    }

    fn acknowledge(&self, to: usize) {
        let now = self.rt.now();
        self.known.borrow_mut().acknowledged.push((now, to));
    }

    async fn request(&self, volume: &Volume, clients: &mut Generator) -> Result<(), String> {
        if self.below(4) == 0 {
            self.rt.sleep(self.below(3000) * MILLIS).await;
        }
        let to = self.known.borrow().trees.len() - 1;
        if self.below(8) == 0 {
            let sync = Request::root(self.next_id.get(), Op::Sync);
            if volume.execute(sync).await.is_ok() {
                self.acknowledge(to);
            }
        }
        let request = clients.next();
        let reply = volume.execute(request.clone()).await;
        clients.learn(&request, &reply);
        let tree = self.tree(volume).await.map_err(|error| format!("a writer: {error:?}"))?;
        let mut known = self.known.borrow_mut();
        if !is_same(&known.trees[to], &tree) {
            known.trees.push(Rc::new(tree));
        }
        Ok(())
    }

    /// The follower, and who asks it.
    async fn follower(self: &Rc<Self>, every: Nanos) -> Result<Shown, String> {
        let (wire, settings) = (self.wire("follower"), self.settings(1000));
        let (follower, device, as_of) = loop {
            let as_of = self.rt.now();
            match Follower::begin(&self.rt, Rc::new(wire.clone()), &settings).await {
                Ok((follower, device)) => break (follower, device, as_of),
                Err(OpenError::Store(_) | OpenError::Contended) => {}
                Err(error) => return Err(error.to_string()),
            }
        };
        let begun = Begun { follower, first: device.clone(), every, as_of };
        let (watch, followed) = Watch::begin(&self.rt, begun, layout()?, of_volume(true)).await?;
        let rt = self.rt.clone();
        self.rt.spawn("watch", async move { watch.run(rt, |_| ()).await });
        let mut shown = Shown::default();
        let (mut held, mut directories) = (Vec::new(), BTreeMap::new());
        while !self.is_over.get() {
            self.rt.sleep(self.below(4000) * MILLIS).await;
            if self.below(20) == 0 {
                wire.stall(self.below(30) * SECS);
            }
            self.keep(&followed, &mut directories, &mut shown).await?;
            self.look(&followed, &mut shown).await?;
            self.hold(&followed, &mut held, &mut shown).await?;
        }
        if let Some(failed) = self.known.borrow_mut().failed.take() {
            return Err(failed);
        }
        for (ino, _) in held {
            self.ask(&followed, Op::Release { ino }).await.map_err(|error| error.to_string())?;
        }
        self.last(&followed, every, &mut shown).await?;
        let counts = device.counts();
        if counts.puts + counts.deletes + counts.lists > 0 {
            return Err(format!("the follower has asked its store for changes: {counts:?}"));
        }
        shown.states = followed.following.counts().0;
        shown.replaced = self.known.borrow().replaced;
        shown.deletes = self.store.requests().deletes;
        Ok(shown)
    }

    async fn ask(&self, followed: &Followed, op: Op) -> twin_fs::Result<Reply> {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        followed.following.execute(Request::root(id, op)).await
    }

    /// Compares the tree that is shown, unless another takes its place meanwhile.
    async fn look(&self, followed: &Followed, shown: &mut Shown) -> Result<(), String> {
        let before = (followed.following.counts().0, followed.status.borrow().as_of);
        let tree = self.tree(&*followed.following).await;
        let is_one = followed.following.counts().0 == before.0;
        let tree = match tree {
            // The first writer has not looked at it yet.
            Ok(_) if self.known.borrow().trees.is_empty() => return Ok(()),
            Ok(tree) if is_one => tree,
            Ok(_) => {
                shown.interrupted += 1;
                return Ok(());
            }
            Err(error) if !is_one || error.error == FsError::Stale => {
                shown.interrupted += 1;
                return match error.error {
                    FsError::Stale | FsError::NotFound | FsError::Corrupt { .. } => Ok(()),
                    other => Err(format!("the follower: {other}")),
                };
            }
            Err(error) => return Err(format!("the follower: {error:?}")),
        };
        shown.trees += 1;
        let mut known = self.known.borrow_mut();
        let promised = |(at, _): &&(Time, usize)| *at <= before.1;
        let promised = known.acknowledged.iter().filter(promised).map(|(_, tree)| *tree).max();
        let from =
            |least: usize| (least..known.trees.len()).find(|at| is_same(&known.trees[*at], &tree));
        match (from(known.shown.max(promised.unwrap_or(0))), from(0)) {
            (Some(at), _) => known.shown = at,
            (None, Some(at)) => {
                let Known { shown, .. } = *known;
                return Err(format!(
                    "tree {at} is shown after {shown}, and {promised:?} was promised"
                ));
            }
            (None, None) => {
                let last = &known.trees[known.trees.len() - 1];
                let what = diff(last, &tree, ["volume", "follower"], &compare());
                return Err(format!("a tree that never was; from the last one: {what:?}"));
            }
        }
        Ok(())
    }

    /// Opens files, and reads those again that were opened before.
    async fn hold(
        &self,
        followed: &Followed,
        held: &mut Vec<(Ino, Vec<u8>)>,
        shown: &mut Shown,
    ) -> Result<(), String> {
        for (ino, was) in held.iter() {
            shown.held += 1;
            match self.read(followed, *ino).await {
                Ok(is) if is == *was => {}
                Ok(_) => return Err(format!("file {ino:x}, which is open, has changed")),
                Err(FsError::Stale) => shown.stale += 1,
                Err(error) => return Err(format!("file {ino:x}, which is open: {error}")),
            }
        }
        if held.len() > HELD {
            let (ino, _) = held.remove(self.below(HELD as u64) as usize);
            self.ask(followed, Op::Release { ino }).await.map_err(|error| error.to_string())?;
        }
        let list = Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 1 << 16, plus: true };
        let Ok(Reply::Dir(entries)) = self.ask(followed, list).await else { return Ok(()) };
        let files = entries.iter().filter_map(|listed| listed.entry.as_ref());
        let files: Vec<Ino> = files
            .filter(|entry| entry.attr.kind() == twin_fs::mode::REGULAR)
            .map(|entry| entry.attr.ino)
            .collect();
        if files.is_empty() {
            return Ok(());
        }
        let ino = files[self.below(files.len() as u64) as usize];
        let open = Op::Open { ino, read: true, write: false, truncate: false };
        if self.ask(followed, open).await.is_ok() {
            match self.read(followed, ino).await {
                Ok(content) => held.push((ino, content)),
                Err(_) => drop(self.ask(followed, Op::Release { ino }).await),
            }
        }
        Ok(())
    }

    /// A directory that was found in an earlier state is the same, or stale: never another one that has its number now.
    async fn keep(
        &self,
        followed: &Followed,
        directories: &mut BTreeMap<Ino, Timestamp>,
        shown: &mut Shown,
    ) -> Result<(), String> {
        for (&ino, born) in directories.iter() {
            match self.ask(followed, Op::GetAttr { ino }).await {
                Ok(Reply::Attr(attr)) if attr.is_dir() && attr.btime == *born => {}
                Ok(other) => return Err(format!("directory {ino:x} is another one: {other:?}")),
                Err(FsError::Stale) => shown.stale_directories += 1,
                Err(error) => return Err(format!("directory {ino:x}: {error}")),
            }
        }
        // These references are never given back, as by a process that stays in a directory.
        let list = Op::ReadDir { dir: ROOT_INO, cookie: 0, max_bytes: 1 << 16, plus: true };
        let Ok(Reply::Dir(entries)) = self.ask(followed, list).await else { return Ok(()) };
        let entries = entries.iter().filter_map(|listed| listed.entry.as_ref());
        let found = entries.filter(|entry| entry.attr.is_dir());
        directories.extend(found.map(|entry| (entry.attr.ino, entry.attr.btime)));
        Ok(())
    }

    async fn read(&self, followed: &Followed, ino: Ino) -> twin_fs::Result<Vec<u8>> {
        match self.ask(followed, Op::Read { ino, off: 0, len: 2 * FILE as u32 }).await? {
            Reply::Data(blocks) => {
                let len = blocks.iter().map(Block::len).sum();
                Ok(gather(&blocks, 0, len).to_bytes().to_vec())
            }
            _ => Err(FsError::inconsistent("a reply of another kind")),
        }
    }

    /// When nothing changes any more, the follower shows the last tree, and keeps one state.
    async fn last(
        &self,
        followed: &Followed,
        every: Nanos,
        shown: &mut Shown,
    ) -> Result<(), String> {
        // A request that was lost is repeated until then, and the committer has written all.
        self.rt.sleep(120 * SECS + 4 * every).await;
        self.look(followed, shown).await?;
        let known = self.known.borrow();
        if !is_same(&known.trees[known.shown], &known.trees[known.trees.len() - 1]) {
            return Err("the last state is not shown".into());
        }
        match followed.following.counts().1 {
            1 => Ok(()),
            kept => Err(format!("{kept} states are kept in the end")),
        }
    }
}

fn compare() -> Compare {
    Compare::default()
}

fn is_same(a: &Dump, b: &Dump) -> bool {
    diff(a, b, ["a", "b"], &compare()).is_none()
}

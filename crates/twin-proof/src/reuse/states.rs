//! Space freed and used again while the transaction that has it is in each of its states.
//!
//! Contract: not drawn at random but gone through in order. A file or a directory is made and
//! synced, and it is removed in each state of the transaction that has it: it runs, so many writes
//! and flushes of its sync have reached the disk, it has landed in the journal, it has been
//! checkpointed, records have gone round the journal, or the program was killed and the journal
//! replayed. The removal is synced too, and when so many writes and flushes of that have reached the
//! disk, files with and without indirect blocks and directories take the space: there is no other.
//! Each is fsynced. From then on the power fails at each write or flush, with each subset of the
//! latest writes in doubt, and all must be whole; as they must be after closing. What was not fsynced
//! yet may be there or not, but has no bytes that were never its own.

use std::cell::Cell;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::{Data, FsError, Ino, Op, ROOT_INO, Reply, Request, Result, SetAttr, VolumeOf};
use twin_rt::{MILLIS, Rng, Rt, SECS, Time};

use super::content::{Content, foreign};
use super::{lookup, named, read};
use crate::{AnyWorld, Failure, Scenario, Subject, Timing, make};
use twin_sim::Platter;
use twin_sim::faults::{Exploration, FaultPlan, WriteLog, WriteOutcome};

/// Bytes of the file that is removed: with an indirect block.
const LONG: usize = 120_000;
/// Bytes that are free while the first file or directory is there.
const FREE: u64 = 60_000;
/// Bytes of each short file that takes space.
const SHORT: usize = 12_000;
/// Names in the directories.
const NAMES: u64 = 24;
/// How often it is looked whether a write has reached the disk.
const GLANCE_NS: u64 = 20_000;
/// More writes and flushes than a sync here takes.
const MOST_EVENTS: usize = 200;
/// Checkpoints in which records go round the journal: each makes room in half of it.
const ROUND: u64 = 3;
/// More syncs than so many checkpoints take.
const MOST_SYNCS: u32 = 400;

/// What is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freed {
    /// A file with data blocks and an indirect block.
    File,
    /// A directory with names.
    Directory,
}

/// How far a sync has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// So many of its writes and flushes were submitted or have ended.
    Events(usize),
    /// It has ended, and the next one too.
    Past,
    /// So many checkpoints have been written since.
    Checkpoints(u64),
    /// It has ended, and so has another one; then the program was killed and begun again.
    Restarted,
}

/// What takes the space first, and most of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taker {
    /// Short files: data.
    Short,
    /// A file with an indirect block.
    Long,
    /// Directories.
    Directories,
}

const TAKERS: [Taker; 3] = [Taker::Short, Taker::Long, Taker::Directories];

/// One of the things that take the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    File(Content),
    Directory,
}

impl Taker {
    /// What it makes as its nth.
    fn makes(self, nth: u64) -> Taken {
        let file = |len| Taken::File(Content { file: 2 + nth, version: 1, len });
        match (self, nth) {
            (Taker::Short, 1) | (Taker::Long, 1) | (Taker::Directories, 0..4) => Taken::Directory,
            (Taker::Long, 0) => file(LONG),
            _ => file(SHORT),
        }
    }
}

/// What an exploration came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States {
    /// Pairs of states: of the transaction that has the blocks, and of that which frees them.
    pub pairs: u64,
    /// Of these, those in which there was no room for what comes next.
    pub refused: u64,
    /// Outcomes of power failures, each recovered from.
    pub failures: u64,
}

/// Explores all states, every `stride`-th of those in which a sync is on its way.
///
/// # Errors
/// The first file or directory that is not as it was fsynced.
pub fn states<L: Subject>(
    scenario: &Scenario,
    stride: usize,
) -> std::result::Result<States, Failure> {
    let explored = Explorer::<L>::new(scenario).and_then(|mut all| all.explore(stride));
    let scenario = scenario.clone();
    explored.map_err(|what| Failure { kind: L::STATES, scenario, what })
}

struct Explorer<'a, L: Subject> {
    scenario: &'a Scenario,
    /// A volume with hardly any room.
    full: Platter,
    rng: Rng,
    found: States,
    layout: std::marker::PhantomData<L>,
}

impl<'a, L: Subject> Explorer<'a, L> {
    fn new(scenario: &'a Scenario) -> std::result::Result<Explorer<'a, L>, String> {
        let platter = make::<L>(scenario)?;
        let mut world = AnyWorld::<L>::new(scenario, platter, Timing::Instant, Time(SECS));
        world.open()?;
        let volume = world.volume().clone();
        let client = Client { volume, rt: world.rt.clone(), next: Cell::new(0) };
        world
            .wait("filling", client.fill(LONG as u64 + 2 * FREE))?
            .map_err(|error| format!("filling: {error}"))?;
        drop(client);
        Ok(Explorer {
            scenario,
            full: world.close()?,
            rng: Rng::stream(scenario.seed, "states"),
            found: States::default(),
            layout: std::marker::PhantomData,
        })
    }

    fn explore(&mut self, stride: usize) -> std::result::Result<States, String> {
        for freed in [Freed::File, Freed::Directory] {
            self.on_their_way(freed, stride)?;
            let behind = [
                Progress::Past,
                Progress::Checkpoints(1),
                Progress::Checkpoints(ROUND),
                Progress::Restarted,
            ];
            for (row, first) in behind.into_iter().enumerate() {
                for (column, second) in [Progress::Events(0), Progress::Past].iter().enumerate() {
                    // Each in its turn, or all of them.
                    let turn = (row + column) % TAKERS.len();
                    let takers = if stride > 2 { &TAKERS[turn..=turn] } else { &TAKERS[..] };
                    for &taker in takers {
                        self.pair(freed, first, *second, taker)?;
                    }
                }
            }
        }
        Ok(self.found)
    }

    /// All pairs in which a sync is on its way. Every taker meets every state of either sync.
    fn on_their_way(&mut self, freed: Freed, stride: usize) -> std::result::Result<(), String> {
        for (row, first) in (0..MOST_EVENTS).step_by(stride).enumerate() {
            let mut first_ended = false;
            for (column, second) in (0..MOST_EVENTS).step_by(stride).enumerate() {
                let taker = TAKERS[(row + column) % TAKERS.len()];
                let (first, second) = (Progress::Events(first), Progress::Events(second));
                let ended = self.pair(freed, first, second, taker)?;
                first_ended = ended.0;
                if ended.1 {
                    break;
                }
            }
            if first_ended {
                break;
            }
        }
        Ok(())
    }

    /// What a kill leaves when the file or directory was synced, and something else after it.
    fn killed(&self, freed: Freed) -> std::result::Result<Platter, String> {
        let (log, full) = (WriteLog::new(), self.full.clone());
        let (start, plan) = (Time(50 * SECS), FaultPlan::none());
        let mut world =
            AnyWorld::<L>::build(self.scenario, full, Timing::Jitter, start, plan, Some(&log));
        world.open()?;
        let volume = world.volume().clone();
        let client = Client { volume, rt: world.rt.clone(), next: Cell::new(0) };
        let ran = world.wait("the steps before the kill", async {
            client.make(freed).await?;
            client.ask(Op::Sync).await?;
            client.change_and_sync(0).await
        })?;
        drop(client);
        ran.map_err(|error| format!("before the kill: {error}"))?;
        let state = world.disk.crash_state().ok_or("the disk keeps no log")?;
        Ok(state.with(&vec![WriteOutcome::Whole; state.unstable_writes().len()]))
    }

    /// One pair of states. True for each sync if it had ended by then.
    fn pair(
        &mut self,
        freed: Freed,
        first: Progress,
        second: Progress,
        taker: Taker,
    ) -> std::result::Result<(bool, bool), String> {
        let place = |what: &dyn std::fmt::Display| {
            format!("{freed:?} freed at {first:?}, {taker:?} in its space at {second:?}: {what}")
        };
        let log = WriteLog::new();
        let (start, plan) = (Time(100 * SECS), FaultPlan::none());
        let platter = match first {
            Progress::Restarted => self.killed(freed).map_err(|what| place(&what))?,
            _ => self.full.clone(),
        };
        let mut world =
            AnyWorld::<L>::build(self.scenario, platter, Timing::Jitter, start, plan, Some(&log));
        world.open().map_err(|what| place(&what))?;
        let volume = world.volume().clone();
        let client = Client { volume, rt: world.rt.clone(), next: Cell::new(0) };
        let run = client.run(freed, first, second, taker, &log);
        let ran = world.wait("the steps", run).map_err(|what| place(&what))?;
        drop(client);
        self.found.pairs += 1;
        let Ran { ended, taken } = match ran {
            Ok(ran) => ran,
            Err(FsError::NoSpace) => {
                self.found.refused += 1;
                return Ok((true, true));
            }
            Err(error) => return Err(place(&error)),
        };
        let closed = world.close()?;
        drop(world);
        self.hold(closed, taker, FREED_SYNCED + taken)
            .map_err(|what| place(&format!("after closing: {what}")))?;
        let exploration = Exploration { exhaustive: 3, torn: false, random: 1 };
        for point in log.crash_points().filter(|point| point.mark.is_some()) {
            let mark = point.mark.unwrap_or_default();
            let left: Vec<Platter> = point.state.explore(&exploration, &mut self.rng).collect();
            for platter in left {
                self.found.failures += 1;
                self.hold(platter, taker, mark).map_err(|what| {
                    place(&format!("power failure before event {}: {what}", point.index))
                })?;
            }
        }
        Ok(ended)
    }

    /// The file that was to be removed is still there, and was synced before: so it is whole.
    fn hold_freed(&self, world: &mut AnyWorld<L>, ino: Ino) -> std::result::Result<(), String> {
        let Ok(Reply::Attr(attr)) = world.ask(Op::GetAttr { ino })? else { return Ok(()) };
        if attr.is_dir() {
            return Ok(());
        }
        let is = read(world, ROOT_INO, "freed")?.unwrap_or_default();
        let differs = FREED.differs(&is);
        differs.map_or(Ok(()), |what| Err(format!("the file whose removal was not synced: {what}")))
    }

    /// Opens what is left, and looks at what is promised from a mark on.
    fn hold(&self, platter: Platter, taker: Taker, mark: u64) -> std::result::Result<(), String> {
        let start = Time(1000 * SECS);
        let mut world = AnyWorld::<L>::new(self.scenario, platter, Timing::Instant, start);
        world.open()?;
        let lookup_freed = lookup(&mut world, ROOT_INO, "freed")?;
        if let (Some(ino), true) = (lookup_freed, L::fsync_holds(self.scenario)) {
            self.hold_freed(&mut world, ino)?;
        }
        let promised = mark.saturating_sub(FREED_SYNCED);
        for nth in 0..promised {
            let whole = match taker.makes(nth) {
                Taken::File(content) => hold_file(&mut world, nth, content),
                Taken::Directory => hold_directory(&mut world, nth),
            };
            whole.map_err(|what| format!("of {promised} things that were fsynced {what}"))?;
        }
        if L::keeps_own_bytes(self.scenario) {
            // The next one was under way.
            if let Taken::File(content) = taker.makes(promised) {
                hold_own(&mut world, &taken_name(promised), content)?;
            }
            hold_own(&mut world, "beside", BESIDE)?;
        }
        Ok(())
    }
}

fn hold_file<L: Subject>(
    world: &mut AnyWorld<L>,
    nth: u64,
    content: Content,
) -> std::result::Result<(), String> {
    let Some(is) = read(world, ROOT_INO, &taken_name(nth))? else {
        return Err(format!("file {nth} is gone"));
    };
    content.differs(&is).map_or(Ok(()), |what| Err(format!("file {nth} is not whole: {what}")))
}

/// A file has no bytes that were never its own, if it is there.
fn hold_own<L: Subject>(
    world: &mut AnyWorld<L>,
    name: &str,
    content: Content,
) -> std::result::Result<(), String> {
    let is = read(world, ROOT_INO, name)?.unwrap_or_default();
    foreign(content.file, &is).map_or(Ok(()), |what| Err(format!("{name}, not fsynced: {what}")))
}

fn hold_directory<L: Subject>(
    world: &mut AnyWorld<L>,
    nth: u64,
) -> std::result::Result<(), String> {
    let Some(dir) = lookup(world, ROOT_INO, &taken_name(nth))? else {
        return Err(format!("directory {nth} is gone"));
    };
    for number in 0..NAMES {
        if lookup(world, dir, &name(number))?.is_none() {
            return Err(format!("directory {nth} lacks name {number}"));
        }
    }
    Ok(())
}

/// The mark in the log of writes from which on what will be freed is whole, until it is gone. With
/// each one more, one more of what was taken outlives a power failure.
const FREED_SYNCED: u64 = 1;

/// What a run of one pair came to.
struct Ran {
    /// For each sync, if it had ended before it was gone on with.
    ended: (bool, bool),
    /// Files and directories that took the space.
    taken: u64,
}

/// The file that is removed.
const FREED: Content = Content { file: 1, version: 1, len: LONG };

/// A file whose data is written with the removal: so the sync of that has data to wait for.
const BESIDE: Content = Content { file: 1 << 32, version: 1, len: SHORT };

fn taken_name(nth: u64) -> String {
    format!("taken-{nth}")
}

fn name(nth: u64) -> String {
    format!("{nth:060}")
}

struct Client<L: Subject> {
    volume: VolumeOf<L>,
    rt: Rt,
    next: Cell<u64>,
}

impl<L: Subject> Client<L> {
    async fn ask(&self, op: Op) -> Result<Reply> {
        self.next.set(self.next.get() + 1);
        self.volume.execute(Request::root(self.next.get(), op)).await
    }

    async fn entry(&self, op: Op) -> Result<Ino> {
        match self.ask(op).await? {
            Reply::Entry(entry) => Ok(entry.attr.ino),
            _ => Err(FsError::Invalid("no entry")),
        }
    }

    async fn free(&self) -> Result<u64> {
        match self.ask(Op::StatFs).await? {
            Reply::Stat(stat) => Ok(stat.free * u64::from(stat.block_size)),
            _ => Err(FsError::Invalid("no figures")),
        }
    }

    /// Leaves so many bytes free.
    async fn fill(&self, leave: u64) -> Result<()> {
        let create =
            Op::Create { dir: ROOT_INO, name: named("filler"), mode: 0o644, exclusive: false };
        let ino = self.entry(create).await?;
        let mut off = 0;
        if let Reply::Attr(attr) = self.ask(Op::GetAttr { ino }).await? {
            off = attr.size;
        }
        loop {
            // Of what is free, indirect blocks take a little too.
            let more = self.free().await?.saturating_sub(leave) / 4096 * 3072;
            if more < 4096 {
                break;
            }
            let data = Data::Synthetic(more.min(64 << 10));
            off += data.len();
            self.ask(Op::Write { ino, off: off - data.len(), data }).await?;
        }
        self.release(ino).await
    }

    /// Makes what will be freed, and leaves hardly any room beside it.
    async fn make(&self, freed: Freed) -> Result<()> {
        match freed {
            Freed::File => {
                let ino = self.file("freed", FREED).await?;
                self.release(ino).await?;
            }
            Freed::Directory => drop(self.directory("freed").await?),
        }
        self.fill(FREE).await
    }

    async fn run(
        &self,
        freed: Freed,
        first: Progress,
        second: Progress,
        taker: Taker,
        log: &WriteLog,
    ) -> Result<Ran> {
        if first != Progress::Restarted {
            self.make(freed).await?;
        }
        let one = self.sync_to(first, log).await?;
        if one {
            log.mark(FREED_SYNCED);
        }
        match freed {
            Freed::File => self.unlink(ROOT_INO, "freed").await?,
            Freed::Directory => self.fell("freed").await?,
        }
        let beside = self.file("beside", BESIDE).await?;
        self.release(beside).await?;
        let two = self.sync_to(second, log).await?;
        let mut taken = 0;
        // The first fsync makes the removal durable too: until then nothing may lie where the freed
        // lay.
        while self.take(taker, taken).await? {
            taken += 1;
            log.mark(FREED_SYNCED + taken);
        }
        self.ask(Op::Sync).await?;
        self.rt.sleep(50 * MILLIS).await;
        Ok(Ran { ended: (one, two), taken })
    }

    /// Begins to make everything durable, and goes on when that has come so far. True if it has
    /// ended.
    async fn sync_to(&self, progress: Progress, log: &WriteLog) -> Result<bool> {
        let events = match progress {
            Progress::Events(events) => events,
            Progress::Past => {
                self.ask(Op::Sync).await?;
                self.rt.sleep(SECS).await;
                return self.ask(Op::Sync).await.map(|_| true);
            }
            Progress::Checkpoints(count) => {
                self.ask(Op::Sync).await?;
                return self.pass_checkpoints(count).await.map(|()| true);
            }
            Progress::Restarted => return Ok(true),
        };
        let ended = Rc::new(Cell::new(false));
        let (volume, done) = (self.volume.clone(), Rc::clone(&ended));
        self.next.set(self.next.get() + 1);
        let request = Request::root(self.next.get(), Op::Sync);
        let before = log.len();
        self.rt.spawn("sync", async move {
            // The fsync behind it tells of the same error.
            let _ = volume.execute(request).await;
            done.set(true);
        });
        while log.len() < before + events && !ended.get() {
            self.rt.sleep(GLANCE_NS).await;
        }
        Ok(ended.get())
    }

    /// Changes something small, again and again, until so many checkpoints have been written; once
    /// if there is nothing to write one of.
    async fn pass_checkpoints(&self, count: u64) -> Result<()> {
        let written = || self.volume.layout.checkpoints();
        let Some(before) = written() else { return self.change_and_sync(0).await };
        for nth in 0..MOST_SYNCS {
            if written().is_some_and(|written| written >= before + count) {
                return Ok(());
            }
            self.change_and_sync(nth).await?;
        }
        Err(FsError::Invalid("no checkpoint is written"))
    }

    async fn change_and_sync(&self, nth: u32) -> Result<()> {
        let set = SetAttr { mode: Some(0o700 | nth & 7), ..SetAttr::default() };
        self.ask(Op::SetAttr { ino: ROOT_INO, set }).await?;
        self.ask(Op::Sync).await.map(drop)
    }

    /// A file with this content, held.
    async fn file(&self, name: &str, content: Content) -> Result<Ino> {
        let create = Op::Create { dir: ROOT_INO, name: named(name), mode: 0o644, exclusive: true };
        let ino = self.entry(create).await?;
        let data = Data::Bytes(Bytes::copy_of(&content.bytes()));
        self.ask(Op::Write { ino, off: 0, data }).await?;
        Ok(ino)
    }

    /// Takes space for the nth thing and fsyncs it; false if there is none.
    async fn take(&self, taker: Taker, nth: u64) -> Result<bool> {
        let name = taken_name(nth);
        let made = match taker.makes(nth) {
            Taken::File(content) => self.file(&name, content).await,
            Taken::Directory => self.directory(&name).await,
        };
        let ino = match made {
            Ok(ino) => ino,
            Err(FsError::NoSpace) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.ask(Op::Fsync { ino, data_only: false }).await?;
        match taker.makes(nth) {
            Taken::File(_) => self.release(ino).await?,
            Taken::Directory => drop(self.ask(Op::Forget { ino, count: 1 }).await?),
        }
        Ok(true)
    }

    async fn release(&self, ino: Ino) -> Result<()> {
        self.ask(Op::Release { ino }).await?;
        self.ask(Op::Forget { ino, count: 1 }).await.map(drop)
    }

    async fn directory(&self, at: &str) -> Result<Ino> {
        let make = Op::MakeDir { dir: ROOT_INO, name: named(at), mode: 0o755 };
        let dir = self.entry(make).await?;
        for nth in 0..NAMES {
            let link = Op::Symlink { dir, name: named(&name(nth)), target: named("x") };
            let ino = self.entry(link).await?;
            self.ask(Op::Forget { ino, count: 1 }).await?;
        }
        Ok(dir)
    }

    async fn unlink(&self, dir: Ino, name: &str) -> Result<()> {
        self.ask(Op::Unlink { dir, name: named(name) }).await.map(drop)
    }

    /// Removes a directory with all its names.
    async fn fell(&self, at: &str) -> Result<()> {
        let dir = self.entry(Op::Lookup { dir: ROOT_INO, name: named(at) }).await?;
        for nth in 0..NAMES {
            self.unlink(dir, &name(nth)).await?;
        }
        self.ask(Op::RemoveDir { dir: ROOT_INO, name: named(at) }).await?;
        self.ask(Op::Forget { ino: dir, count: 2 }).await.map(drop)
    }
}

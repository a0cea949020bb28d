//! Space freed and used again while the transaction that has it is in each of its states.
//!
//! Contract: not drawn at random but gone through in order. A file or a directory is made and
//! synced; it is removed when so many writes and flushes of that sync have reached the disk, from
//! none (its transaction runs) over each in turn (it is on its way) to all (it has landed), or after
//! another sync (it has been written to its place). The removal is synced too, and when so many
//! writes and flushes of that have reached the disk, a file and a directory take the space: there
//! is no other. Both are fsynced. From then on the power fails at each write or flush, with each
//! subset of the latest writes in doubt, and both must be whole; as they must be after closing.

use std::cell::Cell;
use std::rc::Rc;

use twin_disk::Bytes;
use twin_fs::{Data, FileSystem, FsError, Ino, Op, ROOT_INO, Reply, Request, Result, Volume};
use twin_rt::{MILLIS, Rng, Rt, SECS, Time};

use super::content::Content;
use super::{lookup, named, read};
use crate::Platter;
use crate::faults::{Exploration, FaultPlan, WriteLog};
use crate::torture::{AnyWorld, Failure, Scenario, Subject, Timing, make};

/// Bytes of the file that is removed: with an indirect block.
const LONG: usize = 120_000;
/// Bytes that are free while the first file or directory is there.
const FREE: u64 = 60_000;
/// Bytes of each file that takes space.
const SHORT: usize = 12_000;
/// Names in the directories.
const NAMES: u64 = 24;
/// How often it is looked whether a write has reached the disk.
const GLANCE_NS: u64 = 20_000;
/// More writes and flushes than a sync here takes.
const MOST_EVENTS: usize = 200;

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
    explored.map_err(|what| Failure { kind: L::REUSE, scenario, what })
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
        let volume = Rc::clone(world.volume());
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
            let mut first = 0;
            while first < MOST_EVENTS {
                let mut second = 0;
                let mut first_ended = false;
                while second < MOST_EVENTS {
                    let ended =
                        self.pair(freed, Progress::Events(first), Progress::Events(second))?;
                    first_ended = ended.0;
                    if ended.1 {
                        break;
                    }
                    second += stride;
                }
                if first_ended {
                    break;
                }
                first += stride;
            }
            self.pair(freed, Progress::Past, Progress::Events(0))?;
            self.pair(freed, Progress::Past, Progress::Past)?;
        }
        Ok(self.found)
    }

    /// One pair of states. True for each sync if it had ended by then.
    fn pair(
        &mut self,
        freed: Freed,
        first: Progress,
        second: Progress,
    ) -> std::result::Result<(bool, bool), String> {
        let log = WriteLog::new();
        let (start, plan) = (Time(100 * SECS), FaultPlan::none());
        let full = self.full.clone();
        let mut world =
            AnyWorld::<L>::build(self.scenario, full, Timing::Jitter, start, plan, Some(&log));
        world.open()?;
        let volume = Rc::clone(world.volume());
        let client = Client { volume, rt: world.rt.clone(), next: Cell::new(0) };
        let run = client.run(freed, first, second, &log);
        let place = |what: &dyn std::fmt::Display| {
            format!("{freed:?} freed at {first:?}, its space used at {second:?}: {what}")
        };
        let ran = world.wait("the steps", run)?;
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
        self.hold(closed, DIRECTORY_SYNCED + taken)
            .map_err(|what| place(&format!("after closing: {what}")))?;
        let exploration = Exploration { exhaustive: 3, torn: false, random: 1 };
        for point in log.crash_points().filter(|point| point.mark.is_some()) {
            let mark = point.mark.unwrap_or_default();
            let left: Vec<Platter> = point.state.explore(&exploration, &mut self.rng).collect();
            for platter in left {
                self.found.failures += 1;
                self.hold(platter, mark).map_err(|what| {
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
    fn hold(&self, platter: Platter, mark: u64) -> std::result::Result<(), String> {
        let start = Time(1000 * SECS);
        let mut world = AnyWorld::<L>::new(self.scenario, platter, Timing::Instant, start);
        world.open()?;
        let lookup_freed = lookup(&mut world, ROOT_INO, "freed")?;
        if let (Some(ino), true) = (lookup_freed, L::fsync_holds(self.scenario)) {
            self.hold_freed(&mut world, ino)?;
        }
        let promised = mark.saturating_sub(DIRECTORY_SYNCED);
        for nth in 0..promised {
            let Some(is) = read(&mut world, ROOT_INO, &taken_name(nth))? else {
                return Err(format!("file {nth} of {promised} is gone"));
            };
            if let Some(what) = taken(nth).differs(&is) {
                return Err(format!("file {nth} of {promised}: {what}"));
            }
        }
        if mark < DIRECTORY_SYNCED {
            return Ok(());
        }
        let Some(dir) = lookup(&mut world, ROOT_INO, "names")? else {
            return Err("the directory is gone".into());
        };
        for nth in 0..NAMES {
            if lookup(&mut world, dir, &name(nth))?.is_none() {
                return Err(format!("name {nth} of the directory is gone"));
            }
        }
        Ok(())
    }
}

// The marks in the log of writes: what outlives a power failure from there on.

/// What will be freed: it is whole, until it is gone.
const FREED_SYNCED: u64 = 1;
/// The new directory; beyond this, so many files.
const DIRECTORY_SYNCED: u64 = 2;

/// What a run of one pair came to.
struct Ran {
    /// For each sync, if it had ended before it was gone on with.
    ended: (bool, bool),
    /// Files that took the space.
    taken: u64,
}

/// The file that is removed.
const FREED: Content = Content { file: 1, version: 1, len: LONG };

fn taken(nth: u64) -> Content {
    Content { file: 2 + nth, version: 1, len: SHORT }
}

fn taken_name(nth: u64) -> String {
    format!("taken-{nth}")
}

fn name(nth: u64) -> String {
    format!("{nth:060}")
}

struct Client<L: Subject> {
    volume: Rc<Volume<L>>,
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
        self.ask(Op::Release { ino }).await?;
        self.ask(Op::Forget { ino, count: 1 }).await.map(drop)
    }

    async fn run(
        &self,
        freed: Freed,
        first: Progress,
        second: Progress,
        log: &WriteLog,
    ) -> Result<Ran> {
        match freed {
            Freed::File => {
                let ino = self.file("freed", FREED).await?;
                self.ask(Op::Release { ino }).await?;
                self.ask(Op::Forget { ino, count: 1 }).await?;
            }
            Freed::Directory => drop(self.directory("freed").await?),
        }
        self.fill(FREE).await?;
        let one = self.sync_to(first, log).await?;
        if one {
            log.mark(FREED_SYNCED);
        }
        match freed {
            Freed::File => self.unlink(ROOT_INO, "freed").await?,
            Freed::Directory => self.fell("freed").await?,
        }
        let two = self.sync_to(second, log).await?;
        // Its fsync makes the removal durable too: until then it must not lie where the freed lay.
        self.take(u64::from(u16::MAX)).await?;
        let dir = self.directory("names").await?;
        self.ask(Op::Fsync { ino: dir, data_only: false }).await?;
        let mut taken = 0;
        log.mark(DIRECTORY_SYNCED);
        while self.take(taken).await? {
            taken += 1;
            log.mark(DIRECTORY_SYNCED + taken);
        }
        self.ask(Op::Sync).await?;
        self.rt.sleep(50 * MILLIS).await;
        Ok(Ran { ended: (one, two), taken })
    }

    /// Begins to make everything durable, and goes on when that has come so far. True if it has
    /// ended.
    async fn sync_to(&self, progress: Progress, log: &WriteLog) -> Result<bool> {
        if progress == Progress::Past {
            self.ask(Op::Sync).await?;
            self.rt.sleep(SECS).await;
            return self.ask(Op::Sync).await.map(|_| true);
        }
        let Progress::Events(events) = progress else { return Ok(true) };
        let ended = Rc::new(Cell::new(false));
        let (volume, done) = (Rc::clone(&self.volume), Rc::clone(&ended));
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

    /// A file with this content, held.
    async fn file(&self, name: &str, content: Content) -> Result<Ino> {
        let create = Op::Create { dir: ROOT_INO, name: named(name), mode: 0o644, exclusive: true };
        let ino = self.entry(create).await?;
        let data = Data::Bytes(Bytes::copy_of(&content.bytes()));
        self.ask(Op::Write { ino, off: 0, data }).await?;
        Ok(ino)
    }

    /// Takes space for the nth file and fsyncs it; false if there is none.
    async fn take(&self, nth: u64) -> Result<bool> {
        let ino = match self.file(&taken_name(nth), taken(nth)).await {
            Ok(ino) => ino,
            Err(FsError::NoSpace) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.ask(Op::Fsync { ino, data_only: false }).await?;
        self.ask(Op::Release { ino }).await?;
        self.ask(Op::Forget { ino, count: 1 }).await.map(|_| true)
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

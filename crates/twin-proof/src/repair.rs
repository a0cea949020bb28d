//! Repairs of damaged volumes: what must survive, survives.
//!
//! Contract: sectors of a closed volume are changed at random, and `check --repair` is run. If it
//! accepts the volume, a check afterwards finds nothing wrong, a second repair changes no byte, the
//! volume can be opened, and every file of which no sector was changed is there, under its name or in
//! `lost+found`, with its content; what is not is in the repair's report. If the power fails in
//! the middle, a repair of what is left comes to the same. Which sectors are a file's is found by
//! reading it from a cold cache, so that this holds for any layout.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_disk::{Block, BlockDevice, DeviceInfo, Io, IoKind, Origin, Pending, gather};
use twin_fs::{CheckReport, CheckRequest};
use twin_fs::{Ino, Op, ROOT_INO, Reply, mode};
use twin_rt::{Rng, SECS, Time};
use twin_sim::Platter;
use twin_sim::faults::{FaultPlan, WriteLog};

use super::damage::{SECTOR, mutate, used_sectors};
use super::drive::drive;
use super::{AnyWorld, Failure, Scenario, Subject, Timing, prepare_any};

/// Bytes that are read at once.
const READ_BYTES: u64 = 4096;
/// The share of the damage that hits what the layout wrote for itself.
const OWN: f64 = 0.8;
/// Files are looked at up to this length, in bytes: a sparse one may be as long as it likes.
const LENGTH_MAX: u64 = 1 << 20;

/// Words of the errors with which a repair may refuse a volume without room.
const NO_ROOM: &[&str] = &["no space left", "clean segments"];

/// What repairs came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Damaged volumes.
    pub images: u64,
    /// Of these, refused: the volume has one superblock, and that was hit.
    pub unknown: u64,
    /// Of these, refused: the volume has no room for what a repair writes.
    pub cramped: u64,
    /// Of these, found sound: what was changed is not in use.
    pub sound: u64,
    /// Of these, taken back to an older state: the newest checkpoint was hit.
    pub older: u64,
    /// Repairs in whose middle the power failed.
    pub interrupted: u64,
    /// Files that no damage touched, all of which were there afterwards.
    pub untouched: u64,
    /// Files that damage touched.
    pub touched: u64,
    /// Of these, gone, or with something else in them, which the report told or a read refuses.
    pub hurt: u64,
}

impl std::ops::AddAssign for Repaired {
    fn add_assign(&mut self, other: Repaired) {
        self.images += other.images;
        self.unknown += other.unknown;
        self.cramped += other.cramped;
        self.sound += other.sound;
        self.older += other.older;
        self.interrupted += other.interrupted;
        self.untouched += other.untouched;
        self.touched += other.touched;
        self.hurt += other.hurt;
    }
}

/// A file of the volume before the damage.
struct FileCopy {
    /// Its content, in pieces of [`READ_BYTES`].
    content: Vec<Block>,
    /// The sectors that are read for it: its inode, what leads to its blocks, and these.
    sectors: BTreeSet<u64>,
    /// The sectors that opening the volume reads. Its inode may be among them.
    opening: BTreeSet<u64>,
}

/// Sectors that were read.
type Sectors = Rc<RefCell<BTreeSet<u64>>>;

/// A device that notes which sectors are read, those by the cleaner apart: it may have brought a
/// file into memory.
struct Noting {
    inner: Rc<dyn BlockDevice>,
    read: Sectors,
    by_cleaner: Sectors,
}

impl BlockDevice for Noting {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn submit(&self, io: Io) -> Pending {
        if matches!(io.kind, IoKind::Read) {
            let noted = if io.origin == Origin::Cleaner { &self.by_cleaner } else { &self.read };
            noted.borrow_mut().extend(io.at / SECTOR..(io.at + io.len).div_ceil(SECTOR));
        }
        self.inner.submit(io)
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
}

/// Runs the scenario, damages what it left so many times, and repairs each result; every fourth
/// one with a power failure in the middle.
///
/// # Errors
/// The first broken promise.
pub fn repair<L: Subject>(scenario: &Scenario, images: u64) -> Result<Repaired, Failure> {
    run::<L>(scenario, images).map_err(|what| Failure {
        kind: L::REPAIR,
        scenario: scenario.clone(),
        what,
    })
}

fn run<L: Subject>(scenario: &Scenario, images: u64) -> Result<Repaired, String> {
    let mut rng = Rng::stream(scenario.seed, "repair");
    let good = leave::<L>(scenario)?;
    let files = files::<L>(scenario, &good)?;
    let used = used_sectors(&good);
    // In these scenarios data is stamps, so that the rest is what the layout wrote for itself.
    let is_data = |at: &u64| matches!(good.read(at * SECTOR, SECTOR)[..], [Block::Stamp(_)]);
    let own: Vec<u64> = used.iter().copied().filter(|at| !is_data(at)).collect();
    let mut repaired = Repaired::default();
    for image in 0..images {
        let mut bad = good.clone();
        let hit: BTreeSet<u64> = (0..rng.range(1, 4))
            .map(|_| {
                let among = if rng.chance(OWN) { &own } else { &used };
                mutate(&mut bad, among, &mut rng)
            })
            .collect();
        repaired.images += 1;
        Case { scenario, files: &files, hit: &hit, image }
            .check::<L>(&bad, &mut rng, &mut repaired)
            .map_err(|what| format!("image {image}, sectors {hit:?}: {what}"))?;
    }
    Ok(repaired)
}

/// A volume with work on it, closed.
fn leave<L: Subject>(scenario: &Scenario) -> Result<Platter, String> {
    let (platter, _) = prepare_any::<L>(scenario)?;
    let mut world = AnyWorld::<L>::new(scenario, platter, Timing::Jitter, Time(SECS));
    world.open()?;
    drive(scenario, &world, super::generator(scenario)?, scenario.ops, None)?;
    world.close()
}

/// The regular files of a volume, by inode number.
fn files<L: Subject>(
    scenario: &Scenario,
    good: &Platter,
) -> Result<BTreeMap<Ino, FileCopy>, String> {
    let start = Time(50_000 * SECS);
    let mut world = AnyWorld::<L>::new(scenario, good.clone(), Timing::Instant, start);
    world.open()?;
    let all = inodes(&mut world)?;
    let regular = all.into_iter().filter(|(_, kind)| *kind == mode::REGULAR);
    regular.map(|(ino, _)| Ok((ino, file::<L>(scenario, good, ino)?))).collect()
}

/// A file as it is read from a volume that was just opened: nothing of it is in memory.
fn file<L: Subject>(scenario: &Scenario, good: &Platter, ino: Ino) -> Result<FileCopy, String> {
    let start = Time(60_000 * SECS);
    let mut world = AnyWorld::<L>::new(scenario, good.clone(), Timing::Instant, start);
    let (read, by_cleaner) = (Sectors::default(), Sectors::default());
    let (noting, also) = (Rc::clone(&read), Rc::clone(&by_cleaner));
    let device = Noting { inner: world.device(), read: noting, by_cleaner: also };
    let opening = L::start(&world.rt, Rc::new(device), scenario);
    let opened = world.wait("opening", opening)?;
    world.volume = Some(opened.map_err(|error| format!("opening: {error}"))?.0);
    let opening = read.take();
    let content = content(&mut world, ino)?.into_iter().collect::<twin_fs::Result<_>>();
    let content = content.map_err(|error| format!("reading inode {ino}: {error}"))?;
    let sectors = &*read.borrow() | &*by_cleaner.borrow();
    Ok(FileCopy { content, sectors, opening })
}

/// All inodes with a name, with their types.
fn inodes<L: Subject>(world: &mut AnyWorld<L>) -> Result<BTreeMap<Ino, u32>, String> {
    let mut found = BTreeMap::from([(ROOT_INO, mode::DIRECTORY)]);
    let mut dirs = vec![ROOT_INO];
    while let Some(dir) = dirs.pop() {
        let mut cookie = 0;
        loop {
            let op = Op::ReadDir { dir, cookie, max_bytes: 16384, plus: false };
            let list = match world.ask(op)? {
                Ok(Reply::Dir(list)) if !list.is_empty() => list,
                Ok(_) => break,
                Err(error) => return Err(format!("reading directory {dir}: {error}")),
            };
            for entry in list {
                cookie = entry.next;
                if !matches!(&*entry.name, b"." | b"..")
                    && found.insert(entry.ino, entry.kind).is_none()
                    && entry.kind == mode::DIRECTORY
                {
                    dirs.push(entry.ino);
                }
            }
        }
    }
    Ok(found)
}

/// The content of a file up to [`LENGTH_MAX`], in pieces of [`READ_BYTES`]; an error in place of what cannot be read.
fn content<L: Subject>(
    world: &mut AnyWorld<L>,
    ino: Ino,
) -> Result<Vec<twin_fs::Result<Block>>, String> {
    let mut pieces = Vec::new();
    let size = match world.ask(Op::GetAttr { ino })? {
        Ok(Reply::Attr(attr)) => attr.size,
        other => return Err(format!("attributes of inode {ino}: {other:?}")),
    };
    let end = size.min(LENGTH_MAX);
    for off in (0..end).step_by(READ_BYTES as usize) {
        let len = READ_BYTES.min(end - off);
        pieces.push(match world.ask(Op::Read { ino, off, len: len as u32 })? {
            Ok(Reply::Data(blocks)) => Ok(gather(&blocks, 0, len as usize)),
            Ok(other) => return Err(format!("reading inode {ino}: {other:?}")),
            Err(error) => Err(error),
        });
    }
    Ok(pieces)
}

/// A damaged volume and what it was before.
struct Case<'a> {
    scenario: &'a Scenario,
    files: &'a BTreeMap<Ino, FileCopy>,
    /// The sectors that were changed.
    hit: &'a BTreeSet<u64>,
    image: u64,
}

impl Case<'_> {
    fn world<L: Subject>(&self, platter: Platter, nth: u64, log: Option<&WriteLog>) -> AnyWorld<L> {
        let start = Time((100_000 + 10_000 * nth) * SECS + self.image);
        let timing = if log.is_some() { Timing::Jitter } else { Timing::Instant };
        AnyWorld::build(self.scenario, platter, timing, start, FaultPlan::none(), log)
    }

    fn check<L: Subject>(
        &self,
        bad: &Platter,
        rng: &mut Rng,
        repaired: &mut Repaired,
    ) -> Result<(), String> {
        let log = WriteLog::new();
        let world = self.world::<L>(bad.clone(), 0, Some(&log));
        let begun = world.rt.now();
        let report = match repair_on(&world)? {
            Ok(report) => report,
            Err(error) => {
                let why = error.to_string();
                if why.contains("superblock") {
                    repaired.unknown += 1;
                } else if NO_ROOM.iter().any(|word| why.contains(word)) {
                    repaired.cramped += 1;
                } else {
                    return Err(format!("refused: {why}"));
                }
                return Ok(());
            }
        };
        let took = world.rt.now() - begun;
        repaired.sound += u64::from(report.is_clean());
        // The newest checkpoint may be lost, and with it some of the log before it: what is there
        // is an older state.
        let is_found = |word: &str| report.findings.iter().any(|text| text.starts_with(word));
        let is_older = report.notes.iter().any(|note| note.starts_with("not unmounted"))
            || is_found("fatal: recovery")
            // The log's own description, from which a lost map is made, may be hit too.
            || is_found("fatal: ifile") && self.hit.len() > 1;
        repaired.older += u64::from(is_older);
        self.look_at::<L>(world.disk.platter(), &report, is_older, repaired)
            .map_err(|what| format!("{what}; the repair said {report:?}"))?;
        if self.image.is_multiple_of(4) && took > 0 {
            repaired.interrupted += 1;
            let until = rng.below(took);
            self.interrupt::<L>(bad, until, &report, is_older, rng)
                .map_err(|what| format!("the power failed after {until} ns: {what}"))?;
        }
        Ok(())
    }

    /// The power fails in the middle of a repair, and what is left is repaired.
    fn interrupt<L: Subject>(
        &self,
        bad: &Platter,
        until: u64,
        first: &CheckReport,
        is_older: bool,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let log = WriteLog::new();
        let world = self.world::<L>(bad.clone(), 0, Some(&log));
        let end = world.rt.now() + until;
        {
            let device = world.device();
            let mut nobody = |_, _| {};
            let how = how::<L>(true);
            let mut repair = L::KIND.check(&world.rt, device, how, &mut nobody);
            let mut alarm = std::pin::pin!(world.rt.sleep_until(end));
            let either = std::future::poll_fn(|cx| match repair.as_mut().poll(cx).is_ready() {
                true => std::task::Poll::Ready(()),
                false => alarm.as_mut().poll(cx),
            });
            world.wait("repairing until the power fails", either)?;
        }
        let left = world.disk.power_failure(rng).ok_or("the disk keeps no log")?;
        drop(world);
        let world = self.world::<L>(left, 1, None);
        let mut report = repair_on(&world)?.map_err(|error| format!("refused now: {error}"))?;
        // What the first repair had to give up was in its own report.
        report.findings.extend(first.findings.iter().cloned());
        report.notes.extend(first.notes.iter().cloned());
        self.look_at::<L>(world.disk.platter(), &report, is_older, &mut Repaired::default())
            .map_err(|what| format!("{what}; the second repair said {report:?}"))
    }

    /// What a repair left.
    fn look_at<L: Subject>(
        &self,
        platter: Platter,
        report: &CheckReport,
        is_older: bool,
        repaired: &mut Repaired,
    ) -> Result<(), String> {
        let world = self.world::<L>(platter.clone(), 2, None);
        let how = how::<L>(false);
        let mut nobody = |_, _| {};
        let checking = L::KIND.check(&world.rt, world.device(), how, &mut nobody);
        let again = world.wait("checking", checking)?;
        let again = again.map_err(|error| format!("checking after the repair: {error}"))?;
        if !again.is_clean() {
            return Err(format!("after the repair: {again:?}"));
        }
        let world = self.world::<L>(platter.clone(), 3, None);
        let second = repair_on(&world)?;
        second.map_err(|error| format!("repairing again: {error}"))?;
        let differs = first_difference(&platter, &world.disk.platter());
        if let Some(at) = differs {
            return Err(format!("a second repair changed byte {at}"));
        }
        let mut world = self.world::<L>(platter, 4, None);
        world.open().map_err(|what| format!("after the repair: {what}"))?;
        let there = inodes(&mut world).map_err(|what| format!("after the repair: {what}"))?;
        if is_older {
            return Ok(());
        }
        for (&ino, kept) in self.files {
            let is_touched = !kept.sectors.is_disjoint(self.hit);
            let is_there = there.get(&ino) == Some(&mode::REGULAR);
            let is_whole = is_there && self.is_whole(&mut world, ino, kept)?;
            repaired.untouched += u64::from(!is_touched);
            repaired.touched += u64::from(is_touched);
            repaired.hurt += u64::from(is_touched && !is_whole);
            let losses = [format!("inode {ino}:"), format!("inode {ino} (")];
            let is_named = |note: &String| losses.iter().any(|loss| note.starts_with(loss));
            // Without checksums a pointer that was changed may claim a block of any file.
            let claimed = losses.each_ref().map(|name| format!("double-use: {name}"));
            let says = |finding: &String| claimed.iter().any(|claimed| finding.contains(claimed));
            let claimed = report.findings.iter().any(says);
            let is_told = (claimed || !kept.opening.is_disjoint(self.hit))
                && report.notes.iter().any(is_named);
            // Garbage over an inode map without checksums may say that an inode is free, and nothing
            // contradicts it.
            let is_silent = L::KIND.is_log()
                && !L::has_checksums(self.scenario)
                && !kept.opening.is_disjoint(self.hit);
            // Nothing is lost with an empty file without a name.
            let may_be_lost = is_told || is_silent || kept.content.is_empty();
            // A sparse file that lost something far away: which of its holes were there before is not
            // known, so all of them are errors.
            let may_be_lost = may_be_lost
                || is_there
                    && report.notes.iter().any(is_named)
                    && self.lacks_holes_alone(&mut world, ino, kept)?;
            if !is_touched && !is_whole && !may_be_lost {
                let what = if is_there { "has another content" } else { "is gone" };
                return Err(format!("inode {ino}, which no damage touched, {what}"));
            }
            if is_touched && is_there && !is_whole && L::has_checksums(self.scenario) {
                self.holds_nothing_else(&mut world, ino, kept)?;
            }
        }
        Ok(())
    }

    fn is_whole<L: Subject>(
        &self,
        world: &mut AnyWorld<L>,
        ino: Ino,
        kept: &FileCopy,
    ) -> Result<bool, String> {
        let found = content(world, ino)?;
        let same = |(a, b): (&twin_fs::Result<Block>, &Block)| a.as_ref().is_ok_and(|a| a == b);
        Ok(found.len() == kept.content.len() && found.iter().zip(&kept.content).all(same))
    }

    /// True if a file has all that it had but for holes, and these cannot be read.
    fn lacks_holes_alone<L: Subject>(
        &self,
        world: &mut AnyWorld<L>,
        ino: Ino,
        kept: &FileCopy,
    ) -> Result<bool, String> {
        let found = content(world, ino)?;
        let is_hole = |block: &Block| block.to_bytes().iter().all(|byte| *byte == 0);
        let pieces = found.iter().zip(&kept.content);
        let same = pieces.clone().all(|(a, b)| a.as_ref().map_or(is_hole(b), |a| a == b));
        Ok(found.len() == kept.content.len() && same)
    }

    /// With checksums a file that was hurt has what it had, or pieces that cannot be read: what is
    /// lost never reads as zeros.
    fn holds_nothing_else<L: Subject>(
        &self,
        world: &mut AnyWorld<L>,
        ino: Ino,
        kept: &FileCopy,
    ) -> Result<(), String> {
        for (nth, piece) in content(world, ino)?.into_iter().enumerate() {
            let wrong = match &piece {
                Err(_) => false,
                Ok(block) => kept.content.get(nth) != Some(block),
            };
            if wrong {
                return Err(format!("inode {ino} has something else in its piece {nth}"));
            }
        }
        Ok(())
    }
}

/// Data is held against its checksums where there are any.
fn how<L: Subject>(repair: bool) -> CheckRequest {
    CheckRequest { data: L::KIND.is_log(), repair }
}

/// Runs `check --repair` on the world's device.
fn repair_on<L: Subject>(world: &AnyWorld<L>) -> Result<twin_fs::Result<CheckReport>, String> {
    let mut nobody = |_, _| {};
    let how = how::<L>(true);
    let repair = L::KIND.check(&world.rt, world.device(), how, &mut nobody);
    world.wait("repairing", repair)
}

/// The first byte in which two platters differ.
fn first_difference(a: &Platter, b: &Platter) -> Option<u64> {
    let step = 64 << 10;
    let differs = |&at: &u64| {
        let len = step.min(a.size() - at);
        a.read_bytes(at, len) != b.read_bytes(at, len)
    };
    (0..a.size()).step_by(step as usize).find(differs)
}

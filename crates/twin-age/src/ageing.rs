//! A workload that makes a volume old, after a profile.
//!
//! Contract: an [`Ageing`] is a source of records like any workload, so that it is replayed on a
//! simulated volume, on a mounted one or on any directory, or written down as a trace. It creates
//! and deletes files (Geriatrix does no more), in this way:
//!
//! - The files that the volume has at the end are drawn from the profile: a size, a depth and an
//!   age. Each is created at the end less its age and stays. Sizes and ages of the end are
//!   therefore those of the profile, up to the chance of the draw, however much is deleted before.
//! - All other files are passing: they are created evenly over the whole time, as many as the
//!   turnover asks for, with the sizes and depths of the profile.
//! - The volume fills up to the asked share and stays there: before a file is created, passing
//!   files are deleted at random until it has room; a passing file that has no room even so is left
//!   out. At the end none is left.
//!
//! Work comes in sessions, a few thousand over the whole time and shorter ones towards the end;
//! within a session operations follow each other at once, between sessions a volume can write back.
//! The same plan gives the same records.

use std::fmt;

use twin_fs::geometry::Geometry;
use twin_fs::{Data, Ino, Name, Op, ROOT_INO};
use twin_rt::{Nanos, Rng, SECS, Time};
use twin_trace::{Header, Kind, Outcome, Traits};

use crate::profile::{Distribution, Profile};
use crate::queue::{Queue, Steps, source_by_steps};

/// How a volume is made old.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes, ages and depths.
    pub profile: Profile,
    /// The bytes of the volume that files and their metadata may fill.
    pub capacity: u64,
    /// The sizes of the layout's files, for the room that a file takes.
    pub geometry: Geometry,
    /// The share of the capacity that is in use once the volume has filled up, 0 to 1.
    pub full: f64,
    /// The age of the oldest file, in years: the profile's ages are scaled to it.
    pub years: f64,
    /// How many times its capacity is written in a year.
    pub turnover: f64,
    /// The seed of all random choices: the same plan and seed make the same volume.
    pub seed: u64,
}

/// Why there is no such ageing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// No size of the profile fits the volume: its smallest bucket, and the most that fits.
    TooSmall {
        /// The largest size of the smallest bucket.
        smallest: u64,
        /// The largest file that is made on a volume of this size.
        largest: u64,
    },
    /// There would be more files than one run can make.
    TooMany(u64),
    /// A value is out of its range.
    Range(&'static str),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::TooSmall { smallest, largest } => write!(
                f,
                "the volume is too small for this profile: files of up to {smallest} bytes are its \
                 smallest, and files of more than {largest} are not made on it"
            ),
            PlanError::TooMany(files) => {
                write!(f, "that would be {files} files: ask for less turnover or fewer years")
            }
            PlanError::Range(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for PlanError {}

/// The size of the work that an ageing will do; totals are upper bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Planned {
    /// Files at the end.
    pub files: u64,
    /// Bytes of these files together.
    pub file_bytes: u64,
    /// Number of directories that are made.
    pub directories: u64,
    /// Files that are created in all.
    pub created: u64,
    /// Bytes that are written in all.
    pub written_bytes: u64,
    /// Creations and deletions, which Geriatrix calls operations.
    pub operations: u64,
    /// Number of requests in the whole workload.
    pub requests: u64,
    /// Time from the first operation to the last.
    pub span_ns: Nanos,
    /// The unit of the profile's ages in nanoseconds.
    pub age_unit_ns: f64,
}

/// A volume is made of at least this many of its largest files.
const LARGEST: u64 = 16;
/// The most files of one run.
const MOST_FILES: u64 = 200_000_000;
/// Files of a directory on average; profiles say how many directories each depth has in proportion.
const PER_DIRECTORY: u64 = 64;
/// The directory that has everything.
const TOP: &str = "aged";
/// Sessions of equal length, if there were no shorter ones at the end.
const SESSIONS: u64 = 2048;
/// The part of the time, at its end, that has shorter sessions.
const FINE: u64 = 256;
/// How much longer each of these is than the next.
const RATIO: f64 = 1.01;
/// The most bytes of a write.
const PIECE: u64 = 1 << 20;
const YEAR_NS: f64 = 365.25 * 86_400.0 * 1e9;

/// A file that will be created.
#[derive(Clone, Copy, Debug)]
struct Birth {
    at_ns: Nanos,
    size: u64,
    dir: u32,
    stays: bool,
}

/// A passing file that exists.
#[derive(Clone, Copy, Debug)]
struct Passing {
    number: u64,
    dir: u32,
    room: u64,
}

/// A directory: its number as an inode, and its parent's index.
#[derive(Clone, Copy, Debug)]
struct Dir {
    ino: Ino,
    parent: u32,
}

/// The workload. See the module.
pub struct Ageing {
    header: Header,
    planned: Planned,
    geometry: Geometry,
    dirs: Vec<Dir>,
    /// The births that remain, in the order of time.
    births: std::vec::IntoIter<Birth>,
    passing: Vec<Passing>,
    /// The room that is in use, and the most that may be.
    room: (u64, u64),
    rng: Rng,
    next_ino: Ino,
    files: u64,
    queue: Queue,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Directories(usize),
    Files,
    Ending,
    Ended,
}

/// The room in bytes that a file of this size takes, indirect blocks and inode included.
pub(crate) fn room_of(geometry: &Geometry, size: u64) -> u64 {
    let inode = u64::from(geometry.inode_size);
    if size <= u64::from(geometry.inline_max) {
        return inode;
    }
    let block = u64::from(geometry.block_size);
    let blocks = geometry.blocks_for(size);
    let last = u64::from(geometry.len_on_disk(blocks as i64 - 1, size));
    let mut indirect = 0;
    let mut rest = blocks.saturating_sub(geometry.direct as u64);
    let mut span = 1u64;
    for _ in 0..geometry.levels {
        if rest == 0 {
            break;
        }
        span = span.saturating_mul(geometry.per_block());
        let here = rest.min(span);
        let mut covers = geometry.per_block();
        while covers <= span {
            indirect += here.div_ceil(covers);
            covers = covers.saturating_mul(geometry.per_block());
        }
        rest -= here;
    }
    inode + (blocks - 1 + indirect) * block + last
}

impl Plan {
    fn check(&self) -> Result<(), PlanError> {
        let range = |holds: bool, what| if holds { Ok(()) } else { Err(PlanError::Range(what)) };
        let inside = |value: f64, low: f64, high: f64| value >= low && value <= high;
        range(inside(self.full, 0.01, 0.99), "a volume is made 1% to 99% full")?;
        range(inside(self.years, 0.001, 100.0), "a volume is 0.001 to 100 years old")?;
        range(inside(self.turnover, 0.01, 1e6), "the turnover is 0.01 to a million a year")
    }

    /// The sizes of the profile that are made on this volume.
    pub fn sizes(&self) -> Result<Distribution, PlanError> {
        let largest = (self.full * self.capacity as f64) as u64 / LARGEST;
        let smallest = self.profile.sizes.bound(0) as u64;
        let sizes = self.profile.sizes.up_to(largest as f64);
        sizes.ok_or(PlanError::TooSmall { smallest, largest })
    }

    /// A size from the profile.
    fn size(sizes: &Distribution, rng: &mut Rng) -> u64 {
        sizes.draw(rng).round() as u64
    }

    /// The time of a session that is this long before the end.
    fn session(span_ns: Nanos, before_end_ns: f64) -> Nanos {
        let fine = (span_ns / FINE) as f64;
        let before = match before_end_ns >= fine {
            true => {
                let session = (span_ns / SESSIONS).max(1) as f64;
                (before_end_ns / session).floor() * session
            }
            false => {
                let nth = ((fine / before_end_ns.max(1.0)).ln() / RATIO.ln()).ceil();
                fine * RATIO.powf(-nth)
            }
        };
        // Times of files have seconds in some formats.
        let before = (before as u64).next_multiple_of(SECS).min(span_ns);
        span_ns - before
    }
}

impl Ageing {
    /// Plans an ageing.
    ///
    /// # Errors
    /// If a value is out of its range, or the volume too small for the profile.
    pub fn new(plan: &Plan) -> Result<Ageing, PlanError> {
        plan.check()?;
        let target = (plan.full * plan.capacity as f64) as u64;
        let sizes = plan.sizes()?;
        let span_ns = ((plan.years * YEAR_NS) as Nanos / SECS) * SECS;
        let unit_ns = span_ns as f64 / plan.profile.ages.largest();
        let mut rng = Rng::stream(plan.seed, "ageing");
        let mut births = Vec::new();
        let mut room = 0;
        // Lasting files, until the next one does not fit.
        loop {
            let size = Plan::size(&sizes, &mut rng);
            let needed = room_of(&plan.geometry, size);
            if room + needed > target {
                break;
            }
            room += needed;
            let age_ns = plan.profile.ages.draw(&mut rng) * unit_ns;
            let at_ns = Plan::session(span_ns, age_ns);
            births.push(Birth { at_ns, size, dir: 0, stays: true });
            too_many(births.len() as u64)?;
        }
        let lasting = births.len() as u64;
        let file_bytes = births.iter().map(|birth| birth.size).sum::<u64>();
        let all = (plan.turnover * plan.years * plan.capacity as f64) as u64;
        let mean = sizes.mean().max(1.0);
        too_many(lasting + (all.saturating_sub(file_bytes) as f64 / mean) as u64)?;
        let mut written = file_bytes;
        while written < all {
            let size = Plan::size(&sizes, &mut rng);
            // A run of empty files would never end.
            written += size.max(1);
            let before_end_ns = rng.unit() * span_ns as f64;
            let at_ns = Plan::session(span_ns, before_end_ns);
            births.push(Birth { at_ns, size, dir: 0, stays: false });
            too_many(births.len() as u64)?;
        }
        let dirs = directories(&plan.profile, lasting, &mut births, &mut rng);
        // Within a session in the order in which they were drawn, which is random.
        rng.shuffle(&mut births);
        births.sort_by_key(|birth| birth.at_ns);
        let created = births.len() as u64;
        let pieces: u64 = births.iter().map(|birth| birth.size.div_ceil(PIECE)).sum();
        let planned = Planned {
            files: lasting,
            file_bytes,
            directories: dirs.len() as u64 - 1,
            created,
            written_bytes: births.iter().map(|birth| birth.size).sum(),
            operations: created + (created - lasting),
            requests: dirs.len() as u64 + 4 * created - lasting + pieces,
            span_ns,
            age_unit_ns: unit_ns,
        };
        Ok(Ageing {
            header: header(plan),
            planned,
            geometry: plan.geometry.clone(),
            dirs,
            births: births.into_iter(),
            passing: Vec::new(),
            room: (0, target),
            rng: Rng::stream(plan.seed, "passing files"),
            next_ino: ROOT_INO + 1,
            files: 0,
            queue: Queue::default(),
            state: State::Directories(1),
        })
    }

    /// The size of the work that the ageing will do.
    pub fn planned(&self) -> Planned {
        self.planned
    }

    fn new_ino(&mut self) -> Ino {
        self.next_ino += 1;
        self.next_ino - 1
    }

    fn make_dir(&mut self, index: usize) {
        let ino = self.new_ino();
        let dir = self.dirs[self.dirs[index].parent as usize].ino;
        self.dirs[index].ino = ino;
        let name = if index == 1 { TOP.into() } else { format!("d{index}") };
        let name = name.into_bytes().into();
        self.queue.op(0, Op::MakeDir { dir, name, mode: 0o755 }, Some(Outcome::Entry(ino)));
    }

    fn create(&mut self, birth: Birth) {
        let room = room_of(&self.geometry, birth.size);
        while self.room.0 + room > self.room.1 && !self.passing.is_empty() {
            self.remove_one(birth.at_ns);
        }
        // Towards the end lasting files may leave no room for a passing one.
        if self.room.0 + room > self.room.1 && !birth.stays {
            return;
        }
        self.room.0 += room;
        let (number, at) = (self.files, birth.at_ns);
        self.files += 1;
        let ino = self.new_ino();
        let dir = self.dirs[birth.dir as usize].ino;
        let op = Op::Create { dir, name: name_of(number), mode: 0o644, exclusive: true };
        self.queue.op(at, op, Some(Outcome::Entry(ino)));
        let mut off = 0;
        while off < birth.size {
            let len = PIECE.min(birth.size - off);
            let op = Op::Write { ino, off, data: Data::Synthetic(len) };
            self.queue.op(at, op, Some(Outcome::Written(len)));
            off += len;
        }
        self.queue.op(at, Op::Release { ino }, Some(Outcome::Done));
        self.queue.op(at, Op::Forget { ino, count: 1 }, None);
        if !birth.stays {
            self.passing.push(Passing { number, dir: birth.dir, room });
        }
    }

    /// Deletes a passing file at random.
    fn remove_one(&mut self, at_ns: Nanos) {
        let victim = self.rng.below(self.passing.len() as u64) as usize;
        let Passing { number, dir, room } = self.passing.swap_remove(victim);
        self.room.0 -= room;
        let dir = self.dirs[dir as usize].ino;
        self.queue.op(at_ns, Op::Unlink { dir, name: name_of(number) }, Some(Outcome::Done));
    }
}

fn too_many(files: u64) -> Result<(), PlanError> {
    if files > MOST_FILES { Err(PlanError::TooMany(files)) } else { Ok(()) }
}

fn name_of(number: u64) -> Name {
    format!("f{number:x}").into_bytes().into()
}

fn header(plan: &Plan) -> Header {
    let text = format!(
        "ageing {}: {:.0}% full, {} years, turnover {}",
        plan.profile.name,
        plan.full * 100.0,
        plan.years,
        plan.turnover
    );
    let traits = Traits { timed: true, nodes_first: true, ..Traits::default() };
    Header { kind: Kind::Operations, start: Time(0), seed: plan.seed, traits, text }
}

/// The directories, with the root first and parents before children, and for each birth one of the
/// depth that it draws.
fn directories(profile: &Profile, files: u64, births: &mut [Birth], rng: &mut Rng) -> Vec<Dir> {
    let depths: Vec<_> = profile.depths.iter().filter(|depth| depth.weight > 0.0).collect();
    let deepest = depths.iter().map(|depth| depth.depth).max().unwrap_or(0);
    let known = |level: u32| {
        let found = profile.depths.iter().find(|depth| depth.depth == level);
        found.map_or(1, |depth| depth.directories.max(1))
    };
    let all: u64 = (1..=deepest).map(|level| u64::from(known(level))).sum();
    let wanted = (files / PER_DIRECTORY).max(1);
    // Below the root one directory has everything, so that other names are free.
    let mut dirs = vec![Dir { ino: ROOT_INO, parent: 0 }, Dir { ino: 0, parent: 0 }];
    // The indices of the directories of each depth.
    let mut levels: Vec<std::ops::Range<u32>> = std::iter::once(1..2).collect();
    for level in 1..=deepest {
        let count = (u64::from(known(level)) * wanted).div_ceil(all.max(1)).max(1);
        let above = levels[level as usize - 1].clone();
        let start = dirs.len() as u32;
        for nth in 0..count as u32 {
            let parent = above.start + nth % (above.end - above.start);
            dirs.push(Dir { ino: 0, parent });
        }
        levels.push(start..dirs.len() as u32);
    }
    let total: f64 = depths.iter().map(|depth| depth.weight).sum();
    for birth in births {
        let mut at = rng.unit() * total;
        let drawn = depths.iter().find(|depth| {
            at -= depth.weight;
            at < 0.0
        });
        let level = drawn.or(depths.last()).map_or(0, |depth| depth.depth as usize);
        let Some(level) = levels.get(level) else { continue };
        birth.dir = rng.range(level.start.into(), level.end.into()) as u32;
    }
    dirs
}

impl Steps for Ageing {
    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    fn step(&mut self) -> bool {
        match self.state {
            State::Directories(index) if index < self.dirs.len() => {
                self.make_dir(index);
                self.state = State::Directories(index + 1);
            }
            State::Directories(_) => self.state = State::Files,
            State::Files => match self.births.next() {
                Some(birth) => self.create(birth),
                None => self.state = State::Ending,
            },
            State::Ending if !self.passing.is_empty() => self.remove_one(self.planned.span_ns),
            State::Ending => {
                self.queue.op(self.planned.span_ns, Op::Sync, Some(Outcome::Done));
                self.state = State::Ended;
            }
            State::Ended => return false,
        }
        true
    }
}

source_by_steps!(Ageing);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agreement, profile};
    use std::collections::BTreeMap;
    use twin_trace::{Record, Source};

    fn plan(name: &str, capacity: u64) -> Plan {
        Plan {
            profile: profile(name).unwrap(),
            capacity,
            geometry: Geometry::modern(4096, 512),
            full: 0.8,
            years: 2.0,
            turnover: 1.5,
            seed: 1,
        }
    }

    /// Birth and size of files, by directory and name.
    type Files = BTreeMap<(Ino, Name), (Nanos, u64)>;

    /// The files that exist in the end, and the most room that was in use.
    fn play(ageing: &mut Ageing) -> (Files, u64) {
        let mut files = BTreeMap::new();
        let mut names = BTreeMap::new();
        let (mut last, mut most) = (0, 0);
        while let Some(record) = ageing.next_record().unwrap() {
            let (at, op, outcome) = match record {
                Record::Request { at_ns, request } => (at_ns, Some(request.op), None),
                Record::Reply { at_ns, outcome, .. } => (at_ns, None, Some(outcome)),
                Record::Node(_) => panic!("it begins empty"),
            };
            assert!(at >= last, "time never goes back");
            last = at;
            match (op, outcome) {
                (Some(Op::Create { dir, name, .. }), _) => {
                    assert!(files.insert((dir, name.clone()), (at, 0)).is_none());
                    names.insert(ageing.next_ino - 1, (dir, name));
                }
                (Some(Op::Write { ino, off, data }), _) => {
                    files.get_mut(&names[&ino]).unwrap().1 = off + data.len();
                }
                (Some(Op::Unlink { dir, name }), _) => {
                    assert!(files.remove(&(dir, name)).is_some(), "a file that exists");
                }
                _ => {}
            }
            most = most.max(ageing.room.0);
        }
        assert_eq!(last, ageing.planned.span_ns);
        assert!(ageing.queue.requests <= ageing.planned.requests);
        assert!(ageing.queue.requests > ageing.planned.requests * 9 / 10, "few were left out");
        (files, most)
    }

    #[test]
    fn every_profile_ends_with_its_sizes_and_ages_and_never_takes_more_than_its_room() {
        for profile in crate::profiles() {
            let plan = plan(&profile.name, 512 << 20);
            let mut ageing = Ageing::new(&plan).unwrap();
            let planned = ageing.planned();
            let (files, most) = play(&mut ageing);
            assert_eq!(files.len() as u64, planned.files, "{}", profile.name);
            assert!(most <= (0.8 * plan.capacity as f64) as u64, "{}", profile.name);
            let sizes = profile.sizes.up_to(0.8 * plan.capacity as f64 / 16.0).unwrap();
            let by_size = agreement(&sizes, files.values().map(|file| file.1 as f64));
            assert!(by_size.has_converged(), "{}: {by_size:?}", profile.name);
            let age = |file: &(Nanos, u64)| (planned.span_ns - file.0) as f64 / planned.age_unit_ns;
            let by_age = agreement(&profile.ages, files.values().map(age));
            assert!(by_age.distance < by_age.by_chance + 0.02, "{}: {by_age:?}", profile.name);
            let total: u64 = files.values().map(|file| file.1).sum();
            assert_eq!(total, planned.file_bytes);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_records_and_another_seed_others() {
        let records = |seed| {
            let mut ageing = Ageing::new(&Plan { seed, ..plan("agrawal", 64 << 20) }).unwrap();
            let mut all = Vec::new();
            while let Some(record) = ageing.next_record().unwrap() {
                all.push(record);
            }
            all
        };
        assert_eq!(records(1), records(1));
        assert_ne!(records(1), records(2));
    }

    #[test]
    fn room_counts_fragments_and_every_level_of_indirect_blocks() {
        // 4 KB blocks, 512-byte fragments, 12 direct pointers and 256 in an indirect block.
        let geometry = Geometry::modern(4096, 512);
        let (inode, block) = (512, 4096);
        let direct = geometry.direct as u64;
        assert_eq!(room_of(&geometry, 1), inode, "inline");
        assert_eq!(room_of(&geometry, 4097), inode + block + 512);
        assert_eq!(room_of(&geometry, (direct + 1) * block), inode + (direct + 2) * block);
        let one_level = direct + geometry.per_block();
        assert_eq!(room_of(&geometry, one_level * block), inode + (one_level + 1) * block);
        let more = one_level + 1;
        assert_eq!(room_of(&geometry, more * block), inode + (more + 3) * block);
    }

    #[test]
    fn plans_that_cannot_be_are_errors() {
        let error = |change: fn(&mut Plan)| {
            let mut plan = plan("wang_lanl", 64 << 20);
            change(&mut plan);
            Ageing::new(&plan).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(error(|_| {}), "");
        assert!(error(|p| p.capacity = 100).contains("too small"));
        assert!(error(|p| p.full = 1.0).contains("1% to 99%"));
        assert!(error(|p| p.years = f64::NAN).contains("years"));
        assert!(error(|p| p.turnover = 1e6).contains("fewer years"));
    }
}

//! The one-writer protocol of a volume in a bucket, explored.
//!
//! Contract: [`run`] is a function of its scenario. Writers take the volume over from one another, while the ones
//! before them have failed, stand still, or go on without knowing; the network of each loses, delays and repeats what
//! it carries, and requests are executed long after they were given up. Checked: each writer begins with what the one
//! before it had written up to some write, and that is none before its last acknowledged flush, whenever that was
//! acknowledged; no two writers have the same epoch; a writer reads what it wrote; in the end the volume opens, and
//! nothing is left in the bucket that nobody needs.

pub mod followers;
mod wire;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::str::FromStr;

use twin_bucket::{
    Bucket, Identity, Listed, MemoryStore, ObjectStore, PlantedFault, SEAL_BYTES, Settings, Shape,
    create, look, open,
};
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin, gather};
use twin_rt::{ClockOnly, MILLIS, Rng, Rt, SECS, join_all};

use wire::{Course, Weather, Wire};

/// Sectors of the device.
const SECTORS: usize = 12;
const SECTOR: u32 = 512;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Of all random numbers.
    pub seed: u64,
    /// Writers, one after the other.
    pub writers: u64,
    /// Writes and flushes of each.
    pub steps: u64,
    /// Packs after which a head is due.
    pub packs_a_head: u64,
    /// Of a hundred writers, those whose machine fails when the next one comes.
    pub failing: u64,
    /// Of a hundred writers, those whose machine stands still for a while then.
    pub stalling: u64,
    /// Lost requests, of a thousand.
    pub lost: u64,
    /// Lost answers, of a thousand.
    pub unanswered: u64,
    /// Requests that are executed twice, of a thousand.
    pub repeated: u64,
    /// Requests that arrive late, of a thousand.
    pub late: u64,
    /// Requests that are told to slow down, of a thousand.
    pub throttled: u64,
}

/// The fields of a scenario by name.
macro_rules! fields {
    ($scenario:expr) => {
        [
            ("seed", &mut $scenario.seed),
            ("writers", &mut $scenario.writers),
            ("steps", &mut $scenario.steps),
            ("packs-a-head", &mut $scenario.packs_a_head),
            ("failing", &mut $scenario.failing),
            ("stalling", &mut $scenario.stalling),
            ("lost", &mut $scenario.lost),
            ("unanswered", &mut $scenario.unanswered),
            ("repeated", &mut $scenario.repeated),
            ("late", &mut $scenario.late),
            ("throttled", &mut $scenario.throttled),
        ]
    };
}

impl Scenario {
    /// The scenario of a seed.
    pub fn random(seed: u64) -> Scenario {
        let mut rng = Rng::stream(seed, "bucket");
        let mut chance = |most: u64| if rng.chance(0.3) { 0 } else { rng.below(most) };
        let (failing, stalling) = (chance(60), chance(60));
        let [lost, unanswered, repeated, late, throttled] = [60, 80, 80, 60, 60].map(&mut chance);
        let (writers, steps) = (rng.range(2, 6), rng.range(2, 20));
        let packs_a_head = rng.range(1, 5);
        Scenario {
            seed,
            writers,
            steps,
            packs_a_head,
            failing,
            stalling,
            lost,
            unanswered,
            repeated,
            late,
            throttled,
        }
    }

    fn weather(&self) -> Weather {
        let Scenario { lost, unanswered, repeated, late, throttled, .. } = *self;
        Weather { lost, unanswered, repeated, late, throttled }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut scenario = *self;
        let pairs = fields!(scenario).map(|(name, value)| format!("{name}={value}"));
        f.write_str(&pairs.join(","))
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Scenario, String> {
        let mut scenario = Scenario::random(0);
        for pair in text.split(',') {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| format!("{pair:?} is no NAME=NUMBER"))?;
            let value = value.parse().map_err(|_| format!("{pair:?}: not a number"))?;
            let fields = fields!(scenario);
            let field = fields.into_iter().find(|(field, _)| *field == name);
            *field.ok_or_else(|| format!("{name:?} is no part of a scenario"))?.1 = value;
        }
        Ok(scenario)
    }
}

/// The command that repeats a scenario.
pub fn command(scenario: &Scenario) -> String {
    format!("cargo run --release -p twin-proof --example bucket -- one '{scenario}'")
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Writers that opened the volume.
    pub opened: u64,
    /// Flushes that were acknowledged.
    pub acknowledged: u64,
    /// Writers that found that they had been replaced.
    pub replaced: u64,
    /// The fingerprint of what the bucket executed: equal for equal courses.
    pub course: u64,
}

/// The numbers that stand in the sectors: each write's own.
type Contents = [u64; SECTORS];

/// What is known of one writer.
struct Record {
    began_with: Contents,
    /// What the device was after each write.
    writes: Vec<Contents>,
    /// Writes that the last acknowledged flush covers.
    acknowledged: usize,
}

impl Record {
    fn now(&self) -> Contents {
        self.writes.last().copied().unwrap_or(self.began_with)
    }

    fn after(&self, writes: usize) -> Contents {
        writes.checked_sub(1).map_or(self.began_with, |last| self.writes[last])
    }
}

#[derive(Default)]
struct Known {
    /// By epoch.
    writers: BTreeMap<u64, Record>,
    acknowledged: u64,
    replaced: u64,
    /// The number of the next write.
    number: u64,
    violations: Vec<String>,
}

struct World {
    rt: Rt,
    scenario: Scenario,
    planted: PlantedFault,
    store: Rc<MemoryStore>,
    course: Course,
    known: RefCell<Known>,
}

/// Runs a scenario.
///
/// # Errors
/// What was violated.
pub fn run(scenario: &Scenario, planted: PlantedFault) -> Result<Ran, String> {
    let rt = Rt::new(ClockOnly::default(), scenario.seed);
    let world = Rc::new(World {
        rt: rt.clone(),
        scenario: *scenario,
        planted,
        store: Rc::new(MemoryStore::new()),
        course: Course::default(),
        known: RefCell::default(),
    });
    let done = rt.block_on(Rc::clone(&world).direct());
    let result = match done {
        Ok(Ok(())) => world.judge(),
        Ok(Err(why)) => Err(why),
        Err(stalled) => Err(format!("it waits for ever: {stalled}")),
    };
    let known = world.known.borrow();
    let ran = Ran {
        opened: known.writers.len() as u64,
        acknowledged: known.acknowledged,
        replaced: known.replaced,
        course: world.course.fingerprint(),
    };
    // Tasks that wait for answers of a network that was cut hold the world.
    rt.crash();
    result.map(|()| ran)
}

/// A scenario that fails too and is smaller, if one is easily found, and how that fails.
pub fn shrink(scenario: &Scenario, why: String, planted: PlantedFault) -> (Scenario, String) {
    let (mut least, mut why) = (*scenario, why);
    loop {
        let mut candidates = Vec::new();
        let mut all = least;
        for at in 1..fields!(all).len() {
            for divisor in [0, 2] {
                let mut smaller = least;
                let value = &mut *fields!(smaller)[at].1;
                *value = value.checked_div(divisor).unwrap_or(0);
                candidates.push(smaller);
            }
            let mut smaller = least;
            let value = &mut *fields!(smaller)[at].1;
            *value = value.saturating_sub(1);
            candidates.push(smaller);
        }
        let fails = |one: &Scenario| (*one != least).then(|| run(one, planted).err()).flatten();
        match candidates.into_iter().find_map(|one| fails(&one).map(|why| (one, why))) {
            Some(next) => (least, why) = next,
            None => return (least, why),
        }
    }
}

impl World {
    fn settings(&self, number: u64) -> Settings {
        let mut writer = [0; 16];
        writer[..8].copy_from_slice(&(number + 1).to_le_bytes());
        Settings {
            patience: 120 * SECS,
            packs_a_head: self.scenario.packs_a_head as u32,
            planted: self.planted,
            ..Settings::new(Identity(writer), &format!("writer {number}"))
        }
    }

    /// Lets writers come, and looks at what is there in the end.
    async fn direct(self: Rc<World>) -> Result<(), String> {
        let Scenario { writers, failing, stalling, .. } = self.scenario;
        let shape =
            Shape { size: u64::from(SECTOR) * SECTORS as u64, sector: SECTOR, pack_bytes: 1 << 16 };
        let mut rng = self.rt.rng("director");
        let store: Rc<MemoryStore> = Rc::clone(&self.store);
        let made = create(&self.rt, store, Identity([9; 16]), shape, &self.settings(1 << 32)).await;
        made.map_err(|e| format!("not created: {e}"))?.close().await?;
        let mut tasks = Vec::new();
        for number in 0..writers {
            let name = format!("wire {number}");
            let wire =
                Wire::new(&self.rt, &self.store, self.scenario.weather(), &self.course, &name);
            let world = Rc::clone(&self);
            let carrier = wire.clone();
            tasks.push(self.rt.spawn("writer", async move { world.write(number, carrier).await }));
            // The next one comes in the midst of this one's work, or before it has begun.
            self.rt.sleep(rng.below(3000) * MILLIS).await;
            if rng.below(100) < failing {
                wire.cut();
            } else if rng.below(100) < stalling {
                wire.stall(rng.below(90) * SECS);
            }
        }
        // Longer than any request is on its way, and any writer patient.
        self.rt.sleep(1000 * SECS).await;
        drop(tasks);
        self.last().await
    }

    /// One writer's life.
    async fn write(self: Rc<World>, number: u64, wire: Wire) {
        let opened =
            open(&self.rt, Rc::new(wire.clone()), Rc::new(|_| true), &self.settings(number)).await;
        // Others may have been faster, or its network too bad.
        let Ok(device) = opened else { return };
        wire.clear(true);
        let contents = contents(&device).await;
        wire.clear(false);
        let began_with = match contents {
            Ok(contents) => contents,
            // It heard so late of its success that there is another already, which has deleted what it overwrote.
            Err(_) if self.epoch_now().await > device.epoch() => return,
            Err(why) => {
                return self.violated(format!("writer {number} cannot read what it opened: {why}"));
            }
        };
        let epoch = device.epoch();
        let record = Record { began_with, writes: Vec::new(), acknowledged: 0 };
        if self.known.borrow_mut().writers.insert(epoch, record).is_some() {
            return self.violated(format!("two writers have epoch {epoch}"));
        }
        let mut rng = self.rt.rng(&format!("writer {number}"));
        for _ in 0..self.scenario.steps {
            if !self.step(&device, epoch, &mut rng).await {
                break;
            }
        }
        if device.failed().is_some() {
            self.known.borrow_mut().replaced += 1;
        } else if rng.chance(0.3) {
            let covered = self.known.borrow().writers[&epoch].writes.len();
            if device.close().await.is_ok() {
                self.acknowledged(epoch, covered);
            }
        }
    }

    /// The epoch of the head.
    async fn epoch_now(&self) -> u64 {
        let store: Rc<MemoryStore> = Rc::clone(&self.store);
        look(&self.rt, store, &self.settings(1 << 34)).await.map_or(0, |device| device.epoch())
    }

    /// A write, a flush or a read. False if the device has failed.
    async fn step(self: &Rc<World>, device: &Bucket, epoch: u64, rng: &mut Rng) -> bool {
        self.rt.sleep(rng.below(300) * MILLIS).await;
        match rng.below(10) {
            0..5 => self.one_write(device, epoch, rng).await,
            5..9 => {
                let covered = self.known.borrow().writers[&epoch].writes.len();
                let (world, flush) = (Rc::clone(self), device.submit(Io::flush(Origin::User)));
                let flushed = async move {
                    if flush.await.is_ok() {
                        world.acknowledged(epoch, covered);
                    }
                };
                // Some flushes are under way together.
                if rng.chance(0.5) {
                    flushed.await;
                } else {
                    self.rt.spawn("flush", flushed);
                }
                device.failed().is_none()
            }
            _ => {
                let read = contents(device).await;
                let wrote = self.known.borrow().writers[&epoch].now();
                match read {
                    Ok(read) if read != wrote => {
                        self.violated(format!("epoch {epoch} reads {read:?}, and wrote {wrote:?}"));
                        false
                    }
                    // Another writer may have deleted what was overwritten.
                    read => read.is_ok(),
                }
            }
        }
    }

    async fn one_write(&self, device: &Bucket, epoch: u64, rng: &mut Rng) -> bool {
        let number = {
            let mut known = self.known.borrow_mut();
            known.number += 1;
            known.number
        };
        let first = rng.below(SECTORS as u64) as usize;
        let count = (1 + rng.below(3) as usize).min(SECTORS - first);
        let zeros = rng.chance(0.15);
        let at = first as u64 * u64::from(SECTOR);
        let len = count as u32 * SECTOR;
        let io = match (zeros, rng.chance(0.5)) {
            (true, true) => Io::discard(at, len.into()),
            (true, false) => Io::write(at, vec![Block::Zero(len)], Class::Data, Origin::User),
            (false, _) => {
                let mut bytes = Buf::zeroed(len as usize);
                for sector in bytes.chunks_exact_mut(SECTOR as usize) {
                    sector[..8].copy_from_slice(&number.to_le_bytes());
                }
                Io::write(at, vec![Block::Bytes(bytes.freeze())], Class::Data, Origin::User)
            }
        };
        // A write is in its place when it is submitted, and a flush may carry it before it is answered.
        self.note_write(epoch, first..first + count, if zeros { 0 } else { number });
        device.submit(io).await.is_ok()
    }

    /// Sectors of a writer's device hold that number from now on.
    fn note_write(&self, epoch: u64, sectors: Range<usize>, number: u64) {
        if let Some(record) = self.known.borrow_mut().writers.get_mut(&epoch) {
            let mut now = record.now();
            now[sectors].fill(number);
            record.writes.push(now);
        }
    }

    fn acknowledged(&self, epoch: u64, covered: usize) {
        let mut known = self.known.borrow_mut();
        known.acknowledged += 1;
        if let Some(record) = known.writers.get_mut(&epoch) {
            record.acknowledged = record.acknowledged.max(covered);
        }
    }

    fn violated(&self, what: String) {
        self.known.borrow_mut().violations.push(what);
    }

    /// After all: the volume opens, is closed, and nothing useless is left.
    async fn last(&self) -> Result<(), String> {
        let store: Rc<MemoryStore> = Rc::clone(&self.store);
        let opened = open(&self.rt, store, Rc::new(|_| true), &self.settings(1 << 33)).await;
        let device = opened.map_err(|e| format!("it does not open in the end: {e}"))?;
        let began_with =
            contents(&device).await.map_err(|e| format!("not read in the end: {e}"))?;
        let record = Record { began_with, writes: Vec::new(), acknowledged: 0 };
        self.known.borrow_mut().writers.insert(device.epoch(), record);
        device.collect_garbage().await.map_err(|e| format!("garbage not collected: {e}"))?;
        device.close().await?;
        let needed = device.needed();
        let listed = self.store.list("", None).await.map_err(|error| error.to_string())?;
        let all = listed.len();
        let is_useless = |one: &Listed| one.bytes != SEAL_BYTES && !needed.contains(&one.name);
        let useless: Vec<Listed> = listed.into_iter().filter(is_useless).collect();
        if useless.is_empty() {
            Ok(())
        } else {
            Err(format!("{} of {all} objects are left: {useless:?}", useless.len()))
        }
    }

    /// Whether each writer began where the one before it had come to.
    fn judge(&self) -> Result<(), String> {
        let known = self.known.borrow();
        if let Some(first) = known.violations.first() {
            return Err(first.clone());
        }
        let mut before: Option<(&u64, &Record)> = None;
        for (epoch, record) in &known.writers {
            let (since, began_with) = (record, record.began_with);
            if let Some((earlier, record)) = before {
                let possible = record.acknowledged..=record.writes.len();
                if !possible.clone().any(|writes| record.after(writes) == began_with) {
                    return Err(format!(
                        "epoch {epoch} began with {began_with:?}; epoch {earlier} had {:?} acknowledged ({} of {} \
                         writes), and {:?} in the end",
                        record.after(record.acknowledged),
                        record.acknowledged,
                        record.writes.len(),
                        record.now()
                    ));
                }
            } else if began_with != [0; SECTORS] {
                return Err(format!("epoch {epoch} began with {began_with:?} in a new volume"));
            }
            before = Some((epoch, since));
        }
        Ok(())
    }
}

/// What stands in the sectors.
async fn contents(device: &Bucket) -> Result<Contents, String> {
    let reads = (0..SECTORS as u64).map(|sector| {
        let at = sector * u64::from(SECTOR);
        device.submit(Io::read(at, SECTOR.into(), Class::Data, Origin::User))
    });
    let mut contents = [0; SECTORS];
    for (sector, read) in join_all(reads.collect::<Vec<_>>()).await.into_iter().enumerate() {
        let blocks = read.map_err(|error| error.to_string())?;
        let front = gather(&blocks, 0, 8).to_bytes();
        let mut number = [0; 8];
        number.copy_from_slice(&front);
        contents[sector] = u64::from_le_bytes(number);
    }
    Ok(contents)
}

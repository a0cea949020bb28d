//! A journal before a device, through power failures of both: against what its contract leaves possible.
//!
//! Clients write, read, discard and flush disjoint parts of a device. At some instant the power of both devices fails; each keeps
//! what is certain and some of the rest. What the journal makes of that must have all that was flushed, and of the rest
//! a beginning: if a write is there, all are that had completed before it was submitted. Then it goes on from there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::journaled::Journaled;
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin, gather};
use twin_rt::{ClockOnly, MICROS, MILLIS, Rng, Rt};
use twin_sim::{Platter, SimDisk, model};

const SECTOR: u64 = 512;
const CLIENTS: u64 = 4;
/// Sectors of each client.
const SHARE: u64 = 2000;
/// Power failures in the life of a journal.
const FAILURES: u64 = 6;
const SIZE: u64 = CLIENTS * SHARE * SECTOR;

fn disk(rt: &Rt, name: &str, size: u64, platter: &Platter) -> SimDisk {
    let options = model::Options { size: Some(size), ..model::Options::default() };
    let built = model::REGISTRY.get(name).unwrap().build(&options).unwrap();
    SimDisk::builder(rt, built).platter(platter.clone()).crashable().start()
}

/// The content of a sector after write number `op`. Of the first sector only the beginning is used, as layouts do.
fn filled(sector: u64, op: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR as usize];
    let used = if sector == 0 { 64 } else { bytes.len() };
    for word in bytes[..used].chunks_exact_mut(8) {
        word.copy_from_slice(&op.to_le_bytes());
    }
    bytes
}

/// What is known of a sector.
#[derive(Clone, Copy, Default)]
struct Sector {
    /// The write that was the last one to be flushed.
    flushed: u64,
    /// The last write that was submitted.
    newest: u64,
    /// It was discarded after that write, and nothing that was written later was flushed: anything may be there.
    discarded: Option<u64>,
}

/// A write: when it was submitted and completed, on a counter of such instants.
#[derive(Clone)]
struct Written {
    from: u64,
    sectors: u64,
    submitted: u64,
    completed: Option<u64>,
}

#[derive(Default)]
struct Known {
    sectors: RefCell<BTreeMap<u64, Sector>>,
    writes: RefCell<BTreeMap<u64, Written>>,
    ops: Cell<u64>,
    instants: Cell<u64>,
    flushes: Cell<u64>,
}

impl Known {
    fn instant(&self) -> u64 {
        self.instants.set(self.instants.get() + 1);
        self.instants.get()
    }

    async fn write(&self, device: &Journaled, from: u64, sectors: u64) {
        let op = self.ops.get() + 1;
        self.ops.set(op);
        for sector in from..from + sectors {
            let mut all = self.sectors.borrow_mut();
            all.entry(sector).or_default().newest = op;
        }
        let written = Written { from, sectors, submitted: self.instant(), completed: None };
        self.writes.borrow_mut().insert(op, written);
        let bytes = (from..from + sectors).flat_map(|sector| filled(sector, op)).collect();
        let blocks = vec![Block::Bytes(Buf::taking(bytes).freeze())];
        let io = Io::write(from * SECTOR, blocks, Class::Mixed, Origin::User);
        device.submit(io).await.unwrap();
        let now = self.instant();
        if let Some(written) = self.writes.borrow_mut().get_mut(&op) {
            written.completed = Some(now);
        }
    }

    async fn discard(&self, device: &Journaled, from: u64, sectors: u64) {
        for sector in from..from + sectors {
            let mut all = self.sectors.borrow_mut();
            let known = all.entry(sector).or_default();
            known.discarded = Some(known.newest);
        }
        device.submit(Io::discard(from * SECTOR, sectors * SECTOR)).await.unwrap();
    }

    async fn flush(&self, device: &Journaled) {
        let before: Vec<(u64, Written)> = self
            .writes
            .borrow()
            .iter()
            .filter(|(_, written)| written.completed.is_some())
            .map(|(op, written)| (*op, written.clone()))
            .collect();
        device.submit(Io::flush(Origin::User)).await.unwrap();
        for (op, written) in before {
            for sector in written.from..written.from + written.sectors {
                let mut all = self.sectors.borrow_mut();
                let known = all.entry(sector).or_default();
                known.flushed = known.flushed.max(op);
                known.discarded = known.discarded.filter(|discarded| op <= *discarded);
            }
        }
        self.flushes.set(self.flushes.get() + 1);
    }

    async fn read(&self, device: &Journaled, from: u64, sectors: u64, what: &str) {
        let io = Io::read(from * SECTOR, sectors * SECTOR, Class::Mixed, Origin::User);
        let read = device.submit(io).await.unwrap();
        let read = gather(&read, 0, (sectors * SECTOR) as usize).to_bytes();
        for (n, bytes) in read.chunks_exact(SECTOR as usize).enumerate() {
            let sector = from + n as u64;
            let known = self.sectors.borrow().get(&sector).copied().unwrap_or_default();
            let expected = filled(sector, known.newest);
            let is_anything = known.discarded == Some(known.newest);
            assert!(is_anything || bytes == expected, "{what}: sector {sector} is old");
        }
    }

    /// Compares what a power failure left, and takes it as what is known from now on.
    fn compare(&self, content: &[u8], what: &str) {
        let found = |sector: u64| {
            let at = (sector * SECTOR) as usize;
            u64::from_le_bytes(content[at..at + 8].try_into().unwrap())
        };
        let mut all = self.sectors.borrow_mut();
        let newest = all.iter().filter(|(_, known)| known.discarded.is_none());
        let newest = newest.map(|(sector, _)| found(*sector)).max().unwrap_or(0);
        let mut writes = self.writes.borrow_mut();
        let before = writes.get(&newest).map_or(0, |written| written.submitted);
        // Writes of one client to a sector follow each other.
        let mut must = BTreeMap::new();
        for (op, written) in writes.iter() {
            let is_before = written.completed.is_some_and(|done| done < before);
            for sector in (written.from..written.from + written.sectors).filter(|_| is_before) {
                if all.get(&sector).is_some_and(|known| *op <= known.newest) {
                    must.insert(sector, *op);
                }
            }
        }
        for (&sector, known) in all.iter_mut().filter(|(_, known)| known.discarded.is_none()) {
            let op = found(sector);
            let at = (sector * SECTOR) as usize;
            assert_eq!(
                content[at..at + SECTOR as usize],
                filled(sector, op),
                "{what}: sector {sector} is torn"
            );
            let lies_there = |op: u64| {
                writes.get(&op).is_some_and(|w| (w.from..w.from + w.sectors).contains(&sector))
            };
            assert!(op == 0 || lies_there(op), "{what}: sector {sector} has write {op}");
            assert!(
                op >= known.flushed,
                "{what}: sector {sector} has write {op}, not {}",
                known.flushed
            );
            let must = must.get(&sector).copied().unwrap_or(0);
            assert!(
                op >= must,
                "{what}: write {newest} is there, and at sector {sector} {op} in place of {must}"
            );
            *known = Sector { flushed: op, newest: op, discarded: None };
        }
        for known in all.values_mut().filter(|known| known.discarded.is_some()) {
            known.discarded = Some(known.newest);
        }
        // What is not there is lost: later flushes are not about it.
        writes.values_mut().for_each(|written| written.completed = None);
    }
}

/// A client at work on its own part, for ever.
async fn work(rt: Rt, device: Journaled, known: Rc<Known>, number: u64, what: String) {
    let mut rng = rt.rng(&format!("client {number}"));
    loop {
        let most = if rng.chance(0.05) { 400 } else { 24 };
        let sectors = 1 + rng.below(most);
        // Some places are written again and again.
        let span = if rng.chance(0.5) { 100 } else { SHARE - sectors };
        let from = number * SHARE + rng.below(span.min(SHARE - sectors) + 1);
        match rng.below(20) {
            0..12 => known.write(&device, from, sectors).await,
            12..16 => known.read(&device, from, sectors, &what).await,
            // A layout never discards its first sector.
            16 if from > 0 => known.discard(&device, from, sectors).await,
            _ => known.flush(&device).await,
        }
        if rng.chance(0.02) {
            // Sometimes so long that the journal takes it for idleness.
            rt.sleep(rng.below(2000) * MILLIS).await;
        }
    }
}

/// What became of some lives of a journal.
#[derive(Debug, Default)]
struct Seen {
    replayed: usize,
    moved: u64,
    flushes: u64,
    turns: u64,
}

/// Lives of a journal that power failures end, and a last one that is closed.
fn lives(seed: u64) -> Seen {
    let mut rng = Rng::new(seed);
    let local_size = [256 << 10, 512 << 10, 2 << 20][rng.below(3) as usize];
    let main_model = ["hp97560", "ssd-sata", "jitter"][rng.below(3) as usize];
    let local_model = ["ssd-sata", "jitter"][rng.below(2) as usize];
    let what = format!("seed {seed}: {main_model} behind {local_size} bytes of {local_model}");
    let known = Rc::new(Known::default());
    let (mut main, mut local) = (Platter::new(SIZE), Platter::new(local_size));
    let mut seen = Seen::default();
    for life in 0..=FAILURES {
        let rt = Rt::new(ClockOnly::default(), seed * 100 + life);
        let devices =
            [disk(&rt, main_model, SIZE, &main), disk(&rt, local_model, local_size, &local)];
        let [below, faster] = devices.clone();
        let opening = Journaled::open(&rt, Rc::new(below), Rc::new(faster), [seed as u8; 16]);
        let (device, replayed) = rt.block_on(opening).unwrap().unwrap();
        seen.replayed += replayed.records;
        known.compare(&content_of(&rt, &device), &format!("{what}, life {life}"));
        let tasks = (0..CLIENTS).map(|number| {
            let (what, known) = (what.clone(), Rc::clone(&known));
            work(rt.clone(), device.clone(), known, number, what)
        });
        // Short lives leave gaps at the beginning of the ring, long ones make it go round.
        let most_ms = if rng.chance(0.5) { 5 } else { 200 };
        let until = rng.below(most_ms) * MILLIS + rng.below(1000) * MICROS;
        if life < FAILURES {
            tasks.for_each(|task| drop(rt.spawn("client", task)));
            rt.block_on(rt.sleep(until)).unwrap();
            let failed = devices.each_ref().map(|disk| disk.power_failure(&mut rng).unwrap());
            seen.moved += device.waiting().moved;
            seen.turns += device.waiting().written / local_size;
            rt.crash();
            [main, local] = failed;
            continue;
        }
        rt.block_on(known.write(&device, 0, 1)).unwrap();
        rt.block_on(device.close()).unwrap().unwrap();
        assert_eq!(device.waiting().bytes, 0, "{what}");
        let whole = content_of(&rt, &devices[0]);
        assert_eq!(twin_disk::journaled::mark_of(&whole), None, "{what}: it is marked");
        known.compare(&whole, &format!("{what}, closed"));
    }
    seen.flushes = known.flushes.get();
    seen
}

#[test]
fn power_failures_leave_what_was_flushed_and_a_beginning_of_the_rest() {
    let (mut replayed, mut moved, mut flushes, mut turns) = (0, 0, 0, 0);
    for seed in 0..40 {
        let seen = lives(seed);
        replayed += seen.replayed;
        moved += seen.moved;
        flushes += seen.flushes;
        turns += seen.turns;
    }
    // What was not exercised was not tried.
    assert!(
        replayed > 100 && moved > 1 << 20 && flushes > 500 && turns > 20,
        "{replayed} {moved} {flushes} {turns}"
    );
}

fn content_of(rt: &Rt, device: &dyn BlockDevice) -> Vec<u8> {
    let io = Io::read(0, SIZE, Class::Mixed, Origin::Recovery);
    let read = rt.block_on(device.submit(io)).unwrap().unwrap();
    gather(&read, 0, SIZE as usize).to_bytes().to_vec()
}

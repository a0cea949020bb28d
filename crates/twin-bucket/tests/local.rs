//! A cache and a journal on a local device before a store: against the store alone, and through its silences, power failures
//! and other writers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_bucket::{
    Bucket, Cached, Condition, Content, Identity, Journal, JournalError, Listed, MemoryStore,
    ObjectStore, Settings, StoreError, Stored, Version, create, open,
};
use twin_disk::{
    Block, BlockDevice, DeviceInfo, Io, IoError, IoErrorKind, IoKind, Origin, Pending, gather,
    pending,
};
use twin_rt::{MILLIS, Rng, Rt, SECS};

use crate::common::{SHAPE, all_ended, block, flush, read, run, write};

const SECTOR: usize = 512;

fn settings(writer: u8) -> Settings {
    let settings = Settings::new(Identity([writer; 16]), &format!("writer {writer}"));
    Settings { packs_a_head: 3, patience: 60 * SECS, ..settings }
}

/// A local device in memory, with what a power failure would leave of it.
struct Local {
    now: RefCell<Vec<u8>>,
    flushed: RefCell<Vec<u8>>,
    /// Requests that succeed before all fail.
    lives: Cell<u64>,
}

impl Local {
    fn new(bytes: usize) -> Rc<Local> {
        Local::of(vec![0; bytes])
    }

    fn of(content: Vec<u8>) -> Rc<Local> {
        let flushed = RefCell::new(content.clone());
        Rc::new(Local { now: RefCell::new(content), flushed, lives: Cell::new(u64::MAX) })
    }

    /// The device after a power failure: each sector that was not flushed is old or new.
    fn after_failure(&self, rng: &mut Rng) -> Rc<Local> {
        let (now, mut left) = (self.now.borrow(), self.flushed.borrow().clone());
        for (old, new) in left.chunks_mut(SECTOR).zip(now.chunks(SECTOR)) {
            if rng.chance(0.5) {
                old.copy_from_slice(new);
            }
        }
        Local::of(left)
    }
}

impl BlockDevice for Local {
    fn info(&self) -> DeviceInfo {
        let size = self.now.borrow().len() as u64;
        DeviceInfo { size, sector: SECTOR as u32, max_io: 1 << 15, name: "local".into() }
    }

    fn submit(&self, io: Io) -> Pending {
        if self.lives.get() == 0 {
            let kind = IoErrorKind::Medium;
            return Pending::ready(Err(IoError { op: io.kind, at: io.at, len: io.len, kind }));
        }
        self.lives.set(self.lives.get() - 1);
        let range = io.at as usize..(io.at + io.len) as usize;
        let mut now = self.now.borrow_mut();
        Pending::ready(Ok(match io.kind {
            IoKind::Read => block(&now[range]),
            IoKind::Flush => {
                self.flushed.borrow_mut().copy_from_slice(&now);
                Vec::new()
            }
            _ => {
                let data = gather(&io.blocks, 0, io.len as usize).to_bytes();
                now[range].copy_from_slice(&data);
                Vec::new()
            }
        }))
    }

    fn in_flight(&self) -> usize {
        0
    }
}

/// A local device whose requests take time, in which a power failure may cut a write in two.
struct Late {
    rt: Rt,
    device: Rc<Local>,
    rng: RefCell<Rng>,
}

impl BlockDevice for Late {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn submit(&self, io: Io) -> Pending {
        let (done, answer) = pending();
        let (rt, device) = (self.rt.clone(), Rc::clone(&self.device));
        let waits: [u64; 8] = std::array::from_fn(|_| self.rng.borrow_mut().below(5) * MILLIS);
        self.rt.spawn("late", async move {
            let mut all = Vec::new();
            for (part, wait) in io.parts(1 << 12).into_iter().zip(waits.iter().cycle()) {
                rt.sleep(*wait).await;
                match device.submit(part).await {
                    Ok(blocks) => all.extend(blocks),
                    Err(error) => return done.done(Err(error)),
                }
            }
            done.done(Ok(all));
        });
        answer
    }

    fn in_flight(&self) -> usize {
        0
    }
}

/// A store that answers late, or not at all.
struct Slow {
    rt: Rt,
    store: Rc<MemoryStore>,
    is_silent: Rc<Cell<bool>>,
    latency_ms: u64,
    rng: RefCell<Rng>,
}

impl Slow {
    fn after<T: 'static>(
        &self,
        ask: impl FnOnce(&MemoryStore) -> Stored<T> + 'static,
    ) -> Stored<T> {
        let (rt, store) = (self.rt.clone(), Rc::clone(&self.store));
        let is_silent = Rc::clone(&self.is_silent);
        let wait = self.rng.borrow_mut().below(2 * self.latency_ms + 1) * MILLIS;
        Box::pin(async move {
            rt.sleep(wait).await;
            match is_silent.get() {
                true => Err(StoreError::Unknown("no answer".into())),
                false => ask(&store).await,
            }
        })
    }
}

impl ObjectStore for Slow {
    fn name(&self) -> String {
        "s3://here/volume".into()
    }
    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        let name = name.to_string();
        self.after(move |store| store.get(&name, range))
    }
    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        let name = name.to_string();
        self.after(move |store| store.put(&name, blocks, when))
    }
    fn delete(&self, name: &str) -> Stored<()> {
        let name = name.to_string();
        self.after(move |store| store.delete(&name))
    }
    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        let (prefix, after) = (prefix.to_string(), after.map(String::from));
        self.after(move |store| store.list(&prefix, after.as_deref()))
    }
}

/// A bucket with a volume, and the local device of its machine.
struct Machine {
    objects: Rc<MemoryStore>,
    is_silent: Rc<Cell<bool>>,
    disk: Rc<Local>,
    latency_ms: u64,
}

impl Machine {
    fn new(local_bytes: usize, latency_ms: u64) -> Machine {
        let (objects, is_silent) = (Rc::new(MemoryStore::new()), Rc::default());
        let machine = Machine { objects, is_silent, disk: Local::new(local_bytes), latency_ms };
        run(1, async |rt| {
            let store = machine.store(&rt);
            let made = create(&rt, store, Identity([9; 16]), SHAPE, &settings(0)).await.unwrap();
            made.close().await.unwrap();
        });
        machine
    }

    fn store(&self, rt: &Rt) -> Rc<dyn ObjectStore> {
        let (store, is_silent) = (Rc::clone(&self.objects), Rc::clone(&self.is_silent));
        let (rng, latency_ms) = (RefCell::new(rt.rng("store")), self.latency_ms);
        Rc::new(Slow { rt: rt.clone(), store, is_silent, latency_ms, rng })
    }

    async fn journal(&self, rt: &Rt) -> Result<Rc<Journal>, JournalError> {
        let rng = RefCell::new(rt.rng("local"));
        let late = Late { rt: rt.clone(), device: self.disk.clone(), rng };
        Journal::open(rt, self.store(rt), Rc::new(late)).await.map(Rc::new)
    }

    async fn open(&self, rt: &Rt, writer: u8) -> (Rc<Journal>, Bucket) {
        let journal = self.journal(rt).await.unwrap();
        let bucket = open(rt, journal.clone(), all_ended(), &settings(writer)).await.unwrap();
        (journal, bucket)
    }
}

#[test]
fn a_cache_answers_as_its_store_does_and_asks_it_less() {
    for seed in 0..20 {
        let machine = Machine::new(6 << 16, 0);
        let lru = twin_cache::replacement::REGISTRY.get("lru").unwrap();
        run(seed, async |rt| {
            let mut rng = Rng::new(seed);
            let cached =
                Rc::new(Cached::open(machine.store(&rt), machine.disk.clone(), lru).await.unwrap());
            let device = open(&rt, cached.clone(), all_ended(), &settings(1)).await.unwrap();
            let mut array = vec![0u8; SHAPE.size as usize];
            for step in 0..300u32 {
                let at = rng.below(1900) * 512;
                let len = (1 + rng.below(140)) * 512;
                let range = at as usize..(at + len) as usize;
                match rng.below(8) {
                    0..3 => {
                        array[range.clone()].fill(step as u8);
                        device.submit(write(at, &array[range])).await.unwrap();
                    }
                    3 => flush(&device).await.unwrap(),
                    4 => {
                        // Somebody else writes to the local device.
                        let spoiled = rng.below(6 << 16) as usize;
                        machine.disk.now.borrow_mut()[spoiled] ^= 1;
                    }
                    _ => assert!(read(&device, at, len).await == array[range], "seed {seed}"),
                }
            }
            assert!(cached.counts().hits > 0 && cached.counts().misses > 0, "seed {seed}");
        });
    }
}

#[test]
fn what_was_just_written_or_read_is_read_without_the_store() {
    let machine = Machine::new(1 << 20, 0);
    let lru = twin_cache::replacement::REGISTRY.get("lru").unwrap();
    run(1, async |rt| {
        let content: Vec<u8> = (0..200_000 / 512 * 512).map(|i| (i / 512) as u8).collect();
        let store = machine.store(&rt);
        let cached = Rc::new(Cached::open(store, machine.disk.clone(), lru).await.unwrap());
        let device = open(&rt, cached.clone(), all_ended(), &settings(1)).await.unwrap();
        device.submit(write(0, &content)).await.unwrap();
        flush(&device).await.unwrap();
        let gets = machine.objects.requests().gets;
        assert!(read(&device, 512, 100_352).await == content[512..100_864]);
        assert_eq!(machine.objects.requests().gets, gets, "read without the store");
        device.close().await.unwrap();

        let other = Local::new(1 << 20);
        let cold = Rc::new(Cached::open(machine.store(&rt), other, lru).await.unwrap());
        let device = open(&rt, cold, all_ended(), &settings(2)).await.unwrap();
        let gets = machine.objects.requests().gets;
        for _ in 0..3 {
            assert!(read(&device, 4096, 4096).await == content[4096..8192]);
        }
        assert_eq!(machine.objects.requests().gets, gets + 1, "a chunk once");
    });
}

#[test]
fn while_the_store_is_silent_writing_goes_on_and_then_all_of_it_is_there() {
    let machine = Machine::new(4 << 20, 10);
    run(1, async |rt| {
        let (journal, device) = machine.open(&rt, 1).await;
        machine.is_silent.set(true);
        // Much longer than the patience of requests.
        for step in 0..40u8 {
            device.submit(write(u64::from(step) * 4096, &[step + 1; 4096])).await.unwrap();
            flush(&device).await.unwrap();
            rt.sleep(20 * SECS).await;
        }
        let status = journal.status();
        assert!(status.packs == 40 && status.bytes > 40 * 4096 && status.silent.is_some());
        assert!(read(&device, 8 * 4096, 4096).await == [9; 4096], "read from the journal");
        machine.is_silent.set(false);
        device.close().await.unwrap();
        assert_eq!(journal.status(), twin_bucket::JournalStatus::default());

        let plain = open(&rt, machine.store(&rt), Rc::new(|_| false), &settings(2)).await.unwrap();
        for step in 0..40u8 {
            assert!(read(&plain, u64::from(step) * 4096, 4096).await == [step + 1; 4096]);
        }
    });
}

#[test]
fn a_full_journal_waits_for_the_store_and_not_for_ever() {
    let machine = Machine::new(300_000, 10);
    run(1, async |rt| {
        let (_journal, device) = machine.open(&rt, 1).await;
        // Ten times the ring, at the pace of the store.
        for step in 0..50u8 {
            device.submit(write(u64::from(step) * 512, &[step; 60_000 / 512 * 512])).await.unwrap();
            flush(&device).await.unwrap();
        }
        machine.is_silent.set(true);
        let begun = rt.now();
        let mut ended = Ok(());
        for step in 0..20u8 {
            device.submit(write(0, &[step; 60_000 / 512 * 512])).await.ok();
            ended = flush(&device).await;
            if ended.is_err() {
                break;
            }
        }
        let why = ended.unwrap_err();
        assert!(why.contains("the journal is full of what it has not taken"), "{why}");
        assert!(rt.now().since(begun) < 300 * SECS);
    });
}

#[test]
fn closing_beside_a_silent_store_ends_and_the_next_writer_brings_what_is_left() {
    let machine = Machine::new(4 << 20, 10);
    run(1, async |rt| {
        let (journal, device) = machine.open(&rt, 1).await;
        machine.is_silent.set(true);
        device.submit(write(0, &[7; 4096])).await.unwrap();
        flush(&device).await.unwrap();
        journal.begin_close();
        assert!(device.close().await.is_err());
        assert_eq!(journal.status().packs, 1);
    });
    machine.is_silent.set(false);
    run(2, async |rt| {
        let (_journal, device) = machine.open(&rt, 2).await;
        assert!(read(&device, 0, 4096).await == [7; 4096]);
    });
}

#[test]
fn what_another_writer_left_behind_is_said_to_be_lost() {
    let machine = Machine::new(4 << 20, 10);
    let lost = run(1, async |rt| {
        let (_journal, device) = machine.open(&rt, 1).await;
        machine.is_silent.set(true);
        device.submit(write(0, &[7; 4096])).await.unwrap();
        flush(&device).await.unwrap();
        // Another machine reaches the store.
        let theirs = open(&rt, machine.objects.clone(), all_ended(), &settings(2)).await.unwrap();
        assert!(read(&theirs, 0, 4096).await == [0; 4096]);
        machine.is_silent.set(false);
        rt.sleep(60 * SECS).await;
        device.submit(write(4096, &[8; 4096])).await.ok();
        flush(&device).await.unwrap_err()
    });
    assert!(lost.contains("another writer has taken the volume over"), "{lost}");
    run(2, async |rt| {
        let refused = machine.journal(&rt).await.err();
        assert!(matches!(refused, Some(JournalError::Lost { packs: 1, .. })), "{refused:?}");
    });
}

#[test]
fn a_device_that_is_not_its_journal_is_refused_and_stays_as_it_is() {
    let machine = Machine::new(1 << 20, 0);
    let refused = |content: Vec<u8>| {
        let other = Local::of(content.clone());
        let refused = run(1, async |rt| {
            let store = machine.store(&rt);
            Journal::open(&rt, store, other.clone()).await.err()
        });
        assert!(*other.now.borrow() == content);
        refused.unwrap().to_string()
    };
    assert!(refused(vec![7; 1 << 20]).contains("neither empty nor a journal"));
    assert!(refused(vec![0; 8192]).contains("too small"));
    // That of another volume.
    let elsewhere: Rc<dyn ObjectStore> = Rc::new(MemoryStore::new());
    let local = Local::new(1 << 20);
    run(1, async |rt| Journal::open(&rt, elsewhere, local.clone()).await.map(drop).unwrap());
    assert!(refused(local.now.borrow().clone()).contains("it is the journal of memory"));
}

#[test]
fn a_cache_takes_what_is_empty_or_was_one_and_nothing_else() {
    let machine = Machine::new(1 << 20, 0);
    let lru = twin_cache::replacement::REGISTRY.get("lru").unwrap();
    let opened = |disk: &Rc<Local>| {
        run(1, async |rt| Cached::open(machine.store(&rt), disk.clone(), lru).await.map(drop))
    };
    assert_eq!((opened(&machine.disk), opened(&machine.disk)), (Ok(()), Ok(())));
    let photographs = Local::of(vec![7; 1 << 20]);
    let refused = opened(&photographs).unwrap_err();
    assert!(refused.contains("neither empty nor a cache"), "{refused}");
    assert!(photographs.now.borrow().iter().all(|byte| *byte == 7));
    assert!(opened(&Local::new(1 << 16)).unwrap_err().contains("needs at least 69632 bytes"));
}

/// Epochs begin anew there, so a pack that is left would stand where one of the new volume belongs.
#[test]
fn what_is_left_of_a_volume_is_not_brought_to_another_of_the_same_name() {
    let mut machine = Machine::new(1 << 20, 0);
    run(1, async |rt| {
        let (_journal, device) = machine.open(&rt, 1).await;
        machine.is_silent.set(true);
        device.submit(write(0, &[7; 4096])).await.unwrap();
        flush(&device).await.unwrap();
    });
    machine.is_silent.set(false);
    machine.objects = Rc::new(MemoryStore::new());
    run(2, async |rt| {
        let other = Identity([8; 16]);
        create(&rt, machine.store(&rt), other, SHAPE, &settings(2)).await.unwrap();
        let refused = machine.journal(&rt).await.err().unwrap().to_string();
        assert!(refused.contains("a volume that is no longer in s3://here/volume"), "{refused}");
        assert_eq!(machine.objects.requests().puts, 2, "a map and a head");
    });
}

#[test]
fn an_error_of_the_local_device_is_an_error_of_the_flush() {
    let machine = Machine::new(1 << 20, 0);
    run(1, async |rt| {
        let (_journal, device) = machine.open(&rt, 1).await;
        machine.disk.lives.set(0);
        device.submit(write(0, &[7; 4096])).await.unwrap();
        let why = flush(&device).await.unwrap_err();
        assert!(why.contains("the journal: writing"), "{why}");
    });
}

/// One machine with its journal, whose power fails again and again, and whose store is silent now and then. Each sector
/// has a count that grows; after a failure none is older than at the last acknowledged flush, or newer than what was
/// written, and with one sector as new as a flush all are.
#[test]
fn nothing_that_the_journal_acknowledged_is_lost_by_power_failures() {
    const SECTORS: u64 = 40;
    let (mut failures, mut brought) = (0, 0);
    for seed in 0..100 {
        let mut machine = Machine::new(50_000 + 25_000 * (seed as usize % 5), 200);
        let mut rng = Rng::new(seed);
        let mut written = [0u32; SECTORS as usize];
        let mut promised = written;
        for life in 1..6u8 {
            let steps = rng.below(120);

            let (acked, last) = run(seed * 8 + u64::from(life), async |rt| {
                machine.is_silent.set(false);
                let (journal, device) = machine.open(&rt, life).await;
                for sector in 0..SECTORS {
                    let bytes = read(&device, sector * 512, 512).await;
                    let is = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                    let i = sector as usize;
                    let what = format!("seed {seed}, life {life}, sector {sector}: {is}");
                    assert!(is >= promised[i] && is <= written[i], "{what}, not {}", promised[i]);
                    (written[i], promised[i]) = (is, is);
                }
                let (mut last, mut acked) = (written, promised);
                for _ in 0..steps {
                    match rng.below(12) {
                        0 => machine.is_silent.set(rng.chance(0.5)),
                        1 => rt.sleep(rng.below(3000) * MILLIS).await,
                        2..4 => {
                            if flush(&device).await.is_ok() {
                                acked = last;
                            }
                        }
                        // On its way, and not waited for.
                        4 | 5 => {
                            drop(device.submit(Io::flush(Origin::User)));
                            rt.sleep(rng.below(12) * MILLIS).await;
                        }
                        _ => {
                            let at = rng.below(SECTORS);
                            let many = (1 + rng.below(30)).min(SECTORS - at);
                            let mut bytes = Vec::new();
                            for sector in at..at + many {
                                last[sector as usize] += 1;
                                let mut one = [0; 512];
                                one[..4].copy_from_slice(&last[sector as usize].to_le_bytes());
                                bytes.extend(one);
                            }
                            // A small journal is full after a while of silence.
                            if device.submit(write(at * 512, &bytes)).await.is_err() {
                                break;
                            }
                        }
                    }
                }
                brought += journal.status().packs;
                (acked, last)
            });
            (promised, written) = (acked, last);
            machine.disk = machine.disk.after_failure(&mut rng);
            failures += 1;
        }
    }
    // Failures that met nothing on its way would show nothing.
    assert!(failures == 500 && brought > 300, "{failures} {brought}");
}

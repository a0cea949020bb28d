//! Following a volume, in virtual time: before writers that go on, overwrite and so delete packs, close, fail and are replaced,
//! and stores that lose, delay and repeat requests and are silent for minutes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_bucket::{
    Bucket, Condition, Content, Follower, Identity, Listed, MemoryStore, ObjectStore, OpenError,
    PlantedFault, Settings, Shape, StoreError, Stored, Version, create, open,
};
use twin_disk::{Block, BlockDevice, Class, Io, Origin, gather};
use twin_rt::{MILLIS, Nanos, Rng, Rt, SECS};

use crate::common::{SHAPE, all_ended, flush, read, run, write};

const VOLUME: Identity = Identity([9; 16]);
const SECTORS: usize = 32;
const SECTOR: usize = 512;
const SMALL: Shape = Shape { size: (SECTORS * SECTOR) as u64, sector: 512, pack_bytes: 1 << 16 };
const EVERY: Nanos = 5 * SECS;

/// The numbers that stand in the sectors: each write's own.
type Contents = [u64; SECTORS];

fn settings(writer: u64, packs_a_head: u32) -> Settings {
    let settings = Settings::new(Identity([writer as u8; 16]), &format!("writer {writer}"));
    Settings { packs_a_head, ..settings }
}

/// How one machine is connected to the bucket.
#[derive(Clone)]
struct Wire {
    rt: Rt,
    store: Rc<MemoryStore>,
    rng: Rc<RefCell<Rng>>,
    is_bad: bool,
    /// While it is true, nothing gets through.
    is_silent: Rc<Cell<bool>>,
    /// Requests that were made, of any kind and of those that would change something.
    asked: Rc<Cell<(u64, u64)>>,
}

impl Wire {
    fn carry<T: 'static>(
        &self,
        changes: bool,
        request: impl Fn(&MemoryStore) -> Stored<T> + 'static,
    ) -> Stored<T> {
        let (all, changing) = self.asked.get();
        self.asked.set((all + 1, changing + u64::from(changes)));
        let Wire { rt, store, rng, is_bad, is_silent, .. } = self.clone();
        Box::pin(async move {
            let (wait, luck) = {
                let mut rng = rng.borrow_mut();
                (rng.range(5, 200) * MILLIS, if is_bad { rng.below(100) } else { 99 })
            };
            rt.sleep(wait).await;
            let lost = || Err(StoreError::Unknown("no answer".into()));
            if is_silent.get() || luck < 4 {
                return lost();
            }
            let answer = request(&store).await;
            if luck < 8 {
                return lost();
            }
            if luck < 12 {
                let wait = rng.borrow_mut().below(20_000) * MILLIS;
                let again = rt.clone();
                rt.spawn("again", async move {
                    again.sleep(wait).await;
                    drop(request(&store).await);
                });
            }
            rt.sleep(wait / 2).await;
            answer
        })
    }
}

impl ObjectStore for Wire {
    fn name(&self) -> String {
        "wire".into()
    }
    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        let name = name.to_string();
        self.carry(false, move |store| store.get(&name, range))
    }
    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        let name = name.to_string();
        self.carry(true, move |store| store.put(&name, blocks.clone(), when.clone()))
    }
    fn delete(&self, name: &str) -> Stored<()> {
        let name = name.to_string();
        self.carry(true, move |store| store.delete(&name))
    }
    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        let (prefix, after) = (prefix.to_string(), after.map(String::from));
        self.carry(true, move |store| store.list(&prefix, after.as_deref()))
    }
}

/// What the volume was after each write, and what is promised.
#[derive(Default)]
struct History {
    states: Vec<Contents>,
    /// The state of the last flush that was acknowledged, and the last one that the follower has shown.
    acknowledged: usize,
    shown: usize,
}

async fn contents(device: &Bucket) -> Result<Contents, String> {
    let whole = Io::read(0, SMALL.size, Class::Data, Origin::User);
    let blocks = device.submit(whole).await.map_err(|error| error.to_string())?;
    let bytes = gather(&blocks, 0, SMALL.size as usize).to_bytes();
    Ok(std::array::from_fn(|n| {
        let sector = &bytes[n * SECTOR..(n + 1) * SECTOR];
        let number = u64::from_le_bytes(sector[..8].try_into().unwrap());
        assert!(sector.chunks(8).all(|part| part == &sector[..8]), "a sector of two writes");
        number
    }))
}

struct World {
    rt: Rt,
    rng: RefCell<Rng>,
    history: RefCell<History>,
    number: Cell<u64>,
    is_over: Cell<bool>,
    /// Since when the store was silent last.
    silence: Cell<u64>,
}

impl World {
    fn below(&self, most: u64) -> u64 {
        self.rng.borrow_mut().below(most)
    }

    /// One writer after the other.
    async fn writers(&self, wire: &Wire, first: Bucket, packs_a_head: u32) {
        let mut device = first;
        for writer in 2..8 {
            for _ in 0..self.below(40) {
                self.step(&device).await;
            }
            let to = self.history.borrow().states.len() - 1;
            if self.below(3) == 0 && device.close().await.is_ok() {
                self.acknowledge(to);
            }
            self.rt.sleep(self.below(20) * SECS).await;
            let settings = settings(writer, packs_a_head);
            device = loop {
                match open(&self.rt, Rc::new(wire.clone()), all_ended(), &settings).await {
                    Ok(device) => break device,
                    Err(OpenError::Store(_)) => self.rt.sleep(SECS).await,
                    Err(error) => panic!("writer {writer}: {error}"),
                }
            };
            let now = loop {
                if let Ok(now) = contents(&device).await {
                    break now;
                }
            };
            let mut history = self.history.borrow_mut();
            let at = history.states.iter().rposition(|state| *state == now);
            let at = at.expect("a writer begins with what was written");
            assert!(at >= history.acknowledged && at >= history.shown, "writer {writer} lost some");
            history.states.truncate(at + 1);
        }
        drop(device.close().await);
        self.is_over.set(true);
    }

    async fn step(&self, device: &Bucket) {
        match self.below(10) {
            0..6 => {
                let at = self.below(SECTORS as u64) as usize;
                let len = 1 + self.below((SECTORS - at) as u64).min(12) as usize;
                self.number.set(self.number.get() + 1);
                let number = self.number.get();
                let bytes = number.to_le_bytes().repeat(len * SECTOR / 8);
                let mut state = *self.history.borrow().states.last().unwrap();
                state[at..at + len].fill(number);
                self.history.borrow_mut().states.push(state);
                drop(device.submit(write((at * SECTOR) as u64, &bytes)).await);
            }
            6..9 => {
                let to = self.history.borrow().states.len() - 1;
                if flush(device).await.is_ok() {
                    self.acknowledge(to);
                }
            }
            _ => self.rt.sleep(self.below(8) * SECS).await,
        }
    }

    fn acknowledge(&self, to: usize) {
        let mut history = self.history.borrow_mut();
        history.acknowledged = history.acknowledged.max(to);
    }

    /// Looks again and again, until the writers have ended and a silence with them.
    async fn follow(&self, follower: &mut Follower, first: Bucket) -> Result<u64, String> {
        let mut held = vec![(first, None)];
        let (mut states, mut lost) = (0, 0);
        let mut last = false;
        loop {
            let floor = self.history.borrow().acknowledged;
            let begun = self.rt.now();
            match follower.look().await {
                Ok(newer) => {
                    held.extend(newer.map(|newer| (newer, None)));
                    let (device, known) = held.last_mut().unwrap();
                    match contents(device).await {
                        Ok(now) => {
                            self.show(now, floor)?;
                            states += u64::from(known.is_none());
                            *known = Some(now);
                            if last {
                                return Ok(states);
                            }
                            last = self.is_over.get();
                        }
                        Err(_) if device.has_lost() => {
                            // There is a newer one.
                            lost += 1;
                            if lost > 1000 {
                                return Err("no state can be read".into());
                            }
                            continue;
                        }
                        Err(why) => return Err(why),
                    }
                }
                Err(OpenError::Store(StoreError::Unknown(_)) | OpenError::Contended) => {
                    if self.rt.now().since(begun) < 10 * SECS || self.silence.get() == 0 {
                        return Err("an error without a silence".into());
                    }
                }
                Err(error) => return Err(error.to_string()),
            }
            self.look_back(&mut held).await?;
            self.rt.sleep(EVERY).await;
        }
    }

    fn show(&self, now: Contents, floor: usize) -> Result<(), String> {
        let mut history = self.history.borrow_mut();
        let at = history.states.iter().rposition(|state| *state == now);
        let at = at.ok_or("a state that the volume was never in")?;
        if at < history.shown {
            return Err("it went back".into());
        }
        if at < floor {
            return Err("older than what was acknowledged before the look".into());
        }
        history.shown = at;
        Ok(())
    }

    /// States of before are what they were, or cannot be read.
    async fn look_back(&self, held: &mut Vec<(Bucket, Option<Contents>)>) -> Result<(), String> {
        if held.len() > 4 {
            held.remove(0);
        }
        for (device, known) in held.iter() {
            match (contents(device).await, known) {
                (Ok(now), Some(known)) if now != *known => {
                    return Err("an old state has changed".into());
                }
                (Err(why), _) if !device.has_lost() && !why.contains("does not answer") => {
                    return Err(why);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Follows what writers do by this seed; returns how many states were shown.
fn followed(seed: u64, planted: PlantedFault) -> Result<u64, String> {
    run(seed, async |rt| {
        let mut rng = Rng::stream(seed, "follow");
        let (is_bad, has_silences) = (rng.chance(0.6), rng.chance(0.4));
        let packs_a_head = rng.range(1, 6) as u32;
        let is_silent = Rc::new(Cell::new(false));
        let wire = |name| Wire {
            rt: rt.clone(),
            store: Rc::default(),
            rng: Rc::new(RefCell::new(Rng::stream(seed, name))),
            is_bad,
            is_silent: Rc::clone(&is_silent),
            asked: Rc::default(),
        };
        let writers = wire("writers");
        let theirs = Wire { store: Rc::clone(&writers.store), ..wire("follower") };
        let first = loop {
            let made = settings(1, packs_a_head);
            match create(&rt, Rc::new(writers.clone()), VOLUME, SMALL, &made).await {
                Ok(first) => break first,
                Err(OpenError::Store(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        };
        let history = History { states: vec![[0; SECTORS]], ..History::default() };
        let world = Rc::new(World {
            rt: rt.clone(),
            rng: RefCell::new(rng),
            history: RefCell::new(history),
            number: Cell::new(0),
            is_over: Cell::new(false),
            silence: Cell::new(0),
        });
        if has_silences {
            let (world, is_silent) = (Rc::clone(&world), Rc::clone(&is_silent));
            rt.clone().spawn("silences", async move {
                while !world.is_over.get() {
                    world.rt.sleep(world.below(60) * SECS).await;
                    is_silent.set(true);
                    world.silence.set(1);
                    world.rt.sleep(world.below(90) * SECS).await;
                    is_silent.set(false);
                }
            });
        }
        let (writing, by) = (Rc::clone(&world), writers.clone());
        rt.spawn("writers", async move { writing.writers(&by, first, packs_a_head).await });
        let settings = Settings { planted, ..settings(99, 1) };
        let (mut follower, first) = loop {
            match Follower::begin(&rt, Rc::new(theirs.clone()), &settings).await {
                Ok(begun) => break begun,
                Err(OpenError::Store(_) | OpenError::Contended) => rt.sleep(SECS).await,
                Err(error) => return Err(error.to_string()),
            }
        };
        let states = world.follow(&mut follower, first).await?;
        match theirs.asked.get() {
            (all, 0) if all > 0 => Ok(states),
            (_, changing) => Err(format!("{changing} requests that could change the bucket")),
        }
    })
}

#[test]
fn what_a_follower_shows_was_acknowledged_is_not_old_and_never_goes_back() {
    let mut states = 0;
    for seed in 0..400 {
        let shown = followed(seed, PlantedFault::None);
        states += shown.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    assert!(states > 3000, "{states} states in 400 runs");
}

#[cfg(feature = "planted-faults")]
#[test]
fn a_follower_that_does_not_look_at_the_head_is_found() {
    let found =
        (0..30).filter(|seed| followed(*seed, PlantedFault::FollowerTrustsEnd).is_err()).count();
    assert!(found > 20, "found in {found} of 30 runs");
}

#[test]
fn an_idle_look_is_two_requests_and_one_at_a_closed_volume() {
    run(1, async |rt| {
        let store = Rc::new(MemoryStore::new());
        let device = create(&rt, store.clone(), VOLUME, SMALL, &settings(1, 4)).await.unwrap();
        device.submit(write(0, &[1; 512])).await.unwrap();
        flush(&device).await.unwrap();
        let begun = Follower::begin(&rt, store.clone(), &settings(2, 4)).await;
        let (mut follower, first) = begun.unwrap();
        assert_eq!(read(&first, 0, 512).await, [1; 512]);
        let idle = async |follower: &mut Follower| {
            let before = store.requests();
            assert!(follower.look().await.unwrap().is_none());
            let asked = store.requests() - before;
            (asked.gets, asked.puts + asked.deletes + asked.lists)
        };
        assert_eq!(idle(&mut follower).await, (2, 0));
        device.submit(write(0, &[2; 512])).await.unwrap();
        assert_eq!(idle(&mut follower).await, (2, 0), "nothing was flushed");
        flush(&device).await.unwrap();
        let second = follower.look().await.unwrap().unwrap();
        assert_eq!(read(&second, 0, 512).await, [2; 512]);
        assert_eq!(read(&first, 0, 512).await, [1; 512], "it stays while its pack is there");
        assert_eq!((follower.seen().packs, follower.seen().head), (2, 1));
        device.close().await.unwrap();
        assert!(follower.look().await.unwrap().is_none(), "a head without news");
        assert!(follower.seen().is_closed && follower.seen().head == 2);
        assert_eq!(idle(&mut follower).await, (1, 0));
        // The first pack is deleted now.
        first.submit(Io::read(0, 512, Class::Data, Origin::User)).await.unwrap_err();
        assert!(first.has_lost() && !second.has_lost());
        assert_eq!(read(&second, 0, 512).await, [2; 512]);
    });
}

#[test]
fn another_volume_of_the_same_name_is_not_shown() {
    run(1, async |rt| {
        let store = Rc::new(MemoryStore::new());
        create(&rt, store.clone(), VOLUME, SHAPE, &settings(1, 4)).await.unwrap();
        let (mut follower, _) = Follower::begin(&rt, store.clone(), &settings(2, 4)).await.unwrap();
        for object in store.list("", None).await.unwrap() {
            store.delete(&object.name).await.unwrap();
        }
        assert_eq!(follower.look().await.err(), Some(OpenError::NoVolume));
        let other = Identity([8; 16]);
        create(&rt, store.clone(), other, SHAPE, &settings(3, 4)).await.unwrap();
        let why = follower.look().await.err().unwrap().to_string();
        assert!(why.contains("another volume"), "{why}");
    });
}

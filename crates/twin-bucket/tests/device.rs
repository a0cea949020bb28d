//! The device over a store in memory: against an array, before a store that is silent or damaged, and within its memory.

use std::cell::Cell;
use std::rc::Rc;

use twin_bucket::{
    Condition, Content, Follower, HasEnded, Identity, Listed, MemoryStore, ObjectStore, OpenError,
    Settings, StoreError, Stored, Version, create, look, open,
};
use twin_disk::{Block, BlockDevice, Buf, Io, gather};
use twin_rt::{Rng, SECS};

use crate::common::{SHAPE, all_ended, flush, read, run, write};

const VOLUME: Identity = Identity([9; 16]);

fn settings(writer: u8) -> Settings {
    Settings {
        packs_a_head: 3,
        ..Settings::new(Identity([writer; 16]), &format!("writer {writer}"))
    }
}

/// A store that is silent for a while, or for ever.
struct Silent {
    store: MemoryStore,
    is_silent: Cell<bool>,
}

impl Silent {
    fn or<T: 'static>(&self, answer: impl FnOnce() -> Stored<T>) -> Stored<T> {
        match self.is_silent.get() {
            true => Box::pin(std::future::ready(Err(StoreError::Unknown("no answer".into())))),
            false => answer(),
        }
    }
}

impl ObjectStore for Silent {
    fn name(&self) -> String {
        "silent".into()
    }
    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        self.or(|| self.store.get(name, range))
    }
    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        self.or(|| self.store.put(name, blocks, when))
    }
    fn delete(&self, name: &str) -> Stored<()> {
        self.or(|| self.store.delete(name))
    }
    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        self.or(|| self.store.list(prefix, after))
    }
}

#[test]
fn random_requests_and_writers_agree_with_an_array() {
    for seed in 0..30 {
        run(1, async |rt| {
            let mut rng = Rng::new(seed);
            let store = Rc::new(MemoryStore::new());
            let mut array = vec![0u8; SHAPE.size as usize];
            let mut device = create(&rt, store.clone(), VOLUME, SHAPE, &settings(0)).await.unwrap();
            for step in 0..200u32 {
                let at = rng.below(2000) * 512;
                let len = (1 + rng.below(40)) * 512;
                let range = at as usize..(at + len) as usize;
                match rng.below(20) {
                    0..8 => {
                        let bytes = vec![step as u8 + 1; len as usize];
                        array[range].copy_from_slice(&bytes);
                        device.submit(write(at, &bytes)).await.unwrap();
                    }
                    8..10 => {
                        array[range].fill(0);
                        device.submit(Io::discard(at, len)).await.unwrap();
                    }
                    10..15 => assert_eq!(
                        read(&device, at, len).await,
                        array[range],
                        "seed {seed}, step {step}"
                    ),
                    15..18 => flush(&device).await.unwrap(),
                    18 => {
                        device.close().await.unwrap();
                        let closed = Rc::new(|_: &str| false);
                        device = open(&rt, store.clone(), closed, &settings(step as u8 + 1))
                            .await
                            .unwrap();
                    }
                    _ => {
                        flush(&device).await.unwrap();
                        device = open(&rt, store.clone(), all_ended(), &settings(step as u8 + 1))
                            .await
                            .unwrap();
                    }
                }
            }
            let whole = read(&device, 0, SHAPE.size).await;
            assert!(whole == array, "seed {seed}");
        });
    }
}

#[test]
fn a_device_that_grows_has_what_it_had_and_its_new_end_whoever_opens_or_follows_it() {
    for closes in [false, true] {
        run(1, async |rt| {
            let store = Rc::new(MemoryStore::new());
            let device = create(&rt, store.clone(), VOLUME, SHAPE, &settings(1)).await.unwrap();
            device.submit(write(4096, &[1; 4096])).await.unwrap();
            flush(&device).await.unwrap();
            let (mut follower, _) =
                Follower::begin(&rt, store.clone(), &settings(2)).await.unwrap();
            let size = SHAPE.size * 5;
            assert!(device.submit(write(size - 512, &[2; 512])).await.is_err());
            assert!(device.grow(Some(size + 1)).await.is_err(), "no whole sectors");
            assert_eq!(device.grow(None).await, Ok(SHAPE.size));
            assert_eq!(device.grow(Some(SHAPE.size / 2)).await, Ok(SHAPE.size));
            assert_eq!(device.grow(Some(size)).await, Ok(size));
            assert_eq!(device.info().size, size);
            device.submit(write(size - 512, &[2; 512])).await.unwrap();
            flush(&device).await.unwrap();
            let shown = follower.look().await.unwrap().unwrap();
            if closes {
                device.close().await.unwrap();
            }
            let opened = open(&rt, store.clone(), all_ended(), &settings(3)).await.unwrap();
            for device in [shown, opened] {
                assert_eq!(device.info().size, size);
                assert_eq!(read(&device, 4096, 4096).await, [1; 4096]);
                assert_eq!(read(&device, size - 1024, 1024).await, [[0; 512], [2; 512]].concat());
            }
            // The one before is no writer any more.
            assert!(device.grow(Some(2 * size)).await.is_err());
        });
    }
}

#[test]
fn a_flush_is_one_request_and_idleness_none() {
    run(1, async |rt| {
        let store = Rc::new(MemoryStore::new());
        let settings = Settings::new(Identity([1; 16]), "it");
        let device = create(&rt, store.clone(), VOLUME, SHAPE, &settings).await.unwrap();
        let before = store.requests();
        device.submit(write(0, &[1; 4096])).await.unwrap();
        device.submit(write(65536, &[2; 512])).await.unwrap();
        flush(&device).await.unwrap();
        let one = store.requests() - before;
        assert!(one.in_bytes > 4096 + 512 && one.in_bytes < 4096 + 512 + 512, "{one:?}");
        assert_eq!(
            one,
            twin_bucket::Counts { puts: 1, in_bytes: one.in_bytes, ..Default::default() }
        );
        assert_eq!(device.counts(), store.requests(), "the device counts what the store does");
        // Nothing was written since.
        flush(&device).await.unwrap();
        rt.sleep(3600 * SECS).await;
        assert_eq!(store.requests() - before, one);
    });
}

#[test]
fn a_store_that_is_silent_for_a_while_costs_time_and_for_ever_the_volume() {
    run(1, async |rt| {
        let store = Rc::new(Silent { store: MemoryStore::new(), is_silent: Cell::new(false) });
        let device = create(&rt, store.clone(), VOLUME, SHAPE, &settings(1)).await.unwrap();
        device.submit(write(0, &[1; 512])).await.unwrap();
        store.is_silent.set(true);
        let (waking, woken) = (rt.clone(), store.clone());
        rt.spawn("it comes back", async move {
            waking.sleep(100 * SECS).await;
            woken.is_silent.set(false);
        });
        flush(&device).await.unwrap();
        assert!(rt.now().secs() >= 100);

        device.submit(write(512, &[2; 512])).await.unwrap();
        store.is_silent.set(true);
        let why = flush(&device).await.unwrap_err();
        assert!(why.contains("for 300 seconds"), "{why}");
        let why = device.submit(write(0, &[3; 512])).await.unwrap_err().to_string();
        assert!(why.contains("does not answer"), "{why}");
        // What was acknowledged is there.
        store.is_silent.set(false);
        let next = open(&rt, store, all_ended(), &settings(2)).await.unwrap();
        assert_eq!(read(&next, 0, 512).await, [1; 512]);
    });
}

#[test]
fn writes_wait_for_memory_and_end_with_the_device() {
    run(1, async |rt| {
        let store = Rc::new(Silent { store: MemoryStore::new(), is_silent: Cell::new(false) });
        let settings = Settings { memory: 1 << 17, ..settings(1) };
        let device = create(&rt, store.clone(), VOLUME, SHAPE, &settings).await.unwrap();
        store.is_silent.set(true);
        let done = Rc::new(Cell::new(0));
        for n in 0..8 {
            let (device, done) = (device.clone(), done.clone());
            rt.spawn("write", async move {
                // An error, too, is an end.
                drop(device.submit(write(n << 16, &[1; 1 << 16])).await);
                done.set(done.get() + 1);
            });
        }
        rt.sleep(SECS).await;
        assert_eq!(done.get(), 2, "as many as fit");
        rt.sleep(400 * SECS).await;
        assert_eq!(done.get(), 8);
        assert!(device.failed().is_some());
    });
}

#[test]
fn who_looks_changes_nothing_and_sees_what_was_flushed() {
    run(1, async |rt| {
        let store = Rc::new(MemoryStore::new());
        let device = create(&rt, store.clone(), VOLUME, SHAPE, &settings(1)).await.unwrap();
        device.submit(write(0, &[1; 512])).await.unwrap();
        flush(&device).await.unwrap();
        device.submit(write(0, &[2; 512])).await.unwrap();
        let before = store.requests();
        let seen = look(&rt, store.clone(), &settings(2)).await.unwrap();
        assert_eq!(read(&seen, 0, 512).await, [1; 512]);
        seen.submit(write(0, &[3; 512])).await.unwrap_err();
        seen.close().await.unwrap();
        assert_eq!(
            (store.requests().puts, store.requests().deletes),
            (before.puts, before.deletes)
        );
        flush(&device).await.unwrap();
    });
}

#[test]
fn a_volume_in_use_is_refused_in_the_words_of_its_writer() {
    run(1, async |rt| {
        let store = Rc::new(MemoryStore::new());
        let device = create(&rt, store.clone(), VOLUME, SHAPE, &settings(1)).await.unwrap();
        let lives = || -> HasEnded { Rc::new(|_| false) };
        let refused = open(&rt, store.clone(), lives(), &settings(2)).await.err();
        assert_eq!(refused, Some(OpenError::InUse("writer 1".into())));
        device.close().await.unwrap();
        open(&rt, store.clone(), lives(), &settings(2)).await.unwrap();
        let there = create(&rt, store, VOLUME, SHAPE, &settings(3)).await.err();
        assert_eq!(there, Some(OpenError::Exists));
    });
}

#[test]
fn objects_that_are_damaged_or_gone_are_named() {
    run(1, async |rt| {
        let store = Rc::new(MemoryStore::new());
        let nothing = look(&rt, store.clone(), &settings(1)).await.err();
        assert_eq!(nothing, Some(OpenError::NoVolume));
        let device = create(&rt, store.clone(), VOLUME, SHAPE, &settings(1)).await.unwrap();
        device.submit(write(0, &[1; 512])).await.unwrap();
        flush(&device).await.unwrap();
        let listed = store.list("", None).await.unwrap();
        for object in listed {
            let good = store.get(&object.name, None).await.unwrap().blocks;
            let mut bytes = gather(&good, 0, object.bytes as usize).to_bytes().to_vec();
            bytes[20] ^= 1;
            let bad = vec![Block::Bytes(Buf::copy_of(&bytes).freeze())];
            store.put(&object.name, bad, Condition::Always).await.unwrap();
            let why = look(&rt, store.clone(), &settings(2)).await.err().unwrap().to_string();
            assert!(why.starts_with(&format!("{} is damaged", object.name)), "{why}");
            store.delete(&object.name).await.unwrap();
            // Without its last pack a volume is one that was not written any further.
            let gone =
                look(&rt, store.clone(), &settings(2)).await.err().map(|error| error.to_string());
            match &object.name[..4] {
                "head" => assert_eq!(gone.as_deref(), Some("there is no volume here")),
                "map/" => assert!(gone.unwrap().contains(&format!("{} is missing", object.name))),
                _ => assert_eq!(gone, None),
            }
            store.put(&object.name, good, Condition::Always).await.unwrap();
        }
        look(&rt, store, &settings(2)).await.unwrap();
    });
}

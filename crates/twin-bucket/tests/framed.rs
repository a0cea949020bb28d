//! Volumes whose objects are coded, with a codec that anybody can see through: against an array, by their requests, and when
//! somebody has changed, cut or exchanged objects.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::ready;
use std::rc::Rc;

use twin_bucket::{
    Codec, Codecs, Coding, Condition, Content, Frame, Framed, Identity, Listed, MemoryStore,
    Object, ObjectStore, OpenError, SEAL_BYTES, Settings, StoreError, Stored, TAG, Version, Worked,
    create, look, open,
};
use twin_disk::{Block, BlockDevice, Bytes, Io, gather, total};
use twin_rt::Rng;

use crate::common::{SHAPE, all_ended, block, flush, read, run, write};

const VOLUME: Identity = Identity([9; 16]);
const BOTH: Coding = Coding { compression: 1, encryption: 1, salt: [3; 16] };
const PACKED: Coding = Coding { encryption: 0, ..BOTH };
const SECRET: Coding = Coding { compression: 0, ..BOTH };

/// Frames of one byte again and again become that byte; the cipher is an exclusive or, and its tag a checksum.
struct Toy {
    coding: Coding,
    nonces: Cell<u8>,
}

fn tag(object: &Object, number: u64, frame: &Frame<Vec<u8>>, coding: Coding) -> [u8; 16] {
    let about = format!("{object:?} {number} {} {:?}", frame.is_compressed, coding.salt);
    let crc = crc32c::crc32c_append(crc32c::crc32c(about.as_bytes()), &frame.bytes);
    let mut tag = [0; TAG as usize];
    tag[..4].copy_from_slice(&crc.to_le_bytes());
    tag
}

impl Codec for Toy {
    fn nonce(&self) -> Result<[u8; 12], String> {
        self.nonces.set(self.nonces.get().wrapping_add(1));
        Ok([self.nonces.get(); 12])
    }

    fn encode(
        &self,
        object: Object,
        frames: Vec<Bytes>,
        packed: bool,
    ) -> Worked<Vec<Frame<Vec<u8>>>> {
        let pack = |bytes: &Bytes| {
            let is_same = bytes.iter().all(|byte| *byte == bytes[0]);
            let is_compressed = packed && self.coding.compression == 1 && is_same;
            let bytes = if is_compressed { vec![bytes[0]] } else { bytes.to_vec() };
            Frame { bytes, is_compressed }
        };
        let mut coded: Vec<_> = frames.iter().map(pack).collect();
        if self.coding.encryption == 1 {
            for (number, frame) in coded.iter_mut().enumerate() {
                let tag = tag(&object, number as u64, frame, self.coding);
                frame.bytes.iter_mut().for_each(|byte| *byte ^= object.nonce[0]);
                frame.bytes.extend(tag);
            }
        }
        Box::pin(ready(Ok(coded)))
    }

    fn decode(
        &self,
        object: Object,
        first: u64,
        frames: Vec<(Frame<Bytes>, u64)>,
    ) -> Worked<Vec<Vec<u8>>> {
        let mut plain = Vec::new();
        for (number, (frame, len)) in (first..).zip(frames) {
            let mut frame =
                Frame { bytes: frame.bytes.to_vec(), is_compressed: frame.is_compressed };
            if self.coding.encryption == 1 {
                let at = frame.bytes.len() - TAG as usize;
                let told = frame.bytes.split_off(at);
                frame.bytes.iter_mut().for_each(|byte| *byte ^= object.nonce[0]);
                if told != tag(&object, number, &frame, self.coding) {
                    return Box::pin(ready(Err("its tag is wrong".into())));
                }
            }
            plain.push(match frame.is_compressed {
                true => vec![frame.bytes[0]; len as usize],
                false => frame.bytes,
            });
        }
        Box::pin(ready(Ok(plain)))
    }
}

/// Who has a key opens volumes that need it, and no others.
struct Toys {
    has_key: bool,
}

impl Codecs for Toys {
    fn codec(&self, coding: Coding) -> Result<Rc<dyn Codec>, String> {
        match (coding.encryption, self.has_key) {
            (0, true) => Err("the volume is not encrypted".into()),
            (1, false) => Err("the volume is encrypted".into()),
            _ => Ok(Rc::new(Toy { coding, nonces: Cell::new(0) })),
        }
    }
    fn uncoded(&self) -> Result<(), String> {
        if self.has_key { Err("the volume is not encrypted".into()) } else { Ok(()) }
    }
}

fn toys(has_key: bool) -> Box<dyn Codecs> {
    Box::new(Toys { has_key })
}

fn new(store: &Rc<MemoryStore>, coding: Coding) -> Rc<Framed> {
    let is_secret = coding.encryption == 1;
    Rc::new(Framed::new(store.clone(), toys(is_secret), coding).unwrap())
}

fn there(store: &Rc<MemoryStore>, has_key: bool) -> Rc<Framed> {
    Rc::new(Framed::of(store.clone(), toys(has_key)))
}

fn settings(writer: u8) -> Settings {
    Settings {
        packs_a_head: 3,
        ..Settings::new(Identity([writer; 16]), &format!("writer {writer}"))
    }
}

#[test]
fn random_requests_and_writers_agree_with_an_array() {
    for seed in 0..30 {
        run(1, async |rt| {
            let mut rng = Rng::new(seed);
            let coding = [BOTH, PACKED, SECRET][seed as usize % 3];
            let store = Rc::new(MemoryStore::new());
            let mut array = vec![0u8; SHAPE.size as usize];
            let mut device =
                create(&rt, new(&store, coding), VOLUME, SHAPE, &settings(0)).await.unwrap();
            for step in 0..200u32 {
                let at = rng.below(2000) * 512;
                let len = (1 + rng.below(40)) * 512;
                let range = at as usize..(at + len) as usize;
                match rng.below(20) {
                    0..8 => {
                        let mut bytes = vec![step as u8 + 1; len as usize];
                        if rng.chance(0.5) {
                            bytes.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
                        }
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
                    _ => {
                        flush(&device).await.unwrap();
                        let store = there(&store, coding.encryption == 1);
                        device =
                            open(&rt, store, all_ended(), &settings(step as u8 + 1)).await.unwrap();
                    }
                }
            }
            let whole = read(&device, 0, SHAPE.size).await;
            assert!(whole == array, "seed {seed}");
            flush(&device).await.unwrap();
            device.close().await.unwrap();
            device.collect_garbage().await.unwrap();
        });
    }
}

#[test]
fn a_volume_that_is_not_coded_is_read_as_before_without_a_request_more() {
    run(1, async |rt| {
        let store = Rc::new(MemoryStore::new());
        let device = create(&rt, store.clone(), VOLUME, SHAPE, &settings(0)).await.unwrap();
        device.submit(write(0, &[1; 4096])).await.unwrap();
        device.close().await.unwrap();
        let mut asked = Vec::new();
        for through in [false, true] {
            let store: Rc<dyn ObjectStore> = match through {
                true => there(&store, false),
                false => store.clone(),
            };
            let device = look(&rt, store, &settings(1)).await.unwrap();
            assert_eq!(read(&device, 0, 4096).await, vec![1; 4096]);
            asked.push(device.counts());
        }
        assert_eq!(asked[0], asked[1]);
    });
}

#[test]
fn a_key_that_is_missing_or_not_needed_is_said() {
    run(1, async |rt| {
        for (coding, has_key, word) in
            [(Some(SECRET), false, "is encrypted"), (None, true, "is not encrypted")]
        {
            let store = Rc::new(MemoryStore::new());
            let before: Rc<dyn ObjectStore> = match coding {
                Some(coding) => new(&store, coding),
                None => store.clone(),
            };
            let made = create(&rt, before, VOLUME, SHAPE, &settings(0)).await.unwrap();
            made.close().await.unwrap();
            let opened = open(&rt, there(&store, has_key), all_ended(), &settings(1)).await;
            let error = opened.err().unwrap().to_string();
            assert!(error.contains(word), "{error}");
            let made = create(&rt, new(&store, BOTH), VOLUME, SHAPE, &settings(2)).await;
            assert!(matches!(made.err(), Some(OpenError::Exists)));
        }
    });
}

#[test]
fn a_flush_is_one_request_and_so_is_a_read_of_a_small_pack() {
    run(1, async |rt| {
        let store = Rc::new(MemoryStore::new());
        let settings = Settings::new(Identity([1; 16]), "it");
        let device = create(&rt, new(&store, BOTH), VOLUME, SHAPE, &settings).await.unwrap();
        let before = store.requests();
        device.submit(write(8192, &[1; 8192])).await.unwrap();
        flush(&device).await.unwrap();
        let one = store.requests() - before;
        assert_eq!((one.puts, one.gets), (1, 0));
        assert!(one.in_bytes < 4096 + 400, "the second frame is compressed: {one:?}");
        device.close().await.unwrap();
        let anew = look(&rt, there(&store, true), &settings).await.unwrap();
        let before = store.requests();
        assert_eq!(read(&anew, 8192, 512).await, vec![1; 512]);
        assert_eq!((store.requests() - before).gets, 1, "its front and frames come together");
        assert_eq!(read(&anew, 8192 + 4096, 512).await, vec![1; 512]);
        assert_eq!((store.requests() - before).gets, 2);
    });
}

/// A store in which somebody has exchanged what objects begin with, by name.
struct Changed {
    store: Rc<MemoryStore>,
    objects: BTreeMap<String, Vec<u8>>,
}

impl ObjectStore for Changed {
    fn name(&self) -> String {
        "changed".into()
    }
    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        let Some(bytes) = self.objects.get(name) else { return self.store.get(name, range) };
        let (at, len) = range.unwrap_or((0, u64::MAX));
        let at = at.min(bytes.len() as u64);
        let end = at.saturating_add(len).min(bytes.len() as u64);
        let blocks = block(&bytes[at as usize..end as usize]);
        Box::pin(ready(Ok(Content { blocks, version: Version("x".into()) })))
    }
    fn put(&self, _: &str, _: Vec<Block>, _: Condition) -> Stored<Version> {
        Box::pin(ready(Err(StoreError::Refused("only to be read".into()))))
    }
    fn delete(&self, _: &str) -> Stored<()> {
        Box::pin(ready(Ok(())))
    }
    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        self.store.list(prefix, after)
    }
}

async fn bytes_of(store: &MemoryStore, name: &str) -> Vec<u8> {
    let blocks = store.get(name, None).await.unwrap().blocks;
    gather(&blocks, 0, total(&blocks) as usize).to_bytes().to_vec()
}

/// A volume with two packs of the same shape and different bytes, closed; and the names of its packs.
async fn two_packs(rt: &twin_rt::Rt, coding: Coding) -> (Rc<MemoryStore>, Vec<String>) {
    let store = Rc::new(MemoryStore::new());
    let device = create(rt, new(&store, coding), VOLUME, SHAPE, &settings(0)).await.unwrap();
    for at in [0u64, 32768] {
        let bytes: Vec<u8> = (0..12_288u64).map(|n| (n / 7 + at / 100) as u8).collect();
        device.submit(write(at, &bytes)).await.unwrap();
        flush(&device).await.unwrap();
    }
    device.close().await.unwrap();
    let packs = store.list("data/", None).await.unwrap();
    (store, packs.into_iter().map(|listed| listed.name).collect())
}

#[test]
fn each_changed_byte_of_each_object_and_each_cut_is_an_error() {
    run(1, async |rt| {
        let (store, _) = two_packs(&rt, BOTH).await;
        let names = store.list("", None).await.unwrap();
        for name in names.into_iter().map(|listed| listed.name) {
            let good = bytes_of(&store, &name).await;
            let cut = (0..8).map(|n| good[..good.len() * n / 8].to_vec());
            let turned = (0..good.len()).step_by(13).map(|at| {
                let mut bad = good.clone();
                bad[at] ^= 16;
                bad
            });
            for (number, bad) in cut.chain(turned).enumerate() {
                let objects = BTreeMap::from([(name.clone(), bad)]);
                let changed: Rc<dyn ObjectStore> =
                    Rc::new(Changed { store: store.clone(), objects });
                let framed = Rc::new(Framed::of(changed, toys(true)));
                let Ok(device) = look(&rt, framed, &settings(1)).await else { continue };
                let io = Io::read(0, 65536, twin_disk::Class::Data, twin_disk::Origin::User);
                let read = device.submit(io).await;
                assert!(read.is_err(), "{name}, change {number}");
            }
        }
    });
}

#[test]
fn objects_in_the_place_of_others_are_errors() {
    run(1, async |rt| {
        let (store, packs) = two_packs(&rt, BOTH).await;
        let other = Coding { salt: [4; 16], ..BOTH };
        let (elsewhere, _) = two_packs(&rt, other).await;
        for (name, from) in
            [(&packs[0], bytes_of(&store, &packs[1])), (&packs[0], bytes_of(&elsewhere, &packs[0]))]
        {
            let objects = BTreeMap::from([(name.clone(), from.await)]);
            let changed: Rc<dyn ObjectStore> = Rc::new(Changed { store: store.clone(), objects });
            let framed = Rc::new(Framed::of(changed, toys(true)));
            let device = look(&rt, framed, &settings(1)).await.unwrap();
            let io = Io::read(0, 4096, twin_disk::Class::Data, twin_disk::Origin::User);
            let error = device.submit(io).await.unwrap_err().to_string();
            assert!(error.contains(name.as_str()), "{error}");
        }
    });
}

#[test]
fn a_seal_is_known_in_a_list_and_nothing_else_is_taken_for_one() {
    for coding in [BOTH, PACKED, SECRET] {
        run(1, async |_| {
            let store = Rc::new(MemoryStore::new());
            let framed = new(&store, coding);
            let put = async |name: &str, bytes: &[u8]| {
                framed.put(name, block(bytes), Condition::Absent).await.unwrap();
            };
            put("data/seal", &[7; SEAL_BYTES as usize]).await;
            // Lengths around the one at which a compressed object is as long as a seal.
            for len in (1..400).chain(4000..4200) {
                put(&format!("data/{len:05}"), &vec![1; len]).await;
            }
            let listed = framed.list("data/", None).await.unwrap();
            let seals: Vec<&str> = listed
                .iter()
                .filter(|one| one.bytes == SEAL_BYTES)
                .map(|one| one.name.as_str())
                .collect();
            assert_eq!(seals, ["data/00068", "data/seal"], "{coding:?}");
            for one in &listed {
                let read = framed.get(&one.name, None).await.unwrap();
                let len = one.name[5..].parse().unwrap_or(SEAL_BYTES);
                assert_eq!(total(&read.blocks), len, "{}", one.name);
            }
        });
    }
}

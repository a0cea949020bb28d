//! A cache on a local device before a store: what was read from packs, and what was just written to them.
//!
//! Contract: packs are never changed and their names never used again, so what is cached of one is right for ever;
//! other objects are passed through. Packs are cached in chunks of [`CHUNK`] bytes, the device's size bounds how many,
//! and a replacement policy says which leave. Whatever is missing of a range is read with one request, in whole chunks.
//! The local device may lose or change anything at any time: each chunk is compared with its checksum in memory, and
//! what does not fit is read from the store. Nothing of it is kept for the next writer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::{Capacity, Item, Removal, Replacement};
use twin_disk::{Block, BlockDevice, checksum, cut, total};
use twin_rt::{BoxFuture, join_all};

use crate::counted::Counted;
use crate::counts::Counts;
use crate::objects::block;
use crate::pack::PREFIX;
use crate::shelf::Shelf;
use crate::store::{Condition, Content, Listed, ObjectStore, StoreError, Stored, Version};
use twin_disk::local::{LocalDevice, UNIT};

/// With which the device begins, so that nobody's file is overwritten by mistake.
const MAGIC: &[u8] = b"twinfs cache 1\n";

/// Bytes of a chunk.
pub const CHUNK: u64 = 64 << 10;

/// Bytes for pieces of packs, of the memory that a volume in a bucket has for blocks: a request to a store costs so much more
/// than its bytes that reading around what is asked pays for the blocks that leave for it.
pub fn pack_memory(cache_bytes: u64) -> u64 {
    cache_bytes / 8
}

/// What a cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Chunks that were read from the local device.
    pub hits: u64,
    /// Chunks that were read from the store.
    pub misses: u64,
    /// Chunks that were not what had been written, or could not be read.
    pub spoiled: u64,
}

/// A chunk of a pack.
type Key = (Rc<str>, u32);

/// A chunk's place on the local device.
struct Slot {
    key: Key,
    len: u32,
    crc: u32,
    /// Its bytes are there.
    is_filled: bool,
    readers: u32,
}

struct Chunks {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// The slots of each pack's chunks.
    by_pack: BTreeMap<Rc<str>, BTreeMap<u32, u32>>,
    policy: Box<dyn Replacement>,
    /// Counts chunks: the policy's names for them.
    inserted: u64,
}

impl Chunks {
    fn slot_of(&self, pack: &str, chunk: u32) -> Option<u32> {
        self.by_pack.get(pack)?.get(&chunk).copied()
    }

    /// A free slot for a chunk that is in none; `None` if each is being read or written.
    fn take(&mut self, pack: &str, chunk: u32, (len, crc): (u32, u32)) -> Option<u32> {
        if self.slot_of(pack, chunk).is_some() {
            return None;
        }
        if self.free.is_empty() {
            let slots = &self.slots;
            let mut usable = |slot: u32| {
                let slot = slots[slot as usize].as_ref();
                slot.is_some_and(|slot| slot.is_filled && slot.readers == 0)
            };
            let victim = self.policy.victim(&mut usable)?;
            self.remove(victim, Removal::Evicted);
        }
        let slot = self.free.pop()?;
        let name: Rc<str> = match self.by_pack.get_key_value(pack) {
            Some((name, _)) => Rc::clone(name),
            None => pack.into(),
        };
        self.by_pack.entry(Rc::clone(&name)).or_default().insert(chunk, slot);
        let key = (name, chunk);
        self.slots[slot as usize] = Some(Slot { key, len, crc, is_filled: false, readers: 0 });
        self.inserted += 1;
        self.policy.inserted(slot, Item::frame((self.inserted, 0)));
        Some(slot)
    }

    fn remove(&mut self, slot: u32, why: Removal) {
        let Some(Slot { key: (pack, chunk), .. }) = self.slots[slot as usize].take() else {
            return;
        };
        self.policy.removed(slot, why);
        if let Some(chunks) = self.by_pack.get_mut(&pack) {
            chunks.remove(&chunk);
            if chunks.is_empty() {
                self.by_pack.remove(&pack);
            }
        }
        self.free.push(slot);
    }

    /// Forgets a pack. Chunks that are being read or written stay until they are evicted.
    fn forget(&mut self, pack: &str) {
        let slots: Vec<u32> = match self.by_pack.get(pack) {
            Some(chunks) => chunks.values().copied().collect(),
            None => return,
        };
        for slot in slots {
            let is_idle = |slot: &Slot| slot.is_filled && slot.readers == 0;
            if self.slots[slot as usize].as_ref().is_some_and(is_idle) {
                self.remove(slot, Removal::Dropped);
            }
        }
    }
}

struct State {
    device: LocalDevice,
    /// It is memory: it needs no checksums, and what is written is not kept.
    is_memory: bool,
    chunks: RefCell<Chunks>,
    counts: Cell<CacheCounts>,
}

/// A store behind a cache.
pub struct Cached {
    store: Rc<dyn ObjectStore>,
    state: Rc<State>,
}

impl Cached {
    /// A cache of `store` on `device`, which has zeros or was a cache before. It begins empty.
    ///
    /// # Errors
    /// If the device has anything else, fails, is too small for a chunk, or has too large sectors.
    pub async fn open(
        store: Rc<dyn ObjectStore>,
        device: Rc<dyn BlockDevice>,
        policy: &twin_cache::Policy,
    ) -> Result<Cached, String> {
        Cached::open_on(store, device, policy, false).await
    }

    async fn open_on(
        store: Rc<dyn ObjectStore>,
        device: Rc<dyn BlockDevice>,
        policy: &twin_cache::Policy,
        is_memory: bool,
    ) -> Result<Cached, String> {
        let (store, device) = (Counted::of(store), LocalDevice::new(device)?);
        let slots = u32::try_from(device.size().saturating_sub(UNIT) / CHUNK).unwrap_or(u32::MAX);
        if slots == 0 {
            return Err(format!(
                "{}: a cache needs at least {} bytes",
                device.name(),
                UNIT + CHUNK
            ));
        }
        let front = device.read(0, UNIT).await.map_err(|error| error.to_string())?.to_bytes();
        if !front.starts_with(MAGIC) && front.iter().any(|byte| *byte != 0) {
            let name = device.name();
            return Err(format!("{name}: it is neither empty nor a cache; give another file"));
        }
        let mark = device.write(0, vec![block(MAGIC.to_vec())]);
        mark.await.map_err(|error| error.to_string())?;
        let chunks = Chunks {
            slots: (0..slots).map(|_| None).collect(),
            free: (0..slots).rev().collect(),
            by_pack: BTreeMap::new(),
            policy: policy.make(Capacity::frames(slots.into())),
            inserted: 0,
        };
        let (chunks, counts) = (RefCell::new(chunks), Cell::default());
        let state = State { device, is_memory, chunks, counts };
        Ok(Cached { store, state: Rc::new(state) })
    }

    /// The same in `bytes` of memory, for a mount without such a device: a block that is read brings its neighbours. What is
    /// written is not kept, because the volume above has just had it in its own cache. With less memory than for two chunks
    /// it is the store itself.
    ///
    /// # Errors
    /// None that memory has.
    pub async fn in_memory(
        store: Rc<dyn ObjectStore>,
        bytes: u64,
    ) -> Result<Rc<dyn ObjectStore>, String> {
        if bytes < UNIT + 2 * CHUNK {
            return Ok(store);
        }
        let policy = twin_cache::replacement::REGISTRY.default_entry();
        Ok(Rc::new(Cached::open_on(store, Rc::new(Shelf::new(bytes)), policy, true).await?))
    }

    /// What it has done.
    pub fn counts(&self) -> CacheCounts {
        self.state.counts.get()
    }
}

impl State {
    fn count(&self, how: impl FnOnce(&mut CacheCounts)) {
        let mut counts = self.counts.get();
        how(&mut counts);
        self.counts.set(counts);
    }

    fn checksum(&self, blocks: &[Block]) -> u32 {
        if self.is_memory { 0 } else { checksum(blocks) }
    }

    /// A chunk from the local device, if it is there.
    async fn read(&self, pack: &str, chunk: u32) -> Option<Vec<Block>> {
        let (slot, len, crc) = {
            let chunks = &mut *self.chunks.borrow_mut();
            let slot = chunks.slot_of(pack, chunk)?;
            let held = chunks.slots[slot as usize].as_mut().filter(|slot| slot.is_filled)?;
            held.readers += 1;
            let found = (slot, held.len, held.crc);
            chunks.policy.touched(slot);
            found
        };
        // The slot is neither evicted nor forgotten meanwhile, because it has a reader.
        let read = self.device.read_blocks(place(slot), len.into()).await;
        let chunks = &mut *self.chunks.borrow_mut();
        if let Some(held) = chunks.slots[slot as usize].as_mut() {
            held.readers -= 1;
        }
        let good = read.ok().filter(|blocks| self.checksum(blocks) == crc);
        if good.is_none() {
            self.count(|counts| counts.spoiled += 1);
            let idle = chunks.slots[slot as usize].as_ref().is_some_and(|slot| slot.readers == 0);
            if idle {
                chunks.remove(slot, Removal::Dropped);
            }
        }
        good
    }

    /// Puts chunks on the local device. They can be found once they are there; what has no room is left out.
    async fn fill(&self, pack: &str, first: u32, pieces: Vec<Vec<Block>>) -> Vec<u32> {
        let mut writes = Vec::new();
        for (chunk, blocks) in (first..).zip(pieces) {
            let of = (total(&blocks) as u32, self.checksum(&blocks));
            let slot = self.chunks.borrow_mut().take(pack, chunk, of);
            if let Some(slot) = slot {
                let write = self.device.write(place(slot), blocks);
                writes.push(async move { (slot, write.await) });
            }
        }
        let mut filled = Vec::new();
        for (slot, written) in join_all(writes).await {
            match written {
                Ok(()) => filled.push(slot),
                Err(_) => self.chunks.borrow_mut().remove(slot, Removal::Dropped),
            }
        }
        filled
    }

    /// Lets chunks be found, or forgets them.
    fn publish(&self, slots: Vec<u32>, is_right: bool) {
        let chunks = &mut *self.chunks.borrow_mut();
        for slot in slots {
            match chunks.slots[slot as usize].as_mut() {
                Some(held) if is_right => held.is_filled = true,
                _ => chunks.remove(slot, Removal::Dropped),
            }
        }
    }
}

/// Where a slot is on the device.
fn place(slot: u32) -> u64 {
    UNIT + u64::from(slot) * CHUNK
}

/// The chunks of a pack's bytes from the beginning of one on. They stay divided as they are: stamps of a simulation would be
/// other bytes together.
fn pieces(blocks: &[Block]) -> Vec<Vec<Block>> {
    let all = total(blocks);
    let piece = |at: u64| cut(blocks, at, CHUNK.min(all - at));
    (0..all.div_ceil(CHUNK)).map(|chunk| piece(chunk * CHUNK)).collect()
}

/// Reads a range of a pack.
async fn read(
    store: &Rc<dyn ObjectStore>,
    state: &State,
    pack: &str,
    (at, len): (u64, u64),
) -> Result<Content, StoreError> {
    let (first, last) = ((at / CHUNK) as u32, ((at + len - 1) / CHUNK) as u32);
    let mut found = join_all((first..=last).map(|chunk| state.read(pack, chunk))).await;
    let here = found.iter().flatten().count() as u64;
    state.count(|counts| counts.hits += here);
    let missing = |chunk: &Option<Vec<Block>>| chunk.is_none();
    if let (Some(from), Some(to)) =
        (found.iter().position(missing), found.iter().rposition(missing))
    {
        let begin = u64::from(first + from as u32) * CHUNK;
        let range = (begin, (to - from + 1) as u64 * CHUNK);
        let content = store.get(pack, Some(range)).await?;
        let got = pieces(&content.blocks);
        state.count(|counts| counts.misses += got.len() as u64);
        // Where the pack ends, the rest of the range is not there.
        for (held, chunk) in found[from..].iter_mut().zip(&got) {
            *held = Some(chunk.clone());
        }
        let slots = state.fill(pack, first + from as u32, got).await;
        state.publish(slots, true);
    }
    let blocks: Vec<Block> = found.into_iter().map_while(|chunk| chunk).flatten().collect();
    let skip = (at - u64::from(first) * CHUNK).min(total(&blocks));
    let blocks = cut(&blocks, skip, len.min(total(&blocks) - skip));
    Ok(Content { blocks, version: Version(String::new()) })
}

impl ObjectStore for Cached {
    fn name(&self) -> String {
        self.store.name()
    }

    fn requested(&self) -> Option<Counts> {
        self.store.requested()
    }

    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content> {
        match range {
            Some(range) if name.starts_with(PREFIX) && range.1 > 0 => {
                let (store, state) = (Rc::clone(&self.store), Rc::clone(&self.state));
                let name = name.to_string();
                Box::pin(async move { read(&store, &state, &name, range).await })
            }
            _ => self.store.get(name, range),
        }
    }

    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version> {
        if !name.starts_with(PREFIX) || self.state.is_memory {
            return self.store.put(name, blocks, when);
        }
        let chunks = pieces(&blocks);
        let put = self.store.put(name, blocks, when);
        let (state, name) = (Rc::clone(&self.state), name.to_string());
        // Side by side with the request, so that a flush does not wait for the cache after it.
        Box::pin(async move {
            let written = Cell::new(None);
            let put = async {
                written.set(Some(put.await));
                Vec::new()
            };
            let both: [BoxFuture<'_, Vec<u32>>; 2] =
                [Box::pin(put), Box::pin(state.fill(&name, 0, chunks))];
            let slots = join_all(both).await.concat();
            let written = written.take().unwrap_or(Err(StoreError::Conflict));
            state.publish(slots, written.is_ok());
            written
        })
    }

    fn delete(&self, name: &str) -> Stored<()> {
        self.state.chunks.borrow_mut().forget(name);
        self.store.delete(name)
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>> {
        self.store.list(prefix, after)
    }
}

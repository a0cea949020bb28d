//! Replacement policies: which clean frame to evict.
//!
//! A policy ranks frames; the cache acts. A new policy needs a file here and a line in
//! [`REGISTRY`].

mod arc;
mod belady;
mod car;
mod clock;
mod clock_pro;
mod divided;
mod entries;
mod fifo;
mod ghosts;
mod lfu;
mod lirs;
mod list;
mod lru;
mod lru_k;
mod marks;
mod mru;
mod random;
mod s3_fifo;
mod sieve;
mod slru;
mod two_queue;
mod w_tiny_lfu;

use twin_settings::{Registry, RegistryEntry, SettingsError};

use crate::Lbn;

pub(crate) use divided::Divided;

/// A block in the cache: the inode number and the logical block.
pub type Key = (u64, Lbn);

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The block, or the number of an object.
    pub key: Key,
    /// How much of the cache's [capacity](Capacity) it takes: 1 for a block.
    pub weight: u32,
}

impl Item {
    /// A block in a frame.
    pub fn frame(key: Key) -> Item {
        Item { key, weight: 1 }
    }
}

/// How objects of different sizes are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// As the papers say, with weights in place of numbers of frames.
    Paper,
    /// As libCacheSim counts, where it differs from the papers: for studies of objects.
    LibCacheSim,
}

/// The cache that a policy is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The weight that it holds: frames, or bytes of objects.
    pub units: u64,
    /// The mean weight of an item, at least 1.
    pub mean: u64,
    /// The rules for objects.
    pub rules: Rules,
}

impl Capacity {
    /// The capacity of a cache of this many frames.
    pub fn frames(frames: u64) -> Capacity {
        Capacity { units: frames.max(1), mean: 1, rules: Rules::Paper }
    }

    /// A part of the capacity, rounded down.
    fn share(self, share: f64) -> u64 {
        (self.units as f64 * share) as u64
    }

    /// About how many items fit.
    fn blocks(self) -> u64 {
        self.units / self.mean.max(1)
    }

    fn by_paper(self) -> bool {
        self.rules == Rules::Paper
    }
}

/// The reason why a policy no longer ranks a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The frame was the victim. Its block is on the device and may be read again.
    Evicted,
    /// The frame is dirty or being written. It stays in memory until it is
    /// [cleaned](Replacement::cleaned) or dropped.
    Dirtied,
    /// The frame was dropped, not by the policy's choice and whether it was dirty or not, because its
    /// block was freed or will not be needed soon.
    Dropped,
}

/// Ranks clean frames, which it knows by their slots in the cache's table.
///
/// For a block that is in no frame the cache calls [`missed`](Self::missed), then
/// [`victim`](Self::victim) and [`removed`](Self::removed) until there is room, then
/// [`inserted`](Self::inserted).
pub trait Replacement {
    /// Called when a block is in no frame, before room is made for it. False if the policy would not
    /// keep it: a study then counts the miss and leaves the block out; a cache needs a frame all the
    /// same, and no policy refuses blocks of equal size.
    fn missed(&mut self, _item: Item) -> bool {
        true
    }

    /// Called when a frame was added.
    fn inserted(&mut self, slot: u32, item: Item);

    /// Called when a frame that was [dirty](Removal::Dirtied) is clean again. `item` is the one with
    /// which it was inserted.
    fn cleaned(&mut self, slot: u32, item: Item) {
        self.inserted(slot, item);
    }

    /// Called when a clean frame is used.
    fn touched(&mut self, slot: u32);

    /// Called when a frame is no longer to be ranked, and again when it is dropped while it is dirty.
    fn removed(&mut self, slot: u32, why: Removal);

    /// The frame to evict, among those for which `usable` returns true. The cache removes it and
    /// then calls [`removed`](Self::removed).
    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32>;

    /// A frame that has to leave although the cache has room, and that the policy has removed from its
    /// books. Only studies of objects ask for it, after each call.
    fn leaving(&mut self) -> Option<u32> {
        None
    }

    /// Called when the cache has another capacity from now on: what the policy reckons as shares of it
    /// follows. What it has beyond such a share goes as others come.
    fn resized(&mut self, _capacity: Capacity) {}

    /// Called in studies before each access: the number of the next access to the same block, or
    /// `u64::MAX`.
    fn future(&mut self, _next: u64) {}
}

/// Makes a policy for a cache of a capacity. It may hold what it needs for that: a class, a loaded module.
pub type Maker = &'static (dyn Fn(Capacity) -> Box<dyn Replacement> + Send + Sync);

/// What is known of a policy beside its name.
pub struct Policy {
    make: Maker,
    needs_future: bool,
    is_lru: bool,
}

impl Policy {
    /// A policy from outside, to be [added](Registry::add) to the [registry](REGISTRY). It is kept until the
    /// program ends.
    pub fn from_outside(
        make: impl Fn(Capacity) -> Box<dyn Replacement> + Send + Sync + 'static,
    ) -> Policy {
        online(Box::leak(Box::new(make)))
    }

    /// The same, with the [future](Replacement::future) known to it: for studies of recorded accesses alone.
    #[must_use]
    pub fn with_future(self) -> Policy {
        Policy { needs_future: true, ..self }
    }

    /// A policy for a cache of this capacity.
    pub fn make(&self, capacity: Capacity) -> Box<dyn Replacement> {
        (self.make)(capacity)
    }

    /// True if it is plain LRU, for which [`LruSizes`](crate::study::LruSizes) has all sizes in one pass.
    pub fn is_lru(&self) -> bool {
        self.is_lru
    }

    /// True if the policy must be told the [future](Replacement::future): it is for studies of recorded
    /// accesses, not for caches.
    pub fn needs_future(&self) -> bool {
        self.needs_future
    }
}

const fn online(make: Maker) -> Policy {
    Policy { make, needs_future: false, is_lru: false }
}

const fn offline(make: Maker) -> Policy {
    Policy { make, needs_future: true, is_lru: false }
}

/// All policies.
pub static REGISTRY: Registry<Policy> = Registry::with_default(
    "replacement policy",
    "lru",
    &[
        RegistryEntry::new(
            "lru",
            "least recently used",
            Policy { make: &|_| Box::<lru::Lru>::default(), needs_future: false, is_lru: true },
        ),
        RegistryEntry::new(
            "fifo",
            "first in, first out",
            online(&|_| Box::<fifo::Fifo>::default()),
        ),
        RegistryEntry::new(
            "clock",
            "second chance, with one used bit a frame (Corbató, 1968)",
            online(&|_| Box::<clock::Clock>::default()),
        ),
        RegistryEntry::new(
            "2q",
            "frames used once leave before frames used again (Johnson and Shasha, 1994)",
            online(&|capacity| Box::new(two_queue::TwoQueue::new(capacity))),
        ),
        RegistryEntry::new(
            "random",
            "any frame, with equal probability (RR of Bosch and Mullender, 1996)",
            online(&|_| Box::<random::Random>::default()),
        ),
        RegistryEntry::new(
            "mru",
            "most recently used, for loops larger than the cache (Chou and DeWitt, 1985)",
            online(&|_| Box::<mru::Mru>::default()),
        ),
        RegistryEntry::new(
            "lfu",
            "least often used since it was inserted (Shah, Mitra and Matani, 2010)",
            online(&|_| Box::<lfu::Lfu>::default()),
        ),
        RegistryEntry::new(
            "slru",
            "LRU on probation until used again, then protected (Karedla and others, 1994)",
            online(&|capacity| Box::new(slru::Slru::new(capacity))),
        ),
        RegistryEntry::new(
            "lru-2",
            "last but one use longest ago: LRU-K, K=2 (O'Neil, O'Neil and Weikum, 1993)",
            online(&|capacity| Box::new(lru_k::LruK::new(capacity))),
        ),
        RegistryEntry::new(
            "arc",
            "balances recency and frequency by ghosts (Megiddo and Modha, 2003)",
            online(&|capacity| Box::new(arc::Arc::new(capacity))),
        ),
        RegistryEntry::new(
            "car",
            "ARC with clocks in place of lists (Bansal and Modha, 2004)",
            online(&|capacity| Box::new(car::Car::new(capacity))),
        ),
        RegistryEntry::new(
            "lirs",
            "keeps blocks with short distances between uses (Jiang and Zhang, 2002)",
            online(&|capacity| Box::new(lirs::Lirs::new(capacity))),
        ),
        RegistryEntry::new(
            "clock-pro",
            "LIRS as a clock with three hands (Jiang, Chen and Zhang, 2005)",
            online(&|capacity| Box::new(clock_pro::ClockPro::new(capacity))),
        ),
        RegistryEntry::new(
            "w-tinylfu",
            "a window, then the block used more often of late (Einziger and others, 2017)",
            online(&|capacity| Box::new(w_tiny_lfu::WTinyLfu::new(capacity))),
        ),
        RegistryEntry::new(
            "s3-fifo",
            "a small queue, a main queue and ghosts, all FIFO (Yang and others, 2023)",
            online(&|capacity| Box::new(s3_fifo::S3Fifo::new(capacity))),
        ),
        RegistryEntry::new(
            "sieve",
            "a FIFO queue with a hand that spares visited frames (Zhang and others, 2024)",
            online(&|_| Box::<sieve::Sieve>::default()),
        ),
        RegistryEntry::new(
            "belady",
            "the optimum, which knows the future: in `twinfs cache` only (Belady, 1966)",
            offline(&|_| Box::<belady::Belady>::default()),
        ),
    ],
);

/// The policy with this name, for a cache.
///
/// # Errors
/// If there is none, or it needs to know the future, which no cache can tell it.
pub fn for_cache(name: &str) -> Result<&'static RegistryEntry<Policy>, SettingsError> {
    let entry = REGISTRY.get(name)?;
    if entry.needs_future {
        return Err(SettingsError::new(format!(
            "{name} needs to know all accesses in advance, and a cache does not: `twinfs cache TRACE` \
             compares it with the others"
        )));
    }
    Ok(entry)
}

/// Notes the item of a slot.
fn remember(items: &mut Vec<Item>, slot: u32, item: Item) {
    let i = slot as usize;
    if items.len() <= i {
        items.resize(i + 1, item);
    }
    items[i] = item;
}

#[cfg(test)]
mod tests;

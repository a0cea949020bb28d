//! Your own replacement policy, in the cache that mounts and simulations use, compared with the
//! existing policies.
//!
//! ```text
//! cargo run --release --example policy
//! ```
//!
//! To use it everywhere (`mount`, `compare lfs:replacement=mru`), put it into a file of
//! `crates/twin-cache/src/replacement` and add a line to the registry there; see docs/recipes.md.

use std::collections::BTreeMap;
use std::error::Error;

use twin_cache::{Lbn, Removal, Replacement, replacement, study};

/// Most recently used first. It suits a loop that is larger than the cache, and little else.
#[derive(Default)]
struct Mru {
    /// The frames, by the time of their last use.
    by_time: BTreeMap<u64, u32>,
    times: BTreeMap<u32, u64>,
    now: u64,
}

impl Mru {
    fn use_now(&mut self, slot: u32) {
        self.now += 1;
        if let Some(before) = self.times.insert(slot, self.now) {
            self.by_time.remove(&before);
        }
        self.by_time.insert(self.now, slot);
    }
}

impl Replacement for Mru {
    fn inserted(&mut self, slot: u32, _key: (u64, Lbn)) {
        self.use_now(slot);
    }

    fn touched(&mut self, slot: u32) {
        self.use_now(slot);
    }

    fn removed(&mut self, slot: u32, _why: Removal) {
        if let Some(time) = self.times.remove(&slot) {
            self.by_time.remove(&time);
        }
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.by_time.values().rev().copied().find(|slot| usable(*slot))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // A loop over 1,200 blocks, and a cache of 1,000.
    let accesses = || (0..100_000_u32).map(|n| n % 1200);
    let mut policies: Vec<(&str, Box<dyn Replacement>)> = Vec::new();
    for entry in &replacement::REGISTRY {
        policies.push((entry.name, entry.make()));
    }
    policies.push(("mru", Box::<Mru>::default()));
    for (name, mut policy) in policies {
        let hits = study::hits(&mut *policy, 1000, 1200, accesses());
        println!("{name:>6}: {:.1}% of accesses find their block", hits as f64 / 1000.0);
    }
    Ok(())
}

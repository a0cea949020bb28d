//! Your own replacement policy, in the cache that mounts and simulations use, compared with the
//! existing policies.
//!
//! ```text
//! cargo run --release --example policy
//! ```
//!
//! To use it everywhere (`mount --replacement lifo`, `compare lfs:replacement=lifo`, `twinfs cache`), put
//! it into a file of `crates/twin-cache/src/replacement` and add a line to the registry there; see
//! docs/recipes.

use std::error::Error;

use twin_cache::{Capacity, Item, Removal, Replacement, replacement, study};

/// Last in, first out: keeps what came first. It suits a loop that is larger than the cache, and little
/// else.
#[derive(Default)]
struct Lifo(Vec<u32>);

impl Replacement for Lifo {
    fn inserted(&mut self, slot: u32, _item: Item) {
        self.0.push(slot);
    }

    fn touched(&mut self, _slot: u32) {}

    fn removed(&mut self, slot: u32, _why: Removal) {
        self.0.retain(|other| *other != slot);
    }

    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        self.0.iter().rev().copied().find(|slot| usable(*slot))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // A loop over 1,200 blocks, and a cache of 1,000.
    let accesses = || (0..100_000_u32).map(|n| n % 1200);
    let mut policies: Vec<(&str, Box<dyn Replacement>)> = Vec::new();
    for entry in replacement::REGISTRY.iter().filter(|entry| !entry.needs_future()) {
        policies.push((entry.name, entry.make(Capacity::frames(1000))));
    }
    policies.push(("lifo", Box::<Lifo>::default()));
    for (name, policy) in policies {
        let hits = study::hits(policy, 1000, 1200, accesses());
        println!("{name:>10}: {:.1}% of accesses find their block", hits as f64 / 1000.0);
    }
    Ok(())
}

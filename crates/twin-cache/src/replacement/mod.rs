//! Replacement policies: which clean frame to evict.
//!
//! A policy ranks frames; the cache acts. A new policy needs a file here and a line in
//! [`REGISTRY`].

mod clock;
mod fifo;
mod list;
mod lru;
mod two_queue;

use twin_settings::{Registry, RegistryEntry};

use crate::Lbn;

/// The reason why a policy no longer ranks a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The frame was the victim. Its block is on the device and may be read again.
    Evicted,
    /// The frame is dirty or being written. It stays in memory and is
    /// [inserted](Replacement::inserted) again when it is clean, unless its block is freed before.
    Dirtied,
    /// The frame was dropped, not by the policy's choice, because its block was freed or will not
    /// be needed soon.
    Dropped,
}

/// Ranks clean frames, which it knows by their slots in the cache's table.
pub trait Replacement {
    /// Called when a frame was added or became clean; `key` is the inode number and the block.
    fn inserted(&mut self, slot: u32, key: (u64, Lbn));
    /// Called when a clean frame is used.
    fn touched(&mut self, slot: u32);
    /// Called when a frame is no longer to be ranked.
    fn removed(&mut self, slot: u32, why: Removal);
    /// The frame to evict, among those for which `usable` returns true. The cache removes it and
    /// then calls [`removed`](Self::removed).
    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32>;
}

/// Makes a policy.
pub type Maker = fn() -> Box<dyn Replacement>;

/// All policies; the first is the default.
pub static REGISTRY: Registry<Maker> = Registry::new(
    "replacement policy",
    &[
        RegistryEntry::new("lru", "least recently used", || Box::<lru::Lru>::default()),
        RegistryEntry::new("fifo", "first in, first out", || Box::<fifo::Fifo>::default()),
        RegistryEntry::new("clock", "second chance, with one used bit a frame", || {
            Box::<clock::Clock>::default()
        }),
        RegistryEntry::new(
            "2q",
            "frames used once leave before frames used again (Johnson and Shasha, 1994)",
            || Box::<two_queue::TwoQueue>::default(),
        ),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_gives_back_all_frames_once() {
        for entry in &REGISTRY {
            let mut policy = (entry.maker)();
            for slot in 0..100 {
                policy.inserted(slot, (1, Lbn::from(slot)));
                policy.touched(slot / 2);
            }
            let mut seen = [false; 100];
            while let Some(slot) = policy.victim(&mut |_| true) {
                assert!(!std::mem::replace(&mut seen[slot as usize], true), "{}", entry.name);
                policy.removed(slot, Removal::Evicted);
            }
            assert!(seen.iter().all(|&s| s), "{}", entry.name);
        }
    }

    #[test]
    fn no_policy_names_an_unusable_frame() {
        for entry in &REGISTRY {
            let mut policy = (entry.maker)();
            for slot in 0..10 {
                policy.inserted(slot, (1, Lbn::from(slot)));
            }
            assert_eq!(policy.victim(&mut |s| s == 7), Some(7), "{}", entry.name);
            assert_eq!(policy.victim(&mut |_| false), None, "{}", entry.name);
        }
    }

    #[test]
    fn a_frame_in_use_is_not_looked_at_by_every_search() {
        for entry in &REGISTRY {
            let mut policy = (entry.maker)();
            let (held, all) = (1000, 3000);
            for slot in 0..all {
                policy.inserted(slot, (1, Lbn::from(slot)));
            }
            let mut looks = 0;
            while let Some(slot) = policy.victim(&mut |slot| {
                looks += 1;
                slot >= held
            }) {
                policy.removed(slot, Removal::Evicted);
            }
            assert!(looks < 6 * all, "{}: {looks} looks at {all} frames", entry.name);
        }
    }
}

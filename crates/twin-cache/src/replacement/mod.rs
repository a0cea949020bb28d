//! Replacement policies: which clean frame to give up.
//!
//! A policy ranks; the cache acts. Adding one: a file here, a line in [`registry`].

mod clock;
mod fifo;
mod list;
mod lru;
mod two_queue;

use crate::Lbn;

/// Why a policy has to rank a frame no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was the victim: its block stays on the device, and may be asked for again.
    Evicted,
    /// It is dirty, or on its way to the device: it stays in memory, and is
    /// [inserted](Replacement::inserted) again when it is clean, unless its block is gone by then.
    Dirtied,
    /// Its block is gone, or nobody will want it soon: not this policy's choice.
    Dropped,
}

/// Ranks clean frames, which it knows by slot number.
pub trait Replacement {
    /// A frame came in, or became clean.
    fn inserted(&mut self, slot: u32, key: (u64, Lbn));
    /// A clean frame was used.
    fn touched(&mut self, slot: u32);
    /// A frame is not to be ranked any more.
    fn removed(&mut self, slot: u32, why: Removal);
    /// The frame to give up, of those that are `usable`. Does not remove it: the cache does, and
    /// says so through [`removed`](Self::removed).
    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32>;
}

/// A policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    make: fn() -> Box<dyn Replacement>,
}

/// All policies; the first is the default.
pub fn registry() -> &'static [Entry] {
    &[
        Entry { name: "lru", about: "least recently used", make: || Box::<lru::Lru>::default() },
        Entry { name: "fifo", about: "first in, first out", make: || Box::<fifo::Fifo>::default() },
        Entry {
            name: "clock",
            about: "second chance, with one used bit a frame",
            make: || Box::<clock::Clock>::default(),
        },
        Entry {
            name: "2q",
            about: "frames used once leave before frames used again (Johnson and Shasha, 1994)",
            make: || Box::<two_queue::TwoQueue>::default(),
        },
    ]
}

/// The policy called `name`.
pub fn by_name(name: &str) -> Option<Box<dyn Replacement>> {
    registry().iter().find(|e| e.name == name).map(|e| (e.make)())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_gives_back_all_frames_once() {
        for entry in registry() {
            let mut policy = (entry.make)();
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
        for entry in registry() {
            let mut policy = (entry.make)();
            for slot in 0..10 {
                policy.inserted(slot, (1, Lbn::from(slot)));
            }
            assert_eq!(policy.victim(&mut |s| s == 7), Some(7), "{}", entry.name);
            assert_eq!(policy.victim(&mut |_| false), None, "{}", entry.name);
        }
    }

    #[test]
    fn a_frame_in_use_is_not_looked_at_by_every_search() {
        for entry in registry() {
            let mut policy = (entry.make)();
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

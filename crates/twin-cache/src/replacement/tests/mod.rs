//! Properties on which the cache relies, of every policy, and what each decides, against its paper.

mod divided;
mod naive;
mod papers;

use twin_rt::Rng;

use super::*;

fn insert(policy: &mut dyn Replacement, slot: u32) {
    let item = Item::frame((1, Lbn::from(slot)));
    assert!(policy.missed(item), "no policy refuses a block");
    policy.inserted(slot, item);
}

#[test]
fn every_policy_gives_back_all_frames_once() {
    for entry in &REGISTRY {
        let mut policy = entry.make(Capacity::frames(100));
        for slot in 0..100 {
            insert(&mut *policy, slot);
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
        let mut policy = entry.make(Capacity::frames(10));
        for slot in 0..10 {
            insert(&mut *policy, slot);
        }
        assert_eq!(policy.victim(&mut |s| s == 7), Some(7), "{}", entry.name);
        assert_eq!(policy.victim(&mut |_| false), None, "{}", entry.name);
    }
}

#[test]
fn a_frame_in_use_is_not_looked_at_by_every_search() {
    for entry in &REGISTRY {
        let (held, all) = (1000, 3000);
        let mut policy = entry.make(Capacity::frames(u64::from(all)));
        for slot in 0..all {
            insert(&mut *policy, slot);
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

/// Frames that are written, freed while they are dirty, and whose slots are used again, in every
/// order: a policy names only frames that it ranks.
#[test]
fn frames_come_and_go_in_any_order() {
    #[derive(Clone, Copy, PartialEq)]
    enum Is {
        Free,
        Clean(Item),
        Dirty(Item),
    }
    for (entry, seed) in REGISTRY.iter().flat_map(|e| (0..20).map(move |seed| (e, seed))) {
        let mut rng = Rng::new(seed);
        let mut policy = entry.make(Capacity::frames(16));
        let mut slots = [Is::Free; 24];
        for step in 0..3000 {
            let slot = rng.below(24) as u32;
            match (slots[slot as usize], rng.below(4)) {
                (Is::Free, _) => {
                    // A block is in one frame at most.
                    let item = Item::frame((1, rng.below(60) as Lbn));
                    if slots.iter().any(|is| [Is::Clean(item), Is::Dirty(item)].contains(is)) {
                        continue;
                    }
                    policy.missed(item);
                    policy.inserted(slot, item);
                    slots[slot as usize] = Is::Clean(item);
                }
                (Is::Clean(item), 0) => {
                    policy.removed(slot, Removal::Dirtied);
                    slots[slot as usize] = Is::Dirty(item);
                }
                (Is::Dirty(item), 0) => {
                    policy.cleaned(slot, item);
                    slots[slot as usize] = Is::Clean(item);
                }
                (Is::Clean(_) | Is::Dirty(_), 1) => {
                    policy.removed(slot, Removal::Dropped);
                    slots[slot as usize] = Is::Free;
                }
                (Is::Clean(_), 2) => policy.touched(slot),
                _ => {
                    let held = rng.below(30) as u32;
                    let found = policy.victim(&mut |slot| slot != held);
                    let clean =
                        |slot: usize| slot as u32 != held && matches!(slots[slot], Is::Clean(_));
                    let there_is = (0..24).any(clean);
                    let name = entry.name;
                    assert_eq!(found.is_some(), there_is, "{name}, seed {seed}, step {step}");
                    if let Some(found) = found {
                        assert!(clean(found as usize), "{name}, seed {seed}, step {step}");
                        policy.removed(found, Removal::Evicted);
                        slots[found as usize] = Is::Free;
                    }
                }
            }
        }
    }
}

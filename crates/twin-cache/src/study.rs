//! Replacement policies without a cache: how many of a stream of accesses would have been hits.
//!
//! Contract: the policies are those of the cache, and are called as the cache calls them for blocks
//! that are only read. An access touches a frame, or adds one and evicts the policy's victim if
//! there are too many. There are no contents, no files and no time, so a study of millions of
//! accesses takes less than a second.

use crate::{Removal, Replacement};

/// The value for a block that is in no frame.
const NOWHERE: u32 = u32::MAX;

/// The number of `accesses` that find their block in a cache of `frames` frames, which is empty at
/// the beginning. Blocks are numbers below `blocks`.
///
/// # Panics
/// If `frames` is zero, or an access is not below `blocks`.
pub fn hits(
    policy: &mut dyn Replacement,
    frames: u32,
    blocks: u32,
    accesses: impl IntoIterator<Item = u32>,
) -> u64 {
    assert!(frames > 0, "a cache has at least one frame");
    let mut place = vec![NOWHERE; blocks as usize];
    let mut holds: Vec<u32> = Vec::new();
    let mut free = None;
    let mut hits = 0;
    for block in accesses {
        let slot = place[block as usize];
        if slot != NOWHERE {
            hits += 1;
            policy.touched(slot);
            continue;
        }
        let slot = free.take().unwrap_or(holds.len() as u32);
        if slot as usize == holds.len() {
            holds.push(block);
        }
        holds[slot as usize] = block;
        place[block as usize] = slot;
        policy.inserted(slot, (0, block.into()));
        // Like the cache, first add the new frame, which its user holds, and then make room for it.
        if holds.len() > frames as usize
            && let Some(victim) = policy.victim(&mut |other| other != slot)
        {
            policy.removed(victim, Removal::Evicted);
            place[holds[victim as usize] as usize] = NOWHERE;
            free = Some(victim);
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use twin_disk::Block;
    use twin_rt::Rng;

    use super::*;
    use crate::{Cache, FileFrames, Lbn, replacement};

    fn accesses(seed: u64) -> Vec<u32> {
        let mut rng = Rng::new(seed);
        (0..20_000).map(|_| (rng.below(200) * rng.below(200) / 200) as u32).collect()
    }

    #[test]
    fn every_policy_hits_as_often_as_in_the_cache() {
        let accesses = accesses(1);
        for entry in &replacement::REGISTRY {
            let policy = || replacement::REGISTRY.get(entry.name).unwrap().make();
            let cache = Cache::new(50 * 4096, 4096, policy());
            let file: Rc<FileFrames> = FileFrames::new(0);
            for &block in &accesses {
                if cache.get(&file, Lbn::from(block)).is_none() {
                    cache.insert(&file, Lbn::from(block), Some(Block::Zero(4096)));
                }
            }
            let here = hits(&mut *policy(), 50, 200, accesses.iter().copied());
            assert_eq!(here, cache.stats().hits, "{}", entry.name);
        }
    }

    #[test]
    fn a_larger_lru_cache_never_hits_less() {
        let accesses = accesses(2);
        let with = |frames| {
            let mut policy = replacement::REGISTRY.first().make();
            hits(&mut *policy, frames, 200, accesses.iter().copied())
        };
        let all: Vec<u64> = (1..=200).map(with).collect();
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1]));
        // With a frame for every block, each block is missed once.
        let different = accesses.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(all[199], (accesses.len() - different) as u64);
    }
}

//! Runs of a bare volume from a description.

use super::workload::Workload;
use super::{Shape, Totals, Volume};
use crate::{placement, victim};

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The volume.
    pub shape: Shape,
    /// What is written.
    pub workload: Workload,
    /// How many blocks are written.
    pub writes: u64,
    /// Placement policy.
    pub placement: &'static str,
    /// Victim policy.
    pub victim: &'static str,
    /// Seed of the workload and of policies that draw.
    pub seed: u64,
}

impl Run {
    /// Does it.
    pub fn run(&self) -> Totals {
        let setting = self.shape.setting(self.seed);
        let placement = placement::by_name(self.placement).unwrap().make(&setting);
        let victim = victim::by_name(self.victim).unwrap().make(&setting);
        let future = placement.needs().future;
        let mut volume = Volume::new(&self.shape, placement, victim);
        let mut writes = self.workload.start(self.shape.blocks, self.seed);
        if future {
            let mut blocks = vec![0; self.writes as usize];
            writes.fill(&mut blocks);
            let mut next = vec![u64::MAX / 2; self.shape.blocks as usize];
            let mut life = vec![0u64; blocks.len()];
            for (at, &block) in blocks.iter().enumerate().rev() {
                life[at] = next[block as usize] - at as u64;
                next[block as usize] = at as u64;
            }
            for (&block, &life) in blocks.iter().zip(&life) {
                volume.write_known(block, life);
            }
            return volume.totals();
        }
        let mut chunk = [0; 1024];
        let mut left = self.writes;
        while left > 0 {
            let count = left.min(chunk.len() as u64) as usize;
            writes.fill(&mut chunk[..count]);
            for &block in &chunk[..count] {
                volume.request(block, 1);
                volume.write(block);
            }
            left -= count as u64;
        }
        volume.totals()
    }
}

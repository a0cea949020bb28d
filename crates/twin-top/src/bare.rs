//! A bare volume, written for those who watch.

use twin_clean::placement::PlacementSpec;
use twin_clean::victim::VictimSpec;
use twin_clean::volume::workload::Workload;
use twin_clean::volume::{Volume, VolumeGeometry};
use twin_host::real_clock;
use twin_lab::segment_map::frame;
use twin_settings::RegistryEntry;

use crate::screen::Screen;
use crate::wait_until;

/// A volume of blocks without files, and what is written to it.
pub struct Bare {
    /// The volume.
    pub geometry: VolumeGeometry,
    /// Which blocks are written together.
    pub placement: &'static RegistryEntry<PlacementSpec>,
    /// Which segment is cleaned next.
    pub victim: &'static RegistryEntry<VictimSpec>,
    /// What is written.
    pub workload: Workload,
    /// The number of its blocks.
    pub blocks: u32,
    /// How many times all of them are written.
    pub volumes: f64,
    /// The seed of the workload and of the policies.
    pub seed: u64,
    /// Blocks that are written between two pictures.
    pub step: u64,
    /// Blocks that are written in a second; none for as many as possible.
    pub rate: Option<f64>,
}

impl Bare {
    /// Writes, and shows a picture after each step.
    ///
    /// # Errors
    /// If standard output fails.
    pub fn show(&self, screen: &Screen) -> Result<(), String> {
        let setting = self.geometry.setting(self.seed);
        let (placement, victim) = (self.placement.make(&setting), self.victim.make(&setting));
        let mut volume = Volume::new(&self.geometry, placement, victim);
        let mut writes = self.workload.start(self.blocks, self.seed);
        let clock = real_clock();
        let end = (f64::from(self.blocks) * self.volumes) as u64;
        let mut before = volume.totals();
        while volume.totals().user_writes < end {
            let left = end - volume.totals().user_writes;
            for _ in 0..self.step.min(left) {
                let block = writes.next_block();
                volume.request(block, 1);
                volume.write(block);
            }
            let picture = frame(&volume, &before, screen.look());
            before = volume.totals();
            screen.show(&picture)?;
            if let Some(rate) = self.rate {
                wait_until(&clock, before.user_writes as f64 / rate);
            }
        }
        Ok(())
    }
}

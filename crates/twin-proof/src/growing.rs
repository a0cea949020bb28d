//! Volumes that become larger while clients work.
//!
//! Contract: the device of a scenario that grows has all of its bytes from the beginning, and the volume is shown the
//! part that it has so far. After a power failure it is shown all of it, as after a device was made larger: then the
//! volume has one of the sizes that it was to have, and may take the rest.

use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::{BlockDevice, Partition};
use twin_fs::Growth;
use twin_rt::{MILLIS, Rng};

use super::{Scenario, World};

/// How often is looked how far the clients are, and whether the volume has grown.
const LOOK_NS: u64 = MILLIS;

/// The sizes that the volume of a scenario has one after the other.
pub(super) fn sizes(scenario: &Scenario) -> Vec<u64> {
    match scenario.grow {
        0 => vec![scenario.size],
        all => vec![scenario.size, (scenario.size + all) / 2 / 4096 * 4096, all],
    }
}

/// What is done to a volume beside its clients.
#[derive(Clone, Default)]
pub(super) struct Growing(Rc<RefCell<Vec<twin_fs::Result<Growth>>>>);

impl Growing {
    /// Begins to let the volume grow, if the scenario says so.
    pub(super) fn begin(scenario: &Scenario, world: &World) -> Growing {
        let growing = Growing::default();
        let mut rng = Rng::stream(scenario.seed, "when it grows");
        // It grows in the first and in the second third of the requests.
        let third = (scenario.ops / 3).max(1);
        let steps: Vec<(u64, u64)> = (0..)
            .zip(sizes(scenario).into_iter().skip(1))
            .map(|(nth, size)| (nth * third + rng.below(third), size))
            .collect();
        let (its, volume, rt) = (growing.clone(), world.volume().clone(), world.rt.clone());
        world.rt.spawn("growing", async move {
            for (after, size) in steps {
                while volume.core().operations() < after {
                    rt.sleep(LOOK_NS).await;
                }
                let grown = volume.grow(Some(size)).await;
                its.0.borrow_mut().push(grown);
            }
        });
        growing
    }

    /// Waits until the volume has its last size.
    ///
    /// # Errors
    /// If it has not.
    pub(super) fn end(&self, scenario: &Scenario, world: &World) -> Result<(), String> {
        let sizes = sizes(scenario);
        while self.0.borrow().len() + 1 < sizes.len() {
            world.wait("the volume to grow", world.rt.sleep(LOOK_NS))?;
        }
        for (grown, sizes) in self.0.borrow().iter().zip(sizes.windows(2)) {
            let wanted = Growth { before_bytes: sizes[0], after_bytes: sizes[1] };
            if *grown != Ok(wanted) {
                return Err(format!("it was to grow as {wanted:?}: {grown:?}"));
            }
        }
        Ok(())
    }
}

/// The device as a volume that grows sees it at first.
pub(super) fn first_part(scenario: &Scenario, device: Rc<dyn BlockDevice>) -> Rc<dyn BlockDevice> {
    match Partition::new(Rc::clone(&device), 0, scenario.size, "a device that grows") {
        Ok(part) if scenario.grow > 0 => Rc::new(part),
        _ => device,
    }
}

fn size(world: &World) -> u64 {
    world.volume().layout.superblock().size()
}

/// A power failure leaves a volume with one of its sizes.
///
/// # Errors
/// If it has another.
pub(super) fn has_a_size_of_its_own(scenario: &Scenario, world: &World) -> Result<(), String> {
    match sizes(scenario).contains(&size(world)) {
        true => Ok(()),
        false => Err(format!("it has {} bytes, which it was never to have", size(world))),
    }
}

/// Lets a volume have all of its device after a power failure.
///
/// # Errors
/// If it cannot grow.
pub(super) fn take_rest(scenario: &Scenario, world: &World) -> Result<(), String> {
    if size(world) < scenario.grow {
        let volume = world.volume().clone();
        let grown = world.wait("growing", async move { volume.grow(None).await })?;
        grown.map_err(|error| format!("growing: {error}"))?;
    }
    match size(world) == scenario.size.max(scenario.grow) {
        true => Ok(()),
        false => Err(format!("it grows to {} bytes", size(world))),
    }
}

//! The commands that a drive has accepted and not yet begun, in the order that the drive prefers
//! (SATA's native command queueing, SCSI's tagged queueing).
//!
//! Contract: the drive serves the command that it can position for soonest, the older one of
//! equals. A command that has been with the drive for [`PATIENCE_NS`] goes before all younger ones,
//! so none starves. The host's scheduler decides which commands the drive gets, and sees nothing of
//! the drive's order.

use twin_disk::queue::Waiting;
use twin_rt::{Nanos, SECS, Time};

use crate::model::{Access, DeviceModel};

/// How long a drive prefers other commands. Assumed: far above the time of a full queue, and far
/// below a host's time limit for a command, which is half a minute.
const PATIENCE_NS: Nanos = SECS;

/// Commands with the times at which the drive got them, oldest first.
#[derive(Default)]
pub(super) struct Commands(Vec<(Time, Waiting)>);

impl Commands {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The drive gets a command.
    pub(super) fn push(&mut self, now: Time, command: Waiting) {
        self.0.push((now, command));
    }

    /// Takes the command to serve next.
    pub(super) fn pop(&mut self, now: Time, model: &dyn DeviceModel) -> Option<Waiting> {
        let (oldest, _) = self.0.first()?;
        let best = if now - *oldest >= PATIENCE_NS {
            0
        } else {
            let cost = |w: &Waiting| {
                let access = Access { kind: w.kind, at: w.at, len: w.len };
                (model.positioning_ns(now, &access), w.seq)
            };
            (0..self.0.len()).min_by_key(|&i| cost(&self.0[i].1))?
        };
        Some(self.0.remove(best).1)
    }

    /// Drops all waiting commands.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use twin_disk::{IoKind, Origin};
    use twin_rt::MILLIS;

    use super::*;
    use crate::model::{self, Options};

    fn reads(addresses: &[u64]) -> Commands {
        let mut commands = Commands::default();
        for (i, &at) in addresses.iter().enumerate() {
            let (id, seq, arrived) = (i as u32, i as u64, Time(0));
            let (kind, origin) = (IoKind::Read, Origin::User);
            let (len, deadline) = (512, None);
            commands.push(arrived, Waiting { id, seq, kind, at, len, origin, arrived, deadline });
        }
        commands
    }

    #[test]
    fn the_nearest_goes_first_and_none_waits_for_ever() {
        let disk = model::REGISTRY.get("disk-7200").unwrap().build(&Options::default()).unwrap();
        let (far, near) = (3_000_000_000_000, 512 << 20);
        let first = |now| reads(&[far, near]).pop(now, &*disk).unwrap().at;
        assert_eq!(first(Time(MILLIS)), near);
        assert_eq!(first(Time(PATIENCE_NS)), far);
    }
}

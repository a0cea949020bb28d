//! Transfers between the medium and the drive: how long they take, and of how many bytes.

use twin_disk::IoKind;
use twin_sim::Served;

use crate::channel::{Channel, Unit};
use crate::{Observer, Parts};

/// Two channels a disk: time and size.
#[derive(Default)]
pub(crate) struct Transfers(Vec<Channel>);

impl Observer for Transfers {
    fn unseen(&self) -> Option<&'static str> {
        Some("transfer time: the device does not say when data reaches its medium (sizes are seen)")
    }

    fn begin(&mut self, parts: &Parts) {
        let of = |name: &String| {
            [
                Channel::values("transfer time", name, Unit::Nanos),
                Channel::values("request size", name, Unit::Bytes),
            ]
        };
        self.0 = parts.disks.iter().flat_map(of).collect();
    }

    fn served(&mut self, disk: usize, request: &Served) {
        if request.parts.transfer_ns > 0 {
            self.0[2 * disk].add(request.parts.transfer_ns);
        }
        if matches!(request.kind, IoKind::Read | IoKind::Write) {
            self.0[2 * disk + 1].add(request.len);
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.0
    }
}

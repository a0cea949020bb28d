//! The volume itself: what its layout promises, on a disk that may lose any write which it has not flushed.
//!
//! Contract: the parts are the writes of the device, each of which survives, is missing or is torn between sectors until a
//! flush that began later has ended. Nothing orders them. What was there of the files is found by recovering the
//! volume with the code that mounts it (see [`strict`](crate::strict)).

use super::{Model, Parts, Sort};
use crate::history::{History, What};
use crate::tree::DEVICE;

pub(super) const STRICT: Model = Model {
    name: "strict",
    about: "the layout itself: any writes of the device that were not flushed are missing, and the volume is recovered",
    is_device: true,
    cut,
};

fn cut(history: &History, parts: &mut Parts) {
    let mut open = Vec::new();
    for (number, event) in history.events.iter().enumerate() {
        match &event.what {
            What::Write { id: DEVICE, .. } => {
                let part = parts.add(number, Sort::Data, event.what.effects(), Vec::new());
                parts.parts[part as usize].tears = true;
                open.push(part);
            }
            What::Fsync { id: DEVICE, since, .. } => {
                let (covered, later): (Vec<_>, Vec<_>) =
                    open.into_iter().partition(|&part| parts.event(part) < *since);
                parts.sync(number, covered);
                open = later;
            }
            _ => {}
        }
    }
}

//! The write cost of each file system: bytes written, and read by the cleaner, for each byte of new
//! data (Rosenblum and Ousterhout 1991). In an interval without new data there is none; its writes count
//! in the whole.

use twin_fs::Written;

use crate::channel::{Channel, Unit};
use crate::{Observer, Parts};

#[derive(Default)]
pub(crate) struct WriteCost {
    channels: Vec<Channel>,
    before: Vec<Written>,
}

impl Observer for WriteCost {
    fn begin(&mut self, parts: &Parts) {
        for (name, volume) in &parts.volumes {
            self.channels.push(Channel::ratio("write cost", name, Unit::Times));
            self.before.push(volume.written());
        }
    }

    fn look(&mut self, parts: &Parts) {
        let of = self.channels.iter_mut().zip(&parts.volumes).zip(&self.before);
        for ((channel, (_, volume)), before) in of {
            let now = volume.written();
            let moved = now.bytes + now.cleaner_read_bytes;
            let new = now.new_data_bytes - before.new_data_bytes;
            channel.set(moved - before.bytes - before.cleaner_read_bytes, new);
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.channels
    }
}

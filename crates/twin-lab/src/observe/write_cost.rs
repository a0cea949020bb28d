//! The write cost of each file system: bytes written, and read by the cleaner, for each byte of new
//! data (Rosenblum and Ousterhout 1991). In an interval without new data there is none; its writes count
//! in the whole.

use super::channel::{Channel, Unit};
use super::{Observer, Parts};
use crate::figures::LogFigures;

#[derive(Default)]
pub(super) struct WriteCost {
    channels: Vec<Channel>,
    before: Vec<LogFigures>,
}

impl Observer for WriteCost {
    fn begin(&mut self, parts: &Parts) {
        for (name, volume) in &parts.volumes {
            self.channels.push(Channel::ratio("write cost", name, Unit::Times));
            self.before.push(LogFigures::of(volume));
        }
    }

    fn look(&mut self, parts: &Parts) {
        let of = self.channels.iter_mut().zip(&parts.volumes).zip(&self.before);
        for ((channel, (_, volume)), before) in of {
            let log = LogFigures::of(volume).since(before);
            channel.set(log.log_bytes + log.cleaner_read_bytes, log.new_data_bytes);
        }
    }

    fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.channels
    }
}

//! The disk of a server: one queue, first come first served, in front of as many modelled drives
//! as the file system is large.
//!
//! What it answers is when a request will be done; nothing happens in between. So requests must be
//! given to it in the order of their times.

use std::collections::VecDeque;

use twin_disk::IoKind;
use twin_rt::Time;
use twin_sim::model::{Access, DeviceModel, Entry, Options, Supply};

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    User,
    Cleaner,
}

/// What users met at the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Queue {
    /// Requests of users.
    pub(super) arrivals: u64,
    /// Of those, how many found nothing before them.
    pub(super) empty: u64,
    /// Requests of the cleaner that they found, all told.
    pub(super) cleaner_met: u64,
}

pub(super) struct Device {
    drives: Vec<Box<dyn DeviceModel>>,
    drive_bytes: u64,
    /// When each request will be done, in order.
    under_way: VecDeque<(u64, Who)>,
    free_at: u64,
    pub(super) queue: Queue,
}

impl Device {
    /// Drives of this kind for `bytes`.
    pub(super) fn new(entry: &Entry, bytes: u64) -> Result<Device, String> {
        let make = || entry.build(&Options::default()).map_err(|error| error.to_string());
        let first = make()?;
        let drive_bytes = first.spec().size >> 20 << 20;
        let mut drives = vec![first];
        while drives.len() as u64 * drive_bytes < bytes {
            drives.push(make()?);
        }
        let (under_way, queue) = (VecDeque::new(), Queue::default());
        Ok(Device { drives, drive_bytes, under_way, free_at: 0, queue })
    }

    /// When all that was asked for is done.
    pub(super) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Asks for bytes that lie in one megabyte; when they are there.
    pub(super) fn ask(&mut self, now: u64, kind: IoKind, at: u64, bytes: u64, who: Who) -> u64 {
        while self.under_way.front().is_some_and(|&(done, _)| done <= now) {
            self.under_way.pop_front();
        }
        if who == Who::User {
            self.queue.arrivals += 1;
            self.queue.empty += u64::from(self.under_way.is_empty());
            let cleaner = self.under_way.iter().filter(|(_, who)| *who == Who::Cleaner);
            self.queue.cleaner_met += cleaner.count() as u64;
        }
        let start = self.free_at.max(now);
        let drive = (at / self.drive_bytes) as usize % self.drives.len();
        let access = Access { kind, at: at % self.drive_bytes, len: bytes.next_multiple_of(512) };
        let service = self.drives[drive].serve(Time(start), &access, Supply::at_once(Time(start)));
        self.free_at = service.done.0;
        self.under_way.push_back((self.free_at, who));
        self.free_at
    }
}

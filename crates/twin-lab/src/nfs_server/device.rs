//! The disk of a server: one queue, first come first served, in front of as many modelled drives as
//! the file system needs.
//!
//! It returns the time at which a request will be done; there are no events in between. Therefore
//! requests must be submitted in the order of their times.

use std::collections::VecDeque;

use twin_disk::IoKind;
use twin_rt::Time;
use twin_sim::model::{Access, DeviceModel, Known, Options, Supply};

/// The origin of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Requester {
    User,
    Cleaner,
}

/// The queue as users' requests found it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Queue {
    /// Number of users' requests.
    pub(super) arrivals: u64,
    /// Number of these that found the queue empty.
    pub(super) empty: u64,
    /// Sum of the cleaner's requests that they found.
    pub(super) cleaner_met: u64,
}

pub(super) struct Device {
    drives: Vec<Box<dyn DeviceModel>>,
    drive_bytes: u64,
    /// When each request in flight will be done, in order.
    under_way: VecDeque<(u64, Requester)>,
    free_at: u64,
    pub(super) queue: Queue,
}

impl Device {
    /// Drives of this kind with at least `bytes` in total.
    pub(super) fn new(model: &Known, bytes: u64) -> Result<Device, String> {
        let make = || model.build(&Options::default()).map_err(|error| error.to_string());
        let first = make()?;
        let drive_bytes = first.spec().size >> 20 << 20;
        let mut drives = vec![first];
        while drives.len() as u64 * drive_bytes < bytes {
            drives.push(make()?);
        }
        let (under_way, queue) = (VecDeque::new(), Queue::default());
        Ok(Device { drives, drive_bytes, under_way, free_at: 0, queue })
    }

    /// When all submitted requests are done.
    pub(super) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Submits a request for bytes within one megabyte; returns when it is done.
    pub(super) fn request(
        &mut self,
        now: u64,
        kind: IoKind,
        at: u64,
        bytes: u64,
        who: Requester,
    ) -> u64 {
        while self.under_way.front().is_some_and(|&(done, _)| done <= now) {
            self.under_way.pop_front();
        }
        if who == Requester::User {
            self.queue.arrivals += 1;
            self.queue.empty += u64::from(self.under_way.is_empty());
            let cleaner = self.under_way.iter().filter(|(_, who)| *who == Requester::Cleaner);
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

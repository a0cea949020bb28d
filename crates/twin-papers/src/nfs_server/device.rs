//! The disks of a server: drives of one kind, one behind the other, each with a queue of its own,
//! first come first served.
//!
//! A drive has what section 5.1 says of the DSP 3501: a megabyte is read in half a second and
//! written in three quarters, with the seek and the wait for the sector. Its other figures are those
//! of the DSP 3105 of the same maker: one gigabyte, 9.5 ms of average seek, 5400 revolutions a
//! minute. Between these a seek takes time as the root of its distance; data that lies where the
//! last read ended comes from the drive's buffer without seek or wait.
//!
//! A drive returns the time at which a request will be done; there are no events in between.
//! Therefore requests must be submitted in the order of their times.

use std::collections::VecDeque;

use twin_disk::IoKind;

/// The origin of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Requester {
    User,
    Cleaner,
}

/// The queues as users' requests found them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Queue {
    /// Number of users' requests.
    pub(super) arrivals: u64,
    /// Number of these that found the queue of their drive empty.
    pub(super) empty: u64,
    /// Number of users' writes.
    pub(super) writes: u64,
    /// Sum of the cleaner's blocks that they found there, not written yet.
    pub(super) cleaner_blocks_met: u64,
}

/// The paper's servers write in blocks of at most 8 KB (section 3).
const BLOCK_BYTES: u64 = 8192;
const DRIVE_BYTES: u64 = 1 << 30;
const MEGABYTE: u64 = 1 << 20;
/// A revolution.
const TURN_NS: u64 = 11_111_111;
/// A seek over no distance, and what a seek over the whole drive takes beyond it: a third of the
/// drive, the mean distance, takes 9.5 ms.
const SHORT_SEEK_NS: f64 = 2_000_000.0;
const LONG_SEEK_NS: f64 = 13_000_000.0;
/// A megabyte with an average seek and half a revolution.
const READ_NS: u64 = 500_000_000;
const WRITE_NS: u64 = 750_000_000;
const PLACE_NS: u64 = 9_500_000 + TURN_NS / 2;

#[derive(Default)]
struct Drive {
    free_at: u64,
    /// Where the arm is.
    at: u64,
    /// Where the last read ended, if it was the last request.
    read_to: Option<u64>,
    /// The requests in flight, in order.
    under_way: VecDeque<UnderWay>,
}

/// A request in flight.
struct UnderWay {
    start: u64,
    done: u64,
    /// Blocks that the cleaner writes with it.
    cleaner_blocks: u64,
}

impl UnderWay {
    /// Of the cleaner's blocks, those that are not written at `now`.
    fn blocks_left(&self, now: u64) -> u64 {
        let left = self.done.saturating_sub(now.max(self.start));
        (self.cleaner_blocks * left).div_ceil((self.done - self.start).max(1))
    }
}

impl Drive {
    fn service_ns(&mut self, kind: IoKind, at: u64, bytes: u64) -> u64 {
        let transfer = |megabyte: u64| bytes * (megabyte - PLACE_NS) / MEGABYTE;
        let goes_on = self.read_to == Some(at);
        let distance = at.abs_diff(self.at) as f64 / DRIVE_BYTES as f64;
        let seek = match distance {
            0.0 => 0.0,
            _ => SHORT_SEEK_NS + LONG_SEEK_NS * distance.sqrt(),
        };
        self.at = at + bytes;
        let place = seek as u64 + TURN_NS / 2;
        match kind {
            IoKind::Write => {
                self.read_to = None;
                place + transfer(WRITE_NS)
            }
            _ => {
                self.read_to = Some(at + bytes);
                if goes_on { transfer(READ_NS) } else { place + transfer(READ_NS) }
            }
        }
    }
}

/// The times of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Served {
    /// When its drive began with it.
    pub(super) start: u64,
    /// When it was done.
    pub(super) done: u64,
}

pub(super) struct Device {
    drives: Vec<Drive>,
    free_at: u64,
    pub(super) queue: Queue,
}

impl Device {
    /// Drives with at least `bytes` in total.
    pub(super) fn new(bytes: u64) -> Device {
        let mut drives = Vec::new();
        drives.resize_with(bytes.div_ceil(DRIVE_BYTES).max(1) as usize, Drive::default);
        Device { drives, free_at: 0, queue: Queue::default() }
    }

    /// When all submitted requests are done.
    pub(super) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Submits a request for bytes within one megabyte.
    pub(super) fn request(
        &mut self,
        now: u64,
        kind: IoKind,
        at: u64,
        bytes: u64,
        who: Requester,
    ) -> Served {
        let count = self.drives.len();
        let drive = &mut self.drives[(at / DRIVE_BYTES) as usize % count];
        while drive.under_way.front().is_some_and(|request| request.done <= now) {
            drive.under_way.pop_front();
        }
        if who == Requester::User {
            self.queue.arrivals += 1;
            self.queue.empty += u64::from(drive.under_way.is_empty());
        }
        let writes = kind == IoKind::Write;
        if who == Requester::User && writes {
            self.queue.writes += 1;
            let left = drive.under_way.iter().map(|request| request.blocks_left(now));
            self.queue.cleaner_blocks_met += left.sum::<u64>();
        }
        let start = drive.free_at.max(now);
        let done = start + drive.service_ns(kind, at % DRIVE_BYTES, bytes);
        drive.free_at = done;
        let cleaner_blocks = match who {
            Requester::Cleaner if writes => bytes.div_ceil(BLOCK_BYTES),
            _ => 0,
        };
        drive.under_way.push_back(UnderWay { start, done, cleaner_blocks });
        self.free_at = self.free_at.max(done);
        Served { start, done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_megabyte_at_the_mean_distance_takes_what_the_paper_says() {
        for (kind, wanted) in [(IoKind::Read, 0.5), (IoKind::Write, 0.75)] {
            let mut device = Device::new(DRIVE_BYTES);
            let served = device.request(0, kind, DRIVE_BYTES / 3, MEGABYTE, Requester::User);
            let seconds = served.done as f64 / SECOND as f64;
            assert!((seconds - wanted).abs() < 0.002, "{seconds}");
        }
    }

    #[test]
    fn each_drive_has_its_own_queue_and_a_request_meets_what_its_drive_has() {
        let mut device = Device::new(2 * DRIVE_BYTES);
        let first = device.request(0, IoKind::Write, 0, MEGABYTE, Requester::Cleaner);
        let other = device.request(0, IoKind::Read, DRIVE_BYTES, 512, Requester::User);
        assert!(other.start == 0 && other.done < first.done);
        let queue = Queue { arrivals: 1, empty: 1, ..Queue::default() };
        assert_eq!(device.queue, queue);
        let same = device.request(1, IoKind::Read, 512, 512, Requester::User);
        assert_eq!(same.start, first.done);
        assert_eq!(device.queue, Queue { arrivals: 2, ..queue });
    }

    #[test]
    fn a_write_meets_the_blocks_that_the_cleaner_has_not_written_yet() {
        let mut device = Device::new(DRIVE_BYTES);
        let first = device.request(0, IoKind::Write, 0, MEGABYTE, Requester::Cleaner);
        device.request(first.done / 2, IoKind::Write, 0, 512, Requester::User);
        device.request(first.done / 2, IoKind::Read, 0, 512, Requester::User);
        let queue = device.queue;
        assert_eq!((queue.writes, queue.cleaner_blocks_met, queue.arrivals), (1, 64, 2));
    }
}

//! Loads of the file servers of the nineties, over months: home directories, news, mail, installed
//! software and logs, as workloads that make a volume old.
//!
//! Contract: a [`Load`] is a source of records like any workload; same numbers, same records. The
//! volume fills to its level in the first part of the time and is kept at that level: each session
//! (four a day) writes its share of the daily turnover, as new files, files written anew in place of
//! old ones and additions to files, and then deletes until the level holds. What is written anew is
//! a new file, as editors and compilers do it.
//!
//! Sizes are lognormal. The kinds follow what Smith and Seltzer 1994 say of their file systems
//! (section 3; news: "extremely small" files with "a high rate of file turnover"; software: files
//! "created or deleted only when new software is installed") and what Baker et al. 1991 and Irlam 1993
//! say of the sizes of Unix files (half of them below 2 to 4 KB, a mean near 20 KB). No number is
//! fitted to layout scores or speeds.

use std::collections::VecDeque;

use twin_fs::geometry::Geometry;
use twin_fs::{Data, Ino, Name, Op, ROOT_INO};
use twin_rt::{Nanos, Rng, SECS, Time};
use twin_trace::{Header, Kind, Outcome, Record, Source, TraceError, Traits};

use crate::ageing::room_of;
use crate::queue::{Queue, Steps};

/// Which files are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Any.
    Random,
    /// The oldest.
    Oldest,
}

/// What the users of a file system do. Shares are of the written bytes.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Directories.
    pub dirs: u64,
    /// The median of sizes in bytes.
    pub median: f64,
    /// The standard deviation of their natural logarithm.
    pub sigma: f64,
    /// The largest file in bytes.
    pub largest: f64,
    /// How often a file is written anew, of all operations that write.
    pub rewrites: f64,
    /// How often a file grows, of all operations that write.
    pub appends: f64,
    /// The mean of what is added, in bytes.
    pub added: f64,
    /// The share of the capacity that is written in a day, once it is full.
    pub turnover: f64,
    /// Which files are deleted.
    pub expiry: Expiry,
}

/// Home directories and sources: most files are small, many are written again and again.
pub const HOMES: Habits = Habits {
    dirs: 120,
    median: 2_500.0,
    sigma: 1.9,
    largest: 4e6,
    rewrites: 0.5,
    appends: 0.05,
    added: 2_000.0,
    turnover: 0.015,
    expiry: Expiry::Random,
};
/// News: articles come all day and expire.
pub const NEWS: Habits = Habits {
    dirs: 300,
    median: 1_700.0,
    sigma: 0.9,
    largest: 256e3,
    rewrites: 0.0,
    appends: 0.0,
    added: 1.0,
    turnover: 0.08,
    expiry: Expiry::Oldest,
};
/// Mail: boxes that grow and are written anew when they have been read.
pub const MAIL: Habits = Habits {
    dirs: 4,
    median: 12_000.0,
    sigma: 1.6,
    largest: 4e6,
    rewrites: 0.2,
    appends: 0.75,
    added: 2_500.0,
    turnover: 0.02,
    expiry: Expiry::Random,
};
/// Installed software: hardly anything changes, and files are larger.
pub const SOFTWARE: Habits = Habits {
    dirs: 150,
    median: 5_000.0,
    sigma: 1.8,
    largest: 8e6,
    rewrites: 0.1,
    appends: 0.0,
    added: 1.0,
    turnover: 0.002,
    expiry: Expiry::Random,
};
/// Logs and the files of daemons: they grow in small pieces.
pub const LOGS: Habits = Habits {
    dirs: 8,
    median: 6_000.0,
    sigma: 1.8,
    largest: 2e6,
    rewrites: 0.1,
    appends: 0.8,
    added: 800.0,
    turnover: 0.01,
    expiry: Expiry::Oldest,
};

const DAY: Nanos = 86_400 * SECS;
const SESSIONS_A_DAY: u64 = 4;
/// The part of the time in which the volume fills to its level.
const FILLING: f64 = 0.25;
/// The least level at the beginning, of that at the end.
const BEGINNING: f64 = 0.6;
/// The most bytes of a write.
const PIECE: u64 = 64 << 10;

#[derive(Clone, Copy, Debug)]
struct File {
    number: u64,
    dir: u64,
    size: u64,
}

/// A load on a volume. See the module.
pub struct Load {
    header: Header,
    habits: Habits,
    geometry: Geometry,
    /// Bytes that files may fill.
    capacity: u64,
    /// The share of it that they fill.
    full: f64,
    days: u64,
    session: u64,
    dirs: Vec<Ino>,
    /// In the order of creation.
    files: VecDeque<File>,
    used: u64,
    rng: Rng,
    next_ino: Ino,
    created: u64,
    queue: Queue,
}

impl Load {
    /// A load of so many days on a volume with room for `capacity` bytes, which gets `full` (0 to 1,
    /// or above for one that runs out of room).
    pub fn new(habits: Habits, geometry: Geometry, capacity: u64, full: f64, days: u64) -> Load {
        let traits = Traits { timed: true, nodes_first: true, ..Traits::default() };
        let text = "the load of a file server".into();
        let header = Header { kind: Kind::Operations, start: Time(0), seed: 1, traits, text };
        Load {
            header,
            habits,
            geometry,
            capacity,
            full,
            days,
            session: 0,
            dirs: Vec::new(),
            files: VecDeque::new(),
            used: 0,
            rng: Rng::stream(capacity, "load of a file server"),
            next_ino: ROOT_INO + 1,
            created: 0,
            queue: Queue::default(),
        }
    }

    /// From the first operation to the last.
    pub fn span_ns(&self) -> Nanos {
        self.days * DAY
    }

    fn op(&mut self, op: Op, outcome: Option<Outcome>) {
        self.queue.op(self.session * (DAY / SESSIONS_A_DAY), op, outcome);
    }

    fn room(&self, size: u64) -> u64 {
        room_of(&self.geometry, size)
    }

    /// A lognormal size, by the sum of twelve draws.
    fn size(&mut self) -> u64 {
        let normal = (0..12).map(|_| self.rng.unit()).sum::<f64>() - 6.0;
        let size = self.habits.median * (normal * self.habits.sigma).exp();
        size.min(self.habits.largest).max(1.0) as u64
    }

    fn write(&mut self, ino: Ino, from: u64, to: u64) {
        let mut off = from;
        while off < to {
            let len = PIECE.min(to - off);
            let op = Op::Write { ino, off, data: Data::Synthetic(len) };
            self.op(op, Some(Outcome::Written(len)));
            off += len;
        }
        self.op(Op::Release { ino }, Some(Outcome::Done));
        self.op(Op::Forget { ino, count: 1 }, None);
    }

    fn create(&mut self, dir: u64, size: u64) -> u64 {
        let (number, ino) = (self.created, self.next_ino);
        self.created += 1;
        self.next_ino += 1;
        let in_dir = self.dirs[dir as usize];
        let name = name_of(number);
        let op = Op::Create { dir: in_dir, name, mode: 0o644, exclusive: true };
        self.op(op, Some(Outcome::Entry(ino)));
        self.write(ino, 0, size);
        self.files.push_back(File { number, dir, size });
        self.used += self.room(size);
        size
    }

    fn remove(&mut self, place: usize) -> Option<File> {
        let file = self.files.remove(place)?;
        self.used -= self.room(file.size).min(self.used);
        let dir = self.dirs[file.dir as usize];
        self.op(Op::Unlink { dir, name: name_of(file.number) }, Some(Outcome::Done));
        Some(file)
    }

    /// Adds to a file; returns the bytes.
    fn append(&mut self, place: usize) -> u64 {
        let more = self.rng.exponential(self.habits.added).max(1.0) as u64;
        let File { number, dir, size } = self.files[place];
        let (ino, in_dir) = (self.next_ino, self.dirs[dir as usize]);
        self.next_ino += 1;
        let lookup = Op::Lookup { dir: in_dir, name: name_of(number) };
        self.op(lookup, Some(Outcome::Entry(ino)));
        let open = Op::Open { ino, read: false, write: true, truncate: false };
        self.op(open, Some(Outcome::Done));
        self.write(ino, size, size + more);
        self.used += self.room(size + more) - self.room(size);
        self.files[place].size = size + more;
        more
    }

    /// One operation that writes; returns the bytes.
    fn change(&mut self) -> u64 {
        let what = self.rng.unit();
        let some = !self.files.is_empty();
        // Users are not equally busy.
        let unit = self.rng.unit();
        let dir = (unit * unit * self.dirs.len() as f64) as u64;
        if some && what < self.habits.rewrites {
            let place = self.rng.below(self.files.len() as u64) as usize;
            if let Some(old) = self.remove(place) {
                let size = (old.size as f64 * (0.8 + 0.45 * self.rng.unit())) as u64;
                return self.create(old.dir, size.max(1));
            }
        }
        if some && what < self.habits.rewrites + self.habits.appends {
            let place = self.rng.below(self.files.len() as u64) as usize;
            if (self.files[place].size as f64) < self.habits.largest {
                return self.append(place);
            }
        }
        let size = self.size();
        self.create(dir, size)
    }

    /// A session; false at the end.
    fn session(&mut self) -> bool {
        if self.session == 0 {
            for number in 0..self.habits.dirs {
                let (ino, name) = (self.next_ino, format!("d{number}").into_bytes().into());
                self.next_ino += 1;
                self.dirs.push(ino);
                let op = Op::MakeDir { dir: ROOT_INO, name, mode: 0o755 };
                self.op(op, Some(Outcome::Entry(ino)));
            }
        }
        let all = self.days * SESSIONS_A_DAY;
        if self.session >= all {
            return false;
        }
        let done = self.session as f64 / all as f64;
        let level = BEGINNING + (1.0 - BEGINNING) * (done / FILLING).min(1.0);
        let level = (self.full * level * self.capacity as f64) as u64;
        let turnover = self.habits.turnover / SESSIONS_A_DAY as f64;
        let mut left = (turnover * self.capacity as f64) as u64;
        loop {
            left = left.saturating_sub(self.change().max(1));
            let is_full = self.used >= level;
            while self.used > level && !self.files.is_empty() {
                let place = match self.habits.expiry {
                    Expiry::Oldest => 0,
                    Expiry::Random => self.rng.below(self.files.len() as u64) as usize,
                };
                self.remove(place);
            }
            if left == 0 && is_full {
                break;
            }
        }
        self.session += 1;
        true
    }
}

fn name_of(number: u64) -> Name {
    format!("f{number:x}").into_bytes().into()
}

impl Steps for Load {
    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    fn step(&mut self) -> bool {
        self.session()
    }
}

impl Source for Load {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        Ok(self.next_queued())
    }

    fn has_one_client(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volume_gets_as_full_as_asked_and_is_written_as_often_as_the_turnover_says() {
        for habits in [HOMES, NEWS, MAIL, SOFTWARE, LOGS] {
            let capacity = 16 << 20;
            let mut load = Load::new(habits, Geometry::modern(8192, 1024), capacity, 0.8, 60);
            let (mut written, mut last) = (0, 0);
            while let Some(record) = load.next_record().unwrap() {
                if let Record::Request { at_ns, request } = record {
                    assert!(at_ns >= last, "time never goes back");
                    last = at_ns;
                    if let Op::Write { data, .. } = request.op {
                        written += data.len();
                    }
                }
            }
            let used = load.used as f64 / capacity as f64;
            assert!((0.7..=0.8).contains(&used), "{used} in use");
            let least = habits.turnover * 45.0 * capacity as f64;
            assert!(written as f64 > least, "{written} bytes written, {least} at least");
        }
    }
}

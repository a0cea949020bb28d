//! Many files of one size: `small` (Rosenblum and Ousterhout's small-file benchmark) and `sizes`
//! (Seltzer et al. 1995, section 3: the same amount of data in files of one size after another).

use super::{Act, Benchmark, Content, OpenMode, Script};

/// Files in a directory.
const PER_DIR: u64 = 100;
const MIB: f64 = (1 << 20) as f64;

/// Creates, reads, rewrites and deletes files of one size.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// Number of files.
    pub(super) count: u64,
    /// Size of each file in bytes.
    pub(super) size: u64,
    /// Largest system call in bytes.
    pub(super) unit: u64,
    /// Report bytes and rewrites (`sizes`) rather than files and attributes (`small`).
    pub(super) sizes: bool,
    /// With `sizes`: overwriting with fsync is a phase too.
    pub(super) synced: bool,
    /// Also fsync each file that is written in the first two phases.
    pub(super) fsync: bool,
    /// Keep caches warm between phases.
    pub(super) warm: bool,
    /// Empty only the kernel's caches between phases.
    pub(super) kernel: bool,
    /// Pause before the first phase and whenever caches are emptied, in nanoseconds: a cleaner may end
    /// what was begun before.
    pub(super) settle_ns: u64,
    /// Number of concurrent users, each with as many files.
    pub(super) users: u64,
    /// The number of the first file.
    pub(super) first: u64,
    pub(super) label: String,
}

/// The number of files that hold `total` bytes together, but at least `least`: Seltzer et al. 1995
/// have "either 32 MB or ten files, whichever generates more data".
pub(super) fn count_for(total: u64, size: u64, least: u64) -> u64 {
    (total / size).max(least).max(1)
}

/// Each user's directories have numbers of their own.
const PER_USER: u64 = 1 << 32;

fn dir(i: u64) -> String {
    format!("d{:06}", i / PER_DIR)
}

fn path(i: u64) -> String {
    format!("d{:06}/f{:02}", i / PER_DIR, i % PER_DIR)
}

impl Files {
    /// The numbers of one user's files.
    fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }

    fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (size, unit) = (self.size, self.unit);
        (0..size.div_ceil(unit)).map(move |k| (k * unit, unit.min(size - k * unit)))
    }

    fn write(&self, i: u64, generation: u64, how: OpenMode, fsync: bool) -> Vec<Act> {
        let content = Content { file: i, generation };
        let mut acts = vec![Act::Open { slot: 0, path: path(i), how }];
        acts.extend(self.pieces().map(|(off, len)| Act::Write { slot: 0, off, len, content }));
        if fsync {
            acts.push(Act::Fsync { slot: 0, data_only: false });
        }
        acts.push(Act::Close { slot: 0 });
        acts
    }

    fn read(&self, i: u64, generation: u64) -> Vec<Act> {
        let content = Content { file: i, generation };
        let mut acts = vec![Act::Open { slot: 0, path: path(i), how: OpenMode::Read }];
        acts.extend(self.pieces().map(|(off, len)| Act::Read { slot: 0, off, len, content }));
        acts.push(Act::Close { slot: 0 });
        acts
    }

    fn amount(&self) -> (f64, &'static str) {
        match self.sizes {
            true => (self.count as f64 * self.size as f64 / MIB, "MiB/s"),
            false => (self.count as f64, "files/s"),
        }
    }

    /// A phase: the operations on each file, between the beginning and the end of the phase.
    fn phase(
        &self,
        name: &'static str,
        (amount, unit): (f64, &'static str),
        sync: bool,
        each: impl Fn(&Files, u64) -> Vec<Act> + Send + 'static,
    ) -> Script {
        let me = self.clone();
        let end = sync.then_some(Act::SyncAll).into_iter().chain([Act::End { amount, unit }]);
        let body = self.numbers().flat_map(move |i| each(&me, i));
        Box::new([Act::Begin(name)].into_iter().chain(body).chain(end))
    }

    fn pause(&self) -> Script {
        Box::new((self.settle_ns > 0).then_some(Act::Pause { ns: self.settle_ns }).into_iter())
    }

    fn cold(&self) -> Script {
        let cold = (!self.warm).then_some(Act::cold(self.kernel));
        Box::new(self.pause().chain(cold))
    }

    fn create(&self) -> Script {
        self.phase("create", self.amount(), true, |f, i| {
            let new_dir = i.is_multiple_of(PER_DIR).then(|| Act::MakeDir(dir(i)));
            let write = f.write(i, 0, OpenMode::Create, f.fsync);
            new_dir.into_iter().chain(write).collect()
        })
    }

    fn stat(&self, name: &'static str) -> Script {
        self.phase(name, self.amount(), false, |f, i| {
            vec![Act::Stat { path: path(i), size: f.size }]
        })
    }

    fn rewrite(&self, name: &'static str, generation: u64, fsync: bool) -> Script {
        self.phase(name, self.amount(), true, move |f, i| {
            f.write(i, generation, OpenMode::Write, fsync)
        })
    }

    /// Reads some files to check that a rewrite has taken effect; not a phase.
    fn spot_check(&self, generation: u64) -> Script {
        let me = self.clone();
        let step = self.count / 16 + 1;
        let some = self.numbers().step_by(step as usize);
        Box::new(some.flat_map(move |i| me.read(i, generation)))
    }

    fn delete(&self) -> Script {
        let count = self.count;
        let dirs = self.numbers().step_by(PER_DIR as usize).map(|i| Act::RemoveDir(dir(i)));
        let unlinks = self.numbers().map(|i| Act::Unlink(path(i)));
        let end = [Act::SyncAll, Act::End { amount: count as f64, unit: "files/s" }];
        Box::new([Act::Begin("delete")].into_iter().chain(unlinks).chain(dirs).chain(end))
    }
}

impl Benchmark for Files {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn users(&self) -> Vec<Script> {
        // Numbers begin at the first file of a directory, because that file creates the directory.
        let first = |user| user * PER_USER.next_multiple_of(PER_DIR);
        (0..self.users).map(|user| Files { first: first(user), ..self.clone() }.one()).collect()
    }

    fn bytes(&self) -> u64 {
        self.users * self.count * self.size
    }
}

impl Files {
    fn one(&self) -> Script {
        let read = self.phase("read", self.amount(), false, |f, i| f.read(i, 0));
        let mut parts = vec![self.pause(), self.create(), self.cold(), read];
        if self.sizes {
            parts.extend([self.cold(), self.rewrite("overwrite", 1, self.fsync)]);
            parts.extend([self.cold(), self.spot_check(1)]);
            if self.synced {
                parts.extend([self.cold(), self.rewrite("overwrite_fsync", 2, true)]);
            }
            parts.push(self.cold());
        } else {
            parts.extend([self.stat("stat_warm"), self.cold(), self.stat("stat_cold")]);
        }
        parts.push(self.delete());
        Box::new(parts.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_amount_of_data_is_the_papers_for_every_size() {
        assert_eq!(count_for(32 << 20, 1 << 10, 10), 32_768);
        assert_eq!(count_for(32 << 20, 4 << 20, 10), 10);
        assert_eq!(count_for(32 << 20, 32 << 20, 10), 10);
        assert_eq!(count_for(32 << 20, 8 << 20, 1), 4);
    }

    #[test]
    fn a_file_is_written_in_units_and_its_rest() {
        let files = Files {
            count: 1,
            size: 100_000,
            unit: 65_536,
            sizes: true,
            synced: true,
            fsync: false,
            warm: false,
            kernel: false,
            settle_ns: 0,
            users: 1,
            first: 0,
            label: String::new(),
        };
        assert_eq!(files.pieces().collect::<Vec<_>>(), [(0, 65_536), (65_536, 34_464)]);
    }
}

//! `andrew`: the Andrew benchmark (Howard et al. 1988) for one or several users: make directories,
//! copy a small tree of sources, stat every file, read every file, compile and link.
//!
//! The original sources are not used: a tree of the same size replaces them, about 70 files and 200
//! KB in 20 directories. The processor time of compiling is that of a SparcStation II, on which the
//! whole benchmark took a few minutes, mostly in the compiler: 2 s for each source file and 4 s for
//! linking (assumed). Another processor takes as much longer or shorter as it is slower or faster
//! for programs; on a directory of the host computing is left out. The parameter `compile` sets another time for
//! a source file; linking takes twice as long.

use twin_rt::Rng;

use super::{Act, Benchmark, Content, OpenMode, Script};

const DIRS: u64 = 20;
const FILES: u64 = 70;
/// Number of files that are compiled; the others are headers and papers.
const SOURCES: u64 = 17;
const HEADERS_PER_SOURCE: u64 = 6;
/// Linking in terms of a source file's compilation.
const LINK_FILES: u64 = 2;

#[derive(Clone, Debug)]
pub(super) struct Andrew {
    pub(super) users: u64,
    /// Number of times that each user runs it.
    pub(super) rounds: u64,
    pub(super) seed: u64,
    /// The processor time of compiling a source file.
    pub(super) compile_ns: u64,
    pub(super) label: String,
}

struct Tree {
    user: u64,
    compile_ns: u64,
    sizes: Vec<u64>,
}

impl Tree {
    fn new(user: u64, seed: u64, compile_ns: u64) -> Tree {
        // All users have the same sources.
        let mut rng = Rng::stream(seed, "andrew");
        Tree { user, compile_ns, sizes: (0..FILES).map(|_| rng.range(600, 5200)).collect() }
    }

    fn source(&self, i: u64) -> String {
        format!("u{}-src-f{i:02}", self.user)
    }

    fn dir(&self, round: u64, d: u64) -> String {
        match d {
            0 => format!("u{}-r{round}", self.user),
            d => format!("u{}-r{round}/d{d:02}", self.user),
        }
    }

    fn file(&self, round: u64, i: u64) -> String {
        format!("{}/f{i:02}", self.dir(round, i % DIRS))
    }

    fn object(&self, round: u64, i: u64) -> String {
        format!("{}/f{i:02}.o", self.dir(round, i % DIRS))
    }

    fn content(i: u64) -> Content {
        Content { file: i, generation: 0 }
    }

    fn read(&self, path: String, i: u64, size: u64) -> [Act; 3] {
        let content = Tree::content(i);
        [
            Act::Open { slot: 0, path, how: OpenMode::Read },
            Act::Read { slot: 0, off: 0, len: size, content },
            Act::Close { slot: 0 },
        ]
    }

    fn write(&self, path: String, i: u64, size: u64) -> [Act; 3] {
        let content = Tree::content(i);
        [
            Act::Open { slot: 1, path, how: OpenMode::Create },
            Act::Write { slot: 1, off: 0, len: size, content },
            Act::Close { slot: 1 },
        ]
    }

    fn round(&self, round: u64) -> Vec<Act> {
        let end = |amount: u64, unit| Act::End { amount: amount as f64, unit };
        let size = |i: u64| self.sizes[i as usize];
        let mut acts = vec![Act::Begin("make_dir")];
        acts.extend((0..DIRS).map(|d| Act::MakeDir(self.dir(round, d))));
        acts.extend([end(DIRS, "dirs/s"), Act::Begin("copy")]);
        for i in 0..FILES {
            acts.extend(self.read(self.source(i), i, size(i)));
            acts.extend(self.write(self.file(round, i), i, size(i)));
        }
        acts.extend([end(FILES, "files/s"), Act::Begin("scan_dir")]);
        acts.extend((0..FILES).map(|i| Act::Stat { path: self.file(round, i), size: size(i) }));
        acts.extend([end(FILES, "files/s"), Act::Begin("read_all")]);
        for i in 0..FILES {
            acts.extend(self.read(self.file(round, i), i, size(i)));
        }
        acts.extend([end(FILES, "files/s"), Act::Begin("make")]);
        for i in 0..SOURCES {
            acts.extend(self.read(self.file(round, i), i, size(i)));
            for h in 0..HEADERS_PER_SOURCE {
                let header = SOURCES + (i * 5 + h) % (FILES - SOURCES);
                acts.extend(self.read(self.file(round, header), header, size(header)));
            }
            acts.push(Act::Compute { ns: self.compile_ns });
            // The compiler's temporary file, then the object.
            let temporary = format!("u{}-r{round}/tmp{i:02}", self.user);
            acts.extend(self.write(temporary.clone(), i, 3 * size(i)));
            acts.extend(self.read(temporary.clone(), i, 3 * size(i)));
            acts.push(Act::Unlink(temporary));
            acts.extend(self.write(self.object(round, i), 100 + i, 2 * size(i)));
        }
        for i in 0..SOURCES {
            acts.extend(self.read(self.object(round, i), 100 + i, 2 * size(i)));
        }
        acts.push(Act::Compute { ns: LINK_FILES * self.compile_ns });
        let total: u64 = (0..SOURCES).map(|i| 2 * size(i)).sum();
        acts.extend(self.write(format!("u{}-r{round}/program", self.user), 200, total));
        acts.push(end(SOURCES, "files/s"));
        acts
    }

    fn clean(&self, round: u64) -> Vec<Act> {
        let files = (0..FILES).map(|i| Act::Unlink(self.file(round, i)));
        let objects = (0..SOURCES).map(|i| Act::Unlink(self.object(round, i)));
        let program = Act::Unlink(format!("u{}-r{round}/program", self.user));
        let dirs = (0..DIRS).rev().map(|d| Act::RemoveDir(self.dir(round, d)));
        files.chain(objects).chain([program]).chain(dirs).collect()
    }

    fn all(&self, rounds: u64) -> Vec<Act> {
        let mut acts: Vec<Act> = Vec::new();
        for i in 0..FILES {
            acts.extend(self.write(self.source(i), i, self.sizes[i as usize]));
        }
        acts.extend([Act::SyncAll, Act::Begin("total")]);
        for round in 0..rounds {
            let inner = self.round(round).into_iter();
            match round {
                // With several rounds only the whole is timed.
                0 if rounds == 1 => acts.extend(inner),
                _ => acts.extend(inner.filter(|a| !matches!(a, Act::Begin(_) | Act::End { .. }))),
            }
        }
        acts.push(Act::End { amount: rounds as f64, unit: "rounds/s" });
        acts.extend((0..rounds).flat_map(|round| self.clean(round)));
        acts.extend((0..FILES).map(|i| Act::Unlink(self.source(i))));
        acts
    }
}

impl Benchmark for Andrew {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn users(&self) -> Vec<Script> {
        let user = |u| {
            let acts = Tree::new(u, self.seed, self.compile_ns).all(self.rounds);
            Box::new(acts.into_iter()) as Script
        };
        (0..self.users).map(user).collect()
    }

    fn bytes(&self) -> u64 {
        self.users * (self.rounds + 1) * FILES * 8192
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_made_is_removed() {
        let acts = Tree::new(0, 1, 1000).all(2);
        let count = |pick: fn(&Act) -> bool| acts.iter().filter(|a| pick(a)).count();
        let created = count(|a| matches!(a, Act::Open { how: OpenMode::Create, .. }));
        assert_eq!(created, count(|a| matches!(a, Act::Unlink(_))));
        let made = count(|a| matches!(a, Act::MakeDir(_)));
        assert_eq!(made, count(|a| matches!(a, Act::RemoveDir(_))));
    }
}

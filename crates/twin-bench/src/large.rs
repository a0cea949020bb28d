//! `large`: one large file in five passes (Rosenblum and Ousterhout 1992; Seltzer et al. 1995,
//! section 2): sequential write, sequential read, random write, random read, sequential re-read.

use twin_rt::Rng;

use super::{Act, Benchmark, Content, OpenMode, Script};

const UNIT: u64 = 8192;
const MIB: f64 = (1 << 20) as f64;

#[derive(Clone, Debug)]
pub(super) struct Large {
    /// Size of the file in MiB.
    pub(super) mib: u64,
    /// Percentage of its units that each random pass accesses.
    pub(super) random_percent: u64,
    pub(super) seed: u64,
    /// Empty only the kernel's caches between passes.
    pub(super) kernel: bool,
    pub(super) label: String,
}

fn shuffled(n: u64, seed: u64) -> Vec<u64> {
    let mut rng = Rng::stream(seed, "large");
    let mut all: Vec<u64> = (0..n).collect();
    for i in (1..n as usize).rev() {
        all.swap(i, rng.below(i as u64 + 1) as usize);
    }
    all
}

fn open(how: OpenMode) -> Act {
    Act::Open { slot: 0, path: "large".into(), how }
}

fn pass(
    name: &'static str,
    amount: f64,
    how: OpenMode,
    body: impl Iterator<Item = Act> + Send + 'static,
    sync: bool,
) -> Script {
    let fsync = sync.then_some(Act::Fsync { slot: 0, data_only: false });
    let end = fsync.into_iter().chain([Act::End { amount, unit: "MiB/s" }, Act::Close { slot: 0 }]);
    Box::new([Act::Begin(name), open(how)].into_iter().chain(body).chain(end))
}

impl Benchmark for Large {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn users(&self) -> Vec<Script> {
        let n = (self.mib << 20) / UNIT;
        let random = n * self.random_percent / 100;
        let order = shuffled(n, self.seed);
        let mut generation = vec![0; n as usize];
        let written = order[..random as usize].to_vec();
        written.iter().for_each(|&u| generation[u as usize] = 1);
        // Another random set than the written one.
        let read_at: Vec<u64> = order.iter().rev().take(random as usize).copied().collect();
        let content = |generation| Content { file: 0, generation };
        let write =
            move |u: u64, g| Act::Write { slot: 0, off: u * UNIT, len: UNIT, content: content(g) };
        let read =
            move |u: u64, g| Act::Read { slot: 0, off: u * UNIT, len: UNIT, content: content(g) };
        let (mib, random_mib) = (self.mib as f64, random as f64 * UNIT as f64 / MIB);
        let last = generation.clone();
        let kernel = self.kernel;
        let cold = move || -> Script { Box::new(std::iter::once(Act::cold(kernel))) };
        let parts: Vec<Script> = vec![
            pass("seq_write", mib, OpenMode::Create, (0..n).map(move |u| write(u, 0)), true),
            cold(),
            pass("seq_read", mib, OpenMode::Read, (0..n).map(move |u| read(u, 0)), false),
            cold(),
            pass(
                "rand_write",
                random_mib,
                OpenMode::Write,
                written.into_iter().map(move |u| write(u, 1)),
                true,
            ),
            cold(),
            pass(
                "rand_read",
                random_mib,
                OpenMode::Read,
                read_at.into_iter().map(move |u| read(u, generation[u as usize])),
                false,
            ),
            cold(),
            pass(
                "seq_reread",
                mib,
                OpenMode::Read,
                (0..n).map(move |u| read(u, last[u as usize])),
                false,
            ),
            Box::new(
                [
                    Act::Begin("delete"),
                    Act::Unlink("large".into()),
                    Act::SyncAll,
                    Act::End { amount: mib, unit: "MiB/s" },
                ]
                .into_iter(),
            ),
        ];
        vec![Box::new(parts.into_iter().flatten())]
    }

    fn bytes(&self) -> u64 {
        self.mib << 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_comes_once_in_a_shuffle() {
        let mut all = shuffled(1000, 7);
        assert_ne!(all[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        all.sort_unstable();
        assert!(all.iter().enumerate().all(|(i, &u)| u == i as u64));
    }
}

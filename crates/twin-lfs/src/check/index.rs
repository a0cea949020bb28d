//! A directory's index: its own structure, and that it leads to every name and to nothing else.

use std::collections::BTreeMap;

use twin_disk::Bytes;
use twin_fs::dinode::Dinode;
use twin_fs::dir::index::{self, Frames, Header, Stop};
use twin_fs::{FsError, Ino};

use super::tree::Tree;
use super::{Checker, Finding, Kind, Severity};

/// Blocks of an index that are kept in memory at the most.
const KEPT_BLOCKS: usize = 256;

/// The blocks of an index that were read.
#[derive(Default)]
struct Kept(BTreeMap<u64, Bytes>);

impl Frames for Kept {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.0.get(&lbn).map(|block| f(block))
    }

    fn write<R>(&mut self, _: u64, _: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        None
    }
}

impl Checker<'_> {
    /// The key of an index's hash, if its header can be read.
    pub(super) async fn index_key(&mut self, index: &Dinode) -> Option<[u64; 2]> {
        let mut kept = Kept::default();
        let header = self.drive(index, &mut kept, |kept| index::header(kept)).await;
        // What is wrong with it is said when the whole index is checked.
        header.ok().map(|header| header.key)
    }

    /// Runs a step on an index, reading the blocks that it asks for.
    async fn drive<T>(
        &self,
        index: &Dinode,
        kept: &mut Kept,
        mut step: impl FnMut(&mut Kept) -> Result<T, Stop>,
    ) -> Result<T, FsError> {
        loop {
            match step(kept) {
                Ok(done) => return Ok(done),
                Err(Stop::Bad(error)) => return Err(error.into()),
                Err(Stop::Load(lbn) | Stop::Make(lbn)) => {
                    let ptr = self.view.ptr(index, lbn as i64).await?;
                    if ptr.is_hole() || lbn >= self.view.sb.shape.blocks_for(index.size) {
                        let what = format!("the index has no block {lbn}");
                        return Err(FsError::inconsistent(what));
                    }
                    kept.0.insert(lbn, self.view.block(index.ino, lbn as i64, ptr).await?);
                }
            }
        }
    }

    /// Checks an index against its directory's names, `slots`: hash and block of each, sorted.
    /// None if they are not all known.
    pub(super) async fn check_index(
        &mut self,
        dir: Ino,
        index: &Dinode,
        slots: Option<&[(u32, u32)]>,
    ) {
        let mut tree = Tree::new(index);
        self.walk_all(&mut tree).await;
        self.compare_allocated(index, tree.allocated);
        let blocks = tree.allocated / u64::from(self.view.sb.shape.block_size);
        let found = match self.index_slots(index, blocks).await {
            Ok(found) => found,
            Err(error) => {
                let what = format!("index {}", index.ino);
                self.add_error(Kind::Index, Severity::Serious, dir, error, &what);
                return;
            }
        };
        let Some(slots) = slots else { return };
        let (missing, stale) = differences(slots, &found);
        for (count, example, what) in [
            (missing.0, missing.1, "names are not in the index"),
            (stale.0, stale.1, "entries of the index lead to no name"),
        ] {
            if let Some((hash, lbn)) = example {
                let what = format!(
                    "{count} {what} {}, the first of them in block {lbn} with hash {hash:#010x}",
                    index.ino
                );
                self.add(Finding::new(Kind::Index, Severity::Serious, what).of(dir));
            }
        }
    }

    /// All entries of an index, sorted, after checking each of its buckets. `blocks` is the
    /// number of blocks that it has: no chain can be longer.
    async fn index_slots(
        &mut self,
        index: &Dinode,
        blocks: u64,
    ) -> Result<Vec<(u32, u32)>, FsError> {
        let mut kept = Kept::default();
        let header = self.drive(index, &mut kept, |kept| index::header(kept)).await?;
        check_header(&header, blocks)?;
        let free = self.drive(index, &mut kept, |kept| index::check_free_blocks(kept)).await?;
        let mut used: Vec<u64> = free.clone();
        let mut slots = Vec::new();
        let mut chained = 0;
        for bucket in 0..header.buckets {
            if kept.0.len() > KEPT_BLOCKS {
                kept.0.retain(|&lbn, _| lbn == 0);
            }
            let step = |kept: &mut Kept| index::check_bucket(kept, bucket);
            let report = self.drive(index, &mut kept, step).await?;
            slots.extend(report.slots.iter().map(|slot| (slot.hash, slot.position)));
            chained += report.blocks.len() - 1;
            used.extend(report.blocks);
        }
        used.sort_unstable();
        if used.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(FsError::inconsistent("a block of it is used twice"));
        }
        if chained + free.len() != header.overflow as usize {
            let what = format!(
                "{} overflow blocks are counted, {chained} are in chains and {} free",
                header.overflow,
                free.len()
            );
            return Err(FsError::inconsistent(what));
        }
        if slots.len() as u64 != header.entries {
            let what = format!("{} entries are counted, there are {}", header.entries, slots.len());
            return Err(FsError::inconsistent(what));
        }
        slots.sort_unstable();
        Ok(slots)
    }
}

/// The figures of a header must be possible for a file of this many blocks, so that nothing that
/// follows them runs for long.
fn check_header(header: &Header, blocks: u64) -> Result<(), FsError> {
    match u64::from(header.buckets) < blocks && u64::from(header.overflow) < blocks {
        true => Ok(()),
        false => Err(FsError::inconsistent(format!(
            "{} buckets and {} overflow blocks in a file of {blocks} blocks",
            header.buckets, header.overflow
        ))),
    }
}

type Lack = (u64, Option<(u32, u32)>);

/// How many of the sorted `a` are not in the sorted `b`, and how many the other way, each with
/// the first.
fn differences(a: &[(u32, u32)], b: &[(u32, u32)]) -> (Lack, Lack) {
    let (mut only_a, mut only_b): (Lack, Lack) = ((0, None), (0, None));
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let order = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.cmp(y),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        match order {
            std::cmp::Ordering::Equal => (i, j) = (i + 1, j + 1),
            std::cmp::Ordering::Less => {
                only_a = (only_a.0 + 1, only_a.1.or(Some(a[i])));
                i += 1;
            }
            std::cmp::Ordering::Greater => {
                only_b = (only_b.0 + 1, only_b.1.or(Some(b[j])));
                j += 1;
            }
        }
    }
    (only_a, only_b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_count_what_either_side_lacks() {
        let a = [(1, 1), (1, 1), (2, 1), (5, 0)];
        let b = [(1, 1), (3, 3), (5, 0), (5, 0)];
        assert_eq!(differences(&a, &b), ((2, Some((1, 1))), (2, Some((3, 3)))));
        assert_eq!(differences(&a, &a), ((0, None), (0, None)));
    }
}

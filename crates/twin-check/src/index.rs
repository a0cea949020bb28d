//! A directory's index: its own structure, and that it leads to every name and to nothing else.

use std::collections::BTreeMap;

use twin_disk::Bytes;
use twin_fs::dinode::Dinode;
use twin_fs::dir::index::{self, Frames, Header, StepError};
use twin_fs::{FsError, Result};

use crate::{Checker, Finding, FindingKind, Severity};

/// The largest number of blocks of an index that are kept in memory.
const KEPT_BLOCKS: usize = 256;

/// The blocks of an index that were read.
#[derive(Default)]
struct IndexBlocks(BTreeMap<u64, Bytes>);

impl Frames for IndexBlocks {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.0.get(&lbn).map(|block| f(block))
    }

    fn write<R>(&mut self, _: u64, _: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        None
    }
}

impl Checker<'_> {
    /// The inode of a directory's index. If it is not that of an index, a repair drops it, and the
    /// volume makes a new one when it needs it.
    pub(crate) async fn assign_index(&mut self, d: &mut Dinode) -> Result<Option<Dinode>> {
        let index = self.assign_owner(d.ino, d.index_ino).await?;
        if index.is_none() && self.how.fixes {
            d.index_ino = 0;
            self.image.put_inode(d).await?;
        }
        Ok(index)
    }

    /// The key of an index's hash, if its header can be read.
    pub(crate) async fn index_key(&mut self, index: &Dinode) -> Option<[u64; 2]> {
        let mut kept = IndexBlocks::default();
        let header = self.drive(index, &mut kept, |kept| index::header(kept)).await;
        // The check of the whole index reports what is wrong with it.
        header.ok().map(|header| header.key)
    }

    /// Runs a step on an index, reading the blocks that it asks for.
    async fn drive<T>(
        &self,
        index: &Dinode,
        kept: &mut IndexBlocks,
        mut step: impl FnMut(&mut IndexBlocks) -> std::result::Result<T, StepError>,
    ) -> Result<T> {
        loop {
            match step(kept) {
                Ok(done) => return Ok(done),
                Err(StepError::Bad(error)) => return Err(error.into()),
                Err(StepError::Load(lbn) | StepError::Make(lbn)) => {
                    let inside = lbn < self.geometry.blocks_for(index.size);
                    let ptr = if inside {
                        self.ptr(index, lbn as i64).await?
                    } else {
                        twin_fs::geometry::Ptr::HOLE
                    };
                    if ptr.is_hole() {
                        let what = format!("the index has no block {lbn}");
                        return Err(FsError::inconsistent(what));
                    }
                    let mut bytes = self.image.block(index.ino, lbn as i64, ptr).await?;
                    let block = self.geometry.block_size as usize;
                    if bytes.len() < block {
                        let mut raw = bytes.to_vec();
                        raw.resize(block, 0);
                        bytes = Bytes::copy_of(&raw);
                    }
                    kept.0.insert(lbn, bytes);
                }
            }
        }
    }

    /// Checks an index against its directory's names, `slots`: hash and block of each, sorted.
    /// `slots` is `None` if not all names are known.
    pub(crate) async fn check_index(
        &mut self,
        d: &mut Dinode,
        index: &Dinode,
        slots: Option<&[(u32, u32)]>,
    ) -> Result<()> {
        let wrong = match (self.index_slots(index).await, slots) {
            (Err(FsError::Io(error)), _) if self.how.fixes => return Err(FsError::Io(error)),
            (Err(error), _) => {
                let what = format!("index {}", index.ino);
                vec![Finding::from_error(FindingKind::Index, Severity::Serious, &error, &what)]
            }
            (Ok(found), Some(slots)) => compare(slots, &found, index),
            (Ok(_), None) => Vec::new(),
        };
        if wrong.is_empty() {
            return Ok(());
        }
        wrong.into_iter().for_each(|finding| self.wrong(finding.of(d.ino)));
        if self.how.fixes {
            d.index_ino = 0;
            self.image.put_inode(d).await?;
            self.free(index.ino).await?;
        }
        Ok(())
    }

    /// All entries of an index, sorted, after checking each of its buckets.
    async fn index_slots(&self, index: &Dinode) -> Result<Vec<(u32, u32)>> {
        let mut kept = IndexBlocks::default();
        let header = self.drive(index, &mut kept, |kept| index::header(kept)).await?;
        // No chain can be longer than the file has blocks.
        check_header(&header, self.geometry.blocks_for(index.size))?;
        let free = self.drive(index, &mut kept, |kept| index::check_free_blocks(kept)).await?;
        let mut used: Vec<u64> = free.clone();
        let mut slots = Vec::new();
        let mut chained = 0;
        for bucket in 0..header.buckets {
            if kept.0.len() > KEPT_BLOCKS {
                kept.0.retain(|&lbn, _| lbn == 0);
            }
            let step = |kept: &mut IndexBlocks| index::check_bucket(kept, bucket);
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
fn check_header(header: &Header, blocks: u64) -> Result<()> {
    match u64::from(header.buckets) < blocks && u64::from(header.overflow) < blocks {
        true => Ok(()),
        false => Err(FsError::inconsistent(format!(
            "{} buckets and {} overflow blocks in a file of {blocks} blocks",
            header.buckets, header.overflow
        ))),
    }
}

/// In what an index and the names of its directory differ.
fn compare(slots: &[(u32, u32)], found: &[(u32, u32)], index: &Dinode) -> Vec<Finding> {
    let (missing, stale) = differences(slots, found);
    let both =
        [(missing, "names are not in the index"), (stale, "entries of the index lead to no name")];
    let finding = |((count, example), what): (Lack, &str)| {
        let (hash, lbn) = example?;
        let what = format!(
            "{count} {what} {}, the first of them in block {lbn} with hash {hash:#010x}",
            index.ino
        );
        Some(Finding::serious(FindingKind::Index, what))
    };
    both.into_iter().filter_map(finding).collect()
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

//! A directory's index: it leads to every name and to nothing else.

use std::collections::BTreeMap;

use twin_fs::dinode::Dinode;
use twin_fs::dir::index::{self, Frames, Stop};
use twin_fs::dir::name_hash;
use twin_fs::{FsError, Result};

use super::Checker;

/// The blocks of an index that were read.
#[derive(Default)]
struct Kept(BTreeMap<u64, Vec<u8>>);

impl Frames for Kept {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.0.get(&lbn).map(|block| f(block))
    }

    fn write<R>(&mut self, _: u64, _: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        None
    }
}

impl Checker<'_> {
    /// Runs a step on an index, reading the blocks that it asks for.
    async fn drive<T>(
        &self,
        file: &Dinode,
        kept: &mut Kept,
        mut step: impl FnMut(&mut Kept) -> Result<T, Stop>,
    ) -> Result<T> {
        loop {
            match step(kept) {
                Ok(done) => return Ok(done),
                Err(Stop::Bad(error)) => return Err(error.into()),
                Err(Stop::Load(lbn) | Stop::Make(lbn)) => {
                    let inside = lbn < self.view.sb.shape.blocks_for(file.size);
                    let block = if inside { self.view.block(file, lbn).await? } else { None };
                    let Some((_, mut bytes)) = block else {
                        return Err(FsError::inconsistent(format!("it has no block {lbn}")));
                    };
                    bytes.resize(self.view.sb.shape.block_size as usize, 0);
                    kept.0.insert(lbn, bytes);
                }
            }
        }
    }

    /// What is wrong with the index of a directory.
    pub(super) async fn index_is_wrong(
        &self,
        dir: &Dinode,
        file: &Dinode,
    ) -> Result<Option<String>> {
        match self.index_slots(file).await {
            Err(FsError::Io(error)) => Err(FsError::Io(error)),
            Err(error) => Ok(Some(error.to_string())),
            Ok((key, found)) => {
                let names = self.dir_slots(dir, key).await?;
                let what = "it does not lead to the names that there are";
                Ok((names != found).then(|| what.into()))
            }
        }
    }

    async fn index_slots(&self, file: &Dinode) -> Result<([u64; 2], Vec<(u32, u32)>)> {
        let mut kept = Kept::default();
        let header = self.drive(file, &mut kept, |kept| index::header(kept)).await?;
        let blocks = self.view.sb.shape.blocks_for(file.size);
        if u64::from(header.buckets) >= blocks || u64::from(header.overflow) >= blocks {
            return Err(FsError::inconsistent("it counts more blocks than it has"));
        }
        self.drive(file, &mut kept, |kept| index::check_free_blocks(kept)).await?;
        let mut slots = Vec::new();
        for bucket in 0..header.buckets {
            let step = |kept: &mut Kept| index::check_bucket(kept, bucket);
            let report = self.drive(file, &mut kept, step).await?;
            slots.extend(report.slots.iter().map(|slot| (slot.hash, slot.position)));
        }
        if slots.len() as u64 != header.entries {
            return Err(FsError::inconsistent("its count of entries is wrong"));
        }
        slots.sort_unstable();
        Ok((header.key, slots))
    }

    /// Hash and block of each name of a directory, sorted.
    async fn dir_slots(&self, dir: &Dinode, key: [u64; 2]) -> Result<Vec<(u32, u32)>> {
        let format = self.dir_format();
        let mut slots = Vec::new();
        for lbn in 0..self.view.sb.shape.blocks_for(dir.size) {
            let Some((_, bytes)) = self.view.block(dir, lbn).await? else { continue };
            let names = format.items(&bytes, 0).filter(|i| !matches!(i.name, b"." | b".."));
            slots.extend(names.map(|i| (name_hash(key, i.name), lbn as u32)));
        }
        slots.sort_unstable();
        Ok(slots)
    }
}

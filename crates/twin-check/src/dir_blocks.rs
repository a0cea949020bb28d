//! Blocks of directories: how much of one is the directory's, and changes of its bytes.
//!
//! Contract: what lies in a block behind the end of the directory is neither read nor changed. A
//! block that the directory does not have stays as it is.

use twin_fs::dinode::Dinode;
use twin_fs::{ROOT_INO, Result};

use crate::Checker;

impl Checker<'_> {
    /// Number of bytes of a block that belong to the directory: the last block may be used in part.
    pub(crate) fn bytes_in(&self, d: &Dinode, lbn: u64, bytes: &[u8]) -> usize {
        let before = lbn.saturating_mul(self.geometry.block_size.into());
        d.size.saturating_sub(before).min(bytes.len() as u64) as usize
    }

    /// Replaces the damaged chunks of a directory's block by empty ones, which in the first chunk
    /// have the dots. A device writes each chunk by itself, so the names in the others are good.
    pub(crate) fn repair_block(&self, d: &Dinode, lbn: u64, bytes: &mut [u8]) {
        let format = self.features.directories;
        let unit = self.geometry.dir_unit().min(bytes.len());
        let unit = match format {
            twin_fs::DirFormat::Modern => unit,
            _ => unit.min(twin_fs::geometry::DIR_CHUNK),
        };
        for (i, chunk) in bytes.chunks_exact_mut(unit).enumerate() {
            let own = (lbn == 0 && i == 0).then_some(d.ino);
            if format.validate(chunk, own).is_ok() {
                continue;
            }
            chunk.fill(0);
            match own {
                Some(ino) => format.init_first(chunk, ino, ROOT_INO),
                None => format.init(chunk),
            }
        }
    }

    /// Removes the entry at a place of a directory.
    pub(crate) async fn remove_entry(&mut self, d: &Dinode, lbn: u32, offset: u32) -> Result<()> {
        let format = self.features.directories;
        self.change_dir_block(d, lbn.into(), |raw| {
            let _ = format.remove(raw, offset as usize);
        })
        .await
    }

    /// Changes the bytes of a block that belong to a directory.
    pub(crate) async fn change_dir_block(
        &mut self,
        d: &Dinode,
        lbn: i64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let ptr = self.ptr(d, lbn).await?;
        if ptr.is_hole() {
            return Ok(());
        }
        let mut raw = self.image.block(d.ino, lbn, ptr).await?.to_vec();
        let len = self.bytes_in(d, lbn as u64, &raw);
        change(&mut raw[..len]);
        self.image.put_block(d.ino, lbn, ptr, raw).await.map(drop)
    }
}

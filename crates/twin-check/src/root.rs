//! The root directory, without which nothing can be reached.
//!
//! Contract: a volume whose root is lost gets an empty one, as `fsck` gives it. The next round
//! finds its files without a name, and they go to `lost+found` in the new root.

use twin_fs::dinode::Dinode;
use twin_fs::geometry::Ptr;
use twin_fs::{FsError, ROOT_INO, Result, Timestamp, mode};

use crate::{Checker, Finding, FindingKind, NumberState};

impl Checker<'_> {
    /// Makes a root if there is none. This comes after the check of inodes, because only then is it
    /// known which places are free.
    pub(crate) async fn check_root(&mut self) -> Result<()> {
        if self.node(ROOT_INO).is_some_and(|node| node.state == NumberState::Read) {
            return Ok(());
        }
        let what = "there is no root directory";
        self.wrong(Finding::serious(FindingKind::Root, what).of(ROOT_INO));
        match (self.how.fixes, self.how.makes_root) {
            (false, _) => Ok(()),
            (true, true) => self.make_root().await,
            (true, false) => Err(FsError::inconsistent(
                "there is no root directory; check --repair makes one, with all files in \
                 lost+found",
            )),
        }
    }

    async fn make_root(&mut self) -> Result<()> {
        let mode = mode::DIRECTORY | 0o755;
        let mut d = Dinode::new(&self.geometry, ROOT_INO, 1, mode, Timestamp::default());
        d.nlink = 2;
        d.size = self.geometry.dir_unit() as u64;
        let len = self.geometry.len_on_disk(0, d.size);
        let mut content = vec![0; len as usize];
        let end = d.size as usize;
        self.repair_block(&d, 0, &mut content[..end]);
        d.ptrs[0] = self.image.put_block(ROOT_INO, 0, Ptr { len, ..Ptr::HOLE }, content).await?;
        d.allocated = len.into();
        self.image.put_inode(&d).await
    }
}

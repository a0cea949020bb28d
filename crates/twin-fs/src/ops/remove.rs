//! Operations that remove a name: unlink, rmdir.

use super::Operations;
use crate::layout::{Change, Need};
use crate::perm::Victim;
use crate::{Cred, FsError, Ino, Name, Reply, Result, perm};

impl Operations {
    pub(crate) async fn op_remove(
        &self,
        dir: Ino,
        name: &Name,
        is_rmdir: bool,
        cred: &Cred,
    ) -> Result<Reply> {
        let dir = self.dirs.directory(dir).await?;
        let gone = {
            let _alone = dir.lock.write().await;
            let hit = self.search(&dir, name, cred).await?;
            check_dots(name, is_rmdir)?;
            let hit = hit.ok_or(FsError::NotFound)?;
            let inode = self.files.inode(hit.ino).await?;
            let must_be = if is_rmdir { Victim::Directory } else { Victim::NotDirectory };
            perm::may_delete(&dir.attr(), &inode.attr(), cred, must_be)?;
            let _admission = self.files.admit_small(Need::Shrink).await?;
            let plan = self.dirs.plan_remove(&dir, name, &hit).await?;
            let _entries = self.dirs.pin_entries(&inode).await?;
            if is_rmdir && !self.dirs.is_empty_dir(&inode) {
                return Err(FsError::NotEmpty);
            }
            self.layout.reserve(&self.core, self.dirs.remove_space(&plan))?;
            // From here on nothing waits, so the name and the link count change in one step. A file
            // whose last name it was becomes an orphan in the same step, so a crash does not lose
            // it.
            let now = self.core.now();
            self.dirs.remove_name(&dir, &hit, plan)?;
            self.dirs.touch_dir(&dir, now, if is_rmdir { -1 } else { 0 });
            self.orphans.unlink(&inode, now);
            let change = Change::Names { inodes: &[], added: &[], removed: &[&dir] };
            self.layout.enforce_order(&self.core, change).await?;
            match self.dirs.shrink_empty_dir(&dir).await {
                // The name is removed already; only the directory keeps its size.
                Err(FsError::NoSpace) => {}
                shrunk => shrunk?,
            }
            inode.ino
        };
        // Freeing takes the lock of the inode, so the lock of the directory is released first.
        self.orphans.reap(gone).await?;
        Ok(Reply::Done)
    }
}

fn check_dots(name: &[u8], is_rmdir: bool) -> Result<()> {
    match name {
        b"." if is_rmdir => Err(FsError::Invalid("the last part of the path is a dot")),
        b".." if is_rmdir => Err(FsError::NotEmpty),
        b"." | b".." => Err(FsError::IsDirectory),
        _ => Ok(()),
    }
}

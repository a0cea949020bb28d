//! Finding names, with the permissions of the client.

use std::rc::Rc;

use super::Operations;
use crate::dir::{Hit, check_name};
use crate::inodes::Inode;
use crate::{Cred, FsError, Ino, Name, Reply, Result, perm};

impl Operations {
    pub(crate) async fn op_lookup(&self, dir: Ino, name: &Name, cred: &Cred) -> Result<Reply> {
        let inode = match &**name {
            b"." => self.itself(dir, cred).await?,
            name => self.lookup(dir, name, cred).await?,
        };
        Ok(Reply::Entry(self.entry(&inode)))
    }

    /// The inode with this number, of any kind, which has a name. A front end that remembers
    /// nothing (a client of NFS sends a number and a generation) gets a reference in this way.
    async fn itself(&self, ino: Ino, cred: &Cred) -> Result<Rc<Inode>> {
        let inode = self.files.inode(ino).await?;
        if inode.d.borrow().is_dir() {
            perm::access(&self.guarded(&inode, cred).await?, cred, perm::EXECUTE)?;
        }
        if inode.d.borrow().nlink == 0 { Err(FsError::NotFound) } else { Ok(inode) }
    }

    /// The inode that a name leads to. It takes the lock of the directory, shared.
    pub(crate) async fn lookup(&self, dir: Ino, name: &[u8], cred: &Cred) -> Result<Rc<Inode>> {
        let dir = self.dirs.directory(dir).await?;
        let _shared = dir.lock.read().await;
        let ino = self.search(&dir, name, cred).await?.ok_or(FsError::NotFound)?.ino;
        let inode = self.files.inode(ino).await.map_err(|error| match error {
            // The directory is locked, so the name still exists: the volume is damaged.
            FsError::NotFound => FsError::inconsistent(format!(
                "an entry of directory {} leads to inode {ino}, which is free",
                dir.ino
            )),
            other => other,
        })?;
        // The directory may have been removed during the waits: `rmdir` does not lock it.
        if dir.d.borrow().nlink == 0 { Err(FsError::NotFound) } else { Ok(inode) }
    }

    /// Finds a name in a directory. Fails if the client may not search the directory, the directory
    /// has been removed, or the name is not a possible one. The caller holds the lock of the
    /// directory.
    pub(crate) async fn search(
        &self,
        dir: &Inode,
        name: &[u8],
        cred: &Cred,
    ) -> Result<Option<Hit>> {
        perm::access(&self.guarded(dir, cred).await?, cred, perm::EXECUTE)?;
        if dir.d.borrow().nlink == 0 {
            return Err(FsError::NotFound);
        }
        check_name(name)?;
        let found = self.dirs.find(dir, name).await?;
        // The directory may have been removed during the wait: `rmdir` does not lock it.
        if dir.d.borrow().nlink == 0 { Err(FsError::NotFound) } else { Ok(found) }
    }
}

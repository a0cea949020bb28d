//! Giving a name to an inode that lost all of its own: for repairs.

use std::rc::Rc;

use crate::core::Inode;
use crate::dinode::HIDDEN;
use crate::layout::{Change, Layout, Need};
use crate::{Cred, FsError, Ino, Op, ROOT_INO, Reply, Result, Volume, mode};

/// Where repairs put what has lost its name.
const LOST_AND_FOUND: &[u8] = b"lost+found";

impl<L: Layout> Volume<L> {
    /// Gives an inode without names one, its number with a hash sign, in the directory
    /// `lost+found` of the root, which is made if need be.
    ///
    /// # Errors
    /// `NotFound` if the inode is free or hidden; otherwise if there is no space.
    pub async fn adopt(&self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino).await?;
        if inode.d.borrow().flags & HIDDEN != 0 {
            return Err(FsError::NotFound);
        }
        let dir = self.lost_and_found().await?;
        let name: crate::Name = format!("#{ino}").into_bytes().into();
        let _alone = dir.lock.write().await;
        if self.search(&dir, &name, &Cred::root()).await?.is_some() {
            return Err(FsError::Exists);
        }
        let _permit = self.admit_small(Need::Grow).await?;
        let kind = inode.d.borrow().kind();
        let is_dir = kind == mode::DIRECTORY;
        let up = if is_dir { self.find(&inode, b"..").await? } else { None };
        let _held = match &up {
            Some(hit) => self.hold_hit(&inode, hit).await?,
            None => Vec::new(),
        };
        let plan = self.plan_insert(&dir, &name).await?;
        self.layout.reserve(&self.core, self.insert_space(&dir, &plan))?;
        // From here on nothing waits.
        let now = self.core.now();
        self.insert(&dir, plan, &name, ino, kind);
        self.touch_dir(&dir, now, i64::from(is_dir));
        if let Some(hit) = &up {
            self.redirect(&inode, hit, dir.ino, mode::DIRECTORY)?;
        }
        {
            let mut d = inode.d.borrow_mut();
            d.nlink = if is_dir { d.nlink } else { 1 };
            d.ctime = now;
        }
        self.core.mark_inode_dirty(&inode);
        let change = Change::Names { inodes: &[&inode], added: &[&dir], removed: &[] };
        self.layout.settle(&self.core, change).await
    }

    async fn lost_and_found(&self) -> Result<Rc<Inode>> {
        let name: crate::Name = LOST_AND_FOUND.into();
        let root = self.directory(ROOT_INO).await?;
        if let Some(hit) = self.find(&root, &name).await? {
            return self.directory(hit.ino).await;
        }
        match self.op_make_dir(ROOT_INO, &name, 0o700, &Cred::root()).await? {
            Reply::Entry(entry) => {
                let ino = entry.attr.ino;
                let dir = self.directory(ino).await;
                let _ = self.op_forget(ino, 1).await;
                dir
            }
            _ => unreachable!("making a directory gives its entry: {:?}", Op::Sync),
        }
    }
}

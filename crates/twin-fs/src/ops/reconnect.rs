//! Giving a name to an inode that has lost all its names, for repairs.

use std::rc::Rc;

use super::Operations;
use crate::dinode::HIDDEN;
use crate::inodes::Inode;
use crate::layout::{Change, Need};
use crate::{Cred, FsError, Ino, Op, ROOT_INO, Reply, Result, mode};

/// The directory for inodes that have lost their names.
const LOST_AND_FOUND: &str = "lost+found";
/// The number of names to try: the name itself, then the name with a number appended.
const TRIES: u32 = 1000;

/// The names to try: `first`, then `first` with 1, 2 and so on appended.
fn names(first: &str) -> impl Iterator<Item = crate::Name> {
    let with = move |n: u32| if n == 0 { first.to_string() } else { format!("{first}.{n}") };
    (0..TRIES).map(move |n| with(n).into_bytes().into())
}

impl Operations {
    /// See [`Volume::reconnect`](crate::Volume::reconnect).
    pub(crate) async fn reconnect(&self, ino: Ino) -> Result<()> {
        let inode = self.files.inode(ino).await?;
        if inode.d.borrow().flags & HIDDEN != 0 {
            return Err(FsError::NotFound);
        }
        let dir = self.lost_and_found().await.map_err(|error| match error {
            FsError::NotFound => FsError::inconsistent("lost+found cannot be reached"),
            error => error,
        })?;
        let _alone = dir.lock.write().await;
        let mut free = None;
        for name in names(&format!("#{ino}")) {
            if self.search(&dir, &name, &Cred::root()).await?.is_none() {
                free = Some(name);
                break;
            }
        }
        let name = free.ok_or(FsError::Exists)?;
        let _admission = self.files.admit_small(Need::Grow).await?;
        let kind = inode.d.borrow().kind();
        let is_dir = kind == mode::DIRECTORY;
        let up = if is_dir { self.dirs.find(&inode, b"..").await? } else { None };
        let _held = match &up {
            Some(hit) => self.dirs.pin_hit(&inode, hit).await?,
            None => Vec::new(),
        };
        let plan = self.dirs.plan_insert(&dir, &name).await?;
        self.layout.reserve(&self.core, self.dirs.insert_space(&dir, &plan))?;
        // From here on nothing waits, so that the name, the `..` and the link counts change in one
        // step.
        let now = self.core.now();
        self.dirs.insert(&dir, plan, &name, ino, kind);
        self.dirs.touch_dir(&dir, now, i64::from(is_dir));
        if let Some(hit) = &up {
            self.dirs.redirect(&inode, hit, dir.ino, mode::DIRECTORY)?;
        }
        {
            let mut d = inode.d.borrow_mut();
            d.nlink = if is_dir { d.nlink } else { 1 };
            d.ctime = now;
        }
        self.core.mark_inode_dirty(&inode);
        let change = Change::Names { inodes: &[&inode], added: &[&dir], removed: &[] };
        self.layout.enforce_order(&self.core, change).await
    }

    async fn lost_and_found(&self) -> Result<Rc<Inode>> {
        let root = self.dirs.directory(ROOT_INO).await?;
        let mut free = None;
        for name in names(LOST_AND_FOUND) {
            match self.dirs.find(&root, &name).await? {
                None => {
                    free = Some(name);
                    break;
                }
                Some(hit) => match self.dirs.directory(hit.ino).await {
                    Err(FsError::NotDirectory) => {}
                    found => return found,
                },
            }
        }
        let name = free.ok_or(FsError::Exists)?;
        match self.op_make_dir(ROOT_INO, &name, 0o700, &Cred::root()).await? {
            Reply::Entry(entry) => {
                let ino = entry.attr.ino;
                let dir = self.dirs.directory(ino).await;
                let _ = self.op_forget(ino, 1).await;
                dir
            }
            _ => unreachable!("making a directory gives its entry: {:?}", Op::Sync),
        }
    }
}

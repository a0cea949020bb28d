//! Operations that make a name: create, mknod, mkdir, symlink, link.

use std::rc::Rc;

use super::Operations;
use super::acl::Birth;
use crate::dinode::{Dinode, INLINE};
use crate::inodes::Inode;
use crate::layout::{Change, InodeEvent, Need, Picked};
use crate::quota::QuotaUse;
use crate::{Cred, FsError, Ino, Name, Reply, Result, mode, perm};

/// The longest target of a symbolic link, in bytes: one less than Linux's `PATH_MAX`.
const LINK_TARGET_MAX: usize = 4095;

/// The properties of a new inode, apart from its owner.
struct NewNode<'a> {
    /// Type and permission bits, perhaps with a umask, or the error to report if the name itself could
    /// be made.
    mode: Result<u32>,
    rdev: u64,
    /// The target of a symbolic link; empty for other kinds.
    target: &'a [u8],
}

impl Operations {
    pub(crate) async fn op_make_node(
        &self,
        dir: Ino,
        name: &Name,
        mode: u32,
        rdev: u64,
        cred: &Cred,
    ) -> Result<Reply> {
        // Only devices have a number.
        let is_device = matches!(mode & mode::TYPE, mode::CHAR | mode::BLOCK);
        let kind = perm::may_make_node(cred, mode, rdev);
        let rdev = if is_device { rdev } else { 0 };
        let inode = self.make(dir, name, &NewNode { mode: kind, rdev, target: &[] }, cred).await?;
        Ok(Reply::Entry(self.entry(&inode)))
    }

    pub(crate) async fn op_make_dir(
        &self,
        dir: Ino,
        name: &Name,
        mode: u32,
        cred: &Cred,
    ) -> Result<Reply> {
        let mode = mode::typed(mode::DIRECTORY, mode);
        let inode =
            self.make(dir, name, &NewNode { mode: Ok(mode), rdev: 0, target: &[] }, cred).await?;
        Ok(Reply::Entry(self.entry(&inode)))
    }

    pub(crate) async fn op_symlink(
        &self,
        dir: Ino,
        name: &Name,
        target: &[u8],
        cred: &Cred,
    ) -> Result<Reply> {
        let longest = LINK_TARGET_MAX.min(self.core.geometry.block_size as usize);
        if target.is_empty() {
            return Err(FsError::NotFound);
        }
        if target.len() > longest {
            return Err(FsError::NameTooLong);
        }
        if target.contains(&0) {
            return Err(FsError::Invalid("a link's target has no zero byte"));
        }
        let new = NewNode { mode: Ok(mode::SYMLINK | 0o777), rdev: 0, target };
        let inode = self.make(dir, name, &new, cred).await?;
        Ok(Reply::Entry(self.entry(&inode)))
    }

    pub(crate) async fn op_create(
        &self,
        dir: Ino,
        name: &Name,
        mode: u32,
        exclusive: bool,
        cred: &Cred,
    ) -> Result<Reply> {
        let mode = mode::typed(mode::REGULAR, mode);
        let new = NewNode { mode: Ok(mode), rdev: 0, target: &[] };
        let inode = loop {
            match self.make(dir, name, &new, cred).await {
                Err(FsError::Exists) if !exclusive => {}
                made => break made?,
            }
            match self.lookup(dir, name, cred).await {
                // Another operation removed the name in between, so making it is tried again.
                Err(FsError::NotFound) => continue,
                Ok(found) if found.d.borrow().is_dir() => return Err(FsError::IsDirectory),
                Ok(found) => {
                    let attr = self.guarded(&found, cred).await?;
                    perm::may_open(&attr, cred, false, false, false)?;
                    break found;
                }
                Err(error) => return Err(error),
            }
        };
        self.core.change_refs(inode.ino, |refs| refs.opens += 1);
        Ok(Reply::Entry(self.entry(&inode)))
    }

    /// Makes the root directory of a new volume, with the number that was picked for it.
    pub(crate) fn make_root(&self, picked: Picked, mode: u32) -> Result<()> {
        let geometry = &self.core.geometry;
        let (ino, generation) = (picked.ino, picked.generation);
        let mode = mode::DIRECTORY | mode;
        let d = Dinode::new(geometry, ino, generation, mode, self.core.now());
        let inode = Inode::new(Dinode { nlink: 2, ..d });
        let unit = self.core.geometry.dir_unit() as u64;
        let space = self.core.features.new_inode_bytes + self.files.space_for(&inode, 0..1, unit);
        self.layout.reserve(&self.core, space)?;
        let inode = self.core.add_inode(inode);
        self.layout.inode_event(&self.core, InodeEvent::Created(&inode));
        let frame = self.files.frame_for_change(&inode, 0);
        let format = self.core.features.directories;
        frame.change(|b| format.init_first(&mut b.bytes_mut()[..unit as usize], ino, ino));
        self.files.dirty_data(&inode, &frame, unit);
        inode.d.borrow_mut().size = unit;
        self.core.mark_inode_dirty(&inode);
        Ok(())
    }

    /// Creates an inode and its name.
    async fn make(
        &self,
        dir: Ino,
        name: &Name,
        new: &NewNode<'_>,
        cred: &Cred,
    ) -> Result<Rc<Inode>> {
        let dir = self.dirs.directory(dir).await?;
        let _alone = dir.lock.write().await;
        self.check_new_name(&dir, name, cred).await?;
        let mode = new.mode.clone()?;
        if mode & mode::TYPE == mode::DIRECTORY
            && dir.d.borrow().nlink >= self.core.features.link_max
        {
            return Err(FsError::TooManyLinks);
        }
        let mut birth = self.birth(&dir, mode).await?;
        let _admission = match birth.needs_hidden_file() {
            false => self.files.admit_small(Need::Grow).await?,
            true => self.files.admit(2 * self.hidden_file_bytes(&birth.list), Need::Grow).await?,
        };
        let picked = self.layout.pick_inode(&self.core, dir.ino, birth.mode).await?;
        let result = match self.pick_for_list(&mut birth, dir.ino).await {
            Ok(()) => self.make_picked(&dir, name, new, &birth, cred, picked).await,
            Err(error) => Err(error),
        };
        let inode = result.inspect_err(|_| {
            for picked in birth.hidden.into_iter().chain([picked]) {
                self.layout.inode_event(&self.core, InodeEvent::Unpicked(picked));
            }
        })?;
        let hidden = birth.hidden.and_then(|picked| self.core.cached_inode(picked.ino));
        self.order_new_name(&dir, &inode, hidden.as_ref()).await?;
        Ok(inode)
    }

    /// Makes those parts of a new inode durable that the layout promises before the reply.
    async fn order_new_name(
        &self,
        dir: &Rc<Inode>,
        inode: &Rc<Inode>,
        hidden: Option<&Rc<Inode>>,
    ) -> Result<()> {
        let with_hidden;
        let both = [inode, dir];
        // A new directory's `..` is a name of its parent, whose link count has grown.
        let mut inodes = if inode.d.borrow().is_dir() { &both[..] } else { &both[..1] };
        if let Some(hidden) = hidden {
            with_hidden = [&[hidden], inodes].concat();
            inodes = &with_hidden;
        }
        let change = Change::Names { inodes, added: &[dir], removed: &[] };
        self.layout.enforce_order(&self.core, change).await
    }

    async fn make_picked(
        &self,
        dir: &Rc<Inode>,
        name: &Name,
        new: &NewNode<'_>,
        born: &Birth,
        cred: &Cred,
        picked: Picked,
    ) -> Result<Rc<Inode>> {
        let plan = self.dirs.plan_insert(dir, name).await?;
        // The directory may have been removed during the waits: `rmdir` does not lock it.
        if dir.d.borrow().nlink == 0 {
            return Err(FsError::NotFound);
        }
        // From here on nothing waits, so the inode and its name are made in one step.
        let now = self.core.now();
        let mode = born.mode;
        let is_dir = mode & mode::TYPE == mode::DIRECTORY;
        let birth = perm::initial_attrs(&dir.attr(), cred, mode);
        let geometry = &self.core.geometry;
        let mut d = Dinode::new(geometry, picked.ino, picked.generation, birth.mode, now);
        (d.uid, d.gid, d.rdev) = (birth.uid, birth.gid, new.rdev);
        d.nlink = if is_dir { 2 } else { 1 };
        let is_device = matches!(mode & mode::TYPE, mode::CHAR | mode::BLOCK);
        let quota = if is_device { 0 } else { self.core.quota_of(dir) };
        d.quota = quota;
        let (inode, hidden) = self.with_birth(d, born);
        let content = self.first_content(&inode, dir.ino, new.target);
        let own = match &content {
            Some(bytes) => self.files.space_for(&inode, 0..1, bytes.len() as u64),
            None => 0,
        };
        let growth = self.dirs.insert_space(dir, &plan);
        let (hidden_space, hidden_blocks) =
            hidden.as_ref().map_or((0, 0), |hidden| (hidden.space, hidden.block_bytes));
        let bytes = own + growth + hidden_blocks;
        self.core.quotas.check(quota, QuotaUse { bytes, files: 1 })?;
        let growth = growth + hidden_space;
        self.layout.reserve(&self.core, self.core.features.new_inode_bytes + own + growth)?;
        if let Some(hidden) = hidden {
            self.add_hidden_file(hidden);
        }
        let inode = self.core.add_inode(inode);
        self.core.quotas.count_inode(quota, QuotaUse { bytes: 0, files: 1 }, true);
        self.layout.inode_event(&self.core, InodeEvent::Created(&inode));
        if let Some(bytes) = content {
            let size = bytes.len() as u64;
            let frame = self.files.frame_for_change(&inode, 0);
            frame.change(|b| b.bytes_mut()[..bytes.len()].copy_from_slice(&bytes));
            self.files.dirty_data(&inode, &frame, size);
            inode.d.borrow_mut().size = size;
        }
        self.core.mark_inode_dirty(&inode);
        self.dirs.insert(dir, plan, name, inode.ino, mode & mode::TYPE);
        self.dirs.touch_dir(dir, now, i64::from(is_dir));
        Ok(inode)
    }

    /// The first block of a new directory, or of a symbolic link whose target does not fit its
    /// inode. A target that fits is stored in the inode here.
    fn first_content(&self, inode: &Inode, parent: Ino, target: &[u8]) -> Option<Vec<u8>> {
        let mut d = inode.d.borrow_mut();
        match d.kind() {
            mode::DIRECTORY => {
                let mut bytes = vec![0; self.core.geometry.dir_unit()];
                self.core.features.directories.init_first(&mut bytes, d.ino, parent);
                Some(bytes)
            }
            mode::SYMLINK if target.len() <= self.core.features.inline_link_bytes as usize => {
                d.inline = target.to_vec();
                d.size = target.len() as u64;
                d.flags |= INLINE;
                None
            }
            mode::SYMLINK => Some(target.to_vec()),
            _ => None,
        }
    }

    pub(crate) async fn op_link(
        &self,
        ino: Ino,
        dir: Ino,
        name: &Name,
        cred: &Cred,
    ) -> Result<Reply> {
        let inode = self.files.inode(ino).await?;
        let dir = self.dirs.directory(dir).await?;
        let _alone = dir.lock.write().await;
        self.check_new_name(&dir, name, cred).await?;
        perm::may_link(&dir.attr(), &inode.attr(), cred)?;
        if self.core.quota_of(&inode) != self.core.quota_of(&dir) {
            return Err(FsError::CrossDevice);
        }
        let _admission = self.files.admit_small(Need::Grow).await?;
        let plan = self.dirs.plan_insert(&dir, name).await?;
        let (nlink, kind) = {
            let d = inode.d.borrow();
            (d.nlink, d.kind())
        };
        if nlink == 0 || dir.d.borrow().nlink == 0 {
            return Err(FsError::NotFound);
        }
        if nlink >= self.core.features.link_max {
            return Err(FsError::TooManyLinks);
        }
        let space = self.dirs.insert_space(&dir, &plan);
        self.core.check_quota(&dir, space)?;
        self.layout.reserve(&self.core, space)?;
        let now = self.core.now();
        self.dirs.insert(&dir, plan, name, ino, kind);
        self.dirs.touch_dir(&dir, now, 0);
        {
            let mut d = inode.d.borrow_mut();
            d.nlink += 1;
            d.ctime = now;
        }
        self.core.mark_inode_dirty(&inode);
        // The attributes in the reply are those of this step: another client may change the inode
        // while the layout makes the change durable.
        let entry = self.entry(&inode);
        let change = Change::Names { inodes: &[&inode], added: &[&dir], removed: &[] };
        self.layout.enforce_order(&self.core, change).await?;
        Ok(Reply::Entry(entry))
    }

    /// Checks that a name can be made, and reports errors in the order of Linux.
    async fn check_new_name(&self, dir: &Rc<Inode>, name: &Name, cred: &Cred) -> Result<()> {
        if self.search(dir, name, cred).await?.is_some() {
            return Err(FsError::Exists);
        }
        perm::may_create(&dir.attr(), cred)
    }
}

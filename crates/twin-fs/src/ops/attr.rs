//! Operations on attributes and references: setattr, forget, readlink.

use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::{Bytes, Origin};

use super::Operations;
use crate::acl::ACCESS;
use crate::inodes::Inode;
use crate::layout::Need;
use crate::{Attr, Cred, FsError, Ino, Reply, Result, SetAttr, SetTime, mode, perm};

impl Operations {
    pub(crate) async fn op_forget(&self, ino: Ino, count: u64) -> Result<Reply> {
        self.core.change_refs(ino, |refs| refs.entries = refs.entries.saturating_sub(count));
        // The reference is dropped even if the inode cannot be freed because the device fails: the
        // layout has recorded the orphan, and the next mount frees it.
        let _ = self.orphans.reap(ino).await;
        Ok(Reply::Done)
    }

    pub(crate) async fn op_set_attr(
        &self,
        ino: Ino,
        set: &SetAttr,
        cred: &Cred,
        id: u64,
    ) -> Result<Reply> {
        let inode = self.files.inode(ino).await?;
        let nearest = |time| match time {
            SetTime::Now => SetTime::Now,
            SetTime::At(time) => SetTime::At(self.core.features.nearest_time(time)),
        };
        let (atime, mtime) = (set.atime.map(nearest), set.mtime.map(nearest));
        let ctime = set.ctime.map(|time| self.core.features.nearest_time(time));
        let set = &SetAttr { atime, mtime, ctime, ..set.clone() };
        loop {
            // With an access ACL the permission bits change under the lock, like other extended
            // attributes.
            if self.changes_acl(&inode, set) {
                return Box::pin(self.set_attr_with_acl(&inode, set, cred, id)).await;
            }
            let _alone = match set.size.filter(|_| inode.d.borrow().kind() == mode::REGULAR) {
                Some(_) => Some(inode.lock.write().await),
                None => None,
            };
            if let Some(reply) = self.set_attr_now(&inode, set, cred, id, false).await? {
                return Ok(reply);
            }
        }
    }

    /// True if a change of attributes changes an access ACL too. One that has not been read counts.
    fn changes_acl(&self, inode: &Inode, set: &SetAttr) -> bool {
        set.mode.is_some() && !inode.acls.borrow().access.is_none()
    }

    /// Changes attributes. Returns nothing if the inode has got an access ACL that would change,
    /// unless `with_acl`. The caller holds the lock of the inode for that, and to set a size.
    pub(super) async fn set_attr_now(
        &self,
        inode: &Rc<Inode>,
        set: &SetAttr,
        cred: &Cred,
        id: u64,
        with_acl: bool,
    ) -> Result<Option<Reply>> {
        let size = set.size.filter(|_| inode.d.borrow().kind() == mode::REGULAR);
        let attr = self.guarded(inode, cred).await?;
        if self.changes_acl(inode, set) && !with_acl {
            return Ok(None);
        }
        perm::set_attr(&attr, cred, set, self.core.now())?;
        // The rules are applied again when the change takes effect, because the attributes may have
        // changed during a wait. The reply shows that moment too, though blocks may still be freed
        // after it.
        let replied = RefCell::new(None);
        let effect = || {
            let attr = perm::set_attr(&inode.attr(), cred, set, self.core.now())?;
            self.keep_acl(inode, &attr.acl);
            self.core.set_attributes(inode, &attr);
            *replied.borrow_mut() = Some(inode.attr());
            Ok(())
        };
        match size {
            Some(size) => self.files.set_size(inode, size, id, &effect).await?,
            None => {
                let _admission = self.files.admit_small(Need::Shrink).await?;
                if self.changes_acl(inode, set) && !with_acl {
                    return Ok(None);
                }
                effect()?;
            }
        }
        let now = inode.attr();
        let attr = replied.into_inner().unwrap_or_else(|| now.clone());
        let size = size.unwrap_or(attr.size);
        Ok(Some(Reply::Attr(Attr { size, blocks: now.blocks, ..attr })))
    }

    /// A change of attributes, the permission bits among them, of an inode that may have an access
    /// ACL.
    pub(super) async fn set_attr_with_acl(
        &self,
        inode: &Rc<Inode>,
        set: &SetAttr,
        cred: &Cred,
        id: u64,
    ) -> Result<Reply> {
        let _alone = inode.lock.write().await;
        self.read_acls(inode).await?;
        let changed = |set| perm::set_attr(&inode.attr(), cred, set, self.core.now());
        changed(set)?;
        let rest = match inode.d.borrow().xattr_ino == 0 || inode.attr().acl.is_none() {
            true => set.clone(),
            // The ACL needs a new hidden file. A new size is a step of its own, as it may wait.
            false => SetAttr { size: set.size, ..SetAttr::default() },
        };
        if rest != *set {
            let first = SetAttr { size: None, ..set.clone() };
            let mut attributes = self.attributes(inode).await?;
            if let Some(acl) = changed(&first)?.acl.get() {
                attributes.insert(ACCESS.to_vec(), acl.encode());
            }
            let replied = RefCell::new(inode.attr());
            let effect = || {
                self.core.set_attributes(inode, &changed(&first)?);
                *replied.borrow_mut() = inode.attr();
                Ok(())
            };
            self.store_attributes(inode, &attributes, &effect).await?;
            if rest.size.is_none() {
                return Ok(Reply::Attr(replied.into_inner()));
            }
        }
        match self.set_attr_now(inode, &rest, cred, id, true).await? {
            Some(reply) => Ok(reply),
            None => Err(FsError::inconsistent("a change of attributes under its lock did nothing")),
        }
    }

    pub(crate) async fn op_read_link(&self, ino: Ino) -> Result<Reply> {
        let inode = self.files.inode(ino).await?;
        let (size, inline) = {
            let d = inode.d.borrow();
            if d.kind() != mode::SYMLINK {
                return Err(FsError::Invalid("not a symbolic link"));
            }
            (d.size as usize, d.is_inline().then(|| d.inline.clone()))
        };
        if let Some(target) = inline {
            return Ok(Reply::Bytes(target.into()));
        }
        let frame = self.core.block(&inode, 0, Origin::User).await?;
        let bytes = match &frame {
            Some(frame) => frame.block().to_bytes(),
            None => Bytes::copy_of(&[]),
        };
        match bytes.get(..size) {
            Some(target) => Ok(Reply::Bytes(target.into())),
            None => Err(FsError::inconsistent(format!("symbolic link {ino} has no target"))),
        }
    }
}

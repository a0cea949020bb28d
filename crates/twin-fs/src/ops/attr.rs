//! Operations on attributes and references: setattr, forget, readlink.

use std::cell::RefCell;

use twin_disk::{Bytes, Origin};

use super::Operations;
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
        let size = set.size.filter(|_| inode.d.borrow().kind() == mode::REGULAR);
        let _alone = match size {
            Some(_) => Some(inode.lock.write().await),
            None => None,
        };
        perm::set_attr(&inode.attr(), cred, set, self.core.now())?;
        // The rules are applied again when the change takes effect, because the attributes may have
        // changed during a wait. The reply shows that moment too, though blocks may still be freed
        // after it.
        let replied = RefCell::new(None);
        let effect = || {
            let attr = perm::set_attr(&inode.attr(), cred, set, self.core.now())?;
            self.core.set_attributes(&inode, &attr);
            *replied.borrow_mut() = Some(inode.attr());
            Ok(())
        };
        match size {
            Some(size) => self.files.set_size(&inode, size, id, &effect).await?,
            None => {
                let _admission = self.files.admit_small(Need::Shrink).await?;
                effect()?;
            }
        }
        let now = inode.attr();
        let attr = replied.into_inner().unwrap_or_else(|| now.clone());
        let size = size.unwrap_or(attr.size);
        Ok(Reply::Attr(Attr { size, blocks: now.blocks, ..attr }))
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

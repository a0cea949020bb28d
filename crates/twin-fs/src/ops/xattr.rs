//! The operations on extended attributes, ACLs among them.

use super::Operations;
use crate::acl::{Acl, Which};
use crate::file_type::{self, Profile};
use crate::inodes::Inode;
use crate::quota::{QUOTA_ATTRIBUTE, QUOTAS_ATTRIBUTE, TABLE_NAME};
use crate::xattr_list::Attributes;
use crate::{Attr, Cred, FsError, Ino, Name, Reply, Result, XattrMode, perm};

/// The longest value, in bytes (Linux's `XATTR_SIZE_MAX`).
const VALUE_MAX: usize = 65_536;

/// True for the names under which quotas are asked for.
fn is_quota(name: &[u8]) -> bool {
    name == QUOTA_ATTRIBUTE || name == QUOTAS_ATTRIBUTE
}

impl Operations {
    pub(crate) async fn op_get_xattr(&self, ino: Ino, name: &Name, cred: &Cred) -> Result<Reply> {
        self.core.features.need_attributes()?;
        if is_quota(name) {
            return Box::pin(self.get_quota(ino, name)).await;
        }
        let inode = self.files.inode(ino).await?;
        perm::may_xattr(&self.guarded(&inode, cred).await?, cred, name, false)?;
        let _shared = inode.lock.read().await;
        match self.attributes(&inode).await?.remove(&**name) {
            Some(value) => Ok(Reply::Bytes(value.into())),
            None => Err(FsError::NoAttribute),
        }
    }

    /// What the attributes of a file say about its type.
    pub(super) async fn profile(&self, inode: &Inode) -> Result<Profile> {
        let has_none = {
            let d = inode.d.borrow();
            d.xattrs.is_empty() && d.xattr_ino == 0
        };
        if has_none {
            return Ok(Profile::default());
        }
        let _shared = inode.lock.read().await;
        let attributes = self.attributes(inode).await?;
        Ok(Profile::of(inode.attr().kind(), &attributes))
    }

    pub(crate) async fn op_list_xattr(&self, ino: Ino, cred: &Cred) -> Result<Reply> {
        self.core.features.need_attributes()?;
        let inode = self.files.inode(ino).await?;
        let _shared = inode.lock.read().await;
        let mut names = Vec::new();
        for name in self.attributes(&inode).await?.into_keys() {
            if name != TABLE_NAME && perm::lists_xattr(cred, &name) {
                names.extend(name);
                names.push(0);
            }
        }
        Ok(Reply::Bytes(names.into()))
    }

    pub(crate) async fn op_set_xattr(
        &self,
        ino: Ino,
        name: &Name,
        value: &[u8],
        how: XattrMode,
        cred: &Cred,
    ) -> Result<Reply> {
        self.core.features.need_attributes()?;
        if is_quota(name) {
            return Box::pin(self.set_quota(ino, name, value, how, cred)).await;
        }
        let inode = self.files.inode(ino).await?;
        if value.len() > VALUE_MAX {
            return Err(FsError::AttributesTooBig);
        }
        if let Some(which) = Which::named(name) {
            return Box::pin(self.change_acl(ino, which, Acl::parse(value)?, cred)).await;
        }
        perm::may_xattr(&self.guarded(&inode, cred).await?, cred, name, true)?;
        file_type::check_attribute(inode.attr().kind(), name, value)?;
        let _alone = inode.lock.write().await;
        let mut attributes = self.attributes(&inode).await?;
        match (attributes.contains_key(&**name), how) {
            (true, XattrMode::Create) => return Err(FsError::Exists),
            (false, XattrMode::Replace) => return Err(FsError::NoAttribute),
            _ => {}
        }
        attributes.insert(name.to_vec(), value.to_vec());
        self.store_attributes(&inode, &attributes, &|| self.note_xattr(&inode)).await?;
        self.heed(&inode, name, &attributes);
        Ok(Reply::Done)
    }

    pub(crate) async fn op_remove_xattr(
        &self,
        ino: Ino,
        name: &Name,
        cred: &Cred,
    ) -> Result<Reply> {
        self.core.features.need_attributes()?;
        if is_quota(name) {
            return Box::pin(self.remove_quota(ino, name, cred)).await;
        }
        let inode = self.files.inode(ino).await?;
        if let Some(which) = Which::named(name) {
            return Box::pin(self.change_acl(ino, which, None, cred)).await;
        }
        perm::may_xattr(&self.guarded(&inode, cred).await?, cred, name, true)?;
        let _alone = inode.lock.write().await;
        let mut attributes = self.attributes(&inode).await?;
        if attributes.remove(&**name).is_none() {
            return Err(FsError::NoAttribute);
        }
        self.store_attributes(&inode, &attributes, &|| self.note_xattr(&inode)).await?;
        self.heed(&inode, name, &attributes);
        Ok(Reply::Done)
    }

    /// An attribute of this name has changed. What it says of streams counts from the next open on.
    fn heed(&self, inode: &Inode, name: &[u8], attributes: &Attributes) {
        if self.core.settings.file_types && file_type::is_ours(name) {
            let profile = Profile::of(inode.attr().kind(), attributes);
            self.core.set_replacement(inode, &profile);
        }
    }

    /// Notes when an extended attribute changes.
    fn note_xattr(&self, inode: &Inode) -> Result<()> {
        inode.d.borrow_mut().ctime = self.core.now();
        Ok(())
    }

    /// Sets an ACL, or removes it. Like Linux it does not ask whether there was one.
    pub(super) async fn change_acl(
        &self,
        ino: Ino,
        which: Which,
        new: Option<Acl>,
        cred: &Cred,
    ) -> Result<Reply> {
        let inode = self.files.inode(ino).await?;
        if !perm::may_set_acl(&inode.attr(), cred, which, new.as_ref())? {
            return Ok(Reply::Done);
        }
        let _alone = inode.lock.write().await;
        let mut attributes = self.attributes(&inode).await?;
        let name = which.name();
        // What a mode can say is left to the mode.
        let stored = new.as_ref().filter(|acl| which == Which::Default || !acl.is_mode());
        let old = match stored {
            Some(acl) => attributes.insert(name.to_vec(), acl.encode()),
            None => attributes.remove(name),
        };
        if new.is_none() && old.is_none() {
            return Ok(Reply::Done);
        }
        let effect = || {
            perm::may_set_acl(&inode.attr(), cred, which, new.as_ref())?;
            let (attr, now) = (inode.attr(), self.core.now());
            let attr = match which {
                Which::Access => perm::with_access_acl(&attr, cred, new.as_ref(), now),
                Which::Default => Attr { ctime: now, ..attr },
            };
            self.core.set_attributes(&inode, &attr);
            Ok(())
        };
        self.store_attributes(&inode, &attributes, &effect).await?;
        Ok(Reply::Done)
    }
}

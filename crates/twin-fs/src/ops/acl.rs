//! ACLs of inodes: reading them where a rule needs them, and what a new inode inherits.
//!
//! Contract: [`perm`] and [`acl`](crate::acl) decide. An access ACL and the permission bits say the
//! same, so whatever changes one of them changes the other in the same step. While an inode has an
//! access ACL its permission bits change under its lock, as its extended attributes do.

use std::rc::Rc;

use super::Operations;
use super::xattr_store::HiddenFile;
use crate::acl::{ACCESS, AccessAcl, Acls, inherit};
use crate::dinode::{Dinode, XATTR_INLINE_MAX};
use crate::inodes::Inode;
use crate::layout::Picked;
use crate::xattr_list::{self, encode};
use crate::{Attr, Cred, FsError, Ino, Result, perm};

/// What an inode that is being made gets of the ACLs of its directory.
pub(super) struct Birth {
    /// Type and permission bits.
    pub(super) mode: u32,
    /// The list of its extended attributes.
    pub(super) list: Vec<u8>,
    /// The number of the hidden file for a list that does not fit the inode.
    pub(super) hidden: Option<Picked>,
}

impl Operations {
    /// The attributes of an inode for the rules, with its ACL if they need it.
    pub(super) async fn guarded(&self, inode: &Inode, cred: &Cred) -> Result<Attr> {
        let unread = inode.acls.borrow().access.is_unread();
        if unread && perm::needs_acl(&inode.attr(), cred) {
            self.read_acls(inode).await?;
        }
        Ok(inode.attr())
    }

    /// Reads the ACLs of an inode if they have not been read. Nobody needs its lock for that: who
    /// changes the attributes meanwhile leaves the new ACLs in the inode.
    pub(super) async fn read_acls(&self, inode: &Inode) -> Result<()> {
        let unread = || inode.acls.borrow().access.is_unread();
        if !unread() {
            return Ok(());
        }
        // Few inodes have a hidden file, so its share of the future is boxed.
        let list = Box::pin(self.attribute_list(inode)).await;
        if unread() {
            let acls = Acls::of(&list?).ok_or_else(|| {
                FsError::inconsistent(format!("the ACLs of inode {} make no sense", inode.ino))
            })?;
            *inode.acls.borrow_mut() = acls;
        }
        Ok(())
    }

    /// Stores the ACL of these attributes, in which only permissions have changed, in an inode that
    /// has its extended attributes itself. It does not wait.
    pub(super) fn keep_acl(&self, inode: &Inode, acl: &AccessAcl) {
        let same = inode.acls.borrow().access.get() == acl.get();
        let (false, Some(new)) = (same, acl.get()) else { return };
        let mut d = inode.d.borrow_mut();
        // The value has its old length, so it still fits.
        if let Some(mut attributes) = xattr_list::decode(&d.xattrs).filter(|_| d.xattr_ino == 0) {
            attributes.insert(ACCESS.to_vec(), new.encode());
            d.xattrs = encode(&attributes);
            inode.acls.borrow_mut().access = acl.clone();
        }
    }

    /// What an inode with this mode inherits in a directory, whose lock the caller holds.
    pub(super) async fn birth(&self, dir: &Inode, wanted: u32) -> Result<Birth> {
        self.read_acls(dir).await?;
        let inherited = inherit(dir.acls.borrow().default.as_ref(), wanted);
        let list = encode(&inherited.attributes());
        Ok(Birth { mode: inherited.mode, list, hidden: None })
    }

    /// The inode with a number that was picked for it, and its hidden file if it needs one, neither of
    /// them in the table yet.
    pub(super) fn with_birth(
        &self,
        mut d: Dinode,
        birth: &Birth,
    ) -> (Rc<Inode>, Option<HiddenFile>) {
        let hidden = birth.hidden.map(|picked| self.hidden_file(picked, &birth.list, d.quota));
        match &hidden {
            Some(file) => d.xattr_ino = file.ino(),
            None => d.xattrs.clone_from(&birth.list),
        }
        let inode = Inode::new(d);
        if let (Some(_), Some(acls)) = (&hidden, Acls::of(&birth.list)) {
            *inode.acls.borrow_mut() = acls;
        }
        (inode, hidden)
    }

    /// Picks a number for the hidden file of a new inode, if it needs one.
    pub(super) async fn pick_for_list(&self, birth: &mut Birth, near: Ino) -> Result<()> {
        if birth.needs_hidden_file() {
            birth.hidden = Some(self.layout.pick_inode(&self.core, near, 0).await?);
        }
        Ok(())
    }
}

impl Birth {
    /// True if the list needs a hidden file.
    pub(super) fn needs_hidden_file(&self) -> bool {
        self.list.len() > XATTR_INLINE_MAX
    }
}

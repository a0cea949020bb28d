//! The operations on attributes, plain and extended, and on holders of inodes.

use super::{Body, Call, ModelFs};
use twin_fs::acl::{self, Acl, Which};
use twin_fs::{FsError, Ino, Name, Reply, Result, SetAttr, XattrMode, mode, perm};

impl ModelFs {
    pub(super) fn set_attr(&mut self, call: &Call<'_>, ino: Ino, set: &SetAttr) -> Result<Reply> {
        let old = &self.inode(ino)?.attr;
        let new = perm::set_attr(old, &call.request.cred, set, call.now)?;
        if new.size > self.settings.file_size_max {
            return Err(FsError::FileTooBig);
        }
        if set.size.is_some() {
            self.set_size(call, ino, new.size);
        }
        let blocks = self.inodes[&ino].attr.blocks;
        let inode = self.edit(ino);
        if let Some(acl) = new.acl.get() {
            inode.xattrs.insert(acl::ACCESS.into(), acl.encode().into());
        }
        inode.attr = twin_fs::Attr { blocks, ..new };
        Ok(Reply::Attr(inode.attr.clone()))
    }

    pub(super) fn access(&self, call: &Call<'_>, ino: Ino, mask: u32) -> Result<Reply> {
        let allowed = perm::allows(&self.inode(ino)?.attr, &call.request.cred, mask & 7);
        if allowed { Ok(Reply::Done) } else { Err(FsError::Access) }
    }

    pub(super) fn open(
        &mut self,
        call: &Call<'_>,
        ino: Ino,
        read: bool,
        write: bool,
        truncate: bool,
    ) -> Result<Reply> {
        let attr = &self.inode(ino)?.attr;
        perm::may_open(attr, &call.request.cred, read, write, truncate)?;
        // Devices and FIFOs cannot be truncated, so O_TRUNC does nothing there.
        if truncate && attr.kind() == mode::REGULAR {
            self.set_size(call, ino, 0);
            perm::after_write(&mut self.edit(ino).attr, &call.request.cred, call.now);
        }
        self.edit(ino).opens += 1;
        Ok(Reply::Done)
    }

    pub(super) fn release(&mut self, ino: Ino) -> Result<Reply> {
        if self.inode(ino)?.opens == 0 {
            return Err(FsError::Invalid("released more often than opened"));
        }
        self.edit(ino).opens -= 1;
        self.drop_if_dead(ino);
        Ok(Reply::Done)
    }

    pub(super) fn set_xattr(
        &mut self,
        call: &Call<'_>,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
    ) -> Result<Reply> {
        let inode = self.inode(ino)?;
        if value.len() > self.settings.xattr_value_max {
            return Err(FsError::AttributesTooBig);
        }
        if let Some(which) = Which::named(name) {
            return self.change_acl(call, ino, which, Acl::parse(value)?);
        }
        perm::may_xattr(&inode.attr, &call.request.cred, name, true)?;
        let old = inode.xattrs.get(name);
        match (how, old) {
            (XattrMode::Create, Some(_)) => return Err(FsError::Exists),
            (XattrMode::Replace, None) => return Err(FsError::NoAttribute),
            _ => {}
        }
        self.check_room(ino, name, value.len())?;
        let inode = self.edit(ino);
        inode.xattrs.insert(name.into(), value.into());
        inode.attr.ctime = call.now;
        Ok(Reply::Done)
    }

    /// Checks that an attribute fits beside the others.
    fn check_room(&self, ino: Ino, name: &[u8], value_len: usize) -> Result<()> {
        let others = self.inode(ino)?.xattrs.iter().filter(|(other, _)| ***other != *name);
        let total: usize = others.map(|(other, value)| other.len() + value.len()).sum();
        match total + name.len() + value_len > self.settings.xattr_total_max {
            true => Err(FsError::AttributesTooBig),
            false => Ok(()),
        }
    }

    /// Sets an ACL or removes it, whether or not there was one.
    fn change_acl(
        &mut self,
        call: &Call<'_>,
        ino: Ino,
        which: Which,
        new: Option<Acl>,
    ) -> Result<Reply> {
        let inode = self.inode(ino)?;
        if !perm::may_set_acl(&inode.attr, &call.request.cred, which, new.as_ref())? {
            return Ok(Reply::Done);
        }
        if new.is_none() && !inode.xattrs.contains_key(which.name()) {
            return Ok(Reply::Done);
        }
        let stored = new.as_ref().filter(|acl| which == Which::Default || !acl.is_mode());
        if let Some(acl) = stored {
            self.check_room(ino, which.name(), acl.encode().len())?;
        }
        let inode = self.edit(ino);
        match stored {
            Some(acl) => inode.xattrs.insert(which.name().into(), acl.encode().into()),
            None => inode.xattrs.remove(which.name()),
        };
        if which == Which::Access {
            let cred = &call.request.cred;
            inode.attr = perm::with_access_acl(&inode.attr, cred, new.as_ref(), call.now);
        }
        inode.attr.ctime = call.now;
        Ok(Reply::Done)
    }

    pub(super) fn get_xattr(&self, call: &Call<'_>, ino: Ino, name: &[u8]) -> Result<Reply> {
        let inode = self.inode(ino)?;
        perm::may_xattr(&inode.attr, &call.request.cred, name, false)?;
        inode.xattrs.get(name).cloned().map(Reply::Bytes).ok_or(FsError::NoAttribute)
    }

    pub(super) fn list_xattr(&self, call: &Call<'_>, ino: Ino) -> Result<Reply> {
        let names = self.inode(ino)?.xattrs.keys();
        let shown = names.filter(|name| perm::lists_xattr(&call.request.cred, name));
        let terminated = |name: &Name| name.iter().copied().chain([0]).collect::<Vec<u8>>();
        Ok(Reply::Bytes(shown.flat_map(terminated).collect()))
    }

    pub(super) fn remove_xattr(&mut self, call: &Call<'_>, ino: Ino, name: &[u8]) -> Result<Reply> {
        let inode = self.inode(ino)?;
        if let Some(which) = Which::named(name) {
            return self.change_acl(call, ino, which, None);
        }
        perm::may_xattr(&inode.attr, &call.request.cred, name, true)?;
        if !inode.xattrs.contains_key(name) {
            return Err(FsError::NoAttribute);
        }
        let inode = self.edit(ino);
        inode.xattrs.remove(name);
        inode.attr.ctime = call.now;
        Ok(Reply::Done)
    }

    /// Cuts or extends a file's content, without touching times.
    fn set_size(&mut self, call: &Call<'_>, ino: Ino, size: u64) {
        let grain = self.grain(call, ino);
        let inode = self.edit(ino);
        if let Body::File(content) = &mut inode.body {
            content.set_size(&grain, inode.attr.size, size);
            inode.attr.size = size;
            inode.attr.blocks = content.sectors(&grain);
        }
    }
}

//! Extended attributes: all of an inode's attributes are in the inode if they fit there, otherwise
//! all are in a hidden file.
//!
//! Both places hold the same list: for each attribute the length of its name (u16), the length of
//! its value (u32), the name, the value. In a hidden file the length of the list (u32) comes first.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, Bytes, Origin};

use super::Operations;
use crate::dinode::{Dinode, HIDDEN, XATTR_INLINE_MAX};
use crate::file_type::{self, Profile};
use crate::inodes::Inode;
use crate::layout::{InodeEvent, Need};
use crate::{Cred, FsError, Ino, Name, Reply, Result, XattrMode, perm};

/// The longest value, in bytes (Linux's `XATTR_SIZE_MAX`).
const VALUE_MAX: usize = 65_536;
/// The most bytes of all attributes of an inode together, names and values.
const TOTAL_MAX: usize = 256 * 1024;

type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

fn encode(attributes: &Attributes) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in attributes {
        out.extend((name.len() as u16).to_le_bytes());
        out.extend((value.len() as u32).to_le_bytes());
        out.extend(name);
        out.extend(value);
    }
    out
}

fn decode(mut raw: &[u8]) -> Option<Attributes> {
    let mut out = Attributes::new();
    while !raw.is_empty() {
        let (head, rest) = raw.split_at_checked(6)?;
        let name_len = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let value_len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (name, rest) = rest.split_at_checked(name_len)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        out.insert(name.to_vec(), value.to_vec());
        raw = rest;
    }
    Some(out)
}

impl Operations {
    /// All attributes of an inode. The caller holds its lock.
    async fn attributes(&self, inode: &Inode) -> Result<Attributes> {
        let (inline, hidden) = {
            let d = inode.d.borrow();
            (d.xattrs.clone(), d.xattr_ino)
        };
        let raw = if hidden == 0 { inline } else { self.hidden_attributes(hidden).await? };
        decode(&raw).ok_or_else(|| {
            FsError::inconsistent(format!(
                "the extended attributes of inode {} cannot be decoded",
                inode.ino
            ))
        })
    }

    async fn hidden_attributes(&self, hidden: Ino) -> Result<Vec<u8>> {
        let file = self.files.any_inode(hidden).await?;
        let size = file.d.borrow().size;
        if size > TOTAL_MAX as u64 + 4 {
            return Err(FsError::inconsistent(format!("attribute file {hidden} is too long")));
        }
        let blocks = self.core.geometry.blocks_for(size);
        let mut raw = Vec::new();
        for lbn in 0..blocks {
            if let Some(frame) = self.core.block(&file, lbn as Lbn, Origin::User).await? {
                raw.extend_from_slice(&frame.block().to_bytes());
            }
        }
        let len = raw.first_chunk::<4>().map_or(0, |n| u32::from_le_bytes(*n) as usize);
        match raw.get(4..4 + len) {
            Some(list) => Ok(list.to_vec()),
            None => Err(FsError::inconsistent(format!("attribute file {hidden} is too short"))),
        }
    }

    pub(crate) async fn op_get_xattr(&self, ino: Ino, name: &Name, cred: &Cred) -> Result<Reply> {
        self.core.features.need_attributes()?;
        let inode = self.files.inode(ino).await?;
        perm::may_xattr(&inode.attr(), cred, name, false)?;
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
            if perm::lists_xattr(cred, &name) {
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
        let inode = self.files.inode(ino).await?;
        if value.len() > VALUE_MAX {
            return Err(FsError::AttributesTooBig);
        }
        perm::may_xattr(&inode.attr(), cred, name, true)?;
        file_type::check_attribute(inode.attr().kind(), name, value)?;
        let _alone = inode.lock.write().await;
        let mut attributes = self.attributes(&inode).await?;
        match (attributes.contains_key(&**name), how) {
            (true, XattrMode::Create) => return Err(FsError::Exists),
            (false, XattrMode::Replace) => return Err(FsError::NoAttribute),
            _ => {}
        }
        attributes.insert(name.to_vec(), value.to_vec());
        self.store_attributes(&inode, &attributes).await?;
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
        let inode = self.files.inode(ino).await?;
        perm::may_xattr(&inode.attr(), cred, name, true)?;
        let _alone = inode.lock.write().await;
        let mut attributes = self.attributes(&inode).await?;
        if attributes.remove(&**name).is_none() {
            return Err(FsError::NoAttribute);
        }
        self.store_attributes(&inode, &attributes).await?;
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

    /// Stores the attributes of an inode in the place where they fit. A hidden file is never
    /// overwritten: a new one replaces it in one step, so a crash leaves the old or the new list.
    async fn store_attributes(&self, inode: &Rc<Inode>, attributes: &Attributes) -> Result<()> {
        let total: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        if total > TOTAL_MAX {
            return Err(FsError::AttributesTooBig);
        }
        let raw = encode(attributes);
        let old = match inode.d.borrow().xattr_ino {
            0 => None,
            old => Some(old),
        };
        let old = match old {
            Some(old) => Some(self.files.any_inode(old).await?),
            None => None,
        };
        if raw.len() <= XATTR_INLINE_MAX {
            let _admission = self.files.admit_small(Need::Shrink).await?;
            let mut d = inode.d.borrow_mut();
            (d.xattrs, d.xattr_ino) = (raw, 0);
        } else {
            let hidden = self.new_hidden_file(inode.ino, &raw).await?;
            let mut d = inode.d.borrow_mut();
            (d.xattrs, d.xattr_ino) = (Vec::new(), hidden);
        }
        inode.d.borrow_mut().ctime = self.core.now();
        self.core.mark_inode_dirty(inode);
        self.core.note_change();
        if let Some(old) = old {
            self.orphans.free_hidden(&old).await?;
        }
        Ok(())
    }

    /// Makes a hidden file with this list. Nothing waits from the moment when the file exists to
    /// the return, so the caller can put its number into the inode in the same step.
    async fn new_hidden_file(&self, near: Ino, list: &[u8]) -> Result<Ino> {
        let geometry = &self.core.geometry;
        let block = geometry.block_size as usize;
        let mut content = (list.len() as u32).to_le_bytes().to_vec();
        content.extend_from_slice(list);
        let size = content.len() as u64;
        let bytes = size + 4 * block as u64;
        let _admission = self.files.admit(bytes, Need::Grow).await?;
        let picked = self.layout.pick_inode(&self.core, near, 0).await?;
        let now = self.core.now();
        let d = Dinode::new(geometry, picked.ino, picked.generation, 0, now);
        let file = Inode::new(Dinode { flags: HIDDEN, nlink: 1, ..d });
        let blocks = geometry.blocks_for(size);
        let space =
            self.core.features.new_inode_bytes + self.files.space_for(&file, 0..blocks, size);
        if let Err(error) = self.layout.reserve(&self.core, space) {
            self.layout.inode_event(&self.core, InodeEvent::Unpicked(picked));
            return Err(error);
        }
        let file = self.core.add_inode(file);
        self.layout.inode_event(&self.core, InodeEvent::Created(&file));
        content.resize((blocks as usize) * block, 0);
        for (lbn, part) in content.chunks(block).enumerate() {
            let frame = self.files.frame_for_change(&file, lbn as u64);
            frame.change(|b| *b = Block::Bytes(Bytes::copy_of(part)));
            self.files.dirty_data(&file, &frame, size);
        }
        file.d.borrow_mut().size = size;
        self.core.mark_inode_dirty(&file);
        Ok(file.ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_its_encoding() {
        let mut attributes = Attributes::new();
        attributes.insert(b"user.a".to_vec(), b"1".to_vec());
        attributes.insert(b"user.empty".to_vec(), Vec::new());
        assert_eq!(decode(&encode(&attributes)), Some(attributes));
    }

    #[test]
    fn a_cut_list_is_refused() {
        let mut attributes = Attributes::new();
        attributes.insert(b"user.a".to_vec(), b"value".to_vec());
        let raw = encode(&attributes);
        for len in 1..raw.len() {
            assert_eq!(decode(&raw[..len]), None, "{len} bytes");
        }
    }
}

//! Where the extended attributes of an inode are: in the inode if all of them fit there, otherwise all
//! in a hidden file. Both places hold the same list ([`xattr_list`](crate::xattr_list)).
//!
//! Contract: a hidden file is never overwritten. A new one replaces it in the step that changes the
//! inode, so a crash leaves the old list or the new one.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, Bytes, Origin};

use super::Operations;
use crate::acl::Acls;
use crate::data::Effect;
use crate::dinode::{Dinode, HIDDEN, XATTR_INLINE_MAX};
use crate::inodes::Inode;
use crate::layout::{InodeEvent, Need, Picked};
use crate::quota::QuotaId;
use crate::xattr_list::{Attributes, decode, encode};
use crate::{FsError, Ino, Result};

/// The most bytes of all attributes of an inode together, names and values.
const TOTAL_MAX: usize = 256 * 1024;

impl Operations {
    /// The list of an inode's attributes.
    pub(super) async fn attribute_list(&self, inode: &Inode) -> Result<Vec<u8>> {
        let (inline, hidden) = {
            let d = inode.d.borrow();
            (d.xattrs.clone(), d.xattr_ino)
        };
        if hidden == 0 { Ok(inline) } else { self.hidden_attributes(hidden).await }
    }

    /// All attributes of an inode. The caller holds its lock.
    pub(super) async fn attributes(&self, inode: &Inode) -> Result<Attributes> {
        decode(&self.attribute_list(inode).await?).ok_or_else(|| {
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

    /// Stores the attributes of an inode in the place where they fit. A hidden file is never
    /// overwritten: a new one replaces it in one step, so a crash leaves the old or the new list.
    /// `effect` changes the time, and what else belongs to the change; if it fails, nothing has changed.
    pub(super) async fn store_attributes(
        &self,
        inode: &Rc<Inode>,
        attributes: &Attributes,
        effect: Effect<'_>,
    ) -> Result<()> {
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
            effect()?;
            let acls = Acls::of(&raw);
            let mut d = inode.d.borrow_mut();
            (d.xattrs, d.xattr_ino) = (raw, 0);
            *inode.acls.borrow_mut() = acls.unwrap_or_else(Acls::unread);
        } else {
            let hidden = self.new_hidden_file(inode, &raw).await?;
            if let Err(error) = effect() {
                self.orphans.free_hidden(&hidden).await?;
                return Err(error);
            }
            let mut d = inode.d.borrow_mut();
            (d.xattrs, d.xattr_ino) = (Vec::new(), hidden.ino);
            *inode.acls.borrow_mut() = Acls::of(&raw).unwrap_or_else(Acls::unread);
        }
        self.core.mark_inode_dirty(inode);
        self.core.note_change();
        if let Some(old) = old {
            self.orphans.free_hidden(&old).await?;
        }
        Ok(())
    }

    /// Makes a hidden file with this list. Nothing waits from the moment when the file exists to
    /// the return, so the caller can put its number into the inode in the same step.
    async fn new_hidden_file(&self, owner: &Inode, list: &[u8]) -> Result<Rc<Inode>> {
        let _admission = self.files.admit(self.hidden_file_bytes(list), Need::Grow).await?;
        let picked = self.layout.pick_inode(&self.core, owner.ino, 0).await?;
        let file = self.hidden_file(picked, list, self.core.quota_of(owner));
        let room = self.core.check_quota(&file.inode, file.block_bytes);
        if let Err(error) = room.and_then(|()| self.layout.reserve(&self.core, file.space)) {
            self.layout.inode_event(&self.core, InodeEvent::Unpicked(picked));
            return Err(error);
        }
        Ok(self.add_hidden_file(file))
    }

    /// The bytes that making a hidden file with this list may make dirty.
    pub(super) fn hidden_file_bytes(&self, list: &[u8]) -> u64 {
        list.len() as u64 + 4 + 4 * u64::from(self.core.geometry.block_size)
    }

    /// A hidden file with this list, under a number that was picked for it, which counts for this quota.
    pub(super) fn hidden_file(&self, picked: Picked, list: &[u8], quota: QuotaId) -> HiddenFile {
        let geometry = &self.core.geometry;
        let mut content = (list.len() as u32).to_le_bytes().to_vec();
        content.extend_from_slice(list);
        let size = content.len() as u64;
        let now = self.core.now();
        let d = Dinode::new(geometry, picked.ino, picked.generation, 0, now);
        let inode = Inode::new(Dinode { flags: HIDDEN, nlink: 1, quota, ..d });
        let blocks = geometry.blocks_for(size);
        let block_bytes = self.files.space_for(&inode, 0..blocks, size);
        let space = self.core.features.new_inode_bytes + block_bytes;
        HiddenFile { inode, content, space, block_bytes }
    }

    /// Makes a hidden file, whose space is reserved. It does not wait.
    pub(super) fn add_hidden_file(&self, file: HiddenFile) -> Rc<Inode> {
        let HiddenFile { inode, mut content, .. } = file;
        let size = content.len() as u64;
        let block = self.core.geometry.block_size as usize;
        let blocks = self.core.geometry.blocks_for(size);
        let file = self.core.add_inode(inode);
        self.layout.inode_event(&self.core, InodeEvent::Created(&file));
        content.resize((blocks as usize) * block, 0);
        for (lbn, part) in content.chunks(block).enumerate() {
            let frame = self.files.frame_for_change(&file, lbn as u64);
            frame.change(|b| *b = Block::Bytes(Bytes::copy_of(part)));
            self.files.dirty_data(&file, &frame, size);
        }
        file.d.borrow_mut().size = size;
        self.core.mark_inode_dirty(&file);
        file
    }
}

/// A hidden file that is not in the table yet.
pub(super) struct HiddenFile {
    inode: Rc<Inode>,
    content: Vec<u8>,
    /// The space to reserve for it, in bytes.
    pub(super) space: u64,
    /// Of these, the bytes of its blocks.
    pub(super) block_bytes: u64,
}

impl HiddenFile {
    pub(super) fn ino(&self) -> Ino {
        self.inode.ino
    }
}

//! Where the extended attributes of an inode are: in the inode if all fit there, otherwise in a hidden file.
//!
//! Both places hold the same [list](crate::attribute_list). In a hidden file the length of the list (u32) comes
//! first.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, Bytes, Origin};

use super::Operations;
use crate::attribute_list::{Attributes, decode, encode};
use crate::dinode::{Dinode, HIDDEN, XATTR_INLINE_MAX};
use crate::inodes::Inode;
use crate::layout::{InodeEvent, Need};
use crate::{FsError, Ino, Result, Timestamp};

/// The most bytes of all attributes of an inode together, names and values.
const TOTAL_MAX: usize = 256 * 1024;

impl Operations {
    /// All attributes of an inode. The caller holds its lock.
    pub(super) async fn attributes(&self, inode: &Inode) -> Result<Attributes> {
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

    /// Stores the attributes of an inode in the place where they fit. A hidden file is never
    /// overwritten: a new one replaces it in one step, so a crash leaves the old or the new list.
    pub(super) async fn store_attributes(
        &self,
        inode: &Rc<Inode>,
        attributes: &Attributes,
    ) -> Result<()> {
        self.store_list(inode, attributes, Some(self.core.now())).await
    }

    /// As [`store_attributes`](Self::store_attributes), with the time of the change, if clients shall see
    /// that something has changed.
    pub(super) async fn store_list(
        &self,
        inode: &Rc<Inode>,
        attributes: &Attributes,
        changed: Option<Timestamp>,
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
            let mut d = inode.d.borrow_mut();
            (d.xattrs, d.xattr_ino) = (raw, 0);
        } else {
            let hidden = self.new_hidden_file(inode, &raw).await?;
            let mut d = inode.d.borrow_mut();
            (d.xattrs, d.xattr_ino) = (Vec::new(), hidden);
        }
        if let Some(now) = changed {
            inode.d.borrow_mut().ctime = now;
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
    async fn new_hidden_file(&self, owner: &Inode, list: &[u8]) -> Result<Ino> {
        let geometry = &self.core.geometry;
        let block = geometry.block_size as usize;
        let mut content = (list.len() as u32).to_le_bytes().to_vec();
        content.extend_from_slice(list);
        let size = content.len() as u64;
        let bytes = size + 4 * block as u64;
        let _admission = self.files.admit(bytes, Need::Grow).await?;
        let picked = self.layout.pick_inode(&self.core, owner.ino, 0).await?;
        let now = self.core.now();
        let d = Dinode::new(geometry, picked.ino, picked.generation, 0, now);
        let quota = self.core.quota_of(owner);
        let file = Inode::new(Dinode { flags: HIDDEN, nlink: 1, quota, ..d });
        let blocks = geometry.blocks_for(size);
        let content_space = self.files.space_for(&file, 0..blocks, size);
        let space = self.core.features.new_inode_bytes + content_space;
        let room = self.core.check_quota(&file, content_space);
        if let Err(error) = room.and_then(|()| self.layout.reserve(&self.core, space)) {
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

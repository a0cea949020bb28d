//! Checks extended attributes, in the inode and in hidden files, and finds the owners of hidden
//! files.

use twin_disk::Bytes;
use twin_fs::acl::{Acl, Which};
use twin_fs::dinode::{Dinode, HIDDEN};
use twin_fs::dir::XATTR_VALUE_MAX;
use twin_fs::xattr_list::{Attributes, decode};
use twin_fs::{FsError, Ino, NAME_MAX, Result};

use crate::{Checker, Finding, FindingKind, FoundInode, NumberState, Severity};

/// The longest list of attributes that is read, in bytes. A volume makes no list that long.
const LIST_MAX: u64 = 4 << 20;

impl Checker<'_> {
    /// Checks the attributes of an inode, wherever they are. A repair removes those that are wrong.
    pub(crate) async fn check_xattrs(&mut self, at: u64, d: &mut Dinode) -> Result<()> {
        let hidden = d.flags & HIDDEN != 0;
        let inline = !d.xattrs.is_empty();
        let mut wrong = Vec::new();
        let mut minor = |what: &str| wrong.push(Finding::minor(FindingKind::Xattrs, what).at(at));
        match (hidden, inline, d.xattr_ino) {
            (_, false, 0) => return Ok(()),
            (true, ..) => minor("a hidden file with extended attributes"),
            (false, true, ino) if ino != 0 => {
                minor("extended attributes in the inode and in a hidden file");
            }
            _ => {}
        }
        if !hidden && inline {
            wrong.extend(list_is_wrong(&d.xattrs).map(|finding| finding.at(at)));
        }
        if !wrong.is_empty() && self.how.fixes {
            d.xattrs.clear();
            self.report.add_loss(d.ino, "its extended attributes are lost");
        }
        let mut drops = hidden;
        if !hidden && d.xattr_ino != 0 {
            match self.assign_owner(d.ino, d.xattr_ino).await? {
                Some(file) => {
                    let found = self.hidden_list(&file).await?;
                    drops = !found.is_empty();
                    wrong.extend(found);
                }
                // The check of the hidden file has reported it already.
                None => drops = true,
            }
        }
        if wrong.is_empty() && !drops {
            return Ok(());
        }
        wrong.into_iter().for_each(|finding| self.wrong(finding.of(d.ino)));
        if !self.how.fixes {
            return Ok(());
        }
        if drops && d.xattr_ino != 0 {
            self.report.add_loss(d.ino, "its extended attributes are lost");
            // The hidden file now has no owner, so the end of the round frees it.
            let file = d.xattr_ino;
            if let Some(node) = self.node_mut(file).filter(|node| node.owner == d.ino) {
                node.owner = 0;
            }
            d.xattr_ino = 0;
        }
        self.image.put_inode(d).await
    }

    /// The attributes of an inode; `None` if they cannot be read.
    pub(crate) async fn attributes(&self, d: &Dinode) -> Result<Option<Attributes>> {
        if d.xattr_ino == 0 {
            return Ok(decode(&d.xattrs));
        }
        let Some(file) = self.dinode(d.xattr_ino).await? else { return Ok(None) };
        if file.size > LIST_MAX {
            return Ok(None);
        }
        let content = match self.hidden_content(&file).await {
            Err(FsError::Io(error)) if self.how.fixes => return Err(FsError::Io(error)),
            Err(_) => return Ok(None),
            Ok(content) => content,
        };
        Ok(content.get(4..).and_then(decode))
    }

    /// What is wrong with the list of attributes in a hidden file.
    async fn hidden_list(&mut self, file: &Dinode) -> Result<Vec<Finding>> {
        let serious = |what: String| vec![Finding::serious(FindingKind::Xattrs, what)];
        if file.size > LIST_MAX {
            return Ok(serious(format!("a list of attributes of {} bytes", file.size)));
        }
        let content = match self.hidden_content(file).await {
            Err(FsError::Io(error)) if self.how.fixes => return Err(FsError::Io(error)),
            Err(error) => {
                let (kind, what) = (FindingKind::Xattrs, "a list of attributes");
                return Ok(vec![Finding::from_error(kind, Severity::Serious, &error, what)]);
            }
            Ok(content) => content,
        };
        let len = content.first_chunk::<4>().map_or(0, |n| u32::from_le_bytes(*n));
        if u64::from(len) + 4 != file.size {
            let (ino, size) = (file.ino, file.size);
            return Ok(serious(format!(
                "the hidden file {ino} has {size} bytes; its list says {len}"
            )));
        }
        Ok(list_is_wrong(content.get(4..4 + len as usize).unwrap_or_default())
            .into_iter()
            .collect())
    }

    /// The whole content of a hidden file.
    async fn hidden_content(&self, d: &Dinode) -> Result<Vec<u8>> {
        let block = u64::from(self.geometry.block_size);
        let mut content = Vec::new();
        for lbn in 0..self.geometry.blocks_for(d.size) {
            let ptr = self.ptr(d, lbn as i64).await?;
            if ptr.is_hole() {
                return Err(FsError::inconsistent(format!("it lacks its block {lbn}")));
            }
            content.extend_from_slice(&self.image.block(d.ino, lbn as i64, ptr).await?);
            content.resize(((lbn + 1) * block) as usize, 0);
        }
        content.truncate(d.size as usize);
        Ok(content)
    }

    /// Makes an inode the owner of a hidden file and reads the file's inode. None if it is not
    /// one, or has an owner.
    pub(crate) async fn assign_owner(&mut self, owner: Ino, hidden: Ino) -> Result<Option<Dinode>> {
        let wrong = match self.node(hidden) {
            None => "which the inode map does not reach".into(),
            Some(node) if node.owner != 0 && node.state != NumberState::Free => {
                format!("which belongs to inode {}", node.owner)
            }
            Some(_) => match self.read(hidden).await {
                Ok(Some(FoundInode { d, .. })) if d.flags & HIDDEN != 0 && d.nlink > 0 => {
                    if let Some(node) = self.node_mut(hidden) {
                        node.owner = owner;
                    }
                    return Ok(Some(d));
                }
                Ok(Some(FoundInode { d, .. })) if d.flags & HIDDEN != 0 => {
                    "which has no owner by its links".into()
                }
                Ok(Some(_)) => "which is not a hidden file".into(),
                Ok(None) => "which is free or cannot be read".into(),
                Err(FsError::Io(error)) if self.how.fixes => return Err(FsError::Io(error)),
                Err(error) => format!("which cannot be read: {error}"),
            },
        };
        let what = format!("leads to hidden file {hidden}, {wrong}");
        self.wrong(Finding::serious(FindingKind::HiddenFile, what).of(owner));
        Ok(None)
    }
}

/// Gives what is wrong with a list of attributes. It must be whole and have each name once, in
/// order.
fn list_is_wrong(list: &[u8]) -> Option<Finding> {
    let what = check_list(list).err()?;
    Some(Finding::serious(FindingKind::Xattrs, format!("the list of extended attributes: {what}")))
}

/// Attributes one after the other: length of the name (u16), of the value (u32), name, value.
fn check_list(mut raw: &[u8]) -> std::result::Result<(), &'static str> {
    let mut last: Option<Bytes> = None;
    while !raw.is_empty() {
        let cut = || "it is cut off";
        let (head, rest) = raw.split_at_checked(6).ok_or_else(cut)?;
        let name_len = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let value_len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (name, rest) = rest.split_at_checked(name_len).ok_or_else(cut)?;
        let (value, rest) = rest.split_at_checked(value_len).ok_or_else(cut)?;
        if name.is_empty() || name.len() > NAME_MAX || name.contains(&0) {
            return Err("a name is empty, too long, or has a zero");
        }
        if value_len > XATTR_VALUE_MAX {
            return Err("a value is too long");
        }
        if Which::named(name).is_some() && !matches!(Acl::parse(value), Ok(Some(_))) {
            return Err("an ACL makes no sense");
        }
        if last.as_ref().is_some_and(|last| **last >= *name) {
            return Err("the names are not in ascending order");
        }
        last = Some(Bytes::copy_of(name));
        raw = rest;
    }
    Ok(())
}

//! Extended attributes, in the inode and in hidden files, and hidden files as such.

use twin_disk::Bytes;
use twin_fs::dinode::{Dinode, HIDDEN};
use twin_fs::dir::XATTR_VALUE_MAX;
use twin_fs::{Ino, NAME_MAX, mode};

use super::tree::Tree;
use super::{Checker, Finding, Kind, Severity, State};

/// The longest list of attributes that is looked at, in bytes: more than a volume makes.
const LIST_MAX: u64 = 4 << 20;

impl Checker<'_> {
    /// Checks the attributes of an inode, wherever they are.
    pub(super) async fn check_xattrs(&mut self, at: u64, d: &Dinode) {
        let hidden = d.flags & HIDDEN != 0;
        if hidden && (d.xattr_ino != 0 || !d.xattrs.is_empty()) {
            let what = "a hidden file with extended attributes";
            self.add(Finding::new(Kind::Xattrs, Severity::Minor, what).at(at).of(d.ino));
            return;
        }
        if d.xattr_ino == 0 {
            self.check_list(d.ino, at, &d.xattrs);
            return;
        }
        if !d.xattrs.is_empty() {
            let what = "extended attributes in the inode and in a hidden file";
            self.add(Finding::new(Kind::Xattrs, Severity::Minor, what).at(at).of(d.ino));
        }
        let Some((place, file)) = self.adopt(d.ino, d.xattr_ino).await else { return };
        let Some(content) = self.hidden_content(&file).await else { return };
        let len = content.first_chunk::<4>().map_or(0, |n| u32::from_le_bytes(*n));
        if u64::from(len) + 4 != file.size {
            let what = format!(
                "the hidden file {} has {} bytes; its list says {len}",
                file.ino, file.size
            );
            self.add(Finding::new(Kind::Xattrs, Severity::Serious, what).at(place).of(d.ino));
        }
        let list = content.get(4..4 + len as usize).unwrap_or_default();
        self.check_list(d.ino, place, list);
    }

    /// A list of attributes: whole, each name once, in order.
    fn check_list(&mut self, ino: Ino, at: u64, list: &[u8]) {
        if let Err(what) = check_list(list) {
            let what = format!("the list of extended attributes: {what}");
            self.add(Finding::new(Kind::Xattrs, Severity::Serious, what).at(at).of(ino));
        }
    }

    /// The whole content of a hidden file, whose blocks are claimed on the way.
    async fn hidden_content(&mut self, d: &Dinode) -> Option<Vec<u8>> {
        let block = u64::from(self.view.sb.shape.block_size);
        let mut tree = Tree::new(d);
        let mut content = Vec::new();
        let fits = d.size <= LIST_MAX;
        if !fits {
            let what = format!("a list of attributes of {} bytes", d.size);
            self.add(Finding::new(Kind::Xattrs, Severity::Serious, what).of(d.ino));
        }
        let mut whole = fits;
        while let Some(step) = self.next_data(&mut tree).await {
            let end = (step.lbn as u64).saturating_add(1).saturating_mul(block);
            if !fits || end > d.size.next_multiple_of(block) {
                continue;
            }
            match self.view.block(d.ino, step.lbn, step.ptr).await {
                Ok(bytes) => {
                    content.resize((end - block) as usize, 0);
                    content.extend_from_slice(&bytes);
                }
                Err(error) => {
                    whole = false;
                    let what = format!("block {} of a list of attributes", step.lbn);
                    self.add_error(Kind::Xattrs, Severity::Serious, d.ino, error, &what);
                }
            }
        }
        self.compare_allocated(d, tree.allocated);
        content.resize(d.size.min(LIST_MAX) as usize, 0);
        whole.then_some(content)
    }

    /// Makes an inode the owner of a hidden file and reads the file's inode. None if it is not
    /// one, or has an owner.
    pub(super) async fn adopt(&mut self, owner: Ino, hidden: Ino) -> Option<(u64, Dinode)> {
        let wrong = match self.node(hidden) {
            None => "which the inode map does not reach".into(),
            Some(node) if node.link != 0 && node.state != State::Free => {
                format!("which belongs to inode {}", node.link)
            }
            Some(_) => match self.read_inode(hidden).await {
                Ok((at, d)) if d.flags & HIDDEN != 0 && d.nlink == 1 => {
                    if let Some(node) = self.node_mut(hidden) {
                        node.link = owner;
                    }
                    return Some((at, d));
                }
                Ok((_, d)) if d.flags & HIDDEN != 0 => "which has no owner by its links".into(),
                Ok(_) => "which is not a hidden file".into(),
                Err(error) => format!("which cannot be read: {error}"),
            },
        };
        let what = format!("leads to hidden file {hidden}, {wrong}");
        self.add(Finding::new(Kind::HiddenFile, Severity::Serious, what).of(owner));
        None
    }

    /// Hidden files that nobody owns: claims their places.
    pub(super) async fn check_hidden(&mut self) {
        let lost: Vec<Ino> = (0..self.nodes.len() as Ino)
            .filter(|&ino| {
                let node = &self.nodes[ino as usize];
                node.state == State::Read && node.kind == 0 && node.link == 0
            })
            .collect();
        for ino in lost {
            let node = &self.nodes[ino as usize];
            if node.nlink > 0 && !node.marked {
                let what = "a hidden file that belongs to no inode";
                self.add(Finding::new(Kind::HiddenFile, Severity::Minor, what).of(ino));
            }
            if let Ok((_, d)) = self.read_inode(ino).await
                && d.kind() != mode::DIRECTORY
            {
                let mut tree = Tree::new(&d);
                self.walk_all(&mut tree).await;
                self.compare_allocated(&d, tree.allocated);
            }
        }
    }
}

/// Attributes one after the other: length of the name (u16), of the value (u32), name, value.
fn check_list(mut raw: &[u8]) -> Result<(), &'static str> {
    let mut last: Option<Bytes> = None;
    while !raw.is_empty() {
        let cut = || "it is cut off";
        let (head, rest) = raw.split_at_checked(6).ok_or_else(cut)?;
        let name_len = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let value_len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (name, rest) = rest.split_at_checked(name_len).ok_or_else(cut)?;
        let (_, rest) = rest.split_at_checked(value_len).ok_or_else(cut)?;
        if name.is_empty() || name.len() > NAME_MAX || name.contains(&0) {
            return Err("a name is empty, too long, or has a zero");
        }
        if value_len > XATTR_VALUE_MAX {
            return Err("a value is too long");
        }
        if last.as_ref().is_some_and(|last| **last >= *name) {
            return Err("the names are not in ascending order");
        }
        last = Some(Bytes::copy_of(name));
        raw = rest;
    }
    Ok(())
}

//! Counts of names, inodes without a name, hidden files and their owners.

use twin_fs::dinode::{Dinode, HIDDEN};
use twin_fs::{Ino, ROOT_INO, Result, mode};

use super::{Checker, Finding, Kind, Life};

impl Checker<'_> {
    pub(super) async fn check_counts(&mut self) -> Result<()> {
        let of_dirs: Vec<(Ino, u64, u32)> =
            self.dirs.iter().map(|d| (d.ino, d.names, d.subdirs)).collect();
        for (ino, names, subdirs) in of_dirs {
            self.report.counts.names += names;
            self.check_dir_counts(ino, names, subdirs).await?;
        }
        for ino in ROOT_INO..self.nodes.len() as Ino {
            let node = self.nodes[ino as usize];
            let is_dir = u32::from(node.kind) << 12 == mode::DIRECTORY;
            let counts = node.nlink > 0 || self.fixes && self.may_revive();
            if node.life == Life::Used && counts && node.kind != 0 && !is_dir {
                self.check_file_count(ino).await?;
            }
        }
        self.check_owners().await?;
        self.check_hidden().await
    }

    async fn check_dir_counts(&mut self, ino: Ino, names: u64, subdirs: u32) -> Result<()> {
        let Some(mut d) = self.read_inode(ino).await? else { return Ok(()) };
        if d.nlink == 0 && ino != ROOT_INO && self.nodes[ino as usize].owner == 0 {
            self.changed = true;
            return self.view.free_inode(ino, d.generation).await;
        }
        let mut wrong = false;
        if d.nlink != 2 + subdirs {
            let what = format!("{} links are counted, there are {}", d.nlink, 2 + subdirs);
            self.wrong(Finding::minor(Kind::Count, what).of(ino));
            d.nlink = 2 + subdirs;
            wrong = true;
        }
        // In the wide form a directory counts its entries where files have a device number.
        if self.view.sb.shape.pointer.is_modern() && d.entries != names {
            let what = format!("{} entries are counted, there are {names}", d.entries);
            self.wrong(Finding::minor(Kind::Count, what).of(ino));
            d.entries = names;
            wrong = true;
        }
        if wrong && self.fixes {
            self.view.put_inode(&d).await?;
        }
        if ino != ROOT_INO && self.nodes[ino as usize].owner == 0 {
            let what = "a directory without a name";
            self.add(Finding::serious(Kind::LostInode, what).of(ino));
            self.lost.insert(ino);
        }
        Ok(())
    }

    async fn check_file_count(&mut self, ino: Ino) -> Result<()> {
        let node = self.nodes[ino as usize];
        if node.names == node.nlink && node.nlink > 0 {
            return Ok(());
        }
        let Some(mut d) = self.read_inode(ino).await? else { return Ok(()) };
        if node.names > 0 {
            let what = format!("{} names are counted, there are {}", node.nlink, node.names);
            self.wrong(Finding::minor(Kind::Count, what).of(ino));
            if self.fixes {
                d.nlink = node.names;
                self.view.put_inode(&d).await?;
            }
            return Ok(());
        }
        if node.nlink == 0 {
            self.changed = true;
            return self.view.free_inode(ino, d.generation).await;
        }
        if d.size == 0 && d.kind() == mode::REGULAR {
            // Nothing is lost with it.
            self.wrong(Finding::minor(Kind::LostInode, "an empty file without a name").of(ino));
            if self.fixes {
                self.view.free_inode(ino, d.generation).await?;
            }
            return Ok(());
        }
        self.add(Finding::serious(Kind::LostInode, "a file without a name").of(ino));
        self.lost.insert(ino);
        Ok(())
    }

    /// Indexes and attributes: whoever names a hidden file owns it, alone.
    async fn check_owners(&mut self) -> Result<()> {
        if !self.view.sb.shape.pointer.is_modern() {
            return Ok(());
        }
        for ino in ROOT_INO..self.nodes.len() as Ino {
            if self.nodes[ino as usize].life != Life::Used || self.nodes[ino as usize].kind == 0 {
                continue;
            }
            let Some(d) = self.read_inode(ino).await? else { continue };
            if d.index_ino != 0 {
                self.check_owned(&d, d.index_ino, Kind::Index).await?;
            }
            if d.xattr_ino != 0 {
                self.check_owned(&d, d.xattr_ino, Kind::HiddenFile).await?;
            }
        }
        Ok(())
    }

    async fn check_owned(&mut self, owner: &Dinode, hidden: Ino, kind: Kind) -> Result<()> {
        let node = self.node(hidden).copied();
        let free = node.is_some_and(|n| n.life == Life::Used && n.kind == 0 && n.owner == 0);
        let file = if free { self.read_inode(hidden).await? } else { None };
        let wrong = match file {
            Some(file) if file.flags & HIDDEN != 0 => match kind {
                Kind::Index => self.index_is_wrong(owner, &file).await?,
                _ => self.attributes_are_wrong(&file).await?,
            },
            _ => Some("it is none, or another's".into()),
        };
        let Some(wrong) = wrong else {
            self.nodes[hidden as usize].owner = owner.ino;
            return Ok(());
        };
        let what = format!("hidden file {hidden}: {wrong}");
        self.wrong(Finding::minor(kind, what).of(owner.ino));
        if self.fixes
            && let Some(mut d) = self.read_inode(owner.ino).await?
        {
            match kind {
                Kind::Index => d.index_ino = 0,
                _ => d.xattr_ino = 0,
            }
            self.view.put_inode(&d).await?;
        }
        Ok(())
    }

    /// What is wrong with a list of attributes in a hidden file.
    async fn attributes_are_wrong(&self, file: &Dinode) -> Result<Option<String>> {
        let blocks = self.view.sb.shape.blocks_for(file.size);
        let mut content = Vec::new();
        for lbn in 0..blocks.min(1024) {
            match self.view.block(file, lbn).await? {
                Some((_, bytes)) => content.extend(bytes),
                None => return Ok(Some(format!("it lacks its block {lbn}"))),
            }
        }
        let len = content.first_chunk::<4>().map_or(0, |n| u32::from_le_bytes(*n));
        if u64::from(len) + 4 != file.size {
            return Ok(Some(format!("it has {} bytes, its list says {len}", file.size)));
        }
        let mut raw = content.get(4..4 + len as usize).unwrap_or_default();
        while !raw.is_empty() {
            let Some((head, rest)) = raw.split_at_checked(6) else {
                return Ok(Some("the list is cut off".into()));
            };
            let name = usize::from(u16::from_le_bytes([head[0], head[1]]));
            let value = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
            match rest.split_at_checked(name + value) {
                Some((_, rest)) if name > 0 => raw = rest,
                _ => return Ok(Some("the list is cut off".into())),
            }
        }
        Ok(None)
    }

    /// Hidden files that nobody owns.
    async fn check_hidden(&mut self) -> Result<()> {
        for ino in ROOT_INO..self.nodes.len() as Ino {
            let node = self.nodes[ino as usize];
            let lost = node.life == Life::Used && node.kind == 0 && node.owner == 0;
            if lost && node.nlink > 0 {
                let what = "a hidden file that belongs to no inode";
                self.wrong(Finding::minor(Kind::HiddenFile, what).of(ino));
                if self.fixes {
                    self.view.free_inode(ino, 0).await?;
                }
            }
        }
        Ok(())
    }
}

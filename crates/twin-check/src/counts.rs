//! Counts of names, inodes without a name, and hidden files without an owner.

use twin_fs::{Ino, ROOT_INO, Result, mode};

use crate::{Checker, Finding, FindingKind, NumberState};

impl Checker<'_> {
    pub(crate) async fn check_counts(&mut self) -> Result<()> {
        for nth in 0..self.dirs.len() {
            self.check_dir_count(nth).await?;
        }
        for ino in ROOT_INO..self.nodes.len() as Ino {
            let node = self.nodes[ino as usize];
            if node.state == NumberState::Read && node.kind != 0 && !node.is(mode::DIRECTORY) {
                self.check_file_count(ino).await?;
            }
        }
        self.check_hidden().await
    }

    async fn check_dir_count(&mut self, nth: usize) -> Result<()> {
        let (ino, links) = (self.dirs[nth].ino, self.dirs[nth].subdirs + 2);
        let node = self.nodes[ino as usize];
        let named = node.owner != 0 || ino == ROOT_INO;
        if node.state != NumberState::Read || node.nlink == 0 && !self.how.fixes {
            return Ok(());
        }
        if node.nlink == 0 && !named {
            return self.free_with_hidden(ino).await;
        }
        if node.nlink != links {
            let what = format!(
                "a count of {} names for a directory with {} subdirectories",
                node.nlink,
                links - 2
            );
            self.wrong(Finding::serious(FindingKind::LinkCount, what).of(ino));
            self.set_links(ino, links).await?;
        }
        if !named {
            let what = "no directory has a name for this directory";
            self.report.add(Finding::serious(FindingKind::LostInode, what).of(ino));
            self.lost.insert(ino);
        }
        Ok(())
    }

    async fn set_links(&mut self, ino: Ino, links: u32) -> Result<()> {
        if self.how.fixes
            && let Some(mut d) = self.dinode(ino).await?
        {
            d.nlink = links;
            self.image.put_inode(&d).await?;
        }
        Ok(())
    }

    async fn check_file_count(&mut self, ino: Ino) -> Result<()> {
        let node = self.nodes[ino as usize];
        if node.names == node.nlink && (node.nlink > 0 || !self.how.fixes) {
            return Ok(());
        }
        if node.names > 0 {
            let what = format!("{} names are counted, there are {}", node.nlink, node.names);
            self.wrong(Finding::serious(FindingKind::LinkCount, what).of(ino));
            return self.set_links(ino, node.names).await;
        }
        if node.nlink == 0 {
            return self.free_with_hidden(ino).await;
        }
        let Some(d) = self.dinode(ino).await? else { return Ok(()) };
        if d.size == 0 && d.kind() == mode::REGULAR {
            // An empty file without a name holds nothing that could be lost.
            let what = "no directory has a name for this empty file";
            self.wrong(Finding::minor(FindingKind::LostInode, what).of(ino));
            return if self.how.fixes { self.free(ino).await } else { Ok(()) };
        }
        let what = "no directory has a name for it";
        self.report.add(Finding::serious(FindingKind::LostInode, what).of(ino));
        self.lost.insert(ino);
        Ok(())
    }

    async fn free_with_hidden(&mut self, ino: Ino) -> Result<()> {
        match self.dinode(ino).await? {
            Some(d) => self.free_removed(&d).await,
            None => self.free(ino).await,
        }
    }

    /// Hidden files without an owner.
    async fn check_hidden(&mut self) -> Result<()> {
        for ino in ROOT_INO..self.nodes.len() as Ino {
            let node = self.nodes[ino as usize];
            if node.is(0) && node.owner == 0 && node.nlink > 0 {
                let what = "a hidden file that belongs to no inode";
                self.wrong(Finding::minor(FindingKind::HiddenFile, what).of(ino));
                if self.how.fixes {
                    self.free(ino).await?;
                }
            }
        }
        Ok(())
    }
}

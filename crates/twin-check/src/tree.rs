//! Checks that directories form a tree: each has one name, its entry `..` leads to the directory
//! with that name, and the way up from each ends at the root.

use std::collections::BTreeSet;

use twin_fs::{Ino, ROOT_INO, Result, mode};

use crate::{Checker, Child, Finding, FindingKind};

impl Checker<'_> {
    pub(crate) async fn check_tree(&mut self) -> Result<()> {
        let mut children = std::mem::take(&mut self.children);
        children.sort_unstable();
        for names in children.chunk_by(|a, b| a.ino == b.ino) {
            self.check_parent(names).await?;
        }
        self.check_root_parent().await?;
        self.check_reach(&children).await
    }

    /// The index of a directory in `dirs`.
    pub(crate) fn dir_at(&self, dir: Ino) -> Option<usize> {
        self.dirs.binary_search_by_key(&dir, |d| d.ino).ok()
    }

    /// Leaves a directory one name: of several, the one in the directory that its `..` leads to.
    async fn check_parent(&mut self, names: &[Child]) -> Result<()> {
        let child = names[0].ino;
        let own = self.dir_at(child).map_or(0, |at| self.dirs[at].up);
        let kept = names.iter().position(|name| name.dir == own).unwrap_or(0);
        let parent = names[kept].dir;
        self.nodes[child as usize].owner = parent;
        if let Some(at) = self.dir_at(parent) {
            self.dirs[at].subdirs += 1;
        }
        // From the last to the first: removing an entry may make the entry before it longer.
        for (_, name) in names.iter().enumerate().rev().filter(|(nth, _)| *nth != kept) {
            let what =
                format!("a second name leads to directory {child}, which has one in {parent}");
            self.wrong(Finding::serious(FindingKind::DirEntry, what).of(name.dir));
            if self.how.fixes
                && let Some(d) = self.dinode(name.dir).await?
            {
                self.remove_entry(&d, name.lbn, name.offset).await?;
            }
        }
        match own == parent {
            true => Ok(()),
            false => self.set_parent(child, own, parent).await,
        }
    }

    /// Checks that the root is its own parent.
    async fn check_root_parent(&mut self) -> Result<()> {
        match self.dir_at(ROOT_INO).map(|at| self.dirs[at].up) {
            Some(up) if up != ROOT_INO => self.set_parent(ROOT_INO, up, ROOT_INO).await,
            _ => Ok(()),
        }
    }

    async fn set_parent(&mut self, child: Ino, own: Ino, parent: Ino) -> Result<()> {
        let what = format!("its .. leads to {own}, its name is in {parent}");
        self.wrong(Finding::serious(FindingKind::Parent, what).of(child));
        if !self.how.fixes {
            return Ok(());
        }
        let Some(d) = self.dinode(child).await? else { return Ok(()) };
        let format = self.features.directories;
        self.change_dir_block(&d, 0, |raw| {
            if let Some(found) = format.find(raw, b"..") {
                let _ = format.set_ino(raw, found.offset, parent, mode::DIRECTORY);
            }
        })
        .await
    }

    /// Finds directories that form a circle: each has a name, yet no path from the root leads to
    /// them. A repair removes one of the names.
    async fn check_reach(&mut self, children: &[Child]) -> Result<()> {
        let mut good: BTreeSet<Ino> = BTreeSet::from([ROOT_INO]);
        for nth in 0..self.dirs.len() {
            let mut path = BTreeSet::new();
            let mut at = self.dirs[nth].ino;
            while at != 0 && !good.contains(&at) && path.insert(at) {
                at = self.nodes[at as usize].owner;
            }
            if at != 0 && !good.contains(&at) {
                let what = "the way up from the directory runs in a circle";
                self.wrong(Finding::serious(FindingKind::Unreachable, what).of(at));
                let parent = self.nodes[at as usize].owner;
                let from = children.partition_point(|c| (c.ino, c.dir) < (at, parent));
                let name = children.get(from).filter(|c| (c.ino, c.dir) == (at, parent)).copied();
                if let (true, Some(name)) = (self.how.fixes, name)
                    && let Some(d) = self.dinode(parent).await?
                {
                    self.remove_entry(&d, name.lbn, name.offset).await?;
                    self.nodes[at as usize].owner = 0;
                }
            }
            good.extend(path);
        }
        Ok(())
    }
}

//! Directories: their blocks, their entries, and where these lead.

use std::collections::{BTreeMap, BTreeSet};

use twin_fs::dinode::Dinode;
use twin_fs::dir::block::CHUNK;
use twin_fs::{Ino, ROOT_INO, Result, mode};

use super::{Checker, Finding, Kind, Life};

/// What is known of a directory beyond its node.
pub(super) struct Dir {
    pub(super) ino: Ino,
    /// Where its entry for its parent leads; 0 if there is none.
    up: Ino,
    /// Its parent's names for directories: inode, block, offset.
    children: Vec<(Ino, u64, usize)>,
    /// Names in all, the dots left out.
    pub(super) names: u64,
    /// Directories that have their name here.
    pub(super) subdirs: u32,
}

/// A name that must go, or be told its type.
enum Fix {
    Remove(usize),
    Kind(usize, Ino, u32),
}

impl Checker<'_> {
    /// Looks at all directories, then at the tree that they form.
    pub(super) async fn check_dirs(&mut self) -> Result<()> {
        for ino in ROOT_INO..self.nodes.len() as Ino {
            let node = self.nodes[ino as usize];
            let is_dir = node.life == Life::Used && u32::from(node.kind) << 12 == mode::DIRECTORY;
            if is_dir
                && (node.nlink > 0 || ino == ROOT_INO || self.fixes && self.may_revive())
                && let Some(d) = self.read_inode(ino).await?
            {
                self.check_dir(d).await?;
            }
        }
        self.choose_parents().await?;
        self.check_reach().await
    }

    async fn check_dir(&mut self, mut d: Dinode) -> Result<()> {
        let mut dir = Dir { ino: d.ino, up: 0, children: Vec::new(), names: 0, subdirs: 0 };
        let mut seen = BTreeSet::new();
        let blocks = self.view.sb.shape.blocks_for(d.size);
        for lbn in 0..blocks {
            let Some((addr, bytes)) = self.view.block(&d, lbn).await? else {
                return self.cut_dir(&mut d, lbn, dir).await;
            };
            self.check_dir_block(&d, lbn, addr, bytes, &mut dir, &mut seen).await?;
        }
        if blocks == 0 {
            return self.cut_dir(&mut d, 0, dir).await;
        }
        self.dirs.push(dir);
        Ok(())
    }

    /// A directory that lacks a block ends before it; without its first one it cannot be.
    async fn cut_dir(&mut self, d: &mut Dinode, lbn: u64, dir: Dir) -> Result<()> {
        let what = format!("the directory lacks its block {lbn}");
        self.wrong(Finding::serious(Kind::DirBlock, what).of(d.ino));
        if self.fixes && lbn > 0 {
            d.size = lbn * u64::from(self.view.sb.shape.block_size);
            let shape = &self.view.sb.shape;
            let steps = self.view.steps(d).await?;
            let past = steps.iter().filter(|s| shape.first_data(s.lbn) >= lbn);
            let lbns: Vec<i64> = past.map(|s| s.lbn).collect();
            self.view.cut(d, &lbns).await?;
        } else if self.fixes {
            self.view.free_inode(d.ino, d.generation).await?;
        }
        self.dirs.push(dir);
        Ok(())
    }

    async fn check_dir_block(
        &mut self,
        d: &Dinode,
        lbn: u64,
        addr: u64,
        mut bytes: Vec<u8>,
        dir: &mut Dir,
        seen: &mut BTreeSet<Vec<u8>>,
    ) -> Result<()> {
        let format = self.dir_format();
        let block = u64::from(self.view.sb.shape.block_size);
        let at = self.view.sb.shape.byte_of(addr);
        let len = (d.size.saturating_sub(lbn * block)).min(bytes.len() as u64) as usize;
        let first = (lbn == 0).then_some(d.ino);
        if let Err(error) = format.validate(&bytes[..len], first) {
            let what = format!("block {lbn} of the directory: {}", error.what);
            self.wrong(Finding::serious(Kind::DirBlock, what).at(at).of(d.ino));
            if self.fixes {
                self.empty_block(d, lbn, &mut bytes[..len]);
                self.view.put(addr, bytes);
            }
            return Ok(());
        }
        let mut fixes = Vec::new();
        let items: Vec<_> = format
            .items(&bytes[..len], 0)
            .map(|i| (i.offset, i.ino, i.kind, i.name.to_vec()))
            .collect();
        for (offset, ino, kind, name) in items {
            match &name[..] {
                b"." => continue,
                b".." => {
                    dir.up = ino;
                    continue;
                }
                _ => {}
            }
            let fix = self.check_entry(dir, lbn, (offset, ino, kind));
            let fix = match seen.insert(name.clone()) {
                true => fix,
                false => Some((Fix::Remove(offset), "is there twice".into())),
            };
            match fix {
                Some((fix, why)) => {
                    let what = format!("the name {:?} {why}", String::from_utf8_lossy(&name));
                    let place = at + offset as u64;
                    self.wrong(Finding::serious(Kind::DirEntry, what).at(place).of(d.ino));
                    fixes.push(fix);
                }
                None => dir.names += 1,
            }
        }
        if self.fixes && !fixes.is_empty() {
            for fix in fixes {
                let _ = match fix {
                    Fix::Remove(offset) => format.remove(&mut bytes[..len], offset),
                    Fix::Kind(offset, ino, kind) => {
                        format.set_ino(&mut bytes[..len], offset, ino, kind)
                    }
                };
            }
            self.view.put(addr, bytes);
        }
        Ok(())
    }

    /// A directory's block as new, with the dots if it is the first one.
    pub(super) fn empty_block(&self, d: &Dinode, lbn: u64, bytes: &mut [u8]) {
        let format = self.dir_format();
        bytes.fill(0);
        for (i, chunk) in bytes.chunks_exact_mut(CHUNK).enumerate() {
            match lbn == 0 && i == 0 {
                true => format.init_first(chunk, d.ino, ROOT_INO),
                false => format.init(chunk),
            }
        }
    }

    /// An entry leads to an inode in use, of the type that it says.
    fn check_entry(
        &mut self,
        dir: &mut Dir,
        lbn: u64,
        (offset, ino, kind): (usize, Ino, u32),
    ) -> Option<(Fix, String)> {
        let remove = |why: String| Some((Fix::Remove(offset), why));
        if ino <= ROOT_INO {
            return remove(format!("leads to inode {ino}"));
        }
        let Some(node) = self.node(ino).copied().filter(|n| n.life == Life::Used) else {
            return remove(format!("leads to inode {ino}, which is free"));
        };
        if node.nlink == 0 && !self.fixes {
            return remove(format!("leads to inode {ino}, which was removed"));
        }
        if node.kind == 0 {
            return remove(format!("leads to inode {ino}, a hidden file"));
        }
        let known = u32::from(node.kind) << 12;
        self.nodes[ino as usize].names = node.names.saturating_add(1);
        if known == mode::DIRECTORY {
            dir.children.push((ino, lbn, offset));
        }
        (known != kind).then(|| {
            let why = format!("says type {kind:o}, inode {ino} has type {known:o}");
            (Fix::Kind(offset, ino, known), why)
        })
    }

    /// Every directory has one name: of several, the one in the directory that it says is its
    /// parent.
    async fn choose_parents(&mut self) -> Result<()> {
        let up: BTreeMap<Ino, Ino> = self.dirs.iter().map(|d| (d.ino, d.up)).collect();
        let mut claims: BTreeMap<Ino, Vec<(Ino, u64, usize)>> = BTreeMap::new();
        for dir in &self.dirs {
            for &(child, lbn, offset) in &dir.children {
                claims.entry(child).or_default().push((dir.ino, lbn, offset));
            }
        }
        for (child, mut names) in claims {
            let own = up.get(&child).copied().unwrap_or(0);
            names.sort_by_key(|(dir, ..)| *dir != own);
            let (parent, ..) = names[0];
            self.nodes[child as usize].owner = parent;
            if let Some(at) = self.place_of(parent) {
                self.dirs[at].subdirs += 1;
            }
            for (dir, lbn, offset) in names.into_iter().skip(1) {
                let what = format!("a second name leads to directory {child}");
                self.wrong(Finding::serious(Kind::DirEntry, what).of(dir));
                if self.fixes {
                    self.remove_entry(dir, lbn, offset).await?;
                }
            }
            if own != parent {
                self.set_parent(child, own, parent).await?;
            }
        }
        Ok(())
    }

    /// Where a directory is among those that were looked at, which are in the order of their numbers.
    fn place_of(&self, dir: Ino) -> Option<usize> {
        self.dirs.binary_search_by_key(&dir, |d| d.ino).ok()
    }

    async fn remove_entry(&mut self, dir: Ino, lbn: u64, offset: usize) -> Result<()> {
        let Some(d) = self.read_inode(dir).await? else { return Ok(()) };
        let Some((addr, mut bytes)) = self.view.block(&d, lbn).await? else { return Ok(()) };
        let block = u64::from(self.view.sb.shape.block_size);
        let len = (d.size - lbn * block).min(bytes.len() as u64) as usize;
        if self.dir_format().remove(&mut bytes[..len], offset).is_ok() {
            self.view.put(addr, bytes);
        }
        Ok(())
    }

    async fn set_parent(&mut self, child: Ino, own: Ino, parent: Ino) -> Result<()> {
        let what = format!("its entry for its parent leads to {own}, its name is in {parent}");
        self.wrong(Finding::serious(Kind::Parent, what).of(child));
        if !self.fixes {
            return Ok(());
        }
        let Some(d) = self.read_inode(child).await? else { return Ok(()) };
        let Some((addr, mut bytes)) = self.view.block(&d, 0).await? else { return Ok(()) };
        let format = self.dir_format();
        let len = d.size.min(bytes.len() as u64) as usize;
        if let Some(found) = format.find(&bytes[..len], b"..")
            && format.set_ino(&mut bytes[..len], found.offset, parent, mode::DIRECTORY).is_ok()
        {
            self.view.put(addr, bytes);
        }
        Ok(())
    }

    /// Directories that form a circle have a name each, yet nobody gets to them: one of the names
    /// goes.
    async fn check_reach(&mut self) -> Result<()> {
        let mut good: BTreeSet<Ino> = BTreeSet::from([ROOT_INO]);
        let all: Vec<Ino> = self.dirs.iter().map(|d| d.ino).collect();
        for start in all {
            let mut path = BTreeSet::new();
            let mut at = start;
            while at != 0 && !good.contains(&at) && path.insert(at) {
                at = self.nodes[at as usize].owner;
            }
            if at != 0 && !good.contains(&at) {
                let what = "the directory is below itself";
                self.wrong(Finding::serious(Kind::Parent, what).of(at));
                let parent = self.nodes[at as usize].owner;
                let place = self.place_of(parent).map(|at| &self.dirs[at]);
                let place = place.and_then(|d| d.children.iter().find(|c| c.0 == at).copied());
                if let (true, Some((_, lbn, offset))) = (self.fixes, place) {
                    self.remove_entry(parent, lbn, offset).await?;
                }
                self.nodes[at as usize].owner = 0;
            }
            good.extend(path);
        }
        Ok(())
    }
}

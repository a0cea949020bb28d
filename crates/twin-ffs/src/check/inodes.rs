//! Inodes and their blocks: what each says of itself, and that no two use one place.

use std::collections::BTreeMap;

use twin_cache::Lbn;
use twin_fs::dinode::{Dinode, HIDDEN, TRUNCATING};
use twin_fs::shape::Parent;
use twin_fs::{Ino, ROOT_INO, Result, mode};
use twin_rt::join_all;

use super::view::Step;
use super::{Checker, Finding, Kind, Life, Progress};
use crate::format::CgImage;

/// A file's use of a place that others use too.
struct Claim {
    /// What decides whose it is: a block of names; nothing speaks against what leads to it; when the
    /// file changed.
    rank: (bool, bool, i64, u32),
    ino: Ino,
    lbn: Lbn,
    /// Addresses of fragments.
    start: u64,
    end: u64,
}

/// Reads of inode tables that are under way at once.
const READS_AT_ONCE: usize = 16;

impl Checker<'_> {
    /// Looks at all inodes and claims their blocks.
    pub(super) async fn check_inodes(&mut self) -> Result<()> {
        for group in 0..self.view.sb.groups {
            (self.progress)(Progress { done: group.into(), total: self.view.sb.groups.into() });
            let written = self.read_maps(group).await?;
            // As many blocks of the table at once as the device takes.
            let block = self.view.sb.shape.block_size;
            let at_once = (self.view.device.info().max_io / block).max(1);
            let per = self.view.sb.inodes_per_block() * at_once;
            let pieces: Vec<u32> = (0..written).step_by(per as usize).collect();
            for some in pieces.chunks(READS_AT_ONCE) {
                let piece = |&first: &u32| (first, per.min(written - first));
                let reads =
                    some.iter().map(piece).map(|(first, n)| self.read_table(group, first, n));
                let read = join_all(reads.collect::<Vec<_>>()).await;
                for (&first, raw) in some.iter().zip(read) {
                    self.check_table(group, first, raw).await?;
                }
            }
        }
        let total = u64::from(self.view.sb.groups);
        (self.progress)(Progress { done: total, total });
        Ok(())
    }

    /// Reads a group's maps. Gives how many of its inodes have been written.
    async fn read_maps(&mut self, group: u32) -> Result<u32> {
        let sb = &self.view.sb;
        let raw = self.view.get(sb.cg_addr(group), sb.shape.block_size).await?;
        match CgImage::decode(sb, group, &raw) {
            Ok(image) => {
                let written = image.inodes_written;
                self.maps.push(Some(image));
                Ok(written)
            }
            Err(error) => {
                let inodes = sb.group_inodes;
                self.maps.push(None);
                self.add(Finding::from_error(Kind::GroupMaps, &error, "a group's maps"));
                Ok(inodes)
            }
        }
    }

    async fn read_table(&self, group: u32, first: u32, count: u32) -> Result<Vec<u8>> {
        let sb = &self.view.sb;
        let base = u64::from(group) * u64::from(sb.group_inodes);
        let (addr, _) = sb.inode_place(base + u64::from(first));
        self.view.get(addr, count * sb.shape.inode_size).await
    }

    async fn check_table(&mut self, group: u32, first: u32, raw: Result<Vec<u8>>) -> Result<()> {
        let sb = &self.view.sb;
        let base = u64::from(group) * u64::from(sb.group_inodes);
        let size = sb.shape.inode_size as usize;
        let raw = match raw {
            Ok(raw) => raw,
            Err(error) => {
                self.add(Finding::from_error(Kind::Inode, &error, "a block of inodes"));
                return Ok(());
            }
        };
        for (i, raw) in raw.chunks_exact(size).enumerate() {
            // Blocks of a table are zero before they are first used. The root's, too, if it was lost.
            if raw.iter().all(|&b| b == 0) {
                continue;
            }
            let ino = base + u64::from(first) + i as u64;
            self.check_raw_inode(ino, raw).await?;
        }
        Ok(())
    }

    async fn check_raw_inode(&mut self, ino: Ino, raw: &[u8]) -> Result<()> {
        let sb = &self.view.sb;
        if Dinode::free_generation(&sb.shape, raw).is_some() || ino < ROOT_INO {
            return Ok(());
        }
        let (addr, off) = sb.inode_place(ino);
        let at = sb.shape.byte_of(addr) + off as u64;
        let frags = sb.size / u64::from(sb.shape.frag_size);
        // Blocks of the table that were never written may hold anything.
        let known = self.maps.last().and_then(|m| m.as_ref()).is_some_and(|image| {
            let index = (ino % u64::from(sb.group_inodes)) as usize;
            image.inodes[index / 8] >> (index % 8) & 1 != 0
        });
        let decoded = Dinode::decode(&sb.shape, raw, frags).map_err(String::from);
        let decoded = decoded.and_then(|d| match d.ino == ino {
            true => Ok(d),
            false => Err(format!("it says that it is inode {}", d.ino)),
        });
        match decoded {
            Ok(d) => self.check_inode(at, d).await,
            Err(_) if !known && ino != ROOT_INO => Ok(()),
            Err(what) => {
                self.wrong(Finding::serious(Kind::Inode, what).at(at).of(ino));
                if self.fixes {
                    self.view.free_inode(ino, 0).await?;
                }
                Ok(())
            }
        }
    }

    async fn check_inode(&mut self, at: u64, mut d: Dinode) -> Result<()> {
        let hidden = d.flags & HIDDEN != 0;
        if d.ino == ROOT_INO && !d.is_dir() {
            let what = "the root is not a directory";
            self.wrong(Finding::serious(Kind::Inode, what).at(at).of(ROOT_INO));
            if self.fixes {
                self.view.free_inode(ROOT_INO, d.generation).await?;
            }
            return Ok(());
        }
        if d.nlink == 0 && d.ino != ROOT_INO {
            return self.check_removed(at, &d).await;
        }
        let mut steps = self.view.steps(&d).await?;
        let mut cuts: Vec<Lbn> = Vec::new();
        let blocks = self.view.sb.shape.blocks_for(d.size);
        let mut past = 0u64;
        for step in &steps {
            let name = if step.lbn < 0 { "indirect block" } else { "block" };
            if let Some(wrong) = step.wrong {
                let what = format!("{name} {}: address {} {wrong}", step.lbn, step.ptr.addr);
                self.wrong(Finding::serious(Kind::Pointer, what).at(at).of(d.ino));
                cuts.push(step.lbn);
                self.doubt(d.ino, step.lbn);
            } else if self.view.sb.shape.first_data(step.lbn) >= blocks {
                past += 1;
                cuts.push(step.lbn);
                if d.flags & TRUNCATING == 0 {
                    self.doubt(d.ino, step.lbn);
                }
            }
        }
        let truncating = d.flags & TRUNCATING != 0;
        if past > 0 && !(truncating && self.was_open) {
            let what = format!("{past} blocks lie past the end, {} bytes", d.size);
            self.wrong(Finding::minor(Kind::Size, what).at(at).of(d.ino));
        }
        if truncating {
            self.report.counts.orphans += 1;
            self.changed |= self.fixes;
        }
        if self.fixes && (!cuts.is_empty() || truncating) {
            d.flags &= !TRUNCATING;
            self.view.cut(&mut d, &cuts).await?;
            steps = self.view.steps(&d).await?;
        }
        let usable = |step: &&Step| step.wrong.is_none();
        for step in steps.iter().filter(usable) {
            self.claim(step);
        }
        let found: u64 = steps.iter().filter(usable).map(|s| u64::from(s.ptr.len)).sum();
        self.compare_allocated(&mut d, found, truncating).await?;
        self.note(&d, hidden);
        Ok(())
    }

    /// An inode that says that it has no names may have one all the same: without a journal it can
    /// be written before the directory that it was removed from, or replaced in.
    pub(super) fn may_revive(&self) -> bool {
        self.was_open && self.view.sb.journal_bytes == 0
    }

    /// An inode without names: a crash left it, and it is freed.
    async fn check_removed(&mut self, at: u64, d: &Dinode) -> Result<()> {
        self.report.counts.orphans += 1;
        if !self.was_open {
            let what = "the inode has no names but is in use";
            self.wrong(Finding::minor(Kind::LostInode, what).at(at).of(d.ino));
        }
        let hidden = d.flags & HIDDEN != 0;
        if self.fixes && (hidden || !self.may_revive()) {
            self.changed = true;
            return self.view.free_inode(d.ino, d.generation).await;
        }
        // The next start frees it, or repair does if no name leads to it: until then its blocks are
        // in use.
        for step in self.view.steps(d).await?.iter().filter(|s| s.wrong.is_none()) {
            self.claim(step);
        }
        self.nodes[d.ino as usize].life = Life::Used;
        self.nodes[d.ino as usize].kind = (d.kind() >> 12) as u8;
        Ok(())
    }

    async fn compare_allocated(
        &mut self,
        d: &mut Dinode,
        found: u64,
        truncating: bool,
    ) -> Result<()> {
        let same = match self.view.sb.shape.pointer.is_modern() {
            true => d.allocated == found,
            // The narrow form counts in 32 bits of 512 bytes.
            false => (d.allocated / 512) as u32 == (found / 512) as u32,
        };
        if same {
            return Ok(());
        }
        if !truncating {
            let what = format!("{} bytes of blocks are counted, there are {found}", d.allocated);
            self.wrong(Finding::minor(Kind::Size, what).of(d.ino));
        }
        if self.fixes {
            d.allocated = found;
            self.view.put_inode(d).await?;
        }
        Ok(())
    }

    fn note(&mut self, d: &Dinode, hidden: bool) {
        let node = &mut self.nodes[d.ino as usize];
        node.life = Life::Used;
        node.nlink = d.nlink;
        node.kind = if hidden { 0 } else { (d.kind() >> 12) as u8 };
        let counts = &mut self.report.counts;
        match d.kind() {
            _ if hidden => counts.hidden += 1,
            mode::REGULAR => {
                counts.files += 1;
                counts.file_bytes += d.size;
            }
            mode::DIRECTORY => counts.dirs += 1,
            mode::SYMLINK => counts.symlinks += 1,
            _ => counts.special += 1,
        }
    }

    fn claim(&mut self, step: &Step) {
        let Some((group, within)) = self.view.sb.locate(step.ptr.addr) else { return };
        let used = &mut self.used[group as usize];
        for i in 0..step.ptr.len / self.view.sb.shape.frag_size {
            if used.get(within + i) {
                self.twice.insert(step.ptr.addr + u64::from(i));
            }
            used.set(within + i, true);
        }
    }

    /// Places that several files use are left to one of them. A block of names stays with its
    /// directory: the names of all others must not go with it. Beyond this a pointer counts less if
    /// it lies in an indirect block that holds something else (its place was in use again, or it was
    /// never written): that may lead anywhere, and the file that has it may be the newest. Then the
    /// file that changed last counts more.
    pub(super) async fn settle_doubles(&mut self) -> Result<()> {
        if self.twice.is_empty() {
            return Ok(());
        }
        let mut claims = self.claims().await?;
        // An indirect block stays before what it maps.
        claims.sort_by_key(|c| std::cmp::Reverse((c.rank, c.ino)));
        let mut owned: BTreeMap<u64, Ino> = BTreeMap::new();
        let mut cuts: BTreeMap<Ino, Vec<Lbn>> = BTreeMap::new();
        for Claim { ino, lbn, start, end, .. } in claims {
            let lost = cuts.get(&ino).map_or(&[][..], |lbns| lbns);
            if self.ways(lbn).any(|up| lost.contains(&up)) {
                // What leads to it is not this file's.
                continue;
            }
            if let Some((_, owner)) = owned.range(start..end).next() {
                let what = format!("block {lbn} is used by inode {owner} too");
                let at = self.view.sb.shape.byte_of(start);
                self.wrong(Finding::serious(Kind::DoubleUse, what).at(at).of(ino));
                cuts.entry(ino).or_default().push(lbn);
            } else {
                owned.extend((start..end).map(|addr| (addr, ino)));
            }
        }
        if self.fixes {
            for (ino, lbns) in cuts {
                if let Some(mut d) = self.read_inode(ino).await? {
                    self.view.cut(&mut d, &lbns).await?;
                }
            }
        }
        Ok(())
    }

    /// Who uses the places that several files use.
    async fn claims(&mut self) -> Result<Vec<Claim>> {
        let mut claims = Vec::new();
        for ino in 0..self.nodes.len() as Ino {
            if self.nodes[ino as usize].life != Life::Used {
                continue;
            }
            let Some(d) = self.read_inode(ino).await? else { continue };
            for step in self.view.steps(&d).await?.iter().filter(|step| step.wrong.is_none()) {
                let (lbn, start) = (step.lbn, step.ptr.addr);
                let end = start + u64::from(step.ptr.len / self.view.sb.shape.frag_size);
                if self.twice.range(start..end).next().is_none() {
                    continue;
                }
                let of_names = self.is_directory_block(&d, step).await?;
                let mut way = self.ways(lbn).chain([lbn]);
                let is_sound = !way.any(|up| self.doubtful.contains(&(ino, up)));
                let rank = (of_names, is_sound, d.ctime.secs, d.ctime.nanos);
                claims.push(Claim { rank, ino, lbn, start, end });
            }
        }
        Ok(claims)
    }

    /// The indirect blocks that lead to a block.
    fn ways(&self, lbn: Lbn) -> impl Iterator<Item = Lbn> + '_ {
        let up = |lbn: &Lbn| match self.view.sb.shape.parent(*lbn) {
            Parent::Inode(_) => None,
            Parent::Indirect(up, _) => Some(up),
        };
        std::iter::successors(up(&lbn), up)
    }

    /// Notes that an indirect block leads to where no block of its file can be.
    fn doubt(&mut self, ino: Ino, lbn: Lbn) {
        if let Parent::Indirect(up, _) = self.view.sb.shape.parent(lbn) {
            self.doubtful.insert((ino, up));
        }
    }

    /// True if this is a block of names of this directory, as far as can be seen.
    async fn is_directory_block(&self, d: &Dinode, step: &Step) -> Result<bool> {
        let Ok(lbn) = u64::try_from(step.lbn) else { return Ok(false) };
        if !d.is_dir() {
            return Ok(false);
        }
        let bytes = self.view.get(step.ptr.addr, step.ptr.len).await?;
        let before = lbn * u64::from(self.view.sb.shape.block_size);
        let len = d.size.saturating_sub(before).min(bytes.len() as u64) as usize;
        let own = (lbn == 0).then_some(d.ino);
        Ok(len > 0 && self.dir_format().validate(&bytes[..len], own).is_ok())
    }

    /// An inode that was found to be in order.
    pub(super) async fn read_inode(&self, ino: Ino) -> Result<Option<Dinode>> {
        let sb = &self.view.sb;
        if self.node(ino).is_none_or(|n| n.life != Life::Used) {
            return Ok(None);
        }
        let (addr, off) = sb.inode_place(ino);
        let raw = self.view.get(addr, sb.shape.block_size).await?;
        let raw = &raw[off..off + sb.shape.inode_size as usize];
        if Dinode::free_generation(&sb.shape, raw).is_some() {
            return Ok(None);
        }
        let frags = sb.size / u64::from(sb.shape.frag_size);
        Ok(Dinode::decode(&sb.shape, raw, frags).ok())
    }
}

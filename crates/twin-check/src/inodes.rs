//! Checks inodes: their own fields, their trees of blocks, and the places that these use.

use twin_cache::Lbn;
use twin_fs::dinode::{Dinode, HIDDEN, TRUNCATING};
use twin_fs::geometry::Parent;
use twin_fs::{Ino, ROOT_INO, Result, mode};

use crate::{
    Checker, Claim, Finding, FindingKind, FoundInode, NAMED_MAX, NumberState, Phase, Progress,
    Severity, Step, Walk,
};

/// Number of inodes that are read together.
const BATCH: usize = 8192;

/// What a walk over the blocks of a file has found.
#[derive(Default)]
struct Seen {
    /// Blocks whose pointers must be removed.
    cuts: Vec<Lbn>,
    /// Bytes of blocks that stay.
    allocated: u64,
    /// Blocks past the end of the file.
    past_end: u64,
}

impl Checker<'_> {
    /// Checks all inodes and claims their blocks.
    pub(crate) async fn check_inodes(&mut self, order: &[Ino]) -> Result<()> {
        let total = order.len() as u64;
        for (nth, some) in order.chunks(BATCH).enumerate() {
            let done = (nth * BATCH) as u64;
            (self.progress)(Progress { phase: Phase::Inodes, done, total });
            let read = self.image.inodes(some).await;
            for (&ino, found) in some.iter().zip(read) {
                // A hidden file may have been freed with its owner since it was read.
                if self.node(ino).is_some_and(|node| node.state == NumberState::Free) {
                    continue;
                }
                match found {
                    Ok(Some(found)) => self.check_inode(found).await?,
                    Ok(None) => self.set_state(ino, NumberState::Free),
                    Err(error) => {
                        self.set_state(ino, NumberState::Broken);
                        let what = "the inode cannot be read";
                        self.wrong_error(FindingKind::Inode, ino, error, what)?;
                    }
                }
            }
        }
        (self.progress)(Progress { phase: Phase::Inodes, done: total, total });
        if self.how.fixes {
            self.free_broken().await?;
        }
        Ok(())
    }

    /// Frees the inodes that cannot be read.
    async fn free_broken(&mut self) -> Result<()> {
        for ino in ROOT_INO..self.nodes.len() as Ino {
            match self.nodes[ino as usize].state {
                NumberState::Broken => {
                    self.report.add_loss(ino, "it is lost");
                    self.free(ino).await?;
                }
                // Whether there was an inode is not known, so no loss is reported.
                NumberState::Unknown => self.free(ino).await?,
                _ => {}
            }
        }
        Ok(())
    }

    fn set_state(&mut self, ino: Ino, state: NumberState) {
        if let Some(node) = self.node_mut(ino) {
            node.state = state;
        }
    }

    async fn check_inode(&mut self, found: FoundInode) -> Result<()> {
        self.image.note(&found, &mut self.report);
        let FoundInode { at, d } = found;
        let hidden = d.flags & HIDDEN != 0;
        if let Some(node) = self.node_mut(d.ino) {
            node.state = NumberState::Read;
            node.nlink = d.nlink;
            node.kind = if hidden { 0 } else { (d.kind() >> 12) as u8 };
        }
        if d.ino == ROOT_INO && !d.is_dir() {
            let what = "the root is not a directory";
            self.wrong(Finding::serious(FindingKind::InodeField, what).at(at).of(d.ino));
            return if self.how.fixes { self.free(d.ino).await } else { Ok(()) };
        }
        if d.quota != 0 {
            // One without names counts until it is freed.
            self.quota_use.entry(d.quota).or_default().add(d.quota_use());
        }
        if d.nlink == 0 && d.ino != ROOT_INO {
            return self.check_removed(&d).await;
        }
        if d.is_dir() {
            self.dir_order.push(d.ino);
        }
        self.count_inode(&d);
        let mut d = d;
        if !self.check_fields(at, &mut d).await? {
            return Ok(());
        }
        self.check_blocks(at, &mut d).await?;
        self.check_xattrs(at, &mut d).await
    }

    fn count_inode(&mut self, d: &Dinode) {
        if d.is_damaged() && self.report.damaged.len() < NAMED_MAX {
            self.report.damaged.push(d.ino);
        }
        let counts = &mut self.report.counts;
        if d.flags & HIDDEN != 0 {
            counts.hidden += 1;
            return;
        }
        match d.kind() {
            mode::REGULAR => {
                counts.files += 1;
                counts.file_bytes += d.size;
            }
            mode::DIRECTORY => counts.dirs += 1,
            mode::SYMLINK => counts.symlinks += 1,
            _ => counts.special += 1,
        }
    }

    /// Checks an inode without names, which a crash has left. The next mount frees it; a repair
    /// frees it too, unless a name may still lead to it. Until then its blocks are in use.
    async fn check_removed(&mut self, d: &Dinode) -> Result<()> {
        let revives = self.image.may_revive() && d.flags & HIDDEN == 0;
        if self.how.fixes && !revives {
            return self.free_removed(d).await;
        }
        self.keep_hidden(d).await?;
        if d.is_dir() && revives == self.how.fixes {
            self.dir_order.push(d.ino);
        }
        self.claim_blocks(d, true).await;
        Ok(())
    }

    /// Checks that the fields of an inode agree with its type; [`Dinode::decode`] has checked each
    /// by itself. Gives false if the inode was freed.
    async fn check_fields(&mut self, at: u64, d: &mut Dinode) -> Result<bool> {
        let hidden = d.flags & HIDDEN != 0;
        let has_blocks = d.ptrs.iter().any(|ptr| !ptr.is_hole());
        let special = mode::KINDS.contains(&d.kind())
            && !matches!(d.kind(), mode::REGULAR | mode::DIRECTORY | mode::SYMLINK);
        let nowhere = d.kind() == mode::SYMLINK && d.size == 0;
        let field = FindingKind::InodeField;
        let wrong = [
            (hidden && d.nlink > 1, field, "a hidden file with several names"),
            (d.index_ino != 0 && !d.is_dir(), field, "an index, but it is not a directory"),
            (d.is_dir() && d.size == 0, FindingKind::Size, "a directory without a block"),
            (nowhere, FindingKind::Size, "a link that leads nowhere"),
            (special && has_blocks, field, "a special file with data"),
        ];
        let mut any = false;
        for (_, kind, what) in wrong.into_iter().filter(|(is_wrong, ..)| *is_wrong) {
            any = true;
            self.wrong(Finding::serious(kind, what).at(at).of(d.ino));
        }
        if !any || !self.how.fixes {
            return Ok(true);
        }
        if nowhere {
            self.report.add_loss(d.ino, "the symbolic link is lost");
            self.free(d.ino).await?;
            return Ok(false);
        }
        if hidden {
            d.nlink = 1;
        }
        if !d.is_dir() {
            d.index_ino = 0;
        }
        if special {
            d.ptrs.fill(twin_fs::geometry::Ptr::HOLE);
        }
        self.image.put_inode(d).await?;
        Ok(true)
    }

    /// Checks every pointer of a file and claims the place that it leads to.
    async fn check_blocks(&mut self, at: u64, d: &mut Dinode) -> Result<()> {
        let mut seen = Seen::default();
        let mut walk = Walk::new(d);
        while let Some(step) = walk.next(&self.geometry) {
            if !self.check_step(at, d, &walk, step, &mut seen) || step.lbn >= 0 {
                continue;
            }
            match self.image.block(d.ino, step.lbn, step.ptr).await {
                Ok(content) => walk.descend(step, content),
                Err(error) => {
                    let what = format!("indirect block {} and all behind it", step.lbn);
                    self.wrong_error(FindingKind::IndirectBlock, d.ino, error, &what)?;
                    seen.cuts.push(step.lbn);
                    let gone = if self.how.fixes { step.ptr.len } else { 0 };
                    seen.allocated -= u64::from(gone);
                }
            }
        }
        let is_cut = d.flags & TRUNCATING != 0;
        if self.how.fixes && (!seen.cuts.is_empty() || is_cut) {
            d.flags &= !TRUNCATING;
            self.cut(d, std::mem::take(&mut seen.cuts)).await?;
        }
        self.check_allocated(d, seen.allocated, is_cut).await
    }

    /// Checks one pointer and claims its place. Gives false if the walk must not follow it.
    fn check_step(
        &mut self,
        at: u64,
        d: &Dinode,
        walk: &Walk,
        step: Step,
        seen: &mut Seen,
    ) -> bool {
        let Step { lbn, ptr } = step;
        let name = if lbn < 0 { "indirect block" } else { "block" };
        if !ptr.is_on_disk() && self.image.is_in_memory(d.ino, lbn) {
            seen.allocated += u64::from(ptr.len);
            return true;
        }
        let place = match lbn < 0 && walk.has_met(ptr.addr) {
            true => Err("is that of an indirect block of this file already"),
            false => self.image.check_place(ptr),
        };
        if let Err(what) = place {
            let what = format!("{name} {lbn}: address {}, {} bytes: {what}", ptr.addr, ptr.len);
            self.wrong(Finding::serious(FindingKind::Pointer, what).at(at).of(d.ino));
            self.mark_suspect(d.ino, lbn);
            seen.cuts.push(lbn);
            return false;
        }
        let place = self.geometry.byte_of(ptr.addr);
        if self.geometry.first_data(lbn) >= self.geometry.blocks_for(d.size) {
            self.check_past_end(d, step, seen);
        } else if ptr.len != self.geometry.len_on_disk(lbn, d.size) {
            let want = self.geometry.len_on_disk(lbn, d.size);
            let what =
                format!("{name} {lbn} has {} bytes; the file's length asks for {want}", ptr.len);
            self.wrong(Finding::serious(FindingKind::Pointer, what).at(place).of(d.ino));
            seen.cuts.push(lbn);
        }
        let claim = self.image.claim(d, step);
        if claim == Claim::Reserved {
            let what = format!("{name} {lbn} lies where something of the volume's own lies");
            self.wrong(Finding::serious(FindingKind::DoubleUse, what).at(place).of(d.ino));
            seen.cuts.push(lbn);
        }
        let stays = !self.how.fixes || seen.cuts.last() != Some(&lbn);
        seen.allocated += if stays { u64::from(ptr.len) } else { 0 };
        if claim == Claim::Taken {
            self.note_duplicate(step);
        }
        claim == Claim::Free && stays
    }

    fn check_past_end(&mut self, d: &Dinode, step: Step, seen: &mut Seen) {
        let is_cut = d.flags & TRUNCATING != 0;
        if !is_cut {
            self.mark_suspect(d.ino, step.lbn);
        }
        if !is_cut && seen.past_end == 0 {
            let what =
                format!("block {} and more lie past the file's end, {} bytes", step.lbn, d.size);
            let at = self.geometry.byte_of(step.ptr.addr);
            self.wrong(Finding::minor(FindingKind::Size, what).at(at).of(d.ino));
        }
        seen.past_end += 1;
        if self.how.fixes {
            seen.cuts.push(step.lbn);
        }
    }

    /// Notes that the indirect block above `lbn` has an impossible pointer, so that its others are
    /// believed less.
    fn mark_suspect(&mut self, ino: Ino, lbn: Lbn) {
        if let Parent::Indirect(up, _) = self.geometry.parent(lbn) {
            self.doubtful.insert((ino, up));
        }
    }

    /// Compares the bytes that an inode counts with those of its blocks.
    async fn check_allocated(&mut self, d: &mut Dinode, found: u64, is_cut: bool) -> Result<()> {
        // The narrow form counts in 32 bits of 512 bytes.
        let same = match self.geometry.is_modern() {
            true => d.allocated == found,
            false => (d.allocated / 512) as u32 == (found / 512) as u32,
        };
        if same {
            return Ok(());
        }
        if !is_cut || !self.how.fixes {
            let what = format!("{} bytes of blocks are counted, there are {found}", d.allocated);
            self.wrong(Finding::new(FindingKind::Allocated, Severity::Minor, what).of(d.ino));
        }
        if self.how.fixes {
            d.allocated = found;
            self.image.put_inode(d).await?;
        }
        Ok(())
    }
}

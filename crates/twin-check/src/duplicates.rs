//! Places that several files use: each is left to one of them.

use std::collections::{BTreeMap, BTreeSet};

use twin_cache::Lbn;
use twin_fs::dinode::Dinode;
use twin_fs::geometry::Parent;
use twin_fs::{Ino, ROOT_INO, Result};

use crate::{Checker, Finding, FindingKind, NumberState, Step, Walk};

/// The largest number of places for which the layout is asked who owns them.
const ASKED_MAX: u32 = 1000;

/// How strong the claim of a file to a place is; the fields count in their order. The strongest is
/// that the layout wrote the block for this file. Next, a directory keeps a block of names, because
/// all other names in it would be lost. Next, a pointer is weak if it lies in an indirect block
/// that holds something else (the block was used again, or was never written): such pointers may
/// lead anywhere, and their file may be the newest. Last, the file counts that changed last, or
/// first, as the layout says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_owner: bool,
    has_names: bool,
    is_sound: bool,
    changed: (i64, i64),
}

/// One file's use of a place that other files use too.
struct Use {
    rank: Rank,
    ino: Ino,
    lbn: Lbn,
    /// The first fragment and the end, as addresses of fragments.
    start: u64,
    end: u64,
    /// The block of the file for which the layout wrote the content, if the layout knows it.
    owner: Option<(Ino, Lbn)>,
}

impl Checker<'_> {
    /// Leaves each place that was claimed twice to one file.
    pub(crate) async fn check_duplicates(&mut self) -> Result<()> {
        if self.twice.is_empty() {
            return Ok(());
        }
        let mut uses = self.uses().await?;
        // Strongest claims first. An indirect block is decided before the blocks that it maps.
        uses.sort_by_key(|u| std::cmp::Reverse((u.rank, u.ino)));
        let mut owned: BTreeMap<u64, Ino> = BTreeMap::new();
        let mut cuts: BTreeMap<Ino, BTreeSet<Lbn>> = BTreeMap::new();
        for Use { ino, lbn, start, end, owner, .. } in uses {
            let lost = cuts.get(&ino);
            if self.ways(lbn).any(|up| lost.is_some_and(|lost| lost.contains(&up))) {
                // The indirect block that leads here was taken from this file.
                continue;
            }
            if let Some((_, other)) = owned.range(start..end).next() {
                let name = if lbn < 0 { "indirect block" } else { "block" };
                let mut what = format!("{name} {lbn} is used by inode {other} too");
                if let Some((ino, lbn)) = owner {
                    what += &format!("; the log wrote it as block {lbn} of inode {ino}");
                }
                let at = self.geometry.byte_of(start);
                self.wrong(Finding::serious(FindingKind::DoubleUse, what).at(at).of(ino));
                cuts.entry(ino).or_default().insert(lbn);
            } else {
                owned.extend((start..end).map(|addr| (addr, ino)));
            }
        }
        if self.how.fixes {
            for (ino, lbns) in cuts {
                if let Some(mut d) = self.dinode(ino).await? {
                    self.cut(&mut d, lbns).await?;
                }
            }
        }
        Ok(())
    }

    /// Finds all uses of the places that several files use.
    async fn uses(&mut self) -> Result<Vec<Use>> {
        let (mut uses, mut asked) = (Vec::new(), 0);
        for ino in ROOT_INO..self.nodes.len() as Ino {
            if self.nodes[ino as usize].state != NumberState::Read {
                continue;
            }
            let Some(d) = self.dinode(ino).await? else { continue };
            let mut walk = Walk::new(&d);
            while let Some(step) = walk.next(&self.geometry) {
                let Step { lbn, ptr } = step;
                if self.usable(&d, lbn, ptr).is_hole() || lbn < 0 && walk.has_met(ptr.addr) {
                    continue;
                }
                let start = ptr.addr;
                let end =
                    start.saturating_add(u64::from(ptr.len.div_ceil(self.geometry.frag_size)));
                if ptr.is_on_disk() && self.twice.range(start..end).next().is_some() {
                    asked += 1;
                    let at = self.geometry.byte_of(start);
                    let owner = match asked <= ASKED_MAX {
                        true => self.image.owner(at).await,
                        false => None,
                    };
                    let mut way = self.ways(lbn).chain([lbn]);
                    let rank = Rank {
                        is_owner: owner == Some((ino, lbn)),
                        has_names: self.has_names(&d, step).await?,
                        is_sound: !way.any(|up| self.doubtful.contains(&(ino, up))),
                        changed: match self.image.newest_keeps() {
                            true => (d.ctime.secs, d.ctime.nanos.into()),
                            false => (!d.ctime.secs, !i64::from(d.ctime.nanos)),
                        },
                    };
                    uses.push(Use { rank, ino, lbn, start, end, owner });
                }
                if lbn < 0
                    && let Ok(content) = self.image.block(ino, lbn, ptr).await
                {
                    walk.descend(step, content);
                }
            }
        }
        Ok(uses)
    }

    /// The indirect blocks that lead to a block, the nearest first.
    fn ways(&self, lbn: Lbn) -> impl Iterator<Item = Lbn> + '_ {
        let up = |lbn: &Lbn| match self.geometry.parent(*lbn) {
            Parent::Inode(_) => None,
            Parent::Indirect(up, _) => Some(up),
        };
        std::iter::successors(up(&lbn), up)
    }

    /// True if the content of this block is that of a block of this directory.
    async fn has_names(&self, d: &Dinode, step: Step) -> Result<bool> {
        let Ok(lbn) = u64::try_from(step.lbn) else { return Ok(false) };
        if !d.is_dir() {
            return Ok(false);
        }
        let Ok(bytes) = self.image.block(d.ino, step.lbn, step.ptr).await else { return Ok(false) };
        let len = self.bytes_in(d, lbn, &bytes);
        let own = (lbn == 0).then_some(d.ino);
        Ok(len > 0 && self.features.directories.validate(&bytes[..len], own).is_ok())
    }
}

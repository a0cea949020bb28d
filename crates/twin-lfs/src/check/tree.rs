//! The tree of blocks of a file: every pointer is looked at and its place claimed once.
//!
//! An indirect block whose place is taken already is not gone into, so however pointers lead into
//! a circle the walk ends.

use twin_cache::Lbn;
use twin_fs::Ino;
use twin_fs::dinode::{Dinode, TRUNCATING};
use twin_fs::shape::UNWRITTEN;

use super::claims::{Refused, identity};
use super::{Checker, Double, Finding, Kind, Severity};
use crate::view::{Step, Walk};

/// Doubly used places whose right owner is looked up in the log.
const DOUBLES_MAX: usize = 1000;

/// A walk over the blocks of a file, and what it has seen.
pub(super) struct Tree {
    walk: Walk,
    ino: Ino,
    generation: u32,
    size: u64,
    /// Blocks past the end are left from an interrupted truncation.
    is_cut: bool,
    /// Bytes of blocks so far.
    pub(super) allocated: u64,
    /// Blocks so far that lie past the end of the file.
    past_end: u64,
}

impl Tree {
    pub(super) fn new(d: &Dinode) -> Tree {
        Tree {
            walk: Walk::new(d),
            ino: d.ino,
            generation: d.generation,
            size: d.size,
            is_cut: d.flags & TRUNCATING != 0,
            allocated: 0,
            past_end: 0,
        }
    }
}

/// What stands for a block of a file at a place in the log.
pub(super) fn block_identity(
    ino: Ino,
    generation: u32,
    lbn: Lbn,
    at: u64,
    len: u32,
    crc: u32,
) -> u64 {
    let life_and_sum = u64::from(generation) << 32 | u64::from(crc);
    identity(&[ino, life_and_sum, lbn as u64, at, len.into()])
}

impl Checker<'_> {
    /// The next data block of a file, in ascending order. Looks at the indirect blocks on the
    /// way.
    pub(super) async fn next_data(&mut self, tree: &mut Tree) -> Option<Step> {
        loop {
            let step = tree.walk.next(&self.view)?;
            if !self.check_step(tree, step) {
                continue;
            }
            if step.lbn >= 0 {
                return Some(step);
            }
            if let Err(error) = tree.walk.descend(&self.view, step).await {
                let what = format!("indirect block {} and all behind it", step.lbn);
                self.add_error(Kind::IndirectBlock, Severity::Serious, tree.ino, error, &what);
            }
        }
    }

    /// Looks at all blocks of a file without reading its data.
    pub(super) async fn walk_all(&mut self, tree: &mut Tree) {
        while self.next_data(tree).await.is_some() {}
    }

    /// Checks a pointer and claims its place. False if it leads to nothing that could be read.
    fn check_step(&mut self, tree: &mut Tree, step: Step) -> bool {
        let Step { lbn, ptr } = step;
        let shape = &self.view.sb.shape;
        let name = if lbn < 0 { "indirect block" } else { "block" };
        if ptr.addr == UNWRITTEN && self.view.standing.overlays(tree.ino, lbn) {
            tree.allocated += u64::from(ptr.len);
            return true;
        }
        if let Err(what) = shape.check_ptr(ptr, self.view.frags) {
            let what = format!("{name} {lbn}: {what} (address {}, {} bytes)", ptr.addr, ptr.len);
            self.add(Finding::new(Kind::Pointer, Severity::Serious, what).of(tree.ino));
            return false;
        }
        let at = shape.byte_of(ptr.addr);
        let want = shape.len_on_disk(lbn, tree.size);
        let blocks = shape.blocks_for(tree.size);
        if shape.first_data(lbn) >= blocks && !tree.is_cut {
            if tree.past_end == 0 {
                let what = format!(
                    "{name} {lbn} lies past the file's end, {} bytes: {blocks} blocks",
                    tree.size
                );
                self.add(Finding::new(Kind::Size, Severity::Minor, what).at(at).of(tree.ino));
            }
            tree.past_end += 1;
        } else if ptr.len != want {
            let what =
                format!("{name} {lbn} has {} bytes; the file's length asks for {want}", ptr.len);
            self.add(Finding::new(Kind::Pointer, Severity::Serious, what).at(at).of(tree.ino));
        }
        tree.allocated += u64::from(ptr.len);
        let id = block_identity(tree.ino, tree.generation, lbn, at, ptr.len, ptr.crc);
        match self.claims.block(at, ptr.len, id) {
            Ok(()) => true,
            Err(refused) => {
                self.add_refused(refused, at, &format!("{name} {lbn}"), tree.ino);
                // A data block may be looked at all the same.
                lbn >= 0 && refused == Refused::Taken
            }
        }
    }

    /// Adds a place that cannot be what it is said to be.
    pub(super) fn add_refused(&mut self, refused: Refused, at: u64, name: &str, ino: Ino) {
        let kind = if refused == Refused::Taken { Kind::DoubleUse } else { Kind::Pointer };
        if refused == Refused::Taken && self.doubles.len() < DOUBLES_MAX {
            self.doubles.push(Double { at, finding: self.report.findings.len() });
        }
        let what = format!("{name} {}", refused.words());
        self.add(Finding::new(kind, Severity::Serious, what).at(at).of(ino));
    }
}

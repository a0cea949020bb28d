//! Inodes without names, their hidden files, and the places that these use.
//!
//! Contract: such an inode is in use until the next mount frees it. A check gives its hidden files
//! to it and claims its blocks. A repair takes it as free at once but frees it when the round has
//! ended, and claims its blocks only then, after those of all files with names.

use twin_fs::Result;
use twin_fs::dinode::{Dinode, HIDDEN};

use crate::{Checker, Claim, Node, NumberState, Step, Walk};

impl Checker<'_> {
    /// The hidden files that an inode leads to, if they are that, are in use and have no other owner.
    async fn hidden_of(&self, d: &Dinode) -> Result<Vec<Dinode>> {
        let mut found = Vec::new();
        for ino in [d.index_ino, d.xattr_ino].into_iter().filter(|&ino| ino != 0) {
            let free = self.node(ino).is_some_and(|node| [0, d.ino].contains(&node.owner));
            let hidden = if free { self.dinode(ino).await? } else { None };
            found.extend(hidden.filter(|hidden| hidden.flags & HIDDEN != 0 && hidden.nlink > 0));
        }
        Ok(found)
    }

    /// Gives the hidden files of an inode without names to it. It is in use until the next mount
    /// frees it, and they with it, so they are no strays.
    pub(crate) async fn keep_hidden(&mut self, d: &Dinode) -> Result<()> {
        for hidden in self.hidden_of(d).await? {
            if let Some(node) = self.node_mut(hidden.ino) {
                node.owner = d.ino;
            }
        }
        Ok(())
    }

    /// Frees an inode without names and its hidden files, as the next mount would.
    pub(crate) async fn free_removed(&mut self, d: &Dinode) -> Result<()> {
        for hidden in self.hidden_of(d).await? {
            self.remove_later(hidden);
        }
        self.remove_later(d.clone());
        Ok(())
    }

    /// Takes an inode as free from now on. The layout frees it when the round has ended.
    fn remove_later(&mut self, d: Dinode) {
        self.changed = true;
        let Some(node) = self.node_mut(d.ino) else { return };
        let node = Node { state: NumberState::Read, ..std::mem::take(node) };
        self.removed.push((d, node));
    }

    /// Gives removed inodes back what they have until the round has ended. It comes last, so that of
    /// two files that use a place the one with a name has it.
    pub(crate) async fn claim_removed(&mut self) {
        for (d, node) in self.removed.clone() {
            if let Some(there) = self.node_mut(d.ino) {
                *there = node;
            }
            self.claim_blocks(&d, false).await;
        }
    }

    /// Claims the blocks of an inode without names; of places that other files have too it takes note
    /// if `notes`.
    pub(crate) async fn claim_blocks(&mut self, d: &Dinode, notes: bool) {
        let mut walk = Walk::new(d);
        while let Some(step) = walk.next(&self.geometry) {
            let Step { lbn, ptr } = step;
            if self.usable(d, lbn, ptr).is_hole() || lbn < 0 && walk.has_met(ptr.addr) {
                continue;
            }
            if ptr.is_on_disk() && self.image.claim(d, step) != Claim::Free && notes {
                self.note_duplicate(step);
            }
            if lbn < 0
                && let Ok(content) = self.image.block(d.ino, lbn, ptr).await
            {
                walk.descend(step, content);
            }
        }
    }

    /// Takes note of a place that another file has too.
    pub(crate) fn note_duplicate(&mut self, step: Step) {
        let frags = u64::from(step.ptr.len.div_ceil(self.geometry.frag_size));
        self.twice.extend(step.ptr.addr..step.ptr.addr + frags);
    }
}

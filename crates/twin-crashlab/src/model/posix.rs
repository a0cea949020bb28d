//! A file system that does what POSIX promises and nothing more.
//!
//! Contract: only syncs order anything. An fsync of a file makes its data, its length and its attributes durable, and not
//! its name; an fsync of a directory makes the names in it durable. Anything else is there or not, one by one: the length
//! of a file without its data and a name without its file's content too. A rename is one step all the same, and of
//! several writes to one block the later ones need the earlier ones, since no kernel does otherwise.

use std::collections::BTreeMap;

use super::{Model, PartId, Parts, Sort, pieces};
use crate::history::{Event, History, What};
use crate::tree::{Effect, Id};

pub(super) const POSIX: Model = Model {
    name: "posix",
    about: "nothing is ordered, only what was fsynced is there: a file by its fsync, a name by that of its directory",
    is_device: false,
    cut,
};

#[derive(Default)]
struct Loose {
    /// The parts of each inode that are not certain: for a directory its names.
    of: BTreeMap<Id, Vec<PartId>>,
    /// The last part of each block.
    blocks: BTreeMap<(Id, u64), PartId>,
}

impl Loose {
    fn add(&mut self, id: Id, part: PartId) {
        self.of.entry(id).or_default().push(part);
    }
}

fn cut(history: &History, parts: &mut Parts) {
    let mut loose = Loose::default();
    for (number, event) in history.events.iter().enumerate() {
        cut_event(number, event, parts, &mut loose);
    }
}

fn cut_event(number: usize, event: &Event, parts: &mut Parts, loose: &mut Loose) {
    let effects = event.what.effects();
    match &event.what {
        What::Make { dir, .. } | What::Link { dir, .. } | What::Remove { dir, .. } => {
            let part = parts.add(number, Sort::Name, effects, Vec::new());
            loose.add(*dir, part);
        }
        What::Rename { dir, to_dir, .. } => {
            let part = parts.add(number, Sort::Name, effects, Vec::new());
            loose.add(*dir, part);
            if dir != to_dir {
                loose.add(*to_dir, part);
            }
        }
        What::Write { id, off, bytes, was } => {
            let end = off + bytes.len() as u64;
            if end > *was {
                let grown = Effect::Size { id: *id, size: end, grows: true };
                let part = parts.add(number, Sort::Size, vec![grown], Vec::new());
                loose.add(*id, part);
            }
            for (block, effect) in pieces(*id, event, false) {
                let needs = loose.blocks.get(&(*id, block)).copied().into_iter().collect();
                let part = parts.add(number, Sort::Data, vec![effect], needs);
                parts.parts[part as usize].tears = true;
                loose.blocks.insert((*id, block), part);
                loose.add(*id, part);
            }
        }
        What::Resize { id, .. } | What::Allocate { id, .. } | What::Zero { id, .. } => {
            let part = parts.add(number, Sort::Size, effects, Vec::new());
            loose.add(*id, part);
        }
        What::Attr { id, .. } | What::Xattr { id, .. } => {
            let part = parts.add(number, Sort::Attr, effects, Vec::new());
            loose.add(*id, part);
        }
        What::Fsync { id, since, .. } => {
            let all = loose.of.remove(id).unwrap_or_default();
            let (covered, later): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|&part| parts.event(part) < *since);
            parts.sync(number, covered);
            loose.of.insert(*id, later);
        }
        What::Sync { since } => {
            let covered = parts.parts.iter().take_while(|part| part.event < *since).count();
            parts.sync(number, 0..covered as PartId);
        }
        What::Close { .. } | What::Exit | What::Ack { .. } => {}
    }
}

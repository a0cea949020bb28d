//! What ext4 and XFS have in common: a journal of metadata in order, and data that is written later.
//!
//! Contract: names, new inodes, truncations and attributes are journalled in the order of their operations, so that a
//! power failure leaves a prefix of them; a rename is one step. The data of a file waits in the page cache. A block that
//! is there is overwritten in place, in any order with all else, and may be torn between sectors; of several writes to one
//! block the later ones need the earlier ones, which are in the same page. A file becomes longer only when its new data
//! is on the disk, at some time after the write and after all metadata that was journalled before it. An fsync of an
//! inode writes its data, and the journal up to the last change of its metadata: with that, all earlier metadata of
//! others too.

use std::collections::BTreeMap;

use super::{PartId, Parts, Sort, pieces};
use crate::history::{Event, History, What};
use crate::tree::{BLOCK, Effect, Id};

/// In what the two differ.
pub(super) struct Rules {
    /// New blocks of one file come to the disk in their order.
    pub(super) in_order: bool,
    /// The length can be on the disk before the data, in a block that was there already: zeros at the end.
    pub(super) bare_ends: bool,
    /// A rename over an existing file, and the closing of a file that was emptied, write its data first.
    pub(super) replaces: bool,
}

#[derive(Default)]
struct File {
    /// The last part of its metadata.
    meta: Option<PartId>,
    /// The parts of its data, by event.
    data: Vec<PartId>,
    /// The last part that touched each block.
    blocks: BTreeMap<u64, PartId>,
    /// Parts that made it longer and are not certain.
    appended: Vec<PartId>,
    /// Bytes whose blocks are certainly on the disk.
    allocated: u64,
    /// It was emptied since it was closed last.
    emptied: bool,
}

pub(super) struct Journal<'a> {
    rules: &'a Rules,
    parts: &'a mut Parts,
    files: BTreeMap<Id, File>,
    /// The last part of the journal.
    last: Option<PartId>,
    /// Data that must be on the disk before the next part of the journal.
    forced: Vec<PartId>,
}

pub(super) fn cut(history: &History, parts: &mut Parts, rules: &Rules) {
    // What was there before has its blocks.
    let allocated = |(id, size): (Id, u64)| {
        (id, File { allocated: size.div_ceil(BLOCK) * BLOCK, ..File::default() })
    };
    let files = history.base.files().map(allocated).collect();
    let mut journal = Journal { rules, parts, files, last: None, forced: Vec::new() };
    for (number, event) in history.events.iter().enumerate() {
        journal.event(number, event);
    }
}

impl Journal<'_> {
    fn file(&mut self, id: Id) -> &mut File {
        self.files.entry(id).or_default()
    }

    /// Adds a part to the journal that changes these inodes.
    fn meta(
        &mut self,
        event: usize,
        sort: Sort,
        effects: Vec<Effect>,
        more: Vec<PartId>,
        ids: &[Id],
    ) {
        let needs =
            self.last.into_iter().chain(std::mem::take(&mut self.forced)).chain(more).collect();
        let part = self.parts.add(event, sort, effects, needs);
        self.last = Some(part);
        for &id in ids {
            self.file(id).meta = Some(part);
        }
    }

    fn event(&mut self, number: usize, event: &Event) {
        let effects = event.what.effects();
        match &event.what {
            What::Make { dir, id, .. }
            | What::Link { dir, id, .. }
            | What::Remove { dir, id, .. } => {
                self.meta(number, Sort::Name, effects, Vec::new(), &[*dir, *id]);
            }
            What::Rename { dir, to_dir, id, replaced, .. } => {
                let forces = self.rules.replaces && replaced.is_some();
                let data = if forces { self.file(*id).appended.clone() } else { Vec::new() };
                let ids = [*dir, *to_dir, *id];
                self.meta(number, Sort::Name, effects, data, &ids);
            }
            What::Write { id, was, .. } => self.write(number, event, *id, *was),
            What::Resize { id, size, was } => {
                if size < was {
                    let file = self.file(*id);
                    file.emptied |= *size == 0;
                    file.appended.clear();
                    file.allocated = file.allocated.min(size.div_ceil(BLOCK) * BLOCK);
                }
                self.meta(number, Sort::Size, effects, Vec::new(), &[*id]);
            }
            What::Allocate { id, size, .. } => {
                self.meta(number, Sort::Size, effects, Vec::new(), &[*id]);
                let file = self.file(*id);
                file.allocated = file.allocated.max(*size);
            }
            What::Zero { id, .. } => self.meta(number, Sort::Data, effects, Vec::new(), &[*id]),
            What::Attr { id, .. } | What::Xattr { id, .. } => {
                self.meta(number, Sort::Attr, effects, Vec::new(), &[*id]);
            }
            What::Fsync { id, since, .. } => self.fsync(number, *id, *since),
            What::Sync { since } => {
                let covered =
                    self.parts.parts.iter().take_while(|part| part.event < *since).count();
                self.parts.sync(number, 0..covered as PartId);
                let all: Vec<_> = self.files.keys().copied().collect();
                all.into_iter().for_each(|id| self.forget_certain(id));
            }
            What::Close { id } => {
                let (replaces, file) = (self.rules.replaces, self.file(*id));
                if std::mem::take(&mut file.emptied) && replaces {
                    let appended = file.appended.clone();
                    self.forced.extend(appended);
                }
            }
            What::Exit | What::Ack { .. } => {}
        }
    }

    fn write(&mut self, number: usize, event: &Event, id: Id, was: u64) {
        let (in_order, bare_ends) = (self.rules.in_order, self.rules.bare_ends);
        let mut size = was;
        for (block, mut effect) in pieces(id, event, true) {
            let Effect::Data { off, part: (_, len), extends, .. } = &mut effect else { continue };
            let end = *off + *len as u64;
            let grows = end > size;
            let file = self.files.entry(id).or_default();
            let mut needs: Vec<PartId> = file.blocks.get(&block).copied().into_iter().collect();
            let on_disk = block * BLOCK < file.allocated;
            let bare = grows && bare_ends && on_disk;
            if bare {
                // The length is journalled at once, the data is not waited for.
                *extends = false;
                let grown = Effect::Size { id, size: end, grows: true };
                self.meta(number, Sort::Size, vec![grown], Vec::new(), &[id]);
            } else if grows {
                needs.extend(self.last);
                needs.extend(file.appended.last().filter(|_| in_order));
            } else {
                *extends = false;
            }
            needs.sort_unstable();
            needs.dedup();
            let part = self.parts.add(number, Sort::Data, vec![effect], needs);
            self.parts.parts[part as usize].tears = !grows || bare;
            let file = self.file(id);
            file.blocks.insert(block, part);
            file.data.push(part);
            if grows && !bare {
                file.appended.push(part);
            }
            size = size.max(end);
        }
    }

    fn fsync(&mut self, number: usize, id: Id, since: usize) {
        let Some(file) = self.files.get(&id) else { return };
        let parts: &Parts = self.parts;
        let covered = |part: &PartId| parts.event(*part) < since;
        let mut certain: Vec<PartId> = file.data.iter().copied().filter(covered).collect();
        certain.extend(file.meta.filter(|part| covered(part)));
        self.parts.sync(number, certain);
        self.forget_certain(id);
    }

    /// Forgets the parts of a file that are certain, and notes how far its blocks are.
    fn forget_certain(&mut self, id: Id) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let parts: &Parts = self.parts;
        let is_open = |part: &PartId| parts.durable[*part as usize].is_none();
        for part in file.appended.iter().filter(|part| !is_open(part)) {
            for effect in &parts.parts[*part as usize].effects {
                if let Effect::Data { off, part: (_, len), .. } = effect {
                    let end = (off + *len as u64).div_ceil(BLOCK) * BLOCK;
                    file.allocated = file.allocated.max(end);
                }
            }
        }
        file.appended.retain(is_open);
        file.data.retain(is_open);
        file.blocks.retain(|_, part| is_open(part));
    }
}

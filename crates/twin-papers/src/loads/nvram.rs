//! What a megabyte of NVRAM at each client takes away of the bytes that it writes, as Baker and others (1992, sections
//! 2.1 to 2.5) simulated it: blocks of 4 KB, the one that was changed longest ago goes to the server when there is no
//! room, and what is in the NVRAM at the end counts as written.
//!
//! Not modelled: what the server calls back when another client opens a file, since no client of a load opens what
//! another has written; in their traces that is 8 to 17% of the bytes (table 2).

use std::collections::BTreeMap;

use twin_fs::{Ino, Op};
use twin_trace::{Outcome, Record, Source, TraceError, Transfer};

/// The blocks of Sprite's caches.
const BLOCK: u64 = 4096;
/// The blocks of a megabyte.
const ROOM: usize = (1 << 20) / BLOCK as usize;

/// The dirty bytes of a block, from the first to the last, and when it was changed.
#[derive(Clone, Copy)]
struct Dirty {
    from: u64,
    to: u64,
    changed: u64,
}

/// The NVRAM of a client.
#[derive(Default)]
struct Nvram {
    blocks: BTreeMap<(Ino, u64), Dirty>,
    by_change: BTreeMap<u64, (Ino, u64)>,
    changes: u64,
}

/// Bytes that clients wrote, and those that were overwritten or removed in their NVRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Saved {
    pub(super) written: u64,
    pub(super) absorbed: u64,
}

impl Saved {
    /// In percent of what was written.
    pub(super) fn percent(self) -> f64 {
        self.absorbed as f64 * 100.0 / self.written.max(1) as f64
    }

    /// With that of other clients.
    pub(super) fn and(self, other: Saved) -> Saved {
        Saved { written: self.written + other.written, absorbed: self.absorbed + other.absorbed }
    }

    /// Of the clients of a load.
    ///
    /// # Errors
    /// If the load cannot be read.
    pub(super) fn of(source: &mut dyn Source) -> Result<Saved, TraceError> {
        let mut saved = Saved::default();
        let mut clients: BTreeMap<u32, Nvram> = BTreeMap::new();
        let mut names: BTreeMap<(Ino, Vec<u8>), Ino> = BTreeMap::new();
        let mut asked: BTreeMap<u64, (Ino, Vec<u8>)> = BTreeMap::new();
        while let Some(record) = source.next_record()? {
            let request = match record {
                Record::Request { request, .. } => request,
                Record::Reply { id, outcome: Outcome::Entry(ino), .. } => {
                    if let Some(name) = asked.remove(&id) {
                        names.insert(name, ino);
                    }
                    continue;
                }
                _ => continue,
            };
            let nvram = clients.entry(request.client).or_default();
            if let Some(moved) = Transfer::of(&request.op).filter(|moved| moved.is_write) {
                saved.written += moved.bytes;
                saved.absorbed += nvram.write(moved.ino, moved.off, moved.off + moved.bytes);
            }
            match request.op {
                Op::Create { dir, name, .. } | Op::Lookup { dir, name } => {
                    asked.insert(request.id, (dir, name.to_vec()));
                }
                Op::Unlink { dir, name } => {
                    if let Some(ino) = names.remove(&(dir, name.to_vec())) {
                        saved.absorbed += nvram.remove(ino);
                    }
                }
                Op::SetAttr { ino, set } if set.size == Some(0) => {
                    saved.absorbed += nvram.remove(ino);
                }
                _ => {}
            }
        }
        Ok(saved)
    }
}

impl Nvram {
    /// Bytes are written; returns how many of them overwrite what is in it.
    fn write(&mut self, ino: Ino, off: u64, end: u64) -> u64 {
        let mut overwritten = 0;
        for block in off / BLOCK..end.div_ceil(BLOCK) {
            let (from, to) = (off.max(block * BLOCK), end.min((block + 1) * BLOCK));
            self.changes += 1;
            let mut dirty = Dirty { from, to, changed: self.changes };
            if let Some(old) = self.blocks.get(&(ino, block)) {
                overwritten += to.min(old.to).saturating_sub(from.max(old.from));
                (dirty.from, dirty.to) = (from.min(old.from), to.max(old.to));
                self.by_change.remove(&old.changed);
            }
            self.blocks.insert((ino, block), dirty);
            self.by_change.insert(self.changes, (ino, block));
            if self.blocks.len() > ROOM
                && let Some((_, oldest)) = self.by_change.pop_first()
            {
                self.blocks.remove(&oldest);
            }
        }
        overwritten
    }

    /// A file is removed, or cut off to nothing; returns its dirty bytes.
    fn remove(&mut self, ino: Ino) -> u64 {
        let of_file: Vec<_> =
            self.blocks.range((ino, 0)..=(ino, u64::MAX)).map(|(at, _)| *at).collect();
        let mut bytes = 0;
        for at in of_file {
            if let Some(dirty) = self.blocks.remove(&at) {
                bytes += dirty.to - dirty.from;
                self.by_change.remove(&dirty.changed);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overwritten_or_removed_while_it_is_there_never_reaches_the_server() {
        let mut nvram = Nvram::default();
        assert_eq!(nvram.write(1, 0, 6000), 0);
        assert_eq!(nvram.write(1, 1000, 5000), 4000);
        assert_eq!(nvram.remove(1), 6000);
        assert_eq!(nvram.remove(1), 0);
    }

    #[test]
    fn the_block_that_was_changed_longest_ago_goes_when_there_is_no_room() {
        let mut nvram = Nvram::default();
        nvram.write(1, 0, BLOCK);
        nvram.write(2, 0, (ROOM as u64 - 1) * BLOCK);
        nvram.write(1, 0, 10);
        nvram.write(3, 0, BLOCK);
        assert_eq!(nvram.remove(1), BLOCK, "it was changed after the first of the other file");
        assert_eq!(nvram.remove(2), (ROOM as u64 - 2) * BLOCK);
    }
}

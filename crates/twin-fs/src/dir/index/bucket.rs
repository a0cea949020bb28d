//! The blocks of buckets: unordered entries, and a link to the bucket's next block.
//!
//! | byte | field | |
//! |------|-------|-|
//! | 0 | magic u32 | "tdhb" |
//! | 4 | zero u32 | the pointer to the block has its checksum |
//! | 8 | bucket u32 | the bucket that the block belongs to; all ones: a free block |
//! | 12 | count u32 | |
//! | 16 | next u32 | the next block of the bucket, or the next free one; 0 for none |
//! | 20 | zero u32 | |
//! | 24 | entries | hash u32, position u32 |
//!
//! In a chain only one block may have room: the second one, or the first one if there is no second.

use super::{ENTRIES_AT, Frames, Header, Slot, StepError, bad, capacity};

const MAGIC: u32 = u32::from_le_bytes(*b"tdhb");
const FREE: u32 = u32::MAX;

/// The head of a block, after its check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) lbn: u64,
    pub(super) count: usize,
    pub(super) next: u64,
}

fn word(block: &[u8], at: usize) -> u32 {
    let mut raw = [0u8; 4];
    raw.copy_from_slice(&block[at..at + 4]);
    u32::from_le_bytes(raw)
}

fn put_word(block: &mut [u8], at: usize, word: u32) {
    block[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// The entries of a bucket's block.
pub fn bucket_entries(block: &[u8]) -> impl Iterator<Item = Slot> + '_ {
    let count = if block.len() < ENTRIES_AT { 0 } else { word(block, 12) as usize };
    let entries = block.get(ENTRIES_AT..).unwrap_or_default().chunks_exact(8);
    entries.take(count).map(|raw| Slot { hash: word(raw, 0), position: word(raw, 4) })
}

fn parse(block: &[u8], header: &Header, lbn: u64, owner: u32) -> Result<Link, StepError> {
    if block.len() != header.block_size as usize || word(block, 0) != MAGIC {
        return bad(lbn, "not a block of a bucket");
    }
    if word(block, 8) != owner {
        return bad(lbn, "a block of another bucket");
    }
    let link = Link { lbn, count: word(block, 12) as usize, next: u64::from(word(block, 16)) };
    if link.count > capacity(block.len()) || (owner == FREE && link.count > 0) {
        return bad(lbn, "more entries than a block holds");
    }
    if link.next >= header.next_overflow() || link.next == lbn {
        return bad(lbn, "a link out of the index");
    }
    Ok(link)
}

/// Reads the head of a bucket's block.
pub(super) fn link(
    frames: &impl Frames,
    header: &Header,
    lbn: u64,
    bucket: u32,
) -> Result<Link, StepError> {
    frames.read(lbn, |block| parse(block, header, lbn, bucket)).ok_or(StepError::Load(lbn))?
}

/// Reads the link from a free block to the next one.
pub(super) fn free_link(frames: &impl Frames, header: &Header, lbn: u64) -> Result<u64, StepError> {
    Ok(link(frames, header, lbn, FREE)?.next)
}

/// Changes a block that the step has already read.
fn edit(frames: &mut impl Frames, lbn: u64, f: impl FnOnce(&mut [u8])) {
    let edited = frames.write(lbn, f);
    assert!(edited.is_some(), "index block {lbn} left memory within a step");
}

/// Adds the positions of a block's entries with this hash to `found`.
pub(super) fn positions(frames: &impl Frames, lbn: u64, hash: u32, found: &mut Vec<u32>) {
    frames.read(lbn, |block| {
        let slots = bucket_entries(block).filter(|slot| slot.hash == hash);
        found.extend(slots.map(|slot| slot.position));
    });
}

/// The index of an entry in a block; `None` if the block does not have it.
pub(super) fn find(frames: &impl Frames, lbn: u64, slot: Slot) -> Option<usize> {
    frames.read(lbn, |block| bucket_entries(block).position(|s| s == slot)).flatten()
}

fn put(block: &mut [u8], at: usize, slot: Slot) {
    put_word(block, ENTRIES_AT + 8 * at, slot.hash);
    put_word(block, ENTRIES_AT + 8 * at + 4, slot.position);
}

/// Writes a whole block.
pub(super) fn write(frames: &mut impl Frames, lbn: u64, bucket: u32, next: u64, slots: &[Slot]) {
    edit(frames, lbn, |block| {
        block.fill(0);
        put_word(block, 0, MAGIC);
        put_word(block, 8, bucket);
        put_word(block, 12, slots.len() as u32);
        put_word(block, 16, next as u32);
        for (at, slot) in slots.iter().enumerate() {
            put(block, at, *slot);
        }
    });
}

/// Makes a block free.
pub(super) fn write_free(frames: &mut impl Frames, lbn: u64, next: u64) {
    write(frames, lbn, FREE, next, &[]);
}

/// Adds an entry to a block that has room.
pub(super) fn push(frames: &mut impl Frames, lbn: u64, slot: Slot) {
    edit(frames, lbn, |block| {
        let count = word(block, 12);
        put(block, count as usize, slot);
        put_word(block, 12, count + 1);
    });
}

/// Removes and returns the last entry of a block that has one.
pub(super) fn pop(frames: &mut impl Frames, lbn: u64) -> Slot {
    let mut last = Slot { hash: 0, position: 0 };
    edit(frames, lbn, |block| {
        let at = ENTRIES_AT + 8 * (word(block, 12) as usize - 1);
        last = Slot { hash: word(block, at), position: word(block, at + 4) };
        block[at..at + 8].fill(0);
        put_word(block, 12, word(block, 12) - 1);
    });
    last
}

pub(super) fn set(frames: &mut impl Frames, lbn: u64, at: usize, slot: Slot) {
    edit(frames, lbn, |block| put(block, at, slot));
}

/// Links a block to another.
pub(super) fn set_next(frames: &mut impl Frames, lbn: u64, next: u64) {
    edit(frames, lbn, |block| put_word(block, 16, next as u32));
}

/// Writes a bucket anew, with overflow blocks from the pool. All blocks except the first overflow
/// block are full, so that [`super::insert`] need not look beyond that block, and
/// [`super::remove`] can take the entry that fills a gap from it.
pub(super) fn lay_out(
    frames: &mut impl Frames,
    header: &Header,
    bucket: u32,
    slots: &[Slot],
    pool: &mut Vec<u64>,
) {
    let capacity = header.capacity();
    let (first, rest) = slots.split_at(slots.len().min(capacity));
    let mut next = 0;
    for full in rest.rchunks(capacity) {
        let lbn = pool.pop();
        let lbn = lbn.unwrap_or_else(|| unreachable!("{} entries, no block", slots.len()));
        write(frames, lbn, bucket, next, full);
        next = lbn;
    }
    write(frames, header.primary(bucket), bucket, next, first);
}

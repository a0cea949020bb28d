//! The index of a large directory: a hash table that leads from the hash of a name to the directory
//! blocks that may contain the name.
//!
//! It uses linear hashing (Litwin 1980): the table grows and shrinks by one bucket at a time and
//! needs no list of buckets, so a lookup in an index of any size reads the header and one bucket. A
//! bucket is one block of the index file and, rarely, a chain of overflow blocks. Overflow blocks
//! lie between the generations of buckets, as in Seltzer and Yigit's hashing package (1991): see
//! [`Header::primary`]. Block 0 is the header. An entry consists of a hash and a *position*, 32
//! bits that the index does not interpret; volumes store the logical number of the directory block
//! there. Entries may have equal hashes, or be equal; each is kept as often as it was inserted.
//!
//! Nothing here waits. Operations work on the [`Frames`] that the caller holds. When a block is
//! missing they return its number ([`StepError`]) *before they change anything*; the caller loads
//! the block and calls again:
//!
//! ```
//! use twin_fs::dir::index::{self, Frames, StepError};
//! # fn load(_: u64) -> Vec<u8> { unreachable!("nothing is on disk yet") }
//! # fn main() -> Result<(), index::IndexError> {
//! let mut held = index::BlockMap::default();
//! let mut drive = |held: &mut index::BlockMap, op: &dyn Fn(&mut index::BlockMap) -> _| loop {
//!     match op(held) {
//!         Ok(done) => return Ok(done),
//!         Err(StepError::Load(lbn)) => held.put(lbn, load(lbn)), // read it, and wait for it
//!         Err(StepError::Make(lbn)) => held.put(lbn, vec![0; 4096]), // new: no need to read
//!         Err(StepError::Bad(error)) => return Err(error),
//!     }
//! };
//! drive(&mut held, &|f| index::create(f, [1, 2]).map(|()| vec![]))?;
//! drive(&mut held, &|f| index::insert(f, 77, 5).map(|()| vec![]))?;
//! assert_eq!(drive(&mut held, &|f| index::lookup(f, 77))?, [5]);
//! # Ok(())
//! # }
//! ```
//!
//! After [`insert`] call [`grow`], after [`remove`] call [`shrink`]. Each adds or removes at most
//! one bucket and leaves the index consistent, so it may be a step of its own, and may be left out
//! when space is short. [`insert`], [`grow`] and [`shrink`] may each need one new block, [`remove`]
//! needs none. A step needs in memory: the header, the chain of one bucket (of two for [`shrink`])
//! and one free block.

mod bucket;
mod header;

use std::collections::BTreeMap;
use std::fmt;

use crate::FsError;
pub use bucket::bucket_entries;
pub use header::Header;

/// The number of bytes before the entries of a bucket's block.
const ENTRIES_AT: usize = 24;
const ENTRY_BYTES: usize = 8;

/// The number of entries that a block of this size holds.
pub const fn capacity(block_size: usize) -> usize {
    block_size.saturating_sub(ENTRIES_AT) / ENTRY_BYTES
}

/// The blocks of an index file that are in memory.
pub trait Frames {
    /// Calls `f` with the bytes of a block; returns `None` if the block is not in memory.
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R>;
    /// Lets `f` change a block, which must be written later; returns `None` if the block is not in
    /// memory. It is called only for blocks that [`Frames::read`] returned before in the same step.
    fn write<R>(&mut self, lbn: u64, f: impl FnOnce(&mut [u8]) -> R) -> Option<R>;
}

/// The reason why a step changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepError {
    /// The step needs this block: the caller reads it and calls again.
    Load(u64),
    /// The step will write this block anew, whatever its contents; it may lie beyond the end of the
    /// file. The caller makes a block with any contents and calls again.
    Make(u64),
    /// The index contradicts itself.
    Bad(IndexError),
}

/// What is wrong with an index, and in which of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexError {
    /// The block of the index file.
    pub lbn: u64,
    /// What contradicts the format.
    pub what: &'static str,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "directory index, block {}: {}", self.lbn, self.what)
    }
}

impl std::error::Error for IndexError {}

impl From<IndexError> for FsError {
    fn from(error: IndexError) -> FsError {
        FsError::inconsistent(error.to_string())
    }
}

fn bad<T>(lbn: u64, what: &'static str) -> Result<T, StepError> {
    Err(StepError::Bad(IndexError { lbn, what }))
}

/// An entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The hash of the name.
    pub hash: u32,
    /// The position: for volumes, the logical number of the directory block with the name.
    pub position: u32,
}

/// Makes an empty index with a random key for [`super::name_hash`].
///
/// # Errors
/// [`StepError::Make`] for the header and the first bucket.
pub fn create(frames: &mut impl Frames, key: [u64; 2]) -> Result<(), StepError> {
    let block_size = frames.read(0, |block| block.len()).ok_or(StepError::Make(0))?;
    if frames.read(1, |_| ()).is_none() {
        return Err(StepError::Make(1));
    }
    let header = Header::new(block_size as u32, key);
    bucket::write(frames, header.primary(0), 0, 0, &[]);
    // What is after the header stays zero.
    frames.write(0, |block| block.fill(0));
    header.store(frames);
    Ok(())
}

/// Reads the header: the key of the hash and the figures of the table.
///
/// # Errors
/// [`StepError::Load`], and [`StepError::Bad`] if the header contradicts itself.
pub fn header(frames: &impl Frames) -> Result<Header, StepError> {
    frames.read(0, Header::parse).ok_or(StepError::Load(0))?
}

/// The positions of all entries with this hash, in ascending order, each once.
pub fn lookup(frames: &impl Frames, hash: u32) -> Result<Vec<u32>, StepError> {
    let header = header(frames)?;
    let mut found = Vec::new();
    for link in chain(frames, &header, header.bucket_of(hash))? {
        bucket::positions(frames, link.lbn, hash, &mut found);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Adds an entry.
pub fn insert(frames: &mut impl Frames, hash: u32, position: u32) -> Result<(), StepError> {
    let mut header = header(frames)?;
    let bucket = header.bucket_of(hash);
    let slot = Slot { hash, position };
    // In a chain only the first overflow block may have room (see `bucket::lay_out`), so the cost
    // does not depend on the length of the chain.
    let first = bucket::link(frames, &header, header.primary(bucket), bucket)?;
    let capacity = header.capacity();
    if first.count < capacity {
        bucket::push(frames, first.lbn, slot);
    } else {
        let second = match first.next {
            0 => None,
            lbn => Some(bucket::link(frames, &header, lbn, bucket)?),
        };
        match second {
            Some(second) if second.count < capacity => bucket::push(frames, second.lbn, slot),
            _ => {
                let lbn = take_block(frames, &mut header)?;
                bucket::write(frames, lbn, bucket, first.next, &[slot]);
                bucket::set_next(frames, first.lbn, lbn);
            }
        }
    }
    header.entries += 1;
    header.store(frames);
    Ok(())
}

/// Removes one entry; returns false if there is no such entry.
pub fn remove(frames: &mut impl Frames, hash: u32, position: u32) -> Result<bool, StepError> {
    let mut header = header(frames)?;
    let bucket = header.bucket_of(hash);
    let slot = Slot { hash, position };
    let first = bucket::link(frames, &header, header.primary(bucket), bucket)?;
    let mut here = first;
    let mut steps = 0;
    let at = loop {
        if let Some(at) = bucket::find(frames, here.lbn, slot) {
            break at;
        }
        if here.next == 0 {
            return Ok(false);
        }
        steps += 1;
        check_steps(&header, here.lbn, steps)?;
        here = bucket::link(frames, &header, here.next, bucket)?;
    };
    // The gap is filled with an entry from the only block that may have room, so all other blocks
    // stay full.
    let filler = match first.next {
        0 => first,
        lbn => bucket::link(frames, &header, lbn, bucket)?,
    };
    if filler.count == 0 {
        return bad(filler.lbn, "an empty overflow block in a chain");
    }
    header.entries = match header.entries.checked_sub(1) {
        Some(entries) => entries,
        None => return bad(0, "fewer entries counted than found"),
    };
    let last = bucket::pop(frames, filler.lbn);
    if (here.lbn, at) != (filler.lbn, filler.count - 1) {
        bucket::set(frames, here.lbn, at, last);
    }
    if filler.lbn != first.lbn && filler.count == 1 {
        bucket::set_next(frames, first.lbn, filler.next);
        give_block(frames, &mut header, filler.lbn);
    }
    header.store(frames);
    Ok(true)
}

/// Splits one bucket if the table is fuller than it should be; returns false if it is not.
pub fn grow(frames: &mut impl Frames) -> Result<bool, StepError> {
    let mut header = header(frames)?;
    if !header.wants_growth() {
        return Ok(false);
    }
    let old = header.split_bucket();
    let links = chain(frames, &header, old)?;
    let new = header.add_bucket();
    if frames.read(header.primary(new), |_| ()).is_none() {
        return Err(StepError::Make(header.primary(new)));
    }
    let slots = collect(frames, &links);
    let (stay, go): (Vec<Slot>, Vec<Slot>) =
        slots.into_iter().partition(|slot| header.bucket_of(slot.hash) == old);
    if go.iter().any(|slot| header.bucket_of(slot.hash) != new) {
        return bad(links[0].lbn, "an entry in the wrong bucket");
    }
    let mut pool: Vec<u64> = links[1..].iter().map(|link| link.lbn).collect();
    bucket::lay_out(frames, &header, old, &stay, &mut pool);
    bucket::lay_out(frames, &header, new, &go, &mut pool);
    for lbn in pool {
        give_block(frames, &mut header, lbn);
    }
    header.store(frames);
    Ok(true)
}

/// Merges the last bucket into its partner if the table is much emptier than it should be. Returns
/// the block that is no longer used and may become a hole, or `None` if nothing was done.
pub fn shrink(frames: &mut impl Frames) -> Result<Option<u64>, StepError> {
    let mut header = header(frames)?;
    if !header.wants_shrinking() {
        return Ok(None);
    }
    let gone_primary = header.primary(header.buckets - 1);
    let gone_links = chain(frames, &header, header.buckets - 1)?;
    header.drop_bucket();
    let stays = header.split_bucket();
    let links = chain(frames, &header, stays)?;
    let mut slots = collect(frames, &links);
    slots.extend(collect(frames, &gone_links));
    let overflow = links[1..].iter().chain(&gone_links[1..]);
    let mut pool: Vec<u64> = overflow.map(|link| link.lbn).collect();
    let needed = slots.len().div_ceil(header.capacity()).saturating_sub(1);
    if needed > pool.len() {
        // One more is enough: each bucket has at most one block that is partly filled.
        pool.push(take_block(frames, &mut header)?);
    }
    bucket::lay_out(frames, &header, stays, &slots, &mut pool);
    for lbn in pool {
        give_block(frames, &mut header, lbn);
    }
    header.store(frames);
    Ok(Some(gone_primary))
}

/// The contents of one bucket, for a checker.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BucketReport {
    /// The entries of the bucket.
    pub slots: Vec<Slot>,
    /// Its blocks, the primary first.
    pub blocks: Vec<u64>,
}

/// Checks that each entry of a bucket belongs there, and that only the first overflow block has
/// room.
pub fn check_bucket(frames: &impl Frames, bucket: u32) -> Result<BucketReport, StepError> {
    let header = header(frames)?;
    let links = chain(frames, &header, bucket)?;
    let slots = collect(frames, &links);
    if slots.iter().any(|slot| header.bucket_of(slot.hash) != bucket) {
        return bad(links[0].lbn, "an entry in the wrong bucket");
    }
    for (nth, link) in links.iter().enumerate() {
        let may_have_room = nth == 1 || links.len() == 1;
        if !may_have_room && link.count < header.capacity() {
            return bad(link.lbn, "room in a block that should be full");
        }
        if nth > 0 && link.count == 0 {
            return bad(link.lbn, "an empty overflow block in a chain");
        }
    }
    Ok(BucketReport { slots, blocks: links.iter().map(|link| link.lbn).collect() })
}

/// The free overflow blocks, in the order in which they will be reused.
pub fn check_free_blocks(frames: &impl Frames) -> Result<Vec<u64>, StepError> {
    let header = header(frames)?;
    let mut free = Vec::new();
    let mut lbn = header.free;
    while lbn != 0 {
        check_steps(&header, lbn, free.len() as u64 + 1)?;
        free.push(lbn);
        lbn = bucket::free_link(frames, &header, lbn)?;
    }
    Ok(free)
}

fn check_steps(header: &Header, lbn: u64, steps: u64) -> Result<(), StepError> {
    if steps > u64::from(header.overflow) {
        bad(lbn, "a chain that runs in a circle")
    } else {
        Ok(())
    }
}

/// The heads of all blocks of a bucket. All these blocks must be in memory.
fn chain(
    frames: &impl Frames,
    header: &Header,
    bucket: u32,
) -> Result<Vec<bucket::Link>, StepError> {
    let mut link = bucket::link(frames, header, header.primary(bucket), bucket)?;
    let mut links = vec![link];
    while link.next != 0 {
        check_steps(header, link.lbn, links.len() as u64)?;
        link = bucket::link(frames, header, link.next, bucket)?;
        links.push(link);
    }
    Ok(links)
}

fn collect(frames: &impl Frames, links: &[bucket::Link]) -> Vec<Slot> {
    let mut slots = Vec::new();
    for link in links {
        frames.read(link.lbn, |block| slots.extend(bucket_entries(block)));
    }
    slots
}

/// Takes a free overflow block, or makes a new one if none is free.
fn take_block(frames: &impl Frames, header: &mut Header) -> Result<u64, StepError> {
    if header.free != 0 {
        let lbn = header.free;
        header.free = bucket::free_link(frames, header, lbn)?;
        return Ok(lbn);
    }
    let lbn = header.next_overflow();
    if lbn > u64::from(u32::MAX) {
        return bad(0, "the index has no block numbers left");
    }
    if frames.read(lbn, |_| ()).is_none() {
        return Err(StepError::Make(lbn));
    }
    header.overflow += 1;
    Ok(lbn)
}

fn give_block(frames: &mut impl Frames, header: &mut Header, lbn: u64) {
    bucket::write_free(frames, lbn, header.free);
    header.free = lbn;
}

/// The simplest implementation of [`Frames`]: a map of blocks.
#[derive(Clone, Debug, Default)]
pub struct BlockMap(BTreeMap<u64, Vec<u8>>);

impl BlockMap {
    /// Adds a block that was read.
    pub fn put(&mut self, lbn: u64, block: Vec<u8>) {
        self.0.insert(lbn, block);
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Frames for BlockMap {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.0.get(&lbn).map(|block| f(block))
    }

    fn write<R>(&mut self, lbn: u64, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.0.get_mut(&lbn).map(|block| f(block))
    }
}

#[cfg(test)]
mod tests;

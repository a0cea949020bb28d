//! The blocks of a file, read from the device and compared with what they should be.
//!
//! Contract: pointers are those of memory, which are always up to date; indirect blocks that are not there
//! are read as for a client. Between the look at a pointer and the request there is no `.await`, and a
//! pass of the [`ReadGate`](crate::ReadGate) keeps the place from being used for something else. Blocks
//! that lie behind each other are read with one request; one that looks wrong is looked at alone, after
//! all writes under way have ended, and is a flaw if it is wrong again and its pointer is the same.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, Bytes, Class, Io, IoError, Origin, gather};

use super::Run;
use crate::geometry::{Geometry, Ptr};
use crate::inodes::Inode;
use crate::scrub_view::Flaw;

/// The most bytes of a request.
const REQUEST_MOST: u64 = 128 << 10;
/// How often a block is looked at that does not come to rest.
const LOOKS: usize = 4;

/// What a block on the device turned out to be.
enum Verdict {
    Good,
    /// Why it is bad.
    Bad(String),
    /// Nothing can be said now: it is being written, or was moved.
    Unknown,
}

/// The position in the tree of blocks of a file: an indirect block and the next index in it.
struct Level {
    lbn: Lbn,
    next: usize,
}

impl Run<'_> {
    /// Looks at all blocks of a file. False if the scrub was cancelled.
    pub(super) async fn file(&self, inode: &Rc<Inode>) -> bool {
        let geometry = &self.core.geometry;
        // What an inode holds itself is a part of its record.
        if inode.d.borrow().is_inline() {
            return true;
        }
        let slots = inode.d.borrow().ptrs.len();
        let mut batch = Batch::default();
        for slot in 0..slots {
            let mut stack = Vec::new();
            let mut at = Some(geometry.inode_child(slot));
            while let Some(lbn) = at {
                let ptr = match self.core.ptr(inode, lbn).await {
                    Ok(ptr) => ptr,
                    // The indirect block above it was a flaw when it was looked at.
                    Err(_) => Ptr::HOLE,
                };
                if ptr.is_on_disk() {
                    if !batch.follows(ptr) && !self.blocks(inode, &mut batch).await {
                        return false;
                    }
                    batch.add(geometry, lbn, ptr);
                    if lbn < 0 {
                        // It is looked at before it is followed.
                        if !self.blocks(inode, &mut batch).await {
                            return false;
                        }
                        if !self.has_flaw(inode, lbn) {
                            stack.push(Level { lbn, next: 0 });
                        }
                    }
                }
                at = next_in(geometry, &mut stack);
            }
        }
        self.blocks(inode, &mut batch).await
    }

    /// True if this indirect block was found to be bad: what it leads to is not followed.
    fn has_flaw(&self, inode: &Inode, lbn: Lbn) -> bool {
        let at = self.core.resident_ptr(inode, lbn).map(|ptr| self.core.geometry.byte_of(ptr.addr));
        at.is_some_and(|at| self.notes.has_flaw_at(at))
    }

    /// Reads and judges the blocks that were gathered. False if the scrub was cancelled.
    async fn blocks(&self, inode: &Rc<Inode>, batch: &mut Batch) -> bool {
        let some = std::mem::take(batch).blocks;
        let Some(&(_, first)) = some.first() else { return true };
        let stands = |&(lbn, ptr): &(Lbn, Ptr)| self.core.resident_ptr(inode, lbn) == Some(ptr);
        let mut doubtful: Vec<Lbn> = Vec::new();
        if some.iter().all(stands) {
            let len: u64 = some.iter().map(|(_, ptr)| u64::from(ptr.len)).sum();
            let sums: Vec<Option<u32>> =
                some.iter().map(|&(lbn, ptr)| self.expected_sum(inode, lbn, ptr)).collect();
            let at = self.core.geometry.byte_of(first.addr);
            let read = self.read(inode, some[0].0, at, len).await;
            let mut offset = 0;
            for (&(lbn, ptr), before) in some.iter().zip(sums) {
                let verdict = match &read {
                    Ok(blocks) => {
                        let content = gather(blocks, offset, ptr.len as usize);
                        self.judge(inode, lbn, ptr, before, &content)
                    }
                    Err(_) => Verdict::Unknown,
                };
                offset += ptr.len as usize;
                match verdict {
                    Verdict::Good => self.see(ptr),
                    _ => doubtful.push(lbn),
                }
            }
        } else {
            doubtful.extend(some.iter().map(|(lbn, _)| lbn));
        }
        for lbn in doubtful {
            self.look_again(inode, lbn).await;
        }
        self.step().await
    }

    fn see(&self, ptr: Ptr) {
        let frags = u64::from(ptr.len) / u64::from(self.core.geometry.frag_size);
        self.notes.see(ptr.addr, frags);
    }

    async fn read(
        &self,
        inode: &Inode,
        lbn: Lbn,
        at: u64,
        len: u64,
    ) -> Result<Vec<Block>, IoError> {
        let _pass = self.core.reads.enter();
        let io = Io::read(at, len, inode.class(lbn), Origin::Recovery);
        let read = self.core.device.submit(io).await;
        self.notes.count_read(len);
        read
    }

    /// Looks at a block alone, until it is found good, bad, or not to come to rest.
    async fn look_again(&self, inode: &Rc<Inode>, lbn: Lbn) {
        let mut bad = None;
        for _ in 0..LOOKS {
            // What is on its way to the block's place has arrived after this. A volume that stopped taking
            // changes is looked at as it is.
            let _ = self.layout.drain(self.core, false).await;
            let Ok(ptr) = self.core.ptr(inode, lbn).await else { return };
            if !ptr.is_on_disk() {
                return;
            }
            let before = self.expected_sum(inode, lbn, ptr);
            let at = self.core.geometry.byte_of(ptr.addr);
            let verdict = match self.read(inode, lbn, at, ptr.len.into()).await {
                Ok(blocks) => {
                    let content = gather(&blocks, 0, ptr.len as usize);
                    self.judge(inode, lbn, ptr, before, &content)
                }
                Err(error) if self.core.resident_ptr(inode, lbn) == Some(ptr) => {
                    Verdict::Bad(format!("cannot be read: {error}"))
                }
                Err(_) => Verdict::Unknown,
            };
            match verdict {
                Verdict::Good => return self.see(ptr),
                // Twice in the same place.
                Verdict::Bad(what) if bad == Some(ptr) => {
                    self.see(ptr);
                    return self.notes.add(self.flaw(inode, lbn, ptr, &what));
                }
                Verdict::Bad(_) => bad = Some(ptr),
                Verdict::Unknown => bad = None,
            }
        }
        self.notes.count_skipped();
    }

    /// The checksum of what memory has of a block if the device should have the same: it is clean and in its
    /// place. Only asked where pointers have none.
    fn expected_sum(&self, inode: &Inode, lbn: Lbn, ptr: Ptr) -> Option<u32> {
        if self.core.features.checksummed_pointers {
            return None;
        }
        let at = self.core.geometry.byte_of(ptr.addr);
        let frame = self.core.cache.peek(&inode.frames, lbn)?;
        let is_here = frame.is_valid() && !frame.is_dirty();
        (is_here && self.view.is_in_place(at, ptr.len.into()))
            .then(|| frame.with(|block| block.slice(0, ptr.len as usize).crc32c()))
    }

    /// Judges what was read from the place of a block. `before` is what [`expected_sum`](Self::expected_sum) gave
    /// before it was read.
    fn judge(
        &self,
        inode: &Inode,
        lbn: Lbn,
        ptr: Ptr,
        before: Option<u32>,
        content: &Block,
    ) -> Verdict {
        if self.core.resident_ptr(inode, lbn) != Some(ptr) {
            return Verdict::Unknown;
        }
        if self.core.features.checksummed_pointers {
            let is_same = !self.core.settings.check_data || content.crc32c() == ptr.crc;
            return match is_same {
                true => Verdict::Good,
                false => Verdict::Bad("does not match its checksum".into()),
            };
        }
        if !self.view.is_in_place(self.core.geometry.byte_of(ptr.addr), ptr.len.into()) {
            return Verdict::Unknown;
        }
        if let Some(expected) = before
            && self.expected_sum(inode, lbn, ptr) == before
        {
            return match content.crc32c() == expected {
                true => Verdict::Good,
                false => Verdict::Bad("is not what was written, which memory still has".into()),
            };
        }
        let is_changed = self.core.cache.peek(&inode.frames, lbn).is_some_and(|f| f.is_dirty());
        match self.wrong_form(inode, lbn, content) {
            Some(_) if is_changed => Verdict::Unknown,
            Some(what) => Verdict::Bad(what),
            None => {
                if !self.view.compares_reads() {
                    self.notes.count_uncompared(ptr.len.into());
                }
                Verdict::Good
            }
        }
    }

    /// What is wrong with the form of a block that only the file system writes.
    fn wrong_form(&self, inode: &Inode, lbn: Lbn, content: &Block) -> Option<String> {
        let geometry = &self.core.geometry;
        if inode.class(lbn) == Class::Data {
            return None;
        }
        let bytes: Bytes = content.to_bytes();
        if lbn < 0 {
            let ptrs = 0..geometry.per_block() as usize;
            let wrong =
                |i| geometry.check_ptr(geometry.get_ptr(&bytes, i), self.core.frags()).err();
            return ptrs.into_iter().find_map(wrong).map(|what| format!("a pointer: {what}"));
        }
        let d = inode.d.borrow();
        if !d.is_dir() {
            return None;
        }
        let rest = d.size.saturating_sub(lbn as u64 * u64::from(geometry.block_size));
        let len = bytes.len().min(rest as usize);
        let first = (lbn == 0).then_some(inode.ino);
        let checked = self.core.features.directories.validate(&bytes[..len], first);
        checked.err().map(|error| format!("no block of a directory: {error}"))
    }

    fn flaw(&self, inode: &Inode, lbn: Lbn, ptr: Ptr, what: &str) -> Flaw {
        let geometry = &self.core.geometry;
        let block = u64::from(geometry.block_size);
        let first = geometry.first_data(lbn) * block;
        let what = match lbn {
            0.. => format!("block {lbn} {what}"),
            _ => {
                let end = first.saturating_add(geometry.span(lbn).saturating_mul(block));
                let end = end.min(inode.d.borrow().size).max(first + 1);
                format!("the block that leads to bytes {first} to {} {what}", end - 1)
            }
        };
        Flaw::new(geometry.byte_of(ptr.addr), ptr.len.into(), what).of(inode.ino).at_offset(first)
    }
}

/// The next block of the tree, below the levels of the stack.
fn next_in(geometry: &Geometry, stack: &mut Vec<Level>) -> Option<Lbn> {
    while let Some(level) = stack.last_mut() {
        if level.next as u64 == geometry.per_block() {
            stack.pop();
            continue;
        }
        level.next += 1;
        return Some(geometry.child(level.lbn, level.next - 1));
    }
    None
}

/// Blocks that lie behind each other on the device.
#[derive(Default)]
struct Batch {
    blocks: Vec<(Lbn, Ptr)>,
    bytes: u64,
    end: u64,
}

impl Batch {
    fn follows(&self, ptr: Ptr) -> bool {
        self.blocks.is_empty()
            || self.end == ptr.addr && self.bytes + u64::from(ptr.len) <= REQUEST_MOST
    }

    fn add(&mut self, geometry: &Geometry, lbn: Lbn, ptr: Ptr) {
        self.blocks.push((lbn, ptr));
        self.bytes += u64::from(ptr.len);
        self.end = ptr.addr + u64::from(ptr.len / geometry.frag_size);
    }
}

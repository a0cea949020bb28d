//! The content of a simulated device: sparse, without bytes for user data, with free snapshots.
//!
//! [`Platter`] maps byte ranges to [`Block`]s. Zeros cost nothing, a run of stamps costs one entry
//! at any length, and real bytes are kept without their zeros, or as their difference from an earlier
//! version, where that saves memory. Cloning a platter makes a snapshot and costs nothing; the copies
//! diverge as they are written. Reading returns exactly the stamps that were written, cut where later
//! writes cut them, so that [`twin_disk::gather`] joins them again.

mod extent;
mod packed;
mod tree;
mod versions;

use std::sync::Arc;

use twin_disk::{Block, Buf, cut};
use twin_rt::EventDigest;

use extent::Extent;
use tree::Node;
use versions::Versions;

/// The content of a device. Cloning is a snapshot.
#[derive(Clone, Debug)]
pub struct Platter {
    size: u64,
    root: Arc<Node>,
    versions: Versions,
}

impl Platter {
    /// A platter of `size` zero bytes.
    pub fn new(size: u64) -> Platter {
        Platter { size, root: Node::empty(), versions: Versions::default() }
    }

    /// A platter with this content.
    pub fn from_bytes(bytes: &[u8]) -> Platter {
        let mut platter = Platter::new(bytes.len() as u64);
        for (i, chunk) in bytes.chunks(64 << 10).enumerate() {
            let block = Block::Bytes(Buf::copy_of(chunk).freeze());
            platter.write((i * (64 << 10)) as u64, &[block]);
        }
        platter
    }

    /// This content, and zeros behind it up to `size` bytes; no less than there is.
    pub fn grown(self, size: u64) -> Platter {
        Platter { size: size.max(self.size), ..self }
    }

    /// Size in bytes, zeros included.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Stores `blocks`, one after the other, from `at` on.
    ///
    /// # Panics
    /// If they reach beyond the end: a device checks its requests first.
    pub fn write(&mut self, at: u64, blocks: &[Block]) {
        let mut new: Vec<Extent> = Vec::new();
        let mut pos = at;
        for block in blocks.iter().filter(|b| !b.is_empty()) {
            Extent::of(pos, block, &mut self.versions, &mut |extent| {
                if !new.last_mut().is_some_and(|last| last.join(&extent)) {
                    new.push(extent);
                }
            });
            pos += block.len() as u64;
        }
        self.check(at, pos - at);
        if pos > at {
            tree::replace(&mut self.root, at, pos, &mut new);
        }
    }

    /// Stores the bytes `off..off + len` of `blocks` from `at` on: a part of a write.
    pub fn write_part(&mut self, at: u64, blocks: &[Block], off: u64, len: u64) {
        self.write(at, &cut(blocks, off, len));
    }

    /// Makes `len` bytes at `at` zero.
    pub fn discard(&mut self, at: u64, len: u64) {
        self.check(at, len);
        if len > 0 {
            tree::replace(&mut self.root, at, at + len, &mut Vec::new());
        }
    }

    /// The `len` bytes at `at`, in order.
    ///
    /// # Panics
    /// If they are not all within the platter: a device checks its requests first.
    pub fn read(&self, at: u64, len: u64) -> Vec<Block> {
        self.check(at, len);
        let mut out = Vec::new();
        if len == 0 {
            return out;
        }
        let (mut pos, end) = (at, at + len);
        self.root.visit(at, end, &mut |extent| {
            let (from, to) = (extent.start.max(pos), extent.end().min(end));
            push_zeros(&mut out, from - pos);
            extent.emit(from, to, &mut out);
            pos = to;
        });
        push_zeros(&mut out, end - pos);
        out
    }

    /// The `len` bytes at `at` as bytes, stamps expanded.
    pub fn read_bytes(&self, at: u64, len: u64) -> Vec<u8> {
        let mut out = vec![0; len as usize];
        let mut pos = 0;
        for block in self.read(at, len) {
            block.copy_to(&mut out[pos..pos + block.len()]);
            pos += block.len();
        }
        out
    }

    fn check(&self, at: u64, len: u64) {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.size);
        assert!(inside, "{len} bytes at {at} of a platter of {} bytes", self.size);
    }

    /// Number of entries of its map, a measure of its cost.
    pub fn extents(&self) -> usize {
        let mut count = 0;
        self.root.visit(0, u64::MAX, &mut |_| count += 1);
        count
    }

    /// Bytes of memory that it uses, buffers of real bytes included. Buffers and subtrees that
    /// are shared (with snapshots, with other blocks) are counted each time.
    pub fn heap_bytes(&self) -> usize {
        let mut bytes = 0;
        self.root.visit_sizes(&mut |size| bytes += size);
        self.root.visit(0, u64::MAX, &mut |extent| bytes += extent.heap_bytes());
        bytes
    }

    /// A fingerprint of the content: equal for platters that hold the same bytes and stamps,
    /// however they were written. (Zeros written as bytes count as bytes, stamps as stamps.)
    /// Takes time in proportion to what is stored.
    pub fn digest(&self) -> u64 {
        let mut digest = EventDigest::default();
        digest.add(&[self.size]);
        let (mut blocks, mut tail) = (Vec::new(), None);
        self.root.visit(0, u64::MAX, &mut |extent| {
            let mut at = extent.start;
            extent.emit(at, extent.end(), &mut blocks);
            for block in blocks.drain(..) {
                let len = block.len() as u64;
                add_block(&mut digest, at, &block, &mut tail);
                at += len;
            }
        });
        flush_tail(&mut digest, &mut tail);
        digest.value()
    }
}

/// Adds one block to a content digest. `tail` is a stamp that is not added yet, because its next
/// piece may follow.
fn add_block(
    digest: &mut EventDigest,
    at: u64,
    block: &Block,
    tail: &mut Option<(u64, twin_disk::Stamp)>,
) {
    match block {
        Block::Stamp(stamp) => {
            if let Some((start, last)) = tail
                && *start + u64::from(last.len) == at
                && *stamp
                    == (twin_disk::Stamp { off: last.off + last.len, len: stamp.len, ..*last })
            {
                last.len += stamp.len;
                return;
            }
            flush_tail(digest, tail);
            *tail = Some((at, *stamp));
        }
        _ => {
            flush_tail(digest, tail);
            for (i, byte) in block.to_bytes().iter().enumerate() {
                digest.add(&[at + i as u64, u64::from(*byte)]);
            }
        }
    }
}

fn flush_tail(digest: &mut EventDigest, tail: &mut Option<(u64, twin_disk::Stamp)>) {
    if let Some((at, s)) = tail.take() {
        digest.add(&[at, s.ino, s.lbn, s.version, u64::from(s.off), u64::from(s.len)]);
    }
}

fn push_zeros(out: &mut Vec<Block>, mut len: u64) {
    const MOST: u64 = 1 << 30;
    while len > 0 {
        out.push(Block::Zero(len.min(MOST) as u32));
        len -= len.min(MOST);
    }
}

#[cfg(test)]
mod tests;

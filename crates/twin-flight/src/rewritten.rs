//! The data that the replay of a flight has written to its device.
//!
//! Contract: a read of the replay returns the replay's own data where the replay has written
//! before, and the data of the log everywhere else. A flight log has no user data, so the checksums
//! of user data that the replay computes and stores in inodes, indirect blocks and summaries differ
//! from those of the mount. Metadata that leaves memory and is read again must therefore be the
//! replay's own: the mount's version would not match the replay's state in memory. Metadata from
//! before the flight is not computed again, and comes from the log.

use std::collections::BTreeMap;

use twin_disk::{Block, Io};
use twin_sim::Platter;

/// The largest device size in bytes, which is also the largest file system.
pub(crate) const MOST_BYTES: u64 = 1 << 60;

/// The written data. See the module.
pub(crate) struct Rewritten {
    content: Platter,
    /// The written ranges, which do not overlap: the end of each by its start.
    ranges: BTreeMap<u64, u64>,
}

impl Default for Rewritten {
    fn default() -> Self {
        Rewritten { content: Platter::new(MOST_BYTES), ranges: BTreeMap::new() }
    }
}

impl Rewritten {
    /// A write has reached the device. A write beyond any device does not come from a mount.
    pub(crate) fn wrote(&mut self, io: &Io) {
        let len: u64 = io.blocks.iter().map(|block| block.len() as u64).sum();
        let Some(mut end) = io.at.checked_add(len).filter(|end| *end <= MOST_BYTES) else { return };
        if len == 0 {
            return;
        }
        self.content.write(io.at, &io.blocks);
        let mut start = io.at;
        while let Some((&from, &to)) = self.ranges.range(..=end).next_back()
            && to >= start
        {
            self.ranges.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.ranges.insert(start, end);
    }

    /// The data of a read at byte `at`: `logged`, overlaid with the data that was written here.
    pub(crate) fn over(&self, at: u64, logged: Vec<Block>) -> Vec<Block> {
        let len: u64 = logged.iter().map(|block| block.len() as u64).sum();
        let Some(end) = at.checked_add(len).filter(|end| *end <= MOST_BYTES) else { return logged };
        let first = self.ranges.range(..=at).next_back().map_or(at, |(&start, _)| start);
        let mut here = self
            .ranges
            .range(first..end)
            .map(|(&start, &to)| (start.max(at), to.min(end)))
            .filter(|(start, to)| start < to)
            .peekable();
        if here.peek().is_none() {
            return logged;
        }
        let mut given = Platter::new(len);
        given.write(0, &logged);
        for (start, to) in here {
            given.write(start - at, &self.content.read(start, to - start));
        }
        given.read(0, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_disk::{Buf, Class, Origin, gather};

    fn bytes(byte: u8, len: usize) -> Block {
        Block::Bytes(Buf::copy_of(&vec![byte; len]).freeze())
    }

    fn write(rewritten: &mut Rewritten, at: u64, byte: u8, len: usize) {
        rewritten.wrote(&Io::write(at, vec![bytes(byte, len)], Class::Meta, Origin::User));
    }

    #[test]
    fn reads_give_what_was_written_last_over_what_the_log_has() {
        let mut rewritten = Rewritten::default();
        write(&mut rewritten, 4, 1, 4);
        write(&mut rewritten, 6, 2, 4);
        write(&mut rewritten, 14, 3, 8);
        let read = rewritten.over(2, vec![bytes(9, 10), bytes(8, 6)]);
        let read = gather(&read, 0, 16).to_bytes();
        assert_eq!(read[..], [9, 9, 1, 1, 2, 2, 2, 2, 9, 9, 8, 8, 3, 3, 3, 3]);
        assert_eq!(rewritten.ranges, BTreeMap::from([(4, 10), (14, 22)]));
    }

    #[test]
    fn writes_that_touch_are_one_range() {
        let mut rewritten = Rewritten::default();
        for at in [8, 0, 4, 20, 2] {
            write(&mut rewritten, at, 1, 4);
        }
        assert_eq!(rewritten.ranges, BTreeMap::from([(0, 12), (20, 24)]));
        write(&mut rewritten, 1, 1, 30);
        assert_eq!(rewritten.ranges, BTreeMap::from([(0, 31)]));
    }

    #[test]
    fn what_lies_beyond_every_device_is_left_alone() {
        let mut rewritten = Rewritten::default();
        write(&mut rewritten, u64::MAX - 1, 1, 4);
        write(&mut rewritten, MOST_BYTES - 1, 1, 4);
        assert!(rewritten.ranges.is_empty());
        assert_eq!(rewritten.over(u64::MAX - 1, vec![bytes(9, 4)]), [bytes(9, 4)]);
    }
}

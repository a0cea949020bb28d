//! A placement policy: a block that users write again soon goes to one class, another one to the next, what the cleaner
//! moves to a third. The word of a block is the time when it was written last.

mod twinfs;

use twinfs::log::{Log, Setting};
use twinfs::placement::{Placement, Write};

crate::export!(placement, "NAME", "written again soon, written, moved", BySpan);

struct BySpan {
    soon: u64,
}

impl BySpan {
    fn class(&self, last: u64, now: u64) -> u8 {
        match last {
            0 => 1,
            last => u8::from(now.saturating_sub(last) > self.soon),
        }
    }
}

impl Placement for BySpan {
    const CLASSES: (u8, u8) = (3, 3);
    const WORDS: bool = true;

    fn new(setting: Setting) -> Self {
        BySpan { soon: u64::from(setting.blocks) / 4 }
    }

    fn user_write(&mut self, _: &Write, word: &mut u64, log: &Log) -> u8 {
        let class = self.class(*word, log.now);
        *word = log.now;
        class
    }

    fn cleaner_write(&mut self, _: &Write, _: &mut u64, _: &Log) -> u8 {
        2
    }

    fn import_block(&mut self, written_at: u64, word: &mut u64, _: &Log) {
        *word = written_at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_again_soon_is_apart() {
        let policy = BySpan { soon: 100 };
        assert_eq!((policy.class(0, 50), policy.class(1000, 1050), policy.class(1000, 2000)), (1, 0, 1));
    }
}

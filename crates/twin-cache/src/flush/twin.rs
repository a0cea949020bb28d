//! Ours: learns how soon what is written dies, and writes at once what will live.
//!
//! To keep a block dirty costs a byte at risk for every byte and second; to write it costs a fixed
//! price; a block that dies first is never written. This is the problem of renting or buying: without
//! knowledge, to write at the age at which the risk has cost as much as the write never costs more
//! than twice the least possible; with the distribution of lives, the best age is found from it
//! (Karlin, Manasse, McGeoch and Owicki, "Competitive Randomized Algorithms for Nonuniform Problems",
//! 1994, section 3). [`lifetimes`](super::lifetimes) keeps the distributions, by class.

use twin_rt::{Nanos, Time};

use super::lifetimes::{Lifetimes, class};
use super::{
    Death, DirtyView, FlushAdvice, FlushPolicy, FlushState, SHORTEST_LOOK_NS, Which, oldest_files,
    write_surplus,
};

/// Data that has been dirty for this multiple of the price is written, even if it changes all the time.
const PATIENCE: u64 = 8;

pub(super) struct Twin {
    /// What a write costs, as the time that the block could be at risk instead.
    price_ns: Nanos,
    lives: Lifetimes,
}

impl Twin {
    pub(super) fn new(price_ns: Nanos) -> Twin {
        Twin { price_ns, lives: Lifetimes::new() }
    }
}

impl FlushPolicy for Twin {
    fn advise(&mut self, now: Time, state: &FlushState, dirty: &dyn DirtyView) -> FlushAdvice {
        if state.oldest.is_none() {
            return FlushAdvice::Wait;
        }
        if let Some(advice) = write_surplus(self.start_bytes(state), state, dirty) {
            return advice;
        }
        let most_ns = PATIENCE * self.price_ns;
        let ages = self.lives.ages(self.price_ns, most_ns);
        let (mut due, mut next) = (Vec::new(), now + self.price_ns);
        dirty.blocks(&mut |block| {
            let class = class(block.lbn, block.last_life_ns);
            let at = (block.changed + ages[class]).min(block.since + most_ns);
            match at <= now {
                true => due.push((block.ino, block.lbn, class)),
                false => next = next.min(at),
            }
            true
        });
        // Small files and attributes have no block: they are written at the price's age.
        let mut files = Vec::new();
        dirty.files(&mut |file| {
            if file.bytes == 0 {
                match file.since + self.price_ns <= now {
                    true => files.push(file.ino),
                    false => next = next.min(file.since + self.price_ns),
                }
            }
            true
        });
        if due.is_empty() && files.is_empty() {
            let look = (self.price_ns / 8).max(SHORTEST_LOOK_NS);
            return FlushAdvice::WaitUntil(next.max(now + look));
        }
        if due.is_empty() {
            return FlushAdvice::Write(Which::Files(files));
        }
        due.iter().for_each(|(_, _, class)| self.lives.note_written(*class));
        FlushAdvice::Write(Which::Blocks(due.into_iter().map(|(ino, lbn, _)| (ino, lbn)).collect()))
    }

    fn start_bytes(&self, state: &FlushState) -> u64 {
        state.capacity_bytes / 4
    }

    fn make_room(&mut self, state: &FlushState, dirty: &dyn DirtyView) -> Which {
        oldest_files(dirty, state.unit_bytes)
    }

    fn learns(&self) -> bool {
        true
    }

    fn note_deaths(&mut self, deaths: &[Death]) {
        for death in deaths.iter().filter(|death| death.lbn >= 0) {
            let class = class(death.lbn, death.last_life_ns);
            self.lives.note_death(class, death.at - death.born, !death.unwritten);
        }
    }
}

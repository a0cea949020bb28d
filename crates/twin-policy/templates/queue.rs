//! A disk queue: upwards through the addresses, then back to the lowest; those of one address in order of arrival.

mod twinfs;

use std::collections::BTreeMap;

use twinfs::queue::{Head, Queue, Waiting};

crate::export!(queue, "NAME", "upwards through the addresses, then back to the lowest", Upwards);

#[derive(Default)]
struct Upwards {
    /// Names of requests by address and order of arrival.
    waiting: BTreeMap<(u64, u64), u32>,
}

impl Upwards {
    fn next(&mut self, head_at: u64) -> Option<u32> {
        let above = self.waiting.range((head_at, 0)..).next();
        let (&place, _) = above.or_else(|| self.waiting.first_key_value())?;
        self.waiting.remove(&place)
    }
}

impl Queue for Upwards {
    fn new() -> Self {
        Upwards::default()
    }

    fn push(&mut self, request: Waiting) {
        self.waiting.insert((request.at, request.seq), request.id);
    }

    fn pop(&mut self, head: &Head) -> Option<u32> {
        self.next(head.head_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_address_is_served_and_the_lowest_behind_the_highest() {
        let mut queue = Upwards::new();
        for (id, at) in [(1, 500), (2, 100), (3, 900)] {
            let (seq, len) = (id.into(), 512);
            queue.push(Waiting { id, writes: 0, seq, at, len, arrived_ns: 0, deadline_ns: u64::MAX });
        }
        assert_eq!([queue.next(300), queue.next(600), queue.next(950)], [Some(1), Some(3), Some(2)]);
        assert_eq!(queue.next(0), None);
    }
}

//! A fingerprint of a run: two runs with equal digests had the same events in the same order.

/// A 64-bit digest of the events so far. It is not cryptographic: it detects differences but not
/// forgeries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventDigest {
    state: u64,
    events: u64,
}

impl Default for EventDigest {
    fn default() -> Self {
        EventDigest { state: 0x2545_f491_4f6c_dd1d, events: 0 }
    }
}

impl EventDigest {
    /// Adds one event, given as plain numbers.
    pub fn add(&mut self, words: &[u64]) {
        self.events += 1;
        for &word in words {
            let mixed = (self.state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.state = mixed ^ (mixed >> 29);
        }
    }

    /// The digest so far.
    pub fn value(&self) -> u64 {
        self.state
    }

    /// The number of events in the digest.
    pub fn events(&self) -> u64 {
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_matters() {
        let (mut a, mut b) = (EventDigest::default(), EventDigest::default());
        a.add(&[1]);
        a.add(&[2]);
        b.add(&[2]);
        b.add(&[1]);
        assert_ne!(a, b);
    }

    #[test]
    fn counts_events() {
        let mut a = EventDigest::default();
        a.add(&[1, 2, 3]);
        a.add(&[]);
        assert_eq!(a.events(), 2);
    }
}

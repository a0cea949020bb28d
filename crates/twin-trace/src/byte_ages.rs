//! How old the bytes of a file become: when each was written, until it is overwritten, cut off or
//! removed with its file.

use std::collections::BTreeMap;

use twin_rt::Nanos;

/// The written bytes of a file that are alive, by their offset: the end of each run, and when it was
/// written. Bytes that were there before the first write are not in it.
#[derive(Default)]
pub(crate) struct ByteAges(BTreeMap<u64, (u64, Nanos)>);

impl ByteAges {
    /// Bytes from `off` to `end` are written; `died` gets the number and the age of those that were
    /// written before.
    pub(crate) fn write(&mut self, off: u64, end: u64, at: Nanos, died: impl FnMut(u64, Nanos)) {
        if off < end {
            self.cut(off, end, at, died);
            self.0.insert(off, (end, at));
        }
    }

    /// Bytes from `off` to `end` die.
    pub(crate) fn cut(&mut self, off: u64, end: u64, at: Nanos, mut died: impl FnMut(u64, Nanos)) {
        let before = self.0.range(..off).next_back().map(|(from, run)| (*from, *run));
        if let Some((from, (to, written))) = before
            && to > off
        {
            self.0.insert(from, (off, written));
            died(to.min(end) - off, at - written);
            if to > end {
                self.0.insert(end, (to, written));
            }
        }
        let within: Vec<u64> = self.0.range(off..end).map(|(from, _)| *from).collect();
        for from in within {
            let Some((to, written)) = self.0.remove(&from) else { continue };
            died(to.min(end) - from, at - written);
            if to > end {
                self.0.insert(end, (to, written));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn died_of(ages: &mut ByteAges, off: u64, end: u64, at: Nanos) -> Vec<(u64, Nanos)> {
        let mut all = Vec::new();
        ages.write(off, end, at, |bytes, age| all.push((bytes, age)));
        all
    }

    #[test]
    fn what_is_overwritten_dies_with_its_age_and_the_rest_lives() {
        let mut ages = ByteAges::default();
        assert_eq!(died_of(&mut ages, 0, 100, 10), []);
        assert_eq!(died_of(&mut ages, 100, 200, 20), []);
        assert_eq!(died_of(&mut ages, 40, 60, 30), [(20, 20)]);
        assert_eq!(died_of(&mut ages, 90, 110, 40), [(10, 30), (10, 20)]);
        let mut rest = Vec::new();
        ages.cut(0, u64::MAX, 50, |bytes, age| rest.push((bytes, age)));
        assert_eq!(rest, [(40, 40), (20, 20), (30, 40), (20, 10), (90, 30)]);
        assert!(ages.0.is_empty());
    }

    #[test]
    fn bytes_that_were_there_before_do_not_die() {
        let mut ages = ByteAges::default();
        ages.cut(0, 1 << 20, 5, |_, _| panic!("nothing was written"));
    }
}

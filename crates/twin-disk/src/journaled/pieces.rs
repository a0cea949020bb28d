//! Which parts of a device are in a journal, and where.
//!
//! Contract: pieces never overlap; what was inserted last is found. What is in no piece is on the device.

use std::collections::BTreeMap;

/// A piece: its length in bytes, the record that has it, and from which byte of the record's content on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece<R> {
    len: u64,
    record: R,
    offset: u64,
}

/// A part of what was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part<R> {
    pub(super) at: u64,
    pub(super) len: u64,
    /// The record that has it and the offset in its content; `None` if it is on the device.
    pub(super) place: Option<(R, u64)>,
}

/// The pieces of a device, in records named by `R`.
#[derive(Clone, Debug)]
pub(super) struct Pieces<R> {
    pieces: BTreeMap<u64, Piece<R>>,
    bytes: u64,
}

impl<R: Clone> Pieces<R> {
    pub(super) fn new() -> Pieces<R> {
        Pieces { pieces: BTreeMap::new(), bytes: 0 }
    }

    /// Bytes of all pieces.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The whole content of a record is now what is at `at`.
    pub(super) fn insert(&mut self, at: u64, len: u64, record: R) {
        self.remove(at, len);
        self.bytes += len;
        self.pieces.insert(at, Piece { len, record, offset: 0 });
    }

    /// What is there is on the device, or needed by nobody.
    pub(super) fn remove(&mut self, at: u64, len: u64) {
        let end = at + len;
        let first = self.pieces.range(..at).next_back().map_or(at, |(&start, _)| start);
        let touched: Vec<u64> = self.pieces.range(first..end).map(|(&start, _)| start).collect();
        for start in touched {
            let Some(piece) = self.pieces.get(&start) else { continue };
            let stop = start + piece.len;
            if stop <= at {
                continue;
            }
            let piece = piece.clone();
            self.pieces.remove(&start);
            self.bytes -= stop.min(end) - start.max(at);
            if start < at {
                let front = Piece { len: at - start, ..piece.clone() };
                self.pieces.insert(start, front);
            }
            if stop > end {
                let offset = piece.offset + (end - start);
                self.pieces.insert(end, Piece { len: stop - end, offset, ..piece });
            }
        }
    }

    /// Whether anything of these bytes is in a piece.
    pub(super) fn touches(&self, at: u64, len: u64) -> bool {
        let last = self.pieces.range(..at + len).next_back();
        last.is_some_and(|(start, piece)| start + piece.len > at)
    }

    /// The bytes from `at` on, in order.
    pub(super) fn look_up(&self, at: u64, len: u64) -> Vec<Part<R>> {
        let end = at + len;
        let first = self.pieces.range(..=at).next_back().map_or(at, |(&start, _)| start);
        let (mut parts, mut done) = (Vec::new(), at);
        let below = |from: u64, to: u64| Part { at: from, len: to - from, place: None };
        for (&start, piece) in self.pieces.range(first..end) {
            let (from, stop) = (start.max(at), (start + piece.len).min(end));
            if stop <= from {
                continue;
            }
            if from > done {
                parts.push(below(done, from));
            }
            let place = Some((piece.record.clone(), piece.offset + (from - start)));
            parts.push(Part { at: from, len: stop - from, place });
            done = stop;
        }
        if done < end {
            parts.push(below(done, end));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::Rng;

    #[test]
    fn random_writes_are_found_where_an_array_has_them() {
        const SIZE: u64 = 64;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut pieces = Pieces::new();
            let mut array = vec![None; SIZE as usize];
            for record in 0..40_u64 {
                let at = rng.below(SIZE);
                let len = 1 + rng.below(SIZE - at).min(12);
                let is_written = rng.chance(0.8);
                match is_written {
                    true => pieces.insert(at, len, record),
                    false => pieces.remove(at, len),
                }
                for n in 0..len {
                    array[(at + n) as usize] = is_written.then_some((record, n));
                }
                let from = rng.below(SIZE);
                let parts = pieces.look_up(from, SIZE - from);
                let bytes: Vec<_> = parts
                    .iter()
                    .flat_map(|part| (0..part.len).map(|n| part.place.map(|(r, off)| (r, off + n))))
                    .collect();
                assert_eq!(bytes, array[from as usize..], "seed {seed}");
                assert_eq!(pieces.bytes(), array.iter().flatten().count() as u64, "seed {seed}");
                let touched = array[at as usize..(at + len) as usize].iter().any(Option::is_some);
                assert_eq!(pieces.touches(at, len), touched, "seed {seed}");
            }
        }
    }
}

//! What a tracer on the wire sees of the requests, as Blackwell, Harris and Seltzer traced them
//! (sections 2 and 3): some requests are lost where they come fast, and the answer to a create,
//! which names the new file, is not seen.
//!
//! [`Lossy`] drops requests; [`look_ahead`] finds the files of creates as the paper does, and counts
//! how often that is right, because the stream knows the truth.

use std::collections::BTreeMap;

use twin_rt::{MICROS, Nanos, Rng};

use super::{Kind, NfsOp, NodeId};

/// Requests that come closer together than this are at a time of heavy demand.
const BUSY_NS: Nanos = 500 * MICROS;

/// A stream from which the tracer loses some requests, but only those that closely follow others.
pub struct Lossy<I> {
    all: I,
    rng: Rng,
    share: f64,
    last: Nanos,
    /// Number of requests that were lost.
    pub lost: u64,
    /// Number of all requests so far.
    pub seen: u64,
}

impl<I: Iterator<Item = NfsOp>> Lossy<I> {
    /// A stream that loses about this share of all requests.
    pub fn new(all: I, share: f64, seed: u64) -> Lossy<I> {
        Lossy { all, rng: Rng::stream(seed, "lost packets"), share, last: 0, lost: 0, seen: 0 }
    }
}

impl<I: Iterator<Item = NfsOp>> Iterator for Lossy<I> {
    type Item = NfsOp;

    fn next(&mut self) -> Option<NfsOp> {
        loop {
            let op = self.all.next()?;
            self.seen += 1;
            let is_busy = op.at - self.last <= BUSY_NS + BUSY_NS / 10;
            self.last = op.at;
            // Behind its share, the tracer loses the next request of a busy time, or the one after.
            let is_behind = (self.lost as f64) < self.share * self.seen as f64;
            if is_behind && is_busy && self.rng.chance(0.5) {
                self.lost += 1;
                continue;
            }
            return Some(op);
        }
    }
}

/// The creates of a trace whose file was found by looking ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookAhead {
    /// Number of creates in the trace.
    pub creates: u64,
    /// Number of these for which the right file was found.
    pub right: u64,
}

impl LookAhead {
    /// The share of creates for which the right file was found.
    pub fn share(&self) -> f64 {
        self.right as f64 / self.creates as f64
    }
}

/// Takes the file of the next write or change of attributes of the same client for the one that was
/// created.
pub fn look_ahead(ops: impl Iterator<Item = NfsOp>) -> LookAhead {
    // The files of creates that are not known yet, by client.
    let mut open: BTreeMap<u16, Vec<NodeId>> = BTreeMap::new();
    let mut found = LookAhead::default();
    for op in ops {
        match op.kind {
            Kind::Create { node, .. } => {
                found.creates += 1;
                open.entry(op.client).or_default().push(node);
            }
            Kind::Write(node, ..) | Kind::SetAttr(node) | Kind::Truncate(node) => {
                for created in open.remove(&op.client).into_iter().flatten() {
                    found.right += u64::from(created == node);
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{SERVERS, Stream};
    use super::*;

    fn op(client: u16, kind: Kind) -> NfsOp {
        NfsOp { at: 0, client, kind }
    }

    #[test]
    fn of_two_creates_in_succession_one_is_taken_for_the_other() {
        let create = |node| Kind::Create { dir: 0, node };
        let ops = [
            op(1, create(5)),
            op(2, create(6)),
            op(1, create(7)),
            op(2, Kind::SetAttr(6)),
            op(1, Kind::Write(7, 0, 512)),
        ];
        let found = look_ahead(ops.into_iter());
        assert_eq!(found, LookAhead { creates: 3, right: 2 });
    }

    #[test]
    fn about_the_wanted_share_is_lost_and_only_at_busy_times() {
        let stream = || Stream::new(&SERVERS[0].scaled(0.02), 1);
        let mut lossy = Lossy::new(stream(), 0.001, 1);
        let kept: Vec<NfsOp> = lossy.by_ref().collect();
        let share = lossy.lost as f64 / lossy.seen as f64;
        assert!((0.0005..0.0015).contains(&share), "{share}");
        assert_eq!(kept.len() as u64 + lossy.lost, stream().count() as u64);
    }
}

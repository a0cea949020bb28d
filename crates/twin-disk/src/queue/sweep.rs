//! Waiting requests by address, and the elevator's step over them, for the policies that sweep.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use super::Waiting;

/// An address, and the number of the request: requests for one address keep their order.
pub(super) type Place = (u64, u64);

/// The waiting requests in the order of their addresses.
#[derive(Default)]
pub(super) struct ByPlace(BTreeMap<Place, Waiting>);

impl ByPlace {
    pub(super) fn push(&mut self, request: Waiting) {
        self.0.insert((request.at, request.seq), request);
    }

    pub(super) fn take(&mut self, place: Place) -> Option<Waiting> {
        self.0.remove(&place)
    }

    /// The lowest place in a range.
    pub(super) fn first(&self, range: impl RangeBounds<Place>) -> Option<Place> {
        self.0.range(range).next().map(|(place, _)| *place)
    }

    /// The highest address in a range, and there the oldest request.
    pub(super) fn last(&self, range: impl RangeBounds<Place>) -> Option<Place> {
        let (at, _) = *self.0.range(range).next_back()?.0;
        self.first((at, 0)..)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An arm that goes on in its direction until no request is left there, then turns.
#[derive(Default)]
pub(super) struct Elevator {
    down: bool,
}

/// The elevator's next stop.
pub(super) struct Stop {
    pub(super) place: Place,
    /// Whether the arm turns before it.
    pub(super) turns: bool,
}

impl Elevator {
    /// The place to serve next with the head at byte `head_at`.
    pub(super) fn next(&mut self, waiting: &ByPlace, head_at: u64) -> Option<Stop> {
        let above = waiting.first((head_at, 0)..);
        let below = waiting.last(..(head_at, 0));
        let (ahead, behind) = if self.down { (below, above) } else { (above, below) };
        let place = ahead.or(behind)?;
        let turns = ahead.is_none();
        self.down = self.down != turns;
        Some(Stop { place, turns })
    }

    /// Whether it goes downwards.
    pub(super) fn goes_down(&self) -> bool {
        self.down
    }
}

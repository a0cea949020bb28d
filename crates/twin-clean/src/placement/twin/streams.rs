//! Open segments: a class writes to its own, unless a neighbour's would be stranded.
//!
//! When classes change, a segment that is half full may be open for a class that is hardly
//! written any more; what is dead in it cannot be cleaned, what is free in it is not used. The
//! class whose number is nearest fills such a segment.

use crate::facts::View;

/// A class is silent when it has not been written for this part of a volume of writes.
const SILENT_DIVISOR: u64 = 4;
/// Silence is looked for so many times while a segment is written.
const LOOKS_PER_SEGMENT: u64 = 16;

pub(super) struct Streams {
    /// By class: when a block was last written to it.
    wanted_at: Vec<u64>,
    /// By class: the class whose open segment it fills.
    fills: Vec<u8>,
    look_at: u64,
}

impl Streams {
    pub(super) fn new(classes: usize) -> Streams {
        Streams { wanted_at: vec![0; classes], fills: (0..classes as u8).collect(), look_at: 0 }
    }

    /// The class to whose open segment a block of this class is written.
    pub(super) fn route(&mut self, class: u8, view: &View<'_>) -> u8 {
        self.wanted_at[usize::from(class)] = view.now;
        if view.now >= self.look_at {
            self.look(view);
        }
        let to = self.fills[usize::from(class)];
        if to != class && view.open_written(to) == 0 {
            self.fills[usize::from(class)] = class;
            return class;
        }
        to
    }

    /// Finds who is silent, and a neighbour for each.
    fn look(&mut self, view: &View<'_>) {
        self.look_at = view.now + u64::from(view.segment_blocks) / LOOKS_PER_SEGMENT + 1;
        let silent_writes = view.live_blocks / SILENT_DIVISOR;
        let classes = 0..self.fills.len() as u8;
        let is_silent = |class: &u8| view.now - self.wanted_at[usize::from(*class)] > silent_writes;
        let mut fills: Vec<u8> = classes.clone().collect();
        for silent in classes.clone().filter(is_silent) {
            let active = classes.clone().filter(|class| !is_silent(class));
            let nearest = active.min_by_key(|class| class.abs_diff(silent));
            if let Some(nearest) = nearest.filter(|_| view.open_written(silent) > 0) {
                fills[usize::from(nearest)] = silent;
            }
        }
        self.fills = fills;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{NO_SEGMENT, SegmentFacts};

    #[test]
    fn a_neighbour_fills_what_a_silent_class_has_open() {
        let open_half = SegmentFacts { written_blocks: 5, ..SegmentFacts::default() };
        let segments = [open_half, open_half];
        let at = |now, open| View {
            now,
            live_blocks: 100,
            segment_blocks: 10,
            segments: &segments,
            open,
        };
        let mut streams = Streams::new(3);
        assert_eq!(streams.route(2, &at(10, &[0, NO_SEGMENT, 1])), 2);
        // Class 0 has been silent for more than a quarter of the volume.
        assert_eq!(streams.route(2, &at(30, &[0, NO_SEGMENT, 1])), 0);
        // Its segment is full: everything as before.
        assert_eq!(streams.route(2, &at(31, &[NO_SEGMENT, NO_SEGMENT, 1])), 2);
    }
}

//! Open segments: a class writes to its own, unless that of a neighbour would be stranded.
//!
//! When classes change, a half-filled segment may be open for a class that is hardly written any
//! more. Its garbage cannot be cleaned and its free space is not used. The active class with the
//! nearest number then fills this segment.

use crate::inputs::LogView;

/// A class is silent when it has not been written for a volume of writes divided by this.
const SILENT_DIVISOR: u64 = 4;
/// Number of searches for silent classes while a segment is written.
const LOOKS_PER_SEGMENT: u64 = 16;

pub(super) struct Streams {
    /// For each class, when a block was last written to it.
    wanted_at: Vec<u64>,
    /// For each class, the class whose open segment it fills.
    fills: Vec<u8>,
    look_at: u64,
}

impl Streams {
    pub(super) fn new(classes: usize) -> Streams {
        Streams { wanted_at: vec![0; classes], fills: (0..classes as u8).collect(), look_at: 0 }
    }

    /// The class to whose open segment a block of this class is written.
    pub(super) fn route(&mut self, class: u8, view: &LogView<'_>) -> u8 {
        self.wanted_at[usize::from(class)] = view.now;
        if view.now >= self.look_at {
            self.update(view);
        }
        let to = self.fills[usize::from(class)];
        if to != class && view.open_written(to) == 0 {
            self.fills[usize::from(class)] = class;
            return class;
        }
        to
    }

    /// Finds the silent classes, and a neighbour for each.
    fn update(&mut self, view: &LogView<'_>) {
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
    use crate::inputs::{NO_SEGMENT, SegmentInfo};

    #[test]
    fn a_neighbour_fills_what_a_silent_class_has_open() {
        let open_half = SegmentInfo { written_blocks: 5, ..SegmentInfo::default() };
        let segments = [open_half, open_half];
        let at = |now, open| LogView {
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
        // Its segment is full: each class writes to its own again.
        assert_eq!(streams.route(2, &at(31, &[NO_SEGMENT, NO_SEGMENT, 1])), 2);
    }
}

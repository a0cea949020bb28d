//! Zones: ranges of tracks with the same number of sectors.

/// A range of tracks with the same number of sectors. Tracks are named (cylinder, head).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// First track with data.
    pub first: (u32, u32),
    /// Last track with data.
    pub last: (u32, u32),
    /// Data sectors on a track.
    pub sectors: u32,
    /// Sectors that fit on a track: the data sectors and the spare ones at its end.
    pub slots: u32,
    /// Number of slots by which the next track of a cylinder begins later.
    pub track_skew: u32,
    /// Number of slots by which the first track of the next cylinder begins later.
    pub cylinder_skew: u32,
}

impl Zone {
    /// All tracks of a range of cylinders, without spare sectors.
    pub fn cylinders(
        (first, last): (u32, u32),
        heads: u32,
        sectors: u32,
        (track_skew, cylinder_skew): (u32, u32),
    ) -> Zone {
        let (first, last) = ((first, 0), (last, heads - 1));
        Zone { first, last, sectors, slots: sectors, track_skew, cylinder_skew }
    }

    pub(super) fn tracks(&self, heads: u32) -> u64 {
        track_number(self.last, heads) + 1 - track_number(self.first, heads)
    }
}

/// The number of a track from the outside in, one surface after the other on each cylinder.
pub(super) fn track_number((cylinder, head): (u32, u32), heads: u32) -> u64 {
    u64::from(cylinder) * u64::from(heads) + u64::from(head)
}

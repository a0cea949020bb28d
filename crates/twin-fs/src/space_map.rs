//! How full the regions of a volume are at one moment: segments, cylinder groups or ranges of
//! blocks.
//!
//! Contract: it consists of figures only; programs draw it and know nothing else of the layout.

/// The use of a volume's space, by region.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpaceMap {
    /// The word for its regions, in the plural, for display: "segments".
    pub kind: &'static str,
    /// All regions, in the order in which they lie on the device.
    pub regions: Vec<Region>,
}

/// The use of one region.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Region {
    /// The share of its space that holds live data or metadata, from 0 to 1.
    pub used: f64,
    /// What happens to it.
    pub state: RegionState,
}

/// What happens to a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegionState {
    /// Nothing, or blocks in it are written in any order.
    #[default]
    Idle,
    /// The layout fills it now, from its beginning to its end.
    BeingWritten,
}

impl SpaceMap {
    /// A map of regions none of which is being written.
    pub fn of(kind: &'static str, used: impl Iterator<Item = f64>) -> SpaceMap {
        let idle = |used| Region { used, state: RegionState::Idle };
        SpaceMap { kind, regions: used.map(idle).collect() }
    }
}

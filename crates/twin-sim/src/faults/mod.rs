//! Faults of a device, and the state in which a power failure leaves it.
//!
//! Two halves:
//!
//! - A [`FaultPlan`] makes a running [`SimDisk`](crate::SimDisk) misbehave: writes that are lost or
//!   misdirected, flushes that do nothing, bits that rot, errors, a device that vanishes, a power
//!   failure. The disk keeps the fault-free content too
//!   ([`SimDisk::intended`](crate::SimDisk::intended)), so that a checker knows what was damaged.
//! - A [`CrashState`] is what is certain and what is in doubt at the moment of a power failure:
//!   any subset of the sectors of the unflushed writes, in any order, may be on the medium. It
//!   comes from a live disk ([`SimDisk::crash_state`](crate::SimDisk::crash_state)) or, for every
//!   moment of a run without running again, from a [`WriteLog`]. It makes the [`Platter`]s that a
//!   restart may find.
//!
//! [`Platter`]: crate::Platter

mod crash;
mod live;
mod log;

use twin_rt::{Rng, Time};

pub use crash::{CrashState, Exploration, UnstableWrite, WriteOutcome};
pub use log::{CrashPoint, CrashPoints, WriteLog};

pub(crate) use live::{Faults, Verdict};

/// When a fault strikes. Requests are counted from 1, by kind, in the order in which the device
/// begins to serve them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The fault strikes the k-th read.
    Read(u64),
    /// The fault strikes the k-th write.
    Write(u64),
    /// The fault strikes the k-th flush.
    Flush(u64),
    /// The fault strikes at this time; if it concerns a request, it strikes the first one after it.
    Time(Time),
}

/// A fault. A fault that concerns one kind of request waits, once triggered, for the next request
/// of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The write is acknowledged and never stored.
    LoseWrite,
    /// The write is acknowledged and stored at byte `to` instead (moved to fit the device).
    MisdirectWrite {
        /// The byte at which it is stored.
        to: u64,
    },
    /// The write fails; nothing is stored.
    FailWrite,
    /// This and every later write and flush fails; nothing is stored. Reads go on.
    FailWrites,
    /// The read fails, once.
    FailRead,
    /// The flush is acknowledged and makes nothing durable.
    LoseFlush,
    /// Sectors that touch these bytes cannot be read until they are written again.
    BadSectors {
        /// The first byte that cannot be read.
        at: u64,
        /// How many bytes cannot be read.
        len: u64,
    },
    /// One bit of the stored data flips.
    BitRot {
        /// The byte on the device.
        at: u64,
        /// The bit, 0 to 7.
        bit: u8,
    },
    /// This and every later write fails for want of space.
    NoSpace,
    /// This and every later write that touches bytes from `at` on fails for want of space: as for a
    /// sparse image on a full host, which has only its first part allocated.
    NoSpaceFrom {
        /// The first byte without space.
        at: u64,
    },
    /// This and every later request fails: the device is gone.
    Gone,
    /// The power fails: no request completes any more.
    PowerCut,
}

/// A kind of [`Fault`], for settings and for drawing plans at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// The kind of [`Fault::LoseWrite`].
    LoseWrite,
    /// The kind of [`Fault::MisdirectWrite`].
    MisdirectWrite,
    /// The kind of [`Fault::FailWrite`].
    FailWrite,
    /// The kind of [`Fault::FailWrites`].
    FailWrites,
    /// The kind of [`Fault::FailRead`].
    FailRead,
    /// The kind of [`Fault::LoseFlush`].
    LoseFlush,
    /// The kind of [`Fault::BadSectors`].
    BadSectors,
    /// The kind of [`Fault::BitRot`].
    BitRot,
    /// The kind of [`Fault::NoSpace`].
    NoSpace,
    /// The kind of [`Fault::NoSpaceFrom`].
    NoSpaceFrom,
    /// The kind of [`Fault::Gone`].
    Gone,
    /// The kind of [`Fault::PowerCut`].
    PowerCut,
}

impl FaultKind {
    /// All kinds, for settings and for random plans.
    pub const ALL: [FaultKind; 12] = [
        FaultKind::LoseWrite,
        FaultKind::MisdirectWrite,
        FaultKind::FailWrite,
        FaultKind::FailWrites,
        FaultKind::FailRead,
        FaultKind::LoseFlush,
        FaultKind::BadSectors,
        FaultKind::BitRot,
        FaultKind::NoSpace,
        FaultKind::NoSpaceFrom,
        FaultKind::Gone,
        FaultKind::PowerCut,
    ];

    /// The name of the kind in settings.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::LoseWrite => "lose-write",
            FaultKind::MisdirectWrite => "misdirect-write",
            FaultKind::FailWrite => "fail-write",
            FaultKind::FailWrites => "fail-writes",
            FaultKind::FailRead => "fail-read",
            FaultKind::LoseFlush => "lose-flush",
            FaultKind::BadSectors => "bad-sectors",
            FaultKind::BitRot => "bit-rot",
            FaultKind::NoSpace => "no-space",
            FaultKind::NoSpaceFrom => "no-space-from",
            FaultKind::Gone => "gone",
            FaultKind::PowerCut => "power-cut",
        }
    }

    /// A fault of this kind at a random place of a device of `size` bytes.
    fn draw(self, rng: &mut Rng, size: u64) -> Fault {
        match self {
            FaultKind::LoseWrite => Fault::LoseWrite,
            FaultKind::MisdirectWrite => {
                Fault::MisdirectWrite { to: rng.below(size) / PLACE * PLACE }
            }
            FaultKind::FailWrite => Fault::FailWrite,
            FaultKind::FailWrites => Fault::FailWrites,
            FaultKind::FailRead => Fault::FailRead,
            FaultKind::LoseFlush => Fault::LoseFlush,
            FaultKind::BadSectors => Fault::BadSectors {
                at: rng.below(size) / PLACE * PLACE,
                len: PLACE * rng.range(1, 4),
            },
            FaultKind::BitRot => Fault::BitRot { at: rng.below(size), bit: rng.below(8) as u8 },
            FaultKind::NoSpace => Fault::NoSpace,
            FaultKind::NoSpaceFrom => Fault::NoSpaceFrom { at: rng.below(size) / PLACE * PLACE },
            FaultKind::Gone => Fault::Gone,
            FaultKind::PowerCut => Fault::PowerCut,
        }
    }
}

/// Random places are multiples of this, so that they are sector addresses of any device.
const PLACE: u64 = 4096;

/// The faults of a run, and when they strike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan(pub Vec<(Trigger, Fault)>);

impl FaultPlan {
    /// A plan without faults.
    pub fn none() -> FaultPlan {
        FaultPlan::default()
    }

    /// The same plan with one more fault, which `trigger` sets off.
    #[must_use]
    pub fn and(mut self, trigger: Trigger, fault: Fault) -> FaultPlan {
        self.0.push((trigger, fault));
        self
    }

    /// `count` faults of these kinds within the first `writes` writes to a device of `size`
    /// bytes, drawn from `rng`.
    ///
    /// # Panics
    /// If `kinds` is empty or `writes` or `size` is zero.
    pub fn random(
        rng: &mut Rng,
        kinds: &[FaultKind],
        count: usize,
        writes: u64,
        size: u64,
    ) -> FaultPlan {
        let draw = |_| {
            let fault = rng.pick(kinds).draw(rng, size);
            (Trigger::Write(rng.range(1, writes + 1)), fault)
        };
        FaultPlan((0..count).map(draw).collect())
    }
}

#[cfg(test)]
mod tests;

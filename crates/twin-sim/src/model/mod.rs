//! Device models: how long a request takes, and what it spends that time on.
//!
//! A [`DeviceModel`] is a pure mechanism: it is told the time and a request, moves its own state
//! (where the head is, what the buffer holds) and says when the request is done. It does no I/O,
//! stores no data and knows no tasks. To add a model, write one file and one line of
//! [`registry`].
//!
//! Mechanical disks are all one mechanism, [`Disk`], with the figures of different [`Drive`]s;
//! `disk.rs` says what it models and what not, `drives/` where the figures come from.

mod buffer;
mod disk;
mod drives;
mod flat;
mod instant;
mod jitter;
mod media;
mod seek;
mod zone;

use std::fmt;

use twin_disk::IoKind;
use twin_rt::{Nanos, Time};

use crate::{Parts, UnknownName};

pub use disk::Disk;
pub use drives::{Buffering, Drive, Overheads};
pub use flat::{FlatSsd, FlatSsdFigures};
pub use seek::SeekCurve;
pub use zone::Zone;

/// A request as a model sees it: on sectors, inside the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What to do.
    pub kind: IoKind,
    /// First byte.
    pub at: u64,
    /// Number of bytes.
    pub len: u64,
}

/// When the data of a write reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// The first sector is there.
    pub first: Time,
    /// All of it is there.
    pub last: Time,
}

impl Supply {
    /// All data is there at `now`: the host moves it in no time.
    pub fn at_once(now: Time) -> Supply {
        Supply { first: now, last: now }
    }
}

/// What a request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When the first byte of a read was in the device's buffer.
    pub first: Time,
    /// When it was done. Without a shared bus, when the host hears of it.
    pub done: Time,
    /// What the time from being given to the model until `done` was spent on. Adds up to it.
    pub parts: Parts,
}

/// Size and limits of a modelled device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// The name in the registry.
    pub name: &'static str,
    /// Bytes on the device.
    pub size: u64,
    /// Bytes in a sector.
    pub sector: u32,
    /// The largest request, in bytes.
    pub max_io: u32,
    /// How many requests it works on at once.
    pub depth: u32,
    /// It reports writes before they are on the medium: they need a flush to be durable.
    pub write_cache: bool,
}

/// A mechanism that serves requests in the order in which it is given them.
pub trait DeviceModel {
    /// Size and limits.
    fn spec(&self) -> ModelSpec;

    /// Serves a request that it is given at `now`, not before the previous one. `supply` is for
    /// writes.
    fn serve(&mut self, now: Time, access: &Access, supply: Supply) -> Service;

    /// How long the device would take before the first byte of this request moves, for
    /// schedulers that ask. Zero if it makes no difference.
    fn positioning_ns(&self, _now: Time, _access: &Access) -> Nanos {
        0
    }
}

/// What can be chosen about a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bytes on the device; the drive's own size if absent. A mechanical disk can be made smaller
    /// (its outer part is used), never larger.
    pub size: Option<u64>,
    /// Report writes from the drive's cache before they are on the medium; the drive's own habit
    /// if absent.
    pub write_cache: Option<bool>,
    /// For models that draw random numbers.
    pub seed: u64,
    /// Mechanical disks: time that each command takes before the drive begins to decode it, in
    /// nanoseconds: the host's driver and adapter, selection, the command's own bytes.
    pub command_ns: Nanos,
    /// Mechanical disks without zones: track and cylinder skew in sectors, in place of the drive's.
    pub skews: Option<(u32, u32)>,
    /// Flat SSDs: times in place of the drive's own.
    pub flat: Option<FlatTimes>,
}

/// The times of a flat SSD that differ from device to device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatTimes {
    /// Time in a channel for a read.
    pub read_ns: Nanos,
    /// Time in a channel for a write.
    pub write_ns: Nanos,
    /// Time for a flush, on top of waiting for the writes under way.
    pub flush_ns: Nanos,
    /// What the link moves each way, in bytes a second. Not zero.
    pub link_bytes_per_s: u64,
}

/// A model cannot be made like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// The drive is not as large as was asked.
    TooLarge {
        /// The model.
        name: &'static str,
        /// Bytes that were asked.
        asked: u64,
        /// Bytes that it has.
        has: u64,
    },
    /// The size is zero or not a number of sectors.
    OddSize {
        /// The model.
        name: &'static str,
        /// Bytes that were asked.
        asked: u64,
        /// Bytes in a sector.
        sector: u32,
    },
    /// The drive has no cache that could hold writes.
    NoWriteCache {
        /// The model.
        name: &'static str,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelError::TooLarge { name, asked, has } => write!(
                f,
                "{name} holds {has} bytes, not {asked}: ask for less, or take a larger model"
            ),
            ModelError::OddSize { name, asked, sector } => {
                write!(f, "{name} cannot have {asked} bytes: take a positive multiple of {sector}")
            }
            ModelError::NoWriteCache { name } => {
                write!(f, "{name} cannot report writes early: leave its write cache off")
            }
        }
    }
}

impl std::error::Error for ModelError {}

type Make = fn(&'static str, &Options) -> Result<Box<dyn DeviceModel>, ModelError>;

/// What a model is made of: decides which of the [`Options`] count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Arms and platters.
    Mechanical,
    /// Channels and a link.
    Flat,
    /// A model for tests.
    Test,
}

/// A model that can be had by name.
pub struct Entry {
    /// Its name in settings.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// What it is made of.
    pub kind: Kind,
    make: Make,
}

impl Entry {
    /// A new device of this kind.
    ///
    /// # Errors
    /// If the device cannot have these options.
    pub fn build(&self, options: &Options) -> Result<Box<dyn DeviceModel>, ModelError> {
        (self.make)(self.name, options)
    }
}

/// All models: the drives of the papers and of the traces, then modern devices, then models for
/// tests.
pub fn registry() -> &'static [Entry] {
    macro_rules! drive {
        ($name:literal, $about:literal, $figures:path) => {
            Entry {
                name: $name,
                about: $about,
                kind: Kind::Mechanical,
                make: |name, options| Ok(Box::new(Disk::new(name, &$figures(), options)?)),
            }
        };
    }
    macro_rules! flat {
        ($name:literal, $about:literal, $figures:path) => {
            Entry {
                name: $name,
                about: $about,
                kind: Kind::Flat,
                make: |name, options| Ok(Box::new(FlatSsd::new(name, &$figures, options)?)),
            }
        };
    }
    const REGISTRY: &[Entry] = &[
        drive!("hp97560", "HP 97560, 1.3 GB, 4002 rpm, 1991", drives::hp97560::figures),
        drive!("hp-c3323a", "HP C3323A, 0.9 GB, 5400 rpm, zoned", drives::hp_c3323a::figures),
        drive!("hp-c2249a", "HP C2249A, 1.4 GB, 5400 rpm, zoned", drives::hp_c2249a::figures),
        drive!("dec-rz26", "DEC RZ26, 1.05 GB, 5400 rpm, 1992", drives::dec_rz26::rz26),
        drive!(
            "dsp3105",
            "DEC DSP 3105, the BSD machine's disk in 1995",
            drives::dec_rz26::dsp3105
        ),
        drive!("wren-iv", "CDC Wren IV, the Sprite machine's disk", drives::wren_iv::figures),
        drive!("m2694exa", "Fujitsu M2694EXA, the ageing study's disk", drives::m2694exa::figures),
        drive!("disk-7200", "a 4 TB disk of the 2010s, 7200 rpm", drives::disk_7200::figures),
        flat!("ssd-sata", "a flat SATA SSD, 512 GB", flat::SATA),
        flat!("ssd-nvme", "a flat NVMe SSD, 1 TB", flat::NVME),
        flat!("ssd-mqsim", "MQSim's default SSD without its translation layer", flat::MQSIM),
        Entry {
            name: "jitter",
            about: "random latency, any order: for tests",
            kind: Kind::Test,
            make: jitter::make,
        },
        Entry {
            name: "instant",
            about: "takes no time: for tests",
            kind: Kind::Test,
            make: instant::make,
        },
    ];
    REGISTRY
}

/// The model with this name.
///
/// # Errors
/// [`UnknownName`] lists the names that there are.
pub fn by_name(name: &str) -> Result<&'static Entry, UnknownName> {
    registry().iter().find(|e| e.name == name).ok_or_else(|| UnknownName {
        what: "disk model",
        name: name.into(),
        known: registry().iter().map(|e| e.name).collect(),
    })
}

/// The size that the options ask for, or the device's own, in whole sectors.
fn chosen_size(
    name: &'static str,
    options: &Options,
    own: u64,
    sector: u32,
) -> Result<u64, ModelError> {
    let asked = options.size.unwrap_or(own);
    if asked == 0 || !asked.is_multiple_of(u64::from(sector)) {
        return Err(ModelError::OddSize { name, asked, sector });
    }
    Ok(asked)
}

#[cfg(test)]
mod tests;

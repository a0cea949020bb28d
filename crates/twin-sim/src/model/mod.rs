//! Device models: how long a request takes, and how that time is divided.
//!
//! A [`DeviceModel`] is a pure mechanism: it gets the time and a request, updates its own state
//! (the position of the head, the content of the buffer) and returns when the request is done. It
//! does no I/O, stores no data and knows no tasks. A new model takes one file and one line in
//! [`REGISTRY`].
//!
//! All mechanical disks are one mechanism, [`Disk`], with the figures of different [`Drive`]s.
//! `disk.rs` lists what it models and what it leaves out, `drives/` the sources of the figures.

mod bucket;
mod buffer;
mod disk;
mod drives;
mod flat;
mod ftl;
mod instant;
mod jitter;
mod measured;
mod media;
mod seek;
mod ssd;
mod write_cache;
mod zone;

use std::fmt;
use std::rc::Rc;

use twin_disk::{IoKind, ServiceBounds};
use twin_rt::{Nanos, Time};
use twin_settings::{Registry, RegistryEntry};

use crate::TimeBreakdown;

pub use bucket::Prices;
pub use disk::Disk;
pub use drives::{Buffering, Drive, Overheads};
pub use flat::{FlatSsd, FlatSsdFigures};
pub use ftl::Wear;
#[cfg(test)]
pub(crate) use measured::figures_for_tests;
pub use measured::{MeasuredFigures, Pause, Sample, Spacing, Stalls, Times};
pub use seek::SeekCurve;
pub use ssd::{Ssd, SsdFigures};
pub use zone::Zone;

/// A request as a model sees it: whole sectors, within the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Read, write, flush or discard.
    pub kind: IoKind,
    /// The first byte, counted from the start of the device.
    pub at: u64,
    /// Length of the request in bytes.
    pub len: u64,
}

/// When the data of a write reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// When the first sector is there.
    pub first: Time,
    /// When all of it is there.
    pub last: Time,
}

impl Supply {
    /// All data is there at `now`: the host moves it in no time.
    pub fn at_once(now: Time) -> Supply {
        Supply { first: now, last: now }
    }
}

/// The result of serving a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When the first byte of a read was in the device's buffer.
    pub first: Time,
    /// When it was done. Without a shared bus this is when the host is told.
    pub done: Time,
    /// How the time from `now` until `done` is divided. The parts add up to it.
    pub parts: TimeBreakdown,
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
    /// Number of requests that it serves at once.
    pub depth: u32,
    /// Number of requests that it accepts at once. If this is more than it serves, it chooses
    /// their order itself.
    pub queue_depth: u32,
    /// Whether it reports writes before they are on the medium, so that a flush is needed.
    pub write_cache: bool,
}

/// A mechanism that serves requests in the order in which it gets them.
pub trait DeviceModel {
    /// Size and limits of the device.
    fn spec(&self) -> ModelSpec;

    /// Serves a request that arrives at `now`, which is not earlier than that of the previous
    /// request. `supply` is for writes.
    fn serve(&mut self, now: Time, access: &Access, supply: Supply) -> Service;

    /// How long the device would take before the first byte of this request moves, for schedulers
    /// that ask. Zero if the order makes no difference.
    fn positioning_ns(&self, _now: Time, _access: &Access) -> Nanos {
        0
    }

    /// Moves the arm to byte `at` without a request there, and returns how long that takes: for queues
    /// that send the arm to the ends of the disk. Zero without an arm.
    fn travel(&mut self, _now: Time, _at: u64) -> Nanos {
        0
    }

    /// The cylinder on which a byte lies; `None` without an arm, or beyond the end.
    fn cylinder_of(&self, _at: u64) -> Option<u32> {
        None
    }

    /// How long its mechanics have worked since it was made: seeks, head switches, rotational delay
    /// and sectors passing under the head, for requests and for writes that were reported before;
    /// read-ahead counts as far as a request waited for it. `None` without mechanics.
    fn mechanics_ns(&self) -> Option<Nanos> {
        None
    }

    /// The longest times of requests; `None` if the model does not know them.
    fn bounds(&self) -> Option<ServiceBounds> {
        None
    }

    /// The wear since the device was made; `None` if it does not wear or its wear is not modelled.
    fn wear(&self) -> Option<Wear> {
        None
    }

    /// What an object store charges; `None` if the device is none.
    fn prices(&self) -> Option<Prices> {
        None
    }
}

/// The options of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Bytes on the device; the drive's own size if absent. A mechanical disk can be made smaller
    /// (its outer part is used), never larger. An object store has no size.
    pub size: Option<u64>,
    /// Report writes from the drive's cache before they are on the medium; by default as the drive
    /// does.
    pub write_cache: Option<bool>,
    /// Mechanical disks with a buffer: bytes that the drive reads ahead, instead of its own figure; at
    /// most what a segment of its buffer holds.
    pub read_ahead: Option<u64>,
    /// The seed of models that draw random numbers.
    pub seed: u64,
    /// Mechanical disks: time that each command takes before the drive begins to decode it, in
    /// nanoseconds: the host's driver and adapter, selection, the command's own bytes.
    pub command_ns: Nanos,
    /// Mechanical disks: number of commands that the drive accepts at once (NCQ), instead of the
    /// drive's own. Zero counts as one.
    pub queue_depth: Option<u32>,
    /// Mechanical disks without zones: track and cylinder skew in sectors, instead of the drive's.
    pub skews: Option<(u32, u32)>,
    /// Flat SSDs: times instead of the device's own.
    pub flat: Option<FlatTimes>,
    /// Buckets: another price list than that of the model's date.
    pub prices: Option<Prices>,
    /// The measured figures, for the model of a measured device.
    pub measured: Option<Rc<MeasuredFigures>>,
}

/// The times of a flat SSD that differ from device to device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatTimes {
    /// Time that a read occupies a channel.
    pub read_ns: Nanos,
    /// Time that a write occupies a channel.
    pub write_ns: Nanos,
    /// Time of a flush after the writes in flight have finished.
    pub flush_ns: Nanos,
    /// Bandwidth of the link in each direction, in bytes a second. Not zero.
    pub link_bytes_per_s: u64,
}

/// A model cannot be built with these options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// The drive is smaller than the requested size.
    TooLarge {
        /// The name of the model.
        name: &'static str,
        /// Requested size in bytes.
        asked: u64,
        /// Size of the drive in bytes.
        has: u64,
    },
    /// The size is zero or not a multiple of the sector.
    OddSize {
        /// The name of the model.
        name: &'static str,
        /// Requested size in bytes.
        asked: u64,
        /// Bytes in a sector.
        sector: u32,
    },
    /// The model needs what was measured of a device.
    NotMeasured {
        /// The name of the model.
        name: &'static str,
    },
    /// The drive has no cache that could hold writes.
    NoWriteCache {
        /// The name of the model.
        name: &'static str,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelError::TooLarge { name, asked, has } => write!(
                f,
                "{name} has {has} bytes, not {asked}: choose a smaller size or a larger model"
            ),
            ModelError::OddSize { name, asked, sector } => {
                write!(f, "{name} cannot have {asked} bytes: use a positive multiple of {sector}")
            }
            ModelError::NotMeasured { name } => write!(
                f,
                "{name} stands for the device in a machine file: make one with `twinfs calibrate` \
                 and give it with --machine"
            ),
            ModelError::NoWriteCache { name } => {
                write!(f, "{name} cannot report writes early: switch its write cache off")
            }
        }
    }
}

impl std::error::Error for ModelError {}

/// The kind of a model, which decides the applicable [`Options`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mechanical disk, with seeks and rotation.
    Mechanical,
    /// A flat SSD, with channels and a link.
    Flat,
    /// A device whose times were measured.
    Measured,
    /// An SSD with a translation layer.
    Flash,
    /// The service of an object store, which charges for requests: not a disk by itself.
    Bucket,
    /// A model for tests.
    Test,
}

/// A model in the registry, without its name.
pub struct Known {
    /// The kind of device, which decides the options that apply.
    pub kind: Kind,
    make: fn(&Options) -> Result<Box<dyn DeviceModel>, ModelError>,
}

impl Known {
    /// A new device of this kind.
    pub fn build(&self, options: &Options) -> Result<Box<dyn DeviceModel>, ModelError> {
        (self.make)(options)
    }
}

macro_rules! drive {
    ($name:literal, $about:literal, $figures:path) => {
        RegistryEntry::new(
            $name,
            $about,
            Known {
                kind: Kind::Mechanical,
                make: |options| Ok(Box::new(Disk::new($name, &$figures(), options)?)),
            },
        )
    };
}

macro_rules! flat {
    ($name:literal, $about:literal, $figures:path) => {
        RegistryEntry::new(
            $name,
            $about,
            Known {
                kind: Kind::Flat,
                make: |options| Ok(Box::new(FlatSsd::new($name, &$figures, options)?)),
            },
        )
    };
}

macro_rules! flash {
    ($name:literal, $about:literal, $figures:path) => {
        RegistryEntry::new(
            $name,
            $about,
            Known {
                kind: Kind::Flash,
                make: |options| Ok(Box::new(Ssd::new($name, &$figures, options)?)),
            },
        )
    };
}

macro_rules! bucket {
    ($name:literal, $about:literal, $figures:path) => {
        RegistryEntry::new(
            $name,
            $about,
            Known { kind: Kind::Bucket, make: |options| bucket::make($name, &$figures, options) },
        )
    };
}

macro_rules! other {
    ($kind:ident, $name:literal, $about:literal, $make:path) => {
        RegistryEntry::new(
            $name,
            $about,
            Known { kind: Kind::$kind, make: |options| $make($name, options) },
        )
    };
}

/// All models; the first is the default: the drives of the papers and of the traces, then modern
/// devices, then models for tests.
pub static REGISTRY: Registry<Known> = Registry::new(
    "disk model",
    &[
        drive!("hp97560", "HP 97560, 1.3 GB, 4002 rpm, 1991", drives::hp97560::figures),
        drive!("hp335h", "HP 335H, 0.34 GB, 4002 rpm, on HP-IB", drives::hp335h::figures),
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
        flat!("pmem", "persistent memory, 128 GB, assumed", flat::PMEM),
        flash!("ssd-tlc", "an NVMe SSD with its translation layer, 1 TB", ssd::TLC),
        flash!("ssd-mqsim", "MQSim's default SSD with its translation layer", ssd::MQSIM),
        bucket!("s3-standard", "a bucket of S3, Standard, us-east-1, 2026-11", bucket::STANDARD),
        bucket!("s3-express", "a bucket of S3, Express One Zone, 2026-11", bucket::EXPRESS),
        other!(Measured, "measured", "the device of a machine file (--machine)", measured::make),
        other!(Test, "jitter", "random latency, any order: for tests", jitter::make),
        other!(Test, "instant", "takes no time: for tests", instant::make),
    ],
);

/// The requested size, or the device's own, in whole sectors.
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

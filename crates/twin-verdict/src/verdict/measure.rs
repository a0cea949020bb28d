//! What runs are judged by.
//!
//! Contract: a measure is a line in [`MEASURES`], and smaller is better in all of them. Which one judges if
//! nobody chose depends on what a run measures: with the pauses of a recording, the end of the last operation
//! is when the last pause ended, so that the time in operations judges.

use twin_lab::{Config, Figures, Spread};
use twin_report::units::{dollars, duration, mib};
use twin_settings::{Registry, RegistryEntry};
use twin_trace::replay::Pace;

use super::why::{self, Pair};
use crate::trust::Trust;

/// What runs are judged by: smaller is better.
pub struct Measure {
    of: fn(&Figures) -> Option<f64>,
    pub(super) text: fn(f64) -> String,
    /// The title of a column with such figures.
    pub title: &'static str,
    what: What,
    /// What a workload or a configuration needs to have such a figure.
    pub(super) needs: &'static str,
    /// Why the second run has more, as far as the runs tell, in sentences.
    pub(super) why: fn(Pair<'_>) -> Vec<String>,
}

/// What a measure counts, which decides about the error of simulation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    TotalTime,
    Latency,
    Bytes,
    Money,
}

/// What runs with several seeds measured; `None` if there was one.
pub(crate) fn spread_of<'a>(measure: &str, figures: &'a Figures) -> Option<&'a Spread> {
    figures.spreads.iter().find(|spread| spread.measure == measure)
}

/// The value of a run by a measure, or with several seeds the median; `None` if it has none.
pub fn value_of(measure: &MeasureEntry, figures: &Figures) -> Option<f64> {
    spread_of(measure.name, figures)
        .map(|spread| spread.median)
        .or_else(|| measure.value_of(figures))
}

/// The value in words, with the smallest and the largest if there are several.
pub fn text_of(measure: &MeasureEntry, figures: &Figures) -> Option<String> {
    let text = |value: f64| (measure.text)(value);
    let value = text(value_of(measure, figures)?);
    Some(match spread_of(measure.name, figures) {
        Some(spread) => format!("{value} ({} to {})", text(spread.min), text(spread.max)),
        None => value,
    })
}

impl Measure {
    /// The value of one run; `None` if it has none.
    pub fn value_of(&self, figures: &Figures) -> Option<f64> {
        (self.of)(figures)
    }

    /// A value in words, with its unit.
    pub fn text(&self, value: f64) -> String {
        (self.text)(value)
    }

    /// The unit of its values.
    pub fn unit(&self) -> &'static str {
        match self.what {
            What::TotalTime => "s",
            What::Latency => "us",
            What::Bytes => "bytes",
            What::Money => "USD",
        }
    }

    /// True if it is a time, which simulations have with an error.
    pub(super) fn is_time(&self) -> bool {
        matches!(self.what, What::TotalTime | What::Latency)
    }

    /// The factor below which its figures are too close to call: counts are not times and have no
    /// such error.
    pub fn error(&self, trust: &Trust) -> f64 {
        if self.is_time() { trust.factor } else { 1.0 }
    }

    /// True if it is a time of the whole run.
    pub(super) fn is_total_time(&self) -> bool {
        self.what == What::TotalTime
    }

    /// True if it is a latency of single operations.
    pub(super) fn is_latency(&self) -> bool {
        self.what == What::Latency
    }
}

/// Checks that configurations can have figures by a measure.
///
/// # Errors
/// If none of them can: what they need, in words.
pub fn measurable(measure: &MeasureEntry, configs: &[Config]) -> Result<(), String> {
    let has: fn(&Config) -> bool = match measure.name {
        WEAR => Config::wears,
        BILL => Config::is_billed,
        _ => |_| true,
    };
    match !configs.is_empty() && !configs.iter().any(has) {
        true => Err(format!(
            "--by {}: no configuration has a figure: it {}",
            measure.name, measure.needs
        )),
        false => Ok(()),
    }
}

/// The measure that judges runs at this pace unless another one is chosen.
pub fn measure_for(pace: Pace) -> &'static MeasureEntry {
    let name = if keeps_pauses(pace) { WAITING } else { FINISH };
    MEASURES.iter().find(|measure| measure.name == name).unwrap_or(MEASURES.default_entry())
}

/// True if pauses of the clients are a part of the run.
pub(super) fn keeps_pauses(pace: Pace) -> bool {
    pace != Pace::Asap
}

/// The measure that runs with pauses have for the most part from their pauses.
pub(super) const FINISH: &str = "finish";
/// The measure without pauses.
const WAITING: &str = "waiting";
/// The measure that only some disks have.
pub(super) const WEAR: &str = "wear";
/// The measure that only buckets have.
pub(super) const BILL: &str = "bill";

/// All measures.
pub static MEASURES: Registry<Measure> = Registry::new(
    "measure",
    &[
        RegistryEntry::new(
            FINISH,
            "simulated time until all work is done and on the disk",
            Measure {
                of: |figures| Some(figures.finish_s),
                text: |seconds| duration(seconds * 1e6),
                title: "all on disk",
                what: What::TotalTime,
                needs: "needs nothing",
                why: why::later,
            },
        ),
        RegistryEntry::new(
            WAITING,
            "time that clients waited for their operations, added up over clients",
            Measure {
                of: |figures| Some(figures.waiting_s),
                text: |seconds| duration(seconds * 1e6),
                title: "clients waited",
                what: What::TotalTime,
                needs: "needs nothing",
                why: why::longer_waits,
            },
        ),
        RegistryEntry::new(
            "p99",
            "latency that 99 of 100 operations do not exceed",
            Measure {
                of: |figures| Some(figures.latency.p99_us),
                text: duration,
                title: "p99",
                what: What::Latency,
                needs: "needs operations",
                why: why::busier_disk,
            },
        ),
        RegistryEntry::new(
            "fsync",
            "latency that 99 of 100 fsyncs do not exceed",
            Measure {
                of: |figures| {
                    let fsync = figures
                        .verbs
                        .iter()
                        .find(|verb| verb.verb == twin_trace::Verb::Fsync.name());
                    fsync.map(|verb| verb.latency.p99_us)
                },
                text: duration,
                title: "p99 of fsyncs",
                what: What::Latency,
                needs: "needs a workload with fsyncs",
                why: why::busier_disk,
            },
        ),
        RegistryEntry::new(
            "written",
            "bytes written to the disk",
            Measure {
                of: |figures| Some(figures.disk_use.written_bytes as f64),
                text: |bytes| mib(bytes as u64),
                title: "written",
                what: What::Bytes,
                needs: "needs nothing",
                why: why::more_written,
            },
        ),
        RegistryEntry::new(
            WEAR,
            "bytes that the SSD programs into its cells, those that it moves by itself included",
            Measure {
                of: |figures| figures.disk_use.wear.map(|wear| wear.programmed_bytes as f64),
                text: |bytes| mib(bytes as u64),
                title: "SSD programs",
                what: What::Bytes,
                needs: "needs a disk with a translation layer, whose wear is counted: \
                        disk=ssd-tlc or disk=ssd-mqsim",
                why: why::more_worn,
            },
        ),
        RegistryEntry::new(
            BILL,
            "dollars that a bucket charges for the requests of the work and the bytes that they move",
            Measure {
                of: |figures| figures.disk_use.bill.map(|bill| bill.work_usd()),
                text: dollars,
                title: "price of the work",
                what: What::Money,
                needs: "needs a bucket: disk=s3-standard or disk=s3-express",
                why: why::dearer,
            },
        ),
    ],
);

/// A measure in the registry.
pub type MeasureEntry = RegistryEntry<Measure>;

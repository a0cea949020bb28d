//! Studies of bare volumes: all combinations of policies, workloads and seeds, one run a thread,
//! with the results in order and the same as on one thread.

mod report;

use std::io::Read;
use std::sync::Arc;

use serde::Serialize;
use twin_clean::volume::study::{Source, StudyRun};
use twin_clean::volume::trace::{Builder, Trace};
use twin_clean::volume::workload::Workload;
use twin_clean::volume::{Totals, VolumeGeometry};
use twin_clean::{placement, victim};
use twin_lab::side_by_side;
use twin_settings::help_of;
use twin_trace::Reading;
use twin_trace::block::{self, BlockOp};

pub use report::{gaps, markdown, report};

/// The parameters of a study: every workload with every placement policy, victim policy and seed.
#[derive(Clone, Debug)]
pub struct Study {
    /// Workloads, with the name under which they are reported.
    pub workloads: Vec<(String, Input)>,
    /// Placement policies, each with a victim policy.
    pub policies: Vec<Policies>,
    /// The seeds of generators and policies.
    pub seeds: Vec<u64>,
    /// Blocks of a segment; by default 1% of the volume.
    pub segment_blocks: Option<u32>,
    /// The shares of garbage at which cleaning begins; each workload is run with each.
    pub garbage_shares: Vec<f64>,
    /// Maximum number of open segments.
    pub open_segments: u8,
}

/// A placement and a victim policy.
pub type Policies = (&'static placement::PlacementEntry, &'static victim::VictimEntry);

/// Every placement policy with every victim policy.
pub fn every(
    placements: &[&'static placement::PlacementEntry],
    victims: &[&'static victim::VictimEntry],
) -> Vec<Policies> {
    let with = |&placement| victims.iter().map(move |&victim| (placement, victim));
    placements.iter().flat_map(with).collect()
}

/// The policies of the full table: our own pair, then every other placement policy with these
/// victim policies.
pub fn full_table(victims: &[&'static victim::VictimEntry]) -> Vec<Policies> {
    let ours = (placement::REGISTRY.default_entry(), victim::REGISTRY.default_entry());
    let others: Vec<_> = placement::REGISTRY.iter().skip(1).collect();
    std::iter::once(ours).chain(every(&others, victims)).collect()
}

/// The policies of [`gaps`]: our own pair, then every pair of other policies that does not know the
/// future.
pub fn rivals() -> Vec<Policies> {
    let ours = (placement::REGISTRY.default_entry(), victim::REGISTRY.default_entry());
    let placements = placement::REGISTRY.iter().skip(1).filter(|entry| entry.online);
    let placements: Vec<_> = placements.collect();
    let victims: Vec<_> = victim::REGISTRY.iter().skip(1).collect();
    std::iter::once(ours).chain(every(&placements, &victims)).collect()
}

/// The writes to a volume.
#[derive(Clone, Debug)]
pub enum Input {
    /// A generator.
    Generated {
        /// The generator with its parameters.
        workload: Workload,
        /// Blocks of the volume.
        blocks: u32,
        /// Number of blocks that are written.
        writes: u64,
    },
    /// A block trace, written once.
    Trace(Arc<Trace>),
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// The exponent, if the workload has one.
    pub exponent: Option<f64>,
    /// The placement policy.
    pub placement: &'static str,
    /// The victim policy.
    pub victim: &'static str,
    /// The seed.
    pub seed: u64,
    /// Blocks of the volume.
    pub blocks: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Number of blocks that users wrote.
    pub user_writes: u64,
    /// Number of blocks that the cleaner moved.
    pub cleaner_writes: u64,
    /// Number of segments that were cleaned.
    pub victims: u64,
    /// All writes divided by user writes.
    pub write_amplification: f64,
}

impl Study {
    /// The runs: workloads outermost, then shares of garbage, which are a part of the reported name
    /// if there are several, then policies, then seeds.
    ///
    /// # Errors
    /// If a volume of that geometry is impossible.
    pub fn runs(&self) -> Result<Vec<(String, StudyRun)>, String> {
        let mut runs = Vec::new();
        for (name, input) in &self.workloads {
            let (blocks, source) = match input {
                Input::Generated { workload, blocks, writes } => {
                    (*blocks, Source::Generated(workload.clone(), *writes))
                }
                Input::Trace(trace) => (trace.blocks(), Source::Trace(Arc::clone(trace))),
            };
            let segment_blocks = self.segment_blocks.unwrap_or((blocks / 100).max(2));
            let open_segments = self.open_segments;
            for &garbage_share in &self.garbage_shares {
                let name = match self.garbage_shares.len() {
                    1 => name.clone(),
                    _ => format!("{name} at {:.0}%", garbage_share * 100.0),
                };
                let geometry =
                    VolumeGeometry { blocks, segment_blocks, garbage_share, open_segments };
                for &(placement, victim) in &self.policies {
                    let checked = geometry.check_for(placement);
                    let geometry = checked.map_err(|error| error.to_string())?;
                    for &seed in &self.seeds {
                        let source = source.clone();
                        let run = StudyRun { geometry, source, placement, victim, seed };
                        runs.push((name.clone(), run));
                    }
                }
            }
        }
        Ok(runs)
    }
}

/// Runs all on up to `threads` threads. Calls `progress` from any thread with the number of blocks
/// that users have written since the last call, and `ended` with each run that has ended.
pub fn run_all(
    runs: &[(String, StudyRun)],
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
    ended: &(dyn Fn(usize, Row) + Sync),
) -> Vec<Row> {
    let run = |at: usize| {
        let totals = runs[at].1.run(&progress);
        ended(at, row(&runs[at], totals));
        row(&runs[at], totals)
    };
    side_by_side(runs.len(), threads, &run, &|_, _| {})
}

fn row((workload, run): &(String, StudyRun), totals: Totals) -> Row {
    let exponent = match &run.source {
        Source::Generated(workload, _) => {
            let values = workload.values();
            values.has("exponent").then(|| values.decimal("exponent"))
        }
        Source::Trace(_) => None,
    };
    Row {
        workload: workload.clone(),
        exponent,
        placement: run.placement.name,
        victim: run.victim.name,
        seed: run.seed,
        blocks: run.geometry.blocks,
        segment_blocks: run.geometry.segment_blocks,
        user_writes: totals.user_writes,
        cleaner_writes: totals.cleaner_writes,
        victims: totals.victims,
        write_amplification: totals.write_amplification(),
    }
}

/// Reads a block trace in the format called `format`, or detects the format; with what its reader left
/// out and assumed.
///
/// # Errors
/// If it is damaged, the format is unknown, or it writes no block.
pub fn read_trace(
    input: impl Read + Send + 'static,
    format: Option<&str>,
) -> Result<(Trace, Reading), String> {
    let source = match format {
        Some(name) => block::open(name, input),
        None => block::open_any(input).map(|(_, source)| source),
    };
    let mut source = source.map_err(|error| error.to_string())?;
    let mut builder = Builder::default();
    while let Some(request) = source.next_request().map_err(|error| error.to_string())? {
        match request.op {
            BlockOp::Read | BlockOp::Sync { .. } => {}
            BlockOp::Write => builder.write(request.device, request.offset_bytes, request.bytes),
            BlockOp::Trim => builder.trim(request.device, request.offset_bytes, request.bytes),
        }
    }
    let trace = builder.finish().map_err(|error| error.to_string())?;
    Ok((trace, source.reading()))
}

/// All policies, workloads and trace formats, each with its rule.
pub fn list() -> String {
    let mut text = String::from("Placement policies (--placement), bits of memory a block:\n");
    for entry in &placement::REGISTRY {
        let bits = entry.bits_per_block;
        text += &format!("  {:12} {:2}  {}\n", entry.name, bits, entry.about);
        text += &format!("                   {}\n", entry.source);
    }
    text += "\nVictim policies (--victim):\n";
    for entry in &victim::REGISTRY {
        text += &format!(
            "  {:18} {}\n                     {}\n",
            entry.name, entry.about, entry.source
        );
    }
    text += "\nWorkloads (--workload), written name or name:key=value,...:\n";
    for entry in &twin_clean::volume::workload::REGISTRY {
        text += &format!("  {:9} {}\n", entry.name, entry.about);
        text += &help_of(entry.params, "            ");
    }
    text += "\nFormats of block traces (--trace FILE, found out unless --trace-format is given):\n";
    for spec in &block::REGISTRY {
        text += &format!("  {:14} {}\n", spec.name, spec.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rivals_do_not_know_the_future_and_ours_comes_first() {
        let pairs = rivals();
        assert!(pairs.iter().all(|(placement, _)| placement.online));
        let (placements, victims) = (placement::REGISTRY.iter(), victim::REGISTRY.iter());
        let others = (placements.filter(|entry| entry.online).count() - 1) * (victims.count() - 1);
        assert_eq!(pairs.len(), 1 + others);
        assert_eq!(pairs[0].0.name, placement::REGISTRY.default_entry().name);
    }
}

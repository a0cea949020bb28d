//! Studies of bare volumes: policies, workloads and seeds, every one with every other, one run a
//! thread, the results in order and as on one thread.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use twin_clean::volume::study::{Run, Source};
use twin_clean::volume::trace::{Builder, Trace};
use twin_clean::volume::workload::Workload;
use twin_clean::volume::{Shape, Totals};
use twin_clean::{placement, victim};
use twin_trace::block::{self, BlockOp};

/// What is studied: every workload with every placement, victim policy and seed.
#[derive(Clone, Debug)]
pub struct Study {
    /// Workloads, with the name under which they are reported.
    pub workloads: Vec<(String, Input)>,
    /// Placement policies, each with a victim policy.
    pub policies: Vec<Policies>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Blocks of a segment; if not given, 1% of the volume.
    pub segment_blocks: Option<u32>,
    /// The share of garbage from which on a volume is cleaned.
    pub garbage_share: f64,
    /// Open segments at most.
    pub open_segments: u8,
}

/// A placement and a victim policy.
pub type Policies = (&'static placement::Entry, &'static victim::Entry);

/// Every placement policy with every victim policy.
pub fn every(
    placements: &[&'static placement::Entry],
    victims: &[&'static victim::Entry],
) -> Vec<Policies> {
    let with = |&placement| victims.iter().map(move |&victim| (placement, victim));
    placements.iter().flat_map(with).collect()
}

/// The policies of the full table: our own pair, then every other placement policy with these
/// victim policies.
pub fn full_table(victims: &[&'static victim::Entry]) -> Vec<Policies> {
    let ours = (&placement::registry()[0], &victim::registry()[0]);
    let others: Vec<_> = placement::registry()[1..].iter().collect();
    std::iter::once(ours).chain(every(&others, victims)).collect()
}

/// What is written to a volume.
#[derive(Clone, Debug)]
pub enum Input {
    /// A generator on a volume of so many blocks, for so many volumes of writes.
    Generated {
        /// The generator.
        workload: Workload,
        /// Blocks of the volume.
        blocks: u32,
        /// Blocks that are written.
        writes: u64,
    },
    /// A block trace.
    Trace(Arc<Trace>),
}

/// What a run measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// The exponent, of a workload that has one.
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
    /// Blocks that users wrote.
    pub user_writes: u64,
    /// Blocks that the cleaner moved.
    pub cleaner_writes: u64,
    /// Segments that were cleaned.
    pub victims: u64,
    /// All writes over user writes.
    pub write_amplification: f64,
}

impl Study {
    /// The runs: workloads outermost, then policies, then seeds.
    ///
    /// # Errors
    /// If there can be no volume of that shape.
    pub fn runs(&self) -> Result<Vec<(String, Run)>, String> {
        let mut runs = Vec::new();
        for (name, input) in &self.workloads {
            let (blocks, source) = match input {
                Input::Generated { workload, blocks, writes } => {
                    (*blocks, Source::Generated(workload.clone(), *writes))
                }
                Input::Trace(trace) => (trace.blocks(), Source::Trace(Arc::clone(trace))),
            };
            let segment_blocks = self.segment_blocks.unwrap_or((blocks / 100).max(2));
            let (garbage_share, open_segments) = (self.garbage_share, self.open_segments);
            let shape = Shape { blocks, segment_blocks, garbage_share, open_segments };
            for &(placement, victim) in &self.policies {
                let shape = shape.check_for(placement).map_err(|error| error.to_string())?;
                for &seed in &self.seeds {
                    let source = source.clone();
                    runs.push((name.clone(), Run { shape, source, placement, victim, seed }));
                }
            }
        }
        Ok(runs)
    }
}

/// Does all runs on up to `threads` threads. `progress` is told from any thread how many more
/// blocks users have written.
pub fn run_all(
    runs: &[(String, Run)],
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<Totals>>> = Mutex::new(vec![None; runs.len()]);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((_, run)) = runs.get(at) else { break };
            let totals = run.run(&progress);
            found.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(totals);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, runs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    runs.iter().zip(found).filter_map(|(run, totals)| Some(row(run, totals?))).collect()
}

fn row((workload, run): &(String, Run), totals: Totals) -> Row {
    let exponent = match &run.source {
        Source::Generated(workload, _) => workload.get("exponent"),
        Source::Trace(_) => None,
    };
    Row {
        workload: workload.clone(),
        exponent,
        placement: run.placement.name,
        victim: run.victim.name,
        seed: run.seed,
        blocks: run.shape.blocks,
        segment_blocks: run.shape.segment_blocks,
        user_writes: totals.user_writes,
        cleaner_writes: totals.cleaner_writes,
        victims: totals.victims,
        write_amplification: totals.write_amplification(),
    }
}

/// Reads a block trace in the format called `format`, or in the one that it looks like.
///
/// # Errors
/// If it is damaged, or no format is called so, or it writes nothing.
pub fn read_trace(input: impl Read + 'static, format: Option<&str>) -> Result<Trace, String> {
    let source = match format {
        Some(name) => block::open(name, input),
        None => block::open_any(input).map(|(_, source)| source),
    };
    let mut source = source.map_err(|error| error.to_string())?;
    let mut builder = Builder::default();
    while let Some(request) = source.next_request().map_err(|error| error.to_string())? {
        match request.op {
            BlockOp::Read => {}
            BlockOp::Write => builder.write(request.device, request.offset_bytes, request.bytes),
            BlockOp::Trim => builder.trim(request.device, request.offset_bytes, request.bytes),
        }
    }
    builder.finish().map_err(|error| error.to_string())
}

/// The rows as comma-separated values, with a line that names the columns.
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "workload,exponent,placement,victim,seed,blocks,segment_blocks,user_writes,\
         cleaner_writes,victims,write_amplification\n",
    );
    for row in rows {
        let quoted = match row.workload.contains([',', '"']) {
            true => format!("\"{}\"", row.workload.replace('"', "\"\"")),
            false => row.workload.clone(),
        };
        let exponent = row.exponent.map(|exponent| exponent.to_string()).unwrap_or_default();
        text += &format!(
            "{quoted},{exponent},{},{},{},{},{},{},{},{},{:.6}\n",
            row.placement,
            row.victim,
            row.seed,
            row.blocks,
            row.segment_blocks,
            row.user_writes,
            row.cleaner_writes,
            row.victims,
            row.write_amplification
        );
    }
    text
}

/// Names of a placement and a victim policy.
type Names<'a> = (&'a str, &'a str);

/// Medians over seeds: for each pair of policies, in order, one for each workload, in order.
struct Medians<'a> {
    workloads: Vec<&'a str>,
    rows: Vec<(Names<'a>, Vec<Option<f64>>)>,
}

impl<'a> Medians<'a> {
    fn of(rows: &'a [Row]) -> Medians<'a> {
        let mut workloads: Vec<&str> = Vec::new();
        let mut found: Vec<(Names<'_>, Vec<Vec<f64>>)> = Vec::new();
        for row in rows {
            let policies = (row.placement, row.victim);
            let at = workloads.iter().position(|name| *name == row.workload);
            let at = at.unwrap_or_else(|| {
                workloads.push(&row.workload);
                workloads.len() - 1
            });
            let of = found.iter().position(|(pair, _)| *pair == policies).unwrap_or_else(|| {
                found.push((policies, Vec::new()));
                found.len() - 1
            });
            let cells = &mut found[of].1;
            cells.resize(cells.len().max(at + 1), Vec::new());
            cells[at].push(row.write_amplification);
        }
        let median = |mut found: Vec<f64>| {
            found.sort_by(f64::total_cmp);
            found.get(found.len() / 2).copied()
        };
        let rows = found.into_iter().map(|(pair, mut cells)| {
            cells.resize(workloads.len(), Vec::new());
            (pair, cells.into_iter().map(median).collect())
        });
        Medians { rows: rows.collect(), workloads }
    }
}

/// Median over seeds: a row for each placement and victim policy, a column a workload.
pub fn table(rows: &[Row]) -> String {
    let medians = Medians::of(rows);
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["placement", "victim"].iter().chain(&medians.workloads));
    for ((placement, victim), cells) in medians.rows {
        let cells =
            cells.into_iter().map(|wa| wa.map_or_else(String::new, |wa| format!("{wa:.3}")));
        table.add_row([placement, victim].map(String::from).into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// The same in Markdown, as documents show it, with the geometric mean over the workloads.
pub fn markdown(rows: &[Row]) -> String {
    let medians = Medians::of(rows);
    let mut text = String::from("| placement | victim |");
    for workload in &medians.workloads {
        text += &format!(" {workload} |");
    }
    text += " geometric mean |\n|---|---|";
    text += &"---|".repeat(medians.workloads.len() + 1);
    for ((placement, victim), cells) in medians.rows {
        text += &format!("\n| {placement} | {victim} |");
        let known: Vec<f64> = cells.iter().copied().flatten().collect();
        for cell in &cells {
            text += &cell.map_or_else(|| " |".to_owned(), |wa| format!(" {wa:.3} |"));
        }
        let mean = known.iter().map(|wa| wa.ln()).sum::<f64>() / known.len().max(1) as f64;
        text += &format!(" {:.3} |", mean.exp());
    }
    text
}

/// All policies, workloads and trace formats, each with its rule.
pub fn list() -> String {
    let mut text = String::from("Placement policies (--placement), bits of memory a block:\n");
    for entry in placement::registry() {
        let bits = entry.bits_per_block;
        text += &format!("  {:12} {:2}  {}\n", entry.name, bits, entry.rule);
        text += &format!("                   {}\n", entry.source);
    }
    text += "\nVictim policies (--victim):\n";
    for entry in victim::registry() {
        text +=
            &format!("  {:18} {}\n                     {}\n", entry.name, entry.rule, entry.source);
    }
    text += "\nWorkloads (--workload), written name or name:key=value,...:\n";
    for entry in twin_clean::volume::workload::registry() {
        text += &format!("  {:9} {}\n", entry.name, entry.about);
        for param in entry.params {
            let (name, default, about) = (param.name, param.default, param.about);
            text += &format!("            {name} ({default}): {about}\n");
        }
    }
    text += "\nFormats of block traces (--trace FILE, found out unless --trace-format is given):\n";
    for spec in block::REGISTRY {
        text += &format!("  {:14} {}\n", spec.name, spec.about);
    }
    text
}

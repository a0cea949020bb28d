//! `twinfs volume`: what cleaning costs on a bare volume.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use twin_clean::volume::workload;
use twin_clean::{placement, victim};
use twin_cli::progress::Progress;
use twin_cli::{Ended, Failure, Outcome, Printer, SoFar, say, usage};
use twin_host::{Interrupts, real_clock};
use twin_mount::input::{Wanted, must_be};
use twin_settings::outside;
use twin_studies::volume::{
    Input, Row, Study, every, full_table, gaps, list, markdown, read_trace, report, rivals, run_all,
};
use twin_trace::Reading;

use super::reading;
use crate::cli::Volume;

pub(crate) fn run(args: &Volume, interrupts: &Interrupts) -> Outcome {
    if args.list {
        say(list().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let placements: Vec<_> =
        args.placement.iter().filter_map(|name| placement::REGISTRY.reach(name).ok()).collect();
    let victims: Vec<_> =
        args.victim.iter().filter_map(|name| victim::REGISTRY.reach(name).ok()).collect();
    let (workloads, readings) = inputs(args)?;
    let study = Study {
        workloads,
        policies: match (args.rivals, args.table) {
            (true, _) => rivals(),
            (_, true) => full_table(&victims),
            _ => every(&placements, &victims),
        },
        seeds: args.seed.clone(),
        segment_blocks: args.segment,
        garbage_shares: args.garbage.iter().map(|percent| percent / 100.0).collect(),
        open_segments: args.open_segments,
    };
    let runs = study.runs().map_err(usage)?;
    let printer = Printer::of(&args.output, interrupts)?;
    let writes = runs.iter().map(|(_, run)| run.writes()).sum();
    let bar = Progress::of("blocks written", writes);
    let clock = real_clock();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = args.threads.unwrap_or(cores);
    let kept =
        SoFar::new((printer, &bar), interrupts, (BTreeMap::new(), runs.len()), None, |ended| {
            report(&ended.values().map(|ended: &Ended<Row>| ended.0.clone()).collect::<Vec<_>>())
        });
    let rows =
        run_all(&runs, threads, &|written| bar.inc(written), &|at, row| kept.add(at, Ended(row)));
    let seconds = clock();
    bar.finish();
    if let Some(words) = outside::fault() {
        return Err(words.into());
    }
    // Whatever an interrupt has printed is printed.
    let Some(mut printer) = kept.end() else { return Ok(ExitCode::FAILURE) };
    let mut report = report(&rows);
    // With several shares of garbage the name of a workload has the share behind it.
    let is_of = |name: &str, workload: &str| {
        let rest = workload.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" at "))
    };
    report.change_json(|row| {
        let workload = row["workload"].as_str().unwrap_or_default();
        let read = readings.iter().find(|(name, _)| is_of(name, workload));
        if let Some((_, reading)) = read {
            reading::add_to(row, reading);
        }
    });
    match (args.rivals, args.markdown) {
        (false, false) => printer.print(&report)?,
        (is_of_gaps, _) => {
            printer.write_page(&report)?;
            say(if is_of_gaps { gaps(&rows) } else { markdown(&rows) })?;
        }
    }
    if args.speed {
        note_speed(&rows, writes, seconds, threads);
    }
    Ok(ExitCode::SUCCESS)
}

/// Says how fast the runs were.
fn note_speed(rows: &[Row], writes: u64, seconds: f64, threads: usize) {
    let all: u64 = rows.iter().map(|row| row.user_writes + row.cleaner_writes).sum();
    let millions = |blocks: u64| blocks as f64 / seconds / 1e6;
    twin_host::note!(
        "{} runs in {seconds:.2} s on {threads} threads: {:.1} million blocks a second written by users, {:.1} \
         million in all",
        rows.len(),
        millions(writes),
        millions(all)
    );
}

/// The exponents of the full table: those of SepBIT's experiments.
const TABLE_EXPONENTS: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];

/// Workloads with their names.
type Workloads = Vec<(String, Input)>;
/// What the readers of traces left out and assumed, by the names of the workloads.
type Readings = Vec<(String, Reading)>;

/// The workloads: traces, or generators with each exponent.
fn inputs(args: &Volume) -> Result<(Workloads, Readings), Failure> {
    let (mut inputs, mut readings) = (Vec::new(), Vec::new());
    for path in &args.trace {
        let wanted = match args.trace_format {
            Some(_) => Wanted::Foreign,
            None => Wanted::Blocks,
        };
        must_be(path, wanted)?;
        let in_file = |why: String| format!("{}: {why}", path.display());
        let file = std::fs::File::open(path).map_err(|error| in_file(error.to_string()))?;
        let read = read_trace(file, args.trace_format.as_deref());
        let (trace, reading) = read.map_err(in_file)?;
        reading::tell(path.display(), &reading);
        readings.push((stem(path), reading));
        inputs.push((stem(path), Input::Trace(Arc::new(trace))));
    }
    if !inputs.is_empty() {
        return Ok((inputs, readings));
    }
    let writes = (f64::from(args.blocks) * args.volumes) as u64;
    let blocks = args.blocks;
    let default = [workload::REGISTRY.default_entry().name.to_owned()];
    if let Some(format) = &args.trace_format {
        return Err(usage(format!("--trace-format {format} is for traces: give --trace too")));
    }
    let texts = if args.workload.is_empty() { &default[..] } else { &args.workload };
    for text in texts {
        let plain = workload::parse(text).map_err(usage)?;
        let mut with = |workload: workload::Workload| {
            inputs.push((workload.to_string(), Input::Generated { workload, blocks, writes }));
        };
        // An exponent belongs to the workloads that have one.
        let exponents = if args.table && args.exponent.is_empty() {
            &TABLE_EXPONENTS[..]
        } else {
            &args.exponent[..]
        };
        if exponents.is_empty() || !plain.values().has("exponent") {
            with(plain);
            continue;
        }
        for &exponent in exponents {
            let mut workload = plain.clone();
            workload.set("exponent", &exponent.to_string()).map_err(usage)?;
            with(workload);
        }
    }
    let takes_exponent = |text: &String| {
        workload::parse(text).is_ok_and(|workload| workload.values().has("exponent"))
    };
    if !args.exponent.is_empty() && !texts.iter().any(takes_exponent) {
        return Err(usage(format!("--exponent: {} has none", texts.join(", "))));
    }
    Ok((inputs, readings))
}

/// The name of a file without its extensions.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

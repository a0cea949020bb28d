//! `twinfs frontier`: what flush policies lose in a power failure, against what they write.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use twin_cache::flush;
use twin_cli::progress::Progress;
use twin_cli::{Failure, Keep, Outcome, Place, Printer, SoFar, usage};
use twin_host::Interrupts;
use twin_lab::{Config, Run};
use twin_settings::value::nanos;
use twin_studies::frontier::{
    FlushChoice, FrontierPoint, Study, choices, frontier_of, mark, report,
};

use super::start::Start;
use super::workload::{Chosen, chosen};
use crate::cli::{Frontier, Pace};

pub(crate) fn run(args: &Frontier, interrupts: &Interrupts) -> Outcome {
    let config = Config::parse(&args.config).map_err(usage)?;
    let ages: Result<Vec<u64>, _> =
        args.ages.iter().map(|text| nanos(text, twin_rt::SECS)).collect();
    let ages = ages.map_err(|error| usage(format!("--ages: {error}")))?;
    let choices = choices(&args.policies, &ages).map_err(usage)?;
    let workloads = workloads(args)?;
    let mut paces = Vec::new();
    for (_, chosen) in &workloads {
        paces.push(Pace::of(Some(args.pace), &chosen.workload, args.speed).map_err(usage)?);
    }
    let files: Vec<_> = args.traces.iter().chain(&args.start.from).cloned().collect();
    let place = Place::of_this("frontier", &files);
    let known: BTreeMap<usize, Point> = match args.resume {
        true => place.parts()?,
        false => BTreeMap::new(),
    };
    let printer = Printer::of(&args.output, interrupts)?;
    // All that can be wrong with the command line is known before a volume is aged.
    let run = match Start::of(&args.start)? {
        Some(start) => start.apply_all(vec![Run::of(config)])?.remove(0),
        None => Run::of(config),
    };
    let number = |workload: usize, choice: usize| workload * choices.len() + choice;
    let is_left = |workload: usize, choice: &usize| !known.contains_key(&number(workload, *choice));
    let lefts: Vec<Vec<usize>> = (0..workloads.len())
        .map(|workload| (0..choices.len()).filter(|choice| is_left(workload, choice)).collect())
        .collect();
    let all = workloads.len() * choices.len();
    let steps =
        lefts.iter().zip(&workloads).map(|(left, (_, of))| left.len() as u64 * of.operations);
    let bar = Progress::of("operations simulated", steps.sum());
    let kept =
        SoFar::new((printer, &bar), interrupts, (known.clone(), all), Some(place), |points| {
            report(&on_frontier(points))
        });
    let run = Run { steps: Some(super::steps(&bar)), ..run };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (mut points, mut all_done) = (known, true);
    for (at, (name, chosen)) in workloads.iter().enumerate() {
        let Chosen { workload, is_cut, .. } = chosen;
        let study = Study { workload, name, pace: paces[at], instants: args.instants as usize };
        all_done &= !is_cut;
        let left: Vec<FlushChoice> = lefts[at].iter().map(|&choice| choices[choice]).collect();
        let ended = |choice: FlushChoice, point: &FrontierPoint| {
            if let Some(of) = choices.iter().position(|own| *own == choice) {
                kept.add(number(at, of), Point(point.clone()));
            }
        };
        let found = frontier_of(&run, &left, study, threads, &ended);
        for ((choice, point), &of) in left.iter().zip(found).zip(&lefts[at]) {
            match point {
                Ok(point) => drop(points.insert(number(at, of), Point(point))),
                Err(error) => {
                    all_done = false;
                    twin_host::note!("twinfs: {name}, {}: {error}", choice.flush);
                }
            }
        }
    }
    bar.finish();
    // Whatever an interrupt has printed is printed.
    let Some(mut printer) = kept.end() else { return Ok(ExitCode::FAILURE) };
    let points = on_frontier(&points);
    all_done &= points.iter().all(is_whole);
    printer.print(&report(&points))?;
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A point that can be kept.
#[derive(Clone)]
struct Point(FrontierPoint);

/// The points in order, with the frontier of each workload.
fn on_frontier(points: &BTreeMap<usize, Point>) -> Vec<FrontierPoint> {
    let mut all: Vec<FrontierPoint> = points.values().map(|point| point.0.clone()).collect();
    for of_one in all.chunk_by_mut(|a, b| a.workload == b.workload) {
        mark(of_one.iter_mut());
    }
    all
}

impl Keep for Point {
    fn keep(&self) -> Option<Value> {
        let p = &self.0;
        // As bits: read again, a number is the same.
        let numbers =
            [p.lost_mean_bytes, p.device_s, p.finish_s, p.p50_us, p.p99_us].map(f64::to_bits);
        let counts = [p.instants as u64, p.lost_worst_bytes, p.written_bytes, p.failed];
        let age = p.age_s.map(f64::to_bits);
        Some(json!([p.workload, p.config, p.flush, age, p.memory_survives, numbers, counts]))
    }

    fn of(value: &Value) -> Option<Point> {
        let text = |at: usize| Some(value[at].as_str()?.to_owned());
        let number = |at: usize| Some(f64::from_bits(value[5][at].as_u64()?));
        let count = |at: usize| value[6][at].as_u64();
        Some(Point(FrontierPoint {
            workload: text(0)?,
            config: text(1)?,
            flush: flush::REGISTRY.get(value[2].as_str()?).ok()?.name,
            age_s: value[3].as_u64().map(f64::from_bits),
            memory_survives: value[4].as_bool()?,
            instants: usize::try_from(count(0)?).ok()?,
            lost_mean_bytes: number(0)?,
            lost_worst_bytes: count(1)?,
            written_bytes: count(2)?,
            device_s: number(1)?,
            finish_s: number(2)?,
            p50_us: number(3)?,
            p99_us: number(4)?,
            failed: count(3)?,
            on_frontier: false,
        }))
    }
}

/// True if all operations of a run were done; says so if not.
fn is_whole(point: &FrontierPoint) -> bool {
    if point.failed > 0 {
        let FrontierPoint { workload, flush, failed, .. } = point;
        twin_host::note!(
            "twinfs: {workload}, {flush}: {failed} operations failed that succeed in the workload, so \
             its figures are of less work. If the volume was full, set a larger size"
        );
    }
    point.failed == 0
}

/// The workloads with their names.
fn workloads(args: &Frontier) -> Result<Vec<(String, Chosen)>, Failure> {
    let mut all = Vec::new();
    for path in &args.traces {
        all.push((stem(path), chosen(Some(path), None, None, 1)?));
    }
    for text in &args.workload {
        all.push((text.clone(), chosen(None, None, Some(text), 1)?));
    }
    if all.is_empty() {
        all.push(("server".into(), chosen(None, None, None, 1)?));
    }
    Ok(all)
}

/// The name of a file without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

//! `twinfs age`: volumes that have been in use for years.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use twin_age::{
    Ageing, Agreement, Plan, Planned, Succession, VolumeMap, agreement, profile, profiles, snapshot,
};
use twin_ageing::copy::make_copy;
use twin_ageing::{AgeSettings, Aged, END, IMAGE_SECTOR, ageing_settings, make_old, new_volume};
use twin_cli::progress::{Progress, Shown};
use twin_cli::{Failure, Outcome, Printer, say, usage};
use twin_disk::Block;
use twin_fs::Identity;
use twin_host::{Interrupts, NewFile};
use twin_lab::layouts::layout;
use twin_lab::{Platter, Workload};
use twin_mount::git;
use twin_mount::source_map::{each_snapshot, map_of_source};
use twin_report::table::{figure, fixed};
use twin_report::{Part, Table};
use twin_settings::{grammar, value};
use twin_trace::readers::CHECKOUTS;
use twin_trace::{Record, Source, Writer};

use super::{age_on, workload};
use crate::cli::Age;
use crate::size::Size;

/// The identity of these volumes: a run depends on its settings alone.
const IDENTITY: Identity = Identity { uuid: *b"twinfs made old!", root: (0, 0, 0o755) };
/// What is copied to an image at a time.
const CHUNK: u64 = 1 << 20;

pub(crate) fn run(args: &Age, interrupts: &Interrupts) -> Outcome {
    if args.list {
        let names: Vec<String> = profiles().into_iter().map(|profile| profile.name).collect();
        say(names.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut printer = Printer::of(&args.output, interrupts)?;
    twin_host::keep_freed_buffers(32 << 20);
    let settings = settings(args)?;
    if let Some(source) = &args.copy {
        return copy(args, source, settings, printer, interrupts);
    }
    let fresh = new_volume(&settings).map_err(|error| usage(format!("--size: {error}")))?;
    let history = history(args)?;
    let plan = match &history {
        None => Some(plan(args, &fresh)?),
        Some(_) => None,
    };
    let start = || -> Result<Box<dyn Source>, Failure> {
        match &plan {
            Some(plan) => Ok(Box::new(Ageing::new(plan).map_err(usage)?)),
            None => source_of(&history),
        }
    };
    let planned = match &plan {
        Some(plan) => Ageing::new(plan).map_err(usage)?.planned(),
        None => of_history(start()?)?,
    };
    if let Some(path) = &args.operations {
        write_operations(path, start()?, interrupts)?;
    }
    if !args.on.is_empty() {
        let history = || start().map_err(|failure| failure.why);
        return age_on::run(args, &settings, &history, planned.requests, printer, interrupts);
    }
    let Some(to) = &args.to else { return Ok(ExitCode::SUCCESS) };
    let new = NewFile::make(to, interrupts)?;
    let bar = Progress::of("operations", planned.requests);
    let settings =
        AgeSettings { span_ns: planned.span_ns, steps: Some(super::steps(&bar)), ..settings };
    let aged = make_old(&settings, start()?).map_err(|error| error.to_string())?;
    bar.finish();
    interrupts.check()?;
    write(new, to, &aged)?;
    let report = Report::of(to, &aged, &planned, plan.as_ref());
    show(&mut printer, &report, &aged)?;
    if aged.failed > 0 {
        twin_host::note!(
            "twinfs: {} operations failed, probably for want of room: ask for less than {:.0}% full",
            aged.failed,
            plan.map_or(100.0, |plan| plan.full * 100.0)
        );
    }
    let good = aged.failed == 0 && report.has_converged != Some(false);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes a copy of a snapshot.
fn copy(
    args: &Age,
    source: &Path,
    settings: AgeSettings,
    mut printer: Printer,
    interrupts: &Interrupts,
) -> Outcome {
    let Some(to) = &args.to else { return Err(usage("-o: a copy needs a name")) };
    let map = map_of_source(source, interrupts, &Shown)?;
    let size = if args.size.is_some() { settings.size } else { map.size / 4096 * 4096 };
    let new = NewFile::make(to, interrupts)?;
    let bar = Progress::waiting("files are placed");
    let settings = AgeSettings { size, ..settings };
    let made = make_copy(&settings, &map, args.places.of_copy());
    let aged = made.map_err(|error| format!("{}: {error}", source.display()))?;
    bar.finish();
    interrupts.check()?;
    write(new, to, &aged)?;
    show(&mut printer, &Report::of(to, &aged, &Planned::default(), None), &aged)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a volume or its snapshot, by the name of the file.
fn write(new: NewFile, to: &Path, aged: &Aged) -> Result<(), String> {
    let wrote = match to.extension().is_some_and(|extension| extension == "snap") {
        true => write_snapshot(&new.handle()?, aged),
        false => write_image(&new.handle()?, &aged.platter),
    };
    wrote.map_err(|error| format!("{}: {error}", to.display()))?;
    new.keep();
    Ok(())
}

fn show(printer: &mut Printer, report: &Report, aged: &Aged) -> Result<(), Failure> {
    let mut shown = twin_report::Report::answer("age", "An aged volume");
    shown.set_verdict(report.verdict(aged), "");
    for part in report.parts() {
        shown.add(part);
    }
    shown.add_rows([report]);
    Ok(printer.print(&shown)?)
}

/// The volume, as the command line says.
fn settings(args: &Age) -> Result<AgeSettings, Failure> {
    let kind = layout(&args.layout).map_err(usage)?;
    let mut of_layout = kind.config();
    let mut asked = Vec::new();
    for setting in grammar::settings(&args.with).map_err(usage)? {
        of_layout.set(setting.key, setting.value).map_err(|e| usage(format!("--with: {e}")))?;
        asked.push(setting.key);
    }
    of_layout.complete(&|key| asked.contains(&key));
    Ok(AgeSettings {
        layout: kind,
        of_layout,
        size: args.size.map_or(0, |size| size.0) / 4096 * 4096,
        sector: IMAGE_SECTOR,
        settings: ageing_settings(args.cache.0),
        identity: IDENTITY,
        seed: args.seed,
        end: END,
        span_ns: 0,
        steps: None,
        start: None,
    })
}

fn plan(args: &Age, fresh: &twin_ageing::NewVolume) -> Result<Plan, Failure> {
    let name = args.profile.as_deref().unwrap_or("agrawal");
    let full = args.full.as_deref().unwrap_or("80%");
    let full = value::percent(full).map_err(|error| usage(format!("--full: {error}")))?;
    Ok(Plan {
        profile: profile(name).map_err(usage)?,
        capacity: fresh.capacity,
        geometry: fresh.geometry.clone(),
        full: full as f64 / 100.0,
        years: args.years.unwrap_or(1.0),
        turnover: args.turnover.unwrap_or(5.0),
        seed: args.seed,
    })
}

/// A history that is to be repeated in place of a profile.
enum History {
    Recorded(Workload),
    /// Snapshots, and a seed.
    Snapshots(Vec<VolumeMap>, u64),
}

fn history(args: &Age) -> Result<Option<History>, Failure> {
    if let Some(dir) = &args.snapshots {
        let mut maps = Vec::new();
        each_snapshot(dir, |_, map| maps.push(map))?;
        return Ok(Some(History::Snapshots(maps, args.seed)));
    }
    Ok(match (&args.trace, &args.git) {
        (Some(path), _) => {
            let format = args.trace_format.as_deref();
            let chosen = workload::chosen(Some(path), format, None, args.seed)?;
            Some(History::Recorded(chosen.workload))
        }
        (None, Some(dir)) => {
            let text = git::history(dir, args.pulls)?;
            Some(History::Recorded(Workload::Foreign(CHECKOUTS.name, text.into())))
        }
        (None, None) => None,
    })
}

fn source_of(history: &Option<History>) -> Result<Box<dyn Source>, Failure> {
    match history {
        Some(History::Recorded(workload)) => {
            Ok(workload.start().map_err(|error| error.to_string())?)
        }
        Some(History::Snapshots(maps, seed)) => {
            let source = Succession::new(maps.clone(), *seed);
            Ok(Box::new(source.map_err(|error| usage(format!("--snapshots: {error}")))?))
        }
        None => Err(usage("name a profile or a history")),
    }
}

/// What a history will do: its requests and its length.
fn of_history(mut source: Box<dyn Source>) -> Result<Planned, Failure> {
    let mut planned = Planned::default();
    while let Some(record) = source.next_record().map_err(|error| error.to_string())? {
        if let Record::Request { at_ns, .. } = record {
            planned.requests += 1;
            planned.span_ns = planned.span_ns.max(at_ns);
        }
    }
    if planned.span_ns > END.0 {
        return Err("the history is longer than the time since 1970".into());
    }
    Ok(planned)
}

fn write_operations(
    path: &Path,
    mut source: Box<dyn Source>,
    interrupts: &Interrupts,
) -> Result<(), Failure> {
    let new = NewFile::make(path, interrupts)?;
    let in_file = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let out = std::io::BufWriter::new(new.handle()?);
    let mut writer = Writer::new(out, source.header()).map_err(|error| in_file(&error))?;
    let bar = Progress::of("records", 0);
    while let Some(record) = source.next_record().map_err(|error| error.to_string())? {
        writer.record(&record).map_err(|error| in_file(&error))?;
        bar.inc(1);
    }
    let mut out = writer.finish().map_err(|error| in_file(&error))?;
    out.flush().map_err(|error| in_file(&error))?;
    new.keep();
    Ok(())
}

/// Writes what is not zero; the rest of the file is a hole.
fn write_image(file: &File, platter: &Platter) -> std::io::Result<()> {
    file.set_len(platter.size())?;
    let page = IMAGE_SECTOR as usize;
    let mut at = 0;
    while at < platter.size() {
        let len = CHUNK.min(platter.size() - at);
        let mut chunk = vec![0; len as usize];
        // The pages that have something, each once: neighbours are written together, and whole, since
        // the host would zero the rest of a page that is written in part.
        let mut used: Vec<Range<usize>> = Vec::new();
        let mut place = 0;
        for block in platter.read(at, len) {
            let behind = place + block.len();
            if !matches!(block, Block::Zero(_)) {
                block.copy_to(&mut chunk[place..behind]);
                let pages = place / page * page..behind.next_multiple_of(page).min(chunk.len());
                match used.last_mut().filter(|last| last.end >= pages.start) {
                    Some(last) => last.end = pages.end,
                    None => used.push(pages),
                }
            }
            place = behind;
        }
        for pages in used {
            file.write_all_at(&chunk[pages.clone()], at + pages.start as u64)?;
        }
        at += len;
    }
    file.sync_all()
}

fn write_snapshot(mut file: &File, aged: &Aged) -> std::io::Result<()> {
    let bytes = snapshot::encode(&aged.map, true).map_err(std::io::Error::other)?;
    file.write_all(&bytes)?;
    file.sync_all()
}

/// What came of it.
#[derive(Serialize)]
struct Report {
    output: String,
    volume: String,
    layout_score: Option<f64>,
    layout_score_without_fragments: Option<f64>,
    dynamic_score: Option<f64>,
    files: u64,
    file_bytes: u64,
    requests: u64,
    failed: u64,
    planned_operations: u64,
    planned_written_bytes: u64,
    #[serde(rename = "used_share")]
    used: f64,
    write_cost: Option<f64>,
    /// Of a profile: the distances of sizes and ages from it.
    size_distance: Option<f64>,
    age_distance: Option<f64>,
    has_converged: Option<bool>,
    #[serde(skip)]
    agreements: Vec<Agreed>,
}

impl Report {
    fn of(to: &Path, aged: &Aged, planned: &Planned, plan: Option<&Plan>) -> Report {
        let agreements = plan.map_or(Vec::new(), |plan| agreements(plan, planned, aged));
        let distance = |nth: usize| agreements.get(nth).map(|(.., agreement)| agreement.distance);
        let twin_age::Layout { score, dynamic, files, file_bytes, .. } = &aged.layout;
        Report {
            output: to.display().to_string(),
            volume: aged.description.clone(),
            layout_score: score.value(),
            layout_score_without_fragments: score.without_fragments(),
            dynamic_score: dynamic.value(),
            files: *files,
            file_bytes: *file_bytes,
            requests: aged.requests,
            failed: aged.failed,
            planned_operations: planned.operations,
            planned_written_bytes: planned.written_bytes,
            used: aged.used as f64 / aged.capacity.max(1) as f64,
            write_cost: aged.write_cost,
            size_distance: distance(0),
            age_distance: distance(1),
            has_converged: (!agreements.is_empty())
                .then(|| agreements.iter().all(|(.., agreement)| agreement.has_converged())),
            agreements,
        }
    }

    /// What became of the volume, and whether its files are as the profile says.
    fn verdict(&self, aged: &Aged) -> String {
        let score = |value: Option<f64>| value.map_or("-".into(), |v| format!("{v:.3}"));
        let mut text = format!(
            "{} is {:.1}% full of {} after {} requests: {} files of {} ({}).\nLayout score {} ({} with \
             fragments left out), dynamic score {}, write cost {}.",
            self.output,
            self.used * 100.0,
            Size(aged.capacity),
            self.requests,
            self.files,
            Size(self.file_bytes),
            self.volume,
            score(self.layout_score),
            score(self.layout_score_without_fragments),
            score(self.dynamic_score),
            self.write_cost.map_or("-".into(), |cost| format!("{cost:.2}")),
        );
        text += match self.has_converged {
            None => "",
            Some(true) => "\nSizes and ages of files have converged to the profile.",
            Some(false) => "\nSizes or ages of files have NOT converged to the profile.",
        };
        text
    }

    /// Sizes and ages beside those of the profile.
    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (what, unit, agreement) in &self.agreements {
            let verdict = if agreement.has_converged() { "converged" } else { "NOT converged" };
            let words = format!(
                "{what}: {verdict}, {:.4} from the profile (chance alone reaches {:.4} once in a hundred).",
                agreement.distance, agreement.by_chance
            );
            parts.push(words.into());
            let row = |bucket: &twin_age::Bucket| {
                let shares = [bucket.expected, bucket.found].map(|share| fixed(share * 100.0, 2));
                [figure(bucket.bound / unit.1)].into_iter().chain(shares).collect()
            };
            let buckets = agreement.buckets.iter().filter(|b| b.expected + b.found > 0.0);
            let columns = [format!("up to, {}", unit.0), "profile, %".into(), "volume, %".into()];
            parts.push(Table::new(columns, 1).with(buckets.map(row)).into());
        }
        parts
    }
}

/// Sizes or ages: their name, the unit in which they are shown with its length in that of the profile, and how far they
/// agree.
type Agreed = (&'static str, (&'static str, f64), Agreement);

/// Sizes and ages of the files on the volume beside the profile's.
fn agreements(plan: &Plan, planned: &Planned, aged: &Aged) -> Vec<Agreed> {
    let sizes = aged.map.regular().map(|file| file.size as f64);
    let now = aged.map.now_s();
    let age = |mtime_s: i64| (now - mtime_s) as f64 * 1e9 / planned.age_unit_ns;
    let ages = aged.map.regular().map(|file| age(file.mtime_s));
    let of_sizes =
        plan.sizes().map(|expected| ("Sizes", ("bytes", 1.0), agreement(&expected, sizes)));
    let days = ("days", 86_400e9 / planned.age_unit_ns);
    let of_ages = ("Ages", days, agreement(&plan.profile.ages, ages));
    of_sizes.into_iter().chain([of_ages]).collect()
}

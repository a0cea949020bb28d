//! `twinfs age`: volumes that have been in use for years.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use twin_age::{Ageing, Plan, Planned, Succession, VolumeMap, profile, profiles, snapshot};
use twin_ageing::aged_report::AgedReport;
use twin_ageing::copy::make_copy;
use twin_ageing::{
    AgeSettings, Aged, END, IMAGE_SECTOR, ageing_settings, make_old, new_volume, planned_of,
};
use twin_cli::progress::{Progress, Shown};
use twin_cli::{Failure, Outcome, Printer, say, usage};
use twin_fs::Identity;
use twin_host::{Interrupts, NewFile};
use twin_lab::Workload;
use twin_lab::layouts::layout;
use twin_mount::git;
use twin_mount::image_volume::write_platter;
use twin_mount::source_map::{each_snapshot, map_of_source};
use twin_settings::{grammar, value};
use twin_trace::readers::CHECKOUTS;
use twin_trace::{Source, Writer};

use super::{age_on, workload};
use crate::cli::Age;

/// The identity of these volumes: a run depends on its settings alone.
const IDENTITY: Identity = Identity { uuid: *b"twinfs made old!", root: (0, 0, 0o755) };
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
        None => planned_of(&mut *start()?)?,
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
    let report = AgedReport::of(&to.display().to_string(), &aged, &planned, plan.as_ref());
    printer.print(&report.report(&aged))?;
    if aged.failed > 0 {
        twin_host::note!(
            "twinfs: {} operations failed, probably for want of room: ask for less than {:.0}% full",
            aged.failed,
            plan.map_or(100.0, |plan| plan.full * 100.0)
        );
    }
    let good = aged.failed == 0 && report.has_converged() != Some(false);
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
    let report = AgedReport::of(&to.display().to_string(), &aged, &Planned::default(), None);
    printer.print(&report.report(&aged))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a volume or its snapshot, by the name of the file.
fn write(new: NewFile, to: &Path, aged: &Aged) -> Result<(), String> {
    let wrote = match to.extension().is_some_and(|extension| extension == "snap") {
        true => write_snapshot(&new.handle()?, aged),
        false => write_platter(&new.handle()?, &aged.platter),
    };
    wrote.map_err(|error| format!("{}: {error}", to.display()))?;
    new.keep();
    Ok(())
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

fn write_snapshot(mut file: &File, aged: &Aged) -> std::io::Result<()> {
    let bytes = snapshot::encode(&aged.map, true).map_err(std::io::Error::other)?;
    file.write_all(&bytes)?;
    file.sync_all()
}

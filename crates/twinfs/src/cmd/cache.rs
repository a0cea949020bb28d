//! `twinfs cache`: the misses of cache policies on a trace.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use twin_cache::Rules;
use twin_cache::replacement::REGISTRY;
use twin_cli::progress::Progress;
use twin_cli::{Ended, Failure, Outcome, Printer, SoFar, say, usage};
use twin_host::{Interrupts, real_clock};
use twin_mount::input::{Accessed, accesses_of};
use twin_sim::model;
use twin_studies::caches::{Accesses, Input, Loaded, Row, Study, default_sizes, load, report};
use twin_trace::{Reader, block, readers};

use super::reading;
use crate::cli::{Cache, ObjectRules};

pub(crate) fn run(args: &Cache, interrupts: &Interrupts) -> Outcome {
    if args.list {
        say(list().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = args.trace.as_deref().ok_or_else(|| usage("a trace is needed"))?;
    let printer = Printer::of(&args.output, interrupts)?;
    let loaded = read(path, args)?;
    reading::tell(path.display(), &loaded.reading);
    let code = told(path, args, &loaded)?;
    let Loaded { accesses, reading, .. } = loaded;
    let study = Study {
        policies: REGISTRY.iter().filter(|entry| chosen(args, entry.name)).collect(),
        sizes: sizes(args, &accesses),
        rules: match (args.objects, args.rules) {
            (true, None | Some(ObjectRules::Libcachesim)) => Rules::LibCacheSim,
            _ => Rules::Paper,
        },
        disk: args.disk.map(|name| model::REGISTRY.get(name)).transpose().map_err(usage)?,
        accesses: Arc::new(accesses),
    };
    study.check().map_err(usage)?;
    let knows = study.policies.iter().find(|policy| policy.needs_future());
    if let (Some(policy), true) = (knows, study.accesses.sizes_differ()) {
        twin_host::note!("twinfs: {}: {}: {NO_OPTIMUM}", path.display(), policy.name);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let ran = simulated(args, &study, &name, (printer, interrupts))?;
    // What an interrupt has found is printed.
    let Some((rows, mut printer)) = ran else { return Ok(ExitCode::FAILURE) };
    let mut report = report(&name, &study, &rows);
    report.change_json(|row| reading::add_to(row, &reading));
    printer.print(&report)?;
    Ok(code)
}

fn chosen(args: &Cache, name: &str) -> bool {
    args.policies.is_empty() || args.policies.contains(&name)
}

fn sizes(args: &Cache, accesses: &Accesses) -> Vec<u64> {
    let sizes: Vec<u64> = match (args.sizes.is_empty(), args.frames.is_empty()) {
        (false, _) => args.sizes.iter().map(|size| size.0).collect(),
        (_, false) => args.frames.iter().map(|frames| frames * accesses.block_bytes()).collect(),
        _ => default_sizes(accesses),
    };
    let mut once = Vec::new();
    for size in sizes {
        if !once.contains(&size) {
            once.push(size);
        }
    }
    once
}

/// Opens a trace in the format that was named, or that its content shows.
fn open(path: &Path, format: Option<&str>, progress: &Progress) -> Result<Input, Failure> {
    let in_file = |why: String| format!("{}: {why}", path.display());
    let found = accesses_of(path, format).map_err(|failure| match format {
        Some(name) if !is_format(name) => usage(failure),
        _ => failure.into(),
    })?;
    let file = File::open(path).map_err(|error| in_file(error.to_string()))?;
    let file = progress.reading(file);
    let input = match found {
        Accessed::Operations => {
            let reader = Reader::new(std::io::BufReader::new(file));
            Input::Operations(Box::new(reader.map_err(|error| in_file(error.to_string()))?))
        }
        // Some readers read a file more than once; what can be read only once is kept by them.
        Accessed::Foreign(name) if path.is_file() => {
            let path = path.to_owned();
            let again = progress.reading_again(move || File::open(&path));
            let source = readers::open_again(name, readers::Again::new(again));
            Input::Operations(source.map_err(|error| in_file(error.to_string()))?)
        }
        Accessed::Foreign(name) => {
            let source = readers::open(name, file).map_err(|error| in_file(error.to_string()))?;
            Input::Operations(source)
        }
        Accessed::Blocks(name) => {
            let source = block::open(name, file).map_err(|error| in_file(error.to_string()))?;
            Input::Requests(source)
        }
    };
    Ok(input)
}

fn is_format(name: &str) -> bool {
    block::REGISTRY.get(name).is_ok() || readers::REGISTRY.get(name).is_ok()
}

fn read(path: &Path, args: &Cache) -> Result<Loaded, Failure> {
    let len = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let bar = Progress::of_bytes("read", len);
    let input = open(path, args.trace_format.as_deref(), &bar)?;
    let loaded = load(input, args.block.0, args.objects, &mut |_| {});
    bar.finish();
    Ok(loaded)
}

/// Tells of damage. The exit code is that of a trace that was used in part, or all of it.
fn told(path: &Path, args: &Cache, loaded: &Loaded) -> Result<ExitCode, Failure> {
    let (name, count) = (path.display(), loaded.accesses.len());
    if let Some(damage) = &loaded.damage {
        if !args.partial || count == 0 {
            let remedy = match count {
                0 => String::new(),
                _ => format!(". The {count} accesses before that are good: --partial uses them"),
            };
            return Err(format!("{name}: {damage}{remedy}").into());
        }
        twin_host::note!("twinfs: {name}: {damage}. The {count} accesses before that are used");
        return Ok(ExitCode::FAILURE);
    }
    if count == 0 {
        return Err(format!("{name}: this trace reads and writes nothing").into());
    }
    if let Some(cut) = &loaded.cut {
        twin_host::note!("twinfs: {name}: {cut}. The {count} accesses before that are used");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs all. `None` after an interrupt, when what had ended has been printed.
fn simulated(
    args: &Cache,
    study: &Study,
    name: &str,
    (printer, interrupts): (Printer, &Interrupts),
) -> Result<Option<(Vec<Row>, Printer)>, String> {
    let bar = Progress::of("accesses", study.work());
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = args.threads.unwrap_or(cores).max(1);
    let (of_study, name) = (study.clone(), name.to_owned());
    let partial = move |ended: &BTreeMap<usize, Ended<Row>>| {
        let rows = ended.iter().map(|(at, row)| (*at, row.0.clone())).collect();
        of_study.partial(&name, &rows)
    };
    let kept =
        SoFar::new((printer, &bar), interrupts, (BTreeMap::new(), study.rows()), None, partial);
    let clock = real_clock();
    let found = |at: usize, row: &Row| kept.add(at, Ended(row.clone()));
    let rows = study.run(threads, &|more| bar.inc(more), &found)?;
    let seconds = clock();
    bar.finish();
    let Some(printer) = kept.end() else { return Ok(None) };
    if args.speed {
        let millions = study.simulated() as f64 / 1e6;
        twin_host::note!(
            "{millions:.1} million requests in {seconds:.3} s on {threads} threads: {:.1} million a \
             second on each",
            millions / seconds / threads as f64
        );
    }
    Ok(Some((rows, printer)))
}

/// What is said of the policy that knows the future where objects have several sizes.
const NO_OPTIMUM: &str = "it goes by time alone, which is no optimum for objects that differ in size: other \
                          policies may have fewer misses";

/// The policies with their papers, the disks and the formats.
fn list() -> String {
    let part = |title: &str, names: Vec<(&str, &str)>| {
        let lines = names.iter().map(|(name, about)| format!("  {name:<16} {about}\n"));
        format!("{title}:\n{}\n", lines.collect::<String>())
    };
    let mut text = part("Policies (--policies)", REGISTRY.abouts());
    text += &part("Disks (--disk)", model::REGISTRY.abouts());
    let mut formats = block::REGISTRY.abouts();
    formats.extend(readers::REGISTRY.abouts());
    text + &part("Formats of traces beside those of twinfs (--trace-format)", formats)
}

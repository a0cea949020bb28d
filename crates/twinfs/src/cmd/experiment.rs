//! `twinfs run`, `merge` and `diff`: experiments that files describe.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use twin_cli::progress::Progress;
use twin_cli::{Failure, Outcome, Printer, say, usage};
use twin_experiment::{
    Content, Difference, Ended, Experiment, Merged, Plan, Prepared, Shard, Side, State, Store,
    StoreError, difference, execute, listing, merge, results, states,
};
use twin_host::{Interrupts, own_code};
use twin_verdict::MEASURES;

use super::compare::machine_file;
use super::workload::chosen;
use crate::cli::{Diff, Merge, Pace, RunExperiment};

pub(crate) fn run(args: &RunExperiment, interrupts: &Interrupts) -> Outcome {
    let plan = Arc::new(plan(args)?);
    let mut printer = Printer::of(&args.output, interrupts)?;
    let dir = args.store.clone().unwrap_or_else(|| beside(&args.file));
    let store = Arc::new(Store::create(&dir).map_err(words_of)?);
    let shard = args.shard.unwrap_or(Shard::ALL);
    if args.list {
        let states = states(&plan, &store).map_err(words_of)?;
        printer.print(&listing(&plan, shard, &states))?;
        return Ok(ExitCode::SUCCESS);
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = args.jobs.map_or(threads, |jobs| jobs as usize);
    let bar = Progress::share("runs");
    let ended =
        execute(&plan, shard, &store, threads, &|done, all| bar.set(done as u64, all as u64));
    bar.finish();
    let Ended { ran, there } = ended.map_err(words_of)?;
    let states = states(&plan, &store).map_err(words_of)?;
    let sound = plan.part(shard).all(|job| matches!(states[job.number], State::Done(_)));
    printer.print(&results(&plan, &store, states))?;
    if args.output.is_table() {
        say(format!("{ran} runs were made and {there} were there, in {}.", dir.display()))?;
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn run_merge(args: &Merge) -> Outcome {
    let from = args.from.iter().map(|dir| Store::open(dir));
    let from = from.collect::<Result<Vec<_>, _>>().map_err(words_of)?;
    let into = Store::create(&args.into).map_err(words_of)?;
    let Merged { added, there, damaged } = merge(&from, &into).map_err(words_of)?;
    let place = args.into.display();
    say(format!("{added} results were added to {place}, and {there} were there."))?;
    if damaged == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Err(format!("{damaged} results are damaged and were left out: `twinfs run` makes them again")
        .into())
}

pub(crate) fn run_diff(args: &Diff, interrupts: &Interrupts) -> Outcome {
    if !(args.threshold.is_finite() && args.threshold >= 0.0) {
        return Err(usage(format!("--threshold {}: must not be negative", args.threshold)));
    }
    let mut printer = Printer::of(&args.output, interrupts)?;
    let open = |dir: &Path| Store::open(dir).map_err(words_of);
    let stores = [open(&args.first)?, open(&args.second)?];
    let names = [&args.first, &args.second].map(|dir| dir.display().to_string());
    let side = |at: usize| {
        let rows = stores[at].briefs().map_err(words_of)?;
        Ok::<_, String>(Side { name: &names[at], rows })
    };
    let measure = MEASURES.get(&args.by).map_err(usage)?;
    let found = difference(side(0)?, side(1)?, measure, args.threshold / 100.0)?;
    let Difference { report, worse, lost } = found;
    printer.print(&report)?;
    Ok(if worse == 0 && lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn words_of(error: StoreError) -> String {
    error.to_string()
}

/// The place of the store of an experiment.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".runs");
    file.with_file_name(name)
}

/// The plan of the file, with its workloads looked through.
fn plan(args: &RunExperiment) -> Result<Plan, Failure> {
    let path = &args.file;
    let text = twin_host::text_of_file(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let in_file = |error| usage(format!("{}: {error}", path.display()));
    let experiment = Experiment::parse(&name, &text).map_err(in_file)?;
    let pace = experiment.pace.as_deref().map(|name| match name {
        "recorded" => Pace::Recorded,
        "think" => Pace::Think,
        _ => Pace::Asap,
    });
    let dir = path.parent().unwrap_or(Path::new(""));
    let workloads = experiment.workloads.iter();
    let prepared = workloads.map(|point| prepared(dir, &point.text, pace));
    let prepared = prepared.collect::<Result<Vec<_>, Failure>>()?;
    let machine = args.machine.as_deref().map(machine_file).transpose()?.map(Arc::new);
    let own = File::open(own_code()?).and_then(Content::of_reader);
    let build = own.map_err(|error| format!("reading this program: {error}"))?;
    Plan::of(experiment, prepared, machine, build).map_err(in_file)
}

/// A workload, which is a file if there is one of that name.
fn prepared(dir: &Path, text: &str, pace: Option<Pace>) -> Result<Prepared, Failure> {
    let file = dir.join(text);
    let is_file = file.is_file();
    let by_hand = text.ends_with(".toml");
    let found = match is_file && !by_hand {
        true => chosen(Some(&file), None, None, 1)?,
        false if is_file => chosen(None, None, file.to_str(), 1)?,
        false => chosen(None, None, Some(text), 1)?,
    };
    if found.is_cut {
        return Err(format!(
            "{}: it was cut off when it was recorded: `twinfs convert --partial {0} -o good.tw` makes a \
             whole trace of it",
            file.display()
        )
        .into());
    }
    let content = match is_file {
        true => File::open(&file).and_then(Content::of_reader),
        false => Ok(Content::of_text(text)),
    };
    let content = content.map_err(|error| format!("{}: {error}", file.display()))?;
    let pace = Pace::of(pace, &found.workload, None).map_err(usage)?;
    Ok(Prepared { workload: found.workload, content, pace })
}

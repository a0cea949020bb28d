//! `twinfs advise`: what to set for a workload, searched in simulation and confirmed on mounts.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use twin_advise::{
    Advice, Confirmation, LEAST_BUDGET, Mounted, Question, Space, Tried, Wanted, advise,
    partial_report,
};
use twin_cli::progress::Progress;
use twin_cli::{Ended, Failure, Outcome, Printer, SoFar, usage};
use twin_host::{Interrupts, real_clock};
use twin_lab::{Config, MachineFile, Run, Spread, Workload, simulate};
use twin_real::experiment::{By, Plan, experiment};
use twin_real::replay::Target;
use twin_settings::grammar;
use twin_settings::value::nanos;
use twin_trace::replay::Pace as ReplayPace;
use twin_verdict::{MEASURES, MeasureEntry, measurable, measure_for};

use super::machine_file::machine_file;
use super::workload::{Chosen, chosen};
use crate::cli::{Advise, Pace};
use crate::measuring::runner;

/// Settings for the trace that comes with the program, which nearly fills such a volume.
const SHIPPED: &str = "size=256M,disk=ssd-tlc";
const SHIPPED_ON_MACHINE: &str = "size=256M";
/// Runs that a search may have at most.
const MOST_RUNS: u64 = 1_000_000;

pub(crate) fn run(args: &Advise, interrupts: &Interrupts) -> Outcome {
    let budget = Budget::parse(&args.budget)?;
    let found = chosen(
        args.trace.as_deref(),
        args.trace_format.as_deref(),
        args.workload.as_deref(),
        args.seed,
    )?;
    let Chosen { workload, is_cut, operations, .. } = found;
    let pace = Pace::of(args.pace, &workload, args.speed).map_err(usage)?;
    let measure = match &args.by {
        Some(name) => MEASURES.get(name).map_err(usage)?,
        None => measure_for(pace),
    };
    let machine = args.machine.as_deref().map(machine_file).transpose()?.map(Arc::new);
    let space = space(args, &workload)?;
    let config = Config::parse_with(space.fixed(), twin_lab::layouts::LAYOUTS[0].name());
    // Another layout may be all that is left.
    if let Ok(config) = &config {
        measurable(measure, std::slice::from_ref(config)).map_err(usage)?;
    }
    let printer = Printer::of(&args.output, interrupts)?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let of_one = (config.ok(), &workload, pace);
    let question = Question {
        name: name(args),
        workload: &workload,
        operations,
        pace,
        measure,
        budget: budget.runs(of_one, threads, machine.as_ref())?,
        machine,
        space,
        seed: args.seed,
        threads,
        steps: None,
    };
    let bar = Progress::of("operations simulated", question.operations_of_runs());
    let question = Question { steps: Some(super::steps(&bar)), ..question };
    let (name, all) = (question.name.clone(), question.runs() as usize);
    let so_far =
        SoFar::new((printer, &bar), interrupts, (BTreeMap::new(), all), None, move |tried| {
            partial_report(&name, measure, tried.values().map(|one: &Ended<Tried>| &one.0))
        });
    let advice = advise(&question, &|number, tried| so_far.add(number, Ended(tried)))?;
    bar.finish();
    let confirmation = confirmation(args, &advice, &question, interrupts)?;
    // Whatever an interrupt has printed is printed.
    let Some(mut printer) = so_far.end() else { return Ok(ExitCode::FAILURE) };
    printer.print(&advice.report(&confirmation))?;
    let is_whole = advice.is_whole() && !is_cut;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn name(args: &Advise) -> String {
    match (&args.trace, &args.workload) {
        (Some(path), _) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "a recorded small server".into(),
    }
}

/// What may be set.
fn space(args: &Advise, workload: &Workload) -> Result<Space, Failure> {
    let is_shipped = args.trace.is_none() && args.workload.is_none();
    let fixed = match (&args.with, is_shipped, &args.machine) {
        (Some(settings), ..) => settings.clone(),
        (None, true, None) => SHIPPED.into(),
        (None, true, Some(_)) => SHIPPED_ON_MACHINE.into(),
        (None, false, _) => String::new(),
    };
    let mut values = Vec::new();
    if let Some(text) = &args.space {
        for setting in
            grammar::settings(text).map_err(|error| usage(format!("--space: {error}")))?
        {
            let all = setting.value.split('/').map(|value| value.trim().to_string()).collect();
            values.push((setting.key.to_string(), all));
        }
    }
    let wanted = Wanted { fixed, values, without: args.without.clone() };
    // A recording of a mount has what its kernel let through; programs' calls pass a kernel first.
    let of_mount = workload.is_of_mount().map_err(|error| error.to_string())?;
    Space::of(&wanted, (!of_mount).then_some("kernel")).map_err(usage)
}

/// How many runs there may be.
enum Budget {
    Runs(u64),
    Seconds(f64),
}

impl Budget {
    fn parse(text: &str) -> Result<Budget, Failure> {
        if let Ok(runs) = text.parse::<u64>() {
            return match (LEAST_BUDGET..=MOST_RUNS).contains(&runs) {
                true => Ok(Budget::Runs(runs)),
                false => Err(usage(format!(
                    "--budget {runs}: a search needs {LEAST_BUDGET} runs at least, and {MOST_RUNS} are the most"
                ))),
            };
        }
        let time =
            nanos(text, twin_rt::SECS).map_err(|error| usage(format!("--budget: {error}")))?;
        Ok(Budget::Seconds(time as f64 / 1e9))
    }

    /// The number of runs. For a time one run of the default is timed.
    fn runs(
        &self,
        (config, workload, pace): (Option<Config>, &Workload, ReplayPace),
        threads: usize,
        machine: Option<&Arc<MachineFile>>,
    ) -> Result<u64, Failure> {
        let seconds = match *self {
            Budget::Runs(runs) => return Ok(runs),
            Budget::Seconds(seconds) => seconds,
        };
        let config =
            config.ok_or("--budget: give a number of runs, since the default cannot be timed")?;
        let config = match machine {
            Some(machine) => config.on_machine(Arc::clone(machine)),
            None => config,
        };
        let clock = real_clock();
        // One in which operations fail takes about as long.
        simulate(Run::from(&config), workload, pace).map_err(|error| error.to_string())?;
        let each = clock().max(1e-4);
        let runs = (seconds * threads as f64 / each) as u64;
        let runs = runs.clamp(LEAST_BUDGET, MOST_RUNS);
        twin_host::note!(
            "twinfs: a run takes {each:.2} s, so that the search has {runs}: `--budget {runs}` repeats it"
        );
        Ok(runs)
    }
}

/// What mounts show of the finalists, or why they were not measured.
fn confirmation(
    args: &Advise,
    advice: &Advice,
    question: &Question<'_>,
    interrupts: &Interrupts,
) -> Result<Confirmation, Failure> {
    if let Some(why) = obstacle(args, advice) {
        return Ok(Confirmation::Missing(why));
    }
    let Some(by) = By::named(advice.measure.name) else {
        let why = format!("{} is a measure of simulations alone", advice.measure.name);
        return Ok(Confirmation::Missing(why));
    };
    let mut targets = Vec::new();
    for finalist in &advice.finalists {
        match Target::parse(&finalist.mounted) {
            Ok(target) => targets.push(target),
            Err(why) => return Ok(Confirmation::Missing(why.to_string())),
        }
    }
    let machine = args.machine.as_deref().map(machine_file).transpose()?;
    let plan = Plan {
        targets: &targets,
        workload: question.workload,
        operations: question.operations,
        pace: question.pace,
        by,
        base: args.at.as_deref().unwrap_or(Path::new("/var/tmp")),
        runs: args.runs,
        caches: BTreeMap::new(),
        machine,
    };
    let measured = match experiment(&runner(interrupts)?, plan) {
        Ok(measured) => measured,
        Err(why) => {
            // What ended early because of an interrupt is no reason.
            interrupts.check()?;
            return Ok(Confirmation::Missing(why));
        }
    };
    let mounts = targets.iter().map(|target| {
        Mounted(measured.values_of(&target.name()).map(|values| in_unit(advice.measure, values)))
    });
    Ok(Confirmation::Measured { mounts: mounts.collect(), words: measured.words() })
}

/// Values in seconds in the unit of the measure.
fn in_unit(measure: &'static MeasureEntry, values: Vec<f64>) -> Spread {
    let factor = if measure.unit() == "us" { 1e6 } else { 1.0 };
    Spread::of(measure.name, values.into_iter().map(|value| value * factor).collect())
}

/// Why nothing is mounted, as words behind "it was not confirmed on mounts:".
fn obstacle(args: &Advise, advice: &Advice) -> Option<String> {
    let fixed = grammar::settings(advice.fixed.as_str()).unwrap_or_default();
    let disk = fixed.iter().find(|setting| setting.key == "disk").filter(|_| args.with.is_some());
    if args.no_confirm {
        Some("--no-confirm".into())
    } else if advice.challenger().is_none() {
        Some("the default is the best already".into())
    } else if !rustix::process::geteuid().is_root() {
        Some("only root can make the devices and mounts".into())
    } else if !Path::new("/dev/fuse").exists() {
        Some("there is no /dev/fuse".into())
    } else {
        disk.map(|disk| {
            format!("it is for {}={}, which this machine has not", disk.key, disk.value)
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    /// A line of advice is a command line of this program.
    fn parses(line: &str) -> bool {
        Cli::try_parse_from(line.split(' ')).is_ok()
    }

    #[test]
    fn the_commands_of_every_setting_that_is_tried_are_command_lines() {
        let space = Space::of(&Wanted::default(), None).unwrap();
        let lines = space.all_command_lines();
        assert!(lines.len() > 80, "{}", lines.len());
        for [mkfs, mount] in lines {
            assert!(parses(&mkfs) && parses(&mount), "{mkfs}\n{mount}");
        }
        assert!(!parses("twinfs mount --segment-size 4M disk.img mnt"));
    }

    #[test]
    fn a_mount_without_options_has_the_cache_of_the_default() {
        let cli = Cli::try_parse_from(["twinfs", "mount", "a", "b"]).unwrap();
        let crate::cli::Command::Mount(args) = cli.command else { panic!("not a mount") };
        let cache = twin_settings::value::bytes(twin_lab::MOUNT_CACHE).unwrap();
        assert_eq!(args.cache.0, cache);
    }

    #[test]
    fn a_budget_is_a_number_of_runs_or_a_time() {
        assert!(matches!(Budget::parse("500"), Ok(Budget::Runs(500))));
        assert!(matches!(Budget::parse("2min"), Ok(Budget::Seconds(s)) if s == 120.0));
        for wrong in ["3", "soon", "-4"] {
            assert_eq!(
                Budget::parse(wrong).err().map(|failure| failure.status),
                Some(2),
                "{wrong}"
            );
        }
    }
}

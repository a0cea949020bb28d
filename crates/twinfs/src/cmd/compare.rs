//! `twinfs compare`: a workload on several configurations, side by side.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use twin_cli::progress::Progress;
use twin_cli::{Call, Failure, Keep, Outcome, Printer, SoFar, say, usage};
use twin_host::Interrupts;
use twin_lab::{
    Config, EventLog, Figures, History, Run, SimulateError, Workload, compared_by_default,
    settings_help, workload_help,
};
use twin_observe::named_rows;
use twin_report::Report;
use twin_rt::Categories;
use twin_settings::{Named, grammar};
use twin_verdict::{
    Before, Comparison, Found, Judgement, MEASURES, MeasureEntry, Pauses, SeedRuns, Seeded, Trust,
    about_workload, compare_seeds, default_settings, labels, measurable, measure_for, rank, rivals,
    verdict, what_if, what_if_changes,
};

pub(crate) use super::machine_file::machine_file;
use super::start::Start;
use super::workload::{Chosen, chosen};
use super::{on, reading};
use crate::cli::{Compare, Pace};

/// Why that trace has settings of its own.
const WHY_SHIPPED: &str =
    "chosen for the trace that comes with the program, which nearly fills such a volume";

/// Settings of the volume on which the trace that comes with the program was recorded, and which it
/// nearly fills.
const SHIPPED_VOLUME: &str = "size=256M,cache=16M";

/// The disk for that trace, unless a machine was measured: the kind that most servers have.
const SHIPPED_DISK: &str = "disk=ssd-tlc";

pub(crate) fn run(args: &Compare, interrupts: &Interrupts) -> Outcome {
    if args.list {
        say(settings_help().trim_end())?;
        say(format!("\n{}", workload_help().trim_end()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(server) = &args.server {
        return super::server::run(args, server, interrupts);
    }
    check(args)?;
    let configs = configs(args)?;
    let Chosen { workload, is_cut, operations, reading } = chosen(
        args.trace.as_deref(),
        args.trace_format.as_deref(),
        args.workload.as_deref(),
        args.seed.unwrap_or(1),
    )?;
    check_pace(args, &workload)?;
    let pace = Pace::of(args.pace, &workload, args.speed).map_err(usage)?;
    on::targets(&args.on)?;
    let printer = Printer::of(&args.output, interrupts)?;
    let measure = match &args.by {
        Some(name) => MEASURES.get(name).map_err(|e| e.to_string())?,
        None => measure_for(pace),
    };
    measurable(measure, &configs).map_err(usage)?;
    let job = (&workload, operations, pace);
    let measured = on::measured(args, &configs, job, measure.name, interrupts)?;
    let start = Start::of(&args.start)?;
    let trust = Trust::of(&configs);
    let pauses = Pauses::of(&workload, pace).map_err(|error| error.to_string())?;
    let how = Judgement { measure, trust: &trust, pauses };
    let runs = observed(args, configs)?;
    let seeds = SeedRuns { workload: &workload, pace, seeds: args.seeds, measure };
    let mut not_run = NotRun::new();
    let job = (seeds, operations);
    let job = Job { args, job, how: &how, measure };
    let ran = job.run_all(runs, start.as_ref(), &mut not_run, (printer, interrupts))?;
    // What an interrupt has found is printed.
    let Some((ran, fresh, mut printer)) = ran else { return Ok(ExitCode::FAILURE) };
    let figures: Vec<Figures> = ran.iter().map(|(_, run)| run.figures.clone()).collect();
    let of_runs = verdict(&judged(&ran), &how);
    let verdict = match &start {
        None => of_runs,
        Some(start) => start.verdict(fresh.as_deref(), &ran, of_runs, &how),
    };
    let verdict = verdict.map(|verdict| match args.shared.what_if {
        true => verdict + "\n" + &tried(args, &ran, (&figures, &trust), seeds, operations),
        false => verdict,
    });
    let verdict = with_measured(measured.as_ref().map(|measured| measured.words()), verdict);
    let mut report = reported(args, &ran, &not_run, (verdict.as_deref(), measure), &workload)?;
    if let Some(start) = &start {
        start.add_to(report.rows_mut(), fresh.as_deref().unwrap_or_default())?;
    }
    // Before the rows become objects.
    if let Some(measured) = &measured {
        measured.add_to(&mut report);
    }
    report.change_json(|row| reading::add_to(row, &reading));
    // Rows of observers are for comma-separated values: the figures in JSON hold them.
    for Figures { observed, config, .. } in &figures {
        report.add_rows(named_rows(observed, "config", config));
    }
    printer.print(&report)?;
    let is_whole = measured.is_none_or(|measured| measured.is_whole());
    let all_done = ending(&figures, &not_run) && !is_cut && is_whole;
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The verdict on what was measured before the one on simulations.
fn with_measured(measured: Option<String>, simulated: Option<String>) -> Option<String> {
    match (measured, simulated) {
        (Some(measured), Some(simulated)) => Some(format!("{measured}\nSimulated: {simulated}")),
        (measured, simulated) => measured.or(simulated),
    }
}

/// Runs of these configurations with the observers that were asked for.
fn observed(args: &Compare, configs: Vec<Config>) -> Result<Vec<Run>, Failure> {
    let observe = args.observe.observing().map_err(usage)?;
    let observed = |config| Run { observe: observe.clone(), ..Run::of(config) };
    Ok(configs.into_iter().map(observed).collect())
}

/// The report on runs, with what is to be said of the workload.
fn reported(
    args: &Compare,
    ran: &[(Config, Seeded)],
    not_run: &NotRun,
    (verdict, measure): (Option<&str>, &MeasureEntry),
    workload: &Workload,
) -> Result<Report, String> {
    let comparison = Comparison {
        title: &title(args),
        shared: &shared_settings(args),
        why_shared: &why_shared(args),
        verdict,
        measure,
        runs: ran,
        not_run,
        details: args.details,
    };
    let mut report = comparison.report();
    for part in about_workload(workload).map_err(|error| error.to_string())? {
        report.add(part);
    }
    Ok(report)
}

/// Refuses arguments that would be ignored.
fn check(args: &Compare) -> Result<(), Failure> {
    if args.details && !args.output.is_table() {
        return Err(usage("--details is for the table: JSON has all figures anyway"));
    }
    if !args.on.is_empty() && args.start.is_given() {
        return Err(usage("--on is for new volumes: leave --aged, --fill and --from out"));
    }
    if args.shared.what_if && args.start.is_given() {
        return Err(usage("--what-if is for new volumes: leave --aged, --fill and --from out"));
    }
    let named = match args.configs.len() {
        0 => compared_by_default().count(),
        named => named,
    };
    if args.shared.what_if && named < 2 {
        return Err(usage(
            "--what-if is about the order of two configurations, and there is one: name another one too, \
             or leave --what-if out",
        ));
    }
    if args.shared.what_if && args.output.is_csv() && !args.output.has_page() {
        return Err(usage(
            "--what-if adds to the verdict, which --format csv does not have: choose --format table or json",
        ));
    }
    Ok(())
}

/// Refuses a pace that the workload cannot have.
fn check_pace(args: &Compare, workload: &Workload) -> Result<(), Failure> {
    let is_paced = matches!(args.pace, Some(Pace::Recorded | Pace::Think));
    if is_paced && !workload.has_times().map_err(|error| error.to_string())? {
        return Err(usage(
            "--pace: the workload has no times, so that it can only run as fast as possible: leave --pace \
             out",
        ));
    }
    Ok(())
}

/// Refuses settings for all configurations that none of them takes.
fn check_shared(args: &Compare) -> Result<(), Failure> {
    let Some(shared) = &args.shared.with else { return Ok(()) };
    if args.configs.is_empty() {
        return Ok(());
    }
    for setting in grammar::settings(shared).map_err(usage)? {
        let own = |text: &String| {
            let named = Named::parse(text).and_then(|named| grammar::settings(named.settings));
            named.is_ok_and(|all| all.iter().any(|one| one.key == setting.key))
        };
        if args.configs.iter().all(own) {
            return Err(usage(format!(
                "--with {0}={1}: every configuration sets {0} itself, so that it would be ignored: leave \
                 it out",
                setting.key, setting.value
            )));
        }
    }
    Ok(())
}

/// Configurations with their results, for a verdict.
fn judged(ran: &[(Config, Seeded)]) -> Vec<(&Config, &Figures)> {
    ran.iter().map(|(config, run)| (config, &run.figures)).collect()
}

/// Configurations with their results.
type Ran = Vec<(Config, Seeded)>;

/// What is simulated, and how it is judged.
struct Job<'a> {
    args: &'a Compare,
    /// With the operations of a run.
    job: (SeedRuns<'a>, u64),
    how: &'a Judgement<'a>,
    /// The measure of the judgement, which outlives it: an interrupt prints by it.
    measure: &'static MeasureEntry,
}

impl Job<'_> {
    /// Runs and ranks all configurations on the volumes that they start with, and on new ones beside
    /// where that makes sense. `None` after an interrupt, when what had ended has been printed.
    fn run_all(
        &self,
        runs: Vec<Run>,
        start: Option<&Start>,
        not_run: &mut NotRun,
        (printer, interrupts): (Printer, &Interrupts),
    ) -> Result<Option<(Ran, Option<Ran>, Printer)>, Failure> {
        let mut fresh = None;
        let runs = match start {
            None => runs,
            Some(start) => {
                if start.has_fresh() {
                    let bar = self.bar(runs.len());
                    let ran = self.simulated(&bar, runs.clone(), &mut Vec::new(), &|_, _| {})?;
                    fresh = Some(ranked(ran, self.how));
                }
                start.apply(runs, not_run)?
            }
        };
        let bar = self.bar(runs.len());
        let (seeds, all) = (self.job.0.seeds.max(1) as usize, BTreeMap::new());
        let count = runs.len() * seeds;
        let report = self.partial(runs.iter().map(|run| run.config.clone()).collect());
        let kept = SoFar::new((printer, &bar), interrupts, (all, count), None, report);
        let found = |at: usize, run: &(Figures, History)| kept.add(at, Simulated(run.clone()));
        let ran = self.simulated(&bar, runs, not_run, &found)?;
        let Some(printer) = kept.end() else { return Ok(None) };
        Ok(Some((ranked(ran, self.how), fresh, printer)))
    }

    /// The report on the configurations of which every seed has ended.
    fn partial(
        &self,
        configs: Vec<Config>,
    ) -> impl Fn(&BTreeMap<usize, Simulated>) -> Report + Send + Sync + use<> {
        let (title, shared) = (title(self.args), shared_settings(self.args));
        let why_shared = why_shared(self.args);
        let (measure, trust, pauses) = (self.measure, self.how.trust.clone(), self.how.pauses);
        let (seeds, details) = (self.job.0.seeds.max(1) as usize, self.args.details);
        move |ended| {
            let how = Judgement { measure, trust: &trust, pauses };
            let of_one = |(at, config): (usize, &Config)| {
                let runs = (at * seeds..(at + 1) * seeds).map(|run| ended.get(&run));
                let runs = runs.map(|run| run.map(|run| run.0.clone())).collect::<Option<_>>()?;
                Some((config.clone(), Seeded::of(runs, measure)?))
            };
            let ran: Ran = configs.iter().enumerate().filter_map(of_one).collect();
            if ran.is_empty() {
                return Report::answer("compare", title.clone());
            }
            let ran = ranked(ran, &how);
            let verdict = verdict(&judged(&ran), &how);
            let comparison = Comparison {
                title: &title,
                shared: &shared,
                why_shared: &why_shared,
                verdict: verdict.as_deref(),
                measure,
                runs: &ran,
                not_run: &[],
                details,
            };
            comparison.report()
        }
    }

    /// The bar for runs of this many configurations.
    fn bar(&self, configs: usize) -> Progress {
        let (SeedRuns { seeds, .. }, operations) = self.job;
        match self.args.log {
            Some(_) => Progress::hidden(),
            None => Progress::of("operations simulated", configs as u64 * seeds * operations),
        }
    }

    /// Runs all configurations; those that cannot run go to `not_run`.
    fn simulated(
        &self,
        bar: &Progress,
        mut runs: Vec<Run>,
        not_run: &mut NotRun,
        found: Found<'_>,
    ) -> Result<Ran, String> {
        if let Some(categories) = self.args.log {
            tell_of_events(&mut runs, categories);
        }
        for run in &mut runs {
            run.steps = Some(super::steps(bar));
        }
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let results = compare_seeds(&runs, self.job.0, threads, found);
        bar.finish();
        let ran = those_that_ran(runs, results, not_run);
        warn_of_seeds(self.args, &ran);
        Ok(ran)
    }
}

/// A run that has ended. It is not kept for later: figures and histories are written, and never read.
struct Simulated((Figures, History));

impl Keep for Simulated {}

/// Runs with their ranks.
fn ranked(mut ran: Ran, how: &Judgement<'_>) -> Ran {
    let mut figures: Vec<&mut Figures> = ran.iter_mut().map(|(_, run)| &mut run.figures).collect();
    rank(&mut figures, how.measure, how.trust);
    ran
}

/// What would change the order, in a line of its own.
fn tried(
    args: &Compare,
    ran: &[(Config, Seeded)],
    (figures, trust): (&[Figures], &Trust),
    runs: SeedRuns<'_>,
    operations: u64,
) -> String {
    let Some(places) = rivals(figures, runs.measure) else {
        return "What if: nothing was tried, because there are not two configurations to compare."
            .into();
    };
    let shared = shared_settings(args);
    let names: Vec<&str> = figures.iter().map(|figures| figures.config.as_str()).collect();
    let names = labels(&names);
    let pair = places.map(|at| &ran[at].0);
    let count = 2 * runs.seeds * what_if_changes(pair).len() as u64;
    let bar = Progress::of("operations simulated with other settings", count * operations);
    let changed = |config: &Config, setting: &str| {
        let config = config.changed(&shared, setting).map_err(|error| error.to_string())?;
        Ok(Run { steps: Some(super::steps(&bar)), ..Run::of(config) })
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (names, figures) = (places.map(|at| &*names[at]), places.map(|at| &figures[at]));
    let said = what_if(Before { pair, names, figures, trust }, &changed, runs, threads);
    bar.finish();
    said
}

/// The configurations, on the machine that was asked for.
///
/// # Errors
/// If the machine file cannot be used, or one of them cannot be parsed: then nothing is run, and all that
/// cannot be parsed are named.
fn configs(args: &Compare) -> Result<Vec<Config>, Failure> {
    check_shared(args)?;
    let machine = args.machine.as_deref().map(machine_file).transpose()?.map(Arc::new);
    let on_machine = |config: Config| match &machine {
        Some(machine) => config.on_machine(Arc::clone(machine)),
        None => config,
    };
    let (mut configs, mut wrong) = (Vec::new(), Vec::new());
    let shared = shared_settings(args);
    let asked: Vec<&str> = match args.configs.is_empty() {
        true => compared_by_default().collect(),
        false => args.configs.iter().map(String::as_str).collect(),
    };
    for text in asked {
        match Config::parse_with(&shared, text) {
            Ok(config) => configs.push(on_machine(config)),
            Err(error) => {
                let why = error.to_string();
                let name = if why.starts_with(text) { String::new() } else { format!("{text}: ") };
                wrong.push(format!("{name}{why}"));
            }
        }
    }
    match wrong.is_empty() {
        true => Ok(configs),
        false => Err(usage(wrong.join("\n"))),
    }
}

/// Settings that all configurations share. The trace that comes with the program has some of its
/// own: on a volume of the default size it would never meet the cleaner.
fn shared_settings(args: &Compare) -> String {
    let is_shipped = args.trace.is_none() && args.workload.is_none();
    match (&args.shared.with, is_shipped, &args.machine) {
        (Some(settings), ..) => settings.clone(),
        (None, true, Some(_)) => SHIPPED_VOLUME.into(),
        (None, true, None) => format!("{SHIPPED_VOLUME},{SHIPPED_DISK}"),
        (None, false, _) => String::new(),
    }
}

/// Why all configurations have these settings: those that were given need no reason.
fn why_shared(args: &Compare) -> String {
    let is_shipped = args.trace.is_none() && args.workload.is_none();
    match (&args.shared.with, is_shipped) {
        (Some(_), _) => String::new(),
        (None, true) => {
            format!("{WHY_SHIPPED}; with -t and -w the defaults are {}", default_settings())
        }
        (None, false) => "the defaults for workloads of your own; --with changes them".into(),
    }
}

/// Reports the events of all runs on standard error, with the configuration if there are several.
pub(crate) fn tell_of_events(runs: &mut [Run], categories: Categories) {
    let several = runs.len() > 1;
    for run in runs {
        let name = if several { format!("{}: ", run.config.name) } else { String::new() };
        let call = Call::current();
        let tell = Arc::new(move |line: &str| match &call {
            Some(call) => call.event(&format!("{name}{line}")),
            None => twin_host::note!("{name}{line}"),
        });
        run.log = Some(EventLog { categories, tell });
    }
}

/// Configurations that could not run, each with the reason.
type NotRun = Vec<(String, String)>;

/// The configurations that ran, with their results; the others go to `not_run`. A failed run does
/// not affect the others.
fn those_that_ran(
    runs: Vec<Run>,
    results: Vec<Result<Seeded, SimulateError>>,
    not_run: &mut NotRun,
) -> Vec<(Config, Seeded)> {
    let mut ran = Vec::new();
    for (Run { config, .. }, result) in runs.into_iter().zip(results) {
        match result {
            Ok(run) => ran.push((config, run)),
            Err(error) => not_run.push((config.name, error.to_string())),
        }
    }
    ran
}

/// Tells if several seeds were run in vain.
fn warn_of_seeds(args: &Compare, ran: &[(Config, Seeded)]) {
    if args.seeds > 1 && ran.iter().all(|(_, run)| makes_no_difference(run)) {
        twin_host::note!(
            "twinfs: the seeds make no difference: neither the workload nor the volumes and disks \
             draw random numbers"
        );
    }
}

/// True if all seeds of a configuration took the same times.
fn makes_no_difference(run: &Seeded) -> bool {
    let same = |figures: &Figures| {
        let first = &run.all[0];
        (figures.finish_s, figures.latency) == (first.finish_s, first.latency)
    };
    run.all.iter().all(same)
}

/// True if every configuration did all of the workload; prints what failed.
fn ending(figures: &[Figures], not_run: &NotRun) -> bool {
    for (config, why) in not_run {
        let named = why.starts_with(config.as_str());
        let name = if named { String::new() } else { format!("{config}: ") };
        twin_host::note!("twinfs: cannot run {name}{why}");
    }
    let failed = figures.iter().filter(|figures| figures.failed > 0);
    let mut all_done = not_run.is_empty();
    for Figures { config, failed, ops, .. } in failed {
        all_done = false;
        twin_host::note!(
            "twinfs: {config}: {failed} of {} operations failed that succeed in the workload, or \
             lacked what failed before: its figures are of less work, and it has no rank. If the \
             volume was full, set a larger size",
            ops + failed
        );
    }
    for run in figures {
        let refused = run.deadlines.as_ref().map_or(0, |deadlines| deadlines.refused);
        let differ = run.diverged.saturating_sub(run.failed + refused);
        if differ > 0 {
            let Figures { config, ops, .. } = run;
            twin_host::note!(
                "twinfs: {config}: {differ} of {ops} operations ended otherwise than in the workload: \
                 with another error or, of reads, with another number of bytes"
            );
        }
    }
    all_done
}

/// The title of the page.
fn title(args: &Compare) -> String {
    match (&args.trace, &args.workload) {
        (Some(path), _) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        (None, Some(generated)) => generated.clone(),
        (None, None) => "A recorded small server".into(),
    }
}

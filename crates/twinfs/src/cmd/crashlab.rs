//! `twinfs crashlab` and `twinfs ack`: whether a program survives power failures.

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use twin_cli::progress::Progress;
use twin_cli::{Failure, Outcome, Printer, usage};
use twin_crashlab::report::Verdict;
use twin_crashlab::{Budget, State, model};
use twin_host::{Interrupts, absolute};
use twin_lab::layouts::layout;
use twin_mount::crashlab::{LabRequest, SessionRequest, acknowledge, lab, probe, session};

use crate::cli::{Ack, Crashlab};

/// How far the lab is, once it tries states.
type Bar = Arc<Mutex<Option<Progress>>>;

pub(crate) fn run(args: &Crashlab) -> Outcome {
    if args.session {
        return run_session(args);
    }
    let bar: Bar = Arc::default();
    let request = request(args, Arc::clone(&bar))?;
    // The lab begins with what must come before any thread, so it begins to listen by itself.
    let mut printer = Printer::of(&args.output, &Interrupts::default())?;
    let heard = RefCell::new(Interrupts::default());
    let listen = || {
        let interrupts = Interrupts::listen()?;
        *heard.borrow_mut() = interrupts.clone();
        Ok(interrupts)
    };
    let answer = lab(&request, listen);
    if let Some(bar) = &*bar.lock().unwrap_or_else(PoisonError::into_inner) {
        bar.finish();
    }
    if let Some(status) = heard.borrow().status() {
        return Err(Failure { why: "interrupted".into(), status });
    }
    // A lab that has no place for its work measures nothing.
    let answer = answer.map_err(|why| Failure { why, status: Verdict::NotMeasured.status() })?;
    printer.print(&answer.report)?;
    match answer.verdict {
        Verdict::Survived => Ok(ExitCode::SUCCESS),
        Verdict::Lost => Ok(ExitCode::from(Verdict::Lost.status())),
        verdict => {
            let why = answer.report.verdict_text().to_owned();
            Err(Failure { why, status: verdict.status() })
        }
    }
}

/// Serves a test suite.
fn run_session(args: &Crashlab) -> Outcome {
    let request = SessionRequest {
        layout: layout(&args.layout).map_err(usage)?,
        size: args.size.0,
        like: model::model(&args.like).map_err(usage)?,
        budget: Budget { states: args.states.max(1), seed: args.seed },
    };
    let heard = RefCell::new(Interrupts::default());
    let listen = || {
        let interrupts = Interrupts::listen()?;
        *heard.borrow_mut() = interrupts.clone();
        Ok(interrupts)
    };
    let served = session(&request, listen);
    if let Some(status) = heard.borrow().status() {
        return Err(Failure { why: "interrupted".into(), status });
    }
    served.map_err(|why| Failure { why, status: Verdict::HarnessBroken.status() })?;
    Ok(ExitCode::SUCCESS)
}

fn request(args: &Crashlab, bar: Bar) -> Result<LabRequest, Failure> {
    let state = args.state.as_deref().map(state_of).transpose();
    let state = state.map_err(|why| usage(format!("--state: {why}")))?;
    let seconds = |name: &str, value: f64| match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(usage(format!("--{name} {value}: must be a number of seconds above 0"))),
    };
    let limit = Duration::try_from_secs_f64(seconds("check-time", args.check_time)?);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut again = format!(
        "twinfs crashlab --layout {} --like {} --seed {}",
        args.layout, args.like, args.seed
    );
    if let Some(setup) = &args.setup {
        again += &format!(" --setup '{}'", setup.replace('\'', "'\\''"));
    }
    Ok(LabRequest {
        layout: layout(&args.layout).map_err(usage)?,
        size: args.size.0,
        like: model::model(&args.like).map_err(usage)?,
        setup: args.setup.clone(),
        command: args.command.clone(),
        keep: args.keep.as_deref().map(absolute).transpose()?,
        from: args.from.as_deref().map(absolute).transpose()?,
        check: args.check.clone().unwrap_or_default(),
        budget: Budget { states: args.states.max(1), seed: args.seed },
        seconds: seconds("time", args.time)?,
        limit: limit.map_err(|error| usage(format!("--check-time: {error}")))?,
        at: args.at.clone(),
        state,
        twice: args.depth > 1,
        at_a_time: args.jobs.unwrap_or(cores),
        // A bar has a thread, so it begins with the first state.
        progress: Arc::new(move |done, all| {
            let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
            bar.get_or_insert_with(|| Progress::of("states tried", all)).set(done, all);
        }),
        again,
    })
}

/// A state, or one after a second failure in it.
fn state_of(text: &str) -> Result<(State, Option<State>), String> {
    match text.split_once('/') {
        Some((first, second)) => Ok((first.parse()?, Some(second.parse()?))),
        None => Ok((text.parse()?, None)),
    }
}

pub(crate) fn run_ack(args: &Ack) -> Outcome {
    if args.probe {
        probe(&args.label)?
    } else {
        acknowledge(&args.label)?
    }
    Ok(ExitCode::SUCCESS)
}

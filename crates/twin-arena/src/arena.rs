//! The judgement: stage by stage, with limits.
//!
//! Contract: the policies of the registry run first, on as many threads as there are; what they measured is kept in a
//! [`Reference`], so that a search pays for it once. The policy runs alone and on one thread, so that its time and
//! memory are its own. Its stages have limits of time, beyond which it is refused: its thread is left to itself, since
//! a hook that does not return cannot be ended. A stage that it did not pass is the last.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use twin_host::real_clock;
use twin_lab::side_by_side;
use twin_settings::outside;

pub use crate::checks::Refusal;
use crate::checks::probe;
use crate::contender::{Contender, Origin};
use crate::guard::Watch;
use crate::runs::{Case, Guarded, Ran, Read, Traces, run_cases, study_cases, with_policy};
use crate::score::{Rival, Values, best, score};
use crate::task::{Stage, Task};

/// Processor time that no budget is too small for: clocks and caches of the machine are not exact.
const SLACK_S: f64 = 0.1;
/// How often limits and interrupts are looked at.
const TICK: Duration = Duration::from_millis(50);
/// The stack of the thread that judges, that of a process's first one.
const STACK: usize = 8 << 20;

/// What the policies of the registry measured, by what they ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reference(BTreeMap<String, Vec<Rival>>);

/// What is wanted of a judgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// What a search must not see is judged too.
    pub held_out: bool,
}

/// A task that is ready to judge.
pub struct Arena {
    task: Task,
    traces: Box<dyn Traces>,
    threads: usize,
    reference: Mutex<Reference>,
}

/// The judgement on some inputs.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Its score: 1 is as good as the best of the registry on the same inputs.
    pub score: f64,
    /// The same against the best on each input, which differs from input to input.
    pub score_of_each: f64,
    /// The best of the registry.
    pub best: String,
    /// The inputs, each with the values of the policy and of the best.
    pub inputs: Vec<(String, Values, Values)>,
    /// Its processor time as a multiple of that of the default policy.
    pub cpu: f64,
    /// Memory that a run took beyond what there was, the most.
    pub more_memory_bytes: u64,
}

/// A stage.
#[derive(Clone, Debug)]
pub struct StageResult {
    /// Its name.
    pub name: &'static str,
    /// On what a search sees.
    pub public: Judged,
    /// On what it does not, if that was wanted.
    pub held_out: Option<Judged>,
    /// The score from which on the next stage is run.
    pub go_on: f64,
}

impl StageResult {
    /// True if the next stage is run.
    pub fn passed(&self) -> bool {
        self.public.score >= self.go_on
    }
}

/// What is known of a policy.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// The policy.
    pub policy: String,
    /// What it says of itself.
    pub about: String,
    /// The task.
    pub task: String,
    /// The stages that ran.
    pub stages: Vec<StageResult>,
    /// Why it gets nothing.
    pub refused: Option<Refusal>,
    /// Inputs that are not there, with the reason.
    pub left_out: Vec<String>,
    /// The longest call of a hook, where calls were timed.
    pub longest_call_us: Option<f64>,
}

impl Evaluation {
    /// The geometric mean of the public scores of the stages that ran; 0 if the policy was refused.
    pub fn combined_score(&self) -> f64 {
        if self.refused.is_some() || self.stages.is_empty() {
            return 0.0;
        }
        let logarithms = self.stages.iter().map(|stage| stage.public.score.ln());
        (logarithms.sum::<f64>() / self.stages.len() as f64).exp()
    }

    /// True if a mount is worth it.
    pub fn passed(&self) -> bool {
        self.refused.is_none()
            && self.stages.len() == 2
            && self.stages.iter().all(StageResult::passed)
    }

    /// The best of the registry in the last stage.
    pub fn best(&self) -> Option<&str> {
        self.stages.last().map(|stage| stage.public.best.as_str())
    }
}

/// What the thread that judges says.
enum Said {
    /// The policy is at work from now on, for this stage and number of seconds at most; `None`: it is not.
    Limit(Option<(&'static str, f64)>),
    Done(Result<(), Stopped>),
}

/// Why a judgement ends.
enum Stopped {
    Refused(Refusal),
    Failed(String),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Stopped {
        Stopped::Refused(refusal)
    }
}

impl From<String> for Stopped {
    fn from(why: String) -> Stopped {
        Stopped::Failed(why)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arena {
    /// A task, with what opens its recordings, and what is known of the registry's policies already.
    pub fn new(
        task: Task,
        traces: Box<dyn Traces>,
        threads: usize,
        reference: Reference,
    ) -> Arc<Arena> {
        Arc::new(Arena { task, traces, threads, reference: Mutex::new(reference) })
    }

    /// The task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// What is known of the registry's policies now.
    pub fn reference(&self) -> Reference {
        locked(&self.reference).clone()
    }

    /// The configuration of a mount with this policy, if the task has one.
    ///
    /// # Errors
    /// If there is no such policy.
    pub fn mounted(&self, policy: &str) -> Result<Option<String>, String> {
        let contender =
            Contender::named(self.task.kind, policy).map_err(|error| error.to_string())?;
        Ok(self.task.mount.as_ref().map(|mount| with_policy(&mount.config, contender)))
    }

    /// Judges the policy of this name, or in the module at this path. `go_on` is asked about twenty times a second, and
    /// ends it with an error.
    ///
    /// # Errors
    /// If there is no such policy, an input cannot be read, or `go_on` says so.
    pub fn evaluate(
        self: &Arc<Arena>,
        policy: &str,
        wanted: Wanted,
        go_on: &dyn Fn() -> Result<(), String>,
    ) -> Result<Evaluation, String> {
        let contender =
            Contender::named(self.task.kind, policy).map_err(|error| error.to_string())?;
        let evaluation = Arc::new(Mutex::new(Evaluation {
            policy: contender.name().into(),
            about: contender.about().into(),
            task: self.task.name.clone(),
            ..Evaluation::default()
        }));
        let (say, said) = channel();
        let (arena, found) = (Arc::clone(self), Arc::clone(&evaluation));
        let work = move || {
            let done = arena.judge(contender, wanted, &found, &say);
            let _ = say.send(Said::Done(done));
        };
        let thread = std::thread::Builder::new().name("arena".into()).stack_size(STACK);
        thread.spawn(work).map_err(|error| error.to_string())?;
        let clock = real_clock();
        let mut limit: Option<(&'static str, f64, f64)> = None;
        let done = loop {
            match said.recv_timeout(TICK) {
                Ok(Said::Limit(new)) => {
                    limit = new.map(|(what, most)| (what, most, clock() + most))
                }
                Ok(Said::Done(done)) => break done,
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(Stopped::Failed("the judgement ended in a panic".into()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            go_on()?;
            if let Some((what, most, end)) = limit
                && clock() > end
            {
                let words = format!("its {what} took longer than the {most} s that it has");
                break Err(Refusal::new("time", words).into());
            }
        };
        let mut evaluation = locked(&evaluation).clone();
        match done {
            Ok(()) => {}
            Err(Stopped::Refused(refusal)) => evaluation.refused = Some(refusal),
            Err(Stopped::Failed(why)) => return Err(why),
        }
        // A fault of the policy is the result, and no failure of the command.
        outside::forget_fault();
        Ok(evaluation)
    }

    fn judge(
        &self,
        contender: Contender,
        wanted: Wanted,
        evaluation: &Mutex<Evaluation>,
        say: &Sender<Said>,
    ) -> Result<(), Stopped> {
        let guarded = Guarded::new(contender, Watch::default());
        let read_study: Reader<'_> = &|inputs| study_cases(&self.task, inputs, &*self.traces);
        let read_runs: Reader<'_> = &|inputs| run_cases(&self.task, inputs, &*self.traces);
        let stages =
            [("study", &self.task.first, read_study), ("simulation", &self.task.second, read_runs)];
        for (name, stage, read) in stages {
            let (cases, left_out) = read(&stage.public)?;
            locked(evaluation).left_out.extend(left_out);
            let _ = say.send(Said::Limit(Some((name, stage.seconds))));
            if name == "study" {
                let longest = probe(contender, &cases[0])?;
                locked(evaluation).longest_call_us = longest.map(|ns| ns as f64 / 1e3);
                self.check_call(longest)?;
            }
            let ran = self.runs(&guarded, &cases)?;
            let _ = say.send(Said::Limit(None));
            let public = self.judged(name, "public", &cases, &ran)?;
            let held_out = match wanted.held_out && !stage.held_out.is_empty() {
                true => self.held_out(name, stage, read, &guarded, (evaluation, say))?,
                false => None,
            };
            let result = StageResult { name, public, held_out, go_on: stage.go_on };
            let passed = result.passed();
            locked(evaluation).stages.push(result);
            if !passed {
                break;
            }
        }
        Ok(())
    }

    fn held_out(
        &self,
        name: &'static str,
        stage: &Stage,
        read: Reader<'_>,
        guarded: &Guarded,
        (evaluation, say): (&Mutex<Evaluation>, &Sender<Said>),
    ) -> Result<Option<Judged>, Stopped> {
        let (cases, left_out) = read(&stage.held_out)?;
        locked(evaluation).left_out.extend(left_out);
        if cases.is_empty() {
            return Ok(None);
        }
        let _ = say.send(Said::Limit(Some((name, stage.seconds))));
        let ran = self.runs(guarded, &cases)?;
        let _ = say.send(Said::Limit(None));
        Ok(Some(self.judged(name, "held out", &cases, &ran)?))
    }

    fn check_call(&self, longest: Option<u64>) -> Result<(), Refusal> {
        let most = self.task.budget.call_ns;
        match longest {
            Some(ns) if ns > most => {
                let ms = |ns: u64| ns as f64 / 1e6;
                let words = format!(
                    "a call of a hook took {:.1} ms of the processor, and may take {:.1}",
                    ms(ns),
                    ms(most)
                );
                Err(Refusal::new("time", words))
            }
            _ => Ok(()),
        }
    }

    /// The runs of a policy with those of the default beside, which say what its time is to be measured by.
    fn runs(&self, guarded: &Guarded, cases: &[Case]) -> Result<Vec<(Ran, f64)>, Stopped> {
        let default = Guarded::new(Contender::default(self.task.kind), Watch::default());
        let budget = &self.task.budget;
        let factor = match guarded.contender.origin() {
            Origin::Native => budget.cpu,
            Origin::Added => budget.cpu_python,
        };
        let mut all = Vec::new();
        for case in cases {
            let base = default.run(case)?.cpu_s;
            let ran = guarded.run(case).map_err(Refusal::fault)?;
            if ran.cpu_s > base * factor + SLACK_S {
                let words = format!(
                    "on {} it took {:.2} s of the processor, and may take {factor} times the {base:.2} s of the default",
                    case.name, ran.cpu_s
                );
                return Err(Refusal::new("time", words).into());
            }
            if ran.more_memory_bytes > budget.memory_bytes {
                let mib = |bytes: u64| bytes >> 20;
                let words = format!(
                    "on {} memory grew by {} MiB, and may grow by {}",
                    case.name,
                    mib(ran.more_memory_bytes),
                    mib(budget.memory_bytes)
                );
                return Err(Refusal::new("memory", words).into());
            }
            if all.is_empty() {
                let again = guarded.run(case).map_err(Refusal::fault)?;
                if (&again.digest, again.values) != (&ran.digest, ran.values) {
                    let words = format!(
                        "two runs on {} differ: it decides by something that it is not given",
                        case.name
                    );
                    return Err(Refusal::new("repeatable", words).into());
                }
            }
            all.push((ran, base));
        }
        Ok(all)
    }

    /// The judgement against the registry.
    fn judged(
        &self,
        stage: &str,
        set: &str,
        cases: &[Case],
        ran: &[(Ran, f64)],
    ) -> Result<Judged, String> {
        let rivals = self.rivals(stage, set, cases)?;
        let values: Vec<Values> = ran.iter().map(|(ran, _)| ran.values).collect();
        let weights = &self.task.weights;
        let (first, least) =
            best(weights, &rivals).ok_or("no policy of the registry can do this task")?;
        let of_each = (0..cases.len()).map(|at| {
            let here =
                rivals.iter().map(|rival| crate::score::cost(weights, &rival.values[at..=at]));
            here.fold(f64::INFINITY, f64::min)
        });
        let each = of_each.sum::<f64>() / cases.len() as f64;
        let inputs = cases.iter().zip(&values).zip(&first.values);
        let (own, base) = ran.iter().fold((0.0, 0.0), |(own, base), (ran, of_default)| {
            (own + ran.cpu_s, base + of_default)
        });
        Ok(Judged {
            score: score(weights, least, &values),
            score_of_each: score(weights, each, &values),
            best: first.name.clone(),
            inputs: inputs.map(|((case, own), best)| (case.name.clone(), *own, *best)).collect(),
            cpu: own / f64::max(base, 1e-9),
            more_memory_bytes: ran.iter().map(|(ran, _)| ran.more_memory_bytes).max().unwrap_or(0),
        })
    }

    /// What the policies of the registry measure on these cases.
    fn rivals(&self, stage: &str, set: &str, cases: &[Case]) -> Result<Vec<Rival>, String> {
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let version = env!("CARGO_PKG_VERSION");
        let key = format!("{version} {} {stage} {set}: {}", self.task.digest, names.join("; "));
        if let Some(known) = locked(&self.reference).0.get(&key) {
            return Ok(known.clone());
        }
        let all = Contender::rivals(&self.task).map_err(|error| error.to_string())?;
        let run = |at: usize| {
            let rival = Guarded::trusted(all[at / cases.len()]);
            rival.run(&cases[at % cases.len()]).map(|ran| ran.values)
        };
        let mut found =
            side_by_side(all.len() * cases.len(), self.threads, &run, &|_, _| {}).into_iter();
        let mut rivals = Vec::new();
        for contender in &all {
            let values: Result<Vec<Values>, String> = found.by_ref().take(cases.len()).collect();
            // One that cannot do an input is no measure for others.
            if let Ok(values) = values {
                rivals.push(Rival { name: contender.name().into(), values });
            }
        }
        locked(&self.reference).0.insert(key, rivals.clone());
        Ok(rivals)
    }
}

/// Reads the inputs of a stage.
type Reader<'a> = &'a dyn Fn(&[crate::task::Input]) -> Result<Read, String>;

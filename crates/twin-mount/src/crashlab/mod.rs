//! The crash lab on this host: a program runs on a volume, and every state that a power failure could have left of its
//! files is put into a directory and checked.
//!
//! Contract: as the superuser all mounts are those of this process alone and end with it, and states are checked on all
//! cores; for others the volume is mounted by fusermount3, and states are checked one after the other. In each run a loss
//! is planted and must be found by the same means; otherwise the verdict is that the lab is broken. What is made is
//! removed, also after an interrupt.

mod place;
mod probe;
mod run;
mod second;
mod session;

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use twin_crashlab::keep;
use twin_crashlab::model::Model;
use twin_crashlab::report::{Counts, Facts, Second, Verdict};
use twin_crashlab::tree::DEVICE;
use twin_crashlab::{Budget, Class, Findings, History, Outcome, Search, Space, State, Tree, Trial};
use twin_fs::LayoutKind;
use twin_host::apart::{mount_memory, own_mounts};
use twin_host::fuse::Deputy;
use twin_host::{Interrupts, NewFile, ScratchDir, bytes_of_file, own_program, real_clock};
use twin_report::Report;

use place::Place;
use run::RunRequest;

pub use probe::probe;
pub use run::{ACK_FILE, DIR};
pub use session::{SessionRequest, session};

/// The most checks that are made to shrink what failed.
const SHRINKING: u64 = 300;
/// The longest history that is read again, in bytes. It has all that the program wrote.
const LONGEST_HISTORY: u64 = 8 << 30;

/// A program, its check, and how far the lab goes.
pub struct LabRequest {
    /// The layout of the volume.
    pub layout: &'static dyn LayoutKind,
    /// Its size in bytes.
    pub size: u64,
    /// What it is like.
    pub like: &'static Model,
    /// A command of the shell before the program; what it does is certain.
    pub setup: Option<String>,
    /// The program with its arguments.
    pub command: Vec<OsString>,
    /// Where its history is kept: a new file.
    pub keep: Option<PathBuf>,
    /// A history that was kept, in place of a program.
    pub from: Option<PathBuf>,
    /// A command of the shell that fails in a state that must not be.
    pub check: String,
    /// How many states.
    pub budget: Budget,
    /// How long the checks may go on, in seconds.
    pub seconds: f64,
    /// How long one of them may take.
    pub limit: Duration,
    /// Only states of a power failure at this moment are tried: see [`History::until`].
    pub at: Option<String>,
    /// Only this state is checked, or one after a second failure there.
    pub state: Option<(State, Option<State>)>,
    /// Whether the power fails again while the check recovers.
    pub twice: bool,
    /// How many checks go on at a time.
    pub at_a_time: usize,
    /// Called with the number of states that were tried, and the most that are.
    pub progress: Arc<dyn Fn(u64, u64) + Send + Sync>,
    /// The command line of this command up to its check, to repeat a state.
    pub again: String,
}

/// What was found.
pub struct Answer {
    /// In a word.
    pub verdict: Verdict,
    /// In full.
    pub report: Report,
}

/// Where a run takes place.
struct Site {
    scratch: ScratchDir,
    volume: PathBuf,
    /// Mounts are ours alone.
    apart: bool,
}

/// What is known at the end.
#[derive(Default)]
struct Found {
    findings: Findings,
    classes: Vec<Class>,
    counts: Counts,
    sees_loss: Option<bool>,
    second: Option<Second>,
    notes: Vec<String>,
}

/// What a search needs.
struct Lab<'a> {
    request: &'a LabRequest,
    site: &'a Site,
    places: Vec<Place>,
    /// For the mounts to come.
    deputies: RefCell<Vec<Deputy>>,
    interrupts: &'a Interrupts,
}

/// Runs the program and checks the states. `listen` is called once, before there is any thread.
///
/// # Errors
/// If the place for it cannot be made.
pub fn lab(
    request: &LabRequest,
    listen: impl FnOnce() -> Result<Interrupts, String>,
) -> Result<Answer, String> {
    let clock = real_clock();
    // First, while there is one thread: the mounts, then the deputy, which is to see them.
    let apart = rustix::process::geteuid().is_root() && own_mounts().is_ok();
    // Each mount needs one.
    let recoveries = match &request.state {
        Some((_, second)) => usize::from(second.is_some()),
        None => {
            if request.twice {
                second::RECOVERIES
            } else {
                0
            }
        }
    };
    let count = 1 + recoveries;
    let deputies: Result<Vec<Deputy>, _> = (0..count).map(|_| Deputy::start()).collect();
    let deputies = deputies.map_err(|e| format!("a process for calls into the mount: {e}"))?;
    let interrupts = listen()?;
    let kept = request.from.as_deref().map(read_kept).transpose()?;
    let new = request.keep.as_deref().map(|path| NewFile::make(path, &interrupts)).transpose()?;
    let site = Site::make(apart, kept.as_ref().map(|kept| &*kept.1), &interrupts)?;
    let mut found = Found::default();
    let histories = Histories { kept: kept.map(|kept| kept.0), new };
    let verdict = measured(request, &site, histories, deputies, &interrupts, &mut found);
    interrupts.check()?;
    let (verdict, why) = match verdict {
        Ok(()) if !found.classes.is_empty() => (Verdict::Lost, None),
        Ok(()) => (Verdict::Survived, None),
        Err((verdict, why)) => (verdict, Some(why)),
    };
    let command: Vec<_> = request.command.iter().map(|word| word.to_string_lossy()).collect();
    let command = command.join(" ");
    let repeat = |class: &Class| request.repeat(class);
    let facts = Facts {
        verdict,
        why,
        like: request.like.name,
        layout: request.layout.name(),
        command: &command,
        check: &request.check,
        seed: request.budget.seed,
        counts: found.counts,
        findings: &found.findings,
        classes: &found.classes,
        seconds: clock(),
        sees_loss: found.sees_loss,
        repeat: &repeat,
        second: found.second,
        notes: &found.notes,
    };
    Ok(Answer { verdict, report: facts.report() })
}

impl LabRequest {
    /// The command that repeats the state of a class.
    fn repeat(&self, class: &Class) -> String {
        let (again, check, state) = (&self.again, quoted(&self.check), class.state_name());
        let words = self.command.iter().map(|word| quoted(&word.to_string_lossy()));
        let what = match self.keep.as_ref().or(self.from.as_ref()) {
            Some(kept) => format!(
                "--from {} --state {state} --check {check}",
                quoted(&kept.display().to_string())
            ),
            None => {
                let words: Vec<String> = words.collect();
                format!("--state {state} --check {check} -- {}", words.join(" "))
            }
        };
        format!("{again} {what}")
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=+:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl Site {
    /// Makes it; `volume` is where the volume of a history that was kept had been.
    fn make(apart: bool, volume: Option<&Path>, interrupts: &Interrupts) -> Result<Site, String> {
        let place = std::env::temp_dir().join(format!("twinfs-crashlab-{}", std::process::id()));
        let place = volume.and_then(Path::parent).map_or(place, Path::to_owned);
        let scratch = ScratchDir::make(place, interrupts)?;
        if apart {
            mount_memory(scratch.path())
                .map_err(|e| format!("{}: {e}", scratch.path().display()))?;
        }
        let volume = scratch.path().join("volume");
        std::fs::create_dir(&volume).map_err(|e| format!("{}: {e}", volume.display()))?;
        Ok(Site { scratch, volume, apart })
    }

    fn places(&self, request: &LabRequest) -> Result<Vec<Place>, String> {
        // Where nobody has mounts of his own, there is one place at which the check must see a state.
        let count = if self.apart { request.at_a_time.max(1) } else { 1 };
        let make = |number| {
            let config = request.like.is_device.then(|| request.layout.config());
            Place::make(
                self.scratch.path(),
                number,
                &self.volume,
                self.apart,
                request.limit,
                config,
            )
        };
        (0..count).map(make).collect()
    }
}

/// Why there is no answer.
type Fault = (Verdict, String);

fn not_measured(why: String) -> Fault {
    (Verdict::NotMeasured, why)
}

/// A history that was kept, and where a new one is.
struct Histories {
    kept: Option<History>,
    new: Option<NewFile>,
}

fn read_kept(path: &Path) -> Result<(History, PathBuf), String> {
    let in_file = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let bytes = bytes_of_file(path, LONGEST_HISTORY)?;
    let (history, volume) = keep::read(&bytes).map_err(|e| in_file(&e))?;
    Ok((history, volume.into()))
}

fn keep_history(new: NewFile, history: &History, volume: &Path) -> Result<(), String> {
    use std::io::Write;
    let bytes = keep::write(history, &volume.to_string_lossy());
    let written = new.handle()?.write_all(&bytes);
    let path = new.keep();
    written.map_err(|e| format!("{}: {e}", path.display()))
}

fn measured(
    request: &LabRequest,
    site: &Site,
    histories: Histories,
    deputies: Vec<Deputy>,
    interrupts: &Interrupts,
    found: &mut Found,
) -> Result<(), Fault> {
    let places = site.places(request).map_err(not_measured)?;
    let lab = Lab { request, site, places, deputies: RefCell::new(deputies), interrupts };
    if let Some(history) = histories.kept {
        if history.base.node(DEVICE).is_some() != request.like.is_device {
            let like = request.like.name;
            return Err(not_measured(format!("what was kept is not for --like {like}")));
        }
        return lab.search(history, found);
    }
    let own = own_program().map_err(not_measured)?;
    let probe = [own.into(), "ack".into(), "--probe".into(), "probe".into()];
    let ack_file = site.scratch.path().join("acks");
    let run = RunRequest {
        layout: request.layout,
        size: request.size,
        setup: request.setup.as_deref(),
        command: &request.command,
        probe: Some(&probe),
        env: &[],
        volume: &site.volume,
        ack_file: &ack_file,
        of_device: request.like.is_device,
    };
    let run = run::run(&run, lab.deputy().map_err(not_measured)?).map_err(not_measured)?;
    if let Some(new) = histories.new {
        keep_history(new, &run.command, &site.volume).map_err(not_measured)?;
    }
    let broken = |why| (Verdict::HarnessBroken, why);
    let history = run.probe.ok_or_else(|| broken("the probe left no history".into()))?;
    probe::verify(history, request.like, &lab.places[0]).map_err(broken)?;
    lab.search(run.command, found)
}

impl Lab<'_> {
    /// Who calls into the next mount.
    fn deputy(&self) -> Result<Deputy, String> {
        self.deputies.borrow_mut().pop().ok_or_else(|| "there are no more mounts".into())
    }

    /// What the check says of a state.
    fn check(&self, trial: &Trial) -> Result<Outcome, Fault> {
        self.places[0].check(trial, &self.request.check).map_err(not_measured)
    }

    /// Searches the states of a history.
    fn search(&self, history: History, found: &mut Found) -> Result<(), Fault> {
        let request = self.request;
        let space = Space::of(history, request.like);
        found.counts = Counts::of(&space.history, space.len().into());
        let search = Search::new(space, request.budget);
        let space = search.space();
        let end = space.whole(space.len());
        let intact = search.trial(end).ok_or_else(|| not_measured("the run has no end".into()))?;
        if let Outcome::Failed { how, said } = self.check(&intact)? {
            let said = said.trim();
            let said =
                if said.is_empty() { String::new() } else { format!(", after it said: {said}") };
            let why = format!("the check fails although no power failed: {how}{said}");
            return Err(not_measured(why));
        }
        let nothing = Tree::new(twin_crashlab::root_of(0, 0));
        let empty = self.places[0].check_tree(&nothing, &intact.acked, &request.check);
        found.sees_loss = Some(empty.map_err(not_measured)? != Outcome::Passed);
        let search = match &request.at {
            None => search,
            Some(at) => {
                let history = search.space().history.until(at);
                let space = Space::of(history.map_err(not_measured)?, request.like);
                let mut search = Search::new(space, request.budget);
                search.only_at_the_end();
                search
            }
        };
        if let Some((state, after)) = &request.state {
            return self.one(&search, state, after.as_ref(), found);
        }
        let search = self.tried(search, request.seconds)?;
        found.findings = search.findings();
        found.classes = self.explained(&search);
        match request.twice {
            true => self.second(&search, &Lab::for_second(&search), found),
            false => Ok(()),
        }
    }

    /// Checks one state, or one after a second failure in it.
    fn one(
        &self,
        search: &Search,
        state: &State,
        after: Option<&State>,
        found: &mut Found,
    ) -> Result<(), Fault> {
        let none = |state: &State| not_measured(format!("this run has no state {state}"));
        let trial = search.trial(state.clone()).ok_or_else(|| none(state))?;
        found.findings.tried = 1;
        let Some(after) = after else {
            let outcome = self.check(&trial)?;
            if outcome != Outcome::Passed {
                found.findings.failed = 1;
                found.classes = vec![search.class_of(&trial, outcome)];
            }
            return Ok(());
        };
        let history = self.recovery(&trial).map_err(not_measured)?;
        let history = history.ok_or_else(|| {
            not_measured(format!("the check changes nothing in the state {state}"))
        })?;
        let second = Search::new(Space::of(history, self.request.like), self.request.budget);
        let trial = second.trial(after.clone()).ok_or_else(|| none(after))?;
        let outcome = self.check(&trial)?;
        let failed = u64::from(outcome != Outcome::Passed);
        found.second = Some(Second { recoveries: 1, changing: 1, tried: 1, failed });
        if failed > 0 {
            found.classes =
                vec![Class { after: Some(state.clone()), ..second.class_of(&trial, outcome) }];
        }
        Ok(())
    }

    /// Checks states until there is none left, or no time.
    fn tried(&self, search: Search, seconds: f64) -> Result<Search, Fault> {
        let clock = real_clock();
        let shared = Mutex::new(search);
        let locked = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (interrupts, request, places) = (self.interrupts, self.request, &self.places);
        let work = |place: &Place| -> Result<(), String> {
            while interrupts.check().is_ok() {
                if clock() > seconds {
                    locked().cut(format!("{seconds:.0} s were allowed"));
                    break;
                }
                let Some(trial) = locked().next_trial() else { break };
                let outcome = place.check(&trial, &request.check)?;
                let mut search = locked();
                search.judge(trial, outcome);
                (request.progress)(search.tried(), request.budget.states);
            }
            Ok(())
        };
        let ended: Result<Vec<()>, String> = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> =
                places.iter().map(|place| scope.spawn(move || work(place))).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|ended| ended.unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
        });
        ended.map_err(not_measured)?;
        Ok(shared.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is wrong with the states that failed.
    fn explained(&self, search: &Search) -> Vec<Class> {
        let mut shrink = |trial: &Trial| match self.interrupts.check() {
            Ok(()) => self.check(trial).unwrap_or(Outcome::Passed),
            Err(_) => Outcome::Passed,
        };
        search.classes(SHRINKING, &mut shrink)
    }
}

/// Adds a label to what is acknowledged, for a program that the lab runs.
///
/// # Errors
/// If there is no lab, or its file cannot be written.
pub fn acknowledge(label: &str) -> Result<(), String> {
    let file = std::env::var_os(ACK_FILE).ok_or_else(|| {
        format!("${ACK_FILE} is not set: `twinfs ack` is for programs that `twinfs crashlab` runs")
    })?;
    acknowledge_in(Path::new(&file), label)
}

fn acknowledge_in(file: &Path, line: &str) -> Result<(), String> {
    use std::io::Write;
    if line.contains('\n') || line.is_empty() {
        return Err("a label is one line that is not empty".into());
    }
    let in_file = |e: std::io::Error| format!("{}: {e}", file.display());
    let mut open = std::fs::File::options().append(true).open(file).map_err(in_file)?;
    // One call, so that labels of several programs do not mix.
    open.write_all(format!("{line}\n").as_bytes()).map_err(in_file)
}

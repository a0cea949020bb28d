//! The crash lab in tests: does what was acknowledged survive a power failure?
//!
//! ```no_run
//! use std::fs::{self, File};
//! use twinfs_crashlab::CrashLab;
//!
//! # fn main() -> Result<(), twinfs_crashlab::Error> {
//! let volume = CrashLab::default().volume()?;
//! fs::write(volume.path().join("f"), "old").unwrap();
//! File::open(volume.path().join("f")).and_then(|file| file.sync_all()).unwrap();
//! volume.ack("old")?;
//! volume.end()?.check(|state| {
//!     if state.acked().iter().any(|label| label == "old") {
//!         assert_eq!(fs::read_to_string(state.path().join("f")).unwrap(), "old");
//!     }
//! })
//! # }
//! ```
//!
//! [`CrashLab`] says what volume is wanted, [`Volume`] is the volume while the program under test works on it, and
//! [`States`] is what power failures could have left of it. The words are those of the package for Python; the lab itself
//! is the program `twinfs` ([`CrashLab::program`]), which a session on a socket drives. It needs Linux with
//! /dev/fuse. `docs/crashlab.md` explains models and states.
//!
//! The crate uses none of twinfs's own, so that a test suite that depends on it builds nothing of them.

mod report;
mod session;

use std::ffi::OsString;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::Value;

use report::explained;
use session::Session;

/// What went wrong.
#[derive(Debug)]
pub enum Error {
    /// The lab cannot do what it should, or is broken. Why.
    Lab(String),
    /// States failed their check. What was lost, for people.
    Lost(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Lab(why) => write!(f, "crash lab: {why}"),
            Error::Lost(what) => write!(f, "a power failure loses what was acknowledged\n{what}"),
        }
    }
}

impl std::error::Error for Error {}

/// A result of the lab.
pub type Result<T> = std::result::Result<T, Error>;

/// What volume is wanted. The default is a log of 256 MiB whose power failures are those of ext4, of which at most
/// 2,000 states are looked at.
#[derive(Clone, Debug)]
pub struct CrashLab {
    program: OsString,
    like: String,
    layout: String,
    size: String,
    seed: u64,
    limit: u64,
}

impl Default for CrashLab {
    fn default() -> CrashLab {
        CrashLab {
            program: std::env::var_os("TWINFS").unwrap_or_else(|| "twinfs".into()),
            like: "ext4".into(),
            layout: "lfs".into(),
            size: "256M".into(),
            seed: 1,
            limit: 2000,
        }
    }
}

impl CrashLab {
    /// The program `twinfs`. Without this call it is what the variable `TWINFS` names, or found in `PATH`.
    pub fn program(mut self, program: impl Into<OsString>) -> CrashLab {
        self.program = program.into();
        self
    }

    /// Whose power failures: `ext4`, `xfs`, `posix`, or `strict`, which is what the layout itself keeps.
    pub fn like(mut self, model: &str) -> CrashLab {
        self.like = model.into();
        self
    }

    /// The layout of the volume: `lfs`, `ffs` or `vsfs`.
    pub fn layout(mut self, layout: &str) -> CrashLab {
        self.layout = layout.into();
        self
    }

    /// The size of the volume, as `64M`.
    pub fn size(mut self, size: &str) -> CrashLab {
        self.size = size.into();
        self
    }

    /// The seed of what the lab draws.
    pub fn seed(mut self, seed: u64) -> CrashLab {
        self.seed = seed;
        self
    }

    /// The most states that are looked at.
    pub fn limit(mut self, states: u64) -> CrashLab {
        self.limit = states;
        self
    }

    /// Makes a volume and mounts it.
    ///
    /// # Errors
    ///
    /// [`Error::Lab`] if the program is not there or cannot mount.
    pub fn volume(&self) -> Result<Volume> {
        let (seed, limit) = (self.seed.to_string(), self.limit.to_string());
        let words = [
            ["--like", &self.like],
            ["--layout", &self.layout],
            ["--size", &self.size],
            ["--seed", &seed],
            ["--states", &limit],
        ];
        Ok(Volume { session: Session::begin(&self.program, words.as_flattened())? })
    }
}

/// Whether the nth call fails from now on, or each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nth {
    /// This one, counted from 1.
    Only(u64),
    /// Every one, until [`Volume::heal`].
    Every,
}

/// What a call fails with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO.
    Device,
    /// ENOSPC.
    NoSpace,
}

/// A volume that keeps every write, name and sync. Dropped before [`Volume::end`], it is unmounted and forgotten.
#[derive(Debug)]
pub struct Volume {
    session: Session,
}

impl Volume {
    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.session.volume
    }

    /// The file to which any program may add a label, a line each.
    pub fn acks(&self) -> &Path {
        &self.session.acks
    }

    /// From now on `label` is promised: states of a later failure have it in [`State::acked`].
    ///
    /// # Errors
    ///
    /// [`Error::Lab`] if the label has a line break, or the lab has gone; so with all calls below.
    pub fn ack(&self, label: &str) -> Result<()> {
        self.session.tell(&format!("ack {label}"))
    }

    /// The power fails now: what is done from now on is in no state.
    pub fn cut(&self) -> Result<()> {
        self.session.tell("cut")
    }

    /// A kind of call fails: `write`, `fsync`, `create`, `rename`, `unlink` and others (docs/crashlab.md).
    pub fn fail(&self, call: &str, nth: Nth, fault: Fault) -> Result<()> {
        let nth = match nth {
            Nth::Only(n) => n.to_string(),
            Nth::Every => "*".into(),
        };
        let fault = if fault == Fault::Device { "device" } else { "no-space" };
        self.session.tell(&format!("fail {call} {nth} {fault}"))
    }

    /// No call fails any more.
    pub fn heal(&self) -> Result<()> {
        self.session.tell("heal")
    }

    /// Unmounts the volume, and goes on to its states.
    ///
    /// # Errors
    ///
    /// [`Error::Lab`], too, if the lab does not find the loss that it plants itself.
    pub fn end(self) -> Result<States> {
        let answer = self.session.ask("end")?;
        let mut counts = answer.split(' ').skip(1).map(|word| word.parse().unwrap_or(0));
        let mut next = || counts.next().unwrap_or(0);
        let counts = Counts { operations: next(), syncs: next(), acknowledgements: next() };
        Ok(States { session: self.session, counts })
    }
}

/// What the program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Writes, names and other changes.
    pub operations: u64,
    /// Calls of fsync and fdatasync.
    pub syncs: u64,
    /// Labels.
    pub acknowledgements: u64,
}

/// The states that power failures could have left, one at a time.
#[derive(Debug)]
pub struct States {
    session: Session,
    counts: Counts,
}

impl States {
    /// What the program did.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Begins anew with the states of one moment alone: after `"100"` operations, before `"fsync 12"`, or at the `"end"`.
    pub fn at(&mut self, moment: &str) -> Result<()> {
        self.session.tell(&format!("at {moment}"))
    }

    /// The next state; none when all have been looked at. Its files are there until the next call.
    #[allow(
        clippy::should_implement_trait,
        reason = "a state lasts until the next one, and it can fail"
    )]
    pub fn next(&mut self) -> Result<Option<State<'_>>> {
        let answer = self.session.ask("next")?;
        if answer == "none" { Ok(None) } else { State::of(&self.session, &answer).map(Some) }
    }

    /// The state of this name, as a report has it: `15-14` is the first 15 writes and names without number 14.
    pub fn state(&mut self, name: &str) -> Result<State<'_>> {
        let answer = self.session.ask(&format!("state {name}"))?;
        State::of(&self.session, &answer)
    }

    /// Runs a check in every state. A state in which it panics, as `assert!` does, has failed.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] with the classes of what failed, each with what is missing and the operations before it.
    pub fn check(&mut self, mut check: impl FnMut(&State<'_>)) -> Result<()> {
        let mut failed = 0u64;
        while let Some(state) = self.next()? {
            match catch_unwind(AssertUnwindSafe(|| check(&state))) {
                Ok(()) => state.passed()?,
                Err(panic) => {
                    failed += 1;
                    let words = panic.downcast_ref::<&str>().map(|words| words.to_string());
                    let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
                    state.failed(&words.unwrap_or_else(|| "panicked".into()))?;
                }
            }
        }
        if failed == 0 { Ok(()) } else { Err(Error::Lost(explained(&self.report()?))) }
    }

    /// What was found: the members are those of `twinfs crashlab --json`.
    pub fn report(&self) -> Result<Value> {
        self.session.report()
    }
}

/// What a power failure could have left. The files may be changed: the next state begins anew.
#[derive(Debug)]
pub struct State<'a> {
    session: &'a Session,
    name: String,
    acked: Vec<String>,
}

impl State<'_> {
    fn of<'a>(session: &'a Session, answer: &str) -> Result<State<'a>> {
        let mut words = answer.splitn(3, ' ').skip(1);
        let (Some(name), Some(file)) = (words.next(), words.next()) else {
            return Err(Error::Lab(format!("the lab answers {answer:?}")));
        };
        let labels = std::fs::read_to_string(file);
        let labels = labels.map_err(|error| Error::Lab(format!("{file}: {error}")))?;
        Ok(State { session, name: name.into(), acked: labels.lines().map(String::from).collect() })
    }

    /// By what name a report and [`States::state`] have it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its files are: where the volume was.
    pub fn path(&self) -> &Path {
        &self.session.volume
    }

    /// The labels that were acknowledged before the failure; without acknowledgements, the fsyncs.
    pub fn acked(&self) -> &[String] {
        &self.acked
    }

    /// All is there.
    pub fn passed(self) -> Result<()> {
        self.session.tell("passed")
    }

    /// Something is missing or wrong.
    pub fn failed(self, why: &str) -> Result<()> {
        let why: String = why.split_whitespace().collect::<Vec<_>>().join(" ");
        self.session.tell(&format!("failed {}", why.chars().take(500).collect::<String>()))
    }
}

/// Whether volumes can be mounted here.
pub fn is_possible() -> bool {
    PathBuf::from("/dev/fuse").exists()
}

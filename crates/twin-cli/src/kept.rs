//! What a long command has found so far: shown if it is interrupted, and kept for the same command with `--resume`.
//!
//! Contract: parts have numbers and come in any order. An interrupt prints the answer of those that have ended, marked
//! as partial, and writes them to a file of the user's state; nothing is written otherwise, and a command that went on
//! to its end removes the file. The file is that of one command line of one program: changed arguments or another
//! program have another file, so that what is taken up is never of other work. The answer is printed once, by
//! the command or by the interrupt.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use twin_host::{Interrupts, Undoing};
use twin_report::Report;

use crate::call::Call;
use crate::printing::Printer;
use crate::progress::Progress;

/// A part that can be written to a file and read again, without a difference; by default one that has to be
/// found again.
pub trait Keep: Sized {
    /// As a value; `None` if it has to be found again.
    fn keep(&self) -> Option<Value> {
        None
    }

    /// From a value; `None` if it is none of this kind.
    fn of(_: &Value) -> Option<Self> {
        None
    }
}

/// A part that has ended and is not kept: the same command finds it again.
#[derive(Clone, Debug)]
pub struct Ended<T>(pub T);

impl<T> Keep for Ended<T> {}

/// Where parts are kept for the same command.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

impl Place {
    /// The place of this process's command with its arguments, but those that change only how its answer is shown,
    /// and with the files that it reads.
    pub fn of_this(command: &str, files: &[PathBuf]) -> Place {
        let mut words = Vec::new();
        let of_process = || std::env::args().skip(1).collect();
        let all = Call::current().map_or_else(of_process, |call| call.arguments.clone());
        let mut all = all.into_iter();
        while let Some(word) = all.next() {
            match word.as_str() {
                "--format" | "--html" | "--parquet" => drop(all.next()),
                "--resume" | "--json" => {}
                shown
                    if ["--format=", "--html=", "--parquet="]
                        .iter()
                        .any(|option| shown.starts_with(option)) => {}
                _ => words.push(word),
            }
        }
        let met = |path: &PathBuf| {
            std::fs::metadata(path).ok().map(|meta| (meta.len(), meta.modified().ok()))
        };
        Place::of(command, &format!("{words:?} {:?}", files.iter().map(met).collect::<Vec<_>>()))
    }

    /// The place of a command with these arguments, in words: those that change what is found.
    fn of(command: &str, arguments: &str) -> Place {
        let program = twin_host::own_code().ok().and_then(|code| std::fs::metadata(code).ok());
        let program = program.map(|meta| (meta.len(), meta.modified().ok()));
        let mut hasher = DefaultHasher::new();
        (env!("CARGO_PKG_VERSION"), arguments, format!("{program:?}")).hash(&mut hasher);
        let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(|| {
            Some(PathBuf::from(std::env::var_os("HOME")?).join(".local").join("state"))
        });
        let dir = base.unwrap_or_else(std::env::temp_dir).join("twinfs");
        Place(dir.join(format!("{command}-{:016x}.json", hasher.finish())))
    }

    /// The parts that an interrupted command has left.
    ///
    /// # Errors
    /// If there are none.
    pub fn parts<T: Keep>(&self) -> Result<BTreeMap<usize, T>, String> {
        let none = "no interrupted command had these arguments: there is nothing to resume";
        let text = std::fs::read_to_string(&self.0).map_err(|_| none.to_owned())?;
        let all: Vec<(usize, Value)> = serde_json::from_str(&text)
            .map_err(|error| format!("{}: {error}", self.0.display()))?;
        Ok(all.iter().filter_map(|(at, value)| Some((*at, T::of(value)?))).collect())
    }

    fn keep<T: Keep>(&self, parts: &BTreeMap<usize, T>) -> std::io::Result<()> {
        let all: Vec<Value> =
            parts.iter().filter_map(|(at, part)| Some(json!([at, part.keep()?]))).collect();
        if let Some(dir) = self.0.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(&self.0, Value::from(all).to_string())
    }

    /// Forgets the parts.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Shared<T> {
    parts: BTreeMap<usize, T>,
    /// Who prints; taken by the one that does.
    printer: Option<Printer>,
}

/// What has ended so far.
pub struct SoFar<T> {
    shared: Arc<Mutex<Shared<T>>>,
    place: Option<Place>,
    interrupts: Interrupts,
    /// Prints what there is, unless that has been done.
    partial: Arc<dyn Fn() + Send + Sync>,
    _undoing: Undoing,
}

fn locked<T>(shared: &Mutex<Shared<T>>) -> MutexGuard<'_, Shared<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Keep + Send + 'static> SoFar<T> {
    /// Of `all` parts these are known. An interrupt ends the bar and prints the report on those that have ended
    /// by then; with a place they are kept there.
    pub fn new(
        (printer, bar): (Printer, &Progress),
        interrupts: &Interrupts,
        (known, all): (BTreeMap<usize, T>, usize),
        place: Option<Place>,
        report: impl Fn(&BTreeMap<usize, T>) -> Report + Send + Sync + 'static,
    ) -> SoFar<T> {
        let shared = Arc::new(Mutex::new(Shared { parts: known, printer: Some(printer) }));
        let (of_interrupt, bar, to) = (Arc::clone(&shared), bar.clone(), place.clone());
        let partial: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            let mut shared = locked(&of_interrupt);
            let Some(mut printer) = shared.printer.take() else { return };
            // A page that is not complete is no page.
            printer.drop_page();
            bar.finish();
            let ended = shared.parts.len();
            let mut report = report(&shared.parts);
            let kept = to.as_ref().filter(|_| ended > 0).map(|place| place.keep(&shared.parts));
            let on = match kept {
                Some(Ok(())) => " The same command with --resume goes on from here.".to_owned(),
                Some(Err(error)) => format!(" They could not be kept: {error}."),
                None => String::new(),
            };
            report.mark_partial(format!("interrupted after {ended} of {all} runs.{on}"));
            if let Err(why) = printer.print(&report) {
                twin_host::note!("twinfs: {why}");
            }
        });
        let again = Arc::clone(&partial);
        let undoing = interrupts.undo(move || again());
        SoFar { shared, place, interrupts: interrupts.clone(), partial, _undoing: undoing }
    }

    /// A part has ended.
    pub fn add(&self, at: usize, part: T) {
        locked(&self.shared).parts.insert(at, part);
    }

    /// Ends it: who prints the whole answer. `None` after an interrupt, when the part has been printed.
    pub fn end(self) -> Option<Printer> {
        // What an interrupt has ended early is not the whole answer.
        if self.interrupts.check().is_err() {
            (self.partial)();
            return None;
        }
        let printer = locked(&self.shared).printer.take();
        if let (Some(_), Some(place)) = (&printer, &self.place) {
            place.forget();
        }
        printer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keep for u64 {
        fn keep(&self) -> Option<Value> {
            (*self > 0).then(|| (*self).into())
        }

        fn of(value: &Value) -> Option<u64> {
            value.as_u64()
        }
    }

    #[test]
    fn parts_are_read_as_they_were_kept_and_other_arguments_have_others() {
        let dir = std::env::temp_dir().join(format!("twinfs-kept-{}", std::process::id()));
        let place = Place(dir.join("a/frontier-1.json"));
        assert!(place.parts::<u64>().unwrap_err().contains("nothing to resume"));
        place.keep(&BTreeMap::from([(3, u64::MAX), (1, 7), (2, 0)])).unwrap();
        assert_eq!(place.parts::<u64>().unwrap(), BTreeMap::from([(1, 7), (3, u64::MAX)]));
        place.forget();
        assert!(place.parts::<u64>().is_err());
        std::fs::remove_dir_all(dir).unwrap();
        let [one, other] = ["a", "b"].map(|words| Place::of("frontier", words).0);
        assert!(one != other && one == Place::of("frontier", "a").0);
    }
}

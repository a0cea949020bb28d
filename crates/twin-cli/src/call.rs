//! A command that a program calls, in place of a person at a terminal.
//!
//! Contract: what the thread of a call prints goes to the call alone: its reports as values, lines and notes as text.
//! Nothing is read from the process (its arguments, its program), and nothing ends it: an interrupt is a method. How
//! far it is can be seen from any thread. Several calls may go on at the same time, each on a thread of its own.

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::ProgressBar;
use twin_host::Interrupts;
use twin_report::Report;

use crate::outcome::{Failure, Outcome};

thread_local! {
    // A parameter of everything that prints would say the same; a thread carries out one command.
    static CALL: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

/// What a call has said so far.
#[derive(Debug, Default)]
pub struct Said {
    /// What was found.
    pub reports: Vec<Report>,
    /// Standard output beside it, in lines.
    pub text: String,
    /// Standard error, in lines.
    pub notes: Vec<String>,
    /// Events of runs (`--log`), in lines.
    pub events: Vec<String>,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Far {
    /// What is counted, such as "operations simulated".
    pub what: &'static str,
    /// How much is done.
    pub done: u64,
    /// Of how much, if that is known.
    pub all: Option<u64>,
}

/// A call of a command.
pub struct Call {
    /// Its command line without the program.
    pub arguments: Vec<String>,
    interrupts: Interrupts,
    said: Mutex<Said>,
    /// What is under way; the last is shown.
    bars: Mutex<Vec<(&'static str, ProgressBar)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Call {
    /// A call that has not begun.
    pub fn new(arguments: Vec<String>) -> Arc<Call> {
        let (said, bars) = Default::default();
        Arc::new(Call { arguments, interrupts: Interrupts::default(), said, bars })
    }

    /// The call that this thread carries out.
    pub fn current() -> Option<Arc<Call>> {
        CALL.with_borrow(Clone::clone)
    }

    /// Carries out a command on this thread.
    ///
    /// # Errors
    /// Those of the command; after an interrupt, that it was interrupted.
    pub fn carry_out(
        self: &Arc<Self>,
        command: impl FnOnce(&Interrupts) -> Outcome,
    ) -> Result<ExitCode, Failure> {
        /// Restores what was there, also after a panic.
        struct Before(Option<Arc<Call>>);
        impl Drop for Before {
            fn drop(&mut self) {
                CALL.set(self.0.take());
            }
        }
        let _before = Before(CALL.replace(Some(Arc::clone(self))));
        let hearer = Arc::clone(self);
        let note = move |line: &str| locked(&hearer.said).notes.push(line.to_owned());
        let outcome = twin_host::heard(Arc::new(note), || command(&self.interrupts));
        // What failed after an interrupt failed because of it.
        match self.interrupts.status() {
            Some(status) => Err(Failure { why: "interrupted".into(), status }),
            None => outcome,
        }
    }

    /// Interrupts it, from another thread: what it has found is reported as partial.
    pub fn interrupt(&self) {
        self.interrupts.interrupt();
    }

    /// The flag that an interrupt sets.
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.interrupts.stop()
    }

    /// An event of a run, from whatever thread.
    pub fn event(&self, line: &str) {
        locked(&self.said).events.push(line.to_owned());
    }

    /// What it said since the last time.
    pub fn said(&self) -> Said {
        std::mem::take(&mut *locked(&self.said))
    }

    /// How far it is, if something is counted.
    pub fn far(&self) -> Option<Far> {
        let mut bars = locked(&self.bars);
        bars.retain(|(_, bar)| !bar.is_finished());
        let (what, bar) = bars.last()?;
        Some(Far { what, done: bar.position(), all: bar.length().filter(|&all| all > 0) })
    }

    pub(crate) fn report(&self, report: &Report) {
        locked(&self.said).reports.push(report.clone());
    }

    pub(crate) fn line(&self, text: &str) {
        let text_so_far = &mut locked(&self.said).text;
        text_so_far.push_str(text);
        text_so_far.push('\n');
    }

    pub(crate) fn begin(&self, what: &'static str, bar: ProgressBar) {
        locked(&self.bars).push((what, bar));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Arc<Call> {
        Call::new(vec!["compare".into()])
    }

    #[test]
    fn an_interrupt_is_the_end_of_a_call_and_not_of_the_process() {
        let call = call();
        let undone = Arc::new(Mutex::new(false));
        let outcome = call.carry_out(|interrupts| {
            let undone = Arc::clone(&undone);
            let _undoing = interrupts.undo(move || *undone.lock().unwrap() = true);
            call.interrupt();
            interrupts.check()?;
            Ok(ExitCode::SUCCESS)
        });
        assert_eq!(outcome.unwrap_err().status, 130);
        assert!(*undone.lock().unwrap());
    }
}

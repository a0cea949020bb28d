//! Calls of commands from Python.
//!
//! Contract: the command works on a thread that holds nothing of Python's, while the caller's thread looks for Ctrl-C
//! and says how far it is, about twenty times a second. An interrupt ends the command within about a second: what it
//! has found by then are its reports. A run that does not hear of the interrupt is left to itself.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use twin_cli::{Failure, Reproduce, status_of};
use twin_host::Interrupts;

use crate::policy;
use crate::report::Report;

/// How often Ctrl-C and progress are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long an interrupted command has to end.
const GRACE: Duration = Duration::from_secs(1);
/// The stack of a command's thread, that of a process's first one.
const STACK: usize = 8 << 20;

/// The exit status and, unless all is well, why.
type Ended = (u8, Option<String>);

/// A call of a command: its arguments without the program.
#[pyclass(frozen, module = "twinfs._twinfs")]
pub(crate) struct Call(Arc<twin_cli::Call>);

#[pymethods]
impl Call {
    #[new]
    fn new(arguments: Vec<String>) -> Call {
        Call(twin_cli::Call::new(arguments))
    }

    /// Carries the command out. `progress(what, done, all)` hears how far it is; `all` is None if that is not known.
    /// Returns the exit status and, if it failed, why.
    #[pyo3(signature = (progress = None))]
    fn run(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Ended> {
        // What an interrupted call has left behind is not this one's.
        let _ = policy::take_exception();
        let (end, ended) = channel();
        // Other threads may hold Python's lock while this one waits, but none waits with it.
        let ended = Mutex::new(ended);
        let call = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("twinfs".into()).stack_size(STACK);
        thread.spawn(move || end.send(carried_out(&call)))?;
        loop {
            match py.detach(|| wait(&ended, TICK)) {
                Ok(ended) => return policy::take_exception().map_or(Ok(ended), Err),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err(
                        "the command ended in a panic; its words are on standard error",
                    ));
                }
            }
            let told = py.check_signals().and_then(|()| self.tell(py, progress.as_ref()));
            if let Err(error) = told {
                py.detach(|| self.interrupt(&ended));
                return Err(error);
            }
        }
    }

    /// What was found, standard output beside it, the lines of standard error, and those of events, since the last
    /// time.
    fn said(&self) -> (Vec<Report>, String, Vec<String>, Vec<String>) {
        let twin_cli::Said { reports, text, notes, events } = self.0.said();
        (reports.into_iter().map(Report).collect(), text, notes, events)
    }
}

impl Call {
    fn tell(&self, py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        if let (Some(progress), Some(far)) = (progress, self.0.far()) {
            progress.call1(py, (far.what, far.done, far.all))?;
        }
        Ok(())
    }

    fn interrupt(&self, ended: &Mutex<Receiver<Ended>>) {
        self.0.interrupt();
        let _ = wait(ended, GRACE);
    }
}

fn wait(ended: &Mutex<Receiver<Ended>>, time: Duration) -> Result<Ended, RecvTimeoutError> {
    ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time)
}

/// The command that is a package of its own, and here is a part of the same module.
const REPRODUCE: &str = "reproduce";

fn carried_out(call: &Arc<twin_cli::Call>) -> Ended {
    let outcome = match call.arguments.first().map(String::as_str) {
        Some(REPRODUCE) => match Reproduce::try_parse_from(&call.arguments) {
            Ok(args) => call.carry_out(|interrupts| twin_papers::command::run(&args, interrupts)),
            Err(error) => {
                let status = u8::try_from(error.exit_code()).unwrap_or(1);
                Err(Failure { why: error.to_string(), status })
            }
        },
        _ => twinfs::call(call),
    };
    match outcome {
        Ok(code) => (status(code), None),
        Err(Failure { why, status }) => (status, Some(why)),
    }
}

/// Carries out the command line of a process.
pub(crate) fn main_with(words: Vec<String>) -> u8 {
    match words.get(1).map(String::as_str) {
        Some(REPRODUCE) => {
            let args = Reproduce::parse_from(&words[1..]);
            status_of(Interrupts::listen(), |interrupts| {
                twin_papers::command::run(&args, interrupts)
            })
        }
        _ => twinfs::main_with(words),
    }
}

/// The number of an exit code, of which commands have two; others are failures.
fn status(code: ExitCode) -> u8 {
    u8::from(code != ExitCode::SUCCESS)
}

//! Components from outside the program: what may be called how, and how a name that is a path is reached.
//!
//! A name with a `/` is the path of a module, a file that the program loads. How that is done is no business of
//! the settings: a program that can do it says so once, at its start ([`load_paths_by`]). The loader adds what it
//! found to the registry of its kind, under the path as it was written, so that a configuration that is printed can
//! be given again. Without a loader such a name is one that does not exist.
//!
//! To load a module is to run its code. So only the texts of whoever runs the program load one: its arguments, and the
//! files of settings that these name. A text in a recording or on a volume never does ([`refuse_paths`]).
//!
//! A component from outside can fail where one that is built in cannot: a hook panics, raises an exception, answers
//! what makes no sense. Its adapter then [says so](report_fault) and goes on with a plain policy in its place, so
//! that a mount loses nothing. What was being computed is void: whoever ran it asks for the
//! [fault](take_fault_of_run) at its end, and fails with the words.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::shortened;
use crate::{SettingsError, grammar};

/// Loads the module at a path and adds what it holds to the registry of its kind under the name `path`, unless it is
/// there already.
pub type Loader = fn(path: &str) -> Result<Loaded, SettingsError>;

/// A module that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The kind of what it holds, as the registry [calls](crate::Registry::what) it.
    pub kind: &'static str,
    /// A digest of what was loaded, in hexadecimal digits: two files are the same module if theirs are equal.
    pub digest: String,
}

/// The loader of the program. It is the same for the whole process, as the modules that are loaded are.
static LOADER: OnceLock<Loader> = OnceLock::new();

/// Has names that are paths loaded by this function from now on. The first loader of a program counts.
pub fn load_paths_by(loader: Loader) {
    let _ = LOADER.set(loader);
}

/// True if a name is the path of a module.
pub fn is_path(name: &str) -> bool {
    name.contains('/')
}

/// The module of this name, which is loaded if it has not been yet; `None` if the name is no path, or nothing can
/// be loaded in this program.
///
/// # Errors
/// If it cannot be loaded.
pub fn loaded(name: &str) -> Result<Option<Loaded>, SettingsError> {
    match LOADER.get() {
        Some(loader) if is_path(name) => loader(name).map(Some),
        _ => Ok(None),
    }
}

/// The first fault since the last [`forget_fault`], of all runs: a command with one is not a success.
static FAULT: Mutex<Option<String>> = Mutex::new(None);

thread_local! {
    /// The first fault of the run on this thread. Policies are made deep inside a run, which is on one thread from its
    /// beginning to its end; others beside it are none of its business.
    static OF_RUN: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn of_all() -> MutexGuard<'static, Option<String>> {
    FAULT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that a component from outside failed in the run on this thread, and why. Returns false if one has failed
/// before: the first counts.
pub fn report_fault(words: &str) -> bool {
    OF_RUN.with_borrow_mut(|of_run| of_run.get_or_insert_with(|| words.into()).len());
    let mut fault = of_all();
    let is_first = fault.is_none();
    fault.get_or_insert_with(|| words.into());
    is_first
}

/// Why a component from outside failed on this thread since the last call, if one did. Whoever carries out a run calls
/// this before it, and takes the answer behind it for the run's.
pub fn take_fault_of_run() -> Option<String> {
    OF_RUN.take()
}

/// Why a component from outside failed in any run, if one did.
pub fn fault() -> Option<String> {
    of_all().clone()
}

/// Forgets the fault: for a program that goes on after a command that failed with it.
pub fn forget_fault() {
    *of_all() = None;
}

/// Checks that settings from a recording name no module that is not loaded.
///
/// # Errors
/// If they do: the remedy is to name it oneself.
pub fn refuse_paths(settings: &str) -> Result<(), SettingsError> {
    let is_module = |value: &str| is_path(value) && value.contains(char::is_alphabetic);
    for setting in grammar::settings(settings)? {
        if is_module(setting.value) {
            return Err(SettingsError::new(format!(
                "{}={}: it was recorded with the policy of a module, and a recording has none loaded",
                setting.key,
                shortened(setting.value)
            )));
        }
    }
    Ok(())
}

/// The error that a module holds something of another kind than the one that is wanted.
pub(crate) fn wrong_kind(path: &str, kind: &str, wanted: &str) -> SettingsError {
    let path = shortened(path);
    SettingsError::new(match kind == wanted {
        true => format!("{path}: this {kind} says that it does not work here"),
        false => format!("{path} holds a {kind}, and a {wanted} is wanted here"),
    })
}

/// Checks that a name can be written in a text of settings, and is no option.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), SettingsError> {
    let fits = |letter: char| letter.is_alphanumeric() || "-_./+@~%".contains(letter);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(fits) {
        return Ok(());
    }
    Err(SettingsError::new(format!(
        "a {what} cannot be called {:?}: a name has letters, digits and -_.+ only, and no - at its beginning",
        shortened(name)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_of_the_run_on_its_thread_and_of_the_command() {
        assert_eq!((fault(), take_fault_of_run()), (None, None));
        assert!(report_fault("it broke"));
        assert!(!report_fault("it broke again"));
        assert_eq!(take_fault_of_run().as_deref(), Some("it broke"));
        assert_eq!((fault().as_deref(), take_fault_of_run()), (Some("it broke"), None));
        forget_fault();
        assert_eq!(fault(), None);
    }

    #[test]
    fn settings_of_a_recording_may_have_lists_but_no_paths() {
        assert!(refuse_paths("skews=7/25,cache=8M").is_ok());
        assert!(refuse_paths("cache=8M,victim=./a.so").is_err());
    }
}

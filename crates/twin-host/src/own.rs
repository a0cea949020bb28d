//! The program that this process is, for processes that go on with a part of its work.
//!
//! Contract: it is the file that was started, unless the program is a part of another one (an interpreter) that
//! says how it is started.

use std::path::PathBuf;
use std::sync::OnceLock;

static OWN: OnceLock<PathBuf> = OnceLock::new();

/// The file that starts this program again.
///
/// # Errors
/// If the host does not say.
pub fn own_program() -> Result<PathBuf, String> {
    match OWN.get() {
        Some(own) => Ok(own.clone()),
        None => std::env::current_exe().map_err(|error| format!("this program: {error}")),
    }
}

/// Says which file starts this program again; the first word on it counts.
pub fn set_own_program(path: PathBuf) {
    let _ = OWN.set(path);
}

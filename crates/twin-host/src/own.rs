//! The program that this process is: for processes that go on with a part of its work, and to tell builds apart.
//!
//! Contract: it is the file that was started, unless the program is a part of another one (an interpreter) that
//! says how it is started and where its code is. The file that was started then says nothing of the build: it stays
//! the same when the code changes.

use std::path::PathBuf;
use std::sync::OnceLock;

/// What starts the program, and what holds its code.
static OWN: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();

fn started() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program: {error}"))
}

/// The file that starts this program again.
///
/// # Errors
/// If the host does not say.
pub fn own_program() -> Result<PathBuf, String> {
    OWN.get().map_or_else(started, |(program, _)| Ok(program.clone()))
}

/// The file that holds this program's code: another build is another content.
///
/// # Errors
/// If the host does not say.
pub fn own_code() -> Result<PathBuf, String> {
    OWN.get().map_or_else(started, |(_, code)| Ok(code.clone()))
}

/// Says which file starts this program again, and which holds its code; the first word on it counts.
pub fn set_own_program(program: PathBuf, code: PathBuf) {
    let _ = OWN.set((program, code));
}

//! `twinfs._twinfs`: what the package for Python has in Rust.
//!
//! Contract: commands are carried out as the program does it, with the same words and figures, by calls
//! ([`call::Call`]) on threads without Python; Python's own part of the package gives them their names and
//! arguments. What a call found are [`report::Report`]s.
//!
//! `unsafe` is where a library's interface asks for it, each place with its argument.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod arrow;
mod call;
mod operations;
mod policy;
mod report;

use std::path::PathBuf;

use pyo3::prelude::*;

/// What the package `twinfs` has in Rust.
#[pymodule(gil_used = false)]
mod _twinfs {
    #[pymodule_export]
    use super::call::Call;
    #[pymodule_export]
    use super::operations::Operations;
    #[pymodule_export]
    use super::policy::add_policy;
    #[pymodule_export]
    use super::report::{Report, Rows};
    #[pymodule_export]
    use super::{main, set_program, version};
}

/// The version of the program.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Says which file starts the command line, for what needs a process of its own, and which is this module, by whose
/// content one build is told from another.
#[pyfunction]
fn set_program(path: PathBuf, code: PathBuf) {
    twin_host::set_own_program(path, code);
}

/// Carries out a command line, whose first word is the program, as a process of its own would, and returns its exit
/// status. Signals are the command's from now on.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<String>) -> u8 {
    py.detach(|| call::main_with(words))
}

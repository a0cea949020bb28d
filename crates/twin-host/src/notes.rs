//! What is said on standard error.
//!
//! Contract: whoever has closed standard error wants to know nothing, and work goes on without it, where the
//! macros of the standard library would panic.

use std::fmt;
use std::io::{self, Write};

/// Says a line on standard error, as `crate::note!` does, but without a panic where nobody listens.
#[macro_export]
macro_rules! note {
    ($($word:tt)*) => { $crate::note_line(format_args!($($word)*)) };
}

/// Says a line on standard error; [`note!`](crate::note) calls it.
pub fn note_line(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

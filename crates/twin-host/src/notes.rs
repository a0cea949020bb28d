//! What is said on standard error, and whether standard output is there.
//!
//! Contract: whoever has closed standard error wants to know nothing, and work goes on without it, where the
//! macros of the standard library would panic. Standard output that was closed before the program began is told
//! from one that leads nowhere: results would be lost without a word.
#![allow(unsafe_code)] // A function that the loader calls before the runtime begins.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Says a line on standard error, as `crate::note!` does, but without a panic where nobody listens.
#[macro_export]
macro_rules! note {
    ($($word:tt)*) => { $crate::note_line(format_args!($($word)*)) };
}

/// Says a line on standard error; [`note!`](crate::note) calls it.
pub fn note_line(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// True if standard output was closed when the program began. The runtime opens `/dev/null` in its place, so
/// that writing to it succeeds.
pub fn standard_output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: F_GETFD reads a flag of a descriptor, which may be none, and touches no memory.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
    OUTPUT_WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// The loader calls what stands in this section before `main`, and before the runtime opens descriptors.
// SAFETY: the section holds pointers to functions of this type, and this one needs nothing of the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

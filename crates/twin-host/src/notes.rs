//! What is said on standard error.
//!
//! Contract: whoever has closed standard error wants to know nothing, and work goes on without it, where the
//! macros of the standard library would panic. A program that calls a command hears what its thread says
//! itself: nothing of it reaches standard error.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

/// Who hears lines in place of standard error.
pub type Hearer = Arc<dyn Fn(&str) + Send + Sync>;

thread_local! {
    // Of a thread, not of the process: several threads of a program may each carry out a command.
    static HEARER: RefCell<Option<Hearer>> = const { RefCell::new(None) };
}

/// Says a line on standard error, as `std::eprintln!` does, but without a panic where nobody listens.
#[macro_export]
macro_rules! note {
    ($($word:tt)*) => { $crate::note_line(format_args!($($word)*)) };
}

/// Says a line on standard error, or to whom this thread is [`heard`] by; [`note!`](crate::note) calls it.
pub fn note_line(line: fmt::Arguments<'_>) {
    match HEARER.with_borrow(Clone::clone) {
        Some(hearer) => hearer(&line.to_string()),
        None => drop(writeln!(io::stderr().lock(), "{line}")),
    }
}

/// Does work whose lines on standard error, as far as this thread says them, go to `hearer`.
pub fn heard<T>(hearer: Hearer, work: impl FnOnce() -> T) -> T {
    /// Restores what was there, also after a panic.
    struct Before(Option<Hearer>);
    impl Drop for Before {
        fn drop(&mut self) {
            HEARER.set(self.0.take());
        }
    }
    let _before = Before(HEARER.replace(Some(hearer)));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn lines_of_a_thread_go_to_its_hearer_while_it_works() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&lines);
        let hearer: Hearer = Arc::new(move |line| to.lock().unwrap().push(line.to_owned()));
        let made = heard(hearer, || {
            crate::note!("disk {}", 7);
            3
        });
        crate::note!("to standard error");
        assert_eq!((made, lines.lock().unwrap().join("|")), (3, "disk 7".into()));
    }
}

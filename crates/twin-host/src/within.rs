//! Work with a time limit.
// This file starts a thread and reads the clock.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The work was not done in time; the value is its last progress message.
#[derive(Debug, PartialEq, Eq)]
pub struct Late(pub Option<String>);

enum Word<T> {
    At(String),
    Done(T),
}

/// Runs work on a thread of its own, and returns its result if it comes in time. The work may
/// report its progress. Work that is late continues until the process ends.
///
/// # Errors
/// If the work is late.
pub fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&dyn Fn(String)) -> T + Send + 'static,
) -> Result<T, Late> {
    let (sender, words) = mpsc::channel();
    thread::spawn(move || {
        let tell = sender.clone();
        let result = work(&|at| drop(tell.send(Word::At(at))));
        let _ = sender.send(Word::Done(result));
    });
    let end = Instant::now() + limit;
    let mut last = None;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match words.recv_timeout(left) {
            Ok(Word::Done(result)) => return Ok(result),
            Ok(Word::At(at)) => last = Some(at),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(Late(last));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_has_said_what_it_is_at() {
        assert_eq!(within(Duration::from_secs(60), |_| 7), Ok(7));
        let late = within(Duration::from_secs(5), |tell| {
            tell("the first".into());
            tell("the second".into());
            thread::sleep(Duration::from_secs(600));
        });
        assert_eq!(late, Err(Late(Some("the second".into()))));
    }
}

//! Lines of a text, numbered from 1. A line of more than 64 KiB is refused, so that no input can
//! request much memory.

use std::borrow::Cow;
use std::io::{BufRead, Read};

use crate::error::{Place, Problem, TraceError};

const MAX_LINE: u64 = 64 << 10;
/// The mark that some programs put before a text in UTF-8. It is no part of the first line.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text that is read line by line.
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    longest: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Lines<R> {
        Lines::with_longest(input, MAX_LINE)
    }

    /// Reads lines of at most `longest` bytes.
    pub(crate) fn with_longest(input: R, longest: u64) -> Lines<R> {
        Lines { input, line: Vec::new(), number: 0, longest }
    }

    /// The number of the current line.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// An error in the current line.
    pub(crate) fn error(&self, why: impl Into<String>) -> TraceError {
        TraceError::line(self.number, why)
    }

    /// Goes to the next line; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        self.number += 1;
        let place = Place::Line(self.number);
        let got = (&mut self.input).take(self.longest).read_until(b'\n', &mut self.line);
        let got = got.map_err(|error| TraceError { place, problem: Problem::Io(error) })?;
        if got as u64 == self.longest && self.line.last() != Some(&b'\n') {
            return Err(self.error(format!("the line is longer than {} bytes", self.longest)));
        }
        while matches!(self.line.last(), Some(b'\n' | b'\r')) {
            self.line.pop();
        }
        if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(got > 0)
    }

    /// The current line, without its end; what is not UTF-8 in it is replaced.
    pub(crate) fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.line)
    }

    /// The current line, without its end.
    pub(crate) fn text(&self) -> Result<&str, TraceError> {
        std::str::from_utf8(&self.line).map_err(|_| self.error("the line is not UTF-8"))
    }
}

//! What a reader made of its input: what it used, what it left out and why, and what it assumed.
//!
//! Contract: a plain value, which a reader fills while it reads and which is complete at the end of its
//! input. Nothing is printed here. Every line of an input is *used* (something in the workload comes from
//! it), *passed* (by the format's own rules it holds nothing: names of columns, blank lines, comments), or
//! *left out* with a reason. What the format defines is no assumption; what it leaves open, or lacks, is.
//! Reasons and assumptions are bounded in number, whatever the input.

use std::fmt::Write;

/// The most different reasons, and the most assumptions, that are kept apart.
const MOST: usize = 32;
/// The longest reason or assumption, in bytes.
const LONGEST: usize = 200;
/// The reason that stands for all reasons beyond the bound.
const OTHERS: &str = "for other reasons";

/// The report of a reader on its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The counted unit as a singular noun: `line`, `record` or `packet`.
    pub unit: &'static str,
    used: u64,
    passed: u64,
    left_out: Vec<LeftOut>,
    assumed: Vec<Assumed>,
}

/// Lines that were left out for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The reason, such that "3 lines left out: ..." can stand before it.
    pub why: String,
    /// Number of lines that were left out.
    pub count: u64,
    /// The number of the first of them, from 1 on; 0 where it is not known.
    pub first: u64,
}

/// Something that a reader had to assume because the format does not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// The assumption, as a sentence without a full stop, or as what `count` counts.
    pub what: String,
    /// How often it was needed, where that is counted.
    pub count: Option<u64>,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading::of("line")
    }
}

impl Reading {
    /// An empty report on an input that is counted in these units.
    pub fn of(unit: &'static str) -> Reading {
        Reading { unit, used: 0, passed: 0, left_out: Vec::new(), assumed: Vec::new() }
    }

    /// Counts a line that was used.
    pub fn use_one(&mut self) {
        self.used += 1;
    }

    /// Counts lines that were used.
    pub fn use_many(&mut self, count: u64) {
        self.used += count;
    }

    /// Counts a line that holds nothing by the format's own rules.
    pub fn pass_one(&mut self) {
        self.passed += 1;
    }

    /// Counts a line that was left out, by its number from 1 on.
    pub fn leave_out(&mut self, line: u64, why: &str) {
        self.leave_out_many(1, line, why);
    }

    /// Counts lines that were left out, with the number of the first of them, 0 if it is not known.
    pub fn leave_out_many(&mut self, count: u64, first: u64, why: &str) {
        if count == 0 {
            return;
        }
        let why = cut(why);
        let is_new = !self.left_out.iter().any(|known| known.why == why);
        let why = if is_new && self.left_out.len() >= MOST { OTHERS } else { why };
        match self.left_out.iter_mut().find(|known| known.why == why) {
            Some(known) => {
                known.count += count;
                // An unknown number stays unknown: the earlier one may be it.
                known.first = known.first.min(first);
            }
            None => self.left_out.push(LeftOut { why: why.to_owned(), count, first }),
        }
    }

    /// States an assumption; a second time changes nothing.
    pub fn assume(&mut self, what: &str) {
        let what = cut(what);
        let is_new = !self.assumed.iter().any(|known| known.what == what);
        if is_new && self.assumed.len() < MOST {
            self.assumed.push(Assumed { what: what.to_owned(), count: None });
        }
    }

    /// Counts what an assumption was needed for, such as files that existed before.
    pub fn assume_of(&mut self, count: u64, what: &str) {
        let what = cut(what);
        match self.assumed.iter().position(|known| known.what == what) {
            Some(at) => {
                let known = &mut self.assumed[at];
                known.count = Some(known.count.unwrap_or(0) + count);
            }
            None if count > 0 && self.assumed.len() < MOST => {
                self.assumed.push(Assumed { what: what.to_owned(), count: Some(count) });
            }
            None => {}
        }
    }

    /// The lines that were used.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The lines that hold nothing by the format's own rules.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// The lines that were left out, by reason, in the order of their first.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// All lines that were left out.
    pub fn left_out_count(&self) -> u64 {
        self.left_out.iter().map(|left_out| left_out.count).sum()
    }

    /// Everything that the reader had to assume.
    pub fn assumed(&self) -> &[Assumed] {
        &self.assumed
    }

    /// True if something was left out or assumed.
    pub fn has_something_to_say(&self) -> bool {
        !self.left_out.is_empty() || !self.assumed.is_empty()
    }

    /// The report for people: a line for what was left out, and one for what was assumed.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.left_out.is_empty() {
            let (unit, left) = (self.unit, self.left_out_count());
            let all = self.used + left;
            let mut note = format!("{left} of {all} {unit}s left out:");
            for (at, LeftOut { why, count, first }) in self.left_out.iter().enumerate() {
                let comma = if at == 0 { "" } else { ";" };
                let _ = write!(note, "{comma} {count} {why}");
                if *first > 0 {
                    let _ = write!(note, " (first in {unit} {first})");
                }
            }
            notes.push(note);
        }
        if !self.assumed.is_empty() {
            let said: Vec<String> = self.assumed.iter().map(Assumed::to_string).collect();
            notes.push(format!("assumed: {}", said.join("; ")));
        }
        notes
    }
}

impl std::fmt::Display for Assumed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.count {
            Some(count) => write!(f, "{count} {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// A text of bounded length.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_with_their_first_line() {
        let mut reading = Reading::default();
        reading.use_one();
        reading.leave_out(9, "with a wait");
        reading.leave_out(3, "with a flush");
        reading.leave_out(12, "with a wait");
        reading.assume("times are in seconds");
        reading.assume("times are in seconds");
        reading.assume_of(2, "files existed before");
        assert_eq!(
            reading.notes(),
            [
                "3 of 4 lines left out: 2 with a wait (first in line 9); 1 with a flush (first in \
                 line 3)",
                "assumed: times are in seconds; 2 files existed before",
            ]
        );
    }

    #[test]
    fn nothing_is_said_of_what_was_used_or_passed() {
        let mut reading = Reading::default();
        reading.use_one();
        reading.pass_one();
        reading.assume_of(0, "files existed before");
        reading.leave_out_many(0, 1, "with a wait");
        assert!(!reading.has_something_to_say() && reading.notes().is_empty());
    }

    #[test]
    fn reasons_are_bounded_whatever_the_input() {
        let mut reading = Reading::default();
        for line in 1..=1000 {
            reading.leave_out(line, &format!("of the kind {line} {}", "ü".repeat(500)));
            reading.assume(&format!("what {line}"));
        }
        assert_eq!(reading.left_out().len(), MOST + 1);
        assert_eq!(reading.assumed().len(), MOST);
        assert_eq!(reading.left_out_count(), 1000);
        assert_eq!(reading.left_out().last().map(|last| last.count), Some(1000 - MOST as u64));
    }
}

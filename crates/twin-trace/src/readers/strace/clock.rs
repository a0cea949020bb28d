//! The times of lines: `-ttt` (seconds since 1970), `-tt` and `-t` (times of the day), `-r` (since the line
//! before), or none.
//!
//! Contract: a time of the day that goes back by more than half a day is that of the next day. Times of `-r`
//! are added up; they are told from others by their padding, which only they have. The times that `-r` adds
//! to another kind of time, in brackets, are passed by.

use twin_rt::{Nanos, SECS};

const DAY: Nanos = 24 * 3600 * SECS;
/// The width of the seconds of `-r`.
const PADDED: usize = 6;

/// The state of the clock after the times so far.
#[derive(Default)]
pub(super) struct Clock {
    /// The days that have passed, as time.
    days: Nanos,
    /// The latest time of the day.
    latest: Nanos,
    /// The sum of the times of `-r`.
    sum: Nanos,
    is_fine: bool,
}

impl Clock {
    /// True if times have less than a second.
    pub(super) fn is_fine(&self) -> bool {
        self.is_fine
    }

    /// The time at the beginning of a text, and the rest; `pad` spaces belong to what stands before it.
    pub(super) fn read<'a>(
        &mut self,
        text: &'a str,
        pad: usize,
    ) -> Result<(Option<Nanos>, &'a str), String> {
        let trimmed = text.trim_start();
        let spaces = (text.len() - trimmed.len()).saturating_sub(pad);
        let (word, rest) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok((None, trimmed));
        }
        let rest = rest.trim_start();
        let rest = match rest.strip_prefix("(+") {
            Some(added) => added.split_once(") ").map_or("", |(_, rest)| rest).trim_start(),
            None => rest,
        };
        self.is_fine |= word.contains('.');
        let ns = seconds(word)?;
        let before_point = word.find('.').unwrap_or(word.len());
        if spaces > 0 && spaces + before_point == PADDED {
            self.sum = self.sum.saturating_add(ns);
            return Ok((Some(self.sum), rest));
        }
        if word.contains(':') {
            if ns.saturating_add(DAY / 2) < self.latest {
                self.days = self.days.saturating_add(DAY);
            }
            self.latest = ns;
            return Ok((Some(self.days.saturating_add(ns)), rest));
        }
        Ok((Some(ns), rest))
    }
}

/// Seconds with a fraction, or hours, minutes and seconds.
fn seconds(word: &str) -> Result<Nanos, String> {
    let mut seconds = 0;
    let parts = word.split(':').count();
    if parts > 3 {
        return Err(format!("the time should be hours, minutes and seconds, not {word:?}"));
    }
    for (at, part) in word.split(':').enumerate() {
        let wrong = || format!("the time should be a number, not {word:?}");
        seconds = match at + 1 == parts {
            true => nanos(part)
                .and_then(|part| part.checked_add(seconds * 60 * SECS))
                .ok_or_else(wrong)?,
            false => {
                let part: u64 = part.parse().ok().filter(|part| *part < 60).ok_or_else(wrong)?;
                seconds * 60 + part
            }
        };
    }
    Ok(seconds)
}

/// Seconds with a fraction, in nanoseconds.
pub(super) fn nanos(text: &str) -> Option<Nanos> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut nanos = 0;
    for digit in fraction.bytes().chain(std::iter::repeat(b'0')).take(9) {
        nanos = nanos * 10 + char::from(digit).to_digit(10)?;
    }
    whole.checked_mul(SECS)?.checked_add(u64::from(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(lines: &[(&str, usize)]) -> Vec<Option<Nanos>> {
        let mut clock = Clock::default();
        lines.iter().map(|(line, pad)| clock.read(line, *pad).unwrap().0).collect()
    }

    #[test]
    fn times_of_the_day_go_on_at_midnight() {
        let at = times(&[("23:59:59 a(", 0), ("00:00:01 a(", 0), ("00:00:00 a(", 0)]);
        assert_eq!(at, [Some(DAY - SECS), Some(DAY + SECS), Some(DAY)]);
    }

    #[test]
    fn times_since_the_line_before_are_added_up() {
        let at = times(&[("     0.000000 a(", 0), ("     0.5 a(", 0), ("       1.25 a(", 2)]);
        assert_eq!(at, [Some(0), Some(SECS / 2), Some(SECS * 7 / 4)]);
    }

    #[test]
    fn what_is_not_padded_is_a_time_of_its_own() {
        let at =
            times(&[("1.5 a(", 0), ("2.0 a(", 3), ("1700000000.5 (+     0.25) a(", 0), ("a(", 0)]);
        let late = 1_700_000_000 * SECS + SECS / 2;
        assert_eq!(at, [Some(SECS * 3 / 2), Some(2 * SECS), Some(late), None]);
    }
}

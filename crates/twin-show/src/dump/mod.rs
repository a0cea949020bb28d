//! The forms of a dump: text for people, one object of JSON, comma-separated values.
//!
//! Contract: a form is a [`Sink`](twin_fs::dump::Sink), so it takes whatever a layout tells, and needs no memory for it. A
//! writer that fails is noticed at the end, by `finish`.

mod csv;
mod json;
mod text;

use std::io::Write;

pub use self::csv::Csv;
pub use self::json::Json;
pub use self::text::Text;

/// Remembers the first failure of a writer, so that sinks need not stop.
struct Writer<W> {
    out: W,
    failed: Option<std::io::Error>,
}

impl<W: Write> Writer<W> {
    fn new(out: W) -> Writer<W> {
        Writer { out, failed: None }
    }

    fn put(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }

    fn finish(&mut self) -> std::io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

/// A name as text: bytes that are not printable are escaped as in C.
fn printable(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    c.encode_utf8(&mut bytes)
                        .bytes()
                        .for_each(|b| text.push_str(&format!("\\x{b:02x}")));
                }
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|b| text.push_str(&format!("\\x{b:02x}")));
    }
    text
}

/// A time of day in UTC, and the nanoseconds.
pub fn utc(secs: i64, nanos: u32) -> String {
    let (day, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    // Days from 1 March of the year 0, in eras of 400 years of 146,097 days.
    let shifted = i128::from(day) + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month < 10 {
        true => (era * 400 + year_of_era, month + 3),
        false => (era * 400 + year_of_era + 1, month - 9),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{nanos:09}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(utc(0, 5), "1970-01-01 00:00:00.000000005");
        assert_eq!(utc(951_782_399, 0), "2000-02-28 23:59:59.000000000");
        assert_eq!(utc(951_782_400, 0), "2000-02-29 00:00:00.000000000");
        assert_eq!(utc(-1, 0), "1969-12-31 23:59:59.000000000");
        assert_eq!(utc(4_107_542_399, 0), "2100-02-28 23:59:59.000000000");
        assert_eq!(utc(4_107_542_400, 0), "2100-03-01 00:00:00.000000000");
        utc(i64::MIN, u32::MAX);
        utc(i64::MAX, 0);
    }

    #[test]
    fn names_of_any_bytes_are_printable() {
        assert_eq!(printable("für".as_bytes()), "für");
        assert_eq!(printable(b"a\nb\xff\\\x1b"), "a\\x0ab\\xff\\\\\\x1b");
    }
}

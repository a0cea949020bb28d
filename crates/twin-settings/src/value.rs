//! The notation of values: numbers, sizes, times, percentages, yes and no, lists.
//!
//! | value | notation |
//! |---|---|
//! | number | `4000`, also `4_000` |
//! | size | bytes, or `64K`, `16M`, `2G`, `1T` (powers of 1,024; `KiB` and so on mean the same) |
//! | time | `500ns`, `20us`, `5ms`, `30s`, `10min`, `2h`, `7d`; without a unit, in that of the key |
//! | percentage | `80%`, or `80` |
//! | decimal | `0.99` |
//! | yes or no | `yes`, `no` |
//! | list | its items with `/` between them: `5400/58/19` |

use crate::SettingsError;

/// Parses a whole number.
///
/// # Errors
/// If the text is not a whole number, or the number is too large for 64 bits.
pub fn number(text: &str) -> Result<u64, SettingsError> {
    let digits = text.replace('_', "");
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain
        .then(|| digits.parse().ok())
        .flatten()
        .ok_or_else(|| SettingsError::new(format!("{text:?} is not a number")))
}

/// Parses a number of bytes.
///
/// # Errors
/// If the text is not a number of bytes, or the number is too large for 64 bits.
pub fn bytes(text: &str) -> Result<u64, SettingsError> {
    let wrong = || {
        SettingsError::new(format!(
            "{text:?} is not a number of bytes: write it as 4096, 64K, 16M or 2G"
        ))
    };
    let (digits, suffix) = parted(text);
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let digits = number(digits).map_err(|_| wrong())?;
    digits
        .checked_mul(1 << shift)
        .ok_or_else(|| SettingsError::new(format!("{text:?} does not fit in 64 bits")))
}

/// A number of bytes in the shortest notation that [`bytes`] parses to the same number.
pub fn bytes_text(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let whole = units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// A number of bytes for display, in the largest unit that does not make it less than one: `1.5
/// KiB`.
pub fn bytes_for_people(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    match unit == 0 || value.fract() == 0.0 {
        true => format!("{value} {}", UNITS[unit]),
        false => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// The units of time, longest first, in nanoseconds.
const TIMES: &[(&str, u64)] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses a time and returns nanoseconds. `bare_ns` is the unit of a number that is written without
/// one, in nanoseconds.
///
/// # Errors
/// If the text is not a time, or the time is longer than 64 bits of nanoseconds (584 years).
pub fn nanos(text: &str, bare_ns: u64) -> Result<u64, SettingsError> {
    let wrong =
        || SettingsError::new(format!("{text:?} is not a time: write it as 20us, 5ms, 30s or 2h"));
    let (digits, suffix) = parted(text);
    let unit = match suffix {
        "" => bare_ns,
        _ => TIMES.iter().find(|(name, _)| *name == suffix).ok_or_else(wrong)?.1,
    };
    let digits = number(digits).map_err(|_| wrong())?;
    digits
        .checked_mul(unit)
        .ok_or_else(|| SettingsError::new(format!("{text:?} is longer than 584 years")))
}

/// A time in the shortest notation that [`nanos`] parses to the same time.
pub fn nanos_text(ns: u64) -> String {
    let whole = TIMES.iter().find(|(_, unit)| ns > 0 && ns.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{ns}s"), |(name, unit)| format!("{}{name}", ns / unit))
}

/// Parses a percentage, which is a whole number.
pub fn percent(text: &str) -> Result<u64, SettingsError> {
    number(text.strip_suffix('%').unwrap_or(text))
        .map_err(|_| SettingsError::new(format!("{text:?} is not a percentage: write it as 80%")))
}

/// Parses a decimal number.
///
/// # Errors
/// If the text is not a decimal number, or the number is not finite.
pub fn decimal(text: &str) -> Result<f64, SettingsError> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| SettingsError::new(format!("{text:?} is not a decimal number")))
}

/// Parses `yes` or `no`.
pub fn yes_no(text: &str) -> Result<bool, SettingsError> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(SettingsError::new(format!("{text:?} is neither yes nor no"))),
    }
}

/// Parses a list of exactly `N` items. `form` names the items for the error message, as in
/// `rpm/sectors/tracks`.
pub fn list<'a, const N: usize>(text: &'a str, form: &str) -> Result<[&'a str; N], SettingsError> {
    let items: Vec<&str> = text.split('/').map(str::trim).collect();
    items.try_into().map_err(|_| SettingsError::new(format!("{text:?} is not {form}")))
}

/// The digits at the beginning of a text, and the rest.
fn parted(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '_');
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, value) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65_536),
            ("64k", 65_536),
            ("1MiB", 1 << 20),
            ("2T", 2 << 40),
        ] {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for text in ["", "K", "-1", "1.5G", "1KB", "lots", "99999999999999999999", "99999999T"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units_and_a_bare_number_has_that_of_the_key() {
        for (text, value) in [
            ("30", 30_000_000),
            ("500ns", 500),
            ("20us", 20_000),
            ("30s", 30_000_000_000),
            ("10min", 600_000_000_000),
            ("2h", 7_200_000_000_000),
        ] {
            assert_eq!(nanos(text, 1_000_000), Ok(value), "{text}");
        }
        for text in ["", "s", "1.5s", "-1s", "3 weeks", "99999999999d"] {
            assert!(nanos(text, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for value in [0, 1, 1000, 1024, 1 << 20, (1 << 20) + 1, 3 << 40, u64::MAX] {
            assert_eq!(bytes(&bytes_text(value)), Ok(value));
            assert_eq!(nanos(&nanos_text(value), 1), Ok(value));
        }
    }

    #[test]
    fn numbers_percentages_decimals_and_answers_are_strict() {
        assert_eq!(number("4_000"), Ok(4000));
        assert_eq!((percent("80%"), percent("80")), (Ok(80), Ok(80)));
        assert_eq!(decimal("0.99"), Ok(0.99));
        assert_eq!((yes_no("yes"), yes_no("no")), (Ok(true), Ok(false)));
        assert!(number("_").is_err() && number("+1").is_err() && number("0x10").is_err());
        assert!(percent("%").is_err() && decimal("NaN").is_err() && decimal("inf").is_err());
        assert!(yes_no("true").is_err());
    }

    #[test]
    fn people_read_sizes_in_short() {
        assert_eq!(bytes_for_people(4 << 30), "4 GiB");
        assert_eq!(bytes_for_people(1536), "1.5 KiB");
        assert_eq!(bytes_for_people(7), "7 bytes");
    }

    #[test]
    fn a_list_has_its_length() {
        assert_eq!(list("5400/58/19", "rpm/sectors/tracks"), Ok(["5400", "58", "19"]));
        let error = list::<3>("5400/58", "rpm/sectors/tracks").unwrap_err().to_string();
        assert_eq!(error, "\"5400/58\" is not rpm/sectors/tracks");
    }
}

//! Parsing of the fields of a line, with errors that name the bad field.

use super::BlockOp;

/// Bytes of a sector, where a format counts in sectors.
pub(super) const SECTOR_BYTES: u64 = 512;

const NANOS_IN_SECOND: u64 = 1_000_000_000;

/// A whole number that is not negative, as programs write it: `8`, but also `8.0` and `1e3`.
pub(super) fn whole(text: &str) -> Option<u64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let number = Decimal::parse(text)?;
    let whole = number.times(1)?;
    // A fraction that is not zero is no whole number.
    (number.times(NANOS_IN_SECOND)? == whole.checked_mul(NANOS_IN_SECOND.into())?).then_some(())?;
    u64::try_from(whole).ok()
}

/// A decimal number with a sign, a fraction and an exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: i128,
    /// The digits are multiplied by ten to this power.
    exponent: i32,
}

/// The most digits before the point, and behind it; further ones behind it are dropped.
const DIGITS_MOST: (usize, usize) = (22, 6 + 9);
/// Powers of ten beyond these make a number too large, or zero.
const EXPONENT_MOST: i32 = 64;

impl Decimal {
    pub(super) fn parse(text: &str) -> Option<Decimal> {
        let (minus, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number =
            whole.len() + fraction.len() > 0 && are_digits(whole) && are_digits(fraction);
        let whole = whole.trim_start_matches('0');
        if !is_number || whole.len() > DIGITS_MOST.0 {
            return None;
        }
        let fraction = &fraction[..fraction.len().min(DIGITS_MOST.1)];
        let digits = whole.bytes().chain(fraction.bytes());
        let digits = digits.fold(0, |sum: i128, digit| sum * 10 + i128::from(digit - b'0'));
        let exponent = exponent.clamp(-EXPONENT_MOST, EXPONENT_MOST) - fraction.len() as i32;
        Some(Decimal { digits: if minus { -digits } else { digits }, exponent })
    }

    /// The number times `unit`, without what is behind the point then; `None` if it is too large.
    pub(super) fn times(self, unit: u64) -> Option<i128> {
        let ten = |power: i32| 10i128.checked_pow(power.unsigned_abs());
        match self.exponent {
            0.. => self.digits.checked_mul(ten(self.exponent)?)?.checked_mul(unit.into()),
            // Digits of a number that is nearly nothing are few.
            _ => match (self.digits.checked_mul(unit.into()), ten(self.exponent)) {
                (Some(product), Some(power)) => Some(product.div_euclid(power)),
                (Some(_), None) => Some(0),
                (None, power) => (self.digits / power?).checked_mul(unit.into()),
            },
        }
    }
}

/// The fields of a line, one after the other.
pub(super) struct Fields<I> {
    fields: I,
}

/// Fields between separators, without surrounding blanks.
pub(super) fn separated(line: &str, by: char) -> Fields<impl Iterator<Item = &str>> {
    Fields { fields: line.split(by).map(str::trim) }
}

/// Fields separated by blanks.
pub(super) fn blank(line: &str) -> Fields<impl Iterator<Item = &str>> {
    Fields { fields: line.split_whitespace() }
}

impl<'a, I: Iterator<Item = &'a str>> Fields<I> {
    /// The next field; an error names `what`.
    pub(super) fn text(&mut self, what: &str) -> Result<&'a str, String> {
        self.fields.next().ok_or_else(|| format!("the line ends where {what} should be"))
    }

    /// Skips the fields named in `what`.
    pub(super) fn skip(&mut self, what: &[&str]) -> Result<(), String> {
        what.iter().try_for_each(|what| self.text(what).map(|_| ()))
    }

    /// A whole number that is not negative.
    pub(super) fn number(&mut self, what: &str) -> Result<u64, String> {
        let text = self.text(what)?;
        whole(text).ok_or_else(|| format!("{what} should be a number, not {text:?}"))
    }

    /// A number of sectors, in bytes.
    pub(super) fn sectors(&mut self, what: &str) -> Result<u64, String> {
        let sectors = self.number(what)?;
        sectors.checked_mul(SECTOR_BYTES).ok_or_else(|| format!("{what} is too large"))
    }

    /// Takes the next field as the number of a device.
    pub(super) fn device(&mut self, what: &str) -> Result<u64, String> {
        self.number(what)
    }

    /// A number that may have a fraction and an exponent, times `unit`.
    pub(super) fn decimal(&mut self, what: &str, unit: u64) -> Result<u64, String> {
        let text = self.text(what)?;
        let wrong = || format!("{what} should be a number that is not negative, not {text:?}");
        let number = Decimal::parse(text).ok_or_else(wrong)?;
        let product = number.times(unit).filter(|product| *product >= 0).ok_or_else(wrong)?;
        u64::try_from(product).map_err(|_| format!("{what} is too large: {text}"))
    }

    /// A number times `unit`, as nanoseconds.
    pub(super) fn time(&mut self, what: &str, unit: u64) -> Result<u64, String> {
        let number = self.number(what)?;
        number.checked_mul(unit).ok_or_else(|| format!("{what} is too large: {number}"))
    }

    /// Seconds with a fraction, as nanoseconds.
    pub(super) fn seconds(&mut self, what: &str) -> Result<u64, String> {
        self.decimal(what, NANOS_IN_SECOND)
    }

    /// A word that names an operation.
    pub(super) fn op(&mut self, what: &str, words: &[(&str, BlockOp)]) -> Result<BlockOp, String> {
        let text = self.text(what)?;
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        found.map(|&(_, op)| op).ok_or_else(|| {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            format!("{what} should be one of {}, not {text:?}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_programs_write_them() {
        for (text, number) in [
            ("8", Some(8)),
            ("+8", Some(8)),
            ("8.0", Some(8)),
            ("1.5e3", Some(1500)),
            ("1E+06", Some(1_000_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("8.5", None),
            ("-8", None),
            ("8e", None),
            ("", None),
            (".", None),
            ("nan", None),
            ("0x8", None),
            ("1e99", None),
        ] {
            assert_eq!(whole(text), number, "{text:?}");
        }
    }

    #[test]
    fn decimals_keep_their_fractions_in_a_finer_unit() {
        let ns = |text: &str| Decimal::parse(text).and_then(|number| number.times(NANOS_IN_SECOND));
        for (text, found) in [
            ("0.5", Some(500_000_000)),
            (".25", Some(250_000_000)),
            ("-1.5", Some(-1_500_000_000)),
            ("1.5e-05", Some(15_000)),
            ("1455592511.163069000", Some(1_455_592_511_163_069_000)),
            ("128166372003061629", Some(128_166_372_003_061_629_000_000_000)),
            ("1e-90", Some(0)),
            ("0.0000000000000000000000000000001", Some(0)),
            ("12345678901234567890123", None),
            ("1e40", None),
            ("one", None),
        ] {
            assert_eq!(ns(text), found, "{text:?}");
        }
    }
}

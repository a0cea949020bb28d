//! Parsing of the fields of a line, with errors that name the bad field.

use super::BlockOp;

/// Bytes of a sector, where a format counts in sectors.
pub(super) const SECTOR_BYTES: u64 = 512;

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
        text.parse().map_err(|_| format!("{what} should be a number, not {text:?}"))
    }

    /// A number of sectors, in bytes.
    pub(super) fn sectors(&mut self, what: &str) -> Result<u64, String> {
        let sectors = self.number(what)?;
        sectors.checked_mul(SECTOR_BYTES).ok_or_else(|| format!("{what} is too large"))
    }

    /// A device number of at most 32 bits.
    pub(super) fn device(&mut self, what: &str) -> Result<u32, String> {
        let number = self.number(what)?;
        u32::try_from(number).map_err(|_| format!("{what} is too large: {number}"))
    }

    /// A number times `unit`, as nanoseconds.
    pub(super) fn time(&mut self, what: &str, unit: u64) -> Result<u64, String> {
        let number = self.number(what)?;
        number.checked_mul(unit).ok_or_else(|| format!("{what} is too large: {number}"))
    }

    /// Seconds with a fraction, as nanoseconds.
    pub(super) fn seconds(&mut self, what: &str) -> Result<u64, String> {
        let text = self.text(what)?;
        let wrong = || format!("{what} should be seconds, not {text:?}");
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
        if text == "." || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let nanos = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
        let nanos = nanos.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        whole.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(nanos)).ok_or_else(wrong)
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

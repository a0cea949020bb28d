//! Sizes as people write them: 4096, 64K, 4G. Powers of 1,024.

use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            unit => return Err(format!("unknown unit {unit:?}: use K, M, G or T")),
        };
        let number: u64 = digits.parse().map_err(|_| format!("{text:?} is not a size, as 4G"))?;
        let bytes = number.checked_mul(1 << shift).ok_or(format!("{text} is too large"))?;
        Ok(Size(bytes))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit < UNITS.len() - 1 {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 || value.fract() == 0.0 {
            write!(f, "{value} {}", UNITS[unit])
        } else {
            write!(f, "{value:.1} {}", UNITS[unit])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        assert_eq!("4G".parse(), Ok(Size(4 << 30)));
        assert_eq!("64k".parse(), Ok(Size(65536)));
        assert_eq!("512".parse(), Ok(Size(512)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "G", "4X", "-1", "99999999999T"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_short() {
        assert_eq!(Size(4 << 30).to_string(), "4 GiB");
        assert_eq!(Size(1536).to_string(), "1.5 KiB");
    }
}

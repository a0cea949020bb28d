//! Figures in words, with units that a reader can take in.

/// A duration with a readable unit.
pub fn duration(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} us"),
        us if us < 10_000.0 => format!("{us:.0} us"),
        us if us < 1_000_000.0 => format!("{:.1} ms", us / 1e3),
        us if us < 10_000_000.0 => format!("{:.2} s", us / 1e6),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// Words in a sentence: `a, b and c`.
pub fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// An amount in mebibytes.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// A number of things, its digits in groups of three: `25,005`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A figure with two or three significant digits; whole numbers from 10 on as such.
pub fn figure(x: f64) -> String {
    match x.abs() {
        a if a >= 10.0 && a.fract() == 0.0 => format!("{x:.0}"),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a < 0.1 => {
            let long = format!("{x:.3}");
            long.strip_suffix('0').map_or(long.clone(), str::to_owned)
        }
        _ => format!("{x:.2}"),
    }
}

/// Dollars: cents of sums, and two digits that count of what is less than a cent.
pub fn dollars(usd: f64) -> String {
    if usd >= 0.01 || usd <= 0.0 {
        return format!("${usd:.2}");
    }
    let digits = (1.0 - usd.log10().floor()).min(12.0) as usize;
    format!("${usd:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_in_groups_of_three() {
        assert_eq!(
            [7, 999, 1000, 25_005, 1_234_567].map(count),
            ["7", "999", "1,000", "25,005", "1,234,567"]
        );
    }

    #[test]
    fn figures_have_the_digits_that_matter() {
        let texts = [0.0, 0.05, 0.053, 0.64, 12.0, 12.34, 456.7].map(figure);
        assert_eq!(texts, ["0.00", "0.05", "0.053", "0.64", "12", "12.3", "457"]);
    }

    #[test]
    fn small_sums_keep_two_digits_that_count() {
        let sums = [0.0, 0.000_016, 0.0031, 0.052, 12.345].map(dollars);
        assert_eq!(sums, ["$0.00", "$0.000016", "$0.0031", "$0.05", "$12.35"]);
    }
}

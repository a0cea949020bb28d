//! Figures in words, with units that a reader can take in.

/// A duration with a readable unit.
pub(crate) fn duration(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} us"),
        us if us < 10_000.0 => format!("{us:.0} us"),
        us if us < 1_000_000.0 => format!("{:.1} ms", us / 1e3),
        us if us < 10_000_000.0 => format!("{:.2} s", us / 1e6),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// Words in a sentence: `a, b and c`.
pub(crate) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// An amount in mebibytes.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

//! Amounts and sentences as people read them, taken apart again.

/// What stands at the places `{}` of a pattern; `None` if the text is another one.
pub(crate) fn fields<'a>(text: &'a str, pattern: &str) -> Option<Vec<&'a str>> {
    let mut parts = pattern.split("{}");
    let mut rest = text.strip_prefix(parts.next()?)?;
    let mut found = Vec::new();
    let parts: Vec<&str> = parts.collect();
    for (nth, part) in parts.iter().enumerate() {
        let is_last = nth + 1 == parts.len();
        let at = match (is_last, part.is_empty()) {
            (true, true) => rest.len(),
            (true, false) => rest.len().checked_sub(part.len()).filter(|_| rest.ends_with(part))?,
            _ => rest.find(part)?,
        };
        found.push(&rest[..at]);
        rest = &rest[at + part.len()..];
    }
    Some(found)
}

/// Words of a list: `a, b and c`.
pub(crate) fn items(text: &str) -> Vec<&str> {
    let (first, last) = text.rsplit_once(" and ").map_or((text, None), |(a, b)| (a, Some(b)));
    first.split(", ").chain(last).collect()
}

/// An amount in seconds or bytes, and half of its last digit.
pub(crate) fn amount(text: &str) -> (f64, f64) {
    let (number, unit) = text.split_once(' ').unwrap_or_else(|| panic!("no unit: {text:?}"));
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "MiB" => f64::from(1 << 20),
        "KiB" => 1024.0,
        other => panic!("no unit: {other:?} in {text:?}"),
    };
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let value: f64 = number.parse().unwrap_or_else(|_| panic!("no number: {text:?}"));
    (value * scale, 0.5001 * 10f64.powi(-(decimals as i32)) * scale)
}

/// The text is this value, rounded.
pub(crate) fn is(text: &str, value: f64) {
    let (reported, half) = amount(text);
    assert!((reported - value).abs() <= half, "{text:?} is told, and it is {value}");
}

/// The text is this ratio, rounded.
pub(crate) fn is_ratio(text: &str, value: f64) {
    let reported: f64 = text.parse().unwrap_or_else(|_| panic!("no ratio: {text:?}"));
    assert!((reported - value).abs() <= 0.005_001, "{text:?} is told, and it is {value}");
}

/// The number of times in words.
pub(crate) fn times(text: &str) -> u64 {
    match text {
        "once" => 1,
        text => number(text.strip_suffix(" times").unwrap_or_else(|| panic!("times: {text:?}"))),
    }
}

/// A number with its digits in groups.
pub(crate) fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("no number: {text:?}"))
}

#[test]
fn sentences_are_taken_apart() {
    assert_eq!(fields("a 1 b 2.", "a {} b {}."), Some(vec!["1", "2"]));
    assert_eq!(fields("a 1 c 2.", "a {} b {}."), None);
    assert_eq!(items("a, b and c"), ["a", "b", "c"]);
    assert_eq!((number("25,005"), times("once"), times("1,610 times")), (25_005, 1, 1610));
    let (value, half) = amount("570.4 ms");
    assert!((value - 0.5704).abs() < 1e-9 && (half - 0.00005).abs() < 1e-6);
}

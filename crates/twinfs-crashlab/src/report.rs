//! A report as text.

use std::fmt::Write as _;

use serde_json::Value;

/// The classes of a report, for people.
pub(crate) fn explained(report: &Value) -> String {
    let mut text = String::new();
    for (number, class) in (1..).zip(list(&report["classes"])) {
        let _ = writeln!(text, "{number}. {}", words(&class["why"]));
        let labels: Vec<String> = list(&class["acknowledged"]).map(words).collect();
        let last = labels.iter().rev().take(3).rev().cloned().collect::<Vec<_>>().join(", ");
        let last = if last.is_empty() { "nothing".into() } else { last };
        let _ = writeln!(text, "   State {}. Acknowledged: {last}", words(&class["state"]));
        for operation in list(&class["operations"]) {
            let (fate, what) = (words(&operation["fate"]), words(&operation["operation"]));
            let _ = writeln!(text, "   {fate:>12}  {what}");
        }
        let _ = writeln!(text, "   The check: {}", words(&class["check"]));
    }
    text
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_says_what_was_promised_what_is_missing_and_what_went_before() {
        let report = serde_json::json!({"classes": [{
            "why": "no fsync of f", "state": "2-1", "acknowledged": ["a"], "check": "exit 1",
            "operations": [{"fate": "lost", "operation": "append f"}],
        }]});
        let text = explained(&report);
        let wanted = "1. no fsync of f\n   State 2-1. Acknowledged: a\n           lost  append f\n   The check: exit 1\n";
        assert_eq!(text, wanted);
    }
}

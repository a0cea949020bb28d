//! What `twinfs stat` says of a mount's cleaner: how much it cleaned and why, how long the device was idle, and
//! how long operations waited for room.

use serde_json::Value;

use twin_settings::value::bytes_for_people;

/// The lines for the `cleaner` of a mount's figures; nothing if it has none.
pub(super) fn in_words(cleaner: &Value) -> String {
    let Some(when) = cleaner["when"].as_str() else { return String::new() };
    let number = |at: &str| cleaner.pointer(at).and_then(Value::as_u64).unwrap_or_default();
    let seconds = |at: &str| number(at) as f64 / 1e9;
    let reasons =
        [("background", "in the background"), ("demand", "on demand"), ("by_hand", "by hand")];
    let [background, demand, by_hand] = reasons.map(|(reason, words)| {
        let moved = bytes_for_people(number(&format!("/{reason}/moved_bytes")));
        format!("{} {words} ({moved} moved)", number(&format!("/{reason}/segments")))
    });
    format!(
        "\ncleaned          {background}, {demand}, {by_hand}; when={when}\n\
         idle             {} times, {:.1} s in all, {:.1} s at most; {} lasted two seconds, {} of them four\n\
         waits for room   {}, {:.3} s in all, {:.3} s at most",
        number("/idle_times/count"),
        seconds("/idle_times/total_ns"),
        seconds("/idle_times/longest_ns"),
        number("/idle_times/of_two_s"),
        number("/idle_times/of_four_s"),
        number("/waits/count"),
        seconds("/waits/total_ns"),
        seconds("/waits/longest_ns"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_count_is_in_the_words_and_a_layout_without_a_cleaner_has_none() {
        let cleaner = json!({
            "when": "idle",
            "background": { "segments": 12, "moved_bytes": 3 << 20 },
            "demand": { "segments": 7, "moved_bytes": 1 << 20 },
            "by_hand": { "segments": 0, "moved_bytes": 0 },
            "idle_times": { "count": 90, "total_ns": 61_500_000_000_u64, "longest_ns": 20_250_000_000_u64,
                      "of_two_s": 5, "of_four_s": 4 },
            "waits": { "count": 2, "total_ns": 30_000_000, "longest_ns": 21_000_000 },
        });
        assert_eq!(
            in_words(&cleaner),
            "\ncleaned          12 in the background (3 MiB moved), 7 on demand (1 MiB moved), \
             0 by hand (0 bytes moved); when=idle\n\
             idle             90 times, 61.5 s in all, 20.2 s at most; 5 lasted two seconds, 4 of them four\n\
             waits for room   2, 0.030 s in all, 0.021 s at most"
        );
        assert_eq!(in_words(&Value::Null), "");
    }
}

//! Each sentence of a verdict, checked against the figures of the runs in JSON.
//!
//! Contract: a sentence of a form that is not known here fails, so that none goes unchecked.

use serde_json::Value;

use super::amounts::{amount, fields, is, is_ratio, items, number, times};

/// The rows of a comparison.
pub(crate) struct Rows(pub(crate) Vec<Value>);

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn verb<'a>(row: &'a Value, name: &str) -> Option<&'a Value> {
    row["verbs"].as_array()?.iter().find(|of| of["verb"] == name)
}

/// Number, mean and sum of the latencies of a kind of operation, the times in seconds.
fn of_verb(row: &Value, name: &str) -> (u64, f64, f64) {
    verb(row, name).map_or((0, 0.0, 0.0), |of| {
        let (count, mean) = (&of["latency"]["count"], float(&of["latency"]["mean_us"]) / 1e6);
        let count = count.as_u64().unwrap();
        (count, mean, count as f64 * mean)
    })
}

/// What clients waited for, added up here.
fn waited(row: &Value) -> f64 {
    let verbs = row["verbs"].as_array().unwrap().iter().map(|of| of["verb"].as_str().unwrap());
    verbs.filter(|name| *name != "forget").map(|name| of_verb(row, name).2).sum()
}

/// The value of a run by a measure, in seconds or bytes.
fn value(row: &Value, measure: &str) -> f64 {
    match measure {
        "finish" => float(&row["finish_s"]),
        "waiting" => waited(row),
        "p99" => float(&row["latency"]["p99_us"]) / 1e6,
        "fsync" => float(&verb(row, "fsync").unwrap()["latency"]["p99_us"]) / 1e6,
        "written" => float(&row["disk_use"]["written_bytes"]),
        "wear" => float(&row["disk_use"]["wear"]["programmed_bytes"]),
        other => panic!("no measure: {other}"),
    }
}

/// Number and mean service time in seconds of the disk's requests of a kind.
fn requests(row: &Value, kind: &str) -> (u64, f64) {
    let disk = &row["disk_use"];
    let (number, time) = match kind {
        "write" | "writes" => ("writes", "writes_s"),
        "flush" | "flushes" => ("flushes", "flushes_s"),
        "read" | "reads" => ("reads", "reads_s"),
        other => panic!("no kind of request: {other}"),
    };
    let number = disk[number].as_u64().unwrap();
    (number, float(&disk[time]) / number.max(1) as f64)
}

impl Rows {
    /// The run with this short name.
    fn row(&self, label: &str) -> &Value {
        let is_it = |row: &&Value| {
            let config = row["config"].as_str().unwrap();
            let own = config.strip_suffix(label);
            own.is_some_and(|rest| rest.is_empty() || rest.ends_with([',', ':']))
        };
        self.0.iter().find(is_it).unwrap_or_else(|| panic!("no run {label:?}"))
    }

    fn places(&self, place: u64) -> usize {
        self.0.iter().filter(|row| row["rank"] == place).count()
    }

    fn are_values(&self, labels: &[&str], reported: &str, measure: &str) {
        for (label, text) in labels.iter().zip(items(reported)) {
            is(text, value(self.row(label), measure));
        }
    }

    /// Checks a whole verdict.
    pub(crate) fn check(&self, verdict: &[String]) {
        for line in verdict {
            assert!(self.checks(line), "a sentence of an unknown form: {line}");
        }
    }

    fn checks(&self, line: &str) -> bool {
        self.is_order(line) || self.is_reason(line) || self.is_aside(line)
    }

    /// The sentences on the order.
    fn is_order(&self, line: &str) -> bool {
        let wins = [
            "{} wins by {} ({}): {}. Next is {} with {}, {} times as much.",
            "{} win by {} ({}): {}. Next is {} with {}, {} times as much.",
            "{} win, too close to call between them, by {} ({}): {}. Next is {} with {}, {} times as much.",
        ];
        if let Some(found) = wins.iter().find_map(|pattern| fields(line, pattern)) {
            let [winners, by, _, values, next, next_value, ratio] = found[..] else { return false };
            let winners = items(winners);
            assert!(winners.iter().all(|label| self.row(label)["rank"] == 1), "{line}");
            assert_eq!(winners.len(), self.places(1), "{line}");
            self.are_values(&winners, values, by);
            let (best, rival) = (value(self.row(winners[0]), by), self.row(next));
            is(next_value, value(rival, by));
            is_ratio(ratio, value(rival, by) / best);
            assert_eq!(rival["rank"].as_u64().unwrap(), winners.len() as u64 + 1, "{line}");
            return true;
        }
        let close = "Too close to call by {} ({}): {} are within a factor of {}: {}. Simulated, {} has {} \
                     times as much as {}.";
        if let Some(found) = fields(line, close) {
            let [by, _, names, factor, values, most, ratio, least] = found[..] else {
                return false;
            };
            let names = items(names);
            assert_eq!(names.len(), self.places(1), "{line}");
            self.are_values(&names, values, by);
            let times = value(self.row(most), by) / value(self.row(least), by);
            is_ratio(ratio, times);
            assert!(times < factor.parse().unwrap(), "{line}");
            return true;
        }
        if let Some(found) = fields(line, "No winner by {} ({}): {} are equal within 2%: {}.") {
            let [by, _, names, reported] = found[..] else { return false };
            let values: Vec<f64> =
                items(names).iter().map(|label| value(self.row(label), by)).collect();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(values.iter().all(|value| *value <= 1.02 * least), "{line}");
            is(reported, least);
            return true;
        }
        if let Some(found) = fields(line, "By {} ({}): {}.") {
            self.0.iter().for_each(|row| is(found[2], value(row, found[0])));
            return true;
        }
        self.is_same(line)
    }

    fn is_same(&self, line: &str) -> bool {
        let identical = fields(line, "{} are identical: all their settings are the same.");
        let alike = "{} did exactly the same, every request to the disk at the same time: what differs \
                     between them does not matter to this workload.";
        let Some(found) = identical.or(fields(line, alike)) else { return false };
        let digests: Vec<&Value> =
            items(found[0]).iter().map(|label| &self.row(label)["digest"]).collect();
        assert!(digests.len() > 1 && digests.windows(2).all(|two| two[0] == two[1]), "{line}");
        true
    }

    /// The sentences on why.
    fn is_reason(&self, line: &str) -> bool {
        let best = self.0.iter().filter(|row| row["rank"] == 1).map(|row| &row["config"]);
        let best: Vec<&str> = best.filter_map(Value::as_str).collect();
        if let Some(found) = fields(line, "Why: with {} clients waited {} more: {}.") {
            let [label, gap, parts] = found[..] else { return false };
            let (mut rest, mut sum, mut first) = (parts, 0.0, None);
            while !rest.is_empty() {
                let sign = if rest.contains(" less in ") { self.sign_of(rest) } else { 1.0 };
                let (reported, after) =
                    rest.split_once(if sign < 0.0 { " less in " } else { " in " }).unwrap();
                sum += sign * amount(reported).0;
                if after == "all else" {
                    break;
                }
                let (kind, after) = after.split_once(" (").unwrap();
                let (inside, after) = after.split_once(')').unwrap();
                let [number, mean, other, mean_before] =
                    fields(inside, "{} times {} on average, {}: {}").unwrap()[..]
                else {
                    return false;
                };
                let ((count, mean_now, now), (_, before, then)) =
                    (of_verb(self.row(label), kind), of_verb(self.row(other), kind));
                assert_eq!(super::amounts::number(number), count, "{line}");
                is(mean, mean_now);
                is(mean_before, before);
                is(reported, sign * (now - then));
                first = Some(other);
                rest = after.strip_prefix(", ").or(after.strip_prefix(" and ")).unwrap_or("");
            }
            let other = first.unwrap();
            assert!(best.contains(&other), "{line}");
            let difference = waited(self.row(label)) - waited(self.row(other));
            is(gap, difference);
            assert!((sum - difference).abs() <= 0.03 * difference, "they add up to {sum}: {line}");
            return true;
        }
        self.is_count(line.strip_prefix("Why: ").unwrap_or(line))
    }

    /// The sign of the first amount of a list.
    fn sign_of(&self, list: &str) -> f64 {
        let words: Vec<&str> = list.splitn(4, ' ').collect();
        if words[2] == "less" { -1.0 } else { 1.0 }
    }

    /// The sentences on requests to the disk.
    fn is_count(&self, line: &str) -> bool {
        if let Some(found) = fields(line, "{} wrote to the disk {} where {} wrote {}, because {}.")
        {
            let [more, now, less, before, because] = found[..] else { return false };
            let [more, less] = [more, less].map(|label| self.row(label));
            assert_eq!(times(now), requests(more, "writes").0, "{line}");
            assert_eq!(times(before), requests(less, "writes").0, "{line}");
            let ways = "it {} ({} a write), where {} ({})";
            let found = fields(because, ways).unwrap_or_else(|| panic!("another reason: {line}"));
            for (row, text) in [(more, found[1]), (less, found[3])] {
                let bytes = float(&row["disk_use"]["written_bytes"]);
                is(text, bytes / requests(row, "writes").0 as f64);
            }
            return true;
        }
        let Some((label, did)) =
            line.strip_prefix("With ").and_then(|l| l.split_once(" the disk did "))
        else {
            return false;
        };
        let (did, more) = did.split_once(").").unwrap();
        for one in did.split("),").flat_map(|one| one.split(") and ")) {
            let (now, before) = one.trim().split_once(" (").unwrap();
            let [number_now, kind, mean_now] = fields(now, "{} {} of {} each").unwrap()[..] else {
                return false;
            };
            let (other, before) = before.split_once(": ").unwrap();
            let (count, mean) = requests(self.row(label), kind);
            assert_eq!(number(number_now), count, "{line}");
            is(mean_now, mean);
            let (count, mean) = requests(self.row(other), kind);
            let [number_before, mean_before] = fields(before, "{} of {}").unwrap()[..] else {
                return false;
            };
            assert_eq!(number(number_before), count, "{line}");
            is(mean_before, mean);
        }
        let rest = more.trim().trim_end_matches('.');
        rest.is_empty() || rest.split(". ").all(|sentence| self.is_about_requests(sentence, label))
    }

    /// What is said of requests besides: of those of the run with this name.
    fn is_about_requests(&self, sentence: &str, label: &str) -> bool {
        let row = self.row(label);
        if let Some(found) = fields(sentence, "That is {} flushes for each fsync, not {}") {
            let flushes = requests(row, "flushes").0 as f64;
            is_ratio(found[0], flushes / of_verb(row, "fsync").0 as f64);
            return true;
        }
        let sizes = "{} reads more often because its reads have {}, not {}";
        if let Some(found) = fields(sentence, sizes) {
            let bytes = float(&row["disk_use"]["read_bytes"]);
            is(found[1], bytes / requests(row, "reads").0 as f64);
            return found[0] == label;
        }
        let hits = "{} reads more often because its cache served {}% of look-ups, not {}%";
        if let Some(found) = fields(sentence, hits) {
            let share = float(&row["cache_hit_share"]) * 100.0;
            return found[0] == label && format!("{share:.1}") == found[1];
        }
        let disks = "The disks differ: {} and {}, and the work of {} is {}% {}";
        fields(sentence, disks).is_some_and(|found| {
            assert!(row["disk"] == found[0] && found[0] == found[2], "{sentence}");
            let parts = row["disk_use"]["time_s"].as_array().unwrap();
            let work = || parts.iter().filter(|part| part[0] != "queue");
            let all: f64 = work().map(|part| float(&part[1])).sum();
            let most = work().map(|part| float(&part[1])).fold(0.0, f64::max);
            format!("{:.0}", most * 100.0 / all) == found[3]
        })
    }

    /// The sentences on pauses, other measures and trust.
    fn is_aside(&self, line: &str) -> bool {
        let others =
            ["Other measures tell them apart: ", "Other measures tell the winners apart: "];
        if let Some(reported) = others.iter().find_map(|intro| line.strip_prefix(intro)) {
            for one in reported.trim_end_matches('.').split("; ") {
                let pattern = "by {} {} has {}, and next is {} with {} ({} times)";
                let [by, best, least, next, more, ratio] = fields(one, pattern).unwrap()[..] else {
                    return false;
                };
                let [least_is, more_is] = [best, next].map(|label| value(self.row(label), by));
                is(least, least_is);
                is(more, more_is);
                is_ratio(ratio, more_is / least_is);
            }
            return true;
        }
        if let Some(reported) = line.strip_prefix("Another order: ") {
            for one in reported.trim_end_matches('.').split("; ") {
                let [by, ahead, least, more, behind] =
                    fields(one, "by {} {} is ahead with {} ({} with {})").unwrap()[..]
                else {
                    return false;
                };
                is(least, value(self.row(ahead), by));
                is(more, value(self.row(behind), by));
                assert!(value(self.row(ahead), by) < value(self.row(behind), by), "{line}");
            }
            return true;
        }
        if let Some(found) = fields(line, "Of the {} with {}, {} are the recorded pauses{}") {
            let [all, label, pauses, rest] = found[..] else { return false };
            self.are_pauses(label, pauses, all);
            if let Some(found) = fields(rest, "{}under way ({}: {} of {}). `--pace asap`{}") {
                self.are_pauses(found[1], found[2], found[3]);
            }
            return true;
        }
        line.starts_with("This holds for models (")
            || line.starts_with("The pauses that were recorded between operations are left out")
    }

    /// The pauses of a run: with the time of its operations and of the end they are all of it.
    fn are_pauses(&self, label: &str, pauses: &str, all: &str) {
        let row = self.row(label);
        is(pauses, float(&row["pauses_s"]));
        is(all, float(&row["finish_s"]));
        let verbs = row["verbs"].as_array().unwrap().iter();
        let passed: f64 = verbs.map(|of| float(&of["elapsed_s"])).sum();
        let span = float(&row["span_s"]);
        assert!((passed + float(&row["pauses_s"]) - span).abs() < 1e-6 * span, "{label}: {passed}");
    }
}

//! The present: the conclusions of the papers, tested on today's devices and on real mounts.
//!
//! Contract: a `Conclusion` is a sentence of the papers as a ratio of LFS to FFS with a bound. It
//! is judged on the papers' machine, on a modelled disk and a modelled SSD of today, and on mounts
//! of both layouts if the rows of a `twinfs bench` are given.

use std::fmt::Write as _;

use crate::clc;
use crate::results::Results;
use crate::runs::{TODAY, TODAY_KB, rate, today, today_tpcb, tpcb};
use twin_report::draw::{BLUE, Chart, Colour, Line, RED, lines};
use twin_report::markup::escape;
use twin_report::units::figure;

/// The bound on a ratio of LFS to FFS for a conclusion to hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Near(f64, f64),
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Bound::AtLeast(low) => ratio >= low,
            Bound::AtMost(high) => ratio <= high,
            Bound::Near(low, high) => (low..=high).contains(&ratio),
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::AtLeast(low) => write!(f, "at least {low}"),
            Bound::AtMost(high) => write!(f, "at most {high}"),
            Bound::Near(low, high) => write!(f, "{low} to {high}"),
        }
    }
}

/// The quantity that is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Measure {
    /// A phase of the sweep for a size in KB.
    Size(&'static str, u64),
    /// TPC-B.
    Tpcb,
}

/// A conclusion of 1994 and 1995.
struct Conclusion {
    says: &'static str,
    measure: Measure,
    bound: Bound,
}

const CONCLUSIONS: &[Conclusion] = &[
    Conclusion {
        says: "LFS creates small files several times as fast (1 KB)",
        measure: Measure::Size("create", 1),
        bound: Bound::AtLeast(2.0),
    },
    Conclusion {
        says: "for large files creating is alike (4 MB)",
        measure: Measure::Size("create", 4096),
        bound: Bound::Near(0.8, 1.25),
    },
    Conclusion {
        says: "small files are read alike (4 KB)",
        measure: Measure::Size("read", 4),
        bound: Bound::Near(0.8, 1.25),
    },
    Conclusion {
        says: "large files are read alike (4 MB)",
        measure: Measure::Size("read", 4096),
        bound: Bound::Near(0.8, 1.25),
    },
    Conclusion {
        says: "LFS overwrites small files faster (4 KB)",
        measure: Measure::Size("overwrite", 4),
        bound: Bound::AtLeast(1.1),
    },
    Conclusion {
        says: "FFS overwrites large files at least as fast (4 MB)",
        measure: Measure::Size("overwrite", 4096),
        bound: Bound::AtMost(1.0),
    },
    Conclusion {
        says: "LFS is ahead where each small change is made durable (4 KB, fsync)",
        measure: Measure::Size("overwrite_fsync", 4),
        bound: Bound::AtLeast(1.1),
    },
    Conclusion {
        says: "LFS deletes small files several times as fast (1 KB)",
        measure: Measure::Size("delete", 1),
        bound: Bound::AtLeast(2.0),
    },
    Conclusion {
        says: "without a cleaner LFS is half as fast again at TPC-B",
        measure: Measure::Tpcb,
        bound: Bound::AtLeast(1.2),
    },
];

/// The ratio on the papers' machine, and on today's disk and SSD.
fn ratios(r: &Results, measure: Measure) -> [f64; 3] {
    let then = match measure {
        // The paper of 1995 has no overwrites with fsync.
        Measure::Size(phase @ "overwrite_fsync", kb) => {
            let of = |system| r.rate(&clc::need(clc::config(system), kb), phase);
            of(clc::System::Lfs) / of(clc::System::Efs)
        }
        Measure::Size(phase, kb) => rate(r, "bsd-lfs", kb, phase) / rate(r, "ffs-m8r0", kb, phase),
        Measure::Tpcb => r.rate(&tpcb("bsd-lfs"), "tx") / r.rate(&tpcb("ffs-m8r2"), "tx"),
    };
    let of = |i: usize| match measure {
        Measure::Size(phase, kb) => r.rate(&today(TODAY[i].1, kb), phase),
        Measure::Tpcb => r.rate(&today_tpcb(TODAY[i].1), "tx"),
    };
    [then, of(0) / of(1), of(2) / of(3)]
}

/// The conclusions for the terminal.
pub fn text(r: &Results) -> String {
    let mut out = String::from(
        "the old conclusions on today's devices (LFS over FFS: then; disk of 7200 rpm; SATA SSD)\n",
    );
    for c in CONCLUSIONS {
        let [then, disk, ssd] = ratios(r, c.measure);
        let mark = |ratio: f64| if c.bound.holds(ratio) { "holds" } else { "no longer" };
        let _ = writeln!(
            out,
            "    {:<68} {:>5};  {:>5} {:<9};  {:>5} {}",
            c.says,
            figure(then),
            figure(disk),
            mark(disk),
            figure(ssd),
            mark(ssd)
        );
    }
    out
}

/// What changed since, for the head of the page: the conclusions that no longer hold, by device.
pub(crate) fn lines_of(r: &Results) -> String {
    let mut out = String::new();
    for (device, name) in [(1, "today's disk of 7200 rpm"), (2, "today's SATA SSD")] {
        let known: Vec<(&Conclusion, f64)> =
            CONCLUSIONS.iter().map(|c| (c, ratios(r, c.measure)[device])).collect();
        let known: Vec<_> = known.into_iter().filter(|(_, ratio)| ratio.is_finite()).collect();
        if known.is_empty() {
            continue;
        }
        let gone: Vec<String> = known
            .iter()
            .filter(|(c, ratio)| !c.bound.holds(*ratio))
            .map(|(c, ratio)| format!("\u{201c}{}\u{201d} ({})", escape(c.says), figure(*ratio)))
            .collect();
        let (all, held) = (known.len(), known.len() - gone.len());
        let rest = match gone.len() {
            0 => String::new(),
            _ => format!(" No longer (LFS over FFS in brackets): {}.", gone.join("; ")),
        };
        out +=
            &format!("<p>Since then: on {name} <b>{held} of {all}</b> conclusions hold.{rest}</p>");
    }
    out
}

/// Parses a number of bytes in the form of benchmark settings: `64K`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// The ratio of the two layouts on mounts, if it was measured.
fn mounted(rows: &serde_json::Value, measure: Measure) -> f64 {
    let is_it = |row: &&serde_json::Value| {
        let (bench, phase) = (row["bench"].as_str(), row["phase"].as_str());
        let (kind, words) = bench.unwrap_or_default().split_once(':').unwrap_or_default();
        match measure {
            Measure::Size(wanted, kb) => {
                let size = words.split(',').find_map(|word| word.strip_prefix("size="));
                kind == "sizes" && phase == Some(wanted) && size.and_then(bytes) == Some(kb << 10)
            }
            Measure::Tpcb => phase == Some("tx"),
        }
    };
    let row = rows.as_array().and_then(|rows| rows.iter().find(is_it));
    let of = |layout: &str| {
        let targets = row.and_then(|row| row["targets"].as_array());
        let named = |t: &&serde_json::Value| {
            t["target"].as_str().is_some_and(|name| short(name).contains(layout))
        };
        targets.and_then(|all| all.iter().find(named)).and_then(|t| t["median"].as_f64())
    };
    of("lfs").zip(of("ffs")).map_or(f64::NAN, |(lfs, ffs)| lfs / ffs)
}

/// Blue is LFS and red is FFS on the whole page; dashed on an SSD.
const TODAY_COLOURS: [Colour; 4] = [BLUE, RED, BLUE.dashed(), RED.dashed()];

/// The section of the page: charts of today's sweep, then the conclusions. `measured`: as in
/// [`measured`].
pub(crate) fn section(r: &Results, measured: Option<&serde_json::Value>) -> String {
    let mut out = String::from(
        "<p>The same files on a modelled disk of 7200 rpm and a modelled SATA SSD: our LFS and our \
         FFS with a journal, both as they are mounted today.</p><div class=\"charts\">",
    );
    let charts = [
        ("create", "Create, today"),
        ("read", "Read, today"),
        ("overwrite", "Overwrite, today"),
        ("overwrite_fsync", "Overwrite with fsync, today"),
    ];
    for (phase, title) in charts {
        let line = |(i, (name, config, _)): (usize, &(&str, &str, &str))| Line {
            name: name.to_string(),
            colour: TODAY_COLOURS[i],
            paper: false,
            points: TODAY_KB
                .iter()
                .map(|&kb| (kb as f64, r.rate(&today(config, kb), phase)))
                .collect(),
        };
        let all: Vec<Line> = TODAY.iter().enumerate().map(line).collect();
        out +=
            &lines(&Chart { title, y_label: "MB/s", log_y: true, marks: &[] }, &all, "file size");
    }
    out += "</div><h3>Which of the old conclusions still hold</h3><table><tr>\
            <th class=\"l\">LFS over FFS</th><th>holds if</th><th>the papers' machine</th>\
            <th>today's disk</th><th>today's SSD</th>";
    out += if measured.is_some() { "<th>mounted here</th></tr>" } else { "</tr>" };
    for c in CONCLUSIONS {
        out += &format!("<tr><td class=\"l\">{}</td><td>{}</td>", escape(c.says), c.bound);
        ratios(r, c.measure).iter().for_each(|&ratio| out += &verdict(c.bound, ratio));
        if let Some(rows) = measured {
            out += &verdict(c.bound, mounted(rows, c.measure));
        }
        out += "</tr>";
    }
    out + "</table>"
}

fn verdict(bound: Bound, ratio: f64) -> String {
    match bound.holds(ratio) {
        _ if !ratio.is_finite() => "<td></td>".into(),
        true => format!("<td class=\"yes\">{} &#10003;</td>", figure(ratio)),
        false => format!("<td class=\"no\">{} &#10007;</td>", figure(ratio)),
    }
}

/// The short form of a target's path on the page: its last part.
fn short(target: &str) -> &str {
    target.rsplit('/').find(|part| !part.is_empty()).unwrap_or(target)
}

/// Rows of a phase and a target each as rows of a phase, with its targets.
pub fn by_phase(rows: &serde_json::Value) -> serde_json::Value {
    let mut all: Vec<serde_json::Value> = Vec::new();
    for row in rows.as_array().into_iter().flatten() {
        let is_same = |last: &serde_json::Value| {
            ["bench", "phase", "unit"].iter().all(|key| last[key] == row[key])
        };
        if !all.last().is_some_and(is_same) {
            let (bench, phase, unit) = (&row["bench"], &row["phase"], &row["unit"]);
            all.push(
                serde_json::json!({ "bench": bench, "phase": phase, "unit": unit, "targets": [] }),
            );
        }
        let target = serde_json::json!({ "target": row["target"], "median": row["median_per_s"] });
        if let Some(targets) = all.last_mut().and_then(|last| last["targets"].as_array_mut()) {
            targets.push(target);
        }
    }
    all.into()
}

/// Results on real directories, from `twinfs bench --json`. If one target's name contains `lfs` and
/// another's `ffs`, their ratio is shown too.
pub(crate) fn measured(rows: &serde_json::Value) -> String {
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let targets = |row: &serde_json::Value| row["targets"].as_array().cloned().unwrap_or_default();
    let Some(first) = rows.first() else { return String::new() };
    let median = |row: &serde_json::Value, i: usize| row["targets"][i]["median"].as_f64();
    // A target on which no benchmark ran has no column.
    let shown: Vec<usize> = (0..targets(first).len())
        .filter(|&i| rows.iter().any(|row| median(row, i).is_some()))
        .collect();
    let name = |&i: &usize| short(first["targets"][i]["target"].as_str().unwrap_or_default());
    let names: Vec<String> = shown.iter().map(|i| name(i).to_string()).collect();
    let place = |what: &str| names.iter().position(|name| name.contains(what));
    let both = place("lfs").zip(place("ffs"));
    let mut out = String::from(
        "<h3>On real mounts</h3><p>Measured by <code>twinfs bench</code> on real file systems, with the \
         targets in turn; medians.</p><table><tr>\
         <th class=\"l\">benchmark</th><th class=\"l\">phase</th><th>in</th>",
    );
    names.iter().for_each(|name| out += &format!("<th>{}</th>", escape(name)));
    out += if both.is_some() { "<th>LFS over FFS</th></tr>" } else { "</tr>" };
    for row in rows {
        let text = |key: &str| escape(row[key].as_str().unwrap_or_default());
        let (bench, phase, unit) = (text("bench"), text("phase"), text("unit"));
        out +=
            &format!("<tr><td class=\"l\">{bench}</td><td class=\"l\">{phase}</td><td>{unit}</td>");
        let words = |rate: Option<f64>| rate.map_or("–".into(), figure);
        let rates: Vec<Option<f64>> = shown.iter().map(|&i| median(row, i)).collect();
        rates.iter().for_each(|rate| out += &format!("<td>{}</td>", words(*rate)));
        if let Some((lfs, ffs)) = both {
            let ratio = rates[lfs].zip(rates[ffs]).map(|(lfs, ffs)| lfs / ffs);
            out += &format!("<td>{}</td>", words(ratio));
        }
        out += "</tr>";
    }
    out + "</table>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_that_was_not_measured_holds_nothing() {
        for c in CONCLUSIONS {
            assert!(!c.bound.holds(f64::NAN), "{}", c.says);
        }
        assert!(Bound::Near(0.8, 1.25).holds(1.0) && !Bound::Near(0.8, 1.25).holds(1.3));
    }

    #[test]
    fn rows_of_a_bench_give_the_ratio_of_the_two_layouts() {
        let target =
            |name: &str, median: f64| serde_json::json!({"target": name, "median": median});
        let idle = serde_json::json!({"target": "device", "median": null});
        let rows = serde_json::json!([{
            "bench": "small", "phase": "create", "unit": "files/s",
            "targets": [idle, target("/a/lfs", 3.0), target("/a/ffs/", 2.0)],
        }]);
        let page = measured(&rows);
        assert!(page.contains("LFS over FFS") && page.contains("<td>1.50</td>"), "{page}");
        assert!(!page.contains("device"), "{page}");
    }

    #[test]
    fn rows_of_a_target_each_become_rows_of_a_phase() {
        let row = |phase: &str, target: &str, median: f64| {
            serde_json::json!({"bench": "small", "phase": phase, "unit": "files/s", "target": target,
                "median_per_s": median})
        };
        let rows = [row("create", "a", 1.0), row("create", "b", 2.0), row("read", "a", 3.0)];
        let expected = serde_json::json!([
            {"bench": "small", "phase": "create", "unit": "files/s",
             "targets": [{"target": "a", "median": 1.0}, {"target": "b", "median": 2.0}]},
            {"bench": "small", "phase": "read", "unit": "files/s",
             "targets": [{"target": "a", "median": 3.0}]},
        ]);
        assert_eq!(by_phase(&serde_json::json!(rows)), expected);
    }

    #[test]
    fn a_conclusion_finds_its_row_among_those_measured() {
        let target =
            |name: &str, median: f64| serde_json::json!({"target": name, "median": median});
        let row = |bench: &str, phase: &str, lfs: f64| {
            let targets = [target("lfs", lfs), target("ffs", 2.0), target("ext4", 9.0)];
            serde_json::json!({"bench": bench, "phase": phase, "targets": targets})
        };
        let rows = serde_json::json!([
            row("sizes:size=4K,total=8M", "create", 3.0),
            row("sizes:size=4M", "create", 5.0),
            row("tpcb", "tx", 1.0),
        ]);
        assert_eq!(mounted(&rows, Measure::Size("create", 4)), 1.5);
        assert_eq!(mounted(&rows, Measure::Size("create", 4096)), 2.5);
        assert_eq!(mounted(&rows, Measure::Tpcb), 0.5);
        assert!(mounted(&rows, Measure::Size("read", 4)).is_nan());
    }
}

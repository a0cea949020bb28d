//! The section of the page on aged speeds: figure 8 of Logging versus Clustering, ours, with what the paper lacks, the
//! same loads on logs.

use crate::studies::aged_log::{LogTest, OldLog, OldLogs, Rates};
use crate::studies::benchmark::SIZES;
use crate::studies::file_layout::{Old, Study, TEST_DAYS};
use twin_report::draw::{BLUE, Chart, GREEN, Line, RED, over_time};
use twin_report::markup::{charts, escape};

/// The section, empty if no log was aged.
pub(crate) fn section(logs: &OldLogs, study: &Study) -> String {
    let old: Vec<&OldLog> = logs.0.iter().flatten().collect();
    if old.is_empty() {
        return String::new();
    }
    let ffs = |log: &OldLog| {
        let is = |old: &&Old| {
            (old.system.server, old.system.name) == (log.system.server, log.system.name)
        };
        study.all.iter().flatten().find(is)
    };
    let mut out = String::from(
        "<h2>Speeds of aged file systems</h2><p>The six file systems of figure 8 of <i>File System Logging Versus \
         Clustering</i>, which measured FFS alone, and the same loads on the log of that paper on the same machine. A \
         speed is a part of that of the empty file system of its own kind. FFS is measured on a new volume with the \
         free space of the old one, as in the paper; the log on the old volume itself, as it is and after cleaning, with its cleaner at work where room is short. \
         Nothing is published of aged logs: these figures are shown and not judged. An empty field is a benchmark whose \
         files did not fit.</p>",
    );
    let drawn: Vec<String> = old.iter().map(|log| drawn(log, ffs(log))).collect();
    out += "<h3>Files of 64 KB</h3>";
    out += &charts(&drawn);
    out += "<table><tr><th class=\"l\" rowspan=\"2\">file system</th><th rowspan=\"2\">day</th>\
            <th rowspan=\"2\">log in use</th>";
    for size in SIZES {
        out += &format!("<th colspan=\"6\">{} KB</th>", size >> 10);
    }
    out += "</tr><tr>";
    for _ in SIZES {
        out += "<th>FFS write</th><th>log</th><th>cleaned</th><th>FFS read</th><th>log</th><th>cleaned</th>";
    }
    out += "</tr>";
    for log in &old {
        for day in TEST_DAYS {
            out += &row(log, ffs(log), day);
        }
    }
    out + "</table>"
}

/// A rate of an old log, of the empty one's.
fn part(log: &OldLog, test: &LogTest, rates: Option<Rates>, of: fn(Rates) -> f64) -> Option<f64> {
    let at = SIZES.iter().position(|&size| size == test.size)?;
    Some(of(rates?) / of(log.empty[at]))
}

const WRITES: fn(Rates) -> f64 = |rates| rates.0;
const READS: fn(Rates) -> f64 = |rates| rates.1;

fn row(log: &OldLog, ffs: Option<&Old>, day: u64) -> String {
    let full = log.full.iter().find(|of| of.0 == day).map(|of| of.1);
    let field = |value: Option<f64>| match value.filter(|value| value.is_finite()) {
        Some(value) => format!("<td>{value:.2}</td>"),
        None => "<td></td>".into(),
    };
    let name = escape(log.system.name);
    let mut out = format!("<tr><th class=\"l\">{name}</th><td>{day}</td>{}", field(full));
    for size in SIZES {
        let of_ffs = ffs.and_then(|old| old.tests.iter().find(|t| (t.day, t.size) == (day, size)));
        let of_log = log.tests.iter().find(|test| (test.day, test.size) == (day, size));
        let of = |cleaned: bool, of| {
            let test = of_log?;
            part(log, test, if cleaned { test.cleaned } else { test.old }, of)
        };
        out += &field(of_ffs.map(|test| test.relative_write));
        out += &(field(of(false, WRITES)) + &field(of(true, WRITES)));
        out += &field(of_ffs.map(|test| test.relative_read));
        out += &(field(of(false, READS)) + &field(of(true, READS)));
    }
    out + "</tr>"
}

fn drawn(log: &OldLog, ffs: Option<&Old>) -> String {
    let size = SIZES[1];
    let of_log = |cleaned: bool, of: fn(Rates) -> f64| {
        let tests = log.tests.iter().filter(|test| test.size == size);
        let point = |test: &LogTest| {
            let rates = if cleaned { test.cleaned } else { test.old };
            Some((test.day as f64, part(log, test, rates, of)?))
        };
        tests.filter_map(point).collect::<Vec<(f64, f64)>>()
    };
    let of_ffs = |writes: bool| {
        let tests = ffs.into_iter().flat_map(|old| &old.tests).filter(|test| test.size == size);
        let speed = |test: &crate::studies::file_layout::Test| {
            (test.day as f64, if writes { test.relative_write } else { test.relative_read })
        };
        tests.map(speed).collect::<Vec<(f64, f64)>>()
    };
    let line =
        |name: &str, colour, points| Line { name: name.into(), colour, paper: false, points };
    let curves = [
        line("FFS, read", RED, of_ffs(false)),
        line("FFS, write", RED.dashed(), of_ffs(true)),
        line("log, read", BLUE, of_log(false, READS)),
        line("log, write", BLUE.dashed(), of_log(false, WRITES)),
        line("log cleaned, read", GREEN, of_log(true, READS)),
        line("log cleaned, write", GREEN.dashed(), of_log(true, WRITES)),
    ];
    let chart =
        Chart { title: log.system.name, y_label: "speed, of empty", log_y: false, marks: &[] };
    over_time(&chart, &curves, "day of the study")
}

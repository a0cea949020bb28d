//! What packets had in them, what was inferred and what could not be used: rows for programs, tables for people.

use serde::Serialize;
use twin_report::{Report, Table, cells};
use twin_trace::Reading;

use crate::Gathered;
use crate::infer::Inferred;

const OPENS: &str = "opens inferred";
const BEFORE: &str = "files that existed before";
const NAMELESS: &str = "of them with a name that was not seen";
/// What a trace has that no packet says.
const MADE_UP: [&str; 3] = [OPENS, BEFORE, NAMELESS];

/// A line of the result.
#[derive(Serialize)]
pub struct Row {
    /// What it tells of: `procedure`, `packets`, `unused` or `trace`.
    about: &'static str,
    name: String,
    version: Option<u32>,
    calls: Option<u64>,
    answered: Option<u64>,
    failed: Option<u64>,
    count: Option<u64>,
}

impl Row {
    fn count(about: &'static str, name: &str, count: u64) -> Row {
        let name = name.to_owned();
        let (version, calls, answered, failed) = (None, None, None, None);
        Row { about, name, version, calls, answered, failed, count: Some(count) }
    }
}

/// What was found in the packets.
pub fn found(gathered: &Gathered) -> Vec<Row> {
    let tally = &gathered.tally;
    let mut rows: Vec<Row> = tally
        .by_name()
        .map(|(version, name, counts)| Row {
            about: "procedure",
            name: name.to_owned(),
            version: Some(version),
            calls: Some(counts.calls),
            answered: Some(counts.answered),
            failed: Some(counts.failed),
            count: None,
        })
        .collect();
    let packets = [
        ("packets", tally.packets),
        ("of them without UDP or TCP", tally.foreign_packets),
        ("TCP segments seen before", tally.tcp.repeated),
        ("calls sent again", tally.retransmitted),
        ("replies sent again", tally.repeated_replies),
        ("replies captured before their calls", tally.early_replies),
        ("calls of other programs", tally.other_programs),
    ];
    rows.extend(packets.map(|(name, count)| Row::count("packets", name, count)));
    let unused = [
        ("calls without a reply", tally.unanswered),
        ("replies without a call", tally.unasked),
        ("malformed or cut calls", tally.malformed_calls),
        ("malformed or cut replies", tally.malformed_replies),
        ("calls that the server refused", tally.refused),
        ("places where TCP data is missing", tally.tcp.gaps),
        ("calls of NFS version 4, which is not read", tally.version_4),
    ];
    rows.extend(unused.map(|(name, count)| Row::count("unused", name, count)));
    rows
}

/// What was left out and assumed, as the readers of traces tell it. The rows have the same.
pub fn reading_of(rows: &[Row]) -> Reading {
    let mut reading = Reading::of("exchange");
    reading.use_many(rows.iter().filter_map(|row| row.answered).sum());
    let of_kind = |about: &'static str| {
        let rows = rows.iter().filter(move |row| row.about == about);
        rows.filter_map(|row| Some((row.name.as_str(), row.count?)))
    };
    for (name, count) in of_kind("unused") {
        reading.leave_out_many(count, 0, name);
    }
    for (name, count) in of_kind("trace").filter(|(name, _)| MADE_UP.contains(name)) {
        reading.assume_of(count, name);
    }
    reading
}

/// Why there is nothing to write.
pub fn why_empty(gathered: &Gathered, name: &str) -> String {
    let why = match gathered.tally.version_4 {
        0 => "was the server's traffic captured, with whole packets (tcpdump -s 0)?",
        _ => "it has NFS version 4; mount with vers=3 to have what can be read",
    };
    format!("{name} has no call of NFS version 2 or 3 with its reply: {why}")
}

/// What was inferred for a trace.
pub fn inferred(inferred: &Inferred) -> Vec<Row> {
    let trace = [
        ("operations that clients asked for", inferred.asked),
        (OPENS, inferred.opens),
        ("lookups of files found earlier", inferred.lookups),
        ("fsyncs of writes that had to be durable", inferred.fsyncs),
        (BEFORE, inferred.nodes),
        (NAMELESS, inferred.nameless),
    ];
    let unused = [
        ("exchanges without a counterpart in a trace", inferred.without_counterpart),
        ("exchanges that failed, but would not in a replay", inferred.failed),
        ("answers that contradict earlier ones (now a getattr)", inferred.contradictions),
    ];
    let trace = trace.map(|(name, count)| Row::count("trace", name, count));
    let unused = unused.map(|(name, count)| Row::count("unused", name, count));
    trace.into_iter().chain(unused).collect()
}

/// The report: a table of procedures, then one of each other kind of rows.
pub fn report(name: &str, rows: &[Row]) -> Report {
    let mut report = Report::new(format!("NFS calls of {name}"));
    for (about, columns) in [
        ("procedure", &["procedure", "version", "calls", "answered", "failed"][..]),
        ("packets", &["packets", "count"]),
        ("trace", &["trace", "count"]),
        ("unused", &["not used", "count"]),
    ] {
        let number = |number: Option<u64>| number.unwrap_or(0);
        let row = |row: &Row| match row.version {
            Some(version) => cells![
                &row.name,
                format!("v{version}"),
                number(row.calls),
                number(row.answered),
                number(row.failed)
            ],
            None => cells![&row.name, number(row.count)],
        };
        let of_kind = rows.iter().filter(|row| row.about == about && row.count != Some(0));
        report.add(Table::new(columns.iter().copied(), 1).with(of_kind.map(row)));
    }
    report.add_rows(rows);
    report
}

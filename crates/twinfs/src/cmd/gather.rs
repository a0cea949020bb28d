//! `twinfs gather`: a trace from the packets of an NFS server, or from what nfsdump wrote down of them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use twin_cli::progress::Progress;
use twin_cli::{Failure, Outcome, Printer};
use twin_gather::{Gathered, Gatherer, capture, infer, nfsdump};
use twin_host::{Interrupts, NewFile};
use twin_mount::input::{Wanted, must_be};
use twin_report::{Report, Table, cells};
use twin_trace::{Reading, Writer, readers};

use super::reading;
use crate::cli::Gather;

const OPENS: &str = "opens inferred";
const BEFORE: &str = "files that existed before";
const NAMELESS: &str = "of them with a name that was not seen";
/// What a trace has that no packet says.
const MADE_UP: [&str; 3] = [OPENS, BEFORE, NAMELESS];

/// How many packets are taken before it is looked whether to stop.
const LOOK_EVERY: u64 = 4096;

pub(crate) fn run(args: &Gather, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let input = opened(&args.capture)?;
    let new = args.to.as_deref().map(|path| NewFile::make(path, interrupts)).transpose()?;
    let (gathered, ending) = gathered(args, input, interrupts)?;
    let name = args.capture.display();
    let mut rows = found(&gathered);
    let mut exit = ExitCode::SUCCESS;
    if let Some(damage) = &ending.damage {
        twin_host::note!(
            "twinfs: {name}: {damage}. The {} packets before that are used",
            ending.packets
        );
        exit = ExitCode::FAILURE;
    }
    if let Some(new) = new {
        if gathered.exchanges.is_empty() {
            printer.print(&report(&name.to_string(), &rows))?;
            return Err(empty(&gathered, &name.to_string()));
        }
        rows.extend(written(args, &gathered, new)?);
    }
    reading::tell(&name, &reading_of(&rows));
    printer.print(&report(&name.to_string(), &rows))?;
    Ok(exit)
}

/// The capture, its size if it has one.
fn opened(path: &Path) -> Result<(Box<dyn Read + Send>, u64), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(stdin()), 0));
    }
    must_be(path, Wanted::Capture)?;
    let in_file = |error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(in_file)?;
    let size = file.metadata().map_err(in_file)?.len();
    Ok((Box::new(file), size))
}

fn gathered(
    args: &Gather,
    (input, size): (Box<dyn Read + Send>, u64),
    interrupts: &Interrupts,
) -> Result<(Gathered, capture::Ending), Failure> {
    let progress = Progress::of_bytes("of the capture read", size);
    let mut gatherer = Gatherer::default();
    let (mut packets, mut stop) = (0u64, Ok(()));
    let in_file = |why: &dyn std::fmt::Display| format!("{}: {why}", args.capture.display());
    let input = CountedInput { input, progress: progress.clone() };
    let mut input = BufReader::new(input);
    let start = input.fill_buf().map_err(|why| in_file(&why))?;
    if start.is_empty() {
        return Err(in_file(&"the file is empty").into());
    }
    let mut input = readers::expanded(input).map_err(|why| in_file(&why))?;
    if nfsdump::looks_like(input.fill_buf().map_err(|why| in_file(&why))?) {
        let read = of_text(input, interrupts);
        progress.finish();
        let (gathered, lines) = read.map_err(|why| in_file(&why))?;
        return Ok((gathered, capture::Ending { packets: lines, damage: None }));
    }
    let ending = capture::read(input, &mut |packet| {
        gatherer.packet(&packet);
        packets += 1;
        if packets.is_multiple_of(LOOK_EVERY) {
            stop = interrupts.check();
        }
        stop.is_ok()
    });
    progress.finish();
    stop?;
    let ending = ending.map_err(|why| in_file(&why))?;
    Ok((gatherer.finish(), ending))
}

/// What a text of nfsdump has, and the number of its lines.
fn of_text(input: impl BufRead, interrupts: &Interrupts) -> Result<(Gathered, u64), String> {
    let mut stop = Ok(());
    let read = nfsdump::read(input, |lines| {
        if lines.is_multiple_of(LOOK_EVERY) {
            stop = interrupts.check();
        }
        stop.is_ok()
    });
    stop?;
    read.map_err(|error| error.to_string())
}

/// The input, whose bytes are shown.
struct CountedInput {
    input: Box<dyn Read + Send>,
    progress: Progress,
}

impl Read for CountedInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.progress.inc(bytes as u64);
        Ok(bytes)
    }
}

/// A line of the result.
#[derive(Serialize)]
struct Row {
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
fn found(gathered: &Gathered) -> Vec<Row> {
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
fn reading_of(rows: &[Row]) -> Reading {
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
fn empty(gathered: &Gathered, name: &str) -> Failure {
    let why = match gathered.tally.version_4 {
        0 => "was the server's traffic captured, with whole packets (tcpdump -s 0)?",
        _ => "it has NFS version 4; mount with vers=3 to have what can be read",
    };
    format!("{name} has no call of NFS version 2 or 3 with its reply: {why}").into()
}

/// Writes the trace; tells what was inferred.
fn written(args: &Gather, gathered: &Gathered, new: NewFile) -> Result<Vec<Row>, Failure> {
    let options = infer::Options {
        close_after_ns: args.close_after * twin_rt::SECS,
        anonymous: args.anonymous,
        text: match args.anonymous {
            true => "NFS packets, names replaced".into(),
            false => format!("NFS calls of {}", args.capture.display()),
        },
    };
    let (header, records, inferred) = infer::trace(&gathered.exchanges, &options);
    let mut writer = Writer::new(new.handle()?, &header).map_err(|e| e.to_string())?;
    for record in &records {
        writer.record(record).map_err(|e| e.to_string())?;
    }
    writer.finish().map_err(|e| e.to_string())?;
    new.keep();
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
    Ok(trace.into_iter().chain(unused).collect())
}

/// The report: a table of procedures, then one of each other kind of rows.
fn report(name: &str, rows: &[Row]) -> Report {
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

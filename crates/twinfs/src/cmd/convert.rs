//! `twinfs convert`: a trace of our own, made of another program's or of a generated workload.
//!
//! Contract: records go from the reader to the file as they come, so memory does not grow with the
//! trace unless its reader's does. Without `--partial` a damaged trace leaves no file behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::ExitCode;

use serde::Serialize;
use twin_cli::progress::Progress;
use twin_cli::{Failure, Outcome, Printer};
use twin_fs::Op;
use twin_host::{Interrupts, NewFile};
use twin_report::{Report, Table, cells};
use twin_rt::{Nanos, SECS};
use twin_trace::{Header, Outcome as Answer, Record, Source, TraceError, Traits, Verb, Writer};

use super::reading;
use super::workload::{generated, of_file};
use crate::cli::Convert;

/// How many records are taken before it is looked whether to stop.
const LOOK_EVERY: u64 = 4096;

pub(crate) fn run(args: &Convert, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let (workload, name) = match (&args.trace, &args.workload) {
        (Some(path), _) => {
            (of_file(path, args.trace_format.as_deref())?, path.display().to_string())
        }
        (None, Some(text)) => (generated(text, args.seed.unwrap_or(1))?, text.clone()),
        (None, None) => return Err("name a trace or a workload".to_owned().into()),
    };
    let mut source = workload.start().map_err(|error| format!("{name}: {error}"))?;
    let new = args.to.as_deref().map(|path| NewFile::make(path, interrupts)).transpose()?;
    let mut copy = Copy::start(&*source, new.as_ref(), &name)?;
    let damage = copy.all(&mut *source, interrupts)?;
    let damage = damage.or_else(|| twin_lab::cut(&*source).map(|cut| cut.to_string()));
    if let Some(damage) = &damage {
        let count = copy.operations();
        if !args.good_part {
            return Err(format!(
                "{name}: {damage}. {count} operations before that are good: --partial uses them"
            )
            .into());
        }
        twin_host::note!("twinfs: {name}: {damage}. The {count} operations before that are used");
    }
    let reading = source.reading();
    reading::tell(&name, &reading);
    if copy.operations() == 0 {
        return Err(format!("{name}: there is no operation in it").into());
    }
    let rows = copy.rows();
    if let Some(writer) = copy.writer {
        writer.finish().map_err(|error| error.to_string())?;
    }
    if let Some(new) = new {
        new.keep();
    }
    let mut report = report(&name, &rows);
    report.change_json(|row| {
        // The row of all operations also tells what was left out.
        if row["name"] == "operations" {
            reading::add_to(row, &reading);
        }
    });
    printer.print(&report)?;
    Ok(if damage.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What was copied so far.
struct Copy {
    writer: Option<Writer<File>>,
    /// The numbers of requests in the new trace, by those in the old one.
    numbers: BTreeMap<u64, u64>,
    verbs: BTreeMap<&'static str, (u64, u64)>,
    waiting: BTreeMap<u64, &'static str>,
    clients: BTreeSet<u32>,
    nodes: u64,
    last_ns: Nanos,
    read_bytes: u64,
    written_bytes: u64,
}

impl Copy {
    fn start(source: &dyn Source, new: Option<&NewFile>, name: &str) -> Result<Copy, Failure> {
        let Header { kind, start, seed, traits, text } = source.header();
        // Without the directories, which are nobody's business, and differ where the same trace is made again.
        let name = name.rsplit('/').next().unwrap_or(name);
        let text = format!("{text}, from {name}");
        // Contents are not taken along: what the readers make has none.
        let traits = Traits { contents: false, ..*traits };
        let header = Header { kind: *kind, start: *start, seed: *seed, traits, text };
        let writer = new
            .map(|new| Writer::new(new.handle()?, &header).map_err(|error| error.to_string()))
            .transpose()?;
        Ok(Copy {
            writer,
            numbers: BTreeMap::new(),
            verbs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            clients: BTreeSet::new(),
            nodes: 0,
            last_ns: 0,
            read_bytes: 0,
            written_bytes: 0,
        })
    }

    /// Copies all records; returns the damage that ends them.
    fn all(
        &mut self,
        source: &mut dyn Source,
        interrupts: &Interrupts,
    ) -> Result<Option<String>, Failure> {
        let progress = Progress::of("operations", 0);
        let mut records = 0;
        loop {
            match source.next_record() {
                Ok(Some(record)) => self.record(record).map_err(|error| error.to_string())?,
                Ok(None) => return Ok(None),
                Err(error) => return Ok(Some(error.to_string())),
            }
            records += 1;
            if records % LOOK_EVERY == 0 {
                interrupts.check()?;
                progress.set_done(self.operations());
            }
        }
    }

    fn record(&mut self, record: Record) -> Result<(), TraceError> {
        match record {
            Record::Node(node) => {
                self.nodes += u64::from(node.as_data().is_none());
                self.writer.as_mut().map_or(Ok(()), |writer| writer.node(&node))
            }
            Record::Request { at_ns, request } => {
                let verb = Verb::of(&request.op).name();
                self.verbs.entry(verb).or_default().0 += 1;
                self.clients.insert(request.client);
                self.last_ns = self.last_ns.max(at_ns);
                // Readers number requests as they like; the new trace does so in order.
                let writer = self.writer.as_mut();
                let number = writer.map(|writer| writer.request(at_ns, &request)).transpose()?;
                // That an inode is forgotten is not answered.
                if !matches!(request.op, Op::Forget { .. }) {
                    self.waiting.insert(request.id, verb);
                    self.numbers.extend(number.map(|number| (request.id, number)));
                }
                Ok(())
            }
            Record::Reply { at_ns, id, outcome } => {
                self.last_ns = self.last_ns.max(at_ns);
                self.answer(id, &outcome);
                match (&mut self.writer, self.numbers.remove(&id)) {
                    (Some(writer), Some(number)) => writer.reply(at_ns, number, &outcome),
                    _ => Ok(()),
                }
            }
        }
    }

    fn answer(&mut self, id: u64, outcome: &Answer) {
        let Some(verb) = self.waiting.remove(&id) else { return };
        match outcome {
            Answer::Failed(_) => self.verbs.entry(verb).or_default().1 += 1,
            Answer::Data(bytes) => self.read_bytes += bytes,
            Answer::Written(bytes) => self.written_bytes += bytes,
            _ => {}
        }
    }

    fn operations(&self) -> u64 {
        self.verbs.values().map(|(count, _)| count).sum()
    }

    fn rows(&self) -> Vec<Row> {
        let verbs = self.verbs.iter().map(|(verb, (count, failed))| Row {
            about: "operation",
            name: (*verb).to_owned(),
            count: *count,
            failed: Some(*failed),
        });
        let whole = [
            ("operations", self.operations()),
            ("clients", self.clients.len() as u64),
            ("files and directories that existed before", self.nodes),
            ("bytes read", self.read_bytes),
            ("bytes written", self.written_bytes),
            ("seconds", self.last_ns / SECS),
        ];
        let whole = whole.map(|(name, count)| Row {
            about: "trace",
            name: name.to_owned(),
            count,
            failed: None,
        });
        verbs.chain(whole).collect()
    }
}

/// A line of the result.
#[derive(Serialize)]
struct Row {
    /// What it tells of: `operation` or `trace`.
    about: &'static str,
    name: String,
    count: u64,
    failed: Option<u64>,
}

/// The report on a copy of the trace called `name`.
fn report(name: &str, rows: &[Row]) -> Report {
    let of = |about: &'static str| rows.iter().filter(move |row| row.about == about);
    let verb = |row: &Row| cells![&row.name, row.count, row.failed.unwrap_or_default()];
    let whole = |row: &Row| cells![&row.name, row.count];
    let mut report = Report::new(format!("The trace {name}"));
    report.add(Table::new(["operation", "count", "failed"], 1).with(of("operation").map(verb)));
    report.add(Table::new(["trace", "count"], 1).with(of("trace").map(whole)));
    report.add_rows(rows);
    report
}

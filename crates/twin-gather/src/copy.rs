//! A trace of our own, copied from any other source of operations: `twinfs convert`.
//!
//! Contract: records go from the source to the writer as they come, so memory does not grow with the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde::Serialize;
use twin_fs::Op;
use twin_report::{Report, Table, cells};
use twin_rt::{Nanos, SECS};
use twin_trace::{Header, Outcome, Record, Source, TraceError, Traits, Verb, Writer};

/// How many records are taken before it is asked whether to go on.
const LOOK_EVERY: u64 = 4096;

/// What was copied so far.
pub struct Copy<W: Write> {
    writer: Option<Writer<W>>,
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

impl<W: Write> Copy<W> {
    /// A copy of the source called `name`, to `out` if there is one: otherwise it is only looked through.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn start(source: &dyn Source, out: Option<W>, name: &str) -> Result<Copy<W>, TraceError> {
        let Header { kind, start, seed, traits, text } = source.header();
        // Without the directories, which are nobody's business, and differ where the same trace is made again.
        let name = name.rsplit('/').next().unwrap_or(name);
        let text = format!("{text}, from {name}");
        // Contents are not taken along: what the readers make has none.
        let traits = Traits { contents: false, ..*traits };
        let header = Header { kind: *kind, start: *start, seed: *seed, traits, text };
        Ok(Copy {
            writer: out.map(|out| Writer::new(out, &header)).transpose()?,
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

    /// Copies all records, or until `goes_on`, which gets the number of operations so far, returns false. Returns the
    /// damage of the source that ends them.
    ///
    /// # Errors
    /// If the copy cannot be written.
    pub fn all(
        &mut self,
        source: &mut dyn Source,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<TraceError>, TraceError> {
        let mut records = 0;
        loop {
            match source.next_record() {
                Ok(Some(record)) => self.record(record)?,
                Ok(None) => return Ok(None),
                Err(error) => return Ok(Some(error)),
            }
            records += 1;
            if records % LOOK_EVERY == 0 && !goes_on(self.operations()) {
                return Ok(None);
            }
        }
    }

    /// Ends the trace, and tells what is in it.
    ///
    /// # Errors
    /// If its end cannot be written.
    pub fn finish(self) -> Result<Vec<Row>, TraceError> {
        let rows = self.rows();
        self.writer.map_or(Ok(()), |writer| writer.finish().map(drop))?;
        Ok(rows)
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

    fn answer(&mut self, id: u64, outcome: &Outcome) {
        let Some(verb) = self.waiting.remove(&id) else { return };
        match outcome {
            Outcome::Failed(_) => self.verbs.entry(verb).or_default().1 += 1,
            Outcome::Data(bytes) => self.read_bytes += bytes,
            Outcome::Written(bytes) => self.written_bytes += bytes,
            _ => {}
        }
    }

    /// How many operations were copied so far.
    pub fn operations(&self) -> u64 {
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
pub struct Row {
    /// What it tells of: `operation` or `trace`.
    about: &'static str,
    name: String,
    count: u64,
    failed: Option<u64>,
}

/// The report on a copy of the trace called `name`.
pub fn report(name: &str, rows: &[Row]) -> Report {
    let of = |about: &'static str| rows.iter().filter(move |row| row.about == about);
    let verb = |row: &Row| cells![&row.name, row.count, row.failed.unwrap_or_default()];
    let whole = |row: &Row| cells![&row.name, row.count];
    let mut report = Report::new(format!("The trace {name}"));
    report.add(Table::new(["operation", "count", "failed"], 1).with(of("operation").map(verb)));
    report.add(Table::new(["trace", "count"], 1).with(of("trace").map(whole)));
    report.add_rows(rows);
    report
}

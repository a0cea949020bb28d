//! The replayer's own cost: a workload replayed on a file system that does nothing.
//!
//! `cargo build --release -p twin-generate --example replay_overhead`, then time `replay_overhead WORKLOAD TIMES
//! [generate|read|memory-read|memory|replay|record]`: `memory` replays records that are held in
//! memory, `replay` a trace in memory that is expanded and decoded, `memory-read` and `read` only
//! iterate over the records, `generate` only generates them, `record` is `memory` with a recorder
//! around the file system. The program prints the number of operations; the difference of two runs,
//! divided by that number, is the cost of an operation.

use std::cell::Cell;

use twin_fs::{Attr, FileSystem, Ino, LookupEntry, Op, Reply, Request, Result};
use twin_rt::{ClockOnly, Rt};
use twin_trace::replay::{Options, Population, Replayer};
use twin_trace::{Header, Reader, Record, Recorder, RecorderOptions, Source, TraceError, Writer};

/// A file system that answers every request at once and with success.
#[derive(Default)]
struct Null {
    next: Cell<Ino>,
}

impl FileSystem for Null {
    async fn execute(&self, request: Request) -> Result<Reply> {
        Ok(match request.op {
            Op::Lookup { .. } | Op::Create { .. } | Op::MakeDir { .. } => {
                self.next.set(self.next.get() + 1);
                let attr = Attr { ino: 2 + self.next.get(), ..Attr::default() };
                Reply::Entry(LookupEntry { attr, generation: 0 })
            }
            Op::Write { data, .. } => Reply::Written(data.len()),
            Op::Read { .. } => Reply::Data(Vec::new()),
            Op::GetAttr { .. } | Op::SetAttr { .. } => Reply::Attr(Attr::default()),
            _ => Reply::Done,
        })
    }
}

struct Memory<'a>(&'a Header, std::slice::Iter<'a, Record>);

impl Source for Memory<'_> {
    fn header(&self) -> &Header {
        self.0
    }
    fn next_record(&mut self) -> std::result::Result<Option<Record>, TraceError> {
        Ok(self.1.next().cloned())
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = args.first().map_or("build:files=4000,clients=4", String::as_str);
    let times: u32 = args.get(1).map_or(Ok(10), |n| n.parse())?;
    let what = args.get(2).map_or("replay", String::as_str);
    let mut generated = twin_generate::start(text, 1)?;
    let header = generated.header().clone();
    let (mut writer, mut records) = (Writer::new(Vec::new(), &header)?, Vec::new());
    while let Some(record) = generated.next_record()? {
        writer.record(&record)?;
        records.push(record);
    }
    let bytes = writer.finish()?;
    let population = Population::collect(&mut Memory(&header, records.iter()))?;
    let mut ops = 0u64;
    for _ in 0..times {
        match what {
            "generate" => ops += count(&mut twin_generate::start(text, 1)?)?,
            "read" => ops += count(&mut Reader::new(&bytes[..])?)?,
            "memory-read" => ops += count(&mut Memory(&header, records.iter()))?,
            "record" => ops += record(&population, &mut Memory(&header, records.iter()))?,
            "memory" => ops += replay(&population, &mut Memory(&header, records.iter()))?,
            _ => ops += replay(&population, &mut Reader::new(&bytes[..])?)?,
        }
    }
    println!("{what}: {ops} operations, {} bytes of trace", bytes.len());
    Ok(())
}

fn count(source: &mut impl Source) -> std::result::Result<u64, TraceError> {
    let mut ops = 0;
    while let Some(record) = source.next_record()? {
        ops += u64::from(matches!(record, Record::Request { .. }));
    }
    Ok(ops)
}

fn replay(
    population: &Population,
    source: &mut impl Source,
) -> std::result::Result<u64, Box<dyn std::error::Error>> {
    replay_on(&Rt::new(ClockOnly::default(), 1), &Null::default(), population, source)
}

fn record(
    population: &Population,
    source: &mut impl Source,
) -> std::result::Result<u64, Box<dyn std::error::Error>> {
    let rt = Rt::new(ClockOnly::default(), 1);
    let fs = Recorder::new(&rt, Null::default(), std::io::sink(), RecorderOptions::default())?;
    replay_on(&rt, &fs, population, source)
}

fn replay_on<F: FileSystem>(
    rt: &Rt,
    fs: &F,
    population: &Population,
    source: &mut impl Source,
) -> std::result::Result<u64, Box<dyn std::error::Error>> {
    let mut replayer = Replayer::new(rt, fs, Options::default());
    rt.block_on(replayer.populate(population))??;
    let report = rt.block_on(replayer.run(source))??;
    assert_eq!(report.skipped, 0);
    Ok(report.ops)
}

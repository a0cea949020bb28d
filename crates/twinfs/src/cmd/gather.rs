//! `twinfs gather`: a trace from the packets of an NFS server, or from what nfsdump wrote down of them.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;
use std::process::ExitCode;

use twin_cli::progress::Progress;
use twin_cli::{Failure, Outcome, Printer};
use twin_gather::capture::Ending;
use twin_gather::report::{self, Row, found, reading_of, why_empty};
use twin_gather::{Gathered, infer};
use twin_host::{Interrupts, NewFile};
use twin_mount::input::{Wanted, must_be};
use twin_trace::Writer;

use super::reading;
use crate::cli::Gather;

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
            printer.print(&report::report(&name.to_string(), &rows))?;
            return Err(why_empty(&gathered, &name.to_string()).into());
        }
        rows.extend(written(args, &gathered, new)?);
    }
    reading::tell(&name, &reading_of(&rows));
    printer.print(&report::report(&name.to_string(), &rows))?;
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
) -> Result<(Gathered, Ending), Failure> {
    let progress = Progress::of_bytes("of the capture read", size);
    let mut stop = Ok(());
    let read = twin_gather::read(progress.reading(input), &mut || {
        stop = interrupts.check();
        stop.is_ok()
    });
    progress.finish();
    stop?;
    Ok(read.map_err(|why| format!("{}: {why}", args.capture.display()))?)
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
    Ok(report::inferred(&inferred))
}

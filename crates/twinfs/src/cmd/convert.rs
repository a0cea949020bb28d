//! `twinfs convert`: a trace of our own, made of another program's or of a generated workload.
//!
//! Contract: records go from the reader to the file as they come, so memory does not grow with the
//! trace unless its reader's does. Without `--partial` a damaged trace leaves no file behind.

use std::process::ExitCode;

use twin_cli::progress::Progress;
use twin_cli::{Failure, Outcome, Printer};
use twin_gather::copy::{Copy, report};
use twin_host::{Interrupts, NewFile};
use twin_trace::TraceError;

use super::reading;
use super::workload::{generated, of_file};
use crate::cli::Convert;

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
    let failed = |error: TraceError| Failure::from(error.to_string());
    let out = new.as_ref().map(NewFile::handle).transpose()?;
    let mut copy = Copy::start(&*source, out, &name).map_err(failed)?;
    let (progress, mut stop) = (Progress::of("operations", 0), Ok(()));
    let damage = copy.all(&mut *source, &mut |operations| {
        progress.set_done(operations);
        stop = interrupts.check();
        stop.is_ok()
    });
    progress.finish();
    let damage = damage.map_err(failed)?.map(|damage| damage.to_string());
    stop?;
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
    let rows = copy.finish().map_err(failed)?;
    new.map(NewFile::keep);
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

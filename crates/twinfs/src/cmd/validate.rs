//! `twinfs validate`: how far simulations of this machine are from it.

use std::path::Path;
use std::process::ExitCode;

use twin_cli::{Outcome, Printer, say, usage};
use twin_host::{Interrupts, NewFile};
use twin_lab::MachineFile;
use twin_real::calibrate::{text_of, today, write};
use twin_real::validate::{Report, Validation, loads, run_own, validate};

use super::machine_file::machine_file;
use crate::cli::Validate;
use crate::measuring::runner;

pub(crate) fn run(args: &Validate, interrupts: &Interrupts) -> Outcome {
    if let Some(name) = &args.load {
        return Ok(run_own(name).map(|()| ExitCode::SUCCESS)?);
    }
    let loads = loads(&args.workloads).map_err(usage)?;
    if args.list {
        for load in loads {
            say(format!("{:<12} {}", load.name, load.about))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.dir.is_dir() {
        return Err(format!("{} is no directory", args.dir.display()).into());
    }
    let mut printer = Printer::of(&args.output, interrupts)?;
    // Now, not after the first workload.
    if let Some(dir) = &args.keep {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    let machine = args.machine.as_deref().map(machine_file).transpose()?;
    let new = args.save_machine.as_ref().map(|path| NewFile::make(path, interrupts)).transpose()?;
    let (dir, keep) = (&*args.dir, args.keep.as_deref());
    let validation = Validation { dir, loads: &loads, runs: args.runs, keep, machine };
    let report = validate(&runner(interrupts)?, validation)?;
    let shown = report.report();
    printer.print(&shown)?;
    if let Some((new, path)) = new.zip(args.save_machine.as_ref()) {
        write(new, &report.machine, path)?;
    }
    if let Some(path) = args.machine.as_ref().or(args.save_machine.as_ref()) {
        note_error(&report, path)?;
    }
    if let Some(path) = &args.markdown {
        let picture = path.with_extension("svg");
        let name = picture.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (path, text) in [(path, report.markdown(&name)), (&picture, report.picture())] {
            std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the error into the machine file, from which `twinfs compare --machine` takes it.
fn note_error(report: &Report, path: &Path) -> Result<(), String> {
    let Some(validated) = report.validated(today()) else {
        let few = "too few pairs of configurations for an error that compare could use";
        twin_host::note!("twinfs: {few}: {} is left as it was", path.display());
        return Ok(());
    };
    let machine = MachineFile { validated: Some(validated), ..machine_file(path)? };
    let text = text_of(&machine)?;
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    twin_host::note!("twinfs: the error is noted in {}", path.display());
    Ok(())
}

//! `twinfs calibrate`: measures this machine for simulations of it.

use std::process::ExitCode;

use twin_cli::{Outcome, Printer};
use twin_host::{Interrupts, NewFile};
use twin_real::calibrate::{calibrate, figures, summary, write};
use twin_report::Report;

use crate::cli::Calibrate;
use crate::measuring::runner;

pub(crate) fn run(args: &Calibrate, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let new = NewFile::make(&args.to, interrupts)?;
    let machine = calibrate(&runner(interrupts)?, &args.dir, args.force)?;
    write(new, &machine, &args.to)?;
    let path = args.to.display();
    let hint = format!("written to {path}: twinfs compare --machine {path} ...");
    let text = format!("{}\n{hint}", summary(&machine));
    printer.print(&Report::plain("This machine", text, figures(&machine)))?;
    for warning in &machine.warnings {
        twin_host::note!("twinfs: noisy: {warning}");
    }
    if !machine.warnings.is_empty() {
        twin_host::note!(
            "twinfs: simulations with this file are as uncertain as these figures: calibrate again \
             when the machine is quiet"
        );
    }
    Ok(ExitCode::SUCCESS)
}

//! `twinfs age --on`: file systems that grow old for real, side by side.

use std::process::ExitCode;

use twin_ageing::AgeSettings;
use twin_ageing::layout_report::{OldForReal, old_for_real};
use twin_cli::{Outcome, Printer, usage};
use twin_host::Interrupts;
use twin_real::age::{Ageing, History, grow_old};
use twin_real::choose;

use crate::cli::Age;
use crate::measuring::runner;

pub(super) fn run(
    args: &Age,
    settings: &AgeSettings,
    history: &History<'_>,
    requests: u64,
    mut printer: Printer,
    interrupts: &Interrupts,
) -> Outcome {
    let (systems, _) = choose(&args.on).map_err(usage)?;
    let ageing = Ageing { history, requests, is_trace: args.trace.is_some(), settings };
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    grow_old(&runner(interrupts)?, systems, &ageing, |system, grown| match grown {
        Ok(row) => rows.push(row),
        Err(why) => failures.push(format!("{} could not take part: {why}", system.name())),
    })?;
    printer.print(&old_for_real(&rows))?;
    for row in rows.iter().filter(|row| row.failed > 0) {
        let OldForReal { system, failed, requests, most_common_failure, .. } = row;
        failures.push(format!(
            "{system}: of {requests} operations and those of the copy {failed} failed{most_common_failure}"
        ));
    }
    failures.iter().for_each(|failure| twin_host::note!("twinfs: {failure}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

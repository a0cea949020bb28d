//! `twinfs age --on`: file systems that grow old for real, side by side.

use std::process::ExitCode;

use twin_ageing::AgeSettings;
use twin_ageing::layout_report::{OldForReal, old_for_real_table};
use twin_real::age::{Ageing, History, grow_old};
use twin_real::choose;

use super::terminal::terminal_width;
use super::{Interrupts, Outcome, runner, usage};
use crate::cli::Age;
use crate::rows;

pub(super) fn run(
    args: &Age,
    settings: &AgeSettings,
    history: &History<'_>,
    requests: u64,
    interrupts: &Interrupts,
) -> Outcome {
    let (systems, _) = choose(&args.on).map_err(usage)?;
    let ageing = Ageing { history, requests, is_trace: args.trace.is_some(), settings };
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    grow_old(&runner(interrupts)?, systems, &ageing, |system, grown| match grown {
        Ok(row) => rows.push(row),
        Err(why) => failures.push(format!("{} could not take part: {why}", system.name())),
    })?;
    rows::print(&args.output, &rows, || Ok(old_for_real_table(&rows, terminal_width())))?;
    for row in rows.iter().filter(|row| row.failed > 0) {
        let OldForReal { system, failed, requests, most_common_failure, .. } = row;
        failures.push(format!(
            "{system}: of {requests} operations and those of the copy {failed} failed{most_common_failure}"
        ));
    }
    failures.iter().for_each(|failure| eprintln!("twinfs: {failure}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

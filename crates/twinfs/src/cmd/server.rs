//! `twinfs compare --server`: a whole server in one simulation.

use std::path::Path;
use std::process::ExitCode;

use twin_cli::progress::Progress;
use twin_cli::{Failure, Outcome, Printer, usage};
use twin_host::Interrupts;
use twin_lab::Workload;
use twin_server::{Does, PRESETS, ServerFigures, ServerFile, preset, report, simulate_server};
use twin_verdict::{Fit, fit};

use super::workload::chosen;
use crate::cli::Compare;

pub(super) fn run(args: &Compare, file: &Path, interrupts: &Interrupts) -> Outcome {
    let server = read(file)?;
    let mut printer = Printer::of(&args.output, interrupts)?;
    let observing = args.observe.observing().map_err(usage)?;
    let (mut workloads, mut operations, mut is_cut) = (Vec::new(), 0, false);
    for client in &server.clients {
        let one = match &client.does {
            Does::Workload(text, seed) if text.ends_with(".toml") => {
                let text = file.parent().map_or(text.into(), |dir| dir.join(text));
                chosen(None, None, text.to_str(), *seed)
            }
            Does::Workload(text, seed) => chosen(None, None, Some(text), *seed),
            Does::Trace(trace, format) => {
                // Files are named from where the server file is.
                let trace = file.parent().map_or(trace.into(), |dir| dir.join(trace));
                chosen(Some(&trace), format.as_deref(), None, 1)
            }
        }?;
        operations += one.operations;
        is_cut |= one.is_cut;
        workloads.push(one.workload);
    }
    let bar = Progress::of("operations simulated", operations);
    let figures =
        simulate_server(&server, &workloads, Some(super::steps(&bar)), observing.as_ref());
    bar.finish();
    let figures = figures.map_err(|error| format!("{}: {error}", file.display()))?;
    let figures = ServerFigures { fits: all_fits(&workloads)?, ..figures };
    let report = report(&file.display().to_string(), &server, &figures, args.details);
    printer.print(&report)?;
    let failed = figures.whole.failed;
    if failed > 0 {
        twin_host::note!(
            "twinfs: {failed} operations failed that succeed in their workloads, or lacked what failed \
             before. If a volume was full, give it a larger size"
        );
    }
    Ok(if failed > 0 || is_cut { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The server that a file holds, or that comes with the program under this name.
fn read(file: &Path) -> Result<ServerFile, Failure> {
    let named = file.to_str().and_then(|name| PRESETS.iter().find(|preset| preset.name == name));
    if let Some(preset) = named {
        return ServerFile::parse(preset.text).map_err(|error| error.to_string().into());
    }
    let is_word =
        file.parent().is_none_or(|dir| dir.as_os_str().is_empty()) && file.extension().is_none();
    if let Some(name) = file.to_str().filter(|_| is_word && !file.exists()) {
        let unknown = preset(name).err().map(|error| error.to_string()).unwrap_or_default();
        return Err(usage(format!("{unknown}; and there is no such file")));
    }
    let text = twin_host::text_of_file(file)?;
    ServerFile::parse(&text).map_err(|error| format!("{}: {error}", file.display()).into())
}

/// What the generated workloads that take the place of something were held against, each once.
fn all_fits(workloads: &[Workload]) -> Result<Vec<Fit>, String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut all = Vec::new();
    for workload in workloads {
        if let Workload::Generated(text, _) = workload
            && !seen.contains(&text.as_str())
        {
            seen.push(text);
            all.extend(fit(workload).map_err(|error| error.to_string())?);
        }
    }
    Ok(all)
}

//! `twinfs completions` and `twinfs man`: made from the command line's own definition.

use std::process::ExitCode;

use clap::CommandFactory;
use twin_cli::{Outcome, say};

use crate::cli::{Cli, Completions, Man};

pub(crate) fn completions(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "twinfs", &mut script);
    say(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn pages(args: &Man) -> Outcome {
    let in_dir = |e: std::io::Error| format!("{}: {e}", args.dir.display());
    if args.dir.is_file() {
        return Err(
            format!("{} is a file: name a directory for the pages", args.dir.display()).into()
        );
    }
    std::fs::create_dir_all(&args.dir).map_err(in_dir)?;
    clap_mangen::generate_to(Cli::command(), &args.dir).map_err(in_dir)?;
    Ok(ExitCode::SUCCESS)
}

//! `twinfs record`: mirrors a directory and writes down what is done there.

use std::process::ExitCode;

use twin_host::absolute;
use twin_host::serving::run_serving;
use twin_mount::record::{RecordRequest, serve_mirror};

use super::Outcome;
use crate::cli::Record;

/// The memory of a mirror, in bytes: buffers, and what it knows of files in use.
const MEMORY: u64 = 128 << 20;

pub(crate) fn run(args: Record) -> Outcome {
    let request = RecordRequest {
        to: absolute(&args.to)?,
        source: absolute(&args.source)?,
        dir: absolute(&args.dir)?,
        contents: args.contents,
        foreground: args.foreground,
    };
    let about = request.dir.display().to_string();
    run_serving(args.foreground, &about, MEMORY, |ready, words| {
        serve_mirror(&request, ready, words)
    })?;
    Ok(ExitCode::SUCCESS)
}

//! `twinfs quota`: of directories of a mounted volume.
//!
//! Contract: a quota is an attribute of its directory, which this command reads and writes; the volume does
//! the rest, so whoever cannot run this command can use `setfattr`.

use std::path::Path;
use std::process::ExitCode;

use twin_cli::{Outcome, Printer};
use twin_fs::FsError;
use twin_fs::quota::{QUOTA_ATTRIBUTE, QUOTAS_ATTRIBUTE, QuotaLimits};
use twin_host::{Interrupts, attribute, remove_attribute, set_attribute};
use twin_report::Report;
use twin_show::quota::{in_words, limits, row, why_not};

use crate::cli::Quota;

pub(crate) fn run(args: &Quota, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let failed = |error| format!("{}: {}", args.dir.display(), why_not(&error));
    if args.remove {
        remove_attribute(&args.dir, QUOTA_ATTRIBUTE).map_err(failed)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.size.is_some() || args.files.is_some() {
        set(args).map_err(failed)?;
    }
    let shown = match get(&args.dir, QUOTAS_ATTRIBUTE) {
        Ok(list) => list.lines().filter_map(|line| line.split_once('\t')).map(row).collect(),
        Err(_) => {
            let value = get(&args.dir, QUOTA_ATTRIBUTE).map_err(failed)?;
            vec![row((&args.dir.display().to_string(), &value))]
        }
    };
    printer.print(&Report::plain("Quotas", in_words(&shown), shown))?;
    Ok(ExitCode::SUCCESS)
}

/// Sets the limits that are named; the other one stays.
fn set(args: &Quota) -> Result<(), FsError> {
    let before = match get(&args.dir, QUOTA_ATTRIBUTE) {
        Ok(value) => limits(&value),
        Err(FsError::NoAttribute) => QuotaLimits::default(),
        Err(error) => return Err(error),
    };
    let bytes = args.size.map(|size| size.0).or(before.bytes);
    let files = args.files.or(before.files);
    let value = QuotaLimits { bytes, files }.to_string();
    set_attribute(&args.dir, QUOTA_ATTRIBUTE, value.as_bytes())
}

fn get(dir: &Path, name: &[u8]) -> Result<String, FsError> {
    let value = attribute(dir, name)?;
    String::from_utf8(value).map_err(|_| FsError::inconsistent("the quota is no text"))
}

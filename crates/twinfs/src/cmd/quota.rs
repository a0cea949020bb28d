//! `twinfs quota`: of directories of a mounted volume.
//!
//! Contract: a quota is an attribute of its directory, which this command reads and writes; the volume does
//! the rest, so whoever cannot run this command can use `setfattr`.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use twin_cli::{Outcome, Printer};
use twin_fs::FsError;
use twin_fs::quota::{QUOTA_ATTRIBUTE, QUOTAS_ATTRIBUTE, QuotaLimits};
use twin_host::{Interrupts, attribute, remove_attribute, set_attribute};
use twin_report::Report;

use crate::cli::Quota;
use crate::size::Size;

pub(crate) fn run(args: &Quota, interrupts: &Interrupts) -> Outcome {
    let mut printer = Printer::of(&args.output, interrupts)?;
    let failed = |error| format!("{}: {}", args.dir.display(), why(&error));
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
    let text = match shown.is_empty() {
        true => "no quotas".into(),
        false => shown.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    printer.print(&Report::plain("Quotas", text, shown))?;
    Ok(ExitCode::SUCCESS)
}

/// What an error means here.
fn why(error: &FsError) -> String {
    match error {
        FsError::NotSupported(_) => "it is in no mounted volume that has quotas".into(),
        FsError::NoAttribute => {
            "it has no quota; see those of the volume where it is mounted".into()
        }
        FsError::NotPermitted => "only root changes quotas".into(),
        FsError::Invalid(_) => {
            "the directory where a volume is mounted has no quota, and a volume at most 512".into()
        }
        error => error.to_string(),
    }
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

/// The number behind `name=` in a value of the attribute.
fn number(value: &str, name: &str) -> Option<u64> {
    value.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn limits(value: &str) -> QuotaLimits {
    QuotaLimits { bytes: number(value, "bytes"), files: number(value, "files") }
}

/// A quota as a record.
fn row((dir, value): (&str, &str)) -> Value {
    let QuotaLimits { bytes, files } = limits(value);
    json!({
        "directory": dir,
        "used_bytes": number(value, "used_bytes"),
        "limit_bytes": bytes,
        "used_files": number(value, "used_files"),
        "limit_files": files,
        "complete": !value.ends_with("incomplete"),
    })
}

/// A quota as a line of text.
fn line(row: &Value) -> String {
    let of = |used: String, limit: Option<String>| match limit {
        Some(limit) => format!("{used} of {limit}"),
        None => used,
    };
    let size = |name: &str| row[name].as_u64().map(|bytes| Size(bytes).to_string());
    let count = |name: &str| row[name].as_u64().map(|count| count.to_string());
    let bytes = of(size("used_bytes").unwrap_or_default(), size("limit_bytes"));
    let files = of(count("used_files").unwrap_or_default(), count("limit_files"));
    let rest = match row["complete"].as_bool() {
        Some(false) => "; not all of it is counted: set the quota again",
        _ => "",
    };
    format!("{}: {bytes}, {files} files{rest}", row["directory"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_shown_with_the_limits_that_it_has() {
        let value = "bytes=10485760 used_bytes=4096 used_files=3";
        assert_eq!(line(&row(("a/b", value))), "a/b: 4 KiB of 10 MiB, 3 files");
        let value = "files=9 used_bytes=0 used_files=3 incomplete";
        let text = "a: 0 bytes, 3 of 9 files; not all of it is counted: set the quota again";
        assert_eq!(line(&row(("a", value))), text);
    }
}

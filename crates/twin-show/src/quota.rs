//! Quotas of directories, as the attributes of a mounted volume hold them: `twinfs quota`.

use serde_json::{Value, json};
use twin_fs::FsError;
use twin_fs::quota::QuotaLimits;
use twin_settings::value::bytes_for_people;

/// Why quotas cannot be read or set, in words.
pub fn why_not(error: &FsError) -> String {
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

/// Quotas in lines for people.
pub fn in_words(rows: &[Value]) -> String {
    match rows.is_empty() {
        true => "no quotas".into(),
        false => rows.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}

/// The number behind `name=` in a value of the attribute.
fn number(value: &str, name: &str) -> Option<u64> {
    value.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// The limits in a value of the attribute.
pub fn limits(value: &str) -> QuotaLimits {
    QuotaLimits { bytes: number(value, "bytes"), files: number(value, "files") }
}

/// A quota as a record.
pub fn row((dir, value): (&str, &str)) -> Value {
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
    let size = |name: &str| row[name].as_u64().map(bytes_for_people);
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

//! Which inputs of the operations workloads have had, as IOCov counts them: for each operation its flags, the
//! classes of its sizes and offsets, and what it answered.
//!
//! Contract: the classes of [`Covered::never`] and those that [`Covered::note`] counts are the same table, so
//! that a class is counted or named as never covered. An answer that an operation cannot give here at all
//! (an I/O error of a disk that does not fail) is not in the table.

use std::collections::BTreeMap;

use twin_fs::{Data, Fallocate, FsError, Op, RenameMode, Reply, Result, SetAttr, mode};

/// Classes of inputs with the number of requests that had them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covered(BTreeMap<(&'static str, &'static str), u64>);

/// Classes of offsets.
const OFFSETS: &[&str] = &["at 0", "at a block", "within a block", "behind the direct blocks"];
/// Classes of sizes.
const SIZES: &[&str] = &[
    "0 bytes",
    "less than a sector",
    "less than a block",
    "one block",
    "blocks and a part",
    "blocks",
    "64 KiB and more",
];
/// Answers.
const ANSWERS: &[&str] = &[
    "done",
    "no such name",
    "exists",
    "not a directory",
    "a directory",
    "not empty",
    "no access",
    "not permitted",
    "no room",
    "name too long",
    "invalid",
    "file too big",
    "too many links",
    "no attribute",
    "attributes too big",
    "not supported",
    "another error",
];

/// Operations with the classes of their own.
const OPERATIONS: &[(&str, &[&[&str]])] = &[
    ("lookup", &[]),
    ("create", &[&["exclusive", "not exclusive"]]),
    ("mknod", &[&["file", "fifo", "socket", "device"]]),
    ("mkdir", &[]),
    ("symlink", &[SIZES]),
    ("link", &[]),
    ("unlink", &[]),
    ("rmdir", &[]),
    ("rename", &[&["replace", "noreplace", "exchange", "whiteout"]]),
    ("open", &[&["truncating", "not truncating"]]),
    ("write", &[OFFSETS, SIZES]),
    ("append", &[OFFSETS, SIZES]),
    ("mapped write", &[OFFSETS, SIZES]),
    ("setattr", &[&["mode", "owner", "size", "times"], SIZES]),
    (
        "fallocate",
        &[&["allocate", "allocate, keep size", "punch", "zero", "zero, keep size"], OFFSETS, SIZES],
    ),
    ("setxattr", &[SIZES]),
    ("removexattr", &[]),
    ("fsync", &[&["all", "data only"]]),
    ("sync", &[]),
];

impl Covered {
    /// Counts a request and its answer.
    pub(super) fn note(&mut self, op: &Op, reply: &Result<Reply>) {
        let Some(name) = name(op) else { return };
        let mut count = |class| *self.0.entry((name, class)).or_insert(0) += 1;
        count(answer(reply));
        match op {
            Op::Create { exclusive, .. } => {
                count(if *exclusive { "exclusive" } else { "not exclusive" })
            }
            Op::MakeNode { mode, .. } => count(kind(*mode)),
            Op::Symlink { target, .. } => count(size(target.len() as u64)),
            Op::Rename { mode, .. } => count(match mode {
                RenameMode::Replace => "replace",
                RenameMode::NoReplace => "noreplace",
                RenameMode::Exchange => "exchange",
                RenameMode::Whiteout | RenameMode::WhiteoutNoReplace => "whiteout",
            }),
            Op::Open { truncate, .. } => {
                count(if *truncate { "truncating" } else { "not truncating" })
            }
            Op::Write { off, data, .. }
            | Op::Append { off, data, .. }
            | Op::WriteBack { off, data, .. } => {
                count(offset(*off));
                count(size(Data::len(data)));
            }
            Op::SetAttr { set, .. } => set_attr(set, &mut count),
            Op::Fallocate { off, len, mode, .. } => {
                count(match mode {
                    Fallocate::Allocate { keep_size: false } => "allocate",
                    Fallocate::Allocate { keep_size: true } => "allocate, keep size",
                    Fallocate::PunchHole => "punch",
                    Fallocate::ZeroRange { keep_size: false } => "zero",
                    Fallocate::ZeroRange { keep_size: true } => "zero, keep size",
                });
                count(offset(*off));
                count(size(*len));
            }
            Op::SetXattr { value, .. } => count(size(value.len() as u64)),
            Op::Fsync { data_only, .. } => count(if *data_only { "data only" } else { "all" }),
            _ => {}
        }
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Covered) {
        for (class, count) in &other.0 {
            *self.0.entry(*class).or_insert(0) += count;
        }
    }

    /// The classes with their counts, an operation's in a row.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        self.0.iter().map(|((op, class), count)| (*op, *class, *count))
    }

    /// The classes of arguments that no request had, and the answers that no operation gave at all.
    pub fn never(&self) -> Vec<(&'static str, &'static str)> {
        let classes = OPERATIONS.iter().flat_map(|(op, classes)| {
            classes.iter().flat_map(|all| all.iter()).map(move |class| (*op, *class))
        });
        let mut never: Vec<_> = classes.filter(|class| !self.0.contains_key(class)).collect();
        let given = |answer: &&&str| !self.0.keys().any(|(_, class)| *class == **answer);
        never.extend(ANSWERS.iter().filter(given).map(|answer| ("any operation", *answer)));
        never
    }
}

fn name(op: &Op) -> Option<&'static str> {
    Some(match op {
        Op::Lookup { .. } => "lookup",
        Op::Create { .. } => "create",
        Op::MakeNode { .. } => "mknod",
        Op::MakeDir { .. } => "mkdir",
        Op::Symlink { .. } => "symlink",
        Op::Link { .. } => "link",
        Op::Unlink { .. } => "unlink",
        Op::RemoveDir { .. } => "rmdir",
        Op::Rename { .. } => "rename",
        Op::Open { .. } => "open",
        Op::Write { .. } => "write",
        Op::Append { .. } => "append",
        Op::WriteBack { .. } => "mapped write",
        Op::SetAttr { .. } => "setattr",
        Op::Fallocate { .. } => "fallocate",
        Op::SetXattr { .. } => "setxattr",
        Op::RemoveXattr { .. } => "removexattr",
        Op::Fsync { .. } => "fsync",
        Op::Sync => "sync",
        _ => return None,
    })
}

fn kind(bits: u32) -> &'static str {
    match bits & mode::TYPE {
        mode::REGULAR => "file",
        mode::FIFO => "fifo",
        mode::SOCKET => "socket",
        _ => "device",
    }
}

fn set_attr(set: &SetAttr, count: &mut impl FnMut(&'static str)) {
    if set.mode.is_some() {
        count("mode");
    }
    if set.uid.is_some() || set.gid.is_some() {
        count("owner");
    }
    if set.atime.is_some() || set.mtime.is_some() {
        count("times");
    }
    if let Some(new) = set.size {
        count("size");
        count(size(new));
    }
}

fn offset(off: u64) -> &'static str {
    match off {
        0 => OFFSETS[0],
        49_152.. => OFFSETS[3],
        _ if off.is_multiple_of(4096) => OFFSETS[1],
        _ => OFFSETS[2],
    }
}

fn size(len: u64) -> &'static str {
    match len {
        0 => SIZES[0],
        1..512 => SIZES[1],
        512..4096 => SIZES[2],
        4096 => SIZES[3],
        65_536.. => SIZES[6],
        _ if len.is_multiple_of(4096) => SIZES[5],
        _ => SIZES[4],
    }
}

fn answer(reply: &Result<Reply>) -> &'static str {
    let Err(error) = reply else { return ANSWERS[0] };
    match error {
        FsError::NotFound => "no such name",
        FsError::Exists => "exists",
        FsError::NotDirectory => "not a directory",
        FsError::IsDirectory => "a directory",
        FsError::NotEmpty => "not empty",
        FsError::Access => "no access",
        FsError::NotPermitted => "not permitted",
        FsError::NoSpace | FsError::NoInodes => "no room",
        FsError::NameTooLong => "name too long",
        FsError::Invalid(_) => "invalid",
        FsError::FileTooBig => "file too big",
        FsError::TooManyLinks => "too many links",
        FsError::NoAttribute => "no attribute",
        FsError::AttributesTooBig => "attributes too big",
        FsError::NotSupported(_) => "not supported",
        _ => "another error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_in_the_table_of_what_may_be_missing() {
        let mut covered = Covered::default();
        let all = covered.never().len();
        let op = Op::Write { ino: 1, off: 5, data: Data::Synthetic(4096) };
        covered.note(&op, &Ok(Reply::Done));
        let never = covered.never();
        assert_eq!(never.len(), all - 3, "{never:?}");
        assert!(!never.contains(&("write", "within a block")));
        assert!(never.contains(&("append", "within a block")));
    }
}

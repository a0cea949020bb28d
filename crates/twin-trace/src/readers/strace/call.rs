//! A finished call: its process and time, its arguments and what it answered.
//!
//! Contract: a call has what its line has; nothing is looked up, and nothing is remembered of other calls.

use twin_rt::Nanos;

use super::answers::Failure;
use super::args::{FdPath, descriptor, field, has_flag, mode_of, unsigned};

/// A system call that has ended, with its arguments and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The process; `None` if the line has none.
    pub(super) pid: Option<u32>,
    /// When it began; `None` without times.
    pub(super) at_ns: Option<Nanos>,
    /// How long it took, if that is known.
    pub(super) took_ns: Nanos,
    pub(super) name: String,
    pub(super) args: Vec<String>,
    /// The result; `None` for an error, or if it never returned.
    pub(super) result: Option<i64>,
    /// The result as it is written, without the time that the call took.
    pub(super) said: String,
}

impl Call {
    pub(super) fn arg(&self, at: usize) -> &str {
        self.args.get(at).map_or("", String::as_str)
    }

    /// The descriptor and path of an argument, as `3</tmp/a>` and `AT_FDCWD</tmp>`.
    pub(super) fn descriptor(&self, arg: usize) -> Option<(i64, Option<FdPath>)> {
        descriptor(self.args.get(arg)?)
    }

    /// An argument that is a number, or points to one, as `[7]`.
    pub(super) fn number(&self, arg: usize) -> Option<u64> {
        let text = self.args.get(arg)?.trim_start_matches('[');
        unsigned(text)
    }

    /// The reason for which the call failed, if strace shows it.
    pub(super) fn failure(&self) -> Option<Failure> {
        let word = self.said.strip_prefix("-1 ").or_else(|| self.said.strip_prefix("? "))?;
        Failure::of(word.split_whitespace().next()?)
    }

    /// Whether an argument has one of these flags: any of the names, or of the bits.
    pub(super) fn has(&self, arg: usize, name: &str, bits: u64) -> bool {
        has_flag(self.arg(arg), name, bits)
    }

    /// The field of a structure in any argument, from behind its `=`.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.args.iter().find_map(|arg| field(arg, name))
    }

    /// The length of a file that the call tells.
    pub(super) fn says_size(&self) -> Option<u64> {
        self.result?;
        unsigned(self.field("st_size").or_else(|| self.field("stx_size"))?)
    }

    /// The kind of a file that the call tells, as bits of a mode.
    pub(super) fn says_kind(&self) -> Option<u32> {
        self.result?;
        let text = self.field("st_mode").or_else(|| self.field("stx_mode"))?;
        mode_of(text).map(|mode| mode & twin_fs::mode::TYPE).filter(|kind| *kind != 0)
    }

    /// The sum of the lengths of the pieces of memory in an argument.
    pub(super) fn vector_bytes(&self, arg: usize) -> Option<u64> {
        let text = self.args.get(arg)?;
        if text.ends_with("...]") {
            return None;
        }
        let lengths = text.split("iov_len=").skip(1).map(unsigned);
        lengths.sum::<Option<u64>>()
    }
}

//! The names of columns, and the words and numbers in them.

use super::{SECONDS, fields_of};
use crate::block::BlockOp;

/// The meaning of a column, with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Nanoseconds in a unit of time.
    Time(u64),
    /// A time in a unit that is not named.
    Clock,
    Op,
    /// True for a write, or for a read.
    IsWrite,
    IsRead,
    /// Bytes in a unit of place, or of size.
    Place(u64),
    Size(u64),
    Object,
    Device,
}

/// The names of columns, without blanks, underscores and hyphens.
const NAMES: &[(&[&str], Column)] = &[
    (&["time", "timestamp", "ts", "clocktime", "treq", "realtime", "t"], Column::Clock),
    (&["tss", "times", "timesec", "timeseconds", "timestamps"], Column::Time(SECONDS)),
    (&["tms", "timems", "timestampms", "tsms"], Column::Time(1_000_000)),
    (&["tus", "timeus", "timestampus", "tsus"], Column::Time(1000)),
    (&["tns", "timens", "timestampns", "tsns"], Column::Time(1)),
    (&["op", "iotype", "opcode", "operation", "type", "rw", "rwbs", "optype"], Column::Op),
    (&["iswrite"], Column::IsWrite),
    (&["isread"], Column::IsRead),
    (&["lbn", "lba", "sector", "lbn512", "firstsector"], Column::Place(512)),
    (&["offset", "offsetbytes", "byteoffset"], Column::Place(1)),
    (&["size", "bytes", "objsize", "objectsize", "length", "len", "iosize"], Column::Size(1)),
    (&["sectors", "nsectors"], Column::Size(512)),
    (&["objid", "objectid", "obj", "object", "key", "id"], Column::Object),
    (
        &["lun", "device", "dev", "disk", "disknumber", "deviceid", "volume", "volumeid", "fh"],
        Column::Device,
    ),
];

/// Operations as they are written; SCSI commands are hexadecimal.
const OPS: &[(&[&str], BlockOp)] = &[
    (&["read", "reads", "rd", "get", "gets", "28", "88", "a8", "08"], BlockOp::Read),
    (&["write", "writes", "wr", "set", "put", "add", "2a", "8a", "aa", "0a"], BlockOp::Write),
    (&["t", "trim", "discard", "unmap", "42"], BlockOp::Trim),
    (
        &["sync", "fsync", "flush", "commit", "synchronizecache", "35", "91"],
        BlockOp::Sync { data_only: false },
    ),
    (&["datasync", "fdatasync"], BlockOp::Sync { data_only: true }),
];

/// The meaning of a word in the column of operations.
pub(super) enum OpWord {
    Known(BlockOp),
    /// 0 or 1, whose meaning is a convention.
    Digit(BlockOp),
    Unknown,
}

/// An operation as a word, or as blktrace writes kinds of requests: R, W or D with A (read-ahead), S
/// (synchronous), M (metadata) or F (durable) behind it.
pub(super) fn op(text: &str) -> OpWord {
    match text {
        "0" => return OpWord::Digit(BlockOp::Read),
        "1" => return OpWord::Digit(BlockOp::Write),
        _ => {}
    }
    let word: String = text.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).collect();
    let word = word.to_ascii_lowercase();
    if let Some((_, op)) = OPS.iter().find(|(words, _)| words.contains(&word.as_str())) {
        return OpWord::Known(*op);
    }
    let mut letters = word.chars();
    let op = match letters.next() {
        Some('r') => BlockOp::Read,
        Some('w') => BlockOp::Write,
        Some('d') => BlockOp::Trim,
        _ => return OpWord::Unknown,
    };
    match letters.all(|letter| matches!(letter, 'a' | 's' | 'm' | 'f' | 'e')) {
        true => OpWord::Known(op),
        false => OpWord::Unknown,
    }
}

/// Reads a truth value in one of its usual notations.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" => Some(true),
        "0" | "false" | "f" | "no" | "n" => Some(false),
        _ => None,
    }
}

/// The unit of a time, in nanoseconds, with its name, by the value of the first one: what would be a
/// date of this century is one, and everything else counts seconds.
pub(super) fn unit_of(first: i128) -> (u64, &'static str) {
    /// The years 2001 to 2100, as Unix counts seconds.
    const DATES: std::ops::Range<i128> = 978_307_200..4_102_444_800;
    /// Seconds from 1601, where Windows begins, to 1970.
    const WINDOWS_S: i128 = 11_644_473_600;
    let is_date = |per_second: i128| DATES.contains(&(first / per_second));
    match first {
        _ if is_date(1000) => (1_000_000, "milliseconds since 1970"),
        _ if is_date(1_000_000) => (1000, "microseconds since 1970"),
        _ if is_date(1_000_000_000) => (1, "nanoseconds since 1970"),
        _ if DATES.contains(&(first / 10_000_000 - WINDOWS_S)) => {
            (100, "units of 100 ns since 1601, as in Windows")
        }
        _ => (SECONDS, "seconds"),
    }
}

/// The first column of each meaning, in the order of the line.
pub(super) struct Columns {
    pub(super) columns: Vec<(usize, Column)>,
    /// The character between two fields.
    pub(super) separator: char,
}

impl Columns {
    pub(super) fn of(line: &str) -> Result<Columns, String> {
        let plain = |name: &str| -> String {
            let letters = name.chars().filter(|c| c.is_ascii_alphanumeric());
            letters.map(|c| c.to_ascii_lowercase()).collect()
        };
        let separator = [',', ';', '\t'].into_iter().find(|separator| line.contains(*separator));
        let separator = separator.unwrap_or(',');
        let mut columns: Vec<(usize, Column)> = Vec::new();
        for (at, name) in fields_of(line, separator).enumerate() {
            let name = plain(&name?);
            let known = NAMES.iter().find(|(names, _)| names.contains(&name.as_str()));
            let Some((_, column)) = known else { continue };
            if !columns.iter().any(|(_, other)| meaning(*other) == meaning(*column)) {
                columns.push((at, *column));
            }
        }
        let columns = Columns { columns, separator };
        // A table of anything may have a column that is called size or type.
        let places = columns.has(|column| matches!(column, Column::Place(_) | Column::Object));
        if !places || columns.columns.len() < 2 {
            return Err("the first line should name the columns: time, op, size and one of lbn, \
                        offset or obj_id"
                .into());
        }
        Ok(columns)
    }

    pub(super) fn has(&self, which: impl Fn(&Column) -> bool) -> bool {
        self.columns.iter().any(|(_, column)| which(column))
    }

    /// True if requests are to objects, which have no place.
    pub(super) fn is_of_objects(&self) -> bool {
        self.has(|column| *column == Column::Object)
    }
}

/// Columns of one meaning exclude each other.
fn meaning(column: Column) -> u8 {
    match column {
        Column::Time(_) | Column::Clock => 0,
        Column::Op | Column::IsWrite | Column::IsRead => 1,
        Column::Place(_) => 2,
        Column::Size(_) => 3,
        Column::Object => 4,
        Column::Device => 5,
    }
}

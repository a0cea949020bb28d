//! `csv`: comma-separated values whose first line names the columns: libCacheSim's CSV, the block traces
//! of SNIA's repository that have such a line (Systor '17), the NFS requests of an animation company
//! (Anderson, FAST 2009), and much else.
//!
//! Columns are known by their names, whatever their case, and may be in any order; those that have no
//! meaning here are skipped. Either the place on a device is needed (a sector of 512 bytes, or an offset
//! in bytes), or the name of an object. Without an operation all are reads; without a size all have 4
//! KiB. Rows that are no reads, writes or trims, and those without a place, are skipped.
//!
//! Objects are numbered in the order of their first access; where requests are wanted, an object is a
//! block of 4 KiB.

use std::collections::BTreeMap;

use twin_settings::RegistryEntry;

use super::references::BLOCK_BYTES;
use super::{BlockOp, BlockRequest, BlockSource, Format, Object, REQUEST_MAX_BYTES, lines};
use crate::error::TraceError;
use crate::readers::{Input, Lines};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "csv",
    "CSV with named columns: libCacheSim's, SNIA's (Systor '17), NFS requests: time, op, place or object",
    Format {
        is_like: |start| lines(start).next().is_some_and(|line| Columns::of(line).is_ok()),
        open,
    },
);

/// What a column means, with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// Nanoseconds in a unit of time.
    Time(u64),
    Op,
    /// Bytes in a unit of place, or of size.
    Place(u64),
    Size(u64),
    Object,
    Device,
}

const SECONDS: u64 = 1_000_000_000;

/// The names of columns, without blanks, underscores and hyphens.
const NAMES: &[(&[&str], Column)] = &[
    (&["time", "timestamp", "ts", "clocktime", "treq", "realtime"], Column::Time(SECONDS)),
    (&["tms", "timems", "timestampms"], Column::Time(1_000_000)),
    (&["tus", "timeus", "timestampus"], Column::Time(1000)),
    (&["tns", "timens", "timestampns"], Column::Time(1)),
    (&["op", "iotype", "opcode", "operation", "type", "rw"], Column::Op),
    (&["lbn", "lba", "sector", "lbn512", "firstsector"], Column::Place(512)),
    (&["offset", "offsetbytes", "byteoffset"], Column::Place(1)),
    (&["size", "bytes", "objsize", "objectsize", "length", "len", "iosize"], Column::Size(1)),
    (&["sectors", "nsectors"], Column::Size(512)),
    (&["objid", "objectid", "obj", "object", "key", "id"], Column::Object),
    (&["lun", "device", "dev", "disk", "disknumber", "deviceid", "volume", "fh"], Column::Device),
];

/// Operations as they are written; SCSI commands are hexadecimal.
const OPS: &[(&[&str], BlockOp)] = &[
    (&["r", "read", "get", "gets", "28", "88", "a8", "08"], BlockOp::Read),
    (&["w", "write", "set", "put", "2a", "8a", "aa", "0a"], BlockOp::Write),
    (&["d", "t", "trim", "discard", "42"], BlockOp::Trim),
];

/// The first column of each meaning.
struct Columns(Vec<(usize, Column)>);

impl Columns {
    fn of(line: &str) -> Result<Columns, String> {
        let plain = |name: &str| -> String {
            let letters = name.chars().filter(|c| c.is_ascii_alphanumeric());
            letters.map(|c| c.to_ascii_lowercase()).collect()
        };
        let mut found: Vec<(usize, Column)> = Vec::new();
        for (at, name) in line.split(',').enumerate() {
            let name = plain(name);
            let known = NAMES.iter().find(|(names, _)| names.contains(&name.as_str()));
            let Some((_, column)) = known else { continue };
            let same =
                |other: &Column| std::mem::discriminant(other) == std::mem::discriminant(column);
            if !found.iter().any(|(_, other)| same(other)) {
                found.push((at, *column));
            }
        }
        let has = |which: fn(&Column) -> bool| found.iter().any(|(_, column)| which(column));
        // A table of anything may have a column that is called size or type.
        let places = has(|column| matches!(column, Column::Place(_) | Column::Object));
        if !places || found.len() < 2 {
            return Err("the first line should name the columns: time, op, size and one of lbn, \
                        offset or obj_id"
                .into());
        }
        Ok(Columns(found))
    }
}

struct Csv {
    lines: Lines<Input>,
    columns: Columns,
    objects: BTreeMap<String, u64>,
    object: Option<Object>,
    /// True if requests are to objects, which have no place.
    is_of_objects: bool,
}

fn open(input: Input) -> Result<Box<dyn BlockSource>, TraceError> {
    let mut lines = Lines::new(input);
    if !lines.advance()? {
        return Err(lines.error("there is no line with the names of the columns"));
    }
    let columns = Columns::of(lines.text()?).map_err(|why| lines.error(why))?;
    let is_of_objects = columns.0.iter().any(|(_, column)| *column == Column::Object);
    let objects = BTreeMap::new();
    Ok(Box::new(Csv { lines, columns, objects, object: None, is_of_objects }))
}

fn number(text: &str, what: &str, unit: u64) -> Result<u64, String> {
    let number: u64 =
        text.parse().map_err(|_| format!("{what} should be a number, not {text:?}"))?;
    number.checked_mul(unit).ok_or_else(|| format!("{what} is too large: {text}"))
}

/// A time with a fraction, in nanoseconds; what time a trace begins does not matter.
fn time(text: &str, unit: u64) -> Result<u64, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let wrong = |_| format!("the time should be a number, not {text:?}");
    let whole: u64 = whole.parse().map_err(wrong)?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let fraction: u64 = digits.parse().map_err(wrong)?;
    Ok(whole.saturating_mul(unit).saturating_add(fraction / (SECONDS / unit)))
}

fn op(text: &str) -> Option<BlockOp> {
    let word = text.to_ascii_lowercase();
    OPS.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, op)| *op)
}

impl Csv {
    /// The request of a line; `None` if it is about something else.
    fn parse(&mut self, line: &str) -> Result<Option<BlockRequest>, String> {
        let (mut at_ns, mut device, mut request_op) = (0, 0, BlockOp::Read);
        let (mut place, mut bytes, mut name) = (None, BLOCK_BYTES, None);
        let mut fields = line.split(',').map(str::trim).enumerate();
        for &(at, column) in &self.columns.0 {
            // Columns are in the order of the line.
            let Some((_, text)) = fields.find(|(field, _)| *field == at) else {
                return Err(format!("the line has fewer than {} fields", at + 1));
            };
            match column {
                Column::Op => match op(text) {
                    Some(op) => request_op = op,
                    None => return Ok(None),
                },
                _ if text.is_empty() => {}
                Column::Time(unit) => at_ns = time(text, unit)?,
                Column::Place(unit) => place = Some(number(text, "the place", unit)?),
                Column::Size(unit) => bytes = number(text, "the size", unit)?,
                Column::Object => name = Some(text),
                Column::Device => device = number(text, "the device", 1)? as u32,
            }
        }
        self.object = None;
        if let Some(name) = name {
            let next = self.objects.len() as u64;
            let number = match self.objects.get(name) {
                Some(number) => *number,
                None => *self.objects.entry(name.to_owned()).or_insert(next),
            };
            self.object = Some(Object { number, bytes });
            (place, bytes) = (Some(number * BLOCK_BYTES), BLOCK_BYTES);
        } else if self.is_of_objects {
            place = None;
        }
        let Some(offset_bytes) = place else { return Ok(None) };
        Ok(Some(BlockRequest { at_ns, device, op: request_op, offset_bytes, bytes }))
    }
}

impl BlockSource for Csv {
    fn next_request(&mut self) -> Result<Option<BlockRequest>, TraceError> {
        while self.lines.advance()? {
            let line = self.lines.text()?.to_owned();
            if line.trim().is_empty() {
                continue;
            }
            match self.parse(&line) {
                Ok(Some(request)) => {
                    let far = request.offset_bytes > u64::MAX / 4;
                    if far || request.bytes > REQUEST_MAX_BYTES {
                        return Err(self.lines.error("the place or the size is too large"));
                    }
                    return Ok(Some(request));
                }
                Ok(None) => {}
                Err(why) => return Err(self.lines.error(why)),
            }
        }
        Ok(None)
    }

    fn object(&self) -> Option<Object> {
        self.object
    }

    fn unit_bytes(&self) -> Option<u64> {
        self.is_of_objects.then_some(BLOCK_BYTES)
    }
}

//! `csv`: comma-separated values whose first line names the columns: libCacheSim's CSV, the block traces
//! of SNIA's repository that have such a line (Systor '17), the NFS requests of an animation company
//! (Anderson, FAST 2009), and much else. Fields may be in quotes, as in RFC 4180, and separated by
//! semicolons or tabs where the first line has these.
//!
//! Columns are known by their names, whatever their case, and may be in any order; those that have no
//! meaning here are skipped. Either the place on a device is needed (a sector of 512 bytes, or an offset
//! in bytes), or the name of an object. Rows that are no reads, writes, trims or syncs, that have no
//! place, or no bytes, are left out and counted.
//!
//! What the text lacks, or does not say, is assumed, and said ([`Reading`]):
//!
//! - Without an operation all are reads; 0 is a read and 1 a write, as in Tencent's traces. Without a
//!   size all have 4 KiB.
//! - A time whose column names no unit has the one in which its first value would be a date of this
//!   century (as Unix or Windows count), and otherwise seconds. Times count from the first row.
//! - A device that is no number is numbered by its first row. Objects are, too; where requests are
//!   wanted, an object is a block of 4 KiB.

mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use twin_settings::RegistryEntry;

use super::fields::{self, Decimal};
use super::references::BLOCK_BYTES;
use super::{BlockOp, BlockRequest, BlockSource, Format, NO_BYTES, Object, checked, lines};
use crate::error::TraceError;
use crate::readers::{Input, Lines};
use crate::reading::Reading;
use names::{Column, Columns, OpWord};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "csv",
    "CSV with named columns: libCacheSim's, SNIA's (Systor '17), NFS requests: time, op, place or object",
    Format {
        is_like: |start| lines(start).next().is_some_and(|line| Columns::of(line).is_ok()),
        open,
    },
);

const SECONDS: u64 = 1_000_000_000;

struct Csv {
    lines: Lines<Input>,
    columns: Columns,
    objects: BTreeMap<String, u64>,
    object: Option<Object>,
    /// Devices whose names are no numbers, in the order of their first rows.
    devices: BTreeMap<String, u64>,
    clock: Clock,
    reading: Reading,
}

fn open(input: Input) -> Result<Box<dyn BlockSource>, TraceError> {
    let mut lines = Lines::new(input);
    if !lines.advance()? {
        return Err(lines.error("there is no line with the names of the columns"));
    }
    let columns = Columns::of(lines.text()?).map_err(|why| lines.error(why))?;
    let mut reading = Reading::default();
    if !columns.has(|column| matches!(column, Column::Op | Column::IsWrite | Column::IsRead)) {
        reading.assume("all requests read, because no column names an operation");
    }
    if !columns.has(|column| matches!(column, Column::Size(_))) {
        reading.assume("all requests have 4096 bytes, because no column names a size");
    }
    if !columns.has(|column| matches!(column, Column::Time(_) | Column::Clock)) {
        reading.assume("all happens at once, because no column names a time");
    }
    Ok(Box::new(Csv {
        lines,
        columns,
        objects: BTreeMap::new(),
        object: None,
        devices: BTreeMap::new(),
        clock: Clock::default(),
        reading,
    }))
}

/// The meaning of a row.
enum Row {
    Request(BlockRequest),
    LeftOut(String),
}

/// The values of the cells of a row.
struct Cells {
    at_ns: u64,
    device: u64,
    op: BlockOp,
    place: Option<u64>,
    bytes: u64,
    object: Option<u64>,
}

impl Csv {
    fn row(&mut self, line: &str) -> Result<Row, String> {
        let separator = self.columns.separator;
        let mut fields = fields_of(line, separator).enumerate();
        let mut cells = Cells {
            at_ns: self.clock.now_ns,
            device: 0,
            op: BlockOp::Read,
            place: None,
            bytes: BLOCK_BYTES,
            object: None,
        };
        for at in 0..self.columns.columns.len() {
            let (place, column) = self.columns.columns[at];
            // Columns are in the order of the line.
            let Some((_, text)) = fields.find(|(field, _)| *field == place) else {
                return Err(format!("the line has fewer than {} fields", place + 1));
            };
            let text = text?;
            if let Some(why) = self.cell(column, text.trim(), &mut cells)? {
                return Ok(Row::LeftOut(why));
            }
        }
        let Cells { at_ns, device, op, bytes, .. } = cells;
        if let BlockOp::Sync { data_only } = op {
            return Ok(Row::Request(BlockRequest::sync(at_ns, device, data_only)));
        }
        if bytes == 0 {
            return Ok(Row::LeftOut(NO_BYTES.to_owned()));
        }
        self.object = cells.object.map(|number| Object { number, bytes });
        let request = match (cells.object, cells.place) {
            (Some(number), _) => {
                let (offset_bytes, bytes) = (number * BLOCK_BYTES, BLOCK_BYTES);
                BlockRequest { at_ns, device, op, offset_bytes, bytes }
            }
            (None, Some(offset_bytes)) if !self.columns.is_of_objects() => {
                BlockRequest { at_ns, device, op, offset_bytes, bytes }
            }
            _ => return Ok(Row::LeftOut("without a place or object".to_owned())),
        };
        Ok(Row::Request(checked(request).map_err(str::to_owned)?))
    }

    /// Takes a cell; gives the reason if its row is to be left out.
    fn cell(
        &mut self,
        column: Column,
        text: &str,
        cells: &mut Cells,
    ) -> Result<Option<String>, String> {
        match column {
            Column::Op => match names::op(text) {
                OpWord::Known(op) => cells.op = op,
                OpWord::Digit(op) => {
                    cells.op = op;
                    self.reading.assume("among the operations 0 is a read and 1 a write");
                }
                OpWord::Unknown if text.is_empty() => {
                    return Ok(Some("without an operation".to_owned()));
                }
                OpWord::Unknown => return Ok(Some(format!("with the operation {text}"))),
            },
            Column::IsWrite | Column::IsRead => {
                let Some(is_it) = names::truth(text) else {
                    return Ok(Some(format!("that neither read nor write: {text}")));
                };
                let writes = is_it == (column == Column::IsWrite);
                cells.op = if writes { BlockOp::Write } else { BlockOp::Read };
            }
            _ if text.is_empty() => {}
            Column::Time(unit) => cells.at_ns = self.clock.at(text, unit)?,
            Column::Clock => {
                let unit = match self.clock.unit {
                    Some(unit) => unit,
                    None => self.guess_unit(text)?,
                };
                cells.at_ns = self.clock.at(text, unit)?;
            }
            Column::Place(unit) => cells.place = Some(number(text, "the place", unit)?),
            Column::Size(unit) => cells.bytes = number(text, "the size", unit)?,
            Column::Object => cells.object = Some(numbered(&mut self.objects, text)),
            Column::Device => cells.device = self.device(text),
        }
        Ok(None)
    }

    /// The unit of times whose column names none, by the first of them.
    fn guess_unit(&mut self, text: &str) -> Result<u64, String> {
        let first = Decimal::parse(text).and_then(|number| number.times(1));
        let first = first.ok_or_else(|| format!("the time should be a number, not {text:?}"))?;
        let (unit, name) = names::unit_of(first);
        self.clock.unit = Some(unit);
        self.reading.assume(&format!("times are in {name}, because their column names no unit"));
        Ok(unit)
    }

    fn device(&mut self, text: &str) -> u64 {
        if let (Some(number), true) = (fields::whole(text), self.devices.is_empty()) {
            return number;
        }
        self.reading.assume("devices whose names are no numbers are numbered by their first rows");
        numbered(&mut self.devices, text)
    }
}

fn number(text: &str, what: &str, unit: u64) -> Result<u64, String> {
    let number = fields::whole(text);
    let number = number
        .ok_or_else(|| format!("{what} should be a number that is not negative, not {text:?}"))?;
    number.checked_mul(unit).ok_or_else(|| format!("{what} is too large: {text}"))
}

/// The number of a name, by its first appearance.
fn numbered(names: &mut BTreeMap<String, u64>, name: &str) -> u64 {
    let next = names.len() as u64;
    match names.get(name) {
        Some(number) => *number,
        None => *names.entry(name.to_owned()).or_insert(next),
    }
}

/// The times of rows.
#[derive(Default)]
struct Clock {
    /// The unit, if the column does not name it and a row had one.
    unit: Option<u64>,
    /// The first time, in nanoseconds.
    first: Option<i128>,
    now_ns: u64,
}

impl Clock {
    /// A time of which `unit` nanoseconds make one. Times before the first count as the first.
    fn at(&mut self, text: &str, unit: u64) -> Result<u64, String> {
        let number = Decimal::parse(text);
        let number = number.ok_or_else(|| format!("the time should be a number, not {text:?}"))?;
        let far = || format!("the time is too far away: {text}");
        let ns = number.times(unit).ok_or_else(far)?;
        let since = ns - *self.first.get_or_insert(ns);
        self.now_ns = u64::try_from(since.max(0)).map_err(|_| far())?;
        Ok(self.now_ns)
    }
}

/// The fields of a line, without their quotes.
fn fields_of(line: &str, separator: char) -> impl Iterator<Item = Result<String, String>> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(quoted) = text.trim_start_matches(' ').strip_prefix('"') else {
            let (field, more) = match text.split_once(separator) {
                Some((field, more)) => (field, Some(more)),
                None => (text, None),
            };
            rest = more;
            return Some(Ok(field.to_owned()));
        };
        let mut field = String::new();
        let mut left = quoted;
        loop {
            let Some((part, behind)) = left.split_once('"') else {
                rest = None;
                return Some(Err("a quote is not closed".to_owned()));
            };
            field += part;
            // Two quotes are one in the field.
            match behind.strip_prefix('"') {
                Some(more) => {
                    field.push('"');
                    left = more;
                }
                None => {
                    rest = behind.split_once(separator).map(|(_, more)| more);
                    return Some(Ok(field));
                }
            }
        }
    })
}

impl BlockSource for Csv {
    fn next_request(&mut self) -> Result<Option<BlockRequest>, TraceError> {
        while self.lines.advance()? {
            let line = self.lines.lossy().into_owned();
            if line.trim().is_empty() {
                continue;
            }
            match self.row(&line) {
                Ok(Row::Request(request)) => {
                    self.reading.use_one();
                    return Ok(Some(request));
                }
                Ok(Row::LeftOut(why)) => self.reading.leave_out(self.lines.number(), &why),
                Err(why) => return Err(self.lines.error(why)),
            }
        }
        Ok(None)
    }

    fn reading(&self) -> Reading {
        self.reading.clone()
    }

    fn is_timed(&self) -> bool {
        self.columns.has(|column| matches!(column, Column::Time(_) | Column::Clock))
    }

    fn object(&self) -> Option<Object> {
        self.object
    }

    fn unit_bytes(&self) -> Option<u64> {
        self.columns.is_of_objects().then_some(BLOCK_BYTES)
    }
}

//! `msr`: MSR Cambridge's servers (Narayanan, Donnelly and Rowstron, FAST 2008), in SNIA's form.
//!
//! Timestamp (Windows file time, 100 ns), hostname, disk number, type (Read or Write), offset and
//! size in bytes, response time (100 ns). A file holds one host. Times start with the first line.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, PerLine, fields, lines};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "msr",
    "MSR Cambridge CSV: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    Format {
        is_like: |start| {
            let mut lines = lines(start);
            lines.next().is_some_and(|line| {
                line.split(',').count() == 7
                    && matches!(line.split(',').nth(3), Some("Read" | "Write" | "Type"))
            })
        },
        open: |input| {
            let mut start = None;
            Ok(PerLine::start(input, move |line| parse(line, &mut start)))
        },
    },
);

fn parse(line: &str, start: &mut Option<u64>) -> Result<Option<BlockRequest>, String> {
    if start.is_none() && line.starts_with("Timestamp") {
        return Ok(None);
    }
    let mut fields = fields::separated(line, ',');
    let ticks = fields.number("Timestamp")?;
    let zero = *start.get_or_insert(ticks);
    let at_ns = ticks.saturating_sub(zero).saturating_mul(100);
    fields.skip(&["Hostname"])?;
    let device = fields.device("DiskNumber")?;
    let op = fields.op("Type", &[("Read", BlockOp::Read), ("Write", BlockOp::Write)])?;
    let (offset_bytes, bytes) = (fields.number("Offset")?, fields.number("Size")?);
    Ok(Some(BlockRequest { at_ns, device, op, offset_bytes, bytes }))
}

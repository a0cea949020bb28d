//! `tencent`: Tencent Cloud's block traces (Zhang, Huang, Zhou and others, USENIX ATC 2020).
//!
//! Timestamp in seconds, offset and size in sectors of 512 bytes, type (0 read, 1 write), volume.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, Parsed, PerLine, fields, lines};

/// Five numbers could be much else.
const COLUMNS: &str = "the columns, which are not named, are those of Tencent's traces: seconds, sector, \
                       sectors, 0 read or 1 write, volume";

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "tencent",
    "Tencent Cloud CSV: Timestamp,Offset,Size,IOType,VolumeID",
    Format {
        is_like: |start| {
            lines(start).next().is_some_and(|line| {
                line.split(',').count() == 5
                    && matches!(line.split(',').nth(3), Some("0" | "1" | "IOType"))
            })
        },
        open: |input| {
            let mut is_first = true;
            Ok(PerLine::start(input, move |line, reading| {
                let names_columns = is_first && line.starts_with("Timestamp");
                if is_first && !names_columns {
                    reading.assume(COLUMNS);
                }
                is_first = false;
                if names_columns { Ok(Parsed::Passed) } else { parse(line).map(Parsed::Request) }
            }))
        },
    },
);

fn parse(line: &str) -> Result<BlockRequest, String> {
    let mut fields = fields::separated(line, ',');
    let at_ns = fields.seconds("Timestamp")?;
    let (offset_bytes, bytes) = (fields.sectors("Offset")?, fields.sectors("Size")?);
    let op = fields.op("IOType", &[("0", BlockOp::Read), ("1", BlockOp::Write)])?;
    let device = fields.device("VolumeID")?;
    Ok(BlockRequest { at_ns, device, op, offset_bytes, bytes })
}

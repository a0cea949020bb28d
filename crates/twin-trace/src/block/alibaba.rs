//! `alibaba`: Alibaba Cloud's block traces (Li, Wang, Lee and Shi, IISWC 2020).
//!
//! Device, opcode (R or W), offset and length in bytes, timestamp in microseconds.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, Parsed, PerLine, fields, lines};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "alibaba",
    "Alibaba Cloud CSV: device_id,opcode,offset,length,timestamp",
    Format {
        is_like: |start| {
            lines(start).next().is_some_and(|line| {
                line.split(',').count() == 5
                    && matches!(line.split(',').nth(1), Some("R" | "W" | "opcode"))
            })
        },
        open: |input| {
            let mut is_first = true;
            Ok(PerLine::start(input, move |line, _| {
                let names_columns = is_first && line.starts_with("device_id");
                is_first = false;
                if names_columns { Ok(Parsed::Passed) } else { parse(line).map(Parsed::Request) }
            }))
        },
    },
);

fn parse(line: &str) -> Result<BlockRequest, String> {
    let mut fields = fields::separated(line, ',');
    let device = fields.device("device_id")?;
    let op = fields.op("opcode", &[("R", BlockOp::Read), ("W", BlockOp::Write)])?;
    let (offset_bytes, bytes) = (fields.number("offset")?, fields.number("length")?);
    let at_ns = fields.time("timestamp", 1000)?;
    Ok(BlockRequest { at_ns, device, op, offset_bytes, bytes })
}

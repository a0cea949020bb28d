//! `disksim`: the ASCII format of DiskSim and MQSim.
//!
//! Arrival time (ns, as in MQSim), device, first sector and number of sectors (512 bytes), type (0
//! write, 1 read), separated by blanks.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, PerLine, fields, lines};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "disksim",
    "MQSim and DiskSim ASCII: time_ns device sector sectors type (0 write, 1 read)",
    Format {
        is_like: |start| {
            lines(start)
                .next()
                .is_some_and(|line| line.split_whitespace().count() == 5 && parse(line).is_ok())
        },
        open: |input| Ok(PerLine::start(input, parse)),
    },
);

fn parse(line: &str) -> Result<Option<BlockRequest>, String> {
    let mut fields = fields::blank(line);
    let (at_ns, device) = (fields.number("the time")?, fields.device("the device")?);
    let (offset_bytes, bytes) = (fields.sectors("the sector")?, fields.sectors("sectors")?);
    let op = fields.op("the type", &[("0", BlockOp::Write), ("1", BlockOp::Read)])?;
    Ok(Some(BlockRequest { at_ns, device, op, offset_bytes, bytes }))
}

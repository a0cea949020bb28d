//! `spc`: the format of the Storage Performance Council, used by the Financial and WebSearch traces
//! of UMass.
//!
//! Application storage unit, first block (512 bytes), size in bytes, opcode (r or w), seconds.
//! Further fields are skipped.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, Parsed, PerLine, fields, lines};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "spc",
    "SPC (UMass Financial, WebSearch): ASU,LBA,Size,Opcode,Timestamp",
    Format {
        is_like: |start| {
            let opcode =
                |line: &str| line.split(',').nth(3).map(|op| op.trim().to_ascii_lowercase());
            let first = lines(start).next();
            first.is_some_and(|line| {
                opcode(line).is_some_and(|op| op == "r" || op == "w") && parse(line).is_ok()
            })
        },
        open: |input| Ok(PerLine::start(input, |line, _| parse(line))),
    },
);

fn parse(line: &str) -> Result<Parsed, String> {
    let mut fields = fields::separated(line, ',');
    let device = fields.device("the ASU")?;
    let offset_bytes = fields.sectors("the LBA")?;
    let bytes = fields.number("the size")?;
    let op = fields.op("the opcode", &[("r", BlockOp::Read), ("w", BlockOp::Write)])?;
    let at_ns = fields.seconds("the timestamp")?;
    Ok(Parsed::Request(BlockRequest { at_ns, device, op, offset_bytes, bytes }))
}

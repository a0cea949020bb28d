//! `cloudphysics`: a virtual machine's disk (CloudPhysics, vSCSI) as comma-separated values:
//! t_us, op (R or W), bytes, lbn512 (first block of 512 bytes).

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, BlockSource, Format, Parsed, PerLine, fields, header};

const COLUMNS: &str = "t_us,op,bytes,lbn512";

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "cloudphysics",
    "CloudPhysics VM CSV: t_us,op,bytes,lbn512",
    Format {
        is_like: |start| start.starts_with(COLUMNS.as_bytes()),
        open: |input| {
            let source: Box<dyn BlockSource> =
                Box::new(PerLine::after(header(input, COLUMNS)?, |line, _| parse(line)));
            Ok(source)
        },
    },
);

fn parse(line: &str) -> Result<Parsed, String> {
    let mut fields = fields::separated(line, ',');
    let at_ns = fields.time("t_us", 1000)?;
    let op = fields.op("op", &[("R", BlockOp::Read), ("W", BlockOp::Write)])?;
    let (bytes, offset_bytes) = (fields.number("bytes")?, fields.sectors("lbn512")?);
    Ok(Parsed::Request(BlockRequest { at_ns, device: 0, op, offset_bytes, bytes }))
}

//! `hplajw`: the HP-UX workstation hplajw of 1992 (HP Labs, distributed with DiskSim) as
//! comma-separated values: t_us, kind, start_us, stop_us, op, bytes, sector (256 bytes), dev, and
//! further fields that are skipped. Devices are hexadecimal: disk and section.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, BlockSource, Format, Parsed, PerLine, fields, header};

const COLUMNS: &str =
    "t_us,kind,start_us,stop_us,op,bytes,sector,dev,driver,cyl,flags_hex,info_hex,qlen";
/// The sector size of the disks of this machine.
const SECTOR_BYTES: u64 = 256;

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "hplajw",
    "HP Labs' hplajw (1992) CSV: t_us,kind,start_us,stop_us,op,bytes,sector,dev,...",
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
    fields.skip(&["kind", "start_us", "stop_us"])?;
    let op = fields.op("op", &[("R", BlockOp::Read), ("W", BlockOp::Write)])?;
    let (bytes, sector) = (fields.number("bytes")?, fields.number("sector")?);
    let offset_bytes = sector.checked_mul(SECTOR_BYTES).ok_or("sector is too large")?;
    let text = fields.text("dev")?;
    let device = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let device = device.ok_or_else(|| format!("dev should be as 0x8000008, not {text:?}"))?;
    Ok(Parsed::Request(BlockRequest { at_ns, device, op, offset_bytes, bytes }))
}

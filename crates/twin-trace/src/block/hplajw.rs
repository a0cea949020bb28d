//! `hplajw`: the HP-UX workstation hplajw of 1992 (HP Labs, with DiskSim) as comma-separated
//! values: t_us, kind, start_us, stop_us, op, bytes, sector (256 bytes), dev, and more that is
//! passed over. Devices are hexadecimal: disk and section.

use super::{BlockOp, BlockRequest, BlockSource, PerLine, Spec, fields, header};

const COLUMNS: &str =
    "t_us,kind,start_us,stop_us,op,bytes,sector,dev,driver,cyl,flags_hex,info_hex,qlen";
/// The disks of this machine have sectors of this size.
const SECTOR_BYTES: u64 = 256;

pub(super) const SPEC: Spec = Spec {
    name: "hplajw",
    about: "HP Labs' hplajw (1992) CSV: t_us,kind,start_us,stop_us,op,bytes,sector,dev,...",
    is_like: |start| start.starts_with(COLUMNS.as_bytes()),
    open: |input| {
        let source: Box<dyn BlockSource> =
            Box::new(PerLine { lines: header(input, COLUMNS)?, parse });
        Ok(source)
    },
};

fn parse(line: &str) -> Result<Option<BlockRequest>, String> {
    let mut fields = fields::separated(line, ',');
    let at_ns = fields.time("t_us", 1000)?;
    fields.skip(&["kind", "start_us", "stop_us"])?;
    let op = fields.op("op", &[("R", BlockOp::Read), ("W", BlockOp::Write)])?;
    let (bytes, sector) = (fields.number("bytes")?, fields.number("sector")?);
    let offset_bytes = sector.checked_mul(SECTOR_BYTES).ok_or("sector is too large")?;
    let text = fields.text("dev")?;
    let device = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let device = device.ok_or_else(|| format!("dev should be as 0x8000008, not {text:?}"))?;
    Ok(Some(BlockRequest { at_ns, device, op, offset_bytes, bytes }))
}

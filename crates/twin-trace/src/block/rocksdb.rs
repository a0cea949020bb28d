//! `rocksdb`: RocksDB on XFS, recorded by Intel's standalone-linux-io-tracer, as comma-separated
//! values: t_ns, ev, op (R, W or D), lba and sectors (512 bytes), and further fields. Only IO
//! events are requests to the device; D is a discard. A flush has no blocks and is skipped.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, BlockSource, Format, PerLine, fields, header};

const COLUMNS: &str = "t_ns,ev,op,lba,sectors,io_class,flags,io_id,file,file_off_sectors,\
                       file_size_bytes,parent,name";
const OPS: &[(&str, BlockOp)] =
    &[("R", BlockOp::Read), ("W", BlockOp::Write), ("D", BlockOp::Trim)];

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "rocksdb",
    "Open CAS's io-tracer CSV (RocksDB on XFS): t_ns,ev,op,lba,sectors,...",
    Format {
        is_like: |start| start.starts_with(COLUMNS.as_bytes()),
        open: |input| {
            let source: Box<dyn BlockSource> =
                Box::new(PerLine { lines: header(input, COLUMNS)?, parse });
            Ok(source)
        },
    },
);

fn parse(line: &str) -> Result<Option<BlockRequest>, String> {
    let mut fields = fields::separated(line, ',');
    let at_ns = fields.number("t_ns")?;
    if fields.text("ev")? != "IO" {
        return Ok(None);
    }
    let op = fields.op("op", OPS)?;
    let (offset_bytes, bytes) = (fields.sectors("lba")?, fields.sectors("sectors")?);
    if bytes == 0 {
        return Ok(None);
    }
    Ok(Some(BlockRequest { at_ns, device: 0, op, offset_bytes, bytes }))
}

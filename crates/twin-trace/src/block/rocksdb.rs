//! `rocksdb`: RocksDB on XFS, recorded by Intel's standalone-linux-io-tracer, as comma-separated
//! values: t_ns, ev, op (R, W or D), lba and sectors (512 bytes), and further fields. Only IO
//! events are requests to the device; D is a discard, F and U among the flags a flush and a write that
//! is durable when it is answered. Other events (of files, and completions) are no requests.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, BlockSource, Format, Parsed, PerLine, fields, header};

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
                Box::new(PerLine::after(header(input, COLUMNS)?, |line, _| parse(line)));
            Ok(source)
        },
    },
);

fn parse(line: &str) -> Result<Parsed, String> {
    let mut fields = fields::separated(line, ',');
    let at_ns = fields.number("t_ns")?;
    if fields.text("ev")? != "IO" {
        return Ok(Parsed::Passed);
    }
    let op = fields.op("op", OPS)?;
    let (offset_bytes, bytes) = (fields.sectors("lba")?, fields.sectors("sectors")?);
    fields.skip(&["io_class"])?;
    let flags = fields.text("flags")?;
    let durable = flags.contains(['F', 'U']);
    let request = BlockRequest { at_ns, device: 0, op, offset_bytes, bytes };
    Ok(match (bytes, durable) {
        (0, true) => Parsed::Request(BlockRequest::sync(at_ns, 0, false)),
        (_, true) => Parsed::Durable(request),
        _ => Parsed::Request(request),
    })
}

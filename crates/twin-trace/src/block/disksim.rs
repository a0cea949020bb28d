//! `disksim`: the ASCII formats of DiskSim and MQSim.
//!
//! Arrival time, device, first sector and number of sectors (512 bytes), flags, separated by blanks. The
//! flags are hexadecimal, and a request whose lowest bit is set reads (in MQSim: 0 write, 1 read).
//!
//! The formats differ in the unit of time: DiskSim has milliseconds with a fraction
//! (disksim_iotrace.c), MQSim whole nanoseconds. A file with a fraction among its first lines has
//! milliseconds. That another one has nanoseconds is an assumption, which a fraction later contradicts.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, Parsed, PerLine, fields, lines};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "disksim",
    "MQSim and DiskSim ASCII: time (ns or, with fractions, ms) device sector sectors flags (bit 0: read)",
    Format {
        is_like: |start| {
            lines(start).next().is_some_and(|line| {
                line.split_whitespace().count() == 5 && parse(line, has_fractions(start)).is_ok()
            })
        },
        open: |mut input| {
            let in_ms = has_fractions(input.fill_buf()?);
            Ok(PerLine::start(input, move |line, reading| {
                if !in_ms {
                    reading.assume(ASSUMED);
                }
                parse(line, in_ms).map(Parsed::Request)
            }))
        },
    },
);

const ASSUMED: &str = "times are nanoseconds, as in MQSim, because they have no fractions; DiskSim has \
                       milliseconds with fractions";
const NANOS_IN_MS: u64 = 1_000_000;

/// True if the times are those of DiskSim.
fn has_fractions(start: &[u8]) -> bool {
    let time = |line: &str| line.split_whitespace().next().is_some_and(|time| time.contains('.'));
    lines(start).any(time)
}

fn parse(line: &str, in_ms: bool) -> Result<BlockRequest, String> {
    let mut fields = fields::blank(line);
    let at_ns = match in_ms {
        true => fields.decimal("the time", NANOS_IN_MS)?,
        false => fields.number("the time").map_err(|why| match line.contains('.') {
            true => format!("{why}: the lines before had no fractions, and were nanoseconds"),
            false => why,
        })?,
    };
    let device = fields.number("the device")?;
    let (offset_bytes, bytes) = (fields.sectors("the sector")?, fields.sectors("sectors")?);
    let text = fields.text("the flags")?;
    let flags = u64::from_str_radix(text.trim_start_matches("0x"), 16);
    let flags = flags.map_err(|_| format!("the flags should be hexadecimal, not {text:?}"))?;
    let op = if flags & 1 == 1 { BlockOp::Read } else { BlockOp::Write };
    Ok(BlockRequest { at_ns, device, op, offset_bytes, bytes })
}

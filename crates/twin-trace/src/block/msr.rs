//! `msr`: MSR Cambridge's servers (Narayanan, Donnelly and Rowstron, FAST 2008), in SNIA's form.
//!
//! Timestamp (Windows file time, 100 ns), hostname, disk number, type (Read or Write), offset and
//! size in bytes, response time (100 ns). Times start with the first line. A file holds one host; if
//! there are several, disks of the second and further ones are numbered 2^32 times its number further on.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, Parsed, PerLine, fields, lines};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "msr",
    "MSR Cambridge CSV: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    Format {
        is_like: |start| {
            let mut lines = lines(start);
            lines.next().is_some_and(|line| {
                line.split(',').count() == 7
                    && matches!(line.split(',').nth(3), Some("Read" | "Write" | "Type"))
            })
        },
        open: |input| {
            let (mut start, mut hosts) = (None, Vec::new());
            Ok(PerLine::start(input, move |line, _| parse(line, &mut start, &mut hosts)))
        },
    },
);

/// The most hosts in a file.
const HOSTS_MOST: usize = 1 << 16;

fn parse(line: &str, start: &mut Option<u64>, hosts: &mut Vec<String>) -> Result<Parsed, String> {
    if start.is_none() && line.starts_with("Timestamp") {
        return Ok(Parsed::Passed);
    }
    let mut fields = fields::separated(line, ',');
    let ticks = fields.number("Timestamp")?;
    let zero = *start.get_or_insert(ticks);
    let at_ns = ticks.saturating_sub(zero).saturating_mul(100);
    let name = fields.text("Hostname")?;
    let host = hosts.iter().position(|host| host == name).unwrap_or_else(|| {
        hosts.push(name.to_owned());
        hosts.len() - 1
    });
    if host >= HOSTS_MOST {
        return Err(format!("the file has more than {HOSTS_MOST} hosts"));
    }
    let disk = fields.number("DiskNumber")?;
    let disk = u32::try_from(disk).map_err(|_| format!("DiskNumber is too large: {disk}"))?;
    let device = (host as u64) << 32 | u64::from(disk);
    let op = fields.op("Type", &[("Read", BlockOp::Read), ("Write", BlockOp::Write)])?;
    let (offset_bytes, bytes) = (fields.number("Offset")?, fields.number("Size")?);
    Ok(Parsed::Request(BlockRequest { at_ns, device, op, offset_bytes, bytes }))
}

//! `blkparse`: the text that blkparse prints from a blktrace, in its default format.
//!
//! Device (major,minor), processor, sequence number, seconds, process, action, kind (such as WS),
//! sector + sectors, process name. A request passes several actions; the reader uses the first of Q
//! (queued), D (sent to the device) and C (completed) that occurs in the text, throughout. A kind
//! with D is a discard, with W a write, with R a read; other kinds, such as a flush alone, and
//! other lines, such as the summary at the end, are skipped. Devices are numbered major * 2^20 +
//! minor, as in Linux.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, PerLine, fields, lines};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "blkparse",
    "blkparse's default text: 8,0 3 1 0.000000000 697 Q W 223490 + 8 [name]",
    Format {
        is_like: |start| lines(start).any(|line| matches!(parse(line), Ok(Some(_)))),
        open: |input| {
            let mut action = None;
            Ok(PerLine::start(input, move |line| {
                let Some((found, request)) = parse(line)? else { return Ok(None) };
                let taken = *action.get_or_insert(found);
                Ok((taken == found).then_some(request))
            }))
        },
    },
);

/// Parses a device, such as `8,0`.
fn device(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(',')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

fn parse(line: &str) -> Result<Option<(char, BlockRequest)>, String> {
    let Some(device) = line.split_whitespace().next().and_then(device) else { return Ok(None) };
    let mut fields = fields::blank(line);
    fields.skip(&["the device", "the processor", "the sequence number"])?;
    let at_ns = fields.seconds("the time")?;
    fields.skip(&["the process"])?;
    let action = match fields.text("the action")? {
        "Q" => 'Q',
        "D" => 'D',
        "C" => 'C',
        _ => return Ok(None),
    };
    let kind = fields.text("the kind")?;
    let op = match () {
        () if kind.contains('D') => BlockOp::Trim,
        () if kind.contains('W') => BlockOp::Write,
        () if kind.contains('R') => BlockOp::Read,
        () => return Ok(None),
    };
    // A flush that belongs to a write has no blocks of its own.
    let Ok(offset_bytes) = fields.sectors("the sector") else { return Ok(None) };
    match fields.text("the plus sign") {
        Ok("+") => {}
        _ => return Ok(None),
    }
    let bytes = fields.sectors("the sectors")?;
    Ok(Some((action, BlockRequest { at_ns, device, op, offset_bytes, bytes })))
}

//! `blkparse`: the text that blkparse prints from a blktrace, in its default format.
//!
//! Device (major,minor), processor, sequence number, seconds, process, action, kind (as WS),
//! sector + sectors, process name. A request passes several actions; the first of Q (queued), D
//! (sent to the device) and C (completed) that the text has is taken throughout. A kind with D is
//! a discard, with W a write, with R a read; others, as a flush alone, and other lines, as the
//! summary at the end, are passed over. Devices are numbered major * 2^20 + minor, as in Linux.

use super::{BlockOp, BlockRequest, PerLine, Spec, fields, lines};

pub(super) const SPEC: Spec = Spec {
    name: "blkparse",
    about: "blkparse's default text: 8,0 3 1 0.000000000 697 Q W 223490 + 8 [name]",
    is_like: |start| lines(start).any(|line| matches!(parse(line), Ok(Some(_)))),
    open: |input| {
        let mut action = None;
        Ok(PerLine::start(input, move |line| {
            let Some((found, request)) = parse(line)? else { return Ok(None) };
            let taken = *action.get_or_insert(found);
            Ok((taken == found).then_some(request))
        }))
    },
};

/// A device, as `8,0`.
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
    // A flush that goes with a write has no blocks of its own.
    let Ok(offset_bytes) = fields.sectors("the sector") else { return Ok(None) };
    match fields.text("the plus sign") {
        Ok("+") => {}
        _ => return Ok(None),
    }
    let bytes = fields.sectors("the sectors")?;
    Ok(Some((action, BlockRequest { at_ns, device, op, offset_bytes, bytes })))
}

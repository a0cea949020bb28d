//! `blkparse`: the text that blkparse prints from a blktrace, in its default format.
//!
//! Device (major,minor), processor, sequence number, seconds, process, action, kind (such as WS),
//! sector + sectors, process name. A request passes several actions; the reader uses the first of Q
//! (queued), D (sent to the device) and C (completed) that its beginning has, throughout: a capture may
//! begin with the completion of what was queued before it, and such completions are left out. Lines of
//! other actions, and other lines, such as the summary at the end, hold no requests. Devices are numbered
//! major * 2^20 + minor, as in Linux.
//!
//! The kind (fill_rwbs in the kernel and in blkparse) is F for a flush before the request, then R (read),
//! W (write), D (discard), N (nothing) or ZA (append to a zone), ZR (reset of a zone, after which its
//! contents are gone), ZO, ZC, ZF (open, close, finish), then F if the request is durable when it is
//! answered, A, S and M. A write with F before or after it is followed by a flush here.

use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, Parsed, PerLine, fields, lines};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "blkparse",
    "blkparse's default text: 8,0 3 1 0.000000000 697 Q W 223490 + 8 [name]",
    Format {
        is_like: |start| lines(start).any(|line| matches!(parse(line), Ok(Some(_)))),
        open: |mut input| {
            let taken = taken(input.fill_buf()?);
            let mut begun = false;
            Ok(PerLine::start(input, move |line, _| {
                let Some((action, parsed)) = parse(line)? else { return Ok(Parsed::Passed) };
                begun |= action == taken;
                match action {
                    _ if action == taken => Ok(parsed),
                    'C' if !begun => {
                        Parsed::left_out("that complete what was queued before the text begins")
                    }
                    'Q' | 'D' if taken == 'C' => Parsed::left_out(
                        "with a request that was queued, in a text that begins with completions",
                    ),
                    _ => Ok(Parsed::Passed),
                }
            }))
        },
    },
);

/// The action by which requests are counted: the earliest one that the beginning of the text has.
fn taken(start: &[u8]) -> char {
    let actions: Vec<char> = lines(start).filter_map(|line| Some(parse(line).ok()??.0)).collect();
    ['Q', 'D', 'C'].into_iter().find(|action| actions.contains(action)).unwrap_or('Q')
}

/// Parses a device, such as `8,0`.
fn device(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(',')?;
    let (major, minor): (u64, u64) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// The kind of a request.
enum Kind {
    Transfer { op: BlockOp, durable: bool },
    Flush,
    Other(&'static str),
}

fn kind(rwbs: &str) -> Kind {
    let (flush, rest) = match rwbs.strip_prefix('F') {
        Some(rest) => (true, rest),
        None => (false, rwbs),
    };
    let of = |op, rest: &str| Kind::Transfer { op, durable: flush || rest.contains('F') };
    let mut letters = rest.chars();
    match letters.next() {
        Some('R') => of(BlockOp::Read, ""),
        Some('W') => of(BlockOp::Write, letters.as_str()),
        Some('D') => of(BlockOp::Trim, ""),
        Some('Z') => match letters.next() {
            Some('A') => of(BlockOp::Write, letters.as_str()),
            Some('R') if !letters.as_str().starts_with('A') => of(BlockOp::Trim, ""),
            _ => Kind::Other("that manage zones (open, close, finish, reset of all)"),
        },
        _ if flush => Kind::Flush,
        _ => Kind::Other("of a kind that transfers nothing"),
    }
}

fn parse(line: &str) -> Result<Option<(char, Parsed)>, String> {
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
    let (op, durable) = match kind(fields.text("the kind")?) {
        Kind::Transfer { op, durable } => (op, durable),
        Kind::Flush => {
            let flush = BlockRequest::sync(at_ns, device, false);
            return Ok(Some((action, Parsed::Request(flush))));
        }
        Kind::Other(why) => return Ok(Some((action, Parsed::LeftOut(why.into())))),
    };
    // A request without blocks has no sector, and a command of another kind has bytes in
    // parentheses.
    let place = fields.sectors("the sector");
    let (Ok(offset_bytes), Ok("+")) = (place, fields.text("the plus sign")) else {
        let parsed = match durable {
            true => Parsed::Request(BlockRequest::sync(at_ns, device, false)),
            false => Parsed::LeftOut("without a place".into()),
        };
        return Ok(Some((action, parsed)));
    };
    let bytes = fields.sectors("the sectors")?;
    let request = BlockRequest { at_ns, device, op, offset_bytes, bytes };
    let parsed = match (durable, op) {
        (true, BlockOp::Write) => Parsed::Durable(request),
        _ => Parsed::Request(request),
    };
    Ok(Some((action, parsed)))
}

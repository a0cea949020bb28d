//! `blkreplay`: the loads of blkreplay (Schoebel-Theuer), recorded on production servers.
//!
//! After a text: start (s); sector (512 bytes); sectors; op (R, W, RA: read-ahead, also D); delay
//! and duration of a replay. Lines whose second field is not a number are text; they are skipped up
//! to the first request. On stacked devices a request may be recorded twice: requests with the same
//! sector, length and op within a millisecond count once.

use std::collections::VecDeque;

use twin_rt::MILLIS;
use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, Format, Parsed, PerLine, fields, lines};

const OPS: &[(&str, BlockOp)] =
    &[("R", BlockOp::Read), ("RA", BlockOp::Read), ("W", BlockOp::Write), ("D", BlockOp::Trim)];

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "blkreplay",
    "blkreplay .load: start ; sector ; length ; op ; replay delay ; replay duration",
    Format {
        is_like: |start| {
            let is_request = |line: &str| line.split(';').count() >= 4 && parse(line).is_ok();
            lines(start).any(is_request)
        },
        open: |input| {
            let (mut met, mut recent) = (false, VecDeque::new());
            Ok(PerLine::start(input, move |line, _| {
                let second = line.split(';').nth(1).unwrap_or_default().trim();
                if !met && second.parse::<u64>().is_err() {
                    return Ok(Parsed::Passed);
                }
                met = true;
                let request = parse(line)?;
                match is_repeat(&mut recent, request) {
                    true => Parsed::left_out("that repeat a request within a millisecond"),
                    false => Ok(Parsed::Request(request)),
                }
            }))
        },
    },
);

fn parse(line: &str) -> Result<BlockRequest, String> {
    let mut fields = fields::separated(line, ';');
    let at_ns = fields.seconds("the start")?;
    let (offset_bytes, bytes) = (fields.sectors("the sector")?, fields.sectors("the length")?);
    let op = fields.op("the op", OPS)?;
    Ok(BlockRequest { at_ns, device: 0, op, offset_bytes, bytes })
}

/// True if the same request occurred within the last millisecond. A repetition does not start a new
/// millisecond.
fn is_repeat(recent: &mut VecDeque<BlockRequest>, request: BlockRequest) -> bool {
    let since = request.at_ns.saturating_sub(MILLIS);
    while recent.front().is_some_and(|first| first.at_ns < since) {
        recent.pop_front();
    }
    let same = |other: &BlockRequest| {
        (other.offset_bytes, other.bytes, other.op)
            == (request.offset_bytes, request.bytes, request.op)
    };
    match recent.iter().position(same) {
        Some(at) => {
            recent.remove(at);
            true
        }
        None => {
            recent.push_back(request);
            false
        }
    }
}

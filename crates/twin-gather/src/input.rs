//! What is gathered from: packets, or the lines of nfsdump, compressed or not.

use std::io::{BufRead, BufReader, Read};

use twin_trace::readers;

use crate::capture::{self, Ending};
use crate::{Gathered, Gatherer, nfsdump};

/// How many packets or lines are taken before it is asked whether to go on.
const LOOK_EVERY: u64 = 4096;

/// All that an input has, or that it has until `goes_on` returns false. Of a text the ending tells of lines.
///
/// # Errors
/// Says what is wrong if the input can be neither.
pub fn read(
    input: impl Read + Send + 'static,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(Gathered, Ending), String> {
    let words = |error: std::io::Error| error.to_string();
    let mut input = BufReader::new(input);
    if input.fill_buf().map_err(words)?.is_empty() {
        return Err("the file is empty".into());
    }
    let mut input = readers::expanded(input).map_err(words)?;
    let mut goes_on = |taken: u64| !taken.is_multiple_of(LOOK_EVERY) || goes_on();
    if nfsdump::looks_like(input.fill_buf().map_err(words)?) {
        let (gathered, lines) = nfsdump::read(input, goes_on).map_err(words)?;
        return Ok((gathered, Ending { packets: lines, damage: None }));
    }
    let (mut gatherer, mut packets) = (Gatherer::default(), 0);
    let ending = capture::read(input, &mut |packet| {
        gatherer.packet(&packet);
        packets += 1;
        goes_on(packets)
    });
    let ending = ending.map_err(|why| why.to_string())?;
    Ok((gatherer.finish(), ending))
}

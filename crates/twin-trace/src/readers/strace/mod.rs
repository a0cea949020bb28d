//! `strace`: the calls of processes to files, as people record them: with `-f` or not, with any kind of time
//! or none, with `-y`, `-yy`, `-T`, `-C`, `-k`, `-x`, `-i`, `-n`, `-s 0`, `-z`, attached with `-p`.
//!
//! Contract: the text is read three times, so that memory is that of the distinct files, processes and names,
//! not of the lines: once for the births of processes ([`births`]), once to learn what existed before
//! ([`world`]), and once to give the records. Every process is a client. The order of lines is the order of
//! events ([`order`]).
//!
//! What the text lacks is made up by these rules, which [`Reading`] tells where they were needed:
//!
//! - A name that is used with success and was not made before existed before. Its length is what `stat` told
//!   of it, or the end of what was read of it. So does a file opened with O_CREAT of which more is told or read
//!   than was written.
//! - A path is reached by a lookup of its last name. A path that is relative belongs to the working
//!   directory, which `-y` shows with AT_FDCWD, `getcwd` tells and `chdir` changes.
//! - Reads and writes without a place go on where the one before ended.
//! - A file without a name (O_TMPFILE) has one for a moment. A clone is written.
//! - `/proc`, `/sys` and `/dev` are no files. What is mapped is neither read nor written.
//! - Everything belongs to one tree and to root; contents are not kept.

mod answers;
mod args;
mod births;
mod brackets;
mod call;
mod clock;
mod data;
mod descriptors;
mod intake;
mod line;
mod maker;
mod names;
mod order;
mod others;
mod table;
#[cfg(test)]
mod tests;
mod world;

use std::collections::btree_map::IntoValues;

use twin_fs::Ino;
use twin_rt::Time;
use twin_settings::RegistryEntry;

use super::lines::Lines;
use super::{Again, Format, Opening};
use crate::error::TraceError;
use crate::frame::{Header, Traits};
use crate::kind::Kind;
use crate::reading::Reading;
use crate::record::{Node, Record};
use crate::stream::Source;
use births::Births;
use line::{Parser, Said, TABLE};
use maker::Maker;
use world::World;

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "strace",
    "strace -f -ttt -T -y: the calls of processes to files, each process a client",
    Format { is_like: Some(is_like), open: Opening::Again(open) },
);

/// The longest line: strings may be as long as `-s` says.
const MAX_LINE: u64 = 4 << 20;

/// A text is of strace if a call is the first thing that is no note, or if all of it is a table of calls.
fn is_like(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    if text.starts_with(TABLE) && text.contains(" syscall") {
        return true;
    }
    let mut parser = Parser::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match parser.line(line) {
            Ok(Said::Note) => {}
            Ok(_) => return true,
            // The beginning ends in the middle of a line.
            Err(_) => return false,
        }
    }
    false
}

struct Strace {
    header: Header,
    input: Again,
    state: State,
}

enum State {
    /// No line was read yet.
    New,
    Reading(Box<Second>),
    /// The end, or an error, was returned.
    Over(Reading),
}

/// The reading that gives records.
struct Second {
    nodes: IntoValues<Ino, Node>,
    text: Text,
    maker: Maker,
    /// The lines have ended.
    is_over: bool,
    /// The damage of the line after the last good one.
    damage: Option<TraceError>,
}

fn open(input: Again) -> Result<Box<dyn Source>, TraceError> {
    let timed = is_timed(&input)?;
    let traits = Traits { timed, nodes_first: true, ..Traits::default() };
    let text = "calls of processes (strace)".to_owned();
    let header = Header { kind: Kind::Operations, start: Time(0), seed: 0, traits, text };
    Ok(Box::new(Strace { header, input, state: State::New }))
}

/// Whether the first call has a time.
fn is_timed(input: &Again) -> Result<bool, TraceError> {
    let mut text = Text::new(input)?;
    let mut is_table = false;
    while let Some(said) = text.next()? {
        is_table |= text.lines.lossy().starts_with(TABLE);
        match said {
            Said::Call(call) | Said::Begun(call) => return Ok(call.at_ns.is_some()),
            Said::Exit { at_ns, .. } => return Ok(at_ns.is_some()),
            Said::Half(_) => return Ok(false),
            Said::Note | Said::Output { .. } => {}
        }
    }
    match is_table {
        true => Err(text.lines.error(
            "this is the table of strace -c, which has no calls: run strace without -c, or with -C",
        )),
        false => Ok(false),
    }
}

/// The lines of a text, as what they say.
struct Text {
    lines: Lines<super::Input>,
    parser: Parser,
    /// The line of strace that follows lines of the program.
    after: Option<Said>,
}

impl Text {
    fn new(input: &Again) -> Result<Text, TraceError> {
        let lines = Lines::with_longest(input.open()?, MAX_LINE);
        Ok(Text { lines, parser: Parser::default(), after: None })
    }

    /// The next line; `None` at the end. Lines that are not strace's are output of the program if
    /// they can be, and if more lines of strace follow; at the end of a text they are damage.
    fn next(&mut self) -> Result<Option<Said>, TraceError> {
        if let Some(after) = self.after.take() {
            return Ok(Some(after));
        }
        let (mut first, mut count) = (None, 0);
        while self.lines.advance()? {
            let text = self.lines.lossy();
            if text.trim().is_empty() {
                continue;
            }
            match self.parser.line(&text) {
                Ok(said) if count == 0 => return Ok(Some(said)),
                Ok(said) => {
                    self.after = Some(said);
                    return Ok(Some(Said::Output { count }));
                }
                Err(why) => {
                    let error = self.lines.error(why);
                    if !self.parser.may_be_mixed() {
                        return Err(first.unwrap_or(error));
                    }
                    first.get_or_insert(error);
                    count += 1;
                }
            }
        }
        first.map_or(Ok(None), Err)
    }
}

/// Reads the text twice, up to its end or to what is damaged, and begins the third time.
fn learn(input: &Again) -> Result<Second, TraceError> {
    let mut births = Births::default();
    let mut ahead = Lines::with_longest(input.open()?, MAX_LINE);
    while let Ok(true) = ahead.advance() {
        births.learn(&ahead.lossy());
    }
    let mut maker = Maker::new(World::to_learn(), births.clone(), false);
    let mut text = Text::new(input)?;
    // Damage is reported when the text is read again.
    while let Ok(Some(said)) = text.next() {
        maker.take(text.lines.number(), &said);
    }
    let mut facts = std::mem::take(&mut maker.world.facts);
    let world = World::knowing(&mut facts);
    Ok(Second {
        nodes: facts.existing.into_values(),
        maker: Maker::new(world, births, text.parser.is_fine()),
        text: Text::new(input)?,
        is_over: false,
        damage: None,
    })
}

impl Second {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        if let Some(node) = self.nodes.next() {
            return Ok(Some(Record::Node(node)));
        }
        loop {
            if let Some(record) = self.maker.order.pop() {
                return Ok(Some(record));
            }
            if self.is_over {
                return self.damage.take().map_or(Ok(None), Err);
            }
            match self.text.next() {
                Ok(Some(said)) => self.maker.take(self.text.lines.number(), &said),
                Ok(None) => {
                    self.is_over = true;
                    self.maker.finish(self.text.parser.halves());
                }
                Err(error) => {
                    // Everything before the damage is good.
                    (self.is_over, self.damage) = (true, Some(error));
                    self.maker.finish(0);
                }
            }
        }
    }
}

impl Source for Strace {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if let State::New = self.state {
            self.state = State::Reading(Box::new(learn(&self.input)?));
        }
        let State::Reading(second) = &mut self.state else { return Ok(None) };
        let next = second.next();
        if !matches!(next, Ok(Some(_))) {
            self.state = State::Over(std::mem::take(&mut second.maker.world.reading));
        }
        next
    }

    fn reading(&self) -> Reading {
        match &self.state {
            State::New => Reading::default(),
            State::Reading(second) => second.maker.world.reading.clone(),
            State::Over(reading) => reading.clone(),
        }
    }
}

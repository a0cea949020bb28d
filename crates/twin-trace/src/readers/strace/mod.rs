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

mod args;
mod births;
mod clock;
mod data;
mod descriptors;
mod line;
mod maker;
mod names;
mod order;
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
    /// Nothing was read.
    New,
    Reading(Box<Second>),
    /// The end, or an error, was told.
    Over(Reading),
}

/// The reading that gives records.
struct Second {
    nodes: IntoValues<Ino, Node>,
    lines: Lines<super::Input>,
    parser: Parser,
    maker: Maker,
    /// The lines have ended.
    is_over: bool,
    /// What is wrong with the line after the last.
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
    let mut lines = lines(input)?;
    let mut parser = Parser::default();
    let mut is_table = false;
    while let Some(said) = next(&mut lines, &mut parser)? {
        is_table |= lines.text()?.starts_with(TABLE);
        match said {
            Said::Call(call) | Said::Begun(call) => return Ok(call.at_ns.is_some()),
            Said::Exit { at_ns, .. } => return Ok(at_ns.is_some()),
            Said::Half(_) => return Ok(false),
            Said::Note => {}
        }
    }
    match is_table {
        true => Err(lines.error(
            "this is the table of strace -c, which has no calls: run strace without -c, or with -C",
        )),
        false => Ok(false),
    }
}

fn lines(input: &Again) -> Result<Lines<super::Input>, TraceError> {
    Ok(Lines::with_longest(input.open()?, MAX_LINE))
}

/// What the next line says; `None` at the end.
fn next(lines: &mut Lines<super::Input>, parser: &mut Parser) -> Result<Option<Said>, TraceError> {
    while lines.advance()? {
        let text = lines.text()?;
        if !text.trim().is_empty() {
            return parser.line(text).map(Some).map_err(|why| lines.error(why));
        }
    }
    Ok(None)
}

/// Reads the text twice, up to its end or to what is damaged, and begins the third time.
fn learn(input: &Again) -> Result<Second, TraceError> {
    let mut births = Births::default();
    let mut ahead = lines(input)?;
    while let Ok(true) = ahead.advance() {
        let Ok(text) = ahead.text() else { break };
        births.learn(text);
    }
    let mut maker = Maker::new(World::to_learn(), births.clone(), false);
    let (mut text, mut parser) = (lines(input)?, Parser::default());
    // What is damaged is told when it is read again.
    while let Ok(Some(said)) = next(&mut text, &mut parser) {
        maker.take(text.number(), &said);
    }
    let mut facts = std::mem::take(&mut maker.world.facts);
    let world = World::knowing(&mut facts);
    Ok(Second {
        nodes: facts.existing.into_values(),
        lines: lines(input)?,
        maker: Maker::new(world, births, parser.is_fine()),
        parser: Parser::default(),
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
            match next(&mut self.lines, &mut self.parser) {
                Ok(Some(said)) => self.maker.take(self.lines.number(), &said),
                Ok(None) => {
                    self.is_over = true;
                    self.maker.finish(self.parser.halves());
                }
                Err(error) => {
                    // What lies before the damage is good.
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

//! `fio`: fio's iolog, version 2 (without times) and 3 (with them, in microseconds since the beginning,
//! `utime_since_now` in fio's iolog.c).
//!
//! After the line with the version: `[time] file action [offset bytes]`. The actions read, write and trim
//! are requests, sync and datasync make their file durable; add, open and close say nothing about
//! contents. sync_file_range, which makes nothing durable, and actions that are not known are left out,
//! as fio's own replay does. wait (version 2, with its offset in microseconds) advances the time. Each
//! file is a device, numbered in order of appearance.

use twin_rt::{FixedMap, MICROS, Nanos};
use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, BlockSource, Format, Parsed, PerLine, fields, lines};
use crate::readers::Lines;

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "fio",
    "fio iolog, versions 2 and 3",
    Format {
        is_like: |start| lines(start).next().is_some_and(|line| line.starts_with("fio version ")),
        open: |mut input| {
            let action = |line: &str| line.split_whitespace().nth(1) == Some("wait");
            let waits = lines(input.fill_buf()?).any(action);
            let mut lines = Lines::new(input);
            let version = if lines.advance()? { lines.text()? } else { "" };
            let timed = match version.trim() {
                "fio version 2 iolog" => false,
                "fio version 3 iolog" => true,
                _ => {
                    return Err(lines.error("the first line should be: fio version 2 iolog (or 3)"));
                }
            };
            let mut log = Log { timed, now_ns: 0, files: FixedMap::default() };
            let mut source = PerLine::after(lines, move |line: &str, _| log.parse(line));
            source.is_timed = timed || waits;
            if !source.is_timed {
                source.reading.assume("version 2 has no times: all happens at once");
            }
            let source: Box<dyn BlockSource> = Box::new(source);
            Ok(source)
        },
    },
);

struct Log {
    timed: bool,
    now_ns: Nanos,
    files: FixedMap<String, u64>,
}

impl Log {
    fn parse(&mut self, line: &str) -> Result<Parsed, String> {
        let mut fields = fields::blank(line);
        if self.timed {
            self.now_ns = fields.time("the time", MICROS)?;
        }
        let file = fields.text("the file")?;
        let op = match fields.text("the action")? {
            "read" => BlockOp::Read,
            "write" => BlockOp::Write,
            "trim" => BlockOp::Trim,
            "sync" => BlockOp::Sync { data_only: false },
            "datasync" => BlockOp::Sync { data_only: true },
            "wait" if self.timed => {
                return Parsed::left_out("of the action wait, which version 3 does not have");
            }
            "wait" => {
                let wait = fields.time("the wait", MICROS)?;
                self.now_ns = self.now_ns.saturating_add(wait);
                return Ok(Parsed::Passed);
            }
            "add" | "open" | "close" => return Ok(Parsed::Passed),
            "sync_file_range" => {
                return Parsed::left_out(
                    "of the action sync_file_range, which makes nothing durable",
                );
            }
            other => return Parsed::left_out(format!("of the action {other}")),
        };
        let (at_ns, device) = (self.now_ns, self.device(file));
        if let BlockOp::Sync { data_only } = op {
            return Ok(Parsed::Request(BlockRequest::sync(at_ns, device, data_only)));
        }
        let (offset_bytes, bytes) = (fields.number("the offset")?, fields.number("the length")?);
        Ok(Parsed::Request(BlockRequest { at_ns, device, op, offset_bytes, bytes }))
    }

    fn device(&mut self, file: &str) -> u64 {
        let next = self.files.len() as u64;
        match self.files.get(file) {
            Some(&device) => device,
            None => *self.files.entry(file.to_owned()).or_insert(next),
        }
    }
}

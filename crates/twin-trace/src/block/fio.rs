//! `fio`: fio's iolog, version 2 (without times) and 3 (with them, in milliseconds).
//!
//! After the line with the version: `[time] file action [offset bytes]`. The actions read, write
//! and trim are requests; add, open, close, sync, datasync are skipped; wait (version 2, with its
//! offset in microseconds) advances the time. Each file is a device, numbered in order of
//! appearance.

use twin_rt::{FixedMap, MICROS, MILLIS, Nanos};
use twin_settings::RegistryEntry;

use super::{BlockOp, BlockRequest, BlockSource, Format, PerLine, fields};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "fio",
    "fio iolog, versions 2 and 3",
    Format {
        is_like: |start| start.starts_with(b"fio version "),
        open: |input| {
            let mut lines = crate::readers::Lines::new(input);
            let version = if lines.advance()? { lines.text()? } else { "" };
            let timed = match version.trim() {
                "fio version 2 iolog" => false,
                "fio version 3 iolog" => true,
                _ => {
                    return Err(lines.error("the first line should be: fio version 2 iolog (or 3)"));
                }
            };
            let mut log = Log { timed, now_ns: 0, files: FixedMap::default() };
            let source: Box<dyn BlockSource> =
                Box::new(PerLine { lines, parse: move |line: &str| log.parse(line) });
            Ok(source)
        },
    },
);

struct Log {
    timed: bool,
    now_ns: Nanos,
    files: FixedMap<String, u32>,
}

impl Log {
    fn parse(&mut self, line: &str) -> Result<Option<BlockRequest>, String> {
        let mut fields = fields::blank(line);
        if self.timed {
            self.now_ns = fields.time("the time", MILLIS)?;
        }
        let file = fields.text("the file")?;
        let op = match fields.text("the action")? {
            "read" => BlockOp::Read,
            "write" => BlockOp::Write,
            "trim" => BlockOp::Trim,
            "wait" => {
                let wait = fields.time("the wait", MICROS)?;
                self.now_ns = self.now_ns.saturating_add(wait);
                return Ok(None);
            }
            "add" | "open" | "close" | "sync" | "datasync" => return Ok(None),
            other => return Err(format!("fio has no action {other:?}")),
        };
        let (offset_bytes, bytes) = (fields.number("the offset")?, fields.number("the length")?);
        let next = self.files.len() as u32;
        let device = match self.files.get(file) {
            Some(&device) => device,
            None => *self.files.entry(file.to_owned()).or_insert(next),
        };
        Ok(Some(BlockRequest { at_ns: self.now_ns, device, op, offset_bytes, bytes }))
    }
}

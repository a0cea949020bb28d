//! The log: partial segments and what their summaries list.

use twin_fs::dinode::Dinode;
use twin_fs::{Ino, Result};

use super::Dumper;
use crate::format::IFILE_INO;
use crate::format::{
    BlockContents, ImapEntry, LOG_WRITE_CHECKPOINT, LOG_WRITE_CLEANER, LOG_WRITE_LAST, PlacedBlock,
    Summary, SummaryEntry,
};
use crate::partial_segments::{PartialSegment, PartialSegments};
use twin_fs::dump::{Column, DumpError, OnDisk, Problem, Value, number, text};

const PARTS: [Column; 12] = [
    number("segment", 7),
    number("offset", 8),
    number("serial", 8),
    number("group", 8),
    text("flags", 16),
    number("stream", 6),
    number("next", 6),
    number("bytes", 8),
    number("summary", 7),
    number("blocks", 6),
    text("data", 9),
    text("time", 30),
];

const ENTRIES: [Column; 9] = [
    number("offset", 8),
    number("at", 12),
    number("serial", 8),
    text("kind", 8),
    number("ino", 8),
    number("generation", 10),
    number("lbn", 10),
    number("bytes", 6),
    text("live", 4),
];

/// Partial segments of a segment, with their offsets.
type PartialSegmentList = Vec<(u32, Summary)>;

fn flags(flags: u32) -> String {
    let names =
        [(LOG_WRITE_LAST, "last"), (LOG_WRITE_CHECKPOINT, "ckpt"), (LOG_WRITE_CLEANER, "cleaner")];
    let set = names.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| name);
    set.collect::<Vec<_>>().join("+")
}

impl Dumper<'_> {
    /// The partial segments of all segments.
    pub(super) async fn all_summaries(&mut self) {
        let about = "data: not compared; name a segment for that and for all blocks";
        self.sink.begin("partial_segments", about, &PARTS);
        for segment in 0..self.source.view.sb.segments() {
            let parts = self.parts(segment).await;
            for (offset, summary) in parts {
                self.part_row(segment, offset, &summary, None);
            }
        }
        self.sink.end();
    }

    /// The partial segments of one segment, and all blocks in them.
    pub(super) async fn summaries(&mut self, number: u64) -> Result<(), DumpError> {
        let sb = self.source.view.sb.clone();
        let Some(segment) = u32::try_from(number).ok().filter(|segment| *segment < sb.segments())
        else {
            let what = format!("there is no segment {number}: they are 0 to {}", sb.segments() - 1);
            return Err(DumpError::NoSuch(what));
        };
        let live = self.usage_table().await[segment as usize].map_or(0, |entry| entry.live_bytes);
        let parts = self.parts(segment).await;
        self.sink.begin("partial_segments", "what was written with one request each", &PARTS);
        for (offset, summary) in &parts {
            let matches = self.data_matches(segment, *offset, summary).await;
            self.part_row(segment, *offset, summary, matches);
        }
        self.sink.end();
        let end = parts.last().map_or(0, |(offset, s)| offset + s.header.total_bytes);
        if parts.is_empty() && live > 0 {
            let what = format!("segment {segment} has {live} live bytes but no sound summary");
            self.sink.problem(Problem { at: Some(sb.segment_start(segment)), what });
        }
        let about = format!("blocks in the order of the log; no more summaries from offset {end}");
        self.sink.begin("blocks", &about, &ENTRIES);
        for (offset, summary) in &parts {
            self.entry_rows(segment, *offset, summary).await;
        }
        self.sink.end();
        Ok(())
    }

    /// The partial segments of a segment's present life.
    async fn parts(&mut self, segment: u32) -> PartialSegmentList {
        let mut parts = PartialSegmentList::new();
        let mut walk = PartialSegments::of(&self.source.view.sb, segment);
        loop {
            match walk.next(&self.source.view.sb, &self.source.view).await {
                Ok(Some(PartialSegment { offset, summary })) => parts.push((offset, summary)),
                Ok(None) => return parts,
                Err(error) => {
                    let what = format!("segment {segment}, offset {}", walk.offset());
                    self.problem(&what, error);
                    return parts;
                }
            }
        }
    }

    /// Whether the blocks of a partial segment match their checksums.
    async fn data_matches(&mut self, segment: u32, offset: u32, summary: &Summary) -> Option<bool> {
        let at = self.source.view.sb.segment_start(segment) + u64::from(offset);
        let content = match self.source.view.read(at, summary.header.total_bytes.into()).await {
            Ok(content) => content.to_bytes(),
            Err(error) => {
                self.problem(&format!("segment {segment}, offset {offset}"), error);
                return None;
            }
        };
        let crc_at = |at: u32, len: u32| {
            let range = at as usize..(at + len) as usize;
            content.get(range).map_or(0, crc32c::crc32c)
        };
        let matches = summary.verify(&self.source.view.sb, crc_at);
        // What was under way when the power failed may be in any state.
        if !matches && summary.header.serial < self.source.view.log_state.serial {
            let what = format!(
                "segment {segment}: the partial segment at offset {offset} does not match the \
                 checksums of its blocks (harmless if nothing in it is live)"
            );
            self.sink.problem(Problem { at: Some(at), what });
        }
        Some(matches)
    }

    fn part_row(&mut self, segment: u32, offset: u32, summary: &Summary, matches: Option<bool>) {
        let header = summary.header;
        let data = match matches {
            _ if header.serial >= self.source.view.log_state.serial => "not part",
            Some(true) => "matches",
            Some(false) => "differs",
            None => "",
        };
        self.sink.row(vec![
            Value::Number(segment.into()),
            Value::Number(offset.into()),
            Value::Number(header.serial),
            Value::Number(header.group),
            Value::Text(flags(header.flags)),
            Value::Number(header.stream.into()),
            Value::Number(header.next_segment.into()),
            Value::Number(header.total_bytes.into()),
            Value::Number(header.summary_bytes.into()),
            Value::Number(summary.blocks(&self.source.view.sb).len() as u64),
            Value::Text(data.into()),
            header.time.into(),
        ]);
    }

    /// A row for each block that a summary lists, and each number that it says is free.
    async fn entry_rows(&mut self, segment: u32, part: u32, summary: &Summary) {
        let sb = self.source.view.sb.clone();
        let start = sb.segment_start(segment);
        let serial = summary.header.serial;
        let mut owner = None;
        for PlacedBlock { at, len, what } in summary.blocks(&sb) {
            let (offset, byte) = (part + at, start + u64::from(part + at));
            let base = [offset.into(), byte, serial].map(Value::Number);
            match what {
                BlockContents::Block { ino, generation, block } => {
                    let live = self.is_live(byte, ino, generation, block.lbn, &mut owner).await;
                    let kind = if block.lbn < 0 { "indirect" } else { "data" };
                    self.sink.row(
                        [
                            &base[..],
                            &[
                                Value::Text(kind.into()),
                                Value::Number(ino),
                                Value::Number(generation.into()),
                                Value::Signed(block.lbn),
                                Value::Number(len.into()),
                                live_value(live),
                            ],
                        ]
                        .concat(),
                    );
                }
                BlockContents::Inodes(list) => {
                    for (nth, info) in (0..).zip(list) {
                        let at = byte + nth * u64::from(sb.geometry.inode_size);
                        self.inode_row(offset, at, serial, info.ino).await;
                    }
                }
            }
        }
        for entry in &summary.entries {
            if let SummaryEntry::Freed { ino, generation } = entry {
                let nothing = Value::None;
                self.sink.row(vec![
                    nothing.clone(),
                    nothing.clone(),
                    Value::Number(serial),
                    Value::Text("freed".into()),
                    Value::Number(*ino),
                    Value::Number((*generation).into()),
                    nothing.clone(),
                    nothing.clone(),
                    nothing,
                ]);
            }
        }
    }

    /// A row for an inode in a block of inodes. Narrow summaries leave its number to the inode.
    async fn inode_row(&mut self, offset: u32, at: u64, serial: u64, listed: Ino) {
        let size = u64::from(self.source.view.sb.geometry.inode_size);
        let read = match self.source.view.raw_inode(at).await {
            Ok(raw) => self.source.view.decode_inode(&raw, at),
            Err(error) => Err(error),
        };
        let ino = match (listed, &read) {
            (0, Ok(d)) => d.ino,
            (listed, _) => listed,
        };
        let live = match self.source.entry(ino).await {
            Ok(ImapEntry::Used { at: place, .. }) => Some(place.checked_mul(size) == Some(at)),
            Ok(ImapEntry::Free { .. }) => Some(false),
            Err(_) => None,
        };
        self.sink.row(vec![
            Value::Number(offset.into()),
            Value::Number(at),
            Value::Number(serial),
            Value::Text("inode".into()),
            Value::Number(ino),
            read.as_ref().map_or(Value::None, |d| Value::Number(d.generation.into())),
            Value::None,
            Value::Number(size),
            live_value(live),
        ]);
        if let (Err(error), Some(true)) = (read, live) {
            self.problem(&format!("inode {ino}"), error);
        }
    }

    /// Whether a block at a byte of the device is what its file's pointer leads to; none if that
    /// cannot be found out. `owner` is the inode that was looked up last.
    async fn is_live(
        &self,
        byte: u64,
        ino: Ino,
        generation: u32,
        lbn: i64,
        owner: &mut Option<(Ino, u32, Option<Dinode>)>,
    ) -> Option<bool> {
        let known = owner.as_ref().filter(|(i, g, _)| (*i, *g) == (ino, generation));
        let d = match known {
            Some((_, _, d)) => d.clone(),
            None => {
                let d = self.owner(ino, generation).await.ok()?;
                *owner = Some((ino, generation, d.clone()));
                d
            }
        };
        let Some(d) = d else { return Some(false) };
        let ptr = self.source.view.ptr(&d, lbn).await.ok()?;
        let frag = u64::from(self.source.view.sb.geometry.frag_size);
        Some(ptr.is_on_disk() && ptr.addr.checked_mul(frag) == Some(byte))
    }

    /// The file that a summary means, unless it has been removed.
    async fn owner(&self, ino: Ino, generation: u32) -> Result<Option<Dinode>> {
        if ino == IFILE_INO {
            return self.source.ifile_inode().map(Some);
        }
        match self.source.entry(ino).await? {
            ImapEntry::Used { generation: now, .. } if now == generation => {
                self.source.inode(ino).await.map(|(_, d)| Some(d))
            }
            _ => Ok(None),
        }
    }
}

fn live_value(live: Option<bool>) -> Value {
    live.map_or(Value::Text("?".into()), Value::Flag)
}

//! The ifile: its inode, and which of its blocks holds what.

use twin_fs::dump::{Column, FileDump, Value, number, text};

use super::Dumper;
use crate::format::{IMAP_ENTRY_BYTES, ImapEntry, SEG_ENTRY_BYTES, SegEntry};

impl Dumper<'_> {
    /// The ifile: its inode, and what its blocks hold.
    pub(super) async fn ifile(&mut self) {
        let d = match self.source.ifile_inode() {
            Ok(d) => d,
            Err(error) => return self.problem("the ifile", error),
        };
        let (source, sink) = (self.source, &mut *self.sink);
        let mut files = FileDump { volume: source, sink };
        files.show_inode(None, &d).await;
        const COLUMNS: [Column; 6] = [
            number("lbn", 8),
            number("at", 14),
            number("crc", 10),
            text("holds", 14),
            text("numbers", 20),
            number("in_use", 8),
        ];
        let sb = &source.view.sb;
        let per_block = source.view.map_entries();
        let blocks = sb.geometry.blocks_for(d.size);
        files.sink.begin("blocks", "the usage table, then the inode map", &COLUMNS);
        let mut walk = files.walk(&d);
        while let Some(step) = files.next_step(&mut walk).await {
            let Ok(lbn) = u64::try_from(step.lbn) else { continue };
            let in_table = sb.table_block_at(lbn);
            if in_table.is_none() && lbn >= blocks {
                continue;
            }
            let (holds, first, end) = match in_table {
                Some(nth) => {
                    let first = nth * per_block;
                    ("segments", first, (first + per_block).min(sb.segments().into()))
                }
                None => {
                    let first = (lbn - sb.first_table_blocks()) * per_block;
                    ("inodes", first, first + per_block)
                }
            };
            let used = match source.ifile_block(lbn).await {
                Ok(raw) => Value::Number(in_use(&raw, in_table.is_some()) as u64),
                Err(error) => {
                    files.problem(&format!("the ifile, block {lbn}"), error);
                    Value::Text("?".into())
                }
            };
            let [at, _, crc] = files.ptr_values(step.ptr);
            let numbers = Value::Text(format!("{first} to {}", end - 1));
            files.sink.row(vec![
                Value::Number(lbn),
                at,
                crc,
                Value::Text(holds.into()),
                numbers,
                used,
            ]);
        }
        files.sink.end();
    }
}

/// Segments with live bytes, or inode numbers in use, in a block of the ifile.
fn in_use(raw: &[u8], is_table: bool) -> usize {
    match is_table {
        true => raw
            .chunks_exact(SEG_ENTRY_BYTES)
            .filter(|raw| SegEntry::decode(raw).live_bytes > 0)
            .count(),
        false => raw
            .chunks_exact(IMAP_ENTRY_BYTES)
            .filter(|raw| matches!(ImapEntry::decode(raw), ImapEntry::Used { .. }))
            .count(),
    }
}

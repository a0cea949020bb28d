//! The dump of a file's block map.

use super::walk::{FileDump, Step, kind_name};
use super::{Column, DumpError, File, Value, number, text};
use crate::dinode::Dinode;
use crate::geometry::Ptr;

/// The columns of a map; `region` is the layout's word for the parts of the device.
const fn map_columns(region: &'static str) -> [Column; 7] {
    [
        number("lbn", 12),
        number("blocks", 8),
        text("kind", 8),
        number("at", 14),
        number(region, 8),
        number("bytes", 12),
        number("crc", 10),
    ]
}

/// A run of blocks that are adjacent both in the file and on the device.
struct FileExtent {
    first: i64,
    blocks: u64,
    ptr: Ptr,
    bytes: u64,
}

impl FileDump<'_> {
    pub(super) async fn file_map(&mut self, file: &File) -> Result<(), DumpError> {
        let ino = self.resolve(file).await?;
        match self.volume.inode(ino).await {
            Ok((_, d)) => self.map_of(&d).await,
            Err(error) => self.problem(&format!("inode {ino}"), error),
        }
        Ok(())
    }

    async fn map_of(&mut self, d: &Dinode) {
        self.sink.fields(
            "file",
            "",
            vec![
                ("ino", Value::Number(d.ino)),
                ("kind", Value::Text(kind_name(d).into())),
                ("size", Value::Number(d.size)),
                ("allocated", Value::Number(d.allocated)),
                ("inline", Value::Flag(d.is_inline())),
            ],
        );
        let about = "runs of blocks; an indirect block stands before what it maps";
        self.sink.begin("map", about, &map_columns(self.volume.region()));
        let blocks = self.volume.geometry().blocks_for(d.size);
        let mut steps = self.walk(d);
        let mut run: Option<FileExtent> = None;
        let mut next = 0;
        while let Some(step) = self.next_step(&mut steps).await {
            let first = self.volume.geometry().first_data(step.lbn) as i64;
            if first > next {
                self.end_run(run.take());
                self.map_row(next, (first - next) as u64, "hole", None);
                next = first;
            }
            if step.lbn < 0 {
                self.end_run(run.take());
                let level = self.volume.geometry().indirect(step.lbn).0;
                self.map_row(step.lbn, 1, &format!("level {level}"), Some(step.ptr));
                if let Some(lost) = steps.take_lost() {
                    let end = lost.end.min(blocks as i64).max(next);
                    self.map_row(next, (end - next) as u64, "unknown", None);
                    next = end;
                }
                continue;
            }
            next = step.lbn + 1;
            match &mut run {
                Some(run) if self.continues(run, step) => {
                    run.blocks += 1;
                    run.bytes += u64::from(step.ptr.len);
                }
                _ => {
                    self.end_run(run.take());
                    let (first, ptr, bytes) = (step.lbn, step.ptr, step.ptr.len.into());
                    run = Some(FileExtent { first, blocks: 1, ptr, bytes });
                }
            }
        }
        self.end_run(run);
        if !d.is_inline() && (next as u64) < blocks {
            self.map_row(next, blocks - next as u64, "hole", None);
        }
        self.sink.end();
    }

    /// True if a block is adjacent to the end of a run, both in the file and on the device.
    fn continues(&self, run: &FileExtent, step: Step) -> bool {
        let frags = run.bytes / u64::from(self.volume.geometry().frag_size);
        step.lbn == run.first + run.blocks as i64
            && step.ptr.is_on_disk()
            && run.ptr.addr.checked_add(frags) == Some(step.ptr.addr)
    }

    fn end_run(&mut self, run: Option<FileExtent>) {
        let Some(FileExtent { first, blocks, ptr, bytes }) = run else { return };
        let [at, _, crc] = self.ptr_values(ptr);
        let crc = if blocks == 1 { crc } else { Value::None };
        self.push_map_row(first, blocks, "data", at, Value::Number(bytes), crc);
    }

    fn map_row(&mut self, lbn: i64, blocks: u64, kind: &str, ptr: Option<Ptr>) {
        let [at, bytes, crc] = match ptr {
            Some(ptr) => self.ptr_values(ptr),
            None => [Value::None, Value::None, Value::None],
        };
        self.push_map_row(lbn, blocks, kind, at, bytes, crc);
    }

    fn push_map_row(
        &mut self,
        lbn: i64,
        blocks: u64,
        kind: &str,
        at: Value,
        bytes: Value,
        crc: Value,
    ) {
        let region = match at {
            Value::Number(at) => self.region_of(at),
            _ => Value::None,
        };
        let (lbn, blocks) = (Value::Signed(lbn), Value::Number(blocks));
        self.sink.row(vec![lbn, blocks, Value::Text(kind.into()), at, region, bytes, crc]);
    }
}

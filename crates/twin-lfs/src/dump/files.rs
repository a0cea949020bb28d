//! What files hold: directories, where blocks are, the ifile.

use twin_disk::Bytes;
use twin_fs::dinode::Dinode;
use twin_fs::dir::block::Format;
use twin_fs::dir::index::{self, Frames, Stop};
use twin_fs::shape::Ptr;
use twin_fs::{FsError, Ino, ROOT_INO, Result, mode};

use super::inode::kind_name;
use super::{Column, DumpError, Dumper, File, Problem, Value, number, text};
use crate::format::{ImapEntry, Profile};
use crate::lfs::IFILE_INO;
use crate::view::{Step, Walk};

/// The longest file that is read whole, in bytes: the longest list of attributes.
const SMALL: u64 = 264 << 10;

const ENTRIES: [Column; 5] =
    [number("offset", 10), number("lbn", 7), number("ino", 9), text("kind", 9), text("name", 20)];

const MAP: [Column; 7] = [
    number("lbn", 12),
    number("blocks", 8),
    text("kind", 8),
    number("at", 14),
    number("segment", 8),
    number("bytes", 12),
    number("crc", 10),
];

/// The header of an index.
struct Header<'a>(&'a Bytes);

impl Frames for Header<'_> {
    fn read<R>(&self, lbn: u64, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        (lbn == 0).then(|| f(self.0))
    }
    fn write<R>(&mut self, _: u64, _: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        None
    }
}

/// Blocks that follow one another in the file and on the device.
struct Run {
    first: i64,
    blocks: u64,
    ptr: Ptr,
    bytes: u64,
}

fn type_name(kind: u32) -> &'static str {
    match kind {
        mode::REGULAR => "file",
        mode::DIRECTORY => "directory",
        mode::SYMLINK => "link",
        mode::CHAR => "char",
        mode::BLOCK => "block",
        mode::FIFO => "fifo",
        mode::SOCKET => "socket",
        _ => "?",
    }
}

/// Walks the blocks of a file, within bounds.
struct Steps {
    walk: Walk,
    left: u64,
    /// The data blocks behind the indirect block that came last, if it cannot be read.
    lost: Option<std::ops::Range<i64>>,
}

impl Dumper<'_> {
    fn steps(&self, d: &Dinode) -> Steps {
        Steps { walk: Walk::new(d), left: self.most_blocks(), lost: None }
    }

    /// The next block of a file, an indirect block before what it maps. What cannot be read is
    /// told and passed over.
    async fn next_step(&mut self, ino: Ino, steps: &mut Steps) -> Option<Step> {
        loop {
            let step = steps.walk.next(&self.view)?;
            if steps.left == 0 {
                let what =
                    format!("inode {ino}: more blocks than the volume has; the rest is left");
                self.sink.problem(Problem { at: None, what });
                return None;
            }
            steps.left -= 1;
            let overlaid = self.view.standing.overlays(ino, step.lbn);
            if !overlaid && let Err(what) = self.view.sb.shape.check_ptr(step.ptr, self.view.frags)
            {
                let what = format!("inode {ino}, block {}: {what}", step.lbn);
                self.sink.problem(Problem { at: None, what });
                continue;
            }
            if step.lbn < 0
                && let Err(error) = steps.walk.descend(&self.view, step).await
            {
                let shape = &self.view.sb.shape;
                let first = shape.first_data(step.lbn) as i64;
                steps.lost = Some(first..first + shape.span(step.lbn) as i64);
                let what = format!("inode {ino}, all behind indirect block {}", step.lbn);
                self.problem(&what, error);
            }
            return Some(step);
        }
    }

    /// The content of a short file. Blocks that it lacks are left out.
    pub(super) async fn small_content(&self, d: &Dinode) -> Result<Vec<u8>> {
        if d.size > SMALL {
            return Err(FsError::inconsistent(format!("the hidden file {} is too long", d.ino)));
        }
        let mut content = Vec::new();
        for lbn in 0..self.view.sb.shape.blocks_for(d.size) {
            let ptr = self.view.ptr(d, lbn as i64).await?;
            content.extend_from_slice(&self.view.block(d.ino, lbn as i64, ptr).await?);
        }
        Ok(content)
    }

    fn format(&self) -> Format {
        match self.view.sb.profile {
            Profile::Classic => Format::Classic,
            Profile::Modern => Format::Modern,
        }
    }

    /// The blocks of a directory that can be read, as far as they belong to it.
    async fn dir_blocks(&mut self, d: &Dinode) -> Vec<(u64, Bytes)> {
        let block = u64::from(self.view.sb.shape.block_size);
        let blocks = self.view.sb.shape.blocks_for(d.size);
        let mut steps = self.steps(d);
        let mut out = Vec::new();
        let mut expected = 0;
        while let Some(step) = self.next_step(d.ino, &mut steps).await {
            let lbn = step.lbn;
            if lbn < 0 || lbn as u64 >= blocks {
                continue;
            }
            self.tell_gap(d.ino, expected, lbn as u64);
            expected = lbn as u64 + 1;
            match self.view.block(d.ino, lbn, step.ptr).await {
                Ok(bytes) => {
                    let len = (d.size - lbn as u64 * block).min(bytes.len() as u64) as usize;
                    out.push((lbn as u64, bytes.slice(0, len)));
                }
                Err(error) => self.problem(&format!("directory {}, block {lbn}", d.ino), error),
            }
        }
        self.tell_gap(d.ino, expected, blocks);
        out
    }

    fn tell_gap(&mut self, ino: Ino, first: u64, end: u64) {
        if first < end {
            let what = format!("directory {ino} lacks its blocks {first} to {}", end - 1);
            self.sink.problem(Problem { at: None, what });
        }
    }

    /// Follows a path from the root, reading directories from their first block to the last.
    pub(super) async fn lookup_path(&mut self, path: &[u8]) -> Result<Ino, DumpError> {
        let mut at = ROOT_INO;
        for name in path.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
            let (_, d) = self.read_inode(at).await?;
            let format = self.format();
            let blocks = match d.is_dir() {
                true => self.dir_blocks(&d).await,
                false => Vec::new(),
            };
            let found = blocks.iter().find_map(|(_, bytes)| format.find(bytes, name));
            let name = String::from_utf8_lossy(name);
            let missing = || match d.is_dir() {
                true => format!("there is no {name:?} in directory {at}"),
                false => {
                    format!("{name:?} of this path would be in inode {at}, a {}", kind_name(&d))
                }
            };
            at = found.ok_or_else(|| DumpError::NoSuch(missing()))?.ino;
        }
        Ok(at)
    }

    pub(super) async fn directory(&mut self, file: &File) -> Result<(), DumpError> {
        let ino = self.resolve(file).await?;
        let (at, d) = match self.read_inode(ino).await {
            Ok(read) => read,
            Err(error) => {
                self.problem(&format!("inode {ino}"), error);
                return Ok(());
            }
        };
        if !d.is_dir() {
            let what = format!("inode {ino} is a {}, not a directory", kind_name(&d));
            return Err(DumpError::NoSuch(what));
        }
        let mut fields = vec![
            ("ino", Value::Number(ino)),
            ("at", Value::Number(at)),
            ("size", Value::Number(d.size)),
        ];
        if self.view.is_wide() {
            fields.push(("entries", Value::Number(d.entries)));
            fields.push(("index_ino", Value::Number(d.index_ino)));
        }
        self.sink.fields("directory", "from its inode; entries counts neither . nor ..", fields);
        if d.index_ino != 0 {
            self.index_header(d.index_ino).await;
        }
        let format = self.format();
        let blocks = self.dir_blocks(&d).await;
        self.sink.begin("entries", "in the order of their places", &ENTRIES);
        for (lbn, bytes) in &blocks {
            let first = (*lbn == 0).then_some(ino);
            if let Err(error) = format.validate(bytes, first) {
                let what =
                    format!("directory {ino}, block {lbn}, byte {}: {}", error.offset, error.what);
                self.sink.problem(Problem { at: None, what });
            }
            let start = lbn * u64::from(self.view.sb.shape.block_size);
            for item in format.items(bytes, 0) {
                self.sink.row(vec![
                    Value::Number(start + item.offset as u64),
                    Value::Number(*lbn),
                    Value::Number(item.ino),
                    Value::Text(type_name(item.kind).into()),
                    Value::Name(item.name.to_vec()),
                ]);
            }
        }
        self.sink.end();
        Ok(())
    }

    async fn index_header(&mut self, ino: Ino) {
        let read = async {
            let (_, d) = self.read_inode(ino).await?;
            let ptr = self.view.ptr(&d, 0).await?;
            let block = self.view.block(ino, 0, ptr).await?;
            match index::header(&Header(&block)) {
                Ok(header) => Ok(header),
                Err(Stop::Bad(error)) => Err(error.into()),
                Err(_) => Err(FsError::inconsistent("its header leads nowhere")),
            }
        };
        match read.await {
            Ok(header) => self.sink.fields(
                "index",
                "the header of its hash index",
                vec![
                    ("ino", Value::Number(ino)),
                    ("key_0", Value::Hex(header.key[0])),
                    ("key_1", Value::Hex(header.key[1])),
                    ("entries", Value::Number(header.entries)),
                    ("buckets", Value::Number(header.buckets.into())),
                    ("entries_per_block", Value::Number(header.capacity() as u64)),
                    ("overflow", Value::Number(header.overflow.into())),
                    ("free", Value::Number(header.free)),
                ],
            ),
            Err(error) => self.problem(&format!("the index, inode {ino}"), error),
        }
    }

    pub(super) async fn file_map(&mut self, file: &File) -> Result<(), DumpError> {
        let ino = self.resolve(file).await?;
        match self.read_inode(ino).await {
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
        self.sink.begin("map", about, &MAP);
        let blocks = self.view.sb.shape.blocks_for(d.size);
        let mut steps = self.steps(d);
        let mut run: Option<Run> = None;
        let mut next = 0;
        while let Some(step) = self.next_step(d.ino, &mut steps).await {
            let first = self.view.sb.shape.first_data(step.lbn) as i64;
            if first > next {
                self.end_run(run.take());
                self.map_row(next, (first - next) as u64, "hole", None);
                next = first;
            }
            if step.lbn < 0 {
                self.end_run(run.take());
                let level = self.view.sb.shape.indirect(step.lbn).0;
                self.map_row(step.lbn, 1, &format!("level {level}"), Some(step.ptr));
                if let Some(lost) = steps.lost.take() {
                    let end = lost.end.min(blocks as i64).max(next);
                    self.map_row(next, (end - next) as u64, "unknown", None);
                    next = end;
                }
                continue;
            }
            next = step.lbn + 1;
            match &mut run {
                Some(run) if self.goes_on(run, step) => {
                    run.blocks += 1;
                    run.bytes += u64::from(step.ptr.len);
                }
                _ => {
                    self.end_run(run.take());
                    let (first, ptr, bytes) = (step.lbn, step.ptr, step.ptr.len.into());
                    run = Some(Run { first, blocks: 1, ptr, bytes });
                }
            }
        }
        self.end_run(run);
        if !d.is_inline() && (next as u64) < blocks {
            self.map_row(next, blocks - next as u64, "hole", None);
        }
        self.sink.end();
    }

    /// True if a block follows a run in the file and on the device.
    fn goes_on(&self, run: &Run, step: Step) -> bool {
        let frags = run.bytes / u64::from(self.view.sb.shape.frag_size);
        step.lbn == run.first + run.blocks as i64
            && step.ptr.is_on_disk()
            && run.ptr.addr.checked_add(frags) == Some(step.ptr.addr)
    }

    fn end_run(&mut self, run: Option<Run>) {
        let Some(Run { first, blocks, ptr, bytes }) = run else { return };
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
        let segment = match at {
            Value::Number(at) => self.segment_of(at),
            _ => Value::None,
        };
        let (lbn, blocks) = (Value::Signed(lbn), Value::Number(blocks));
        self.sink.row(vec![lbn, blocks, Value::Text(kind.into()), at, segment, bytes, crc]);
    }

    /// The ifile: its inode, and what its blocks hold.
    pub(super) async fn ifile(&mut self) {
        let d = match self.ifile_inode() {
            Ok(d) => d,
            Err(error) => return self.problem("the ifile", error),
        };
        self.show_inode(0, &d).await;
        const COLUMNS: [Column; 6] = [
            number("lbn", 8),
            number("at", 14),
            number("crc", 10),
            text("holds", 14),
            text("numbers", 20),
            number("in_use", 8),
        ];
        let usage = self.view.sb.usage_blocks();
        let per_block = self.view.map_entries();
        let blocks = self.view.sb.shape.blocks_for(d.size);
        self.sink.begin("blocks", "the usage table, then the inode map", &COLUMNS);
        let mut steps = self.steps(&d);
        while let Some(step) = self.next_step(IFILE_INO, &mut steps).await {
            if step.lbn < 0 || step.lbn as u64 >= blocks {
                continue;
            }
            let lbn = step.lbn as u64;
            let (holds, first, end) = match lbn.checked_sub(usage) {
                None => {
                    let first = lbn * per_block;
                    ("segments", first, (first + per_block).min(self.view.sb.segments.into()))
                }
                Some(nth) => ("inodes", nth * per_block, (nth + 1) * per_block),
            };
            let used = match self.ifile_block(lbn).await {
                Ok(raw) => Value::Number(in_use(&raw, lbn < usage) as u64),
                Err(error) => {
                    self.problem(&format!("the ifile, block {lbn}"), error);
                    Value::Text("?".into())
                }
            };
            let [at, _, crc] = self.ptr_values(step.ptr);
            let numbers = Value::Text(format!("{first} to {}", end - 1));
            self.sink.row(vec![
                Value::Number(lbn),
                at,
                crc,
                Value::Text(holds.into()),
                numbers,
                used,
            ]);
        }
        self.sink.end();
    }
}

/// Segments with live bytes, or inode numbers in use, in a block of the ifile.
fn in_use(raw: &[u8], is_table: bool) -> usize {
    use crate::format::{IMAP_ENTRY_BYTES, SEG_ENTRY_BYTES, SegEntry};
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

//! The dump of a volume's space as a whole: where every block of every file is, what is free, and
//! which directory holds which name. Layout scores and snapshots are made from it.
//!
//! Contract: it goes through the volume once. Files come in the order of their inode numbers, the
//! blocks of a file in the order in which a reader from its beginning needs them, indirect blocks
//! included. Names are those that directories hold now, without `.` and `..`.

use super::walk::{FileDump, Step, kind_name};
use super::{Column, Value, number, text};
use crate::Ino;
use crate::dinode::{Dinode, HIDDEN};

/// The names and columns of the tables of this structure, for programs that read them.
pub mod tables {
    use super::{Column, number, text};

    /// The fields about the volume: `block_size`, `size` and `region`.
    pub const VOLUME: &str = "volume";
    /// The parts within which space is given to files.
    pub const AREAS: &str = "areas";
    /// The free ranges, in ascending order.
    pub const FREE: &str = "free";
    /// The runs of blocks of files. A file without blocks has one row without `lbn`.
    pub const RUNS: &str = "runs";
    /// The structure that lists all names of the volume.
    pub const NAMES: &str = "names";
    /// The columns of [`AREAS`] and [`FREE`]: the first byte and the number of bytes.
    pub const RANGE: [Column; 2] = [number("at", 14), number("bytes", 14)];
    /// The columns of [`RUNS`]. `lbn` is negative for an indirect block, `mtime` in seconds since
    /// 1970.
    pub const RUN: [Column; 8] = [
        number("ino", 9),
        text("kind", 9),
        number("size", 12),
        number("mtime", 11),
        number("lbn", 10),
        number("blocks", 8),
        number("at", 14),
        number("bytes", 12),
    ];
    /// The columns of [`NAMES`].
    pub const NAME: [Column; 3] = [number("dir", 9), number("ino", 9), text("name", 20)];
}

/// A run of blocks that are adjacent both in the file and on the device.
struct Run {
    first: i64,
    blocks: u64,
    addr: u64,
    bytes: u64,
}

impl FileDump<'_> {
    pub(super) async fn space(&mut self) {
        let geometry = self.volume.geometry();
        let fields = vec![
            ("block_size", Value::Number(geometry.block_size.into())),
            ("size", Value::Number(self.volume.frags() * u64::from(geometry.frag_size))),
            ("region", Value::Text(self.volume.region().into())),
        ];
        self.sink.fields(tables::VOLUME, "its sizes, and the word for its areas", fields);
        self.areas().await;
        let about = "of all files, in the order of reading; an indirect block has a negative lbn";
        self.sink.begin(tables::RUNS, about, &tables::RUN);
        let mut names = Vec::new();
        let mut first = 0;
        while first < self.volume.numbers() {
            let (next, found) = self.volume.inodes_from(first).await;
            match found {
                Err(error) => {
                    self.problem(&format!("the map of inodes {first} to {}", next - 1), error);
                }
                Ok(found) => {
                    for inode in found {
                        match inode.read {
                            Ok((_, d)) => self.inode_space(&d, &mut names).await,
                            Err(error) => self.problem(&format!("inode {}", inode.ino), error),
                        }
                    }
                }
            }
            first = next.max(first + 1);
        }
        self.sink.end();
        self.sink.begin(tables::NAMES, "in directories, without . and ..", &tables::NAME);
        for (dir, ino, name) in names {
            self.sink.row(vec![Value::Number(dir), Value::Number(ino), Value::Name(name)]);
        }
        self.sink.end();
    }

    async fn areas(&mut self) {
        let areas = self.volume.areas();
        let row = |range: &std::ops::Range<u64>| {
            vec![Value::Number(range.start), Value::Number(range.end - range.start)]
        };
        let about = "the parts of the device within which space is given to files";
        self.sink.begin(tables::AREAS, about, &tables::RANGE);
        areas.iter().for_each(|area| self.sink.row(row(area)));
        self.sink.end();
        self.sink.begin(tables::FREE, "in them, in ascending order", &tables::RANGE);
        let mut first = 0;
        while first < areas.len() {
            let (next, free) = self.volume.free_from(first).await;
            match free {
                Ok(free) => free.iter().for_each(|range| self.sink.row(row(range))),
                Err(error) => {
                    let region = self.volume.region();
                    self.problem(&format!("the free space of {region} {first}"), error);
                }
            }
            first = next.max(first + 1);
        }
        self.sink.end();
    }

    /// The runs of an inode, and the names in it if it is a directory.
    async fn inode_space(&mut self, d: &Dinode, names: &mut Vec<(Ino, Ino, Vec<u8>)>) {
        let mut steps = self.walk(d);
        let mut run: Option<Run> = None;
        let mut any = false;
        while let Some(step) = self.next_step(&mut steps).await {
            if !step.ptr.is_on_disk() {
                continue;
            }
            any = true;
            match &mut run {
                Some(run) if self.is_next(run, step) => {
                    run.blocks += 1;
                    run.bytes += u64::from(step.ptr.len);
                }
                _ => {
                    self.space_row(d, run.take());
                    let Step { lbn, ptr } = step;
                    let (addr, bytes) = (ptr.addr, ptr.len.into());
                    run = Some(Run { first: lbn, blocks: 1, addr, bytes });
                }
            }
        }
        self.space_row(d, run);
        if !any {
            self.push_space_row(d, [Value::None, Value::None, Value::None, Value::None]);
        }
        if d.is_dir() && d.flags & HIDDEN == 0 {
            let format = self.volume.features().directories;
            for (_, bytes) in self.dir_blocks(d).await {
                let found = format.items(&bytes, 0).filter(|item| item.ino != 0);
                let found = found.filter(|item| !matches!(item.name, b"." | b".."));
                names.extend(found.map(|item| (d.ino, item.ino, item.name.to_vec())));
            }
        }
    }

    fn is_next(&self, run: &Run, step: Step) -> bool {
        let frags = run.bytes / u64::from(self.volume.geometry().frag_size);
        run.first >= 0
            && step.lbn == run.first + run.blocks as i64
            && run.addr.checked_add(frags) == Some(step.ptr.addr)
    }

    fn space_row(&mut self, d: &Dinode, run: Option<Run>) {
        let Some(Run { first, blocks, addr, bytes }) = run else { return };
        let at = addr.saturating_mul(self.volume.geometry().frag_size.into());
        let [blocks, at, bytes] = [blocks, at, bytes].map(Value::Number);
        self.push_space_row(d, [Value::Signed(first), blocks, at, bytes]);
    }

    fn push_space_row(&mut self, d: &Dinode, run: [Value; 4]) {
        let mut row = vec![
            Value::Number(d.ino),
            Value::Text(kind_name(d).into()),
            Value::Number(d.size),
            Value::Signed(d.mtime.secs),
        ];
        row.extend(run);
        self.sink.row(row);
    }
}

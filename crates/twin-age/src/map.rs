//! The map of a volume: where all blocks of all files are, what is free, and the names.
//!
//! Contract: a map is plain data, the same for our layouts and for any other file system. Of our
//! layouts it is collected from the dump ([`Collector`]), so that a new layout has it without code
//! of its own. A hole has no run.

use std::ops::Range;

use twin_fs::dump::{Column, Fields, Problem, Sink, Value, space_tables as tables};

/// The files of a volume, the places of their blocks, and the free space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeMap {
    /// The kind of file system: a layout's name, or that of the host's file system.
    pub system: String,
    /// The size of a block in bytes.
    pub block_size: u32,
    /// The size of the volume in bytes; 0 if it is not known.
    pub size: u64,
    /// When the map was made, in seconds since 1970; 0 if it is not known.
    pub taken_s: i64,
    /// The word for one of the areas: "group", "segment".
    pub region: String,
    /// The parts of the device within which space is given to files, ascending; may be empty.
    pub areas: Vec<Range<u64>>,
    /// The free ranges, ascending; `None` if they are not known.
    pub free: Option<Vec<Range<u64>>>,
    /// All files and directories, each inode once.
    pub files: Vec<FileMap>,
    /// The names in directories. In a snapshot without names they are empty texts.
    pub names: Vec<NameOf>,
    /// The parts that could not be read, for display.
    pub problems: Vec<String>,
}

/// One inode, with the places of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMap {
    /// The inode number of the file.
    pub ino: u64,
    /// Whether it is a file, a directory or something else.
    pub kind: FileKind,
    /// The length in bytes.
    pub size: u64,
    /// The time of the last change of its content, in seconds since 1970.
    pub mtime_s: i64,
    /// The blocks of the file in the order in which a reader from its beginning needs them.
    pub runs: Vec<Run>,
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file: scores count these alone.
    #[default]
    File,
    /// A directory with its blocks.
    Directory,
    /// Anything else that has blocks: links, indexes, lists of attributes.
    Other,
}

/// Blocks that are adjacent both in the file and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block's number in the file; negative for an indirect block.
    pub lbn: i64,
    /// The number of blocks.
    pub blocks: u64,
    /// The first byte on the device.
    pub at: u64,
    /// The bytes on the device: fewer than the blocks have if the last one is a fragment.
    pub bytes: u64,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameOf {
    /// The directory's inode number.
    pub dir: u64,
    /// The inode that the name leads to.
    pub ino: u64,
    /// The name; empty if names were not kept.
    pub name: Vec<u8>,
}

impl FileMap {
    /// The runs of data, without indirect blocks.
    pub fn data(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.lbn >= 0)
    }

    /// The number of blocks of data; holes have none.
    pub fn blocks(&self) -> u64 {
        self.data().map(|run| run.blocks).sum()
    }
}

impl Run {
    /// The first byte behind the run.
    pub fn end(&self) -> u64 {
        self.at + self.bytes
    }
}

impl VolumeMap {
    /// The bytes of the areas, or of the volume where areas are not known.
    pub fn area_bytes(&self) -> u64 {
        match self.areas.is_empty() {
            true => self.size,
            false => self.areas.iter().map(|area| area.end - area.start).sum(),
        }
    }

    /// The time to count ages from: when the map was made or, if that is not known, the newest
    /// change in it.
    pub fn now_s(&self) -> i64 {
        match self.taken_s {
            0 => self.files.iter().map(|file| file.mtime_s).max().unwrap_or(0),
            taken => taken,
        }
    }

    /// The inodes that are regular files.
    pub fn regular(&self) -> impl Iterator<Item = &FileMap> {
        self.files.iter().filter(|file| file.kind == FileKind::File)
    }
}

/// Collects the map of a volume from the dump of its structure `space`.
#[derive(Debug, Default)]
pub struct Collector {
    map: VolumeMap,
    table: String,
}

impl Collector {
    /// A collector for a volume of the layout with this name.
    pub fn new(system: &str) -> Collector {
        let map =
            VolumeMap { system: system.into(), free: Some(Vec::new()), ..VolumeMap::default() };
        Collector { map, table: String::new() }
    }

    /// The map, once the dump has ended.
    pub fn finish(self) -> VolumeMap {
        self.map
    }

    fn run(&mut self, row: &[Value]) {
        let [ino, kind, size, mtime, lbn, blocks, at, bytes] = row else { return };
        let ino = number(ino);
        if self.map.files.last().is_none_or(|file| file.ino != ino) {
            let kind = match kind {
                Value::Text(word) if word == "file" => FileKind::File,
                Value::Text(word) if word == "directory" => FileKind::Directory,
                _ => FileKind::Other,
            };
            let (size, mtime_s) = (number(size), signed(mtime));
            self.map.files.push(FileMap { ino, kind, size, mtime_s, runs: Vec::new() });
        }
        if let (Some(file), Value::Signed(lbn)) = (self.map.files.last_mut(), lbn) {
            let [blocks, at, bytes] = [blocks, at, bytes].map(number);
            file.runs.push(Run { lbn: *lbn, blocks, at, bytes });
        }
    }
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Number(n) => *n,
        _ => 0,
    }
}

fn signed(value: &Value) -> i64 {
    match value {
        Value::Signed(n) => *n,
        _ => 0,
    }
}

impl Sink for Collector {
    fn fields(&mut self, name: &str, _about: &str, fields: Fields) {
        if name != tables::VOLUME {
            return;
        }
        for (name, value) in fields {
            match (name, value) {
                ("block_size", Value::Number(n)) => self.map.block_size = n as u32,
                ("size", Value::Number(n)) => self.map.size = n,
                ("region", Value::Text(word)) => self.map.region = word,
                _ => {}
            }
        }
    }

    fn begin(&mut self, name: &str, _about: &str, _columns: &[Column]) {
        self.table = name.into();
    }

    fn row(&mut self, row: Vec<Value>) {
        match (self.table.as_str(), &row[..]) {
            (tables::RUNS, _) => self.run(&row),
            (tables::NAMES, [dir, ino, Value::Name(name)]) => {
                let name = NameOf { dir: number(dir), ino: number(ino), name: name.clone() };
                self.map.names.push(name);
            }
            (table, [at, bytes]) => {
                let range = number(at)..number(at) + number(bytes);
                match (table, &mut self.map.free) {
                    (tables::AREAS, _) => self.map.areas.push(range),
                    (tables::FREE, Some(free)) => free.push(range),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn end(&mut self) {
        self.table.clear();
    }

    fn problem(&mut self, problem: Problem) {
        self.map.problems.push(problem.to_string());
    }
}

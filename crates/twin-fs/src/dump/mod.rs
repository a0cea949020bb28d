//! The dump: shows the structures of a volume, for display and for scripts.
//!
//! Contract: a dump writes nothing and does not stop at damage. A structure that cannot be read is
//! reported as a [`Problem`] with its place, and the dump continues with the next one. Like the
//! checker, the dump reads structures without the code that runs the volume. If the volume was not
//! closed, files are shown as the next mount will find them.
//!
//! A dump is a sequence of *parts*: structures with fields, and tables with rows. A [`Sink`]
//! receives and prints them. The names of parts, fields and columns are those of the layout's
//! on-disk description (`docs/ondisk-*.md`). A layout dumps its own structures. Inodes, directories
//! and block maps are the same in all layouts; [`files`] dumps them through the interface
//! [`OnDisk`].

mod directory;
mod file_map;
mod inodes;
mod on_disk;
mod space;
mod walk;

use std::fmt;

use twin_rt::Time;

use crate::{FsError, Ino, Timestamp};

pub use on_disk::{InUse, OnDisk};
pub use space::tables as space_tables;
pub use walk::{FileDump, Step, Walk};

/// A kind of structure that can be dumped.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// The name of the structure in commands.
    pub name: &'static str,
    /// A description in one line, for display.
    pub about: &'static str,
    /// The argument that selects one of several structures.
    pub takes: StructureArgument,
}

/// The argument that distinguishes structures of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructureArgument {
    /// None, because there is only one.
    Nothing,
    /// A number; without one all are shown in short form. The text names the numbered thing, as in
    /// "a segment".
    Number(&'static str),
    /// An inode number or a path.
    File,
}

/// The structures that all layouts have.
pub const OF_FILES: &[Structure] = &[
    Structure { name: "inodes", about: "all inodes in use", takes: StructureArgument::Nothing },
    Structure {
        name: "inode",
        about: "one inode: its entry in the layout's maps, fields, pointers and attributes",
        takes: StructureArgument::File,
    },
    Structure {
        name: "dir",
        about: "the entries of a directory, and the header of its index",
        takes: StructureArgument::File,
    },
    Structure {
        name: "file-map",
        about: "where the blocks of a file are, holes too",
        takes: StructureArgument::File,
    },
    Structure {
        name: "space",
        about: "where all blocks of all files are, what is free, and all names",
        takes: StructureArgument::Nothing,
    },
];

/// Selects one of several structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StructureSelector {
    /// The only one, or all of them.
    All,
    /// The one with this number.
    Number(u64),
    /// The one of this file.
    File(File),
}

/// A request for a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name of the structure.
    pub structure: &'static str,
    /// Which of the structures with this name.
    pub which: StructureSelector,
    /// True to show a volume that was not closed without the changes that recovery would apply.
    pub unrecovered: bool,
}

impl Request {
    /// Parses the words of a command, for a layout with the structures `own` in addition to those
    /// of files.
    ///
    /// # Errors
    /// A text for display, if there is no such structure or the argument does not fit it.
    pub fn parse(
        own: &'static [Structure],
        structure: &str,
        which: Option<&str>,
    ) -> std::result::Result<Request, String> {
        let all = || own.iter().chain(OF_FILES);
        let Some(known) = all().find(|known| known.name == structure) else {
            let names = all().map(|known| known.name);
            return Err(
                twin_settings::SettingsError::unknown("structure", structure, names).to_string()
            );
        };
        let which = match (known.takes, which) {
            (StructureArgument::Nothing | StructureArgument::Number(_), None) => {
                StructureSelector::All
            }
            (StructureArgument::Nothing, Some(which)) => {
                return Err(format!("there is only one of these: what is {which:?}?"));
            }
            (StructureArgument::Number(what), Some(number)) => {
                StructureSelector::Number(number.parse().map_err(|_| {
                    format!("{number:?} is not the number of {what}: leave it out to see all")
                })?)
            }
            (StructureArgument::File, Some(path)) if path.starts_with('/') => {
                StructureSelector::File(File::Path(path.as_bytes().to_vec()))
            }
            (StructureArgument::File, Some(number)) => {
                StructureSelector::File(File::Ino(number.parse().map_err(|_| {
                    format!("{number:?} is neither an inode's number nor a path that begins with /")
                })?))
            }
            (StructureArgument::File, None) => {
                return Err(
                    "which one? Give an inode's number (see `inodes`), or a path as /".into()
                );
            }
        };
        Ok(Request { structure: known.name, which, unrecovered: false })
    }
}

/// The file that a dump is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// The one with this inode number.
    Ino(Ino),
    /// The one with this path from the root directory.
    Path(Vec<u8>),
}

/// A value of a field or a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// There is no value, or it is not known.
    None,
    /// A count, an offset on the device or a number of bytes.
    Number(u64),
    /// A number that may be negative.
    Signed(i64),
    /// Bits, such as a checksum.
    Hex(u64),
    /// An octal number, such as a mode.
    Octal(u32),
    /// True or false.
    Flag(bool),
    /// Text for display.
    Text(String),
    /// A name, which may contain any bytes.
    Name(Vec<u8>),
    /// A point in time.
    Time(Timestamp),
    /// A list of small structures.
    List(Vec<Fields>),
}

impl From<Time> for Value {
    fn from(time: Time) -> Value {
        Value::Time(time.into())
    }
}

/// The values of a structure, with their names.
pub type Fields = Vec<(&'static str, Value)>;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name of the column.
    pub name: &'static str,
    /// The width in characters into which most values fit.
    pub width: usize,
    /// True if the values are texts, which are aligned left.
    pub is_text: bool,
}

/// A column of numbers.
pub const fn number(name: &'static str, width: usize) -> Column {
    Column { name, width, is_text: false }
}

/// A column of texts.
pub const fn text(name: &'static str, width: usize) -> Column {
    Column { name, width, is_text: true }
}

/// A structure that cannot be read or contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The first byte of the structure on the device, if it has a place.
    pub at: Option<u64>,
    /// What contradicts the format.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} (byte {at})", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl Problem {
    /// The problem that `error` occurred while reading `what`.
    pub fn with(what: &str, error: FsError) -> Problem {
        match error {
            FsError::Corrupt { at, what: why } => Problem { at, what: format!("{what}: {why}") },
            FsError::Io(io) => Problem { at: Some(io.at), what: format!("{what}: {io}") },
            other => Problem { at: None, what: format!("{what}: {other}") },
        }
    }
}

/// The reason why there is nothing to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// There is no volume, or none of its superblocks can be read.
    Volume(FsError),
    /// The volume has no such segment or file; the text says which.
    NoSuch(String),
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpError::Volume(error) => error.fmt(f),
            DumpError::NoSuch(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for DumpError {}

impl From<FsError> for DumpError {
    fn from(error: FsError) -> DumpError {
        DumpError::Volume(error)
    }
}

/// Receives the parts of a dump.
pub trait Sink {
    /// Receives a structure as a whole.
    fn fields(&mut self, name: &str, about: &str, fields: Fields);
    /// Begins a table; its rows follow.
    fn begin(&mut self, name: &str, about: &str, columns: &[Column]);
    /// Receives a row of the table, with a value for each column.
    fn row(&mut self, row: Vec<Value>);
    /// Ends the table that was begun last.
    fn end(&mut self);
    /// Receives a problem. It may be called inside a table.
    fn problem(&mut self, problem: Problem);
}

/// Dumps a structure that all layouts have; returns false if the requested structure is not one of
/// these.
///
/// # Errors
/// If there is no such file. Damage is no error: it is reported to the sink.
pub async fn files(
    volume: &dyn OnDisk,
    request: &Request,
    sink: &mut dyn Sink,
) -> Result<bool, DumpError> {
    let mut dump = FileDump { volume, sink };
    match (request.structure, &request.which) {
        ("inodes", _) => dump.inodes().await,
        ("inode", StructureSelector::File(file)) => dump.inode(file).await?,
        ("dir", StructureSelector::File(file)) => dump.directory(file).await?,
        ("file-map", StructureSelector::File(file)) => dump.file_map(file).await?,
        ("space", _) => dump.space().await,
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[Structure] = &[
        Structure { name: "superblock", about: "", takes: StructureArgument::Nothing },
        Structure { name: "groups", about: "", takes: StructureArgument::Number("a group") },
    ];

    #[test]
    fn what_is_missing_or_too_much_is_told() {
        let parse = |structure, which| Request::parse(OWN, structure, which).map(|r| r.which);
        assert_eq!(parse("groups", None), Ok(StructureSelector::All));
        assert_eq!(parse("groups", Some("3")), Ok(StructureSelector::Number(3)));
        assert_eq!(parse("inode", Some("7")), Ok(StructureSelector::File(File::Ino(7))));
        let path = Ok(StructureSelector::File(File::Path(b"/a".to_vec())));
        assert_eq!(parse("dir", Some("/a")), path);
        for (structure, which, why) in [
            ("inode", None, "which one?"),
            ("inode", Some("a"), "neither an inode"),
            ("groups", Some("-1"), "not the number of a group"),
            ("superblock", Some("3"), "only one"),
            ("superblok", None, "superblock"),
        ] {
            let error = parse(structure, which).unwrap_err();
            assert!(error.contains(why), "{structure} {which:?}: {error}");
        }
    }
}

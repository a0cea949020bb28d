//! The dump: what is on a volume, structure by structure, for people and scripts.
//!
//! Contract: nothing is written, and damage is no reason to stop: what cannot be read is told as a
//! [`Problem`] with its place, and the dump goes on with the next thing. Structures are read past
//! the volume's own code, as the checker does. If the volume was not closed, files are shown as the next
//! mount will find them.
//!
//! A dump is a sequence of *parts* given to a [`Sink`], which prints them: a structure with its
//! fields, or a table with rows. Names of parts, fields and columns are those of the layout's page of
//! bytes (`docs/ondisk-*.md`). A layout shows its own structures; inodes, directories and the maps of
//! files look the same in all and are shown by [`files`], over what a layout says of itself
//! ([`OnDisk`]).

mod directory;
mod file_map;
mod inodes;
mod on_disk;
mod walk;

use std::fmt;

use twin_rt::Time;

use crate::{FsError, Ino, Timestamp};

pub use on_disk::{InUse, OnDisk};
pub use walk::{FileDump, Step, Walk};

/// A structure that can be shown.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// What it is called.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Whether there are several.
    pub takes: Takes,
}

/// What tells structures of one kind apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// There is only one.
    Nothing,
    /// A number, or nothing for all of them in short. What it is the number of, as in "a segment".
    Number(&'static str),
    /// An inode's number, or a path.
    File,
}

/// The structures that all layouts have.
pub const OF_FILES: &[Structure] = &[
    Structure { name: "inodes", about: "all inodes in use", takes: Takes::Nothing },
    Structure {
        name: "inode",
        about: "one inode: what the maps say of it, fields, pointers and attributes",
        takes: Takes::File,
    },
    Structure {
        name: "dir",
        about: "the entries of a directory, and the header of its index",
        takes: Takes::File,
    },
    Structure {
        name: "file-map",
        about: "where the blocks of a file are, holes too",
        takes: Takes::File,
    },
];

/// Which of several structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The only one, or all of them.
    All,
    /// The one with this number.
    Number(u64),
    /// That of a file.
    File(File),
}

/// What is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The structure's name.
    pub structure: &'static str,
    /// Which one.
    pub which: Which,
    /// A volume that was not closed is shown without what the next mount would recover.
    pub unrecovered: bool,
}

impl Request {
    /// Understands what people ask for, of a layout with structures `own` beside those of files.
    ///
    /// # Errors
    /// There is no such structure, or it is not clear which one: in words.
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
            (Takes::Nothing | Takes::Number(_), None) => Which::All,
            (Takes::Nothing, Some(which)) => {
                return Err(format!("there is only one of these: what is {which:?}?"));
            }
            (Takes::Number(what), Some(number)) => Which::Number(number.parse().map_err(|_| {
                format!("{number:?} is not the number of {what}: leave it out to see all")
            })?),
            (Takes::File, Some(path)) if path.starts_with('/') => {
                Which::File(File::Path(path.as_bytes().to_vec()))
            }
            (Takes::File, Some(number)) => {
                Which::File(File::Ino(number.parse().map_err(|_| {
                    format!("{number:?} is neither an inode's number nor a path that begins with /")
                })?))
            }
            (Takes::File, None) => {
                return Err(
                    "which one? Give an inode's number (see `inodes`), or a path as /".into()
                );
            }
        };
        Ok(Request { structure: known.name, which, unrecovered: false })
    }
}

/// Which file.
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
    /// Not known, or there is none.
    None,
    /// A count, a place, a number of bytes.
    Number(u64),
    /// A number that may be negative.
    Signed(i64),
    /// Bits, such as a checksum.
    Hex(u64),
    /// An octal number, such as a mode.
    Octal(u32),
    /// Yes or no.
    Flag(bool),
    /// Words.
    Text(String),
    /// A name: any bytes.
    Name(Vec<u8>),
    /// A time.
    Time(Timestamp),
    /// Small structures.
    List(Vec<Fields>),
}

impl From<Time> for Value {
    fn from(time: Time) -> Value {
        Value::Time(time.into())
    }
}

/// Named values.
pub type Fields = Vec<(&'static str, Value)>;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Characters that most of its values fit in.
    pub width: usize,
    /// The values are words, to be aligned left.
    pub is_text: bool,
}

/// A column of numbers.
pub const fn number(name: &'static str, width: usize) -> Column {
    Column { name, width, is_text: false }
}

/// A column of words.
pub const fn text(name: &'static str, width: usize) -> Column {
    Column { name, width, is_text: true }
}

/// Something that cannot be read or contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// First byte of it on the device, if it has a place.
    pub at: Option<u64>,
    /// What is wrong.
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
    /// What an error says, as a problem with something.
    pub fn with(what: &str, error: FsError) -> Problem {
        match error {
            FsError::Corrupt { at, what: why } => Problem { at, what: format!("{what}: {why}") },
            FsError::Io(io) => Problem { at: Some(io.at), what: format!("{what}: {io}") },
            other => Problem { at: None, what: format!("{what}: {other}") },
        }
    }
}

/// Why there is nothing to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// There is no volume, or no superblock of it can be read.
    Volume(FsError),
    /// The volume has no such segment or file: which, in words.
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

/// Takes what is dumped.
pub trait Sink {
    /// A structure.
    fn fields(&mut self, name: &str, about: &str, fields: Fields);
    /// A table begins.
    fn begin(&mut self, name: &str, about: &str, columns: &[Column]);
    /// A row of the table: a value for each column.
    fn row(&mut self, row: Vec<Value>);
    /// The table ends.
    fn end(&mut self);
    /// Something is wrong. May come within a table.
    fn problem(&mut self, problem: Problem);
}

/// Shows a structure that all layouts have. False if it is not one of these.
///
/// # Errors
/// If there is no such file. Damage goes to the sink.
pub async fn files(
    volume: &dyn OnDisk,
    request: &Request,
    sink: &mut dyn Sink,
) -> Result<bool, DumpError> {
    let mut dump = FileDump { volume, sink };
    match (request.structure, &request.which) {
        ("inodes", _) => dump.inodes().await,
        ("inode", Which::File(file)) => dump.inode(file).await?,
        ("dir", Which::File(file)) => dump.directory(file).await?,
        ("file-map", Which::File(file)) => dump.file_map(file).await?,
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[Structure] = &[
        Structure { name: "superblock", about: "", takes: Takes::Nothing },
        Structure { name: "groups", about: "", takes: Takes::Number("a group") },
    ];

    #[test]
    fn what_is_missing_or_too_much_is_told() {
        let parse = |structure, which| Request::parse(OWN, structure, which).map(|r| r.which);
        assert_eq!(parse("groups", None), Ok(Which::All));
        assert_eq!(parse("groups", Some("3")), Ok(Which::Number(3)));
        assert_eq!(parse("inode", Some("7")), Ok(Which::File(File::Ino(7))));
        let path = Ok(Which::File(File::Path(b"/a".to_vec())));
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

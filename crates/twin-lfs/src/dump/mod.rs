//! The dump: what is on a volume, structure by structure, for people and scripts.
//!
//! Contract: nothing is written, and damage is no reason to stop: what cannot be read is told as a
//! [`Problem`] with its place, and the dump goes on with the next thing. Structures are read past
//! the volume's own code, as the checker does; summaries by their one parser. If the volume was
//! not closed, files are shown as the next mount will find them.
//!
//! A dump is a sequence of *parts* given to a [`Sink`], which prints them: a structure with its
//! fields, or a table with rows. Names of parts, fields and columns are those of
//! `docs/ondisk-lfs.md`.
//!
//! ```
//! # use std::rc::Rc;
//! # use twin_disk::MemDisk;
//! # use twin_lfs::{Lfs, MkfsOptions, dump};
//! # use twin_rt::{ClockOnly, Rt};
//! #[derive(Default)]
//! struct Names(Vec<String>);
//! impl dump::Sink for Names {
//!     fn fields(&mut self, name: &str, _about: &str, _fields: dump::Fields) {
//!         self.0.push(name.into());
//!     }
//!     fn begin(&mut self, name: &str, _about: &str, _columns: &[dump::Column]) {
//!         self.0.push(name.into());
//!     }
//!     fn row(&mut self, _row: Vec<dump::Value>) {}
//!     fn end(&mut self) {}
//!     fn problem(&mut self, problem: dump::Problem) {
//!         panic!("{problem}");
//!     }
//! }
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(32 << 20)));
//! rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, &MkfsOptions::modern([7; 16]))).unwrap()?;
//! let (what, mut names) = (dump::What::Directory(dump::File::Ino(2)), Names::default());
//! rt.block_on(dump::dump(&rt, disk, &what, dump::As::Recovered, &mut names)).unwrap()?;
//! assert_eq!(names.0, ["directory", "entries"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod files;
mod inode;
mod log;
mod volume;

use std::fmt;
use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::dinode::Dinode;
use twin_fs::{FsError, Ino, Result, Timestamp};
use twin_rt::{BoxFuture, Rt, Time};

use crate::check::{Finding, Report, start};
use crate::format::Checkpoint;
use crate::view::{Standing, View};

/// What to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// What the volume is and where it stands, in short.
    Overview,
    /// Every field of the superblock, and its copies.
    Superblock,
    /// Every copy of both checkpoint slots.
    Checkpoints,
    /// The segment usage table.
    Segments,
    /// The partial segments of all segments, or those of one with all that they list.
    Summaries(Option<u32>),
    /// The ifile: its inode, and which of its blocks holds what.
    Ifile,
    /// All inodes in use.
    Inodes,
    /// One inode: its map entry, fields, pointers and attributes.
    Inode(File),
    /// The entries of a directory, and the header of its index.
    Directory(File),
    /// Where the blocks of a file are.
    FileMap(File),
}

/// Which file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// The one with this inode number.
    Ino(Ino),
    /// The one with this path from the root directory.
    Path(Vec<u8>),
}

/// Which state of a volume that was not closed to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum As {
    /// That which the next mount will find.
    #[default]
    Recovered,
    /// That of the newest checkpoint.
    Checkpointed,
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

const fn number(name: &'static str, width: usize) -> Column {
    Column { name, width, is_text: false }
}

const fn text(name: &'static str, width: usize) -> Column {
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

impl From<Finding> for Problem {
    fn from(finding: Finding) -> Problem {
        Problem { at: finding.at, what: format!("{}: {}", finding.kind.name(), finding.what) }
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

/// Shows what is on the volume on a device.
///
/// # Errors
/// If there is no volume, or not the segment or file that is asked for. Damage goes to the sink.
pub fn dump<'a>(
    rt: &'a Rt,
    device: Rc<dyn BlockDevice>,
    what: &'a What,
    state: As,
    sink: &'a mut dyn Sink,
) -> BoxFuture<'a, Result<(), DumpError>> {
    Box::pin(show(rt, device, what, state, sink))
}

async fn show(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    what: &What,
    state: As,
    sink: &mut dyn Sink,
) -> Result<(), DumpError> {
    let mut report = Report::default();
    let sb = start::superblocks(&*device, &mut report).await?;
    let checkpoint = start::checkpoints(&*device, &sb, &mut report).await;
    let mut standing = match &checkpoint {
        Some(checkpoint) => Standing::of(checkpoint),
        None => Standing::unknown(&sb),
    };
    let crashed = checkpoint.as_ref().is_some_and(|checkpoint| !checkpoint.closed);
    let mut recovered = None;
    let tells_state = !matches!(what, What::Superblock | What::Checkpoints);
    if crashed && tells_state && state == As::Recovered {
        match Standing::rolled_forward(rt, &device).await {
            Ok((rolled, done)) => (standing, recovered) = (rolled, Some(done)),
            Err(error) => {
                let what = "roll-forward fails; this is the state of the checkpoint";
                sink.problem(problem(what, error));
            }
        }
    }
    for finding in report.findings {
        sink.problem(finding.into());
    }
    let view = View::new(device, sb, standing);
    if checkpoint.is_some()
        && tells_state
        && let Err(error) = view.load_forwards().await
    {
        sink.problem(problem("the summaries of forwarded blocks", error));
    }
    let mut dumper = Dumper { view, checkpoint, sink };
    match what {
        What::Overview => dumper.overview(recovered).await,
        What::Superblock => dumper.superblock().await,
        What::Checkpoints => dumper.checkpoints().await,
        What::Segments => dumper.segments().await,
        What::Summaries(None) => dumper.all_summaries().await,
        What::Summaries(Some(segment)) => dumper.summaries(*segment).await?,
        What::Ifile => dumper.ifile().await,
        What::Inodes => dumper.inodes().await,
        What::Inode(file) => dumper.inode(file).await?,
        What::Directory(file) => dumper.directory(file).await?,
        What::FileMap(file) => dumper.file_map(file).await?,
    }
    Ok(())
}

/// What an error says, as a problem with something.
fn problem(what: &str, error: FsError) -> Problem {
    match error {
        FsError::Corrupt { at, what: why } => Problem { at, what: format!("{what}: {why}") },
        FsError::Io(io) => Problem { at: Some(io.at), what: format!("{what}: {io}") },
        other => Problem { at: None, what: format!("{what}: {other}") },
    }
}

struct Dumper<'a> {
    view: View,
    /// The newest sound one.
    checkpoint: Option<Checkpoint>,
    sink: &'a mut dyn Sink,
}

impl Dumper<'_> {
    fn problem(&mut self, what: &str, error: FsError) {
        self.sink.problem(problem(what, error));
    }

    /// The segment that a byte lies in.
    fn segment_of(&self, at: u64) -> Value {
        self.view.sb.segment_of(at).map_or(Value::None, |segment| Value::Number(segment.into()))
    }

    /// The most blocks that a file can have on this volume: walks end there, however pointers
    /// lead in circles.
    fn most_blocks(&self) -> u64 {
        self.view.frags
    }

    /// The ifile's inode, if it is known.
    fn ifile_inode(&self) -> Result<Dinode> {
        match self.checkpoint {
            Some(_) => Ok(self.view.standing.ifile.clone()),
            None => Err(FsError::inconsistent("no checkpoint is sound, so no file can be found")),
        }
    }
}

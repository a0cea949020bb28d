//! Errors of traces: why a trace cannot be read or written, and at which place.

use std::fmt;

use crate::kind::{Kind, VERSION};

/// The place of an error in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A place in a binary trace: the offset of the frame (or of the header, 0), in bytes from the
    /// start of the file.
    Byte {
        /// Offset of the frame or of the header.
        offset: u64,
        /// Number of the frame, from 0; `None` in the header.
        frame: Option<u32>,
        /// Number of the record in its frame, from 0; `None` if the frame itself is bad.
        record: Option<u32>,
    },
    /// A place in a text trace: the number of the line, from 1.
    Line(u64),
    /// While writing: no place.
    Writing,
}

/// What is wrong with a trace.
#[derive(Debug)]
pub enum Problem {
    /// The underlying reader or writer failed.
    Io(std::io::Error),
    /// The first bytes are not those of a trace.
    NotATrace,
    /// A version of the format that this program does not know.
    Version(u16),
    /// Feature bits that this program does not know.
    Features(u32),
    /// The file is a trace, but of another kind than expected.
    WrongKind {
        /// The kind of trace that the caller needs.
        expected: Kind,
        /// The kind of the file.
        found: Kind,
    },
    /// The file ends inside its header.
    HeaderCut,
    /// A checksum does not match. Names the part that it covers.
    Checksum(&'static str),
    /// A field has an impossible value. Names the field.
    Field(&'static str),
    /// The compressed bytes cannot be expanded.
    Compression,
    /// Frames are missing or repeated.
    Sequence {
        /// The number that the frame should have.
        expected: u32,
        /// The number that it has.
        found: u32,
    },
    /// A record to write is larger than a frame can be, in bytes.
    TooBig(u64),
    /// A line of a text trace cannot be parsed. Gives the reason.
    Line(String),
}

/// A trace that cannot be read or written, with its place.
#[derive(Debug)]
pub struct TraceError {
    /// The place of the error.
    pub place: Place,
    /// What is wrong at that place.
    pub problem: Problem,
}

impl TraceError {
    pub(crate) fn header(problem: Problem) -> TraceError {
        TraceError { place: Place::Byte { offset: 0, frame: None, record: None }, problem }
    }

    pub(crate) fn frame(offset: u64, frame: u32, problem: Problem) -> TraceError {
        TraceError { place: Place::Byte { offset, frame: Some(frame), record: None }, problem }
    }

    pub(crate) fn writing(problem: Problem) -> TraceError {
        TraceError { place: Place::Writing, problem }
    }

    /// A bad line of a text trace.
    pub fn line(number: u64, why: impl Into<String>) -> TraceError {
        TraceError { place: Place::Line(number), problem: Problem::Line(why.into()) }
    }
}

impl From<std::io::Error> for TraceError {
    fn from(error: std::io::Error) -> Self {
        TraceError::writing(Problem::Io(error))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Place::Byte { frame: None, .. } => f.write_str("in the header"),
            Place::Byte { offset, frame: Some(frame), record: None } => {
                write!(f, "in frame {frame} at byte {offset}")
            }
            Place::Byte { offset, frame: Some(frame), record: Some(record) } => {
                write!(f, "in record {record} of frame {frame} at byte {offset}")
            }
            Place::Line(number) => write!(f, "in line {number}"),
            Place::Writing => f.write_str("while writing"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(error) => write!(f, "{error}"),
            Problem::NotATrace => f.write_str("this is not a twinfs trace"),
            Problem::Version(version) => write!(
                f,
                "the trace has version {version}, this program reads up to {}: use a newer one",
                VERSION
            ),
            Problem::Features(bits) => {
                write!(f, "the trace needs features {bits:#x} that this program does not know")
            }
            Problem::WrongKind { expected, found } => {
                write!(f, "this is {found}, but {expected} is needed here")
            }
            Problem::HeaderCut => f.write_str("the file ends inside the header"),
            Problem::Checksum(what) => write!(f, "the checksum of {what} does not match"),
            Problem::Field(what) => write!(f, "impossible value: {what}"),
            Problem::Compression => f.write_str("the compressed bytes cannot be expanded"),
            Problem::Sequence { expected, found } => {
                write!(f, "frame {expected} should follow, but it is frame {found}")
            }
            Problem::TooBig(bytes) => {
                write!(f, "a record of {bytes} bytes is larger than a frame can be")
            }
            Problem::Line(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Writing => write!(f, "trace: {}", self.problem),
            place => write!(f, "trace, {place}: {}", self.problem),
        }
    }
}

impl std::error::Error for TraceError {}

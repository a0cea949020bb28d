//! The object-store seam: what a bucket can do.
//!
//! Contract of every store, which S3 keeps since 2020 and with conditions since 2024: an object appears whole or not
//! at all; a read that begins after a write was answered sees it; of several conditional writes of one object that
//! run at once, those that are answered with success stand in one order, and each saw the one before it. An answer
//! may be lost, and a request may be executed late or twice: whoever gets [`StoreError::Unknown`] does not know
//! whether it was executed, or will be.

use std::fmt;

use twin_disk::Block;
use twin_rt::BoxFuture;

use crate::counts::Counts;

/// What tells two contents of one object apart; S3 calls it the entity tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

/// When an object is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Whatever is there.
    Always,
    /// If there is no object of this name (`If-None-Match: *`).
    Absent,
    /// If the object is still this one (`If-Match`).
    Is(Version),
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// There is no such object.
    Missing,
    /// The condition of a write did not hold.
    Conflict,
    /// There was no answer, or one that says to try again. The request may have been executed.
    Unknown(String),
    /// The store does not do it, now or later: no such bucket, no permission.
    Refused(String),
    /// The object, which the words name, is there, and is not what it should be, or its key is missing. Asking again does
    /// not help.
    Unreadable(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Missing => f.write_str("the store has no such object"),
            StoreError::Conflict => f.write_str("the object has been changed by somebody else"),
            StoreError::Unknown(why) => write!(f, "the store does not answer: {why}"),
            StoreError::Refused(why) => write!(f, "the store refuses: {why}"),
            StoreError::Unreadable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StoreError {}

impl StoreError {
    /// The error in words that name the object.
    pub(crate) fn of(&self, name: &str) -> String {
        match self {
            StoreError::Unreadable(why) => why.clone(),
            other => format!("{name}: {other}"),
        }
    }
}

/// An object, or a range of it.
#[derive(Clone, Debug)]
pub struct Content {
    /// The bytes. Shorter than the range that was asked for where the object ends.
    pub blocks: Vec<Block>,
    /// Which content of the object it is.
    pub version: Version,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The result of a request to a store.
pub type Stored<T> = BoxFuture<'static, Result<T, StoreError>>;

/// A bucket, or the part of it below a prefix. Names are relative to that.
pub trait ObjectStore: 'static {
    /// What the store is called in messages.
    fn name(&self) -> String;

    /// What it was asked, if it counts that: a store before another says what that one was asked.
    fn requested(&self) -> Option<Counts> {
        None
    }

    /// Reads an object: all of it, or `range` as first byte and length.
    fn get(&self, name: &str, range: Option<(u64, u64)>) -> Stored<Content>;

    /// Writes an object.
    fn put(&self, name: &str, blocks: Vec<Block>, when: Condition) -> Stored<Version>;

    /// Removes an object. One that does not exist is no error.
    fn delete(&self, name: &str) -> Stored<()>;

    /// The objects whose names begin with `prefix` and come after `after`, by name: a page of them. An empty page
    /// is the end.
    fn list(&self, prefix: &str, after: Option<&str>) -> Stored<Vec<Listed>>;
}

//! Why a call failed, as far as that tells something of names and descriptors.
//!
//! Contract: this is the one place with the words in which strace spells errors. An error that shows nothing
//! is none of these.

/// The facts that an error shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The name is not there.
    Absent,
    /// The name is there, and stands in the way of the call.
    InTheWay,
    /// The descriptor was not open.
    NotOpen,
}

impl Failure {
    pub(super) fn of(word: &str) -> Option<Failure> {
        match word {
            "ENOENT" => Some(Failure::Absent),
            "EEXIST" | "ENOTEMPTY" | "EISDIR" => Some(Failure::InTheWay),
            "EBADF" => Some(Failure::NotOpen),
            _ => None,
        }
    }
}

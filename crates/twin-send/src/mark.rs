//! The mark of a directory to which a stream was applied.
//!
//! Contract: the mark is an extended attribute of the directory, so it goes with the directory where `cp -a` and `rsync
//! -X` take it, is replaced as a whole, is made durable with the directory, and has no name that a file of the state
//! could have. It says *receiving* from before the first change until everything is durable, and *received* from then on.

use std::fmt;
use std::str::FromStr;

use crate::record::{Header, StateId};

/// The name of the attribute, which is not sent. (Volumes give names after `user.twinfs.` a meaning of their own.)
pub const MARK_ATTRIBUTE: &[u8] = b"user.twinfs-received";

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has begun, and not ended.
    Receiving,
    /// Its state is there.
    Received,
}

/// What a directory has. See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// How far it has come.
    pub progress: Progress,
    /// The stream.
    pub header: Header,
}

/// Why a stream is not applied to a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A whole state needs an empty directory.
    NotEmpty,
    /// An increment needs a directory that has its base, and this one has no state.
    NoState { needed: StateId },
    /// It has another one.
    OtherState { needed: StateId, there: StateId },
    /// Another stream was cut off here.
    CutOff { there: StateId },
    /// The state is there already.
    Already { there: StateId },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotEmpty => f.write_str("a whole state needs an empty directory or a new one"),
            Refusal::NoState { needed } => {
                write!(f, "the stream needs {needed}, and nothing was received here")
            }
            Refusal::OtherState { needed, there } => {
                write!(f, "the stream needs {needed}, and here is {there}")
            }
            Refusal::CutOff { there } => {
                write!(f, "{there} was received here in part: receive that stream again first")
            }
            Refusal::Already { there } => write!(f, "{there} is here already"),
        }
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} (state {} of volume {})", self.name, self.id, hex(&self.volume))
    }
}

impl Mark {
    /// Whether a stream may be applied to a directory that has this mark, or none, and is empty or not. A stream that was
    /// cut off may be applied again.
    ///
    /// # Errors
    /// Why not.
    pub fn admits(mark: Option<&Mark>, is_empty: bool, header: &Header) -> Result<(), Refusal> {
        let same = |a: &Option<StateId>, b: &Option<StateId>| match (a, b) {
            (Some(a), Some(b)) => a.is_same(b),
            (None, None) => true,
            _ => false,
        };
        let Some(mark) = mark else {
            return match &header.base {
                None if is_empty => Ok(()),
                None => Err(Refusal::NotEmpty),
                Some(needed) => Err(Refusal::NoState { needed: needed.clone() }),
            };
        };
        let there = mark.header.state.clone();
        let is_same = there.is_same(&header.state);
        match (mark.progress, &header.base) {
            (Progress::Receiving, base) => match is_same && same(base, &mark.header.base) {
                true => Ok(()),
                false => Err(Refusal::CutOff { there }),
            },
            (Progress::Received, _) if is_same => Err(Refusal::Already { there }),
            (Progress::Received, Some(needed)) => match there.is_same(needed) {
                true => Ok(()),
                false => Err(Refusal::OtherState { needed: needed.clone(), there }),
            },
            (Progress::Received, None) => Err(Refusal::NotEmpty),
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.progress {
            Progress::Receiving => "receiving",
            Progress::Received => "received",
        };
        write!(f, "1 {word}")?;
        for state in std::iter::once(&self.header.state).chain(&self.header.base) {
            let StateId { volume, id, time_ns, name } = state;
            write!(f, "\n{} {id} {time_ns} {name}", hex(volume))?;
        }
        Ok(())
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> Result<Mark, ()> {
        let mut lines = text.lines();
        let progress = match lines.next() {
            Some("1 receiving") => Progress::Receiving,
            Some("1 received") => Progress::Received,
            _ => return Err(()),
        };
        let state = lines.next().and_then(state_of).ok_or(())?;
        let base = lines.next().map(|line| state_of(line).ok_or(())).transpose()?;
        Ok(Mark { progress, header: Header { state, base } })
    }
}

fn state_of(line: &str) -> Option<StateId> {
    let mut words = line.splitn(4, ' ');
    let volume = u128::from_str_radix(words.next()?, 16).ok()?.to_be_bytes();
    let (id, time_ns) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(StateId { volume, id, time_ns, name: words.next()?.to_owned() })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(id: u64) -> StateId {
        StateId { volume: [0xa5; 16], id, time_ns: id * 1000, name: format!("a day {id}") }
    }

    fn header(base: Option<u64>, id: u64) -> Header {
        Header { state: state(id), base: base.map(state) }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        for base in [None, Some(3)] {
            for progress in [Progress::Receiving, Progress::Received] {
                let mark = Mark { progress, header: header(base, 4) };
                assert_eq!(mark.to_string().parse(), Ok(mark));
            }
        }
        for text in ["", "2 received\n", "1 received", "1 received\nzz 1 2 n"] {
            assert_eq!(text.parse::<Mark>(), Err(()), "{text}");
        }
    }

    #[test]
    fn a_stream_is_applied_where_its_base_is_and_where_it_was_cut_off() {
        let mark = |progress, base, id| Some(Mark { progress, header: header(base, id) });
        let admits =
            |mark: Option<Mark>, empty, header| Mark::admits(mark.as_ref(), empty, &header);
        use Progress::{Received, Receiving};
        assert_eq!(admits(None, true, header(None, 1)), Ok(()));
        assert_eq!(admits(None, false, header(None, 1)), Err(Refusal::NotEmpty));
        assert!(admits(None, true, header(Some(1), 2)).is_err());
        assert_eq!(admits(mark(Received, None, 1), false, header(Some(1), 2)), Ok(()));
        assert!(admits(mark(Received, None, 1), false, header(Some(3), 4)).is_err());
        assert!(admits(mark(Received, None, 1), false, header(None, 1)).is_err());
        assert!(admits(mark(Received, Some(1), 2), false, header(Some(1), 2)).is_err());
        assert_eq!(admits(mark(Receiving, Some(1), 2), false, header(Some(1), 2)), Ok(()));
        assert_eq!(admits(mark(Receiving, None, 1), false, header(None, 1)), Ok(()));
        assert!(admits(mark(Receiving, Some(1), 2), false, header(Some(1), 3)).is_err());
        assert!(admits(mark(Receiving, Some(1), 2), false, header(None, 2)).is_err());
        let mut other = header(Some(1), 2);
        other.base.as_mut().unwrap().time_ns += 1;
        assert!(admits(mark(Received, None, 1), false, other).is_err());
    }
}

//! The kinds of trace files and the version of their format.

use std::fmt;

/// The first bytes of a trace. The high bit, the two kinds of line end and the control-Z reveal a
/// transfer that treated the file as text.
pub(crate) const MAGIC: [u8; 8] = *b"\x89TWT\r\n\x1a\n";

/// The version of the format that this program writes.
pub const VERSION: u16 = 1;

/// The content of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Operations and their answers: a workload.
    Operations,
    /// Everything that entered the core of a run: a flight log.
    Flight,
}

impl Kind {
    /// The number in the header of a trace.
    pub(crate) fn number(self) -> u8 {
        match self {
            Kind::Operations => 1,
            Kind::Flight => 2,
        }
    }

    /// The kind of the trace that begins with these bytes, whatever its version; `None` if they are
    /// not the beginning of a trace.
    ///
    /// ```
    /// use twin_trace::{Header, Kind, Traits, Writer};
    /// let header = Header {
    ///     kind: Kind::Operations,
    ///     start: twin_rt::Time(0),
    ///     seed: 0,
    ///     traits: Traits::default(),
    ///     text: String::new(),
    /// };
    /// let bytes = Writer::new(Vec::new(), &header)?.finish()?;
    /// assert_eq!(Kind::of(&bytes), Some(Kind::Operations));
    /// assert_eq!(Kind::of(b"a letter"), None);
    /// # Ok::<(), twin_trace::TraceError>(())
    /// ```
    pub fn of(start: &[u8]) -> Option<Kind> {
        let rest = start.strip_prefix(&MAGIC)?;
        // Behind the version.
        let number = rest.get(size_of_val(&VERSION))?;
        [Kind::Operations, Kind::Flight].into_iter().find(|kind| kind.number() == *number)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Operations => "a trace of operations",
            Kind::Flight => "a flight log",
        })
    }
}

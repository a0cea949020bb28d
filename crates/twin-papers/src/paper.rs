//! The papers whose measurements are repeated.

/// A paper whose measurements are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Ousterhout and others, A Comparison of Logging and Clustering, 1994.
    Clc,
    /// Seltzer and others, File System Logging Versus Clustering, 1995.
    Lvc,
    /// Blackwell, Harris and Seltzer, Heuristic Cleaning Algorithms, 1995.
    Hc,
    /// Bosch and Mullender, Cut-and-Paste File Systems, 1996.
    Cp,
    /// Smith and Seltzer, File Layout and File System Performance, 1994.
    Fl,
}

impl Paper {
    /// Title and year.
    pub fn title(self) -> &'static str {
        match self {
            Paper::Clc => "A Comparison of Logging and Clustering, 1994",
            Paper::Lvc => "File System Logging Versus Clustering, 1995",
            Paper::Hc => "Heuristic Cleaning Algorithms, 1995",
            Paper::Cp => "Cut-and-Paste File Systems, 1996",
            Paper::Fl => "File Layout and File System Performance, 1994",
        }
    }

    /// The abbreviation with which the sources of claims begin.
    pub fn short(self) -> &'static str {
        match self {
            Paper::Clc => "CLC",
            Paper::Lvc => "LvC",
            Paper::Hc => "HC",
            Paper::Cp => "CP",
            Paper::Fl => "FL",
        }
    }
}

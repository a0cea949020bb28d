//! The runs that claims need.

/// A run: a configuration and one benchmark, as texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// See [`twin_lab::Config::parse`].
    pub config: String,
    /// See [`twin_bench::parse`].
    pub bench: String,
}

impl Need {
    /// A run of a benchmark on a configuration, both as texts.
    pub fn new(config: impl Into<String>, bench: impl Into<String>) -> Need {
        Need { config: config.into(), bench: bench.into() }
    }
}

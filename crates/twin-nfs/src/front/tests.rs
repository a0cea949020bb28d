//! The machine alone.

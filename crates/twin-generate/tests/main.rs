//! The tests of this crate from outside, in one program: built once, and run side by side.

/// The small file system and its replays, which the tests of twin-trace have too.
#[path = "../../twin-trace/tests/common/mod.rs"]
mod common;
mod generate;
mod replay;
mod written;

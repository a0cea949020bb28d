//! The tests of this crate from outside, in one program: built once, and run side by side.

mod common;
mod flight;
mod format;
mod mutations;
mod processes;
mod readers;
mod recorder;
mod replay;

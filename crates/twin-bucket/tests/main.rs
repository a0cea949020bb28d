//! The tests of this crate from outside, in one program: built once, and run side by side.

mod common;
mod device;
mod follow;
mod framed;
mod local;

//! The tests of this crate from outside, in one program: built once, and run side by side.

mod checksums;
mod common;
mod dump;
mod order;
mod random;
mod repair;
mod scrub;
mod volume;

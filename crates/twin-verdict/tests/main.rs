//! The tests of this crate from outside, in one program: built once, and run side by side.

mod picture;

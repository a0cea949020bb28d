//! The tests of this crate from outside, in one program: built once, and run side by side.

mod common;
mod contract;
mod files_in_use;
mod leases;
mod procedures;

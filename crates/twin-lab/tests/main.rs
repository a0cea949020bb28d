//! The tests of this crate from outside, in one program: built once, and run side by side.

mod bucket;
mod determinism;
mod events;
mod idle;
mod memory;
mod mounted;
mod odd_settings;
mod power_failures;
mod remote;
mod settings;

//! The tests of this crate from outside, in one program: built once, and run side by side.

mod acl;
mod cleaner_progress;
mod cleaning;
mod common;
mod dump;
mod format_document;
mod gathering;
mod grow;
mod reading;
mod regressions;
mod scrub;
mod snapshots;
mod snapshots_directory;
mod volume;

//! A file system like ext4 with its defaults: data=ordered, delayed allocation, auto_da_alloc.
//!
//! Contract: as [`journal`], and: new blocks of a file come to the disk in their order; a rename over an existing
//! file, and the closing of one that was emptied, write its data before the next metadata (auto_da_alloc), while a rename to
//! a free name does not; appending to a block that is on the disk makes the file longer at once, and zeros may stand
//! there until the data is written.

use super::Model;
use super::journal::{self, Rules};

const RULES: Rules = Rules { in_order: true, bare_ends: true, replaces: true };

pub(super) const EXT4: Model = Model {
    name: "ext4",
    about: "metadata in order, new data before its length, delayed allocation, auto_da_alloc (data=ordered)",
    is_device: false,
    cut: |history, parts| journal::cut(history, parts, &RULES),
};

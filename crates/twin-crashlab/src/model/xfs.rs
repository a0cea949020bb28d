//! A file system like XFS.
//!
//! Contract: as [`journal`], and: new blocks of a file come to the disk in any order, with zeros for those between that
//! are missing; nothing is written because of a rename.

use super::Model;
use super::journal::{self, Rules};

const RULES: Rules = Rules { in_order: false, bare_ends: false, replaces: false };

pub(super) const XFS: Model = Model {
    name: "xfs",
    about: "metadata in order, the length of a file after its data, new data in any order",
    is_device: false,
    cut: |history, parts| journal::cut(history, parts, &RULES),
};

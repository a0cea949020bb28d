//! Directories: their blocks, their indexes, and the names in them.
//!
//! Contract: the on-disk formats are pure functions on bytes, which do not wait. [`block`] is the
//! format of a directory's own blocks, in three forms. [`index`] is the hash table of a directory
//! of more than a few blocks, in layouts that have indexes; [`name_hash`] is its hash. On top of
//! them `Directories` is a layer over files that finds, adds and removes names; it checks no
//! permissions.

pub mod block;
mod blocks;
mod empty;
pub mod index;
mod index_file;
mod name_hash;
mod names;

use std::rc::Rc;

pub(crate) use blocks::with_bytes;
pub use name_hash::name_hash;
pub(crate) use names::{Hit, InsertPlan, RemovePlan, check_name};

use crate::core::Core;
use crate::data::Files;
pub use crate::features::LINK_MAX;
use crate::layout::Layout;
use crate::orphans::Orphans;

/// The longest target of a symbolic link, in bytes.
pub const SYMLINK_MAX: usize = 4095;
/// The longest value of an extended attribute, in bytes.
pub const XATTR_VALUE_MAX: usize = 65_536;

/// The directories of a volume. See the module.
pub(crate) struct Directories {
    core: Rc<Core>,
    layout: Rc<dyn Layout>,
    files: Rc<Files>,
    orphans: Rc<Orphans>,
}

impl Directories {
    pub(crate) fn new(
        core: &Rc<Core>,
        layout: &Rc<dyn Layout>,
        files: &Rc<Files>,
        orphans: &Rc<Orphans>,
    ) -> Directories {
        Directories {
            core: Rc::clone(core),
            layout: Rc::clone(layout),
            files: Rc::clone(files),
            orphans: Rc::clone(orphans),
        }
    }
}

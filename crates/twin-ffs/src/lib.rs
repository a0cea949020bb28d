//! The clustered fast-file-system layout: cylinder groups, blocks and fragments, written in place.
//!
//! The tradition is McKusick, Joy, Leffler and Fabry's fast file system (1984), McVoy and Kleiman's
//! clustering (1991) and 4.4BSD's implementation of both, which Seltzer et al. measured against
//! LFS (1995). Main types: [`Ffs`] (an open layout, implements [`twin_fs::Layout`]),
//! [`MkfsOptions`], [`FfsSettings`], [`mod@format`] (the bytes on disk). Start at [`Ffs::mkfs`] and
//! [`Ffs::open`]; then `preference`, `search` and `group` (where a block goes), `space` (what is
//! free, promised, and not to be used yet), `flush` (what is written when), [`ordering`] (what that
//! promises of a crash), `journal` and `replay`. [`mod@check`] looks at all of it without the volume's
//! code and can repair it. `docs/design-ffs.md` tells the whole story, `docs/ondisk-ffs.md` the
//! format.
//!
//! What holds always:
//! - Space is promised in whole blocks before anything becomes dirty, so a place is always found.
//! - Two writes of one place reach the device in the order in which they were asked.
//! - A block that was given up is used again only when the ordering says that this is safe.

mod bits;
pub mod check;
pub mod dir_placement;
mod ffs;
mod flush;
pub mod format;
mod group;
mod inodes;
mod journal;
mod kind;
mod layout;
mod open;
pub mod ordering;
mod preference;
mod realloc;
mod replay;
mod search;
mod space;
pub mod write_behind;
mod writes;

pub use ffs::{Ffs, FfsSettings, FfsStats, Sabotage};
pub use kind::{FFS, FfsConfig};
pub use layout::Permit;
pub use open::{MkfsOptions, Recovered, read_state};
pub use space::SearchStats;

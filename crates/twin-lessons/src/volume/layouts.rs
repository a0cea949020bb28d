//! The layouts of the lessons.

use twin_fs::LayoutKind;

/// All of them, the simplest first. The lab's registry has them too; it cannot be linked where there is no compiler of
/// C for the target, as its readers of compressed traces need one.
pub(crate) const LAYOUTS: &[&dyn LayoutKind] = &[vsfs::VSFS, twin_ffs::FFS, twin_lfs::LFS];

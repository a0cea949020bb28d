//! The registry of layouts, the only place that names them.

use twin_fs::LayoutKind;
use twin_settings::SettingsError;

/// All layouts; the first is the default.
pub const LAYOUTS: &[&dyn LayoutKind] = &[twin_lfs::LFS, twin_ffs::FFS, vsfs::VSFS];

/// The layout with this name.
///
/// # Errors
/// If there is none; the message lists all.
pub fn layout(name: &str) -> Result<&'static dyn LayoutKind, SettingsError> {
    let found = LAYOUTS.iter().find(|kind| kind.name() == name);
    let names = LAYOUTS.iter().map(|kind| kind.name());
    found.copied().ok_or_else(|| SettingsError::unknown("layout", name, names))
}

//! How cargo is called on the project, and where it puts what it builds.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo's target directory: two levels above this program.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    let own = std::env::current_exe().ok();
    let target = own.as_deref().and_then(Path::parent).and_then(Path::parent);
    target.map_or_else(|| root.join("target"), Path::to_path_buf)
}

/// A command of cargo on the project.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    command
}

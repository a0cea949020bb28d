//! Machine files, which several commands read.

use std::path::Path;

use twin_lab::MachineFile;
use twin_mount::input::{Wanted, must_be};

/// Reads a machine file.
pub(crate) fn machine_file(path: &Path) -> Result<MachineFile, String> {
    must_be(path, Wanted::Machine)?;
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    MachineFile::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

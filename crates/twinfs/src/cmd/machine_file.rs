//! Machine files, which several commands read.

use std::path::Path;

use twin_lab::MachineFile;
use twin_mount::input::{Wanted, must_be};

/// Reads a machine file.
pub(crate) fn machine_file(path: &Path) -> Result<MachineFile, String> {
    must_be(path, Wanted::Machine)?;
    let text = twin_host::text_of_file(path)?;
    MachineFile::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

//! The arguments of `twinfs completions` and `twinfs man`.

use std::path::PathBuf;

use clap::Args;

/// Print a completion script for a shell.
///
/// For bash: `twinfs completions bash > ~/.local/share/bash-completion/completions/twinfs`.
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages, one for each command.
#[derive(Args)]
pub(crate) struct Man {
    /// The directory for the pages, such as ~/.local/share/man/man1. It is created if it does not exist.
    pub(crate) dir: PathBuf,
}

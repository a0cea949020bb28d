//! The arguments of `twinfs completions` and `twinfs man`.

use std::path::PathBuf;

use clap::Args;

/// Print a completion script for a shell.
///
/// For bash: `twinfs completions bash > ~/.local/share/bash-completion/completions/twinfs`.
#[derive(Args)]
pub(crate) struct Completions {
    /// Which shell.
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages, one a command.
#[derive(Args)]
pub(crate) struct Man {
    /// The directory to write them to, as ~/.local/share/man/man1; it is made if need be.
    pub(crate) dir: PathBuf,
}

//! The runner of commands that measure this machine.

use twin_cli::progress::Shown;
use twin_host::{Interrupts, own_program};
use twin_real::Runner;

/// A runner that this program serves, and that shows how far it is on bars.
pub(crate) fn runner(interrupts: &Interrupts) -> Result<Runner<'_>, String> {
    Ok(Runner { interrupts, progress: &Shown, program: own_program()? })
}

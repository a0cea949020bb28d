//! The arguments of `twinfs new-policy`.

use clap::Args;
use clap::builder::PossibleValuesParser;

/// Write a crate for a policy of your own.
///
/// The directory NAME gets a small crate in Rust that needs nothing but cargo: the interface, a complete policy of the
/// kind as an example, with a test, and a README with the commands. What it builds, a module, is used by its path
/// wherever a command takes the name of a policy of that kind, in simulations and on mounts
/// (docs/policies-outside.md).
#[derive(Args)]
pub(crate) struct NewPolicy {
    /// The name of the policy and of its directory, which must not exist.
    pub(crate) name: String,
    /// The kind of policy.
    #[arg(long, default_value = kinds().next(), value_parser = PossibleValuesParser::new(kinds()))]
    pub(crate) kind: String,
}

fn kinds() -> impl Iterator<Item = &'static str> {
    twin_policy::kinds()
}

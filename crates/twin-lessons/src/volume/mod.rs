//! A volume in memory that one can look at: its settings, the machine under it, a client with a shell, and what lies
//! where on the platter.

mod bench;
mod check;
mod client;
mod dumped;
mod layouts;
mod load;
mod machine;
mod regions;
mod script;
mod setup;
mod shell;

pub(crate) use bench::{Bench, findings};
pub(crate) use check::checked;
pub(crate) use dumped::dump;
pub(crate) use layouts::LAYOUTS;
pub(crate) use machine::{MOST_REQUESTS, Machine, Outcome};
pub(crate) use regions::Regions;
pub use script::script;
pub(crate) use setup::Setup;
pub(crate) use shell::{HELP, parse};

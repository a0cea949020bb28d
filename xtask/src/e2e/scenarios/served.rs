//! The server of objects of the scenarios that kill or count it.

use std::path::PathBuf;

use super::super::Stop;
use super::super::bench::Bench;
use crate::object_server::{SERVER, Server};

/// Starts a server of the scenario's own, if this is a run on buckets.
pub(super) fn server(bench: &Bench) -> Result<Server, Stop> {
    if bench.bucket.is_none() {
        return Err(Stop::Skipped("no bucket: `cargo xtask nightly bucket` has one".into()));
    }
    let program = std::env::var_os(SERVER).ok_or_else(|| format!("{SERVER} is not set"))?;
    Ok(Server::start(&PathBuf::from(program), &bench.dir.join("server"))?)
}

//! The arguments of `twinfs serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use twin_host::IdlePoll;

use crate::size::Size;

/// Serve volumes over NFS version 3.
///
/// Returns when clients can mount the volumes; a process in the background serves NFS version 3 and
/// MOUNT version 3 on one TCP port. It prints one line with the address, the port and the number of
/// that process. SIGTERM to the process ends it when all data is on the device. Clients wait meanwhile,
/// and go on when the server is started again.
///
/// Without --export, each volume is exported to this machine alone. An NFS server trusts the user
/// numbers that clients send: read docs/nfs.md before you let other machines in.
#[derive(Args)]
pub(crate) struct Serve {
    /// Stay in the foreground.
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// The TCP port; 0 takes a free one.
    #[arg(long, default_value_t = 2049)]
    pub(crate) port: u16,
    /// The address on which to listen; 0.0.0.0 or :: listens on all.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) bind: IpAddr,
    /// Also answer as the portmapper of this machine on port 111, for clients that are not told the port
    /// number.
    #[arg(long)]
    pub(crate) portmap: bool,
    /// Export this path, instead of all volumes to this machine alone: PATH or PATH:RULE,RULE; can be
    /// repeated. Rules: from=NETWORK+NETWORK (or all; default: this machine), access=rw|ro,
    /// squash=none|root|far-root|all (the users who become nobody; default far-root: root, unless it
    /// comes from a privileged port of this machine), nobody=UID:GID, ports=any|privileged,
    /// replies=durable|early (early answers before data is durable, against the protocol).
    #[arg(long = "export", value_name = "PATH:RULES")]
    pub(crate) exports: Vec<String>,
    /// Serve read-only.
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Memory for cached blocks of each volume.
    #[arg(long, default_value = "256M")]
    pub(crate) cache: Size,
    /// Access the images through the host's page cache instead of by direct I/O. Data is then cached
    /// twice.
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Use plain reads and writes instead of io_uring, one request at a time.
    #[arg(long)]
    pub(crate) no_io_uring: bool,
    /// Keep idle processors awake while clients are busy, as `twinfs mount --idle-poll` does: auto, yes or no.
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = IdlePoll::parse)]
    pub(crate) idle_poll: IdlePoll,
    /// The image files or block devices: IMAGE is served as /, IMAGE=/PATH as /PATH.
    #[arg(required = true, value_name = "IMAGE")]
    pub(crate) images: Vec<PathBuf>,
}

/// An NFS server beside a mount, in the same process.
#[derive(Args)]
pub(crate) struct Beside {
    /// Also serve the volume over NFS, at this port of the loopback interface or at ADDRESS:PORT (port 0
    /// takes a free one). The kernel then caches no names, attributes or writes of the mount, because
    /// NFS clients change them. docs/nfs.md explains who is let in.
    #[arg(help_heading = "NFS", long = "serve", value_name = "PORT", value_parser = place_of_server,
        conflicts_with_all = ["record", "flight"])]
    pub(crate) at: Option<SocketAddr>,
    /// With --serve: export this path, PATH or PATH:RULE,RULE (see `twinfs serve --help`); can be
    /// repeated.
    #[arg(help_heading = "NFS", long = "export", value_name = "PATH:RULES", requires = "at")]
    pub(crate) exports: Vec<String>,
}

/// A port of the loopback interface, or an address with its port.
fn place_of_server(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text.parse().map_err(|_| "no port and no ADDRESS:PORT".into()),
    }
}

//! The arguments of `twinfs serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use crate::size::Size;

/// Serve volumes over NFS. Returns once they can be mounted; a process in the background serves.
///
/// NFS version 3 and MOUNT version 3 are answered on one TCP port. It prints one line with the
/// address, the port and the number of the process; SIGTERM to that process ends it, when all is
/// on disk. Clients wait meanwhile and go on when it is started again.
///
/// Without --export, each volume is exported to this machine alone. NFS believes the users that
/// clients name: read docs/nfs.md before you let other machines in.
#[derive(Args)]
pub(crate) struct Serve {
    /// Stay in the foreground.
    #[arg(long, short)]
    pub(crate) foreground: bool,
    /// The TCP port; 0: one that is free.
    #[arg(long, default_value_t = 2049)]
    pub(crate) port: u16,
    /// The address on which to listen; 0.0.0.0 or :: for all.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(crate) bind: IpAddr,
    /// Be the portmapper of this machine too, on port 111, for clients that look for it. (Port
    /// numbers given to the client make it needless.)
    #[arg(long)]
    pub(crate) portmap: bool,
    /// Export this path, in place of all volumes to this machine: PATH or PATH:RULE,RULE. Rules:
    /// from=NETWORK+NETWORK (or all; default: this machine), access=rw|ro,
    /// squash=none|root|far-root|all (whose users become nobody; default far-root: root, unless it
    /// comes from a privileged port of this machine), nobody=UID:GID, ports=any|privileged,
    /// replies=durable|early (early breaks the protocol's promise). Can be repeated.
    #[arg(long = "export", value_name = "PATH:RULES")]
    pub(crate) exports: Vec<String>,
    /// Allow no changes.
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Memory for the blocks of each volume, in bytes.
    #[arg(long, default_value = "256M")]
    pub(crate) cache: Size,
    /// Use ordinary I/O through the host's page cache, not direct I/O.
    #[arg(long)]
    pub(crate) buffered: bool,
    /// Do not use io_uring.
    #[arg(long)]
    pub(crate) no_io_uring: bool,
    /// The image files or block devices, as IMAGE (served as /) or IMAGE=/PATH.
    #[arg(required = true, value_name = "IMAGE")]
    pub(crate) images: Vec<PathBuf>,
}

/// A server of NFS beside a mount, in the same process.
#[derive(Args)]
pub(crate) struct Beside {
    /// Serve the volume over NFS too, at this port of the loopback interface, or at ADDRESS:PORT
    /// (port 0: one that is free). The kernel then keeps no names, attributes or writes of the mount,
    /// because clients change them. docs/nfs.md tells who may come in.
    #[arg(long = "serve", value_name = "PORT", value_parser = place_of_server,
        conflicts_with_all = ["record", "flight"])]
    pub(crate) at: Option<SocketAddr>,
    /// With --serve: export this path, as PATH or PATH:RULE,RULE; see `twinfs serve --help`.
    #[arg(long = "export", value_name = "PATH:RULES", requires = "at")]
    pub(crate) exports: Vec<String>,
}

/// A port of the loopback interface, or an address with its port.
fn place_of_server(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text.parse().map_err(|_| "no port and no ADDRESS:PORT".into()),
    }
}

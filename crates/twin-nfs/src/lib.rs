//! The NFS front end: NFS version 3, MOUNT version 3 and the portmapper over any
//! [`twin_fs::FileSystem`], as bytes in and bytes out.
//!
//! Main types: [`Server`] (answers calls), [`Served`] (a volume that it serves), [`Export`] (who
//! may mount what), [`front::Machine`] (the connections: who is read, executed, answered, cut off), [`Records`]
//! (divides bytes into records). Start at [`Server::answer`].
//!
//! [`client::Client`] is the other side as a part: a file system whose operations become calls to a
//! server, for simulations and tests.
//!
//! The crate has no sockets, clock or threads: twin-host gives it the connections of a machine,
//! and tests and simulations give it modelled ones. All that a client may rely on after a restart
//! is on the volume or computed from it: handles are signed with a key of the volume, and writes
//! that are not durable are covered by a verifier that changes with every start, and whenever
//! written data is lost.
//!
//! The encoding is our own ([`xdr`]), because the decoders of the libraries allocate what a
//! length in the packet says, and copy all data.

mod address;
pub mod attrs;
mod changing;
pub mod client;
mod export;
pub mod front;
mod handle;
pub mod lease;
mod record;
mod replies;
pub mod rpc;
mod server;
mod status;
pub mod xdr;

pub use address::{Address, Network};
pub use export::{Export, NOBODY, Peer, Rules, Squash};
pub use handle::{HANDLE_LEN, Handle, Keys};
pub use record::{RECORD_MAX, Records, TRANSFER_MAX, TooLong};
pub use server::{Counters, Limits, Served, Server, proc};
pub use status::Status;

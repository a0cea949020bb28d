//! Traces of our own from what others hold: the packets of an NFS server, and any other source of operations.
//!
//! The authors of "Heuristic Cleaning Algorithms in Log-Structured File Systems" (1995, sections 2 and 3)
//! watched the network of three file servers and logged each request. This crate does the same with
//! captures: it finds the calls and replies of NFS version 2 and 3 in packets of any port, pairs them, and
//! makes a trace of them that every command can replay.
//!
//! The parts, in the order in which a packet passes them:
//!
//! - [`capture`] reads pcap and pcapng files;
//! - [`packet`] finds the UDP datagrams and TCP segments in packets, fragments of IPv4 and v6 put together;
//! - [`tcp`] puts each direction of a connection in order and cuts it into messages;
//! - [`rpc`] reads the header of a message and pairs replies with calls;
//! - [`nfs`] reads arguments and results;
//! - [`infer`] makes operations of them: names for file handles, opens and closes.
//!
//! [`nfsdump`] reads calls and replies that another program has written down as text, and passes them to the same
//! pairing; [`read`] recognizes which of the two an input is, and [`report`] tells of both. [`copy`] makes a trace of
//! our own of another source, such as a trace of another program or a generated workload.
//!
//! Start at [`Gatherer`]. What could not be used is counted in a [`Tally`], by reason. No file is opened
//! here, and a packet with any content is survived: memory is bounded by what a capture holds.

pub mod capture;
pub mod copy;
mod gatherer;
pub mod infer;
mod input;
pub mod nfs;
pub mod nfsdump;
pub mod packet;
pub mod report;
pub mod rpc;
mod tally;
pub mod tcp;
mod xdr;

pub use gatherer::{Exchange, Gathered, Gatherer};
pub use input::read;
pub use tally::{Procedure, Tally};

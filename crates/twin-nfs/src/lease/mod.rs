//! Leases: an extension of the protocol between our own client and our own server, with which clients keep data
//! and write it later, and still everybody reads what was written last.
//!
//! Contract: a program beside NFS, of which other clients know nothing. Its procedures are GET (a lease on a
//! file, which comes with the attributes), LISTEN (renews a client's leases; the server answers when one of them is
//! claimed, or after a time), VACATE (gives leases back) and NFS (a procedure of NFS under a lease). A GET that is repeated is executed once. What other clients call
//! waits for leases that conflict, so that they see what was written last, too; they keep their own caches as
//! NFS 3 does.
//!
//! The server's part is a pure [`Table`]. All times in messages are spans, since clocks differ.

mod table;

pub use table::{Answer, ClientId, FileId, Grant, Kind, LeaseStats, Renewal, Table, Terms};

/// The numbers of the program (of the range that RFC 5531 leaves to users) and of its procedures.
pub mod proc {
    #![allow(missing_docs)] // The names are those of the procedures.
    pub const LEASE: u32 = 0x2054_4657;
    pub const VERSION: u32 = 1;

    pub const NULL: u32 = 0;
    pub const GET: u32 = 1;
    pub const LISTEN: u32 = 2;
    pub const VACATE: u32 = 3;
    pub const NFS: u32 = 4;
}

/// The status of a call that was not executed because its lease is not held. The number of the server's start follows.
pub const LOST: u32 = 20_001;

/// The most leases that a call gives back.
pub(crate) const VACATED_MAX: usize = 1024;

//! A block device in a bucket of an object store, for one writer at a time.
//!
//! What is written to the device goes into *packs*, objects that are written once and never changed, in one sequence;
//! a *head*, the one object that changes, says which writer has the volume and where each part of the device was at a
//! place of that sequence. A flush is one request: the pack with all that was written since the one before. (The
//! design is that of log-structured virtual disks: Hajkazemi and others, "Beating the I/O Bottleneck: A Case for
//! Log-Structured Virtual Disks", EuroSys 2022, with the fencing of conditional writes, which stores have since 2024.)
//! Over it a log-structured layout is at home: what it frees is discarded, and its cleaner is the only one.
//!
//! Main types: [`ObjectStore`] (the seam to a bucket), [`Bucket`] (the device), [`Cached`] and [`Journal`] (a store with a
//! device of this machine before it, which keeps what is read, or what is written until the store has it), [`Framed`] (a store whose
//! objects are compressed or encrypted), [`Follower`] (sees what another machine writes, as it comes). Start at
//! [`create`] and [`open`]; [`MemoryStore`] is the simplest store.
//!
//! ```
//! use std::rc::Rc;
//! use twin_bucket::{Identity, MemoryStore, Settings, Shape, create, open};
//! use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin};
//! use twin_rt::{ClockOnly, Rt};
//!
//! let rt = Rt::new(ClockOnly::default(), 1);
//! let store = Rc::new(MemoryStore::new());
//! let shape = Shape { size: 1 << 20, sector: 512, pack_bytes: 1 << 16 };
//! let first = Settings::new(Identity([1; 16]), "first");
//! let second = Settings::new(Identity([2; 16]), "second");
//! let (rt2, store2) = (rt.clone(), store.clone());
//! rt.block_on(async move {
//!     let volume = create(&rt2, store2.clone(), Identity([9; 16]), shape, &first).await.unwrap();
//!     let data = vec![Block::Bytes(Buf::copy_of(&[7; 512]).freeze())];
//!     volume.submit(Io::write(4096, data.clone(), Class::Data, Origin::User)).await.unwrap();
//!     volume.submit(Io::flush(Origin::User)).await.unwrap();
//!     // The first writer is thought to have ended. Whatever it was acknowledged for is there.
//!     let anew = open(&rt2, store2, Rc::new(|_| true), &second).await.unwrap();
//!     let read = anew.submit(Io::read(4096, 512, Class::Data, Origin::User)).await.unwrap();
//!     assert_eq!(read, data);
//!     // It has not ended: it can do nothing any more.
//!     volume.submit(Io::write(0, data, Class::Data, Origin::User)).await.unwrap();
//!     assert!(volume.submit(Io::flush(Origin::User)).await.is_err());
//! })
//! .unwrap();
//! ```

mod bucket;
mod cache;
mod collect;
mod counted;
mod counts;
mod device;
mod extents;
mod follow;
mod framed;
mod frames;
mod head;
mod journal;
mod memory;
mod objects;
mod open;
mod pack;
mod planted;
mod requests;
mod settings;
mod shelf;
mod store;

pub use bucket::Bucket;
pub use cache::{CHUNK, CacheCounts, Cached, pack_memory};
pub use counts::Counts;
pub use follow::{Follower, Seen};
pub use framed::{Codec, Codecs, Framed, Object, Worked};
pub use frames::{Coding, Frame, TAG};
pub use journal::{Journal, JournalError, JournalStatus};
pub use memory::MemoryStore;
pub use objects::OpenError;
pub use open::{create, look, open};
pub use pack::SEAL_BYTES;
pub use planted::{PLANTED, PlantedFault};
pub use settings::{HasEnded, Settings};
pub use store::{Condition, Content, Listed, ObjectStore, StoreError, Stored, Version};

/// Sixteen random bytes: of a volume, or of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(pub [u8; 16]);

/// Bytes of a sector of a volume in a bucket: no device below has one, so logs with the smallest blocks and fragments fit.
pub const SECTOR: u32 = 512;

/// Most bytes of a pack of such a volume, and bytes of a segment of the log on it, unless others are asked for: one request
/// writes all of it.
pub const PACK_BYTES: u32 = 8 << 20;

/// The sizes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the device, a multiple of the sector.
    pub size: u64,
    /// The unit of addresses, in bytes: a power of two, 512 to 65,536.
    pub sector: u32,
    /// Most bytes of a pack, a multiple of the sector, 64 KiB to 256 MiB. A write of a segment is one request if
    /// this is a segment; a flush sends less.
    pub pack_bytes: u32,
}

impl Shape {
    /// The shape of a volume that has `size` bytes, or a few less.
    pub fn of(size: u64) -> Shape {
        let size = size / u64::from(SECTOR) * u64::from(SECTOR);
        Shape { size, sector: SECTOR, pack_bytes: PACK_BYTES }
    }

    /// That such a device can be.
    ///
    /// # Errors
    /// If not, why.
    pub fn check(&self) -> Result<(), &'static str> {
        let Shape { size, sector, pack_bytes } = *self;
        if !sector.is_power_of_two() || !(512..=65_536).contains(&sector) {
            return Err("the sector must be a power of two from 512 to 65,536 bytes");
        }
        if size == 0 || !size.is_multiple_of(sector.into()) || size > 1 << 60 {
            return Err("the size must be a multiple of the sector, and at most 2^60 bytes");
        }
        if !(1 << 16..=1 << 28).contains(&pack_bytes) || !pack_bytes.is_multiple_of(sector) {
            return Err("packs must be a multiple of the sector, from 64 KiB to 256 MiB");
        }
        Ok(())
    }
}

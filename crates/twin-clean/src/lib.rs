//! Cleaning of a log: which segment to clean, which blocks to put together, and a bare volume
//! on which both are studied.
//!
//! A log that is full is cleaned: live blocks of a victim segment are written again, and the
//! segment is free. What that costs is decided by two choices. A [`victim`] policy says which
//! segment is cleaned next; a [`placement`] policy says which class of segment a block is written
//! to, so that blocks that die together lie together. A third, [`when`] the cleaner works, decides
//! who notices. Policies are pure objects: they are told [`facts`], answer at once, and know neither
//! devices nor file systems. To the first two, time is the number of blocks that users have
//! written so far.
//!
//! The [`volume`] is the smallest log that can be cleaned: block writes only, exact accounting,
//! millions of writes a second, so that results can be held against published ones.
//!
//! Start at [`volume::Volume`], or at [`placement::Placement`] to add a policy.
//!
//! ```
//! use twin_clean::volume::{Shape, Volume, workload};
//! use twin_clean::{placement, victim};
//! let shape = Shape::of_working_set(4096).unwrap();
//! let chosen = placement::by_name("none").unwrap().make(&shape.setting(1));
//! let greedy = victim::by_name("greedy").unwrap().make(&shape.setting(1));
//! let mut volume = Volume::new(&shape, chosen, greedy);
//! let mut writes = workload::parse("uniform").unwrap().start(4096, 1);
//! for _ in 0..20_000 {
//!     volume.write(writes.next_block());
//! }
//! assert!(volume.totals().write_amplification() > 1.5);
//! ```

pub mod facts;
pub mod placement;
pub mod victim;
pub mod volume;
pub mod when;

//! Cleaning of a log: which segment to clean, which blocks to write together, and a bare volume on
//! which both choices are studied.
//!
//! When a log is full, the cleaner copies the live blocks of a victim segment to the end of the
//! log, and the segment can be filled again. Two choices decide the cost. A [`victim`] policy
//! chooses the segment to clean next; a [`placement`] policy chooses the class of segment to which
//! a block is written, so that blocks with like lifetimes share a segment. A third choice, when the
//! cleaner works ([`trigger`]), decides which clients notice it. Policies are pure objects: they
//! get [`inputs`], answer at once, and know neither devices nor file systems. Victim and placement
//! policies measure time in blocks that users have written so far.
//!
//! The [`volume`] is the smallest log that can be cleaned: block writes only, exact accounting,
//! millions of writes a second, so that results can be compared with published ones.
//!
//! Start at [`volume::Volume`], or at [`placement::Placement`] to add a policy.
//!
//! ```
//! use twin_clean::volume::{Volume, VolumeGeometry, workload};
//! use twin_clean::{placement, victim};
//! let geometry = VolumeGeometry::of_working_set(4096).unwrap();
//! let chosen = placement::REGISTRY.get("none").unwrap().make(&geometry.setting(1));
//! let greedy = victim::REGISTRY.get("greedy").unwrap().make(&geometry.setting(1));
//! let mut volume = Volume::new(&geometry, chosen, greedy);
//! let mut writes = workload::parse("uniform").unwrap().start(4096, 1);
//! for _ in 0..20_000 {
//!     volume.write(writes.next_block());
//! }
//! assert!(volume.totals().write_amplification() > 1.5);
//! ```

pub mod inputs;
pub mod placement;
pub mod trigger;
pub mod victim;
pub mod volume;

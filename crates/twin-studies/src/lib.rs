//! Studies of single policies, each with as little around it as it needs.
//!
//! Main types: [`caches::Study`] (replacement policies over the sizes of a cache, for the accesses of a trace, without
//! a file system), [`volume::Study`] (placement and victim policies of cleaning on bare volumes, whose only work is
//! writes to blocks), [`frontier::Study`] (flush policies: what simulated power failures take, against what is written).
//! Each has its report. Start at [`caches::Study::run`], [`volume::run_all`] or [`frontier::frontier`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use twin_cache::{Rules, replacement};
//! use twin_studies::caches::{Input, Study, load};
//!
//! let workload = twin_generate::start("zipf:writes=1000,file-bytes=4M", 1)?;
//! let accesses = load(Input::Operations(workload), 4096, false, &mut |_| {}).accesses;
//! let study = Study {
//!     accesses: Arc::new(accesses),
//!     policies: replacement::REGISTRY.iter().collect(),
//!     sizes: vec![64 << 10, 1 << 20],
//!     rules: Rules::Paper,
//!     disk: None,
//! };
//! let rows = study.run(2, &|_| {}, &|_, _| {})?;
//! assert!(rows[0].misses > rows[1].misses, "a larger cache misses less");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod caches;
pub mod frontier;
pub mod volume;

//! The crash lab: what a power failure could leave of a program's files, and whether the program survives it.
//!
//! Purpose: a run of a program on a volume is kept as a [`History`] ([`Recorded`]); a [`model`] of persistence cuts it
//! into parts that survive or do not; a [`Search`] goes through the states that this allows, each content once, and
//! judges what a check says of them; [`report`] tells it. The crate knows no host: who mounts, runs programs and puts
//! trees into directories is twin-mount. Under the model [`strict`] the history is that of the volume's device.
//!
//! Main types: [`History`], [`Failing`](faults::Failing), [`Model`](model::Model), [`Space`] and [`State`], [`Tree`], [`Search`]. Start at [`Search`].

pub mod faults;
pub mod history;
pub mod keep;
pub mod model;
mod recorder;
pub mod report;
mod search;
mod state;
pub mod strict;
pub mod tree;

pub use history::History;
pub use recorder::{Acks, DeviceHistory, Recorded, root_of};
pub use search::{Budget, Class, Coverage, Findings, Line, Mark, Outcome, Search, Trial};
pub use state::{Space, State, Tear};
pub use tree::Tree;

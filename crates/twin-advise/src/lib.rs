//! Advice for a workload: which volume to make, how to mount it, and what that is worth.
//!
//! Contract: configurations are drawn from a [`Space`] that follows from the registries and the settings of layouts,
//! and halved in rounds: early ones on the beginning of the workload, later ones on all of what the search may see.
//! The best of many is partly the luckiest, so it is judged on what the search did not see: other seeds of a generated
//! workload, the rest of a recorded one. It is advised only if it beats the default by more than the error of
//! simulation. Equal questions have equal answers, however many threads there are. Nothing is printed here.
//!
//! Main types: [`Question`] (the workload, the space, what judges, how many runs), [`Space`] (what may be set),
//! [`Advice`] (the best, the next and the default, judged), [`Confirmation`] (what mounts have shown). Start at
//! [`advise`].

mod judge;
mod knobs;
mod plan;
mod report;
mod rest;
mod search;
mod space;

pub use judge::{Advice, Finalist, Role, advise};
pub use plan::LEAST_BUDGET;
pub use report::{Confirmation, Mounted, partial_report};
pub use search::{Question, Tried};
pub use space::{LeftOut, Space, Wanted};

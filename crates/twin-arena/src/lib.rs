//! An arena for policies: an evaluator for people and programs that search them.
//!
//! Contract: a policy is judged in a cascade, each stage only if the one before was worth it: a cheap study, the full
//! simulation, and a mount, which is up to the caller. It is held against all policies of its registry on the same
//! inputs; what a search sees and what it must not see are judged apart. A policy that cheats (it knows the future,
//! holds more than the cache, works in secret, is not repeatable) is refused and gets nothing. Equal questions have
//! equal scores. Nothing is printed here.
//!
//! Main types: [`Task`] (what is decided, on what, and what counts), [`Arena`] (a task ready to judge),
//! [`Evaluation`] (what is known of a policy). Start at [`Arena::evaluate`].

mod arena;
mod checks;
mod contender;
mod guard;
mod report;
mod runs;
pub mod score;
pub mod task;

pub use arena::{Arena, Evaluation, Judged, Reference, Refusal, StageResult, Wanted};
pub use report::Mounted;
pub use runs::Traces;
pub use task::Task;

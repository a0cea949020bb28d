//! Experiments as files: workloads, configurations and their variations, run once each and kept.
//!
//! Contract: a file describes an [`Experiment`], which is a list of [`Job`]s in an order that depends on the file
//! alone. The result of a job is a row in a [`Store`] under a [`Key`] that is made of everything the result
//! depends on, so a job is never run twice, a run that was killed goes on where it was, and parts that were run
//! on other machines are put together by [`merge`]. Nothing is printed here: results are [`Report`](twin_report::Report)s.
//!
//! Main types: [`Experiment`] (what the file says), [`Plan`] (its jobs with their keys), [`Store`] (the rows),
//! [`execute`] (runs what is missing, on several threads), [`results`] (the report on the rows), [`difference`]
//! (two stores against each other). Start at [`Experiment::parse`].

mod diff;
mod experiment;
mod key;
mod plan;
mod results;
mod run;
mod store;

pub use diff::{Difference, Side, difference};
pub use experiment::{Experiment, Point};
pub use key::{Content, Key};
pub use plan::{Job, Plan, Prepared, Shard};
pub use results::{State, listing, results, states};
pub use run::{Ended, execute};
pub use store::{Brief, Merged, Store, StoreError, merge};

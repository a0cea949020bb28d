//! The measurements of published papers, as claims, and their reproduction on modelled hardware.
//!
//! A [`Claim`] is data: its source, the runs that show it, and how their figures are judged. A [`Need`] is a run: a
//! configuration and a benchmark. Claims share runs; [`reproduce()`] runs each once, one a thread. Each [`Check`] says
//! what it is evidence of ([`Kind`]), and a paper's [`Tally`] counts independent checks alone. What was chosen with
//! the answer in view is declared in [`choices`], what loads were given in [`loads`]; models that are wrong on purpose are in
//! [`wrong`].
//!
//! The files stand on each other in this order: runs and their variations ([`Need`], [`Variation`]), simulations that
//! are no benchmarks (`studies`, with the log simulator [`nfs_server`]), [`Results`], claims, [`reproduce()`], and above
//! all of them the pages and texts, and the [`command`]. Start at [`claims()`].

mod check;
pub mod choices;
mod claim;
mod claims;
pub mod clc;
pub mod command;
mod cost;
pub mod experiments;
pub mod explain;
pub mod fit;
pub mod loads;
mod need;
pub mod nfs_server;
mod pages;
mod paper;
mod progress;
mod reproduce;
mod results;
mod running;
mod runs;
mod search;
mod studies;
mod tally;
mod variation;
mod work;
pub mod worth;
pub mod wrong;

pub use check::{Check, Expect, Kind};
pub use claim::{Claim, Judged};
pub use claims::claims;
pub use need::Need;
pub use pages::{by_phase, failures, failures_of, html, json, present, rows, text, verdict};
pub use paper::Paper;
pub use progress::{Progress, silent};
pub use reproduce::{STUDIES, count, judge_some, reproduce};
pub use results::{OnEnd, Results, Watched};
pub use running::{run_all, run_watched};
pub use tally::{Tally, tally};
pub use variation::Variation;

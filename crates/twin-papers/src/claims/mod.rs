//! The claims of the papers, and how each is judged by the results of its runs.

pub(crate) mod aged_speeds;
pub(crate) mod cut_and_paste;
pub(crate) mod file_layout;
pub(crate) mod heuristic;
mod list;
pub(crate) mod real_log;
pub(crate) mod statistics;
mod table;
pub(crate) mod tpcb_cleaner;
mod tpcb_parts;

pub use list::claims;
pub(crate) use list::figure_needs;

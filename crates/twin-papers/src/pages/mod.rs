//! What is told of a reproduction: a page with figures and tables, text for the terminal, and JSON.

mod aged_log;
mod days;
mod file_layout;
mod html;
pub mod present;
mod report;
mod servers;
mod summary;

pub use html::html;
pub(crate) use html::page_needs;
pub use present::by_phase;
pub use report::{failures, failures_of, json, rows, text, verdict};

//! What commands report, in the forms in which people and programs read it.
//!
//! The crate knows nothing of file systems: numbers, names and texts come in, text goes out.
//! [`draw`] makes charts, [`markup`] the frame of pages, [`columns`] tables for the terminal, and
//! [`units`] figures in words. Start at [`draw`].

pub mod columns;
pub mod draw;
pub mod markup;
mod style;
pub mod units;

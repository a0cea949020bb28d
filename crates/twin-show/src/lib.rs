//! What volumes and mounts tell of themselves, in words for people and in the formats of other programs.
//!
//! Contract: values become text, and text goes to the writer that a caller gives. Nothing here opens a volume or asks a
//! mount, and the crate knows no layout.
//!
//! Main types: [`dump::Text`], [`dump::Json`] and [`dump::Csv`] (the forms of a dump, each a
//! [`Sink`](twin_fs::dump::Sink)), [`check::Found`] (what a check has found), [`mount::in_words`], [`prometheus::text`]
//! and [`since::since`] (the figures of a mount). The other modules are called like the commands that print them. Start
//! at [`dump`].

pub mod check;
pub mod dump;
pub mod mount;
pub mod prometheus;
pub mod quota;
pub mod scrub;
pub mod since;
pub mod states;

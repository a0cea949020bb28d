//! What the programs share whose commands are those of `twinfs`: how they end, how they print, and how far they are.
//!
//! Main types: [`Outcome`] and [`Failure`] (the exit status, or what the user is told), [`Output`] (the form of
//! results), [`Printer`] (reports in that form), [`SoFar`] (what an interrupted command has found),
//! [`progress::Progress`] (a bar, or lines in a log). Commands that are programs of their own have their arguments here
//! too ([`Reproduce`]), so that `twinfs` shows them in its help, and are found by [`programs`]. Under another name a
//! program is the helper of mount(8) ([`mount_helper`]). A [`Call`] has the place of a process where another program
//! carries out a command. Start at [`carry_out`].

mod call;
mod kept;
pub mod mount_helper;
mod outcome;
mod output;
mod printing;
pub mod programs;
pub mod progress;
mod reproduce;
mod saying;
pub mod terminal;

pub use call::{Call, Far, Said};
pub use kept::{Ended, Keep, Place, SoFar};
pub use outcome::{Failure, Outcome, usage};
pub use output::{Format, Output};
pub use printing::Printer;
pub use reproduce::Reproduce;
pub use saying::{carry_out, say, say_to_reader, status_of};

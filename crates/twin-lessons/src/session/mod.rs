//! A session: commands in, answers out, both in JSON.
//!
//! Contract: [`Session::call`] never panics and never waits; the same commands give the same answers everywhere, in a
//! browser too. A command is an object with the name of what to do in `do`; an answer has `ok`, and `error` with the
//! reason if that is false. Lines of the shell are kept as the history: undoing the last one repeats the others.

mod call;
mod crash;
mod look;
mod world;

pub use call::Session;

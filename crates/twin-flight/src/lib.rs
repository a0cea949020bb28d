//! Flights: what a mount was asked and what its device answered, recorded, and replayed in simulation to the same
//! digest of events. So a failure of a mount can be repeated, and it is seen that the core of a mount is the one of
//! simulations.
//!
//! Main types: [`FlightSettings`] (the components of a mounted run, as its log carries them), [`verify_flight`] (the
//! replay), [`Verified`] (both digests), [`FrontEnd`] (a front end that is fed from outside). The log itself is
//! [`twin_trace::FlightReader`]'s. Start at [`verify_flight`].

mod front_end;
mod replay;
mod rewritten;

pub use front_end::FrontEnd;
pub use replay::{CLOSE, FlightError, FlightSettings, Verified, verify_flight};

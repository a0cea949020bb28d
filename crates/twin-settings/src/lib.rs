//! The one grammar of settings, and the registries of what can be chosen by name.
//!
//! Everything that a user writes as text (configurations, workloads, benchmarks, the cleaner, scenarios) has
//! one form: a name, and settings behind it, `lfs:disk=hp97560,cache=8M` or `lfs(disk=hp97560,cache=8M)`.
//! Main types: [`Named`] (such a text, taken apart), [`Key`] (something that can be set, with its unit,
//! its range and its help), [`Registry`] (components that can be chosen by name), [`SettingsError`].
//! Start at [`Key`]; the whole grammar is in [`mod@grammar`], the notation of values in [`mod@value`].
//!
//! ```
//! use twin_settings::{Key, Unit, apply};
//!
//! #[derive(Clone, Debug, Default)]
//! struct Cache {
//!     bytes: u64,
//!     flush_age_ns: u64,
//! }
//!
//! const KEYS: &[Key<Cache>] = &[
//!     Key::new("cache", "bytes of the block cache", Unit::bytes(4096, 1 << 40), |c| {
//!         (&mut c.bytes).into()
//!     }),
//!     Key::new("flush-age", "the age at which dirty data is written", Unit::SECONDS, |c| {
//!         (&mut c.flush_age_ns).into()
//!     }),
//! ];
//!
//! let mut cache = Cache::default();
//! apply(&mut cache, KEYS, "cache=8M,flush-age=500ms")?;
//! assert_eq!((cache.bytes, cache.flush_age_ns), (8 << 20, 500_000_000));
//!
//! let error = apply(&mut cache, KEYS, "cash=8M").unwrap_err().to_string();
//! assert!(error.contains("did you mean \"cache\"?"));
//! # Ok::<(), twin_settings::SettingsError>(())
//! ```

mod error;
pub mod grammar;
mod key;
mod registry;
pub mod value;

pub use error::SettingsError;
pub use grammar::{Named, Setting};
pub use key::{Key, Slot, Unit, apply, help, set, text_of};
pub use registry::{Entry, Registry};

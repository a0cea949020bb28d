//! The grammar of all settings, and the registries of components that can be chosen by name.
//!
//! All texts that a user writes (configurations, workloads, benchmarks, the cleaner, scenarios)
//! have the same form: a name followed by settings, `lfs:disk=hp97560,cache=8M` or
//! `lfs(disk=hp97560,cache=8M)`.
//!
//! Main types: [`Named`] (such a text after parsing), [`Key`] (a setting with its unit, its range
//! and its help), [`Param`] (the same for a component that does not keep its settings in a struct),
//! [`Registry`] (components that can be chosen by name), [`SettingsError`]. Start at [`Key`]; the
//! whole grammar is in [`mod@grammar`], the notation of values in [`mod@value`].
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
pub mod outside;
mod param;
mod registry;
pub mod value;

pub use error::SettingsError;
pub use grammar::{Named, Setting};
pub use key::{Key, Slot, Unit, apply, help, set, text_of};
pub use param::{Param, Values, help_of};
pub use registry::{Choice, Choose, Entries, Registry, RegistryEntry};

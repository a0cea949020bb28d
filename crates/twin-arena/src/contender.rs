//! Policies in the arena: entries of the registries of the three kinds.

use twin_cache::flush::{self, FlushSpec, Survives};
use twin_cache::replacement;
use twin_clean::victim::{self, VictimEntry};
use twin_settings::{RegistryEntry, SettingsError};
use twin_studies::caches::PolicyEntry;

use crate::task::{Kind, Task};

/// A policy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Contender {
    Replacement(&'static PolicyEntry),
    Flush(&'static RegistryEntry<FlushSpec>),
    Victim(&'static VictimEntry),
}

/// Where a policy comes from, which decides what its calls may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is built in, or in a module: machine code.
    Native,
    /// It was added by the program that calls: a class in Python.
    Added,
}

impl Contender {
    /// The policy of this name, or in the module at this path.
    pub(crate) fn named(kind: Kind, name: &str) -> Result<Contender, SettingsError> {
        Ok(match kind {
            Kind::Replacement => Contender::Replacement(replacement::REGISTRY.reach(name)?),
            Kind::Flush => Contender::Flush(flush::REGISTRY.reach(name)?),
            Kind::Victim => Contender::Victim(victim::REGISTRY.reach(name)?),
        })
    }

    /// The default policy of a kind.
    pub(crate) fn default(kind: Kind) -> Contender {
        match kind {
            Kind::Replacement => Contender::Replacement(replacement::REGISTRY.default_entry()),
            Kind::Flush => Contender::Flush(flush::REGISTRY.default_entry()),
            Kind::Victim => Contender::Victim(victim::REGISTRY.default_entry()),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Replacement(entry) => entry.name,
            Contender::Flush(entry) => entry.name,
            Contender::Victim(entry) => entry.name,
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Contender::Replacement(entry) => entry.about,
            Contender::Flush(entry) => entry.about,
            Contender::Victim(entry) => entry.about,
        }
    }

    pub(crate) fn origin(self) -> Origin {
        let is_built_in = match self {
            Contender::Replacement(entry) => replacement::REGISTRY.has_built_in(entry.name),
            Contender::Flush(entry) => flush::REGISTRY.has_built_in(entry.name),
            Contender::Victim(entry) => victim::REGISTRY.has_built_in(entry.name),
        };
        let is_module = twin_settings::outside::is_path(self.name());
        if is_built_in || is_module { Origin::Native } else { Origin::Added }
    }

    /// The policies that others are held against.
    ///
    /// # Errors
    /// If the task names one that is none, or cannot be one.
    pub(crate) fn rivals(task: &Task) -> Result<Vec<Contender>, SettingsError> {
        if !task.rivals.is_empty() {
            return task.rivals.iter().map(|name| Contender::named(task.kind, name)).collect();
        }
        Ok(match task.kind {
            Kind::Replacement => {
                let all = replacement::REGISTRY.built_in().iter();
                all.filter(|entry| !entry.needs_future()).map(Contender::Replacement).collect()
            }
            Kind::Flush => {
                let all = flush::REGISTRY.built_in().iter();
                let all = all.filter(|entry| entry.survives == Survives::Nothing);
                all.map(Contender::Flush).collect()
            }
            Kind::Victim => victim::REGISTRY.built_in().iter().map(Contender::Victim).collect(),
        })
    }
}

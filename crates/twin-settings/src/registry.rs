//! Registries: the lists of components that can be chosen by name.
//!
//! The name of a component is in one place only, its entry in a registry. All code that lists,
//! explains or looks up components uses the registry.

use std::fmt;
use std::ops::{Deref, Index};

use crate::SettingsError;

/// A component that can be chosen by name. `M` is its maker: a function, or a struct that contains
/// further properties of the component. The entry dereferences to the maker.
pub struct RegistryEntry<M> {
    /// The name of the component in settings.
    pub name: &'static str,
    /// A description in one line, for display. It names the paper that the component comes from.
    pub about: &'static str,
    /// The maker of the component.
    pub maker: M,
}

impl<M> RegistryEntry<M> {
    /// An entry with this name, description and maker.
    pub const fn new(name: &'static str, about: &'static str, maker: M) -> RegistryEntry<M> {
        RegistryEntry { name, about, maker }
    }
}

impl<T> RegistryEntry<fn() -> T> {
    /// Makes a new component.
    pub fn make(&self) -> T {
        (self.maker)()
    }
}

impl<M> Deref for RegistryEntry<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.maker
    }
}

impl<M> fmt::Debug for RegistryEntry<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All components of a kind, the default one first.
#[derive(Debug)]
pub struct Registry<M: 'static> {
    what: &'static str,
    entries: &'static [RegistryEntry<M>],
}

impl<M> Registry<M> {
    /// A registry of components of the kind `what`, such as "replacement policy". Two entries with
    /// the same name do not compile.
    pub const fn new(what: &'static str, entries: &'static [RegistryEntry<M>]) -> Registry<M> {
        assert!(!entries.is_empty(), "a registry has a default, its first entry");
        let mut at = 0;
        while at < entries.len() {
            let mut other = at + 1;
            while other < entries.len() {
                assert!(!same(entries[at].name, entries[other].name), "two entries with one name");
                other += 1;
            }
            at += 1;
        }
        Registry { what, entries }
    }

    /// The kind of its components, for display.
    pub const fn what(&self) -> &'static str {
        self.what
    }

    /// The entry with this name.
    ///
    /// # Errors
    /// If there is none; the message suggests the nearest name and lists all names.
    pub fn get(&self, name: &str) -> Result<&'static RegistryEntry<M>, SettingsError> {
        let found = self.entries.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| SettingsError::unknown(self.what, name, self.names()))
    }

    /// The first entry, which is the default.
    pub const fn first(&self) -> &'static RegistryEntry<M> {
        &self.entries[0]
    }

    /// All entries, the default first.
    pub fn iter(&self) -> std::slice::Iter<'static, RegistryEntry<M>> {
        self.entries.iter()
    }

    /// The number of entries.
    #[allow(clippy::len_without_is_empty)] // A registry has a default, so it is never empty.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// The names of all entries with their descriptions, the default first.
    pub fn abouts(&self) -> Vec<(&'static str, &'static str)> {
        self.iter().map(|entry| (entry.name, entry.about)).collect()
    }

    /// All names, the default first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<M> {
        self.entries.iter().map(|entry| entry.name)
    }
}

/// A component that was chosen: an entry of a registry, and the registry, from which another can be chosen by
/// name. A setting holds a `Choice`, not a name, so that nothing is looked up when the component is made.
pub struct Choice<M: 'static> {
    registry: &'static Registry<M>,
    entry: &'static RegistryEntry<M>,
}

impl<M> Choice<M> {
    /// The default of a registry.
    pub const fn first(registry: &'static Registry<M>) -> Choice<M> {
        Choice { registry, entry: registry.first() }
    }

    /// The component of this name.
    ///
    /// # Errors
    /// If there is none; the message suggests the nearest name and lists all names.
    pub fn named(registry: &'static Registry<M>, name: &str) -> Result<Choice<M>, SettingsError> {
        Ok(Choice { registry, entry: registry.get(name)? })
    }

    /// The first component that is as `wanted` says; the default if there is none.
    pub fn of(
        registry: &'static Registry<M>,
        wanted: impl Fn(&RegistryEntry<M>) -> bool,
    ) -> Choice<M> {
        let entry = registry.iter().find(|entry| wanted(entry));
        Choice { registry, entry: entry.unwrap_or(registry.first()) }
    }

    /// The entry.
    pub fn entry(&self) -> &'static RegistryEntry<M> {
        self.entry
    }
}

impl<M> Clone for Choice<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Choice<M> {}

impl<M> PartialEq for Choice<M> {
    fn eq(&self, other: &Self) -> bool {
        // Names are unique in a registry, and one registry has components of one kind.
        self.entry.name == other.entry.name
    }
}

impl<M> Eq for Choice<M> {}

impl<M> fmt::Debug for Choice<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry.name)
    }
}

impl<M> fmt::Display for Choice<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.entry.name)
    }
}

impl<M> Deref for Choice<M> {
    type Target = RegistryEntry<M>;

    fn deref(&self) -> &RegistryEntry<M> {
        self.entry
    }
}

/// A [`Choice`], whatever it is a choice of.
pub trait Choose {
    /// Chooses the component of this name.
    ///
    /// # Errors
    /// If there is none; the choice is as it was.
    fn choose(&mut self, name: &str) -> Result<(), SettingsError>;

    /// The name of the component that is chosen.
    fn name(&self) -> &'static str;
}

impl<M> Choose for Choice<M> {
    fn choose(&mut self, name: &str) -> Result<(), SettingsError> {
        self.entry = self.registry.get(name)?;
        Ok(())
    }

    fn name(&self) -> &'static str {
        self.entry.name
    }
}

/// Compares two names at compile time, which `str`'s own comparison cannot do.
const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

impl<M> Index<usize> for Registry<M> {
    type Output = RegistryEntry<M>;

    fn index(&self, at: usize) -> &RegistryEntry<M> {
        &self.entries[at]
    }
}

impl<M> IntoIterator for &Registry<M> {
    type Item = &'static RegistryEntry<M>;
    type IntoIter = std::slice::Iter<'static, RegistryEntry<M>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SHAPES: Registry<fn() -> u32> = Registry::new(
        "shape",
        &[
            RegistryEntry::new("round", "no corners", || 0),
            RegistryEntry::new("square", "four corners", || 4),
        ],
    );

    #[test]
    fn components_are_found_by_name_and_the_first_is_the_default() {
        assert_eq!((SHAPES.get("square").unwrap().maker)(), 4);
        assert_eq!(SHAPES.first().name, "round");
        assert_eq!(SHAPES.names().collect::<Vec<_>>(), ["round", "square"]);
    }

    #[test]
    fn a_choice_begins_with_the_default_and_keeps_its_component_after_a_wrong_name() {
        let mut shape = Choice::first(&SHAPES);
        assert_eq!((shape.name, shape.make()), ("round", 0));
        shape.choose("square").unwrap();
        assert!(shape.choose("sqare").is_err());
        assert_eq!((shape.to_string().as_str(), shape.make()), ("square", 4));
        assert_eq!(shape, Choice::named(&SHAPES, "square").unwrap());
        assert_eq!(Choice::of(&SHAPES, |shape| shape.make() > 9), Choice::first(&SHAPES));
    }

    #[test]
    fn a_name_that_does_not_exist_is_told_with_those_that_do() {
        let error = SHAPES.get("sqare").unwrap_err().to_string();
        assert!(error.contains("no shape called \"sqare\"; did you mean \"square\"?"), "{error}");
    }
}

//! Components that can be chosen by name.
//!
//! A component's name stands in one place, its entry in its registry. Whatever lists, explains or
//! looks up components goes over the registry.

use crate::SettingsError;

/// A component that can be chosen by name. `M` is what makes it: a function, or whatever else its kind needs.
#[derive(Debug)]
pub struct Entry<M> {
    /// What settings call it.
    pub name: &'static str,
    /// One line for people: what it does and, where it comes from a paper, which one.
    pub about: &'static str,
    /// What makes it.
    pub make: M,
}

impl<M> Entry<M> {
    /// An entry.
    pub const fn new(name: &'static str, about: &'static str, make: M) -> Entry<M> {
        Entry { name, about, make }
    }
}

/// All components of a kind, the default one first.
#[derive(Debug)]
pub struct Registry<M: 'static> {
    what: &'static str,
    entries: &'static [Entry<M>],
}

impl<M> Registry<M> {
    /// A registry of `what` (as "replacement policy").
    pub const fn new(what: &'static str, entries: &'static [Entry<M>]) -> Registry<M> {
        assert!(!entries.is_empty(), "a registry has a default, its first entry");
        Registry { what, entries }
    }

    /// What kind of component this is, for people.
    pub const fn what(&self) -> &'static str {
        self.what
    }

    /// The entry called `name`.
    ///
    /// # Errors
    /// If there is none: the message suggests the nearest name and lists all.
    pub fn get(&self, name: &str) -> Result<&'static Entry<M>, SettingsError> {
        let found = self.entries.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| SettingsError::unknown(self.what, name, self.names()))
    }

    /// What is taken unless something else is asked for.
    pub const fn first(&self) -> &'static Entry<M> {
        &self.entries[0]
    }

    /// All entries, the default first.
    pub fn iter(&self) -> std::slice::Iter<'static, Entry<M>> {
        self.entries.iter()
    }

    /// All names, the default first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<M> {
        self.entries.iter().map(|entry| entry.name)
    }
}

impl<M> IntoIterator for &Registry<M> {
    type Item = &'static Entry<M>;
    type IntoIter = std::slice::Iter<'static, Entry<M>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SHAPES: Registry<fn() -> u32> = Registry::new(
        "shape",
        &[Entry::new("round", "no corners", || 0), Entry::new("square", "four corners", || 4)],
    );

    #[test]
    fn components_are_found_by_name_and_the_first_is_the_default() {
        assert_eq!((SHAPES.get("square").unwrap().make)(), 4);
        assert_eq!(SHAPES.first().name, "round");
        assert_eq!(SHAPES.names().collect::<Vec<_>>(), ["round", "square"]);
    }

    #[test]
    fn a_name_that_does_not_exist_is_told_with_those_that_do() {
        let error = SHAPES.get("sqare").unwrap_err().to_string();
        assert!(error.contains("no shape called \"sqare\"; did you mean \"square\"?"), "{error}");
    }
}

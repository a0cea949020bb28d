//! Registries: the lists of components that can be chosen by name.
//!
//! The name of a component is in one place only, its entry in a registry. All code that lists,
//! explains or looks up components uses the registry.
//!
//! A registry begins with the components that are built in. A program may [add](Registry::add) others, a policy
//! written in Python or [loaded](crate::outside) from a module, which all that looks them up finds from then on, in
//! order of addition behind those that are built in. Nothing is ever taken out or changed, so an entry is valid for
//! ever and reading needs no lock: the entries that were added are a list, the end of which is set once.

use std::fmt;
use std::ops::{Deref, Index};
use std::sync::OnceLock;

use crate::{SettingsError, outside};

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

impl<T: 'static> RegistryEntry<&'static (dyn Fn() -> T + Send + Sync)> {
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

/// An entry that was added, and the one that was added after it.
struct Added<M: 'static> {
    entry: RegistryEntry<M>,
    next: OnceLock<&'static Added<M>>,
}

/// All components of a kind, one of which is the default.
pub struct Registry<M: 'static> {
    what: &'static str,
    built_in: &'static [RegistryEntry<M>],
    /// The place of the default among them.
    default: usize,
    added: OnceLock<&'static Added<M>>,
}

impl<M> Registry<M> {
    /// A registry of components of the kind `what`, such as "replacement policy"; the first is the default, unless
    /// [another](Self::with_default) is named. Two entries with the same name do not compile.
    pub const fn new(what: &'static str, built_in: &'static [RegistryEntry<M>]) -> Registry<M> {
        assert!(!built_in.is_empty(), "a registry has a default");
        let mut at = 0;
        while at < built_in.len() {
            let mut other = at + 1;
            while other < built_in.len() {
                assert!(
                    !same(built_in[at].name, built_in[other].name),
                    "two entries with one name"
                );
                other += 1;
            }
            at += 1;
        }
        Registry { what, built_in, default: 0, added: OnceLock::new() }
    }

    /// The same with the default of this name, wherever in the list it stands: what is used where nobody chooses, as
    /// on every mount, does not depend on the order of a list. A name that no entry has does not compile.
    pub const fn with_default(
        what: &'static str,
        default: &str,
        built_in: &'static [RegistryEntry<M>],
    ) -> Registry<M> {
        let mut registry = Registry::new(what, built_in);
        let mut at = 0;
        while at < built_in.len() && !same(built_in[at].name, default) {
            at += 1;
        }
        assert!(at < built_in.len(), "no entry has the name of the default");
        registry.default = at;
        registry
    }

    /// The kind of its components, for display.
    pub const fn what(&self) -> &'static str {
        self.what
    }

    /// Adds a component, which every text of settings can name from now on, in the whole program. It stays until
    /// the program ends.
    ///
    /// # Errors
    /// If there is a component of this name, or it could not be written in a text of settings.
    pub fn add(
        &'static self,
        name: &str,
        about: &str,
        maker: M,
    ) -> Result<&'static RegistryEntry<M>, SettingsError> {
        self.check_new(name)?;
        let (name, about) = (String::from(name).leak(), String::from(about).leak());
        let entry = RegistryEntry { name, about, maker };
        let new: &Added<M> = Box::leak(Box::new(Added { entry, next: OnceLock::new() }));
        let mut end = &self.added;
        while end.set(new).is_err() {
            // Somebody else's entry is there. If it came since the look above it may have the same name.
            let Some(other) = end.get() else { continue };
            if other.entry.name == new.entry.name {
                return Err(self.taken(new.entry.name));
            }
            end = &other.next;
        }
        Ok(&new.entry)
    }

    /// Checks that a component of this name can be added.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn check_new(&'static self, name: &str) -> Result<(), SettingsError> {
        outside::check_name(self.what, name)?;
        match self.find(name) {
            Some(_) => Err(self.taken(name)),
            None => Ok(()),
        }
    }

    fn taken(&self, name: &str) -> SettingsError {
        SettingsError::new(format!(
            "there is a {} called {name:?} already: give it another name",
            self.what
        ))
    }

    /// The entry with this name, if it is in the registry now.
    fn find(&'static self, name: &str) -> Option<&'static RegistryEntry<M>> {
        self.iter().find(|entry| entry.name == name)
    }

    /// The entry with this name.
    ///
    /// # Errors
    /// If there is none; the message suggests the nearest name and lists all names.
    pub fn get(&'static self, name: &str) -> Result<&'static RegistryEntry<M>, SettingsError> {
        let found = self.find(name);
        found.ok_or_else(|| SettingsError::unknown(self.what, name, self.names()))
    }

    /// As [`get`](Self::get), for a name that the user of the program wrote: if it is the path of a module, with a
    /// `/`, the module is [loaded](outside). A name from a recording, a volume or a client is none of these.
    ///
    /// # Errors
    /// If there is none. If a module cannot be loaded, or has no component of this kind.
    pub fn reach(&'static self, name: &str) -> Result<&'static RegistryEntry<M>, SettingsError> {
        if let Some(found) = self.find(name) {
            return Ok(found);
        }
        match outside::loaded(name)? {
            None => self.get(name),
            Some(loaded) => {
                let wrong = || outside::wrong_kind(name, loaded.kind, self.what);
                self.find(name).ok_or_else(wrong)
            }
        }
    }

    /// The default.
    pub const fn default_entry(&self) -> &'static RegistryEntry<M> {
        &self.built_in[self.default]
    }

    /// The entries that are built in.
    pub const fn built_in(&self) -> &'static [RegistryEntry<M>] {
        self.built_in
    }

    /// True if the component of this name is built in.
    pub fn has_built_in(&self, name: &str) -> bool {
        self.built_in.iter().any(|entry| entry.name == name)
    }

    /// All entries.
    pub fn iter(&'static self) -> Entries<M> {
        Entries { built_in: self.built_in.iter(), added: &self.added }
    }

    /// The number of entries.
    #[allow(clippy::len_without_is_empty)] // A registry has a default, so it is never empty.
    pub fn len(&'static self) -> usize {
        self.iter().count()
    }

    /// The names of all entries with their descriptions.
    pub fn abouts(&'static self) -> Vec<(&'static str, &'static str)> {
        self.iter().map(|entry| (entry.name, entry.about)).collect()
    }

    /// All names.
    pub fn names(&'static self) -> impl Iterator<Item = &'static str> + use<M> {
        self.iter().map(|entry| entry.name)
    }
}

impl<M> fmt::Debug for Registry<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({:?})", self.what)
    }
}

/// The entries of a registry: those that are built in, then those that were added, in order of addition.
pub struct Entries<M: 'static> {
    built_in: std::slice::Iter<'static, RegistryEntry<M>>,
    added: &'static OnceLock<&'static Added<M>>,
}

impl<M> Clone for Entries<M> {
    fn clone(&self) -> Self {
        Entries { built_in: self.built_in.clone(), added: self.added }
    }
}

impl<M> Iterator for Entries<M> {
    type Item = &'static RegistryEntry<M>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(entry) = self.built_in.next() {
            return Some(entry);
        }
        let added = self.added.get()?;
        self.added = &added.next;
        Some(&added.entry)
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
        Choice { registry, entry: registry.default_entry() }
    }

    /// The component of this name, which may be [the path of a module](Registry::reach).
    ///
    /// # Errors
    /// If there is none; the message suggests the nearest name and lists all names.
    pub fn named(registry: &'static Registry<M>, name: &str) -> Result<Choice<M>, SettingsError> {
        Ok(Choice { registry, entry: registry.reach(name)? })
    }

    /// The first component that is as `wanted` says; the default if there is none.
    pub fn of(
        registry: &'static Registry<M>,
        wanted: impl Fn(&RegistryEntry<M>) -> bool,
    ) -> Choice<M> {
        let entry = registry.iter().find(|entry| wanted(entry));
        Choice { registry, entry: entry.unwrap_or(registry.default_entry()) }
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
    /// Chooses the component of this name, which may be [the path of a module](Registry::reach).
    ///
    /// # Errors
    /// If there is none; the choice is as it was.
    fn choose(&mut self, name: &str) -> Result<(), SettingsError>;

    /// The name of the component that is chosen.
    fn name(&self) -> &'static str;
}

impl<M> Choose for Choice<M> {
    fn choose(&mut self, name: &str) -> Result<(), SettingsError> {
        self.entry = self.registry.reach(name)?;
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

    /// A component that is built in.
    fn index(&self, at: usize) -> &RegistryEntry<M> {
        &self.built_in[at]
    }
}

impl<M> IntoIterator for &'static Registry<M> {
    type Item = &'static RegistryEntry<M>;
    type IntoIter = Entries<M>;

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
    fn the_default_is_the_entry_that_is_named_wherever_it_stands() {
        static SIZES: Registry<u8> = Registry::with_default(
            "size",
            "large",
            &[RegistryEntry::new("small", "", 1), RegistryEntry::new("large", "", 2)],
        );
        assert_eq!(SIZES.default_entry().name, "large");
        assert_eq!(Choice::first(&SIZES).maker, 2);
        assert_eq!(SIZES.names().next(), Some("small"));
    }

    #[test]
    fn components_are_found_by_name_and_the_first_is_the_default() {
        assert_eq!((SHAPES.get("square").unwrap().maker)(), 4);
        assert_eq!(SHAPES.default_entry().name, "round");
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

    type Dial = &'static (dyn Fn() -> u32 + Send + Sync);
    static DIALS: Registry<Dial> = Registry::new("dial", &[RegistryEntry::new("zero", "0", &|| 0)]);

    #[test]
    fn what_is_added_is_found_behind_what_is_built_in_and_may_keep_state() {
        let name = String::from("seven");
        let value = name.len() as u32 + 2;
        let maker: Dial = Box::leak(Box::new(move || value));
        let mut choice = Choice::first(&DIALS);
        assert!(choice.choose(&name).is_err());
        let added = DIALS.add(&name, "made at run time", maker).unwrap();
        choice.choose(&name).unwrap();
        assert_eq!((choice.name(), choice.make(), added.make()), ("seven", 7, 7));
        let error = DIALS.add("seven", "again", &|| 8).unwrap_err().to_string();
        assert!(error.contains("a dial called \"seven\" already"), "{error}");
        assert!(DIALS.add("zero", "built in", &|| 8).is_err());
        let names: Vec<_> = DIALS.names().collect();
        assert_eq!((names[0], names.len()), ("zero", DIALS.len()));
        assert!(names.contains(&"seven"));
    }

    #[test]
    fn a_name_that_could_not_be_written_in_settings_is_not_added() {
        for name in ["", "two words", "a,b", "a=b", "a:b", "a(b)", "-x", "tab\t", "\"a\""] {
            let error = DIALS.add(name, "", &|| 1).unwrap_err().to_string();
            assert!(error.contains("letters"), "{name:?}: {error}");
        }
    }

    #[test]
    fn a_name_that_does_not_exist_is_told_with_those_that_do() {
        let error = SHAPES.get("sqare").unwrap_err().to_string();
        assert!(error.contains("no shape called \"sqare\"; did you mean \"square\"?"), "{error}");
    }
}

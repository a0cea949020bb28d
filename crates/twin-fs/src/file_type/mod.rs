//! File types: which files may be of them, and whether they are active while they are open.
//!
//! Contract: a file has the type of its mode, unless its attribute [`TYPE`] names another, and its blocks in
//! memory are replaced as the volume's are, unless [`REPLACEMENT`] names another policy. A new type
//! takes a line in [`REGISTRY`]; the mechanisms look at its fields, never at its name. After Bosch and
//! Mullender, "Cut-and-paste file systems" (1996), section 2: a file of continuous media is *active*.
//! While it is open a task of its own (`streams`) reads it ahead at its rate, and its data passes
//! through the cache without filling it. `admission` decides whether a disk can serve one more
//! stream.

pub(crate) mod admission;
pub(crate) mod streams;

use std::collections::BTreeMap;

use twin_cache::replacement::for_cache;
use twin_settings::{Registry, RegistryEntry};

use crate::{FsError, Result, mode};

/// The attribute that names a file's type.
pub const TYPE: &[u8] = b"user.twinfs.type";
/// The attribute with the rate of continuous media, in bytes a second.
pub const RATE: &[u8] = b"user.twinfs.rate";
/// The attribute that names the replacement policy of a file's blocks in memory.
pub const REPLACEMENT: &[u8] = b"user.twinfs.replacement";
/// What the names of all of them begin with.
const OURS: &[u8] = b"user.twinfs.";

/// True for the name of an attribute that says something about a file's type.
pub fn is_ours(name: &[u8]) -> bool {
    name.starts_with(OURS)
}

/// What is known of a file type beside its name.
pub struct FileType {
    /// The type bits of the modes that a file of this type may have.
    pub modes: &'static [u32],
    /// A task reads it ahead at its rate while it is open for reading.
    pub active: bool,
}

impl FileType {
    const fn passive(modes: &'static [u32]) -> FileType {
        FileType { modes, active: false }
    }

    /// True if a file with these type bits may have the type.
    fn suits(&self, kind: u32) -> bool {
        self.modes.contains(&kind)
    }
}

/// All file types, the plain one first.
pub static REGISTRY: Registry<FileType> = Registry::new(
    "file type",
    &[
        RegistryEntry::new(
            "ordinary",
            "a file whose blocks the cache keeps as its policies say",
            FileType::passive(&[mode::REGULAR]),
        ),
        RegistryEntry::new(
            "directory-file",
            "a directory: names of other files",
            FileType::passive(&[mode::DIRECTORY]),
        ),
        RegistryEntry::new(
            "symbolic-link",
            "the path of another file",
            FileType::passive(&[mode::SYMLINK]),
        ),
        RegistryEntry::new(
            "special",
            "a device, a pipe or a socket of the host, without data here",
            FileType::passive(&[mode::BLOCK, mode::CHAR, mode::FIFO, mode::SOCKET]),
        ),
        RegistryEntry::new(
            "media",
            "continuous media: read ahead at a rate, admitted if the disk can keep it, not kept",
            FileType { modes: &[mode::REGULAR], active: true },
        ),
    ],
);

/// The name of the type of continuous media.
pub fn media() -> &'static str {
    REGISTRY.iter().find(|entry| entry.active).map_or("", |entry| entry.name)
}

/// True if the type bits are those of a regular file.
fn is_file(kind: u32) -> bool {
    kind == mode::REGULAR
}

/// What the attributes of a file say about its type.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Profile {
    /// The rate at which it is read ahead, if it is active.
    pub(crate) rate_bytes_per_s: Option<u64>,
    /// The policy that replaces its blocks in memory, if not the volume's.
    pub(crate) replacement: Option<&'static str>,
}

impl Profile {
    /// The profile of a file with these type bits and attributes. Values that
    /// [`check_attribute`] would refuse are passed over: they were set elsewhere.
    pub(crate) fn of(kind_of_mode: u32, attributes: &BTreeMap<Vec<u8>, Vec<u8>>) -> Profile {
        let text = |name: &[u8]| std::str::from_utf8(attributes.get(name)?).ok();
        let named = text(TYPE).and_then(|name| REGISTRY.get(name).ok());
        let kind = named.map(|entry| &**entry).filter(|file| file.suits(kind_of_mode));
        let rate = text(RATE).and_then(|rate| rate.parse().ok()).filter(|rate| *rate > 0);
        let is_file = is_file(kind_of_mode);
        let replacement = text(REPLACEMENT).and_then(|name| for_cache(name).ok());
        Profile {
            rate_bytes_per_s: rate.filter(|_| kind.is_some_and(|k| k.active)),
            replacement: replacement.filter(|_| is_file).map(|entry| entry.name),
        }
    }
}

/// Checks the value of an attribute that a client sets on a file with these type bits; attributes of
/// other names pass.
///
/// # Errors
/// `Invalid`, if the attribute is one of ours and its value means nothing.
pub(crate) fn check_attribute(kind: u32, name: &[u8], value: &[u8]) -> Result<()> {
    if !is_ours(name) {
        return Ok(());
    }
    let text = std::str::from_utf8(value).unwrap_or("");
    match name {
        TYPE => match REGISTRY.get(text) {
            Ok(entry) if entry.suits(kind) => Ok(()),
            Ok(_) => Err(FsError::Invalid("a file of this mode cannot have that type")),
            Err(_) => Err(FsError::Invalid("no such file type")),
        },
        RATE => match text.parse::<u64>() {
            Ok(1..) => Ok(()),
            _ => Err(FsError::Invalid("a rate is a number of bytes a second, more than 0")),
        },
        REPLACEMENT if !is_file(kind) => {
            Err(FsError::Invalid("only a regular file has a replacement policy of its own"))
        }
        REPLACEMENT => match for_cache(text) {
            Ok(_) => Ok(()),
            Err(_) => Err(FsError::Invalid("no such replacement policy for a cache")),
        },
        _ => Err(FsError::Invalid("twinfs has the attributes type, rate and replacement")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(all: &[(&[u8], &str)]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        all.iter().map(|(name, value)| (name.to_vec(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn every_kind_of_mode_has_a_type_that_is_not_active() {
        for kind in mode::KINDS {
            assert!(mode::is_kind(kind));
            assert!(REGISTRY.iter().any(|file| file.suits(kind) && !file.active), "{kind:o}");
        }
    }

    #[test]
    fn a_rate_counts_only_with_an_active_type_that_the_mode_may_have() {
        let both = attributes(&[(TYPE, "media"), (RATE, "187500")]);
        assert_eq!(Profile::of(mode::REGULAR, &both).rate_bytes_per_s, Some(187_500));
        assert_eq!(Profile::of(mode::DIRECTORY, &both).rate_bytes_per_s, None);
        let alone = attributes(&[(RATE, "187500")]);
        assert_eq!(Profile::of(mode::REGULAR, &alone), Profile::default());
        let zero = attributes(&[(TYPE, "media"), (RATE, "0")]);
        assert_eq!(Profile::of(mode::REGULAR, &zero).rate_bytes_per_s, None);
        let own = attributes(&[(REPLACEMENT, "mru")]);
        assert_eq!(Profile::of(mode::REGULAR, &own).replacement, Some("mru"));
        assert_eq!(Profile::of(mode::SYMLINK, &own), Profile::default());
        let wrong = attributes(&[(REPLACEMENT, "belady")]);
        assert_eq!(Profile::of(mode::REGULAR, &wrong), Profile::default());
    }

    #[test]
    fn values_that_mean_nothing_are_refused_when_they_are_set() {
        let ok = |name, value: &str| check_attribute(mode::REGULAR, name, value.as_bytes()).is_ok();
        assert!(ok(TYPE, "media") && ok(RATE, "1"));
        assert!(!ok(TYPE, "directory-file") && !ok(TYPE, "film"));
        assert!(!ok(RATE, "0") && !ok(RATE, "fast"));
        assert!(ok(REPLACEMENT, "mru"));
        assert!(!ok(REPLACEMENT, "belady") && !ok(REPLACEMENT, "best"));
        assert!(check_attribute(mode::DIRECTORY, REPLACEMENT, b"mru").is_err());
        assert!(!ok(b"user.twinfs.speed", "1"));
        assert!(ok(b"user.mime_type", "video/mpeg"));
    }
}

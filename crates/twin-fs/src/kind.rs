//! A layout as programs know it: one entry in a registry, behind which all of it is found.
//!
//! Contract: whoever makes, opens, checks, repairs, shows or configures volumes goes over entries
//! ([`LayoutKind`]) and names no layout. To add a layout is to write its crate, and to add its entry
//! to the registry.

use std::fmt;
use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_rt::{BoxFuture, Rt};
use twin_settings::{Key, SettingsError};

use crate::{Cpu, OpenVolume, Result, Settings, dump};

/// A layout.
pub trait LayoutKind: Sync {
    /// What settings and commands call it.
    fn name(&self) -> &'static str;

    /// A volume of it with its article, as it stands in a message: "an FFS volume".
    fn noun(&self) -> &'static str;

    /// One line for people.
    fn about(&self) -> &'static str;

    /// The policies that its settings choose from: of each kind a title, and names with a line each.
    fn policies(&self) -> Vec<(&'static str, Vec<(&'static str, &'static str)>)>;

    /// It keeps a log in segments, which a cleaner empties.
    fn is_log(&self) -> bool {
        false
    }

    /// Cleans the log of an open volume; none if it has no log.
    fn clean<'a>(
        &'a self,
        _volume: &'a OpenVolume,
        _how: Cleaning,
    ) -> Option<BoxFuture<'a, Result<Cleaned>>> {
        None
    }

    /// Its settings as they are unless something else is asked for.
    fn config(&self) -> Box<dyn LayoutConfig>;

    /// The bytes that its superblock begins with, and each copy of it.
    fn magic(&self) -> &'static [u8; 8];

    /// The largest sector that a device may have for the volume on it, in bytes, if that is known
    /// from what is on it.
    fn largest_sector<'a>(&'a self, device: &'a dyn BlockDevice) -> BoxFuture<'a, Option<u32>>;

    /// Looks at a volume without the code that runs it, and mends it if asked to.
    ///
    /// # Errors
    /// If there is no such volume, what is asked for does not exist, or the device fails.
    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        how: CheckHow,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> BoxFuture<'a, Result<CheckReport>>;

    /// The structures that a volume consists of, beside [those of files](dump::OF_FILES).
    fn structures(&self) -> &'static [dump::Structure];

    /// Shows a structure of a volume that is not open.
    ///
    /// # Errors
    /// If there is no volume, or not what is asked for. Damage goes to the sink.
    fn dump<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        request: &'a dump::Request,
        sink: &'a mut dyn dump::Sink,
    ) -> BoxFuture<'a, std::result::Result<(), dump::DumpError>>;

    /// What there is to know of an open volume: names and values, in order.
    fn facts(&self, volume: &OpenVolume) -> Vec<Fact>;
}

impl fmt::Debug for dyn LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name and a value of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The name.
    pub name: &'static str,
    /// The value, for people.
    pub value: String,
}

impl Fact {
    /// A fact.
    pub fn new(name: &'static str, value: impl Into<String>) -> Fact {
        Fact { name, value: value.into() }
    }
}

/// How to check a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckHow {
    /// Read the data of files too, and hold it against its checksums.
    pub data: bool,
    /// Mend what is wrong.
    pub repair: bool,
}

/// How far to clean a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleaning {
    /// So many segments at the most.
    pub segments: u64,
    /// Segments with at least this share of garbage.
    pub garbage_share: f64,
}

/// What cleaning a log came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Segments cleaned.
    pub segments: u64,
    /// Bytes moved out of them.
    pub moved_bytes: u64,
    /// Segments that could be filled before.
    pub clean_before: u32,
    /// And afterwards.
    pub clean_after: u32,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong, or was, a text each.
    pub findings: Vec<String>,
    /// Findings that are not listed.
    pub more_findings: u64,
    /// What there is, a line each.
    pub notes: Vec<String>,
    /// Files that a repair gave a name in `lost+found`.
    pub rescued: u64,
}

impl CheckReport {
    /// True if nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.more_findings == 0
    }
}

/// A volume that was opened.
pub struct Opened {
    /// The volume.
    pub volume: OpenVolume,
    /// What opening had to do first, in words, if the volume had not been closed.
    pub recovery: Option<String>,
}

/// A setting of a layout, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHelp {
    /// What settings call it.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// How values are written.
    pub form: String,
    /// Its value.
    pub value: String,
}

impl KeyHelp {
    /// Of keys, with their values in `config`.
    pub fn of<'a, T: Clone + 'static>(
        keys: impl Iterator<Item = &'a Key<T>>,
        config: &T,
    ) -> Vec<KeyHelp> {
        let help = |key: &Key<T>| KeyHelp {
            name: key.name,
            about: key.about,
            form: key.form(),
            value: key.text(config),
        };
        keys.map(help).collect()
    }
}

/// Whom a new volume belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Tells it from all others.
    pub uuid: [u8; 16],
    /// Owner, group and permission bits of the root directory.
    pub root: (u32, u32, u32),
}

/// The settings of one layout: how volumes of it are made, and how they are opened.
pub trait LayoutConfig: Send + Sync {
    /// A copy.
    fn boxed(&self) -> Box<dyn LayoutConfig>;

    /// Sets one key.
    ///
    /// # Errors
    /// If there is no such key, or no such value.
    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), SettingsError>;

    /// All keys.
    fn keys(&self) -> Vec<KeyHelp>;

    /// All that was set is set: gives values to what depends on it and was not `asked` for by name.
    fn complete(&mut self, asked: &dyn Fn(&str) -> bool);

    /// Makes a volume, and says what it is.
    ///
    /// # Errors
    /// If sizes do not fit, or the device fails.
    fn mkfs<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        identity: Identity,
    ) -> BoxFuture<'a, Result<String>>;

    /// Opens a volume.
    ///
    /// # Errors
    /// If there is none on the device, it is damaged, or the device fails.
    fn open<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
    ) -> BoxFuture<'a, Result<Opened>>;

    /// Sets one key of those that count for a volume that exists.
    ///
    /// # Errors
    /// If there is no such key, or no such value.
    fn set_for_open(&mut self, key: &str, value: &str) -> std::result::Result<(), SettingsError>;

    /// The settings that count for a volume that exists and are not what they are by themselves, as
    /// [`set_for_open`](Self::set_for_open) reads them, `key=value` with commas between them: what a
    /// mounted run is repeated from.
    fn text(&self) -> String;
}

impl Clone for Box<dyn LayoutConfig> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

impl fmt::Debug for dyn LayoutConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

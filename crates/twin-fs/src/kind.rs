//! A layout as programs know it: one entry in a registry, through which programs use the layout.
//!
//! Contract: a program that makes, opens, checks, repairs, dumps or configures volumes uses the
//! entries ([`LayoutKind`]) and names no layout. A new layout needs its crate and one entry in the
//! registry.

use std::fmt;
use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_rt::{BoxFuture, Rt};
use twin_settings::{Key, SettingsError, set, text_of};

use crate::snapshots::{Difference, HeadChange, Shared};
use crate::{Cpu, FsError, NO_SNAPSHOTS, Result, Settings, Volume, dump};

/// A layout entry: what programs can ask of a layout. See the module.
pub trait LayoutKind: Sync {
    /// The name of the layout in settings and commands.
    fn name(&self) -> &'static str;

    /// The words for a volume of this layout in messages, with the article: "an FFS volume".
    fn noun(&self) -> &'static str;

    /// A description in one line, for display.
    fn about(&self) -> &'static str;

    /// The policies that its settings choose from: for each kind a title, and for each policy its
    /// name and a description in one line.
    fn policies(&self) -> Vec<(&'static str, Vec<(&'static str, &'static str)>)>;

    /// True if the layout keeps a log in segments, which a cleaner empties.
    fn is_log(&self) -> bool {
        false
    }

    /// The default settings of the layout.
    fn config(&self) -> Box<dyn LayoutConfig>;

    /// The bytes at the beginning of its superblock and of each replica of it.
    fn magic(&self) -> &'static [u8; 8];

    /// The largest sector size, in bytes, with which a device can hold the volume that is on
    /// `device`; `None` if any size will do or no volume can be read there.
    fn largest_sector<'a>(&'a self, device: &'a dyn BlockDevice) -> BoxFuture<'a, Option<u32>>;

    /// Checks a volume without the code that runs it, and repairs it if `how` says so. `progress`
    /// is called with the amount of work done and the total.
    ///
    /// # Errors
    /// If the device holds no volume of this layout, the layout cannot do what is requested, or the
    /// device fails.
    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        how: CheckRequest,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> BoxFuture<'a, Result<CheckReport>>;

    /// Notes on a volume that is not open that the contents of its files are missing, so that what is
    /// read in their place is compared with no checksum. Nothing to note without checksums of
    /// contents.
    ///
    /// # Errors
    /// If there is no volume, or the device fails.
    fn without_contents<'a>(&'a self, _device: &'a dyn BlockDevice) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Makes another state the head of a volume that is not open, and closes it.
    ///
    /// # Errors
    /// If the layout keeps no states, there is none of that name, it cannot become the head, or there is no room.
    fn set_head<'a>(
        &'a self,
        _rt: &'a Rt,
        _device: Rc<dyn BlockDevice>,
        _change: &'a HeadChange,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Err(FsError::NotSupported(NO_SNAPSHOTS))))
    }

    /// The paths that differ between two states of a volume, in the order of their names.
    ///
    /// # Errors
    /// If the layout keeps no states, or one cannot be read.
    fn differences<'a>(
        &'a self,
        _from: &'a Volume,
        _to: &'a Volume,
    ) -> BoxFuture<'a, Result<Vec<Difference>>> {
        Box::pin(std::future::ready(Err(FsError::NotSupported(NO_SNAPSHOTS))))
    }

    /// What two states of a volume have in common; `None` if the layout keeps no states.
    fn shared<'a>(&'a self, _from: &'a Volume, _to: &'a Volume) -> Option<Box<dyn Shared + 'a>> {
        None
    }

    /// Marks as used on one volume what is used on another one, made in the same way; neither is open. No
    /// file has that space, so that it is for experiments: a check finds it.
    ///
    /// # Errors
    /// If the layout has no such map, the volumes are not alike, or a device fails.
    fn copy_used<'a>(
        &'a self,
        _from: &'a dyn BlockDevice,
        _to: &'a dyn BlockDevice,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(std::future::ready(Err(FsError::Invalid("no map of free space is on the volume"))))
    }

    /// The structures of a volume that can be dumped, besides [those of files](dump::OF_FILES).
    fn structures(&self) -> &'static [dump::Structure];

    /// Dumps a structure of a volume that is not open.
    ///
    /// # Errors
    /// If there is no volume, or the requested structure does not exist. Damage is no error: it is
    /// reported to the sink.
    fn dump<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        request: &'a dump::Request,
        sink: &'a mut dyn dump::Sink,
    ) -> BoxFuture<'a, std::result::Result<(), dump::DumpError>>;

    /// The properties of an open volume that programs show, in the order in which they show them.
    fn properties(&self, volume: &Volume) -> Vec<VolumeProperty>;
}

impl fmt::Debug for dyn LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A property of an open volume, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeProperty {
    /// The name of the property.
    pub name: &'static str,
    /// The value, for display.
    pub value: String,
}

impl VolumeProperty {
    /// A property with this name and value.
    pub fn new(name: &'static str, value: impl Into<String>) -> VolumeProperty {
        VolumeProperty { name, value: value.into() }
    }
}

/// The options of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckRequest {
    /// Also read the data of files and compare it with its checksums.
    pub data: bool,
    /// Repair what is wrong.
    pub repair: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The findings, one text each; after a repair, those that were repaired as well.
    pub findings: Vec<String>,
    /// The number of findings that are not in the list, because it would be too long.
    pub more_findings: u64,
    /// What the volume contains, in lines for display.
    pub notes: Vec<String>,
    /// The number of files that a repair moved to `lost+found`.
    pub rescued: u64,
    /// The contents of files were not read: nothing is known of them.
    pub skipped_data: bool,
}

impl CheckReport {
    /// True if there are no findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.more_findings == 0
    }
}

/// A volume that was opened.
pub struct Opened {
    /// The open volume.
    pub volume: Volume,
    /// What recovery did, for display, if the volume had not been closed.
    pub recovery: Option<String>,
}

/// The help for one setting of a layout, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHelp {
    /// The name of the setting.
    pub name: &'static str,
    /// What the setting does, in one line.
    pub about: &'static str,
    /// The form in which values are written.
    pub form: String,
    /// The current value, as text.
    pub value: String,
}

/// The identity of a new volume, and who owns its root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The number that distinguishes the volume from all others.
    pub uuid: [u8; 16],
    /// Owner, group and permission bits of the root directory.
    pub root: (u32, u32, u32),
}

/// The settings of one layout, with which volumes are made and opened.
pub trait LayoutConfig: Send + Sync {
    /// A copy of the settings; [`Clone`] for the boxed trait uses it.
    fn boxed(&self) -> Box<dyn LayoutConfig>;

    /// Sets one key.
    ///
    /// # Errors
    /// If there is no such key, or no such value.
    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), SettingsError>;

    /// The help for all keys, with their current values.
    fn keys(&self) -> Vec<KeyHelp>;

    /// How a volume with these settings writes, in words that complete "it".
    fn writes(&self) -> &'static str;

    /// What a crash may take of a volume with these settings although it was synced, in words that complete "a crash
    /// may lose"; `None` if nothing.
    fn risk(&self) -> Option<&'static str>;

    /// Called after the last [`set`](Self::set): computes the settings that depend on others,
    /// except those that the user set by name, for which `asked` returns true.
    fn complete(&mut self, asked: &dyn Fn(&str) -> bool);

    /// Makes a volume on the device and returns a description of it, for display.
    ///
    /// # Errors
    /// If the sizes do not fit the device or each other, or the device fails.
    fn mkfs<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        identity: Identity,
    ) -> BoxFuture<'a, Result<String>>;

    /// Opens a volume.
    ///
    /// # Errors
    /// If there is no volume on the device, it is damaged, or the device fails.
    fn open<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
    ) -> BoxFuture<'a, Result<Opened>>;

    /// Sets one of the keys that can be chosen anew each time a volume is opened.
    ///
    /// # Errors
    /// If there is no such key, or no such value.
    fn set_for_open(&mut self, key: &str, value: &str) -> std::result::Result<(), SettingsError>;

    /// The keys of [`set_for_open`](Self::set_for_open) whose values are not the default ones, as
    /// `key=value` with commas between them. A recorded run is repeated with this text.
    fn text(&self) -> String;
}

/// The settings of one layout as its crate declares them: a value, the keys of its fields, and what is
/// done with it. [`LayoutConfig`] follows.
pub trait DeclaredConfig: Clone + Default + Send + Sync + 'static {
    /// The keys of settings that a volume has from when it is made.
    const MAKING: &'static [Key<Self>];

    /// The keys of settings that can be chosen anew each time a volume is opened.
    const OPENING: &'static [Key<Self>];

    /// See [`LayoutConfig::complete`].
    fn complete(&mut self, _asked: &dyn Fn(&str) -> bool) {}

    /// See [`LayoutConfig::writes`].
    fn writes(&self) -> &'static str {
        "writes blocks to their own places"
    }

    /// See [`LayoutConfig::risk`].
    fn risk(&self) -> Option<&'static str> {
        None
    }

    /// See [`LayoutConfig::mkfs`].
    fn mkfs(
        &self,
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        identity: Identity,
    ) -> impl Future<Output = Result<String>>;

    /// See [`LayoutConfig::open`].
    fn open(
        &self,
        rt: &Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
    ) -> impl Future<Output = Result<Opened>>;
}

impl<T: DeclaredConfig> LayoutConfig for T {
    fn boxed(&self) -> Box<dyn LayoutConfig> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), SettingsError> {
        let keys = || T::MAKING.iter().chain(T::OPENING);
        match keys().find(|known| known.name == key) {
            Some(known) => known.set(self, value),
            None => Err(SettingsError::unknown("setting", key, keys().map(|known| known.name))),
        }
    }

    fn keys(&self) -> Vec<KeyHelp> {
        let help = |key: &Key<T>| KeyHelp {
            name: key.name,
            about: key.about,
            form: key.form(),
            value: key.text(self),
        };
        T::MAKING.iter().chain(T::OPENING).map(help).collect()
    }

    fn complete(&mut self, asked: &dyn Fn(&str) -> bool) {
        DeclaredConfig::complete(self, asked);
    }

    fn writes(&self) -> &'static str {
        DeclaredConfig::writes(self)
    }

    fn risk(&self) -> Option<&'static str> {
        DeclaredConfig::risk(self)
    }

    fn mkfs<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        identity: Identity,
    ) -> BoxFuture<'a, Result<String>> {
        Box::pin(DeclaredConfig::mkfs(self, rt, device, identity))
    }

    fn open<'a>(
        &'a self,
        rt: &'a Rt,
        device: Rc<dyn BlockDevice>,
        cpu: Cpu,
        settings: Settings,
    ) -> BoxFuture<'a, Result<Opened>> {
        Box::pin(DeclaredConfig::open(self, rt, device, cpu, settings))
    }

    fn set_for_open(&mut self, key: &str, value: &str) -> std::result::Result<(), SettingsError> {
        set(self, T::OPENING, key, value)
    }

    fn text(&self) -> String {
        text_of(self, &T::default(), T::OPENING)
    }
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

//! The file systems that take part: how each is made and mounted.

use std::path::Path;

use twin_fs::{LayoutConfig, LayoutKind};
use twin_lab::layouts::layout;
use twin_lab::{Commands, is_of_machine};
use twin_settings::{SettingsError, grammar};

use crate::runner::TWINFS;

/// How a file system gets into place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mount {
    /// By the kernel: type and options.
    Kernel(&'static str, &'static str),
    /// By a daemon that stays in the foreground. `DEVICE` and `DIR` stand for the two.
    Daemon(&'static [&'static str]),
    /// By a daemon, over a tmpfs in place of the device, which then stands for `DEVICE`.
    OverMemory(&'static [&'static str]),
}

/// A kind of file system.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    /// The command that makes one, the device at its end. `twinfs` is this program, which makes ours.
    mkfs: &'static [&'static str],
    mount: Mount,
}

/// A file system that can be made and mounted: a kind, and for ours with what settings it is opened.
#[derive(Clone, Debug)]
pub struct System {
    kind: Kind,
    /// As `alloc=whole-file`; empty: the defaults.
    settings: String,
    ours: Option<Ours>,
    /// The options that make and mount one of ours with these settings.
    commands: Commands,
}

/// One of our layouts, with the settings with which it is opened.
#[derive(Clone, Debug)]
pub struct Ours {
    /// The layout.
    pub layout: &'static dyn LayoutKind,
    /// Its settings.
    pub config: Box<dyn LayoutConfig>,
}

impl System {
    /// One of ours, of this layout, with nothing special. Works for layouts that have no row here, too.
    pub fn of_layout(layout: &'static dyn LayoutKind) -> System {
        let known = KINDS.iter().find(|kind| kind.name == layout.name());
        let kind = Kind { name: layout.name(), mkfs: &[TWINFS], mount: OURS };
        let kind = known.copied().unwrap_or(kind);
        let mut config = layout.config();
        config.complete(&|_| false);
        System {
            kind,
            settings: String::new(),
            ours: Some(Ours { layout, config }),
            commands: Commands::of(layout, &[]).unwrap_or_default(),
        }
    }

    /// The file system of this name, ours perhaps as `ffs:alloc=whole-file`.
    ///
    /// # Errors
    /// If there is none, it cannot take part, or it has no such settings.
    pub fn parse(text: &str) -> Result<System, Wrong> {
        let (name, settings) = parts(text);
        let kind = KINDS.iter().find(|kind| kind.name == name).copied();
        // A layout without a row here can take part, too.
        let of_layout = || layout(name).ok().map(|layout| System::of_layout(layout).kind);
        let kind = kind.or_else(of_layout).ok_or_else(|| Wrong::Name(unknown(text)))?;
        System::of(&kind, settings).map_err(Wrong::Settings)
    }

    fn of(kind: &Kind, settings: &str) -> Result<System, String> {
        let ours = match kind.mkfs.first() {
            Some(&TWINFS) => layout(kind.name).ok(),
            _ => None,
        };
        let (ours, commands) = match (ours, settings) {
            (None, "") => (None, Commands::default()),
            (None, _) => {
                return Err(format!("{}: only file systems of ours have settings here", kind.name));
            }
            (Some(layout), settings) => {
                let said = |why: SettingsError| format!("{}:{settings}: {why}", kind.name);
                let parsed = match settings {
                    "" => twin_lab::Config::parse(layout.name()),
                    settings => twin_lab::Config::parse(&format!("{}:{settings}", layout.name())),
                };
                let config = parsed.map_err(said)?.of_layout;
                let all = grammar::settings(settings).map_err(said)?;
                let commands = Commands::of(layout, &all).map_err(said)?;
                if let Some(of_machine) = all.iter().find(|one| is_of_machine(one.key)) {
                    let why = format!("{} is of the machine, which is there", of_machine.key);
                    return Err(said(SettingsError::new(why)));
                }
                (Some(Ours { layout, config }), commands)
            }
        };
        Ok(System { kind: *kind, settings: settings.into(), ours, commands })
    }

    /// As it was asked for.
    pub fn name(&self) -> String {
        match &self.settings[..] {
            "" => self.kind.name.into(),
            settings => format!("{}:{settings}", self.kind.name),
        }
    }

    /// The layout and its settings, if it is one of ours.
    pub fn ours(&self) -> Option<&Ours> {
        self.ours.as_ref()
    }

    /// Whether this program makes and mounts it.
    pub(crate) fn is_ours(&self) -> bool {
        self.ours.is_some()
    }

    /// The command that makes one, but for the device.
    pub(crate) fn mkfs(&self) -> Vec<&str> {
        if self.ours.is_none() {
            return self.kind.mkfs.to_vec();
        }
        let own = self.commands.mkfs.iter().map(String::as_str);
        [TWINFS, "mkfs", "--force"].into_iter().chain(own).collect()
    }

    /// Whether it is served by a daemon over the device, with caches of its own.
    pub(crate) fn has_daemon(&self) -> bool {
        matches!(self.kind.mount, Mount::Daemon(_))
    }

    pub(crate) fn mount(&self) -> Mount {
        self.kind.mount
    }

    /// The words that give the settings to `twinfs mount`.
    pub(crate) fn mount_words(&self) -> Vec<&str> {
        self.commands.mount.iter().map(String::as_str).collect()
    }

    /// True if its settings choose the size of its cache.
    pub(crate) fn has_cache(&self) -> bool {
        self.commands.mount.iter().any(|word| word == CACHE_OPTION)
    }

    /// Fails unless everything is installed that making and mounting it on a loop device takes.
    ///
    /// # Errors
    /// If a program is missing: which one.
    pub fn must_be_installed(&self) -> Result<(), Wrong> {
        loop_devices_possible()?;
        match self.missing() {
            None => Ok(()),
            Some(tool) => {
                Err(Wrong::Missing(format!("{}: {tool} is not installed", self.kind.name)))
            }
        }
    }

    /// The first program that it lacks.
    fn missing(&self) -> Option<&'static str> {
        self.kind.tools().find(|tool| !installed(tool))
    }
}

/// Why a file system cannot take part.
#[derive(Clone, Debug)]
pub enum Wrong {
    /// There is none of this name.
    Name(SettingsError),
    /// It has no such settings.
    Settings(String),
    /// It, or what all need, is not installed.
    Missing(String),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wrong::Name(error) => error.fmt(f),
            Wrong::Settings(why) | Wrong::Missing(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Wrong {}

/// The option of `twinfs mount` for its cache.
pub(crate) const CACHE_OPTION: &str = "--cache";

/// How ours get into place.
const OURS: Mount = Mount::Daemon(&[TWINFS, "mount", "--foreground", "DEVICE", "DIR"]);

/// Ours first. What is written is kept on the device: none may discard, which would make holes in
/// the file below, and none may leave work for later.
const KINDS: &[Kind] = &[
    Kind { name: "lfs", mkfs: &[TWINFS], mount: OURS },
    Kind { name: "ffs", mkfs: &[TWINFS], mount: OURS },
    Kind {
        name: "ext4",
        mkfs: &["mkfs.ext4", "-q", "-F", "-E", EXT4],
        mount: Mount::Kernel("ext4", "rw"),
    },
    Kind { name: "xfs", mkfs: &["mkfs.xfs", "-q", "-f", "-K"], mount: Mount::Kernel("xfs", "rw") },
    Kind {
        name: "btrfs",
        mkfs: &["mkfs.btrfs", "-q", "-f", "-K"],
        mount: Mount::Kernel("btrfs", "nodiscard"),
    },
    Kind {
        name: "fuse2fs",
        mkfs: &["mkfs.ext4", "-q", "-F", "-E", EXT4],
        mount: Mount::Daemon(&["fuse2fs", "-f", "DEVICE", "DIR"]),
    },
    Kind {
        name: "ntfs-3g",
        mkfs: &["mkntfs", "-q", "-Q", "-F"],
        mount: Mount::Daemon(&["ntfs-3g", "-o", "no_detach", "DEVICE", "DIR"]),
    },
    Kind {
        name: "bindfs",
        mkfs: &[],
        mount: Mount::OverMemory(&["bindfs", "-f", "DEVICE", "DIR"]),
    },
];

const EXT4: &str = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";

impl Kind {
    /// The programs that it takes, this one apart.
    fn tools(&self) -> impl Iterator<Item = &'static str> {
        let daemon = match self.mount {
            Mount::Kernel(..) => None,
            Mount::Daemon(words) | Mount::OverMemory(words) => words.first(),
        };
        self.mkfs.first().into_iter().chain(daemon).copied().filter(|&tool| tool != TWINFS)
    }
}

/// True if a program is installed.
fn installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    let dirs: Vec<_> = std::env::split_paths(&path).chain(usual).collect();
    dirs.iter().any(|dir| Path::new(dir).join(tool).is_file())
}

fn loop_devices_possible() -> Result<(), Wrong> {
    match installed("losetup") {
        true => Ok(()),
        false => Err(Wrong::Missing("losetup is not installed: install util-linux".into())),
    }
}

/// A file system that cannot take part, and the tool that it lacks.
pub type Missing = (&'static str, &'static str);

/// The name of a kind, and the settings behind it.
fn parts(name: &str) -> (&str, &str) {
    name.split_once(':').filter(|(_, settings)| !settings.is_empty()).unwrap_or((name, ""))
}

/// The error that no file system of this name can be made.
fn unknown(name: &str) -> SettingsError {
    SettingsError::unknown("file system", parts(name).0, KINDS.iter().map(|kind| kind.name))
}

/// The systems of these names, ours as `ffs:alloc=whole-file` if they have settings, or all; and those
/// that lack a tool. A system that was named must be there.
///
/// # Errors
/// If a name stands for none, for one that cannot take part, or for one that has no such settings; or if
/// loop devices cannot be had.
pub fn choose(names: &[String]) -> Result<(Vec<System>, Vec<Missing>), Wrong> {
    let mut named: Vec<System> = Vec::new();
    for name in names {
        let system = System::parse(name)?;
        if !named.iter().any(|other| other.name() == system.name()) {
            named.push(system);
        }
    }
    loop_devices_possible()?;
    named.iter().try_for_each(System::must_be_installed)?;
    if names.is_empty() {
        let all = KINDS.iter().filter_map(|kind| System::of(kind, "").ok());
        let (there, missing) = all.partition::<Vec<_>, _>(|system| system.missing().is_none());
        let missing = missing.iter().filter_map(|one| Some((one.kind.name, one.missing()?)));
        return Ok((there, missing.collect()));
    }
    // In the order of the table, those of one kind in that of their names.
    let place = |system: &System| KINDS.iter().position(|kind| kind.name == system.kind.name);
    named.sort_by_key(place);
    Ok((named, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_and_mistakes_are_told() {
        let Ok((kinds, _)) = choose(&["ffs".into(), "lfs".into()]) else {
            return; // A machine without losetup.
        };
        assert_eq!(kinds.iter().map(System::name).collect::<Vec<_>>(), ["lfs", "ffs"]);
        let error = choose(&["zfs".into()]).unwrap_err().to_string();
        assert!(error.contains("zfs") && error.contains("ext4"), "{error}");
    }

    #[test]
    fn ours_take_part_with_settings_too() {
        let Ok((kinds, _)) =
            choose(&["ffs".into(), "lfs:victim=greedy".into(), "ffs:alloc=whole-file".into()])
        else {
            return; // A machine without losetup.
        };
        let names: Vec<_> = kinds.iter().map(System::name).collect();
        assert_eq!(names, ["lfs:victim=greedy", "ffs", "ffs:alloc=whole-file"]);
        let words: Vec<_> = kinds.iter().map(System::mount_words).collect();
        let none: &[&str] = &[];
        assert_eq!(words, [&["--cleaner", "victim=greedy"], none, &["--alloc", "whole-file"]]);
        let Ok((sync, _)) = choose(&["ffs:ordering=sync".into()]) else { return };
        assert_eq!(sync[0].mkfs()[3..], ["--layout", "ffs", "--ordering", "sync"]);
        assert_eq!((sync[0].name().as_str(), sync[0].mount_words()), ("ffs:ordering=sync", vec![]));
        let many = "lfs:segment=256K,cache=8M,flush=delayed,flush-age=5s";
        let Ok((many, _)) = choose(&[many.into()]) else { return };
        assert_eq!(many[0].mkfs()[3..], ["--layout", "lfs", "--segment-size", "256K"]);
        let words = ["--cache", "8M", "--flush", "delayed:flush-age=5s"];
        assert!(many[0].mount_words() == words && many[0].has_cache());
        assert!(System::parse("vsfs").is_ok(), "a layout without a row");
        for wrong in [
            "lfs:disk=hp97560",
            "ffs:alloc=best",
            "ffs:ordering=best",
            "lfs:ordering=sync",
            "ffs:reallocate=no",
            "ext4:alloc=whole-file",
            "ffs:",
        ] {
            assert!(choose(&[wrong.into()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ours_need_no_tools_and_no_system_discards() {
        assert!(KINDS[..2].iter().all(|kind| kind.tools().next().is_none()));
        assert!(KINDS.iter().all(|kind| !kind.mkfs.contains(&"discard")));
    }
}

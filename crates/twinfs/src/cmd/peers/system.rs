//! The file systems that take part: how each is made and mounted.

use std::path::Path;

use twin_lab::layouts::layout;
use twin_settings::SettingsError;

use crate::cmd::opening::set_for_open;

/// How a file system gets into place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mount {
    /// By the kernel: type and options.
    Kernel(&'static str, &'static str),
    /// By a daemon that stays in the foreground. `DEVICE` and `DIR` stand for the two.
    Daemon(&'static [&'static str]),
    /// By a daemon, over a tmpfs in place of the device, which then stands for `DEVICE`.
    OverMemory(&'static [&'static str]),
}

/// A kind of file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The command that makes one, the device at its end. `twinfs` is this program.
    pub(super) mkfs: &'static [&'static str],
    pub(super) mount: Mount,
}

/// A file system that takes part: a kind, and for ours with what settings it is opened.
#[derive(Clone, Debug)]
pub(in crate::cmd) struct Chosen {
    pub(super) kind: Kind,
    /// As `alloc=whole-file`; empty: the defaults.
    pub(in crate::cmd) settings: String,
}

impl Chosen {
    /// The name of its kind.
    pub(in crate::cmd) fn kind(&self) -> &'static str {
        self.kind.name
    }

    /// As it was asked for.
    pub(in crate::cmd) fn name(&self) -> String {
        match &self.settings[..] {
            "" => self.kind.name.into(),
            settings => format!("{}:{settings}", self.kind.name),
        }
    }

    /// The words that give the settings to `twinfs mount`.
    pub(super) fn mount_words(&self) -> Vec<&str> {
        match (&self.settings[..], self.settings.strip_prefix(ALLOC)) {
            ("", _) => Vec::new(),
            (_, Some(policy)) => vec!["--alloc", policy],
            (settings, None) => vec!["--cleaner", settings],
        }
    }
}

/// The setting that `twinfs mount` has an option for.
const ALLOC: &str = "alloc=";

/// Ours first. What is written is kept on the device: none may discard, which would make holes in
/// the file below, and none may leave work for later.
const KINDS: &[Kind] = &[
    Kind {
        name: "lfs",
        mkfs: &["twinfs", "mkfs", "--force", "--layout", "lfs"],
        mount: Mount::Daemon(&["twinfs", "mount", "--foreground", "DEVICE", "DIR"]),
    },
    Kind {
        name: "ffs",
        mkfs: &["twinfs", "mkfs", "--force", "--layout", "ffs"],
        mount: Mount::Daemon(&["twinfs", "mount", "--foreground", "DEVICE", "DIR"]),
    },
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
        self.mkfs.first().into_iter().chain(daemon).copied().filter(|&tool| tool != "twinfs")
    }
}

/// True if a program is installed.
fn installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    let dirs: Vec<_> = std::env::split_paths(&path).chain(usual).collect();
    dirs.iter().any(|dir| Path::new(dir).join(tool).is_file())
}

/// A file system that cannot take part, and the tool that it lacks.
pub(in crate::cmd) type Missing = (&'static str, &'static str);

/// The name of a kind, and the settings behind it.
fn parts(name: &str) -> (&str, &str) {
    name.split_once(':').filter(|(_, settings)| !settings.is_empty()).unwrap_or((name, ""))
}

/// True if a file system of this name, with settings or without, can be made.
pub(in crate::cmd) fn is_system(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.name == parts(name).0)
}

/// The error that no file system of this name can be made.
pub(in crate::cmd) fn unknown(name: &str) -> SettingsError {
    SettingsError::unknown("file system", parts(name).0, KINDS.iter().map(|kind| kind.name))
}

/// That a mount of this kind can have these settings.
fn check_settings(kind: &Kind, settings: &str) -> Result<(), String> {
    if settings.is_empty() {
        return Ok(());
    }
    let ours = layout(kind.name).ok().filter(|_| kind.mkfs.first() == Some(&"twinfs"));
    let Some(layout) = ours else {
        return Err(format!("{}: only file systems of ours have settings here", kind.name));
    };
    // What `twinfs mount` has no option for would end the mount without a word.
    if !layout.is_log() && !settings.starts_with(ALLOC) {
        return Err(format!("{}:{settings}: a mount takes {ALLOC}POLICY alone", kind.name));
    }
    let set = set_for_open(&mut *layout.config(), settings);
    set.map_err(|why| format!("{}:{settings}: {why}", kind.name))
}

/// The systems of these names, ours as `ffs:alloc=whole-file` if they have settings, or all; and those
/// that lack a tool. A system that was named must be there.
///
/// # Errors
/// If a name stands for none, for one that cannot take part, or for one that has no such settings; or if
/// loop devices cannot be had.
pub(in crate::cmd) fn choose(names: &[String]) -> Result<(Vec<Chosen>, Vec<Missing>), String> {
    if !installed("losetup") {
        return Err("losetup is not installed: install util-linux".into());
    }
    if let Some(name) = names.iter().find(|name| !is_system(name)) {
        return Err(unknown(name).to_string());
    }
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let named = names.iter().map(|name| parts(name)).filter(|(name, _)| *name == kind.name);
        let mut all: Vec<&str> = Vec::new();
        for (_, settings) in named {
            if !all.contains(&settings) {
                all.push(settings);
            }
        }
        let is_named = !all.is_empty();
        if names.is_empty() {
            all.push("");
        }
        for settings in all {
            check_settings(kind, settings)?;
            match kind.tools().find(|tool| !installed(tool)) {
                None => there.push(Chosen { kind: *kind, settings: settings.into() }),
                Some(tool) if is_named => {
                    return Err(format!("{}: {tool} is not installed", kind.name));
                }
                Some(tool) => missing.push((kind.name, tool)),
            }
        }
    }
    Ok((there, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_and_mistakes_are_told() {
        let Ok((kinds, _)) = choose(&["ffs".into(), "lfs".into()]) else {
            return; // A machine without losetup.
        };
        assert_eq!(kinds.iter().map(Chosen::name).collect::<Vec<_>>(), ["lfs", "ffs"]);
        let error = choose(&["zfs".into()]).unwrap_err();
        assert!(error.contains("zfs") && error.contains("ext4"), "{error}");
    }

    #[test]
    fn ours_take_part_with_settings_too() {
        let Ok((kinds, _)) =
            choose(&["ffs".into(), "lfs:victim=greedy".into(), "ffs:alloc=whole-file".into()])
        else {
            return; // A machine without losetup.
        };
        let names: Vec<_> = kinds.iter().map(Chosen::name).collect();
        assert_eq!(names, ["lfs:victim=greedy", "ffs", "ffs:alloc=whole-file"]);
        let words: Vec<_> = kinds.iter().map(Chosen::mount_words).collect();
        let none: &[&str] = &[];
        assert_eq!(words, [&["--cleaner", "victim=greedy"], none, &["--alloc", "whole-file"]]);
        for wrong in [
            "ffs:alloc=best",
            "ffs:ordering=sync",
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

//! The options of `twinfs mkfs` and `twinfs mount` that make a configuration real.
//!
//! Contract: every setting of a volume has an option here or is refused, so that a volume that is made and mounted
//! with these options is the one that was simulated. Settings of the machine (disk, processor, bus) have none and are
//! left out: the machine is there.

use twin_fs::LayoutKind;
use twin_settings::value::percent;
use twin_settings::{Setting, SettingsError};

/// The cache of a mount, unless another one is chosen.
pub const MOUNT_CACHE: &str = "256M";

/// The keys with which the flush policy of a mount is chosen.
pub const FLUSH: &str = "flush";
const OF_FLUSH: [&str; 2] = ["flush-age", "flush-by"];
/// The key that says so of a simulation.
pub const MOUNT_FLUSH: &str = "mount-flush";
/// The key of the size of the volume.
const SIZE: &str = "size";
/// The key that has its option only in percent.
const MINFREE: &str = "minfree";

/// The keys of the machine and of a simulation.
const OF_MACHINE: [&str; 19] = [
    "disk",
    "queue",
    "cpu",
    "cpus",
    "bus",
    "bus-rate",
    "command-us",
    "ncq",
    "drive-read-ahead",
    "report-early",
    "skews",
    "ssd",
    "request-us",
    "block-us",
    "copy-us",
    "remove-us",
    "seed",
    "front-end",
    "content",
];

/// Keys with their options of `twinfs mkfs`.
const MKFS: [(&str, &str); 8] = [
    ("profile", "--profile"),
    (SIZE, "--size"),
    ("block", "--block-size"),
    ("frag", "--frag-size"),
    ("segment", "--segment-size"),
    (MINFREE, "--minfree"),
    ("ordering", "--ordering"),
    ("bytes-per-inode", "--bytes-per-inode"),
];

/// Keys with their options of `twinfs mount`.
const MOUNT: [(&str, &str); 4] = [
    ("cache", "--cache"),
    ("replacement", "--replacement"),
    ("alloc", "--alloc"),
    ("order", "--order"),
];

/// The words of two commands, without their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Behind `twinfs mkfs`.
    pub mkfs: Vec<String>,
    /// Behind `twinfs mount`.
    pub mount: Vec<String>,
}

/// True of a key of the machine, which volumes do not have.
pub fn is_of_machine(key: &str) -> bool {
    OF_MACHINE.contains(&key)
}

impl Commands {
    /// Those that make a volume of this layout with these settings, and mount it. Of two settings of one key the last
    /// holds.
    ///
    /// # Errors
    /// If a setting has no option: no volume could be made or mounted so.
    pub fn of(
        layout: &dyn LayoutKind,
        settings: &[Setting<'_>],
    ) -> Result<Commands, SettingsError> {
        let mut commands = Commands::default();
        commands.mkfs.extend(["--layout".to_string(), layout.name().into()]);
        let (mut flush, mut of_flush, mut of_log) = (None, Vec::new(), Vec::new());
        for (nth, &Setting { key, value }) in settings.iter().enumerate() {
            let is_last = !settings[nth + 1..].iter().any(|later| later.key == key);
            if !is_last || is_of_machine(key) || key == MOUNT_FLUSH || key == "layout" {
                continue;
            }
            let option = |known: &[(&str, &'static str)]| {
                known.iter().find(|(own, _)| *own == key).map(|(_, option)| option.to_string())
            };
            if let Some(option) = option(&MKFS) {
                if (key, value) != (SIZE, "full") {
                    commands.mkfs.extend([option, mkfs_value(key, value)?]);
                }
            } else if let Some(option) = option(&MOUNT) {
                commands.mount.extend([option, value.into()]);
            } else if key == FLUSH {
                flush = Some(value);
            } else if OF_FLUSH.contains(&key) {
                of_flush.push(format!("{key}={value}"));
            } else if layout.is_log() && layout.config().set_for_open(key, value).is_ok() {
                of_log.push(format!("{key}={value}"));
            } else {
                return Err(no_option(key));
            }
        }
        if let Some(flush) = flush.or((!of_flush.is_empty()).then(default_flush)) {
            let joint = if of_flush.is_empty() { "" } else { ":" };
            commands
                .mount
                .extend(["--flush".to_string(), format!("{flush}{joint}{}", of_flush.join(","))]);
        }
        if !of_log.is_empty() {
            commands.mount.extend(["--cleaner".to_string(), of_log.join(",")]);
        }
        Ok(commands)
    }

    /// The line that makes the volume in this image.
    pub fn mkfs_line(&self, image: &str) -> String {
        format!("twinfs mkfs {} {image}", self.mkfs.join(" "))
    }

    /// The line that mounts it there.
    pub fn mount_line(&self, image: &str, dir: &str) -> String {
        let words = [&["twinfs".to_string(), "mount".to_string()], &self.mount[..]].concat();
        format!("{} {image} {dir}", words.join(" "))
    }
}

/// The policy of which an age alone is said.
fn default_flush() -> &'static str {
    twin_cache::flush::REGISTRY.default_entry().name
}

fn mkfs_value(key: &str, value: &str) -> Result<String, SettingsError> {
    match key {
        MINFREE => Ok(percent(value)?.to_string()),
        _ => Ok(value.into()),
    }
}

fn no_option(key: &str) -> SettingsError {
    SettingsError::new(format!(
        "{key}: neither `twinfs mkfs` nor `twinfs mount` has an option for it, so that no mount can have it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::layout;
    use twin_settings::grammar;

    fn lines(name: &str, settings: &str) -> Result<(String, String), String> {
        let commands = Commands::of(layout(name).unwrap(), &grammar::settings(settings).unwrap());
        let commands = commands.map_err(|error| error.to_string())?;
        Ok((commands.mkfs_line("a.img"), commands.mount_line("a.img", "mnt")))
    }

    #[test]
    fn every_setting_of_a_volume_is_an_option_of_one_of_the_two_commands() {
        let (mkfs, mount) = lines(
            "lfs",
            "size=4G,segment=256K,minfree=20%,cache=8M,victim=greedy,cache=16M,flush=delayed,\
             flush-age=10s,mount-flush=yes,disk=hp97560",
        )
        .unwrap();
        assert_eq!(
            mkfs,
            "twinfs mkfs --layout lfs --size 4G --segment-size 256K --minfree 20 a.img"
        );
        assert_eq!(
            mount,
            "twinfs mount --cache 16M --flush delayed:flush-age=10s --cleaner victim=greedy a.img mnt"
        );
        let (mkfs, mount) = lines("ffs", "ordering=sync,alloc=whole-file,size=full").unwrap();
        assert_eq!(mkfs, "twinfs mkfs --layout ffs --ordering sync a.img");
        assert_eq!(mount, "twinfs mount --alloc whole-file a.img mnt");
        assert_eq!(
            lines("lfs", "order=deadline").unwrap().1,
            "twinfs mount --order deadline a.img mnt"
        );
        assert_eq!(lines("lfs", "").unwrap().1, "twinfs mount a.img mnt");
    }

    #[test]
    fn what_no_mount_can_have_is_refused_and_not_forgotten() {
        for (layout, setting) in
            [("ffs", "reallocate=no"), ("lfs", "read-ahead=1M"), ("lfs", "inodes=5")]
        {
            let why = lines(layout, setting).unwrap_err();
            assert!(why.contains("no mount can have it"), "{why}");
        }
    }
}

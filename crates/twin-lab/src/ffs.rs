//! FFS volumes in configurations: what can be set, and how one is made and opened.
//!
//! Contract: [`FfsConfig::set`] knows every setting of the layout by the name under which a
//! configuration writes it; [`make_and_open`] is the hook for whoever runs something on the
//! result, which is a [`Volume`] as that of any other layout.

use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_ffs::format::Profile;
use twin_ffs::{Ffs, FfsSettings, MkfsOptions, dir_placement, ordering, write_behind};
use twin_fs::{Cpu, FsError, Settings, Volume};
use twin_rt::Rt;

/// What a configuration says of an FFS volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FfsConfig {
    /// How it is made.
    pub mkfs: MkfsOptions,
    /// How it is opened.
    pub settings: FfsSettings,
}

impl Default for FfsConfig {
    fn default() -> Self {
        // Simulated volumes need no identity, and equal runs must be equal.
        let mkfs = MkfsOptions::modern(*b"twinfs simulated");
        FfsConfig { mkfs, settings: FfsSettings::default() }
    }
}

/// A setting.
pub struct FfsKey {
    /// Its name.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    set: fn(&mut FfsConfig, &str) -> Result<(), String>,
}

/// All settings. `profile` sets others too, so it should come first.
pub const FFS_KEYS: &[FfsKey] = &[
    FfsKey { name: "profile", about: "structures: classic or modern", set: profile },
    FfsKey {
        name: "ordering",
        about: "metadata ordering",
        set: |c, v| {
            named(v, ordering::registry().iter().map(|e| e.name))?;
            c.mkfs.ordering = v.into();
            Ok(())
        },
    },
    FfsKey {
        name: "dir-placement",
        about: "which group a new directory goes to",
        set: |c, v| {
            named(v, dir_placement::registry().iter().map(|e| e.name))?;
            c.settings.dir_placement = v.into();
            Ok(())
        },
    },
    FfsKey {
        name: "write-behind",
        about: "which blocks are written as soon as they are there",
        set: |c, v| {
            named(v, write_behind::registry().iter().map(|e| e.name))?;
            c.settings.write_behind = v.into();
            Ok(())
        },
    },
    FfsKey {
        name: "reallocate",
        about: "new blocks are moved together before they are written: yes or no",
        set: |c, v| yes_no(v).map(|b| c.settings.reallocate = b),
    },
    FfsKey {
        name: "block",
        about: "bytes of a block",
        set: |c, v| bytes(v).map(|n| c.mkfs.block_size = n),
    },
    FfsKey {
        name: "frag",
        about: "bytes of a fragment",
        set: |c, v| bytes(v).map(|n| c.mkfs.frag_size = n),
    },
    FfsKey {
        name: "group",
        about: "bytes of a cylinder group",
        set: |c, v| bytes(v).map(|n| c.mkfs.group_bytes = Some(n.into())),
    },
    FfsKey {
        name: "bytes-per-inode",
        about: "bytes of space for each inode",
        set: |c, v| bytes(v).map(|n| c.mkfs.bytes_per_inode = n),
    },
    FfsKey {
        name: "journal",
        about: "bytes of the journal",
        set: |c, v| bytes(v).map(|n| c.mkfs.journal_bytes = Some(n.into())),
    },
    FfsKey {
        name: "minfree",
        about: "percent of the space that is kept free",
        set: |c, v| bytes(v).map(|n| c.mkfs.tuning.minfree = n),
    },
    FfsKey {
        name: "maxcontig",
        about: "blocks in a row, and of a cluster",
        set: |c, v| bytes(v).map(|n| c.mkfs.tuning.maxcontig = n),
    },
    FfsKey {
        name: "rotdelay",
        about: "the gap after them, in milliseconds",
        set: |c, v| bytes(v).map(|n| c.mkfs.tuning.rotdelay_ms = n),
    },
    FfsKey {
        name: "cpc",
        about: "cylinders of a cycle of rotational positions; 0: positions are not looked at",
        set: |c, v| bytes(v).map(|n| c.mkfs.tuning.cpc = n),
    },
    FfsKey {
        name: "maxbpg",
        about: "blocks that a file takes from a group at once",
        set: |c, v| bytes(v).map(|n| c.mkfs.tuning.maxbpg = n),
    },
    FfsKey {
        name: "optimize",
        about: "growing fragments: time or space",
        set: |c, v| {
            named(v, ["time", "space"].into_iter())?;
            c.mkfs.tuning.optimize_time = v == "time";
            Ok(())
        },
    },
    FfsKey {
        name: "rpm",
        about: "rotations a minute of the imagined disk",
        set: |c, v| bytes(v).map(|n| c.mkfs.geometry.rpm = n),
    },
    FfsKey {
        name: "sectors",
        about: "sectors on a track of the imagined disk",
        set: |c, v| bytes(v).map(|n| c.mkfs.geometry.sectors_per_track = n),
    },
    FfsKey {
        name: "tracks",
        about: "tracks of a cylinder of the imagined disk",
        set: |c, v| bytes(v).map(|n| c.mkfs.geometry.tracks_per_cylinder = n),
    },
];

fn profile(config: &mut FfsConfig, value: &str) -> Result<(), String> {
    named(value, ["classic", "modern"].into_iter())?;
    let uuid = config.mkfs.uuid;
    config.mkfs = match value {
        "classic" => MkfsOptions::classic(uuid),
        _ => MkfsOptions::modern(uuid),
    };
    Ok(())
}

/// A number, perhaps with K, M or G.
fn bytes(text: &str) -> Result<u32, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: u32 = digits.parse().map_err(|_| format!("{text:?} is not a number"))?;
    number.checked_mul(1 << shift).ok_or(format!("{text} is too large"))
}

fn yes_no(text: &str) -> Result<bool, String> {
    named(text, ["yes", "no"].into_iter()).map(|()| text == "yes")
}

fn named<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let known: Vec<_> = known.collect();
    match known.contains(&name) {
        true => Ok(()),
        false => Err(format!("there is no {name:?}; choose one of: {}", known.join(", "))),
    }
}

impl FfsConfig {
    /// Sets a setting by name.
    ///
    /// # Errors
    /// If there is no such setting or value; the message lists those that there are.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let Some(known) = FFS_KEYS.iter().find(|k| k.name == key) else {
            let all: Vec<_> = FFS_KEYS.iter().map(|k| k.name).collect();
            return Err(format!("{key:?} cannot be set; these can: {}", all.join(", ")));
        };
        (known.set)(self, value).map_err(|e| format!("{key}: {e}"))
    }

    /// True for the classic profile.
    pub fn is_classic(&self) -> bool {
        self.mkfs.profile == Profile::Classic
    }
}

/// Makes an FFS volume on a device and opens it.
///
/// # Errors
/// If the settings do not fit the device, or the device fails.
pub async fn make_and_open(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    cpu: Cpu,
    settings: Settings,
    config: &FfsConfig,
) -> Result<Rc<Volume<Ffs>>, FsError> {
    Ffs::mkfs(rt, Rc::clone(&device), &config.mkfs).await?;
    let (volume, _) = Ffs::open(rt, device, cpu, settings, config.settings.clone()).await?;
    Ok(volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_be_set_and_mistakes_are_told_with_what_there_is() {
        let mut config = FfsConfig::default();
        config.set("profile", "classic").unwrap();
        assert!(config.is_classic());
        for entry in ordering::registry() {
            config.set("ordering", entry.name).unwrap();
        }
        config.set("maxcontig", "1").unwrap();
        assert_eq!(config.mkfs.tuning.maxcontig, 1);
        assert!(config.set("ordering", "none").unwrap_err().contains(ordering::registry()[0].name));
        assert!(config.set("colour", "red").unwrap_err().contains("maxbpg"));
    }

    #[test]
    fn a_simulated_disk_takes_an_ffs_volume() {
        let rt = Rt::new(twin_rt::ClockOnly::default(), 1);
        let options = twin_sim::model::Options {
            size: Some(256 << 20),
            ..twin_sim::model::Options::default()
        };
        let model = twin_sim::model::by_name("hp97560").unwrap().build(&options).unwrap();
        let disk = twin_sim::SimDisk::builder(&rt, model).start();
        let config = FfsConfig::default();
        let work = make_and_open(&rt, Rc::new(disk), Cpu::none(), Settings::default(), &config);
        let volume = rt.block_on(work).unwrap().unwrap();
        assert!(volume.layout.space().1 > 200 << 20);
        rt.crash();
    }
}

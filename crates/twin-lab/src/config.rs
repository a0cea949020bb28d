//! Configurations: a file system, its settings, and the hardware under it.
//!
//! A configuration is written `preset` or `preset:key=value,key=value`. The presets and keys are
//! in the tables here; every value that names a component is looked up in that component's own
//! registry.

use std::fmt;

use crate::presets::presets;
use twin_ffs::FfsSettings;
use twin_ffs::format::Geometry;
use twin_fs::Settings;
use twin_fs::shape::Shape;
use twin_lfs::{LfsSettings, MkfsOptions};
use twin_sim::{UnknownName, bus, cpu, model, queue};

/// Which layout a volume has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// Log-structured.
    Lfs,
    /// Cylinder groups, written in place.
    Ffs,
}

/// A file system and the hardware under it.
#[derive(Clone, Debug)]
pub struct Config {
    /// What to call it: the text that made it.
    pub name: String,
    /// The layout: decides which of the following settings count.
    pub layout: LayoutKind,
    /// How a log-structured volume is made.
    pub mkfs: MkfsOptions,
    /// How a clustered volume is made.
    pub ffs_mkfs: twin_ffs::MkfsOptions,
    /// Settings of the clustered layout.
    pub ffs: FfsSettings,
    /// Settings of the volume.
    pub settings: Settings,
    /// Settings of the log.
    pub lfs: LfsSettings,
    /// The disk, by name.
    pub disk: String,
    /// The order of requests, by name.
    pub queue: String,
    /// The host's processor, by name.
    pub cpu: String,
    /// How many of them.
    pub cpus: u64,
    /// The bus between host and disk, by name; with one the processor also spends time on each
    /// transfer.
    pub bus: Option<String>,
    /// Bytes a second of the bus, in place of its own.
    pub bus_bytes_per_s: Option<u64>,
    /// Microseconds that each command takes before a mechanical disk begins to decode it.
    pub command_us: u64,
    /// Track and cylinder skew of a mechanical disk in sectors, in place of its own.
    pub skews: Option<(u32, u32)>,
    /// Times of a flat SSD, in place of its own.
    pub ssd: Option<model::FlatTimes>,
    /// Costs of the processor in place of its own.
    pub costs: Costs,
    /// Bytes of the volume; `None` for the whole disk.
    pub size: Option<u64>,
    /// The size was asked for: a disk that has less is refused, not taken whole.
    pub size_asked: bool,
}

/// Costs of a processor that a configuration gives in place of the machine's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Preparing a device request, in microseconds.
    pub request_us: Option<u64>,
    /// Handling a block in the cache, in microseconds.
    pub block_us: Option<u64>,
    /// Copying 4 KB between client and cache, in microseconds.
    pub copy_us: Option<u64>,
}

/// What is wrong with the text of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl From<UnknownName> for ConfigError {
    fn from(error: UnknownName) -> Self {
        ConfigError(error.to_string())
    }
}

/// What a configuration must have for a key to make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Lfs,
    Ffs,
    Bus,
    Mechanical,
    Flat,
}

impl Needs {
    /// What is missing in a configuration and what to do, if anything is.
    fn missing(self, config: &Config) -> Option<String> {
        let kind = model::by_name(&config.disk).map(|entry| entry.kind);
        let disk = |needed, what: &str, such: &str| {
            let text = format!("is for {what} disks, and {} is none: choose {such}", config.disk);
            (kind != Ok(needed)).then_some(text)
        };
        let missing = |there: bool, text: &str| (!there).then(|| text.to_string());
        match self {
            Needs::Nothing => None,
            Needs::Lfs => missing(
                config.layout == LayoutKind::Lfs,
                "is for logs, and this layout is ffs: leave it out, or set layout=lfs",
            ),
            Needs::Ffs => missing(
                config.layout == LayoutKind::Ffs,
                "is for clustered volumes, and this layout is lfs: leave it out, or set layout=ffs",
            ),
            Needs::Bus => {
                let text = "counts on a bus alone, and there is none: set bus too";
                missing(config.bus.is_some(), text)
            }
            Needs::Mechanical => disk(model::Kind::Mechanical, "mechanical", "disk=disk-7200"),
            Needs::Flat => disk(model::Kind::Flat, "flat", "disk=ssd-sata"),
        }
    }
}

struct Key {
    name: &'static str,
    needs: Needs,
    about: &'static str,
    set: fn(&mut Config, &str) -> Result<(), ConfigError>,
}

/// What can be set.
const KEYS: &[Key] = &[
    Key {
        name: "disk",
        needs: Needs::Nothing,
        about: "disk model",
        set: |c, v| {
            c.disk = model::by_name(v)?.name.into();
            Ok(())
        },
    },
    Key {
        name: "queue",
        needs: Needs::Nothing,
        about: "order of disk requests",
        set: |c, v| {
            c.queue = queue::by_name(v)?.name.into();
            Ok(())
        },
    },
    Key {
        name: "cpu",
        needs: Needs::Nothing,
        about: "processor model",
        set: |c, v| {
            c.cpu = cpu::by_name(v)?.name.into();
            Ok(())
        },
    },
    Key {
        name: "cpus",
        needs: Needs::Nothing,
        about: "number of processors",
        set: |c, v| up_to(v, 4096).map(|n| c.cpus = n.max(1)),
    },
    Key {
        name: "bus",
        needs: Needs::Nothing,
        about: "bus between host and disk: limits transfers, each of which takes processor time",
        set: |c, v| {
            c.bus = Some(bus::by_name(v)?.name.into());
            Ok(())
        },
    },
    Key {
        name: "bus-rate",
        needs: Needs::Bus,
        about: "bytes a second of the bus, or own",
        set: |c, v| {
            c.bus_bytes_per_s = if v == "own" { None } else { Some(bytes(v)?.max(1)) };
            Ok(())
        },
    },
    Key {
        name: "command-us",
        needs: Needs::Mechanical,
        about: "microseconds of driver and adapter before a disk begins to decode a command",
        set: |c, v| micros(v).map(|n| c.command_us = n),
    },
    Key {
        name: "skews",
        needs: Needs::Mechanical,
        about: "track and cylinder skew of the disk in sectors, as 7/25, or own",
        set: |c, v| {
            if v == "own" {
                c.skews = None;
                return Ok(());
            }
            let Some((track, cylinder)) = v.split_once('/') else {
                return Err(ConfigError(format!("{v:?} is not track/cylinder")));
            };
            c.skews = Some((small(track)?, small(cylinder)?));
            Ok(())
        },
    },
    Key {
        name: "ssd",
        needs: Needs::Flat,
        about: "times of a flat SSD as `twinfs bench --device` prints them: microseconds to read, write \
                and flush, bytes a second: 80/25/1000/550M, or own",
        set: |c, v| {
            c.ssd = if v == "own" { None } else { Some(flat_times(v)?) };
            Ok(())
        },
    },
    Key {
        name: "request-us",
        needs: Needs::Bus,
        about: "microseconds of the processor for a device request, in place of its own",
        set: |c, v| micros(v).map(|n| c.costs.request_us = Some(n)),
    },
    Key {
        name: "block-us",
        needs: Needs::Nothing,
        about: "microseconds of the processor for a block in the cache, in place of its own",
        set: |c, v| micros(v).map(|n| c.costs.block_us = Some(n)),
    },
    Key {
        name: "copy-us",
        needs: Needs::Nothing,
        about: "microseconds of the processor for copying 4 KB, in place of its own",
        set: |c, v| micros(v).map(|n| c.costs.copy_us = Some(n)),
    },
    Key {
        name: "profile",
        needs: Needs::Nothing,
        about: "structures of the log: classic or modern; sets the sizes that go with them",
        set: |c, v| {
            named("profile", v, ["classic", "modern"].into_iter())?;
            let uuid = c.mkfs.uuid;
            (c.mkfs, c.ffs_mkfs) = match v {
                "classic" => (MkfsOptions::classic(uuid), twin_ffs::MkfsOptions::classic(uuid)),
                _ => (MkfsOptions::modern(uuid), twin_ffs::MkfsOptions::modern(uuid)),
            };
            Ok(())
        },
    },
    Key {
        name: "layout",
        needs: Needs::Nothing,
        about: "layout of the volume: lfs or ffs",
        set: |c, v| {
            named("layout", v, ["lfs", "ffs"].into_iter())?;
            c.layout = if v == "ffs" { LayoutKind::Ffs } else { LayoutKind::Lfs };
            Ok(())
        },
    },
    Key {
        name: "ordering",
        needs: Needs::Ffs,
        about: "ffs: how metadata is ordered",
        set: |c, v| {
            named("ordering", v, twin_ffs::ordering::registry().iter().map(|e| e.name))?;
            c.ffs_mkfs.ordering = v.into();
            Ok(())
        },
    },
    Key {
        name: "write-behind",
        needs: Needs::Ffs,
        about: "ffs: what is written as soon as it is there",
        set: |c, v| {
            named("write-behind", v, twin_ffs::write_behind::registry().iter().map(|e| e.name))?;
            c.ffs.write_behind = v.into();
            Ok(())
        },
    },
    Key {
        name: "dir-placement",
        needs: Needs::Ffs,
        about: "ffs: where new directories go",
        set: |c, v| {
            named("placement", v, twin_ffs::dir_placement::registry().iter().map(|e| e.name))?;
            c.ffs.dir_placement = v.into();
            Ok(())
        },
    },
    Key {
        name: "reallocate",
        needs: Needs::Ffs,
        about: "ffs: blocks of a growing file are moved together: yes or no",
        set: |c, v| yes_no(v).map(|b| c.ffs.reallocate = b),
    },
    Key {
        name: "maxcontig",
        needs: Needs::Ffs,
        about: "ffs: blocks laid out, read and written at once",
        set: |c, v| small(v).map(|n| c.ffs_mkfs.tuning.maxcontig = n.max(1)),
    },
    Key {
        name: "rotdelay",
        needs: Needs::Ffs,
        about: "ffs: milliseconds of the gap behind so many blocks",
        set: |c, v| small(v).map(|n| c.ffs_mkfs.tuning.rotdelay_ms = n),
    },
    Key {
        name: "maxbpg",
        needs: Needs::Ffs,
        about: "ffs: blocks that a file may take from a group at a time",
        set: |c, v| small(v).map(|n| c.ffs_mkfs.tuning.maxbpg = n.max(1)),
    },
    Key {
        name: "cpc",
        needs: Needs::Ffs,
        about: "ffs: cylinders after which rotational positions repeat; 0: not looked at",
        set: |c, v| small(v).map(|n| c.ffs_mkfs.tuning.cpc = n),
    },
    Key {
        name: "minfree",
        needs: Needs::Nothing,
        about: "percent of the space that is kept free, at most 50",
        set: |c, v| {
            let percent = small(v)?;
            (c.mkfs.minfree, c.ffs_mkfs.tuning.minfree) = (percent, percent);
            Ok(())
        },
    },
    Key {
        name: "group",
        needs: Needs::Ffs,
        about: "ffs: bytes of a cylinder group",
        set: |c, v| bytes(v).map(|n| c.ffs_mkfs.group_bytes = Some(n)),
    },
    Key {
        name: "geometry",
        needs: Needs::Ffs,
        about: "ffs: the disk as the allocator imagines it: rpm/sectors/tracks",
        set: |c, v| {
            let parts: Vec<_> = v.split('/').map(small).collect::<Result<_, _>>()?;
            let [rpm, sectors_per_track, tracks_per_cylinder] = parts[..] else {
                return Err(ConfigError(format!("{v:?} is not rpm/sectors/tracks")));
            };
            let geometry = Geometry { rpm, sectors_per_track, tracks_per_cylinder };
            c.ffs_mkfs.geometry = geometry;
            Ok(())
        },
    },
    Key {
        name: "checkpoint-segments",
        needs: Needs::Lfs,
        about: "segments written between checkpoints",
        set: |c, v| small(v).map(|n| c.lfs.checkpoint_segments = n),
    },
    Key {
        name: "inodes",
        needs: Needs::Nothing,
        about: "inodes kept in memory beyond those in use",
        set: |c, v| number(v).map(|n| c.settings.cached_inodes = n as usize),
    },
    Key {
        name: "reading",
        needs: Needs::Nothing,
        about: "how files are read: at once, or block by block",
        set: |c, v| {
            named("read policy", v, twin_fs::reading::registry().iter().map(|e| e.name))?;
            c.settings.reading = v.into();
            Ok(())
        },
    },
    Key {
        name: "overwrite",
        needs: Needs::Nothing,
        about: "which blocks are read before they are overwritten: needed, partial or direct",
        set: |c, v| {
            let all = twin_fs::reading::Overwrite::ALL;
            named("rule", v, all.iter().map(|(name, _)| *name))?;
            for (_, rule) in all.iter().filter(|(name, _)| *name == v) {
                c.settings.overwrite = *rule;
            }
            Ok(())
        },
    },
    Key {
        name: "writers-wait",
        needs: Needs::Lfs,
        about: "lfs: writers wait while the log is being written: yes or no",
        set: |c, v| yes_no(v).map(|b| c.lfs.writers_wait = b),
    },
    Key {
        name: "lazy-fsync",
        needs: Needs::Nothing,
        about: "fsync does not wait for what it writes: yes or no",
        set: |c, v| yes_no(v).map(|b| (c.lfs.lazy_fsync, c.ffs.lazy_fsync) = (b, b)),
    },
    Key {
        name: "size",
        needs: Needs::Nothing,
        about: "bytes of the volume (4G, or what the disk has), or full for the whole disk",
        set: |c, v| {
            c.size = if v == "full" { None } else { Some(bytes(v)?) };
            c.size_asked = true;
            Ok(())
        },
    },
    Key {
        name: "cache",
        needs: Needs::Nothing,
        about: "bytes of the block cache",
        set: |c, v| bytes(v).map(|n| c.settings.cache_bytes = n),
    },
    Key {
        name: "replacement",
        needs: Needs::Nothing,
        about: "which clean block leaves the cache",
        set: |c, v| {
            named(
                "replacement policy",
                v,
                twin_cache::replacement::registry().iter().map(|e| e.name),
            )?;
            c.settings.replacement = v.into();
            Ok(())
        },
    },
    Key {
        name: "flush",
        needs: Needs::Nothing,
        about: "when dirty blocks are written",
        set: |c, v| {
            named("flush policy", v, twin_cache::flush::registry().iter().map(|e| e.name))?;
            c.settings.flush = v.into();
            Ok(())
        },
    },
    Key {
        name: "flush-age",
        needs: Needs::Nothing,
        about: "the age at which they are, in milliseconds",
        set: |c, v| {
            up_to(v, 1_000_000_000).map(|n| c.settings.flush_age_ns = Some(n * twin_rt::MILLIS))
        },
    },
    Key {
        name: "read-ahead",
        needs: Needs::Nothing,
        about: "bytes read ahead of a sequential reader",
        set: |c, v| small(v).map(|n| c.settings.read_ahead_bytes = n),
    },
    Key {
        name: "block",
        needs: Needs::Nothing,
        about: "bytes of a block",
        set: |c, v| small(v).map(|n| (c.mkfs.block_size, c.ffs_mkfs.block_size) = (n, n)),
    },
    Key {
        name: "frag",
        needs: Needs::Nothing,
        about: "bytes of a fragment",
        set: |c, v| small(v).map(|n| (c.mkfs.frag_size, c.ffs_mkfs.frag_size) = (n, n)),
    },
    Key {
        name: "segment",
        needs: Needs::Lfs,
        about: "bytes of a segment",
        set: |c, v| small(v).map(|n| c.mkfs.segment_size = Some(n)),
    },
    Key {
        name: "victim",
        needs: Needs::Lfs,
        about: "which segment the cleaner takes first",
        set: |c, v| c.lfs.set_cleaner("victim", v).map_err(ConfigError),
    },
    Key {
        name: "placement",
        needs: Needs::Lfs,
        about: "lfs: which blocks are written together",
        set: |c, v| c.lfs.set_cleaner("placement", v).map_err(ConfigError),
    },
    Key {
        name: "when",
        needs: Needs::Lfs,
        about: "when the log's cleaner works though nobody waits for it",
        set: |c, v| c.lfs.set_cleaner("when", v).map_err(ConfigError),
    },
    Key {
        name: "clean-step",
        needs: Needs::Lfs,
        about: "bytes of its requests then",
        set: |c, v| c.lfs.set_cleaner("clean-step", v).map_err(ConfigError),
    },
    Key {
        name: "content",
        needs: Needs::Nothing,
        about: "what stands for user data: stamps, or the bytes that they stand for",
        set: |c, v| {
            named("content", v, ["stamps", "bytes"].into_iter())?;
            c.settings.expand_stamps = v == "bytes";
            Ok(())
        },
    },
    Key {
        name: "eager-indirect",
        needs: Needs::Lfs,
        about: "indirect blocks go with every log write: yes or no",
        set: |c, v| yes_no(v).map(|b| c.lfs.eager_indirect = b),
    },
];

fn number(text: &str) -> Result<u64, ConfigError> {
    text.parse().map_err(|_| ConfigError(format!("{text:?} is not a number")))
}

fn up_to(text: &str, most: u64) -> Result<u64, ConfigError> {
    match number(text)? {
        n if n <= most => Ok(n),
        _ => Err(ConfigError(format!("{text} is more than {most}"))),
    }
}

/// Microseconds, up to a quarter of an hour: sums of them stay far below the end of time.
fn micros(text: &str) -> Result<u64, ConfigError> {
    up_to(text, 1_000_000_000)
}

/// A number of bytes, as 4096, 64K, 16M or 2G.
pub(crate) fn bytes(text: &str) -> Result<u64, ConfigError> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let too_large = || ConfigError(format!("{text} is too large"));
    number(digits)?.checked_mul(1 << shift).ok_or_else(too_large)
}

fn flat_times(text: &str) -> Result<model::FlatTimes, ConfigError> {
    let parts: Vec<&str> = text.split('/').collect();
    let &[read, write, flush, rate] = &parts[..] else {
        return Err(ConfigError(format!(
            "{text:?} is not read/write/flush/bytes a second, as 80/25/1000/550M"
        )));
    };
    let ns = |text| micros(text).map(|us| us * twin_rt::MICROS);
    let link_bytes_per_s = bytes(rate)?;
    if link_bytes_per_s == 0 {
        return Err(ConfigError(format!("{text:?}: a link moves at least a byte a second")));
    }
    let (read_ns, write_ns, flush_ns) = (ns(read)?, ns(write)?, ns(flush)?);
    Ok(model::FlatTimes { read_ns, write_ns, flush_ns, link_bytes_per_s })
}

fn small(text: &str) -> Result<u32, ConfigError> {
    u32::try_from(bytes(text)?).map_err(|_| ConfigError(format!("{text} is too large")))
}

fn yes_no(text: &str) -> Result<bool, ConfigError> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(ConfigError(format!("{text:?} is neither yes nor no"))),
    }
}

fn named<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Result<(), ConfigError> {
    let known: Vec<_> = known.collect();
    match known.contains(&name) {
        true => Ok(()),
        false => Err(ConfigError(format!(
            "there is no {what} called {name:?}; choose one of: {}",
            known.join(", ")
        ))),
    }
}

impl Config {
    fn base() -> Config {
        Config {
            name: String::new(),
            layout: LayoutKind::Lfs,
            ffs_mkfs: twin_ffs::MkfsOptions::modern(*b"twinfs simulated"),
            ffs: FfsSettings::default(),
            // Simulated volumes need no identity, and equal runs must be equal.
            mkfs: MkfsOptions::modern(*b"twinfs simulated"),
            settings: Settings::default(),
            lfs: LfsSettings::default(),
            disk: "disk-7200".into(),
            queue: "c-look".into(),
            cpu: "modern".into(),
            cpus: 1,
            bus: None,
            bus_bytes_per_s: None,
            command_us: 0,
            skews: None,
            ssd: None,
            costs: Costs::default(),
            size: Some(4 << 30),
            size_asked: false,
        }
    }

    /// Reads a configuration from its text.
    ///
    /// # Errors
    /// If a preset, a key or a value does not exist; the message lists those that do.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let (preset, rest) = text.split_once(':').unwrap_or((text, ""));
        named("configuration", preset, presets().iter().map(|p| p.name))?;
        let mut config = Config::base();
        config.apply_preset(preset, text)?;
        let mut asked = Vec::new();
        for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(ConfigError(format!("{pair:?} is not key=value")));
            };
            config.set(key, value, text)?;
            asked.push(key);
        }
        // Keys may stand in any order, so what they need is known at the end. A preset's own
        // settings may lie idle: the presets that build on it bring what they need.
        for key in KEYS.iter().filter(|key| asked.contains(&key.name)) {
            if let Some(why) = key.needs.missing(&config) {
                return Err(ConfigError(format!("{text}: {} {why}", key.name)));
            }
        }
        if !asked.contains(&"frag") {
            config.fit_fragments();
        }
        config.name = text.into();
        Ok(config)
    }

    /// Fragments that a block of this size can have, where none were asked for.
    fn fit_fragments(&mut self) {
        let (lfs, ffs) = (&mut self.mkfs, &mut self.ffs_mkfs);
        lfs.frag_size = Shape::fragment_for(lfs.block_size, lfs.frag_size);
        ffs.frag_size = Shape::fragment_for(ffs.block_size, ffs.frag_size);
    }

    fn apply_preset(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        for preset in presets().iter().filter(|p| p.name == name) {
            if let Some(base) = preset.base {
                self.apply_preset(base, text)?;
            }
            for (key, value) in preset.sets {
                self.set(key, value, text)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str, text: &str) -> Result<(), ConfigError> {
        let Some(key) = KEYS.iter().find(|k| k.name == key) else {
            let known: Vec<_> = KEYS.iter().map(|k| k.name).collect();
            let known = known.join(", ");
            return Err(ConfigError(format!("{key:?} cannot be set; these can: {known}")));
        };
        (key.set)(self, value).map_err(|e| ConfigError(format!("{text}: {}: {e}", key.name)))
    }
}

/// What is compared when nothing is said.
pub fn defaults() -> Vec<Config> {
    let all = presets().iter().filter(|p| p.compared).map(|p| Config::parse(p.name));
    // Presets parse: a test holds them to it.
    all.filter_map(Result::ok).collect()
}

/// The presets and keys, for people.
pub fn settings_help() -> String {
    let mut out = String::from("Configurations (preset, or preset:key=value,...):\n");
    for p in presets() {
        out += &format!("  {:<16} {}\n", p.name, p.about);
    }
    out += "\nKeys:\n";
    for k in KEYS {
        out += &format!("  {:<16} {}\n", k.name, k.about);
    }
    let list = |title: &str, names: Vec<(&str, &str)>| {
        let lines = names.iter().map(|(name, about)| format!("  {name:<16} {about}\n"));
        format!("\n{title}:\n{}", lines.collect::<String>())
    };
    out += &list("Disks", model::registry().iter().map(|e| (e.name, e.about)).collect());
    out += &list("Queues", queue::registry().iter().map(|e| (e.name, e.about)).collect());
    out += &list("Processors", cpu::registry().iter().map(|e| (e.name, e.about)).collect());
    let flush = twin_cache::flush::registry();
    out += &list("Flush policies", flush.iter().map(|e| (e.name, e.about)).collect());
    let replacement = twin_cache::replacement::registry();
    out += &list("Replacement policies", replacement.iter().map(|e| (e.name, e.about)).collect());
    let orderings = twin_ffs::ordering::registry();
    out += &list("Orderings", orderings.iter().map(|e| (e.name, e.about)).collect());
    let behind = twin_ffs::write_behind::registry();
    out += &list("Write-behind policies", behind.iter().map(|e| (e.name, e.about)).collect());
    let reading = twin_fs::reading::registry();
    out += &list("Read policies", reading.iter().map(|e| (e.name, e.about)).collect());
    let victims = twin_clean::victim::registry();
    out += &list("Victim policies", victims.iter().map(|e| (e.name, e.rule)).collect());
    let placements = twin_clean::placement::registry().iter().filter(|e| e.is_mountable());
    out += &list("Placement policies", placements.map(|e| (e.name, e.rule)).collect());
    let when = twin_clean::when::registry();
    out += &list("When the cleaner works", when.iter().map(|e| (e.name, e.rule)).collect());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_parses() {
        for preset in presets() {
            Config::parse(preset.name).unwrap();
        }
        assert_eq!(defaults().len(), presets().iter().filter(|p| p.compared).count());
    }

    #[test]
    fn settings_are_applied() {
        let config = Config::parse("lfs:disk=hp97560,cache=8M,segment=512K,victim=greedy").unwrap();
        assert_eq!(config.disk, "hp97560");
        assert_eq!(config.settings.cache_bytes, 8 << 20);
        assert_eq!(config.mkfs.segment_size, Some(512 << 10));
        assert_eq!(config.lfs.victim, "greedy");
        let ssd = Config::parse("lfs-ssd:ssd=80/25/1000/1M").unwrap().ssd.unwrap();
        assert_eq!((ssd.read_ns, ssd.flush_ns, ssd.link_bytes_per_s), (80_000, 1_000_000, 1 << 20));
    }

    #[test]
    fn mistakes_are_told_with_what_there_is() {
        for (text, word) in [
            ("ext4", "lfs-classic"),
            ("lfs:disk=floppy", "hp97560"),
            ("lfs:colour=red", "cache"),
            ("lfs:cache=lots", "not a number"),
            ("lfs:ssd=80/25/1000", "80/25/1000/550M"),
            ("lfs:ssd=80/25/1000/0", "a byte a second"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}

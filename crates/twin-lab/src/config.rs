//! Configurations: a file system, its settings, and the hardware under it, as a user has set them. What a run is
//! given besides is a [`Run`](crate::Run).
//!
//! A configuration is written `preset` or `preset:key=value,key=value`, and behind a network
//! `nfs(preset:key=value):key=value` (see [`twin_remote`]). The keys of the machine and
//! of the volume are defined here, those of a layout with the layout. Every value that names a
//! component of the machine becomes that component's entry in its registry when it is parsed.

mod bucket;
mod flat;
mod front;
mod journal;

use std::sync::Arc;

use twin_fs::reading::{self, Overwrite};
use twin_fs::{LayoutConfig, LayoutKind, Settings, flush_by_name, set_flush_by};
use twin_rt::{Order, order};
use twin_settings::value::{bytes, bytes_text, list, number};
use twin_settings::{Choice, Key, Named, RegistryEntry, SettingsError, Unit, grammar};
use twin_sim::{bus, cpu, model, queue};

pub use bucket::Store;
pub use front::Front;
pub use journal::JournalDisk;

use crate::costs::Costs;
use crate::layouts::{LAYOUTS, layout};
use crate::machine_file::MachineFile;
use crate::presets::presets;
use twin_remote::Remote;

/// A file system and the hardware under it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name: the text from which it was parsed.
    pub name: String,
    /// The layout.
    pub layout: &'static dyn LayoutKind,
    /// The layout's own settings.
    pub of_layout: Box<dyn LayoutConfig>,
    /// Settings of the volume.
    pub settings: Settings,
    /// The disk.
    pub disk: Choice<model::Known>,
    /// The scheduling policy of the disk's queue.
    pub queue: Choice<queue::Maker>,
    /// The host's processor.
    pub cpu: Choice<cpu::Kind>,
    /// The number of processors.
    pub cpus: u64,
    /// The bus between host and disk. With a bus the processor also spends time on each
    /// transfer.
    pub bus: Option<Choice<bus::Kind>>,
    /// Bytes a second of the bus, instead of its own.
    pub bus_bytes_per_s: Option<u64>,
    /// Nanoseconds that each command takes before a mechanical disk begins to decode it.
    pub command_ns: u64,
    /// Commands that a mechanical disk accepts at once, instead of its own number.
    pub ncq: Option<u64>,
    /// Bytes that a mechanical disk reads ahead, instead of its own figure.
    pub drive_read_ahead: Option<u64>,
    /// Whether a mechanical disk reports writes before they are on the medium, instead of its own way.
    pub report_early: Option<bool>,
    /// Track and cylinder skew of a mechanical disk in sectors, instead of its own.
    pub skews: Option<(u32, u32)>,
    /// Times of a flat SSD, instead of its own.
    pub ssd: Option<model::FlatTimes>,
    /// The store of a bucket, where it is not that of its model.
    pub store: Store,
    /// The journal before the disk, if there is one.
    pub journal: JournalDisk,
    /// Costs of the processor, instead of its own.
    pub costs: Costs,
    /// Bytes of the volume; `None` for the whole disk.
    pub size: Option<u64>,
    /// Whether the size was given: then a smaller disk is refused rather than used whole.
    pub size_asked: bool,
    /// The order in which ready tasks run.
    pub order: Choice<Order>,
    /// Added to the seed of the run: the random numbers that a user has chosen.
    pub chosen_seed: u64,
    /// What stands between the clients and the core.
    pub front: Front,
    /// Behind a mount the flush policy alone decides when data is durable.
    pub mount_flush: bool,
    /// The network before the volume, and the clients at its other end, if there is one.
    pub remote: Option<Remote>,
    /// The measured machine on which it runs; see [`Config::on_machine`].
    pub machine: Option<Arc<MachineFile>>,
    /// Whether a preset or the user has chosen the disk.
    pub disk_chosen: bool,
}

/// The property that a configuration must have for a key to take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Bus,
    Mechanical,
    Flat,
    Bucket,
    NoBucket,
    Journal,
}

impl Needs {
    /// A message about the property that the configuration lacks, and what to do, if it lacks it.
    fn missing(self, config: &Config) -> Option<String> {
        let disk = |needed, what: &str, such: &str| {
            let text = format!("is for {what} disks, and {} is none: choose {such}", config.disk);
            (config.disk.kind != needed).then_some(text)
        };
        match self {
            Needs::Nothing => None,
            Needs::Bus => {
                let text = "counts on a bus alone, and there is none: set bus too";
                config.bus.is_none().then(|| text.to_string())
            }
            Needs::Mechanical => disk(model::Kind::Mechanical, "mechanical", "disk=disk-7200"),
            Needs::Flat => disk(model::Kind::Flat, "flat", "disk=ssd-sata"),
            Needs::Bucket => disk(model::Kind::Bucket, "bucket", "disk=s3-standard"),
            Needs::NoBucket => {
                let text = "is for disks: a mount of a bucket has a journal of its own kind, which is not modelled";
                config.is_billed().then(|| text.to_string())
            }
            Needs::Journal => {
                let text = "is the size of a journal, and there is none: set journal-disk too";
                config.journal.disk.is_none().then(|| text.to_string())
            }
        }
    }
}

/// The value that stands for a component's own figure.
const OWN: &str = "own";
/// What is shown for a value that the layout chooses by itself.
const AUTOMATIC: &str = "automatic";
/// The key that chooses the layout.
const LAYOUT: &str = "layout";
/// The largest number of processors.
const MOST_CPUS: u64 = 4096;
/// Times are limited to a quarter of an hour, so that sums stay far below the end of time.
const COST: Unit = Unit::Time(twin_rt::MICROS, 1_000_000_000 * twin_rt::MICROS);
const ANY_BYTES: Unit = Unit::bytes(0, u64::MAX);

/// The keys of the machine and of the volume.
fn keys() -> impl Iterator<Item = &'static (Needs, Key<Config>)> {
    DISK_KEYS.iter().chain(bucket::KEYS).chain(journal::KEYS).chain(VOLUME_KEYS)
}

/// The keys of the disk, and of what is between it and the processor.
const DISK_KEYS: &[(Needs, Key<Config>)] = &[
    (
        Needs::Nothing,
        Key::new(
            "disk",
            "the disk, by the name of its model",
            Unit::Name("disk", || model::REGISTRY.names().collect()),
            |c| (&mut c.disk).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "queue",
            "order in which waiting disk requests are served; sorting helps disks that rotate",
            Unit::Name("queue", || queue::REGISTRY.names().collect()),
            |c| (&mut c.queue).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "cpu",
            "processor model",
            Unit::Name("processor", || cpu::REGISTRY.names().collect()),
            |c| (&mut c.cpu).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new("cpus", "number of processors", Unit::number(1, MOST_CPUS), |c| {
            (&mut c.cpus).into()
        }),
    ),
    (
        Needs::Nothing,
        Key::own(
            "bus",
            "bus between host and disk: limits transfers, each of which takes processor time",
            "name",
            |c, text| {
                c.bus = Some(Choice::named(&bus::REGISTRY, text)?);
                Ok(())
            },
            |c| c.bus.map_or("none", |bus| bus.name).into(),
        ),
    ),
    (
        Needs::Bus,
        Key::new("bus-rate", "bytes a second of the bus, or own", Unit::bytes(1, u64::MAX), |c| {
            (&mut c.bus_bytes_per_s).into()
        }),
    ),
    (
        Needs::Mechanical,
        Key::new(
            "command-us",
            "time of driver and adapter before a disk begins to decode a command",
            COST,
            |c| (&mut c.command_ns).into(),
        ),
    ),
    (
        Needs::Mechanical,
        Key::new(
            "ncq",
            "commands that a disk accepts and orders itself (1: none), or own",
            Unit::number(1, 256),
            |c| (&mut c.ncq).into(),
        ),
    ),
    (
        Needs::Mechanical,
        Key::new(
            "drive-read-ahead",
            "bytes that a disk reads ahead by itself while it has nothing else to do, or own",
            Unit::bytes(0, 1 << 30),
            |c| (&mut c.drive_read_ahead).into(),
        ),
    ),
    (
        Needs::Mechanical,
        Key::own(
            "report-early",
            "whether a disk reports writes when its buffer has them, or own",
            "yes|no|own",
            |c, text| {
                c.report_early = match text {
                    "yes" => Some(true),
                    "no" => Some(false),
                    OWN => None,
                    _ => return Err(SettingsError::unknown("answer", text, ["yes", "no", OWN])),
                };
                Ok(())
            },
            |c| c.report_early.map_or(OWN, |yes| if yes { "yes" } else { "no" }).into(),
        ),
    ),
    (
        Needs::Mechanical,
        Key::own(
            "skews",
            "track and cylinder skew of the disk in sectors, as 7/25, or own",
            "track/cylinder",
            set_skews,
            |c| c.skews.map_or(OWN.into(), |(track, cylinder)| format!("{track}/{cylinder}")),
        ),
    ),
    (
        Needs::Flat,
        Key::own(
            "ssd",
            "times of a flat SSD as `twinfs bench --device` prints them: microseconds to read, \
             write and flush, bytes a second: 80/25/1000/550M, or own",
            "read/write/flush/rate",
            |c, text| {
                c.ssd = if text == OWN { None } else { Some(flat::parse(text)?) };
                Ok(())
            },
            |c| c.ssd.map_or(OWN.into(), |ssd| flat::text(&ssd)),
        ),
    ),
];

/// The keys of the processor and of the volume.
const VOLUME_KEYS: &[(Needs, Key<Config>)] = &[
    (
        Needs::Bus,
        Key::new("request-us", "time of the processor for a device request, or own", COST, |c| {
            (&mut c.costs.request_ns).into()
        }),
    ),
    (
        Needs::Nothing,
        Key::new("block-us", "time of the processor for a block in the cache, or own", COST, |c| {
            (&mut c.costs.block_ns).into()
        }),
    ),
    (
        Needs::Nothing,
        Key::new("copy-us", "time of the processor for copying 4 KB, or own", COST, |c| {
            (&mut c.costs.copy_ns).into()
        }),
    ),
    (
        Needs::Nothing,
        Key::new("remove-us", "time of the processor for removing a name, or own", COST, |c| {
            (&mut c.costs.remove_ns).into()
        }),
    ),
    (
        Needs::Nothing,
        Key::new(
            "order",
            "order of tasks that could run, and of work that waits for a processor",
            Unit::Name("order", || order::REGISTRY.names().collect()),
            |c| (&mut c.order).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "seed",
            "random numbers of the run: of order=random, of the volume and its policies",
            Unit::number(0, u32::MAX as u64),
            |c| (&mut c.chosen_seed).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::own(
            "front-end",
            "what stands between clients and the core: what stood there when the workload was \
             recorded, nothing, the requests of a mount, or its kernel with names, attributes and \
             pages in memory",
            "as-recorded|none|fuse|kernel",
            |c, text| Front::by_name(text).map(|front| c.front = front),
            |c| c.front.name().into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "mount-flush",
            "behind a mount, the flush policy alone decides when data is durable, as with `mount \
             --flush`; otherwise it is within two seconds",
            Unit::YesNo,
            |c| (&mut c.mount_flush).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "inodes",
            "inodes kept in memory beyond those in use; too few cost reads",
            Unit::number(0, 1 << 32),
            |c| (&mut c.settings.cached_inodes).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "reading",
            "read policy: all blocks at once, or block by block",
            Unit::Name("read policy", || reading::REGISTRY.names().collect()),
            |c| (&mut c.settings.reading).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::own(
            "overwrite",
            "which blocks are read before they are overwritten",
            "needed|partial|direct",
            set_overwrite,
            |c| {
                let mut all = Overwrite::ALL.iter();
                let name = all.find(|(_, rule)| *rule == c.settings.overwrite);
                name.map_or(String::new(), |(name, _)| (*name).into())
            },
        ),
    ),
    (
        Needs::Nothing,
        Key::own(
            "size",
            "bytes of the volume (4G, or the size of a smaller disk), or full for the whole disk",
            "bytes|full",
            |c, text| {
                c.size = if text == "full" { None } else { Some(bytes(text)?) };
                c.size_asked = true;
                Ok(())
            },
            |c| c.size.map_or("full".into(), bytes_text),
        ),
    ),
    (
        Needs::Nothing,
        Key::new("cache", "bytes of the block cache; too few cost reads", ANY_BYTES, |c| {
            (&mut c.settings.cache_bytes).into()
        }),
    ),
    (
        Needs::Nothing,
        Key::own(
            "replacement",
            "policy that chooses the clean block to evict",
            "a policy, listed below",
            |c, text| {
                twin_cache::replacement::REGISTRY.reach(text)?;
                c.settings.replacement = twin_cache::replacement::for_cache(text)?.name.into();
                Ok(())
            },
            |c| c.settings.replacement.clone(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "flush",
            "policy that decides which dirty blocks are written back and when",
            Unit::Name("flush policy", || twin_cache::flush::REGISTRY.names().collect()),
            |c| (&mut c.settings.flush).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "flush-age",
            "age at which dirty blocks are written, in ms without a unit; 1s to 30s are usual",
            Unit::MILLISECONDS,
            |c| (&mut c.settings.flush_age_ns).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::own(
            "flush-by",
            "who writes for an operation that needs room: the flusher, or itself (helper, needer)",
            "flusher|helper|needer|own",
            |c, text| set_flush_by(&mut c.settings.flush_by, text),
            |c| flush_by_name(c.settings.flush_by).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "nvram",
            "bytes of memory that survives a power failure, for the flush policies that use it",
            Unit::bytes(64 << 10, u64::MAX),
            |c| (&mut c.settings.nvram_bytes).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "nvram-reported",
            "data leaves that memory once its write was reported, durable or not",
            Unit::YesNo,
            |c| (&mut c.settings.nvram_until_reported).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "read-ahead",
            "bytes read ahead of a sequential reader; 128K to 2M are sensible",
            Unit::bytes(0, u32::MAX as u64),
            |c| (&mut c.settings.read_ahead_bytes).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::new(
            "file-types",
            "treat files as their attributes say: media, policies of their own",
            Unit::YesNo,
            |c| (&mut c.settings.file_types).into(),
        ),
    ),
    (
        Needs::Nothing,
        Key::own(
            "content",
            "form of user data: stamps, or the bytes that they stand for",
            "stamps|bytes",
            |c, text| match text {
                "stamps" | "bytes" => {
                    c.settings.expand_stamps = text == "bytes";
                    Ok(())
                }
                _ => Err(SettingsError::unknown("content", text, ["stamps", "bytes"])),
            },
            |c| if c.settings.expand_stamps { "bytes".into() } else { "stamps".into() },
        ),
    ),
];

/// True of the disk model that stands for the device of a machine file.
fn is_measured(disk: &RegistryEntry<model::Known>) -> bool {
    disk.kind == model::Kind::Measured
}

fn set_skews(c: &mut Config, text: &str) -> Result<(), SettingsError> {
    if text == OWN {
        c.skews = None;
        return Ok(());
    }
    let [track, cylinder] = list(text, "track/cylinder")?;
    let small = |text: &str| {
        let too_large = |_| SettingsError::new(format!("{text} is too large"));
        u32::try_from(number(text)?).map_err(too_large)
    };
    c.skews = Some((small(track)?, small(cylinder)?));
    Ok(())
}

fn set_overwrite(c: &mut Config, text: &str) -> Result<(), SettingsError> {
    let found = Overwrite::ALL.iter().find(|(name, _)| *name == text);
    let names = Overwrite::ALL.iter().map(|(name, _)| *name);
    let (_, rule) = found.ok_or_else(|| SettingsError::unknown("rule", text, names))?;
    c.settings.overwrite = *rule;
    Ok(())
}

/// A setting that was chosen, by a preset or by the user.
struct Chosen<'a> {
    key: &'a str,
    value: &'a str,
    asked: bool,
}

impl Config {
    fn base(layout: &'static dyn LayoutKind) -> Config {
        Config {
            name: String::new(),
            layout,
            of_layout: layout.config(),
            settings: Settings::default(),
            disk: Choice::of(&model::REGISTRY, |disk| disk.name == "disk-7200"),
            queue: Choice::of(&queue::REGISTRY, |queue| queue.name == "c-look"),
            cpu: Choice::of(&cpu::REGISTRY, |cpu| cpu.name == "modern"),
            cpus: 1,
            bus: None,
            bus_bytes_per_s: None,
            command_ns: 0,
            ncq: None,
            skews: None,
            order: Choice::first(&order::REGISTRY),
            chosen_seed: 0,
            drive_read_ahead: None,
            report_early: None,
            ssd: None,
            store: Store::default(),
            journal: JournalDisk::NONE,
            costs: Costs::default(),
            size: Some(4 << 30),
            size_asked: false,
            front: Front::AsRecorded,
            mount_flush: false,
            remote: None,
            machine: None,
            disk_chosen: false,
        }
    }

    /// The same on a measured machine: its processor, its kernel, and its device unless the
    /// configuration chooses a disk.
    #[must_use]
    pub fn on_machine(self, machine: Arc<MachineFile>) -> Config {
        let (disk, queue) = match self.disk_chosen {
            true => (self.disk, self.queue),
            false => (Choice::of(&model::REGISTRY, is_measured), Choice::first(&queue::REGISTRY)),
        };
        Config { disk, queue, machine: Some(machine), ..self }
    }

    /// Parses a configuration: a preset or layout, and settings behind it.
    ///
    /// # Errors
    /// If a preset, a key or a value does not exist; the message lists those that do.
    pub fn parse(text: &str) -> Result<Config, SettingsError> {
        Config::parse_with("", text)
    }

    /// Parses a configuration, with settings that it shares with others: they come before its own,
    /// and so hold where it does not choose otherwise. Its name is the text alone.
    ///
    /// # Errors
    /// As [`Config::parse`], also if a shared setting means nothing to the layout.
    pub fn parse_with(shared: &str, text: &str) -> Result<Config, SettingsError> {
        let remote = twin_remote::split(text).map_err(|error| error.within(text))?;
        if let Some((inner, own)) = remote {
            let remote = Some(Remote::parse(own).map_err(|error| error.within(text))?);
            return Ok(Config { name: text.into(), remote, ..Config::parse_with(shared, inner)? });
        }
        let named = Named::parse(text)?;
        let mut chosen = Vec::new();
        choose_preset(named.name, &mut chosen)?;
        for settings in [shared, named.settings] {
            let asked = grammar::settings(settings)?.into_iter();
            chosen.extend(asked.map(|s| Chosen { key: s.key, value: s.value, asked: true }));
        }
        let config = Config::of(&chosen).map_err(|error| error.within(text))?;
        Ok(Config { name: text.into(), ..config })
    }

    /// The same configuration with one more setting, as `key=value`, which comes last. It keeps its name.
    ///
    /// # Errors
    /// As [`Config::parse_with`].
    pub fn changed(&self, shared: &str, setting: &str) -> Result<Config, SettingsError> {
        let changed = twin_remote::inner_of(&self.name, |volume| {
            let joint = if volume.contains(':') { ',' } else { ':' };
            format!("{volume}{joint}{setting}")
        });
        let config = Config::parse_with(shared, &changed)?;
        let config = Config { name: self.name.clone(), ..config };
        Ok(match &self.machine {
            Some(machine) => config.on_machine(Arc::clone(machine)),
            None => config,
        })
    }

    fn of(chosen: &[Chosen<'_>]) -> Result<Config, SettingsError> {
        // Keys may stand in any order, so the layout is determined first.
        let of_layout = chosen.iter().rev().find(|choice| choice.key == LAYOUT);
        let mut config = Config::base(match of_layout {
            Some(choice) => layout(choice.value).map_err(|error| error.within(LAYOUT))?,
            None => LAYOUTS[0],
        });
        for choice in chosen.iter().filter(|choice| choice.key != LAYOUT) {
            config.set(choice)?;
        }
        // The needs of keys can be checked only at the end. A preset's own settings may have no
        // effect: the presets that build on it add what they need.
        let asked = |name: &str| chosen.iter().any(|choice| choice.asked && choice.key == name);
        for (needs, key) in keys().filter(|(_, key)| asked(key.name)) {
            if let Some(why) = needs.missing(&config) {
                return Err(SettingsError::new(format!("{} {why}", key.name)));
            }
        }
        if config.is_billed() {
            bucket::complete(&mut config, &asked)?;
        }
        config.of_layout.complete(&asked);
        config.disk_chosen = chosen.iter().any(|choice| choice.key == "disk");
        Ok(config)
    }

    /// True if its disk is the one of its machine file.
    pub fn is_on_measured_disk(&self) -> bool {
        is_measured(&self.disk)
    }

    /// True if the disk is a bucket, which charges for requests.
    pub fn is_billed(&self) -> bool {
        self.disk.kind == model::Kind::Bucket
    }

    /// True if the disk wears, and the model counts that.
    pub fn wears(&self) -> bool {
        self.disk.kind == model::Kind::Flash
    }

    /// All settings that the text resolves to, defaults filled in: key and value, those of the
    /// machine and of the volume first, then the layout and its own. What the volume decides when it
    /// is made is `automatic`; a component's own figure is `own`.
    pub fn resolved(&self) -> Vec<(&'static str, String)> {
        let common = keys().map(|(_, key)| (key.name, key.text(self)));
        let layout = std::iter::once((LAYOUT, self.layout.name().to_string()));
        let own = self.of_layout.keys().into_iter().map(|key| {
            let is_open = key.value.is_empty();
            (key.name, if is_open { AUTOMATIC.into() } else { key.value })
        });
        let of_remote = self.remote.iter().flat_map(twin_remote::keys);
        let of_remote = of_remote.map(|(name, _, value)| (name, value));
        common.chain(layout).chain(own).chain(of_remote).collect()
    }

    fn set(&mut self, choice: &Chosen<'_>) -> Result<(), SettingsError> {
        let Chosen { key, value, asked } = *choice;
        if let Some((_, known)) = keys().find(|(_, known)| known.name == key) {
            return known.set(self, value);
        }
        let has = |kind: &dyn LayoutKind| kind.config().keys().iter().any(|k| k.name == key);
        if has(self.layout) {
            return self.of_layout.set(key, value);
        }
        match LAYOUTS.iter().find(|kind| has(**kind)) {
            Some(other) if asked => {
                let (other, this) = (other.name(), self.layout.name());
                Err(SettingsError::new(format!(
                    "{key} is for layout {other}, and this layout is {this}: leave it out, or set \
                     layout={other}"
                )))
            }
            Some(_) => Ok(()),
            None => {
                let of_layout = self.of_layout.keys();
                let of_layout = of_layout.iter().map(|key| key.name);
                let known = keys().map(|(_, key)| key.name).chain([LAYOUT]).chain(of_layout);
                Err(SettingsError::unknown("setting", key, known))
            }
        }
    }
}

/// The layouts for which no preset is named: the name of each is a configuration too.
fn plain_layouts() -> impl Iterator<Item = &'static dyn LayoutKind> {
    let has_preset = |kind: &dyn LayoutKind| presets().iter().any(|p| p.name == kind.name());
    LAYOUTS.iter().copied().filter(move |kind| !has_preset(*kind))
}

/// Adds the settings of a preset, after those of the preset that it builds on.
fn choose_preset(name: &str, chosen: &mut Vec<Chosen<'_>>) -> Result<(), SettingsError> {
    if let Some(kind) = plain_layouts().find(|kind| kind.name() == name) {
        chosen.push(Chosen { key: LAYOUT, value: kind.name(), asked: false });
        return Ok(());
    }
    let found = presets().iter().find(|preset| preset.name == name);
    let preset = found.ok_or_else(|| {
        let names = presets().iter().map(|p| p.name).chain(plain_layouts().map(|k| k.name()));
        SettingsError::unknown("configuration", name, names)
    })?;
    if let Some(base) = preset.base {
        choose_preset(base, chosen)?;
    }
    let sets = preset.sets.iter();
    chosen.extend(sets.map(|&(key, value)| Chosen { key, value, asked: false }));
    Ok(())
}

/// The names of the presets that are compared by default.
pub fn compared_by_default() -> impl Iterator<Item = &'static str> {
    presets().iter().filter(|preset| preset.compared).map(|preset| preset.name)
}

/// Help on the presets and keys.
pub fn settings_help() -> String {
    let mut out = String::from("Configurations (preset, or preset:key=value,...):\n");
    for p in presets() {
        out += &format!("  {:<16} {}\n", p.name, p.about);
    }
    for kind in plain_layouts() {
        out += &format!("  {:<16} {}\n", kind.name(), kind.about());
    }
    out += "\nKeys:\n";
    let base = Config::base(LAYOUTS[0]);
    for (_, key) in keys() {
        out += &format!("  {:<20} {} [{}]\n", key.name, key.about, key.text(&base));
    }
    let names: Vec<&str> = LAYOUTS.iter().map(|kind| kind.name()).collect();
    out += &format!("  {LAYOUT:<20} layout of the volume: {}\n", names.join(" or "));
    for kind in LAYOUTS {
        out += &format!("\nKeys of layout {} ({}):\n", kind.name(), kind.about());
        for key in kind.config().keys() {
            out += &format!("  {:<20} {} [{}]\n", key.name, key.about, key.value);
        }
    }
    out += &twin_remote::help();
    let list = |title: &str, names: Vec<(&str, &str)>| {
        let lines = names.iter().map(|(name, about)| format!("  {name:<16} {about}\n"));
        format!("\n{title}:\n{}", lines.collect::<String>())
    };
    out += &list("Disks", model::REGISTRY.abouts());
    out += &list("Queues", queue::REGISTRY.abouts());
    out += &list("Observers (--observe)", twin_observe::abouts());
    out += &list("Processors", cpu::REGISTRY.abouts());
    out += &list("Orders of tasks", order::REGISTRY.abouts());
    out += &list("Flush policies", twin_cache::flush::REGISTRY.abouts());
    let replacement = twin_cache::replacement::REGISTRY.iter().filter(|e| !e.needs_future());
    out += &list("Replacement policies", replacement.map(|e| (e.name, e.about)).collect());
    out += &list("Read policies", reading::REGISTRY.abouts());
    for kind in LAYOUTS {
        for (title, names) in kind.policies() {
            out += &list(title, names);
        }
    }
    out
}

#[cfg(test)]
mod tests;

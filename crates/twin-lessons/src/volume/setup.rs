//! The settings of a session's volume, from the usual one line: `lfs:size=16M,disk=hp97560,victim=greedy`.
//!
//! Contract: the keys are those of configurations in the lab, as far as they make sense on a page: the layout's own,
//! and [`OWN`]. The volume is small, so that all of it fits in the memory of a browser.

use std::rc::Rc;

use twin_disk::{BlockDevice, Io};
use twin_fs::{Identity, LayoutConfig, LayoutKind, Settings};
use twin_rt::{ClockOnly, Rt};
use twin_settings::{RegistryEntry, SettingsError, grammar, value};
use twin_sim::{Platter, SimDisk, model, queue};

use super::layouts::LAYOUTS;

/// The largest volume, in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// The smallest, in bytes.
const LEAST_BYTES: u64 = 256 << 10;

/// The keys beside those of the layout.
const OWN: [&str; 10] = [
    "size",
    "disk",
    "queue",
    "cache",
    "replacement",
    "flush",
    "read-ahead",
    "report-early",
    "content",
    "record",
];

/// How the volume and the machine under it are made.
#[derive(Clone)]
pub(crate) struct Setup {
    text: String,
    pub(crate) layout: &'static dyn LayoutKind,
    pub(crate) config: Box<dyn LayoutConfig>,
    pub(crate) settings: Settings,
    pub(crate) size: u64,
    disk: &'static RegistryEntry<model::Known>,
    queue: &'static RegistryEntry<queue::Maker>,
    report_early: Option<bool>,
    /// Every write is kept, so that the power can be cut at any of them.
    pub(crate) record: bool,
}

impl Setup {
    pub(crate) fn parse(text: &str) -> Result<Setup, String> {
        Setup::parsed(text).map_err(|why| why.to_string())
    }

    fn parsed(text: &str) -> Result<Setup, SettingsError> {
        let named = grammar::Named::parse(text)?;
        let layout = LAYOUTS.iter().find(|kind| kind.name() == named.name).ok_or_else(|| {
            SettingsError::unknown("layout", named.name, LAYOUTS.iter().map(|kind| kind.name()))
        })?;
        // Bytes, not stamps: an image that leaves the page must hold them.
        let settings = Settings {
            cache_bytes: 1 << 20,
            expand_stamps: true,
            read_ahead_bytes: 64 << 10,
            ..Settings::default()
        };
        let mut setup = Setup {
            text: text.trim().into(),
            layout: *layout,
            config: layout.config(),
            settings,
            size: 8 << 20,
            disk: model::REGISTRY.default_entry(),
            queue: queue::REGISTRY.default_entry(),
            report_early: None,
            record: true,
        };
        let mut asked = Vec::new();
        for setting in grammar::settings(named.settings)? {
            setup.set(setting.key, setting.value)?;
            asked.push(setting.key);
        }
        setup.config.complete(&|key| asked.contains(&key));
        Ok(setup)
    }

    /// The settings with which an image is opened that was made elsewhere.
    pub(crate) fn of_image(platter: &Platter) -> Result<Setup, String> {
        let size = platter.size();
        if size < LEAST_BYTES || !size.is_multiple_of(4096) {
            return Err("this is no image of a volume: its size is odd or too small".into());
        }
        // A superblock is at the beginning, or (where a boot block comes first) within the first 64 KiB.
        let head = platter.read_bytes(0, 64 << 10);
        let found = LAYOUTS
            .iter()
            .find(|kind| head.chunks_exact(512).any(|sector| sector.starts_with(kind.magic())));
        let Some(kind) = found else {
            return Err("this is no volume of a layout that is known here".into());
        };
        let text = format!("{}:size={}", kind.name(), value::bytes_text(size));
        let mut setup = Setup::parse(&text)?;
        setup.size = size;
        Ok(setup)
    }

    /// The same with other settings for opening the volume.
    pub(crate) fn changed(&self, settings: &str) -> Result<Setup, String> {
        let mut setup = self.clone();
        for setting in grammar::settings(settings).map_err(|why| why.to_string())? {
            let (key, value) = (setting.key, setting.value);
            let own = OWN.contains(&key) && key != "size";
            let set =
                if own { setup.set(key, value) } else { setup.config.set_for_open(key, value) };
            set.map_err(|why| why.to_string())?;
            let joint = if setup.text.contains(':') { ',' } else { ':' };
            setup.text = format!("{}{joint}{key}={value}", setup.text);
        }
        Ok(setup)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn set(&mut self, key: &str, text: &str) -> Result<(), SettingsError> {
        match key {
            "size" => {
                self.size = value::bytes(text)?;
                if !(LEAST_BYTES..=MOST_BYTES).contains(&self.size)
                    || !self.size.is_multiple_of(4096)
                {
                    let why = "size is 256K to 64M here, in whole blocks of 4K";
                    return Err(SettingsError::new(why.to_string()));
                }
            }
            "disk" => {
                self.disk = model::REGISTRY.get(text)?;
                if self.disk.kind == model::Kind::Bucket {
                    let why = format!("{text} is a store of objects: a lesson needs a disk");
                    return Err(SettingsError::new(why));
                }
            }
            "queue" => self.queue = queue::REGISTRY.get(text)?,
            "cache" => self.settings.cache_bytes = value::bytes(text)?.clamp(64 << 10, 64 << 20),
            "replacement" => {
                self.settings.replacement =
                    twin_cache::replacement::REGISTRY.get(text)?.name.into();
            }
            "flush" => self.settings.flush = twin_cache::flush::REGISTRY.get(text)?.name.into(),
            "read-ahead" => {
                self.settings.read_ahead_bytes = value::bytes(text)?.min(1 << 20) as u32;
            }
            "report-early" => self.report_early = Some(yes(text)?),
            "content" => self.settings.expand_stamps = text != "stamps",
            "record" => self.record = yes(text)?,
            _ => {
                let known = self.config.keys();
                if !known.iter().any(|one| one.name == key) {
                    let names = OWN.into_iter().chain(known.iter().map(|one| one.name));
                    return Err(SettingsError::unknown("setting", key, names));
                }
                return self.config.set(key, text);
            }
        }
        Ok(())
    }

    /// A disk of this kind with this content.
    pub(crate) fn disk(&self, rt: &Rt, platter: Platter) -> Result<twin_sim::Builder, String> {
        let options = model::Options {
            size: Some(self.size),
            write_cache: self.report_early,
            ..model::Options::default()
        };
        let model = self.disk.build(&options).map_err(|why| why.to_string())?;
        Ok(SimDisk::builder(rt, model).scheduler(self.queue.make()).platter(platter))
    }

    /// The content of a new volume.
    pub(crate) fn mkfs(&self) -> Result<Platter, String> {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = still(&rt, Platter::new(self.size))?;
        let device: Rc<dyn BlockDevice> = Rc::new(disk.clone());
        let identity = Identity { uuid: *b"twinfs simulated", root: (0, 0, 0o755) };
        let made = rt.block_on(self.config.mkfs(&rt, Rc::clone(&device), identity));
        made.map_err(|_| "mkfs does not end".to_string())?.map_err(|why| why.to_string())?;
        let flushed = rt.block_on(device.submit(Io::flush(twin_disk::Origin::User)));
        flushed.map_err(|_| "mkfs does not end".to_string())?.map_err(|why| why.to_string())?;
        let platter = disk.platter();
        rt.crash();
        Ok(platter)
    }
}

/// A disk that takes no time, for looking at a platter.
pub(crate) fn still(rt: &Rt, platter: Platter) -> Result<SimDisk, String> {
    let options = model::Options { size: Some(platter.size()), ..model::Options::default() };
    let instant = model::REGISTRY.get("instant").map_err(|why| why.to_string())?;
    let model = instant.build(&options).map_err(|why| why.to_string())?;
    Ok(SimDisk::builder(rt, model).platter(platter).start())
}

fn yes(text: &str) -> Result<bool, SettingsError> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(SettingsError::new(format!("{text:?} is neither yes nor no"))),
    }
}

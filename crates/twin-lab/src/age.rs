//! Volumes that are made old in simulation, and the maps of volumes.
//!
//! Contract: a workload is replayed on a new volume on a device that takes no time, with zeros in
//! place of user data; the result is the content of the device, with metadata as it is on a real
//! one, the volume closed. It depends on the settings and the workload alone.

use std::fmt;
use std::rc::Rc;

use twin_age::map::Collector;
use twin_age::{Ageing, Layout, Plan, Profile, Recreate, VolumeMap, profile, profiles};
use twin_disk::{BlockDevice, DeviceInfo, Io, Pending};
use twin_fs::dump::{DumpError, Request};
use twin_fs::geometry::Geometry;
use twin_fs::{Cpu, Identity, LayoutConfig, LayoutKind, OpenVolume, Settings, write_cost};
use twin_rt::{ClockOnly, Nanos, Rt, SECS, Time};
use twin_settings::{Named, Param, SettingsError, Unit, Values};
use twin_sim::{Platter, SimDisk, model};
use twin_trace::Source;
use twin_trace::replay::{Options, Pace, Replayer};

use crate::config::Config;
use crate::copy::{Places, make_copy};
use crate::error::{SimulateError, model_error};
use crate::machine::{NOBODY, disk_of};
use crate::steps::{Counted, Steps};

/// The sector of image files on hosts of today, in bytes; volumes in images are made to fit it.
pub const IMAGE_SECTOR: u32 = 4096;

/// How a volume is made old.
#[derive(Clone, Debug)]
pub struct AgeSettings {
    /// The layout.
    pub layout: &'static dyn LayoutKind,
    /// How the volume is made.
    pub of_layout: Box<dyn LayoutConfig>,
    /// Bytes of the device.
    pub size: u64,
    /// Bytes of its sectors.
    pub sector: u32,
    /// The volume while it grows old.
    pub settings: Settings,
    /// Its identity.
    pub identity: Identity,
    /// The seed of the run.
    pub seed: u64,
    /// When the last operation is, in nanoseconds since 1970.
    pub end: Time,
    /// From the first operation to the last.
    pub span_ns: Nanos,
    /// Who is told of progress.
    pub steps: Option<Steps>,
    /// The content of the device at the beginning, with a volume of this layout that goes on; `None`
    /// for a new volume.
    pub start: Option<Platter>,
}

/// A volume before it is used: what a plan needs to know of it.
#[derive(Clone, Debug)]
pub struct NewVolume {
    /// Bytes that files and their metadata may fill.
    pub capacity: u64,
    /// The sizes of its files.
    pub geometry: Geometry,
}

/// A volume that was made old.
#[derive(Debug)]
pub struct Aged {
    /// The content of the device.
    pub platter: Platter,
    /// Where everything is.
    pub map: VolumeMap,
    /// How its files lie.
    pub layout: Layout,
    /// What `mkfs` says of the volume; empty if it existed.
    pub description: String,
    /// The requests that were made.
    pub requests: u64,
    /// Those that failed although they succeeded in the workload.
    pub failed: u64,
    /// Bytes that files and their metadata may fill.
    pub capacity: u64,
    /// Of these, the ones in use at the end.
    pub used: u64,
    /// Bytes that the layout wrote for each byte of users' data.
    pub write_cost: Option<f64>,
}

/// A device with sectors of this size.
struct Coarse(SimDisk, u32);

impl BlockDevice for Coarse {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { sector: self.1, ..self.0.info() }
    }
    fn submit(&self, io: Io) -> Pending {
        self.0.submit(io)
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
}

/// A device that takes no time, with this content.
fn instant(rt: &Rt, size: u64, platter: Option<Platter>) -> Result<SimDisk, SimulateError> {
    let options = model::Options { size: Some(size), ..model::Options::default() };
    let entry = model::REGISTRY.get(INSTANT).map_err(model_error)?;
    let built = entry.build(&options).map_err(model_error)?;
    let disk = SimDisk::builder(rt, built);
    Ok(match platter {
        Some(platter) => disk.platter(platter).start(),
        None => disk.start(),
    })
}

/// The disk model without times.
const INSTANT: &str = "instant";

/// The map of a volume on a device, through the dump of its layout. Damage is listed in the map.
///
/// # Errors
/// If there is no such volume.
pub fn map_of(
    rt: &Rt,
    kind: &dyn LayoutKind,
    device: Rc<dyn BlockDevice>,
) -> Result<VolumeMap, DumpError> {
    let request = Request::parse(kind.structures(), "space", None).map_err(DumpError::NoSuch)?;
    let mut collector = Collector::new(kind.name());
    let work = kind.dump(rt, device, &request, &mut collector);
    let done = rt.block_on(work).map_err(|stalled| DumpError::NoSuch(stalled.to_string()))?;
    done.map(|()| collector.finish())
}

/// The map of the volume whose device has this content.
///
/// # Errors
/// If there is no such volume.
pub fn map_of_platter(
    kind: &dyn LayoutKind,
    platter: &Platter,
) -> Result<VolumeMap, SimulateError> {
    let rt = Rt::new(ClockOnly::default(), 1);
    let disk = instant(&rt, platter.size(), Some(platter.clone()))?;
    let map = map_of(&rt, kind, Rc::new(disk)).map_err(model_error);
    rt.crash();
    map
}

/// How the volumes of simulated configurations are made old: a profile and settings.
#[derive(Clone, Debug)]
pub struct AgedSpec {
    text: String,
    profile: Profile,
    values: Values,
}

/// The settings of [`AgedSpec`].
const AGED: &[Param] = &[
    Param::new("full", "80%", Unit::Percent(99), "how full it gets, of what files may fill"),
    Param::new("years", "1", Unit::Decimal(0.001, 100.0), "age of the oldest file in years"),
    Param::new("turnover", "5", Unit::Decimal(0.01, 1e6), "how often it is written in a year"),
    Param::new("seed", "1", Unit::number(0, u64::MAX), "the seed"),
];

/// When simulated volumes are as old as they get: 1 January 2025.
pub const END: Time = Time(1_735_689_600 * SECS);

impl AgedSpec {
    /// Parses `PROFILE` or `PROFILE:years=2,full=80%`.
    ///
    /// # Errors
    /// If there is no such profile or setting, or a value is out of its range.
    pub fn parse(text: &str) -> Result<AgedSpec, SettingsError> {
        let named = Named::parse(text)?;
        let profile = profile(named.name)?;
        let mut values = Values::of(&[AGED]);
        values.apply(named.settings).map_err(|error| error.within(named.name))?;
        Ok(AgedSpec { text: text.into(), profile, values })
    }

    /// Files of the default profile, created once, until a volume is so full.
    ///
    /// # Errors
    /// If the share is out of its range.
    pub fn filled(full: &str) -> Result<AgedSpec, SettingsError> {
        // Less turnover than the files themselves: nothing is deleted.
        AgedSpec::parse(&format!("{}:full={full},turnover=0.01", profiles()[0].name))
    }

    /// The plan for a volume.
    pub fn plan(&self, new: &NewVolume) -> Plan {
        Plan {
            profile: self.profile.clone(),
            capacity: new.capacity,
            geometry: new.geometry.clone(),
            full: self.values.number("full") as f64 / 100.0,
            years: self.values.decimal("years"),
            turnover: self.values.decimal("turnover"),
            seed: self.values.number("seed"),
        }
    }
}

impl fmt::Display for AgedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What the files of a volume are when a simulation begins.
#[derive(Clone, Debug)]
pub enum Beginning {
    /// Those of a profile.
    Aged(AgedSpec),
    /// Those of a snapshot, created anew; the text is the snapshot's name.
    Files(String, VolumeMap),
    /// Those of a snapshot where they were, or files that fill what was used.
    Copy(String, VolumeMap, Places),
}

impl fmt::Display for Beginning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Beginning::Aged(spec) => write!(f, "volumes aged by {spec}"),
            Beginning::Files(name, _) => write!(f, "volumes with the files of {name}"),
            Beginning::Copy(name, _, Places::Files) => write!(f, "copies of {name}"),
            Beginning::Copy(name, _, Places::Free) => {
                write!(f, "volumes with the free space of {name}")
            }
        }
    }
}

/// The content of the disk of a configuration whose volume was made old. Equal settings of volume
/// and ageing give the same content, so that several configurations can share it: see
/// [`OldVolumes`].
///
/// # Errors
/// If the volume cannot be made, or gets full before it is as full as was asked.
fn old_volume(config: &Config, beginning: &Beginning) -> Result<Aged, SimulateError> {
    let (size, sector) = disk_of(config)?;
    let how = AgeSettings {
        layout: config.layout,
        of_layout: config.of_layout.clone(),
        size,
        sector,
        settings: ageing_settings(AGEING_CACHE),
        identity: NOBODY,
        seed: 1,
        end: END,
        span_ns: 0,
        steps: None,
        start: None,
    };
    let aged = match beginning {
        Beginning::Aged(spec) => {
            let plan = spec.plan(&new_volume(&how)?);
            let source = Ageing::new(&plan).map_err(model_error)?;
            let how = AgeSettings { span_ns: source.planned().span_ns, ..how };
            make_old(&how, Box::new(source))?
        }
        Beginning::Files(_, map) => {
            let source = Recreate::new(map);
            let how = AgeSettings { span_ns: source.span_ns(), ..how };
            make_old(&how, Box::new(source))?
        }
        Beginning::Copy(_, map, places) => make_copy(&how, map, *places)?,
    };
    match aged.failed {
        0 => Ok(aged),
        failed => Err(model_error(format!(
            "{failed} operations failed while {beginning} were made, probably for want of room: ask \
             for a lower share, or a larger size"
        ))),
    }
}

/// The settings of a volume that is made old, with so much memory for blocks. Files are used once, when
/// they are made, so that few inodes are kept: each holds its block of the table, and a cache full of
/// held blocks is searched at length for one that can go.
pub fn ageing_settings(cache_bytes: u64) -> Settings {
    Settings { cache_bytes, cached_inodes: 1 << 15, ..Settings::default() }
}

/// Memory for blocks while a simulated volume grows old.
const AGEING_CACHE: u64 = 256 << 20;

/// An old volume as it is kept.
#[derive(Clone, Debug)]
pub struct OldVolume {
    /// The content of its device.
    pub platter: Platter,
    /// Its layout score.
    pub score: Option<f64>,
}

/// Where old volumes are kept for longer than a command.
pub trait KeptVolumes: fmt::Debug {
    /// The volume with these settings of volume and ageing, if it is there.
    fn find(&mut self, key: &str) -> Option<OldVolume>;

    /// Keeps a volume, if that is possible.
    fn keep(&mut self, key: &str, volume: &OldVolume);
}

/// Old volumes that were made already, by their settings.
#[derive(Debug, Default)]
pub struct OldVolumes {
    known: Vec<(String, OldVolume)>,
    kept: Option<Box<dyn KeptVolumes>>,
    requests: u64,
}

impl OldVolumes {
    /// Takes volumes that were kept, and keeps those that are made. Volumes with the files of a
    /// snapshot are not kept: their settings do not say which files those are.
    pub fn kept_in(kept: Box<dyn KeptVolumes>) -> OldVolumes {
        OldVolumes { kept: Some(kept), ..OldVolumes::default() }
    }

    /// Requests that were made for the volumes so far: none if all were there.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The configuration with an old volume as its start, and the volume's layout score.
    ///
    /// # Errors
    /// As for making one.
    pub fn start(
        &mut self,
        config: &Config,
        beginning: &Beginning,
    ) -> Result<(Config, Option<f64>), SimulateError> {
        let mut config = config.clone();
        if let (Beginning::Copy(_, map, _), false) = (beginning, config.size_asked) {
            // A copy has the size of the original.
            config.size = Some(map.size);
            config.size_asked = true;
        }
        let config = &config;
        let (size, sector) = disk_of(config)?;
        let keys = config.of_layout.keys().into_iter();
        let keys: Vec<String> = keys.map(|key| format!("{}={}", key.name, key.value)).collect();
        let name = config.layout.name();
        let key = format!("{name}:{},{size}/{sector}, {beginning}", keys.join(","));
        let known = self.known.iter().find(|(known, _)| *known == key);
        let volume = match known {
            Some((_, volume)) => volume.clone(),
            None => {
                let volume = self.find_or_make(&key, config, beginning)?;
                self.known.push((key, volume.clone()));
                volume
            }
        };
        Ok((Config { start: Some(volume.platter), ..config.clone() }, volume.score))
    }

    fn find_or_make(
        &mut self,
        key: &str,
        config: &Config,
        beginning: &Beginning,
    ) -> Result<OldVolume, SimulateError> {
        let kept = self.kept.as_mut().filter(|_| matches!(beginning, Beginning::Aged(_)));
        let mut kept = match kept {
            Some(kept) => match kept.find(key) {
                Some(volume) => return Ok(volume),
                None => Some(kept),
            },
            None => None,
        };
        let aged = old_volume(config, beginning)?;
        self.requests += aged.requests;
        let volume = OldVolume { score: aged.layout.score.value(), platter: aged.platter };
        if let Some(kept) = &mut kept {
            kept.keep(key, &volume);
        }
        Ok(volume)
    }
}

/// What a new volume with these settings offers.
///
/// # Errors
/// If it cannot be made.
pub fn new_volume(how: &AgeSettings) -> Result<NewVolume, SimulateError> {
    let rt = Rt::new(ClockOnly::default(), how.seed);
    let work = async {
        let disk = instant(&rt, how.size, None)?;
        let device: Rc<dyn BlockDevice> = Rc::new(Coarse(disk, how.sector));
        how.of_layout.mkfs(&rt, Rc::clone(&device), how.identity).await?;
        let opened = how.of_layout.open(&rt, device, Cpu::none(), how.settings.clone()).await?;
        let stat = opened.volume.stat();
        let geometry = opened.volume.core().geometry.clone();
        let capacity = stat.free * u64::from(stat.block_size);
        Ok(NewVolume { capacity, geometry })
    };
    let found = rt.block_on(work);
    rt.crash();
    found.map_err(SimulateError::Stalled)?
}

/// Makes a volume old with a workload, at the times of its records.
///
/// # Errors
/// If the volume cannot be made, the workload cannot be read, or the volume fails.
pub fn make_old(how: &AgeSettings, source: Box<dyn Source>) -> Result<Aged, SimulateError> {
    let start = Time(how.end.0.saturating_sub(how.span_ns));
    let rt = Rt::new(ClockOnly { start }, how.seed);
    let result = rt.block_on(grow_old(&rt, how, source));
    rt.crash();
    result.map_err(SimulateError::Stalled)??.mapped(how)
}

/// A volume that was opened to be changed in simulation.
pub(crate) struct Opened {
    pub(crate) disk: SimDisk,
    pub(crate) volume: OpenVolume,
    /// What `mkfs` says of it; empty if it existed.
    pub(crate) description: String,
}

/// Opens the volume on its device, a new one if it has no start. Data of users is zeros.
pub(crate) async fn opened(rt: &Rt, how: &AgeSettings) -> Result<Opened, SimulateError> {
    let disk = instant(rt, how.size, how.start.clone())?;
    let device: Rc<dyn BlockDevice> = Rc::new(Coarse(disk.clone(), how.sector));
    let description = match how.start {
        Some(_) => String::new(),
        None => how.of_layout.mkfs(rt, Rc::clone(&device), how.identity).await?,
    };
    let settings = Settings { zeros: true, ..how.settings.clone() };
    let opening = how.of_layout.open(rt, device, Cpu::none(), settings).await?;
    Ok(Opened { disk, volume: opening.volume, description })
}

/// The content of the device of a new volume.
pub(crate) fn mkfs_platter(how: &AgeSettings) -> Result<Platter, SimulateError> {
    let rt = Rt::new(ClockOnly::default(), how.seed);
    let work = async {
        let disk = instant(&rt, how.size, None)?;
        let device: Rc<dyn BlockDevice> = Rc::new(Coarse(disk.clone(), how.sector));
        how.of_layout.mkfs(&rt, device, how.identity).await?;
        Ok(disk.platter())
    };
    let made = rt.block_on(work);
    rt.crash();
    made.map_err(SimulateError::Stalled)?
}

/// Closes a volume at the end of its time, after so many requests, of which some failed. Its map is
/// not made yet.
pub(crate) async fn closed(
    rt: &Rt,
    how: &AgeSettings,
    opened: Opened,
    (requests, failed): (u64, u64),
) -> Result<Aged, SimulateError> {
    let Opened { disk, volume, description } = opened;
    rt.sleep_until(how.end).await;
    let stat = volume.stat();
    let written = volume.written();
    volume.close().await?;
    let capacity = stat.blocks * u64::from(stat.block_size);
    let map = VolumeMap::default();
    Ok(Aged {
        platter: disk.platter(),
        layout: Layout::of(&map),
        map,
        description,
        requests,
        failed,
        capacity,
        used: capacity - stat.free * u64::from(stat.block_size),
        write_cost: write_cost(written.bytes, written.cleaner_read_bytes, written.new_data_bytes),
    })
}

impl Aged {
    /// With its map.
    pub(crate) fn mapped(mut self, how: &AgeSettings) -> Result<Aged, SimulateError> {
        self.map = map_of_platter(how.layout, &self.platter)?;
        self.map.taken_s = how.end.secs() as i64;
        self.layout = Layout::of(&self.map);
        Ok(self)
    }
}

async fn grow_old(
    rt: &Rt,
    how: &AgeSettings,
    source: Box<dyn Source>,
) -> Result<Aged, SimulateError> {
    let opened = opened(rt, how).await?;
    let options = Options { pace: Pace::Recorded { speed: 1.0 }, ..Options::default() };
    let mut replayer = Replayer::new(rt, &opened.volume, options);
    let mut source = Counted::new(source, how.steps.clone());
    let report = replayer.run(&mut source).await.map_err(SimulateError::Replay)?;
    let _ = replayer.release_all().await;
    drop(replayer);
    closed(rt, how, opened, (report.ops, report.failed_ops())).await
}

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
use twin_fs::{Cpu, Identity, LayoutConfig, LayoutKind, Opened, Settings, write_cost};
use twin_rt::{ClockOnly, Nanos, Rt, SECS, Time};
use twin_settings::{Named, Param, SettingsError, Unit, Values};
use twin_sim::{Platter, SimDisk, model};
use twin_trace::Source;
use twin_trace::replay::{Options, Pace, Replayer};

use crate::config::Config;
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
}

impl fmt::Display for Beginning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Beginning::Aged(spec) => write!(f, "volumes aged by {spec}"),
            Beginning::Files(name, _) => write!(f, "volumes with the files of {name}"),
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
    };
    match aged.failed {
        0 => Ok(aged),
        failed => Err(model_error(format!(
            "{failed} operations failed while {beginning} were made, probably for want of room: ask \
             for a lower share, or a larger size"
        ))),
    }
}

/// The settings of a volume that is made old, with so much memory for blocks. There is time to save
/// and no memory to be short of, so that inodes stay in memory.
pub fn ageing_settings(cache_bytes: u64) -> Settings {
    Settings { cache_bytes, cached_inodes: 1 << 20, ..Settings::default() }
}

/// Memory for blocks while a simulated volume grows old.
const AGEING_CACHE: u64 = 256 << 20;

/// Old volumes that were made already, by their settings.
#[derive(Debug, Default)]
pub struct OldVolumes(Vec<(String, Platter, Option<f64>)>);

impl OldVolumes {
    /// The configuration with an old volume as its start, and the volume's layout score.
    ///
    /// # Errors
    /// As for making one.
    pub fn start(
        &mut self,
        config: &Config,
        beginning: &Beginning,
    ) -> Result<(Config, Option<f64>), SimulateError> {
        let (size, sector) = disk_of(config)?;
        let keys = config.of_layout.keys().into_iter();
        let keys: Vec<String> = keys.map(|key| format!("{}={}", key.name, key.value)).collect();
        let name = config.layout.name();
        let key = format!("{name}:{},{size}/{sector}, {beginning}", keys.join(","));
        let known = self.0.iter().find(|(known, ..)| *known == key);
        let (platter, score) = match known {
            Some((_, platter, score)) => (platter.clone(), *score),
            None => {
                let aged = old_volume(config, beginning)?;
                let score = aged.layout.score.value();
                self.0.push((key, aged.platter.clone(), score));
                (aged.platter, score)
            }
        };
        Ok((Config { start: Some(platter), ..config.clone() }, score))
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

/// The content of the device of a new clustered volume that has the free space of an old one, made with
/// the same settings, and none of its files.
///
/// # Errors
/// If it cannot be made, or the old one is damaged or of another kind.
pub(crate) fn with_space_of(how: &AgeSettings, old: &Platter) -> Result<Platter, SimulateError> {
    let rt = Rt::new(ClockOnly::default(), how.seed);
    let work = async {
        let from = instant(&rt, old.size(), Some(old.clone()))?;
        let to = instant(&rt, how.size, None)?;
        let device: Rc<dyn BlockDevice> = Rc::new(Coarse(to.clone(), how.sector));
        how.of_layout.mkfs(&rt, device, how.identity).await?;
        twin_ffs::copy_used(&from, &to).await?;
        Ok(to.platter())
    };
    let made = rt.block_on(work);
    rt.crash();
    made.map_err(SimulateError::Stalled)?
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
    let (mut aged, platter) = result.map_err(SimulateError::Stalled)??;
    aged.map = map_of_platter(how.layout, &platter)?;
    aged.map.taken_s = how.end.secs() as i64;
    aged.layout = Layout::of(&aged.map);
    aged.platter = platter;
    Ok(aged)
}

async fn grow_old(
    rt: &Rt,
    how: &AgeSettings,
    source: Box<dyn Source>,
) -> Result<(Aged, Platter), SimulateError> {
    let disk = instant(rt, how.size, how.start.clone())?;
    let device: Rc<dyn BlockDevice> = Rc::new(Coarse(disk.clone(), how.sector));
    let description = match how.start {
        Some(_) => String::new(),
        None => how.of_layout.mkfs(rt, Rc::clone(&device), how.identity).await?,
    };
    let settings = Settings { zeros: true, ..how.settings.clone() };
    let opening = how.of_layout.open(rt, device, Cpu::none(), settings).await?;
    let Opened { volume, .. } = opening;
    let options = Options { pace: Pace::Recorded { speed: 1.0 }, ..Options::default() };
    let mut replayer = Replayer::new(rt, &volume, options);
    let mut source = Counted::new(source, how.steps.clone());
    let report = replayer.run(&mut source).await.map_err(SimulateError::Replay)?;
    let _ = replayer.release_all().await;
    rt.sleep_until(how.end).await;
    let stat = volume.stat();
    let written = volume.written();
    volume.close().await?;
    let capacity = stat.blocks * u64::from(stat.block_size);
    let map = VolumeMap::default();
    let aged = Aged {
        platter: Platter::new(0),
        layout: Layout::of(&map),
        map,
        description,
        requests: report.ops,
        failed: report.failed_ops(),
        capacity,
        used: capacity - stat.free * u64::from(stat.block_size),
        write_cost: write_cost(written.bytes, written.cleaner_read_bytes, written.new_data_bytes),
    };
    Ok((aged, disk.platter()))
}

//! Volumes that are made old in simulation, and the maps of volumes.
//!
//! Contract: a workload is replayed on a new volume on a device that takes no time, with zeros in
//! place of user data; the result is the content of the device, with metadata as it is on a real
//! one, the volume closed. It depends on the settings and the workload alone.

use std::rc::Rc;

use twin_age::map::Collector;
use twin_age::{Layout, Planned, VolumeMap};
use twin_disk::{BlockDevice, DeviceInfo, Io, Pending};
use twin_fs::dump::{DumpError, Request};
use twin_fs::geometry::Geometry;
use twin_fs::{Cleaning, Cpu, Identity, LayoutConfig, LayoutKind, Settings, Volume, write_cost};
use twin_rt::{ClockOnly, Nanos, Rt, SECS, Time};
use twin_sim::{Platter, SimDisk, model};
use twin_trace::replay::{Options, Pace, Replayer};
use twin_trace::{Record, Source};

use twin_lab::{Counted, Steps};
use twin_lab::{SimulateError, model_error};

/// The sector of image files on hosts of today, in bytes; volumes in images are made to fit it.
pub const IMAGE_SECTOR: u32 = 4096;

/// The share of garbage from which on a segment is worth cleaning where all of them are.
const LEAST_GARBAGE: f64 = 0.05;

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

/// What a history will do: its requests and its length.
///
/// # Errors
/// If the source is damaged, or the history is longer than the time since 1970.
pub fn planned_of(source: &mut dyn Source) -> Result<Planned, String> {
    let mut planned = Planned::default();
    while let Some(record) = source.next_record().map_err(|error| error.to_string())? {
        if let Record::Request { at_ns, .. } = record {
            planned.requests += 1;
            planned.span_ns = planned.span_ns.max(at_ns);
        }
    }
    if planned.span_ns > END.0 {
        return Err("the history is longer than the time since 1970".into());
    }
    Ok(planned)
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

/// When simulated volumes are as old as they get: 1 January 2025.
pub const END: Time = Time(1_735_689_600 * SECS);

/// The settings of a volume that is made old, with so much memory for blocks. Files are used once, when
/// they are made, so that few inodes are kept: each holds its block of the table, and a cache full of
/// held blocks is searched at length for one that can go.
pub fn ageing_settings(cache_bytes: u64) -> Settings {
    Settings { cache_bytes, cached_inodes: 1 << 15, ..Settings::default() }
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

/// The content of the device of a new volume that has the free space of an old one, made with
/// the same settings, and none of its files.
///
/// # Errors
/// If it cannot be made, or the old one is damaged or of another kind.
pub fn with_space_of(how: &AgeSettings, old: &Platter) -> Result<Platter, SimulateError> {
    let new = mkfs_platter(how)?;
    let rt = Rt::new(ClockOnly::default(), how.seed);
    let work = async {
        let from = instant(&rt, old.size(), Some(old.clone()))?;
        let to = instant(&rt, how.size, Some(new))?;
        how.layout.copy_used(&from, &to).await?;
        Ok(to.platter())
    };
    let made = rt.block_on(work);
    rt.crash();
    made.map_err(SimulateError::Stalled)?
}

/// The content of the device of an old log, made with the same settings, after all of its segments with garbage were
/// cleaned.
///
/// # Errors
/// If it is damaged or of another kind, or its layout has no segments.
pub fn cleaned(how: &AgeSettings, old: &Platter) -> Result<Platter, SimulateError> {
    let rt = Rt::new(ClockOnly { start: how.end }, how.seed);
    let work = async {
        let how = AgeSettings { start: Some(old.clone()), ..how.clone() };
        let Opened { disk, volume, .. } = opened(&rt, &how).await?;
        let log = volume.layout().views().log.ok_or_else(|| model_error("it is no log"))?;
        let all = Cleaning { segments: u64::MAX, garbage_share: LEAST_GARBAGE };
        log.clean(volume.core(), all).await?;
        volume.close().await?;
        Ok(disk.platter())
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
    result.map_err(SimulateError::Stalled)??.mapped(how)
}

/// A volume that was opened to be changed in simulation.
pub(crate) struct Opened {
    pub(crate) disk: SimDisk,
    pub(crate) volume: Volume,
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

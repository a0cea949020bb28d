//! Opening the volume in an image, of whatever layout, on a host of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use twin_disk::journaled::Journaled;
use twin_disk::{BlockDevice, DeviceInfo, DeviceLog, Freezable, IoKind, Recorded};
use twin_flight::FlightSettings;
use twin_fs::{Cpu, FsError, LayoutConfig, LayoutKind, Settings, Volume};
use twin_host::{
    Count, FileDevice, FlightLog, FlightRecorder, Host, HostOptions, ImageOptions, Interrupts,
    NewFile, Progress,
};
use twin_lab::follow::{Followed, Watch};
use twin_rt::{Categories, LogEvent};
use twin_settings::{SettingsError, grammar};

use crate::journal::{self, Behind};
use crate::media::{self, Close, How, Media, Medium, StoreFigures};
use crate::observers::Observers;

/// Who is told of events.
pub type Listener = Rc<dyn Fn(&LogEvent<'_>)>;

/// A volume that is open on its host.
pub struct Opened {
    /// Its host.
    pub host: Host,
    /// The volume.
    pub volume: Volume,
    /// What opening had to do first, in words, if the volume had not been unmounted.
    pub recovery: Option<String>,
    /// Where everything that enters the core is logged.
    pub flight: Option<Rc<FlightRecorder<File>>>,
    /// Those who may observe it; not a flight either.
    pub observers: Option<Rc<Observers>>,
    /// What it is on.
    pub below: Below,
    /// If the volume is followed, what is served in its place, and who looks for newer states.
    pub follow: Option<(Watch, Followed)>,
}

/// What a volume is on.
#[derive(Default)]
pub struct Below {
    /// The device, if its content can be held: not of a flight, which could not be repeated.
    pub freezable: Option<Freezable>,
    /// What is to be done once the volume is closed, if it is on a medium of its own.
    pub close: Option<Close>,
    /// What the store of such a medium was asked.
    pub store: Option<StoreFigures>,
    /// The journal before its device, if there is one.
    pub journal: Option<Journaled>,
}

/// How to open a volume.
pub struct OpenOptions {
    /// The layout.
    pub layout: &'static dyn LayoutKind,
    /// Its settings.
    pub of_layout: Box<dyn LayoutConfig>,
    /// How the image is opened.
    pub image: ImageOptions,
    /// How a medium is opened, if the volume is on one; `image` says whether to be read alone.
    pub how: How,
    /// How the host runs.
    pub host: HostOptions,
    /// The settings of the volume.
    pub settings: Settings,
    /// Where to log everything that enters the core.
    pub flight: Option<PathBuf>,
    /// Which events to tell of, and to whom.
    pub log: Option<(Categories, Listener)>,
}

impl OpenOptions {
    /// For a volume of this layout, with nothing special.
    pub fn of(layout: &'static dyn LayoutKind) -> OpenOptions {
        OpenOptions {
            layout,
            of_layout: layout.config(),
            image: ImageOptions::default(),
            how: How::default(),
            host: HostOptions::default(),
            settings: Settings::default(),
            flight: None,
            log: None,
        }
    }
}

/// Sets what `key=value,key=value` says of a volume that exists.
///
/// # Errors
/// The first setting that is wrong.
pub fn set_for_open(config: &mut dyn LayoutConfig, text: &str) -> Result<(), SettingsError> {
    for setting in grammar::settings(text)? {
        config.set_for_open(setting.key, setting.value)?;
    }
    Ok(())
}

/// The image as a device whose sectors are not too large for the volume on it, and how it was
/// opened.
///
/// # Errors
/// If it cannot be opened.
pub fn device(
    host: &Host,
    image: &Path,
    layout: &'static dyn LayoutKind,
    options: &ImageOptions,
) -> Result<(FileDevice, ImageOptions), String> {
    media::must_be_here(image, "this command")?;
    let device = FileDevice::open(host, image, options).map_err(|e| e.to_string())?;
    let largest = host.rt().block_on(layout.largest_sector(&device)).map_err(|e| e.to_string())?;
    match largest {
        Some(largest) if device.info().sector > largest => {
            drop(device);
            let options = ImageOptions { max_sector: largest, ..*options };
            let device = FileDevice::open(host, image, &options).map_err(|e| e.to_string())?;
            Ok((device, options))
        }
        _ => Ok((device, options.clone())),
    }
}

/// Bytes of memory for pieces of what is read of a volume on a medium by a command that reads all of it.
const LOOKED_AT: u64 = 16 << 20;

/// A volume's device, to be looked at or repaired, wherever it is; and what is to be done with it in the end.
///
/// # Errors
/// If it cannot be opened.
pub fn device_anywhere(
    host: &Host,
    image: &Path,
    layout: &'static dyn LayoutKind,
    options: &ImageOptions,
) -> Result<(Rc<dyn BlockDevice>, Option<Close>), String> {
    if let Some((media, name)) = media::of(image)? {
        let how = How { read_only: options.read_only, memory: LOOKED_AT, ..How::default() };
        let Medium { device, close, .. } = media.open(host, name, how)?;
        return Ok((device, Some(close)));
    }
    let (device, _) = device(host, image, layout, options)?;
    Ok((Rc::new(device), None))
}

/// Starts the host and opens the volume in an image.
pub fn open_volume(image: &Path, options: OpenOptions) -> Result<Opened, Refused> {
    if let Some((media, name)) = media::of(image)? {
        return open_on_medium(media, name, options);
    }
    let OpenOptions { layout, of_layout, image: image_options, how, host, settings, flight, log } =
        options;
    journal::must_fit(image, &how, &image_options, flight.is_some())?;
    // Looked at on a host of its own: a flight begins when the volume is opened.
    let (info, image_options) = probe(image, layout, &image_options)?;
    let flight = match &flight {
        Some(path) => {
            let (settings, of_layout) = (settings.clone(), of_layout.clone());
            let order = host.order;
            let all = FlightSettings { device: info, settings, layout, of_layout, order };
            Some(flight_recorder(path, host.seed, &all)?)
        }
        None => None,
    };
    let flight_log = flight.clone().map(|flight| flight as Rc<dyn FlightLog>);
    let host =
        Host::start(HostOptions { flight: flight_log, ..host }).map_err(|e| e.to_string())?;
    if let Some((categories, listener)) = log {
        host.rt().log_to(categories, listener);
    }
    let device = FileDevice::open(&host, image, &image_options).map_err(|e| e.to_string())?;
    let requests = device.requests();
    let Behind { device, journal, replayed } =
        Behind::of(&host, Rc::new(device), how.journal.as_ref())?;
    let (device, freezable) = match &flight {
        Some(flight) => {
            let log = Rc::clone(flight) as Rc<dyn DeviceLog>;
            let device = Recorded::with_log(host.rt().clone(), device, log);
            (Rc::new(device) as Rc<dyn BlockDevice>, None)
        }
        None => {
            let device = Freezable::new(host.rt(), device);
            (Rc::new(device.clone()) as Rc<dyn BlockDevice>, Some(device))
        }
    };
    let opened = open_device(&host, image, device, &*of_layout, settings, journal.as_ref())?;
    let twin_fs::Opened { volume, recovery } = opened;
    let observers = flight.is_none().then(|| Observers::of(&host, &volume, requests));
    let recovery = match (replayed, recovery) {
        (Some(replayed), Some(recovery)) => Some(format!("{replayed}; {recovery}")),
        (replayed, recovery) => replayed.or(recovery),
    };
    let close = journal.clone().map(|journal| journal::emptied(journal, image));
    let below = Below { freezable, close, store: None, journal };
    Ok(Opened { host, volume, recovery, flight, observers, below, follow: None })
}

/// The same for a command: shows that the volume is opened, and notes what had to be done first if that is written.
///
/// # Errors
/// If it cannot be opened.
pub fn open_with_note(
    image: &Path,
    options: OpenOptions,
    progress: &dyn Progress,
) -> Result<Opened, String> {
    let read_only = options.settings.read_only;
    let opening = progress.begin("the volume is opened", Count::Time);
    let opened = open_volume(image, options)?;
    drop(opening);
    if let (Some(words), false) = (&opened.recovery, read_only) {
        twin_host::note!("twinfs: {words} first");
    }
    Ok(opened)
}

/// The same of a volume that is no image.
fn open_on_medium(media: &dyn Media, name: &str, options: OpenOptions) -> Result<Opened, Refused> {
    let OpenOptions { mut of_layout, image, how, host, settings, flight, log, .. } = options;
    // What is dead is paid for until then.
    of_layout.set_for_open("discard", "yes").map_err(|e| e.to_string())?;
    if flight.is_some() {
        return Err(format!("{name}: a flight log is for images on this machine").into());
    }
    let host = Host::start(host).map_err(|e| e.to_string())?;
    if let Some((categories, listener)) = log {
        host.rt().log_to(categories, listener);
    }
    let how = How { read_only: image.read_only, ..how };
    let Medium { device, close, store, follow } = media.open(&host, name, how)?;
    let (flight, observers) = (None, None);
    let below = Below { close: Some(close), store: Some(store), ..Below::default() };
    if let Some(begun) = follow {
        let begin = Watch::begin(host.rt(), begun, of_layout, settings);
        let begun = host.rt().block_on(begin).map_err(|e| e.to_string())?;
        let (watch, followed) = begun.map_err(|why| format!("{name}: {why}"))?;
        // The writer is at work: nothing had to be recovered, and what is asked about one state would be about many.
        let recovery = None;
        let (volume, follow) = (followed.following.volume(), Some((watch, followed)));
        return Ok(Opened { host, volume, recovery, flight, observers, below, follow });
    }
    let freezable = Freezable::new(host.rt(), device);
    let device = Rc::new(freezable.clone());
    let opened = open_device(&host, Path::new(name), device, &*of_layout, settings, None)?;
    let twin_fs::Opened { volume, recovery } = opened;
    let below = Below { freezable: Some(freezable), ..below };
    Ok(Opened { host, volume, recovery, flight, observers, below, follow: None })
}

/// Opens the volume in an image on a host that has others too. Flights are not for these.
pub fn open_beside(
    host: &Host,
    image: &Path,
    options: OpenOptions,
) -> Result<twin_fs::Opened, Refused> {
    media::must_be_here(image, "serve")?;
    let OpenOptions { layout, of_layout, image: image_options, settings, .. } = options;
    let (_, image_options) = probe(image, layout, &image_options)?;
    let device = FileDevice::open(host, image, &image_options).map_err(|e| e.to_string())?;
    open_device(host, image, Rc::new(device), &*of_layout, settings, None)
}

fn open_device(
    host: &Host,
    image: &Path,
    device: Rc<dyn BlockDevice>,
    of_layout: &dyn LayoutConfig,
    settings: Settings,
    journal: Option<&Journaled>,
) -> Result<twin_fs::Opened, Refused> {
    let opening = of_layout.open(host.rt(), device, Cpu::none(), settings);
    let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
    opened.map_err(|error| {
        // What cannot be opened must be open to a repair, which knows no journals. If this fails, the next attempt says so.
        if let Some(journal) = journal {
            let _ = host.rt().block_on(journal.close());
        }
        Refused::by(host, image, &error)
    })
}

/// What a device says of itself once it is open, and how it is opened for this layout.
fn probe(
    image: &Path,
    layout: &'static dyn LayoutKind,
    options: &ImageOptions,
) -> Result<(DeviceInfo, ImageOptions), String> {
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let (device, options) = device(&host, image, layout, options)?;
    Ok((device.info(), options))
}

/// A new flight log.
fn flight_recorder(
    path: &Path,
    seed: u64,
    settings: &FlightSettings,
) -> Result<Rc<FlightRecorder<File>>, String> {
    let new = NewFile::make(path, &Interrupts::default())?;
    let recorder = FlightRecorder::new(new.handle()?, seed, settings.to_text());
    new.keep();
    Ok(Rc::new(recorder))
}

/// Why a volume cannot be opened.
pub struct Refused {
    /// In words.
    pub why: String,
    /// It could be read; what failed is a write of its recovery.
    pub only_writing: bool,
}

impl Refused {
    /// By an error of the volume. Its tasks end, so that the image is free again.
    fn by(host: &Host, image: &Path, error: &FsError) -> Refused {
        host.rt().crash();
        let only_writing = matches!(error, FsError::Io(io) if io.op != IoKind::Read);
        Refused { why: format!("{}: {error}", image.display()), only_writing }
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        Refused { why, only_writing: false }
    }
}

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        refused.why
    }
}

//! `twinfs mount`: opens a volume and serves it over FUSE until it is unmounted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use twin_disk::{BlockDevice, DeviceInfo, DeviceLog, Recorded};
use twin_fs::{Cpu, FileSystem, Layout, Settings, Volume};
use twin_host::fuse::{Mount as FuseMount, MountOptions, Ready, SessionOptions, in_background};
use twin_host::{FileDevice, FlightLog, FlightRecorder, Host, HostOptions, ImageOptions, Signals};
use twin_lab::{CLOSE, FlightSettings};
use twin_lfs::{Lfs, LfsSettings, Recovered};

use super::serving::{Place, finish, recorded, serve_until_unmounted};
use super::status::StatusFile;
use super::{Outcome, absolute, random_bytes};
use crate::cli::Mount;
use crate::size::Size;

pub(crate) fn run(mut args: Mount) -> Outcome {
    args.image = absolute(&args.image)?;
    args.dir = absolute(&args.dir)?;
    for path in [&mut args.record, &mut args.flight, &mut args.status].into_iter().flatten() {
        *path = absolute(path)?;
    }
    if args.foreground {
        serve_volume(&args, Ready::nobody())?;
    } else {
        in_background(|ready| i32::from(serve_volume(&args, ready).is_err()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn serve_volume(args: &Mount, ready: Ready) -> Result<(), String> {
    twin_host::keep_freed_buffers();
    if super::ffs::is_ffs(&args.image) {
        return match super::ffs::open_mount(args) {
            Ok((place, volume, flight)) => serve_opened(args, ready, place, volume, flight),
            Err(why) => {
                ready.failed(&why);
                Err(why)
            }
        };
    }
    let (place, opened) = match open(args) {
        Ok(opened) => opened,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    let Opened { volume, recovered, flight, .. } = opened;
    if args.foreground && recovered.groups > 0 {
        eprintln!("recovered {} log writes ({})", recovered.groups, Size(recovered.log_bytes));
    }
    let Some(to) = &args.status else {
        return serve_opened(args, ready, place, volume, flight);
    };
    let status = match StatusFile::begin(to, &volume) {
        Ok(status) => status,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    let host = place.host.clone();
    status.keep(&host, &volume, || serve_opened(args, ready, place, Rc::clone(&volume), flight))
}

/// Serves an open volume of any layout until it is unmounted, then closes it.
fn serve_opened<L: Layout>(
    args: &Mount,
    ready: Ready,
    place: Place,
    volume: Rc<Volume<L>>,
    flight: Option<Rc<FlightRecorder<File>>>,
) -> Result<(), String> {
    let options =
        SessionOptions { writeback_cache: collects_writes(args), ..SessionOptions::default() };
    let closing = Rc::clone(&volume);
    let close = async move {
        if let Some(flight) = &flight {
            flight.command(CLOSE);
        }
        let closed = closing.close().await;
        let finished = match &flight {
            Some(flight) => flight.finish(closing.core.rt.digest()).map(|_| ()),
            None => Ok(()),
        };
        closed.map_err(|e| format!("closing the volume: {e}; the next mount recovers it"))?;
        finished.map_err(|e| format!("the flight log: {e}"))
    };
    let Some(to) = &args.record else {
        return serve_until_unmounted(place, volume, options, ready, close);
    };
    let text = format!("a twinfs mount of {}", args.image.display());
    let recorder = match recorded(&place.host, volume, to, args.contents, &text) {
        Ok(recorder) => recorder,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    let recording = Rc::clone(&recorder);
    let close = async move {
        let finished = finish(&recording, to);
        close.await?;
        let summary = finished?;
        if args.foreground {
            eprintln!("{summary}");
        }
        Ok(())
    };
    // A trace tells when files were opened.
    let options = SessionOptions { count_opens: true, ..options };
    serve_until_unmounted(place, recorder, options, ready, close)
}

/// True if the kernel may collect writes. A recording is to have them as they were made.
fn collects_writes(args: &Mount) -> bool {
    !args.write_through && args.record.is_none()
}

fn random_seed() -> Result<u64, String> {
    Ok(u64::from_le_bytes(random_bytes()?[..8].try_into().unwrap_or_default()))
}

/// How to run the host of a mount.
pub(super) fn host_options(args: &Mount) -> Result<HostOptions, String> {
    Ok(HostOptions {
        seed: random_seed()?,
        io_uring: !args.no_io_uring,
        spin_ns: u64::from(args.spin) * twin_rt::MICROS,
        // The kernel then has the times of files that it writes to: with clocks that agree it
        // need not send them for a file that was made and written within one tick.
        coarse_time: collects_writes(args),
        flight: None,
    })
}

/// A volume that is open on its host.
pub(super) struct Opened {
    pub(super) host: Host,
    pub(super) volume: Rc<Volume<Lfs>>,
    pub(super) recovered: Recovered,
    pub(super) flight: Option<Rc<FlightRecorder<File>>>,
}

/// How to open a volume.
#[derive(Default)]
pub(super) struct OpenOptions {
    pub(super) image: ImageOptions,
    pub(super) host: HostOptions,
    pub(super) settings: Settings,
    pub(super) lfs: LfsSettings,
    /// Where to log everything that enters the core.
    pub(super) flight: Option<PathBuf>,
}

/// Starts the host and opens the volume in an image.
pub(super) fn open_volume(image: &Path, options: OpenOptions) -> Result<Opened, String> {
    let seed = random_seed()?;
    let flight = match &options.flight {
        Some(path) => {
            let settings = FlightSettings {
                device: probe(image, &options.image)?,
                settings: options.settings.clone(),
                lfs: options.lfs.clone(),
                ffs: None,
            };
            Some(flight_recorder(path, seed, &settings)?)
        }
        None => None,
    };
    let log = flight.clone().map(|flight| flight as Rc<dyn FlightLog>);
    let host_options = HostOptions { seed, flight: log, ..options.host };
    let host = Host::start(host_options).map_err(|e| e.to_string())?;
    let device = FileDevice::open(&host, image, &options.image).map_err(|e| e.to_string())?;
    let device: Rc<dyn BlockDevice> = match &flight {
        Some(flight) => {
            let log = Rc::clone(flight) as Rc<dyn DeviceLog>;
            Rc::new(Recorded::with_log(host.rt().clone(), device, log))
        }
        None => Rc::new(device),
    };
    let open = Lfs::open(host.rt(), device, Cpu::none(), options.settings, options.lfs);
    let opened = host.rt().block_on(open).map_err(|e| e.to_string())?;
    let (volume, recovered) = opened.map_err(|e| format!("{}: {e}", image.display()))?;
    Ok(Opened { host, volume, recovered, flight })
}

/// What a device says of itself once it is open: a flight log must have it before that.
fn probe(image: &Path, options: &ImageOptions) -> Result<DeviceInfo, String> {
    let probe = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let device = FileDevice::open(&probe, image, options).map_err(|e| e.to_string())?;
    Ok(device.info())
}

/// A new flight log.
pub(super) fn flight_recorder(
    path: &Path,
    seed: u64,
    settings: &FlightSettings,
) -> Result<Rc<FlightRecorder<File>>, String> {
    let file = File::create_new(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(Rc::new(FlightRecorder::new(file, seed, settings.to_text())))
}

fn open(args: &Mount) -> Result<(Place, Opened), String> {
    let mut lfs = LfsSettings::default();
    lfs.set_cleaner_list(&args.cleaner).map_err(|why| format!("--cleaner: {why}"))?;
    let options = OpenOptions {
        image: ImageOptions {
            read_only: args.read_only,
            direct: !args.buffered,
            ..ImageOptions::default()
        },
        host: host_options(args)?,
        settings: Settings {
            cache_bytes: super::budget::cache_bytes(args)?,
            read_only: args.read_only,
            ..super::serving::mounted_settings()
        },
        lfs,
        flight: args.flight.clone(),
    };
    let opened = open_volume(&args.image, options)?;
    let limit_bytes = opened.volume.room().map(|room| room.limit_bytes);
    Ok((place(args, opened.host.clone(), limit_bytes)?, opened))
}

/// The place where a volume that is open on a host, with so much room in all, is to be mounted.
pub(super) fn place(args: &Mount, host: Host, limit_bytes: Option<u64>) -> Result<Place, String> {
    let signals = Rc::new(Signals::listen_for_stop(&host).map_err(|e| e.to_string())?);
    let mount_options = MountOptions {
        source: args.image.display().to_string(),
        read_only: args.read_only,
        allow_other: args.allow_other || MountOptions::default().allow_other,
        collected_bytes: twin_fs::collected_bytes(limit_bytes.unwrap_or(u64::MAX)),
        ..MountOptions::default()
    };
    let mount = FuseMount::new(&args.dir, &mount_options).map_err(|e| e.to_string())?;
    Ok(Place { host, mount, signals })
}

//! FFS volumes: what `mkfs`, `mount`, `check`, `stat` and `replay` do with them.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use twin_disk::{BlockDevice, DeviceLog, Recorded};
use twin_ffs::format::{Tuning, read_superblock};
use twin_ffs::{Ffs, FfsSettings, MkfsOptions, Recovered, check as checker, ordering};
use twin_fs::shape::Shape;
use twin_fs::{Cpu, Layout, Settings, Volume};
use twin_host::{
    FileDevice, FlightLog, FlightRecorder, Grade, Host, HostOptions, ImageOptions, Words,
};
use twin_lab::FlightSettings;
use twin_lfs::LfsSettings;

use super::compare::progress_bar;
use super::mkfs::device;
use super::mount::{Refused, flight_recorder, mount_settings, open_or_read, place};
use super::serving::Place;
use super::{Outcome, random_bytes, say};
use crate::cli::{Check, Mkfs, Mount, Profile, Stat};
use crate::size::Size;

/// What a new volume shall be.
pub(super) fn options(args: &Mkfs) -> Result<MkfsOptions, String> {
    if args.segment_size.is_some() {
        return Err("--segment-size is for --layout lfs".into());
    }
    let uuid = random_bytes()?;
    let base = match args.profile {
        Profile::Modern => MkfsOptions::modern(uuid),
        Profile::Classic => MkfsOptions::classic(uuid),
    };
    let small = |size: Option<Size>, what: &str, default: u32| match size {
        Some(size) => u32::try_from(size.0).map_err(|_| format!("--{what} {size} is too large")),
        None => Ok(default),
    };
    let me = (rustix::process::geteuid(), rustix::process::getegid());
    let block_size = small(args.block_size, "block-size", base.block_size)?;
    let usual_frag = Shape::fragment_for(block_size, base.frag_size);
    Ok(MkfsOptions {
        block_size,
        frag_size: small(args.frag_size, "frag-size", usual_frag)?,
        bytes_per_inode: small(args.bytes_per_inode, "bytes-per-inode", base.bytes_per_inode)?,
        ordering: args.ordering.clone().unwrap_or(base.ordering),
        tuning: Tuning { minfree: args.minfree.unwrap_or(base.tuning.minfree), ..base.tuning },
        root: (me.0.as_raw(), me.1.as_raw(), 0o755),
        ..base
    })
}

/// Makes a volume.
pub(super) fn make(args: &Mkfs, options: &MkfsOptions, is_new: bool) -> Result<(), String> {
    let (host, device) = device(args, is_new)?;
    let rt = host.rt().clone();
    let work =
        async { Ffs::mkfs(&rt, Rc::clone(&device), options).await.map_err(|e| e.to_string()) };
    let sb = host.rt().block_on(work).map_err(|e| e.to_string())??;
    say(format!(
        "{}: FFS, {:?} profile, {} ordering, {} in {} groups, blocks of {}, {} inodes",
        args.image.display(),
        sb.profile,
        options.ordering,
        Size(sb.size),
        sb.groups,
        Size(sb.shape.block_size.into()),
        sb.inodes(),
    ))
}

/// A volume that is open on its host.
struct Opened {
    host: Host,
    volume: Rc<Volume<Ffs>>,
    recovered: Recovered,
    flight: Option<Rc<FlightRecorder<File>>>,
}

/// How to open a volume.
struct OpenOptions<'a> {
    image: ImageOptions,
    host: HostOptions,
    settings: Settings,
    /// Where to log everything that enters the core.
    flight: Option<&'a Path>,
}

fn open(image: &Path, options: OpenOptions<'_>) -> Result<Opened, Refused> {
    // Looked at on a host of its own: a flight begins when the volume is opened.
    let probe = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let (found, image_options) = open_device(&probe, image, &options.image)?;
    let info = found.info();
    drop((found, probe));
    let ffs = FfsSettings::default();
    let flight = match options.flight {
        Some(path) => {
            let settings = FlightSettings {
                device: info,
                settings: options.settings.clone(),
                lfs: LfsSettings::default(),
                ffs: Some(ffs.clone()),
            };
            Some(flight_recorder(path, options.host.seed, &settings)?)
        }
        None => None,
    };
    let log = flight.clone().map(|flight| flight as Rc<dyn FlightLog>);
    let host = Host::start(HostOptions { flight: log, ..options.host });
    let host = host.map_err(|e| e.to_string())?;
    let device = FileDevice::open(&host, image, &image_options).map_err(|e| e.to_string())?;
    let device: Rc<dyn BlockDevice> = match &flight {
        Some(flight) => {
            let log = Rc::clone(flight) as Rc<dyn DeviceLog>;
            Rc::new(Recorded::with_log(host.rt().clone(), device, log))
        }
        None => Rc::new(device),
    };
    let open = Ffs::open(host.rt(), device, Cpu::none(), options.settings, ffs);
    let opened = host.rt().block_on(open).map_err(|e| e.to_string())?;
    let (volume, recovered) = opened.map_err(|e| Refused::by(&host, image, &e))?;
    Ok(Opened { host, volume, recovered, flight })
}

/// The image as a device whose sectors are no larger than the volume's fragments.
fn open_device(
    host: &Host,
    image: &Path,
    options: &ImageOptions,
) -> Result<(Rc<dyn BlockDevice>, ImageOptions), String> {
    let device = FileDevice::open(host, image, options).map_err(|e| e.to_string())?;
    let sb = host.rt().block_on(read_superblock(&device)).map_err(|e| e.to_string())?;
    let frag = match sb {
        Ok(sb) => sb.shape.frag_size,
        Err(_) => return Ok((Rc::new(device), options.clone())),
    };
    if device.info().sector <= frag {
        return Ok((Rc::new(device), options.clone()));
    }
    drop(device);
    let options = ImageOptions { max_sector: frag, ..*options };
    let device = FileDevice::open(host, image, &options).map_err(|e| e.to_string())?;
    Ok((Rc::new(device), options))
}

/// A volume, the place where it is to be mounted, and the log of what enters its core.
pub(super) type OpenMount = (Place, Rc<Volume<Ffs>>, Option<Rc<FlightRecorder<File>>>);

/// Opens a volume and the place where it is to be mounted.
pub(super) fn open_mount(args: &Mount, words: &Rc<Words>) -> Result<OpenMount, String> {
    let (opened, note) = open_or_read(args, |read_only| {
        let (image, settings) = mount_settings(args, read_only)?;
        let host = super::mount::host_options(args)?;
        open(&args.image, OpenOptions { image, host, settings, flight: args.flight.as_deref() })
    })?;
    let r = &opened.recovered;
    if r.was_open {
        words.say(
            Grade::Notice,
            &format!(
                "was not unmounted: {} records replayed ({}), {} things repaired, {} files put \
                 into lost+found",
                r.records,
                Size(r.journal_bytes),
                r.repaired,
                r.rescued
            ),
        );
    }
    Ok((place(args, opened.host, &*opened.volume, words, note)?, opened.volume, opened.flight))
}

fn plain(image: ImageOptions, settings: Settings) -> OpenOptions<'static> {
    OpenOptions { image, host: HostOptions::default(), settings, flight: None }
}

/// Opens a volume for `replay`.
pub(super) fn open_plain(image: &Path) -> Result<(Host, Rc<Volume<Ffs>>), String> {
    let opened = open(image, plain(ImageOptions::default(), Settings::default()))?;
    Ok((opened.host, opened.volume))
}

/// `twinfs check`.
pub(super) fn check(args: &Check) -> Outcome {
    if args.data {
        return Err("--data is for logs: an FFS volume has no checksums of file data".into());
    }
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let image = ImageOptions { read_only: !args.repair, ..ImageOptions::default() };
    let (device, _) = open_device(&host, &args.image, &image)?;
    let bar = progress_bar(1);
    let mut progress = |p: checker::Progress| {
        bar.set_length(p.total);
        bar.set_position(p.done);
    };
    let report = if args.repair {
        host.rt().block_on(checker::repair(host.rt(), device, &mut progress))
    } else {
        host.rt().block_on(checker::check(device, &mut progress))
    };
    bar.finish_and_clear();
    let report = report.map_err(|e| e.to_string())?;
    let report = report.map_err(|e| format!("{}: {e}", args.image.display()))?;
    for finding in &report.findings {
        say(finding)?;
    }
    if report.more_findings > 0 {
        say(format!("and {} more findings", report.more_findings))?;
    }
    let c = &report.counts;
    if !args.quiet {
        if report.was_open {
            say(format!("not unmounted: {} records in the journal", report.records))?;
        }
        say(format!(
            "{} files, {} directories, {} links and special files; {} used, {} free",
            c.files,
            c.dirs,
            c.symlinks + c.special,
            Size(c.used_bytes),
            Size(c.free_bytes)
        ))?;
    }
    match (report.is_clean(), args.repair) {
        (true, _) => {
            if !args.quiet {
                say("clean")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        (false, true) => {
            say(format!("repaired; {} files are in lost+found", report.rescued))?;
            Ok(ExitCode::SUCCESS)
        }
        (false, false) => Ok(ExitCode::FAILURE),
    }
}

/// `twinfs stat`.
pub(super) fn stat(args: &Stat) -> Outcome {
    let image = ImageOptions { read_only: true, ..ImageOptions::default() };
    let settings = Settings { read_only: true, ..Settings::default() };
    let Opened { volume, recovered, .. } = open(&args.image, plain(image, settings))?;
    let ffs = &volume.layout;
    let sb = ffs.superblock();
    let hex: String = sb.uuid.iter().map(|b| format!("{b:02x}")).collect();
    let (used, limit) = ffs.space();
    let (blocks, free) = ffs.free_space();
    let stat = ffs.stat(&volume.core);
    let percent = used as f64 * 100.0 / limit as f64;
    let block = u64::from(sb.shape.block_size);
    let name = ordering::by_number(sb.ordering).map_or("unknown", |e| e.name);
    say(format!("uuid             {hex}"))?;
    say(format!("layout           FFS, {:?} profile, {name} ordering", sb.profile))?;
    say(format!("size             {}", Size(sb.size)))?;
    say(format!("block, fragment  {}, {}", Size(block), Size(sb.shape.frag_size.into())))?;
    let group = u64::from(sb.group_frags) * u64::from(sb.shape.frag_size);
    say(format!("groups           {} of {}", sb.groups, Size(group)))?;
    if sb.journal_bytes > 0 {
        say(format!("journal          {}", Size(sb.journal_bytes)))?;
    }
    say(format!("used             {} of {} ({percent:.1}%)", Size(used), Size(limit)))?;
    let loose = free.saturating_sub(blocks * block);
    say(format!("free             {}, of this {} in fragments", Size(free), Size(loose)))?;
    say(format!("inodes           {} used of {}", stat.inodes - stat.free_inodes, stat.inodes))?;
    let state = if recovered.was_open { "not unmounted" } else { "unmounted properly" };
    say(format!("state            {state}"))?;
    Ok(ExitCode::SUCCESS)
}

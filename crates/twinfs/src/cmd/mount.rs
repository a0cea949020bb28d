//! `twinfs mount`: opens a volume and serves it over FUSE until it is unmounted.

use std::process::ExitCode;
use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::{Cpu, Settings, Volume};
use twin_host::fuse::{Mount as FuseMount, MountOptions, Ready, SessionOptions, in_background};
use twin_host::{FileDevice, Host, HostOptions, ImageOptions, Signals};
use twin_lfs::{Lfs, LfsSettings, Recovered};

use super::serving::{Place, finish, recorded, serve_until_unmounted};
use super::{Outcome, absolute, random_bytes};
use crate::cli::Mount;
use crate::size::Size;

pub(crate) fn run(mut args: Mount) -> Outcome {
    args.image = absolute(&args.image)?;
    args.dir = absolute(&args.dir)?;
    if let Some(path) = &mut args.record {
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
    let (place, volume, recovered) = match open(args) {
        Ok(opened) => opened,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    if args.foreground && recovered.groups > 0 {
        eprintln!("recovered {} log writes ({})", recovered.groups, Size(recovered.log_bytes));
    }
    let options = SessionOptions { writeback_cache: args.writeback, ..SessionOptions::default() };
    let closing = Rc::clone(&volume);
    let close = async move {
        let closed = closing.close().await;
        closed.map_err(|e| format!("closing the volume: {e}; the next mount recovers it"))
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

/// Starts the host and opens the volume in an image.
pub(super) fn open_volume(
    image: &std::path::Path,
    options: &ImageOptions,
    io_uring: bool,
    settings: Settings,
    lfs: LfsSettings,
) -> Result<(Host, Rc<Volume<Lfs>>, Recovered), String> {
    let seed = u64::from_le_bytes(random_bytes()?[..8].try_into().unwrap_or_default());
    let host = Host::start(HostOptions { seed, io_uring, ..HostOptions::default() });
    let host = host.map_err(|e| e.to_string())?;
    let device = FileDevice::open(&host, image, options).map_err(|e| e.to_string())?;
    let device: Rc<dyn BlockDevice> = Rc::new(device);
    let open = Lfs::open(host.rt(), device, Cpu::none(), settings, lfs);
    let opened = host.rt().block_on(open).map_err(|e| e.to_string())?;
    let (volume, recovered) = opened.map_err(|e| format!("{}: {e}", image.display()))?;
    Ok((host, volume, recovered))
}

fn open(args: &Mount) -> Result<(Place, Rc<Volume<Lfs>>, Recovered), String> {
    let image = ImageOptions {
        read_only: args.read_only,
        direct: !args.buffered,
        ..ImageOptions::default()
    };
    let settings =
        Settings { cache_bytes: args.cache.0, read_only: args.read_only, ..Settings::default() };
    let lfs = LfsSettings { victim: args.victim.clone(), ..LfsSettings::default() };
    let (host, volume, recovered) =
        open_volume(&args.image, &image, !args.no_io_uring, settings, lfs)?;
    let signals = Rc::new(Signals::listen_for_stop(&host).map_err(|e| e.to_string())?);
    let mount_options = MountOptions {
        source: args.image.display().to_string(),
        read_only: args.read_only,
        allow_other: args.allow_other || MountOptions::default().allow_other,
        ..MountOptions::default()
    };
    let mount = FuseMount::new(&args.dir, &mount_options).map_err(|e| e.to_string())?;
    Ok((Place { host, mount, signals }, volume, recovered))
}

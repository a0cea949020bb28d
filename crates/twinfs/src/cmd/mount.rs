//! `twinfs mount`: opens a volume and serves it over FUSE until it is unmounted.

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::{Cpu, Settings, Volume};
use twin_host::fuse::{
    Mount as FuseMount, MountOptions, Ready, Session, SessionOptions, in_background, serve,
};
use twin_host::{FileDevice, Host, HostOptions, ImageOptions, Signals};
use twin_lfs::{Lfs, LfsSettings, Recovered};
use twin_rt::SECS;

use super::{Outcome, random_bytes};
use crate::cli::Mount;
use crate::size::Size;

/// How long clients may hold on to a mount that was told to end.
const GRACE_NS: u64 = 5 * SECS;

pub(crate) fn run(mut args: Mount) -> Outcome {
    // The background process works in the root directory.
    let absolute =
        |path: &PathBuf| std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()));
    args.image = absolute(&args.image)?;
    args.dir = absolute(&args.dir)?;
    if args.foreground {
        serve_volume(&args, Ready::nobody())?;
    } else {
        in_background(|ready| i32::from(serve_volume(&args, ready).is_err()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A volume that is open and mounted.
struct Mounted {
    host: Host,
    volume: Rc<Volume<Lfs>>,
    mount: FuseMount,
    signals: Rc<Signals>,
    recovered: Recovered,
}

fn serve_volume(args: &Mount, ready: Ready) -> Result<(), String> {
    let m = match open(args) {
        Ok(m) => m,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    if args.foreground && m.recovered.groups > 0 {
        let log = Size(m.recovered.log_bytes);
        eprintln!("recovered {} log writes ({log})", m.recovered.groups);
    }
    let options = SessionOptions { writeback_cache: args.writeback, ..SessionOptions::default() };
    let session = Session::new(&m.host, m.mount.fd(), Rc::clone(&m.volume), options);
    ready.mounted().map_err(|e| e.to_string())?;
    let host = m.host.clone();
    let volume = Rc::clone(&m.volume);
    let served = m.host.rt().block_on(async move {
        let served = serve(&host, m.mount, &session, Some(m.signals), GRACE_NS).await;
        // Whatever ended it, what clients were told is made durable.
        let closed = volume.close().await;
        (served, closed)
    });
    let (served, closed) = served.map_err(|e| e.to_string())?;
    closed.map_err(|e| format!("closing the volume: {e}; the next mount recovers it"))?;
    served.map_err(|e| e.to_string())?;
    Ok(())
}

fn open(args: &Mount) -> Result<Mounted, String> {
    let text = |e: std::io::Error| e.to_string();
    let seed = u64::from_le_bytes(random_bytes()?[..8].try_into().unwrap_or_default());
    let options = HostOptions { seed, io_uring: !args.no_io_uring, ..HostOptions::default() };
    let host = Host::start(options).map_err(text)?;
    let signals = Rc::new(Signals::listen_for_stop(&host).map_err(text)?);
    let image = ImageOptions {
        read_only: args.read_only,
        direct: !args.buffered,
        ..ImageOptions::default()
    };
    let device = FileDevice::open(&host, &args.image, &image).map_err(|e| e.to_string())?;
    let device: Rc<dyn BlockDevice> = Rc::new(device);
    let settings =
        Settings { cache_bytes: args.cache.0, read_only: args.read_only, ..Settings::default() };
    let lfs = LfsSettings { victim: args.victim.clone(), ..LfsSettings::default() };
    let open = Lfs::open(host.rt(), device, Cpu::none(), settings, lfs);
    let opened = host.rt().block_on(open).map_err(|e| e.to_string())?;
    let (volume, recovered) = opened.map_err(|e| format!("{}: {e}", args.image.display()))?;
    let mount_options = MountOptions {
        source: args.image.display().to_string(),
        read_only: args.read_only,
        allow_other: args.allow_other || MountOptions::default().allow_other,
        ..MountOptions::default()
    };
    let mount = FuseMount::new(&args.dir, &mount_options).map_err(|e| e.to_string())?;
    Ok(Mounted { host, volume, mount, signals, recovered })
}

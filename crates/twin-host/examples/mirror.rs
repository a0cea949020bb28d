//! Mounts a mirror of a directory: a complete FUSE server made of the parts of twin-host.
//!
//!     mirror [OPTION]... SOURCE DIR     mount; returns once mounted
//!     mirror --unmount DIR              unmount; returns once the daemon has gone
//!
//! Options: --foreground, --exclusive (nobody else changes SOURCE: the kernel may cache for long,
//! opens need no request), --count-opens (with --exclusive: they do), --writeback, --own-checks
//! (the mirror checks permissions, not the kernel), --no-cache (the kernel asks every time),
//! --no-xattrs, --no-io-uring, --spin MICROSECONDS, --stats (print at the end what was served;
//! with --foreground).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use twin_host::fuse::{
    Deputy, Mount, MountOptions, Ready, Session, SessionOptions, in_background, serve, unmount,
};
use twin_host::mirror::Mirror;
use twin_host::{Host, HostOptions, Signals};
use twin_rt::{MICROS, SECS};

#[derive(Default)]
struct Args {
    flags: Vec<String>,
    spin_us: u64,
    paths: Vec<PathBuf>,
}

fn parse() -> Option<Args> {
    let mut args = Args::default();
    let mut rest = std::env::args().skip(1);
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--spin" => args.spin_us = rest.next()?.parse().ok()?,
            flag if flag.starts_with("--") => args.flags.push(arg),
            // The path must be absolute, because the working directory of the daemon is the root.
            path => args.paths.push(std::path::absolute(path).ok()?),
        }
    }
    Some(args)
}

impl Args {
    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|f| f == flag)
    }
}

fn run(args: &Args, source: &Path, dir: &Path, ready: Ready) -> Result<(), String> {
    match mounted(args, source, dir) {
        Ok((host, mount, session, signals)) => {
            let session2 = session.clone();
            let served = host.rt().block_on({
                let host = host.clone();
                async move {
                    let ready = || ready.mounted();
                    serve(&host, mount, &session2, Some(signals), 5 * SECS, ready).await
                }
            });
            if args.has("--stats") {
                println!("{:?} over {}", session.stats(), host.engine());
            }
            served.map_err(|e| e.to_string())?.map(|_| ()).map_err(|e| e.to_string())
        }
        Err(why) => {
            ready.failed(&why);
            Err(why)
        }
    }
}

type Mounted = (Host, Mount, Session<Mirror>, Rc<Signals>);

fn mounted(args: &Args, source: &Path, dir: &Path) -> Result<Mounted, String> {
    let text = |e: std::io::Error| e.to_string();
    let kernel_checks = !args.has("--own-checks");
    let host_options = HostOptions {
        io_uring: !args.has("--no-io-uring"),
        spin_ns: args.spin_us * MICROS,
        ..HostOptions::default()
    };
    let deputy = Deputy::start().map_err(text)?;
    let host = Host::start(host_options).map_err(text)?;
    let signals = Rc::new(Signals::listen_for_stop(&host).map_err(text)?);
    let fs = Mirror::open(source).map_err(|e| format!("{}: {e}", source.display()))?;
    let mount_options = MountOptions {
        source: source.display().to_string(),
        kernel_checks,
        ..MountOptions::default()
    };
    let mount = Mount::new(dir, &mount_options, deputy).map_err(|e| e.to_string())?;
    let exclusive = args.has("--exclusive");
    let base = if exclusive { SessionOptions::default() } else { SessionOptions::shared() };
    let base = if args.has("--no-cache") {
        SessionOptions { entry_timeout_ns: 0, attr_timeout_ns: 0, negative_timeout_ns: 0, ..base }
    } else {
        base
    };
    let session_options = SessionOptions {
        xattrs: !args.has("--no-xattrs"),
        writeback_cache: args.has("--writeback"),
        count_opens: base.count_opens || args.has("--count-opens"),
        kernel_checks,
        ..base
    };
    let session = Session::new(&host, mount.fd(), Rc::new(fs), session_options);
    Ok((host, mount, session, signals))
}

fn main() -> ExitCode {
    let Some(args) = parse() else {
        eprintln!("a bad argument: see the head of the example");
        return ExitCode::from(2);
    };
    let done = match &args.paths[..] {
        [dir] if args.has("--unmount") => unmount(dir).map_err(|e| e.to_string()),
        [source, dir] if args.has("--foreground") => run(&args, source, dir, Ready::foreground()),
        [source, dir] => {
            in_background(|ready| i32::from(run(&args, source, dir, ready).is_err())).map(drop)
        }
        _ => Err("usage: mirror [OPTION]... SOURCE DIR, or mirror --unmount DIR".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("mirror: {why}");
            ExitCode::FAILURE
        }
    }
}

//! The run of a program on a volume whose history is kept.
//!
//! Contract: the volume lies in memory and is mounted for the run alone; the kernel passes every write on at once, so that
//! the history has them in the order of the program's calls. What is acknowledged goes to a file outside of the volume,
//! which is read before each operation begins. After the program a probe of our own does what is known to lose
//! something, in the same way.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use twin_crashlab::faults::Failing;
use twin_crashlab::{Acks, DeviceHistory, History, Recorded, root_of};
use twin_disk::{BlockDevice, MemDisk};
use twin_fs::{Cpu, Identity, LayoutKind, Op, Request, Settings, Volume};
use twin_host::apart::{Ended, Program};
use twin_host::fuse::{Deputy, Mount, MountOptions, Session, SessionOptions, serve_while};
use twin_host::{Host, HostOptions, offload, random_bytes};
use twin_rt::SECS;

/// How long what a program leaves running may use the volume.
const GRACE_NS: u64 = 2 * SECS;
/// What has the name of the file for acknowledgements in a program's environment.
pub const ACK_FILE: &str = "CRASHLAB_ACK";
/// The directory of the volume, for programs and checks.
pub const DIR: &str = "CRASHLAB_DIR";

/// What is run where.
pub(super) struct RunRequest<'a> {
    pub(super) layout: &'static dyn LayoutKind,
    /// Bytes of the volume.
    pub(super) size: u64,
    /// A command of the shell that comes first, and whose changes are certain.
    pub(super) setup: Option<&'a str>,
    pub(super) command: &'a [OsString],
    /// The probe, if there is to be one.
    pub(super) probe: Option<&'a [OsString]>,
    /// What the command has in its environment besides.
    pub(super) env: &'a [(&'static str, OsString)],
    pub(super) volume: &'a Path,
    pub(super) ack_file: &'a Path,
    /// The history is that of the device.
    pub(super) of_device: bool,
}

/// The histories of a run.
pub(super) struct Run {
    pub(super) command: History,
    pub(super) probe: Option<History>,
}

/// The volume of a run, whose history is kept and whose calls can be made to fail.
pub(super) type RecordedVolume = Failing<Recorded<Volume>>;

/// Runs all of it.
///
/// # Errors
/// If the volume cannot be made or mounted, or a program fails.
pub(super) fn run(request: &RunRequest<'_>, deputy: Deputy) -> Result<Run, String> {
    mounted(request, deputy, async |host, kept| programs(host, request, kept.inner()).await)
}

/// Mounts a new volume for as long as the work takes.
///
/// # Errors
/// If the volume cannot be made or mounted, or the work fails.
pub(super) fn mounted<T>(
    request: &RunRequest<'_>,
    deputy: Deputy,
    work: impl AsyncFnOnce(&Host, &RecordedVolume) -> Result<T, String>,
) -> Result<T, String> {
    let text = |e: io::Error| e.to_string();
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let acks = acks(request.ack_file).map_err(text)?;
    let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let root = root_of(me.0, me.1);
    let recorded = if request.of_device {
        let (device, history) = DeviceHistory::begin(request.size, root);
        let volume = new_volume(&host, request, Rc::new(device))?;
        Recorded::with_device(volume, history, acks)
    } else {
        let volume = new_volume(&host, request, Rc::new(MemDisk::new(request.size)))?;
        Recorded::new(volume, root, acks)
    };
    let kept = Rc::new(Failing::new(recorded));
    let options = MountOptions { source: "crashlab".into(), ..MountOptions::default() };
    let mount = Mount::new(request.volume, &options, deputy).map_err(|e| e.to_string())?;
    let options = SessionOptions { count_opens: true, ..SessionOptions::default() };
    let session = Session::new(&host, mount.fd(), Rc::clone(&kept), options);
    let work = work(&host, &kept);
    let served = host.rt().block_on(serve_while(&host, mount, &session, GRACE_NS, work));
    let done = served.map_err(|e| e.to_string())?.map_err(|e| format!("the volume: {e}"))?;
    let volume = kept.inner().inner();
    let closed = host.rt().block_on(volume.close()).map_err(|e| e.to_string())?;
    closed.map_err(|e| format!("the volume: {e}"))?;
    done
}

fn new_volume(
    host: &Host,
    request: &RunRequest<'_>,
    device: Rc<dyn BlockDevice>,
) -> Result<Volume, String> {
    let config = request.layout.config();
    let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw(), 0o755);
    let identity = Identity { uuid: random_bytes()?, root: me };
    let made = host.rt().block_on(config.mkfs(host.rt(), Rc::clone(&device), identity));
    made.map_err(|e| e.to_string())?.map_err(|e| format!("a volume of this size: {e}"))?;
    let opening = config.open(host.rt(), device, Cpu::none(), Settings::default());
    let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
    Ok(opened.map_err(|e| e.to_string())?.volume)
}

/// Runs the programs one after the other, with a history of each.
async fn programs(
    host: &Host,
    request: &RunRequest<'_>,
    recorded: &Recorded<Volume>,
) -> Result<Run, String> {
    if let Some(setup) = request.setup {
        let words = ["sh", "-c", setup].map(OsString::from);
        program(host, request, &words, "the setup").await?;
    }
    synced(recorded, request).await?;
    recorded.cut();
    program(host, request, request.command, "the command").await?;
    recorded.exited();
    // What comes last is the whole run on the device.
    synced(recorded, request).await?;
    let command = recorded.cut();
    Ok(Run { command, probe: probe(host, request, recorded).await? })
}

/// Runs the probe, if there is to be one.
pub(super) async fn probe(
    host: &Host,
    request: &RunRequest<'_>,
    recorded: &Recorded<Volume>,
) -> Result<Option<History>, String> {
    let Some(probe) = request.probe else { return Ok(None) };
    program(host, request, probe, "the probe").await?;
    recorded.exited();
    synced(recorded, request).await?;
    Ok(Some(recorded.cut()))
}

/// Has the device of a history hold all that was done.
pub(super) async fn synced(
    recorded: &Recorded<Volume>,
    request: &RunRequest<'_>,
) -> Result<(), String> {
    if !request.of_device {
        return Ok(());
    }
    let sync = Request { client: Request::NO_CLIENT, ..Request::root(0, Op::Sync) };
    let synced = recorded.inner().execute(sync).await;
    synced.map(drop).map_err(|e| format!("the volume: {e}"))
}

async fn program(
    host: &Host,
    request: &RunRequest<'_>,
    words: &[OsString],
    what: &str,
) -> Result<(), String> {
    let more = request.env.to_vec();
    let (words, dir, acks): (Vec<_>, PathBuf, OsString) =
        (words.to_vec(), request.volume.to_owned(), request.ack_file.into());
    let running = offload(host, move || {
        let mut env = vec![(DIR, dir.clone().into()), (ACK_FILE, acks)];
        env.extend(more);
        Program { words: &words, dir: &dir, env: &env, instead: None, output: None, limit: None }
            .run()
    });
    let ended = running.map_err(|e| e.to_string())?.await.map_err(|e| e.to_string())?;
    match ended {
        Ok(ended) if ended.is_success() => Ok(()),
        Ok(ended @ Ended::Itself(_)) => Err(format!("{what} failed: {}", ended.words())),
        Ok(Ended::Late) => Err(format!("{what} did not end")),
        Err(error) => Err(format!("{what} cannot be started: {error}")),
    }
}

/// What was added to a file since the last call, in lines.
fn acks(path: &Path) -> io::Result<Acks> {
    let file = File::options().read(true).append(true).create(true).open(path)?;
    // Whoever the program becomes may acknowledge.
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    let (read, rest) = (Cell::new(0u64), RefCell::new(Vec::new()));
    Ok(Box::new(move || {
        let len = file.metadata().map_or(0, |data| data.len());
        if len == read.get() {
            return Vec::new();
        }
        // A file that was begun anew has new labels.
        let from = if len < read.get() { 0 } else { read.get() };
        let mut new = vec![0; (len - from) as usize];
        if file.read_exact_at(&mut new, from).is_err() {
            return Vec::new();
        }
        read.set(len);
        let mut rest = rest.borrow_mut();
        rest.extend(new);
        let end = rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = rest.drain(..end).collect();
        let lines = String::from_utf8_lossy(&lines);
        lines.lines().filter(|line| !line.is_empty()).map(String::from).collect()
    }))
}

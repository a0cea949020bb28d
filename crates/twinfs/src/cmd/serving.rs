//! What `mount` and `record` share: serving a file system, perhaps recorded, until it is
//! unmounted.

use std::fs::File;
use std::path::Path;
use std::rc::Rc;

use twin_fs::{FileSystem, Settings};
use twin_host::fuse::{Mount, Ready, Session, SessionOptions, serve};
use twin_host::{Host, Signals};
use twin_rt::SECS;
use twin_trace::Recorder;

/// How long clients may hold on to a mount that was told to end.
const GRACE_NS: u64 = 5 * SECS;

/// What the kernel hands over is durable after so long, whether anybody asks or not.
const DURABLE_WITHIN_NS: u64 = 2 * SECS;

/// What differs on a mount from a simulation: above it is the kernel's page cache, which keeps what
/// was read, and which passes `sync` on to us as writes and not as a wish.
pub(super) fn mounted_settings() -> Settings {
    Settings {
        drop_behind: true,
        durable_within_ns: Some(DURABLE_WITHIN_NS),
        ..Settings::default()
    }
}

/// A place where a file system is mounted, with what serving needs.
pub(super) struct Place {
    pub(super) host: Host,
    pub(super) mount: Mount,
    pub(super) signals: Rc<Signals>,
}

/// Serves a file system until it is unmounted, then runs `close`.
pub(super) fn serve_until_unmounted<F: FileSystem>(
    place: Place,
    fs: Rc<F>,
    options: SessionOptions,
    ready: Ready,
    close: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    let Place { host, mount, signals } = place;
    let session = Session::new(&host, mount.fd(), fs, options);
    ready.mounted().map_err(|e| e.to_string())?;
    let work = async {
        let served = serve(&host, mount, &session, Some(signals), GRACE_NS).await;
        // Whatever ended it, what clients were told is made durable.
        (served, close.await)
    };
    let (served, closed) = host.rt().block_on(work).map_err(|e| e.to_string())?;
    closed?;
    served.map(|_| ()).map_err(|e| e.to_string())
}

/// A file system that is recorded to a new file, written out every second.
pub(super) fn recorded<F: FileSystem>(
    host: &Host,
    fs: F,
    to: &Path,
    contents: bool,
    text: &str,
) -> Result<Rc<Recorder<F, File>>, String> {
    let in_file = |e: &dyn std::fmt::Display| format!("{}: {e}", to.display());
    let file = File::create_new(to).map_err(|e| in_file(&e))?;
    let recorder = Recorder::new(host.rt(), fs, file, contents, text).map_err(|e| in_file(&e))?;
    let recorder = Rc::new(recorder);
    let (weak, rt) = (Rc::downgrade(&recorder), host.rt().clone());
    host.rt().spawn("trace writer", async move {
        loop {
            rt.sleep(SECS).await;
            match weak.upgrade() {
                Some(recorder) => recorder.flush(),
                None => return,
            }
        }
    });
    Ok(recorder)
}

/// Closes a recording and says how much it has.
pub(super) fn finish<F: FileSystem>(
    recorder: &Recorder<F, File>,
    to: &Path,
) -> Result<String, String> {
    recorder.finish().map_err(|e| format!("{}: {e}", to.display()))?;
    let recorded = recorder.recorded();
    let each = recorded.bytes as f64 / recorded.requests.max(1) as f64;
    Ok(format!("{} operations in {} bytes ({each:.1} each)", recorded.requests, recorded.bytes))
}

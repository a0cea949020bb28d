//! What `mount` and `record` share: serving a file system, perhaps recorded, until it is
//! unmounted.

use std::fs::File;
use std::path::Path;
use std::rc::Rc;

use twin_fs::{FileSystem, FsError};
use twin_host::fuse::{Mount, Ready, Session, SessionOptions, in_background, serve};
use twin_host::{Grade, Host, Relation, Signals, Words, relation, take_limits, take_signals};
use twin_rt::SECS;
use twin_trace::{Recorder, RecorderOptions};

use super::files::NewFile;

/// How long clients may hold on to a mount that was told to end.
const GRACE_NS: u64 = 5 * SECS;

/// A place where a file system is mounted, with what serving needs.
pub(super) struct Place {
    pub(super) host: Host,
    pub(super) mount: Mount,
    pub(super) signals: Rc<Signals>,
    /// Who hears what the daemon has to say.
    pub(super) words: Rc<Words>,
    /// What is to be told where it was mounted from.
    pub(super) note: String,
    /// Where it is served besides; empty if it is not.
    pub(super) served: String,
}

/// Runs `serve`, which will use so many bytes of memory, on this process or, in the background, on one
/// of its own, whose last words then go to the system's log.
pub(super) fn run_serving(
    foreground: bool,
    about: &str,
    memory: u64,
    serve: impl FnOnce(Ready, &Rc<Words>) -> Result<(), String>,
) -> Result<(), String> {
    take_limits(memory)?;
    if foreground {
        take_signals(foreground);
        return serve(Ready::nobody(), &Rc::new(Words::to_terminal(about)));
    }
    let words = Rc::new(Words::to_log(about));
    in_background(|ready| {
        take_signals(foreground);
        match serve(ready, &words) {
            Ok(()) => 0,
            Err(why) => {
                words.say(Grade::Error, &why);
                1
            }
        }
    })
    .map(drop)
}

/// Has the front end tell the words of a mount.
pub(super) fn reporting(options: SessionOptions, words: &Rc<Words>) -> SessionOptions {
    let words = Rc::clone(words);
    SessionOptions { report: Rc::new(move |line| words.say(Grade::Error, line)), ..options }
}

/// Serves a file system until it is unmounted, then runs `close`. One that does not answer any more
/// is told to `stop` waiting.
pub(super) fn serve_until_unmounted<F: FileSystem>(
    place: Place,
    fs: Rc<F>,
    options: SessionOptions,
    ready: Ready,
    stop: impl Fn(FsError) + 'static,
    close: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    let Place { host, mount, signals, words, note, served } = place;
    let session = Session::new(&host, mount.fd(), fs, reporting(options, &words));
    if !note.is_empty() {
        words.say(Grade::Warning, &note);
    }
    if !served.is_empty() {
        words.say(Grade::Notice, &served);
    }
    // Before anybody is told that it serves: a host without another thread must be told too.
    let guard = match host.guard(&words) {
        Ok(guard) => guard,
        Err(error) => {
            let why = format!("a thread: {error}");
            ready.failed(&why);
            return Err(why);
        }
    };
    let told = [note, served].into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let ready = move || ready.mounted_saying(&told.join("; "));
    if host.flight().is_none() {
        super::watch::begin(&host, &session, &words, stop);
    }
    let work = async {
        let served = serve(&host, mount, &session, Some(signals), GRACE_NS, ready).await;
        guard.closing();
        // Whatever ended it, what clients were told is made durable.
        (served, close.await)
    };
    let (served, closed) = host.rt().block_on(work).map_err(|e| e.to_string())?;
    // Until the process has ended: letting go of the device waits for its requests too.
    std::mem::forget(guard);
    closed?;
    served.map(|_| ()).map_err(|e| e.to_string())
}

/// A trace that was opened before anything was mounted, and what to write into it.
pub(super) struct Trace {
    pub(super) new: NewFile,
    pub(super) contents: bool,
    /// What it is a trace of.
    pub(super) about: String,
}

/// A file system that is recorded to a new file, written out every second.
pub(super) fn recorded<F: FileSystem>(
    host: &Host,
    fs: F,
    trace: Trace,
) -> Result<Rc<Recorder<F, File>>, String> {
    let Trace { new, contents, about } = trace;
    let clock = host.clone();
    let options = RecorderOptions {
        contents,
        mounted: true,
        text: about,
        clock: Some(Rc::new(move || clock.now())),
    };
    let recorder = Recorder::new(host.rt(), fs, new.handle()?, options);
    let recorder = Rc::new(recorder.map_err(|e| format!("the trace: {e}"))?);
    new.keep();
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

/// That files which a daemon uses do not lie where it mounts: a call on such a path would wait for
/// the process that makes it.
///
/// # Errors
/// Names the first that does.
pub(super) fn must_be_outside(dir: &Path, files: &[(&str, &Path)]) -> Result<(), String> {
    // What is no directory is refused by the mount.
    if dir.is_file() {
        return Ok(());
    }
    for (what, path) in files {
        if relation(path, dir) != Relation::Apart {
            return Err(format!(
                "{what} {} lies in {}, where this is to be mounted: the daemon would wait for \
                 itself. Choose a place outside",
                path.display(),
                dir.display()
            ));
        }
    }
    Ok(())
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

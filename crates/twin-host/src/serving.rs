//! What `mount` and `record` share: serving a file system, perhaps recorded, until it is
//! unmounted.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use twin_fs::{FileSystem, FsError};
use twin_rt::SECS;
use twin_trace::{Ended, Recorder, RecorderOptions};

use crate::fuse::{Mount, Ready, Session, SessionOptions, in_background, serve};
use crate::host::Host;
use crate::limits::take_limits;
use crate::new_files::NewFile;
use crate::places::{Relation, relation};
use crate::request_watch::watch_requests;
use crate::signals::{Signals, take_signals};
use crate::words::{Grade, Words};

/// How long clients may hold on to a mount that was told to end.
const GRACE_NS: u64 = 5 * SECS;

/// A place where a file system is mounted, with what serving needs.
pub struct Place {
    /// The runtime on which it is served.
    pub host: Host,
    /// What was mounted.
    pub mount: Mount,
    /// The signals that end the serving.
    pub signals: Rc<Signals>,
    /// Who hears what the daemon has to say.
    pub words: Rc<Words>,
    /// What is to be told where it was mounted from.
    pub note: String,
    /// Where it is served besides; empty if it is not.
    pub served: String,
}

/// Runs `serve`, which will use so many bytes of memory, on this process or, in the background, on one
/// of its own, whose last words then go to the system's log.
pub fn run_serving(
    foreground: bool,
    about: &str,
    memory: u64,
    serve: impl FnOnce(Ready, &Rc<Words>) -> Result<(), String>,
) -> Result<(), String> {
    take_limits(memory)?;
    if foreground {
        take_signals(foreground);
        return serve(Ready::foreground(), &Rc::new(Words::to_terminal(about)));
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
pub fn reporting(options: SessionOptions, words: &Rc<Words>) -> SessionOptions {
    let words = Rc::clone(words);
    SessionOptions { report: Rc::new(move |line| words.say(Grade::Error, line)), ..options }
}

/// Serves a file system until it is unmounted, then runs `close`. One that does not answer any more
/// is told to `stop` waiting.
pub fn serve_until_unmounted<F: FileSystem>(
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
    let refused = host.idle_polling_refused().unwrap_or_default();
    let told =
        [note, refused, served].into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let ready = move || ready.mounted_saying(&told.join("; "));
    if host.flight().is_none() {
        watch_requests(&host, &session, &words, stop);
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
pub struct Trace {
    /// Its file.
    pub new: NewFile,
    /// Whether it has the contents of files.
    pub contents: bool,
    /// What it is a trace of.
    pub about: String,
}

/// A file system that is recorded to a new file, written out every second.
pub fn recorded<F: FileSystem>(
    host: &Host,
    words: &Rc<Words>,
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
    let path = new.keep();
    recorder.on_end(end_of_recording(words, "the trace", path));
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

/// What writes out a recording and says whether it has ended before its time.
pub fn has_ended<F: FileSystem>(recorder: Weak<Recorder<F, File>>) -> Rc<dyn Fn() -> bool> {
    Rc::new(move || {
        recorder.upgrade().is_some_and(|recorder| {
            recorder.flush();
            recorder.has_failed()
        })
    })
}

/// What is done when a recording ends because its file takes no more: the file is closed behind its
/// last whole frame, and it is said at once. Serving goes on.
pub fn end_of_recording(
    words: &Rc<Words>,
    what: &'static str,
    path: PathBuf,
) -> impl FnOnce(Ended<File>) + use<> {
    let words = Rc::clone(words);
    move |ended| {
        let Ended { out: mut file, whole_bytes, closing, why } = ended;
        // What was cut off gives room for the end. Without an end it is read to its last frame too.
        let cut = |file: &mut File| {
            file.set_len(whole_bytes)?;
            file.seek(SeekFrom::Start(whole_bytes)).map(drop)
        };
        let closed = cut(&mut file).and_then(|()| file.write_all(&closing));
        if closed.is_err() {
            let _ = cut(&mut file);
        }
        let text = format!(
            "recording has ended: {}: {why}; {what} has what was done until now, and the mount goes \
             on without it",
            path.display()
        );
        words.say(Grade::Error, &text);
    }
}

/// That files which a daemon uses do not lie where it mounts: a call on such a path would wait for
/// the process that makes it.
///
/// # Errors
/// Names the first that does.
pub fn must_be_outside(dir: &Path, files: &[(&str, &Path)]) -> Result<(), String> {
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
pub fn finish<F: FileSystem>(recorder: &Recorder<F, File>, to: &Path) -> Result<String, String> {
    recorder.finish().map_err(|e| format!("{}: {e}", to.display()))?;
    let recorded = recorder.recorded();
    let each = recorded.bytes as f64 / recorded.requests.max(1) as f64;
    Ok(format!("{} operations in {} bytes ({each:.1} each)", recorded.requests, recorded.bytes))
}

//! Recording a directory: it is mirrored, and what is done in the mirror is written down.

use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::StatVfsMountFlags;
use twin_host::fuse::{Deputy, Mount, MountOptions, Ready, SessionOptions};
use twin_host::mirror::Mirror;
use twin_host::serving::{
    Place, Trace, finish, has_ended, must_be_outside, recorded, serve_until_unmounted,
};
use twin_host::{
    Host, HostOptions, Interrupts, NewFile, Relation, Signals, Words, file_size_limit, relation,
};
use twin_trace::Recorder;

/// What is mirrored where. All paths are absolute.
pub struct RecordRequest {
    /// The new file for the recording.
    pub to: PathBuf,
    /// The directory that is mirrored.
    pub source: PathBuf,
    /// Where it is mirrored.
    pub dir: PathBuf,
    /// Whether the recording has contents.
    pub contents: bool,
    /// Whether this process stays in the foreground, with a terminal to speak to.
    pub foreground: bool,
}

/// Mirrors the directory until it is unmounted.
///
/// # Errors
/// If a place is wrong, the mirror cannot be mounted, or the recording fails.
pub fn serve_mirror(
    request: &RecordRequest,
    ready: Ready,
    words: &Rc<Words>,
) -> Result<(), String> {
    let (place, recorder) = match open(request, words) {
        Ok(opened) => opened,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    let closing = Rc::clone(&recorder);
    let close = async move {
        let summary = finish(&closing, &request.to)?;
        if request.foreground {
            twin_host::note!("{summary}");
        }
        Ok(())
    };
    let its = Rc::downgrade(&recorder);
    let options =
        SessionOptions { recording_ended: Some(has_ended(its)), ..SessionOptions::shared() };
    // A mirror waits for nothing but the host: there is nothing to stop.
    serve_until_unmounted(place, recorder, options, ready, |_| {}, close)
}

/// Opens all that is needed, in this order: the deputy before any thread, the trace before the mirror, which clears the umask of
/// the process, and all files before the mount, which does not answer yet.
fn open(
    request: &RecordRequest,
    words: &Rc<Words>,
) -> Result<(Place, Rc<Recorder<Mirror, File>>), String> {
    check_places(request)?;
    let deputy = Deputy::start().map_err(|e| format!("a process for calls into the mount: {e}"))?;
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let signals = Rc::new(Signals::listen_for_stop(&host).map_err(|e| e.to_string())?);
    let about = format!("what was done in {}", request.source.display());
    let new = NewFile::make(&request.to, &Interrupts::default())?;
    let mirror =
        Mirror::open(&request.source).map_err(|e| format!("{}: {e}", request.source.display()))?;
    // What means nothing in the directory means nothing in its mirror.
    let flags = rustix::fs::statvfs(&request.source)
        .map_err(|e| format!("{}: {}", request.source.display(), std::io::Error::from(e)))?;
    let has = |flag| flags.f_flag.contains(flag);
    let options = MountOptions {
        source: request.source.display().to_string(),
        no_suid: has(StatVfsMountFlags::NOSUID),
        no_dev: has(StatVfsMountFlags::NODEV),
        no_exec: has(StatVfsMountFlags::NOEXEC),
        ..MountOptions::default()
    };
    let mount = Mount::new(&request.dir, &options, deputy).map_err(|e| e.to_string())?;
    let trace = Trace { new, contents: request.contents, about };
    let recorder = recorded(&host, words, mirror, trace)?;
    // Clients may have no such limit themselves.
    let note = file_size_limit().map_or(String::new(), |limit| {
        format!(
            "files cannot become larger than {limit} bytes in the mirror: that is the limit of the \
             shell that starts it (`ulimit -f`)"
        )
    });
    let words = Rc::clone(words);
    Ok((Place { host, mount, signals, words, note, served: String::new() }, recorder))
}

/// That the mirrored directory, the place where it is mirrored and the trace lie apart. A mirror
/// that sees its own mount waits for itself, and one that sees its own trace makes it longer by
/// reading it.
fn check_places(request: &RecordRequest) -> Result<(), String> {
    let RecordRequest { to, source, dir, .. } = request;
    let (to_name, source_name, dir_name) = (to.display(), source.display(), dir.display());
    match relation(dir, source) {
        // A directory can be mirrored at itself: the mirror has opened what lies under its mount.
        Relation::Apart | Relation::Same => {}
        Relation::Inside => {
            return Err(format!(
                "{dir_name} lies in {source_name}, the directory to mirror: the mirror would \
                 contain itself. Mirror it at a directory outside"
            ));
        }
    }
    if relation(source, dir) == Relation::Inside {
        return Err(format!(
            "{source_name} lies in {dir_name}, where it is to be mirrored, and would be hidden by \
             it. Mirror it at a directory outside"
        ));
    }
    if relation(to, source) != Relation::Apart {
        return Err(format!(
            "the trace {to_name} lies in {source_name}, the directory to mirror: it would record \
             itself. Write it to a place outside"
        ));
    }
    must_be_outside(dir, &[("the trace", to)])
}

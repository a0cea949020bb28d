//! Mounting a volume: it is opened, served over FUSE until it is unmounted, and closed.
//!
//! Contract: whatever can be refused is refused before the volume is opened for writing, and every file that the
//! daemon writes is opened before anything is mounted, because a path may lead into the mount, which does not
//! answer yet. The deputy is started before any thread.

use std::cell::{OnceCell, RefCell};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use twin_bucket::pack_memory;
use twin_flight::CLOSE;
use twin_fs::{FileSystem, FsError, LayoutKind, STATES_MOST, Settings, Volume};
use twin_host::fuse::{Deputy, Mount as FuseMount, MountOptions, Ready, SessionOptions};
use twin_host::serving::{
    Place, Trace, end_of_recording, finish, has_ended, must_be_outside, recorded,
    serve_until_unmounted,
};
use twin_host::{
    Budget, FlightRecorder, Grade, Host, HostOptions, IdlePoll, ImageOptions, Interrupts, NewFile,
    QueueChoice, Relation, Signals, Words, is_foreign, is_remote, random_seed, relation,
};
use twin_lab::MountFlush;
use twin_lab::follow::{Followed, Watch};
use twin_observe::Observing;
use twin_rt::{Categories, Order};
use twin_settings::Choice;

use crate::answers::{Answers, Recording};
use crate::image::{layout_of, layout_with_journal};
use crate::media::{self, Close, How};
use crate::nfs::{Beside, NfsBeside, Running};
use crate::observers::ObservedFile;
use crate::opening::{Listener, OpenOptions, Opened, Refused, open_volume, set_for_open};
use crate::scrubbing::Scrubbing;
use crate::status_file::StatusFile;

/// What is mounted where, and how it is served. All paths are absolute: a daemon works in the root directory.
pub struct MountRequest {
    /// The image file or block device.
    pub image: PathBuf,
    /// The directory at which it is mounted.
    pub dir: PathBuf,
    /// Whether this process stays in the foreground, with a terminal to speak to.
    pub foreground: bool,
    /// No changes are allowed.
    pub read_only: bool,
    /// The snapshot or branch that is mounted instead of the head, read-only.
    pub snapshot: Option<String>,
    /// Whether set-id bits have their meaning; `None`: unless the image may be another user's.
    pub suid: Option<bool>,
    /// The same of device nodes.
    pub dev: Option<bool>,
    /// Whether programs may be executed; `None`: they may.
    pub exec: Option<bool>,
    /// How a bucket is opened, if the volume is in one; `read_only` says whether to be read alone.
    pub how: How,
    /// How memory is divided.
    pub budget: Budget,
    /// The replacement policy of the cache.
    pub replacement: &'static str,
    /// Every write is passed on at once, and the kernel collects none.
    pub write_through: bool,
    /// Other users may enter.
    pub allow_other: bool,
    /// Microseconds for which the daemon looks for the next request before it sleeps.
    pub spin_us: u32,
    /// Whether idle processors poll while clients are busy.
    pub idle_poll: IdlePoll,
    /// Whether the image is read and written through the host's page cache.
    pub buffered: bool,
    /// Whether io_uring may be used.
    pub io_uring: bool,
    /// Files are of the types that their attributes name.
    pub file_types: bool,
    /// The order of tasks that could run.
    pub order: Choice<Order>,
    /// The order of device requests.
    pub queue: QueueChoice,
    /// Settings of the log's cleaner, as `victim=twin,placement=twin`; empty: the defaults.
    pub cleaner: String,
    /// The allocation policy.
    pub alloc: Option<String>,
    /// The flush policy, in place of the limit of two seconds.
    pub flush: Option<MountFlush>,
    /// Where the status of the log is written.
    pub status: Option<PathBuf>,
    /// Where operations are recorded.
    pub record: Option<PathBuf>,
    /// Whether a recording has contents.
    pub contents: bool,
    /// Where everything that enters the core is logged.
    pub flight: Option<PathBuf>,
    /// Which events are told of.
    pub log: Option<Categories>,
    /// The file to which they are added.
    pub log_file: Option<PathBuf>,
    /// What is observed.
    pub observing: Option<Observing>,
    /// The new file for what was observed.
    pub observed: Option<PathBuf>,
    /// The server of NFS beside the mount.
    pub nfs: Option<NfsBeside>,
}

/// Opens the volume and serves it until it is unmounted.
///
/// # Errors
/// If it cannot be opened or mounted, or something was lost.
pub fn serve_volume(request: &MountRequest, ready: Ready, words: &Rc<Words>) -> Result<(), String> {
    twin_host::keep_freed_buffers(request.budget.free as usize);
    let prepared = prepare(request).and_then(|(layout, trace)| {
        let nfs = request.nfs.as_ref();
        let beside = nfs.map(|nfs| Beside::prepare(nfs, &request.image)).transpose()?;
        let observed_to = request.observed.as_ref();
        let observed_to =
            observed_to.map(|to| NewFile::make(to, &Interrupts::default())).transpose()?;
        // Before there is any thread.
        let deputy =
            Deputy::start().map_err(|e| format!("a process for calls into the mount: {e}"))?;
        let (mut place, opened, status) = open(request, layout, words, deputy)?;
        let nfs = match beside {
            Some(beside) => {
                place.served = beside.line().into();
                let image = request.image.as_path();
                Some(beside.start(&place.host, layout, image, &opened.volume, words)?)
            }
            None => None,
        };
        let kept = observed_file(request, observed_to, &opened, words)?;
        Ok((layout, (place, opened, status), (trace, nfs, kept)))
    });
    let (layout, (place, opened, status), (trace, nfs, kept)) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    let Opened { volume, recovery, flight, observers, below, follow, host: _ } = opened;
    if let (Some(flight), Some(path)) = (&flight, &request.flight) {
        flight.on_end(end_of_recording(words, "the flight log", path.clone()));
    }
    if let Some(recovery) = recovery {
        words.say(Grade::Notice, &format!("was not unmounted: {recovery}"));
    }
    // A mount without a channel is as good a mount.
    let (image, recording) = (request.image.clone(), Rc::new(OnceCell::new()));
    let slot = Rc::clone(&recording);
    let log = Rc::clone(words);
    let answers = Answers {
        volume: volume.clone(),
        freezable: below.freezable,
        observers,
        layout,
        image,
        recording,
        store: below.store,
        journal: below.journal,
        followed: follow.as_ref().map(|(_, followed)| followed.clone()),
        scrubbing: Scrubbing::default(),
        say: Rc::new(move |line| log.say(Grade::Error, line)),
    };
    let _channel = answers.serve(&place.host).map_err(|error| {
        let text = format!("`twinfs fork` and `twinfs stat` cannot ask this mount: {error}");
        words.say(Grade::Warning, &text);
    });
    if let Some((watch, followed)) = follow {
        return serve_followed(request, ready, place, watch, followed, below.close);
    }
    let also = Also { trace, recording: slot, nfs, close: below.close };
    let (host, its) = (place.host.clone(), volume.clone());
    let serve = || serve_opened(request, ready, place, its, flight, also);
    let served = match status {
        None => serve(),
        Some(status) => status.keep(&host, &volume, serve),
    };
    served.and(kept.map_or(Ok(()), ObservedFile::end))
}

/// Begins to observe, if that was asked for.
fn observed_file(
    request: &MountRequest,
    to: Option<NewFile>,
    opened: &Opened,
    words: &Rc<Words>,
) -> Result<Option<ObservedFile>, String> {
    match (&request.observing, to, &opened.observers) {
        (Some(observing), Some(new), Some(observers)) => {
            ObservedFile::begin(observers, observing, new, words).map(Some)
        }
        _ => Ok(None),
    }
}

/// What is known before anything is opened for writing: which layout it is, and that every option
/// means something for it. Makes the trace's file: once something is mounted, a path may lead into
/// the mount, which is not served yet.
fn prepare(request: &MountRequest) -> Result<(&'static dyn LayoutKind, Option<Trace>), String> {
    let mut files: Vec<(&str, &Path)> = vec![("the image", &request.image)];
    let others = [
        ("--record", &request.record),
        ("--flight", &request.flight),
        ("--status", &request.status),
        ("--log-file", &request.log_file),
        ("--observe-file", &request.observed),
    ];
    let local = [("--local-cache", &request.how.cache), ("--journal-file", &request.how.journal)];
    let local = local.into_iter().filter_map(|(option, file)| Some((option, &file.as_ref()?.path)));
    let others = others.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?)));
    for (option, path) in others.chain(local) {
        let same = files.iter().find(|(_, other)| relation(path, other) == Relation::Same);
        if let Some((what, _)) = same {
            return Err(format!("{option} {}: this is {what} itself", path.display()));
        }
        files.push((option, path));
    }
    must_be_outside(&request.dir, &files)?;
    let layout = match &request.how.journal {
        Some(_) => layout_with_journal(&request.image)?,
        None => layout_of(&request.image)?,
    };
    let image = request.image.display();
    if !layout.is_log() {
        let given =
            [("--cleaner", !request.cleaner.is_empty()), ("--status", request.status.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            let noun = layout.noun();
            return Err(format!("{image}: {option} is for logs, and this is {noun}"));
        }
    }
    let Some(to) = &request.record else { return Ok((layout, None)) };
    let about = format!("a twinfs mount of {image}");
    let trace = Trace {
        new: NewFile::make(to, &Interrupts::default())?,
        contents: request.contents,
        about,
    };
    Ok((layout, Some(trace)))
}

/// The options of the front end, within the memory that the mount may use.
fn bounded_options(
    request: &MountRequest,
    volume: &Volume,
    flight: Option<&Rc<FlightRecorder<File>>>,
) -> Result<SessionOptions, String> {
    let mut options = session_options(request, volume);
    // At most as many as before are of use.
    options.max_background = request.budget.requests().min(options.max_background);
    if let Some(flight) = flight.cloned() {
        // A flight writes by itself, for whatever is done beside would belong to it.
        options.recording_ended = Some(Rc::new(move || flight.has_failed()));
    }
    Ok(options)
}

/// What is done besides serving the mount.
struct Also {
    /// The recording that is to be made.
    trace: Option<Trace>,
    /// Where those who ask the mount find the recording, once it is made.
    recording: Rc<OnceCell<Recording>>,
    /// The server of NFS.
    nfs: Option<Running>,
    /// What is done once the volume is closed.
    close: Option<Close>,
}

/// Serves a volume that is followed until it is unmounted.
fn serve_followed(
    request: &MountRequest,
    ready: Ready,
    place: Place,
    watch: Watch,
    followed: Followed,
    close_medium: Option<Close>,
) -> Result<(), String> {
    let following = followed.following;
    let options = bounded_options(request, &following.volume(), None)?.following();
    let rt = place.host.rt().clone();
    let words = Rc::clone(&place.words);
    let watching = watch.run(rt.clone(), move |failing| match failing {
        Some(why) => words.say(Grade::Warning, &why),
        None => words.say(Grade::Notice, "it is followed again"),
    });
    rt.spawn("follower", watching);
    let stopped = Rc::downgrade(&following);
    let stop = move |error: FsError| {
        if let Some(following) = stopped.upgrade() {
            following.volume().core().poison(error);
        }
    };
    let closing = Rc::clone(&following);
    let close = async move {
        closing.close().await.map_err(|error| error.to_string())?;
        match close_medium {
            Some(close) => close().await,
            None => Ok(()),
        }
    };
    serve_until_unmounted(place, following, options, ready, stop, close)
}

/// Serves an open volume until it is unmounted, then closes it.
fn serve_opened(
    request: &MountRequest,
    ready: Ready,
    place: Place,
    volume: Volume,
    flight: Option<Rc<FlightRecorder<File>>>,
    also: Also,
) -> Result<(), String> {
    let Also { trace, recording: slot, nfs, close: close_medium } = also;
    let mut options = bounded_options(request, &volume, flight.as_ref())?;
    let closing = volume.clone();
    let words = Rc::clone(&place.words);
    volume.core().on_stop(move |error| {
        words.say(Grade::Error, &format!("{error}: from now on the volume is read-only"));
    });
    let stopped = Rc::downgrade(volume.core());
    let stop = move |error| {
        if let Some(core) = stopped.upgrade() {
            core.poison(error);
        }
    };
    let close = async move {
        if let Some(flight) = &flight {
            flight.command(CLOSE);
        }
        let served = match nfs {
            Some(nfs) => nfs.end().await,
            None => Ok(()),
        };
        let closed = closing.close().await;
        // What is below keeps what the volume wrote, even if it cannot be ended properly.
        let ended = match (&closed, close_medium) {
            (Ok(()), Some(close)) => close().await,
            _ => Ok(()),
        };
        let finished = match &flight {
            Some(flight) => flight.finish(closing.core().rt.digest()).map(|_| ()),
            None => Ok(()),
        };
        closed.map_err(with_loss)?;
        ended.map_err(|e| format!("unmounted without loss, but {e}"))?;
        finished.map_err(|e| format!("the flight log: {e}"))?;
        served
    };
    let close = media::closing(place.host.clone(), &request.image, close);
    let (Some(to), Some(trace)) = (&request.record, trace) else {
        return serve_until_unmounted(place, Rc::new(volume), options, ready, stop, close);
    };
    let recorder = match recorded(&place.host, &place.words, volume, trace) {
        Ok(recorder) => recorder,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    options.recording_ended = Some(has_ended(Rc::downgrade(&recorder)));
    let _ = slot.set(Recording::of(&recorder, to));
    let recording = Rc::clone(&recorder);
    let close = async move {
        let finished = finish(&recording, to);
        close.await?;
        let summary = finished?;
        if request.foreground {
            twin_host::note!("{summary}");
        }
        Ok(())
    };
    serve_until_unmounted(place, recorder, options, ready, stop, close)
}

/// What is said of a volume that could not be closed.
fn with_loss(error: FsError) -> String {
    format!(
        "unmounted with loss: {error}; what was written since the last sync is lost, what was \
         synced before is there, and the next mount recovers it"
    )
}

/// Which events to tell of, and who writes them down.
fn event_log(
    request: &MountRequest,
    words: &Rc<Words>,
) -> Result<Option<(Categories, Listener)>, String> {
    let Some(categories) = request.log else { return Ok(None) };
    let mut out: Box<dyn Write> = match &request.log_file {
        // Added to what is there: a wrong name must not cost a file.
        Some(path) => {
            let file = File::options().append(true).create(true).mode(0o600).open(path);
            Box::new(file.map_err(|e| format!("{}: {e}", path.display()))?)
        }
        None if request.foreground => Box::new(std::io::stderr()),
        None => return Err("--log: a mount in the background needs --log-file".into()),
    };
    // A log that cannot be written is no reason to stop serving; it is said once.
    let words = Rc::clone(words);
    let out = RefCell::new(move |line: String| {
        if let Err(error) = out.write_all(line.as_bytes()) {
            words.say(Grade::Error, &format!("--log: {error}: events are missing"));
        }
    });
    Ok(Some((categories, Rc::new(move |event| out.borrow_mut()(format!("{event}\n"))))))
}

/// True if the kernel may collect writes, also for a recording, which must not change the run.
fn collects_writes(request: &MountRequest) -> bool {
    !request.write_through && request.nfs.is_none()
}

/// What the kernel may do and keep. What clients of NFS change too it must ask for each time.
fn session_options(request: &MountRequest, volume: &Volume) -> SessionOptions {
    let features = &volume.core().features;
    let options = SessionOptions {
        writeback_cache: collects_writes(request) && features.lets_clients_collect(),
        // An open may be refused.
        count_opens: request.file_types,
        acls: features.extended_attributes,
        ..SessionOptions::default()
    };
    match request.nfs {
        None => options,
        Some(_) => SessionOptions {
            entry_timeout_ns: 0,
            attr_timeout_ns: 0,
            negative_timeout_ns: 0,
            exclusive: false,
            ..options
        },
    }
}

/// How to run the host of a mount.
fn host_options(request: &MountRequest) -> Result<HostOptions, String> {
    Ok(HostOptions {
        seed: random_seed()?,
        order: request.order,
        io_uring: request.io_uring,
        spin_ns: u64::from(request.spin_us) * twin_rt::MICROS,
        idle_poll: request.idle_poll,
        // The kernel then has the times of files that it writes to: with clocks that agree it
        // need not send them for a file that was made and written within one tick.
        coarse_time: collects_writes(request),
        flight: None,
        buffer_bytes: request.budget.buffers as usize,
    })
}

/// Opens a volume with `open`, which is told whether to do so read-only. One that cannot be
/// recovered on its device, which takes no writes, is recovered in memory and read-only; what is
/// to be told of that comes with it.
fn open_or_read<T>(
    request: &MountRequest,
    open: impl Fn(bool) -> Result<T, Refused>,
) -> Result<(T, String), String> {
    match open(request.read_only) {
        Err(Refused { why, only_writing: true })
            if !request.read_only && request.flight.is_none() =>
        {
            let opened = open(true)?;
            let note = format!(
                "{why}: it was recovered in memory and is mounted read-only; make room for it, and \
                 mount it again to write to it"
            );
            Ok((opened, note))
        }
        opened => Ok((opened?, String::new())),
    }
}

fn open(
    request: &MountRequest,
    layout: &'static dyn LayoutKind,
    words: &Rc<Words>,
    deputy: Deputy,
) -> Result<(Place, Opened, Option<StatusFile>), String> {
    let mut of_layout = layout.config();
    set_for_open(&mut *of_layout, &request.cleaner).map_err(|why| format!("--cleaner: {why}"))?;
    if let Some(policy) = &request.alloc {
        let image = request.image.display();
        let set = of_layout.set_for_open("alloc", policy);
        set.map_err(|why| format!("{image}: --alloc on {}: {why}", layout.noun()))?;
    }
    let log = event_log(request, words)?;
    let (mut opened, note) = open_or_read(request, |read_only| {
        let (direct, queue) = (!request.buffered, request.queue);
        let image = ImageOptions { read_only, direct, queue, ..ImageOptions::default() };
        let (cache_bytes, how) = memory(request);
        let replacement = request.replacement.to_owned();
        let file_types = request.file_types;
        let settings =
            Settings { cache_bytes, read_only, replacement, file_types, ..Settings::default() };
        let settings = settings.mounted();
        let settings = match &request.flush {
            Some(flush) => flush.apply(settings),
            None => settings,
        };
        let host = host_options(request)?;
        let (of_layout, flight) = (of_layout.clone(), request.flight.clone());
        let log = log.clone();
        let options = OpenOptions { layout, of_layout, image, how, host, settings, flight, log };
        open_volume(&request.image, options)
    })?;
    if let Some(name) = &request.snapshot {
        opened.volume = state_of(request, &opened, name)?;
        // What is asked about the mount's device is not what is mounted.
        opened.below.freezable = None;
    }
    let begin = |to: &PathBuf| StatusFile::begin(to, &opened.volume);
    let status = request.status.as_ref().map(begin).transpose()?;
    let host = opened.host.clone();
    Ok((place(request, host, deputy, &opened.volume, words, note)?, opened, status))
}

/// Memory for blocks of a volume, and how it is opened. Of one that is followed each state has its own, and all of them
/// together half of the whole; the other half keeps what was read of the bucket. Other mounts keep that in what
/// [`pack_memory`] says, unless they have a local cache.
fn memory(request: &MountRequest) -> (u64, How) {
    let all = request.budget.cache;
    let with = |blocks, memory| (blocks, How { memory, ..request.how.clone() });
    let is_in_memory = is_remote(&request.image).is_some() && request.how.cache.is_none();
    match request.how.follow {
        Some(_) => with(all / 2 / STATES_MOST as u64, all / 2),
        None if is_in_memory => with(all - pack_memory(all), pack_memory(all)),
        None => with(all, 0),
    }
}

/// The state of a volume that is mounted in place of its head.
fn state_of(request: &MountRequest, opened: &Opened, name: &str) -> Result<Volume, String> {
    let opening = opened.volume.open_state(name, request.budget.cache);
    let state = opened.host.rt().block_on(opening).map_err(|e| e.to_string())?;
    state.map_err(|error| match error {
        FsError::NotFound => {
            format!("{}: it has no snapshot or branch {name:?}", request.image.display())
        }
        error => format!("{}: --snapshot {name}: {error}", request.image.display()),
    })
}

/// The place where a volume that is open on a host is to be mounted.
fn place(
    request: &MountRequest,
    host: Host,
    deputy: Deputy,
    volume: &Volume,
    words: &Rc<Words>,
    note: String,
) -> Result<Place, String> {
    let is_foreign = rustix::process::geteuid().is_root() && is_foreign(&request.image);
    let limit_bytes = volume.room().map(|room| room.limit_bytes);
    let read_only = volume.core().settings.read_only;
    let signals = Rc::new(Signals::listen_for_stop(&host).map_err(|e| e.to_string())?);
    let mount_options = MountOptions {
        source: request.image.display().to_string(),
        read_only,
        // A volume keeps the times of what is read to those who set them.
        no_access_times: true,
        no_suid: !request.suid.unwrap_or(!is_foreign),
        no_dev: !request.dev.unwrap_or(!is_foreign),
        no_exec: !request.exec.unwrap_or(true),
        allow_other: request.allow_other || MountOptions::default().allow_other,
        collected_bytes: twin_fs::collected_bytes(limit_bytes.unwrap_or(u64::MAX)),
        ..MountOptions::default()
    };
    let mount = FuseMount::new(&request.dir, &mount_options, deputy).map_err(|e| e.to_string())?;
    if is_foreign && mount_options.no_suid && request.suid.is_none() {
        words.say(
            Grade::Notice,
            "the image may have been made by another user: set-id bits and device nodes in it mean \
             nothing (-o suid,dev gives them their meaning)",
        );
    }
    let (words, served) = (Rc::clone(words), String::new());
    Ok(Place { host, mount, signals, words, note, served })
}

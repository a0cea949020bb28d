//! `twinfs mount`: opens a volume and serves it over FUSE until it is unmounted.

use std::cell::{OnceCell, RefCell};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use twin_fs::{FileSystem, LayoutKind, Settings, Volume};
use twin_host::fuse::{Deputy, Mount as FuseMount, MountOptions, Ready, SessionOptions};
use twin_host::{
    FlightRecorder, Grade, Host, HostOptions, ImageOptions, Relation, Signals, Words, is_foreign,
    relation,
};
use twin_lab::layouts::LAYOUTS;
use twin_lab::observe::EVERY_NS;
use twin_lab::{CLOSE, with_flush};
use twin_rt::Categories;

use super::asked::{Asked, Recording};
use super::budget::Budget;
use super::files::NewFile;
use super::image::layout_of;
use super::observing::Kept;
use super::opening::{Listener, OpenOptions, Opened, Refused, open_volume, set_for_open};
use super::serve::{Beside, Running};
use super::serving::{
    Place, Trace, end_of_recording, finish, has_ended, must_be_outside, recorded, run_serving,
    serve_until_unmounted,
};
use super::status::StatusFile;
use super::{Interrupts, Outcome, absolute, random_bytes, usage};
use crate::cli::{Mount, MountChoice};

pub(crate) fn run(mut args: Mount) -> Outcome {
    args.image = absolute(&args.image)?;
    args.dir = absolute(&args.dir)?;
    let trusts = [choice(&args, MountChoice::is_suid), choice(&args, MountChoice::is_dev)];
    if trusts.contains(&Some(true)) && !rustix::process::geteuid().is_root() {
        return Err(usage("-o suid,dev: an ordinary user's mounts are always nosuid,nodev"));
    }
    if let Some(read_only) = choice(&args, MountChoice::is_read_only) {
        args.read_only |= read_only;
    }
    let paths = [
        &mut args.record,
        &mut args.flight,
        &mut args.status,
        &mut args.log_file,
        &mut args.observed,
    ];
    for path in paths.into_iter().flatten() {
        *path = absolute(path)?;
    }
    // What can be said of the command line alone is said before a process is started.
    if let Some(log) = LAYOUTS.iter().find(|layout| layout.is_log()) {
        set_for_open(&mut *log.config(), &args.cleaner)
            .map_err(|why| usage(format!("--cleaner: {why}")))?;
    }
    let memory = Budget::of(&args).map_err(usage)?.all();
    with_policy(&args, Settings::default()).map_err(usage)?;
    let observing = args.observe.observing(EVERY_NS).map_err(usage)?;
    if observing.is_some() && args.observed.is_none() {
        return Err(usage("--observe needs --observed FILE, to which figures go"));
    }
    let about = args.image.display().to_string();
    run_serving(args.foreground, &about, memory, |ready, words| serve_volume(&args, ready, words))?;
    Ok(ExitCode::SUCCESS)
}

fn serve_volume(args: &Mount, ready: Ready, words: &Rc<Words>) -> Result<(), String> {
    let budget = Budget::of(args)?;
    twin_host::keep_freed_buffers(budget.free as usize);
    let prepared = prepare(args).and_then(|(layout, trace)| {
        let beside = Beside::prepare(&args.nfs, &args.image)?;
        let observed_to = args.observed.as_ref();
        let observed_to =
            observed_to.map(|to| NewFile::make(to, &Interrupts::default())).transpose()?;
        // Before there is any thread.
        let deputy =
            Deputy::start().map_err(|e| format!("a process for calls into the mount: {e}"))?;
        let (mut place, opened, status) = open(args, layout, words, deputy)?;
        let nfs = match beside {
            Some(beside) => {
                place.served = beside.line().into();
                let what = (layout, args.image.as_path());
                Some(beside.start(&place.host, what, &opened.volume, words)?)
            }
            None => None,
        };
        let kept = observed(args, observed_to, &opened, words)?;
        Ok((layout, (place, opened, status), (trace, nfs, kept)))
    });
    let (layout, (place, opened, status), (trace, nfs, kept)) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            ready.failed(&why);
            return Err(why);
        }
    };
    let Opened { volume, recovery, flight, freezable, observers, host: _ } = opened;
    if let (Some(flight), Some(path)) = (&flight, &args.flight) {
        flight.on_end(end_of_recording(words, "the flight log", path.clone()));
    }
    if let Some(recovery) = recovery {
        words.say(Grade::Notice, &format!("was not unmounted: {recovery}"));
    }
    // A mount without a channel is as good a mount.
    let (image, recording) = (args.image.clone(), Rc::new(OnceCell::new()));
    let slot = Rc::clone(&recording);
    let asked = Asked { volume: volume.clone(), freezable, observers, layout, image, recording };
    let _channel = asked.serve(&place.host).map_err(|error| {
        let text = format!("`twinfs fork` and `twinfs stat` cannot ask this mount: {error}");
        words.say(Grade::Warning, &text);
    });
    let (host, served, its) = (place.host.clone(), (trace, slot, nfs), volume.clone());
    let serve = || serve_opened(args, ready, place, its, flight, served);
    let served = match status {
        None => serve(),
        Some(status) => status.keep(&host, &volume, serve),
    };
    served.and(kept.map_or(Ok(()), Kept::end))
}

/// Begins to observe, if that was asked for.
fn observed(
    args: &Mount,
    to: Option<NewFile>,
    opened: &Opened,
    words: &Rc<Words>,
) -> Result<Option<Kept>, String> {
    let observing = args.observe.observing(EVERY_NS).map_err(|error| error.to_string())?;
    match (observing, to, &args.observed, &opened.observers) {
        (Some(observing), Some(new), Some(name), Some(observers)) => {
            Kept::begin(observers, &observing, (new, name), words).map(Some)
        }
        _ => Ok(None),
    }
}

/// What is known before anything is opened for writing: which layout it is, and that every option
/// means something for it. Makes the trace's file: once something is mounted, a path may lead into
/// the mount, which is not served yet.
fn prepare(args: &Mount) -> Result<(&'static dyn LayoutKind, Option<Trace>), String> {
    let mut files: Vec<(&str, &Path)> = vec![("the image", &args.image)];
    let others = [
        ("--record", &args.record),
        ("--flight", &args.flight),
        ("--status", &args.status),
        ("--log-file", &args.log_file),
        ("--observed", &args.observed),
    ];
    for (option, path) in others {
        let Some(path) = path else { continue };
        let same = files.iter().find(|(_, other)| relation(path, other) == Relation::Same);
        if let Some((what, _)) = same {
            return Err(format!("{option} {}: this is {what} itself", path.display()));
        }
        files.push((option, path));
    }
    must_be_outside(&args.dir, &files)?;
    let layout = layout_of(&args.image)?;
    let image = args.image.display();
    if !layout.is_log() {
        let given = [("--cleaner", !args.cleaner.is_empty()), ("--status", args.status.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            let noun = layout.noun();
            return Err(format!("{image}: {option} is for logs, and this is {noun}"));
        }
    }
    let Some(to) = &args.record else { return Ok((layout, None)) };
    let about = format!("a twinfs mount of {image}");
    let trace =
        Trace { new: NewFile::make(to, &Interrupts::default())?, contents: args.contents, about };
    Ok((layout, Some(trace)))
}

/// The options of the front end, within the memory that the mount may use.
fn bounded_options(
    args: &Mount,
    volume: &Volume,
    flight: Option<&Rc<FlightRecorder<File>>>,
) -> Result<SessionOptions, String> {
    let mut options = session_options(args, volume);
    // At most as many as before are of use.
    options.max_background = Budget::of(args)?.requests().min(options.max_background);
    if let Some(flight) = flight.cloned() {
        // A flight writes by itself, for whatever is done beside would belong to it.
        options.recording_ended = Some(Rc::new(move || flight.has_failed()));
    }
    Ok(options)
}

/// Serves an open volume until it is unmounted, then closes it.
fn serve_opened(
    args: &Mount,
    ready: Ready,
    place: Place,
    volume: Volume,
    flight: Option<Rc<FlightRecorder<File>>>,
    (trace, slot, nfs): (Option<Trace>, Rc<OnceCell<Recording>>, Option<Running>),
) -> Result<(), String> {
    let mut options = bounded_options(args, &volume, flight.as_ref())?;
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
        let finished = match &flight {
            Some(flight) => flight.finish(closing.core().rt.digest()).map(|_| ()),
            None => Ok(()),
        };
        closed.map_err(|e| {
            format!(
                "unmounted with loss: {e}; what was written since the last sync is lost, what was \
                 synced before is there, and the next mount recovers it"
            )
        })?;
        finished.map_err(|e| format!("the flight log: {e}"))?;
        served
    };
    let (Some(to), Some(trace)) = (&args.record, trace) else {
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
        if args.foreground {
            eprintln!("{summary}");
        }
        Ok(())
    };
    serve_until_unmounted(place, recorder, options, ready, stop, close)
}

/// Which events to tell of, and who writes them down.
fn event_log(args: &Mount, words: &Rc<Words>) -> Result<Option<(Categories, Listener)>, String> {
    let Some(categories) = args.log else { return Ok(None) };
    let mut out: Box<dyn Write> = match &args.log_file {
        // Added to what is there: a wrong name must not cost a file.
        Some(path) => {
            let file = File::options().append(true).create(true).mode(0o600).open(path);
            Box::new(file.map_err(|e| format!("{}: {e}", path.display()))?)
        }
        None if args.foreground => Box::new(std::io::stderr()),
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
fn collects_writes(args: &Mount) -> bool {
    !args.write_through && args.nfs.at.is_none()
}

/// What the kernel may do and keep. What clients of NFS change too it must ask for each time.
fn session_options(args: &Mount, volume: &Volume) -> SessionOptions {
    let features = &volume.core().features;
    let options = SessionOptions {
        writeback_cache: collects_writes(args) && features.lets_clients_collect(),
        // An open may be refused.
        count_opens: args.file_types,
        ..SessionOptions::default()
    };
    match args.nfs.at {
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

fn random_seed() -> Result<u64, String> {
    Ok(u64::from_le_bytes(random_bytes()?[..8].try_into().unwrap_or_default()))
}

/// How to run the host of a mount.
fn host_options(args: &Mount) -> Result<HostOptions, String> {
    Ok(HostOptions {
        seed: random_seed()?,
        io_uring: !args.no_io_uring,
        spin_ns: u64::from(args.spin) * twin_rt::MICROS,
        // The kernel then has the times of files that it writes to: with clocks that agree it
        // need not send them for a file that was made and written within one tick.
        coarse_time: collects_writes(args),
        flight: None,
        buffer_bytes: Budget::of(args)?.buffers as usize,
    })
}

/// Opens a volume with `open`, which is told whether to do so read-only. One that cannot be
/// recovered on its device, which takes no writes, is recovered in memory and read-only; what is
/// to be told of that comes with it.
fn open_or_read<T>(
    args: &Mount,
    open: impl Fn(bool) -> Result<T, Refused>,
) -> Result<(T, String), String> {
    match open(args.read_only) {
        Err(Refused { why, only_writing: true }) if !args.read_only && args.flight.is_none() => {
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
    args: &Mount,
    layout: &'static dyn LayoutKind,
    words: &Rc<Words>,
    deputy: Deputy,
) -> Result<(Place, Opened, Option<StatusFile>), String> {
    let mut of_layout = layout.config();
    set_for_open(&mut *of_layout, &args.cleaner).map_err(|why| format!("--cleaner: {why}"))?;
    if let Some(policy) = &args.alloc {
        let image = args.image.display();
        let set = of_layout.set_for_open("alloc", policy);
        set.map_err(|why| format!("{image}: --alloc on {}: {why}", layout.noun()))?;
    }
    let log = event_log(args, words)?;
    let (opened, note) = open_or_read(args, |read_only| {
        let (direct, queue) = (!args.buffered, args.queue);
        let image = ImageOptions { read_only, direct, queue, ..ImageOptions::default() };
        let cache_bytes = Budget::of(args)?.cache;
        let replacement = args.replacement.to_owned();
        let file_types = args.file_types;
        let settings =
            Settings { cache_bytes, read_only, replacement, file_types, ..Settings::default() };
        let settings = with_policy(args, settings.mounted())?;
        let host = host_options(args)?;
        let (of_layout, flight) = (of_layout.clone(), args.flight.clone());
        let log = log.clone();
        let options = OpenOptions { layout, of_layout, image, host, settings, flight, log };
        open_volume(&args.image, options)
    })?;
    let begin = |to: &PathBuf| StatusFile::begin(to, &opened.volume);
    let status = args.status.as_ref().map(begin).transpose()?;
    let host = opened.host.clone();
    Ok((place(args, (host, deputy), &opened.volume, words, note)?, opened, status))
}

/// The settings with the flush policy that was asked for.
fn with_policy(args: &Mount, settings: Settings) -> Result<Settings, String> {
    match &args.flush {
        None => Ok(settings),
        Some(text) => with_flush(settings, text).map_err(|error| format!("--flush: {error}")),
    }
}

/// The last word of the options on something.
fn choice(args: &Mount, about: fn(MountChoice) -> Option<bool>) -> Option<bool> {
    args.options.iter().copied().filter_map(about).next_back()
}

/// The place where a volume that is open on a host is to be mounted.
fn place(
    args: &Mount,
    (host, deputy): (Host, Deputy),
    volume: &Volume,
    words: &Rc<Words>,
    note: String,
) -> Result<Place, String> {
    let is_foreign = rustix::process::geteuid().is_root() && is_foreign(&args.image);
    let limit_bytes = volume.room().map(|room| room.limit_bytes);
    let read_only = volume.core().settings.read_only;
    let signals = Rc::new(Signals::listen_for_stop(&host).map_err(|e| e.to_string())?);
    let mount_options = MountOptions {
        source: args.image.display().to_string(),
        read_only,
        // A volume keeps the times of what is read to those who set them.
        no_access_times: true,
        no_suid: !choice(args, MountChoice::is_suid).unwrap_or(!is_foreign),
        no_dev: !choice(args, MountChoice::is_dev).unwrap_or(!is_foreign),
        no_exec: !choice(args, MountChoice::is_exec).unwrap_or(true),
        allow_other: args.allow_other || MountOptions::default().allow_other,
        collected_bytes: twin_fs::collected_bytes(limit_bytes.unwrap_or(u64::MAX)),
        ..MountOptions::default()
    };
    let mount = FuseMount::new(&args.dir, &mount_options, deputy).map_err(|e| e.to_string())?;
    if is_foreign && mount_options.no_suid && choice(args, MountChoice::is_suid).is_none() {
        words.say(
            Grade::Notice,
            "the image may have been made by another user: set-id bits and device nodes in it mean \
             nothing (-o suid,dev gives them their meaning)",
        );
    }
    let (words, served) = (Rc::clone(words), String::new());
    Ok(Place { host, mount, signals, words, note, served })
}

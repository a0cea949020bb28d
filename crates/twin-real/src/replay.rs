//! A workload replayed for real: in directories, and on file systems that are made for it.
//!
//! Contract: the workload is replayed by system calls in a new directory below a directory that is given, or on a
//! file system that is named, which is made for it and mounted on a loop device (as root). What is made is
//! removed. Measured is what a simulation measures: from the first operation until everything is durable.
//! Populating is not part of it, and the kernel's caches are dropped after it where the user may do that; a daemon
//! keeps its own, which begins empty with each mount. Clients that had operations in flight at a time have so
//! here (`Clients`).

use std::path::{Path, PathBuf};
use std::rc::Rc;

use twin_fs::{FileSystem, Op, Request};
use twin_host::mirror::Mirror;
use twin_host::{Bar, Host, HostOptions, real_clock};
use twin_lab::{Counted, DiskFigures, Steps, Workload};
use twin_rt::Time;
use twin_trace::replay::{Options, Pace, Population, Replayer, Report};

use crate::clients::Clients;
use crate::loop_device::LoopDevice;
use crate::probe::SPIN_NS;
use crate::runner::{Runner, drop_caches};
use crate::systems::{System, Wrong};

/// Where a workload is replayed.
#[derive(Clone, Debug)]
pub enum Target {
    /// In a new directory below this one.
    Directory(PathBuf),
    /// On a new file system.
    System(System),
}

impl Target {
    /// The file system, or else the directory, of this name.
    ///
    /// # Errors
    /// If it is neither, with the nearest name of a file system, or the file system cannot be made.
    pub fn parse(text: &str) -> Result<Target, Wrong> {
        match System::parse(text) {
            Ok(system) => Ok(Target::System(system)),
            Err(Wrong::Name(_)) if Path::new(text).is_dir() => Ok(Target::Directory(text.into())),
            Err(Wrong::Name(_)) if text.contains('/') => {
                Err(Wrong::Missing(format!("{text} is no directory")))
            }
            Err(Wrong::Name(error)) => Err(Wrong::Name(twin_settings::SettingsError::new(
                format!("{error}, or a directory"),
            ))),
            Err(wrong) => Err(wrong),
        }
    }

    /// As it was given.
    pub fn name(&self) -> String {
        match self {
            Target::Directory(dir) => dir.display().to_string(),
            Target::System(system) => system.name(),
        }
    }
}

/// One replay.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    /// Seconds from the first operation until everything was durable.
    pub(crate) finish_s: f64,
    /// What the replayer saw.
    pub(crate) report: Report,
    /// What the device did meanwhile, where it is known.
    pub(crate) disk: Option<DiskFigures>,
}

/// A replay on this machine, as often as it is repeated.
pub(crate) struct Replay<'a> {
    pub(crate) runner: &'a Runner<'a>,
    pub(crate) workload: &'a Workload,
    pub(crate) population: &'a Population,
    pub(crate) pace: Pace,
    /// Several clients have operations in flight at a time.
    pub(crate) several: bool,
    /// More options for mounts of ours.
    pub(crate) options: Vec<String>,
    pub(crate) bar: Bar,
}

impl Replay<'_> {
    /// Replays on a new file system on the device, or in a new directory.
    pub(crate) fn at(&self, target: &Target, device: Option<&LoopDevice>) -> Result<Done, String> {
        match (target, device) {
            (Target::System(system), Some(device)) => {
                self.runner.make(system, device.path(), &[])?;
                let options: Vec<&str> = match system.is_ours() {
                    true => self.options.iter().map(String::as_str).collect(),
                    false => Vec::new(),
                };
                let dir = device.mount_at();
                let mounted = self.runner.mount(system, device.path(), dir, &options)?;
                let done = self.in_directory(dir, Some(device));
                let ended = mounted.end();
                done.and_then(|done| ended.map(|()| done))
            }
            (Target::Directory(dir), _) => self.in_directory(dir, None),
            (Target::System(_), None) => Err("there is no device for it".into()),
        }
    }

    fn in_directory(&self, dir: &Path, device: Option<&LoopDevice>) -> Result<Done, String> {
        let Replay { runner, workload, population, pace, several, bar, .. } = self;
        let below = runner.scratch(dir, "on")?;
        let mirror = Mirror::for_replay(below.path())
            .map_err(|e| format!("{}: {e}", below.path().display()))?;
        let host = host()?;
        let beside = Clients::new(mirror, &host, *several);
        in_mirror(&host, &beside, *pace, async |mut replayer, now| {
            replayer.populate(population).await.map_err(|e| e.to_string())?;
            let sync = || beside.execute(Request::root(u64::MAX, Op::Sync));
            sync().await.map_err(|e| e.to_string())?;
            // Only the superuser may; others have warm caches.
            let _ = drop_caches();
            let source = workload.start().map_err(|e| e.to_string())?;
            let mut source = Counted::new(source, Some(Steps::of(bar.counting())));
            let before = device.and_then(LoopDevice::counts);
            let begun = now();
            let report = replayer.run(&mut source).await.map_err(|e| e.to_string())?;
            sync().await.map_err(|e| e.to_string())?;
            let finish_s = now().since(begun) as f64 / 1e9;
            let after = device.and_then(LoopDevice::counts);
            let _ = replayer.release_all().await;
            let disk = before.zip(after).map(|(before, after)| after.since(&before));
            Ok::<Done, String>(Done { finish_s, report, disk })
        })
    }
}

/// A host for a replay.
///
/// # Errors
/// If it cannot be started.
pub fn host() -> Result<Host, String> {
    let host = Host::start(HostOptions { spin_ns: SPIN_NS, ..HostOptions::default() });
    host.map_err(|e| e.to_string())
}

/// Replays by system calls on a host. `work` is given the replayer and the clock of the host.
///
/// # Errors
/// Those of the host, and of the work.
pub fn in_mirror<T, F: FileSystem>(
    host: &Host,
    mirror: &F,
    pace: Pace,
    work: impl AsyncFnOnce(Replayer<'_, F>, Rc<dyn Fn() -> Time>) -> Result<T, String>,
) -> Result<T, String> {
    let seconds = real_clock();
    let clock: Rc<dyn Fn() -> Time> = Rc::new(move || Time((seconds() * 1e9) as u64));
    let rt = host.rt().clone();
    let options = Options { pace, clock: Some(Rc::clone(&clock)), ..Options::default() };
    let replayer = Replayer::new(&rt, mirror, options);
    let done = host.rt().block_on(work(replayer, clock));
    done.map_err(|e| e.to_string())?
}

/// How most of the failed operations failed, as a part of a sentence; empty if none did.
pub fn most_common(report: &Report) -> String {
    let failed = report.divergences.iter().filter_map(|(&(verb, recorded, replayed), &count)| {
        replayed.filter(|_| recorded.is_none()).map(|error| (count, format!("{verb}: {error}")))
    });
    let left_out = (report.skipped, "left out, because a file was missing".to_string());
    match failed.chain([left_out]).max_by_key(|(count, _)| *count) {
        Some((count, what)) if count > 0 => format!(", {count} of them {what}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_a_file_system_before_it_is_a_directory() {
        let dir = std::env::temp_dir();
        let dir = dir.to_str().unwrap();
        assert!(matches!(Target::parse("ext4"), Ok(Target::System(_))));
        assert!(matches!(Target::parse(dir), Ok(Target::Directory(_))));
        assert_eq!(Target::parse("lfs:victim=greedy").unwrap().name(), "lfs:victim=greedy");
    }

    #[test]
    fn what_is_neither_is_refused_with_the_nearest_name() {
        let wrong = |text: &str| Target::parse(text).unwrap_err();
        let unknown = wrong("ext5");
        assert!(matches!(unknown, Wrong::Name(_)));
        let why = unknown.to_string();
        assert!(why.contains("\"ext4\"") && why.ends_with(", or a directory"), "{why}");
        assert!(matches!(wrong("/no/such/place"), Wrong::Missing(_)));
        assert!(matches!(wrong("ffs:alloc=best"), Wrong::Settings(_)));
    }
}

//! A workload replayed for real: in directories, and on file systems that are made for it.
//!
//! Contract: the workload is replayed by system calls, one at a time, in a new directory below each directory
//! that is given, and on each file system that is named, which is made for it and mounted on a loop device
//! (as root). What is made is removed. Measured is what a simulation measures: from the first operation until
//! everything is durable. Populating is not part of it, and the kernel's caches are dropped after it where
//! the user may do that; a daemon keeps its own.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use twin_fs::{FileSystem, Op, Request};
use twin_host::mirror::Mirror;
use twin_host::{Bar, Count, Host, HostOptions, real_clock};
use twin_lab::{Counted, Latency, Steps, Workload};
use twin_rt::Time;
use twin_trace::replay::{Options, Pace, Replayer, Report};

use crate::loop_device::LoopDevice;
use crate::probe::SPIN_NS;
use crate::runner::{Runner, drop_caches};
use crate::systems::{System, Wrong};

/// Bytes of the loop device on which file systems are made.
const DEVICE: u64 = 2 << 30;

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

/// A workload replayed for real.
pub struct Measured {
    /// Where.
    pub name: String,
    /// Seconds from the first operation until everything was durable.
    pub finish_s: f64,
    /// Operations that were done.
    pub ops: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// How most of these failed, as a part of a sentence.
    pub most_common: String,
    /// How long they took.
    pub latency: Latency,
}

/// Where, and the figures or the reason why there are none.
pub type Replayed = (String, Result<Measured, String>);

/// Replays on each target, in turn. One that cannot take part has its reason in place of figures.
///
/// # Errors
/// If no target can be used at all, or the user interrupts.
pub fn replay(
    runner: &Runner<'_>,
    targets: &[Target],
    workload: &Workload,
    operations: u64,
    pace: Pace,
) -> Result<Vec<Replayed>, String> {
    let needs_device = targets.iter().any(|target| matches!(target, Target::System(_)));
    if needs_device && !rustix::process::geteuid().is_root() {
        return Err("--on with file systems makes loop devices and mounts: run it as root".into());
    }
    for target in targets {
        if let Target::System(system) = target {
            system.must_be_installed().map_err(|wrong| wrong.to_string())?;
        }
    }
    let device = match needs_device {
        true => Some(runner.loop_device(Path::new("/var/tmp"), DEVICE)?),
        false => None,
    };
    let count = Count::Steps(targets.len() as u64 * operations);
    let replay =
        Replay { runner, workload, pace, bar: runner.progress.begin("operations replayed", count) };
    let mut all = Vec::new();
    for target in targets {
        all.push((target.name(), replay.at(target, device.as_ref())));
        runner.check()?;
    }
    Ok(all)
}

struct Replay<'a> {
    runner: &'a Runner<'a>,
    workload: &'a Workload,
    pace: Pace,
    bar: Bar,
}

impl Replay<'_> {
    fn at(&self, target: &Target, device: Option<&LoopDevice>) -> Result<Measured, String> {
        match (target, device) {
            (Target::System(system), Some(device)) => {
                self.runner.make(system, device.path(), &[])?;
                self.runner.in_mount(system, device, |dir| self.in_directory(&target.name(), dir))
            }
            (Target::Directory(dir), _) => self.in_directory(&target.name(), dir),
            (Target::System(_), None) => Err("there is no device for it".into()),
        }
    }

    fn in_directory(&self, name: &str, dir: &Path) -> Result<Measured, String> {
        let Replay { runner, workload, pace, bar } = self;
        let below = runner.scratch(dir, "on")?;
        let mirror = Mirror::for_replay(below.path())
            .map_err(|e| format!("{}: {e}", below.path().display()))?;
        in_mirror(&mirror, *pace, async |mut replayer, now| {
            let population = workload.population().map_err(|e| e.to_string())?;
            replayer.populate(&population).await.map_err(|e| e.to_string())?;
            let sync = || mirror.execute(Request::root(u64::MAX, Op::Sync));
            sync().await.map_err(|e| e.to_string())?;
            if !population.is_empty() {
                // Only the superuser may; others have warm caches.
                let _ = drop_caches();
            }
            let source = workload.start().map_err(|e| e.to_string())?;
            let mut source = Counted::new(source, Some(Steps(bar.counting())));
            let begun = now();
            let report = replayer.run(&mut source).await.map_err(|e| e.to_string())?;
            sync().await.map_err(|e| e.to_string())?;
            let finish_s = now().since(begun) as f64 / 1e9;
            let _ = replayer.release_all().await;
            Ok::<Measured, String>(Measured {
                name: name.into(),
                finish_s,
                ops: report.ops,
                failed: report.failed_ops(),
                most_common: most_common(&report),
                latency: Latency::of(&report.latency_ns()),
            })
        })
    }
}

/// Replays by system calls. `work` is given the replayer and the clock of the host.
///
/// # Errors
/// Those of the host, and of the work.
pub fn in_mirror<T>(
    mirror: &Mirror,
    pace: Pace,
    work: impl AsyncFnOnce(Replayer<'_, Mirror>, Rc<dyn Fn() -> Time>) -> Result<T, String>,
) -> Result<T, String> {
    let host = Host::start(HostOptions { spin_ns: SPIN_NS, ..HostOptions::default() });
    let host = host.map_err(|e| e.to_string())?;
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

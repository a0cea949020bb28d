//! `twinfs compare --on`: the same workload for real, beside its simulations.
//!
//! Contract: the workload is replayed by system calls, one at a time, in a new directory below each directory
//! that is given, and on each file system that is named, which is made for it and mounted on a loop device
//! (as root). What is made is removed. Measured is what a simulation measures: from the first operation until
//! everything is durable. Populating is not part of it, and the kernel's caches are dropped after it where
//! the user may do that; a daemon keeps its own.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value, json};
use twin_fs::{FileSystem, Op, Request};
use twin_host::mirror::Mirror;
use twin_host::{Host, HostOptions};
use twin_lab::{Counted, Figures, Latency, Workload};
use twin_rt::Time;
use twin_trace::replay::{Options, Pace, Replayer, Report};

use super::interrupt::{Interrupts, ScratchDir};
use super::peers::{Disk, System, choose, drop_caches, is_system, unknown};
use super::progress::Progress;
use super::time::real_clock;
use super::{Failure, say, usage};

/// Bytes of the loop device on which file systems are made.
const DEVICE: u64 = 2 << 30;
/// As a mount: short pauses are waited for awake.
const SPIN_NS: u64 = 200_000;

/// A workload replayed for real.
pub(super) struct Measured {
    name: String,
    /// Seconds from the first operation until everything was durable.
    finish_s: f64,
    ops: u64,
    failed: u64,
    /// How most of these failed.
    most_common: String,
    latency: Latency,
}

/// Prints what was measured beside what was simulated.
///
/// # Errors
/// If standard output fails.
pub(super) fn print(all: &[Replayed], simulated: &[Figures]) -> Result<(), String> {
    say("\nMeasured by replaying on this machine, until everything was durable:")?;
    for (place, found) in all {
        let measured = match found {
            Ok(measured) => measured,
            Err(why) => {
                say(format!("  {place:<16} could not take part: {why}"))?;
                continue;
            }
        };
        let Measured { name, finish_s, ops, failed, most_common, latency } = measured;
        let p99 = latency.p99_us;
        let mut line = format!("  {name:<16} {finish_s:>9.3} s  p99 {p99:.0} us");
        if *failed > 0 {
            line += &format!("  FAILED: {failed} of {ops} operations{most_common}");
        }
        say(line)?;
        // A layout's name stands for the mount, and begins the configurations that simulate it.
        let of_place = |figures: &&Figures| {
            figures.config.split(':').next() == Some(&**name) && figures.failed == 0
        };
        for figures in simulated.iter().filter(of_place) {
            let Figures { config, finish_s: ours, .. } = figures;
            let error = (ours / finish_s - 1.0) * 100.0;
            say(format!("    simulated      {ours:>9.3} s  {error:+.0}%  ({config})"))?;
        }
    }
    Ok(())
}

/// True if all of the workload was done at a place.
pub(super) fn is_whole((_, found): &Replayed) -> bool {
    found.as_ref().is_ok_and(|measured| measured.failed == 0)
}

/// What was measured at a place, in the names of the simulated figures, with `on` for its name.
pub(super) fn object((place, found): &Replayed) -> Value {
    match found {
        Ok(Measured { finish_s, ops, failed, latency, .. }) => json!({
            "on": place, "ops": ops, "failed": failed, "finish_s": finish_s, "latency": latency,
        }),
        Err(why) => json!({ "on": place, "error": why }),
    }
}

/// That each place is a directory or a file system that can be made.
///
/// # Errors
/// The first that is neither, with the nearest name.
pub(super) fn check(places: &[String]) -> Result<(), Failure> {
    let strange = places.iter().find(|place| !is_system(place) && !Path::new(place).is_dir());
    match strange {
        None => Ok(()),
        Some(path) if path.contains('/') => Err(format!("{path} is no directory").into()),
        Some(name) => Err(usage(format!("{}, or a directory", unknown(name)))),
    }
}

/// A place, and its figures or the reason why it has none.
pub(super) type Replayed = (String, Result<Measured, String>);

/// Replays on each place, in turn. A place that cannot take part has its reason in place of figures.
///
/// # Errors
/// If no place can be used at all, or the user interrupts.
pub(super) fn replay(
    places: &[String],
    (workload, operations): (&Workload, u64),
    pace: Pace,
    interrupts: &Interrupts,
) -> Result<Vec<Replayed>, String> {
    let names: Vec<String> = places.iter().filter(|place| is_system(place)).cloned().collect();
    let systems = if names.is_empty() { Vec::new() } else { choose(&names)?.0 };
    if !systems.is_empty() && !rustix::process::geteuid().is_root() {
        return Err("--on with file systems makes loop devices and mounts: run it as root".into());
    }
    let disk = match systems.is_empty() {
        true => None,
        false => Some(Arc::new(Disk::make(Path::new("/var/tmp"), DEVICE, interrupts)?)),
    };
    let progress = Progress::of("operations replayed", places.len() as u64 * operations);
    let mut all = Vec::new();
    for place in places {
        let found = match (systems.iter().find(|chosen| chosen.name() == *place), &disk) {
            (Some(chosen), Some(disk)) => {
                let system = System::new(chosen.clone(), Arc::clone(disk));
                system.with_mount(|dir| {
                    in_directory(place, dir, (workload, pace), (interrupts, &progress))
                })
            }
            _ => in_directory(place, Path::new(place), (workload, pace), (interrupts, &progress)),
        };
        all.push((place.clone(), found));
        interrupts.check()?;
    }
    progress.finish();
    Ok(all)
}

fn in_directory(
    name: &str,
    dir: &Path,
    (workload, pace): (&Workload, Pace),
    (interrupts, progress): (&Interrupts, &Progress),
) -> Result<Measured, String> {
    let own = dir.join(format!("twinfs-on-{}", std::process::id()));
    let below = ScratchDir::make(own, interrupts)?;
    let mirror =
        Mirror::for_replay(below.path()).map_err(|e| format!("{}: {e}", below.path().display()))?;
    in_mirror(&mirror, pace, async |mut replayer, now| {
        let population = workload.population().map_err(|e| e.to_string())?;
        replayer.populate(&population).await.map_err(|e| e.to_string())?;
        let sync = || mirror.execute(Request::root(u64::MAX, Op::Sync));
        sync().await.map_err(|e| e.to_string())?;
        if !population.is_empty() {
            // Only the superuser may; others have warm caches.
            let _ = drop_caches();
        }
        let source = workload.start().map_err(|e| e.to_string())?;
        let mut source = Counted::new(source, Some(progress.steps()));
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

/// Replays by system calls. `work` is given the replayer and the clock of the host.
///
/// # Errors
/// Those of the host, and of the work.
pub(super) fn in_mirror<T>(
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
pub(super) fn most_common(report: &Report) -> String {
    let failed = report.divergences.iter().filter_map(|(&(verb, recorded, replayed), &count)| {
        replayed.filter(|_| recorded.is_none()).map(|error| (count, format!("{verb}: {error}")))
    });
    let left_out = (report.skipped, "left out, because a file was missing".to_string());
    match failed.chain([left_out]).max_by_key(|(count, _)| *count) {
        Some((count, what)) if count > 0 => format!(", {count} of them {what}"),
        _ => String::new(),
    }
}

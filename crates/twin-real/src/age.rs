//! File systems that grow old for real, side by side.
//!
//! Contract: each file system is made on one loop device in its turn, goes through the operations of the
//! history without its pauses ([`AtOnce`]); then it is seen where its files lie. A new one on a second
//! device has a copy of its files, made directory by directory. All files of the two are read in turn with
//! cold caches. Our layouts go through the same operations in simulation, on a device with the
//! same sectors. What is made is removed.

use std::fs;
use std::io::Read;
use std::path::Path;

use twin_age::{AtOnce, Layout, Recreate, VolumeMap};
use twin_ageing::layout_report::{OldForReal, SimulatedOld, shortest};
use twin_ageing::{AgeSettings, END, make_old};
use twin_host::mirror::Mirror;
use twin_host::{Bar, Count, real_clock};
use twin_lab::{Counted, Steps};
use twin_mount::source_map::map_of_source;
use twin_trace::Source;
use twin_trace::replay::Pace;

use crate::loop_device::LoopDevice;
use crate::replay::{host, in_mirror, most_common};
use crate::runner::{Runner, drop_caches};
use crate::systems::{Ours, System};

/// Cold reads of everything: the old one and the copy in turn, so that both meet the same noise.
const READS: usize = 7;
/// Bytes of a read.
const READ: usize = 128 << 10;
/// The directory of ext4 for files without names.
const LOST: &[u8] = b"lost+found";

/// Makes the source of the history anew.
pub type History<'a> = dyn Fn() -> Result<Box<dyn Source>, String> + 'a;

/// Systems that grow old in the same way.
pub struct Ageing<'a> {
    /// What each of them goes through.
    pub history: &'a History<'a>,
    /// Its operations.
    pub requests: u64,
    /// Whether it was recorded: then files that were closed and removed may hold their space.
    pub is_trace: bool,
    /// The volume that is simulated of ours, whose size all have.
    pub settings: &'a AgeSettings,
}

/// Lets systems grow old in turn; `grown` is told of each, or why it could not take part.
///
/// # Errors
/// If there is no device, or the user interrupts.
pub fn grow_old(
    runner: &Runner<'_>,
    systems: Vec<System>,
    ageing: &Ageing<'_>,
    mut grown: impl FnMut(&System, Result<OldForReal, String>),
) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("--on makes loop devices and mounts file systems: run it as root".into());
    }
    let device = || runner.loop_device(Path::new("/var/tmp"), ageing.settings.size);
    let (of_old, of_copy) = (device()?, device()?);
    let ours = systems.iter().filter(|system| system.ours().is_some()).count();
    let count = Count::Steps((systems.len() + ours) as u64 * ageing.requests);
    let bar = runner.progress.begin("operations", count);
    for system in &systems {
        let turn = Turn { system, old: &of_old, copy: &of_copy, ageing, bar: &bar, runner };
        let row = turn.grow_old();
        runner.check()?;
        // What takes part with the others is worth its time, so one that cannot does not end them.
        grown(system, row);
    }
    Ok(())
}

/// A file system in its turn.
struct Turn<'a> {
    system: &'a System,
    old: &'a LoopDevice,
    copy: &'a LoopDevice,
    ageing: &'a Ageing<'a>,
    bar: &'a Bar,
    runner: &'a Runner<'a>,
}

impl Turn<'_> {
    fn grow_old(&self) -> Result<OldForReal, String> {
        let source = Box::new(AtOnce::new((self.ageing.history)()?));
        let (requests, mut failed, mut most_common_failure) =
            self.fill(self.old, source, Some(self.bar))?;
        let old = self.map(self.old)?;
        let simulated = self.simulated(&old)?;
        self.runner.check()?;
        let (_, failed_copies, most_common) =
            self.fill(self.copy, Box::new(copy_of(&old)), None)?;
        if failed == 0 {
            most_common_failure = most_common;
        }
        failed += failed_copies;
        let copy = self.map(self.copy)?;
        let (mut read_s, mut copy_read_s) = (Vec::new(), Vec::new());
        for _ in 0..READS {
            read_s.push(self.read_cold(self.old)?);
            copy_read_s.push(self.read_cold(self.copy)?);
        }
        let slow_down = match (shortest(&read_s), shortest(&copy_read_s)) {
            (Some(old_s), Some(copy_s)) => Some(old_s / copy_s.max(1e-9)),
            _ => None,
        };
        let (of_old, of_copy) = (Layout::of(&old), Layout::of(&copy));
        Ok(OldForReal {
            system: self.system.name(),
            requests,
            failed,
            most_common_failure,
            files: of_old.files,
            file_bytes: of_old.file_bytes,
            layout_score: of_old.score.value(),
            copy_layout_score: of_copy.score.value(),
            dynamic_score: of_old.dynamic.value(),
            copy_dynamic_score: of_copy.dynamic.value(),
            read_s,
            copy_read_s,
            slow_down,
            simulated,
        })
    }

    /// Of our layouts: the same history in simulation, beside where everything really is.
    fn simulated(&self, real: &VolumeMap) -> Result<Option<SimulatedOld>, String> {
        let Some(Ours { layout, config }) = self.system.ours() else { return Ok(None) };
        let how = AgeSettings {
            layout: *layout,
            of_layout: config.clone(),
            sector: self.old.sector(),
            end: END,
            span_ns: 0,
            steps: Some(Steps::of(self.bar.counting())),
            ..self.ageing.settings.clone()
        };
        let aged = make_old(&how, Box::new(AtOnce::new((self.ageing.history)()?)));
        Ok(Some(SimulatedOld::of(&aged.map_err(|error| error.to_string())?.map, real)))
    }

    /// Makes the file system anew and does this on it. Returns the operations that were done and those
    /// that failed, and how most of these did.
    fn fill(
        &self,
        device: &LoopDevice,
        source: Box<dyn Source>,
        bar: Option<&Bar>,
    ) -> Result<(u64, u64, String), String> {
        let mut source = Counted::new(source, bar.map(|bar| Steps::of(bar.counting())));
        self.runner.make(self.system, device.path(), &[])?;
        let report = self.runner.in_mount(self.system, device, |dir| {
            // A history of ours does nothing with a file that it has closed and removed, so none may
            // hold its space; a trace may.
            let open = if self.ageing.is_trace { Mirror::for_replay } else { Mirror::open };
            let mirror = open(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
            in_mirror(&host()?, &mirror, Pace::Asap, async |mut replayer, _| {
                let report = replayer.run(&mut source).await.map_err(|error| error.to_string());
                let _ = replayer.release_all().await;
                report
            })
        })?;
        self.runner.check()?;
        Ok((report.ops, report.failed_ops(), most_common(&report)))
    }

    /// Where everything is: of ours as the unmounted device says, of others as the kernel does.
    fn map(&self, device: &LoopDevice) -> Result<VolumeMap, String> {
        let map = |path: &Path| map_of_source(path, self.runner.interrupts, self.runner.progress);
        match self.system.is_ours() {
            true => map(device.path()),
            false => self.runner.in_mount(self.system, device, map),
        }
    }

    /// The seconds of a read of everything with cold caches.
    fn read_cold(&self, device: &LoopDevice) -> Result<f64, String> {
        drop_caches()?;
        let clock = real_clock();
        self.runner.in_mount(self.system, device, |dir| {
            let begun = clock();
            self.read_all(dir)?;
            Ok(clock() - begun)
        })
    }

    /// Reads every file below a directory, in the order in which the file system lists them, those of a
    /// directory before those below it, as `grep -r` does.
    fn read_all(&self, top: &Path) -> Result<(), String> {
        let mut buffer = vec![0; READ];
        let mut waiting = vec![top.to_path_buf()];
        while let Some(dir) = waiting.pop() {
            self.runner.check()?;
            let text = |error: std::io::Error| format!("{}: {error}", dir.display());
            for entry in fs::read_dir(&dir).map_err(text)? {
                let entry = entry.map_err(text)?;
                if entry.file_type().map_err(text)?.is_dir() {
                    waiting.push(entry.path());
                    continue;
                }
                let mut file = fs::File::open(entry.path()).map_err(text)?;
                while file.read(&mut buffer).map_err(text)? > 0 {}
            }
        }
        Ok(())
    }
}

/// A workload that makes the files of a map directory by directory, as a copy of the tree does.
fn copy_of(map: &VolumeMap) -> impl Source + use<> {
    let mut map = map.clone();
    map.names.retain(|name| name.name != LOST);
    // Files are made in the order of their times, and equal times keep the order of the directories.
    map.files.iter_mut().for_each(|file| file.mtime_s = 0);
    AtOnce::new(Recreate::new(&map))
}

//! `twinfs age --on`: file systems that grow old for real, side by side.
//!
//! Contract: each file system is made on one loop device in its turn, goes through the operations of the
//! history without its pauses ([`AtOnce`]); then it is seen where its files lie. A new one on a second
//! device has a copy of its files, made directory by directory. All files of the two are read in turn with
//! cold caches. Our layouts go through the same operations in simulation, on a device with the
//! same sectors. What is made is removed.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use twin_age::{AtOnce, Layout, Recreate, VolumeMap};
use twin_ageing::layout_report::{OldForReal, SimulatedOld, old_for_real_table, shortest};
use twin_ageing::{AgeSettings, END, make_old};
use twin_host::mirror::Mirror;
use twin_lab::Counted;
use twin_lab::layouts::layout;
use twin_trace::Source;
use twin_trace::replay::Pace;

use super::on::{in_mirror, most_common};
use super::opening::set_for_open;
use super::peers::{Chosen, Disk, System, choose, drop_caches};
use super::progress::Progress;
use super::source_map::map_of_source;
use super::terminal::terminal_width;
use super::time::real_clock;
use super::{Failure, Interrupts, Outcome, usage};
use crate::cli::Age;
use crate::rows;

/// Cold reads of everything: the old one and the copy in turn, so that both meet the same noise.
const READS: usize = 7;
/// Bytes of a read.
const READ: usize = 128 << 10;
/// The directory of ext4 for files without names.
const LOST: &[u8] = b"lost+found";

/// Makes the source of the history anew.
pub(super) type History<'a> = dyn Fn() -> Result<Box<dyn Source>, Failure> + 'a;

pub(super) fn run(
    args: &Age,
    settings: &AgeSettings,
    (history, requests): (&History<'_>, u64),
    interrupts: &Interrupts,
) -> Outcome {
    let (systems, _) = choose(&args.on).map_err(usage)?;
    if !rustix::process::geteuid().is_root() {
        return Err("--on makes loop devices and mounts file systems: run it as root".into());
    }
    let disk = || Disk::make(Path::new("/var/tmp"), settings.size, interrupts).map(Arc::new);
    let (of_old, of_copy) = (disk()?, disk()?);
    let ours = systems.iter().filter(|chosen| layout(chosen.kind()).is_ok()).count();
    let bar = Progress::of("operations", (systems.len() + ours) as u64 * requests);
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for chosen in systems {
        let name = chosen.name();
        let one = One {
            old: System::new(chosen.clone(), Arc::clone(&of_old)),
            copy: System::new(chosen.clone(), Arc::clone(&of_copy)),
            chosen,
            settings,
            bar: &bar,
            interrupts,
            is_trace: args.trace.is_some(),
        };
        let grown = one.grow_old(history);
        interrupts.check()?;
        // What takes part with the others is worth its time, so one that cannot does not end them.
        match grown {
            Ok(row) => rows.push(row),
            Err(Failure { why, .. }) => {
                failures.push(format!("{name} could not take part: {why}"));
            }
        }
    }
    bar.finish();
    rows::print(&args.output, &rows, || Ok(old_for_real_table(&rows, terminal_width())))?;
    for row in rows.iter().filter(|row| row.failed > 0) {
        let OldForReal { system, failed, requests, most_common_failure, .. } = row;
        failures.push(format!(
            "{system}: of {requests} operations and those of the copy {failed} failed{most_common_failure}"
        ));
    }
    failures.iter().for_each(|failure| eprintln!("twinfs: {failure}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A file system in its turn.
struct One<'a> {
    old: System,
    copy: System,
    chosen: Chosen,
    settings: &'a AgeSettings,
    bar: &'a Progress,
    interrupts: &'a Interrupts,
    is_trace: bool,
}

impl One<'_> {
    fn grow_old(&self, history: &History<'_>) -> Result<OldForReal, Failure> {
        let source = Box::new(AtOnce::new(history()?));
        let (requests, mut failed, mut most_common_failure) =
            self.fill(&self.old, source, Some(self.bar))?;
        let old = self.map(&self.old)?;
        let simulated = self.simulated(history, &old)?;
        self.interrupts.check()?;
        let (_, failed_copies, most_common) =
            self.fill(&self.copy, Box::new(copy_of(&old)), None)?;
        if failed == 0 {
            most_common_failure = most_common;
        }
        failed += failed_copies;
        let copy = self.map(&self.copy)?;
        let (mut read_s, mut copy_read_s) = (Vec::new(), Vec::new());
        for _ in 0..READS {
            read_s.push(self.read_cold(&self.old)?);
            copy_read_s.push(self.read_cold(&self.copy)?);
        }
        let slow_down = match (shortest(&read_s), shortest(&copy_read_s)) {
            (Some(old_s), Some(copy_s)) => Some(old_s / copy_s.max(1e-9)),
            _ => None,
        };
        let (of_old, of_copy) = (Layout::of(&old), Layout::of(&copy));
        Ok(OldForReal {
            system: self.chosen.name(),
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
    fn simulated(
        &self,
        history: &History<'_>,
        real: &VolumeMap,
    ) -> Result<Option<SimulatedOld>, Failure> {
        let Ok(kind) = layout(self.chosen.kind()) else { return Ok(None) };
        let mut of_layout = kind.config();
        set_for_open(&mut *of_layout, &self.chosen.settings).map_err(|why| why.to_string())?;
        of_layout.complete(&|_| false);
        let how = AgeSettings {
            layout: kind,
            of_layout,
            sector: self.old.sector(),
            end: END,
            span_ns: 0,
            steps: Some(self.bar.steps()),
            ..self.settings.clone()
        };
        let aged = make_old(&how, Box::new(AtOnce::new(history()?)));
        Ok(Some(SimulatedOld::of(&aged.map_err(|error| error.to_string())?.map, real)))
    }

    /// Makes the file system anew and does this on it. Returns the operations that were done and those
    /// that failed, and how most of these did.
    fn fill(
        &self,
        system: &System,
        source: Box<dyn Source>,
        bar: Option<&Progress>,
    ) -> Result<(u64, u64, String), String> {
        let mut source = Counted::new(source, bar.map(Progress::steps));
        system.make()?;
        let report = system.in_mount(|dir| {
            // A history of ours does nothing with a file that it has closed and removed, so none may
            // hold its space; a trace may.
            let open = if self.is_trace { Mirror::for_replay } else { Mirror::open };
            let mirror = open(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
            in_mirror(&mirror, Pace::Asap, async |mut replayer, _| {
                let report = replayer.run(&mut source).await.map_err(|error| error.to_string());
                let _ = replayer.release_all().await;
                report
            })
        })?;
        self.interrupts.check()?;
        Ok((report.ops, report.failed_ops(), most_common(&report)))
    }

    /// Where everything is: of ours as the unmounted device says, of others as the kernel does.
    fn map(&self, system: &System) -> Result<VolumeMap, String> {
        match layout(self.chosen.kind()) {
            Ok(_) => map_of_source(system.device(), self.interrupts),
            Err(_) => system.in_mount(|dir| map_of_source(dir, self.interrupts)),
        }
    }

    /// The seconds of a read of everything with cold caches.
    fn read_cold(&self, system: &System) -> Result<f64, String> {
        drop_caches()?;
        let clock = real_clock();
        system.in_mount(|dir| {
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
            self.interrupts.check()?;
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

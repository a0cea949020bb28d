//! Places for benchmarks: several file systems, and the bare device, in turn on one loop device.
//!
//! Contract: each run of a benchmark is on a file system that was made for it. What a file system cannot do is
//! left out, and told at the end.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use twin_bench::directory::{Call, Clock, Cold, Directory};
use twin_bench::{BenchFailure, Benchmark, Phase, Place};
use twin_host::fuse::sync_file_system;
use twin_host::{Hidden, Interrupts};

use crate::loop_device::LoopDevice;
use crate::mounted::Mounted;
use crate::probe::{Probe, SPIN_NS};
use crate::runner::{Runner, drop_caches};
use crate::systems::System;

/// The device on which all take turns, for several threads.
#[derive(Clone)]
pub struct Turns {
    device: Arc<LoopDevice>,
    interrupts: Interrupts,
    program: std::path::PathBuf,
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Turns({})", self.device.path().display())
    }
}

impl Turns {
    /// Turns on a new device of so many bytes below `base`.
    ///
    /// # Errors
    /// If there is no room, or the host refuses a loop device.
    pub fn make(runner: &Runner<'_>, base: &Path, size: u64) -> Result<Turns, String> {
        let device = Arc::new(runner.loop_device(base, size)?);
        let (interrupts, program) = (runner.interrupts.clone(), runner.program.clone());
        Ok(Turns { device, interrupts, program })
    }

    /// A runner for work on whatever thread: nothing is shown of it.
    fn runner(&self) -> Runner<'_> {
        Runner { interrupts: &self.interrupts, progress: &Hidden, program: self.program.clone() }
    }

    fn mount(&self, system: &System) -> Result<Mounted, String> {
        self.runner().mount(system, self.device.path(), self.device.mount_at(), &[])
    }

    fn stop(&self) -> Arc<AtomicBool> {
        self.interrupts.stop()
    }
}

/// A file system with its turns.
#[derive(Debug)]
pub struct Peer {
    system: System,
    turns: Turns,
    failures: Mutex<Vec<String>>,
}

impl Peer {
    /// A file system that takes turns.
    pub fn new(system: System, turns: &Turns) -> Peer {
        Peer { system, turns: turns.clone(), failures: Mutex::default() }
    }

    /// What did not work, in words.
    pub fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn turn(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure> {
        let device = &self.turns.device;
        let made = self.turns.runner().make(&self.system, device.path(), &[]);
        made.map_err(BenchFailure)?;
        let mounted = self.turns.mount(&self.system).map_err(BenchFailure)?;
        let mounted = Arc::new(Mutex::new(Some(mounted)));
        let directory = Directory {
            path: device.mount_at().to_owned(),
            cold: self.cold(&mounted),
            stop: self.turns.stop(),
            sync: sync_file_system,
        };
        directory.run(bench, clock)
    }

    /// A daemon has caches of its own, which only a remount empties.
    fn cold(&self, mounted: &Arc<Mutex<Option<Mounted>>>) -> Cold {
        if !self.system.has_daemon() {
            return Cold::DropCaches;
        }
        let (system, turns, mounted) =
            (self.system.clone(), self.turns.clone(), Arc::clone(mounted));
        Cold::Call(Call(Arc::new(move || {
            let mut mounted = mounted.lock().unwrap_or_else(PoisonError::into_inner);
            mounted.take().map_or(Ok(()), Mounted::end)?;
            drop_caches()?;
            *mounted = Some(turns.mount(&system)?);
            Ok(())
        })))
    }
}

impl Place for Peer {
    fn name(&self) -> String {
        self.system.name()
    }

    fn run(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure> {
        match self.turn(bench, clock) {
            Err(why) if self.turns.stop().load(Ordering::Relaxed) => Err(why),
            Err(why) => {
                let why = format!("{}, {}: {why}", self.system.name(), bench.label());
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                if !failures.contains(&why) {
                    failures.push(why);
                }
                Ok(Vec::new())
            }
            done => done,
        }
    }
}

/// Requests of the two measurements of the bare device.
const LARGE: u64 = 1 << 20;
const LARGE_COUNT: u64 = 256;
const SMALL: u64 = 4096;
const SMALL_COUNT: u64 = 1500;

/// The device without a file system, for the phases that it bounds: `seq_write` of `large` as
/// direct writes of 1 MiB, one after the other, and `create` of small files that are fsynced as
/// a direct write of 4 KiB and a flush each.
#[derive(Debug)]
pub struct BareDevice {
    turns: Turns,
}

impl BareDevice {
    /// The device on which file systems take turns.
    pub fn new(turns: &Turns) -> BareDevice {
        BareDevice { turns: turns.clone() }
    }

    /// Seconds for `count` writes of `bytes` behind each other, each with a flush if `flush`.
    fn writes(&self, bytes: u64, count: u64, flush: bool, clock: Clock<'_>) -> Result<f64, String> {
        let mut probe = Probe::open(self.turns.device.path(), SPIN_NS, 0)?;
        // Behind each other, and from the beginning again on a small device.
        let places = (probe.info().size / bytes).max(1);
        probe.run(async |probe| {
            let start = clock();
            for i in 0..count {
                probe.submit(probe.write_at(i % places * bytes, bytes)).await?;
                if flush || i + 1 == count {
                    probe.submit(Probe::flush()).await?;
                }
            }
            Ok(clock() - start)
        })
    }
}

impl Place for BareDevice {
    fn name(&self) -> String {
        "device".into()
    }

    fn run(&self, bench: &dyn Benchmark, clock: Clock<'_>) -> Result<Vec<Phase>, BenchFailure> {
        let label = bench.label();
        let (phase, unit, amount, measured) = if label.starts_with("large") {
            let mib = LARGE_COUNT as f64;
            ("seq_write", "MiB/s", mib, self.writes(LARGE, LARGE_COUNT, false, clock))
        } else if label.starts_with("small") && label.contains("fsync=yes") {
            let count = SMALL_COUNT as f64;
            ("create", "files/s", count, self.writes(SMALL, SMALL_COUNT, true, clock))
        } else {
            return Ok(Vec::new());
        };
        let seconds = measured.map_err(|why| BenchFailure(format!("the device: {why}")))?;
        Ok(vec![Phase::of(phase, amount, unit, seconds)])
    }
}

//! What a device's requests take longer under a mount than in a process of their own.
//!
//! A client that syncs uses the processors between the device's requests, the kernel passes pages and
//! requests on, and on few processors all of them, the daemon, and (in a virtual machine) the process that
//! stands for the device take turns. So this writes and syncs a block of a file on a mount, again and again,
//! at once and after some computing, simulates the recording with everything else that was measured, and
//! takes what is left over for a figure of its own. The workload is none that validations use.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use twin_host::real_clock;
use twin_lab::{Config, MachineFile, Workload, simulate};
use twin_trace::Verb;
use twin_trace::replay::Pace;

use super::bench::{Bench, SMALL};
use super::rounds::kept;
use crate::marked::{between_marks, measured};
use crate::runner::median;

/// Synced writes of a round.
const SYNCS: usize = 120;
/// Blocks of the file.
const BLOCKS: usize = 64;
/// Seconds that the client computes before every second write.
const COMPUTES: f64 = 300e-6;

/// The recordings of all rounds.
#[derive(Default)]
pub(super) struct Samples(Vec<Workload>);

impl Samples {
    /// Forgets the rounds that do not stay.
    pub(super) fn keep(&mut self, stays: &[bool]) {
        self.0 = kept(std::mem::take(&mut self.0), stays);
    }

    /// Records synced writes on a mount of a volume in `image`, which is written in full. Its contents are
    /// lost.
    ///
    /// # Errors
    /// If the volume cannot be made, mounted or used.
    pub(super) fn round(&mut self, bench: &Bench<'_>, image: &Path) -> Result<(), String> {
        let write = |dir: &Path| synced_writes(dir).map_err(|e| format!("{}: {e}", dir.display()));
        let trace = bench.recorded(image, |mnt| measured(mnt, write).map(drop))?;
        self.0.push(between_marks(&trace)?);
        std::fs::remove_file(&trace).map_err(|e| format!("{}: {e}", trace.display()))
    }

    /// What each request takes longer than this machine says, in microseconds. None if a recording cannot be
    /// simulated.
    pub(super) fn mounted_us(self, machine: &MachineFile) -> Option<f64> {
        let machine = Arc::new(machine.clone());
        let mut left = Vec::new();
        for recorded in self.0 {
            let config = Config::parse("lfs:size=256M").ok()?.on_machine(Arc::clone(&machine));
            let figures = simulate(&config, &recorded, Pace::Think { speed: 1.0 }).ok()?;
            let sync = figures.verbs.iter().find(|verb| verb.verb == Verb::Fsync.name())?;
            let requests = (figures.disk_use.writes + figures.disk_use.flushes).max(1) as f64;
            let each = requests / sync.latency.count.max(1) as f64;
            left.push((sync.recorded?.p50_us - sync.latency.p50_us) / each);
        }
        (!left.is_empty()).then(|| (median(left).max(0.0) * 10.0).round() / 10.0)
    }
}

fn synced_writes(dir: &Path) -> io::Result<()> {
    let block = [0x5a; SMALL];
    let mut file = File::create_new(dir.join("synced"))?;
    for _ in 0..BLOCKS {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let clock = real_clock();
    for i in 0..SYNCS {
        let start = clock();
        while i % 2 == 1 && clock() - start < COMPUTES {
            std::hint::spin_loop();
        }
        file.write_all_at(&block, (i * 29 % BLOCKS * SMALL) as u64)?;
        file.sync_data()?;
    }
    Ok(())
}

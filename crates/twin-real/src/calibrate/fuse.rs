//! The kernel between clients and a mount: what it costs to pass a request.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::io::AsFd;
use std::path::Path;

use twin_host::real_clock;
use twin_lab::Fuse;
use twin_lab::layouts::LAYOUTS;

use super::bench::{Bench, LARGE, SMALL};
use super::rounds::kept;
use crate::mounted::Mounted;
use crate::runner::median;
use crate::systems::System;

/// Requests a round.
const REQUESTS: usize = 4000;
/// Direct reads a round, of each size.
const READS: usize = 200;
/// The core's own time to answer statfs; it reads a few counters.
const CORE_US: f64 = 0.5;

/// Steps of a round.
pub(super) const STEPS: u64 = 1;

/// The results of all rounds, in microseconds.
#[derive(Default)]
pub(super) struct Samples {
    /// Of each round the times of all requests.
    trips: Vec<Vec<f64>>,
    served: Vec<f64>,
    copies: Vec<f64>,
}

/// The flag of open that bypasses the kernel's page cache.
pub(super) const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;

/// True if mounts are possible at all.
pub(super) fn can_mount() -> bool {
    Path::new("/dev/fuse").exists()
}

impl Samples {
    /// Forgets the rounds that do not stay.
    pub(super) fn keep(&mut self, stays: &[bool]) {
        self.trips = kept(std::mem::take(&mut self.trips), stays);
        self.served = kept(std::mem::take(&mut self.served), stays);
        self.copies = kept(std::mem::take(&mut self.copies), stays);
    }

    /// Measures all once, where this user may mount.
    pub(super) fn round(&mut self, bench: &Bench<'_>) -> Result<(), String> {
        if !can_mount() {
            return bench.step();
        }
        let image = bench.dir().join("fuse.img");
        if !image.exists() {
            bench.runner.make(&system(), &image, &["--size", "128M"])?;
        }
        // As people mount: the daemon looks for the next request before it sleeps.
        self.trips.push(round_trips(bench, &image, &[])?);
        // One that sleeps at once uses the processor for requests alone.
        self.served.push(serve_us(bench, &image)?);
        self.copies.push(copy_us(bench, &image)?);
        bench.step()
    }
}

/// The costs of the front end.
pub(super) fn costs(bench: &mut Bench<'_>, samples: Samples) -> Fuse {
    if samples.trips.is_empty() {
        let why = "no /dev/fuse: the cost of a mount's requests is assumed, and the core's costs are \
                   those of a loop, not of a daemon";
        bench.warnings.push(why.into());
        return Fuse { transit_us: 9.0, serve_us: 5.0, copy_4k_us: 0.4, ..Fuse::default() };
    }
    let medians: Vec<f64> = samples.trips.iter().cloned().map(median).collect();
    bench.judge("a round trip through FUSE", &medians);
    let mut all = samples.trips.concat();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| round(all[((all.len() - 1) as f64 * share) as usize]);
    // Sleeping and waking after each request is part of what a daemon that sleeps at once uses, and no
    // part of what one that is kept busy uses; nor can it work longer than the whole takes.
    let serve_us = median(samples.served).min(at(0.5) / 2.0);
    Fuse {
        transit_us: round((at(0.5) - serve_us - CORE_US).max(0.0)),
        serve_us: round(serve_us),
        copy_4k_us: round(median(samples.copies)),
        round_trip_us: [at(0.05), at(0.95)],
    }
}

fn round(us: f64) -> f64 {
    (us * 100.0).round() / 100.0
}

/// The file system that is mounted: by default ours of the first layout.
fn system() -> System {
    System::of_layout(LAYOUTS[0])
}

fn mount(bench: &Bench<'_>, image: &Path, options: &[&str]) -> Result<Mounted, String> {
    bench.runner.mount(&system(), image, &bench.dir().join("mnt"), options)
}

/// Times of requests that the kernel answers from no cache, in microseconds.
fn round_trips(bench: &Bench<'_>, image: &Path, options: &[&str]) -> Result<Vec<f64>, String> {
    let mounted = mount(bench, image, options)?;
    let times = ask(bench, REQUESTS)?;
    mounted.end()?;
    Ok(times)
}

fn ask(bench: &Bench<'_>, count: usize) -> Result<Vec<f64>, String> {
    let dir = bench.dir().join("mnt");
    let said = |e: std::io::Error| format!("{}: {e}", dir.display());
    let dir_fd = File::open(&dir).map_err(said)?;
    let clock = real_clock();
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = clock();
        rustix::fs::fstatvfs(dir_fd.as_fd()).map_err(|e| said(e.into()))?;
        times.push((clock() - start) * 1e6);
    }
    bench.runner.check()?;
    Ok(times)
}

/// Processor time of a daemon for a request, the core's work left out, in microseconds.
fn serve_us(bench: &Bench<'_>, image: &Path) -> Result<f64, String> {
    let mounted = mount(bench, image, &["--spin", "0"])?;
    let pid = mounted.pid().unwrap_or(0);
    let before = processor_us(pid);
    let count = 3 * REQUESTS;
    ask(bench, count)?;
    let after = processor_us(pid);
    mounted.end()?;
    Ok(((after - before) / count as f64 - CORE_US).max(0.0))
}

/// Processor time of a process so far, in microseconds.
fn processor_us(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let ns: f64 = text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
    ns / 1e3
}

/// What 4 KiB more of a read cost, in microseconds: half of it is the core's own copy.
fn copy_us(bench: &Bench<'_>, image: &Path) -> Result<f64, String> {
    let mounted = mount(bench, image, &[])?;
    let path = bench.dir().join("mnt/copied");
    let said = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut file = File::create(&path).map_err(said)?;
    file.write_all(&vec![0x5a; LARGE]).and_then(|()| file.sync_all()).map_err(said)?;
    drop(file);
    let file = File::options().read(true).custom_flags(O_DIRECT).open(&path).map_err(said)?;
    let clock = real_clock();
    let mut buffer = vec![0u8; LARGE + SMALL];
    let from = buffer.as_ptr().align_offset(SMALL);
    let mut medians = [0.0; 2];
    for (len, found) in [SMALL, LARGE].into_iter().zip(&mut medians) {
        let mut times = Vec::with_capacity(READS);
        for _ in 0..READS {
            let start = clock();
            let got = rustix::io::pread(&file, &mut buffer[from..from + len], 0);
            got.map_err(|e| said(e.into()))?;
            times.push((clock() - start) * 1e6);
        }
        *found = median(times);
    }
    drop(file);
    std::fs::remove_file(&path).map_err(said)?;
    mounted.end()?;
    let pages = ((LARGE - SMALL) / SMALL) as f64;
    Ok(((medians[1] - medians[0]) / pages / 2.0).max(0.0))
}

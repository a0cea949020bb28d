//! `twinfs bench --device`: how fast a disk is, in the terms of a simulated SSD.
//!
//! Through our own way to devices, as a mount uses it: medians of single requests to random
//! places of a file that is written in full. The link's rate is what a large read takes longer
//! than a small one, or a large write, whichever is slower.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use twin_disk::{Block, BlockDevice, Buf, Bytes, Class, Io, IoError, Origin};
use twin_host::{FileDevice, Host, HostOptions, ImageOptions};
use twin_rt::{Nanos, Rng, SECS};

use super::interrupt::Undoing;
use super::peers::write_whole;
use super::progress::Progress;
use super::time::real_clock;
use super::{Interrupts, Outcome};
use crate::cli::Output;
use crate::rows;

const FILE: u64 = 64 << 20;
const SMALL: u64 = 4096;
const LARGE: u64 = 1 << 20;
/// The number of requests of each kind.
const COUNT: usize = 101;

/// Measures and says it.
///
/// # Errors
/// If a file cannot be made there, or read and written directly.
pub(super) fn run(dir: &Path, output: &Output, interrupts: &Interrupts) -> Outcome {
    let file = Scratch::make(dir, interrupts)?;
    let progress = Progress::of("requests measured", 5 * COUNT as u64);
    let times =
        measure(&file.path, &progress).map_err(|why| format!("{}: {why}", file.path.display()))?;
    interrupts.check()?;
    progress.finish();
    let setting = times.setting();
    let row = serde_json::json!({
        "read_us": times.read_ns / 1000, "write_us": times.write_ns / 1000,
        "flush_us": times.flush_ns / 1000, "bytes_per_s": times.bytes_per_s,
        "ssd": setting,
    });
    rows::print(output, &[row], || Ok(format!("disk=ssd-sata,ssd={setting}")))?;
    Ok(ExitCode::SUCCESS)
}

/// A file that goes with this value.
struct Scratch {
    path: PathBuf,
    _undoing: Undoing,
}

impl Scratch {
    fn make(dir: &Path, interrupts: &Interrupts) -> Result<Scratch, String> {
        let path = dir.join(format!("twinfs-device-{}", std::process::id()));
        let said = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = File::create_new(&path).map_err(said)?;
        let gone = path.clone();
        let undoing = interrupts.undo(move || drop(std::fs::remove_file(&gone)));
        let scratch = Scratch { path: path.clone(), _undoing: undoing };
        write_whole(&mut file, FILE, &interrupts.stop(), &Progress::hidden()).map_err(said)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                eprintln!("twinfs: {}: {error}", self.path.display());
            }
            _ => {}
        }
    }
}

struct Times {
    read_ns: Nanos,
    write_ns: Nanos,
    flush_ns: Nanos,
    bytes_per_s: u64,
}

impl Times {
    fn setting(&self) -> String {
        let us = |ns: Nanos| ns.div_ceil(1000);
        let mib = (self.bytes_per_s >> 20).max(1);
        format!("{}/{}/{}/{mib}M", us(self.read_ns), us(self.write_ns), us(self.flush_ns))
    }
}

fn measure(path: &Path, progress: &Progress) -> Result<Times, String> {
    let host = Host::start(HostOptions { spin_ns: 200_000, ..HostOptions::default() });
    let host = host.map_err(|e| e.to_string())?;
    let device = FileDevice::open(&host, path, &ImageOptions::default());
    let device = device.map_err(|e| e.to_string())?;
    let mut probe = Probe {
        device,
        clock: real_clock(),
        progress: progress.clone(),
        rng: Rng::stream(1, "places"),
        content: Buf::copy_of(&vec![0x5a; LARGE as usize]).freeze(),
    };
    let work = async {
        let (small_read, large_read) = (probe.read(SMALL).await?, probe.read(LARGE).await?);
        let (small_write, large_write) = (probe.write(SMALL).await?, probe.write(LARGE).await?);
        let flush_ns = probe.flush().await?;
        let longer = large_read.saturating_sub(small_read);
        let longer = longer.max(large_write.saturating_sub(small_write)).max(1);
        let bytes_per_s = (LARGE - SMALL) * SECS / longer;
        Ok::<Times, IoError>(Times {
            read_ns: small_read,
            write_ns: small_write,
            flush_ns,
            bytes_per_s,
        })
    };
    host.rt().block_on(work).map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

struct Probe<C> {
    device: FileDevice,
    clock: C,
    rng: Rng,
    progress: Progress,
    content: Bytes,
}

impl<C: Fn() -> f64> Probe<C> {
    fn place(&mut self, len: u64) -> u64 {
        self.rng.below(FILE / len) * len
    }

    /// The median time of one of these, each behind a write of its own if `behind_write`.
    async fn median(
        &mut self,
        behind_write: bool,
        io: impl Fn(&mut Self) -> Io,
    ) -> Result<Nanos, IoError> {
        let mut times = Vec::with_capacity(COUNT);
        for _ in 0..COUNT {
            if behind_write {
                let write = self.a_write(SMALL);
                self.device.submit(write).await?;
            }
            let io = io(self);
            let start = (self.clock)();
            self.device.submit(io).await?;
            times.push(((self.clock)() - start) * 1e9);
            self.progress.inc(1);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[COUNT / 2] as Nanos)
    }

    fn a_write(&mut self, len: u64) -> Io {
        let block = Block::Bytes(self.content.slice(0, len as usize));
        Io::write(self.place(len), vec![block], Class::Data, Origin::User)
    }

    async fn read(&mut self, len: u64) -> Result<Nanos, IoError> {
        self.median(false, |probe| Io::read(probe.place(len), len, Class::Data, Origin::User)).await
    }

    async fn write(&mut self, len: u64) -> Result<Nanos, IoError> {
        self.median(false, |probe| probe.a_write(len)).await
    }

    async fn flush(&mut self) -> Result<Nanos, IoError> {
        self.median(true, |_| Io::flush(Origin::User)).await
    }
}

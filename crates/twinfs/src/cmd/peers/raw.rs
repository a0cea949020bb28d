//! What the device itself gives, through our own way to it: the bound of what is made durable.

use std::sync::Arc;

use twin_bench::directory::Clock;
use twin_bench::{BenchFailure, Benchmark, Phase, Place};
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin};
use twin_host::{FileDevice, Host, HostOptions, ImageOptions};

use super::place::Disk;

/// Requests of the two measurements.
const LARGE: u64 = 1 << 20;
const LARGE_COUNT: u64 = 256;
const SMALL: u64 = 4096;
const SMALL_COUNT: u64 = 1500;

/// The device without a file system, for the phases that it bounds: `seq_write` of `large` as
/// direct writes of 1 MiB, one after the other, and `create` of small files that are fsynced as
/// a direct write of 4 KiB and a flush each.
#[derive(Debug)]
pub(super) struct Raw {
    disk: Arc<Disk>,
}

impl Raw {
    pub(super) fn new(disk: Arc<Disk>) -> Raw {
        Raw { disk }
    }

    /// Seconds for `count` writes of `bytes` behind each other, each with a flush if `flush`.
    fn writes(&self, bytes: u64, count: u64, flush: bool, clock: Clock<'_>) -> Result<f64, String> {
        let host = Host::start(HostOptions { spin_ns: 200_000, ..HostOptions::default() });
        let host = host.map_err(|e| e.to_string())?;
        let device = FileDevice::open(&host, self.disk.device(), &ImageOptions::default());
        let device = device.map_err(|e| e.to_string())?;
        // Behind each other, and from the beginning again on a small device.
        let places = (device.info().size / bytes).max(1);
        let content = Buf::copy_of(&vec![0x5a; bytes as usize]).freeze();
        let work = async {
            let start = clock();
            for i in 0..count {
                let block = Block::Bytes(content.clone());
                let at = i % places * bytes;
                device.submit(Io::write(at, vec![block], Class::Data, Origin::User)).await?;
                if flush || i + 1 == count {
                    device.submit(Io::flush(Origin::User)).await?;
                }
            }
            Ok::<f64, twin_disk::IoError>(clock() - start)
        };
        host.rt().block_on(work).map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }
}

impl Place for Raw {
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

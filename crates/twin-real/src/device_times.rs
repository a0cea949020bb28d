//! How fast a device is, in the terms of a simulated SSD.
//!
//! Medians of single requests to random places of a file that is written in full. The link's rate is what a
//! large read takes longer than a small one, or a large write, whichever is slower.

use std::path::Path;

use twin_host::Count;
use twin_rt::{Nanos, SECS};

use crate::probe::{Probe, SPIN_NS};
use crate::runner::{Runner, median};

const FILE: u64 = 64 << 20;
const SMALL: u64 = 4096;
const LARGE: u64 = 1 << 20;
/// The number of requests of each kind.
const COUNT: usize = 101;

/// What a device takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTimes {
    /// For a small read.
    pub read_ns: Nanos,
    /// For a small write.
    pub write_ns: Nanos,
    /// For a flush after a small write.
    pub flush_ns: Nanos,
    /// Bytes a second over its link.
    pub bytes_per_s: u64,
}

impl DeviceTimes {
    /// As the value of the setting `ssd` of a configuration.
    pub fn setting(&self) -> String {
        let us = |ns: Nanos| ns.div_ceil(1000);
        let mib = (self.bytes_per_s >> 20).max(1);
        format!("{}/{}/{}/{mib}M", us(self.read_ns), us(self.write_ns), us(self.flush_ns))
    }
}

/// Measures the device under a directory.
///
/// # Errors
/// If a file cannot be made there, or read and written directly.
pub fn measure(runner: &Runner<'_>, dir: &Path) -> Result<DeviceTimes, String> {
    let scratch = runner.scratch(dir, "device")?;
    let file = scratch.path().join("file");
    runner.full_file(&file, FILE, None)?;
    let bar = runner.progress.begin("requests measured", Count::Steps(5 * COUNT as u64));
    let in_file = |why: String| format!("{}: {why}", file.display());
    let mut probe = Probe::open(&file, SPIN_NS, 1).map_err(in_file)?.counted(bar);
    let times = probe.run(async |probe| {
        let reads = [
            probe.alone(COUNT, |p| p.read(SMALL)).await?,
            probe.alone(COUNT, |p| p.read(LARGE)).await?,
        ];
        let writes = [
            probe.alone(COUNT, |p| p.write(SMALL)).await?,
            probe.alone(COUNT, |p| p.write(LARGE)).await?,
        ];
        let flushes = probe.flushes(SMALL, COUNT).await?;
        Ok((reads, writes, flushes))
    });
    let (reads, writes, flushes) = times.map_err(in_file)?;
    runner.check()?;
    let ns = |times: Vec<f64>| (median(times) * 1e3) as Nanos;
    let [small_read, large_read] = reads.map(ns);
    let [small_write, large_write] = writes.map(ns);
    let longer = large_read.saturating_sub(small_read);
    let longer = longer.max(large_write.saturating_sub(small_write)).max(1);
    Ok(DeviceTimes {
        read_ns: small_read,
        write_ns: small_write,
        flush_ns: ns(flushes),
        bytes_per_s: (LARGE - SMALL) * SECS / longer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_a_setting_in_whole_units() {
        let times =
            DeviceTimes { read_ns: 80_001, write_ns: 25_000, flush_ns: 0, bytes_per_s: 1000 };
        assert_eq!(times.setting(), "81/25/0/1M");
    }
}

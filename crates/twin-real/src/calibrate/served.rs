//! Costs of the core while it serves a mount: service times in a recording of calls that need no device.
//!
//! In a daemon each request comes after a switch from another process, to processor caches that others have
//! used: the same operation takes up to several times as long as in a loop of its own. Simulations stand for
//! mounts, so these are the costs that count where a mount can be had.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};
use twin_fs::{LayoutKind, Op};
use twin_trace::{Reader, Record, Source, Verb};

use super::bench::{Bench, LARGE, SMALL};
use super::fuse::O_DIRECT;
use crate::systems::System;

/// Files that are made.
const FILES: usize = 200;
/// Bytes of a file that fills its only block in part.
const PART: usize = 3000;
/// Direct reads of each size.
const READS: usize = 60;
/// The share of the longest times that is left out: those that waited.
const LEFT_OUT: f64 = 0.1;

/// Mean service times in microseconds, by the names that [`super::processor`] uses.
///
/// # Errors
/// If the volume cannot be made, mounted or used.
pub(super) fn measure(
    bench: &Bench<'_>,
    kind: &'static dyn LayoutKind,
) -> Result<Vec<(&'static str, f64)>, String> {
    let (image, trace) = (bench.dir().join("served.img"), bench.dir().join("served.tw"));
    let system = System::of_layout(kind);
    bench.runner.make(&system, &image, &["--size", "256M"])?;
    let mnt = bench.dir().join("mnt");
    let to = trace.display().to_string();
    let options = ["--cache", "128M", "--record", &to];
    let mounted = bench.runner.mount(&system, &image, &mnt, &options)?;
    let called = call(&mnt);
    mounted.end()?;
    called.map_err(|e| format!("{}: {e}", mnt.display()))?;
    let found = service_times(&trace)?;
    for path in [&image, &trace] {
        fs::remove_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(found.into_iter().map(|(what, times)| (what, mean(times))).collect())
}

/// Calls whose requests find all they need in memory.
fn call(mnt: &Path) -> io::Result<()> {
    let path = |i: usize| mnt.join(format!("file-{i}"));
    for i in 0..FILES {
        let len = [LARGE, PART, SMALL, SMALL][i % 4];
        File::create(path(i))?.write_all(&vec![0x5a; len])?;
    }
    for i in 0..FILES {
        // Each name is new to the kernel, which has to ask.
        let _ = fs::metadata(mnt.join(format!("missing-{i}")));
        let file = File::open(path(i))?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        rustix::fs::statx(file.as_fd(), "", flags, StatxFlags::BASIC_STATS)?;
    }
    let mut buffer = vec![0u8; LARGE + SMALL];
    let from = buffer.as_ptr().align_offset(SMALL);
    let file = File::options().read(true).custom_flags(O_DIRECT).open(path(0))?;
    for _ in 0..READS {
        for len in [SMALL, LARGE] {
            rustix::io::pread(&file, &mut buffer[from..from + len], 0)?;
        }
    }
    drop(file);
    for i in 0..FILES {
        fs::rename(path(i), mnt.join(format!("renamed-{i}")))?;
    }
    for i in 0..FILES {
        fs::remove_file(mnt.join(format!("renamed-{i}")))?;
    }
    Ok(())
}

/// Service times of the recorded requests, in microseconds.
fn service_times(trace: &Path) -> Result<BTreeMap<&'static str, Vec<f64>>, String> {
    let said = |e: &dyn std::fmt::Display| format!("{}: {e}", trace.display());
    let bytes = fs::read(trace).map_err(|e| said(&e))?;
    let mut reader = Reader::new(&bytes[..]).map_err(|e| said(&e))?;
    let mut begun = BTreeMap::new();
    let mut times: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    while let Some(record) = reader.next_record().map_err(|e| said(&e))? {
        match record {
            Record::Request { at_ns, request } => {
                if let Some(what) = what(&request.op) {
                    begun.insert(request.id, (what, at_ns));
                }
            }
            Record::Reply { at_ns, id, .. } => {
                let Some((what, from)) = begun.remove(&id) else { continue };
                times.entry(what).or_default().push(at_ns.saturating_sub(from) as f64 / 1e3);
            }
            Record::Node(_) => {}
        }
    }
    Ok(times)
}

/// The figure to which a request contributes.
fn what(op: &Op) -> Option<&'static str> {
    let by_size = |len: u64, small, large| match len {
        len if len == SMALL as u64 => Some(small),
        len if len == LARGE as u64 => Some(large),
        _ => None,
    };
    match (op, Verb::of(op)) {
        (Op::Write { data, .. } | Op::WriteBack { data, .. } | Op::Append { data, .. }, _) => {
            match data.len() {
                len if len == PART as u64 => Some("write in part"),
                len => by_size(len, "write 4K", "write 128K"),
            }
        }
        (Op::Read { len, .. }, _) => by_size(u64::from(*len), "read 4K", "read 128K"),
        (_, Verb::Lookup) => Some("lookup"),
        (_, Verb::Create | Verb::MakeNode) => Some("create"),
        (_, Verb::Unlink) => Some("remove"),
        (_, Verb::Rename) => Some("rename"),
        (_, Verb::GetAttr | Verb::SetAttr) => Some("attributes"),
        _ => None,
    }
}

/// The mean of all but the longest.
fn mean(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let kept = times.len() - (times.len() as f64 * LEFT_OUT) as usize;
    times[..kept].iter().sum::<f64>() / kept.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_times_are_left_out_of_a_mean() {
        assert_eq!(mean(vec![1.0, 3.0, 900.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 2.0]), 2.0);
        assert_eq!(mean(Vec::new()), 0.0);
    }
}

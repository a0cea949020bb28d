//! A piece of work on a mount between two marks, which a recording keeps.
//!
//! Contract: work is measured from a statfs of the mount, just before it starts, to the answer of an fsync of
//! the mount's root after the kernel has handed over all that it had collected. Both are in the recording, so
//! that simulations of it are measured between the same two requests.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use twin_fs::{Op, ROOT_INO};
use twin_host::fuse::hand_over;
use twin_host::real_clock;
use twin_lab::Workload;
use twin_trace::{Reader, Record, Source, Writer};

/// Runs the work in a new directory of the mount, between the two marks; returns the seconds between them.
///
/// # Errors
/// Those of the work, and if the mount cannot be used.
pub fn measured(mnt: &Path, work: impl FnOnce(&Path) -> Result<(), String>) -> Result<f64, String> {
    let said = |e: std::io::Error| format!("{}: {e}", mnt.display());
    let root = File::open(mnt).map_err(said)?;
    let dir = mnt.join("work");
    std::fs::create_dir(&dir).map_err(said)?;
    let clock = real_clock();
    rustix::fs::fstatvfs(root.as_fd()).map_err(|e| said(e.into()))?;
    let start = clock();
    work(&dir)?;
    // The kernel hands over what it has collected; it tells nobody of the sync itself.
    hand_over(&root).map_err(said)?;
    root.sync_all().map_err(said)?;
    Ok(clock() - start)
}

/// The recording between the two marks, as a workload.
///
/// # Errors
/// If the trace is damaged or has no marks.
pub fn between_marks(path: &Path) -> Result<Workload, String> {
    let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let bytes = std::fs::read(path).map_err(|e| said(&e))?;
    let (mut begin, mut end) = (None, None);
    let mut reader = Reader::new(&bytes[..]).map_err(|e| said(&e))?;
    while let Some(record) = reader.next_record().map_err(|e| said(&e))? {
        let Record::Request { request, .. } = record else { continue };
        match request.op {
            Op::StatFs => _ = begin.get_or_insert(request.id),
            Op::Fsync { ino: ROOT_INO, .. } => end = Some(request.id),
            _ => {}
        }
    }
    let (begin, end) = begin.zip(end).ok_or_else(|| said(&"has no marks of a workload"))?;
    let mut reader = Reader::new(&bytes[..]).map_err(|e| said(&e))?;
    let mut writer = Writer::new(Vec::new(), reader.header()).map_err(|e| said(&e))?;
    let mut base = 0;
    while let Some(mut record) = reader.next_record().map_err(|e| said(&e))? {
        // What comes before the first mark, making a directory, is done at once.
        match &mut record {
            Record::Request { at_ns, request } => {
                if request.id == begin {
                    base = *at_ns;
                }
                *at_ns = at_ns.saturating_sub(base) * u64::from(base > 0);
            }
            Record::Reply { at_ns, .. } => {
                *at_ns = at_ns.saturating_sub(base) * u64::from(base > 0);
            }
            Record::Node(_) => {}
        }
        let is_end = matches!(&record, Record::Reply { id, .. } if *id == end);
        writer.record(&record).map_err(|e| said(&e))?;
        if is_end {
            break;
        }
    }
    let bytes = writer.finish().map_err(|e| said(&e))?;
    Ok(Workload::Trace(Arc::from(bytes)))
}

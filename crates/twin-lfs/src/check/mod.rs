//! The checker of log-structured volumes.
//!
//! Contract: structures are read from the device and not through the code of the volume, so that an
//! error which the volume would hide is found. If the volume was not closed, its state after
//! roll-forward is checked. [`check`] writes nothing. [`repair`] first works out the repaired
//! volume in memory, then appends it to the log in clean segments; a single checkpoint puts it in
//! force. A crash before that checkpoint leaves the volume as it was, a crash after it leaves the
//! volume repaired. A repair does not write to a volume with nothing wrong. Memory: one bit for
//! each fragment of segments in use, 40 bytes for each inode number, the changes of a repair, and
//! what the shared checker needs.
//!
//! [`twin_check`] checks files and names. The modules here check what only a log has:
//! superblocks and checkpoints (`start`), the ifile with the usage table, the inode map and the
//! list of free numbers (`map`, `map_entry`), snapshots (`snapshots`), the places of inodes (`image`), which places are in
//! use (`claims`), and the log, segment by segment (`log`). `round` is what the shared checker
//! calls; `lost` finds inodes whose part of the map is lost; `rebuild` writes a repair.
//!
//! ```
//! # use std::rc::Rc;
//! # use twin_disk::MemDisk;
//! # use twin_lfs::{Lfs, MkfsOptions, check};
//! # use twin_rt::{ClockOnly, Rt};
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(32 << 20)));
//! rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, &MkfsOptions::modern([7; 16]))).unwrap()?;
//! let options = check::CheckOptions { data: true };
//! let report = rt.block_on(check::check(&rt, disk, &options, &mut |_| {})).unwrap()?;
//! assert!(report.is_clean(), "{report}");
//! # Ok::<(), twin_fs::FsError>(())
//! ```

mod claims;
mod found_snapshots;
mod image;
mod log;
mod lost;
mod map;
mod map_entry;
mod rebuild;
mod round;
mod snapshots;
pub(crate) mod start;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::rc::Rc;

pub use twin_check::{
    Counts, FINDINGS_MAX, Finding, FindingKind, Phase, Progress, Report, Severity,
};
use twin_disk::BlockDevice;
use twin_fs::{FsError, Result};
use twin_rt::{BoxFuture, Rt};

use image::LfsImage;

/// What to check, and so what a repair may correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Read all live data and compare checksums: of file data and, in the classic profile, whose
    /// pointers carry none, of metadata too. A repair removes blocks that do not match; reading
    /// them stays an error. Otherwise file data is not read.
    pub data: bool,
}

/// Checks the volume on a device. The report has the damage; `progress` is called at each step.
///
/// # Errors
/// If there is no volume on the device that could be checked.
pub fn check<'a>(
    rt: &'a Rt,
    device: Rc<dyn BlockDevice>,
    options: &'a CheckOptions,
    progress: &'a mut dyn FnMut(Progress),
) -> BoxFuture<'a, Result<Report>> {
    Box::pin(async move {
        progress(Progress { phase: Phase::Volume, done: 0, total: 1 });
        let mut report = Report { skipped_data: !options.data, ..Report::default() };
        let (view, newest) = start::open(rt, device, &mut report).await?;
        if newest.is_none() {
            // Without a checkpoint there is nothing more to check; the report says so.
            return Ok(report);
        }
        let options = CheckOptions { data: options.data && !view.sb.without_contents };
        if view.sb.without_contents {
            report.skipped_data = false;
            report.notes.push("a fork: the contents of files are missing".into());
        }
        let mut image = LfsImage::new(view, options).of(newest.as_ref());
        twin_check::check(&mut image, &mut report, progress).await?;
        image.check_states(&mut report).await?;
        report.notes.push(image.usage_note());
        Ok(report)
    })
}

/// Repairs the volume on a device and marks it as closed. The report says what was wrong, what
/// was given up, and how many inodes got a name in `lost+found`.
///
/// # Errors
/// If there is no superblock, the volume has features that this program cannot write, there are
/// too few clean segments to write in, or the device fails.
pub fn repair<'a>(
    rt: &'a Rt,
    device: Rc<dyn BlockDevice>,
    options: &'a CheckOptions,
    progress: &'a mut dyn FnMut(Progress),
) -> BoxFuture<'a, Result<Report>> {
    Box::pin(repair_volume(rt, device, options, progress))
}

async fn repair_volume(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report> {
    progress(Progress { phase: Phase::Volume, done: 0, total: 1 });
    let mut report = Report { skipped_data: !options.data, ..Report::default() };
    let (view, newest) = start::open(rt, Rc::clone(&device), &mut report).await?;
    if !view.sb.may_be_written() {
        return Err(FsError::Invalid(
            "the volume has features that this program cannot write: repair it with a newer one",
        ));
    }
    let options = CheckOptions { data: options.data && !view.sb.without_contents };
    let mut image = LfsImage::new(view, options).of(newest.as_ref()).for_repair();
    let mut lost = twin_check::repair(&mut image, true, &mut report, progress).await?;
    report.notes.push(image.usage_note());
    if report.is_clean() {
        if report.was_open {
            rebuild::reconnect_lost(rt, device, BTreeSet::new()).await?;
        }
        return Ok(report);
    }
    if image.cut_unreadable(&mut report).await? {
        // The first pass has reported the damage; only new losses are added.
        let mut again = Report { losses: std::mem::take(&mut report.losses), ..Report::default() };
        lost = twin_check::repair(&mut image, true, &mut again, progress).await?;
        report.losses = again.losses;
        report.paths.extend(again.paths);
    }
    for what in std::mem::take(&mut image.snapshots.lost) {
        report.add_loss(None, what);
    }
    if let Some(found) = image.found_in_log() {
        let what = format!(
            "{found} inodes are known from the log alone, for their part of the inode map is lost: \
             a file among them may be an older version of itself"
        );
        report.add_loss(None, what);
    }
    rebuild::superblocks(&*device, &image.view.sb, &report).await?;
    rebuild::rebuild(rt, Rc::clone(&device), &mut image, newest, lost.is_empty()).await?;
    if !lost.is_empty() {
        report.rescued = rebuild::reconnect_lost(rt, device, lost).await?;
    }
    Ok(report)
}

//! The checker of clustered volumes.
//!
//! Contract: structures are read from the device and not through the code of the volume, so that an
//! error which the volume would hide is found. [`check`] writes nothing; it replays a journal in
//! memory. [`repair`] goes over the volume until only the maps are wrong, replaces those, marks the
//! volume as closed, and last gives inodes without a name one in `lost+found`. An interrupted
//! repair can be begun again, because the volume counts as closed only at the end. Memory: one bit
//! for each fragment, and what the shared checker needs.
//!
//! [`twin_check`] checks files and names. The modules here read and change a clustered volume for
//! it (`image`, `volume_image`, `round`) and check the maps of the groups (`maps`), and replicas, state and
//! the journal's headers (`copies`).
//!
//! ```
//! # use std::rc::Rc;
//! # use twin_disk::MemDisk;
//! # use twin_ffs::{Ffs, MkfsOptions, check};
//! # use twin_rt::{ClockOnly, Rt};
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(32 << 20)));
//! rt.block_on(Ffs::mkfs(&rt, Rc::clone(&disk) as _, &MkfsOptions::modern([7; 16]))).unwrap()?;
//! let report = rt.block_on(check::check(disk, &mut |_| {})).unwrap()?;
//! assert!(report.is_clean(), "{report}");
//! # Ok::<(), twin_fs::FsError>(())
//! ```

mod copies;
mod image;
mod maps;
mod round;
pub(crate) mod volume_image;

use std::rc::Rc;

pub use twin_check::{Counts, Finding, FindingKind, Progress, Report, Severity};
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin};
use twin_fs::{Cpu, FsError, Result, Settings};
use twin_rt::{BoxFuture, Rt};

use crate::ffs::Ffs;
use crate::format::{
    JournalHeader, Superblock, VolumeState, find_replica, header_io, read_state, read_superblock,
    state_io,
};
use crate::open::FoundVolume;
use crate::replay::read_journal;
use crate::settings::{FfsSettings, PlantedFault};
use crate::sums::{Summed, Use};
use copies::{Copies, check_copies};
use image::FfsImage;
use volume_image::VolumeImage;

/// Checks the volume on a device. The report has the damage; `progress` is called at each step.
///
/// # Errors
/// If there is no volume on the device that could be checked.
pub fn check(
    device: Rc<dyn BlockDevice>,
    progress: &mut dyn FnMut(Progress),
) -> BoxFuture<'_, Result<Report>> {
    Box::pin(check_volume(device, false, progress))
}

/// The same, and compares the data of all files with its checksums.
///
/// # Errors
/// As above, and if the volume has no checksums of data.
pub fn check_data(
    device: Rc<dyn BlockDevice>,
    progress: &mut dyn FnMut(Progress),
) -> BoxFuture<'_, Result<Report>> {
    Box::pin(check_volume(device, true, progress))
}

async fn check_volume(
    device: Rc<dyn BlockDevice>,
    data: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report> {
    let (sb, found) = superblock(&*device).await?;
    let state = read_state(&*device, &sb).await?;
    if data && !sb.data_checksums {
        let what = "--data compares data with checksums, and this volume was made without: mkfs --data-checksums";
        return Err(FsError::Invalid(what));
    }
    let mut report = Report { was_open: !state.closed, skipped_data: !data, ..Report::default() };
    found.into_iter().for_each(|finding| report.add(finding));
    check_copies(&*device, &sb, state.closed, Copies::Check, &mut report).await?;
    let view = VolumeImage::compared(Rc::clone(&device), sb).await?;
    if let Some(sums) = view.sums() {
        sums.check(|at, _, what| {
            report.add(Finding::minor(FindingKind::Checksums, what).at(at));
        })
        .await;
    }
    if !state.closed && view.sb.journal_bytes > 0 {
        match read_journal(&*device, &view.sb, PlantedFault::None).await {
            Ok(replay) => {
                report.notes.push(records_note(replay.records));
                for (addr, block) in replay.blocks {
                    view.put(addr, block.to_bytes().to_vec());
                }
            }
            Err(error) => {
                let (kind, what) = (FindingKind::Journal, "the journal");
                report.add(Finding::from_error(kind, Severity::Serious, &error, what));
            }
        }
    }
    let mut image = FfsImage::new(view, &state);
    image.compares_data = data;
    twin_check::check(&mut image, &mut report, progress).await?;
    Ok(report)
}

fn records_note(records: u64) -> String {
    format!("not unmounted: {records} records in the journal")
}

/// Repairs the volume on a device and marks it as closed. The report says what was wrong.
///
/// # Errors
/// If there is no volume on the device that could be repaired, or the device fails.
pub fn repair<'a>(
    rt: &'a Rt,
    device: Rc<dyn BlockDevice>,
    progress: &'a mut dyn FnMut(Progress),
) -> BoxFuture<'a, Result<Report>> {
    Box::pin(repair_volume(rt, device, progress, true))
}

/// The same for a volume that is about to be mounted. A volume without a root directory is refused:
/// whether to make a new one is for the user to decide.
///
/// # Errors
/// As above, and if there is no root directory.
pub(crate) fn repair_unattended(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
) -> BoxFuture<'_, Result<Report>> {
    Box::pin(async move { repair_volume(rt, device, &mut |_| {}, false).await })
}

async fn repair_volume(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    progress: &mut dyn FnMut(Progress),
    attended: bool,
) -> Result<Report> {
    let (sb, found) = superblock(&*device).await?;
    sb.check_writable()?;
    // A volume that is about to be mounted comes with the device that compares.
    let sums = match sb.data_checksums && attended {
        true => Some(Summed::open(rt, Rc::clone(&device), &sb, Use::Repair).await?),
        false => None,
    };
    let device = match &sums {
        Some(sums) => Rc::clone(sums) as Rc<dyn BlockDevice>,
        None => device,
    };
    if found.is_some() {
        let raw = Block::Bytes(Buf::copy_of(&sb.encode(0)).freeze());
        device.submit(Io::write(0, vec![raw], Class::Meta, Origin::Recovery)).await?;
    }
    let state = read_state(&*device, &sb).await?;
    let mut report = Report { was_open: !state.closed, skipped_data: true, ..Report::default() };
    found.into_iter().for_each(|finding| report.add(finding));
    let is_wrong = check_copies(&*device, &sb, state.closed, Copies::Repair, &mut report).await?;
    if sb.journal_bytes > 0 {
        end_journal(&*device, &sb, !state.closed, is_wrong, &mut report).await?;
    }
    let mut image = FfsImage::new(VolumeImage::new(Rc::clone(&device), sb.clone()), &state);
    let lost = twin_check::repair(&mut image, attended, &mut report, progress).await?;
    // While files are given names the volume must count as left open, even if it was closed before:
    // a crash then leads to another repair.
    // The next start counts what quotas are used.
    let quotas = state.quotas.outdated();
    let state = VolumeState { closed: lost.is_empty(), quotas, ..state };
    device.submit(state_io(&sb, &state, device.info().sector)).await?;
    device.submit(Io::flush(Origin::Recovery)).await?;
    if !lost.is_empty() {
        let (all, settings) = (Settings::default(), FfsSettings::default());
        let found = FoundVolume { rescuing: true, ..FoundVolume::on(&*device).await? };
        let opening = Ffs::open_sound(rt, device, Cpu::none(), all, settings, found);
        // Opening may repair, so without a box its future would contain itself.
        let (volume, _) = Box::pin(opening).await?;
        // A full volume may have no room for names. A mount then leaves the rest to a later
        // `check --repair`, because everything that has a name can be read already.
        report.rescued = volume.reconnect_all(lost, attended).await?;
        volume.close().await?;
    }
    if let Some(sums) = sums {
        for (at, what) in sums.take().await? {
            report.add(Finding::serious(FindingKind::Checksums, what).at(at));
        }
        sums.finish().await?;
    }
    Ok(report)
}

/// Ends the journal behind its last record, so that no later replay undoes the repair: even a
/// volume that was closed still has its last records, and it counts as left open while files are
/// given names. The records of a volume that was left open are first written to their places.
async fn end_journal(
    device: &dyn BlockDevice,
    sb: &Superblock,
    replays: bool,
    needs_header: bool,
    report: &mut Report,
) -> Result<()> {
    let header = match read_journal(device, sb, PlantedFault::None).await {
        Ok(replay) => {
            if replays {
                replay.write(device, sb).await?;
                report.notes.push(records_note(replay.records));
            } else if replay.last.len == 0 && !needs_header {
                return Ok(());
            }
            let blocks = sb.journal_bytes / u64::from(sb.geometry.block_size)
                - crate::format::JOURNAL_HEADERS;
            let tail = (replay.last.at + replay.last.len) % blocks;
            let first_record = replay.last.number + 1;
            JournalHeader { number: replay.header + 1, first_record, tail }
        }
        Err(error) => {
            let (kind, what) = (FindingKind::Journal, "the journal");
            report.add(Finding::from_error(kind, Severity::Serious, &error, what));
            JournalHeader { number: 1, first_record: 1, tail: 0 }
        }
    };
    device.submit(header_io(sb, &header, device.info().sector)).await?;
    device.submit(Io::flush(Origin::Recovery)).await?;
    Ok(())
}

/// Reads the superblock; if that is damaged, a replica, with a finding about the first one.
async fn superblock(device: &dyn BlockDevice) -> Result<(Superblock, Option<Finding>)> {
    match read_superblock(device).await {
        Ok(sb) => Ok((sb, None)),
        Err(error) => match find_replica(device).await {
            Ok(sb) => {
                let (kind, what) = (FindingKind::Superblock, "the first superblock");
                Ok((sb, Some(Finding::from_error(kind, Severity::Serious, &error, what))))
            }
            Err(_) => Err(error),
        },
    }
}

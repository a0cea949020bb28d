//! Checks all copies of superblocks and checkpoints, and finds the state that the rest of the check
//! is about.
//!
//! A crash may leave the slot that was being written, or one of its copies, in any state. So copies
//! and the older slot are compared with the newest checkpoint only if that says that the volume was
//! closed.

use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::{FsError, Result};
use twin_rt::Rt;
use twin_settings::value::bytes_for_people;

use super::{Finding, FindingKind, Report, Severity};
use crate::format::{Checkpoint, SUPERBLOCK_BYTES, Superblock};
use crate::volume_reader::{LogState, VolumeReader, checkpoint_at, superblock_at};

/// Reads the superblock and the newest checkpoint, and applies roll-forward in memory. Without a
/// sound checkpoint only the superblock is known.
pub(super) async fn open(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    report: &mut Report,
) -> Result<(VolumeReader, Option<Checkpoint>)> {
    let sb = superblocks(&*device, report).await?;
    let newest = checkpoints(&*device, &sb, report).await;
    let log_state = match &newest {
        None => LogState::unknown(&sb),
        Some(newest) if newest.closed => LogState::of(newest),
        Some(newest) => roll_forward(rt, &device, newest, report).await,
    };
    let view = VolumeReader::new(device, sb, log_state);
    if let Err(error) = view.load_forwards().await {
        let what = "the summaries of forwarded blocks";
        report.add(Finding::from_error(FindingKind::Summary, Severity::Serious, &error, what));
    }
    Ok((view, newest))
}

async fn roll_forward(
    rt: &Rt,
    device: &Rc<dyn BlockDevice>,
    newest: &Checkpoint,
    report: &mut Report,
) -> LogState {
    report.was_open = true;
    match LogState::rolled_forward(rt, device).await {
        Ok((log_state, done)) => {
            let log = bytes_for_people(done.log_bytes);
            let note = format!("not unmounted: {} log writes ({log}) to recover", done.log_writes);
            report.notes.push(note);
            log_state
        }
        Err(error) => {
            let what = "the volume was not closed, and opening it fails";
            report.add(Finding::from_error(FindingKind::Recovery, Severity::Fatal, &error, what));
            LogState::of(newest)
        }
    }
}

pub(crate) async fn superblocks(
    device: &dyn BlockDevice,
    report: &mut Report,
) -> Result<Superblock> {
    let size = device.info().size;
    if size < 4 * SUPERBLOCK_BYTES {
        return Err(FsError::corrupt(0, "the device is too small to hold a volume"));
    }
    let mut good: Option<Superblock> = None;
    let mut bad = Vec::new();
    for at in Superblock::places(size, 2) {
        match superblock_at(device, at).await {
            Ok((sb, _)) if good.is_none() => good = Some(sb),
            Ok(_) => {}
            Err(error) => bad.push((at, error)),
        }
    }
    let Some(sb) = good else {
        let first = bad.into_iter().next().map(|(_, error)| error);
        return Err(first.unwrap_or(FsError::corrupt(0, "no superblock")));
    };
    for (nth, at) in Superblock::places(sb.size(), sb.copies).into_iter().enumerate() {
        let which = format!("copy {nth} of the superblock");
        let finding = match superblock_at(device, at).await {
            Ok((copy, raw)) if copy == sb && *raw == *sb.encode() => continue,
            // A power failure before the first snapshot may leave one copy that announces it.
            Ok((copy, raw)) if *raw == *copy.encode() && copy == sb.with_snapshots() => continue,
            Ok(_) => {
                let what = format!("{which} differs from the other");
                Finding::new(FindingKind::Superblock, Severity::Serious, what)
            }
            Err(error) => {
                Finding::from_error(FindingKind::Superblock, Severity::Minor, &error, &which)
            }
        };
        report.add(finding.at(at));
    }
    Ok(sb)
}

/// Reads all copies of both slots and gives the newest sound checkpoint.
pub(crate) async fn checkpoints(
    device: &dyn BlockDevice,
    sb: &Superblock,
    report: &mut Report,
) -> Option<Checkpoint> {
    let mut read = Vec::new();
    for slot in 0..2 {
        for at in sb.checkpoint_places(slot) {
            let found =
                checkpoint_at(device, sb, at).await.and_then(|(checkpoint, raw)| {
                    match *raw == *checkpoint.encode(sb) {
                        true => Ok(checkpoint),
                        false => {
                            Err(FsError::corrupt(at, "checkpoint: bytes set that mean nothing"))
                        }
                    }
                });
            read.push((slot, at, found));
        }
    }
    let sound = read.iter().filter_map(|(_, _, found)| found.as_ref().ok());
    let newest = sound.max_by_key(|checkpoint| checkpoint.number).cloned();
    let Some(newest) = newest else {
        for (_, at, found) in read {
            let error = found.err().unwrap_or(FsError::NotFound);
            let what = "no checkpoint is sound";
            report.add(
                Finding::from_error(FindingKind::Checkpoint, Severity::Fatal, &error, what).at(at),
            );
        }
        return None;
    };
    if newest.closed {
        check_closed(&newest, read, report);
    }
    Some(newest)
}

type Copy = (u64, u64, Result<Checkpoint>);

/// Checks that all copies hold the last two checkpoints, as closing a volume leaves them.
fn check_closed(newest: &Checkpoint, read: Vec<Copy>, report: &mut Report) {
    let mut older: Option<Checkpoint> = None;
    for (slot, at, found) in read {
        let is_newest = slot == newest.number % 2;
        // There is no checkpoint before the first one of a volume.
        if !is_newest && newest.number == 1 {
            continue;
        }
        let name =
            if is_newest { "the newest checkpoint" } else { "the checkpoint before the last" };
        let finding = match found {
            Err(error) => {
                let what = format!("a copy of {name}");
                Finding::from_error(FindingKind::Checkpoint, Severity::Minor, &error, &what)
            }
            Ok(copy) if is_newest && copy == *newest => continue,
            Ok(copy) if !is_newest && copy.number + 1 == newest.number => {
                match older.get_or_insert_with(|| copy.clone()) == &copy {
                    true => continue,
                    false => {
                        let what = format!("two copies of {name} differ");
                        Finding::new(FindingKind::Checkpoint, Severity::Minor, what)
                    }
                }
            }
            Ok(copy) => {
                let what = format!(
                    "{name} has number {} where {} is the newest",
                    copy.number, newest.number
                );
                Finding::new(FindingKind::Checkpoint, Severity::Minor, what)
            }
        };
        report.add(finding.at(at));
    }
}

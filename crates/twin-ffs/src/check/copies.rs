//! Checks what a volume has beside its groups' maps and inodes: the replicas of the superblock, the state,
//! and the headers of the journal. Nobody reads them while all is well, so only a check tells that they
//! are gone.
//!
//! Contract: each is written with one request of one sector, or by mkfs alone, so no power failure leaves one
//! of them in pieces.

use twin_check::{Finding, FindingKind, Report, Severity};
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin, gather};
use twin_fs::{FsError, Result};

use crate::format::{
    JOURNAL_HEADERS, JournalHeader, STATE_AT, STATE_BYTES, SUPERBLOCK_BYTES, Superblock,
    VolumeState,
};
use crate::replay::{read_header, read_records};
use crate::settings::PlantedFault;

/// Whether the copies may be written again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Copies {
    /// They are looked at.
    Check,
    /// Wrong replicas are replaced.
    Repair,
}

/// Checks all of them. True if the journal needs a new header.
pub(super) async fn check_copies(
    device: &dyn BlockDevice,
    sb: &Superblock,
    closed: bool,
    how: Copies,
    report: &mut Report,
) -> Result<bool> {
    let state = read(device, STATE_AT, STATE_BYTES as u64).await;
    if let Err(error) = state.and_then(|raw| VolumeState::decode(sb, &raw)) {
        report.add(Finding::from_error(FindingKind::State, Severity::Minor, &error, "the state"));
    }
    for group in 0..sb.groups {
        let at = sb.geometry.byte_of(sb.group_start(group));
        let right = sb.encode(group);
        let what = format!("the replica of the superblock in group {group}");
        let finding = match read(device, at, SUPERBLOCK_BYTES).await {
            Ok(found) if sb.is_replica(&found, group) => continue,
            Ok(_) => {
                let what = format!("{what} differs from the first superblock");
                Finding::minor(FindingKind::Superblock, what).at(at)
            }
            Err(error) => {
                Finding::from_error(FindingKind::Superblock, Severity::Minor, &error, &what)
            }
        };
        report.add(finding);
        if how == Copies::Repair {
            let blocks = vec![Block::Bytes(Buf::copy_of(&right).freeze())];
            device.submit(Io::write(at, blocks, Class::Meta, Origin::Recovery)).await?;
        }
    }
    if sb.journal_bytes == 0 {
        return Ok(false);
    }
    check_headers(device, sb, closed, report).await
}

/// Checks the journal's headers. If none can be read the replay says so.
async fn check_headers(
    device: &dyn BlockDevice,
    sb: &Superblock,
    closed: bool,
    report: &mut Report,
) -> Result<bool> {
    let Ok(newest) = read_header(device, sb).await else { return Ok(true) };
    let mut wrong = Vec::new();
    // mkfs writes the first header alone.
    if newest.number > 1 {
        let slot = (newest.number + 1) % JOURNAL_HEADERS;
        let at = sb.journal_start + slot * u64::from(sb.geometry.block_size);
        let found = read(device, at, 512).await;
        let found = found.and_then(|raw| JournalHeader::decode(sb, &raw, at));
        match found {
            Ok(header) if header.number + 1 == newest.number => {}
            Ok(header) => {
                let what = format!(
                    "the header before the last has number {} where {} is the newest",
                    header.number, newest.number
                );
                wrong.push(FsError::corrupt(at, what));
            }
            Err(error) => wrong.push(error),
        }
    }
    if closed {
        let mut records = 0u64;
        let mut count = |_, _: &_, _| records += 1;
        read_records(device, sb, &newest, PlantedFault::None, &mut count).await?;
        if records > 0 {
            let what = format!(
                "the volume was closed, but {records} records follow the newest header: it is an old one"
            );
            wrong.push(FsError::corrupt(sb.journal_start, what));
        }
    }
    let needs_header = !wrong.is_empty();
    for error in wrong {
        let (kind, what) = (FindingKind::Journal, "a header of the journal");
        report.add(Finding::from_error(kind, Severity::Minor, &error, what));
    }
    Ok(needs_header)
}

async fn read(device: &dyn BlockDevice, at: u64, len: u64) -> Result<Vec<u8>> {
    let whole = len.next_multiple_of(device.info().sector.into());
    let blocks = device.submit(Io::read(at, whole, Class::Meta, Origin::Recovery)).await?;
    Ok(gather(&blocks, 0, len as usize).to_bytes().to_vec())
}

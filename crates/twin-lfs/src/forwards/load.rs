//! Finding the forwarded blocks of a volume that is opened, or looked at.

use twin_disk::BlockDevice;
use twin_fs::geometry::Ptr;
use twin_fs::{Ino, Result};

use super::{Forwards, Holder};
use crate::format::{BlockContents, HolderVersion, SegEntry, Superblock};
use crate::partial_segments::{FromDevice, PartialSegments};

/// What a summary says of a forwarded block, with the serial number that tells the latest.
struct ForwardRecord {
    serial: u64,
    ino: Ino,
    holder: Holder,
    form: HolderVersion,
    index: usize,
    ptr: Ptr,
}

/// Reads the summaries of all marked segments in a usage table. What they say counts if it was
/// written before partial segment `serial`; whether its holder still has that form shows when the
/// holder is read.
///
/// # Errors
/// If a summary cannot be read. A summary that is not sound ends its segment.
pub(crate) async fn load_forwards(
    device: &dyn BlockDevice,
    sb: &Superblock,
    table: impl Iterator<Item = SegEntry>,
    serial: u64,
    forwards: &Forwards,
) -> Result<()> {
    let mut said = Vec::new();
    for (segment, entry) in (0..sb.segments()).zip(table) {
        if entry.forwards && entry.live_bytes > 0 {
            read_segment(device, sb, segment, serial, &mut said).await?;
        }
    }
    said.sort_by_key(|said| said.serial);
    for ForwardRecord { ino, holder, form, index, ptr, .. } in said {
        forwards.add(ino, holder, form, index, ptr);
    }
    Ok(())
}

async fn read_segment(
    device: &dyn BlockDevice,
    sb: &Superblock,
    segment: u32,
    serial: u64,
    said: &mut Vec<ForwardRecord>,
) -> Result<()> {
    let mut parts = PartialSegments::of(sb, segment);
    while let Some(part) = parts.next(sb, &FromDevice(device)).await? {
        let header = part.summary.header;
        if header.serial >= serial {
            break;
        }
        for placed in part.summary.blocks(sb) {
            let BlockContents::Block { ino, block, .. } = placed.what else { continue };
            let Some(form) = block.holder else { continue };
            let (holder, index) = Holder::of(&sb.geometry, block.lbn);
            let at = sb.segment_start(segment) + u64::from(part.offset + placed.at);
            let addr = at / u64::from(sb.geometry.frag_size);
            let ptr = Ptr { addr, len: block.len, crc: block.crc };
            said.push(ForwardRecord { serial: header.serial, ino, holder, form, index, ptr });
        }
    }
    Ok(())
}

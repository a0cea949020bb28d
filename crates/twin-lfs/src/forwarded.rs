//! Forwarded blocks: the cleaner's way to move a block and leave what points to it where it is.
//!
//! A moved block changes its indirect block or inode, which would move too, and leave a hole where
//! it was. On a nearly full volume whose blocks each have an indirect block of their own, that
//! fills more than the cleaner gains. So the summary of the cleaner's log write says beside each
//! such block in which form its holder stays on the device; memory knows the new place from
//! [`twin_fs::Forwards`]; and the segment is marked in the usage table, so that its summaries are
//! read when the volume is opened. The next time the holder is written, for whatever reason, it
//! has the new pointer, and its form is another one: the summary says nothing any more.
//!
//! Here: finding the forwarded blocks of a volume, and noting one. The choice is the cleaner's.

use twin_disk::BlockDevice;
use twin_fs::shape::Ptr;
use twin_fs::{Core, Form, Forwards, Holder, Ino, Inode, Result};

use crate::format::{ImapEntry, SegEntry, Superblock, What};
use crate::lfs::Lfs;
use crate::partial_segments::{FromDevice, PartialSegments};

/// Bytes of memory that a forwarded pointer may take.
const BYTES_EACH: u64 = 64;

/// What a summary says of a forwarded block, with the serial number that tells the latest.
struct Said {
    serial: u64,
    ino: Ino,
    holder: Holder,
    form: Form,
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
    for (segment, entry) in (0..sb.segments).zip(table) {
        if entry.forwards && entry.live_bytes > 0 {
            read_segment(device, sb, segment, serial, &mut said).await?;
        }
    }
    said.sort_by_key(|said| said.serial);
    for Said { ino, holder, form, index, ptr, .. } in said {
        forwards.add(ino, holder, form, index, ptr);
    }
    Ok(())
}

async fn read_segment(
    device: &dyn BlockDevice,
    sb: &Superblock,
    segment: u32,
    serial: u64,
    said: &mut Vec<Said>,
) -> Result<()> {
    let mut parts = PartialSegments::of(sb, segment);
    while let Some(part) = parts.next(sb, &FromDevice(device)).await? {
        let header = part.summary.header;
        if header.serial >= serial {
            break;
        }
        for placed in part.summary.blocks(sb) {
            let What::Block { ino, block, .. } = placed.what else { continue };
            let Some(form) = block.holder else { continue };
            let (holder, index) = Holder::of(&sb.shape, block.lbn);
            let at = sb.segment_start(segment) + u64::from(part.offset + placed.at);
            let addr = at / u64::from(sb.shape.frag_size);
            let ptr = Ptr { addr, len: block.len, crc: block.crc };
            said.push(Said { serial: header.serial, ino, holder, form, index, ptr });
        }
    }
    Ok(())
}

impl Lfs {
    /// True if so many pointers more may be forwarded: their table stays within a sixteenth of
    /// what the cache may take.
    pub(crate) fn may_forward(&self, core: &Core, count: usize) -> bool {
        let bytes = (core.forwards.len() + count) as u64 * BYTES_EACH;
        bytes <= core.settings.cache_bytes / 16
    }

    /// The form in which what holds the pointer to a block lies on the device, if that is its
    /// present form and the format can say it.
    pub(crate) fn clean_holder(&self, core: &Core, inode: &Inode, lbn: i64) -> Option<Form> {
        if !self.sb.shape.pointer.has_checksum() {
            return None;
        }
        match Holder::of(&self.sb.shape, lbn).0 {
            Holder::Indirect(up) => {
                let frame = core.cache.peek(&inode.frames, up)?;
                let ptr = core.resident_ptr(inode, up).filter(Ptr::is_on_disk)?;
                (!frame.is_dirty()).then_some(Form { at: ptr.addr, crc: ptr.crc })
            }
            Holder::Inode => {
                let anchor = inode.anchor.borrow();
                match self.entry_in(anchor.as_ref()?, inode.ino) {
                    ImapEntry::Used { at, crc, .. } if at != 0 && !inode.is_dirty() => {
                        Some(Form { at, crc })
                    }
                    _ => None,
                }
            }
        }
    }

    /// Notes that a block has gone to where `ptr` says and that its holder stays in this form.
    pub(crate) fn forward(&self, core: &Core, ino: Ino, lbn: i64, form: Form, ptr: Ptr) {
        let (holder, index) = Holder::of(&self.sb.shape, lbn);
        core.forwards.add(ino, holder, form, index, ptr);
        self.log.borrow_mut().segments.note_forwards(self.sb.shape.byte_of(ptr.addr));
    }
}

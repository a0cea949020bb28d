//! Misses: the only place where the cache waits for a device.
//!
//! Contract: [`load`] fills frames that were inserted without content. When it returns, none of
//! them is still loading: after an error the frames that could not be filled are removed from their
//! file, and the tasks that wait for them get the error.

use std::rc::Rc;

use twin_disk::{Block, BlockDevice, Class, Io, IoError, Purpose, gather};

use crate::{Cache, FileFrames, Frame, FrameError};

/// A frame to fill, with the length and the checksum of its content.
pub struct FrameRequest {
    /// The frame, which was inserted without content.
    pub frame: Rc<Frame>,
    /// The length of the content on the device, in bytes; the rest of the frame is zero.
    pub len: u32,
    /// The checksum that the content must have; `None` if it is not checked.
    pub crc: Option<u32>,
}

/// The reason why a run of blocks could not be loaded. The frames carry the same error.
pub type LoadError = FrameError;

#[allow(clippy::too_many_arguments)] // All eight are independent; a struct would only rename them.
/// Fills frames whose contents are adjacent on the device, from byte `at` on, with one request of
/// whole sectors. `frame_bytes` is the size of a frame; shorter contents are padded to it.
///
/// # Errors
/// The first error. Frames without an error of their own are filled nevertheless.
pub async fn load(
    cache: &Cache,
    file: &FileFrames,
    device: &dyn BlockDevice,
    at: u64,
    wanted: Vec<FrameRequest>,
    frame_bytes: usize,
    class: Class,
    purpose: impl Into<Purpose>,
) -> Result<(), LoadError> {
    let sector = u64::from(device.info().sector);
    let len: u64 = wanted.iter().map(|w| u64::from(w.len)).sum();
    let start = at / sector * sector;
    let end = (at + len).next_multiple_of(sector);
    let Purpose { origin, deadline } = purpose.into();
    let io = Io { deadline, ..Io::read(start, end - start, class, origin) };
    let result = device.submit(io).await;
    let mut first_error = None;
    let mut pos = at;
    for want in wanted {
        let error = match &result {
            Err(error) => Some(FrameError::Io(error.clone())),
            Ok(blocks) => fill(&want, blocks, (pos - start) as usize, pos, frame_bytes).err(),
        };
        if let Some(error) = error {
            if want.frame.is_attached() {
                cache.remove(file, want.frame.lbn());
            }
            want.frame.fail(error.clone());
            first_error.get_or_insert(error);
        }
        pos += u64::from(want.len);
    }
    first_error.map_or(Ok(()), Err)
}

fn fill(
    want: &FrameRequest,
    blocks: &[Block],
    off: usize,
    at: u64,
    frame_bytes: usize,
) -> Result<(), FrameError> {
    let len = want.len as usize;
    if off + len > blocks.iter().map(Block::len).sum() {
        let kind =
            twin_disk::IoErrorKind::Other("the device returned fewer bytes than requested".into());
        let op = twin_disk::IoKind::Read;
        return Err(FrameError::Io(IoError { op, at, len: want.len.into(), kind }));
    }
    let block = gather(blocks, off, len);
    if want.crc.is_some_and(|crc| crc != block.crc32c()) {
        return Err(FrameError::Checksum { at });
    }
    want.frame.fill(whole(block, frame_bytes));
    Ok(())
}

/// The content in the size of a whole frame: shorter contents are padded with zeros. A stamp is
/// enlarged, because it stands for its whole block.
pub fn whole(block: Block, frame_bytes: usize) -> Block {
    if block.len() >= frame_bytes {
        return block;
    }
    match block {
        Block::Zero(_) => Block::Zero(frame_bytes as u32),
        Block::Stamp(s) if s.off == 0 => {
            Block::Stamp(twin_disk::Stamp { len: frame_bytes as u32, ..s })
        }
        _ => {
            let mut buf = twin_disk::Buf::zeroed(frame_bytes);
            block.copy_to(&mut buf[..block.len()]);
            Block::Bytes(buf.freeze())
        }
    }
}

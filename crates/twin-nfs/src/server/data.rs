//! READ, WRITE and COMMIT.
//!
//! Contract: an acknowledged stable WRITE, and every WRITE that a COMMIT with an unchanged verifier
//! covers, is durable. The verifier of a WRITE is taken before its data enters the volume, that of
//! a COMMIT after the data is durable, so a loss between the two always shows.

use twin_disk::{Block, Bytes};
use twin_fs::{Data, FsError, Op, Reply, perm};

use super::files::check_regular;
use super::held_inode::HeldInode;
use super::mount::unexpected;
use super::{Context, Server};
use crate::attrs;
use crate::handle::HANDLE_MAX;
use crate::record::TRANSFER_MAX;
use crate::status::Status;
use crate::xdr::{Garbage, Reader, Writer};

/// How a WRITE is to be made durable (`stable_how`).
const UNSTABLE: u32 = 0;
const FILE_SYNC: u32 = 2;

impl Server {
    pub(super) async fn read(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        let (offset, count) = (r.u64()?, r.u32()?);
        r.end()?;
        let Some(held) = self.look_at(c, handle, out).await else { return Ok(()) };
        let count = count.min(TRANSFER_MAX);
        let read = read(&held, offset, count).await;
        out.u32(read.as_ref().map_or_else(Status::of, |_| Status::Ok) as u32);
        attrs::post_op(out, held.volume.keys.volume, Some(held.attr()));
        if let Ok(blocks) = read {
            let len: usize = blocks.iter().map(Block::len).sum();
            out.u32(len as u32);
            // A file that has grown since the attributes were taken is not at its end here.
            let end = offset.saturating_add(len as u64) >= held.attr().size;
            out.flag((len as u32) < count || end);
            out.opaque_with(len, |to| {
                for block in &blocks {
                    match block {
                        Block::Bytes(bytes) => to.extend_from_slice(bytes),
                        other => {
                            let at = to.len();
                            to.resize(at + other.len(), 0);
                            other.copy_to(&mut to[at..]);
                        }
                    }
                }
            });
        }
        held.release().await;
        Ok(())
    }

    pub(super) async fn write(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        let (offset, count, stable) = (r.u64()?, r.u32()?, r.u32()?);
        let data = r.opaque(TRANSFER_MAX as usize)?;
        r.end()?;
        if stable > FILE_SYNC || count as usize > data.len() {
            return Err(Garbage);
        }
        let Some(held) = self.change(c, handle, out).await else { return Ok(()) };
        // The verifier is read before the write: if data is lost in between, the client gets the old
        // one, sees another at its COMMIT, and writes again. Read later, it would vouch for lost data.
        let verifier = self.verifier(held.volume);
        let written = write(&held, offset, &data[..count as usize], stable).await;
        let volume = held.volume.keys.volume;
        // The reply of a lazy export says how the data was written, not how the client wanted it.
        let lazy = stable == UNSTABLE || held.export.rules.lazy;
        let committed = if lazy { UNSTABLE } else { FILE_SYNC };
        out.u32(written.as_ref().map_or_else(Status::of, |_| Status::Ok) as u32);
        attrs::wcc(out, volume, &held.release_changed().await);
        if let Ok(len) = written {
            out.u32(len);
            out.u32(committed);
            out.u64(verifier);
        }
        Ok(())
    }

    pub(super) async fn commit(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        // The whole file is made durable, whatever range the client names.
        let (_offset, _count) = (r.u64()?, r.u32()?);
        r.end()?;
        let Some(held) = self.change(c, handle, out).await else { return Ok(()) };
        let done = match check_regular(held.attr().kind()) {
            Ok(()) => held.make_durable(&[held.ino()]).await,
            Err(error) => Err(error),
        };
        // Read after the sync, so that it shows a loss that the sync has found.
        let (volume, verifier) = (held.volume.keys.volume, self.verifier(held.volume));
        out.u32(super::files::status_of(done.clone()) as u32);
        attrs::wcc(out, volume, &held.release_changed().await);
        if done.is_ok() {
            out.u64(verifier);
        }
        Ok(())
    }
}

async fn read(held: &HeldInode<'_>, off: u64, len: u32) -> Result<Vec<Block>, FsError> {
    check_regular(held.attr().kind())?;
    // A program is read to be executed.
    if held.may(perm::READ).await.is_err() {
        held.may(perm::EXECUTE).await?;
    }
    if len == 0 || off >= held.volume.limits.file_bytes_max {
        return Ok(Vec::new());
    }
    match held.run(Op::Read { ino: held.ino(), off, len }).await? {
        Reply::Data(blocks) => Ok(blocks),
        other => Err(unexpected(&other)),
    }
}

async fn write(held: &HeldInode<'_>, off: u64, data: &[u8], stable: u32) -> Result<u32, FsError> {
    check_regular(held.attr().kind())?;
    held.may(perm::WRITE).await?;
    let end = off.checked_add(data.len() as u64).ok_or(FsError::FileTooBig)?;
    if end > held.volume.limits.file_bytes_max {
        return Err(FsError::FileTooBig);
    }
    let ino = held.ino();
    let mut written = 0;
    if !data.is_empty() {
        let data = Data::Bytes(Bytes::copy_of(data));
        written = match held.run(Op::Write { ino, off, data }).await? {
            Reply::Written(len) => len as u32,
            other => return Err(unexpected(&other)),
        };
    }
    if stable != UNSTABLE {
        held.make_durable_unless_lazy(&[ino]).await?;
    }
    Ok(written)
}

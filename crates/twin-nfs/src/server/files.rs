//! Procedures on one inode: GETATTR, SETATTR, ACCESS, READLINK, and what describes the volume.

use twin_fs::{FsError, Op, Reply, SetAttr, mode, perm};

use super::mount::unexpected;
use super::{Context, Server};
use crate::attrs;
use crate::handle::HANDLE_MAX;
use crate::record::TRANSFER_MAX;
use crate::status::Status;
use crate::xdr::{Garbage, Reader, Writer};

/// The bits of ACCESS, RFC 1813, section 3.3.4.
mod bits {
    pub(super) const READ: u32 = 1;
    pub(super) const LOOKUP: u32 = 2;
    pub(super) const MODIFY: u32 = 4;
    pub(super) const EXTEND: u32 = 8;
    pub(super) const DELETE: u32 = 16;
    pub(super) const EXECUTE: u32 = 32;
}

/// Hard links, symbolic links, PATHCONF alike for all files, times can be set (FSF3_*).
const PROPERTIES: u32 = 1 | 2 | 8 | 16;
/// The preferred size of directory replies.
const DIRECTORY_BYTES: u32 = 64 << 10;

impl Server {
    pub(super) async fn getattr(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        r.end()?;
        match self.hold(c, handle).await {
            Err(status) => out.u32(status as u32),
            Ok(held) => {
                out.u32(0);
                attrs::attributes(out, held.volume.keys.volume, held.attr());
                held.release().await;
            }
        }
        Ok(())
    }

    pub(super) async fn setattr(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        let set = attrs::read_settings(&mut r)?;
        let guard = r.optional(attrs::read_time)?;
        r.end()?;
        let Some(held) = self.change(c, handle, out).await else { return Ok(()) };
        let status = if guard.is_some_and(|ctime| ctime != held.attr().ctime) {
            Status::NotSync
        } else if set.size.is_some_and(|size| size > held.volume.limits.file_bytes_max) {
            Status::FileTooBig
        } else {
            let cred = held.cred.clone();
            let ino = held.ino();
            let owner = held.attr().uid == cred.uid;
            let done = match &set {
                // The owner may cut an open file that it may not write, as in `may`.
                SetAttr { size: Some(_), .. } if owner && !perm::is_root(&cred) => {
                    let cred = twin_fs::Cred { checked: true, ..cred };
                    held.volume.run(cred, Op::SetAttr { ino, set }).await
                }
                _ => held.run(Op::SetAttr { ino, set }).await,
            };
            match done {
                Ok(_) => status_of(held.make_durable_unless_lazy(&[ino]).await),
                Err(error) => Status::of(&error),
            }
        };
        let volume = held.volume.keys.volume;
        out.u32(status as u32);
        attrs::wcc(out, volume, &held.release_changed().await);
        Ok(())
    }

    pub(super) async fn access(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        let asked = r.u32()?;
        r.end()?;
        let Some(held) = self.look_at(c, handle, out).await else { return Ok(()) };
        let may = async |mask| held.allowed(mask).await.is_ok();
        let writable = !held.export.rules.read_only;
        let mut granted = 0;
        if may(perm::READ).await {
            granted |= bits::READ;
        }
        if may(perm::WRITE).await && writable {
            granted |= bits::MODIFY | bits::EXTEND;
        }
        match held.attr().is_dir() {
            true => {
                if may(perm::EXECUTE).await {
                    granted |= bits::LOOKUP;
                }
                if may(perm::WRITE | perm::EXECUTE).await && writable {
                    granted |= bits::DELETE;
                }
            }
            false if may(perm::EXECUTE).await => granted |= bits::EXECUTE,
            false => {}
        }
        out.u32(0);
        attrs::post_op(out, held.volume.keys.volume, Some(held.attr()));
        out.u32(granted & asked);
        held.release().await;
        Ok(())
    }

    pub(super) async fn readlink(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        r.end()?;
        let Some(held) = self.look_at(c, handle, out).await else { return Ok(()) };
        let target = match held.run(Op::ReadLink { ino: held.ino() }).await {
            Ok(Reply::Bytes(target)) => Ok(target),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error),
        };
        out.u32(target.as_ref().map_or_else(Status::of, |_| Status::Ok) as u32);
        attrs::post_op(out, held.volume.keys.volume, Some(held.attr()));
        if let Ok(target) = target {
            out.opaque(&target);
        }
        held.release().await;
        Ok(())
    }

    pub(super) async fn fsstat(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        r.end()?;
        let Some(held) = self.look_at(c, handle, out).await else { return Ok(()) };
        let stat = match held.run(Op::StatFs).await {
            Ok(Reply::Stat(stat)) => match held.volume.fs.quota_of(held.entry.attr.ino) {
                Some(quota) => Ok(quota.narrow(stat)),
                None => Ok(stat),
            },
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error),
        };
        out.u32(stat.as_ref().map_or_else(Status::of, |_| Status::Ok) as u32);
        attrs::post_op(out, held.volume.keys.volume, Some(held.attr()));
        if let Ok(stat) = stat {
            let bytes = |blocks: u64| blocks.saturating_mul(stat.block_size.into());
            let (free, files) = (bytes(stat.free), stat.free_inodes);
            for figure in [bytes(stat.blocks), free, free, stat.inodes, files, files] {
                out.u64(figure);
            }
            out.u32(0);
        }
        held.release().await;
        Ok(())
    }

    pub(super) async fn fsinfo(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        r.end()?;
        let Some(held) = self.look_at(c, handle, out).await else { return Ok(()) };
        let limits = &held.volume.limits;
        out.u32(0);
        attrs::post_op(out, held.volume.keys.volume, Some(held.attr()));
        let unit = 4096;
        let transfers = [TRANSFER_MAX, TRANSFER_MAX, unit];
        for size in transfers.iter().chain(&transfers).chain(&[DIRECTORY_BYTES]) {
            out.u32(*size);
        }
        out.u64(limits.file_bytes_max);
        out.u32(u32::from(!limits.nanoseconds));
        out.u32(u32::from(limits.nanoseconds));
        out.u32(PROPERTIES);
        held.release().await;
        Ok(())
    }

    pub(super) async fn pathconf(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        r.end()?;
        let Some(held) = self.look_at(c, handle, out).await else { return Ok(()) };
        out.u32(0);
        attrs::post_op(out, held.volume.keys.volume, Some(held.attr()));
        out.u32(held.volume.limits.link_max);
        out.u32(twin_fs::NAME_MAX as u32);
        // Long names are errors; only root gives files away; case counts and is kept.
        [true, true, false, true].iter().for_each(|&fact| out.flag(fact));
        held.release().await;
        Ok(())
    }
}

/// The status for a result without a value.
pub(super) fn status_of(result: Result<(), FsError>) -> Status {
    result.as_ref().map_or_else(Status::of, |()| Status::Ok)
}

/// True if files of this kind have data.
pub(super) fn check_regular(kind: u32) -> Result<(), FsError> {
    match kind {
        mode::REGULAR => Ok(()),
        mode::DIRECTORY => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid("only a regular file has data")),
    }
}

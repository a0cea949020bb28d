//! READDIR and READDIRPLUS.
//!
//! Contract: a cookie is the position of an entry in its directory. Entries never move, so cookies
//! stay valid whatever is made and removed meanwhile, also across restarts, and the cookie verifier
//! is always zero. A listing ends with what fits the size that the client asks for, however much
//! that is.

use twin_fs::{DirEntry, FsError, LookupEntry, Op, Reply, perm};

use super::held_inode::HeldInode;
use super::mount::unexpected;
use super::{Context, Server};
use crate::attrs::{self, ATTR_LEN};
use crate::handle::HANDLE_MAX;
use crate::status::Status;
use crate::xdr::{Garbage, Reader, Writer};

/// Bytes of a listing besides its entries: status, attributes, verifier, end of the list, end of
/// the directory.
const OVERHEAD: u32 = 4 + 4 + ATTR_LEN as u32 + 8 + 4 + 4;
/// The longest listing, whatever a client asks for.
pub(crate) const LISTING_MAX: u32 = 128 << 10;
/// Room in which any entry fits.
const ONE_ENTRY: u32 = 512;

impl Server {
    pub(super) async fn readdir(
        &self,
        c: Context<'_>,
        mut r: Reader<'_>,
        out: &mut Writer,
        plus: bool,
    ) -> Result<(), Garbage> {
        let handle = r.opaque(HANDLE_MAX)?;
        let (cookie, _verifier) = (r.u64()?, r.u64()?);
        // READDIRPLUS bounds names and all bytes; the latter bound holds for the former too.
        let _names = if plus { r.u32()? } else { 0 };
        let count = r.u32()?;
        r.end()?;
        let Some(held) = self.look_at(c, handle, out).await else { return Ok(()) };
        let room = count.min(LISTING_MAX).saturating_sub(OVERHEAD);
        let listed = list(&held, cookie, room, plus).await;
        let status = match &listed {
            Ok(_) => Status::Ok,
            Err(FsError::Invalid(_)) => Status::TooSmall,
            Err(error) => Status::of(error),
        };
        out.u32(status as u32);
        attrs::post_op(out, held.volume.keys.volume, Some(held.attr()));
        if let Ok((entries, eof)) = listed {
            out.u64(0);
            for entry in &entries {
                self.entry(&held, entry, plus, out);
            }
            out.flag(false);
            out.flag(eof);
            for entry in entries.iter().filter_map(|entry| entry.entry.as_ref()) {
                held.volume.forget(entry.attr.ino).await;
            }
        }
        held.release().await;
        Ok(())
    }

    fn entry(&self, held: &HeldInode<'_>, entry: &DirEntry, plus: bool, out: &mut Writer) {
        out.flag(true);
        out.u64(entry.ino);
        out.opaque(&entry.name);
        out.u64(entry.next);
        if !plus {
            return;
        }
        // The parent may be outside of the export, so clients have to look it up.
        let of: Option<&LookupEntry> = match &*entry.name {
            b"." => Some(&held.entry),
            _ => entry.entry.as_deref(),
        };
        attrs::post_op(out, held.volume.keys.volume, of.map(|of| &of.attr));
        out.flag(of.is_some());
        if let Some(of) = of {
            out.opaque(&self.handle(held.volume, held.export, of));
        }
    }
}

/// Entries from a cookie on that fit the room, and whether the directory ends after them. An entry
/// of [`Op::ReadDir`] costs no less there than in the reply.
async fn list(
    held: &HeldInode<'_>,
    cookie: u64,
    room: u32,
    plus: bool,
) -> Result<(Vec<DirEntry>, bool), FsError> {
    if !held.attr().is_dir() {
        return Err(FsError::NotDirectory);
    }
    held.may(perm::READ).await?;
    let entries = read(held, cookie, room, plus).await?;
    let Some(last) = entries.last() else { return Ok((entries, true)) };
    // Whether there is more shows only by asking.
    let more = read(held, last.next, ONE_ENTRY, false).await?;
    Ok((entries, more.is_empty()))
}

async fn read(
    held: &HeldInode<'_>,
    cookie: u64,
    max_bytes: u32,
    plus: bool,
) -> Result<Vec<DirEntry>, FsError> {
    match held.run(Op::ReadDir { dir: held.ino(), cookie, max_bytes, plus }).await? {
        Reply::Dir(entries) => Ok(entries),
        other => Err(unexpected(&other)),
    }
}

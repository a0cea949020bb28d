//! What every procedure begins and ends with: the inode of a handle, held while the procedure runs.
//!
//! Contract: [`Server::hold`] judges a handle (signature, volume, export, client, generation) and
//! takes a reference, so that the inode stays what it is; [`HeldInode::release`] gives it back and must
//! be called on every way out, since operations cannot be started from a destructor.

use twin_fs::{Attr, Cred, FsError, Ino, LookupEntry, Op, perm};

use super::gate::{Leases, Pass};
use super::{Context, Served, Server};
use crate::attrs::{self, Before, Wcc};
use crate::export::Export;
use crate::handle::{HANDLE_LEN, Handle, parse};
use crate::lease::{FileId, Kind};
use crate::status::Status;
use crate::xdr::Writer;

/// An inode that a call works on.
pub(super) struct HeldInode<'a> {
    pub(super) volume: &'a Served,
    pub(super) export: &'a Export,
    /// The inode, with its attributes when it was taken.
    pub(super) entry: LookupEntry,
    /// The credentials of the caller.
    pub(super) cred: Cred,
    /// The number of the call if it may change the inode: see [`Changing`](crate::changing::Changing).
    changes: Option<u64>,
    /// Its place inside the gate of leases.
    gate: Option<(&'a Leases, Pass)>,
}

impl Server {
    /// Takes the inode of a handle, to look at it.
    pub(super) async fn hold(
        &self,
        c: Context<'_>,
        handle: &[u8],
    ) -> Result<HeldInode<'_>, Status> {
        self.take(c, handle, false).await
    }

    /// Takes the inode of a handle, to change it.
    pub(super) async fn hold_to_change(
        &self,
        c: Context<'_>,
        handle: &[u8],
    ) -> Result<HeldInode<'_>, Status> {
        let held = self.take(c, handle, true).await?;
        if held.export.rules.read_only {
            held.release().await;
            return Err(Status::ReadOnly);
        }
        Ok(held)
    }

    /// [`hold`](Self::hold), or writes the results of a call that fails and has attributes.
    pub(super) async fn look_at(
        &self,
        c: Context<'_>,
        handle: &[u8],
        out: &mut Writer,
    ) -> Option<HeldInode<'_>> {
        let held = self.hold(c, handle).await;
        held.inspect_err(|&status| {
            out.u32(status as u32);
            out.flag(false);
        })
        .ok()
    }

    /// [`hold_to_change`](Self::hold_to_change), or writes the results of a change that fails.
    pub(super) async fn change(
        &self,
        c: Context<'_>,
        handle: &[u8],
        out: &mut Writer,
    ) -> Option<HeldInode<'_>> {
        let held = self.hold_to_change(c, handle).await;
        held.inspect_err(|&status| {
            out.u32(status as u32);
            attrs::wcc(out, 0, &Wcc::default());
        })
        .ok()
    }

    /// Judges a handle: the volume and the export that it leads to, and its fields.
    fn judge(
        &self,
        c: Context<'_>,
        bytes: &[u8; HANDLE_LEN],
    ) -> Result<(&Served, &Export, Handle), Status> {
        let fields = parse(bytes);
        let volume = self.volumes.iter().find(|volume| volume.keys.volume == fields.volume);
        // A volume that is not served any more.
        let volume = volume.ok_or(Status::Stale)?;
        if !volume.keys.verify(bytes) {
            return Err(Status::BadHandle);
        }
        let export = self.exports.iter().find(|export| export.id() == fields.export);
        let export = export.ok_or(Status::Stale)?;
        if !std::ptr::eq(volume, &self.volumes[export.volume]) {
            return Err(Status::Stale);
        }
        if !export.admits(c.peer) {
            self.count(|counters| counters.forbidden += 1);
            return Err(Status::Access);
        }
        Ok((volume, export, fields))
    }

    /// The inode of a handle that the caller may use.
    pub(super) fn file_of(
        &self,
        c: Context<'_>,
        bytes: &[u8; HANDLE_LEN],
    ) -> Result<FileId, Status> {
        self.judge(c, bytes).map(|(_, _, fields)| (fields.volume, fields.ino))
    }

    async fn take(
        &self,
        c: Context<'_>,
        handle: &[u8],
        changes: bool,
    ) -> Result<HeldInode<'_>, Status> {
        let bytes: &[u8; HANDLE_LEN] = handle.try_into().map_err(|_| Status::BadHandle)?;
        let (volume, export, fields) = self.judge(c, bytes)?;
        let gate = match &self.leases {
            None => None,
            Some(leases) => {
                let kind = if changes { Kind::Write } else { Kind::Read };
                let id = (fields.volume, fields.ino);
                let pass = leases.enter(&self.volumes, id, kind, c.under).await?;
                Some((leases, pass))
            }
        };
        let changes = changes.then(|| volume.changing.begin(fields.ino));
        let taken = match volume.itself(fields.ino).await {
            Ok(entry) if entry.generation == fields.generation => Ok(entry),
            Ok(_) => {
                volume.forget(fields.ino).await;
                Err(Status::Stale)
            }
            Err(FsError::NotFound | FsError::Stale) => Err(Status::Stale),
            Err(error) => Err(Status::of(&error)),
        };
        match taken {
            Ok(entry) => {
                let cred = export.credentials(c.peer, &c.call.caller);
                Ok(HeldInode { volume, export, entry, cred, changes, gate })
            }
            Err(status) => {
                if let Some(number) = changes {
                    volume.changing.end(fields.ino, number);
                }
                gate.into_iter().for_each(|(leases, pass)| leases.leave(pass));
                Err(status)
            }
        }
    }
}

impl HeldInode<'_> {
    pub(super) fn ino(&self) -> Ino {
        self.entry.attr.ino
    }

    /// The attributes when the inode was taken.
    pub(super) fn attr(&self) -> &Attr {
        &self.entry.attr
    }

    /// Executes an operation as the caller.
    pub(super) async fn run(&self, op: Op) -> twin_fs::Result<twin_fs::Reply> {
        self.volume.run(self.cred.clone(), op).await
    }

    /// Checks that the caller may read or write. The owner always may: a program that has opened a
    /// file keeps its rights, and the server does not know of opens.
    pub(super) async fn may(&self, mask: u32) -> Result<(), FsError> {
        let own = self.attr().uid == self.cred.uid && !self.attr().is_dir();
        if own { Ok(()) } else { self.allowed(mask).await }
    }

    /// Checks permissions, by the ACL if there is one. Only a volume can read an ACL.
    pub(super) async fn allowed(&self, mask: u32) -> Result<(), FsError> {
        let (attr, ino) = (self.attr(), self.ino());
        if perm::needs_acl(attr, &self.cred) {
            return self.run(Op::Access { ino, mask }).await.map(|_| ());
        }
        if perm::allows(attr, &self.cred, mask) { Ok(()) } else { Err(FsError::Access) }
    }

    /// Makes what was done to these inodes durable, unless the export is lazy.
    pub(super) async fn make_durable_unless_lazy(&self, inos: &[Ino]) -> twin_fs::Result<()> {
        if self.export.rules.lazy { Ok(()) } else { self.make_durable(inos).await }
    }

    /// Makes what was done to these inodes durable.
    pub(super) async fn make_durable(&self, inos: &[Ino]) -> twin_fs::Result<()> {
        for &ino in inos {
            self.volume.run(Cred::root(), Op::Fsync { ino, data_only: false }).await?;
        }
        Ok(())
    }

    /// Gives the inode back.
    pub(super) async fn release(self) {
        if let Some(number) = self.changes {
            self.volume.changing.end(self.ino(), number);
        }
        self.leave();
        self.volume.forget(self.ino()).await;
    }

    /// Leaves the gate of leases.
    fn leave(&self) {
        self.gate.iter().for_each(|(leases, pass)| leases.leave(*pass));
    }

    /// Gives the inode back, and returns what the client needs to keep its cache.
    pub(super) async fn release_changed(self) -> Wcc {
        let after = self.volume.attr(self.ino()).await;
        let ended = |number| self.volume.changing.end(self.ino(), number);
        let alone = self.changes.is_some_and(ended);
        self.leave();
        self.volume.forget(self.ino()).await;
        // Without the later attributes the earlier ones are of no use.
        let before = (alone && after.is_some()).then(|| Before::from(self.attr()));
        Wcc { before, after }
    }
}

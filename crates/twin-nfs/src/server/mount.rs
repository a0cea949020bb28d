//! MOUNT version 3 (RFC 1813, appendix I): how a client gets its first handle.
//!
//! Contract: nothing is remembered of who has mounted what; DUMP is empty. The handles that a
//! client has are judged at each use, so there is nothing for UMNT to take back.

use twin_fs::{Attr, Cred, FsError, LookupEntry, Op, ROOT_INO, Reply};

use super::{Context, Served, Server, proc};
use crate::export::Export;
use crate::handle::Handle;
use crate::rpc::{AUTH_SYS, Refusal};
use crate::status::Status;
use crate::xdr::{Garbage, Reader, Writer};

/// The longest path that a client may mount (MNTPATHLEN).
const PATH_MAX: usize = 1024;

impl Server {
    pub(super) async fn mount(
        &self,
        c: Context<'_>,
        args: Reader<'_>,
        out: &mut Writer,
    ) -> Result<Result<(), Garbage>, Refusal> {
        match c.call.procedure {
            proc::mount::NULL | proc::mount::UMNTALL => Ok(args.end()),
            proc::mount::MNT => Ok(self.mnt(c, args, out).await),
            proc::mount::DUMP => Ok(args.end().map(|()| out.flag(false))),
            proc::mount::UMNT => Ok(path(args).map(drop)),
            proc::mount::EXPORT => Ok(args.end().map(|()| self.list_exports(out))),
            _ => Err(Refusal::Procedure),
        }
    }

    async fn mnt(&self, c: Context<'_>, args: Reader<'_>, out: &mut Writer) -> Result<(), Garbage> {
        let path = path(args)?;
        match self.mount_path(c, path).await {
            Err(status) => {
                if status == Status::Access {
                    self.count(|counters| counters.forbidden += 1);
                }
                // The numbers of these errors are the same in both protocols.
                out.u32(status as u32);
            }
            Ok(handle) => {
                out.u32(0);
                out.opaque(&handle);
                out.u32(1);
                out.u32(AUTH_SYS);
            }
        }
        Ok(())
    }

    /// The handle of a directory that a client may mount: an export, or a directory below one.
    async fn mount_path(&self, c: Context<'_>, path: &[u8]) -> Result<Vec<u8>, Status> {
        let within = |export: &&Export| export.names_below(path).is_some();
        let longest = |export: &&Export| export.path.len();
        let export = self.exports.iter().filter(within).max_by_key(longest);
        let export = export.ok_or(Status::NoEntry)?;
        if !export.admits(c.peer) {
            return Err(Status::Access);
        }
        let names = export.names_below(path).unwrap_or_default();
        if names.iter().any(|name| matches!(*name, b"." | b"..")) {
            return Err(Status::Invalid);
        }
        let volume = &self.volumes[export.volume];
        let root = self.export_root(volume, export).await?;
        let cred = export.credentials(c.peer, &c.call.caller);
        let entry = walk(volume, root, &names, &cred).await.map_err(|e| Status::of(&e))?;
        volume.forget(entry.attr.ino).await;
        if !entry.attr.is_dir() {
            return Err(Status::NotDirectory);
        }
        Ok(self.handle(volume, export, &entry).to_vec())
    }

    /// The root of an export, with a reference.
    pub(super) async fn export_root(
        &self,
        volume: &Served,
        export: &Export,
    ) -> Result<LookupEntry, Status> {
        let names: Vec<&[u8]> = export.below.iter().map(|name| &**name).collect();
        let root = volume.itself(ROOT_INO).await.map_err(|e| Status::of(&e))?;
        walk(volume, root, &names, &Cred::root()).await.map_err(|e| Status::of(&e))
    }

    /// The bytes of the handle of an inode, for clients of an export.
    pub(super) fn handle(
        &self,
        volume: &Served,
        export: &Export,
        entry: &LookupEntry,
    ) -> [u8; crate::HANDLE_LEN] {
        volume.keys.seal(&Handle {
            volume: volume.keys.volume,
            export: export.id(),
            ino: entry.attr.ino,
            generation: entry.generation,
        })
    }

    pub(super) fn list_exports(&self, out: &mut Writer) {
        for export in &self.exports {
            out.flag(true);
            out.opaque(export.path.as_bytes());
            let rules = &export.rules;
            let groups: Vec<String> = match (rules.from_all, rules.from.is_empty()) {
                (true, _) => Vec::new(),
                (false, true) => vec!["127.0.0.1".into()],
                (false, false) => rules.from.iter().map(ToString::to_string).collect(),
            };
            for group in groups {
                out.flag(true);
                out.opaque(group.as_bytes());
            }
            out.flag(false);
        }
        out.flag(false);
    }
}

fn path(mut args: Reader<'_>) -> Result<&[u8], Garbage> {
    let path = args.opaque(PATH_MAX)?;
    args.end()?;
    Ok(path)
}

impl Served {
    /// An inode with a name, with a reference.
    pub(super) async fn itself(&self, ino: u64) -> twin_fs::Result<LookupEntry> {
        let name = (*b".").into();
        match self.run(Cred::root(), Op::Lookup { dir: ino, name }).await? {
            Reply::Entry(entry) => Ok(entry),
            other => Err(unexpected(&other)),
        }
    }

    /// Finds a name; the entry comes with a reference.
    pub(super) async fn find(
        &self,
        dir: u64,
        name: &[u8],
        cred: &Cred,
    ) -> twin_fs::Result<LookupEntry> {
        match self.run(cred.clone(), Op::Lookup { dir, name: name.into() }).await? {
            Reply::Entry(entry) => Ok(entry),
            other => Err(unexpected(&other)),
        }
    }

    /// Gives a reference back.
    pub(super) async fn forget(&self, ino: u64) {
        // A forget cannot fail.
        let _ = self.run(Cred::root(), Op::Forget { ino, count: 1 }).await;
    }

    /// The attributes of an inode that is referenced.
    pub(super) async fn attr(&self, ino: u64) -> Option<Attr> {
        match self.run(Cred::root(), Op::GetAttr { ino }).await {
            Ok(Reply::Attr(attr)) => Some(attr),
            _ => None,
        }
    }
}

/// The error for a reply of a kind that the operation does not have: a bug of the file system.
pub(super) fn unexpected(_reply: &Reply) -> FsError {
    FsError::inconsistent("an operation gave a reply of another kind")
}

/// Follows names from a referenced directory. The reference moves to what is found; on an error it
/// is given back.
async fn walk(
    volume: &Served,
    from: LookupEntry,
    names: &[&[u8]],
    cred: &Cred,
) -> twin_fs::Result<LookupEntry> {
    let mut at = from;
    for name in names {
        let next = volume.find(at.attr.ino, name, cred).await;
        volume.forget(at.attr.ino).await;
        at = next?;
    }
    Ok(at)
}

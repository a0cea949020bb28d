//! A kept state as clients find it below `.twinfs/snapshots`, in the form of a file system of its own.

use twin_fs::snapshots::DOT_TWINFS;
use twin_fs::{
    FileSystem, FsError, Ino, LookupEntry, Op, ROOT_INO, Reply, Request, Result, Volume,
};

/// See the module.
pub(crate) struct Below {
    volume: Volume,
    /// What inode numbers have more there than in the state.
    more: Ino,
}

impl Below {
    /// A state of a volume, by its name.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) async fn find(volume: &Volume, name: &str) -> Result<Below> {
        let mut dir = ROOT_INO;
        for name in [DOT_TWINFS, b"snapshots", name.as_bytes()] {
            let lookup = Op::Lookup { dir, name: name.into() };
            dir = match volume.execute(Request::root(1, lookup)).await? {
                Reply::Entry(entry) => entry.attr.ino,
                _ => return Err(FsError::inconsistent("no entry")),
            };
        }
        Ok(Below { volume: volume.clone(), more: dir ^ ROOT_INO })
    }

    /// The number in the state. The parent of its root is the root itself.
    fn inside(&self, ino: Ino) -> Ino {
        if ino & self.more == self.more { ino ^ self.more } else { ROOT_INO }
    }
}

impl FileSystem for Below {
    async fn execute(&self, mut request: Request) -> Result<Reply> {
        for ino in request.op.inos_mut().into_iter().flatten() {
            *ino |= self.more;
        }
        let mut reply = self.volume.execute(request).await?;
        match &mut reply {
            Reply::Entry(LookupEntry { attr, .. }) | Reply::Attr(attr) => {
                attr.ino = self.inside(attr.ino);
            }
            Reply::Dir(entries) => {
                for entry in entries {
                    entry.ino = self.inside(entry.ino);
                    if let Some(LookupEntry { attr, .. }) = entry.entry.as_deref_mut() {
                        attr.ino = entry.ino;
                    }
                }
            }
            _ => {}
        }
        Ok(reply)
    }
}

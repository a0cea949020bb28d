//! Names: finding, making, moving, removing, listing.
//!
//! Contract: a call that was sent more than once may find its own work done by an earlier copy, to
//! a server that has forgotten it. Then the work counts as done: a name that is not there any more
//! was removed or renamed, one that exists was made. A file that is open keeps a name until it is
//! closed: `.nfs` and numbers, as clients of the field do it (silly rename).

use std::rc::Rc;

use twin_fs::{Attr, Cred, DirEntry, FsError, Ino, LookupEntry, Name, Op, Result, SetAttr, mode};

use super::Inner;
use super::nodes::Node;
use super::rpc::{Results, garbled};
use crate::attrs;
use crate::proc;
use crate::xdr::{Garbage, Reader, Writer};

/// The longest file handle of NFS version 3, in bytes.
const HANDLE_MAX: usize = 64;
/// Bytes of the reply of a listing, besides its entries.
const LISTING: u32 = 128;

type Made = (Option<Vec<u8>>, Option<Attr>);

impl Inner {
    pub(super) async fn lookup(
        self: &Rc<Self>,
        cred: &Cred,
        dir: Ino,
        name: &[u8],
    ) -> Result<LookupEntry> {
        let node = self.node(dir)?;
        if name == b"." {
            let attr = self.believed(cred, &node).await?;
            return Ok(self.entry(&node.handle, attr));
        }
        let key = (dir, Name::from(name));
        let known = self.names.borrow().get(&key).copied();
        if let Some((ino, changed)) = known {
            let attr = self.believed(cred, &node).await?;
            if attr.mtime == changed
                && let Ok(found) = self.node(ino)
                && let Ok(attr) = self.believed(cred, &found).await
            {
                return Ok(self.entry(&found.handle, attr));
            }
            self.names.borrow_mut().remove(&key);
        }
        let results = self.call(cred, proc::LOOKUP, |w| place(w, &node.handle, name)).await?;
        let mut r = results.ok()?;
        let handle = r.opaque(HANDLE_MAX).map_err(garbled)?.to_vec();
        let attr = r.optional(attrs::read_attributes).map_err(garbled)?;
        let of_dir = r.optional(attrs::read_attributes).map_err(garbled)?;
        let entry = self.entered(cred, &handle, attr).await?;
        if let Some(of_dir) = of_dir {
            self.learn(&node, &of_dir);
            self.names.borrow_mut().insert(key, (entry.attr.ino, of_dir.mtime));
        }
        Ok(entry)
    }

    /// An entry of a reply, whose attributes may be missing.
    async fn entered(&self, cred: &Cred, handle: &[u8], attr: Option<Attr>) -> Result<LookupEntry> {
        let attr = match attr {
            Some(attr) => attr,
            None => {
                let results = self.call(cred, proc::GETATTR, |w| w.opaque(handle)).await?;
                attrs::read_attributes(&mut results.ok()?).map_err(garbled)?
            }
        };
        Ok(self.entry(handle, attr))
    }

    /// The directory has changed: what is known of it is in doubt.
    fn changed(&self, dir: Ino, wcc: Option<attrs::Wcc>) {
        let Ok(node) = self.node(dir) else { return };
        match wcc {
            Some(wcc) => self.learn_own(&node, &wcc),
            None if self.has_leases() => Inner::suspect(&node),
            None => node.doubt(),
        }
    }

    /// Makes an inode and its name.
    pub(super) async fn make(self: &Rc<Self>, cred: &Cred, op: Op) -> Result<LookupEntry> {
        let (dir, name) = match &op {
            Op::MakeNode { dir, name, .. }
            | Op::MakeDir { dir, name, .. }
            | Op::Symlink { dir, name, .. }
            | Op::Create { dir, name, .. } => (*dir, name.clone()),
            _ => return Err(FsError::Invalid("makes nothing")),
        };
        let parent = self.node(dir)?;
        let verifier = self.verifier();
        let (procedure, opens) = match &op {
            Op::MakeDir { .. } => (proc::MKDIR, false),
            Op::Symlink { .. } => (proc::SYMLINK, false),
            Op::MakeNode { mode, .. } if mode & mode::TYPE != mode::REGULAR => (proc::MKNOD, false),
            _ => (proc::CREATE, matches!(op, Op::Create { .. })),
        };
        let results = self.call(cred, procedure, |w| {
            place(w, &parent.handle, &name);
            arguments(w, &op, verifier);
        });
        let results = results.await?;
        // The server recognizes an exclusive CREATE itself.
        let exclusive = matches!(op, Op::Create { exclusive: true, .. });
        let own = results.resent && results.status == crate::Status::Exists as u32;
        let entry = if own && !exclusive {
            self.changed(dir, None);
            self.lookup(cred, dir, &name).await?
        } else {
            let (made, wcc) = made(&results)?;
            self.changed(dir, Some(wcc.clone()));
            match made {
                (Some(handle), attr) => {
                    let entry = self.entered(cred, &handle, attr).await?;
                    self.is_called(dir, &name, entry.attr.ino, &wcc);
                    entry
                }
                (None, _) => self.lookup(cred, dir, &name).await?,
            }
        };
        if opens {
            self.opened(&*self.node(entry.attr.ino)?);
        }
        let (ino, finished) = (entry.attr.ino, self.finish(cred, &op, entry).await);
        if finished.is_err() && opens {
            self.closed(&*self.node(ino)?);
        }
        finished
    }

    /// An exclusive CREATE cannot say what mode the file is to have, and its verifier is where
    /// times belong: both are set afterwards.
    async fn finish(
        self: &Rc<Self>,
        cred: &Cred,
        op: &Op,
        made: LookupEntry,
    ) -> Result<LookupEntry> {
        let Op::Create { mode, exclusive: true, .. } = op else { return Ok(made) };
        let now = Some(twin_fs::SetTime::Now);
        let mode = Some(mode::without_umask(*mode) & mode::PERMISSIONS);
        let set = SetAttr { mode, atime: now, mtime: now, ..SetAttr::default() };
        let attr = self.set(cred, made.attr.ino, set).await?;
        Ok(LookupEntry { attr, ..made })
    }

    fn verifier(&self) -> [u8; 8] {
        let n = self.next_silly.get();
        self.next_silly.set(n + 1);
        (self.rt.now().0.rotate_left(20) ^ n).to_be_bytes()
    }

    pub(super) async fn link(
        self: &Rc<Self>,
        cred: &Cred,
        ino: Ino,
        dir: Ino,
        name: &[u8],
    ) -> Result<LookupEntry> {
        let (node, parent) = (self.node(ino)?, self.node(dir)?);
        let results = self.call(cred, proc::LINK, |w| {
            w.opaque(&node.handle);
            place(w, &parent.handle, name);
        });
        let results = results.await?;
        if results.resent && results.status == crate::Status::Exists as u32 {
            self.changed(dir, None);
            return self.lookup(cred, dir, name).await;
        }
        let mut r = results.ok()?;
        let attr = r.optional(attrs::read_attributes).map_err(garbled)?;
        let wcc = attrs::read_wcc(&mut r).map_err(garbled)?;
        self.is_called(dir, name, ino, &wcc);
        self.changed(dir, Some(wcc));
        self.entered(cred, &node.handle.clone(), attr).await
    }

    /// Removes a name of a file; a file that is open is renamed instead, until it is closed.
    pub(super) async fn unlink(self: &Rc<Self>, cred: &Cred, dir: Ino, name: &[u8]) -> Result<()> {
        let last = self.last_name(cred, dir, name).await?;
        if let Some(node) = &last
            && node.opens.get() > 0
        {
            return self.hide(cred, node, dir, name).await;
        }
        self.remove(cred, proc::REMOVE, dir, name).await?;
        last.iter().for_each(|node| self.is_gone(node));
        Ok(())
    }

    /// The file whose last name this is, if this client may know the file.
    async fn last_name(
        self: &Rc<Self>,
        cred: &Cred,
        dir: Ino,
        name: &[u8],
    ) -> Result<Option<Rc<Node>>> {
        let known = self.names.borrow().contains_key(&(dir, Name::from(name)));
        if !known && self.open_files.get() == 0 {
            return Ok(None);
        }
        let ino = self.lookup(cred, dir, name).await?.attr.ino;
        let node = self.node(ino)?;
        self.forget(ino, 1);
        let attr = match node.opens.get() {
            0 => self.believed(cred, &node).await?,
            // The data of an open file depends on the answer, and another client may have removed a
            // name.
            _ => self.ask(cred, &node).await?,
        };
        Ok(Some(node).filter(|_| attr.nlink <= 1 && !attr.is_dir()))
    }

    /// Renames an open file that loses its last name, until it is closed.
    async fn hide(self: &Rc<Self>, cred: &Cred, node: &Node, dir: Ino, name: &[u8]) -> Result<()> {
        let hidden = node.silly.borrow().clone();
        if hidden.is_some_and(|(of, silly)| of == dir && &*silly == name) {
            return Err(FsError::Busy);
        }
        let n = self.next_silly.get();
        self.next_silly.set(n + 1);
        let silly = format!(".nfs{:x}.{n:x}", node.ino).into_bytes();
        self.move_name(cred, (dir, name), (dir, &silly)).await?;
        *node.silly.borrow_mut() = Some((dir, silly.into()));
        Ok(())
    }

    pub(super) async fn remove(
        &self,
        cred: &Cred,
        procedure: u32,
        dir: Ino,
        name: &[u8],
    ) -> Result<()> {
        let parent = self.node(dir)?;
        let results = self.call(cred, procedure, |w| place(w, &parent.handle, name)).await?;
        self.names.borrow_mut().remove(&(dir, Name::from(name)));
        if is_done_before(&results) {
            self.changed(dir, None);
            return Ok(());
        }
        let wcc = attrs::read_wcc(&mut results.ok()?).map_err(garbled)?;
        self.changed(dir, Some(wcc));
        Ok(())
    }

    /// Renames. A file that is open and loses its last name by it is renamed before.
    pub(super) async fn rename(
        self: &Rc<Self>,
        cred: &Cred,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
    ) -> Result<()> {
        let replaced = match self.last_name(cred, to.0, to.1).await {
            Err(FsError::NotFound) => None,
            found => found?,
        };
        if let Some(node) = replaced.filter(|node| node.opens.get() > 0) {
            let moved = self.lookup(cred, from.0, from.1).await?.attr;
            self.forget(moved.ino, 1);
            if moved.ino != node.ino && !moved.is_dir() {
                self.hide(cred, &node, to.0, to.1).await?;
            }
        }
        self.move_name(cred, from, to).await
    }

    /// Sends a RENAME and applies its result to the names that the client keeps.
    async fn move_name(
        &self,
        cred: &Cred,
        (dir, name): (Ino, &[u8]),
        (to_dir, to_name): (Ino, &[u8]),
    ) -> Result<()> {
        let (from, to) = (self.node(dir)?, self.node(to_dir)?);
        let results = self.call(cred, proc::RENAME, |w| {
            place(w, &from.handle, name);
            place(w, &to.handle, to_name);
        });
        let results = results.await?;
        let moved = self.names.borrow_mut().remove(&(dir, Name::from(name)));
        self.names.borrow_mut().remove(&(to_dir, Name::from(to_name)));
        if is_done_before(&results) {
            self.changed(dir, None);
            self.changed(to_dir, None);
            return Ok(());
        }
        let mut r = results.ok()?;
        let of_from = attrs::read_wcc(&mut r).map_err(garbled)?;
        let of_to = attrs::read_wcc(&mut r).map_err(garbled)?;
        if let Some((ino, _)) = moved {
            self.is_called(to_dir, to_name, ino, &of_to);
        }
        self.changed(dir, Some(of_from));
        self.changed(to_dir, Some(of_to));
        Ok(())
    }

    /// Notes a name that a change of the client's own has made.
    fn is_called(&self, dir: Ino, name: &[u8], ino: Ino, of_dir: &attrs::Wcc) {
        if let Some(after) = &of_dir.after {
            self.names.borrow_mut().insert((dir, name.into()), (ino, after.mtime));
        }
    }

    pub(super) async fn list(
        &self,
        cred: &Cred,
        dir: Ino,
        cookie: u64,
        max_bytes: u32,
        plus: bool,
    ) -> Result<Vec<DirEntry>> {
        let node = self.node(dir)?;
        let count = max_bytes.saturating_add(LISTING);
        let procedure = if plus { proc::READDIRPLUS } else { proc::READDIR };
        let results = self.call(cred, procedure, |w| {
            w.opaque(&node.handle);
            w.u64(cookie);
            w.u64(0);
            if plus {
                w.u32(count);
            }
            w.u32(count);
        });
        let results = results.await?;
        let mut r = results.ok()?;
        let attr = r.optional(attrs::read_attributes).map_err(garbled)?;
        attr.into_iter().for_each(|attr| self.learn(&node, &attr));
        self.entries(&mut r, plus).map_err(garbled)
    }

    fn entries(&self, r: &mut Reader<'_>, plus: bool) -> Result<Vec<DirEntry>, Garbage> {
        r.u64()?;
        let mut entries = Vec::new();
        while r.flag()? {
            let ino = r.u64()?;
            let name: Name = r.opaque(usize::MAX)?.into();
            let next = r.u64()?;
            let mut entry = DirEntry { name, ino, kind: 0, next, entry: None };
            if plus {
                let attr = r.optional(attrs::read_attributes)?;
                let handle = r.optional(|r| r.opaque(HANDLE_MAX))?;
                entry.kind = attr.as_ref().map_or(0, Attr::kind);
                if let (Some(attr), Some(handle)) = (attr, handle)
                    && &*entry.name != b"."
                    && &*entry.name != b".."
                {
                    entry.entry = Some(Box::new(self.entry(handle, attr)));
                }
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// The arguments behind the place of what is made.
fn arguments(w: &mut Writer, op: &Op, verifier: [u8; 8]) {
    let with_mode = |wanted: u32| {
        let mode = Some(mode::without_umask(wanted) & mode::PERMISSIONS);
        SetAttr { mode, ..SetAttr::default() }
    };
    match op {
        Op::MakeDir { mode, .. } => attrs::settings(w, &with_mode(*mode)),
        Op::Symlink { target, .. } => {
            attrs::settings(w, &SetAttr::default());
            w.opaque(target);
        }
        Op::Create { exclusive: true, .. } => {
            w.u32(2);
            w.fixed(&verifier);
        }
        Op::Create { mode, .. } => {
            w.u32(0);
            attrs::settings(w, &with_mode(*mode));
        }
        Op::MakeNode { mode, .. } if mode & mode::TYPE == mode::REGULAR => {
            w.u32(1);
            attrs::settings(w, &with_mode(*mode));
        }
        Op::MakeNode { mode, rdev, .. } => {
            w.u32(attrs::file_type(mode & mode::TYPE));
            attrs::settings(w, &with_mode(*mode));
            if matches!(mode & mode::TYPE, mode::CHAR | mode::BLOCK) {
                let (major, minor) = attrs::split_device(*rdev);
                w.u32(major);
                w.u32(minor);
            }
        }
        _ => {}
    }
}

/// Decodes the new file, and the change of the attributes of its directory.
fn made(results: &Results) -> Result<(Made, attrs::Wcc)> {
    let mut r = results.ok()?;
    let read = |r: &mut Reader<'_>| {
        let handle = r.optional(|r| r.opaque(HANDLE_MAX))?.map(<[u8]>::to_vec);
        let attr = r.optional(attrs::read_attributes)?;
        Ok(((handle, attr), attrs::read_wcc(r)?))
    };
    read(&mut r).map_err(garbled)
}

/// True if an earlier copy of the call has removed the name.
fn is_done_before(results: &Results) -> bool {
    results.resent && results.status == crate::Status::NoEntry as u32
}

fn place(w: &mut Writer, dir: &[u8], name: &[u8]) {
    w.opaque(dir);
    w.opaque(name);
}

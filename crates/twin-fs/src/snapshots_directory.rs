//! The directory `.twinfs/snapshots`: a directory for each state that a volume keeps, with the files of that state.
//!
//! Contract: the name `.twinfs` is found in the root and listed nowhere, so that programs that walk a tree or remove it do
//! not come there; a file of that name that somebody made hides it. Nothing below it can be changed, whatever the
//! permission bits say, which are those that the files had.
//!
//! Inode numbers below it are made of the number of the state and the inode's number in that state
//! ([`number_below`](crate::below::number_below)), so they stay valid, also for clients of NFS, for as long as the state exists; afterwards they
//! are stale. A state is opened when somebody asks for something in it. At most
//! [`OPEN_MOST`] are open, and which one has not been asked for longest is closed for the next: references and opens
//! hold nothing in a volume that does not change, so a file that is read goes on when its state is opened again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_rt::{RwLock, Time};

use crate::below::{DOT_INO, SNAPSHOTS, SNAPSHOTS_INO, apart, is_below, number_below};
use crate::core::Core;
use crate::layout::{Layout, NO_SNAPSHOTS};
use crate::ops::{Operations, entry_cost};
use crate::snapshots::{State, StateKind};
use crate::{
    Attr, DirEntry, FsError, Ino, LookupEntry, Op, ROOT_INO, Reply, Request, Result, Timestamp,
    mode, perm,
};

/// The most states that are open at a time.
const OPEN_MOST: usize = 8;
/// The part of the volume's cache that the cache of an open state may take in addition.
const CACHE_SHARE: u64 = 32;
/// The least cache of an open state, in bytes.
const CACHE_LEAST: u64 = 1 << 20;

/// A state that is open.
struct OpenState {
    id: u64,
    ops: Rc<Operations>,
}

/// The directory of a volume. See the module.
pub(crate) struct SnapshotsDirectory {
    core: Rc<Core>,
    layout: Rc<dyn Layout>,
    /// The open states; the one that was asked last is at the end.
    open: RefCell<Vec<OpenState>>,
    /// Held while a state is opened, and while states are deleted, so that none is opened then.
    opening: RwLock,
    /// The states at the last look, and when they were found to be others than before: the time of the directory, by
    /// which clients see that it has changed.
    seen: RefCell<Vec<u64>>,
    changed: Cell<Time>,
}

impl SnapshotsDirectory {
    /// The directory of a volume whose layout keeps states.
    pub(crate) fn new(core: &Rc<Core>, layout: &Rc<dyn Layout>) -> Option<SnapshotsDirectory> {
        layout.views().snapshots?;
        Some(SnapshotsDirectory {
            core: Rc::clone(core),
            layout: Rc::clone(layout),
            open: RefCell::default(),
            opening: RwLock::new(),
            seen: RefCell::default(),
            changed: Cell::new(core.rt.civil()),
        })
    }

    /// The entry for the name `.twinfs`.
    pub(crate) fn entry(&self) -> Reply {
        Reply::Entry(self.entry_of(DOT_INO))
    }

    /// Executes a request about something below `.twinfs`, where [`concerns`] says so. `ops` are the operations on
    /// the volume itself, to which the way up leads.
    pub(crate) async fn run(&self, ops: &Operations, request: Request) -> Result<Reply> {
        match &request.op {
            Op::Rename { to_dir: to, .. } | Op::Link { dir: to, .. } if !is_below(*to) => {
                return Err(FsError::CrossDevice);
            }
            Op::Open { write: true, .. } => return Err(FsError::ReadOnly),
            Op::Access { mask, .. } if mask & perm::WRITE != 0 => return Err(FsError::ReadOnly),
            op if op.changes_volume() => return Err(FsError::ReadOnly),
            _ => {}
        }
        match (apart(request.op.subject()), &request.op) {
            ((0, _), _) => self.run_above(ops, request).await,
            ((_, ROOT_INO), Op::Lookup { name, .. }) if **name == *b".." => {
                Ok(Reply::Entry(self.entry_of(SNAPSHOTS_INO)))
            }
            ((id, ino), _) => self.run_in_state(id, ino, request).await,
        }
    }

    /// Executes a request about one of the two directories that are in no state.
    async fn run_above(&self, ops: &Operations, request: Request) -> Result<Reply> {
        let ino = request.op.subject();
        if ino != DOT_INO && ino != SNAPSHOTS_INO {
            return Err(FsError::Stale);
        }
        match request.op {
            Op::Lookup { name, .. } => self.find(ops, ino, &name, request.id).await,
            Op::GetAttr { .. } => Ok(Reply::Attr(self.attr(ino))),
            Op::ReadDir { cookie, max_bytes, .. } => self.list(ino, cookie, max_bytes),
            Op::Forget { .. }
            | Op::Open { .. }
            | Op::Release { .. }
            | Op::Access { .. }
            | Op::Fsync { .. } => Ok(Reply::Done),
            Op::ListXattr { .. } => Ok(Reply::Bytes(Box::default())),
            Op::GetXattr { .. } => Err(FsError::NoAttribute),
            Op::ReadLink { .. } => Err(FsError::Invalid("it is no symbolic link")),
            _ => Err(FsError::IsDirectory),
        }
    }

    async fn find(&self, ops: &Operations, dir: Ino, name: &[u8], id: u64) -> Result<Reply> {
        let itself = |dir| Request::root(id, Op::Lookup { dir, name: (*b".").into() });
        let ino = match (dir, name) {
            (_, b".") => dir,
            (DOT_INO, b"..") => return ops.run(itself(ROOT_INO)).await,
            (DOT_INO, SNAPSHOTS) => SNAPSHOTS_INO,
            (SNAPSHOTS_INO, b"..") => DOT_INO,
            (SNAPSHOTS_INO, name) => {
                let states = self.states();
                let state = states.iter().find(|state| state.name.as_bytes() == name);
                let state = state.ok_or(FsError::NotFound)?.id;
                let root = number_below(state, ROOT_INO)?;
                return self.run_in_state(state, ROOT_INO, itself(root)).await;
            }
            _ => return Err(FsError::NotFound),
        };
        Ok(Reply::Entry(self.entry_of(ino)))
    }

    /// Lists one of the two directories. The cookie of a state is its number, so that a listing goes on at the right
    /// place when states come and go. Attributes of the states are not listed with them: each would have to be opened.
    fn list(&self, dir: Ino, cookie: u64, max_bytes: u32) -> Result<Reply> {
        const PARENTS: u64 = 2;
        let (itself, parent) = match dir {
            DOT_INO => (DOT_INO, ROOT_INO),
            _ => (SNAPSHOTS_INO, DOT_INO),
        };
        let mut names: Vec<(Vec<u8>, Ino, u64)> =
            vec![(b".".into(), itself, 1), (b"..".into(), parent, PARENTS)];
        match dir {
            DOT_INO => names.push((SNAPSHOTS.into(), SNAPSHOTS_INO, PARENTS + 1)),
            _ => {
                for State { id, name, .. } in self.states() {
                    names.push((name.into_bytes(), number_below(id, ROOT_INO)?, PARENTS + id));
                }
            }
        }
        let mut left = u64::from(max_bytes);
        let mut out = Vec::new();
        for (name, ino, next) in names.into_iter().filter(|&(.., next)| next > cookie) {
            let cost = entry_cost(name.len(), false);
            match cost <= left {
                true => left -= cost,
                false if out.is_empty() => {
                    return Err(FsError::Invalid("no room for one directory entry"));
                }
                false => break,
            }
            out.push(DirEntry { name: name.into(), ino, kind: mode::DIRECTORY, next, entry: None });
        }
        Ok(Reply::Dir(out))
    }

    async fn run_in_state(&self, id: u64, ino: Ino, request: Request) -> Result<Reply> {
        let state = match request.op {
            // They only take something out of the counts of a state that is open.
            Op::Forget { .. } | Op::Release { .. } => match self.is_open(id) {
                Some(state) => state,
                None => return Ok(Reply::Done),
            },
            _ => self.state(id).await?,
        };
        let mut request = request;
        for ino in request.op.inos_mut().into_iter().flatten() {
            *ino = apart(*ino).1;
        }
        let mut reply = state.run(request).await?;
        match &mut reply {
            Reply::Entry(LookupEntry { attr, .. }) | Reply::Attr(attr) => {
                attr.ino = number_below(id, attr.ino)?;
            }
            Reply::Dir(entries) => {
                for DirEntry { name, ino: entry_ino, entry, .. } in entries {
                    *entry_ino = match ino == ROOT_INO && **name == *b".." {
                        true => SNAPSHOTS_INO,
                        false => number_below(id, *entry_ino)?,
                    };
                    if let Some(LookupEntry { attr, .. }) = entry.as_deref_mut() {
                        attr.ino = *entry_ino;
                    }
                }
            }
            _ => {}
        }
        Ok(reply)
    }

    /// The kept states, in the order in which they were made.
    fn states(&self) -> Vec<State> {
        let Some(view) = self.layout.views().snapshots else { return Vec::new() };
        let mut states = view.states(&self.core).states;
        states.retain(|state| state.kind != StateKind::Head);
        states
    }

    /// The operations on a state. It is opened if it is not open.
    async fn state(&self, id: u64) -> Result<Rc<Operations>> {
        if let Some(open) = self.is_open(id) {
            return Ok(open);
        }
        let _opening = self.opening.write().await;
        if let Some(open) = self.is_open(id) {
            return Ok(open);
        }
        let name = self.states().into_iter().find(|state| state.id == id).map(|state| state.name);
        let (Some(name), Some(view)) = (name, self.layout.views().snapshots) else {
            return Err(FsError::Stale);
        };
        while self.open.borrow().len() >= OPEN_MOST {
            let oldest = self.open.borrow_mut().remove(0);
            oldest.ops.drop_clients().await?;
        }
        let cache = (self.core.settings.cache_bytes / CACHE_SHARE).max(CACHE_LEAST);
        let (core, layout) = view.open(&self.core, &name, cache).await?;
        let ops = Rc::new(Operations::new(&core, &layout));
        self.open.borrow_mut().push(OpenState { id, ops: Rc::clone(&ops) });
        Ok(ops)
    }

    /// A state that is open, which becomes the one that was asked last.
    fn is_open(&self, id: u64) -> Option<Rc<Operations>> {
        let mut open = self.open.borrow_mut();
        let at = open.iter().position(|state| state.id == id)?;
        let state = open.remove(at);
        let ops = Rc::clone(&state.ops);
        open.push(state);
        Some(ops)
    }

    /// Deletes states; what is asked below them afterwards is stale.
    ///
    /// # Errors
    /// Those of [`SnapshotView::delete`](crate::SnapshotView::delete).
    pub(crate) async fn delete(&self, names: &[String]) -> Result<()> {
        let view = self.layout.views().snapshots.ok_or(FsError::NotSupported(NO_SNAPSHOTS))?;
        let _opening = self.opening.write().await;
        let mut deleted = self.states();
        deleted.retain(|state| names.contains(&state.name));
        self.close_all(|id| deleted.iter().any(|state| state.id == id)).await?;
        view.delete(&self.core, names).await
    }

    /// Closes the open states of these numbers.
    pub(crate) async fn close_all(&self, which: impl Fn(u64) -> bool) -> Result<()> {
        let (closed, open) = self.open.take().into_iter().partition(|state| which(state.id));
        *self.open.borrow_mut() = open;
        let closed: Vec<OpenState> = closed;
        for state in closed {
            state.ops.drop_clients().await?;
        }
        Ok(())
    }

    fn entry_of(&self, ino: Ino) -> LookupEntry {
        LookupEntry { attr: self.attr(ino), generation: 0 }
    }

    fn attr(&self, ino: Ino) -> Attr {
        let states: Vec<u64> = self.states().iter().map(|state| state.id).collect();
        let nlink = match ino {
            DOT_INO => 3,
            _ => 2 + states.len() as u32,
        };
        if *self.seen.borrow() != states {
            self.changed.set(self.core.rt.civil().max(self.changed.get() + 1));
            *self.seen.borrow_mut() = states;
        }
        let time = Timestamp::from(self.changed.get());
        let times = Attr { atime: time, mtime: time, ctime: time, btime: time, ..Attr::default() };
        Attr { ino, mode: mode::DIRECTORY | 0o555, nlink, ..times }
    }
}

//! Rename, with all its flags.

use std::rc::Rc;

use super::Operations;
use crate::dinode::Dinode;
use crate::dir::{Hit, InsertPlan, RemovePlan};
use crate::inodes::Inode;
use crate::layout::{Change, InodeEvent, Need, Picked};
use crate::{Cred, FsError, Ino, Name, ROOT_INO, RenameMode, Reply, Result, mode, perm};

/// What a rename has found and loaded before the change.
struct Move<'a> {
    from: &'a Rc<Inode>,
    to: &'a Rc<Inode>,
    source: Rc<Inode>,
    source_hit: Hit,
    target: Option<(Rc<Inode>, Hit)>,
    to_name: &'a Name,
    /// The `..` entries of directories that move to another parent.
    source_parent: Option<Hit>,
    target_parent: Option<Hit>,
}

/// The result of a rename.
struct RenameOutcome {
    source: Rc<Inode>,
    /// The inode that the new name led to before.
    target: Option<Rc<Inode>>,
    /// The inode that lost its name, if one did.
    gone: Option<Ino>,
}

/// Fails if one of the names is `.` or `..`, which cannot be renamed.
fn check_dots(from: &[u8], to: &[u8], how: RenameMode) -> Result<()> {
    let is_dot = |name: &[u8]| matches!(name, b"." | b"..");
    match (is_dot(from), is_dot(to), how) {
        (false, false, _) => Ok(()),
        (false, true, how) if how.needs_new_name() => Err(FsError::Exists),
        _ => Err(FsError::Invalid("a dot cannot be renamed")),
    }
}

/// A name in a directory, which the client gave.
#[derive(Clone, Copy)]
pub(super) struct NameIn<'a> {
    pub(super) dir: Ino,
    pub(super) name: &'a Name,
}

impl Operations {
    pub(super) async fn op_rename(
        &self,
        from: NameIn<'_>,
        to: NameIn<'_>,
        how: RenameMode,
        cred: &Cred,
    ) -> Result<Reply> {
        let _tree = if from.dir == to.dir { None } else { Some(self.rename_lock.write().await) };
        let from_dir = self.dirs.directory(from.dir).await?;
        let to_dir = self.dirs.directory(to.dir).await?;
        let gone = {
            // The inode numbers fix the order of the two locks, so that no two tasks that each lock
            // two directories can wait for each other.
            let (first, second) =
                if from.dir < to.dir { (&from_dir, &to_dir) } else { (&to_dir, &from_dir) };
            let _first = first.lock.write().await;
            let _second = if from.dir == to.dir { None } else { Some(second.lock.write().await) };
            let done =
                self.rename_locked(&from_dir, from.name, &to_dir, to.name, how, cred).await?;
            if let Some(done) = &done {
                let whiteout = match how.leaves_whiteout() {
                    true => self.dirs.find(&from_dir, from.name).await?,
                    false => None,
                };
                let whiteout = match whiteout {
                    Some(hit) => Some(self.files.inode(hit.ino).await?),
                    None => None,
                };
                self.order_rename(&from_dir, &to_dir, done, how, whiteout.as_ref()).await?;
            }
            done.and_then(|done| done.gone)
        };
        if let Some(gone) = gone {
            self.orphans.reap(gone).await?;
        }
        Ok(Reply::Done)
    }

    /// Makes those parts of a rename durable that the layout promises before the reply.
    async fn order_rename(
        &self,
        from: &Rc<Inode>,
        to: &Rc<Inode>,
        done: &RenameOutcome,
        how: RenameMode,
        whiteout: Option<&Rc<Inode>>,
    ) -> Result<()> {
        let mut inodes = vec![&done.source];
        inodes.extend(whiteout);
        let moves = |inode: &Rc<Inode>| from.ino != to.ino && inode.d.borrow().is_dir();
        // A directory that moves has changed too, because its first block contains `..`.
        let mut added = Vec::new();
        added.extend(moves(&done.source).then_some(&done.source));
        if let (RenameMode::Exchange, Some(target)) = (how, &done.target) {
            inodes.push(target);
            added.extend(moves(target).then_some(target));
        }
        added.push(to);
        let change = Change::Names { inodes: &inodes, added: &added, removed: &[from] };
        self.layout.enforce_order(&self.core, change).await
    }

    /// Renames under the locks of both directories. Returns `None` if both names lead to the same
    /// inode, so that there was nothing to do.
    async fn rename_locked(
        &self,
        from: &Rc<Inode>,
        from_name: &Name,
        to: &Rc<Inode>,
        to_name: &Name,
        how: RenameMode,
        cred: &Cred,
    ) -> Result<Option<RenameOutcome>> {
        perm::access(&self.guarded(from, cred).await?, cred, perm::EXECUTE)?;
        perm::access(&self.guarded(to, cred).await?, cred, perm::EXECUTE)?;
        check_dots(from_name, to_name, how)?;
        let source_hit = self.search(from, from_name, cred).await?.ok_or(FsError::NotFound)?;
        let source = self.files.inode(source_hit.ino).await?;
        let target = match self.search(to, to_name, cred).await? {
            Some(hit) => Some((self.files.inode(hit.ino).await?, hit)),
            None => None,
        };
        match (&target, how) {
            (Some(_), how) if how.needs_new_name() => return Err(FsError::Exists),
            (None, RenameMode::Exchange) => return Err(FsError::NotFound),
            _ => {}
        }
        self.check_no_loop(&source, to).await?;
        if let Some((inode, _)) = &target {
            if how == RenameMode::Exchange {
                self.check_no_loop(inode, from).await?;
            } else if self.is_within(from, inode).await? {
                // The target is an ancestor of the source, so it is not empty.
                return Err(FsError::NotEmpty);
            }
            if inode.ino == source.ino {
                return Ok(None);
            }
        }
        let replaced = target.as_ref().map(|(inode, _)| inode);
        self.may_rename((from, &source), (to, replaced), how, cred).await?;
        let moves = from.ino != to.ino;
        let target_moves = how == RenameMode::Exchange && moves;
        let source_parent = self.parent_hit(&source, moves).await?;
        let target_parent = match &target {
            Some((inode, _)) => self.parent_hit(inode, target_moves).await?,
            None => None,
        };
        if let Some((inode, _)) = &target {
            self.write_replacement(&source, inode, how).await?;
        }
        let mut renamed = RenameOutcome { source: Rc::clone(&source), target: None, gone: None };
        renamed.target = target.as_ref().map(|(inode, _)| Rc::clone(inode));
        let m =
            Move { from, to, source, source_hit, target, to_name, source_parent, target_parent };
        renamed.gone = match how {
            RenameMode::Exchange => self.exchange(m).await,
            how if how.leaves_whiteout() => self.whiteout(m, from_name, cred).await,
            _ => self.replace(m, from_name, None).await,
        }?;
        Ok(Some(renamed))
    }

    /// Fails if the client may not rename: by the permissions of both directories, the source and what has the
    /// new name, or because of quotas.
    async fn may_rename(
        &self,
        (from, source): (&Rc<Inode>, &Rc<Inode>),
        (to, target): (&Rc<Inode>, Option<&Rc<Inode>>),
        how: RenameMode,
        cred: &Cred,
    ) -> Result<()> {
        let exchange = how == RenameMode::Exchange;
        // The ACLs of both parents have been read for the searches.
        let attrs = (from.attr(), self.guarded(source, cred).await?, to.attr());
        let target_attr = match target {
            Some(inode) => Some(self.guarded(inode, cred).await?),
            None => None,
        };
        let sides = perm::RenameSides {
            from_dir: &attrs.0,
            source: &attrs.1,
            to_dir: &attrs.2,
            target: target_attr.as_ref(),
            exchange,
        };
        perm::may_rename(&sides, cred)?;
        self.check_quotas(source, from, to)?;
        match target.filter(|_| exchange) {
            Some(inode) => self.check_quotas(inode, to, from),
            None => Ok(()),
        }
    }

    /// Fails if `moved` would leave what counts for its quota: a directory with a quota of its own may go
    /// anywhere, and what lies somewhere against the rule may stay there.
    fn check_quotas(&self, moved: &Rc<Inode>, from: &Rc<Inode>, to: &Rc<Inode>) -> Result<()> {
        let quotas = [from, moved].map(|inode| self.core.quota_of(inode));
        let into = self.core.quota_of(to);
        let may = quotas.contains(&into) || self.core.quotas.of_root(moved.ino).is_some();
        if may { Ok(()) } else { Err(FsError::CrossDevice) }
    }

    /// Has the data of a file written that takes the name of another one, for clients that expect
    /// changes to be durable soon without asking: they would not ask before such a rename either.
    async fn write_replacement(
        &self,
        source: &Rc<Inode>,
        target: &Rc<Inode>,
        how: RenameMode,
    ) -> Result<()> {
        let is_file = |inode: &Rc<Inode>| inode.d.borrow().kind() == mode::REGULAR;
        let asked = self.core.settings.durable_within_ns.is_some() && how.replaces();
        match asked && is_file(source) && is_file(target) {
            true => self.layout.before_replace(&self.core, source).await,
            false => Ok(()),
        }
    }

    /// The `..` entry of an inode, if it is a directory and moves to another parent.
    async fn parent_hit(&self, inode: &Rc<Inode>, moves: bool) -> Result<Option<Hit>> {
        if !moves || !inode.d.borrow().is_dir() {
            return Ok(None);
        }
        match self.dirs.find(inode, b"..").await? {
            Some(hit) => Ok(Some(hit)),
            None => {
                let what = format!("directory {} has no entry for its parent", inode.ino);
                Err(FsError::inconsistent(what))
            }
        }
    }

    /// Fails if `moved` is a directory that would become its own descendant in `into`.
    async fn check_no_loop(&self, moved: &Rc<Inode>, into: &Rc<Inode>) -> Result<()> {
        if moved.d.borrow().is_dir() && self.is_within(into, moved).await? {
            // The target directory may have been removed during the search of its ancestors.
            if into.d.borrow().nlink == 0 {
                return Err(FsError::NotFound);
            }
            return Err(FsError::Invalid("a directory cannot move into itself"));
        }
        Ok(())
    }

    /// True if `dir` is `ancestor` or below it.
    async fn is_within(&self, dir: &Rc<Inode>, ancestor: &Rc<Inode>) -> Result<bool> {
        if !ancestor.d.borrow().is_dir() {
            return Ok(false);
        }
        let mut at = Rc::clone(dir);
        loop {
            if at.ino == ancestor.ino {
                return Ok(true);
            }
            if at.ino == ROOT_INO {
                return Ok(false);
            }
            let Some(up) = self.dirs.find(&at, b"..").await? else {
                let what = format!("directory {} has no entry for its parent", at.ino);
                return Err(FsError::inconsistent(what));
            };
            // A removed directory is no longer part of the tree.
            if at.d.borrow().nlink == 0 {
                return Ok(false);
            }
            at = self.dirs.directory(up.ino).await?;
        }
    }

    /// A rename that replaces the target, if there is one. With a whiteout, the old name stays and
    /// leads to the whiteout.
    async fn replace(
        &self,
        m: Move<'_>,
        from_name: &Name,
        whiteout: Option<Rc<Inode>>,
    ) -> Result<Option<Ino>> {
        let dirs = m.source.d.borrow().is_dir();
        let _admission = self.files.admit_small(Need::Shrink).await?;
        // In one directory both names may be in the same block of the index, so one plan covers
        // both changes.
        let together = m.from.ino == m.to.ino && m.target.is_none() && whiteout.is_none();
        let insert = match &m.target {
            Some(_) => None,
            None => {
                let removed = together.then_some((&from_name[..], &m.source_hit));
                Some(self.dirs.plan_insert_and(m.to, m.to_name, removed).await?)
            }
        };
        let _held = match &m.target {
            Some((target, hit)) => {
                let mut pinned = self.dirs.pin_hit(m.to, hit).await?;
                pinned.extend(self.dirs.pin_entries(target).await?);
                pinned
            }
            None => Vec::new(),
        };
        let remove = match (&whiteout, together) {
            (Some(_), _) => None,
            (None, true) => Some(self.dirs.plan_unlisted(m.from, &m.source_hit).await?),
            (None, false) => Some(self.dirs.plan_remove(m.from, from_name, &m.source_hit).await?),
        };
        // From here on nothing waits: what may have changed during the waits is checked again, and
        // the checks and the change are one step.
        if m.to.d.borrow().nlink == 0 {
            return Err(FsError::NotFound);
        }
        if let Some((target, _)) = &m.target
            && dirs
            && !self.dirs.is_empty_dir(target)
        {
            return Err(FsError::NotEmpty);
        }
        let grows = dirs && m.from.ino != m.to.ino && m.target.is_none();
        if grows && m.to.d.borrow().nlink >= self.core.features.link_max {
            return Err(FsError::TooManyLinks);
        }
        let growth = insert.as_ref().map_or(0, |plan| self.dirs.insert_space(m.to, plan));
        self.core.check_quota(m.to, growth)?;
        let space = growth
            + remove.as_ref().map_or(0, |plan| self.dirs.remove_space(plan))
            + if whiteout.is_some() { self.core.features.new_inode_bytes } else { 0 };
        self.layout.reserve(&self.core, space)?;
        self.move_name(&m, insert, remove, whiteout)
    }

    /// Applies a rename of [`replace`](Self::replace) in one step. It is not `async`: a crash sees
    /// either the old name or the new one.
    fn move_name(
        &self,
        m: &Move<'_>,
        insert: Option<InsertPlan>,
        remove: Option<RemovePlan>,
        whiteout: Option<Rc<Inode>>,
    ) -> Result<Option<Ino>> {
        let now = self.core.now();
        let kind = m.source_hit.kind;
        if let Some((_, hit)) = &m.target {
            self.dirs.redirect(m.to, hit, m.source.ino, kind)?;
        }
        if let Some(plan) = insert {
            self.dirs.insert(m.to, plan, m.to_name, m.source.ino, kind);
        }
        if let Some(plan) = remove {
            self.dirs.remove_name(m.from, &m.source_hit, plan)?;
        }
        if let Some(inode) = &whiteout {
            let inode = self.core.add_inode(Rc::clone(inode));
            {
                // The whiteout was prepared before the waits, so its times are renewed.
                let mut d = inode.d.borrow_mut();
                (d.atime, d.mtime, d.ctime) = (now, now, now);
                d.btime = if self.core.features.birth_time { now } else { d.btime };
            }
            self.layout.inode_event(&self.core, InodeEvent::Created(&inode));
            self.core.mark_inode_dirty(&inode);
            self.dirs.redirect(m.from, &m.source_hit, inode.ino, mode::CHAR)?;
        }
        let is_dir = m.source.d.borrow().is_dir();
        let replaced_dir = is_dir && m.target.is_some();
        let (mut from_links, mut to_links) = (0, 0);
        if is_dir && m.from.ino != m.to.ino {
            (from_links, to_links) = (-1, 1);
        }
        if replaced_dir {
            to_links -= 1;
        }
        let gone = m.target.as_ref().map(|(inode, _)| {
            self.orphans.unlink(inode, now);
            inode.ino
        });
        self.finish(m, None, now, from_links, to_links)?;
        Ok(gone)
    }

    /// Updates times, link counts and `..` entries after a rename, as a part of the same step.
    fn finish(
        &self,
        m: &Move<'_>,
        swapped: Option<&Rc<Inode>>,
        now: crate::Timestamp,
        from_links: i64,
        to_links: i64,
    ) -> Result<()> {
        let moved = [
            Some((&m.source, &m.source_parent, m.to)),
            swapped.map(|t| (t, &m.target_parent, m.from)),
        ];
        for (inode, parent, dir) in moved.into_iter().flatten() {
            if let Some(hit) = parent {
                // The entry was found in a block that was checked and is pinned, so only damage in
                // memory could make this fail.
                self.dirs.redirect(inode, hit, dir.ino, mode::DIRECTORY)?;
            }
            inode.d.borrow_mut().ctime = now;
            self.core.mark_inode_dirty(inode);
        }
        if m.from.ino == m.to.ino {
            self.dirs.touch_dir(m.from, now, from_links + to_links);
        } else {
            self.dirs.touch_dir(m.from, now, from_links);
            self.dirs.touch_dir(m.to, now, to_links);
        }
        Ok(())
    }

    /// A rename in which the two names change places.
    async fn exchange(&self, m: Move<'_>) -> Result<Option<Ino>> {
        let Some((target, target_hit)) = &m.target else { return Err(FsError::NotFound) };
        let _admission = self.files.admit_small(Need::Shrink).await?;
        let _held = (
            self.dirs.pin_hit(m.from, &m.source_hit).await?,
            self.dirs.pin_hit(m.to, target_hit).await?,
        );
        // From here on nothing waits, so both names change in one step.
        let is_dir = |inode: &Rc<Inode>| i64::from(inode.d.borrow().is_dir());
        let (mut from_links, mut to_links) = (0, 0);
        if m.from.ino != m.to.ino {
            from_links = is_dir(target) - is_dir(&m.source);
            to_links = -from_links;
        }
        for (dir, links) in [(m.from, from_links), (m.to, to_links)] {
            if links > 0 && dir.d.borrow().nlink >= self.core.features.link_max {
                return Err(FsError::TooManyLinks);
            }
        }
        let now = self.core.now();
        self.dirs.redirect(m.to, target_hit, m.source.ino, m.source_hit.kind)?;
        self.dirs.redirect(m.from, &m.source_hit, target.ino, target_hit.kind)?;
        let target = Rc::clone(target);
        self.finish(&m, Some(&target), now, from_links, to_links)?;
        Ok(None)
    }

    /// A rename that leaves a whiteout (character device 0, 0) under the old name.
    async fn whiteout(&self, m: Move<'_>, from_name: &Name, cred: &Cred) -> Result<Option<Ino>> {
        let birth = perm::initial_attrs(&m.from.attr(), cred, mode::CHAR);
        let picked: Picked = self.layout.pick_inode(&self.core, m.from.ino, mode::CHAR).await?;
        let geometry = &self.core.geometry;
        let now = self.core.now();
        let d = Dinode::new(geometry, picked.ino, picked.generation, birth.mode, now);
        let d = Dinode { nlink: 1, uid: birth.uid, gid: birth.gid, ..d };
        let _held = self.dirs.pin_hit(m.from, &m.source_hit).await;
        let result = match _held {
            Ok(_) => self.replace(m, from_name, Some(Inode::new(d))).await,
            Err(ref error) => Err(error.clone()),
        };
        if result.is_err() {
            self.layout.inode_event(&self.core, InodeEvent::Unpicked(picked));
        }
        result
    }
}

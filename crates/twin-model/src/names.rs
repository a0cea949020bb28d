//! The operations on names: finding, making, removing, moving, listing.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Body, Call, Content, Directory, Inode, ModelFs, Slot, check_name, is_dot};
use twin_fs::acl::{self, AccessAcl, Acl, Inherited};
use twin_fs::perm::{self, RenameSides, Victim};
use twin_fs::{Attr, DirEntry, FsError, Ino, Name, RenameMode, Reply, Result, Timestamp, mode};

/// Bytes of an entry in the reply to a listing, beside the name rounded up to 8.
const ENTRY_COST: usize = 24;
/// Bytes of an entry in a listing with attributes.
const PLUS_COST: usize = 128;

impl ModelFs {
    /// A directory with its attributes.
    fn dir(&self, ino: Ino) -> Result<(&Attr, &Directory)> {
        match self.inode(ino)? {
            Inode { attr, body: Body::Dir(dir), .. } => Ok((attr, dir)),
            _ => Err(FsError::NotDirectory),
        }
    }

    fn edit_dir(&mut self, ino: Ino) -> &mut Directory {
        match &mut self.edit(ino).body {
            Body::Dir(dir) => dir,
            _ => unreachable!("inode {ino} was just seen to be a directory"),
        }
    }

    /// Checks that a directory may be searched.
    fn check_search(&self, call: &Call<'_>, dir: Ino) -> Result<()> {
        let (attr, _) = self.dir(dir)?;
        perm::access(attr, &call.request.cred, perm::EXECUTE)
    }

    /// Finds a name in a directory that may be searched: the directory has not been removed, and
    /// the name is possible. Gives the directory's attributes and what the name leads to.
    fn find(&self, dir: Ino, name: &[u8]) -> Result<(&Attr, Option<Ino>)> {
        let (attr, directory) = self.dir(dir)?;
        if attr.nlink == 0 {
            return Err(FsError::NotFound);
        }
        check_name(name)?;
        let found = match name {
            b"." => Some(dir),
            b".." => Some(directory.parent),
            _ => directory.names.get(name).map(|slot| slot.ino),
        };
        Ok((attr, found))
    }

    fn search(&self, call: &Call<'_>, dir: Ino, name: &[u8]) -> Result<(&Attr, Option<Ino>)> {
        self.check_search(call, dir)?;
        self.find(dir, name)
    }

    pub(super) fn lookup(&mut self, call: &Call<'_>, dir: Ino, name: &[u8]) -> Result<Reply> {
        let ino = match name {
            b"." => self.itself(call, dir)?,
            name => self.search(call, dir, name)?.1.ok_or(FsError::NotFound)?,
        };
        Ok(Reply::Entry(self.entry(ino)))
    }

    /// An inode of any kind that has a name.
    fn itself(&self, call: &Call<'_>, ino: Ino) -> Result<Ino> {
        let attr = &self.inode(ino)?.attr;
        if attr.is_dir() {
            self.check_search(call, ino)?;
        }
        if attr.nlink == 0 { Err(FsError::NotFound) } else { Ok(ino) }
    }

    /// Checks that a name may be added. Gives the directory's attributes.
    fn check_new(&self, call: &Call<'_>, dir: Ino, name: &[u8]) -> Result<&Attr> {
        let (attr, found) = self.search(call, dir, name)?;
        if found.is_some() {
            return Err(FsError::Exists);
        }
        perm::may_create(attr, &call.request.cred)?;
        Ok(attr)
    }

    /// Makes an inode and its name; everything has been checked.
    fn add_inode(&mut self, call: &Call<'_>, dir: Ino, name: &[u8], mode: u32, body: Body) -> Ino {
        let ino = self.new_ino(call);
        let is_dir = matches!(body, Body::Dir(_));
        let default = self.inodes[&dir].xattrs.get(acl::DEFAULT);
        let default = default.and_then(|value| Acl::parse(value).ok()?);
        let inherited = acl::inherit(default.map(Rc::new).as_ref(), mode);
        self.make_inode(call, dir, ino, inherited, body);
        self.add_name(dir, name, ino, call.now);
        if is_dir {
            self.edit(dir).attr.nlink += 1;
        }
        ino
    }

    /// Makes an inode that is to have one name, in `dir`.
    fn make_inode(
        &mut self,
        call: &Call<'_>,
        dir: Ino,
        ino: Ino,
        inherited: Inherited,
        body: Body,
    ) {
        let (parent, cred) = (&self.inodes[&dir].attr, &call.request.cred);
        let birth = perm::initial_attrs(parent, cred, inherited.mode);
        let mut xattrs = BTreeMap::new();
        if let Some(acl) = &inherited.access {
            xattrs.insert(acl::ACCESS.into(), acl.encode().into());
        }
        if let Some(acl) = &inherited.default {
            xattrs.insert(acl::DEFAULT.into(), acl.encode().into());
        }
        let attr = Attr {
            ino,
            acl: inherited.access.map_or_else(AccessAcl::default, AccessAcl::new),
            mode: birth.mode,
            nlink: if matches!(body, Body::Dir(_)) { 2 } else { 1 },
            uid: birth.uid,
            gid: birth.gid,
            size: if let Body::Symlink(target) = &body { target.len() as u64 } else { 0 },
            atime: call.now,
            mtime: call.now,
            ctime: call.now,
            btime: if self.settings.birth_times { call.now } else { Timestamp::default() },
            ..Attr::default()
        };
        let inode = Inode { attr, body, xattrs, refs: 0, opens: 0 };
        self.inodes.insert(ino, Rc::new(inode));
    }

    fn new_ino(&mut self, call: &Call<'_>) -> Ino {
        let next = match call.ino {
            Some(ino) if !self.inodes.contains_key(&ino) => return ino,
            // The volume has given a number twice; the comparison of the replies will tell.
            Some(_) => &mut self.next_provisional,
            None => &mut self.next_ino,
        };
        *next += 1;
        *next - 1
    }

    fn add_name(&mut self, dir: Ino, name: &[u8], ino: Ino, now: Timestamp) {
        let directory = self.edit_dir(dir);
        let place = directory.next_place;
        directory.next_place += 1;
        directory.names.insert(name.into(), Slot { ino, place });
        self.touch_dir(dir, now);
    }

    fn touch_dir(&mut self, dir: Ino, now: Timestamp) {
        let attr = &mut self.edit(dir).attr;
        (attr.mtime, attr.ctime) = (now, now);
    }

    pub(super) fn make_node(
        &mut self,
        call: &Call<'_>,
        dir: Ino,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Reply> {
        self.check_new(call, dir, name)?;
        let mode = perm::may_make_node(&call.request.cred, mode, rdev)?;
        let body = match mode & mode::TYPE {
            mode::REGULAR => Body::File(Content::default()),
            _ => Body::Special,
        };
        let ino = self.add_inode(call, dir, name, mode, body);
        if matches!(mode & mode::TYPE, mode::BLOCK | mode::CHAR) {
            self.edit(ino).attr.rdev = rdev;
        }
        Ok(Reply::Entry(self.entry(ino)))
    }

    pub(super) fn make_dir(
        &mut self,
        call: &Call<'_>,
        dir: Ino,
        name: &[u8],
        mode: u32,
    ) -> Result<Reply> {
        let parent = self.check_new(call, dir, name)?;
        if parent.nlink >= self.settings.link_max {
            return Err(FsError::TooManyLinks);
        }
        let mode = mode::DIRECTORY | mode & !mode::TYPE;
        let ino = self.add_inode(call, dir, name, mode, Body::Dir(Directory::new(dir)));
        Ok(Reply::Entry(self.entry(ino)))
    }

    pub(super) fn symlink(
        &mut self,
        call: &Call<'_>,
        dir: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Reply> {
        if target.is_empty() {
            return Err(FsError::NotFound);
        }
        if target.len() > self.settings.symlink_max {
            return Err(FsError::NameTooLong);
        }
        if target.contains(&0) {
            return Err(FsError::Invalid("a link target has no zero"));
        }
        self.check_new(call, dir, name)?;
        let body = Body::Symlink(target.into());
        let ino = self.add_inode(call, dir, name, mode::SYMLINK | 0o777, body);
        Ok(Reply::Entry(self.entry(ino)))
    }

    pub(super) fn read_link(&self, ino: Ino) -> Result<Reply> {
        match &self.inode(ino)?.body {
            Body::Symlink(target) => Ok(Reply::Bytes(target.clone())),
            _ => Err(FsError::Invalid("not a symbolic link")),
        }
    }

    pub(super) fn create(
        &mut self,
        call: &Call<'_>,
        dir: Ino,
        name: &[u8],
        mode: u32,
        exclusive: bool,
    ) -> Result<Reply> {
        let (_, found) = self.search(call, dir, name)?;
        let ino = match found {
            Some(_) if exclusive => return Err(FsError::Exists),
            Some(ino) => {
                let attr = &self.inodes[&ino].attr;
                if attr.is_dir() {
                    return Err(FsError::IsDirectory);
                }
                perm::may_open(attr, &call.request.cred, false, false, false)?;
                ino
            }
            None => {
                self.check_new(call, dir, name)?;
                let mode = mode::REGULAR | mode & !mode::TYPE;
                self.add_inode(call, dir, name, mode, Body::File(Content::default()))
            }
        };
        self.edit(ino).opens += 1;
        Ok(Reply::Entry(self.entry(ino)))
    }

    pub(super) fn link(
        &mut self,
        call: &Call<'_>,
        ino: Ino,
        dir: Ino,
        name: &[u8],
    ) -> Result<Reply> {
        self.inode(ino)?;
        let (parent, found) = self.search(call, dir, name)?;
        if found.is_some() {
            return Err(FsError::Exists);
        }
        let attr = &self.inodes[&ino].attr;
        perm::may_link(parent, attr, &call.request.cred)?;
        match attr.nlink {
            0 => return Err(FsError::NotFound),
            n if n >= self.settings.link_max => return Err(FsError::TooManyLinks),
            _ => {}
        }
        self.add_name(dir, name, ino, call.now);
        let attr = &mut self.edit(ino).attr;
        attr.nlink += 1;
        attr.ctime = call.now;
        Ok(Reply::Entry(self.entry(ino)))
    }

    pub(super) fn unlink(&mut self, call: &Call<'_>, dir: Ino, name: &[u8]) -> Result<Reply> {
        let (parent, found) = self.search(call, dir, name)?;
        if is_dot(name) {
            return Err(FsError::IsDirectory);
        }
        let ino = found.ok_or(FsError::NotFound)?;
        let victim = &self.inodes[&ino].attr;
        perm::may_delete(parent, victim, &call.request.cred, Victim::NotDirectory)?;
        self.remove_name(dir, name, call.now);
        self.unlink_inode(ino, call.now);
        Ok(Reply::Done)
    }

    fn remove_name(&mut self, dir: Ino, name: &[u8], now: Timestamp) {
        self.edit_dir(dir).names.remove(name);
        self.touch_dir(dir, now);
    }

    /// Takes one name from an inode, all from a directory.
    fn unlink_inode(&mut self, ino: Ino, now: Timestamp) {
        let attr = &mut self.edit(ino).attr;
        attr.nlink = if attr.is_dir() { 0 } else { attr.nlink - 1 };
        attr.ctime = now;
        self.drop_if_dead(ino);
    }

    pub(super) fn remove_dir(&mut self, call: &Call<'_>, dir: Ino, name: &[u8]) -> Result<Reply> {
        let (parent, found) = self.search(call, dir, name)?;
        match name {
            b"." => return Err(FsError::Invalid("a directory is not removed by its own dot")),
            b".." => return Err(FsError::NotEmpty),
            _ => {}
        }
        let ino = found.ok_or(FsError::NotFound)?;
        let victim = &self.inodes[&ino].attr;
        perm::may_delete(parent, victim, &call.request.cred, Victim::Directory)?;
        self.check_empty(ino)?;
        self.remove_name(dir, name, call.now);
        self.edit(dir).attr.nlink -= 1;
        self.unlink_inode(ino, call.now);
        Ok(Reply::Done)
    }

    fn check_empty(&self, ino: Ino) -> Result<()> {
        let (_, dir) = self.dir(ino)?;
        if dir.names.is_empty() { Ok(()) } else { Err(FsError::NotEmpty) }
    }

    /// True if `dir` is `ino` or lies below it.
    fn is_below(&self, mut dir: Ino, ino: Ino) -> bool {
        loop {
            if dir == ino {
                return true;
            }
            match self.dir(dir) {
                Ok((_, directory)) if directory.parent != dir => dir = directory.parent,
                _ => return false,
            }
        }
    }

    pub(super) fn rename(
        &mut self,
        call: &Call<'_>,
        (dir, name): (Ino, &[u8]),
        (to_dir, to_name): (Ino, &[u8]),
        how: RenameMode,
    ) -> Result<Reply> {
        self.dir(dir).and(self.dir(to_dir))?;
        self.check_search(call, dir).and(self.check_search(call, to_dir))?;
        match (is_dot(name), is_dot(to_name), how) {
            (false, false, _) => {}
            (false, true, how) if how.needs_new_name() => return Err(FsError::Exists),
            _ => return Err(FsError::Invalid("a dot cannot be renamed")),
        }
        let source = self.find(dir, name)?.1.ok_or(FsError::NotFound)?;
        let (_, target) = self.find(to_dir, to_name)?;
        match (how, target) {
            (how, Some(_)) if how.needs_new_name() => return Err(FsError::Exists),
            (RenameMode::Exchange, None) => return Err(FsError::NotFound),
            _ => {}
        }
        if self.is_below(to_dir, source) {
            return Err(FsError::Invalid("a directory cannot move into itself"));
        }
        if let Some(target) = target
            && self.is_below(dir, target)
        {
            return Err(match how {
                RenameMode::Exchange => {
                    FsError::Invalid("a directory cannot change places with one below it")
                }
                _ => FsError::NotEmpty,
            });
        }
        if target == Some(source) {
            return Ok(Reply::Done);
        }
        self.check_rename(call, dir, source, to_dir, target, how)?;
        match (how, target) {
            (RenameMode::Exchange, Some(target)) => {
                self.exchange(call, (dir, name, source), (to_dir, to_name, target));
            }
            _ => self.replace(call, (dir, name, source), (to_dir, to_name, target), how),
        }
        Ok(Reply::Done)
    }

    /// Rights, link counts and emptiness.
    fn check_rename(
        &self,
        call: &Call<'_>,
        dir: Ino,
        source: Ino,
        to_dir: Ino,
        target: Option<Ino>,
        how: RenameMode,
    ) -> Result<()> {
        let attr = |ino: Ino| &self.inodes[&ino].attr;
        let exchange = how == RenameMode::Exchange;
        let sides = RenameSides {
            from_dir: attr(dir),
            source: attr(source),
            to_dir: attr(to_dir),
            target: target.map(attr),
            exchange,
        };
        perm::may_rename(&sides, &call.request.cred)?;
        let source_is_dir = attr(source).is_dir();
        let target_is_dir = target.is_some_and(|target| attr(target).is_dir());
        if dir != to_dir {
            let full = |dir: Ino| attr(dir).nlink >= self.settings.link_max;
            let gains = source_is_dir && !target_is_dir;
            let gives_back = exchange && target_is_dir && !source_is_dir;
            if (gains && full(to_dir)) || (gives_back && full(dir)) {
                return Err(FsError::TooManyLinks);
            }
        }
        match target {
            Some(target) if target_is_dir && !exchange => self.check_empty(target),
            _ => Ok(()),
        }
    }

    /// Moves a name, over another if need be. The replaced name keeps its place in listings.
    fn replace(
        &mut self,
        call: &Call<'_>,
        (dir, name, source): (Ino, &[u8], Ino),
        (to_dir, to_name, target): (Ino, &[u8], Option<Ino>),
        how: RenameMode,
    ) {
        let now = call.now;
        let is_dir = self.inodes[&source].attr.is_dir();
        match target {
            None => self.add_name(to_dir, to_name, source, now),
            Some(target) => {
                self.set_slot(to_dir, to_name, source);
                self.touch_dir(to_dir, now);
                if is_dir {
                    self.edit(to_dir).attr.nlink -= 1;
                }
                self.unlink_inode(target, now);
            }
        }
        if how.leaves_whiteout() {
            let ino = self.next_provisional;
            self.next_provisional += 1;
            self.make_inode(call, dir, ino, acl::inherit(None, mode::CHAR), Body::Special);
            self.set_slot(dir, name, ino);
        } else {
            self.remove_name(dir, name, now);
        }
        self.touch_dir(dir, now);
        self.edit(source).attr.ctime = now;
        if is_dir {
            self.edit_dir(source).parent = to_dir;
            self.edit(dir).attr.nlink -= 1;
            self.edit(to_dir).attr.nlink += 1;
        }
    }

    fn set_slot(&mut self, dir: Ino, name: &[u8], ino: Ino) {
        if let Some(slot) = self.edit_dir(dir).names.get_mut(name) {
            slot.ino = ino;
        }
    }

    fn exchange(
        &mut self,
        call: &Call<'_>,
        (dir, name, source): (Ino, &[u8], Ino),
        (to_dir, to_name, target): (Ino, &[u8], Ino),
    ) {
        self.set_slot(dir, name, target);
        self.set_slot(to_dir, to_name, source);
        for (ino, from, to) in [(source, dir, to_dir), (target, to_dir, dir)] {
            self.edit(ino).attr.ctime = call.now;
            if self.inodes[&ino].attr.is_dir() {
                self.edit_dir(ino).parent = to;
                self.edit(from).attr.nlink -= 1;
                self.edit(to).attr.nlink += 1;
            }
        }
        self.touch_dir(dir, call.now);
        self.touch_dir(to_dir, call.now);
    }

    /// A directory's names with their places and inodes, by place: `.` has 1, `..` has 2.
    pub(super) fn list(&self, dir: Ino) -> Result<Vec<(u64, Name, Ino)>> {
        let (attr, directory) = self.dir(dir)?;
        if attr.nlink == 0 {
            return Err(FsError::NotFound);
        }
        let dots = [(1, Name::from(*b"."), dir), (2, Name::from(*b".."), directory.parent)];
        let names = directory.names.iter().map(|(name, slot)| (slot.place, name.clone(), slot.ino));
        let mut all: Vec<_> = dots.into_iter().chain(names).collect();
        all.sort();
        Ok(all)
    }

    /// Lists from a cookie, which is the place to go on from.
    pub(super) fn read_dir(
        &mut self,
        dir: Ino,
        cookie: u64,
        max_bytes: u32,
        plus: bool,
    ) -> Result<Reply> {
        let mut list: Vec<DirEntry> = Vec::new();
        let mut left = max_bytes as usize;
        for (place, name, ino) in self.list(dir)?.into_iter().filter(|(at, ..)| *at >= cookie) {
            let plus_cost = if plus { PLUS_COST } else { 0 };
            let cost = ENTRY_COST + name.len().next_multiple_of(8) + plus_cost;
            if cost > left && list.is_empty() {
                return Err(FsError::Invalid("no room for one directory entry"));
            }
            if cost > left {
                break;
            }
            left -= cost;
            let entry = (plus && !is_dot(&name)).then(|| Box::new(self.entry(ino)));
            let kind = self.inodes[&ino].attr.kind();
            list.push(DirEntry { name, ino, kind, next: place + 1, entry });
        }
        Ok(Reply::Dir(list))
    }
}

//! Calls with paths.
//!
//! Contract: a path is reached by a lookup of its last name. What succeeds shows that a name was there, what
//! fails with ENOENT that it was not; other failures show nothing.

use twin_fs::{Ino, Name, Op, RenameMode, SetAttr, SetTime, XattrMode, mode};

use super::args::{field, mode_of, string};
use super::call::Call;
use super::maker::{Maker, Unnamed};
use super::world::{Step, Stop, Target, Way};
use crate::readers::tree::Tree;
use crate::record::Outcome;

/// The argument with the directory at which a path begins, if there is one, and that with the path.
type Place = (Option<usize>, usize);

const NO_NAME: Stop = Stop::Left("with a path that names no file");

impl Maker {
    /// Calls with paths; `None` for others.
    pub(super) fn of_names(&mut self, call: &Call, pid: u32) -> Option<Step<()>> {
        let name = call.name.as_str();
        // Names of calls that end with `at` have a directory before each path.
        let is_at =
            matches!(name, "renameat2" | "faccessat2" | "fchmodat2" | "statx" | "fstatat64")
                || name.ends_with("at") && !name.ends_with("stat");
        let is_at = is_at || name == "newfstatat";
        let place: Place = if is_at { (Some(0), 1) } else { (None, 0) };
        Some(match name {
            "stat" | "stat64" | "lstat" | "lstat64" | "oldstat" | "newfstatat" | "fstatat64"
            | "statx" | "fstat" | "fstat64" => self.tells(call, pid, place),
            "access" | "faccessat" | "faccessat2" => {
                self.look(call, pid, place, true, None).map(|_| ())
            }
            "readlink" | "readlinkat" => self.reads_link(call, pid, place),
            "chmod" | "fchmodat" | "fchmodat2" | "fchmod" | "chown" | "lchown" | "fchownat"
            | "fchown" | "chown32" | "lchown32" | "fchown32" | "utimensat" | "utimensat_time64"
            | "utime" | "utimes" | "futimesat" => self.touches(call, pid, place),
            "truncate" | "truncate64" => {
                let ino = self.look(call, pid, place, true, None);
                let size = call.number(1).ok_or(Stop::Left("calls that cannot be read"));
                ino.and_then(|ino| self.truncate(ino, size?))
            }
            "mkdir" | "mkdirat" | "mknod" | "mknodat" => self.makes(call, pid, place),
            "symlink" | "symlinkat" => self.makes_link(call, pid),
            "unlink" | "unlinkat" | "rmdir" => self.removes(call, pid, place),
            "rename" | "renameat" | "renameat2" => self.renames(call, pid, is_at),
            "link" | "linkat" => self.links(call, pid, is_at),
            "setxattr" | "lsetxattr" | "fsetxattr" | "removexattr" | "lremovexattr"
            | "fremovexattr" | "getxattr" | "lgetxattr" | "fgetxattr" | "listxattr"
            | "llistxattr" | "flistxattr" => self.attribute(call, pid),
            "bind" => self.bind(call, pid),
            _ => return None,
        })
    }

    /// Calls that tell the kind and length of a file.
    fn tells(&mut self, call: &Call, pid: u32, place: Place) -> Step<()> {
        let is_descriptor = call.name.starts_with("fstat") && call.name != "fstatat64";
        let is_empty = place.0.is_some() && matches!(call.arg(1), "\"\"" | "NULL");
        if is_descriptor || is_empty {
            let ino = match call.descriptor(0) {
                Some((super::args::AT_FDCWD, _)) => self.cwd(pid)?,
                _ => self.file(call, pid, 0)?.1.ino,
            };
            call.result.ok_or(Stop::Failed)?;
            self.told(ino, call);
            self.stat(ino);
            return Ok(());
        }
        let flags = match call.name.as_str() {
            "statx" => 2,
            _ => 3,
        };
        let asks_of_link = place.0.is_some() && call.has(flags, "AT_SYMLINK_NOFOLLOW", 0x100);
        let follow = !call.name.starts_with("lstat") && !asks_of_link;
        let ino = self.look(call, pid, place, follow, call.says_kind())?;
        self.told(ino, call);
        Ok(())
    }

    /// Applies what the result of a call shows about a file.
    fn told(&mut self, ino: Ino, call: &Call) {
        if let Some(kind) = call.says_kind()
            && !(self.world.is_kind(ino, kind) && self.agrees(ino, kind))
        {
            return;
        }
        if let Some(size) = call.says_size() {
            self.world.has_size(ino, size);
        }
    }

    fn reads_link(&mut self, call: &Call, pid: u32, place: Place) -> Step<()> {
        let ino = self.look(call, pid, place, false, None)?;
        let target = call.args.get(place.1 + 1).and_then(|text| string(text));
        if let Some(target) = target.filter(|target| Some(target.len() as i64) == call.result) {
            self.world.links_to(ino, &target);
        }
        if self.world.tree.inode(ino).special == mode::SYMLINK {
            let bytes = self.world.tree.inode(ino).size;
            self.world.tree.op(Op::ReadLink { ino }, Outcome::Bytes(bytes));
        }
        Ok(())
    }

    /// The inode of a call with a path or a descriptor.
    fn subject(&mut self, call: &Call, pid: u32, place: Place) -> Step<Ino> {
        let name = call.name.as_str();
        let is_descriptor = matches!(
            name,
            "fchmod"
                | "fchown"
                | "fchown32"
                | "fsetxattr"
                | "fremovexattr"
                | "fgetxattr"
                | "flistxattr"
        );
        if is_descriptor || place.0.is_some() && matches!(call.arg(1), "NULL" | "\"\"") {
            return Ok(self.file(call, pid, 0)?.1.ino);
        }
        let follow = !matches!(name.as_bytes()[0], b'l')
            && !call.args.iter().skip(2).any(|arg| arg.contains("AT_SYMLINK_NOFOLLOW"));
        self.look(call, pid, place, follow, None)
    }

    fn touches(&mut self, call: &Call, pid: u32, place: Place) -> Step<()> {
        let ino = self.subject(call, pid, place)?;
        call.result.ok_or(Stop::Failed)?;
        let name = call.name.as_str();
        let new = name.contains("chmod").then(|| call.arg(if place.0.is_some() { 2 } else { 1 }));
        match new.and_then(mode_of) {
            Some(new) if self.world.tree.inode(ino).special != mode::SYMLINK => {
                let set = SetAttr { mode: Some(new & mode::PERMISSIONS), ..SetAttr::default() };
                self.world.tree.op(Op::SetAttr { ino, set }, Outcome::Attr);
            }
            _ => self.mark(ino),
        }
        Ok(())
    }

    /// The name of what a call makes, which is free afterwards; or the failure to make it.
    fn fresh(&mut self, call: &Call, pid: u32, place: Place) -> Step<(Ino, Name)> {
        if call.result.is_none() {
            return Err(self.look(call, pid, place, false, None).err().unwrap_or(Stop::Failed));
        }
        match self.path(call, pid, place, Way { is_there: true, follow: false })? {
            Target::Name(dir, name) => {
                self.world.place_to_make(dir, &name);
                Ok((dir, name))
            }
            Target::Node(_) => Err(NO_NAME),
        }
    }

    fn makes(&mut self, call: &Call, pid: u32, place: Place) -> Step<()> {
        let (dir, name) = self.fresh(call, pid, place)?;
        if call.name.starts_with("mkdir") {
            self.world.tree.make_dir(dir, &name);
            return Ok(());
        }
        let bits = mode_of(call.arg(place.1 + 1)).ok_or(Stop::Left("calls that cannot be read"))?;
        let kind = if bits & mode::TYPE == 0 { mode::REGULAR } else { 0 };
        self.world.tree.make_node(dir, &name, bits | kind);
        Ok(())
    }

    fn makes_link(&mut self, call: &Call, pid: u32) -> Step<()> {
        let place = if call.name == "symlinkat" { (Some(1), 2) } else { (None, 1) };
        let (dir, name) = self.fresh(call, pid, place)?;
        let target = string(call.arg(0)).filter(|target| !target.is_empty());
        let target = target.ok_or(Stop::Left("with a path that is not in the text"))?;
        let ino = self.world.tree.symlink(dir, &name, &target);
        self.world.links_to(ino, &target);
        Ok(())
    }

    fn removes(&mut self, call: &Call, pid: u32, place: Place) -> Step<()> {
        let is_dir = call.name == "rmdir" || call.has(2, "AT_REMOVEDIR", 0x200);
        if call.result.is_none() {
            return self.look(call, pid, place, false, None).map(|_| ());
        }
        let way = Way { is_there: true, follow: false };
        let Target::Name(dir, name) = self.path(call, pid, place, way)? else {
            return Err(NO_NAME);
        };
        let kind = if is_dir { mode::DIRECTORY } else { mode::REGULAR };
        let ino = self.world.existed(dir, &name, kind);
        if is_dir {
            self.world.is_kind(ino, kind);
        }
        self.world.tree.lookup(dir, &name);
        self.world.remove(dir, &name);
        Ok(())
    }

    fn renames(&mut self, call: &Call, pid: u32, is_at: bool) -> Step<()> {
        let (from, to): (Place, Place) =
            if is_at { ((Some(0), 1), (Some(2), 3)) } else { ((None, 0), (None, 1)) };
        let has = |name, bits| call.has(4, name, bits);
        let how = if has("RENAME_EXCHANGE", 2) {
            RenameMode::Exchange
        } else if has("RENAME_WHITEOUT", 4) {
            RenameMode::Whiteout
        } else if has("RENAME_NOREPLACE", 1) {
            RenameMode::NoReplace
        } else {
            RenameMode::Replace
        };
        if call.result.is_none() {
            // The error does not show which of the two names was missing.
            return Err(Stop::Failed);
        }
        let way = Way { is_there: true, follow: false };
        let Target::Name(dir, name) = self.path(call, pid, from, way)? else { return Err(NO_NAME) };
        let Target::Name(to_dir, to_name) = self.path(call, pid, to, way)? else {
            return Err(NO_NAME);
        };
        let world = &mut self.world;
        let ino = world.existed(dir, &name, mode::REGULAR);
        world.tree.lookup(dir, &name);
        if how == RenameMode::Exchange {
            world.existed(to_dir, &to_name, mode::REGULAR);
        } else if how == RenameMode::NoReplace && world.tree.known(to_dir, &to_name).is_some() {
            world.place_to_make(to_dir, &to_name);
        }
        let old = world.tree.lookup(to_dir, &to_name).filter(|old| *old != ino);
        if how != RenameMode::Exchange
            && let Some(old) = old
        {
            self.is_replaced(ino, old, to_dir, &to_name);
        }
        let world = &mut self.world;
        world.touch(dir, &name);
        world.touch(to_dir, &to_name);
        world.tree.rename_as(dir, &name, to_dir, &to_name, how);
        old.into_iter().for_each(|old| world.forget(old));
        Ok(())
    }

    /// A replaced file is of the same kind as the one that replaces it, and empty if it is a
    /// directory.
    fn is_replaced(&mut self, ino: Ino, old: Ino, dir: Ino, name: &[u8]) {
        let world = &mut self.world;
        let (is_dir, was_dir) = (world.tree.is_dir(ino), world.tree.is_dir(old));
        let agree = match (is_dir, was_dir) {
            (true, false) => world.is_kind(old, mode::DIRECTORY),
            (false, true) => world.is_kind(ino, mode::DIRECTORY),
            _ => true,
        };
        if !agree || world.tree.entries(old) > 0 {
            let what = "names were removed by processes that are not in the text";
            world.reading.assume_of(1, what);
            world.remove(dir, name);
        }
    }

    fn links(&mut self, call: &Call, pid: u32, is_at: bool) -> Step<()> {
        let (from, to): (Place, Place) =
            if is_at { ((Some(0), 1), (Some(2), 3)) } else { ((None, 0), (None, 1)) };
        call.result.ok_or(Stop::Failed)?;
        let follow = is_at && call.has(4, "AT_SYMLINK_FOLLOW", 0x400);
        let ino = match self.path(call, pid, from, Way { is_there: true, follow })? {
            Target::Node(ino) => ino,
            Target::Name(dir, name) => {
                let ino = self.world.existed(dir, &name, mode::REGULAR);
                self.world.tree.lookup(dir, &name);
                ino
            }
        };
        let way = Way { is_there: true, follow: false };
        let Target::Name(dir, name) = self.path(call, pid, to, way)? else { return Err(NO_NAME) };
        self.world.place_to_make(dir, &name);
        // A file without a name gets its first one.
        if let Some(Unnamed { order, dir: old, name: made }) = self.unnamed.remove(&ino) {
            if self.world.learns {
                self.world.facts.named.insert(order);
            }
            self.world.tree.rename(old, &made, dir, &name);
            return Ok(());
        }
        if !self.world.tree.exists(ino) || self.world.tree.is_dir(ino) {
            return Err(Stop::Left("calls on what has no name"));
        }
        self.world.tree.link(ino, dir, &name);
        Ok(())
    }

    /// Extended attributes. What was set before the trace cannot be there, so only those that the trace
    /// has set are removed and read.
    fn attribute(&mut self, call: &Call, pid: u32) -> Step<()> {
        let ino = self.subject(call, pid, (None, 0))?;
        call.result.ok_or(Stop::Failed)?;
        let is_list = call.name.contains("listxattr");
        let name = string(call.arg(1)).filter(|name| !is_list && !name.is_empty());
        let Some(name) = name else { return Ok(()) };
        if name.starts_with(b"system.") {
            // Lists of access rights are no attributes that a file system keeps as such.
            if !call.name.contains("getxattr") {
                self.world.reading.assume_of(1, "lists of access rights change only times here");
                self.mark(ino);
            }
            return Ok(());
        }
        let key = (ino, name.clone());
        if call.name.contains("setxattr") {
            let len = call.number(3).filter(|len| *len <= 65_536).unwrap_or(0);
            let value = vec![b'x'; len as usize].into();
            self.attributes.insert(key, ());
            let op = Op::SetXattr { ino, name: name.into(), value, mode: XattrMode::Any };
            self.world.tree.op(op, Outcome::Done);
        } else if call.name.contains("removexattr") {
            if self.attributes.remove(&key).is_none() {
                return Err(Stop::Left("of attributes that were set before"));
            }
            self.world.tree.op(Op::RemoveXattr { ino, name: name.into() }, Outcome::Done);
        } else if self.attributes.contains_key(&key) {
            let bytes = u64::try_from(call.result.unwrap_or(0)).unwrap_or(0);
            self.world.tree.op(Op::GetXattr { ino, name: name.into() }, Outcome::Bytes(bytes));
        }
        Ok(())
    }

    /// A socket with a name: that is made.
    fn bind(&mut self, call: &Call, pid: u32) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let text = field(call.arg(1), "sun_path").ok_or(Stop::NoFile)?;
        let end = text[1..].find('"').map_or(text.len(), |end| end + 2);
        let path = string(&text[..end]).filter(|path| !path.is_empty()).ok_or(Stop::NoFile)?;
        let base = self.cwd(pid)?;
        let way = Way { is_there: true, follow: false };
        let Target::Name(dir, name) = self.world.walk(base, &path, way)? else {
            return Err(Stop::Failed);
        };
        self.world.place_to_make(dir, &name);
        self.world.tree.make_node(dir, &name, mode::SOCKET | 0o755);
        Ok(())
    }

    /// Sets the time of a file, for changes of what a trace does not keep.
    fn mark(&mut self, ino: Ino) {
        let set = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
        self.world.tree.op(Op::SetAttr { ino, set }, Outcome::Attr);
    }

    /// The operation of a call on an inode itself.
    fn stat(&mut self, ino: Ino) {
        self.world.tree.op(Op::GetAttr { ino }, Outcome::Attr);
    }

    /// True if an inode is known to be of the same kind as a mode.
    fn agrees(&self, ino: Ino, kind: u32) -> bool {
        let (is, new) = (self.world.tree.inode(ino), Tree::of_kind(kind));
        (is.is_dir(), is.special) == (new.is_dir(), new.special)
    }
}

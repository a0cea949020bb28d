//! One random operation of each kind: mostly on existing files, sometimes invalid.

use twin_disk::{Buf, Bytes};
use twin_rt::Rng;

use super::{WorkloadParams, World, acls};
use twin_fs::{
    Data, Fallocate, Ino, Name, Op, ROOT_INO, RenameMode, SeekFor, SetAttr, SetTime, Timestamp,
    XattrMode, mode,
};

/// A kind of operation, and sometimes a way of using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Each is the operation of its name.
pub enum Verb {
    Lookup,
    LookupDots,
    GetAttr,
    Chmod,
    Chown,
    SetTimes,
    Truncate,
    ReadLink,
    MakeNode,
    MakeDir,
    Symlink,
    Create,
    Unlink,
    RemoveDir,
    Rename,
    Link,
    Open,
    Release,
    Forget,
    Read,
    Write,
    Fsync,
    ReadDir,
    StatFs,
    Access,
    SetXattr,
    GetXattr,
    ListXattr,
    RemoveXattr,
    SetAcl,
    GetAcl,
    RemoveAcl,
    Fallocate,
    Seek,
    Sync,
}

/// Verbs with their weights.
pub(super) type Weights = &'static [(Verb, u32)];

/// Lets users work in a fresh volume.
pub(super) fn open_root_to_all() -> Op {
    let set = SetAttr { mode: Some(0o777), ..SetAttr::default() };
    Op::SetAttr { ino: ROOT_INO, set }
}

/// Draws a verb by weight, and then its operation. Keeps the number of files and directories and
/// the space near the values of the params, and releases what is held in excess.
pub(super) fn draw(weights: Weights, params: &WorkloadParams, world: &World, rng: &mut Rng) -> Op {
    let mut picker = Picker { params, world, rng };
    if let Some(op) = picker.housekeeping() {
        return op;
    }
    let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
    let mut left = picker.rng.below(u64::from(total)) as u32;
    for (verb, weight) in weights {
        if left < *weight {
            return picker.op(picker.wanted(*verb));
        }
        left -= weight;
    }
    unreachable!("the draw is below the sum of the weights")
}

struct Picker<'a> {
    params: &'a WorkloadParams,
    world: &'a World,
    rng: &'a mut Rng,
}

/// A number that no inode has.
const NOBODY: Ino = 1 << 50;

impl Picker<'_> {
    /// Releases and forgets inodes that need not be held.
    fn housekeeping(&mut self) -> Option<Op> {
        let world = self.world;
        if world.open.len() > 20 + self.rng.below(20) as usize {
            return world.open.draw(self.rng).map(|ino| Op::Release { ino: *ino });
        }
        let held = world.files.len() + world.dirs.len() + world.others.len();
        let orphan = world.orphans.draw(self.rng).filter(|_| world.orphans.len() > 8);
        let excess = held as u64 > 2 * (self.params.files + self.params.dirs);
        let ino = match orphan {
            Some(ino) => *ino,
            None if excess => *world.files.draw(self.rng)?,
            None => return None,
        };
        let known = world.known(ino)?;
        if known.opens > 0 {
            return Some(Op::Release { ino });
        }
        Some(Op::Forget { ino, count: known.refs })
    }

    /// The verb, or its opposite if there are too many files or bytes already.
    fn wanted(&self, verb: Verb) -> Verb {
        let many_names =
            self.world.name_count() as u64 > 2 * (self.params.files + self.params.dirs);
        let many_dirs = self.world.dirs.len() as u64 > 2 * self.params.dirs;
        let much_space = self.world.written_bytes() > self.params.space_max;
        match verb {
            Verb::Create | Verb::Link | Verb::Symlink | Verb::MakeNode if many_names => {
                Verb::Unlink
            }
            Verb::MakeDir if many_dirs => Verb::RemoveDir,
            Verb::Write if much_space => Verb::Truncate,
            _ => verb,
        }
    }

    fn wrong(&mut self) -> bool {
        self.rng.chance(self.params.invalid)
    }

    fn dir(&mut self) -> Ino {
        if self.wrong() {
            return self.anything();
        }
        // Late directories make deep trees, early ones wide trees.
        let late = self.rng.chance(0.3);
        let dirs = &self.world.dirs;
        let drawn = if late { dirs.draw_late(self.rng) } else { dirs.draw(self.rng) };
        drawn.copied().unwrap_or(ROOT_INO)
    }

    fn file(&mut self) -> Ino {
        if self.wrong() {
            return self.anything();
        }
        self.world.files.draw(self.rng).copied().unwrap_or(ROOT_INO)
    }

    fn anything(&mut self) -> Ino {
        let bag = match self.rng.below(20) {
            0 => return NOBODY + self.rng.below(3),
            1..6 => &self.world.dirs,
            6..8 => &self.world.others,
            _ => &self.world.files,
        };
        bag.draw(self.rng).copied().unwrap_or(ROOT_INO)
    }

    /// A name that may or may not exist.
    fn name(&mut self) -> Name {
        if self.wrong() {
            return match self.rng.below(6) {
                0 => Name::default(),
                1 => (*b"a/b").into(),
                2 => (*b"nul\0").into(),
                3 => (*b".").into(),
                4 => (*b"..").into(),
                _ => vec![b'L'; 256].into(),
            };
        }
        let number = self.rng.below(self.params.names);
        let mut name = format!("n{number}").into_bytes();
        match number % 16 {
            0 => name.resize(255, b'l'),
            1 => name.extend([0xff, 0x80, b' ', b'\n']),
            2 => name.resize(100, b'm'),
            _ => {}
        }
        name.into()
    }

    /// A name that exists, as far as is known, in a directory that is held.
    fn existing(&mut self) -> (Ino, Name) {
        if !self.wrong() {
            for _ in 0..8 {
                match self.world.names.draw(self.rng) {
                    Some((dir, name)) if self.world.dirs_hold(*dir) => return (*dir, name.clone()),
                    _ => {}
                }
            }
        }
        (self.dir(), self.name())
    }

    /// An existing name of an empty directory, or of anything but a directory; if none is found,
    /// or on purpose, any name.
    fn victim(&mut self, is_dir: bool) -> Option<(Ino, Name)> {
        if self.wrong() {
            return Some(self.existing());
        }
        for _ in 0..16 {
            let (dir, name) = self.existing();
            let Some(ino) = self.world.lead(dir, &name) else { continue };
            let kind = self.world.known(ino).map_or(mode::REGULAR, |known| known.kind);
            let full = is_dir && !self.world.is_empty(ino);
            if (kind == mode::DIRECTORY) == is_dir && !full {
                return Some((dir, name));
            }
        }
        None
    }

    /// Mostly permissive modes, now and then set-id and sticky.
    fn mode(&mut self) -> u32 {
        let usual = *self.rng.pick(&[0o777, 0o777, 0o755, 0o666, 0o644, 0o600, 0o000, 0o070]);
        let special = *self.rng.pick(&[0, 0, 0, 0, 0o4000, 0o2000, 0o6000, 0o1000]);
        usual | special
    }

    /// A length, evenly over orders of magnitude, often a multiple of the block.
    fn len(&mut self, max: u64) -> u64 {
        let bits = self.rng.below(u64::from(max.max(2).ilog2()) + 1);
        let len = self.rng.range(1 << bits, 2 << bits);
        let block = self.params.block_size;
        let len = if self.rng.chance(0.4) { len.next_multiple_of(block) } else { len };
        len.clamp(1, max)
    }

    /// An offset in a file, at its end, or far behind.
    fn off(&mut self, ino: Ino) -> u64 {
        let size = self.world.known(ino).map_or(0, |known| known.size);
        let near = size.min(self.params.file_size_max);
        match self.rng.below(20) {
            0..9 => near,
            9..13 => self.rng.below(near + 1),
            13..17 => {
                let off = self.rng.below(near + 1);
                off - off % self.params.block_size
            }
            17..19 => self.rng.below(self.params.file_size_max),
            _ if self.wrong() => u64::MAX - self.rng.below(9000),
            _ => self.len(self.params.far_size_max),
        }
    }

    fn data(&mut self) -> Data {
        let len = if self.rng.chance(0.01) { 0 } else { self.len(self.params.write_max) };
        if !self.rng.chance(self.params.bytes) {
            return Data::Synthetic(len);
        }
        let mut buf = Buf::zeroed(len as usize);
        let start = self.rng.next_u64();
        for (at, byte) in buf.iter_mut().enumerate() {
            *byte = (start >> (at % 8 * 8)) as u8 ^ at as u8;
        }
        Data::Bytes(if len == 0 { Bytes::copy_of(&[]) } else { buf.freeze() })
    }

    fn time(&mut self) -> SetTime {
        if self.rng.chance(0.5) {
            return SetTime::Now;
        }
        let secs = self.rng.below(1 << 33) as i64 - (1 << 31);
        SetTime::At(Timestamp { secs, nanos: self.rng.below(1_000_000_000) as u32 })
    }

    fn maybe<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.rng.chance(0.6).then(|| f(self))
    }

    fn xattr_name(&mut self) -> Name {
        let good = ["user.a", "user.a", "user.b", "trusted.t", "security.s"];
        let bad = ["", "plain", "system.x", "user."];
        let name = if self.wrong() { *self.rng.pick(&bad) } else { *self.rng.pick(&good) };
        name.as_bytes().into()
    }

    fn op(&mut self, verb: Verb) -> Op {
        match verb {
            Verb::Lookup
            | Verb::LookupDots
            | Verb::MakeNode
            | Verb::MakeDir
            | Verb::Symlink
            | Verb::Create
            | Verb::Unlink
            | Verb::RemoveDir
            | Verb::Rename
            | Verb::Link
            | Verb::ReadDir => self.name_op(verb),
            Verb::Open
            | Verb::Release
            | Verb::Forget
            | Verb::Read
            | Verb::Write
            | Verb::Truncate
            | Verb::Fsync
            | Verb::Fallocate
            | Verb::Seek => self.file_op(verb),
            _ => self.attr_op(verb),
        }
    }

    fn name_op(&mut self, verb: Verb) -> Op {
        match verb {
            Verb::Lookup => {
                let (dir, name) = self.existing();
                Op::Lookup { dir, name }
            }
            Verb::LookupDots => {
                let name = self.rng.pick(&[&b"."[..], b".."]).to_vec().into();
                Op::Lookup { dir: self.dir(), name }
            }
            Verb::MakeNode => {
                let kinds =
                    [mode::REGULAR, mode::FIFO, mode::SOCKET, mode::CHAR, mode::BLOCK, 0, 1 << 15];
                let kind = *self.rng.pick(&kinds);
                let (dir, name) = (self.dir(), self.name());
                Op::MakeNode { dir, name, mode: kind | self.mode(), rdev: self.rng.below(5) }
            }
            Verb::MakeDir => {
                let mode = if self.rng.chance(0.7) { 0o777 } else { self.mode() };
                Op::MakeDir { dir: self.dir(), name: self.name(), mode }
            }
            Verb::Symlink => {
                let max = if self.rng.chance(0.05) { 5000 } else { 80 };
                let target = vec![b't'; self.rng.below(max) as usize].into();
                Op::Symlink { dir: self.dir(), name: self.name(), target }
            }
            Verb::Create => {
                let (dir, name) = (self.dir(), self.name());
                Op::Create { dir, name, mode: self.mode(), exclusive: self.rng.chance(0.5) }
            }
            Verb::RemoveDir => match self.victim(true) {
                Some((dir, name)) => Op::RemoveDir { dir, name },
                // Emptying directories makes the next removal of one more likely.
                None => self.name_op(Verb::Unlink),
            },
            Verb::Unlink => {
                let (dir, name) = self.victim(false).unwrap_or_else(|| self.existing());
                Op::Unlink { dir, name }
            }
            Verb::Rename => self.rename(),
            Verb::Link => {
                let ino = if self.rng.chance(0.9) { self.file() } else { self.anything() };
                Op::Link { ino, dir: self.dir(), name: self.name() }
            }
            _ => {
                let max_bytes = *self.rng.pick(&[40, 300, 4096, 65_536]);
                Op::ReadDir { dir: self.dir(), cookie: 0, max_bytes, plus: self.rng.chance(0.3) }
            }
        }
    }

    fn rename(&mut self) -> Op {
        let (dir, name) = self.existing();
        let onto = self.rng.chance(0.5);
        let (to_dir, to_name) = if onto { self.existing() } else { (self.dir(), self.name()) };
        let mode = match self.rng.below(20) {
            0..13 => RenameMode::Replace,
            13..15 => RenameMode::NoReplace,
            15..19 => RenameMode::Exchange,
            // No random number decides it, so that earlier seeds still give the same requests.
            _ if to_name.len().is_multiple_of(2) => RenameMode::WhiteoutNoReplace,
            _ => RenameMode::Whiteout,
        };
        Op::Rename { dir, name, to_dir, to_name, mode }
    }

    fn file_op(&mut self, verb: Verb) -> Op {
        let ino = self.file();
        match verb {
            Verb::Open => {
                let (read, write) = *self.rng.pick(&[(true, false), (true, true), (false, true)]);
                let ino = if self.rng.chance(0.1) { self.anything() } else { ino };
                Op::Open { ino, read, write, truncate: write && self.rng.chance(0.15) }
            }
            Verb::Release => match self.world.open.draw(self.rng) {
                Some(ino) => Op::Release { ino: *ino },
                None => Op::StatFs,
            },
            Verb::Forget => {
                let refs = self.world.known(ino).map_or(0, |known| known.refs);
                Op::Forget { ino, count: if refs == 0 { 0 } else { self.rng.range(1, refs + 1) } }
            }
            Verb::Read => {
                let len = self.len(4 * self.params.write_max) as u32;
                Op::Read { ino, off: self.off(ino), len }
            }
            Verb::Write => {
                let (off, data) = (self.off(ino), self.data());
                match data.len() % 8 {
                    7 => Op::Append { ino, off, data },
                    _ => Op::Write { ino, off, data },
                }
            }
            Verb::Truncate => {
                let much = self.world.written_bytes() > self.params.space_max;
                let size = if much { 0 } else { self.off(ino) };
                Op::SetAttr { ino, set: SetAttr { size: Some(size), ..SetAttr::default() } }
            }
            Verb::Fsync => Op::Fsync { ino: self.anything(), data_only: self.rng.chance(0.5) },
            Verb::Fallocate => {
                let keep_size = self.rng.chance(0.5);
                let mode = match self.rng.below(6) {
                    0 => Fallocate::Allocate { keep_size },
                    1 | 2 => Fallocate::ZeroRange { keep_size },
                    _ => Fallocate::PunchHole,
                };
                let len = if self.wrong() { 0 } else { self.len(4 * self.params.write_max) };
                Op::Fallocate { ino, off: self.off(ino), len, mode }
            }
            _ => {
                let what = *self.rng.pick(&[SeekFor::Data, SeekFor::Hole]);
                Op::Seek { ino, off: self.off(ino), what }
            }
        }
    }

    fn attr_op(&mut self, verb: Verb) -> Op {
        let ino = if self.rng.chance(0.5) { self.file() } else { self.anything() };
        let is_dir = self.world.known(ino).is_some_and(|k| k.kind == mode::DIRECTORY);
        let none = SetAttr::default();
        match verb {
            Verb::GetAttr => Op::GetAttr { ino },
            Verb::Chmod => {
                let open = is_dir && self.rng.chance(0.7);
                let mode = self.mode() | if open { 0o777 } else { 0 };
                Op::SetAttr { ino, set: SetAttr { mode: Some(mode), ..none } }
            }
            Verb::Chown => {
                let uid = self.maybe(|p| 1000 + p.rng.below(4) as u32);
                let gid = self.maybe(|p| 500 + p.rng.below(3) as u32);
                Op::SetAttr { ino, set: SetAttr { uid, gid, ..none } }
            }
            Verb::SetTimes => {
                let (atime, mtime) = (self.maybe(Self::time), self.maybe(Self::time));
                let ctime = self.rng.chance(0.05).then_some(Timestamp { secs: 1, nanos: 2 });
                Op::SetAttr { ino, set: SetAttr { atime, mtime, ctime, ..none } }
            }
            Verb::ReadLink => {
                let link = self.world.others.draw(self.rng).copied();
                Op::ReadLink { ino: link.filter(|_| !self.wrong()).unwrap_or(ino) }
            }
            Verb::Access => Op::Access { ino, mask: self.rng.below(8) as u32 },
            Verb::SetXattr => {
                let len = match self.rng.below(50) {
                    0 => 65_537,
                    1 => self.rng.below(65_537),
                    _ => self.rng.below(100),
                };
                let value = vec![self.rng.next_u64() as u8; len as usize].into();
                let modes = [XattrMode::Any, XattrMode::Any, XattrMode::Create, XattrMode::Replace];
                let mode = *self.rng.pick(&modes);
                Op::SetXattr { ino, name: self.xattr_name(), value, mode }
            }
            Verb::GetXattr => Op::GetXattr { ino, name: self.xattr_name() },
            Verb::ListXattr => Op::ListXattr { ino },
            Verb::RemoveXattr => Op::RemoveXattr { ino, name: self.xattr_name() },
            Verb::SetAcl => {
                let wrong = self.wrong();
                acls::set(ino, is_dir, wrong, self.rng)
            }
            Verb::GetAcl => acls::get(ino, is_dir, self.rng),
            Verb::RemoveAcl => acls::remove(ino, is_dir, self.rng),
            Verb::Sync => Op::Sync,
            _ => Op::StatFs,
        }
    }
}

impl World {
    /// Whether a directory is held by its clients.
    fn dirs_hold(&self, dir: Ino) -> bool {
        dir == ROOT_INO || self.known(dir).is_some_and(|known| known.refs > 0 || known.opens > 0)
    }
}

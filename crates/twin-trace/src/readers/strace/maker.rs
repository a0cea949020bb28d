//! The state that calls of every kind need: the processes, and the files of descriptors and paths.
//!
//! Contract: the path that `-y` shows for a descriptor counts more than what earlier calls have
//! shown. The files that use this one add calls of one kind each: of descriptors, data, names and
//! others.

use twin_fs::{Ino, Op, ROOT_INO, mode};
use twin_rt::FixedMap;

use super::answers::Failure;
use super::args::{AT_FDCWD, FdPath, string};
use super::births::Births;
use super::call::Call;
use super::order::Order;
use super::table::{Cwd, OpenFile, Processes, Slot};
use super::world::{Step, Stop, Target, Way, World};

/// A file that was opened without a name: its order, and the name that it has here.
#[derive(Clone)]
pub(super) struct Unnamed {
    pub(super) order: u64,
    pub(super) dir: Ino,
    pub(super) name: Box<[u8]>,
}

/// Makes operations of calls.
pub(super) struct Maker {
    pub(super) world: World,
    pub(super) processes: Processes,
    pub(super) births: Births,
    pub(super) order: Order,
    /// Files without names that have a name here.
    pub(super) unnamed: FixedMap<Ino, Unnamed>,
    /// Files without names so far.
    pub(super) unnamed_count: u64,
    /// Attributes that the trace has set.
    pub(super) attributes: FixedMap<(Ino, Vec<u8>), ()>,
    /// Requests that make data durable and have no answer yet, by process.
    pub(super) begun: FixedMap<u32, u64>,
    pub(super) start_ns: Option<u64>,
    /// The number of the line.
    pub(super) line: u64,
}

const UNKNOWN_FD: &str =
    "on descriptors that were open before and have no path (strace -y tells it)";

impl Maker {
    pub(super) fn new(world: World, births: Births, is_fine: bool) -> Maker {
        Maker {
            world,
            processes: Processes::default(),
            births,
            order: Order::new(is_fine),
            unnamed: FixedMap::default(),
            unnamed_count: 0,
            attributes: FixedMap::default(),
            begun: FixedMap::default(),
            start_ns: None,
            line: 0,
        }
    }

    /// When a call had ended, since the start.
    pub(super) fn ended(&self, call: &Call) -> u64 {
        let began = call.at_ns.map(|at_ns| at_ns.saturating_sub(self.start_ns.unwrap_or(0)));
        let began = match (began, self.order.is_fine) {
            (Some(began), true) => began,
            _ => self.world.tree.at_ns,
        };
        began.saturating_add(call.took_ns)
    }

    pub(super) fn exit(&mut self, pid: u32) {
        for ino in self.processes.exit(pid) {
            self.release(ino);
        }
    }

    pub(super) fn released(&mut self, ino: Option<Ino>) {
        if let Some(ino) = ino {
            self.release(ino);
        }
    }

    /// The last descriptor of an open file is gone.
    fn release(&mut self, ino: Ino) {
        if let Some(Unnamed { dir, name, .. }) = self.unnamed.remove(&ino) {
            self.world.tree.remove(dir, &name);
        }
        self.world.tree.release(ino);
        self.world.forget(ino);
    }

    /// Makes data durable, unless the first half of the call has done so.
    pub(super) fn sync(&mut self, call: &Call, pid: u32, op: Op) -> Step<()> {
        if let Some(id) = self.begun.remove(&pid) {
            let ended_ns = self.ended(call);
            self.order.answer(pid, ended_ns, id);
            return Ok(());
        }
        call.result.ok_or(Stop::Failed)?;
        self.world.tree.op(op, crate::record::Outcome::Done);
        Ok(())
    }

    /// The open file of a descriptor, with its place in the table. What `-y` tells is believed.
    pub(super) fn file(&mut self, call: &Call, pid: u32, arg: usize) -> Step<(usize, OpenFile)> {
        let (fd, path) = call.descriptor(arg).ok_or(Stop::NoFile)?;
        self.file_of(pid, fd, path)
    }

    pub(super) fn file_of(
        &mut self,
        pid: u32,
        fd: i64,
        path: Option<FdPath>,
    ) -> Step<(usize, OpenFile)> {
        if path.as_ref().is_some_and(|path| !path.is_file()) {
            return Err(Stop::NoFile);
        }
        let known = match self.processes.slot(pid, fd) {
            Some(Slot::File(at)) => self.processes.file(at).map(|file| (at, *file)),
            Some(Slot::Other) if path.is_none() => return Err(Stop::NoFile),
            _ => None,
        };
        let Some(path) = path else { return known.ok_or(Stop::Left(UNKNOWN_FD)) };
        if let Some((at, file)) = known
            && self.is_same(at, &file, &path)
        {
            return Ok((at, file));
        }
        self.adopt(pid, fd, &path, known.is_some())
    }

    /// True if a path is that of an open file, as far as is known.
    fn is_same(&mut self, at: usize, file: &OpenFile, path: &FdPath) -> bool {
        let hash = path.hash();
        if path.is_deleted || file.path == hash {
            return true;
        }
        let way = Way { is_there: true, follow: false };
        let is_it = match self.world.walk(ROOT_INO, &path.bytes, way) {
            Ok(Target::Name(dir, name)) => self.world.tree.known(dir, &name) == Some(file.ino),
            Ok(Target::Node(ino)) => ino == file.ino,
            Err(_) => false,
        };
        if let Some(file) = self.processes.file(at).filter(|_| is_it) {
            file.path = hash;
        }
        is_it
    }

    /// Adopts an open descriptor that no call has shown: its file existed before.
    fn adopt(
        &mut self,
        pid: u32,
        fd: i64,
        path: &FdPath,
        is_other: bool,
    ) -> Step<(usize, OpenFile)> {
        let mut bytes = path.bytes.clone();
        if path.is_deleted {
            bytes.extend_from_slice(b" (deleted)");
        }
        let way = Way { is_there: true, follow: false };
        let (dir, name) = match self.world.walk(ROOT_INO, &bytes, way)? {
            Target::Name(dir, name) => (dir, name),
            Target::Node(_) => return Err(Stop::NoFile),
        };
        let ino = self.world.existed(dir, &name, mode::REGULAR);
        let inode = self.world.tree.inode(ino);
        if !inode.is_dir() && !inode.is_file() {
            let released = self.processes.opened_other(pid, fd, false);
            self.released(released);
            return Err(Stop::NoFile);
        }
        let what = match is_other {
            true => {
                "descriptors were for other files than the calls tell, and are taken as opened anew"
            }
            false => {
                "files were open before: they are taken as opened when they are first used, reads go on \
                 from their start and writes from their end"
            }
        };
        self.world.reading.assume_of(1, what);
        self.world.tree.lookup(dir, &name);
        self.world.tree.open(ino, inode.is_file(), false);
        let file = OpenFile { at: None, path: path.hash(), ..OpenFile::new(ino, false) };
        let released = self.processes.opened(pid, fd, file, false);
        self.released(released);
        match self.processes.slot(pid, fd) {
            Some(Slot::File(at)) => Ok((at, file)),
            _ => Err(Stop::Left(UNKNOWN_FD)),
        }
    }

    /// The directory at which paths of a descriptor begin.
    pub(super) fn dir(&mut self, call: &Call, pid: u32, arg: usize) -> Step<Ino> {
        match call.descriptor(arg).ok_or(Stop::Left("with a directory that cannot be read"))? {
            (AT_FDCWD, _) => self.cwd(pid),
            (_, Some(path)) if path.is_file() && !path.is_deleted => self.world.dir_at(&path.bytes),
            (fd, _) => match self.processes.slot(pid, fd) {
                Some(Slot::File(at)) => {
                    let file = self.processes.file(at).map(|file| file.ino);
                    let ino = file.ok_or(Stop::Left(UNKNOWN_FD))?;
                    self.world.is_kind(ino, mode::DIRECTORY);
                    Ok(ino)
                }
                Some(Slot::Other) => Err(Stop::NoFile),
                None => Err(Stop::Left(UNKNOWN_FD)),
            },
        }
    }

    /// The working directory of process `pid`.
    pub(super) fn cwd(&mut self, pid: u32) -> Step<Ino> {
        match self.processes.cwd(pid) {
            Cwd::At(dir) => Ok(*dir),
            Cwd::Path(path) => self.world.dir_at(path),
            Cwd::Unknown => self.world.start(self.births.cwd.as_deref()),
        }
    }

    /// Resolves the path of an argument; `dir` is the argument with the directory at which it
    /// begins.
    pub(super) fn path(
        &mut self,
        call: &Call,
        pid: u32,
        (dir, arg): (Option<usize>, usize),
        way: Way,
    ) -> Step<Target> {
        let mut given =
            string(call.arg(arg)).ok_or(Stop::Left("with a path that is not in the text"))?;
        while given.len() > 1 && given.ends_with(b"/") {
            given.pop();
        }
        if let Some(fd) = descriptor_named(&given) {
            return match self.processes.slot(pid, fd) {
                Some(Slot::File(at)) => {
                    let file = self.processes.file(at).ok_or(Stop::NoFile)?;
                    Ok(Target::Node(file.ino))
                }
                _ => Err(Stop::NoFile),
            };
        }
        if given.starts_with(b"/") {
            return self.world.walk(ROOT_INO, &given, way);
        }
        // An empty path is the descriptor itself.
        if let (true, Some(dir)) = (given.is_empty(), dir)
            && !matches!(call.descriptor(dir), Some((AT_FDCWD, _)))
        {
            return Ok(Target::Node(self.file(call, pid, dir)?.1.ino));
        }
        let base = match dir {
            Some(dir) => self.dir(call, pid, dir)?,
            None => self.cwd(pid)?,
        };
        self.world.walk(base, &given, way)
    }

    /// Looks a path up, and shows what the call tells of it.
    pub(super) fn look(
        &mut self,
        call: &Call,
        pid: u32,
        place: (Option<usize>, usize),
        follow: bool,
        kind: Option<u32>,
    ) -> Step<Ino> {
        let is_there = call.result.is_some();
        let shows = is_there || call.failure() == Some(Failure::InTheWay);
        match self.path(call, pid, place, Way { is_there: shows, follow })? {
            Target::Node(ino) if is_there => Ok(ino),
            Target::Node(_) => Err(Stop::Failed),
            Target::Name(dir, name) => {
                if shows {
                    let ino = self.world.existed(dir, &name, kind.unwrap_or(mode::REGULAR));
                    if let Some(kind) = kind {
                        self.world.is_kind(ino, kind);
                    }
                }
                if !shows && call.failure() != Some(Failure::Absent) {
                    return Err(Stop::Failed);
                }
                match self.world.tree.lookup(dir, &name) {
                    Some(ino) if is_there => Ok(ino),
                    Some(_) if shows => Err(Stop::Absent),
                    Some(_) => {
                        let what = "names were not found by calls, and are here from the beginning";
                        self.world.reading.assume_of(1, what);
                        Err(Stop::Absent)
                    }
                    None => Err(Stop::Absent),
                }
            }
        }
    }
}

/// The descriptor that a path in /proc or /dev names.
fn descriptor_named(path: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(path).ok()?;
    let digits = match text.strip_prefix("/dev/fd/") {
        Some(digits) => digits,
        None => {
            let (process, digits) = text.strip_prefix("/proc/")?.split_once("/fd/")?;
            let is_process = process.starts_with("self")
                || process.starts_with("thread-self")
                || process.parse::<u32>().is_ok();
            is_process.then_some(digits)?
        }
    };
    digits.parse().ok()
}

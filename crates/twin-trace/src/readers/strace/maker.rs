//! Calls become operations: the processes, descriptors and paths of a call, and what it is counted as.
//!
//! Contract: a line is used, passed (it is for no file), or left out with a reason, and no call that changes
//! files and is not understood is passed. What `-y` tells of a descriptor is believed before what earlier
//! calls told.

use twin_fs::{Ino, Op, ROOT_INO, mode};
use twin_rt::FixedMap;

use super::args::{AT_FDCWD, FdPath, string};
use super::births::{Births, birth_of, makes_process};
use super::line::{Call, Said};
use super::order::Order;
use super::table::{Cwd, OpenFile, Processes, Slot};
use super::world::{Step, Stop, Target, Way, World};
use crate::record::Record;

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
    begun: FixedMap<u32, u64>,
    start_ns: Option<u64>,
    /// The number of the line.
    line: u64,
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

    /// Takes a line.
    pub(super) fn take(&mut self, line: u64, said: &Said) {
        self.line = line;
        match said {
            Said::Note => self.world.reading.pass_one(),
            Said::Half(name) => {
                let why = format!("second halves of calls ({name}) whose first halves are missing");
                self.world.reading.leave_out(line, &why);
            }
            Said::Output { count } => {
                let why = "that are none of strace, and taken as output of the program (strace -o FILE \
                           keeps them apart)";
                let first = line.saturating_sub(*count);
                self.world.reading.leave_out_many(*count, first, why);
            }
            Said::Begun(call) => {
                let pid = self.begin(call.pid, call.at_ns);
                self.begin_sync(call, pid);
                self.end(pid, 0);
                self.world.reading.pass_one();
            }
            Said::Exit { pid, at_ns } => {
                let pid = self.begin(*pid, *at_ns);
                self.exit(pid);
                self.end(pid, 0);
                self.world.reading.pass_one();
            }
            Said::Call(call) => {
                let pid = self.begin(call.pid, call.at_ns);
                let ended_ns = self.ended(call);
                let done = self.call(call, pid);
                self.end(pid, ended_ns);
                self.count(call, done);
            }
        }
    }

    /// Counts calls that had not returned where the text ends.
    pub(super) fn finish(&mut self, halves: u64) {
        let what = "calls had not returned where the text ends and are taken as not made";
        self.world.reading.assume_of(halves, what);
        self.order.finish();
    }

    fn count(&mut self, call: &Call, done: Step<()>) {
        let reading = &mut self.world.reading;
        match done {
            Ok(()) | Err(Stop::Absent) => reading.use_one(),
            Err(Stop::NoFile | Stop::Failed) => reading.pass_one(),
            Err(Stop::Left(why)) => reading.leave_out(self.line, &format!("{} {why}", call.name)),
        }
    }

    /// A line of a process begins: the process is made if it is not known.
    fn begin(&mut self, pid: Option<u32>, at_ns: Option<u64>) -> u32 {
        let pid = pid.or_else(|| self.processes.only()).unwrap_or_else(|| self.births.first());
        self.must_be(pid);
        if let Some(at_ns) = at_ns {
            self.start_ns.get_or_insert(at_ns);
        }
        let at_ns = at_ns.map(|at_ns| at_ns.saturating_sub(self.start_ns.unwrap_or(0)));
        if !self.world.learns {
            self.world.tree.at_ns = self.order.begin(pid, at_ns);
            self.world.tree.client = pid;
        }
        pid
    }

    /// When a call had ended, since the start.
    fn ended(&self, call: &Call) -> u64 {
        let began = call.at_ns.map(|at_ns| at_ns.saturating_sub(self.start_ns.unwrap_or(0)));
        let began = match (began, self.order.is_fine) {
            (Some(began), true) => began,
            _ => self.world.tree.at_ns,
        };
        began.saturating_add(call.took_ns)
    }

    fn end(&mut self, pid: u32, ended_ns: u64) {
        let records: Vec<Record> = std::iter::from_fn(|| self.world.tree.pop()).collect();
        if !records.is_empty() {
            self.order.add(pid, ended_ns, records);
        }
    }

    fn must_be(&mut self, pid: u32) {
        if self.processes.is_alive(pid) {
            return;
        }
        match self.births.next(pid) {
            Some((parent, shared)) => self.processes.make(pid, Some(parent), shared),
            None => self.processes.make(pid, None, Default::default()),
        }
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

    /// What makes data durable overlaps what follows, so it is asked at its first half.
    fn begin_sync(&mut self, call: &Call, pid: u32) {
        let op = match call.name.as_str() {
            "fsync" | "fdatasync" => match self.file(call, pid, 0) {
                Ok((_, file)) => Op::Fsync { ino: file.ino, data_only: call.name == "fdatasync" },
                Err(_) => return,
            },
            "sync" | "syncfs" => Op::Sync,
            _ => return,
        };
        if !self.world.learns {
            let id = self.world.tree.begin(op);
            self.begun.insert(pid, id);
        }
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

    fn call(&mut self, call: &Call, pid: u32) -> Step<()> {
        if let Some((AT_FDCWD, Some(path))) = call.descriptor(0)
            && path.is_file()
            && !path.is_deleted
        {
            self.processes.set_cwd(pid, Cwd::Path(path.bytes));
        }
        if makes_process(&call.name) {
            let (child, _) = birth_of(call).ok_or(Stop::Failed)?;
            // The call may end after the child has.
            if self.births.is_told(child) {
                self.processes_end(child);
                self.must_be(child);
            }
            return Ok(());
        }
        match self.of_descriptors(call, pid) {
            Some(done) => done,
            None => match self.of_data(call, pid).or_else(|| self.of_names(call, pid)) {
                Some(done) => done,
                None => self.of_others(call, pid),
            },
        }
    }

    /// A process of this number has ended without a word, as it is made again.
    fn processes_end(&mut self, pid: u32) {
        if self.processes.is_alive(pid) {
            self.exit(pid);
        }
    }

    /// Calls that are not known: do they touch files?
    fn of_others(&mut self, call: &Call, pid: u32) -> Step<()> {
        const QUIET: &[&str] = &[
            "fadvise64",
            "fadvise64_64",
            "arm_fadvise64_64",
            "readahead",
            "sync_file_range",
            "sync_file_range2",
            "flock",
            "fstatfs",
            "fstatfs64",
            "statfs",
            "statfs64",
            "poll",
            "ppoll",
            "select",
            "_newselect",
            "pselect6",
            "epoll_ctl",
            "epoll_wait",
            "epoll_pwait",
            "munmap",
            "mprotect",
            "madvise",
            "mremap",
            "msync",
            "inotify_add_watch",
            "inotify_rm_watch",
            "fanotify_mark",
            "cachestat",
            "kcmp",
            "sendmsg",
            "sendto",
            "recvfrom",
            "recvmsg",
            "close_range",
            "name_to_handle_at",
            "uselib",
            "swapoff",
            "landlock_add_rule",
            "tee",
            "vmsplice",
            "finit_module",
            "bpf",
            "perf_event_open",
        ];
        call.result.ok_or(Stop::Failed)?;
        match call.name.as_str() {
            "io_uring_setup" | "io_uring_enter" | "io_uring_register" => {
                return Err(Stop::Left("calls, whose reads and writes are not in the text"));
            }
            "io_getevents" | "io_pgetevents" | "io_setup" | "io_destroy" => {
                return Err(Stop::NoFile);
            }
            "mount" | "umount" | "umount2" | "move_mount" | "chroot" | "pivot_root" | "setns"
            | "open_tree" => {
                return Err(Stop::Left("calls, after which paths may mean other files"));
            }
            "mmap" | "mmap2" => return self.mapped(call, pid),
            name if QUIET.contains(&name) => return Err(Stop::NoFile),
            _ => {}
        }
        let touches = (0..call.args.len()).any(|arg| {
            let Some((fd, path)) = call.descriptor(arg) else { return false };
            match path {
                Some(path) => path.is_file(),
                None => {
                    arg == 0
                        && fd > 2
                        && matches!(self.processes.slot(pid, fd), Some(Slot::File(_)))
                }
            }
        });
        match touches {
            true => Err(Stop::Left("calls on files, of which it is not known what they do")),
            false => Err(Stop::NoFile),
        }
    }

    /// Memory that is a file: what is read and written there has no calls.
    fn mapped(&mut self, call: &Call, pid: u32) -> Step<()> {
        if call.has(3, "MAP_ANONYMOUS", 0x20) {
            return Err(Stop::NoFile);
        }
        self.file(call, pid, 4)?;
        let is_shared = call.has(3, "MAP_SHARED", 1) || call.has(3, "MAP_SHARED_VALIDATE", 3);
        let what = match is_shared && call.has(2, "PROT_WRITE", 2) {
            true => {
                "mappings of files are shared and writable: what is written through them is not in the \
                 text"
            }
            false => "mappings of files: what is read through them is not in the text",
        };
        self.world.reading.assume_of(1, what);
        Err(Stop::NoFile)
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

    /// A descriptor is open of which no call told: its file was there before.
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

    /// The working directory.
    pub(super) fn cwd(&mut self, pid: u32) -> Step<Ino> {
        match self.processes.cwd(pid) {
            Cwd::At(dir) => Ok(*dir),
            Cwd::Path(path) => self.world.dir_at(path),
            Cwd::Unknown => self.world.start(self.births.cwd.as_deref()),
        }
    }

    /// Where the path of an argument leads; `dir` is the argument with the directory at which it begins.
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

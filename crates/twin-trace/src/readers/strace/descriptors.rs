//! Calls that make, copy and close descriptors, and those of processes that change theirs.

use twin_fs::{Ino, mode};

use super::answers::Failure;
use super::args::{has_flag, number, string};
use super::call::Call;
use super::maker::{Maker, Unnamed};
use super::table::{Cwd, OpenFile, Slot};
use super::world::{Step, Stop, Target, Way};

/// The flags of an open.
#[derive(Clone, Copy)]
struct Flags {
    writes: bool,
    creates: bool,
    exclusive: bool,
    truncates: bool,
    appends: bool,
    directory: bool,
    follows: bool,
    on_exec: bool,
    unnamed: bool,
    path_only: bool,
}

impl Flags {
    fn of(text: &str) -> Flags {
        let has = |name, bits| has_flag(text, name, bits);
        Flags {
            writes: has("O_WRONLY", 1) || has("O_RDWR", 2),
            creates: has("O_CREAT", 0o100),
            exclusive: has("O_EXCL", 0o200),
            truncates: has("O_TRUNC", 0o1000),
            appends: has("O_APPEND", 0o2000),
            directory: has("O_DIRECTORY", 0o200_000),
            follows: !has("O_NOFOLLOW", 0o400_000),
            on_exec: has("O_CLOEXEC", 0o2_000_000),
            unnamed: has("O_TMPFILE", 0o20_000_000) || has("__O_TMPFILE", 0),
            path_only: has("O_PATH", 0o10_000_000),
        }
    }
}

impl Maker {
    /// Calls on descriptors and of processes; `None` for others.
    pub(super) fn of_descriptors(&mut self, call: &Call, pid: u32) -> Option<Step<()>> {
        Some(match call.name.as_str() {
            "open" => self.open(call, pid, (None, 0), Flags::of(call.arg(1))),
            "openat" => self.open(call, pid, (Some(0), 1), Flags::of(call.arg(2))),
            "openat2" => {
                let flags = call.field("flags").unwrap_or_default();
                let end = flags.find(',').unwrap_or(flags.len());
                self.open(call, pid, (Some(0), 1), Flags::of(&flags[..end]))
            }
            "creat" => self.open(call, pid, (None, 0), Flags::of("O_WRONLY|O_CREAT|O_TRUNC")),
            "open_by_handle_at" | "pidfd_getfd" => self.came(call, pid),
            "close" => self.close(call, pid),
            "close_range" => self.close_range(call, pid),
            "dup" | "dup2" => self.copy(call, pid, false),
            "dup3" => self.copy(call, pid, call.has(2, "O_CLOEXEC", 0o2_000_000)),
            "fcntl" | "fcntl64" => self.fcntl(call, pid),
            "ioctl" if call.arg(1).contains("FIOCLEX") || call.arg(1).contains("FIONCLEX") => {
                let closes = call.arg(1).contains("FIOCLEX");
                self.on_exec(call, pid, closes)
            }
            "pipe" | "pipe2" | "socketpair" => self.pair(call, pid),
            "socket" | "accept" | "accept4" | "eventfd" | "eventfd2" | "epoll_create"
            | "epoll_create1" | "timerfd_create" | "signalfd" | "signalfd4" | "inotify_init"
            | "inotify_init1" | "memfd_create" | "userfaultfd" | "pidfd_open" | "fanotify_init" => {
                self.other(call, pid)
            }
            "recvmsg" if call.args.iter().any(|arg| arg.contains("SCM_RIGHTS")) => {
                self.received(call, pid)
            }
            "execve" | "execveat" => call.result.ok_or(Stop::Failed).map(|_| {
                for ino in self.processes.executed(pid) {
                    self.released(Some(ino));
                }
            }),
            "exit_group" => {
                self.exit(pid);
                Ok(())
            }
            "unshare" => {
                if call.result.is_some() && call.arg(0).contains("CLONE_FILES") {
                    self.processes.unshare_files(pid);
                }
                Ok(())
            }
            "chdir" | "fchdir" => self.change_dir(call, pid),
            "getcwd" => self.tell_dir(call, pid),
            _ => return None,
        })
    }

    fn open(
        &mut self,
        call: &Call,
        pid: u32,
        place: (Option<usize>, usize),
        flags: Flags,
    ) -> Step<()> {
        let Some(fd) = call.result else {
            return self.look(call, pid, place, flags.follows, None).map(|_| ());
        };
        let path = super::args::descriptor(&call.said).and_then(|(_, path)| path);
        let hash = path.as_ref().map_or(0, |path| path.hash());
        if path.as_ref().is_some_and(|path| !path.is_file()) {
            return self.is_other(pid, fd, flags.on_exec);
        }
        let follow = flags.follows && !(flags.creates && flags.exclusive);
        let way = Way { is_there: true, follow };
        // The text tells the path behind symbolic links.
        let told = path.filter(|path| !path.is_deleted && flags.follows && !flags.unnamed);
        if let Some(told) = &told
            && self.spelled(call, pid, place).as_ref() == Some(&told.bytes)
        {
            let target = self.world.walk(
                twin_fs::ROOT_INO,
                &told.bytes,
                Way { is_there: true, follow: false },
            )?;
            return self.open_at(pid, fd, target, hash, flags);
        }
        let given = match self.path(call, pid, place, way) {
            Ok(given) => given,
            Err(Stop::NoFile) => return self.is_other(pid, fd, flags.on_exec),
            Err(why) => {
                let released = self.processes.closed(pid, fd);
                self.released(released);
                return Err(why);
            }
        };
        if flags.unnamed {
            let dir = self.dir_of(given)?;
            let ino = self.open_unnamed(dir);
            let file = OpenFile { path: hash, ..OpenFile::new(ino, flags.appends) };
            return self.opens(pid, fd, file, flags);
        }
        let told = told.map(|told| {
            let way = Way { is_there: true, follow: false };
            self.world.walk(twin_fs::ROOT_INO, &told.bytes, way)
        });
        let target = match told {
            Some(Ok(told)) => {
                self.learn_link(&given, &told, call);
                told
            }
            _ => given,
        };
        self.open_at(pid, fd, target, hash, flags)
    }

    fn open_at(&mut self, pid: u32, fd: i64, target: Target, path: u64, flags: Flags) -> Step<()> {
        let Some(ino) = self.open_target(target, flags)? else {
            return self.is_other(pid, fd, flags.on_exec);
        };
        let is_open = self.world.tree.inode(ino).special == 0;
        let file = OpenFile { path, is_open, ..OpenFile::new(ino, flags.appends) };
        self.opens(pid, fd, file, flags)
    }

    /// The path of a call from the root by its letters, if that is known without following it.
    fn spelled(
        &self,
        call: &Call,
        pid: u32,
        (dir, arg): (Option<usize>, usize),
    ) -> Option<Vec<u8>> {
        let given = string(call.arg(arg))?;
        let base = match (dir.map(|dir| call.descriptor(dir)), self.processes.cwd(pid)) {
            _ if given.starts_with(b"/") => Vec::new(),
            (Some(Some((_, Some(path)))), _) if path.is_file() => path.bytes,
            (None, Cwd::Path(path)) => path.clone(),
            _ => return None,
        };
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in base.split(|c| *c == b'/').chain(given.split(|c| *c == b'/')) {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        Some([&b"/"[..], &parts.join(&b'/')].concat())
    }

    fn opens(&mut self, pid: u32, fd: i64, file: OpenFile, flags: Flags) -> Step<()> {
        let released = self.processes.opened(pid, fd, file, flags.on_exec);
        self.released(released);
        Ok(())
    }

    fn is_other(&mut self, pid: u32, fd: i64, on_exec: bool) -> Step<()> {
        let released = self.processes.opened_other(pid, fd, on_exec);
        self.released(released);
        Err(Stop::NoFile)
    }

    fn dir_of(&mut self, target: Target) -> Step<Ino> {
        let ino = match target {
            Target::Node(ino) => ino,
            Target::Name(dir, name) => self.world.existed(dir, &name, mode::DIRECTORY),
        };
        match self.world.is_kind(ino, mode::DIRECTORY) {
            true => Ok(ino),
            false => Err(Stop::Left("in what is no directory")),
        }
    }

    /// If a path that was given is a symbolic link, its target is what the text tells of the descriptor.
    fn learn_link(&mut self, given: &Target, told: &Target, call: &Call) {
        let (Target::Name(dir, name), Some((_, Some(path)))) =
            (given, super::args::descriptor(&call.said))
        else {
            return;
        };
        if given != told
            && let Some(ino) = self.world.tree.known(*dir, name)
            && self.world.tree.inode(ino).special == mode::SYMLINK
        {
            self.world.links_to(ino, &path.bytes);
        }
    }

    /// Opens the target, or creates it. `None` if it is no file (a FIFO, a socket, a device).
    fn open_target(&mut self, target: Target, flags: Flags) -> Step<Option<Ino>> {
        let world = &mut self.world;
        let (dir, name) = match target {
            Target::Node(ino) => {
                world.tree.open(ino, flags.writes && !world.tree.is_dir(ino), false);
                return Ok(Some(ino));
            }
            Target::Name(dir, name) => (dir, name),
        };
        let is_known = world.tree.known(dir, &name).is_some();
        if flags.creates && (!is_known || flags.exclusive) {
            let perhaps = !flags.exclusive && !flags.truncates;
            return Ok(Some(world.create(dir, &name, perhaps)));
        }
        let kind = if flags.directory { mode::DIRECTORY } else { mode::REGULAR };
        let ino = world.existed(dir, &name, kind);
        if flags.directory {
            world.is_kind(ino, mode::DIRECTORY);
        }
        world.tree.lookup(dir, &name);
        let inode = world.tree.inode(ino);
        if inode.special == mode::SYMLINK {
            // The link itself, which O_PATH opens; or a link whose target is not known.
            if !flags.path_only || flags.follows {
                world.is_kind(ino, mode::REGULAR);
            }
            if world.tree.inode(ino).special != 0 {
                return Ok(Some(ino));
            }
        } else if inode.special != 0 {
            return Ok(None);
        }
        let truncates = flags.truncates && flags.writes && inode.is_file();
        if truncates {
            world.is_cut(ino, 0);
        }
        world.tree.open(ino, flags.writes && !inode.is_dir(), truncates);
        Ok(Some(ino))
    }

    /// A file without a name: it is made with a name, which is removed at once unless the file gets
    /// another name later.
    fn open_unnamed(&mut self, dir: Ino) -> Ino {
        let order = self.unnamed_count;
        self.unnamed_count += 1;
        let name = format!("(unnamed {order})").into_bytes();
        let world = &mut self.world;
        world.reading.assume_of(
            1,
            "files without a name (O_TMPFILE) are made under a name that is removed at once, or renamed",
        );
        let ino = world.create(dir, &name, false);
        if world.learns || world.facts.named.contains(&order) {
            self.unnamed.insert(ino, Unnamed { order, dir, name: name.into() });
        } else {
            world.remove(dir, &name);
        }
        ino
    }

    /// Adopts a descriptor that a call returns for a file of elsewhere; only `-y` shows which.
    fn came(&mut self, call: &Call, pid: u32) -> Step<()> {
        let fd = call.result.ok_or(Stop::Failed)?;
        let released = self.processes.closed(pid, fd);
        self.released(released);
        match super::args::descriptor(&call.said) {
            Some((_, Some(path))) => self.file_of(pid, fd, Some(path)).map(|_| ()),
            _ => Err(Stop::Left("calls, whose descriptor may be for any file")),
        }
    }

    /// Descriptors that another process sent.
    fn received(&mut self, call: &Call, pid: u32) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let list = call.field("cmsg_data").and_then(|data| data.strip_prefix('['));
        let list =
            list.ok_or(Stop::Left("calls that receive descriptors, of which files is not known"))?;
        let mut fds = Vec::new();
        let mut rest = list;
        while let Some((fd, path)) = super::args::descriptor(rest) {
            fds.push((fd, path));
            let after =
                rest.find('<').and_then(|at| super::brackets::past_path(rest.as_bytes(), at));
            rest = &rest[after.unwrap_or(0)..];
            match rest.split_once(", ").filter(|(before, _)| !before.contains(']')) {
                Some((_, next)) => rest = next,
                None => break,
            }
        }
        let mut done = Err(Stop::NoFile);
        for (fd, path) in fds {
            let released = self.processes.closed(pid, fd);
            self.released(released);
            let Some(path) = path else {
                done =
                    Err(Stop::Left("calls that receive descriptors, of which files is not known"));
                continue;
            };
            if self.file_of(pid, fd, Some(path)).is_ok() && done == Err(Stop::NoFile) {
                done = Ok(());
            }
        }
        done
    }

    fn close(&mut self, call: &Call, pid: u32) -> Step<()> {
        let (fd, _) = call.descriptor(0).ok_or(Stop::Failed)?;
        // A close closes the descriptor whatever its result, unless there was none.
        if call.failure() == Some(Failure::NotOpen) {
            return Err(Stop::Failed);
        }
        let is_file = matches!(self.processes.slot(pid, fd), Some(Slot::File(_)));
        let released = self.processes.closed(pid, fd);
        self.released(released);
        if is_file { Ok(()) } else { Err(Stop::NoFile) }
    }

    fn close_range(&mut self, call: &Call, pid: u32) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let bound =
            |arg| call.number(arg).map_or(i64::MAX, |fd| i64::try_from(fd).unwrap_or(i64::MAX));
        if call.has(2, "CLOSE_RANGE_UNSHARE", 2) {
            self.processes.unshare_files(pid);
        }
        for fd in self.processes.between(pid, bound(0), bound(1)) {
            if call.has(2, "CLOSE_RANGE_CLOEXEC", 4) {
                self.processes.set_on_exec(pid, fd, true);
                continue;
            }
            let released = self.processes.closed(pid, fd);
            self.released(released);
        }
        Ok(())
    }

    fn copy(&mut self, call: &Call, pid: u32, on_exec: bool) -> Step<()> {
        let to = call.result.ok_or(Stop::Failed)?;
        let (from, path) = call.descriptor(0).ok_or(Stop::Failed)?;
        let found = self.file_of(pid, from, path);
        if matches!(found, Err(Stop::NoFile)) && self.processes.slot(pid, from).is_none() {
            let released = self.processes.opened_other(pid, from, false);
            self.released(released);
        }
        let released = self.processes.copied(pid, from, to, on_exec);
        self.released(released);
        // A copy of what is not known changes no file.
        found.map(|_| ()).map_err(|_| Stop::NoFile)
    }

    fn fcntl(&mut self, call: &Call, pid: u32) -> Step<()> {
        let command = super::args::named(call.arg(1));
        match &*command {
            "F_DUPFD" | "0" => self.copy(call, pid, false),
            "F_DUPFD_CLOEXEC" | "0x406" => self.copy(call, pid, true),
            "F_SETFD" | "0x2" => {
                let closes = call.has(2, "FD_CLOEXEC", 1);
                self.on_exec(call, pid, closes)
            }
            "F_SETFL" | "0x4" => {
                call.result.ok_or(Stop::Failed)?;
                let (at, _) = self.file(call, pid, 0).map_err(|_| Stop::NoFile)?;
                if let Some(file) = self.processes.file(at) {
                    file.appends = call.has(2, "O_APPEND", 0o2000);
                }
                Ok(())
            }
            "F_GETFL" | "0x3" if call.result.is_some() => {
                let (at, _) = self.file(call, pid, 0).map_err(|_| Stop::NoFile)?;
                let appends = has_flag(&call.said, "O_APPEND", 0);
                if let Some(file) = self.processes.file(at).filter(|_| appends) {
                    file.appends = true;
                }
                Ok(())
            }
            _ => Err(Stop::NoFile),
        }
    }

    fn on_exec(&mut self, call: &Call, pid: u32, closes: bool) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let (fd, _) = call.descriptor(0).ok_or(Stop::Failed)?;
        self.processes.set_on_exec(pid, fd, closes);
        Err(Stop::NoFile)
    }

    /// Two descriptors, as `[3, 4]`.
    fn pair(&mut self, call: &Call, pid: u32) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let list = call.args.iter().rev().find(|arg| arg.starts_with('['));
        let list = list.and_then(|list| list.strip_prefix('[')).unwrap_or_default();
        for (at, text) in list.split(", ").enumerate().take(2) {
            if let Some(fd) = number(text.trim_start()).filter(|_| at < 2) {
                let _ = self.is_other(pid, fd, false);
            }
        }
        Err(Stop::NoFile)
    }

    /// A descriptor that is for no file.
    fn other(&mut self, call: &Call, pid: u32) -> Step<()> {
        let fd = call.result.ok_or(Stop::Failed)?;
        self.is_other(pid, fd, false)
    }

    fn change_dir(&mut self, call: &Call, pid: u32) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let target = match call.name.as_str() {
            "fchdir" => self.dir(call, pid, 0).map(Target::Node),
            _ => self.path(call, pid, (None, 0), Way { is_there: true, follow: true }),
        };
        let dir = target.and_then(|target| self.dir_of(target));
        self.processes.set_cwd(pid, dir.map_or(Cwd::Unknown, Cwd::At));
        dir.map(|_| ())
    }

    fn tell_dir(&mut self, call: &Call, pid: u32) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let path = string(call.arg(0)).filter(|path| path.starts_with(b"/"));
        if let Some(path) = path {
            self.processes.set_cwd(pid, Cwd::Path(path));
        }
        Ok(())
    }
}

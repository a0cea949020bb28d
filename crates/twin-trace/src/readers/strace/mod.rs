//! `strace`: the calls of processes to files, as `strace -f -ttt -T -y` prints them.
//!
//! Contract: the whole text is read before the first record, because what existed before is known
//! only at its end. Every process is a client, a call's answer comes as much later as the call took
//! (`-T`), and calls of one process that came after each other do so here.
//!
//! What the text lacks is made up by these rules:
//!
//! - A path that is used with success and was not made before existed before. Its length is what
//!   `stat` told of it, or the end of what was read of it, before the trace changed it.
//! - A path is reached by a lookup of its last name. A path that is relative belongs to the working
//!   directory, which `-y` shows with AT_FDCWD and `chdir` changes; where it is not known, the call is
//!   left out, and so are calls on descriptors that were not seen to be opened and have no path.
//! - Reads and writes without a place go on where the one before ended.
//! - `/proc`, `/sys` and `/dev` are no files. What is mapped is not read.
//! - Everything belongs to one tree and to root; contents are not kept.

mod line;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::vec;

use twin_fs::{Fallocate, Ino, Op, ROOT_INO, SetAttr, SetTime, mode};
use twin_rt::Time;
use twin_settings::RegistryEntry;

use super::lines::Lines;
use super::tree::Tree;
use super::{Format, Input};
use crate::error::TraceError;
use crate::frame::{Header, Traits};
use crate::kind::Kind;
use crate::record::{Node, NodeAttr, Outcome, Record};
use crate::stream::Source;
use line::{AT_FDCWD, Call, Parser, Said, string};
use table::{OpenFile, Processes};

pub(super) const FORMAT: RegistryEntry<Format> = RegistryEntry::new(
    "strace",
    "strace -f -ttt -T -y: the calls of processes to files, each process a client",
    Format {
        is_like: Some(|start| {
            let text = String::from_utf8_lossy(start);
            let first = text.lines().next().unwrap_or_default();
            let is_call = matches!(Parser::default().line(first), Ok(Said::Call(_)));
            is_call || first.ends_with("<unfinished ...>")
        }),
        open,
    },
);

/// Directories of the root that hold no files.
const NO_FILES: [&[u8]; 3] = [b"proc", b"sys", b"dev"];
/// No place in a file is beyond this.
const FARTHEST: u64 = 1 << 50;

struct Strace {
    header: Header,
    records: vec::IntoIter<Record>,
    /// What is wrong with the line after them.
    damage: Option<TraceError>,
}

impl Source for Strace {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        match (self.records.next(), self.damage.take()) {
            (Some(record), damage) => {
                self.damage = damage;
                Ok(Some(record))
            }
            (None, Some(damage)) => Err(damage),
            (None, None) => Ok(None),
        }
    }
}

fn open(input: Input) -> Result<Box<dyn Source>, TraceError> {
    let mut said = Vec::new();
    let damage = all_lines(&mut Lines::new(input), &mut said).err();
    if said.is_empty()
        && let Some(damage) = damage
    {
        return Err(damage);
    }
    let timed = said.iter().any(|said| said.at_ns().is_some());
    let traits = Traits { timed, nodes_first: true, ..Traits::default() };
    let text = "calls of processes (strace)".to_owned();
    let header = Header { kind: Kind::Operations, start: Time(0), seed: 0, traits, text };
    let maker = Maker::run(&said);
    let nodes = maker.existing.into_values().map(Record::Node);
    let records: Vec<Record> = nodes.chain(maker.tree.into_records()).collect();
    Ok(Box::new(Strace { header, records: records.into_iter(), damage }))
}

/// What the lines say, up to the first that is none of strace.
fn all_lines(lines: &mut Lines<Input>, said: &mut Vec<Said>) -> Result<(), TraceError> {
    let mut parser = Parser::default();
    while lines.advance()? {
        let text = lines.text()?;
        if text.trim().is_empty() {
            continue;
        }
        match parser.line(text).map_err(|why| lines.error(why))? {
            Said::Nothing => {}
            other => said.push(other),
        }
    }
    Ok(())
}

/// Makes operations of calls.
struct Maker {
    tree: Tree,
    processes: Processes,
    /// The parent of each process that was seen to be made, and whether it is a thread.
    parents: BTreeMap<u32, (u32, bool)>,
    /// What existed before, by its number.
    existing: BTreeMap<Ino, Node>,
    /// What the trace has changed: its length now is not that of before.
    changed: BTreeSet<Ino>,
}

impl Maker {
    fn run(said: &[Said]) -> Maker {
        let mut maker = Maker {
            tree: Tree::new(),
            processes: Processes::default(),
            parents: said.iter().filter_map(birth).collect(),
            existing: BTreeMap::new(),
            changed: BTreeSet::new(),
        };
        let start_ns = said.iter().filter_map(Said::at_ns).min().unwrap_or(0);
        for said in said {
            let pid = said.pid();
            maker.tree.client = pid;
            maker.tree.at_ns = said.at_ns().unwrap_or(start_ns).saturating_sub(start_ns);
            let parent = maker.parents.get(&pid).copied();
            let is_thread = parent.is_some_and(|(_, is_thread)| is_thread);
            maker.processes.make(pid, parent.map(|(parent, _)| parent), is_thread);
            match said {
                Said::Call(call) => {
                    let before = maker.tree.operations();
                    // A call that has no counterpart, or whose file is not known, is left out.
                    let _ = maker.call(call);
                    if maker.tree.operations() > before {
                        maker.tree.answered_after(call.took_ns);
                    }
                }
                Said::Exit { .. } => maker.exit(pid),
                Said::Nothing => {}
            }
        }
        maker
    }

    fn exit(&mut self, pid: u32) {
        for ino in self.processes.exit(pid) {
            self.tree.release(ino);
        }
    }

    fn released(&mut self, ino: Option<Ino>) {
        if let Some(ino) = ino {
            self.tree.release(ino);
        }
    }

    /// The operations of a call; `None` if it has none.
    fn call(&mut self, call: &Call) -> Option<()> {
        if let Some((AT_FDCWD, Some(path))) = call.descriptor(0) {
            self.processes.set_cwd(call.pid, path.as_bytes());
        }
        match call.name.as_str() {
            "fork" | "vfork" | "clone" | "clone3" => {
                let (child, (parent, is_thread)) = birth_of(call)?;
                // The call may end after the child has.
                if !self.processes.has_ended(child) {
                    self.processes.make(child, Some(parent), is_thread);
                }
            }
            "exit_group" => self.exit(call.pid),
            "chdir" => {
                call.result?;
                let path = self.path(call, None, 0)?;
                self.processes.set_cwd(call.pid, &path);
            }
            "fchdir" => self.processes.set_cwd(call.pid, call.descriptor(0)?.1?.as_bytes()),
            "open" => self.open(call, None, 0, call.args.get(1)?)?,
            "openat" | "openat2" => self.open(call, Some(0), 1, call.args.get(2)?)?,
            "creat" => self.open(call, None, 0, "O_WRONLY|O_CREAT|O_TRUNC")?,
            "close" => {
                let ino = self.processes.closed(call.pid, call.descriptor(0)?.0);
                self.released(ino);
            }
            "dup" | "dup2" | "dup3" => self.copy_descriptor(call)?,
            "fcntl" if call.args.get(1)?.starts_with("F_DUPFD") => self.copy_descriptor(call)?,
            "read" | "readv" => self.read(call, 0, None, call.result?)?,
            "pread64" | "preadv" | "preadv2" => self.read(call, 0, call.number(3), call.result?)?,
            "write" | "writev" => self.write(call, 0, None, call.result?)?,
            "pwrite64" | "pwritev" | "pwritev2" => {
                self.write(call, 0, call.number(3), call.result?)?;
            }
            "sendfile" => {
                self.read(call, 1, call.number(2), call.result?)?;
                self.write(call, 0, None, call.result?)?;
            }
            "copy_file_range" => {
                self.read(call, 0, call.number(1), call.result?)?;
                self.write(call, 2, call.number(3), call.result?)?;
            }
            "lseek" => self.file(call, 0)?.at = u64::try_from(call.result?).ok()?,
            "sync" | "syncfs" => self.tree.op(Op::Sync, Outcome::Done),
            _ => self.of_descriptor(call).or_else(|| self.of_path(call))?,
        }
        Some(())
    }

    /// Calls on one descriptor that neither read nor write.
    fn of_descriptor(&mut self, call: &Call) -> Option<()> {
        let is_empty = call.name == "newfstatat" && call.args.get(1)? == "\"\"";
        let tree = match call.name.as_str() {
            "fsync" | "fdatasync" => {
                let ino = self.file(call, 0)?.ino;
                let data_only = call.name == "fdatasync";
                self.tree.op(Op::Fsync { ino, data_only }, Outcome::Done);
                return Some(());
            }
            "fstat" | "newfstatat" if call.name == "fstat" || is_empty => {
                let ino = self.file(call, 0)?.ino;
                self.told(ino, call);
                self.tree.op(Op::GetAttr { ino }, Outcome::Attr);
                return Some(());
            }
            "ftruncate" => {
                let (ino, size) = (self.file(call, 0)?.ino, call.number(1)?);
                call.result?;
                return self.truncate(ino, size);
            }
            "fchmod" | "fchown" => {
                let ino = self.file(call, 0)?.ino;
                self.touch(ino);
                return Some(());
            }
            _ => &mut self.tree,
        };
        let (processes, pid) = (&mut self.processes, call.pid);
        match call.name.as_str() {
            "getdents" | "getdents64" if call.result? > 0 => {
                let ino = processes.file(pid, call.descriptor(0)?.0)?.ino;
                tree.list(ino);
            }
            "fallocate" => {
                let ino = processes.file(pid, call.descriptor(0)?.0)?.ino;
                let (off, len) = (call.number(2)?, call.number(3)?);
                call.result?;
                let end = off.checked_add(len).filter(|end| *end <= FARTHEST)?;
                let mode = match call.args.get(1)?.as_str() {
                    "0" => Fallocate::Allocate { keep_size: false },
                    "FALLOC_FL_KEEP_SIZE" => Fallocate::Allocate { keep_size: true },
                    text if text.contains("PUNCH_HOLE") => Fallocate::PunchHole,
                    _ => return None,
                };
                if mode == (Fallocate::Allocate { keep_size: false }) {
                    let size = tree.inode(ino).size.max(end);
                    tree.set_size(ino, size);
                }
                self.changed.insert(ino);
                tree.op(Op::Fallocate { ino, off, len, mode }, Outcome::Done);
            }
            _ => return None,
        }
        Some(())
    }

    /// Calls with paths.
    fn of_path(&mut self, call: &Call) -> Option<()> {
        // Names of calls that end with `at` have a directory before each path.
        let name = call.name.as_str();
        let is_at = name.ends_with("at") || matches!(name, "renameat2" | "faccessat2" | "statx");
        let is_at = is_at && !matches!(name, "stat" | "lstat");
        let (dir, at) = if is_at { (Some(0), 1) } else { (None, 0) };
        match name {
            "stat" | "stat64" | "lstat" | "lstat64" | "newfstatat" | "fstatat64" | "statx"
            | "access" | "faccessat" | "faccessat2" | "readlink" | "readlinkat" | "getxattr"
            | "lgetxattr" => {
                let path = self.path(call, dir, at)?;
                let ino = self.lookup(&path, call.result.is_some(), call.says_dir())?;
                self.told(ino, call);
            }
            "chmod" | "fchmodat" | "chown" | "lchown" | "fchownat" | "utimensat" | "utime"
            | "utimes" => {
                let path = self.path(call, dir, at)?;
                let ino = self.lookup(&path, call.result.is_some(), None)?;
                call.result?;
                self.touch(ino);
            }
            "truncate" => {
                let path = self.path(call, dir, at)?;
                let ino = self.lookup(&path, call.result.is_some(), None)?;
                call.result?;
                self.truncate(ino, call.number(1)?)?;
            }
            "mkdir" | "mkdirat" => self.make(call, dir, at, |tree, dir, name| {
                tree.make_dir(dir, name);
            })?,
            "symlink" | "symlinkat" => {
                let target = string(call.args.first()?)?;
                let dir = (name == "symlinkat").then_some(1);
                let at = dir.map_or(1, |dir| dir + 1);
                self.make(call, dir, at, |tree, dir, name| tree.symlink(dir, name, &target))?;
            }
            "unlink" | "unlinkat" | "rmdir" => {
                let is_dir = name == "rmdir"
                    || call.args.get(2).is_some_and(|flags| flags.contains("AT_REMOVEDIR"));
                let path = self.path(call, dir, at)?;
                self.lookup(&path, call.result.is_some(), Some(is_dir))?;
                call.result?;
                let (dir, name) = self.place(&path)?;
                self.tree.remove(dir, &name);
            }
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                self.two_paths(call, is_at)?;
            }
            _ => return None,
        }
        Some(())
    }

    fn two_paths(&mut self, call: &Call, is_at: bool) -> Option<()> {
        let (from, to) = match is_at {
            true => (self.path(call, Some(0), 1)?, self.path(call, Some(2), 3)?),
            false => (self.path(call, None, 0)?, self.path(call, None, 1)?),
        };
        let is_link = call.name.starts_with("link");
        let done = call.result.is_some();
        let ino = self.lookup(&from, done, None)?;
        let (to_dir, to_name) = self.place(&to)?;
        self.tree.lookup(to_dir, &to_name);
        if !done {
            return Some(());
        }
        let (dir, name) = self.place(&from)?;
        match is_link {
            true if self.tree.known(to_dir, &to_name).is_none() => {
                self.tree.link(ino, to_dir, &to_name);
            }
            true => {}
            false => self.tree.rename(dir, &name, to_dir, &to_name),
        }
        Some(())
    }

    /// Something new at a path, or the failure to make it.
    fn make(
        &mut self,
        call: &Call,
        dir: Option<usize>,
        at: usize,
        make: impl FnOnce(&mut Tree, Ino, &[u8]),
    ) -> Option<()> {
        let path = self.path(call, dir, at)?;
        let (dir, name) = self.place(&path)?;
        if self.tree.lookup(dir, &name).is_none() && call.result.is_some() {
            make(&mut self.tree, dir, &name);
        }
        Some(())
    }

    fn open(&mut self, call: &Call, dir: Option<usize>, at: usize, flags: &str) -> Option<()> {
        let path = self.path(call, dir, at)?;
        let has = |flag: &str| flags.contains(flag);
        let Some(fd) = call.result else {
            self.lookup(&path, false, None);
            return Some(());
        };
        let write = has("O_WRONLY") || has("O_RDWR");
        let is_new = has("O_CREAT")
            && self.place(&path).is_some_and(|(dir, name)| self.tree.known(dir, &name).is_none());
        let ino = match is_new {
            true => {
                let (dir, name) = self.place(&path)?;
                self.tree.lookup(dir, &name);
                let ino = self.tree.create(dir, &name);
                self.changed.insert(ino);
                ino
            }
            false => {
                let ino = self.lookup(&path, true, Some(has("O_DIRECTORY")))?;
                let truncate = has("O_TRUNC") && write;
                if truncate {
                    self.changed.insert(ino);
                }
                self.tree.open(ino, write, truncate);
                ino
            }
        };
        let released = self.processes.opened(call.pid, fd, ino, has("O_APPEND"));
        self.released(released);
        Some(())
    }

    fn copy_descriptor(&mut self, call: &Call) -> Option<()> {
        let (from, to) = (call.descriptor(0)?.0, call.result?);
        let released = self.processes.copied(call.pid, from, to);
        self.released(released);
        Some(())
    }

    fn file(&mut self, call: &Call, arg: usize) -> Option<&mut OpenFile> {
        self.processes.file(call.pid, call.descriptor(arg)?.0)
    }

    /// Reads `got` bytes at a place, or where the file is.
    fn read(&mut self, call: &Call, fd: usize, at: Option<u64>, got: i64) -> Option<()> {
        let got = u32::try_from(got).ok()?;
        let file = self.file(call, fd)?;
        let (ino, off) = (file.ino, at.unwrap_or(file.at));
        let end = off.checked_add(u64::from(got)).filter(|end| *end <= FARTHEST)?;
        if at.is_none() {
            file.at = end;
        }
        self.has_size(ino, end);
        // A read at the end is a read, too; of how many bytes is not known to matter.
        let len = got.max(1);
        self.tree.op(Op::Read { ino, off, len }, Outcome::Data(u64::from(got)));
        Some(())
    }

    /// Writes `put` bytes at a place, or where the file is.
    fn write(&mut self, call: &Call, fd: usize, at: Option<u64>, put: i64) -> Option<()> {
        let put = u32::try_from(put).ok().filter(|put| *put > 0)?;
        let OpenFile { ino, appends, at: here, .. } = *self.file(call, fd)?;
        let off = match at {
            Some(at) => at,
            None if appends => self.tree.inode(ino).size,
            None => here,
        };
        let end = off.checked_add(u64::from(put)).filter(|end| *end <= FARTHEST)?;
        if at.is_none() {
            self.file(call, fd)?.at = end;
        }
        self.changed.insert(ino);
        self.tree.write(ino, off, u64::from(put));
        Some(())
    }

    fn truncate(&mut self, ino: Ino, size: u64) -> Option<()> {
        let size = Some(size).filter(|size| *size <= FARTHEST);
        self.tree.set_size(ino, size?);
        self.changed.insert(ino);
        let set = SetAttr { size, ..SetAttr::default() };
        self.tree.op(Op::SetAttr { ino, set }, Outcome::Attr);
        Some(())
    }

    fn touch(&mut self, ino: Ino) {
        let set = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
        self.tree.op(Op::SetAttr { ino, set }, Outcome::Attr);
    }

    /// The path of an argument, absolute and without `.` and `..`; `None` if it is not known, or holds
    /// no files.
    fn path(&self, call: &Call, dir: Option<usize>, arg: usize) -> Option<Vec<u8>> {
        let given = string(call.args.get(arg)?)?;
        let base: &[u8] = match dir.map(|dir| call.descriptor(dir)) {
            _ if given.starts_with(b"/") => b"",
            Some(at) => match at? {
                (_, Some(path)) => path.as_bytes(),
                (AT_FDCWD, None) => self.processes.cwd(call.pid)?,
                _ => return None,
            },
            None => self.processes.cwd(call.pid)?,
        };
        if given.contains(&0) || !(base.is_empty() || base.starts_with(b"/")) {
            return None;
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in base.split(|b| *b == b'/').chain(given.split(|b| *b == b'/')) {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                part if part.len() > twin_fs::NAME_MAX => return None,
                part => parts.push(part),
            }
        }
        let is_none = parts.first().is_some_and(|first| NO_FILES.contains(first));
        (!is_none).then(|| [b"/", parts.join(&b'/').as_slice()].concat())
    }

    /// The directory and the name of a path; `None` for the root. Directories above that are not known
    /// existed before.
    fn place(&mut self, path: &[u8]) -> Option<(Ino, Vec<u8>)> {
        let mut dir = ROOT_INO;
        let mut parts = path.split(|b| *b == b'/').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return Some((dir, part.to_owned()));
            }
            dir = self.existed(dir, part, true);
        }
        None
    }

    /// The inode of a name, which existed before if it is not known.
    fn existed(&mut self, dir: Ino, name: &[u8], is_dir: bool) -> Ino {
        let kind = |is_dir| if is_dir { mode::DIRECTORY | 0o755 } else { mode::REGULAR | 0o644 };
        let known = self.tree.known(dir, name);
        let ino = known.unwrap_or_else(|| {
            let ino = self.tree.add_existing(dir, name, is_dir);
            let attr = Some(NodeAttr { nlink: 1, ..NodeAttr::default() });
            let node = Node { dir, name: name.into(), ino, mode: kind(is_dir), attr };
            self.existing.insert(ino, node);
            ino
        });
        // What was only looked at may turn out to be a directory.
        if is_dir && let Some(node) = self.existing.get_mut(&ino).filter(|node| !node.is_dir()) {
            node.mode = kind(true);
            node.attr = Some(NodeAttr { nlink: 1, ..NodeAttr::default() });
            self.tree.becomes_dir(ino);
        }
        ino
    }

    /// Looks a path up.
    fn lookup(&mut self, path: &[u8], is_there: bool, is_dir: Option<bool>) -> Option<Ino> {
        let Some((dir, name)) = self.place(path) else { return Some(ROOT_INO) };
        if is_there {
            self.existed(dir, &name, is_dir == Some(true));
        }
        self.tree.lookup(dir, &name)
    }

    /// What a call told of a file.
    fn told(&mut self, ino: Ino, call: &Call) {
        if let Some(size) = call.says_size() {
            self.has_size(ino, size);
        }
    }

    /// A file is at least so long; if nothing has changed it, it was so before.
    fn has_size(&mut self, ino: Ino, size: u64) {
        if self.changed.contains(&ino) || size > FARTHEST {
            return;
        }
        let Some(node) = self.existing.get_mut(&ino).filter(|node| !node.is_dir()) else { return };
        let Some(attr) = &mut node.attr else { return };
        attr.size = attr.size.max(size);
        attr.allocated = attr.size;
        self.tree.set_size(ino, attr.size);
    }
}

/// The child of a call, with its parent, and whether it is a thread.
fn birth_of(call: &Call) -> Option<(u32, (u32, bool))> {
    let child = u32::try_from(call.result?).ok().filter(|child| *child > 0)?;
    let is_thread = call.args.iter().any(|arg| arg.contains("CLONE_FILES"));
    Some((child, (call.pid, is_thread)))
}

fn birth(said: &Said) -> Option<(u32, (u32, bool))> {
    match said {
        Said::Call(call) if matches!(&*call.name, "fork" | "vfork" | "clone" | "clone3") => {
            birth_of(call)
        }
        _ => None,
    }
}

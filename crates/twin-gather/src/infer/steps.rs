//! Turns an exchange into operations: one function for each kind of call.

use core::net::IpAddr;

use twin_fs::{Data, Ino, Name, Op, ROOT_INO, SetAttr, SetTime, mode};
use twin_trace::{DirOutcome, ErrorCode, Node, NodeAttr, Outcome};

use super::names::File;
use super::{Event, Inference, usable};
use crate::gatherer::Exchange;
use crate::nfs::{self, Answer, Attr, Call, Handle};

/// The deepest path that is followed to the root. What lies deeper becomes nameless.
const DEEPEST: usize = 256;
/// The largest offset that is believed, in bytes.
const LARGEST: u64 = 1 << 50;

/// Why an exchange is left out.
enum LeftOut {
    /// The call has no counterpart in a trace.
    NoCounterpart,
    /// The call failed, and a replay would not fail.
    Failed,
    /// The call contradicts earlier ones: a getattr of this file stands for it.
    Contradicts(Ino),
}

type Step = Result<(), LeftOut>;

impl Inference<'_> {
    /// Takes the next exchange.
    pub(super) fn exchange(&mut self, exchange: &Exchange) {
        let since = |at_ns: u64| at_ns.saturating_sub(self.start_ns);
        (self.asked_ns, self.answered_ns) = (since(exchange.asked_ns), since(exchange.answered_ns));
        if let Some(since_ns) = self.asked_ns.checked_sub(self.options.close_after_ns) {
            self.close_idle(since_ns);
        }
        let next = self.clients.len() as u32 + 1;
        self.client = *self.clients.entry(exchange.client.ip()).or_insert(next);
        match self.step(exchange) {
            Ok(()) => {}
            Err(LeftOut::NoCounterpart) => self.counts.without_counterpart += 1,
            Err(LeftOut::Failed) => self.counts.failed += 1,
            Err(LeftOut::Contradicts(ino)) => {
                self.counts.contradictions += 1;
                self.did(Op::GetAttr { ino }, Outcome::Attr);
            }
        }
    }

    fn step(&mut self, exchange: &Exchange) -> Step {
        let Exchange { call, answer, server, .. } = exchange;
        let server = server.ip();
        let done = answer.status == 0;
        match call {
            Call::Nothing => Err(LeftOut::NoCounterpart),
            Call::Lookup { dir, name } => self.lookup(server, dir, name, answer),
            Call::Create { .. } => self.create(server, call, answer),
            Call::Remove { dir, name, is_dir } => self.remove(server, dir, (name, *is_dir), answer),
            _ if !done => Err(LeftOut::Failed),
            Call::Rename { dir, name, to_dir, to_name } => {
                self.rename(server, (dir, name), (to_dir, to_name))
            }
            Call::Link { file, dir, name } => self.link(server, file, dir, name),
            Call::ReadDir { cookie, .. } if *cookie != 0 => Err(LeftOut::NoCounterpart),
            Call::ReadDir { dir, bytes, .. } => self.list(server, dir, *bytes, answer),
            Call::StatFs => {
                self.did(Op::StatFs, Outcome::Done);
                Ok(())
            }
            Call::GetAttr { file }
            | Call::SetAttr { file, .. }
            | Call::Access { file }
            | Call::ReadLink { file }
            | Call::Read { file, .. }
            | Call::Write { file, .. }
            | Call::Commit { file } => {
                let ino = self.reach(server, file);
                self.on_file(ino, call, answer)
            }
        }
    }

    /// An operation on a file that exists.
    fn on_file(&mut self, ino: Ino, call: &Call, answer: &Answer) -> Step {
        let file = self.names.file(ino).cloned().unwrap_or_default();
        let kind = file.mode & mode::TYPE;
        match call {
            Call::SetAttr { mode, size, .. } => {
                let size = size.filter(|&size| kind == mode::REGULAR && size <= LARGEST);
                let mtime = (size.is_none() && mode.is_none()).then_some(SetTime::Now);
                let set = SetAttr { mode: *mode, size, mtime, ..SetAttr::default() };
                self.did(Op::SetAttr { ino, set }, Outcome::Attr);
                self.resize(ino, |old| size.unwrap_or(old));
            }
            Call::Access { .. } => self.did(Op::Access { ino, mask: 4 }, Outcome::Done),
            Call::ReadLink { .. } if kind == mode::SYMLINK => {
                self.did(Op::ReadLink { ino }, Outcome::Bytes(file.size.clamp(1, 4095)));
            }
            Call::Read { off, len, .. } if kind == mode::REGULAR && *off <= LARGEST => {
                self.open(ino, false);
                let data = file.size.saturating_sub(*off).min(u64::from(*len));
                self.did(Op::Read { ino, off: *off, len: *len }, Outcome::Data(data));
            }
            Call::Write { off, len, stable, .. } if kind == mode::REGULAR && *off <= LARGEST => {
                let len = u64::from(answer.count.unwrap_or(*len).min(*len));
                self.open(ino, true);
                let write = Op::Write { ino, off: *off, data: Data::Synthetic(len) };
                self.write(ino, write, len, *stable);
                self.resize(ino, |old| old.max(off + len));
            }
            Call::Commit { .. } => {
                self.did(Op::Fsync { ino, data_only: false }, Outcome::Done);
            }
            Call::GetAttr { .. } => self.did(Op::GetAttr { ino }, Outcome::Attr),
            _ => return Err(LeftOut::Contradicts(ino)),
        }
        Ok(())
    }

    /// Makes a write; if it is `stable`, its answer follows after its data is durable.
    fn write(&mut self, ino: Ino, write: Op, len: u64, stable: bool) {
        if !stable {
            self.did(write, Outcome::Written(len));
            return;
        }
        self.made(write, Outcome::Written(len));
        self.counts.fsyncs += 1;
        self.did(Op::Fsync { ino, data_only: true }, Outcome::Done);
    }

    fn resize(&mut self, ino: Ino, size: impl FnOnce(u64) -> u64) {
        if let Some(file) = self.names.file_mut(ino) {
            file.size = size(file.size);
        }
    }

    /// Makes sure that the client has the file open.
    fn open(&mut self, ino: Ino, write: bool) {
        if self.opens.used(ino, self.client, write, self.asked_ns) {
            self.counts.opens += 1;
            self.made(Op::Open { ino, read: true, write, truncate: false }, Outcome::Done);
        }
    }

    /// The inode of a handle, which a node and lookups lead to if it has not been met.
    fn reach(&mut self, server: IpAddr, handle: &Handle) -> Ino {
        let number = self.number(server, handle);
        let mut chain = vec![number];
        let mut top = number;
        while chain.len() < DEEPEST
            && self.inos[top].is_none()
            && let Some((parent, _)) = &self.known.seen(top).name
            && !chain.contains(parent)
        {
            top = *parent;
            chain.push(top);
        }
        let mut ino = ROOT_INO;
        while let Some(number) = chain.pop() {
            ino = self.place(number);
        }
        ino
    }

    /// The number of a handle.
    fn number(&mut self, server: IpAddr, handle: &Handle) -> usize {
        let number = self.known.number(server, handle);
        self.inos.resize(self.known.len(), None);
        number
    }

    /// The inode of a handle whose directory has an inode, if it is known.
    fn place(&mut self, number: usize) -> Ino {
        if let Some(ino) = self.inos[number] {
            self.hold(ino);
            return ino;
        }
        let seen = self.known.seen(number);
        let file = File { size: seen.size(), ..File::new(seen.mode(), seen.attr) };
        let used = seen.attr.map(|attr| attr.used);
        let place = seen.name.as_ref().and_then(|(parent, name)| {
            let dir = self.inos[*parent].filter(|&dir| self.names.is_dir(dir))?;
            self.names.undecided(dir, name).then(|| (dir, name.clone()))
        });
        let (dir, name) = place.unwrap_or_else(|| {
            self.counts.nameless += 1;
            (ROOT_INO, self.free_name(number))
        });
        let ino = self.node(dir, &name, file, used);
        self.bind(number, ino);
        self.hold(ino);
        ino
    }

    /// A name in the root directory for a handle without one.
    fn free_name(&self, number: usize) -> Name {
        let names = (0..).map(|again| match again {
            0 => format!("nfs-{number}"),
            _ => format!("nfs-{number}-{again}"),
        });
        let mut names = names.map(|name| Name::from(name.into_bytes()));
        let free = names.find(|name| self.names.undecided(ROOT_INO, name));
        free.unwrap_or_default()
    }

    /// Adds a file that existed before.
    fn node(&mut self, dir: Ino, name: &[u8], file: File, used: Option<u64>) -> Ino {
        let (mode, size) = (file.mode, file.size);
        let ino = self.names.add(dir, name, file);
        let allocated = used.filter(|&used| used > 0).map_or(size, |used| used.min(size));
        let nlink = 1 + u32::from(mode & mode::TYPE == mode::DIRECTORY);
        let attr = NodeAttr { nlink, size, allocated, ..NodeAttr::default() };
        let name = self.masked(name);
        self.counts.nodes += 1;
        let node = Node { dir, name, ino, mode, attr: Some(attr) };
        self.events.push((self.asked_ns, Event::Node(node)));
        ino
    }

    /// A file that existed before, of which only the name is known.
    fn node_by_name(&mut self, dir: Ino, name: &[u8], mode: u32, attr: Option<Attr>) -> Ino {
        let used = attr.map(|attr| attr.used);
        self.node(dir, name, File::new(mode, attr), used)
    }

    /// Makes sure that the trace has a reference to an inode: the operations on it need one.
    fn hold(&mut self, ino: Ino) {
        let Some(file) = self.names.file_mut(ino) else { return };
        let Some((dir, name)) = file.places.first().cloned().filter(|_| file.refs == 0) else {
            return;
        };
        file.refs = 1;
        self.counts.lookups += 1;
        let name = self.masked(&name);
        self.made(Op::Lookup { dir, name }, Outcome::Entry(ino));
    }

    fn bind(&mut self, number: usize, ino: Ino) {
        self.inos[number] = Some(ino);
        if let Some(file) = self.names.file_mut(ino) {
            file.handle = Some(number);
        }
    }

    /// Binds the handle of an answer to the file that it is, if neither is bound yet.
    fn bind_answer(&mut self, server: IpAddr, answer: &Answer, ino: Ino) {
        let Some(handle) = &answer.handle else { return };
        let number = self.number(server, handle);
        let unbound = self.names.file(ino).is_some_and(|file| file.handle.is_none());
        if unbound && self.inos[number].is_none() {
            self.bind(number, ino);
        }
    }

    /// The name in the trace.
    fn masked(&mut self, name: &[u8]) -> Name {
        if !self.options.anonymous {
            return name.into();
        }
        let next = self.masks.len();
        let mask = || format!("n{next}").into_bytes().into();
        self.masks.entry(name.into()).or_insert_with(mask).clone()
    }

    fn lookup(&mut self, server: IpAddr, dir: &Handle, name: &[u8], answer: &Answer) -> Step {
        if !matches!(answer.status, 0 | nfs::NOT_FOUND) {
            return Err(LeftOut::Failed);
        }
        let dir = self.reach(server, dir);
        if !usable(name) || !self.names.is_dir(dir) {
            return Err(LeftOut::Contradicts(dir));
        }
        let here = self.names.get(dir, name);
        if answer.status == nfs::NOT_FOUND {
            if here.is_some() {
                return Err(LeftOut::Contradicts(dir));
            }
            self.names.decide(dir, name);
            let name = self.masked(name);
            self.did(Op::Lookup { dir, name }, Outcome::Failed(ErrorCode::NotFound));
            return Ok(());
        }
        let bound = match &answer.handle {
            Some(handle) => {
                let number = self.number(server, handle);
                self.inos[number]
            }
            None => None,
        };
        let ino = match (here, bound) {
            (Some(here), Some(bound)) if here == bound => here,
            (Some(here), None) if self.names.file(here).is_some_and(|f| f.handle.is_none()) => here,
            (None, None) if self.names.undecided(dir, name) => {
                let mode = answer.attr.map_or(mode::REGULAR | 0o644, |attr| attr.mode);
                self.node_by_name(dir, name, mode, answer.attr)
            }
            (_, Some(bound)) => {
                self.hold(bound);
                return Err(LeftOut::Contradicts(bound));
            }
            (_, None) => return Err(LeftOut::Contradicts(dir)),
        };
        self.bind_answer(server, answer, ino);
        if let Some(file) = self.names.file_mut(ino) {
            file.refs += 1;
        }
        let name = self.masked(name);
        self.did(Op::Lookup { dir, name }, Outcome::Entry(ino));
        Ok(())
    }

    fn create(&mut self, server: IpAddr, call: &Call, answer: &Answer) -> Step {
        let Call::Create { dir, name, mode, exclusive, size, target } = call else { return Ok(()) };
        if !matches!(answer.status, 0 | nfs::EXISTS) {
            return Err(LeftOut::Failed);
        }
        let dir = self.reach(server, dir);
        if !usable(name) || !self.names.is_dir(dir) {
            return Err(LeftOut::Contradicts(dir));
        }
        let kind = mode & mode::TYPE;
        let here = self.names.get(dir, name);
        let masked = self.masked(name);
        let op = match kind {
            mode::DIRECTORY => Op::MakeDir { dir, name: masked, mode: mode & mode::PERMISSIONS },
            mode::SYMLINK => {
                let len = target.len().clamp(1, 4095);
                Op::Symlink { dir, name: masked, target: vec![b'x'; len].into() }
            }
            mode::REGULAR => {
                let exclusive = *exclusive || answer.status == nfs::EXISTS;
                let mode = mode & mode::PERMISSIONS;
                Op::Create { dir, name: masked, mode, exclusive }
            }
            _ => Op::MakeNode { dir, name: masked, mode: *mode, rdev: 0 },
        };
        if answer.status == nfs::EXISTS {
            if here.is_none() {
                return Err(LeftOut::Contradicts(dir));
            }
            self.did(op, Outcome::Failed(ErrorCode::Exists));
            return Ok(());
        }
        let ino = match here {
            None => self.created(dir, name, (*mode, target.len() as u64), op),
            Some(here) if kind == mode::REGULAR && self.is_file(here) => {
                // An existing file is opened, and perhaps truncated.
                if let Some(file) = self.names.file_mut(here) {
                    file.refs += 1;
                }
                let name = self.masked(name);
                self.did(Op::Lookup { dir, name }, Outcome::Entry(here));
                here
            }
            Some(_) => return Err(LeftOut::Contradicts(dir)),
        };
        self.bind_answer(server, answer, ino);
        let old = self.names.file(ino).map_or(0, |file| file.size);
        if let Some(size) =
            size.filter(|&size| kind == mode::REGULAR && size != old && size <= LARGEST)
        {
            let set = SetAttr { size: Some(size), ..SetAttr::default() };
            // Behind the creation.
            let at_ns = self.answered_ns;
            self.add(self.client, (at_ns, at_ns), Op::SetAttr { ino, set }, Outcome::Attr);
            self.resize(ino, |_| size);
        }
        Ok(())
    }

    fn is_file(&self, ino: Ino) -> bool {
        self.names.file(ino).is_some_and(|file| file.mode & mode::TYPE == mode::REGULAR)
    }

    fn created(&mut self, dir: Ino, name: &[u8], (mode, target): (u32, u64), op: Op) -> Ino {
        let size = if mode & mode::TYPE == mode::SYMLINK { target } else { 0 };
        let file = File { size, refs: 1, is_new: true, ..File::new(mode, None) };
        let ino = self.names.add(dir, name, file);
        let opened = matches!(op, Op::Create { .. });
        self.did(op, Outcome::Entry(ino));
        if opened {
            self.opens.created(ino, self.client, self.asked_ns);
        }
        ino
    }

    fn remove(
        &mut self,
        server: IpAddr,
        dir: &Handle,
        (name, is_dir): (&[u8], bool),
        answer: &Answer,
    ) -> Step {
        if !matches!(answer.status, 0 | nfs::NOT_FOUND | nfs::NOT_EMPTY) {
            return Err(LeftOut::Failed);
        }
        let dir = self.reach(server, dir);
        if !usable(name) || !self.names.is_dir(dir) {
            return Err(LeftOut::Contradicts(dir));
        }
        let here = match self.names.get(dir, name) {
            None if answer.status == 0 && self.names.undecided(dir, name) => {
                let mode = if is_dir { mode::DIRECTORY | 0o755 } else { mode::REGULAR | 0o644 };
                Some(self.node_by_name(dir, name, mode, None))
            }
            here => here,
        };
        let masked = self.masked(name);
        let op = match is_dir {
            true => Op::RemoveDir { dir, name: masked },
            false => Op::Unlink { dir, name: masked },
        };
        let file = here.and_then(|ino| self.names.file(ino));
        let same_kind = file.is_some_and(|file| file.is_dir() == is_dir);
        let empty = file.is_none_or(|file| file.entries == 0);
        match (answer.status, here) {
            (0, Some(ino)) if same_kind && empty => {
                self.did(op, Outcome::Done);
                self.names.unlink(dir, name);
                self.reap(ino);
            }
            (nfs::NOT_FOUND, None) => {
                self.names.decide(dir, name);
                self.did(op, Outcome::Failed(ErrorCode::NotFound));
            }
            (nfs::NOT_EMPTY, Some(_)) if same_kind && !empty => {
                self.did(op, Outcome::Failed(ErrorCode::NotEmpty));
            }
            _ => return Err(LeftOut::Contradicts(dir)),
        }
        Ok(())
    }

    /// Closes and forgets a file that has lost its last name.
    fn reap(&mut self, ino: Ino) {
        if self.names.file(ino).is_none_or(|file| !file.places.is_empty()) {
            return;
        }
        let at_ns = self.answered_ns;
        for close in self.opens.of_file(ino) {
            self.close(close, at_ns);
        }
        let Some(file) = self.names.forget(ino) else { return };
        if let Some(number) = file.handle {
            self.inos[number] = None;
        }
        if file.refs > 0 {
            let forget = Op::Forget { ino, count: file.refs };
            self.add(self.client, (at_ns, at_ns), forget, Outcome::Done);
        }
    }

    fn rename(&mut self, server: IpAddr, from: (&Handle, &[u8]), to: (&Handle, &[u8])) -> Step {
        let (dir, to_dir) = (self.reach(server, from.0), self.reach(server, to.0));
        let (name, to_name) = (from.1, to.1);
        let dirs = self.names.is_dir(dir) && self.names.is_dir(to_dir);
        if !usable(name) || !usable(to_name) || !dirs {
            return Err(LeftOut::Contradicts(dir));
        }
        let ino = match self.names.get(dir, name) {
            Some(ino) => ino,
            None if self.names.undecided(dir, name) => {
                self.node_by_name(dir, name, mode::REGULAR | 0o644, None)
            }
            None => return Err(LeftOut::Contradicts(dir)),
        };
        let is_dir = self.names.is_dir(ino);
        let target = self.names.get(to_dir, to_name);
        let replaces = target.and_then(|target| self.names.file(target));
        let fits = replaces.is_none_or(|file| file.is_dir() == is_dir && file.entries == 0);
        if !fits || is_dir && self.names.is_above(ino, to_dir) {
            return Err(LeftOut::Contradicts(dir));
        }
        let op = Op::Rename {
            dir,
            name: self.masked(name),
            to_dir,
            to_name: self.masked(to_name),
            mode: Default::default(),
        };
        self.did(op, Outcome::Done);
        // Two names of one file: POSIX leaves both.
        if target == Some(ino) {
            return Ok(());
        }
        if let Some(old) = target {
            self.names.unlink(to_dir, to_name);
            self.reap(old);
        }
        self.names.unlink(dir, name);
        self.names.link(ino, to_dir, to_name);
        Ok(())
    }

    fn link(&mut self, server: IpAddr, file: &Handle, dir: &Handle, name: &[u8]) -> Step {
        let (ino, dir) = (self.reach(server, file), self.reach(server, dir));
        let free = usable(name) && self.names.get(dir, name).is_none();
        if !free || self.names.is_dir(ino) || !self.names.is_dir(dir) {
            return Err(LeftOut::Contradicts(ino));
        }
        let op = Op::Link { ino, dir, name: self.masked(name) };
        self.did(op, Outcome::Entry(ino));
        self.names.link(ino, dir, name);
        if let Some(file) = self.names.file_mut(ino) {
            file.refs += 1;
        }
        Ok(())
    }

    /// A listing from the beginning. What it names and was not known existed before.
    fn list(&mut self, server: IpAddr, dir: &Handle, bytes: u32, answer: &Answer) -> Step {
        let dir = self.reach(server, dir);
        if !self.names.is_dir(dir) {
            return Err(LeftOut::Contradicts(dir));
        }
        for entry in &answer.entries {
            let new = usable(&entry.name)
                && self.names.get(dir, &entry.name).is_none()
                && self.names.undecided(dir, &entry.name);
            let number = entry.handle.as_ref().map(|handle| self.number(server, handle));
            if !new || number.is_some_and(|number| self.inos[number].is_some()) {
                continue;
            }
            let mode = match (entry.attr, number) {
                (Some(attr), _) => attr.mode,
                (None, Some(number)) => self.known.seen(number).mode(),
                (None, None) => mode::REGULAR | 0o644,
            };
            let ino = self.node_by_name(dir, &entry.name, mode, entry.attr);
            if let Some(number) = number {
                self.bind(number, ino);
            }
        }
        let entries = self.names.file(dir).map_or(0, |file| file.entries);
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        let outcome = DirOutcome { entries, next: u64::from(entries), ..DirOutcome::default() };
        let max_bytes = bytes.clamp(4096, 1 << 20);
        let op = Op::ReadDir { dir, cookie: 0, max_bytes, plus: false };
        self.did(op, Outcome::Dir(outcome));
        Ok(())
    }
}

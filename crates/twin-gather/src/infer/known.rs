//! The facts about each file handle that a whole capture shows. They are collected before the trace
//! is made, because a file may be used long before its name is seen.

use core::net::IpAddr;

use twin_fs::{Name, mode};
use twin_rt::FixedMap;

use super::usable;
use crate::gatherer::Exchange;
use crate::nfs::{Answer, Attr, Call, Handle};

/// The facts about one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The attributes of the file when it was first seen.
    pub(super) attr: Option<Attr>,
    /// The length of the file when it was first met, if an answer had it.
    size: Option<u64>,
    /// The end of the last byte that was read.
    extent: u64,
    /// The file was used as a directory.
    is_dir: bool,
    /// The first name that led to it: the number of its directory, and the name.
    pub(super) name: Option<(usize, Name)>,
    /// The file has been met.
    met: bool,
}

impl Seen {
    /// Type and permission bits.
    pub(super) fn mode(&self) -> u32 {
        match (self.attr, self.is_dir) {
            (Some(attr), false) => attr.mode,
            (Some(attr), true) => mode::DIRECTORY | attr.mode & mode::PERMISSIONS,
            (None, true) => mode::DIRECTORY | 0o755,
            (None, false) => mode::REGULAR | 0o644,
        }
    }

    /// The length of the file when it was first met, at least up to the end of what was read.
    pub(super) fn size(&self) -> u64 {
        self.size.unwrap_or(self.extent)
    }
}

/// All handles, by number.
#[derive(Default)]
pub(super) struct Known {
    files: Vec<Seen>,
    numbers: FixedMap<(IpAddr, Handle), usize>,
}

impl Known {
    pub(super) fn of(exchanges: &[Exchange]) -> Known {
        let mut known = Known::default();
        for exchange in exchanges {
            known.learn(exchange);
        }
        known
    }

    /// The number of a handle.
    pub(super) fn number(&mut self, server: IpAddr, handle: &Handle) -> usize {
        let next = self.files.len();
        let number = *self.numbers.entry((server, handle.clone())).or_insert(next);
        if number == next {
            self.files.push(Seen::default());
        }
        number
    }

    pub(super) fn seen(&self, number: usize) -> &Seen {
        &self.files[number]
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    fn meet(&mut self, number: usize, size: Option<u64>, attr: Option<Attr>) {
        let seen = &mut self.files[number];
        if !seen.met {
            seen.size = size;
        }
        seen.met = true;
        seen.attr = seen.attr.or(attr);
    }

    fn is_dir(&mut self, server: IpAddr, handle: &Handle) -> usize {
        let number = self.number(server, handle);
        self.files[number].is_dir = true;
        number
    }

    fn named(&mut self, number: usize, dir: usize, name: &[u8]) {
        if usable(name) && dir != number {
            self.files[number].name.get_or_insert_with(|| (dir, name.into()));
        }
    }

    fn learn(&mut self, exchange: &Exchange) {
        let Exchange { call, answer, server, .. } = exchange;
        if answer.status != 0 {
            return;
        }
        let server = server.ip();
        let size_after = answer.attr.map(|attr| attr.size);
        match call {
            Call::GetAttr { file } | Call::Access { file } | Call::ReadLink { file } => {
                let number = self.number(server, file);
                self.meet(number, size_after, answer.attr);
            }
            Call::Read { file, off, .. } => {
                let number = self.number(server, file);
                self.meet(number, size_after, answer.attr);
                let end = off.saturating_add(u64::from(answer.count.unwrap_or(0)));
                self.files[number].extent = self.files[number].extent.max(end);
            }
            Call::SetAttr { file, .. } | Call::Write { file, .. } | Call::Commit { file } => {
                let number = self.number(server, file);
                self.meet(number, answer.size_before, answer.attr);
            }
            Call::Lookup { dir, name } => {
                let dir = self.is_dir(server, dir);
                self.found(server, dir, name, answer);
            }
            Call::Create { dir, name, .. } => {
                let dir = self.is_dir(server, dir);
                self.found(server, dir, name, answer);
            }
            Call::ReadDir { dir, .. } => {
                let dir = self.is_dir(server, dir);
                for entry in &answer.entries {
                    if let Some(handle) = &entry.handle {
                        let number = self.number(server, handle);
                        self.meet(number, entry.attr.map(|attr| attr.size), entry.attr);
                        self.named(number, dir, &entry.name);
                    }
                }
            }
            Call::Remove { dir, .. } => drop(self.is_dir(server, dir)),
            Call::Rename { dir, to_dir, .. } => {
                self.is_dir(server, dir);
                self.is_dir(server, to_dir);
            }
            Call::Link { file, dir, .. } => {
                self.is_dir(server, dir);
                let number = self.number(server, file);
                self.meet(number, size_after, answer.attr);
            }
            Call::Nothing | Call::StatFs => {}
        }
    }

    fn found(&mut self, server: IpAddr, dir: usize, name: &[u8], answer: &Answer) {
        if let Some(handle) = &answer.handle {
            let number = self.number(server, handle);
            self.meet(number, answer.attr.map(|attr| attr.size), answer.attr);
            self.named(number, dir, name);
        }
    }
}

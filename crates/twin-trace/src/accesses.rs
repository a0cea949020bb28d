//! How the clients of a workload access files, in the terms of the studies of the Sprite and BSD
//! traces: an access is all that happens between an open and its close.

use twin_fs::{Ino, Op};
use twin_rt::{FixedMap, Nanos, SECS};

use crate::error::TraceError;
use crate::record::{Outcome, Record, Transfer};
use crate::stream::Source;

/// A file of fewer bytes than this is small.
const SMALL: u64 = 10 * 1000;
/// An open of less than this is brief.
const BRIEF_NS: Nanos = SECS / 4;
/// Users are active or not by intervals of this (table 2 of Baker and others 1991).
const INTERVAL_NS: Nanos = 600 * SECS;
/// A file that lives less than this died soon.
const SOON_NS: Nanos = 30 * SECS;

/// Counts of accesses and of files, in a whole workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessStats {
    /// Accesses that moved any bytes.
    pub accesses: u64,
    /// Of these, the ones that only read.
    pub read_only: u64,
    /// Of these, the ones that only wrote.
    pub write_only: u64,
    /// Read-only accesses to the whole file, in order.
    pub read_whole: u64,
    /// Write-only accesses to the whole file, in order.
    pub written_whole: u64,
    /// Accesses for which the file was open for less than a quarter of a second.
    pub open_briefly: u64,
    /// Accesses to files that had less than 10 KB at the end of it.
    pub small: u64,
    /// Number of bytes read.
    pub read_bytes: u64,
    /// Number of bytes written.
    pub written_bytes: u64,
    /// Files created, of which the whole first half minute was seen or which died.
    pub born: u64,
    /// Of these, files removed within half a minute.
    pub died_soon: u64,
    /// Number of bytes in these files.
    pub died_soon_bytes: u64,
    /// Number of requests of all kinds.
    pub requests: u64,
    /// Number of different clients.
    pub clients: u64,
    /// Intervals of ten minutes in which a client did something, summed over clients.
    pub active_intervals: u64,
    /// Time from the first to the last request.
    pub span_ns: Nanos,
}

struct Opened {
    at: Nanos,
    read: bool,
    written: bool,
    /// The offset of the next byte in order; `None` if the access was not in order.
    next: Option<u64>,
    first: Option<u64>,
    size_before: u64,
}

#[derive(Default)]
struct Files {
    sizes: FixedMap<Ino, u64>,
    opened: FixedMap<(u32, Ino), Opened>,
    born: FixedMap<Ino, Nanos>,
    names: FixedMap<(Ino, Vec<u8>), Ino>,
    /// Requests whose answer names an inode: by number, the directory, name and time.
    waiting: FixedMap<u64, (u32, Ino, Vec<u8>, Nanos, bool)>,
}

impl AccessStats {
    /// Reads a workload to its end.
    pub fn of(source: &mut (impl Source + ?Sized)) -> Result<AccessStats, TraceError> {
        let (mut stats, mut files) = (AccessStats::default(), Files::default());
        let (mut first, mut last) = (None, 0);
        let (mut clients, mut active) =
            (FixedMap::<u32, ()>::default(), FixedMap::<(u32, u64), ()>::default());
        while let Some(record) = source.next_record()? {
            match record {
                Record::Node(node) if node.as_data().is_some() => {}
                Record::Node(node) => {
                    if let Some(attr) = node.attr {
                        files.sizes.insert(node.ino, attr.size);
                    }
                    files.names.insert((node.dir, node.name.to_vec()), node.ino);
                }
                Record::Request { at_ns, request } => {
                    first.get_or_insert(at_ns);
                    last = at_ns;
                    stats.requests += 1;
                    clients.insert(request.client, ());
                    active.insert((request.client, at_ns / INTERVAL_NS), ());
                    stats.request(&mut files, at_ns, request.id, request.client, &request.op);
                }
                Record::Reply { id, outcome: Outcome::Entry(ino), .. } => {
                    if let Some((client, dir, name, at, is_new)) = files.waiting.remove(&id) {
                        files.names.insert((dir, name), ino);
                        if is_new {
                            files.born.insert(ino, at);
                            files.sizes.insert(ino, 0);
                            stats.born += 1;
                            files.open(client, ino, at);
                        }
                    }
                }
                _ => {}
            }
        }
        // A file that was born near the end may have died soon afterwards, which nobody knows.
        let unknown = files.born.values().filter(|&&born| last - born < SOON_NS).count() as u64;
        stats.born -= unknown;
        stats.clients = clients.len() as u64;
        stats.active_intervals = active.len() as u64;
        stats.span_ns = last - first.unwrap_or(last);
        Ok(stats)
    }

    fn request(&mut self, files: &mut Files, at: Nanos, id: u64, client: u32, op: &Op) {
        if let Some(transfer) = Transfer::of(op) {
            return self.transfer(files, client, transfer);
        }
        match op {
            Op::Lookup { dir, name } => {
                files.waiting.insert(id, (client, *dir, name.to_vec(), at, false));
            }
            Op::Create { dir, name, .. } => {
                files.waiting.insert(id, (client, *dir, name.to_vec(), at, true));
            }
            Op::Open { ino, truncate, .. } => {
                if *truncate {
                    files.sizes.insert(*ino, 0);
                }
                files.open(client, *ino, at);
            }
            Op::SetAttr { ino, set } => {
                if let Some(size) = set.size {
                    files.sizes.insert(*ino, size);
                }
            }
            Op::Release { ino } => self.close(files, at, client, *ino),
            Op::Unlink { dir, name } => {
                let Some(ino) = files.names.remove(&(*dir, name.to_vec())) else { return };
                if let Some(born) = files.born.remove(&ino)
                    && at - born < SOON_NS
                {
                    self.died_soon += 1;
                    self.died_soon_bytes += files.sizes.get(&ino).copied().unwrap_or(0);
                }
            }
            _ => {}
        }
    }

    fn transfer(&mut self, files: &mut Files, client: u32, transfer: Transfer) {
        let Transfer { ino, off, bytes, is_write } = transfer;
        let size = files.sizes.entry(ino).or_insert(0);
        let len = match is_write {
            true => bytes,
            false => bytes.min(size.saturating_sub(off)),
        };
        match is_write {
            true => {
                self.written_bytes += len;
                *size = (*size).max(off.saturating_add(len));
            }
            false => self.read_bytes += len,
        }
        files.moved(client, ino, off, len, is_write);
    }

    fn close(&mut self, files: &mut Files, at: Nanos, client: u32, ino: Ino) {
        let Some(opened) = files.opened.remove(&(client, ino)) else { return };
        if !opened.read && !opened.written {
            return;
        }
        let size = files.sizes.get(&ino).copied().unwrap_or(0);
        let whole = opened.first == Some(0) && opened.next.is_some_and(|next| next >= size);
        self.accesses += 1;
        match (opened.read, opened.written) {
            (true, false) => {
                self.read_only += 1;
                self.read_whole += u64::from(whole);
            }
            (false, true) => {
                self.write_only += 1;
                self.written_whole += u64::from(whole && opened.size_before <= size);
            }
            _ => {}
        }
        self.open_briefly += u64::from(at - opened.at < BRIEF_NS);
        self.small += u64::from(size < SMALL);
    }

    /// A number of accesses in percent of all.
    pub fn share(&self, count: u64) -> f64 {
        count as f64 * 100.0 / self.accesses.max(1) as f64
    }

    /// Bytes read and written a second, for each client in the intervals in which it is active.
    pub fn bytes_per_active_s(&self) -> f64 {
        let seconds = self.active_intervals.max(1) * (INTERVAL_NS / SECS);
        (self.read_bytes + self.written_bytes) as f64 / seconds as f64
    }
}

impl Files {
    fn open(&mut self, client: u32, ino: Ino, at: Nanos) {
        let size_before = self.sizes.get(&ino).copied().unwrap_or(0);
        let (read, written, next, first) = (false, false, Some(0), None);
        self.opened.insert((client, ino), Opened { at, read, written, next, first, size_before });
    }

    fn moved(&mut self, client: u32, ino: Ino, off: u64, len: u64, write: bool) {
        let Some(opened) = self.opened.get_mut(&(client, ino)) else { return };
        if write {
            opened.written = true;
        } else {
            opened.read = true;
        }
        if opened.first.is_none() {
            (opened.first, opened.next) = (Some(off), Some(off));
        }
        opened.next = opened.next.filter(|next| *next == off).map(|next| next + len);
    }
}

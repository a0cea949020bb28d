//! How the clients of a workload access files, in the terms of the studies of the Sprite and BSD
//! traces: an access is all that happens between an open and its close.

use twin_fs::{Ino, Op};
use twin_rt::{FixedMap, Nanos, SECS};

use crate::byte_ages::ByteAges;
use crate::error::TraceError;
use crate::record::{Outcome, Record, Transfer};
use crate::stream::Source;

/// A file of fewer bytes than this is small.
const SMALL: u64 = 10 * 1000;
/// An open of less than this is brief.
const BRIEF_NS: Nanos = SECS / 4;
/// Users are active or not by intervals of this (table 2 of Baker and others 1991).
const INTERVAL_NS: Nanos = 600 * SECS;
/// Bursts are seen in intervals of this (the same table).
const SHORT_INTERVAL_NS: Nanos = 10 * SECS;
/// A file of fewer bytes than this is tiny (figure 2).
const TINY: u64 = 1 << 10;
/// A file, or a run, of at least this many bytes is large (figures 1 and 2).
const LARGE: u64 = 1 << 20;
/// A file that lives less than this died soon.
const SOON_NS: Nanos = 30 * SECS;
/// The ages that figure 4 marks: of files, and of bytes.
const VERY_SOON_NS: Nanos = 9 * SECS;
const MINUTES_NS: Nanos = 360 * SECS;
/// "A few hours" in which most bytes die (Baker and others 1992, section 2.3).
const HOURS_NS: Nanos = 3 * 3600 * SECS;

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
    /// Accesses to files that had less than 1 KB at the end of it.
    pub tiny: u64,
    /// Number of bytes moved by accesses to files of at least a megabyte.
    pub large_bytes: u64,
    /// Number of bytes moved by accesses that only read, by those that only wrote, and by both kinds in
    /// whole files.
    pub read_only_bytes: u64,
    /// See [`AccessStats::read_only_bytes`].
    pub write_only_bytes: u64,
    /// Of the bytes of read-only accesses, those of whole files.
    pub read_whole_bytes: u64,
    /// Of the bytes of write-only accesses, those of whole files.
    pub written_whole_bytes: u64,
    /// Sequential runs: bytes moved in order between an open or a change of the position and the next, or
    /// the close.
    pub runs: u64,
    /// Of these, runs of less than 10 KB.
    pub short_runs: u64,
    /// Number of bytes in runs, and in runs of more than a megabyte.
    pub run_bytes: u64,
    /// See [`AccessStats::run_bytes`].
    pub long_run_bytes: u64,
    /// Number of bytes read.
    pub read_bytes: u64,
    /// Number of bytes written.
    pub written_bytes: u64,
    /// Number of requests that write.
    pub writes: u64,
    /// Files that were removed, or cut off to nothing.
    pub deaths: u64,
    /// Of these, files that had lived less than nine seconds, and less than half a minute.
    pub deaths_very_soon: u64,
    /// See [`AccessStats::deaths_very_soon`].
    pub deaths_soon: u64,
    /// Written bytes that died, by being overwritten, cut off or removed: all of them, and those that were
    /// younger than half a minute, six minutes and three hours.
    pub dead_bytes: u64,
    /// See [`AccessStats::dead_bytes`].
    pub dead_soon_bytes: u64,
    /// See [`AccessStats::dead_bytes`].
    pub dead_in_minutes_bytes: u64,
    /// See [`AccessStats::dead_bytes`].
    pub dead_in_hours_bytes: u64,
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
    /// The same for intervals of ten seconds.
    pub active_short_intervals: u64,
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
    bytes: u64,
    /// Where the current run ends, and its bytes.
    run: (u64, u64),
}

#[derive(Default)]
struct Files {
    sizes: FixedMap<Ino, u64>,
    opened: FixedMap<(u32, Ino), Opened>,
    born: FixedMap<Ino, Nanos>,
    names: FixedMap<(Ino, Vec<u8>), Ino>,
    /// Requests whose answer names an inode: by number, the directory, name and time.
    waiting: FixedMap<u64, (u32, Ino, Vec<u8>, Nanos, bool)>,
    /// When each file was created or cut off to nothing, if that was seen, and its written bytes.
    begun: FixedMap<Ino, Nanos>,
    ages: FixedMap<Ino, ByteAges>,
}

impl AccessStats {
    /// Reads a workload to its end.
    pub fn of(source: &mut (impl Source + ?Sized)) -> Result<AccessStats, TraceError> {
        let (mut stats, mut files) = (AccessStats::default(), Files::default());
        let (mut first, mut last) = (None, 0);
        let mut clients = FixedMap::<u32, ()>::default();
        let [mut active, mut short] =
            [FixedMap::<(u32, u64), ()>::default(), FixedMap::<(u32, u64), ()>::default()];
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
                    short.insert((request.client, at_ns / SHORT_INTERVAL_NS), ());
                    stats.request(&mut files, at_ns, request.id, request.client, &request.op);
                }
                Record::Reply { id, outcome: Outcome::Entry(ino), .. } => {
                    if let Some((client, dir, name, at, is_new)) = files.waiting.remove(&id) {
                        files.names.insert((dir, name), ino);
                        if is_new {
                            files.born.insert(ino, at);
                            files.begun.insert(ino, at);
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
        stats.active_short_intervals = short.len() as u64;
        stats.span_ns = last - first.unwrap_or(last);
        Ok(stats)
    }

    fn request(&mut self, files: &mut Files, at: Nanos, id: u64, client: u32, op: &Op) {
        if let Some(transfer) = Transfer::of(op) {
            return self.transfer(files, at, client, transfer);
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
                    self.cut(files, at, *ino, 0);
                }
                files.open(client, *ino, at);
            }
            Op::SetAttr { ino, set } => {
                if let Some(size) = set.size {
                    self.cut(files, at, *ino, size);
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
                self.dies(files, at, ino);
                files.begun.remove(&ino);
                files.ages.remove(&ino);
            }
            _ => {}
        }
    }

    /// A file gets this size; nothing is left of one of which that is 0.
    fn cut(&mut self, files: &mut Files, at: Nanos, ino: Ino, size: u64) {
        let before = files.sizes.insert(ino, size).unwrap_or(0);
        match size {
            0 if before > 0 => {
                self.dies(files, at, ino);
                files.begun.insert(ino, at);
            }
            _ => self.cut_bytes(files, at, ino, size),
        }
    }

    /// The bytes of a file from an offset on die.
    fn cut_bytes(&mut self, files: &mut Files, at: Nanos, ino: Ino, from: u64) {
        if let Some(ages) = files.ages.get_mut(&ino) {
            ages.cut(from, u64::MAX, at, |bytes, age| self.died(bytes, age));
        }
    }

    /// A file is removed, or cut off to nothing.
    fn dies(&mut self, files: &mut Files, at: Nanos, ino: Ino) {
        self.deaths += 1;
        if let Some(age) = files.begun.get(&ino).map(|begun| at - begun) {
            self.deaths_very_soon += u64::from(age < VERY_SOON_NS);
            self.deaths_soon += u64::from(age < SOON_NS);
        }
        self.cut_bytes(files, at, ino, 0);
    }

    /// Written bytes die at an age.
    fn died(&mut self, bytes: u64, age: Nanos) {
        self.dead_bytes += bytes;
        let upto = |limit: Nanos| if age < limit { bytes } else { 0 };
        self.dead_soon_bytes += upto(SOON_NS);
        self.dead_in_minutes_bytes += upto(MINUTES_NS);
        self.dead_in_hours_bytes += upto(HOURS_NS);
    }

    fn transfer(&mut self, files: &mut Files, at: Nanos, client: u32, transfer: Transfer) {
        let Transfer { ino, off, bytes, is_write } = transfer;
        let size = files.sizes.entry(ino).or_insert(0);
        let len = match is_write {
            true => bytes,
            false => bytes.min(size.saturating_sub(off)),
        };
        match is_write {
            true => {
                self.written_bytes += len;
                self.writes += 1;
                let ages = files.ages.entry(ino).or_default();
                let end = off.saturating_add(len);
                ages.write(off, end, at, |bytes, age| self.died(bytes, age));
                *size = (*size).max(off.saturating_add(len));
            }
            false => self.read_bytes += len,
        }
        if let Some(run) = files.moved(client, ino, off, len, is_write) {
            self.run(run);
        }
    }

    /// A sequential run has ended.
    fn run(&mut self, bytes: u64) {
        if bytes > 0 {
            self.runs += 1;
            self.short_runs += u64::from(bytes < SMALL);
            self.run_bytes += bytes;
            self.long_run_bytes += if bytes > LARGE { bytes } else { 0 };
        }
    }

    fn close(&mut self, files: &mut Files, at: Nanos, client: u32, ino: Ino) {
        let Some(opened) = files.opened.remove(&(client, ino)) else { return };
        if !opened.read && !opened.written {
            return;
        }
        let size = files.sizes.get(&ino).copied().unwrap_or(0);
        let whole = opened.first == Some(0) && opened.next.is_some_and(|next| next >= size);
        self.accesses += 1;
        self.run(opened.run.1);
        let whole_bytes = if whole { opened.bytes } else { 0 };
        match (opened.read, opened.written) {
            (true, false) => {
                self.read_only += 1;
                self.read_whole += u64::from(whole);
                self.read_only_bytes += opened.bytes;
                self.read_whole_bytes += whole_bytes;
            }
            (false, true) => {
                self.write_only += 1;
                let whole = whole && opened.size_before <= size;
                self.written_whole += u64::from(whole);
                self.write_only_bytes += opened.bytes;
                self.written_whole_bytes += if whole { opened.bytes } else { 0 };
            }
            _ => {}
        }
        self.open_briefly += u64::from(at - opened.at < BRIEF_NS);
        self.small += u64::from(size < SMALL);
        self.tiny += u64::from(size < TINY);
        self.large_bytes += if size >= LARGE { opened.bytes } else { 0 };
    }

    /// The sums of this workload and another, of other clients beside them; the longer span.
    pub fn and(&self, other: &AccessStats) -> AccessStats {
        macro_rules! sums {
            ($($field:ident)*) => {
                AccessStats {
                    $($field: self.$field + other.$field,)*
                    span_ns: self.span_ns.max(other.span_ns),
                }
            };
        }
        sums!(
            accesses read_only write_only read_whole written_whole open_briefly small tiny large_bytes
            read_only_bytes write_only_bytes read_whole_bytes written_whole_bytes runs short_runs
            run_bytes long_run_bytes read_bytes written_bytes writes deaths deaths_very_soon
            deaths_soon dead_bytes dead_soon_bytes dead_in_minutes_bytes dead_in_hours_bytes born
            died_soon died_soon_bytes requests clients active_intervals active_short_intervals
        )
    }

    /// A number of accesses in percent of all.
    pub fn share(&self, count: u64) -> f64 {
        count as f64 * 100.0 / self.accesses.max(1) as f64
    }

    /// Bytes read and written a second, for each client in the intervals of ten seconds in which it is
    /// active.
    pub fn bytes_per_burst_s(&self) -> f64 {
        let seconds = self.active_short_intervals.max(1) * (SHORT_INTERVAL_NS / SECS);
        (self.read_bytes + self.written_bytes) as f64 / seconds as f64
    }

    /// Accesses in an hour in which a client is active, by intervals of ten minutes.
    pub fn accesses_per_active_hour(&self) -> f64 {
        let hours = self.active_intervals.max(1) as f64 * INTERVAL_NS as f64 / (3600 * SECS) as f64;
        self.accesses as f64 / hours
    }

    /// A number of bytes in percent of those that accesses moved.
    pub fn share_of_bytes(&self, bytes: u64) -> f64 {
        bytes as f64 * 100.0 / self.run_bytes.max(1) as f64
    }

    /// A number of bytes in percent of those that were written.
    pub fn share_of_written(&self, bytes: u64) -> f64 {
        bytes as f64 * 100.0 / self.written_bytes.max(1) as f64
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
        let (bytes, run) = (0, (0, 0));
        let opened = Opened { at, read, written, next, first, size_before, bytes, run };
        self.opened.insert((client, ino), opened);
    }

    /// An access moves bytes; returns those of the run that ends by it.
    fn moved(&mut self, client: u32, ino: Ino, off: u64, len: u64, write: bool) -> Option<u64> {
        let opened = self.opened.get_mut(&(client, ino))?;
        opened.bytes += len;
        let (end, run) = opened.run;
        let ended = (end != off).then_some(run);
        opened.run = (off + len, if end == off { run } else { 0 } + len);
        if write {
            opened.written = true;
        } else {
            opened.read = true;
        }
        if opened.first.is_none() {
            (opened.first, opened.next) = (Some(off), Some(off));
        }
        opened.next = opened.next.filter(|next| *next == off).map(|next| next + len);
        ended
    }
}

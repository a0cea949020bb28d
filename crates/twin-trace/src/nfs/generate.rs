//! A stream of requests with given totals.
//!
//! Published and met: the number of requests of each kind, and the duration.
//!
//! Fitted to sections 5.1 and 5.2 of the paper, which describe idle times and the amount of data
//! written between two cleanings; therefore those of its results that were in view are no test of a
//! model that is driven by this stream:
//!
//! - Sessions have lengths of a Pareto distribution whose exponent is 1, because a twenty-fifth of
//!   the amounts is above a megabyte and a hundredth above four ([`SHORTEST`], [`LONGEST`]).
//! - Pauses between sessions have an Erlang distribution, whose mean is the time that the totals
//!   leave. Its shape is [`Totals::regularity`]: 1, without memory, unless the published idle times
//!   of a server contradict that.
//! - A hundredth of the changes comes alone in a pause ([`STRAY`]).
//! - Reads of data go to files that were not used lately ([`READ_LATELY`]), because nearly all data
//!   reads of the traces went to disk.
//!
//! Assumed, because nothing is published about it:
//!
//! - Requests come in activities, each of one client on one file or directory; activities come in
//!   sessions, [`THINK_NS`] apart. In an activity a client waits for answers, so requests that a
//!   disk must answer come more slowly than others ([`STEPS_NS`]).
//! - Sizes of files are lognormal with median 4 KB and mean 30 KB, up to 4 MB.
//! - Most accesses go to files that were used recently ([`LATELY`], [`WRITE_LATELY`]).
//! - A quarter to a half of the written files are new, as far as the number of directory changes
//!   allows; the others are truncated and written again, or extended. For each new file one is
//!   removed, half of the time a recent one. One new file in a hundred is created together with
//!   another ([`TWINS`]).

use std::collections::VecDeque;

use twin_rt::{MILLIS, Nanos, Rng, SECS};

use super::{BLOCK_BYTES, Kind, NfsOp, NodeId, Totals};

/// The least time between requests of an activity that the server has in memory.
const STEP_NS: Nanos = MILLIS / 2;
/// The least time between changes, each of which the server answers as soon as it is in
/// non-volatile memory.
const CHANGE_STEP_NS: Nanos = 10 * MILLIS;
/// The least time between reads of data from disk: a seek, half a turn, 8 KB from disk and over an
/// Ethernet.
const READ_STEP_NS: Nanos = 26 * MILLIS;
/// The least time between requests for data that the server has in memory: 8 KB over an Ethernet.
const WIRE_NS: Nanos = 7 * MILLIS;
/// Mean time between activities of a session.
const THINK_NS: Nanos = 10 * MILLIS;
/// The most that a session writes, as a share of the file system.
const LONGEST: f64 = 0.042;
/// The exponent of the distribution of the lengths of sessions.
const TAIL: f64 = 0.8;
/// The share of changes that come alone in a pause.
const STRAY: f64 = 0.005;
/// Files end with a fragment: sizes are counted in sectors of the disk.
const SECTOR_BYTES: u32 = 512;
const BLOCK_SECTORS: u32 = BLOCK_BYTES / SECTOR_BYTES;
/// The share of new files that are created together with another.
const TWINS: f64 = 0.01;
/// Number of clients that take part.
const CLIENTS: u64 = 90;
/// Number of recently used files, to which most accesses go.
const RECENT: usize = 500;
const MEDIAN_BYTES: f64 = 4096.0;
const MEAN_BYTES: f64 = 30_720.0;
const MAX_BYTES: f64 = 4_194_304.0;
/// Mean number of files in a directory.
const FILES_PER_DIRECTORY: u32 = 20;
/// Space that a file takes besides its blocks: an inode, and its part of a directory.
const FILE_OVERHEAD_BYTES: f64 = 512.0 + 4096.0 / FILES_PER_DIRECTORY as f64;
/// How strongly classes that lag behind are preferred.
const EVEN: i32 = 16;
/// The probability that an activity without data uses recent files. With data: [`WRITE_LATELY`].
const LATELY: f64 = 0.98;
/// The same for an activity that reads or writes data: clients cache what they have read.
const WRITE_LATELY: f64 = 0.9;
const READ_LATELY: f64 = 0.2;
/// Maximum number of blocks that an activity reads or writes.
const ACTIVITY_BLOCKS: u32 = 64;

/// Kinds of requests that have a total.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    DataRead,
    DataWrite,
    DirRead,
    DirChange,
    Inode,
    Other,
}

const CLASSES: [Class; 6] = [
    Class::DataRead,
    Class::DataWrite,
    Class::DirRead,
    Class::DirChange,
    Class::Inode,
    Class::Other,
];
/// The least time before a request, by class, and what its client takes on average beyond it.
const STEPS_NS: [(Nanos, Nanos); 6] = [
    (READ_STEP_NS, CHANGE_STEP_NS),
    (CHANGE_STEP_NS, CHANGE_STEP_NS),
    (STEP_NS, STEP_NS),
    (CHANGE_STEP_NS, CHANGE_STEP_NS),
    (CHANGE_STEP_NS, CHANGE_STEP_NS),
    (STEP_NS, STEP_NS),
];
/// Approximate number of requests in an activity of each class, to estimate how many activities are
/// left.
const ACTIVITY_REQUESTS: [f64; 6] = [6.0, 6.0, 8.0, 2.0, 2.0, 8.0];

/// The pauses between requests. All but the first are controls: streams that are not like those
/// of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pauses {
    /// The pauses are fitted to the published idle times.
    #[default]
    Sessions,
    /// Without memory, and without changes in them.
    Memoryless,
    /// All requests come at the same distance.
    Equal,
}

/// The requests of a server, ordered by time.
pub struct Stream {
    pauses: Pauses,
    rng: Rng,
    /// For each node: its sectors of data; `None` if the file does not exist.
    sizes: Vec<Option<u32>>,
    dirs: u32,
    /// Numbers of removed files, for reuse.
    removed: Vec<NodeId>,
    recent: VecDeque<NodeId>,
    /// Remaining requests, by class.
    left: [u64; 6],
    /// All requests, by class.
    totals: [u64; 6],
    live_sectors: u64,
    most_sectors: u64,
    seconds: u64,
    pause_ns: f64,
    regularity: u32,
    /// The most activities in a session.
    longest: f64,
    most_bytes: f64,
    at: Nanos,
    client: u16,
    /// Activities that the session still has, and the sectors that it may still write.
    session: u64,
    room: u64,
    ahead: VecDeque<NfsOp>,
}

impl Stream {
    /// A stream with these totals.
    pub fn new(totals: &Totals, seed: u64) -> Stream {
        let mut rng = Rng::stream(seed, "nfs files");
        let mut left_bytes = totals.file_system_bytes as f64 * totals.utilization;
        let mut files = Vec::new();
        let mut live_sectors = 0;
        while left_bytes > 0.0 {
            let sectors = file_bytes(&mut rng).div_ceil(SECTOR_BYTES);
            left_bytes -= f64::from(sectors * SECTOR_BYTES) + FILE_OVERHEAD_BYTES;
            live_sectors += u64::from(sectors);
            files.push(Some(sectors));
        }
        let dirs = (files.len() as u32 / FILES_PER_DIRECTORY).max(1);
        let sizes = std::iter::repeat_n(Some(BLOCK_SECTORS), dirs as usize).chain(files).collect();
        let counted = totals.data_reads
            + totals.data_writes
            + totals.directory_reads
            + totals.directory_changes
            + totals.inode_updates;
        let left = [
            totals.data_reads,
            totals.data_writes,
            totals.directory_reads,
            totals.directory_changes,
            totals.inode_updates,
            totals.requests.saturating_sub(counted),
        ];
        let rng = Rng::stream(seed, "nfs requests");
        let (removed, recent, ahead) = (Vec::new(), VecDeque::new(), VecDeque::new());
        let (seconds, regularity) = (totals.seconds, totals.regularity);
        let pause_ns = totals.pause_seconds * SECS as f64;
        let most_bytes = totals.file_system_bytes as f64 * LONGEST;
        let longest = most_bytes / (totals.volumes_gb[2] * 1e9) * activities(&left) * 2.5;
        Stream {
            pauses: Pauses::Sessions,
            rng,
            sizes,
            dirs,
            removed,
            recent,
            left,
            totals: left,
            live_sectors,
            most_sectors: live_sectors,
            seconds,
            pause_ns,
            regularity,
            longest,
            most_bytes,
            at: 0,
            client: 0,
            session: 0,
            room: 0,
            ahead,
        }
    }

    /// Returns the same stream with other pauses.
    #[must_use]
    pub fn with_pauses(self, pauses: Pauses) -> Stream {
        Stream { pauses, ..self }
    }

    /// For each node: its current sectors of data; `None` if it does not exist. Before the first
    /// request these are the files that exist at the start.
    pub fn sizes(&self) -> &[Option<u32>] {
        &self.sizes
    }

    /// The number of directories; they are the nodes with the lowest numbers.
    pub fn directories(&self) -> u32 {
        self.dirs
    }

    /// Queues a request of this class at the current time, unless none of the class is left.
    fn send(&mut self, class: Class, kind: Kind) {
        let left = &mut self.left[class as usize];
        if *left == 0 {
            return;
        }
        *left -= 1;
        let (least, beyond) = match kind {
            Kind::Read(node, _) if self.is_in_memory(node) => (WIRE_NS, STEP_NS),
            _ => STEPS_NS[class as usize],
        };
        self.at += match self.pauses {
            Pauses::Equal => self.seconds * SECS / self.totals.iter().sum::<u64>().max(1),
            _ => least + self.rng.exponential(beyond as f64) as Nanos,
        };
        self.ahead.push_back(NfsOp { at: self.at, client: self.client, kind });
        match kind {
            Kind::Write(node, block, bytes) => {
                let sectors = bytes.div_ceil(SECTOR_BYTES);
                let end = block * BLOCK_SECTORS + sectors;
                self.room = self.room.saturating_sub(u64::from(sectors));
                self.resize(node, |sectors| sectors.max(end));
            }
            Kind::Truncate(node) => self.resize(node, |_| 0),
            Kind::Create { .. } | Kind::Remove { .. } | Kind::Rename(_) => {
                self.room = self.room.saturating_sub(u64::from(BLOCK_SECTORS));
            }
            _ => {}
        }
    }

    fn resize(&mut self, node: NodeId, to: impl Fn(u32) -> u32) {
        if let Some(sectors) = &mut self.sizes[node as usize] {
            let new = to(*sectors);
            self.live_sectors = self.live_sectors + u64::from(new) - u64::from(*sectors);
            *sectors = new;
        }
    }

    /// Whether a file was used so lately that the server has it in memory, roughly.
    fn is_in_memory(&self, node: NodeId) -> bool {
        self.recent.iter().skip(1).take(RECENT / 4).any(|&recent| recent == node)
    }

    /// The number of blocks of a file.
    fn blocks(&self, node: NodeId) -> u32 {
        self.sizes[node as usize].unwrap_or(0).div_ceil(BLOCK_SECTORS)
    }

    /// Advances the time to the next activity: within a session, or between two.
    fn pause(&mut self) {
        if self.pauses == Pauses::Equal {
            return;
        }
        if self.session > 0 && self.room > 0 {
            self.session -= 1;
            self.at += self.rng.exponential(THINK_NS as f64) as Nanos;
            return;
        }
        let quiet = self.quiet_ns();
        let sessions = (quiet / self.pause_ns).max(1.0);
        self.session = self.session_length(activities(&self.left) / sessions);
        self.room = self.most_bytes as u64 / u64::from(SECTOR_BYTES);
        let mean = self.pause_ns;
        let shape = if self.pauses == Pauses::Memoryless { 1 } else { self.regularity };
        let pause: f64 = (0..shape).map(|_| self.rng.exponential(mean / f64::from(shape))).sum();
        self.wait(pause as Nanos, quiet);
    }

    /// A number of activities with about this mean: Pareto, cut off at the longest.
    fn session_length(&mut self, mean: f64) -> u64 {
        // The beginning of the distribution is found by halving, because its mean grows with it.
        let mean_from = |least: f64| {
            let tail = (least / self.longest).powf(TAIL) * self.longest;
            let power = 1.0 - TAIL;
            let body = self.longest.powf(power) - least.powf(power);
            TAIL / power * least.powf(TAIL) * body + tail
        };
        let (mut low, mut high) = (0.0, mean.min(self.longest));
        for _ in 0..30 {
            let middle = (low + high) / 2.0;
            if mean_from(middle) < mean { low = middle } else { high = middle }
        }
        let drawn = high / (1.0 - self.rng.unit()).powf(1.0 / TAIL);
        // Always at least one, by chance two: short sessions keep their mean.
        (drawn.min(self.longest) + self.rng.unit()) as u64
    }

    /// The time that is left for pauses.
    fn quiet_ns(&self) -> f64 {
        let left = (self.seconds * SECS).saturating_sub(self.at);
        let steps = self
            .left
            .iter()
            .zip(STEPS_NS)
            .map(|(&left, (least, beyond))| left as f64 * (least + beyond) as f64);
        let busy = activities(&self.left) * THINK_NS as f64 + steps.sum::<f64>();
        (left as f64 - busy).max(THINK_NS as f64)
    }

    /// Lets this time pass, with the changes that come alone in it. `quiet`: the time that is left
    /// for pauses.
    fn wait(&mut self, pause: Nanos, quiet: f64) {
        let end = self.at + pause;
        let changes = self.left[Class::Inode as usize] + self.left[Class::DataWrite as usize];
        let apart = quiet / (changes as f64 * STRAY).max(1e-9);
        while self.pauses == Pauses::Sessions {
            let next = self.at.saturating_add(self.rng.exponential(apart) as Nanos);
            if next >= end {
                break;
            }
            self.at = next;
            self.stray();
        }
        self.at = self.at.max(end);
    }

    /// Makes one change that comes alone: of an inode, or of the last block of a file.
    fn stray(&mut self) {
        self.client = self.rng.below(CLIENTS) as u16;
        let node = self.some_file(LATELY);
        let part = |class: Class| self.left[class as usize] as f64;
        let (inodes, writes) = (part(Class::Inode), part(Class::DataWrite));
        let last = self.blocks(node).saturating_sub(1);
        match self.rng.chance(writes / (inodes + writes).max(1.0)) {
            true => self.send(Class::DataWrite, Kind::Write(node, last, BLOCK_BYTES / 2)),
            false => self.send(Class::Inode, Kind::SetAttr(node)),
        }
    }

    /// A random existing file, with probability `lately` a recently used one.
    fn some_file(&mut self, lately: f64) -> NodeId {
        for _ in 0..64 {
            let node = if !self.recent.is_empty() && self.rng.chance(lately) {
                let part = self.rng.unit().powi(3);
                self.recent[(part * self.recent.len() as f64) as usize]
            } else {
                self.rng.range(u64::from(self.dirs), self.sizes.len() as u64) as NodeId
            };
            if self.sizes[node as usize].is_some() {
                return self.used(node);
            }
        }
        let found =
            (self.dirs..self.sizes.len() as u32).find(|&n| self.sizes[n as usize].is_some());
        found.unwrap_or(self.dirs)
    }

    fn used(&mut self, node: NodeId) -> NodeId {
        self.recent.push_front(node);
        self.recent.truncate(RECENT);
        node
    }

    /// The directory that a file is in, whenever it exists.
    pub fn dir_of(&self, node: NodeId) -> NodeId {
        node.wrapping_mul(0x9e37_79b1) % self.dirs
    }

    fn create(&mut self) -> NodeId {
        let node = self.removed.pop().unwrap_or(self.sizes.len() as NodeId);
        if node as usize == self.sizes.len() {
            self.sizes.push(None);
        }
        let dir = self.dir_of(node);
        if self.left[Class::DirChange as usize] == 0 {
            self.removed.push(node);
            return self.some_file(LATELY);
        }
        self.sizes[node as usize] = Some(0);
        self.send(Class::DirChange, Kind::Create { dir, node });
        self.used(node)
    }

    fn remove(&mut self, node: NodeId) {
        if self.left[Class::DirChange as usize] == 0 {
            return;
        }
        let dir = self.dir_of(node);
        self.send(Class::DirChange, Kind::Remove { dir, node });
        self.resize(node, |_| 0);
        self.sizes[node as usize] = None;
        self.removed.push(node);
    }

    /// Removes files while there is more data than at the start.
    fn make_room(&mut self) {
        let young = self.rng.chance(0.5);
        while self.live_sectors > self.most_sectors {
            let node = if young {
                self.some_file(LATELY)
            } else {
                self.rng.range(u64::from(self.dirs), self.sizes.len() as u64) as NodeId
            };
            let Some(sectors) = self.sizes[node as usize] else { continue };
            if self.left[Class::DirChange as usize] > 0 {
                self.remove(node);
            } else if self.left[Class::Inode as usize] > 0 {
                if sectors > 0 {
                    self.send(Class::Inode, Kind::Truncate(node));
                }
            } else {
                break;
            }
        }
    }

    fn write_file(&mut self) {
        let changes = self.left[Class::DirChange as usize] as f64;
        let writes = self.left[Class::DataWrite as usize] as f64 / ACTIVITY_REQUESTS[1];
        let is_new = self.rng.chance((changes / 4.0 / writes.max(1.0)).min(0.5));
        let twin = (is_new && self.rng.chance(TWINS)).then(|| self.create());
        let node = if is_new { self.create() } else { self.some_file(WRITE_LATELY) };
        if let Some(twin) = twin {
            self.send(Class::Inode, Kind::SetAttr(twin));
        }
        let had = self.blocks(node);
        let bytes = file_bytes(&mut self.rng).min(ACTIVITY_BLOCKS * BLOCK_BYTES);
        let mut blocks = bytes.div_ceil(BLOCK_BYTES);
        let last_bytes = bytes - (blocks - 1) * BLOCK_BYTES;
        self.send(Class::DirRead, Kind::ReadDir(self.dir_of(node)));
        let is_full = self.live_sectors > self.most_sectors;
        let from = if is_full && had > 0 {
            // No file can be removed any more: the file is overwritten without growing.
            blocks = blocks.min(had);
            0
        } else if had > 0 && self.rng.chance(0.3) {
            had
        } else {
            if had > 0 {
                self.send(Class::Inode, Kind::Truncate(node));
            }
            0
        };
        for block in from..from + blocks {
            let is_last = block + 1 == from + blocks;
            let bytes = if is_last { last_bytes } else { BLOCK_BYTES };
            self.send(Class::DataWrite, Kind::Write(node, block, bytes));
        }
        self.send(Class::Inode, Kind::SetAttr(node));
        self.make_room();
    }

    fn read_file(&mut self) {
        let node = self.some_file(READ_LATELY);
        self.send(Class::DirRead, Kind::ReadDir(self.dir_of(node)));
        let blocks = self.blocks(node).min(ACTIVITY_BLOCKS);
        for block in 0..blocks {
            self.send(Class::DataRead, Kind::Read(node, block));
        }
    }

    /// Makes one activity: requests of one user on one file or directory.
    fn activity(&mut self) {
        self.client = self.rng.below(CLIENTS) as u16;
        let part = |left: u64, total: u64| left as f64 / total.max(1) as f64;
        let all = part(self.left.iter().sum(), self.totals.iter().sum());
        let weights = std::array::from_fn::<f64, 6, _>(|class| {
            // All classes should run out at the same time.
            let behind = (part(self.left[class], self.totals[class]) / all).powi(EVEN);
            self.left[class] as f64 / ACTIVITY_REQUESTS[class] * behind
        });
        let mut draw = self.rng.unit() * weights.iter().sum::<f64>();
        let mut class = CLASSES[0];
        for (at, weight) in weights.into_iter().enumerate().filter(|&(_, weight)| weight > 0.0) {
            class = CLASSES[at];
            draw -= weight;
            if draw < 0.0 {
                break;
            }
        }
        let times = 1 + self.rng.exponential(ACTIVITY_REQUESTS[class as usize] - 1.0) as u32;
        match class {
            Class::DataRead => self.read_file(),
            Class::DataWrite => self.write_file(),
            Class::DirRead => {
                for _ in 0..times {
                    let node = self.some_file(LATELY);
                    self.send(class, Kind::ReadDir(self.dir_of(node)));
                }
            }
            Class::DirChange => {
                // A lock file, or a new name.
                if self.rng.chance(0.5) {
                    let node = self.create();
                    self.send(Class::Inode, Kind::SetAttr(node));
                    self.remove(node);
                } else {
                    let node = self.some_file(LATELY);
                    self.send(class, Kind::Rename(self.dir_of(node)));
                }
            }
            Class::Inode => {
                for _ in 0..times {
                    let node = self.some_file(LATELY);
                    self.send(class, Kind::SetAttr(node));
                }
            }
            Class::Other => {
                for _ in 0..times {
                    let node = self.some_file(LATELY);
                    self.send(class, Kind::GetAttr(node));
                }
            }
        }
    }
}

impl Iterator for Stream {
    type Item = NfsOp;

    fn next(&mut self) -> Option<NfsOp> {
        while self.ahead.is_empty() {
            if self.left.iter().all(|&left| left == 0) {
                return None;
            }
            self.activity();
            self.pause();
        }
        self.ahead.pop_front()
    }
}

/// The approximate number of activities in which these requests come.
fn activities(left: &[u64; 6]) -> f64 {
    left.iter().zip(ACTIVITY_REQUESTS).map(|(&left, each)| left as f64 / each).sum()
}

/// A lognormal size of a file, in bytes.
fn file_bytes(rng: &mut Rng) -> u32 {
    let sigma = (2.0 * (MEAN_BYTES / MEDIAN_BYTES).ln()).sqrt();
    // Box and Muller.
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * rng.unit()).cos();
    (MEDIAN_BYTES * (sigma * normal).exp()).clamp(1.0, MAX_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::super::SERVERS;
    use super::*;

    #[test]
    fn a_stream_has_the_published_totals() {
        for server in &SERVERS {
            let totals = server.scaled(0.02);
            let mut stream = Stream::new(&totals, 1);
            let (mut counts, mut last) = ([0u64; 5], 0);
            for op in stream.by_ref() {
                assert!(op.at >= last);
                last = op.at;
                let class = match op.kind {
                    Kind::Read(..) => 0,
                    Kind::Write(..) => 1,
                    Kind::ReadDir(_) => 2,
                    Kind::Create { .. } | Kind::Remove { .. } | Kind::Rename(_) => 3,
                    Kind::SetAttr(_) | Kind::Truncate(_) => 4,
                    Kind::GetAttr(_) => continue,
                };
                counts[class] += 1;
            }
            let wanted = [
                totals.data_reads,
                totals.data_writes,
                totals.directory_reads,
                totals.directory_changes,
                totals.inode_updates,
            ];
            assert_eq!(counts, wanted, "{}", server.name);
            let seconds = last as f64 / SECS as f64;
            let part = seconds / totals.seconds as f64;
            assert!((0.8..1.25).contains(&part), "{}: {part} of the time", server.name);
            let full = stream.live_sectors as f64 / stream.most_sectors as f64;
            assert!((0.9..1.05).contains(&full), "{}: {full} of the data", server.name);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_requests_and_no_request_is_for_what_is_not_there() {
        let totals = SERVERS[2].scaled(0.005);
        let first: Vec<NfsOp> = Stream::new(&totals, 7).collect();
        assert_eq!(first, Stream::new(&totals, 7).collect::<Vec<_>>());
        let start = Stream::new(&totals, 7);
        let mut there: Vec<bool> = start.sizes().iter().map(Option::is_some).collect();
        for op in first {
            let is_there = |node: NodeId| there.get(node as usize).is_some_and(|&is| is);
            match op.kind {
                Kind::Create { node, .. } => {
                    assert!(!is_there(node));
                    there.resize(there.len().max(node as usize + 1), false);
                    there[node as usize] = true;
                }
                Kind::Remove { node, .. } => {
                    assert!(is_there(node));
                    there[node as usize] = false;
                }
                Kind::Read(node, _)
                | Kind::Write(node, ..)
                | Kind::SetAttr(node)
                | Kind::Truncate(node)
                | Kind::GetAttr(node)
                | Kind::ReadDir(node)
                | Kind::Rename(node) => assert!(is_there(node), "{op:?}"),
            }
        }
    }
}

//! The server: it executes requests one after the other, with the cleaner in between.

use twin_clean::inputs::Setting;
use twin_clean::trigger::{TriggerDecision, TriggerInput, TriggerPolicy};
use twin_clean::victim::{Candidates, VictimPolicy};
use twin_disk::IoKind;
use twin_fs::SpaceMap;
use twin_trace::nfs::{Kind, NfsOp};

use super::cache::Cache;
use super::device::{Device, Requester, Served};
use super::log::{INODE, Log, NodeBlock, SECTOR, SEGMENT_SECTORS, SUMMARY_SECTORS};
use super::{
    BLOCK_SECTORS, BUSY_LIM, Cleaning, DIRECTORY_SECTORS, INODE_SECTORS, Outcome, Study, WORTH,
    WriteModel,
};
use twin_lab::{LogAtEnd, Sampler};

const CACHE_BYTES: u64 = 10 << 20;
/// Clean segments that are reserved for the cleaner; below this number it cleans on demand.
const RESERVE: u32 = 2;
/// Estimated time for cleaning a segment: the paper's worst case, a read and a write.
const STEP_NS: u64 = 1_250_000_000;
const SECOND: u64 = 1_000_000_000;

/// A victim that has been read but not written yet.
struct Pending {
    segment: u32,
    read_at: u64,
}

pub(super) struct Server {
    pub(super) log: Log,
    cache: Cache,
    device: Device,
    model: WriteModel,
    victims: Box<dyn VictimPolicy>,
    when: Option<Box<dyn TriggerPolicy>>,
    pending: Option<Pending>,
    /// The last search found no segment worth cleaning, or enough were clean, and nothing has been
    /// written since.
    is_clean: bool,
    /// The share of the segments that could be clean at which the cleaner stops.
    stops_at: f64,
    /// Since users' last request to the disk the cleaner has looked for a segment, has begun with
    /// one, has ended with one.
    has_looked: bool,
    has_begun: bool,
    has_ended: bool,
    /// When users' last request to the disk was done.
    user_free_at: u64,
    /// Bytes written by users since the last moment of cleaning.
    written: u64,
    outcome: Outcome,
    sampler: Sampler,
    /// No segment is clean, and cleaning gained none.
    is_full: bool,
}

impl Server {
    pub(super) fn new(study: &Study, segments: u32) -> Server {
        let bytes = u64::from(segments) * u64::from(SEGMENT_SECTORS) * SECTOR;
        let setting = Setting {
            blocks: segments * SEGMENT_SECTORS,
            segment_blocks: SEGMENT_SECTORS,
            garbage_share: 1.0 - study.totals.utilization,
            open_segments: 1,
            seed: study.seed,
        };
        let when = match study.cleaning {
            Cleaning::When(entry) => Some(entry.make()),
            Cleaning::Never => None,
        };
        // Without a cleaner there is room for all that is written, inodes and directories included.
        let room = match study.cleaning {
            Cleaning::When(_) => 0,
            Cleaning::Never => {
                let totals = &study.totals;
                let writes = totals.data_writes + totals.directory_changes + totals.inode_updates;
                (writes * 20 / u64::from(SEGMENT_SECTORS)) as u32
            }
        };
        Server {
            log: Log::new(segments + room),
            cache: Cache::new(CACHE_BYTES),
            device: Device::new(bytes),
            model: study.model,
            victims: study.victim.make(&setting),
            when,
            pending: None,
            is_clean: false,
            stops_at: if study.stops { BUSY_LIM } else { 1.0 },
            has_looked: false,
            has_begun: false,
            has_ended: false,
            user_free_at: 0,
            written: 0,
            outcome: Outcome { disk_bytes: bytes, ..Outcome::default() },
            sampler: Sampler::default(),
            is_full: false,
        }
    }

    pub(super) fn run(mut self, stream: impl Iterator<Item = NfsOp>) -> Result<Outcome, String> {
        let mut end = 0;
        for op in stream {
            end = op.at;
            self.sampler.pass(op.at, || self.outcome.moment());
            self.clean_until(op.at);
            self.serve(&op);
            if self.is_full {
                return Err("the log is full, and cleaning gains nothing".into());
            }
        }
        let segments = self.log.segments.iter().copied();
        let log = Some(LogAtEnd::of(segments));
        self.sampler.finish(end, self.outcome.moment(), log, SpaceMap::default());
        let queue = self.device.queue;
        let mut outcome = self.outcome;
        (outcome.arrivals, outcome.empty) = (queue.arrivals, queue.empty);
        (outcome.writes, outcome.cleaner_blocks_met) = (queue.writes, queue.cleaner_blocks_met);
        outcome.history = self.sampler.history();
        outcome.waits_ns.sort_unstable();
        outcome.delays_ns.sort_unstable();
        outcome.idle_s.sort_unstable_by(f32::total_cmp);
        let sectors = outcome.disk_bytes / SECTOR;
        outcome.utilization = self.log.live_sectors() as f64 / sectors as f64;
        Ok(outcome)
    }

    fn serve(&mut self, op: &NfsOp) {
        let now = op.at;
        match op.kind {
            Kind::GetAttr(node) => self.read(now, node, INODE, INODE_SECTORS),
            Kind::ReadDir(node) => self.read(now, node, 0, DIRECTORY_SECTORS),
            Kind::Read(node, block) => {
                let sectors = self.log.sectors(node, block).max(1);
                self.read(now, node, block, sectors);
            }
            Kind::Write(node, block, bytes) => {
                let had = self.log.sectors(node, block);
                let sectors = bytes.div_ceil(SECTOR as u32).max(had);
                self.write(now, &[NodeBlock { node, block, sectors }, inode(node)]);
            }
            Kind::SetAttr(node) => self.write(now, &[inode(node)]),
            Kind::Truncate(node) => {
                self.log.cut(node, false);
                self.write(now, &[inode(node)]);
            }
            Kind::Create { dir, node } => self.write(now, &[directory(dir), inode(node)]),
            Kind::Remove { dir, node } => {
                self.log.cut(node, true);
                self.write(now, &[directory(dir)]);
            }
            Kind::Rename(dir) => self.write(now, &[directory(dir)]),
        }
    }

    /// A user's request to the disk, for data at this sector of a segment.
    fn request(&mut self, now: u64, kind: IoKind, segment: u32, sector: u32, sectors: u32) {
        let idle = now.saturating_sub(self.user_free_at);
        match idle {
            0 => {}
            SECOND.. => self.outcome.idle_s.push(idle as f32 / SECOND as f32),
            _ => self.outcome.idle_short += 1,
        }
        if let Some(when) = &mut self.when
            && idle > 0
        {
            when.idle_ended(idle);
        }
        self.has_looked = false;
        self.outcome.cleaned_periods += u64::from(std::mem::take(&mut self.has_begun));
        self.outcome.useful_periods += u64::from(std::mem::take(&mut self.has_ended));
        let served = self.submit(now, kind, segment, (sector, sectors), Requester::User);
        self.user_free_at = self.user_free_at.max(served.done);
        let ns = |time: u64| u32::try_from(time - now).unwrap_or(u32::MAX);
        self.outcome.waits_ns.push(ns(served.done));
        self.outcome.delays_ns.push(ns(served.start));
    }

    /// A request to the disk, for these sectors of a segment: the first, and their number.
    fn submit(
        &mut self,
        now: u64,
        kind: IoKind,
        segment: u32,
        (from, sectors): (u32, u32),
        who: Requester,
    ) -> Served {
        let at = (u64::from(segment) * u64::from(SEGMENT_SECTORS) + u64::from(from)) * SECTOR;
        let bytes = u64::from(sectors) * SECTOR;
        self.device.request(now, kind, at % self.outcome.disk_bytes, bytes, who)
    }

    fn read(&mut self, now: u64, node: u32, block: u32, sectors: u32) {
        let bytes = u64::from(sectors) * SECTOR;
        let is_there = self.cache.touch((node, block), bytes);
        let Some((segment, sector)) = self.log.find(node, block) else { return };
        // What is not on disk yet is in memory, in the segment that is being filled.
        let (open, _) = self.log.position();
        let is_buffered = self.model == WriteModel::Async && segment == open;
        if is_there || is_buffered {
            self.outcome.cached_bytes += bytes;
            return;
        }
        self.request(now, IoKind::Read, segment, sector, sectors);
        self.outcome.read_bytes += bytes;
    }

    fn write(&mut self, now: u64, pieces: &[NodeBlock]) {
        if self.is_full {
            return;
        }
        let sectors: u32 = pieces.iter().map(|piece| piece.sectors).sum();
        for piece in pieces {
            self.cache.touch((piece.node, piece.block), u64::from(piece.sectors) * SECTOR);
        }
        if self.log.room() < sectors + SUMMARY_SECTORS {
            if self.model == WriteModel::Async {
                self.flush(now, Requester::User);
            }
            self.next_segment(now);
            if self.is_full {
                return;
            }
        }
        let (segment, from) = self.log.position();
        if self.model == WriteModel::Sync || from == 0 {
            self.log.pad(SUMMARY_SECTORS);
            self.outcome.summary_bytes += u64::from(SUMMARY_SECTORS) * SECTOR;
        }
        for &piece in pieces {
            let at = self.log.now;
            self.log.append(piece, at);
            self.log.now += u64::from(piece.sectors);
        }
        self.written += u64::from(sectors) * SECTOR;
        self.outcome.user_bytes += u64::from(sectors) * SECTOR;
        self.is_clean = false;
        if self.model == WriteModel::Sync {
            self.request(now, IoKind::Write, segment, from, sectors + SUMMARY_SECTORS);
        }
    }

    /// Writes the segment that is being filled, as far as it is not on disk.
    fn flush(&mut self, now: u64, who: Requester) {
        let (segment, to) = self.log.position();
        if to == 0 {
            return;
        }
        match who {
            Requester::User => self.request(now, IoKind::Write, segment, 0, to),
            Requester::Cleaner => {
                let wrote = self.submit(now, IoKind::Write, segment, (0, to), who);
                self.outcome.cleaner_busy_ns += wrote.done - wrote.start;
            }
        }
    }

    /// Continues in a clean segment; cleans on demand if too few are clean.
    fn next_segment(&mut self, now: u64) {
        if self.when.is_some() && self.log.clean_segments() <= RESERVE {
            self.log.free_empty();
            self.finish(now);
            // A full log would be cleaned for ever, so each segment is tried once at most.
            let mut tries = self.log.segments.len();
            while self.log.clean_segments() <= RESERVE + 1 && tries > 0 {
                tries -= 1;
                if !self.begin(now, 0.0) {
                    break;
                }
                self.finish(now);
                self.outcome.on_demand += 1;
            }
        }
        self.is_full = !self.log.advance();
    }

    /// Lets the cleaner work until a user's request comes at `until`.
    fn clean_until(&mut self, until: u64) {
        let Some(mut when) = self.when.take() else { return };
        let mut now = self.user_free_at.max(self.device.free_at());
        while now < until && (!self.is_clean || self.pending.is_some()) {
            let input = TriggerInput {
                now_ns: now,
                idle_since_ns: Some(self.user_free_at),
                clean_segments: self.log.clean_segments(),
                segments: self.log.segments.len() as u32,
                reserve_segments: RESERVE,
                step_ns: STEP_NS,
            };
            match when.decide(&input) {
                TriggerDecision::Wait => break,
                TriggerDecision::At(at) => now = at.max(now + 1),
                TriggerDecision::Now => {
                    self.clean_a_step(now);
                    now = self.device.free_at().max(now);
                }
            }
        }
        self.when = Some(when);
    }

    /// One step of cleaning in an idle time: reads a victim, or writes what was read.
    fn clean_a_step(&mut self, now: u64) {
        // The cleaner's first look in an idle time ends what accumulated since the last one, if
        // anything did; further victims of the same idle time end nothing.
        if self.written > 0 && !std::mem::replace(&mut self.has_looked, true) {
            self.outcome.accumulated.push(std::mem::take(&mut self.written));
        }
        if self.pending.is_some() {
            self.finish(now);
            self.outcome.background += 1;
            self.has_ended = true;
        } else {
            self.log.free_empty();
            let free = self.log.segments.len() as f64
                - self.log.live_sectors() as f64 / f64::from(SEGMENT_SECTORS);
            let enough = f64::from(self.log.clean_segments()) >= free * self.stops_at;
            self.is_clean = enough || !self.begin(now, WORTH);
        }
        self.has_begun |= !self.is_clean;
    }

    /// Reads a victim with at least this share of garbage; returns false if there is none.
    fn begin(&mut self, now: u64, worth: f64) -> bool {
        let candidates = Candidates { view: self.log.view(), min_garbage_share: worth };
        let Some(segment) = self.victims.choose(&candidates) else { return false };
        let live = self.log.segments[segment as usize].live_blocks;
        // Live blocks lie in order, and gaps between them are read too: at most the whole segment.
        let sectors = (live.max(1) * 2).min(SEGMENT_SECTORS);
        self.outcome.cleaner_read_bytes += u64::from(sectors) * SECTOR;
        let read = self.submit(now, IoKind::Read, segment, (0, sectors), Requester::Cleaner);
        self.outcome.cleaner_busy_ns += read.done - read.start;
        self.pending = Some(Pending { segment, read_at: read.done });
        true
    }

    /// Appends the live pieces of the victim that was read to the log.
    fn finish(&mut self, now: u64) {
        let Some(Pending { segment, read_at }) = self.pending.take() else { return };
        let youngest_at = self.log.segments[segment as usize].youngest_at;
        let mut now = now.max(read_at);
        let mut live = self.log.live(segment).into_iter().peekable();
        while live.peek().is_some() {
            if self.log.room() < SUMMARY_SECTORS + BLOCK_SECTORS {
                if self.model == WriteModel::Async {
                    self.flush(now, Requester::Cleaner);
                }
                if !self.log.advance() {
                    break;
                }
            }
            let (to, from) = self.log.position();
            if self.model == WriteModel::Sync || from == 0 {
                self.log.pad(SUMMARY_SECTORS);
                self.outcome.moved_bytes += u64::from(SUMMARY_SECTORS) * SECTOR;
            }
            let room = |log: &Log, piece: &NodeBlock| log.room() >= piece.sectors;
            while let Some(piece) = live.next_if(|piece| room(&self.log, piece)) {
                self.log.append(piece, youngest_at);
                self.outcome.moved_bytes += u64::from(piece.sectors) * SECTOR;
            }
            let (_, end) = self.log.position();
            if self.model == WriteModel::Sync {
                let wrote =
                    self.submit(now, IoKind::Write, to, (from, end - from), Requester::Cleaner);
                self.outcome.cleaner_busy_ns += wrote.done - wrote.start;
                now = wrote.done;
            }
        }
        if self.log.segments[segment as usize].live_blocks == 0 {
            self.log.free(segment);
        }
    }
}

fn inode(node: u32) -> NodeBlock {
    NodeBlock { node, block: INODE, sectors: INODE_SECTORS }
}

fn directory(node: u32) -> NodeBlock {
    NodeBlock { node, block: 0, sectors: DIRECTORY_SECTORS }
}

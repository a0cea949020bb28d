//! An SSD with a flash translation layer: what its channels, planes, cache and link do, and when.
//!
//! Modelled, after MQSim (Tavakkol et al., "MQSim: A Framework for Enabling Realistic Studies of
//! Modern Multi-Queue SSD Devices", FAST 2018): planes that read, program and erase one page or
//! block at a time, as many at once as a chip can; channels that move one page at a time; a write cache that
//! reports writes early and programs them as planes become free; reading a page before it is
//! overwritten in part; garbage collection ([`Ftl`]) in idle planes, and before the host's pages
//! when free blocks run out; a link to the host, each way for itself; times that vary from a seed.
//! Reads go before cached writes, but wait for the operation that their plane is doing.
//!
//! Not modelled: commands on channels, mapping tables that are read from flash, dies and planes that
//! work together only on certain requests, suspended erases and programs, different pages of a cell, wear
//! levelling, bad blocks and errors. A read takes its channel when it begins, so a transfer that
//! could come before it waits. A flush commits all planes to the writes that it waits for, so later
//! reads wait behind them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use twin_disk::IoKind;
use twin_rt::{MICROS, Nanos, Rng, SECS, Time};

use super::ftl::{Ftl, Layout, Step, Wear};
use super::{Access, DeviceModel, ModelError, ModelSpec, Options, Service, Supply, chosen_size};
use crate::TimeBreakdown;

/// Bytes in a sector that hosts see.
const SECTOR: u32 = 512;

/// The figures of an SSD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsdFigures {
    /// Number of channels, which transfer data at the same time.
    pub channels: u32,
    /// Chips on a channel.
    pub chips: u32,
    /// Dies in a chip.
    pub dies: u32,
    /// Planes in a die.
    pub planes: u32,
    /// Things that a chip does at once, each in other planes: from 1 to all planes of the chip.
    pub at_once: u32,
    /// Erase blocks in a plane.
    pub blocks: u32,
    /// Pages in a block.
    pub pages: u32,
    /// Bytes in a page: at most 32 sectors.
    pub page_bytes: u32,
    /// The part of the physical pages that the host does not see.
    pub over_provisioning: f64,
    /// The part of a plane's blocks that are free when garbage collection begins.
    pub gc_below: f64,
    /// The part of a plane's blocks that are free when the host's pages wait for it.
    pub gc_urgent: f64,
    /// Time to read a page from the cells.
    pub read_ns: Nanos,
    /// Time to program a page.
    pub program_ns: Nanos,
    /// Time to erase a block.
    pub erase_ns: Nanos,
    /// The most by which a time of the cells differs from these, in percent. Uniform.
    pub variance_percent: u32,
    /// Bytes a second of a channel.
    pub channel_bytes_per_s: u64,
    /// Bytes of the write cache.
    pub cache_bytes: u64,
    /// Bytes a second at which the cache takes data from the host.
    pub cache_bytes_per_s: u64,
    /// Bytes a second of the link in each direction.
    pub link_bytes_per_s: u64,
    /// Requests that the host may have in flight.
    pub depth: u32,
}

/// MQSim's default configuration (`ssdconfig.xml`): 8 channels of 4 chips of 2 dies of 2 planes of
/// 2048 blocks of 256 pages of 8 KiB, 7% over-provisioning, garbage collection at 5% of free blocks
/// and before all else at 0.5%, 75 us to read, 750 us to program, 3.8 ms to erase, 333 MB/s a
/// channel, 256 MiB of cache that takes 200 MB/s (100 MT/s of a byte, both edges), four PCIe
/// lanes of 1 GB/s.
///
/// In MQSim the dies of a chip work side by side if their requests come together, and planes if the
/// addresses agree too. Here a die does one thing at a time. Against MQSim itself (tests/flash.rs)
/// that is near on reads at random and on writes in order, and 38% too fast on reads in order; MQSim's random writes keep one die of a chip busy,
/// which shows only if its cache were faster. The mapping table is in memory, as with MQSim's
/// `Ideal_Mapping_Table`: without that its single reads take twice as long.
pub(super) const MQSIM: SsdFigures = SsdFigures {
    channels: 8,
    chips: 4,
    dies: 2,
    planes: 2,
    at_once: 2,
    blocks: 2048,
    pages: 256,
    page_bytes: 8192,
    over_provisioning: 0.07,
    gc_below: 0.05,
    gc_urgent: 0.005,
    read_ns: 75 * MICROS,
    program_ns: 750 * MICROS,
    erase_ns: 3800 * MICROS,
    variance_percent: 0,
    channel_bytes_per_s: 333_000_000,
    cache_bytes: 256 << 20,
    cache_bytes_per_s: 200_000_000,
    link_bytes_per_s: 4_000_000_000,
    depth: 256,
};

/// An NVMe SSD of three-bit cells, 1 TB. Assumed, no particular product: 8 channels of 1.2 GB/s
/// with 4 dies of 4 planes, pages of 16 KiB in blocks of 1152, 60 us to read, 600 us to program and
/// 5 ms to erase, each within 15%, 7% over-provisioning, 64 MiB of
/// cache of 8 GB/s, PCIe 3 x4. Its cells are never used as
/// one-bit cells, as those of products are, so a burst that exceeds the cache is slower than theirs.
pub(super) const TLC: SsdFigures = SsdFigures {
    channels: 8,
    chips: 4,
    dies: 1,
    planes: 4,
    at_once: 4,
    blocks: 456,
    pages: 1152,
    page_bytes: 16_384,
    over_provisioning: 0.07,
    gc_below: 0.05,
    gc_urgent: 0.0075,
    read_ns: 60 * MICROS,
    program_ns: 600 * MICROS,
    erase_ns: 5000 * MICROS,
    variance_percent: 15,
    channel_bytes_per_s: 1_200_000_000,
    cache_bytes: 64 << 20,
    cache_bytes_per_s: 8_000_000_000,
    link_bytes_per_s: 3_200_000_000,
    depth: 256,
};

/// Work that has read a page and goes on with programming.
#[derive(Clone, Copy, Debug)]
enum Half {
    /// A page of garbage collection.
    Move,
    /// A page of the cache of which the host has written a part.
    Merge(u32),
}

/// Blocks that a plane has at least beyond those for logical pages: two that are open, those that
/// garbage collection keeps free, and one for garbage.
const LEAST_SPARE: u32 = 6;

/// An SSD. Its state is the mapping, the content of the write cache, and the times at which planes,
/// channels and link become free.
pub struct Ssd {
    spec: ModelSpec,
    figures: SsdFigures,
    ftl: Ftl,
    rng: Rng,
    /// When each unit that works by itself (some planes of a chip) is free.
    free_at: Vec<Time>,
    channel_free_at: Vec<Time>,
    /// When the link is free, from the device to the host and from the host to the device.
    link_free_at: [Time; 2],
    /// When the cache is free to take data from the host.
    cache_free_at: Time,
    /// Pages in the cache that wait for their plane, with the sectors that the host has written.
    dirty: BTreeMap<u32, u32>,
    /// The dirty pages of each plane, in order of arrival; discarded ones are skipped.
    queues: Vec<VecDeque<u32>>,
    /// Planes with work, by the time at which they may begin it; of equals the one that has waited
    /// longer, by the number of its turn.
    ready: BinaryHeap<Reverse<(Time, u64, u32)>>,
    /// Whether a plane is in `ready`.
    listed: Vec<bool>,
    turns: u64,
    /// Planes that have read a page and now program one.
    half_done: Vec<Option<Half>>,
    /// Pages that are being programmed: when they leave the cache.
    leaving: BinaryHeap<Reverse<(Time, u32)>>,
    /// The same by page.
    programming: BTreeMap<u32, Time>,
    /// When the last page that has begun to be programmed is finished.
    programmed_at: Time,
}

impl Ssd {
    /// A device with these figures, empty.
    pub fn new(
        name: &'static str,
        figures: &SsdFigures,
        options: &Options,
    ) -> Result<Ssd, ModelError> {
        let f = *figures;
        let planes = f.channels * f.chips * f.dies * f.planes;
        let row = u64::from(planes) * u64::from(f.pages) * u64::from(f.page_bytes);
        let own = (row * u64::from(f.blocks)) as f64 * (1.0 - f.over_provisioning);
        let own = (own as u64) >> 20 << 20;
        let size = chosen_size(name, options, own, SECTOR)?;
        // Another size has other planes: the spare part stays the same.
        let rows = (size as f64 / row as f64 / (1.0 - f.over_provisioning)).ceil() as u32;
        let gc_urgent = ((f64::from(rows) * f.gc_urgent) as u32).max(2);
        let gc_below = ((f64::from(rows) * f.gc_below) as u32).max(gc_urgent + 1);
        let blocks = rows.max(size.div_ceil(row) as u32 + LEAST_SPARE);
        let logical = size.div_ceil(f.page_bytes.into());
        let most = u64::from(u32::MAX);
        if logical >= most || u64::from(blocks) * u64::from(f.pages) >= most {
            return Err(ModelError::TooLarge { name, asked: size, has: own });
        }
        let write_cache = options.write_cache.unwrap_or(true);
        let (sector, max_io, depth, queue_depth) = (SECTOR, 1 << 20, f.depth, f.depth);
        let logical = logical as u32;
        let units = f.channels * f.chips * f.at_once.clamp(1, f.dies * f.planes);
        let layout = Layout { planes, blocks, pages: f.pages, logical, gc_below, gc_urgent };
        Ok(Ssd {
            spec: ModelSpec { name, size, sector, max_io, depth, queue_depth, write_cache },
            figures: f,
            ftl: Ftl::new(layout, options.seed),
            rng: Rng::stream(options.seed, name),
            free_at: vec![Time(0); units as usize],
            channel_free_at: vec![Time(0); f.channels as usize],
            link_free_at: [Time(0); 2],
            cache_free_at: Time(0),
            dirty: BTreeMap::new(),
            queues: vec![VecDeque::new(); planes as usize],
            ready: BinaryHeap::new(),
            listed: vec![false; planes as usize],
            turns: 0,
            half_done: vec![None; planes as usize],
            leaving: BinaryHeap::new(),
            programming: BTreeMap::new(),
            programmed_at: Time(0),
        })
    }

    /// A time of the cells, varied.
    fn varied(&mut self, ns: Nanos) -> Nanos {
        let most = ns * u64::from(self.figures.variance_percent) / 100;
        if most == 0 { ns } else { ns - most + self.rng.below(2 * most + 1) }
    }

    /// Moves bytes over the channel of a plane, from `at` on; returns when they begin and end.
    fn channel(&mut self, plane: u32, at: Time, bytes: u64) -> (Time, Time) {
        let free_at = &mut self.channel_free_at[(plane % self.figures.channels) as usize];
        let start = at.max(*free_at);
        *free_at = start + span(bytes, self.figures.channel_bytes_per_s);
        (start, *free_at)
    }

    fn link(&mut self, direction: usize, at: Time, bytes: u64) -> (Time, Time) {
        let start = at.max(self.link_free_at[direction]);
        self.link_free_at[direction] = start + span(bytes, self.figures.link_bytes_per_s);
        (start, self.link_free_at[direction])
    }

    /// Reads a page for the host, from `now` on; returns when its bytes have left the channel and
    /// how long it waited for plane and channel.
    fn read_page(&mut self, now: Time, plane: u32, bytes: u64) -> (Time, Nanos) {
        let start = now.max(*self.free_at(plane));
        let cells = start + self.varied(self.figures.read_ns);
        let (moving, done) = self.channel(plane, cells, bytes);
        *self.free_at(plane) = done;
        (done, (start - now) + (moving - cells))
    }

    /// When a plane, or its chip, becomes free.
    fn free_at(&mut self, plane: u32) -> &mut Time {
        let unit = plane as usize % self.free_at.len();
        &mut self.free_at[unit]
    }

    /// Lists a plane that has work.
    fn list(&mut self, plane: u32, from: Time) {
        if !std::mem::replace(&mut self.listed[plane as usize], true) {
            let at = from.max(*self.free_at(plane));
            self.ready.push(Reverse((at, self.turns, plane)));
            self.turns += 1;
        }
    }

    /// Lets the planes begin all their work that begins by `until`.
    fn work_until(&mut self, until: Time) {
        while let Some(&Reverse((at, ..))) = self.ready.peek()
            && at <= until
        {
            self.begin_next();
        }
        while let Some(&Reverse((end, page))) = self.leaving.peek()
            && end <= until
        {
            self.leaving.pop();
            if self.programming.get(&page) == Some(&end) {
                self.programming.remove(&page);
            }
        }
    }

    /// Begins the next piece of work of any plane, if there is some.
    fn begin_next(&mut self) {
        let Some(Reverse((at, turn, plane))) = self.ready.pop() else { return };
        let p = plane as usize;
        let free_at = *self.free_at(plane);
        if free_at > at {
            // The plane has read for the host meanwhile, or its chip has other work.
            return self.ready.push(Reverse((free_at, turn, plane)));
        }
        self.listed[p] = false;
        if let Some(half) = self.half_done[p].take() {
            self.second_half(at, plane, half);
            return self.list(plane, at);
        }
        while self.queues[p].front().is_some_and(|page| !self.dirty.contains_key(page)) {
            self.queues[p].pop_front();
        }
        let collects =
            self.ftl.has_garbage(plane) && (self.queues[p].is_empty() || self.ftl.is_urgent(plane));
        if collects && let Some(step) = self.ftl.collect(plane) {
            let took = match step {
                Step::Moved => self.varied(self.figures.read_ns),
                Step::Erased => self.varied(self.figures.erase_ns),
            };
            *self.free_at(plane) = at + took;
            self.half_done[p] = (step == Step::Moved).then_some(Half::Move);
        } else if let Some(page) = self.queues[p].pop_front() {
            let written = self.dirty.get(&page).copied().unwrap_or(0);
            if written != self.all_sectors() && self.ftl.is_mapped(page) {
                // The sectors that the host has not written come from the old page.
                let took = self.varied(self.figures.read_ns);
                *self.free_at(plane) = at + took;
                self.half_done[p] = Some(Half::Merge(page));
            } else {
                self.program(at, page, 1);
            }
        } else {
            return;
        }
        self.list(plane, at);
    }

    /// Continues work whose page has been read: the page goes to the controller, and another one
    /// returns.
    fn second_half(&mut self, at: Time, plane: u32, half: Half) {
        match half {
            Half::Move => {
                let there_and_back = 2 * u64::from(self.figures.page_bytes);
                let (_, here) = self.channel(plane, at, there_and_back);
                let took = self.varied(self.figures.program_ns);
                *self.free_at(plane) = here + took;
            }
            // Unless it has been discarded meanwhile.
            Half::Merge(page) if self.dirty.contains_key(&page) => self.program(at, page, 2),
            Half::Merge(_) => {}
        }
    }

    /// Programs a page of the cache from `at` on; `transfers` pages pass the channel for it.
    fn program(&mut self, at: Time, page: u32, transfers: u32) {
        self.dirty.remove(&page);
        let plane = self.ftl.plane_of(page);
        let bytes = u64::from(self.figures.page_bytes * transfers);
        let (_, here) = self.channel(plane, at, bytes);
        let end = here + self.varied(self.figures.program_ns);
        self.ftl.write(page);
        *self.free_at(plane) = end;
        self.leaving.push(Reverse((end, page)));
        self.programming.insert(page, end);
        self.programmed_at = self.programmed_at.max(end);
    }

    /// The sectors of a page, one bit each.
    fn all_sectors(&self) -> u32 {
        ((1u64 << (self.figures.page_bytes / SECTOR)) - 1) as u32
    }

    /// The pages of a range, with the sectors of each that are in it.
    fn pages(&self, at: u64, len: u64) -> impl Iterator<Item = (u32, u32)> + use<> {
        let bytes = u64::from(self.figures.page_bytes);
        (at / bytes..(at + len).div_ceil(bytes)).map(move |page| {
            let from = at.max(page * bytes) - page * bytes;
            let to = (at + len).min((page + 1) * bytes) - page * bytes;
            let up_to = |end: u64| (1u64 << (end / u64::from(SECTOR))) - 1;
            (page as u32, (up_to(to) & !up_to(from)) as u32)
        })
    }

    fn read(&mut self, now: Time, at: u64, len: u64) -> Service {
        let (mut all, mut wait) = (now, 0);
        for (page, sectors) in self.pages(at, len) {
            // Pages that are in the cache, or that nobody has written, are not read from the cells.
            let has = self.dirty.get(&page).copied().unwrap_or(0);
            let cached = has & sectors == sectors || self.programming.contains_key(&page);
            if cached || !self.ftl.is_mapped(page) {
                continue;
            }
            let bytes = u64::from(sectors.count_ones() * SECTOR);
            let (done, waited) = self.read_page(now, self.ftl.plane_of(page), bytes);
            if done > all {
                (all, wait) = (done, waited);
            }
        }
        let (moving, done) = self.link(0, all, len);
        let queue_ns = wait + (moving - all);
        let transfer_ns = (done - now) - queue_ns;
        let parts = TimeBreakdown { queue_ns, transfer_ns, ..TimeBreakdown::default() };
        Service { first: moving, done, parts }
    }

    fn write(&mut self, now: Time, at: u64, len: u64, supply: Supply) -> Service {
        let ready = now.max(supply.last);
        let (moving, there) = self.link(1, ready, len);
        let taking = there.max(self.cache_free_at);
        let here = taking + span(len, self.figures.cache_bytes_per_s);
        self.cache_free_at = here;
        let mut room = here;
        for (page, sectors) in self.pages(at, len) {
            room = self.make_room(room, page);
            let has = self.dirty.entry(page).or_insert(0);
            let is_new = std::mem::replace(has, *has | sectors) == 0;
            if is_new {
                let plane = self.ftl.plane_of(page);
                self.queues[plane as usize].push_back(page);
                self.list(plane, room);
            }
        }
        let mut done = room;
        if !self.spec.write_cache {
            done = self.pages(at, len).fold(done, |done, (page, _)| done.max(self.finish(page)));
        }
        let parts = TimeBreakdown {
            bus_ns: ready - now,
            queue_ns: (moving - ready) + (taking - there),
            destage_ns: room - here,
            transfer_ns: (there - moving) + (here - taking) + (done - room),
            ..TimeBreakdown::default()
        };
        Service { first: now, done, parts }
    }

    /// When the cache has room for a page, from `at` on.
    fn make_room(&mut self, at: Time, page: u32) -> Time {
        let capacity = (self.figures.cache_bytes / u64::from(self.figures.page_bytes)) as usize;
        let mut at = at;
        self.work_until(at);
        while !self.dirty.contains_key(&page) && self.dirty.len() + self.leaving.len() >= capacity {
            match self.leaving.peek() {
                Some(&Reverse((end, _))) => {
                    at = at.max(end);
                    self.work_until(at);
                }
                // All planes are at other work.
                None => self.begin_next(),
            }
        }
        at
    }

    /// Lets the planes work until a page is being programmed; returns when it has been.
    fn finish(&mut self, page: u32) -> Time {
        while self.dirty.contains_key(&page) {
            self.begin_next();
        }
        self.programming.get(&page).copied().unwrap_or(Time(0))
    }

    fn flush(&mut self, now: Time) -> Service {
        while !self.dirty.is_empty() {
            self.begin_next();
        }
        let done = if self.spec.write_cache { now.max(self.programmed_at) } else { now };
        let parts = TimeBreakdown { flush_ns: done - now, ..TimeBreakdown::default() };
        Service { first: now, done, parts }
    }

    /// Whole pages of the range become garbage at once; pages in part stay.
    fn discard(&mut self, now: Time, at: u64, len: u64) -> Service {
        for (page, sectors) in self.pages(at, len) {
            if sectors == self.all_sectors() {
                self.dirty.remove(&page);
                self.ftl.discard(page);
            }
        }
        Service { first: now, done: now, parts: TimeBreakdown::default() }
    }

    /// Pages programmed and blocks erased so far.
    pub fn wear(&self) -> Wear {
        Wear { page_bytes: self.figures.page_bytes.into(), ..self.ftl.wear() }
    }
}

/// Time that bytes take at a rate.
fn span(bytes: u64, bytes_per_s: u64) -> Nanos {
    (u128::from(bytes) * u128::from(SECS) / u128::from(bytes_per_s)) as Nanos
}

impl DeviceModel for Ssd {
    fn spec(&self) -> ModelSpec {
        self.spec
    }

    fn serve(&mut self, now: Time, access: &Access, supply: Supply) -> Service {
        self.work_until(now);
        let Access { at, len, .. } = *access;
        match access.kind {
            IoKind::Flush => self.flush(now),
            _ if len == 0 => Service { first: now, done: now, parts: TimeBreakdown::default() },
            IoKind::Read => self.read(now, at, len),
            IoKind::Write => self.write(now, at, len, supply),
            IoKind::Discard => self.discard(now, at, len),
        }
    }

    fn wear(&self) -> Option<Wear> {
        Some(Ssd::wear(self))
    }
}

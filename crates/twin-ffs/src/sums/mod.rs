//! Checksums of everything that a volume has on its device, as a device above it.
//!
//! Contract: what is read has passed the checksum of each of its fragments, or the request fails. A fragment
//! of which only a part was ever written has none (0), and is not compared: such structures have checksums
//! of their own. Data and its checksum cannot be written together, so a *region* is in doubt before
//! anything in it is written: its bit in a bitmap is durable first. Checksums are kept in memory
//! and written when the region has been idle for a while: table block, flush, and then the bit is
//! cleared. After a power failure the checksums of regions in doubt are computed from what lies there:
//! what was not made durable may be old or new, as without checksums. So what the volume promises of a
//! crash is the same with this device and without it, and a place is not compared only until it was
//! next at rest.
//!
//! `format` says where everything lies and how.

pub(crate) mod format;
mod regions;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

use twin_disk::{
    Block, BlockDevice, Buf, Class, DeviceInfo, Io, IoError, IoErrorKind, IoKind, IoResult, Origin,
    Pending, ServiceBounds, gather, pending,
};
use twin_fs::{FsError, Result};
use twin_rt::{Category, Event, LockGuard, MILLIS, Rt, RwLock, SECS, Time, join_all};

use crate::format::Superblock;
use format::{SUMS, SumsPlan, TABLE_BYTES};
use regions::Regions;

/// A region that was not written for this long is at rest.
const REST_NS: u64 = 5 * SECS;
/// How often a fragment is read that does not match while something is written near it.
const LOOKS: usize = 3;
/// Table blocks that are written or read at once.
const AT_ONCE: usize = 16;

/// What may be done with a volume below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Everything.
    Work,
    /// It is only read; regions in doubt are not compared.
    Read,
    /// A repair: nothing is compared, since what does not match is what it is about. What it does not
    /// write keeps its checksum, and stays an error.
    Repair,
}

/// The device. See the module.
pub(crate) struct Summed(Rc<Inner>);

struct Inner {
    /// There is none for a check, which makes one request at a time.
    rt: Option<Rt>,
    below: Rc<dyn BlockDevice>,
    plan: SumsPlan,
    how: Use,
    regions: RefCell<Regions>,
    /// Held while pages of the bitmap are written, so that two writes of one do not overtake each other.
    pages: RwLock,
    /// Regions that tasks wait to have in doubt.
    wanted: RefCell<BTreeSet<u32>>,
    /// Held while table blocks are written, for the same reason.
    resting: RwLock,
    /// Notified when a region comes into doubt.
    doubts: Rc<Event>,
    /// In a repair, the places that did not match when they were read.
    taken: RefCell<BTreeSet<u64>>,
}

impl Summed {
    /// Writes the tables of a new volume.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) async fn make(device: &dyn BlockDevice, sb: &Superblock) -> Result<()> {
        let plan = SumsPlan::of(sb);
        let none = vec![0; SUMS];
        let pages =
            (0..plan.pages()).map(|page| (plan.page_at(page), plan.encode_page(page, |_| false)));
        for (at, raw) in pages {
            device.submit(write(at, &raw)).await?;
        }
        let all: Vec<u32> = (0..plan.regions).collect();
        for some in all.chunks(AT_ONCE) {
            let writes = some.iter().map(|&region| {
                device.submit(write(plan.table_at(region), &plan.encode_table(region, &none)))
            });
            for result in join_all(writes.collect::<Vec<_>>()).await {
                result?;
            }
        }
        Ok(())
    }

    /// Opens the checksums of a volume: computes those of regions in doubt.
    ///
    /// # Errors
    /// If they are not on the device, or it fails.
    pub(crate) async fn open(
        rt: &Rt,
        below: Rc<dyn BlockDevice>,
        sb: &Superblock,
        how: Use,
    ) -> Result<Rc<Summed>> {
        let summed = Summed::find(Some(rt.clone()), below, sb, how).await?;
        if how == Use::Work {
            rt.spawn("checksums", keep(Rc::downgrade(&summed.0), rt.clone()));
            summed.0.doubts.notify();
        }
        Ok(summed)
    }

    /// The checksums of a volume that is only read, by [`read`](Self::read).
    ///
    /// # Errors
    /// If they are not on the device, or it fails.
    pub(crate) async fn reading(below: Rc<dyn BlockDevice>, sb: &Superblock) -> Result<Rc<Summed>> {
        Summed::find(None, below, sb, Use::Read).await
    }

    async fn find(
        rt: Option<Rt>,
        below: Rc<dyn BlockDevice>,
        sb: &Superblock,
        how: Use,
    ) -> Result<Rc<Summed>> {
        let plan = SumsPlan::of(sb);
        if plan.end() > below.info().size {
            let what =
                "the device is too small for the volume's checksums: is this a part of a copy?";
            return Err(FsError::corrupt(plan.size, what));
        }
        let inner = Rc::new(Inner {
            rt,
            below,
            plan,
            how,
            regions: RefCell::default(),
            pages: RwLock::new(),
            doubts: Rc::default(),
            resting: RwLock::new(),
            wanted: RefCell::default(),
            taken: RefCell::default(),
        });
        let mut in_doubt = 0;
        for page in 0..plan.pages() {
            let raw = inner.read_below(plan.page_at(page), plan.page).await;
            let found = raw.ok().and_then(|raw| plan.decode_page(page, &raw));
            // A page that is not sound says nothing of its regions.
            let found = found.unwrap_or_else(|| plan.of_page(page).collect());
            for region in found {
                in_doubt += 1;
                match how {
                    Use::Work | Use::Repair => {
                        let sums = inner.compute(region).await;
                        inner.regions.borrow_mut().insert_in_doubt(region, sums, inner.now());
                    }
                    Use::Read => inner.regions.borrow_mut().insert_unknown(region),
                }
            }
        }
        if let Some(rt) = inner.rt.as_ref().filter(|_| in_doubt > 0) {
            rt.log(Category::Recovery, "in-doubt", || [("regions", in_doubt)]);
        }
        Ok(Rc::new(Summed(inner)))
    }

    /// Reads, and compares.
    pub(crate) async fn read(&self, io: Io) -> IoResult {
        self.0.read(io).await
    }

    /// In a repair: what was read although it did not match is taken as it is from now on, and table blocks
    /// that are not sound are made anew. Gives the places and what was wrong.
    pub(crate) async fn take(&self) -> Result<Vec<(u64, String)>> {
        let inner = &self.0;
        let mut told = Vec::new();
        for region in 0..inner.plan.regions {
            let Err(error) = inner.read_table(region).await else { continue };
            let is_at_rest = inner.regions.borrow().is_at_rest(region);
            if is_at_rest {
                inner.doubt(region..region + 1).await?;
                told.push((inner.plan.table_at(region), error.to_string()));
            }
        }
        let taken: Vec<u64> = inner.taken.take().into_iter().collect();
        for &at in &taken {
            inner.doubt(inner.regions_of(at, inner.plan.unit)).await?;
            let io = Io::read(at, inner.plan.unit, Class::Meta, Origin::Recovery);
            let blocks = inner.below.submit(io).await?;
            let sum = gather(&blocks, 0, inner.plan.unit as usize).crc32c();
            let (region, nth) = inner.plan.nth(at);
            inner.regions.borrow_mut().set(region, nth, sum);
            told.push((at, "metadata did not match its checksum, and was taken as it is".into()));
        }
        Ok(told)
    }

    /// Writes all checksums, so that no region is in doubt. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) async fn finish(&self) -> Result<()> {
        self.0.put_to_rest(0).await
    }

    /// Calls `bad` with the place and the words for each page and table block that is not sound.
    pub(crate) async fn check(&self, mut bad: impl FnMut(u64, u64, String)) {
        let inner = &self.0;
        for page in 0..inner.plan.pages() {
            let at = inner.plan.page_at(page);
            let raw = inner.read_below(at, inner.plan.page).await;
            if raw.ok().and_then(|raw| inner.plan.decode_page(page, &raw)).is_none() {
                bad(at, inner.plan.page, "a page of the regions in doubt is not sound".into());
            }
        }
        for region in 0..inner.plan.regions {
            let version = inner.regions.borrow().version(region);
            let read = inner.read_table(region).await;
            let (is_at_rest, known) = {
                let regions = inner.regions.borrow();
                let is_same = regions.version(region) == version;
                (is_same && regions.is_at_rest(region), regions.sums(region))
            };
            // What is being written, or will be, is nobody's.
            if !is_at_rest {
                continue;
            }
            let what = match read {
                Ok(found) if known.is_none_or(|known| known == found) => continue,
                Ok(_) => format!("the checksums of region {region} are old ones"),
                Err(FsError::Corrupt { what, .. }) => what,
                Err(other) => other.to_string(),
            };
            bad(inner.plan.table_at(region), TABLE_BYTES, what);
        }
    }

    /// Puts all regions in doubt, on a volume that is not open: their checksums are computed anew from what
    /// lies there when it is opened.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) async fn doubt_all(device: &dyn BlockDevice, sb: &Superblock) -> Result<()> {
        let plan = SumsPlan::of(sb);
        for page in 0..plan.pages() {
            device.submit(write(plan.page_at(page), &plan.encode_page(page, |_| true))).await?;
        }
        device.submit(Io::flush(Origin::Recovery)).await?;
        Ok(())
    }
}

/// Puts regions to rest that are idle, for as long as the device is used.
async fn keep(inner: Weak<Inner>, rt: Rt) {
    loop {
        let Some(device) = inner.upgrade() else { return };
        let is_idle = device.regions.borrow().doubts() == 0;
        // The device must not live on because this waits.
        let doubts = Rc::clone(&device.doubts);
        drop(device);
        if is_idle {
            doubts.wait().await;
        }
        rt.sleep(REST_NS).await;
        let Some(device) = inner.upgrade() else { return };
        // A device that fails is noticed by the volume above.
        let _ = device.put_to_rest(REST_NS).await;
    }
}

fn write(at: u64, raw: &[u8]) -> Io {
    let blocks = vec![Block::Bytes(Buf::copy_of(raw).freeze())];
    Io::write(at, blocks, Class::Meta, Origin::Checkpoint)
}

impl Inner {
    fn now(&self) -> Time {
        self.rt.as_ref().map_or(Time(0), Rt::now)
    }

    async fn read_below(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        let io = Io::read(at, len, Class::Meta, Origin::Recovery);
        let blocks = self.below.submit(io).await?;
        Ok(gather(&blocks, 0, len as usize).to_bytes().to_vec())
    }

    async fn read_table(&self, region: u32) -> Result<Vec<u32>> {
        let raw = self.read_below(self.plan.table_at(region), TABLE_BYTES).await?;
        self.plan.decode_table(region, &raw)
    }

    /// The checksums of what lies in a region; 0 where it cannot be read.
    async fn compute(&self, region: u32) -> Vec<u32> {
        let start = u64::from(region) * self.plan.region_bytes();
        let end = (start + self.plan.region_bytes()).min(self.plan.size);
        let mut sums = Vec::with_capacity(SUMS);
        let step =
            u64::from(self.below.info().max_io).min(128 << 10) / self.plan.unit * self.plan.unit;
        let mut at = start;
        while at < end {
            let len = step.max(self.plan.unit).min(end - at);
            let read = self.below.submit(Io::read(at, len, Class::Mixed, Origin::Recovery)).await;
            for nth in 0..len / self.plan.unit {
                let (off, unit) = ((nth * self.plan.unit) as usize, self.plan.unit as usize);
                sums.push(read.as_ref().map_or(0, |blocks| gather(blocks, off, unit).crc32c()));
            }
            at += len;
        }
        sums.resize(SUMS, 0);
        sums
    }

    /// The regions of a range of bytes.
    fn regions_of(&self, at: u64, len: u64) -> std::ops::Range<u32> {
        let region = self.plan.region_bytes();
        (at / region) as u32..(at + len).div_ceil(region) as u32
    }

    /// Has the checksums of a region in memory.
    async fn load(&self, region: u32) {
        if self.regions.borrow().has(region) {
            return;
        }
        let sums = match self.read_table(region).await {
            Ok(sums) => sums,
            // Nothing says what should be there. The table block is written again when the region is.
            Err(_) if self.how == Use::Read => vec![0; SUMS],
            Err(_) => self.compute(region).await,
        };
        self.regions.borrow_mut().insert(region, sums);
    }

    /// Makes it durable that regions are in doubt, with their checksums in memory.
    async fn doubt(&self, regions: std::ops::Range<u32>) -> std::result::Result<(), IoError> {
        loop {
            for region in regions.clone() {
                self.load(region).await;
            }
            let wanted: Vec<u32> = regions
                .clone()
                .filter(|&region| !self.regions.borrow().is_in_doubt(region))
                .collect();
            if wanted.is_empty() {
                return Ok(());
            }
            // Whoever gets the lock writes for all who wait for it, with one flush.
            self.wanted.borrow_mut().extend(wanted);
            let guard = self.pages.write().await;
            let all: Vec<u32> = {
                let regions = self.regions.borrow();
                let wanted = self.wanted.take().into_iter();
                wanted.filter(|&r| regions.has(r) && !regions.is_in_doubt(r)).collect()
            };
            if !all.is_empty() {
                self.write_doubts(&all, &guard).await?;
            }
        }
    }

    /// Writes the pages with the bits of these regions, set, and flushes.
    async fn write_doubts(
        &self,
        wanted: &[u32],
        _pages: &LockGuard,
    ) -> std::result::Result<(), IoError> {
        let mut pages: Vec<u32> = wanted.iter().map(|&region| self.plan.bit_of(region).0).collect();
        pages.dedup();
        for page in pages {
            let raw = {
                let regions = self.regions.borrow();
                self.plan.encode_page(page, |region| {
                    regions.is_in_doubt(region) || wanted.contains(&region)
                })
            };
            self.below.submit(write(self.plan.page_at(page), &raw)).await?;
        }
        self.below.submit(Io::flush(Origin::Checkpoint)).await?;
        let now = self.now();
        wanted.iter().for_each(|&region| self.regions.borrow_mut().set_in_doubt(region, now));
        self.doubts.notify();
        Ok(())
    }

    /// Writes the checksums of regions in doubt that were not written for a while, and clears their bits.
    async fn put_to_rest(&self, idle_ns: u64) -> Result<()> {
        let _alone = self.resting.write().await;
        let now = self.now();
        let idle = self.regions.borrow().idle(now, idle_ns);
        for some in idle.chunks(AT_ONCE * 4) {
            let writes = some.iter().filter_map(|&(region, _)| {
                let sums = self.regions.borrow().sums(region)?;
                let raw = self.plan.encode_table(region, &sums);
                Some(self.below.submit(write(self.plan.table_at(region), &raw)))
            });
            for result in join_all(writes.collect::<Vec<_>>()).await {
                result?;
            }
            // What was written to the regions has ended, so this makes it durable with the tables.
            self.below.submit(Io::flush(Origin::Checkpoint)).await?;
            let guard = self.pages.write().await;
            let rested: Vec<u32> = some
                .iter()
                .filter(|&&(region, version)| self.regions.borrow_mut().rest(region, version))
                .map(|&(region, _)| region)
                .collect();
            let mut pages: Vec<u32> =
                rested.iter().map(|&region| self.plan.bit_of(region).0).collect();
            pages.dedup();
            for page in pages {
                let raw = {
                    let regions = self.regions.borrow();
                    self.plan.encode_page(page, |region| regions.is_in_doubt(region))
                };
                self.below.submit(write(self.plan.page_at(page), &raw)).await?;
            }
            drop(guard);
        }
        Ok(())
    }

    /// Sends a write whose regions are in doubt, and keeps its checksums.
    fn send(self: &Rc<Self>, io: Io) -> Pending {
        let (at, len) = (io.at, io.len);
        self.note(&io);
        let regions = self.regions_of(at, len);
        self.regions.borrow_mut().begin(regions.clone());
        let (done, answer) = pending();
        let (request, inner) = (self.below.submit(io), Rc::clone(self));
        self.spawn("checksummed write", async move {
            let result = request.await;
            inner.regions.borrow_mut().end(regions, inner.now());
            done.done(result);
        });
        answer
    }

    /// Runs a task beside the caller; a device without a runtime takes no requests.
    fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        if let Some(rt) = &self.rt {
            rt.spawn(name, task);
        }
    }

    /// Puts the checksums of what is written into memory.
    fn note(&self, io: &Io) {
        let unit = self.plan.unit;
        let mut regions = self.regions.borrow_mut();
        let mut at = io.at / unit * unit;
        while at < io.at + io.len {
            let is_whole = at >= io.at && at + unit <= io.at + io.len && io.kind == IoKind::Write;
            let sum = match is_whole {
                true => gather(&io.blocks, (at - io.at) as usize, unit as usize).crc32c(),
                false => 0,
            };
            let (region, nth) = self.plan.nth(at);
            regions.set(region, nth, sum);
            at += unit;
        }
    }

    async fn read(&self, io: Io) -> IoResult {
        let regions = self.regions_of(io.at, io.len);
        for region in regions.clone() {
            self.load(region).await;
        }
        let mut bad = None;
        let mut looks = 0;
        while looks < LOOKS {
            let before = self.regions.borrow().versions(regions.clone());
            let blocks = self.below.submit(io.clone()).await?;
            if !regions.clone().all(|region| self.regions.borrow().has(region)) {
                // The checksums left memory meanwhile.
                for region in regions.clone() {
                    self.load(region).await;
                }
                continue;
            }
            match self.mismatch(io.at, &blocks) {
                None => return Ok(blocks),
                Some(at) => bad = Some(at),
            }
            // What is written while it is read may be neither old nor new.
            let after = self.regions.borrow().versions(regions.clone());
            let changing = before != after || self.regions.borrow().is_busy(regions.clone());
            if let Some(rt) = self.rt.as_ref().filter(|_| changing) {
                rt.sleep(MILLIS).await;
            }
            looks += 1;
        }
        let kind = IoErrorKind::Other("the content does not match its checksum".into());
        let at = bad.unwrap_or(io.at);
        Err(IoError { op: IoKind::Read, at, len: self.plan.unit, kind })
    }

    /// The first fragment of what was read that does not match its checksum.
    fn mismatch(&self, at: u64, blocks: &[Block]) -> Option<u64> {
        let (unit, len) = (self.plan.unit, blocks.iter().map(|b| b.len() as u64).sum::<u64>());
        let regions = self.regions.borrow();
        let mut place = at.next_multiple_of(unit);
        while place + unit <= at + len {
            let (region, nth) = self.plan.nth(place);
            let expected = regions.sum(region, nth);
            if expected != 0
                && gather(blocks, (place - at) as usize, unit as usize).crc32c() != expected
            {
                if self.how != Use::Repair {
                    return Some(place);
                }
                self.taken.borrow_mut().insert(place);
            }
            place += unit;
        }
        None
    }
}

impl BlockDevice for Summed {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { size: self.0.plan.size, ..self.0.below.info() }
    }

    fn submit(&self, io: Io) -> Pending {
        if let Err(error) = self.info().check(&io) {
            return Pending::ready(Err(error));
        }
        let inner = Rc::clone(&self.0);
        match io.kind {
            IoKind::Flush => self.0.below.submit(io),
            IoKind::Read => {
                let (done, answer) = pending();
                self.0.spawn("checksummed read", async move { done.done(inner.read(io).await) });
                answer
            }
            IoKind::Write | IoKind::Discard => {
                let regions = inner.regions_of(io.at, io.len);
                if regions.clone().all(|region| inner.regions.borrow().is_in_doubt(region)) {
                    return inner.send(io);
                }
                let (done, answer) = pending();
                self.0.spawn("write in doubt", async move {
                    let result = match inner.doubt(regions).await {
                        Ok(()) => inner.send(io).await,
                        Err(error) => Err(error),
                    };
                    done.done(result);
                });
                answer
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.0.below.in_flight()
    }

    fn bounds(&self) -> Option<ServiceBounds> {
        self.0.below.bounds()
    }
}

//! A device whose content of one instant stays readable while the device is written.
//!
//! Contract: [`Freezable`] passes requests on to the device below it. A freeze has four steps:
//!
//! 1. **Hold.** [`Freezable::freeze`] holds all new requests back until those under way have ended,
//!    so that no write is half in the frozen content.
//! 2. **Let go.** It begins to keep old content, and only then lets the held requests go: a write
//!    among them must keep what it overwrites.
//! 3. **Keep.** Before a write or discard is submitted, the content that it overwrites is read and
//!    kept in memory (copy on write). If that would exceed the given memory, or the read fails, all
//!    kept content is dropped and the freeze is lost: the reader gets an error, the writer goes on.
//! 4. **Forget.** Dropping [`Frozen`] ends the freeze.
//!
//! [`OldContent`] is the frozen device: it reads the device below, and replaces the parts that have
//! been overwritten since.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use twin_rt::{BoxFuture, MICROS, Rt};

use crate::device::Completion;
use crate::{
    Block, BlockDevice, Class, DeviceInfo, Io, IoError, IoErrorKind, IoKind, Origin, Pending,
    ServiceBounds, gather, pending,
};

/// The unit in which old content is kept, in bytes, unless the device's sectors are larger.
const GRAIN: u64 = 4096;
/// The interval at which a freeze looks whether the requests under way have ended.
const LOOK_NS: u64 = 50 * MICROS;

/// Why there is no frozen content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfrozen {
    /// Another freeze has not ended.
    Busy,
    /// More was overwritten than the given memory can keep.
    Overrun,
    /// A block that was to be overwritten could not be read, so its old content is lost.
    Unreadable,
}

impl fmt::Display for Unfrozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfrozen::Busy => "the volume is being forked already: wait for that to end",
            Unfrozen::Overrun => {
                "so much was overwritten meanwhile that the old state could not be kept: keep more, or \
                 try again when less is written"
            }
            Unfrozen::Unreadable => "what was to be overwritten could not be read from the device",
        })
    }
}

impl std::error::Error for Unfrozen {}

/// The old content of everything that was overwritten since the freeze.
struct OldBlocks {
    /// The old content, by the number of the grain.
    old: BTreeMap<u64, Block>,
    /// Grains whose old content is being read.
    saving: u64,
    most_grains: u64,
    lost: Option<Unfrozen>,
}

struct Inner {
    rt: Rt,
    below: Rc<dyn BlockDevice>,
    info: RefCell<DeviceInfo>,
    grain: u64,
    /// True while requests are held back or old content is kept. Without a freeze, this is all that
    /// a request tests.
    active: Cell<bool>,
    held: RefCell<Option<Vec<(Io, Completion)>>>,
    kept: RefCell<Option<OldBlocks>>,
    /// The number of the latest freeze, which tells a [`Frozen`] whether it is still the current
    /// one.
    number: Cell<u64>,
    /// Writes that wait for old content. The device below does not know them yet, so they have to be
    /// counted as in flight here.
    delayed: Cell<usize>,
}

/// A device that can be frozen: see the module.
#[derive(Clone)]
pub struct Freezable(Rc<Inner>);

/// Keeps the content of an instant until it is dropped.
pub struct Frozen {
    inner: Rc<Inner>,
    number: u64,
}

/// Lets held requests go when it is dropped, also if the caller gives the freeze up in the middle.
struct HeldRequests<'a>(&'a Rc<Inner>);

impl Drop for HeldRequests<'_> {
    fn drop(&mut self) {
        let held = self.0.held.borrow_mut().take().unwrap_or_default();
        if self.0.kept.borrow().is_none() {
            self.0.active.set(false);
        }
        for (io, completion) in held {
            let under_way = self.0.submit(io);
            self.0.rt.spawn("held request", async move { completion.done(under_way.await) });
        }
    }
}

impl Freezable {
    /// A device above `below`.
    pub fn new(rt: &Rt, below: Rc<dyn BlockDevice>) -> Freezable {
        let info = below.info();
        Freezable(Rc::new(Inner {
            rt: rt.clone(),
            grain: GRAIN.max(info.sector.into()),
            below,
            info: RefCell::new(info),
            active: Cell::new(false),
            held: RefCell::default(),
            kept: RefCell::default(),
            number: Cell::new(0),
            delayed: Cell::new(0),
        }))
    }

    /// Freezes the content as it is when the requests under way have ended, and keeps at most
    /// `most_bytes` of what is overwritten afterwards.
    ///
    /// # Errors
    /// If it is frozen already.
    pub async fn freeze(&self, most_bytes: u64) -> Result<Frozen, Unfrozen> {
        let inner = &self.0;
        if inner.active.replace(true) {
            return Err(Unfrozen::Busy);
        }
        *inner.held.borrow_mut() = Some(Vec::new());
        let held = HeldRequests(inner);
        while inner.below.in_flight() > 0 {
            inner.rt.sleep(LOOK_NS).await;
        }
        let most_grains = most_bytes / inner.grain;
        let kept = OldBlocks { old: BTreeMap::new(), saving: 0, most_grains, lost: None };
        *inner.kept.borrow_mut() = Some(kept);
        inner.number.set(inner.number.get() + 1);
        let frozen = Frozen { inner: Rc::clone(inner), number: inner.number.get() };
        drop(held);
        Ok(frozen)
    }
}

impl Frozen {
    /// The pieces of a range that have been overwritten since, as they were, with their places.
    ///
    /// # Errors
    /// If the old content is lost.
    pub fn old(&self, at: u64, len: u64) -> Result<Vec<(u64, Block)>, Unfrozen> {
        let kept = self.inner.kept.borrow();
        let kept = kept.as_ref().ok_or(Unfrozen::Overrun)?;
        match kept.lost {
            Some(why) => Err(why),
            None => {
                let grains = self.inner.grains(at, len);
                let pieces = kept.old.range(grains);
                Ok(pieces.map(|(n, block)| (n * self.inner.grain, block.clone())).collect())
            }
        }
    }

    /// Bytes of old content that are kept.
    pub fn kept_bytes(&self) -> u64 {
        let kept = self.inner.kept.borrow();
        kept.as_ref().map_or(0, |kept| kept.old.len() as u64 * self.inner.grain)
    }

    /// The frozen content as a device that takes no writes.
    pub fn device(self: &Rc<Self>) -> OldContent {
        let frozen = Rc::clone(self);
        let old = move |at, len| frozen.old(at, len).map_err(|why| why.to_string());
        OldContent::new(&self.inner.rt, Rc::clone(&self.inner.below), old)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if self.inner.number.get() == self.number {
            self.inner.kept.borrow_mut().take();
            self.inner.active.set(false);
        }
    }
}

impl Inner {
    fn grains(&self, at: u64, len: u64) -> Range<u64> {
        at / self.grain..(at + len).div_ceil(self.grain)
    }

    fn submit(self: &Rc<Self>, io: Io) -> Pending {
        if !self.active.get() {
            return self.below.submit(io);
        }
        if let Some(held) = &mut *self.held.borrow_mut() {
            let (completion, result) = pending();
            held.push((io, completion));
            return result;
        }
        match io.kind {
            IoKind::Read | IoKind::Flush => self.below.submit(io),
            IoKind::Write | IoKind::Discard => self.overwrite(io),
        }
    }

    /// The grains of a write whose old content is not kept yet, as one range; empty if there are
    /// none, or if nothing is kept any more.
    fn missing(&self, io: &Io) -> Range<u64> {
        let mut kept = self.kept.borrow_mut();
        let Some(kept) = kept.as_mut().filter(|kept| kept.lost.is_none()) else { return 0..0 };
        // A request outside the device is refused below.
        if self.info.borrow().check(io).is_err() {
            return 0..0;
        }
        let grains = self.grains(io.at, io.len);
        let is_missing = |grain: &u64| !kept.old.contains_key(grain);
        let first = grains.clone().find(is_missing);
        let last = grains.rev().find(is_missing);
        let (Some(first), Some(last)) = (first, last) else { return 0..0 };
        let count = last + 1 - first;
        // Grains count from now on, not from when they have been read: otherwise many writes at once
        // could each find room.
        if kept.old.len() as u64 + kept.saving + count > kept.most_grains {
            kept.lose(Unfrozen::Overrun);
            return 0..0;
        }
        kept.saving += count;
        first..last + 1
    }

    /// Reads the old content, keeps it, and only then submits the write. The two cannot be in flight
    /// together, because a device may serve them in any order.
    fn overwrite(self: &Rc<Self>, io: Io) -> Pending {
        let missing = self.missing(&io);
        if missing.is_empty() {
            return self.below.submit(io);
        }
        let at = missing.start * self.grain;
        let len = (missing.end * self.grain).min(self.info.borrow().size) - at;
        let old = self.below.submit(Io::read(at, len, Class::Mixed, Origin::Recovery));
        let (completion, result) = pending();
        let (inner, number) = (Rc::clone(self), self.number.get());
        self.delayed.set(self.delayed.get() + 1);
        self.rt.spawn("keep old content", async move {
            let old = old.await;
            inner.keep(number, &missing, old);
            let written = inner.below.submit(io);
            inner.delayed.set(inner.delayed.get() - 1);
            completion.done(written.await);
        });
        result
    }

    /// Keeps old content that was read for the freeze `number`. If that freeze has ended meanwhile, the
    /// content belongs to nobody.
    fn keep(&self, number: u64, grains: &Range<u64>, old: crate::IoResult) {
        let mut kept = self.kept.borrow_mut();
        let Some(kept) = kept.as_mut().filter(|_| self.number.get() == number) else { return };
        kept.saving -= grains.end - grains.start;
        let Ok(old) = old else { return kept.lose(Unfrozen::Unreadable) };
        if kept.lost.is_some() {
            return;
        }
        let len: usize = old.iter().map(Block::len).sum();
        for (nth, grain) in grains.clone().enumerate() {
            let from = nth * self.grain as usize;
            let piece = gather(&old, from, (self.grain as usize).min(len - from));
            // Content that another write has kept meanwhile is older, so it stays.
            kept.old.entry(grain).or_insert(piece);
        }
    }
}

impl OldBlocks {
    fn lose(&mut self, why: Unfrozen) {
        self.old.clear();
        self.lost = Some(why);
    }
}

impl BlockDevice for Freezable {
    fn info(&self) -> DeviceInfo {
        self.0.info.borrow().clone()
    }

    fn submit(&self, io: Io) -> Pending {
        self.0.submit(io)
    }

    fn in_flight(&self) -> usize {
        let held = self.0.held.borrow().as_ref().map_or(0, Vec::len);
        self.0.below.in_flight() + held + self.0.delayed.get()
    }

    fn bounds(&self) -> Option<ServiceBounds> {
        self.0.below.bounds()
    }

    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        Box::pin(async move {
            if self.0.active.get() {
                let why = "a fork of the volume is being made: wait for that to end";
                return Err(IoErrorKind::Other(why.into()));
            }
            let size = self.0.below.grow(to).await?;
            self.0.info.borrow_mut().size = size;
            Ok(size)
        })
    }
}

type Old = dyn Fn(u64, u64) -> Result<Vec<(u64, Block)>, String>;

/// A frozen device as it was: reads come from the device as it is, and what has been overwritten
/// since from whoever keeps it. It takes no writes.
pub struct OldContent {
    rt: Rt,
    now: Rc<dyn BlockDevice>,
    old: Rc<Old>,
}

impl OldContent {
    /// The content of `now` without what `old` knows to be overwritten, which is asked for the pieces
    /// of a range (place and length in bytes) after that range has been read; its errors are words.
    pub fn new(
        rt: &Rt,
        now: Rc<dyn BlockDevice>,
        old: impl Fn(u64, u64) -> Result<Vec<(u64, Block)>, String> + 'static,
    ) -> OldContent {
        OldContent { rt: rt.clone(), now, old: Rc::new(old) }
    }
}

/// `blocks`, found at byte `at`, with these pieces in place of their bytes there.
fn replaced(blocks: Vec<Block>, at: u64, len: u64, pieces: Vec<(u64, Block)>) -> Vec<Block> {
    let mut out = Vec::new();
    let mut done = at;
    let end = at + len;
    let part = |from: u64, to: u64| gather(&blocks, (from - at) as usize, (to - from) as usize);
    for (place, piece) in pieces {
        let (from, to) = (place.max(at), (place + piece.len() as u64).min(end));
        if from >= to {
            continue;
        }
        if from > done {
            out.push(part(done, from));
        }
        out.push(piece.slice((from - place) as usize, (to - from) as usize));
        done = to;
    }
    match done {
        _ if done == at => blocks,
        _ if done < end => {
            out.push(part(done, end));
            out
        }
        _ => out,
    }
}

impl BlockDevice for OldContent {
    fn info(&self) -> DeviceInfo {
        self.now.info()
    }

    fn submit(&self, io: Io) -> Pending {
        let (op, at, len) = (io.kind, io.at, io.len);
        let failed =
            move |text: String| Err(IoError { op, at, len, kind: IoErrorKind::Other(text) });
        match io.kind {
            IoKind::Read => {}
            IoKind::Flush => return Pending::ready(Ok(Vec::new())),
            IoKind::Write | IoKind::Discard => {
                return Pending::ready(failed("this is the content of an earlier instant".into()));
            }
        }
        let (completion, result) = pending();
        let (read, old) = (self.now.submit(io), Rc::clone(&self.old));
        self.rt.spawn("old content", async move {
            let read = read.await;
            completion.done(match (read, old(at, len)) {
                (Err(error), _) => Err(error),
                (Ok(_), Err(why)) => failed(why),
                (Ok(blocks), Ok(pieces)) => Ok(replaced(blocks, at, len, pieces)),
            });
        });
        result
    }

    fn in_flight(&self) -> usize {
        self.now.in_flight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buf, MemDisk};
    use twin_rt::ClockOnly;

    fn write(at: u64, byte: u8, len: usize) -> Io {
        let block = Block::Bytes(Buf::copy_of(&vec![byte; len]).freeze());
        Io::write(at, vec![block], Class::Meta, Origin::User)
    }

    fn read(rt: &Rt, device: &dyn BlockDevice, at: u64, len: u64) -> Vec<u8> {
        let read = device.submit(Io::read(at, len, Class::Meta, Origin::User));
        gather(&rt.block_on(read).unwrap().unwrap(), 0, len as usize).to_bytes().to_vec()
    }

    #[test]
    fn the_content_of_an_instant_stays_while_it_is_overwritten() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let first: Vec<u8> = (0..40_000u32).map(|n| (n % 251) as u8).collect();
        let first = [first, vec![9; 960]].concat();
        let disk = Freezable::new(&rt, Rc::new(MemDisk::from_bytes(first.clone())));
        let frozen = Rc::new(rt.block_on(disk.freeze(1 << 20)).unwrap().unwrap());
        assert_eq!(rt.block_on(disk.freeze(1)).unwrap().err(), Some(Unfrozen::Busy));
        // Parts of grains, the same place twice, and the last grain, which is short.
        for (n, io) in [(512, 512), (0, 8192), (512, 1024), (39_936, 1024)].into_iter().enumerate()
        {
            rt.block_on(disk.submit(write(io.0, 100 + n as u8, io.1))).unwrap().unwrap();
        }
        let old = frozen.device();
        assert_eq!(read(&rt, &old, 0, 40_960), first);
        assert_eq!(read(&rt, &old, 512, 7680), first[512..8192]);
        let now = read(&rt, &disk, 0, 40_960);
        assert_eq!((now[0], now[600], now[8191], now[40_000]), (101, 102, 101, 103));
        assert_eq!(frozen.kept_bytes(), 3 * 4096);
        assert!(rt.block_on(old.submit(write(0, 1, 512))).unwrap().is_err());
        let grow = |to| rt.block_on(disk.grow(Some(to))).unwrap();
        assert!(grow(65_536).is_err(), "the fork was made of the smaller one");
        drop((old, frozen));
        assert_eq!((grow(65_536), disk.info().size), (Ok(65_536), 65_536));
        // Not kept any more, and it can be frozen again, as it is now.
        let again = Rc::new(rt.block_on(disk.freeze(8192)).unwrap().unwrap());
        rt.block_on(disk.submit(write(0, 7, 512))).unwrap().unwrap();
        rt.block_on(disk.submit(write(61_440, 7, 4096))).unwrap().unwrap();
        assert_eq!(read(&rt, &again.device(), 0, 40_960), now);
        assert_eq!(read(&rt, &again.device(), 61_440, 4096), [0; 4096]);
    }

    #[test]
    fn what_cannot_be_kept_is_lost_and_the_writer_goes_on() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let disk = Freezable::new(&rt, Rc::new(MemDisk::new(1 << 20)));
        let frozen = rt.block_on(disk.freeze(8192)).unwrap().unwrap();
        rt.block_on(disk.submit(write(0, 1, 8192))).unwrap().unwrap();
        assert_eq!(frozen.old(0, 4096).unwrap().len(), 1);
        rt.block_on(disk.submit(write(65_536, 1, 4096))).unwrap().unwrap();
        assert_eq!(frozen.old(0, 4096), Err(Unfrozen::Overrun));
        assert_eq!(read(&rt, &disk, 65_536, 512), [1; 512]);
    }
}

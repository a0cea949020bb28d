//! Writes under way. Blocks are overwritten in place, so two writes of one place must reach the
//! device in the order of their requests.
//!
//! Contract: a write gets its place in the order in [`Writes::send`], which does not wait and takes
//! the content as it is then. It is submitted to the device when no earlier write that overlaps it
//! is under way. Its frames stay in memory until the device has it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::Frame;
use twin_disk::{Block, Class, Io, Origin};
use twin_fs::{Core, FsError, Ino, Result};
use twin_rt::Event;

use crate::settings::PlantedFault;

/// A write of blocks that are adjacent on the device.
pub(crate) struct WriteRun {
    /// The first byte on the device.
    pub(crate) at: u64,
    pub(crate) blocks: Vec<Block>,
    pub(crate) frames: Vec<Rc<Frame>>,
    pub(crate) class: Class,
    /// The file, or 0 for the volume's own structures.
    pub(crate) ino: Ino,
}

/// One block that was taken for a write.
pub(crate) struct Piece {
    /// The first byte on the device.
    pub(crate) at: u64,
    pub(crate) block: Block,
    /// The frame that it was taken from, if it was.
    pub(crate) frames: Option<Rc<Frame>>,
    pub(crate) class: Class,
    /// The file, or 0 for the volume's own structures.
    pub(crate) ino: Ino,
}

impl From<Piece> for WriteRun {
    fn from(piece: Piece) -> WriteRun {
        let Piece { at, block, frames, class, ino } = piece;
        WriteRun { at, blocks: vec![block], frames: frames.into_iter().collect(), class, ino }
    }
}

impl WriteRun {
    fn len(&self) -> u64 {
        self.blocks.iter().map(|b| b.len() as u64).sum()
    }

    /// The first byte after it.
    pub(crate) fn end(&self) -> u64 {
        self.at + self.len()
    }
}

struct WriteRange {
    start: u64,
    end: u64,
    ino: Ino,
}

#[derive(Default)]
struct WritesInFlight {
    /// The writes by number, in the order of their requests.
    all: BTreeMap<u64, WriteRange>,
    /// First byte and number of each write, with its end.
    by_start: BTreeMap<(u64, u64), u64>,
    /// The longest write so far.
    longest: u64,
}

impl WritesInFlight {
    /// True if an earlier write overlaps this one.
    fn is_blocked(&self, number: u64, start: u64, end: u64) -> bool {
        let from = start.saturating_sub(self.longest);
        let mut near = self.by_start.range((from, 0)..(end, 0));
        near.any(|(&(_, other), &other_end)| other < number && other_end > start)
    }
}

/// The writes under way. See the module.
pub(crate) struct Writes {
    order: RefCell<WritesInFlight>,
    next: Cell<u64>,
    changed: Event,
    /// True if data of new blocks was sent to the device and not flushed since.
    unflushed: Cell<bool>,
    planted: PlantedFault,
}

impl Writes {
    pub(crate) fn new(planted: PlantedFault) -> Writes {
        Writes {
            order: RefCell::default(),
            next: Cell::new(0),
            changed: Event::default(),
            unflushed: Cell::new(false),
            planted,
        }
    }

    /// Flushes the device, which makes all completed writes durable.
    pub(crate) async fn barrier(&self, core: &Core, origin: Origin) -> Result<()> {
        core.check_writable()?;
        if !self.planted.is(PlantedFault::SkipFlush)
            && let Err(error) = core.device.submit(Io::flush(origin)).await
        {
            core.poison(FsError::Io(error));
        }
        core.check_writable()
    }

    /// Records that data of new blocks is on its way: a transaction that leads to it must flush.
    pub(crate) fn note_unflushed(&self) {
        self.unflushed.set(true);
    }

    /// True if such data was sent since the last call.
    pub(crate) fn take_unflushed(&self) -> bool {
        self.unflushed.replace(false)
    }

    /// Sends writes to the device, each as soon as no earlier write overlaps it. Returns their
    /// numbers.
    pub(crate) fn send(
        self: &Rc<Self>,
        core: &Rc<Core>,
        runs: Vec<WriteRun>,
        origin: Origin,
    ) -> Vec<u64> {
        runs.into_iter().map(|run| self.send_one(core, run, origin)).collect()
    }

    fn send_one(self: &Rc<Self>, core: &Rc<Core>, run: WriteRun, origin: Origin) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        let (start, end) = (run.at, run.end());
        let blocked = {
            let mut order = self.order.borrow_mut();
            order.longest = order.longest.max(end - start);
            let blocked = order.is_blocked(number, start, end);
            order.all.insert(number, WriteRange { start, end, ino: run.ino });
            order.by_start.insert((start, number), end);
            blocked
        };
        let frames = run.frames;
        let io = Io::write(run.at, run.blocks, run.class, origin);
        let (writes, core2) = (Rc::clone(self), Rc::clone(core));
        let ready = (!blocked).then(|| core.device.submit(io.clone()));
        core.rt.spawn("write", async move {
            let pending = match ready {
                Some(pending) => pending,
                None => {
                    let free = || !writes.order.borrow().is_blocked(number, start, end);
                    writes.changed.wait_until(free).await;
                    core2.device.submit(io)
                }
            };
            let result = pending.await;
            drop(frames);
            if let Err(error) = result {
                core2.poison(FsError::Io(error));
            }
            {
                let mut order = writes.order.borrow_mut();
                order.all.remove(&number);
                order.by_start.remove(&(start, number));
            }
            writes.changed.notify();
        });
        number
    }

    /// Waits until the device has these writes.
    pub(crate) async fn wait(&self, numbers: &[u64]) {
        let done = || {
            let order = self.order.borrow();
            numbers.iter().all(|n| !order.all.contains_key(n))
        };
        self.changed.wait_until(done).await;
    }

    /// Waits until the device has all writes of a file that were sent so far.
    pub(crate) async fn wait_file(&self, ino: Ino) {
        let before = self.next.get();
        let mine = |(_, place): (&u64, &WriteRange)| place.ino == ino;
        self.changed.wait_until(|| !self.order.borrow().all.range(..before).any(mine)).await;
    }

    /// Waits until the device has everything that was sent so far.
    pub(crate) async fn wait_all(&self) {
        let before = self.next.get();
        self.changed.wait_until(|| self.order.borrow().all.range(..before).next().is_none()).await;
    }

    /// True if a write to a range of the device is under way.
    pub(crate) fn is_under_way(&self, start: u64, end: u64) -> bool {
        self.order.borrow().is_blocked(u64::MAX, start, end)
    }

    /// The number of bytes under way.
    pub(crate) fn bytes(&self) -> u64 {
        self.order.borrow().all.values().map(|p| p.end - p.start).sum()
    }

    /// Waits until fewer than `bytes` are under way.
    pub(crate) async fn wait_below(&self, bytes: u64) {
        self.changed.wait_until(|| self.bytes() < bytes).await;
    }
}

/// Joins adjacent pieces into runs of up to `most` bytes.
pub(crate) fn join_runs(mut pieces: Vec<Piece>, most: u64) -> Vec<WriteRun> {
    pieces.sort_by_key(|p| p.at);
    let mut runs: Vec<WriteRun> = Vec::new();
    // The end of the last run.
    let mut end = 0;
    for piece in pieces {
        let piece_end = piece.at + piece.block.len() as u64;
        match runs.last_mut() {
            Some(run) if end == piece.at && run.ino == piece.ino && piece_end - run.at <= most => {
                run.blocks.push(piece.block);
                run.frames.extend(piece.frames);
                if run.class != piece.class {
                    run.class = Class::Mixed;
                }
            }
            _ => runs.push(piece.into()),
        }
        end = piece_end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(at: u64, len: u32, ino: Ino) -> Piece {
        Piece { at, block: Block::Zero(len), frames: None, class: Class::Data, ino }
    }

    #[test]
    fn neighbours_go_with_one_request_up_to_the_limit() {
        let pieces = vec![piece(8192, 4096, 1), piece(0, 4096, 1), piece(4096, 4096, 1)];
        let runs = join_runs(pieces, 8192);
        let places: Vec<_> = runs.iter().map(|r| (r.at, r.len())).collect();
        assert_eq!(places, [(0, 8192), (8192, 4096)]);
    }

    #[test]
    fn a_write_waits_for_earlier_ones_of_its_place_only() {
        let mut order = WritesInFlight { longest: 4096, ..WritesInFlight::default() };
        for (number, start) in [(1, 0), (3, 8192)] {
            order.by_start.insert((start, number), start + 4096);
        }
        assert!(order.is_blocked(2, 2048, 6144));
        assert!(!order.is_blocked(2, 4096, 12_288), "a later one is in nobody's way");
        assert!(order.is_blocked(4, 4096, 12_288));
    }
}

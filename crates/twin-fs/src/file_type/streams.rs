//! Streams: files of continuous media that are open for reading, each with a task that reads ahead.
//!
//! Contract: an open of such a file is a stream. It is admitted or refused at once, and returns when
//! what is played in the first two rounds is in memory. The task then holds at most two chunks of
//! blocks and reads the next one, with the time as its deadline at which a reader who keeps the
//! stream's rate gets there. Blocks that were read leave memory. A reader who is faster than the rate
//! reads what is not there yet as from an ordinary file; one who is slower makes the task wait; one
//! who goes elsewhere begins anew there, without a promise for the first chunks.
//! Where the order of tasks knows deadlines, the task has that of its next chunk, and a read that of its last byte.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Origin, Purpose};
use twin_rt::{Category, Event, Nanos, SECS, Time};

use super::admission::{CHUNKS, Limits};
use crate::core::Core;
use crate::inodes::Inode;
use crate::{FsError, Ino, Result};

/// The streams of a volume.
#[derive(Default)]
pub(crate) struct Streams {
    open: RefCell<BTreeMap<Ino, Vec<Rc<Stream>>>>,
}

/// An open of a media file.
pub(crate) struct Stream {
    inode: Rc<Inode>,
    rate_bytes_per_s: u64,
    round_ns: Nanos,
    chunk: u64,
    /// The byte behind the last one read.
    next: Cell<u64>,
    /// When the reader was at which byte, from where its further needs are reckoned.
    anchor: Cell<(Time, u64)>,
    /// Blocks before this one have been requested.
    asked: Cell<u64>,
    /// Blocks that are in memory and not read yet.
    held: RefCell<VecDeque<Rc<Frame>>>,
    closed: Cell<bool>,
    /// When it was opened, or last read.
    used: Cell<Time>,
    /// Notified when the reader has read, or has gone.
    moved: Event,
}

impl Streams {
    /// Opens a file as a stream, if the disk can serve it beside the others. Returns when its first
    /// chunks are in memory.
    ///
    /// # Errors
    /// `Refused`, or what reading the file says.
    pub(crate) async fn open(&self, core: &Rc<Core>, inode: &Rc<Inode>, rate: u64) -> Result<()> {
        let block = core.geometry.block_size;
        let limits =
            Limits::new(core.device.bounds(), core.info.max_io, block, core.cache.capacity_bytes());
        let fits = {
            let open = self.open.borrow();
            let others = open.values().flatten().map(|stream| stream.rate_bytes_per_s);
            limits.fit(others.chain([rate]))
        };
        core.count_streams(|counts| match fits {
            true => counts.admitted += 1,
            false => counts.refused += 1,
        });
        let what = if fits { "stream admitted" } else { "stream refused" };
        core.rt.log(Category::Cache, what, || [("ino", inode.ino), ("bytes_per_s", rate)]);
        if !fits {
            return Err(FsError::Refused("the disk cannot serve one more stream of this rate"));
        }
        let stream = Rc::new(Stream {
            inode: Rc::clone(inode),
            rate_bytes_per_s: rate,
            round_ns: limits.round_ns(),
            chunk: limits.chunk_blocks(rate),
            next: Cell::new(0),
            anchor: Cell::new((core.rt.now() + limits.round_ns(), 0)),
            asked: Cell::new(0),
            held: RefCell::default(),
            closed: Cell::new(false),
            used: Cell::new(core.rt.now()),
            moved: Event::new(),
        });
        self.open.borrow_mut().entry(inode.ino).or_default().push(Rc::clone(&stream));
        inode.frames.set_apart(true);
        for _ in 0..CHUNKS {
            if let Err(error) = stream.read_chunk(core).await {
                self.end(core, &stream);
                return Err(error);
            }
        }
        stream.anchor.set((core.rt.now(), 0));
        let shared = Rc::clone(core);
        core.rt.spawn("stream", async move { stream.run(&shared).await });
        Ok(())
    }

    /// Closes a stream of a file that has now so many opens, if it has more streams than these: a
    /// release does not say which open it ends, so it is the stream that was read least recently.
    pub(crate) fn released(&self, core: &Core, ino: Ino, opens: u64) {
        let streams = self.open.borrow().get(&ino).map_or(0, Vec::len) as u64;
        if streams > opens {
            self.close(core, ino);
        }
    }

    fn close(&self, core: &Core, ino: Ino) {
        let open = self.open.borrow();
        let Some(of_file) = open.get(&ino) else { return };
        let oldest = of_file.iter().enumerate().min_by_key(|(_, stream)| stream.used.get());
        if let Some((oldest, _)) = oldest {
            let stream = Rc::clone(&of_file[oldest]);
            drop(open);
            self.end(core, &stream);
        }
    }

    fn end(&self, core: &Core, stream: &Rc<Stream>) {
        stream.closed.set(true);
        stream.drop_until(core, u64::MAX);
        stream.moved.notify();
        let mut open = self.open.borrow_mut();
        let ino = stream.inode.ino;
        let Some(of_file) = open.get_mut(&ino) else { return };
        of_file.retain(|other| !Rc::ptr_eq(other, stream));
        if of_file.is_empty() {
            stream.inode.frames.set_apart(false);
            open.remove(&ino);
        }
    }

    pub(crate) fn close_all(&self, core: &Core) {
        let all: Vec<Ino> = self.open.borrow().keys().copied().collect();
        for ino in all {
            while self.open.borrow().contains_key(&ino) {
                self.close(core, ino);
            }
        }
    }

    /// The stream of a file to which a read at `off` belongs: the one that waits for this byte, or
    /// has it ahead, or else the one that was opened last.
    pub(crate) fn of(&self, ino: Ino, off: u64, block: u32) -> Option<Rc<Stream>> {
        let open = self.open.borrow();
        if open.is_empty() {
            return None;
        }
        let of_file = open.get(&ino)?;
        let waits = of_file.iter().find(|stream| stream.next.get() == off);
        let has = || of_file.iter().find(|stream| stream.has(off, block));
        waits.or_else(has).or(of_file.last()).map(Rc::clone)
    }
}

impl Stream {
    fn has(&self, off: u64, block: u32) -> bool {
        (self.next.get()..self.asked.get() * u64::from(block)).contains(&off)
    }

    /// When the reader needs byte `at`, at the rate of the stream.
    fn needs(&self, at: u64) -> Time {
        let (since, from) = self.anchor.get();
        let bytes = u128::from(at.saturating_sub(from));
        let span = bytes * u128::from(SECS) / u128::from(self.rate_bytes_per_s.max(1));
        since + Nanos::try_from(span).unwrap_or(Nanos::MAX / 2)
    }

    /// When a reader who asks for these bytes needs the last of them, if it reads at the stream's rate. One who is
    /// further ahead than the task reads on as from an ordinary file.
    pub(crate) fn due(&self, now: Time, off: u64, len: u32) -> Option<Time> {
        let due = self.needs(off.saturating_add(len.into()));
        (self.needs(off) <= now + CHUNKS * self.round_ns).then_some(due)
    }

    /// Called before a read: counts it if its blocks are not in memory, and follows a reader who has
    /// gone elsewhere.
    pub(crate) fn begins(&self, core: &Core, off: u64, end: u64) {
        let block = core.geometry.block_size;
        if off != self.next.get() && !self.has(off, block) {
            self.drop_until(core, u64::MAX);
            self.asked.set(off / u64::from(block));
            self.anchor.set((core.rt.now(), off));
            self.next.set(off);
            self.moved.notify();
            return;
        }
        let end = end.min(self.inode.d.borrow().size).div_ceil(block.into());
        let here = (off / u64::from(block)..end).all(|lbn| {
            let frame = core.cache.peek(&self.inode.frames, lbn as Lbn);
            let hole = || core.resident_ptr(&self.inode, lbn as Lbn).is_some_and(|p| p.is_hole());
            frame.is_some_and(|frame| frame.is_valid()) || hole()
        });
        if !here {
            core.count_streams(|counts| counts.stalls += 1);
        }
    }

    /// Called after a read up to byte `end`: lets the blocks go, and the task read on.
    pub(crate) fn has_read(&self, core: &Core, off: u64, end: u64) {
        let now = core.rt.now();
        self.used.set(now);
        // A reader who is late needs the rest later than was reckoned.
        if self.needs(end) < now {
            self.anchor.set((now, end));
        }
        self.next.set(end);
        let at_end = end >= self.inode.d.borrow().size;
        let block = u64::from(core.geometry.block_size);
        let until = if at_end { end.div_ceil(block) } else { end / block };
        self.drop_until(core, until);
        // A reader who is faster than the task has read blocks that it does not hold.
        core.cache.drop_read(&self.inode.frames, (off / block) as Lbn..until as Lbn);
        self.moved.notify();
    }

    /// Drops the blocks before this one from memory, except those that others hold.
    fn drop_until(&self, core: &Core, lbn: u64) {
        let mut held = self.held.borrow_mut();
        let (Some(first), mut last) = (held.front().map(|frame| frame.lbn()), None) else { return };
        while held.front().is_some_and(|frame| (frame.lbn() as u64) < lbn) {
            last = held.pop_front().map(|frame| frame.lbn());
        }
        drop(held);
        if let Some(last) = last {
            core.cache.drop_read(&self.inode.frames, first..last + 1);
        }
    }

    /// Reads the next chunk, and holds it. Returns false if the file has no more.
    async fn read_chunk(&self, core: &Rc<Core>) -> Result<bool> {
        let _shared = self.inode.lock.read().await;
        let block = u64::from(core.geometry.block_size);
        let (size, inline) = {
            let d = self.inode.d.borrow();
            (d.size, d.is_inline())
        };
        let first = self.asked.get().max(self.next.get() / block);
        let last = (first + self.chunk).min(core.geometry.blocks_for(size));
        if inline || first >= last {
            return Ok(false);
        }
        self.asked.set(last);
        let deadline = Some(self.needs(first * block));
        let purpose = Purpose { origin: Origin::ReadAhead, deadline };
        let reading = core.blocks(&self.inode, first, last, purpose);
        let frames = match core.rt.knows_deadlines() {
            true => core.rt.by(deadline, reading).await?,
            false => reading.await?,
        };
        let next = self.next.get() / block;
        // The reader may have gone on, or elsewhere, meanwhile.
        let wanted = next.max(first)..self.asked.get();
        if !self.closed.get() {
            let frames = frames.into_iter().filter(|f| wanted.contains(&(f.lbn() as u64)));
            self.held.borrow_mut().extend(frames);
        }
        Ok(true)
    }

    /// True if a chunk more may be in memory.
    fn has_room(&self, block: u64) -> bool {
        self.asked.get() + self.chunk <= self.next.get() / block + CHUNKS * self.chunk
    }

    /// Reads ahead until the stream is closed.
    async fn run(&self, core: &Rc<Core>) {
        let block = u64::from(core.geometry.block_size);
        while !self.closed.get() && core.poisoned().is_none() {
            if !self.has_room(block) {
                self.moved.wait().await;
                continue;
            }
            match self.read_chunk(core).await {
                Ok(true) => {}
                // At the end, until the reader goes back or the file grows.
                Ok(false) => self.moved.wait().await,
                // The reader will meet the error; the stream goes on behind it.
                Err(_) => core.rt.sleep(self.round_ns).await,
            }
        }
    }
}

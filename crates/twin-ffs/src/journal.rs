//! The journal: the ring of records, and the way of their blocks to their places.
//!
//! Contract: a transaction is a snapshot, taken between two steps, of all metadata that changed
//! since the last one. It is durable when the data of new blocks and then its record are; from
//! then on what it freed may be used again. Its blocks stay in memory until they are in their
//! places, which happens when the journal is half full, and when the volume is closed. Here is what
//! the journal keeps and writes; what goes into a transaction is in `commit.rs`.
//!
//! A place is given out again only when nothing of the journal's can be written over it any more:
//! - What frees a place revokes it, if any transaction from the snapshot on has a block for it that
//!   a replay could find: one being sent counts like one that is durable (`mentioned`).
//! - The revocation goes with the transaction that frees the place, and the place is free only once
//!   that is durable: a replay that finds a new use of the place finds the revocation too, and a
//!   replay that does not find it finds the place unchanged.
//! - Only the task that holds the lock writes blocks to their places, and it waits for them. So none
//!   is under way when the revoking transaction lands; with it they are dropped, and no later one is
//!   begun.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use twin_cache::Frame;
use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::{Core, FsError, Ino, Result};
use twin_rt::{Category, LockGuard, RwLock, join_all};

use crate::format::{
    Entry, EntryKind, JOURNAL_HEADERS, JournalHeader, Record, Superblock, header_io, record_blocks,
};
use crate::settings::Sabotage;
use crate::writes::{Run, Writes, join_runs};

/// A block of a transaction, which is not in its place yet.
struct Journaled {
    block: Block,
    /// The frames that it was taken from: nobody may read it from its place meanwhile.
    _held: Vec<Rc<Frame>>,
}

/// A record in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) number: u64,
    /// First block within the ring.
    pub(crate) at: u64,
    /// Blocks.
    pub(crate) len: u64,
}

/// Where a journal writes.
pub(crate) struct Target<'a> {
    pub(crate) core: &'a Rc<Core>,
    pub(crate) sb: &'a Superblock,
    pub(crate) writes: &'a Rc<Writes>,
}

/// What a journal did since the volume was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JournalCounts {
    pub(crate) bytes: u64,
    pub(crate) commits: u64,
    pub(crate) checkpoints: u64,
}

/// The journal of an open volume.
pub(crate) struct Journal {
    /// Blocks of the ring.
    ring: u64,
    /// Held while a transaction is written.
    lock: RwLock,
    /// The next transaction's number.
    next: Cell<u64>,
    /// Snapshots taken; each is durable when the lock is free.
    snapshots: Cell<u64>,
    /// Every transaction up to this one is durable.
    durable: Cell<u64>,
    /// Where the next record goes.
    head: Cell<u64>,
    live: RefCell<VecDeque<Live>>,
    header: Cell<u64>,
    /// Blocks of durable transactions, by address, that are not in their places yet.
    journaled: RefCell<BTreeMap<u64, Journaled>>,
    /// Places that replay could find blocks for, with the last transaction that has one. A
    /// transaction is in here from its snapshot on: what it has may be freed while it is sent.
    mentioned: RefCell<BTreeMap<u64, u64>>,
    /// Blocks that operations admitted since the last count may have made dirty, at the most.
    guess: Cell<u64>,
    /// Of these, what was freed since the last snapshot.
    revoked: RefCell<BTreeSet<u64>>,
    /// Inodes that the last durable transaction says are in need of work.
    orphans: RefCell<Vec<Ino>>,
    counts: Cell<JournalCounts>,
}

/// A transaction that was taken and not written yet.
pub(crate) struct Transaction {
    record: Record,
    blocks: Vec<(u64, Journaled)>,
    revoked: BTreeSet<u64>,
}

impl Journal {
    /// The journal after its last record, which has blocks for the places `mentioned` and names
    /// `orphans`.
    pub(crate) fn new(
        sb: &Superblock,
        header: u64,
        last: Live,
        mentioned: impl Iterator<Item = u64>,
        orphans: Vec<Ino>,
    ) -> Journal {
        let ring = sb.journal_bytes / u64::from(sb.shape.block_size) - JOURNAL_HEADERS;
        let live = if last.len > 0 { vec![last] } else { Vec::new() };
        Journal {
            ring,
            lock: RwLock::new(),
            next: Cell::new(last.number + 1),
            snapshots: Cell::new(0),
            durable: Cell::new(last.number),
            head: Cell::new((last.at + last.len) % ring),
            live: RefCell::new(live.into()),
            header: Cell::new(header),
            journaled: RefCell::default(),
            mentioned: RefCell::new(mentioned.map(|addr| (addr, last.number)).collect()),
            guess: Cell::new(0),
            revoked: RefCell::default(),
            orphans: RefCell::new(orphans),
            counts: Cell::default(),
        }
    }

    /// What transactions say of a place is void: it was freed.
    pub(crate) fn note_freed(&self, addr: u64, sabotage: Sabotage) {
        let newest = match sabotage {
            Sabotage::RevokeLate => self.durable.get(),
            _ => u64::MAX,
        };
        if self.mentioned.borrow().get(&addr).is_some_and(|number| *number <= newest) {
            self.revoked.borrow_mut().insert(addr);
        }
    }

    /// The number of the transaction that is taken next.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.get()
    }

    /// The number of the last transaction that was taken, durable or not.
    pub(crate) fn last_snapshot(&self) -> u64 {
        self.next.get() - 1
    }

    /// True if transaction `number` and all before it are durable.
    pub(crate) fn is_durable(&self, number: u64) -> bool {
        number <= self.durable.get()
    }

    /// What it did since the volume was opened.
    pub(crate) fn counts(&self) -> JournalCounts {
        self.counts.get()
    }

    fn count(&self, f: impl FnOnce(&mut JournalCounts)) {
        let mut counts = self.counts.get();
        f(&mut counts);
        self.counts.set(counts);
    }

    /// Blocks of the ring that hold no record in use.
    fn room(&self) -> u64 {
        self.ring - self.live.borrow().iter().map(|l| l.len).sum::<u64>()
    }

    /// True if so much metadata is dirty that the journal should take it before an operation begins
    /// that may make `blocks` dirty. `dirty_blocks` counts what is: that takes long, so it is asked
    /// only when operations may have made enough dirty.
    pub(crate) fn is_pressed(&self, blocks: u64, dirty_blocks: impl FnOnce() -> u64) -> bool {
        let guess = self.guess.get() + blocks;
        self.guess.set(guess);
        let most = self.ring / 3;
        if guess <= most / 2 {
            return false;
        }
        let dirty = dirty_blocks();
        self.guess.set(dirty / 2);
        dirty > most
    }

    /// Waits for the turn to write a transaction; `None` if one that was begun after this call has
    /// taken everything.
    pub(crate) async fn turn(&self) -> Option<LockGuard> {
        let wanted = self.snapshots.get() + 1;
        let alone = self.lock.write().await;
        (self.snapshots.get() < wanted).then_some(alone)
    }

    /// Waits until no transaction is on its way.
    pub(crate) async fn wait_for_commit(&self) {
        drop(self.lock.read().await);
    }

    /// A snapshot begins: a caller who asks for a commit from now on needs the next one.
    pub(crate) fn begin_snapshot(&self) {
        self.snapshots.set(self.snapshots.get() + 1);
    }

    /// What was freed and revoked since the last snapshot.
    pub(crate) fn take_revoked(&self) -> BTreeSet<u64> {
        self.revoked.take()
    }

    /// Makes a transaction of metadata blocks, of the places `revoked`, and of the inodes in need of
    /// work.
    pub(crate) fn transaction(
        &self,
        pieces: Vec<Run>,
        revoked: &BTreeSet<u64>,
        orphans: impl Iterator<Item = Ino>,
        frag_bytes: u64,
    ) -> Transaction {
        let number = self.next.get();
        self.guess.set(0);
        self.next.set(number + 1);
        let mut entries = Vec::new();
        let mut blocks = Vec::new();
        for mut piece in pieces {
            let Some(block) = piece.blocks.pop() else { continue };
            let (addr, len, crc) = (piece.at / frag_bytes, block.len() as u32, block.crc32c());
            entries.push(Entry { addr, kind: EntryKind::Block { len, crc } });
            blocks.push((addr, Journaled { block, _held: piece.held }));
        }
        // A place that was freed and is in use again is in the blocks above.
        let again: BTreeSet<u64> = blocks.iter().map(|(addr, _)| *addr).collect();
        let revoked: BTreeSet<u64> = revoked.difference(&again).copied().collect();
        {
            // From here on, not from when it is durable: what this transaction has may be freed
            // while it is on its way, and the next one is then the one to revoke it.
            let mut mentioned = self.mentioned.borrow_mut();
            mentioned.retain(|addr, _| !revoked.contains(addr));
            mentioned.extend(again.iter().map(|addr| (*addr, number)));
        }
        entries.extend(revoked.iter().map(|&addr| Entry { addr, kind: EntryKind::Revoked }));
        entries.extend(orphans.map(|addr| Entry { addr, kind: EntryKind::Orphan }));
        Transaction { record: Record { number, entries }, blocks, revoked }
    }

    /// Writes a transaction whose data is durable, and makes it durable.
    pub(crate) async fn append(&self, target: &Target<'_>, transaction: Transaction) -> Result<()> {
        let Transaction { record, blocks, revoked } = transaction;
        let len = record_blocks(target.sb, record.entries.len(), blocks.len());
        // Its orphans must find room beside it once it is the last one: see `keep_orphans`.
        let orphans = self.orphans.borrow().len().max(record.orphans().count());
        if len + record_blocks(target.sb, orphans, 0) > self.ring {
            let error = FsError::inconsistent("a transaction is larger than the journal");
            target.core.poison(error.clone());
            return Err(error);
        }
        if self.room() < len {
            self.checkpoint(target).await?;
        }
        if self.room() < len {
            self.keep_orphans(target).await?;
        }
        self.write_record(target, &record, &blocks).await?;
        target.writes.barrier(target.core, Origin::User).await?;
        self.count(|c| c.commits += 1);
        target.core.rt.log(Category::Journal, "committed", || {
            [
                ("record", record.number),
                ("changed_blocks", blocks.len() as u64),
                ("journal_blocks", len),
            ]
        });
        let at = self.head.get();
        self.live.borrow_mut().push_back(Live { number: record.number, at, len });
        self.head.set((at + len) % self.ring);
        self.durable.set(record.number);
        *self.orphans.borrow_mut() = record.orphans().collect();
        let mut journaled = self.journaled.borrow_mut();
        for addr in &revoked {
            journaled.remove(addr);
        }
        journaled.extend(blocks);
        Ok(())
    }

    /// The last record stays for replay after a checkpoint, because it says which inodes are in need
    /// of work; but it takes the room of the next one. One with its number that says only this takes
    /// its place: a power failure before the next one is durable must not lose the orphans.
    async fn keep_orphans(&self, target: &Target<'_>) -> Result<()> {
        let Some(last) = self.live.borrow().back().copied() else { return Ok(()) };
        let orphan = |&addr: &Ino| Entry { addr, kind: EntryKind::Orphan };
        let entries: Vec<Entry> = self.orphans.borrow().iter().map(orphan).collect();
        let (at, len) = (self.head.get(), record_blocks(target.sb, entries.len(), 0));
        let record = Record { number: last.number, entries };
        self.write_record(target, &record, &[]).await?;
        target.writes.barrier(target.core, Origin::Checkpoint).await?;
        self.write_header(target, last.number, at).await?;
        *self.live.borrow_mut() = VecDeque::from([Live { at, len, ..last }]);
        self.head.set((at + len) % self.ring);
        Ok(())
    }

    /// Writes a record to the ring.
    async fn write_record(
        &self,
        target: &Target<'_>,
        record: &Record,
        blocks: &[(u64, Journaled)],
    ) -> Result<()> {
        let Target { core, sb, .. } = target;
        let size = sb.shape.block_size as usize;
        let raw = record.encode(sb);
        let list = raw.chunks(size).map(|c| Block::Bytes(Buf::copy_of(c).freeze()));
        let mut all: Vec<Vec<Block>> = list.map(|block| vec![block]).collect();
        for (_, journaled) in blocks {
            let mut whole = vec![journaled.block.clone()];
            if journaled.block.len() < size {
                whole.push(Block::Zero((size - journaled.block.len()) as u32));
            }
            all.push(whole);
        }
        self.count(|c| c.bytes += (all.len() * size) as u64);
        let most = (core.info.max_io as usize / size).max(1) as u64;
        let mut at = self.head.get();
        let mut rest = all.into_iter().peekable();
        let mut pending = Vec::new();
        while rest.peek().is_some() {
            let count = most.min(self.ring - at);
            let some: Vec<Block> = rest.by_ref().take(count as usize).flatten().collect();
            let place = sb.journal_start + (JOURNAL_HEADERS + at) * size as u64;
            pending.push(core.device.submit(Io::write(place, some, Class::Meta, Origin::User)));
            at = (at + count) % self.ring;
        }
        for result in join_all(pending).await {
            if let Err(error) = result {
                core.poison(FsError::Io(error));
            }
        }
        core.check_writable()
    }

    /// Makes room if the ring is half full. The caller has the turn.
    pub(crate) async fn make_room(&self, target: &Target<'_>) -> Result<()> {
        match self.room() < self.ring / 2 {
            true => self.checkpoint(target).await,
            false => Ok(()),
        }
    }

    /// Puts the blocks of all durable transactions into their places, so that the ring has room.
    async fn checkpoint(&self, target: &Target<'_>) -> Result<()> {
        let Target { core, sb, writes } = target;
        let Some(last) = self.live.borrow().back().copied() else { return Ok(()) };
        let pieces: Vec<Run> = {
            let journaled = self.journaled.borrow();
            let piece = |(addr, journaled): (&u64, &Journaled)| Run {
                at: sb.shape.byte_of(*addr),
                blocks: vec![journaled.block.clone()],
                held: Vec::new(),
                class: Class::Meta,
                ino: 0,
            };
            journaled.iter().map(piece).collect()
        };
        let runs = join_runs(pieces, u64::from(core.info.max_io));
        let numbers = writes.send(core, runs, Origin::Checkpoint);
        writes.wait(&numbers).await;
        writes.barrier(core, Origin::Checkpoint).await?;
        // The last record stays: it says which inodes are in need of work.
        self.write_header(target, last.number, last.at).await?;
        self.live.borrow_mut().retain(|l| l.number == last.number);
        // A transaction that waits for this room is mentioned already.
        self.mentioned.borrow_mut().retain(|_, number| *number >= last.number);
        // Dropped after the borrow: a frame that leaves memory may ask for more.
        let arrived = self.journaled.take();
        drop(arrived);
        self.count(|c| c.checkpoints += 1);
        core.rt.log(Category::Checkpoint, "written", || [("record", last.number)]);
        Ok(())
    }

    async fn write_header(&self, target: &Target<'_>, first_record: u64, tail: u64) -> Result<()> {
        let number = self.header.get() + 1;
        self.header.set(number);
        let header = JournalHeader { number, first_record, tail };
        let io = header_io(target.sb, &header, target.core.info.sector);
        if let Err(error) = target.core.device.submit(io).await {
            target.core.poison(FsError::Io(error));
        }
        target.writes.barrier(target.core, Origin::Checkpoint).await
    }

    /// Puts everything into its place.
    pub(crate) async fn empty(&self, target: &Target<'_>) -> Result<()> {
        let _alone = self.lock.write().await;
        self.checkpoint(target).await?;
        self.live.borrow_mut().clear();
        self.mentioned.borrow_mut().clear();
        self.write_header(target, self.next.get(), self.head.get()).await
    }
}

#[cfg(test)]
mod tests;

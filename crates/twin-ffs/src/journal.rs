//! The journal: the ring of records, and the writing of their blocks to their places.
//!
//! Contract: a transaction is a snapshot, taken between two steps, of all metadata that changed
//! since the last one. It is durable when the data of new blocks and then its record are durable;
//! from then on the space that it freed may be reused. Its blocks stay in memory until they are in
//! their places, which happens when the journal is half full and when the volume is closed. This
//! file keeps and writes the journal; `commit.rs` decides what goes into a transaction.
//!
//! A place is reused only when no block of the journal can be written over it any more:
//! - An operation that frees a place revokes it if a replay could find a block for it in any
//!   transaction from its snapshot on. A transaction that is being sent counts like a durable one
//!   (`mentioned`).
//! - The revocation is in the same transaction that frees the place, and the place is free only
//!   when that transaction is durable. So a replay that finds a new use of the place also finds the
//!   revocation, and a replay that does not find the revocation finds the place unchanged.
//! - Only the task that holds the lock writes blocks to their places, and it waits for these
//!   writes. So none is under way when the revoking transaction becomes durable; the transaction then
//!   drops the blocks, and no later write of them begins.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use twin_cache::Frame;
use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::{Core, FsError, Ino, Result};
use twin_rt::{Category, LockGuard, RwLock, join_all};

use crate::format::{
    JOURNAL_HEADERS, JournalHeader, Record, RecordEntry, RecordEntryKind, Superblock, header_io,
    record_blocks,
};
use crate::settings::PlantedFault;
use crate::writes::{Piece, Writes, join_runs};

/// A block of a transaction that is not in its place yet.
struct Journaled {
    block: Block,
    /// The frame from which it was taken, if it was. It is held because the block must not be read from
    /// its place meanwhile.
    _frame: Option<Rc<Frame>>,
}

/// A record in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveRecord {
    pub(crate) number: u64,
    /// First block within the ring.
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// The destination of a journal's writes.
pub(crate) struct Target<'a> {
    pub(crate) core: &'a Rc<Core>,
    pub(crate) sb: &'a Superblock,
    pub(crate) writes: &'a Rc<Writes>,
}

/// Counters of a journal since the volume was opened.
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
    /// The number of snapshots taken. Each is durable when the lock is free again.
    snapshots: Cell<u64>,
    /// The last snapshot in which something had changed, so that it was written.
    written: Cell<u64>,
    /// Every transaction up to this one is durable.
    durable: Cell<u64>,
    /// The block of the ring for the next record.
    head: Cell<u64>,
    live: RefCell<VecDeque<LiveRecord>>,
    header: Cell<u64>,
    /// Blocks of durable transactions, by address, that are not in their places yet.
    journaled: RefCell<BTreeMap<u64, Journaled>>,
    /// The places for which a replay could find blocks, each with the last transaction that has
    /// one. A transaction is registered from its snapshot on, because its blocks may be freed while
    /// it is being sent.
    mentioned: RefCell<BTreeMap<u64, u64>>,
    /// An upper bound of the blocks that operations admitted since the last count may have made
    /// dirty.
    guess: Cell<u64>,
    /// The places among `mentioned` that were freed since the last snapshot.
    revoked: RefCell<BTreeSet<u64>>,
    /// The inodes that need work according to the last durable transaction.
    orphans: RefCell<Vec<Ino>>,
    counts: Cell<JournalCounts>,
}

/// A transaction that was taken but not written yet.
pub(crate) struct Transaction {
    record: Record,
    blocks: Vec<(u64, Journaled)>,
    revoked: BTreeSet<u64>,
}

impl Journal {
    /// The journal after its last record, which has blocks for the places `mentioned` and names the
    /// inodes `orphans`.
    pub(crate) fn new(
        sb: &Superblock,
        header: u64,
        last: LiveRecord,
        mentioned: impl Iterator<Item = u64>,
        orphans: Vec<Ino>,
    ) -> Journal {
        let ring = sb.journal_bytes / u64::from(sb.geometry.block_size) - JOURNAL_HEADERS;
        let live = if last.len > 0 { vec![last] } else { Vec::new() };
        Journal {
            ring,
            lock: RwLock::new(),
            next: Cell::new(last.number + 1),
            snapshots: Cell::new(0),
            written: Cell::new(0),
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
    pub(crate) fn note_freed(&self, addr: u64, planted: PlantedFault) {
        let late = planted.is(PlantedFault::RevokeLate);
        let newest = if late { self.durable.get() } else { u64::MAX };
        if self.mentioned.borrow().get(&addr).is_some_and(|number| *number <= newest) {
            self.revoked.borrow_mut().insert(addr);
        }
    }

    /// The number of the next transaction.
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

    /// True if the place of a block has older content, because the block is in the journal only or on
    /// its way there.
    pub(crate) fn awaits_place(&self, addr: u64) -> bool {
        let is_sent = |number: &u64| *number > self.durable.get();
        self.journaled.borrow().contains_key(&addr)
            || self.mentioned.borrow().get(&addr).is_some_and(is_sent)
    }

    /// The records that a replay would find.
    pub(crate) fn live_records(&self) -> Vec<LiveRecord> {
        self.live.borrow().iter().copied().collect()
    }

    /// True if a replay would find this record, at this place.
    pub(crate) fn is_live(&self, record: &LiveRecord) -> bool {
        let same = |live: &LiveRecord| (live.number, live.at) == (record.number, record.at);
        self.live.borrow().iter().any(same)
    }

    /// The number of the newest header.
    pub(crate) fn header(&self) -> u64 {
        self.header.get()
    }

    /// The counters since the volume was opened.
    pub(crate) fn counts(&self) -> JournalCounts {
        self.counts.get()
    }

    fn count(&self, f: impl FnOnce(&mut JournalCounts)) {
        let mut counts = self.counts.get();
        f(&mut counts);
        self.counts.set(counts);
    }

    /// The number of blocks of the ring that hold no valid record.
    fn room(&self) -> u64 {
        self.ring - self.live.borrow().iter().map(|l| l.len).sum::<u64>()
    }

    /// True if so much metadata is dirty that the journal should take it before an operation begins
    /// that may make `blocks` dirty. `dirty_blocks` counts the dirty blocks. The count takes long,
    /// so it is called only if operations may have made enough blocks dirty.
    pub(crate) fn needs_commit(&self, blocks: u64, dirty_blocks: impl FnOnce() -> u64) -> bool {
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

    /// Waits for the turn to write a transaction. It fails if another snapshot that began after this
    /// call has taken everything, and then tells whether that was written: where nothing had changed
    /// nothing was, and the device was not flushed.
    pub(crate) async fn turn(&self) -> std::result::Result<LockGuard, bool> {
        let wanted = self.snapshots.get() + 1;
        let alone = self.lock.write().await;
        match self.snapshots.get() < wanted {
            true => Ok(alone),
            false => Err(self.written.get() >= wanted),
        }
    }

    /// The present snapshot was written.
    pub(crate) fn note_written(&self) {
        self.written.set(self.snapshots.get());
    }

    /// Waits until no transaction is being written.
    pub(crate) async fn wait_for_commit(&self) {
        drop(self.lock.read().await);
    }

    /// Begins a snapshot: a caller that asks for a commit from now on needs the next one.
    pub(crate) fn begin_snapshot(&self) {
        self.snapshots.set(self.snapshots.get() + 1);
    }

    /// Takes the places that were freed and revoked since the last snapshot.
    pub(crate) fn take_revoked(&self) -> BTreeSet<u64> {
        self.revoked.take()
    }

    /// Makes a transaction of metadata blocks, of the places `revoked`, and of the inodes that need
    /// work.
    pub(crate) fn transaction(
        &self,
        pieces: Vec<Piece>,
        revoked: &BTreeSet<u64>,
        orphans: impl Iterator<Item = Ino>,
        frag_bytes: u64,
    ) -> Transaction {
        let number = self.next.get();
        self.guess.set(0);
        self.next.set(number + 1);
        let mut entries = Vec::new();
        let mut blocks = Vec::new();
        for Piece { at, block, frames, .. } in pieces {
            let (addr, len, crc) = (at / frag_bytes, block.len() as u32, block.crc32c());
            entries.push(RecordEntry { addr, kind: RecordEntryKind::Block { len, crc } });
            blocks.push((addr, Journaled { block, _frame: frames }));
        }
        // A place that was freed and is in use again has its new block in this transaction, so it
        // must not be revoked by it.
        let again: BTreeSet<u64> = blocks.iter().map(|(addr, _)| *addr).collect();
        let revoked: BTreeSet<u64> = revoked.difference(&again).copied().collect();
        {
            // Registered now and not when the transaction is durable: its blocks may be freed while
            // it is being sent, and then the next transaction must revoke them.
            let mut mentioned = self.mentioned.borrow_mut();
            for addr in &revoked {
                mentioned.remove(addr);
            }
            mentioned.extend(again.iter().map(|addr| (*addr, number)));
        }
        entries.extend(
            revoked.iter().map(|&addr| RecordEntry { addr, kind: RecordEntryKind::Revoked }),
        );
        entries.extend(orphans.map(|addr| RecordEntry { addr, kind: RecordEntryKind::Orphan }));
        Transaction { record: Record { number, entries }, blocks, revoked }
    }

    /// Writes a transaction whose data is durable, and makes the transaction durable.
    pub(crate) async fn append(&self, target: &Target<'_>, transaction: Transaction) -> Result<()> {
        let Transaction { record, blocks, revoked } = transaction;
        let len = record_blocks(target.sb, record.entries.len(), blocks.len());
        // When this record is the last one, its orphans must still find room beside it: see
        // `keep_orphans`.
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
        self.live.borrow_mut().push_back(LiveRecord { number: record.number, at, len });
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

    /// After a checkpoint the last record stays for replay, because it names the inodes that need
    /// work; but it takes the room of the next record. A short record with the same number, which
    /// only names the inodes, replaces it: a power failure before the next record is durable must
    /// not lose the orphans.
    async fn keep_orphans(&self, target: &Target<'_>) -> Result<()> {
        let Some(last) = self.live.borrow().back().copied() else { return Ok(()) };
        let orphan = |&addr: &Ino| RecordEntry { addr, kind: RecordEntryKind::Orphan };
        let entries: Vec<RecordEntry> = self.orphans.borrow().iter().map(orphan).collect();
        let (at, len) = (self.head.get(), record_blocks(target.sb, entries.len(), 0));
        let record = Record { number: last.number, entries };
        self.write_record(target, &record, &[]).await?;
        target.writes.barrier(target.core, Origin::Checkpoint).await?;
        self.write_header(target, last.number, at).await?;
        *self.live.borrow_mut() = VecDeque::from([LiveRecord { at, len, ..last }]);
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
        let size = sb.geometry.block_size as usize;
        let raw = record.encode(sb);
        let list = raw.chunks(size).map(|c| Block::Bytes(Buf::copy_of(c).freeze()));
        let all = list.chain(blocks.iter().map(|(_, journaled)| journaled.block.clone()));
        self.count(|c| c.bytes += ((raw.len().div_ceil(size) + blocks.len()) * size) as u64);
        let most = (core.info.max_io as usize / size).max(1) as u64;
        let mut at = self.head.get();
        let padded = |block: Block| {
            let missing = size - block.len();
            [block, Block::Zero(missing as u32)].into_iter().filter(|part| !part.is_empty())
        };
        let mut rest = all.peekable();
        let mut pending = Vec::new();
        while rest.peek().is_some() {
            let count = most.min(self.ring - at);
            let some: Vec<Block> = rest.by_ref().take(count as usize).flat_map(padded).collect();
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

    /// Makes room if the ring is half full. The caller holds the lock.
    pub(crate) async fn make_room(&self, target: &Target<'_>) -> Result<()> {
        match self.room() < self.ring / 2 {
            true => self.checkpoint(target).await,
            false => Ok(()),
        }
    }

    /// Writes the blocks of all durable transactions to their places, so that the ring has room.
    async fn checkpoint(&self, target: &Target<'_>) -> Result<()> {
        let Target { core, sb, writes } = target;
        let Some(last) = self.live.borrow().back().copied() else { return Ok(()) };
        let pieces: Vec<Piece> = {
            let journaled = self.journaled.borrow();
            let piece = |(addr, journaled): (&u64, &Journaled)| Piece {
                at: sb.geometry.byte_of(*addr),
                block: journaled.block.clone(),
                frames: None,
                class: Class::Meta,
                ino: 0,
            };
            journaled.iter().map(piece).collect()
        };
        let runs = join_runs(pieces, u64::from(core.info.max_io));
        let numbers = writes.send(core, runs, Origin::Checkpoint);
        writes.wait(&numbers).await;
        writes.barrier(core, Origin::Checkpoint).await?;
        // The last record stays valid, because it names the inodes that need work.
        self.write_header(target, last.number, last.at).await?;
        self.live.borrow_mut().retain(|l| l.number == last.number);
        // A transaction that waits for this room has registered its places already, so they are
        // kept.
        self.mentioned.borrow_mut().retain(|_, number| *number >= last.number);
        // Dropped only after the borrow has ended, because dropping a frame may use the journal.
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

    /// Writes all blocks to their places.
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

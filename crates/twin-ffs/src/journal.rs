//! The journal: transactions, and the way of their blocks to their places.
//!
//! Contract: a transaction is a snapshot, taken between two steps, of all metadata that changed
//! since the last one. It is durable when the data of new blocks and then its record are; from
//! then on what it freed may be used again. Its blocks stay in memory until they are in their
//! places, which happens when the journal is half full, and when the volume is closed.
//!
//! A place is given out again only when nothing of the journal's can be written over it any more:
//! - What frees a place revokes it, if any transaction from the snapshot on has a block for it that
//!   a replay could find: one being sent counts like one that is durable (`mentioned`).
//! - The revocation goes with the transaction that frees the place, and the place is free only once
//!   that is durable: a replay that finds a new use of the place finds the revocation too, and a
//!   replay that does not find it finds the place unchanged.
//! - Only who holds the lock writes blocks to their places, and waits for them. So none is under way
//!   when the revoking transaction lands; with it they are dropped, and no later one is begun.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use twin_cache::Frame;
use twin_disk::{Block, Buf, Class, Io, Origin};
use twin_fs::{Core, FsError, Ino, Inode, Result};
use twin_rt::{Category, RwLock, join_all};

use crate::ffs::{Ffs, Sabotage};
use crate::flush::Which;
use crate::format::{
    Entry, EntryKind, JOURNAL_HEADERS, JournalHeader, Record, Superblock, record_blocks,
};
use crate::space::Freed;
use crate::writes::{Run, join_runs};

/// A block of a durable transaction that is not in its place yet.
struct Homeless {
    block: Block,
    /// So that nobody reads it from its place meanwhile.
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
    homeless: RefCell<BTreeMap<u64, Homeless>>,
    /// Places that replay could find blocks for, with the last transaction that has one. A
    /// transaction is in here from its snapshot on: what it has may be freed while it is sent.
    mentioned: RefCell<BTreeMap<u64, u64>>,
    /// Blocks that operations admitted since the last look may have made dirty, at the most.
    guess: Cell<u64>,
    /// Of these, what was freed since the last snapshot.
    revoked: RefCell<BTreeSet<u64>>,
    /// Inodes that the last durable transaction says are in need of work.
    orphans: RefCell<Vec<Ino>>,
}

/// A transaction that was taken and not written yet.
struct Transaction {
    record: Record,
    blocks: Vec<(u64, Homeless)>,
    /// Data that must be durable before it.
    data: Vec<Run>,
    revoked: BTreeSet<u64>,
    freed: Vec<Freed>,
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
            homeless: RefCell::default(),
            mentioned: RefCell::new(mentioned.map(|addr| (addr, last.number)).collect()),
            guess: Cell::new(0),
            revoked: RefCell::default(),
            orphans: RefCell::new(orphans),
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

    /// The number of the last transaction that was taken, durable or not.
    pub(crate) fn last_snapshot(&self) -> u64 {
        self.next.get() - 1
    }

    /// Blocks of the ring that hold no record in use.
    fn room(&self) -> u64 {
        self.ring - self.live.borrow().iter().map(|l| l.len).sum::<u64>()
    }
}

impl Ffs {
    /// True if so much metadata is dirty that the journal should take it before an operation of
    /// `bytes` begins.
    pub(crate) fn journal_is_pressed(&self, core: &Core, bytes: u64) -> bool {
        let Some(journal) = &self.journal else { return false };
        // Counting takes long, so it is done only when operations may have made enough dirty.
        let block = u64::from(self.sb.shape.block_size);
        let guess = journal.guess.get() + 8 + bytes / block / 256;
        journal.guess.set(guess);
        let most = journal.ring / 3;
        if guess <= most / 2 {
            return false;
        }
        let inodes = core.dirty_inodes();
        let meta: usize = inodes.iter().map(|i| meta_frames(i) + 1).sum();
        let maps = self.space.borrow().groups.iter().filter(|g| g.is_dirty).count();
        let blocks = (meta + maps + self.tables.counts().1) as u64;
        journal.guess.set(blocks / 2);
        blocks > most
    }

    /// Makes everything that has changed so far durable. Whoever comes while a transaction is
    /// written shares the next one.
    /// True if the device was flushed for it.
    pub(crate) async fn commit(&self, core: &Rc<Core>) -> Result<bool> {
        core.check_writable()?;
        let Some(journal) = &self.journal else { return Ok(false) };
        let wanted = journal.snapshots.get() + 1;
        let _alone = journal.lock.write().await;
        if journal.snapshots.get() >= wanted {
            return core.check_writable().map(|()| true);
        }
        let mut pins = Vec::new();
        for inode in core.dirty_inodes() {
            self.hold_parents(core, &inode, &mut pins).await?;
        }
        // Blocks that became dirty while this waited are either in reach or stay for the next.
        let transaction = self.take_transaction(core, journal);
        drop(pins);
        let any = transaction.is_some();
        if let Some(transaction) = transaction {
            self.write_transaction(core, journal, transaction).await?;
        }
        if journal.room() < journal.ring / 2 {
            self.checkpoint(core, journal).await?;
        }
        Ok(any)
    }

    /// The snapshot. `None` if nothing has changed.
    fn take_transaction(&self, core: &Rc<Core>, journal: &Journal) -> Option<Transaction> {
        journal.snapshots.set(journal.snapshots.get() + 1);
        let number = journal.next.get();
        let mut data = Vec::new();
        let unwritten = std::mem::take(&mut self.space.borrow_mut().unwritten);
        for inode in unwritten.iter().filter_map(|ino| core.cached_inode(*ino)) {
            self.gather_fresh(core, &inode);
            data.extend(self.take_blocks(core, &inode, Which::Data));
        }
        let mut pieces = Vec::new();
        for inode in core.dirty_inodes() {
            pieces.extend(self.take_blocks(core, &inode, Which::Meta));
            self.put_inode(core, &inode);
            inode.written_in.set(number);
        }
        pieces.extend(self.take_tables(core));
        pieces.extend(self.take_maps(true));
        let (freed, revoked) = {
            let mut space = self.space.borrow_mut();
            space.forget_all_fresh();
            (space.take_all_pending(), journal.revoked.take())
        };
        if pieces.is_empty() && data.is_empty() && freed.is_empty() {
            return None;
        }
        journal.guess.set(0);
        journal.next.set(number + 1);
        let mut entries = Vec::new();
        let mut blocks = Vec::new();
        let frag = u64::from(self.sb.shape.frag_size);
        for mut piece in pieces {
            let Some(block) = piece.blocks.pop() else { continue };
            let (addr, len, crc) = (piece.at / frag, block.len() as u32, block.crc32c());
            entries.push(Entry { addr, kind: EntryKind::Block { len, crc } });
            blocks.push((addr, Homeless { block, _held: piece.held }));
        }
        // A place that was freed and is in use again is in the blocks above.
        let again: BTreeSet<u64> = blocks.iter().map(|(addr, _)| *addr).collect();
        let revoked: BTreeSet<u64> = revoked.difference(&again).copied().collect();
        {
            // From here on, not from when it is durable: what this transaction has may be freed
            // while it is on its way, and the next one is then the one to revoke it.
            let mut mentioned = journal.mentioned.borrow_mut();
            mentioned.retain(|addr, _| !revoked.contains(addr));
            mentioned.extend(again.iter().map(|addr| (*addr, number)));
        }
        entries.extend(revoked.iter().map(|&addr| Entry { addr, kind: EntryKind::Revoked }));
        let orphans = self.orphans.borrow();
        entries.extend(orphans.iter().map(|&addr| Entry { addr, kind: EntryKind::Orphan }));
        let data = join_runs(data, self.cluster_bytes(core));
        Some(Transaction { record: Record { number, entries }, blocks, data, revoked, freed })
    }

    async fn write_transaction(
        &self,
        core: &Rc<Core>,
        journal: &Journal,
        transaction: Transaction,
    ) -> Result<()> {
        let Transaction { record, blocks, data, revoked, freed } = transaction;
        let has_data = !data.is_empty();
        let numbers = self.writes.send(core, data, Origin::User);
        if self.settings.sabotage != Sabotage::DataLate {
            // Earlier write-back may have taken new data that has not arrived. What it takes while
            // this waits is not waited for: the next transaction has to flush it.
            let early = self.settings.sabotage == Sabotage::FlushEarly;
            let unflushed = !early && self.unflushed.replace(false);
            self.writes.wait(&numbers).await;
            self.writes.wait_all().await;
            if has_data || unflushed || early && self.unflushed.replace(false) {
                self.barrier(core, Origin::User).await?;
            }
        }
        let len = record_blocks(&self.sb, record.entries.len(), blocks.len());
        // Its orphans must find room beside it once it is the last one: see `keep_orphans`.
        let orphans = journal.orphans.borrow().len().max(record.orphans().count());
        if len + record_blocks(&self.sb, orphans, 0) > journal.ring {
            let error = FsError::inconsistent("a transaction is larger than the journal");
            core.poison(error.clone());
            return Err(error);
        }
        if journal.room() < len {
            self.checkpoint(core, journal).await?;
        }
        if journal.room() < len {
            self.keep_orphans(core, journal).await?;
        }
        self.write_record(core, journal, &record, &blocks).await?;
        self.barrier(core, Origin::User).await?;
        self.count(|s| s.commits += 1);
        core.rt.log(Category::Journal, "committed", || {
            [
                ("record", record.number),
                ("changed_blocks", blocks.len() as u64),
                ("journal_blocks", len),
            ]
        });
        let at = journal.head.get();
        journal.live.borrow_mut().push_back(Live { number: record.number, at, len });
        journal.head.set((at + len) % journal.ring);
        journal.durable.set(record.number);
        *journal.orphans.borrow_mut() = record.orphans().collect();
        {
            let mut homeless = journal.homeless.borrow_mut();
            for addr in &revoked {
                homeless.remove(addr);
            }
            homeless.extend(blocks);
        }
        self.space.borrow_mut().release(&self.sb, freed);
        Ok(())
    }

    /// The last record stays for replay after a checkpoint, because it says which inodes are in need
    /// of work; but it takes the room of the next one. One with its number that says only this takes
    /// its place: a power failure before the next one is durable must not lose the orphans.
    async fn keep_orphans(&self, core: &Rc<Core>, journal: &Journal) -> Result<()> {
        let Some(last) = journal.live.borrow().back().copied() else { return Ok(()) };
        let orphan = |&addr: &Ino| Entry { addr, kind: EntryKind::Orphan };
        let entries: Vec<Entry> = journal.orphans.borrow().iter().map(orphan).collect();
        let (at, len) = (journal.head.get(), record_blocks(&self.sb, entries.len(), 0));
        let record = Record { number: last.number, entries };
        self.write_record(core, journal, &record, &[]).await?;
        self.barrier(core, Origin::Checkpoint).await?;
        self.write_header(core, journal, last.number, at).await?;
        *journal.live.borrow_mut() = VecDeque::from([Live { at, len, ..last }]);
        journal.head.set((at + len) % journal.ring);
        Ok(())
    }

    /// Writes a record to the ring.
    async fn write_record(
        &self,
        core: &Rc<Core>,
        journal: &Journal,
        record: &Record,
        blocks: &[(u64, Homeless)],
    ) -> Result<()> {
        let size = self.sb.shape.block_size as usize;
        let raw = record.encode(&self.sb);
        let list = raw.chunks(size).map(|c| Block::Bytes(Buf::copy_of(c).freeze()));
        let mut all: Vec<Vec<Block>> = list.map(|block| vec![block]).collect();
        for (_, homeless) in blocks {
            let mut whole = vec![homeless.block.clone()];
            if homeless.block.len() < size {
                whole.push(Block::Zero((size - homeless.block.len()) as u32));
            }
            all.push(whole);
        }
        self.count(|s| s.journal_bytes += (all.len() * size) as u64);
        let most = (core.info.max_io as usize / size).max(1) as u64;
        let mut at = journal.head.get();
        let mut rest = all.into_iter().peekable();
        let mut pending = Vec::new();
        while rest.peek().is_some() {
            let count = most.min(journal.ring - at);
            let some: Vec<Block> = rest.by_ref().take(count as usize).flatten().collect();
            let place = self.ring_byte(at);
            pending.push(core.device.submit(Io::write(place, some, Class::Meta, Origin::User)));
            at = (at + count) % journal.ring;
        }
        for result in join_all(pending).await {
            if let Err(error) = result {
                core.poison(FsError::Io(error));
            }
        }
        core.check_writable()
    }

    /// First byte of a block of the ring.
    fn ring_byte(&self, at: u64) -> u64 {
        self.sb.journal_start + (JOURNAL_HEADERS + at) * u64::from(self.sb.shape.block_size)
    }

    /// Puts the blocks of all durable transactions into their places, so that the ring has room.
    async fn checkpoint(&self, core: &Rc<Core>, journal: &Journal) -> Result<()> {
        let Some(last) = journal.live.borrow().back().copied() else { return Ok(()) };
        let frag = u64::from(self.sb.shape.frag_size);
        let pieces: Vec<Run> = {
            let homeless = journal.homeless.borrow();
            let piece = |(addr, homeless): (&u64, &Homeless)| Run {
                at: addr * frag,
                blocks: vec![homeless.block.clone()],
                held: Vec::new(),
                class: Class::Meta,
                ino: 0,
            };
            homeless.iter().map(piece).collect()
        };
        let runs = join_runs(pieces, u64::from(core.info.max_io));
        let numbers = self.writes.send(core, runs, Origin::Checkpoint);
        self.writes.wait(&numbers).await;
        self.barrier(core, Origin::Checkpoint).await?;
        // The last record stays: it says which inodes are in need of work.
        self.write_header(core, journal, last.number, last.at).await?;
        journal.live.borrow_mut().retain(|l| l.number == last.number);
        // A transaction that waits for this room is mentioned already.
        journal.mentioned.borrow_mut().retain(|_, number| *number >= last.number);
        // Dropped after the borrow: a frame that leaves memory may ask for more.
        let arrived = journal.homeless.take();
        drop(arrived);
        self.count(|s| s.checkpoints += 1);
        core.rt.log(Category::Checkpoint, "written", || [("record", last.number)]);
        Ok(())
    }

    async fn write_header(
        &self,
        core: &Rc<Core>,
        journal: &Journal,
        first_record: u64,
        tail: u64,
    ) -> Result<()> {
        let number = journal.header.get() + 1;
        journal.header.set(number);
        let header = JournalHeader { number, first_record, tail };
        let io = header_io(&self.sb, &header, core.info.sector);
        if let Err(error) = core.device.submit(io).await {
            core.poison(FsError::Io(error));
        }
        self.barrier(core, Origin::Checkpoint).await
    }

    /// Puts everything into its place.
    pub(crate) async fn empty_journal(&self, core: &Rc<Core>) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let _alone = journal.lock.write().await;
        self.checkpoint(core, journal).await?;
        journal.live.borrow_mut().clear();
        journal.mentioned.borrow_mut().clear();
        self.write_header(core, journal, journal.next.get(), journal.head.get()).await
    }

    /// fsync: the file's data goes to its place, all metadata to the journal.
    pub(crate) async fn fsync_journal(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        data_only: bool,
    ) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let numbers = self.send_data(core, inode, Origin::User).await?;
        let is_new = {
            let space = self.space.borrow();
            space.unwritten.contains(&inode.ino) || space.has_fresh(inode.ino)
        };
        let changed = inode.is_dirty() && (!data_only || is_new || self.has_new_shape(core, inode));
        if changed || is_new || meta_frames(inode) > 0 {
            // A transaction waits for all data under way and flushes.
            self.writes.wait(&numbers).await;
            self.writes.wait_file(inode.ino).await;
            if self.commit(core).await? {
                return Ok(());
            }
        }
        self.writes.wait(&numbers).await;
        self.writes.wait_file(inode.ino).await;
        if inode.written_in.get() > journal.durable.get() {
            // A transaction that has it is on its way.
            drop(journal.lock.read().await);
        }
        self.barrier(core, Origin::User).await
    }
}

/// A header as a request.
pub(crate) fn header_io(sb: &Superblock, header: &JournalHeader, sector: u32) -> Io {
    let slot = header.number % JOURNAL_HEADERS;
    let at = sb.journal_start + slot * u64::from(sb.shape.block_size);
    let raw = header.encode(sb);
    let padding = (sector as usize).saturating_sub(raw.len());
    let mut blocks = vec![Block::Bytes(Buf::copy_of(&raw).freeze())];
    if padding > 0 {
        blocks.push(Block::Zero(padding as u32));
    }
    Io::write(at, blocks, Class::Meta, Origin::Checkpoint)
}

/// Dirty blocks of a file that the journal takes.
fn meta_frames(inode: &Inode) -> usize {
    let dirty = inode.frames.dirty_frames();
    match inode.class(0) {
        Class::Data => dirty.iter().take_while(|f| f.lbn() < 0).count(),
        _ => dirty.len(),
    }
}

#[cfg(test)]
mod tests;

//! What a scrub looks at in a clustered volume, beside the blocks of files: superblocks and their replicas,
//! the state, the journal, the maps of groups and the tables of inodes.
//!
//! Contract: nothing is changed. A structure that is in memory and in its place must be the same on the
//! device; others are judged by their checksums and their form. A block of which the journal has newer
//! content, or that is being written, is left out: its place is not read by anybody before it has arrived.

use std::rc::Rc;

use twin_disk::{Block, Class, Io, Origin, gather};
use twin_fs::dinode::Dinode;
use twin_fs::{
    Core, Flaw, FsError, Ino, Layout, ROOT_INO, Result, ScrubNotes, ScrubView, ScrubbedInodes,
};
use twin_rt::BoxFuture;

use crate::ffs::Ffs;
use crate::format::{
    CgImage, JOURNAL_HEADERS, JournalHeader, STATE_AT, STATE_BYTES, SUPERBLOCK_BYTES, VolumeState,
};
use crate::journal::{Journal, LiveRecord};
use crate::replay::is_record;

/// The most blocks of an inode table that are read with one request.
const BLOCKS_AT_ONCE: u64 = 16;
/// How often something is looked at that does not come to rest.
const LOOKS: usize = 4;
/// The structures before the groups: the superblock with the state, and the journal.
const BEFORE_GROUPS: u64 = 2;

/// What is wrong with an inode of a table, and which.
type BadInode = (Ino, String);

/// What a block of an inode table on the device turned out to be.
#[derive(PartialEq)]
enum Table {
    Good,
    Bad(Vec<BadInode>),
    /// It is being written, or newer in the journal.
    Unknown,
}

impl Ffs {
    async fn read_past_cache(
        &self,
        core: &Core,
        at: u64,
        len: u64,
        notes: &ScrubNotes,
    ) -> Result<Block> {
        let sector = u64::from(core.info.sector);
        let whole = len.next_multiple_of(sector);
        let io = Io::read(at, whole, Class::Meta, Origin::Recovery);
        let blocks = core.device.submit(io).await;
        notes.count_read(whole);
        Ok(gather(&blocks?, 0, len as usize))
    }

    /// Looks at something twice before it is called bad, after all writes under way have ended. `look` gives
    /// what is wrong; an error means that nothing can be said now.
    async fn look(
        &self,
        core: &Rc<Core>,
        notes: &ScrubNotes,
        at: u64,
        len: u64,
        judge: impl Fn(&[u8]) -> std::result::Result<Option<String>, Busy>,
    ) {
        let mut bad = None;
        for nth in 0..LOOKS {
            if nth > 0 {
                let _ = self.drain(core, false).await;
            }
            let judged = match self.read_past_cache(core, at, len, notes).await {
                Ok(raw) => judge(&raw.to_bytes()),
                Err(error) => Ok(Some(format!("cannot be read: {error}"))),
            };
            match judged {
                Ok(None) => return,
                Ok(Some(what)) if bad.as_ref() == Some(&what) => {
                    return notes.add(Flaw::new(at, len, what));
                }
                Ok(Some(what)) => bad = Some(what),
                Err(Busy) => bad = None,
            }
        }
        notes.count_skipped();
    }

    async fn scrub_front(&self, core: &Rc<Core>, notes: &ScrubNotes) {
        self.scrub_superblock(core, 0, 0, notes).await;
        if core.settings.read_only {
            return;
        }
        self.look(core, notes, STATE_AT, STATE_BYTES as u64, |raw| {
            Ok(match VolumeState::decode(&self.sb, raw) {
                Ok(found) if found == self.state() => None,
                Ok(_) => Some("the volume's state is an old one".into()),
                Err(error) => Some(words(error)),
            })
        })
        .await;
    }

    /// Looks at the superblock at a place, which is that of a group's replica.
    async fn scrub_superblock(&self, core: &Rc<Core>, at: u64, group: u32, notes: &ScrubNotes) {
        self.look(core, notes, at, SUPERBLOCK_BYTES, |raw| {
            let what = "the superblock is not that of the volume";
            Ok((!self.sb.is_replica(raw, group)).then(|| what.into()))
        })
        .await;
    }

    async fn scrub_group(&self, core: &Rc<Core>, group: u32, notes: &ScrubNotes) {
        let replica = self.sb.geometry.byte_of(self.sb.group_start(group));
        self.scrub_superblock(core, replica, group, notes).await;
        let at = self.sb.geometry.byte_of(self.sb.cg_addr(group));
        let len = u64::from(self.sb.geometry.block_size);
        self.look(core, notes, at, len, |raw| {
            if !self.is_in_place(at, len) {
                return Err(Busy);
            }
            let expected = self.alloc().map_checksum(group);
            Ok(match CgImage::decode(&self.sb, group, raw) {
                Err(error) => Some(words(error)),
                Ok(_) if expected.is_some_and(|sum| sum != CgImage::checksum(&self.sb, raw)) => {
                    Some(format!("group {group}: its maps are old ones"))
                }
                Ok(_) => None,
            })
        })
        .await;
    }

    async fn scrub_journal(&self, core: &Rc<Core>, journal: &Journal, notes: &ScrubNotes) {
        let block = u64::from(self.sb.geometry.block_size);
        for slot in 0..JOURNAL_HEADERS {
            let at = self.sb.journal_start + slot * block;
            self.look(core, notes, at, block, |raw| self.wrong_header(journal, slot, raw, at))
                .await;
        }
        for record in journal.live_records() {
            let mut bad = 0;
            while bad < 2 && journal.is_live(&record) {
                let found = is_record(&*core.device, &self.sb, &record).await;
                notes.count_read(record.len * block);
                match found {
                    Ok(true) => break,
                    Ok(false) | Err(_) => bad += 1,
                }
            }
            if bad == 2 && journal.is_live(&record) {
                let at = self.record_at(&record);
                let what = format!("record {} of the journal cannot be replayed", record.number);
                notes.add(Flaw::new(at, record.len * block, what));
            }
        }
    }

    fn record_at(&self, record: &LiveRecord) -> u64 {
        let block = u64::from(self.sb.geometry.block_size);
        self.sb.journal_start + (JOURNAL_HEADERS + record.at) * block
    }

    /// What is wrong with a header of the journal. The one before the newest may be missing on a new volume.
    fn wrong_header(
        &self,
        journal: &Journal,
        slot: u64,
        raw: &[u8],
        at: u64,
    ) -> std::result::Result<Option<String>, Busy> {
        let newest = journal.header();
        let is_newest = newest % JOURNAL_HEADERS == slot;
        Ok(match JournalHeader::decode(&self.sb, raw, at) {
            Ok(found) if is_newest && found.number != newest => {
                Some(format!("here is header {} of the journal instead of {newest}", found.number))
            }
            Ok(found) if !is_newest && newest > 1 && found.number + 1 != newest => Some(format!(
                "here is header {} of the journal instead of {}",
                found.number,
                newest - 1
            )),
            Ok(_) => None,
            Err(_) if !is_newest && newest <= 1 => None,
            Err(error) => Some(words(error)),
        })
    }

    async fn scrub_table(&self, core: &Rc<Core>, first: Ino, notes: &ScrubNotes) -> ScrubbedInodes {
        let per_block = Ino::from(self.sb.inodes_per_block());
        let group_end =
            (first / Ino::from(self.sb.group_inodes) + 1) * Ino::from(self.sb.group_inodes);
        let first = first / per_block * per_block;
        let next = (first + BLOCKS_AT_ONCE * per_block).min(group_end);
        let blocks = (first..next).step_by(per_block as usize);
        let written: Vec<Ino> = blocks.filter(|&ino| self.alloc().is_inode_written(ino)).collect();
        if let Some(&start) = written.first() {
            let len = u64::from(self.sb.geometry.block_size);
            let at = self.sb.geometry.byte_of(self.sb.inode_place(start).0);
            // The blocks that were written are the first ones of a table.
            let before: Vec<Option<u32>> =
                written.iter().map(|&ino| self.expected_sum(core, ino)).collect();
            let read = self.read_past_cache(core, at, len * written.len() as u64, notes).await;
            for (nth, (&ino, before)) in written.iter().zip(before).enumerate() {
                let table = match &read {
                    Ok(raw) => {
                        let raw = raw.slice(nth * len as usize, len as usize).to_bytes();
                        self.judge_table(core, ino, before, &raw)
                    }
                    Err(_) => Table::Unknown,
                };
                if table != Table::Good {
                    self.look_at_table(core, ino, notes).await;
                }
            }
        }
        let used = |ino: &Ino| *ino >= ROOT_INO && self.is_used(*ino);
        ScrubbedInodes { in_use: (first..next).filter(used).collect(), next }
    }

    /// Looks at a block of a table alone, until it is found good, bad, or not to come to rest.
    async fn look_at_table(&self, core: &Rc<Core>, first: Ino, notes: &ScrubNotes) {
        let (len, addr) = (u64::from(self.sb.geometry.block_size), self.sb.inode_place(first).0);
        let size = u64::from(self.sb.geometry.inode_size);
        let mut last = Table::Unknown;
        for _ in 0..LOOKS {
            let _ = self.drain(core, false).await;
            let before = self.expected_sum(core, first);
            let at = self.sb.geometry.byte_of(addr);
            let table = match self.read_past_cache(core, at, len, notes).await {
                Ok(raw) => self.judge_table(core, first, before, &raw.to_bytes()),
                Err(error) => {
                    Table::Bad(vec![(first, format!("its block cannot be read: {error}"))])
                }
            };
            match table {
                Table::Good => return,
                Table::Bad(bad) if last == Table::Bad(bad.clone()) => {
                    for (ino, what) in bad {
                        let place = self.sb.inode_place(ino).1 as u64;
                        notes.add(Flaw::new(at + place, size, what).of(ino));
                    }
                    return;
                }
                table => last = table,
            }
        }
        notes.count_skipped();
    }

    /// The checksum of what memory has of a block of a table, if the device should have the same.
    fn expected_sum(&self, core: &Core, ino: Ino) -> Option<u32> {
        let frame = core.cache.peek(&self.tables, self.table_lbn(ino))?;
        let is_here = frame.is_valid() && !frame.is_dirty();
        let at = self.sb.geometry.byte_of(self.sb.inode_place(ino).0);
        (is_here && self.is_in_place(at, self.sb.geometry.block_size.into()))
            .then(|| frame.with(Block::crc32c))
    }

    /// Judges the block of a table that begins with an inode.
    fn judge_table(&self, core: &Core, first: Ino, before: Option<u32>, raw: &[u8]) -> Table {
        let at = self.sb.geometry.byte_of(self.sb.inode_place(first).0);
        if !self.is_in_place(at, self.sb.geometry.block_size.into()) {
            return Table::Unknown;
        }
        let frame = core.cache.peek(&self.tables, self.table_lbn(first));
        if frame.as_ref().is_some_and(|frame| frame.is_dirty() || !frame.is_valid()) {
            return Table::Unknown;
        }
        let size = self.sb.geometry.inode_size as usize;
        let inos = first..first + Ino::from(self.sb.inodes_per_block());
        if let Some(expected) = before
            && self.expected_sum(core, first) == before
            && let Some(frame) = frame
        {
            if crc32c::crc32c(raw) == expected {
                return Table::Good;
            }
            let right = frame.block().to_bytes();
            let differs = |(nth, ino): (usize, Ino)| {
                let part = nth * size..(nth + 1) * size;
                (raw[part.clone()] != right[part]).then(|| {
                    (ino, "the inode is not what was written, which memory still has".to_owned())
                })
            };
            return Table::Bad(inos.enumerate().filter_map(differs).collect());
        }
        let wrong = |(nth, ino): (usize, Ino)| {
            let what = self.wrong_inode(core, ino, &raw[nth * size..(nth + 1) * size])?;
            Some((ino, what))
        };
        match inos.enumerate().filter_map(wrong).collect::<Vec<_>>() {
            bad if bad.is_empty() => Table::Good,
            bad => Table::Bad(bad),
        }
    }

    /// What is wrong with the form of an inode.
    fn wrong_inode(&self, core: &Core, ino: Ino, raw: &[u8]) -> Option<String> {
        let geometry = &self.sb.geometry;
        let is_free = Dinode::free_generation(geometry, raw).is_some();
        let is_used = ino >= ROOT_INO && self.is_used(ino) && !self.picked.contains(ino);
        match (is_used, is_free) {
            (true, true) => Some("the inode is free on the device, but in use".into()),
            (false, _) => None,
            (true, false) => match Dinode::decode(geometry, raw, core.frags()) {
                Err(what) => Some(format!("the inode: {what}")),
                Ok(d) if d.ino != ino => Some(format!("it says that it is inode {}", d.ino)),
                Ok(_) => None,
            },
        }
    }
}

/// Nothing can be said now.
struct Busy;

/// The words of an error without its place, which the flaw has.
fn words(error: FsError) -> String {
    match error {
        FsError::Corrupt { what, .. } => what,
        other => other.to_string(),
    }
}

impl ScrubView for Ffs {
    fn numbers_end(&self) -> Ino {
        self.sb.inodes()
    }

    fn scrub_inodes<'a>(
        &'a self,
        core: &'a Rc<Core>,
        first: Ino,
        notes: &'a ScrubNotes,
    ) -> BoxFuture<'a, Result<ScrubbedInodes>> {
        Box::pin(async move { Ok(self.scrub_table(core, first, notes).await) })
    }

    fn structures(&self) -> u64 {
        BEFORE_GROUPS + u64::from(self.sb.groups)
    }

    fn scrub_structure<'a>(
        &'a self,
        core: &'a Rc<Core>,
        nth: u64,
        notes: &'a ScrubNotes,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            match (nth.checked_sub(BEFORE_GROUPS), &self.journal) {
                (Some(group), _) => self.scrub_group(core, group as u32, notes).await,
                (None, _) if nth == 0 => {
                    self.scrub_front(core, notes).await;
                    if let Some(sums) = &self.sums {
                        sums.check(|at, len, what| notes.add(Flaw::new(at, len, what))).await;
                    }
                }
                (None, Some(journal)) => self.scrub_journal(core, journal, notes).await,
                (None, None) => {}
            }
            Ok(())
        })
    }

    fn compares_reads(&self) -> bool {
        self.sums.is_some()
    }

    fn is_in_place(&self, at: u64, len: u64) -> bool {
        let addr = at / u64::from(self.sb.geometry.frag_size);
        !self.writes.is_under_way(at, at + len)
            && !self.journal.as_ref().is_some_and(|journal| journal.awaits_place(addr))
    }
}

//! Commits: the contents of a transaction of the journal, and what must be durable before it.
//!
//! Contract: the snapshot is taken in one step. The data of new blocks is durable before the record
//! that leads to it is written, so that a replay never leads to old content. `journal.rs` explains
//! why this is safe.

use std::rc::Rc;

use twin_disk::{Class, Origin};
use twin_fs::{Core, Inode, Result};

use crate::ffs::Ffs;
use crate::inode_state::InodeState;
use crate::journal::{Journal, Target, Transaction};
use crate::settings::PlantedFault;
use crate::space::Freed;
use crate::take::DirtyBlocks;
use crate::writes::{WriteRun, join_runs};

/// Everything that a transaction takes at one instant.
struct Snapshot {
    /// Data that must be durable before the transaction.
    data: Vec<WriteRun>,
    transaction: Transaction,
    /// Space that may be reused when the transaction is durable.
    freed: Vec<Freed>,
}

impl Ffs {
    fn target<'a>(&'a self, core: &'a Rc<Core>) -> Target<'a> {
        Target { core, sb: &self.sb, writes: &self.writes }
    }

    /// True if so much metadata is dirty that the journal should take it before an operation of
    /// `bytes` begins.
    pub(crate) fn journal_needs_commit(&self, core: &Core, bytes: u64) -> bool {
        let Some(journal) = &self.journal else { return false };
        let block = u64::from(self.sb.geometry.block_size);
        journal.needs_commit(8 + bytes / block / 256, || {
            let inodes = core.dirty_inodes();
            let meta: usize = inodes.iter().map(|i| meta_frames(i) + 1).sum();
            (meta + self.alloc().dirty_groups() + self.tables.counts().1) as u64
        })
    }

    /// Makes all changes so far durable. Callers that arrive while a transaction is being written
    /// share the next one. Returns true if the device was flushed for it.
    pub(crate) async fn commit(&self, core: &Rc<Core>) -> Result<bool> {
        core.check_writable()?;
        let Some(journal) = &self.journal else { return Ok(false) };
        let _alone = match journal.turn().await {
            Ok(alone) => alone,
            Err(flushed) => return core.check_writable().map(|()| flushed),
        };
        let mut pins = Vec::new();
        for inode in core.dirty_inodes() {
            self.pin_parents(core, &inode, &mut pins).await?;
        }
        // Blocks that became dirty during the wait are either in this snapshot or remain for the
        // next.
        let snapshot = self.take_snapshot(core, journal);
        drop(pins);
        let any = snapshot.is_some();
        if let Some(snapshot) = snapshot {
            self.write_snapshot(core, journal, snapshot).await?;
            journal.note_written();
        }
        journal.make_room(&self.target(core)).await?;
        Ok(any)
    }

    /// Takes a snapshot; `None` if nothing has changed.
    fn take_snapshot(&self, core: &Rc<Core>, journal: &Journal) -> Option<Snapshot> {
        journal.begin_snapshot();
        let number = journal.next_number();
        let mut data = Vec::new();
        let unwritten = self.alloc_mut().take_unwritten();
        for inode in unwritten.iter().filter_map(|ino| core.cached_inode(*ino)) {
            self.gather_fresh(core, &inode);
            data.extend(self.take_blocks(core, &inode, DirtyBlocks::Data));
        }
        let mut pieces = Vec::new();
        for inode in core.dirty_inodes() {
            pieces.extend(self.take_blocks(core, &inode, DirtyBlocks::Meta));
            self.put_inode(core, &inode);
            InodeState::of(&inode).set_written_in(number);
        }
        pieces.extend(self.take_tables(core));
        pieces.extend(self.take_maps(true));
        let freed = {
            let mut space = self.alloc_mut();
            space.forget_all_fresh();
            space.take_all_pending()
        };
        let revoked = journal.take_revoked();
        if pieces.is_empty() && data.is_empty() && freed.is_empty() {
            return None;
        }
        let frag = self.sb.geometry.frag_size.into();
        let orphans = self.orphans.list().into_iter();
        let transaction = journal.transaction(pieces, &revoked, orphans, frag);
        let data = join_runs(data, self.cluster_bytes(core));
        Some(Snapshot { data, transaction, freed })
    }

    async fn write_snapshot(
        &self,
        core: &Rc<Core>,
        journal: &Journal,
        snapshot: Snapshot,
    ) -> Result<()> {
        let Snapshot { data, transaction, freed } = snapshot;
        let has_data = !data.is_empty();
        let numbers = self.writes.send(core, data, Origin::User);
        if !self.settings.planted().is(PlantedFault::DataLate) {
            // Earlier write-back may have taken new data that has not arrived. What it takes while
            // this waits is not waited for: the next transaction has to flush it.
            let early = self.settings.planted().is(PlantedFault::FlushEarly);
            let unflushed = !early && self.writes.take_unflushed();
            self.writes.wait(&numbers).await;
            self.writes.wait_all().await;
            if has_data || unflushed || early && self.writes.take_unflushed() {
                self.writes.barrier(core, Origin::User).await?;
            }
        }
        journal.append(&self.target(core), transaction).await?;
        self.alloc_mut().release(&self.sb, freed);
        Ok(())
    }

    /// Writes all blocks of the journal to their places.
    pub(crate) async fn empty_journal(&self, core: &Rc<Core>) -> Result<()> {
        match &self.journal {
            Some(journal) => journal.empty(&self.target(core)).await,
            None => Ok(()),
        }
    }
}

/// The number of dirty blocks of a file that go to the journal.
pub(crate) fn meta_frames(inode: &Inode) -> usize {
    match inode.class(0) {
        Class::Data => inode.frames.dirty_indirect_count(),
        _ => inode.frames.counts().1,
    }
}

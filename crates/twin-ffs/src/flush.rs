//! Write-back: taking dirty blocks as they are and sending them to their places.
//!
//! Contract: taking (`take_*`) does not wait, so it sees whole operations; what leads to a block
//! is loaded before. A block that was taken is clean and stays in memory until the device has it.

use std::rc::Rc;

use twin_disk::{Class, Origin};
use twin_fs::{Change, Core, Inode, Layout, Result};

use crate::commit::meta_frames;
use crate::ffs::Ffs;
use crate::ordering::Wait;
use crate::take::Which;
use crate::writes::{Run, join_runs};

/// Bytes that write-back has under way at the most.
const IN_FLIGHT_BYTES: u64 = 16 << 20;

impl Ffs {
    /// Sends a file's dirty data. Gives the numbers of the writes.
    pub(crate) async fn send_data(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        origin: Origin,
    ) -> Result<Vec<u64>> {
        if !inode.frames.has_dirty() {
            return Ok(Vec::new());
        }
        let mut pins = Vec::new();
        self.hold_parents(core, inode, &mut pins).await?;
        self.gather_fresh(core, inode);
        let pieces = self.take_blocks(core, inode, Which::Data);
        let runs = join_runs(pieces, self.flush_bytes(core));
        Ok(self.writes.send(core, runs, origin))
    }

    /// Writes everything that is dirty. Returns when metadata is written; data may be under way.
    pub(crate) async fn write_back_all(&self, core: &Rc<Core>) -> Result<()> {
        core.check_writable()?;
        self.forget_dirty();
        for inode in core.dirty_inodes() {
            self.writes.wait_below(IN_FLIGHT_BYTES).await;
            self.send_data(core, &inode, Origin::WriteBack).await?;
        }
        if self.journal.is_some() {
            return self.commit(core).await.map(|_| ());
        }
        let inodes = core.dirty_inodes();
        self.write_metadata(core, &inodes, self.ordering.writes_directories_behind()).await
    }

    /// Writes the metadata of these files, and all inode blocks and maps that are dirty; then
    /// what the files gave up can be used again.
    async fn write_metadata(
        &self,
        core: &Rc<Core>,
        inodes: &[Rc<Inode>],
        directories: bool,
    ) -> Result<()> {
        let in_order = self.ordering.maps() == Wait::InOrder;
        let mut pins = Vec::new();
        for inode in inodes {
            if in_order && self.new_maps.contains(inode.ino) {
                self.write_maps(core, inode).await?;
            }
            self.hold_parents(core, inode, &mut pins).await?;
        }
        let mut pieces = Vec::new();
        let mut freed = Vec::new();
        for inode in inodes {
            let is_dir = inode.d.borrow().is_dir();
            if in_order && (self.has_new_maps(inode) || is_dir && inode.frames.has_dirty()) {
                // It changed meanwhile: what it leads to is not on the disk. Its turn will come.
                continue;
            }
            if directories || !is_dir {
                pieces.extend(self.take_blocks(core, inode, Which::Meta));
            }
            if inode.is_dirty() {
                self.put_inode(core, inode);
            }
            let mut space = self.alloc_mut();
            space.forget_fresh(inode.ino);
            freed.extend(space.take_pending(inode.ino));
        }
        pieces.extend(self.take_tables(core));
        let maps = self.take_maps(false);
        pieces.extend(maps);
        let runs = join_runs(pieces, self.flush_bytes(core));
        let numbers = self.writes.send(core, runs, Origin::WriteBack);
        self.writes.wait(&numbers).await;
        if !freed.is_empty() {
            self.writes.barrier(core, Origin::WriteBack).await?;
            self.alloc_mut().release(&self.sb, freed);
        }
        core.check_writable()
    }

    /// Writes the files that gave up space, so that it can be used again.
    pub(crate) async fn write_pending_files(&self, core: &Rc<Core>) -> Result<()> {
        let files = self.alloc().pending_files();
        let mut inodes = Vec::new();
        let mut gone = Vec::new();
        for ino in files {
            match core.cached_inode(ino) {
                Some(inode) => inodes.push(inode),
                // Its inode has left memory, so it has been written, or has been freed.
                None => gone.extend(self.alloc_mut().take_pending(ino)),
            }
        }
        self.write_metadata(core, &inodes, false).await?;
        self.writes.wait_all().await;
        self.writes.barrier(core, Origin::User).await?;
        self.alloc_mut().release(&self.sb, gone);
        Ok(())
    }

    /// Writes a file with all that leads to its content, and waits until it is durable.
    pub(crate) async fn write_file(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        with_inode: bool,
    ) -> Result<()> {
        let mut pins = Vec::new();
        self.hold_parents(core, inode, &mut pins).await?;
        self.gather_fresh(core, inode);
        let most = self.flush_bytes(core);
        let runs = join_runs(self.take_blocks(core, inode, Which::All), most);
        let ordered = self.ordering.maps() == Wait::InOrder
            && (self.has_new_maps(inode) || inode.class(0) == Class::Meta && !runs.is_empty());
        self.new_maps.remove(inode.ino);
        let numbers = self.writes.send(core, runs, Origin::User);
        self.writes.wait(&numbers).await;
        self.writes.wait_file(inode.ino).await;
        if with_inode {
            if ordered {
                // A pointer must never lead to what lay there before.
                self.writes.barrier(core, Origin::User).await?;
            }
            self.write_inode(core, inode).await?;
        }
        self.writes.barrier(core, Origin::User).await
    }

    /// True if a file has indirect blocks that the disk must have before its inode.
    fn has_new_maps(&self, inode: &Inode) -> bool {
        self.new_maps.contains(inode.ino)
    }

    /// Writes an inode and waits until the device has it.
    async fn write_inode(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
        self.put_inode(core, inode);
        let anchor = inode.anchor.borrow().clone();
        self.alloc_mut().forget_fresh(inode.ino);
        if let Some(frame) = anchor.filter(|f| f.is_dirty()) {
            let run = self.take_table_block(core, &frame);
            let numbers = self.writes.send(core, vec![run], Origin::User);
            self.writes.wait(&numbers).await;
        } else {
            // Somebody else may have sent it.
            self.writes.wait_file(0).await;
        }
        core.check_writable()
    }

    /// fsync.
    pub(crate) async fn fsync_file(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        data_only: bool,
    ) -> Result<()> {
        if self.settings.lazy_fsync {
            return self.send_data(core, inode, Origin::User).await.map(|_| ());
        }
        if self.journal.is_some() {
            return self.fsync_journal(core, inode, data_only).await;
        }
        let with_inode = !data_only || self.has_new_shape(core, inode);
        self.fsync_attributes(core, inode).await?;
        if self.ordering.writes_directories_behind() {
            // The names that lead to it may be in any directory.
            let mut with_names = core.dirty_inodes();
            with_names.retain(|i| i.d.borrow().is_dir());
            self.write_metadata(core, &with_names, true).await?;
            return self.write_file(core, inode, with_inode).await;
        }
        // A directory is written by those who change it: they are waited for.
        let _shared = inode.lock.read().await;
        self.write_file(core, inode, with_inode).await
    }

    /// fsync with a journal: the file's data goes to its place, all metadata to the journal.
    async fn fsync_journal(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        data_only: bool,
    ) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let numbers = self.send_data(core, inode, Origin::User).await?;
        let is_new = {
            let space = self.alloc();
            space.is_unwritten(inode.ino) || space.has_fresh(inode.ino)
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
        if !journal.is_durable(inode.written_in.get()) {
            // A transaction that has it is on its way.
            journal.wait_for_commit().await;
        }
        self.writes.barrier(core, Origin::User).await
    }

    /// Writes the hidden file with an inode's attributes, if it has one in memory.
    async fn fsync_attributes(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
        let hidden = inode.d.borrow().xattr_ino;
        match core.cached_inode(hidden).filter(|h| hidden != 0 && h.is_dirty()) {
            Some(hidden) => self.write_file(core, &hidden, true).await,
            None => Ok(()),
        }
    }

    /// Makes everything durable.
    pub(crate) async fn sync_all(&self, core: &Rc<Core>) -> Result<()> {
        if self.journal.is_none() && !self.ordering.writes_directories_behind() {
            // Whoever changes a directory is about to write it; what is left has no hurry.
            for inode in core.dirty_inodes() {
                if inode.d.borrow().is_dir() {
                    let _shared = inode.lock.read().await;
                    self.write_file(core, &inode, true).await?;
                }
            }
        }
        self.write_back_all(core).await?;
        self.writes.wait_all().await;
        self.writes.barrier(core, Origin::User).await
    }

    /// What the ordering promises of a change before its operation replies.
    pub(crate) async fn settle_change(&self, core: &Rc<Core>, change: Change<'_>) -> Result<()> {
        match change {
            Change::Names { inodes, added, removed } => {
                if self.ordering.names() == Wait::InOrder {
                    self.settle_names(core, inodes, added, removed).await?;
                }
                Ok(())
            }
            Change::Cut(inode) => {
                if self.ordering.maps() == Wait::InOrder {
                    self.settle_maps(core, inode).await?;
                }
                Ok(())
            }
            Change::Written { inode, first, end } => {
                self.write_behind(core, inode, first, end).await?;
                if self.has_new_maps(inode) && self.ordering.maps() == Wait::InOrder {
                    self.write_maps(core, inode).await?;
                }
                Ok(())
            }
        }
    }

    async fn settle_names(
        &self,
        core: &Rc<Core>,
        inodes: &[&Rc<Inode>],
        added: &[&Rc<Inode>],
        removed: &[&Rc<Inode>],
    ) -> Result<()> {
        let among =
            |list: &[&Rc<Inode>], inode: &Rc<Inode>| list.iter().any(|i| i.ino == inode.ino);
        for inode in inodes {
            let is_dir = inode.d.borrow().is_dir();
            let own = !among(added, inode) && !among(removed, inode);
            // A new directory, or a link whose target is in a block.
            if inode.class(0) == Class::Meta && (own || !is_dir) {
                self.write_ordered(core, inode, true).await?;
            } else if is_dir && self.has_new_shape(core, inode) {
                // It grew for the name: its inode must not lead to a block that the disk has not.
                // Below it comes behind its blocks, and its new link count with the name.
            } else {
                self.count(|s| s.ordered_writes += 1);
                self.write_inode(core, inode).await?;
                self.writes.barrier(core, Origin::User).await?;
            }
        }
        for dir in added.iter().chain(removed.iter().filter(|dir| !among(added, dir))) {
            let grown = self.has_new_shape(core, dir);
            self.write_ordered(core, dir, grown).await?;
        }
        Ok(())
    }

    /// Writes a directory's or link's dirty blocks, then perhaps its inode.
    async fn write_ordered(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        with_inode: bool,
    ) -> Result<()> {
        self.count(|s| s.ordered_writes += 1);
        self.write_file(core, inode, with_inode).await
    }

    /// A file lost blocks: their pointers go from the disk before the blocks are used again.
    async fn settle_maps(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
        if !self.alloc().pending_files().contains(&inode.ino) {
            return Ok(());
        }
        let numbers = self.send_maps(core, inode).await?;
        let freed = self.alloc_mut().take_pending(inode.ino);
        self.count(|s| s.ordered_writes += 1);
        self.writes.wait(&numbers).await;
        self.write_inode(core, inode).await?;
        self.writes.barrier(core, Origin::User).await?;
        self.alloc_mut().release(&self.sb, freed);
        Ok(())
    }

    /// Sends a file's dirty indirect blocks.
    async fn send_maps(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<Vec<u64>> {
        let mut pins = Vec::new();
        self.hold_parents(core, inode, &mut pins).await?;
        let frames = inode.frames.dirty_frames();
        let maps = frames.iter().take_while(|f| f.lbn() < 0);
        let pieces: Vec<Run> = maps.filter_map(|f| self.take_block(core, inode, f)).collect();
        self.alloc_mut().forget_fresh(inode.ino);
        Ok(self.writes.send(core, pieces, Origin::User))
    }

    /// A file has new indirect blocks: those that they lead to go first, so that no pointer ever
    /// leads to what lay there before.
    async fn write_maps(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
        self.new_maps.remove(inode.ino);
        for level in 1..=core.shape.levels {
            let mut pins = Vec::new();
            self.hold_parents(core, inode, &mut pins).await?;
            let frames = inode.frames.dirty_frames();
            let maps = frames.iter().take_while(|f| f.lbn() < 0);
            let these = maps.filter(|f| core.shape.indirect(f.lbn()).0 == level);
            let pieces: Vec<Run> = these.filter_map(|f| self.take_block(core, inode, f)).collect();
            self.alloc_mut().forget_fresh(inode.ino);
            if !pieces.is_empty() {
                self.count(|s| s.ordered_writes += 1);
                let numbers = self.writes.send(core, pieces, Origin::User);
                self.writes.wait(&numbers).await;
                self.writes.barrier(core, Origin::User).await?;
            }
        }
        Ok(())
    }

    /// Makes everything durable and marks the volume as closed.
    pub(crate) async fn close_volume(&self, core: &Rc<Core>) -> Result<()> {
        self.sync_all(core).await?;
        if self.journal.is_some() {
            // A volume that counts as closed is not replayed: nothing may be in the journal only.
            self.empty_journal(core).await?;
            while self.has_dirty(core) || self.alloc().has_pending() {
                self.sync_all(core).await?;
                self.empty_journal(core).await?;
            }
            return self.write_state(core, true).await;
        }
        if self.alloc().has_pending() {
            self.write_pending_files(core).await?;
        }
        // Space that the first pass made safe to use is to be free on the disk too.
        while self.has_dirty(core) {
            self.sync_all(core).await?;
        }
        self.write_state(core, true).await
    }
}

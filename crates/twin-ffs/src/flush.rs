//! Write-back: takes dirty blocks as they are and sends them to their places.
//!
//! Contract: taking (`take_*`) does not wait, so that it sees complete operations; the indirect
//! blocks that lead to a block are loaded before. A taken block is clean, and stays in memory until
//! the device has it.

use std::rc::Rc;

use twin_cache::Frame;
use twin_disk::{Class, Origin};
use twin_fs::{Change, Chosen, Core, Inode, Layout, Result};

use crate::commit::meta_frames;
use crate::ffs::Ffs;
use crate::inode_state::InodeState;
use crate::ordering::Wait;
use crate::take::DirtyBlocks;
use crate::writes::{WriteRun, join_runs};

/// The most bytes that write-back has under way.
const IN_FLIGHT_BYTES: u64 = 16 << 20;

impl Ffs {
    /// Sends the dirty data of a file. Returns the numbers of the writes.
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
        self.pin_parents(core, inode, &mut pins).await?;
        self.gather_fresh(core, inode);
        let pieces = self.take_blocks(core, inode, DirtyBlocks::Data);
        let runs = join_runs(pieces, self.flush_bytes(core));
        Ok(self.writes.send(core, runs, origin))
    }

    /// Writes everything that is dirty. Returns when metadata is written; data may still be under
    /// way.
    pub(crate) async fn write_back_all(&self, core: &Rc<Core>) -> Result<()> {
        core.check_writable()?;
        core.forget_dirty();
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

    /// Writes some dirty files, or blocks of them, and what must go with them. With a journal that is,
    /// if the metadata of one of them changed, a transaction: all metadata and the data of all new
    /// blocks. Otherwise it is their own metadata and the maps.
    pub(crate) async fn write_back_some(&self, core: &Rc<Core>, chosen: &[Chosen]) -> Result<()> {
        core.check_writable()?;
        for choice in chosen {
            self.writes.wait_below(IN_FLIGHT_BYTES).await;
            match &choice.blocks {
                None => drop(self.send_data(core, &choice.inode, Origin::WriteBack).await?),
                Some(_) => self.send_blocks(core, choice).await?,
            }
        }
        // A file of which dirty blocks are left is new to the disk, or waits for its own turn.
        let mut inodes: Vec<Rc<Inode>> = Vec::new();
        for choice in chosen.iter().filter(|choice| choice.inode.is_dirty()) {
            let is_left = choice.blocks.is_some() && choice.inode.frames.has_dirty_data();
            if !is_left || self.has_new_mapping(core, &choice.inode) {
                inodes.push(Rc::clone(&choice.inode));
            }
        }
        if inodes.is_empty() {
            return core.check_writable();
        }
        if self.journal.is_some() {
            return self.commit(core).await.map(|_| ());
        }
        self.write_metadata(core, &inodes, self.ordering.writes_directories_behind()).await
    }

    /// Sends the blocks of a file that a policy named.
    async fn send_blocks(&self, core: &Rc<Core>, chosen: &Chosen) -> Result<()> {
        let inode = &chosen.inode;
        let mut pins = Vec::new();
        self.pin_parents(core, inode, &mut pins).await?;
        self.gather_fresh(core, inode);
        let frames = inode.frames.dirty_frames();
        let named = |f: &&Rc<Frame>| chosen.has(f.lbn()) && inode.class(f.lbn()) == Class::Data;
        let pieces = frames.iter().filter(named);
        let pieces = pieces.filter_map(|f| self.take_block(core, inode, f)).collect();
        self.writes.send(core, join_runs(pieces, self.flush_bytes(core)), Origin::WriteBack);
        Ok(())
    }

    /// Writes the metadata of these files, and all dirty inode blocks and maps. After that, the
    /// space that the files gave up can be reused.
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
        }
        self.write_moved(core, inodes).await?;
        for inode in inodes {
            self.pin_parents(core, inode, &mut pins).await?;
        }
        let mut pieces = Vec::new();
        let mut freed = Vec::new();
        for inode in inodes {
            let is_dir = inode.d.borrow().is_dir();
            let leads_nowhere = self.has_new_maps(inode) || self.moved.contains(inode.ino);
            if in_order && (leads_nowhere || is_dir && inode.frames.has_dirty()) {
                // The inode changed meanwhile and leads to blocks that are not on the disk. It is
                // written later.
                continue;
            }
            if directories || !is_dir {
                pieces.extend(self.take_blocks(core, inode, DirtyBlocks::Meta));
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
            // The inode of a file that gave up the space may be on its way in another task's write.
            self.writes.wait_file(0).await;
            self.writes.barrier(core, Origin::WriteBack).await?;
            self.alloc_mut().release(&self.sb, freed);
        }
        core.check_writable()
    }

    /// Writes the files that gave up space, so that the space can be reused.
    pub(crate) async fn write_pending_files(&self, core: &Rc<Core>) -> Result<()> {
        let files = self.alloc().pending_files();
        let mut inodes = Vec::new();
        let mut gone = Vec::new();
        for ino in files {
            match core.cached_inode(ino) {
                Some(inode) => inodes.push(inode),
                // The inode is not in memory, so it has been written or freed.
                None => gone.extend(self.alloc_mut().take_pending(ino)),
            }
        }
        self.write_metadata(core, &inodes, false).await?;
        self.writes.wait_all().await;
        self.writes.barrier(core, Origin::User).await?;
        self.alloc_mut().release(&self.sb, gone);
        Ok(())
    }

    /// Writes a file with everything that leads to its content, and waits until it is durable.
    pub(crate) async fn write_file(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        with_inode: bool,
    ) -> Result<()> {
        let mut pins = Vec::new();
        self.pin_parents(core, inode, &mut pins).await?;
        self.gather_fresh(core, inode);
        let most = self.flush_bytes(core);
        let runs = join_runs(self.take_blocks(core, inode, DirtyBlocks::All), most);
        let ordered = self.ordering.maps() == Wait::InOrder
            && (self.has_new_maps(inode) || inode.class(0) == Class::Meta && !runs.is_empty());
        let due = self.new_maps.number(inode.ino);
        let _doing = due.map(|_| self.new_maps.begin(inode.ino));
        let durable = || due.into_iter().for_each(|number| self.new_maps.done(inode.ino, number));
        let numbers = self.writes.send(core, runs, Origin::User);
        self.writes.wait(&numbers).await;
        self.writes.wait_file(inode.ino).await;
        if with_inode {
            if ordered {
                // The barrier keeps a pointer from reaching the disk before its block, because it
                // would lead to old content.
                self.writes.barrier(core, Origin::User).await?;
                durable();
            }
            self.write_inode(core, inode).await?;
        }
        self.writes.barrier(core, Origin::User).await?;
        durable();
        Ok(())
    }

    /// True if a file has indirect blocks that must be on the disk before its inode.
    fn has_new_maps(&self, inode: &Inode) -> bool {
        self.new_maps.contains(inode.ino)
    }

    /// Makes the content of last blocks durable that moved to another place. An inode that reached
    /// the disk before would lead to a place without the content, which the old place has and which
    /// may have been acknowledged long ago. 4.4BSD has the same order in an fsync, because its disks
    /// wrote at once; in the background it takes the risk.
    async fn write_moved(&self, core: &Rc<Core>, inodes: &[Rc<Inode>]) -> Result<()> {
        let mut moved = Vec::new();
        for inode in inodes {
            if let Some(number) = self.moved.number(inode.ino) {
                self.send_all(core, inode).await?;
                moved.push((inode.ino, number));
            }
        }
        if moved.is_empty() {
            return Ok(());
        }
        for &(ino, _) in &moved {
            self.writes.wait_file(ino).await;
        }
        self.writes.barrier(core, Origin::User).await?;
        moved.iter().for_each(|&(ino, number)| self.moved.done(ino, number));
        Ok(())
    }

    /// Sends all dirty blocks of a file but the indirect ones.
    async fn send_all(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
        let mut pins = Vec::new();
        self.pin_parents(core, inode, &mut pins).await?;
        self.gather_fresh(core, inode);
        let frames = inode.frames.dirty_frames();
        let blocks = frames.iter().filter(|frame| frame.lbn() >= 0);
        let pieces = blocks.filter_map(|frame| self.take_block(core, inode, frame)).collect();
        self.writes.send(core, join_runs(pieces, self.flush_bytes(core)), Origin::User);
        Ok(())
    }

    /// Writes an inode and waits until the device has it.
    async fn write_inode(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
        while self.moved.contains(inode.ino) {
            self.write_moved(core, std::slice::from_ref(inode)).await?;
        }
        if InodeState::of(inode).table_block().is_none() {
            // The inode was freed while its caller waited, and its block of the table says so. This
            // happens to those who write all that was dirty when they began.
            return core.check_writable();
        }
        self.put_inode(core, inode);
        let table_block = InodeState::of(inode).table_block();
        self.alloc_mut().forget_fresh(inode.ino);
        if let Some(frame) = table_block.filter(|f| f.is_dirty()) {
            let run = self.take_table_block(core, &frame);
            let numbers = self.writes.send(core, vec![run.into()], Origin::User);
            self.writes.wait(&numbers).await;
        } else {
            // Another task may have sent it, so wait for that write.
            self.writes.wait_file(0).await;
        }
        core.check_writable()
    }

    /// Makes a file durable, as the ordering requires.
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
        let with_inode = !data_only || self.has_new_mapping(core, inode);
        self.fsync_attributes(core, inode).await?;
        if self.ordering.writes_directories_behind() {
            // The names that lead to the file may be in any directory.
            let mut with_names = core.dirty_inodes();
            with_names.retain(|i| i.d.borrow().is_dir());
            self.write_metadata(core, &with_names, true).await?;
            return self.write_file(core, inode, with_inode).await;
        }
        // The operation that changes a directory also writes it: its lock makes us wait for that.
        let _shared = inode.lock.read().await;
        if inode.d.borrow().is_dir() {
            // Names that were removed from it are durable already; this tells the disk that their
            // inodes are free, too. Otherwise a repair could revive a file by its inode.
            let numbers = self.writes.send(
                core,
                self.take_tables(core).into_iter().map(WriteRun::from).collect(),
                Origin::User,
            );
            self.writes.wait(&numbers).await;
            self.writes.wait_file(0).await;
        }
        self.write_file(core, inode, with_inode).await
    }

    /// Sends the data of a file that is about to take the name of another. A transaction of a journal
    /// waits for all data under way. Where the name is written before the operation replies, the file is
    /// written before. Where names are written some time later, the data is at least not later than they
    /// are.
    pub(crate) async fn write_before_replace(
        &self,
        core: &Rc<Core>,
        source: &Rc<Inode>,
    ) -> Result<()> {
        core.check_writable()?;
        if self.journal.is_none() && self.ordering.names() == Wait::InOrder {
            let _shared = source.lock.read().await;
            return match source.frames.has_dirty() {
                true => self.write_file(core, source, true).await,
                false => Ok(()),
            };
        }
        let numbers = self.send_data(core, source, Origin::WriteBack).await?;
        if self.journal.is_none() {
            self.writes.wait(&numbers).await;
        }
        core.check_writable()
    }

    /// fsync with a journal: the data of the file goes to its place, all metadata to the journal.
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
        let changed =
            inode.is_dirty() && (!data_only || is_new || self.has_new_mapping(core, inode));
        if changed || is_new || meta_frames(inode) > 0 {
            // A transaction waits for all data under way and flushes the device.
            self.writes.wait(&numbers).await;
            self.writes.wait_file(inode.ino).await;
            if self.commit(core).await? {
                return Ok(());
            }
        }
        self.writes.wait(&numbers).await;
        self.writes.wait_file(inode.ino).await;
        if !journal.is_durable(InodeState::of(inode).written_in()) {
            // The transaction that contains the change is being written.
            journal.wait_for_commit().await;
        }
        self.writes.barrier(core, Origin::User).await
    }

    /// Writes the hidden file with an inode's attributes, if that is in memory.
    async fn fsync_attributes(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
        let hidden = inode.d.borrow().xattr_ino;
        match core.cached_inode(hidden).filter(|h| hidden != 0 && h.is_dirty()) {
            Some(hidden) => self.write_file(core, &hidden, true).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn sync_all(&self, core: &Rc<Core>) -> Result<()> {
        if self.journal.is_none() && !self.ordering.writes_directories_behind() {
            // Directories are left to the operations that change them, which write them in order.
            // The rest has no required order.
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

    /// Does what the ordering promises about a change before its operation replies.
    pub(crate) async fn order_change(&self, core: &Rc<Core>, change: Change<'_>) -> Result<()> {
        match change {
            Change::Names { inodes, added, removed } => {
                if self.ordering.names() == Wait::InOrder {
                    self.order_names(core, inodes, added, removed).await?;
                }
                Ok(())
            }
            Change::Cut(inode) => {
                if self.ordering.maps() == Wait::InOrder {
                    self.order_pointers(core, inode).await?;
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

    async fn order_names(
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
            } else if is_dir && self.has_new_mapping(core, inode) {
                // The directory grew for the name, so its inode is written after its blocks: it
                // must not lead to a block that is not on the disk. An inode below it follows its
                // own blocks, and its new link count goes with the name.
            } else {
                self.count(|s| s.ordered_writes += 1);
                self.write_inode(core, inode).await?;
                self.writes.barrier(core, Origin::User).await?;
            }
        }
        for dir in added.iter().chain(removed.iter().filter(|dir| !among(added, dir))) {
            let grown = self.has_new_mapping(core, dir);
            self.write_ordered(core, dir, grown).await?;
        }
        Ok(())
    }

    /// Writes the dirty blocks of a directory or link, then its inode if required.
    async fn write_ordered(
        &self,
        core: &Rc<Core>,
        inode: &Rc<Inode>,
        with_inode: bool,
    ) -> Result<()> {
        self.count(|s| s.ordered_writes += 1);
        self.write_file(core, inode, with_inode).await
    }

    /// A file lost blocks: their pointers must be removed from the disk before the blocks are
    /// reused.
    async fn order_pointers(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
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

    /// Sends the dirty indirect blocks of a file.
    async fn send_maps(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<Vec<u64>> {
        let mut pins = Vec::new();
        self.pin_parents(core, inode, &mut pins).await?;
        let frames = inode.frames.dirty_frames();
        let maps = frames.iter().take_while(|f| f.lbn() < 0);
        let pieces: Vec<WriteRun> =
            maps.filter_map(|f| self.take_block(core, inode, f)).map(WriteRun::from).collect();
        self.alloc_mut().forget_fresh(inode.ino);
        Ok(self.writes.send(core, pieces, Origin::User))
    }

    /// A file has new indirect blocks. The blocks to which they lead are written first, so that no
    /// pointer ever leads to old content. The inode may follow when all are durable, also those that
    /// another task has taken.
    async fn write_maps(&self, core: &Rc<Core>, inode: &Rc<Inode>) -> Result<()> {
        let Some(number) = self.new_maps.number(inode.ino) else { return Ok(()) };
        let doing = self.new_maps.begin(inode.ino);
        for level in 1..=core.geometry.levels {
            let mut pins = Vec::new();
            self.pin_parents(core, inode, &mut pins).await?;
            let frames = inode.frames.dirty_frames();
            let maps = frames.iter().take_while(|f| f.lbn() < 0);
            let these = maps.filter(|f| core.geometry.indirect(f.lbn()).0 == level);
            let pieces: Vec<WriteRun> =
                these.filter_map(|f| self.take_block(core, inode, f)).map(WriteRun::from).collect();
            self.alloc_mut().forget_fresh(inode.ino);
            let shared = doing.is_shared();
            if !pieces.is_empty() || shared {
                self.count(|s| s.ordered_writes += u64::from(!pieces.is_empty()));
                let numbers = self.writes.send(core, pieces, Origin::User);
                self.writes.wait(&numbers).await;
                if shared {
                    self.writes.wait_file(inode.ino).await;
                }
                self.writes.barrier(core, Origin::User).await?;
            }
        }
        self.new_maps.done(inode.ino, number);
        Ok(())
    }

    /// Makes everything durable and marks the volume as closed.
    pub(crate) async fn close_volume(&self, core: &Rc<Core>) -> Result<()> {
        self.sync_all(core).await?;
        if self.journal.is_some() {
            // A closed volume is not replayed, so no block may exist only in the journal.
            self.empty_journal(core).await?;
            while self.dirty(core).any || self.alloc().has_pending() {
                self.sync_all(core).await?;
                self.empty_journal(core).await?;
            }
            self.write_state(core, true).await?;
            return self.rest_sums(core).await;
        }
        if self.alloc().has_pending() {
            self.write_pending_files(core).await?;
        }
        // Space that the first pass made safe to reuse must be free on the disk as well.
        while self.dirty(core).any {
            self.sync_all(core).await?;
        }
        self.write_state(core, true).await?;
        self.rest_sums(core).await
    }

    /// Writes all checksums of a volume that is closed, if it has some.
    async fn rest_sums(&self, core: &Core) -> Result<()> {
        let Some(sums) = &self.sums else { return Ok(()) };
        if let Err(error) = sums.finish().await {
            core.poison(error);
        }
        core.check_writable()
    }
}

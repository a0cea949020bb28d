//! What a log write takes, and in which order: the gathering of what is dirty.
//!
//! Contract: a file's data comes before its indirect blocks and these before its inode, whatever the order
//! of files and blocks, so that children come before parents. The default is the order in which files became
//! dirty, with blocks of inodes as full as they get. 4.4BSD's orders are settings ([`Gathering`]), because
//! where a file lies decides how fast it is read.
//!
//! [`Gathering`]: crate::Gathering

use std::rc::Rc;

use twin_fs::{Core, Inode};

use crate::format::SummaryDraft;
use crate::lfs::Lfs;
use crate::log_items::LogItem;

/// Items in the making, with the inodes whose block is not full yet.
struct Gathered<'a> {
    lfs: &'a Lfs,
    items: Vec<LogItem>,
    inodes: Vec<Rc<Inode>>,
    /// The summary of the partial segment that is being filled, if its inodes go with its files.
    draft: Option<SummaryDraft>,
}

impl Gathered<'_> {
    /// A summary with room for the place of a block of inodes.
    fn draft(lfs: &Lfs) -> SummaryDraft {
        let mut draft = SummaryDraft::new(&lfs.sb);
        draft.add_inodes(1);
        draft
    }

    /// Takes a file: its blocks, then its inode.
    fn take(&mut self, inode: Rc<Inode>, blocks: Vec<LogItem>) {
        for item in blocks {
            if let Some(draft) = &mut self.draft
                && !self.lfs.draft(draft, &item)
            {
                let mut next = Self::draft(self.lfs);
                self.lfs.draft(&mut next, &item);
                *draft = next;
                self.end_inodes();
            }
            self.items.push(item);
        }
        self.inodes.push(inode);
        let geometry = &self.lfs.sb.geometry;
        if self.inodes.len() == (geometry.block_size / geometry.inode_size) as usize {
            self.end_inodes();
            if let Some(draft) = &mut self.draft
                && !draft.add_inodes(1)
            {
                *draft = Self::draft(self.lfs);
            }
        }
    }

    /// Ends the block of inodes.
    fn end_inodes(&mut self) {
        if !self.inodes.is_empty() {
            self.items.push(LogItem::Inodes(std::mem::take(&mut self.inodes)));
        }
    }
}

impl Lfs {
    /// The items of a snapshot: everything that is dirty now. Files come in the order of
    /// [`Gathering`](crate::Gathering), each with its data, its indirect blocks and its inode; deferred
    /// indirect blocks are among them only with `all`.
    pub(crate) fn snapshot(&self, core: &Core, all: bool) -> Vec<LogItem> {
        if all {
            for inode in self.checkpoints.take_deferred() {
                core.mark_inode_dirty(&inode);
            }
        }
        let order = self.settings.gathering;
        let draft = order.inodes_with_files.then(|| Gathered::draft(self));
        let mut gathered = Gathered { lfs: self, items: Vec::new(), inodes: Vec::new(), draft };
        let mut dirty = core.dirty_inodes();
        if order.newest_first {
            dirty.reverse();
        }
        let all = all || self.settings.eager_indirect;
        for inode in dirty {
            let mut blocks = Vec::new();
            self.collect_blocks(core, &inode, all, &|_, _| true, &mut blocks);
            if order.newest_first {
                let data = blocks.iter().take_while(|item| is_data(item)).count();
                blocks[..data].reverse();
            }
            gathered.take(inode, blocks);
        }
        gathered.end_inodes();
        let freed = self.numbers.take_freed();
        let freed = freed.into_iter().map(|(ino, generation)| LogItem::Freed { ino, generation });
        gathered.items.extend(freed);
        gathered.items
    }
}

fn is_data(item: &LogItem) -> bool {
    matches!(item, LogItem::Block { frame, .. } if frame.lbn() >= 0)
}

/// Whether both are data of one file.
pub(crate) fn same_file(a: &LogItem, b: &LogItem) -> bool {
    match (a, b) {
        (LogItem::Block { inode: one, .. }, LogItem::Block { inode: other, .. }) => {
            is_data(a) && is_data(b) && one.ino == other.ino
        }
        _ => false,
    }
}

/// Puts the data blocks of each file among the items of a partial segment in the order of their numbers.
pub(crate) fn files_ascend(items: &[LogItem], fitted: &mut [usize]) {
    for run in fitted.chunk_by_mut(|&a, &b| same_file(&items[a], &items[b])) {
        run.sort_by_key(|&nth| match &items[nth] {
            LogItem::Block { frame, .. } => frame.lbn(),
            _ => 0,
        });
    }
}

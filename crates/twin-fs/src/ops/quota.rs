//! Quotas: reading them when a volume is opened, writing them when it is closed, and the attribute with
//! which they are made, shown and ended. What a quota is says [`quota`](crate::quota).

use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;

use super::Operations;
use crate::dinode::HIDDEN;
use crate::inodes::Inode;
use crate::layout::{Need, SyncScope};
use crate::quota::{
    QUOTA_ATTRIBUTE, QUOTAS_ATTRIBUTE, QuotaId, QuotaLimits, QuotaNote, QuotaUse, TABLE_NAME,
};
use crate::{Cred, FsError, Ino, ROOT_INO, Reply, Result, XattrMode, mode};

/// The longest list of quotas that is given, in bytes: the longest attribute.
const LIST_MAX: usize = 65_536;

impl Operations {
    /// Reads the quotas of a volume that has some. If their use is not known, counts it, by reading every
    /// inode.
    pub(crate) async fn start_quotas(&self) -> Result<()> {
        let quotas = &self.core.quotas;
        let found = quotas.note();
        if self.core.features.need_attributes().is_err() {
            quotas.set_note(QuotaNote::None);
            return Ok(());
        }
        let root = match self.files.inode(ROOT_INO).await {
            Ok(root) => root,
            // A volume without its root can be looked at, and a repair is due.
            Err(FsError::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        };
        quotas.set_note(QuotaNote::Uncounted);
        match self.attributes(&root).await?.remove(TABLE_NAME) {
            Some(table) => quotas.take(&table)?,
            None => return self.start_without_table().await,
        }
        for (id, quota) in quotas.all() {
            let there = match self.files.inode(quota.root).await {
                Ok(dir) => dir.d.borrow().is_dir() && dir.d.borrow().quota == id,
                Err(FsError::NotFound) => false,
                Err(error) => return Err(error),
            };
            if !there {
                quotas.remove(id);
            }
        }
        match found == QuotaNote::Counted || quotas.all().is_empty() {
            true => Ok(()),
            false => self.count_quotas().await,
        }
    }

    /// There may be quotas, and there is no table: either the note could not be read, or a repair has given
    /// up the table. Numbers that inodes have are not given again.
    async fn start_without_table(&self) -> Result<()> {
        let highest = Cell::new(0);
        self.each_inode(|inode| highest.set(highest.get().max(inode.d.borrow().quota))).await?;
        match highest.get() {
            0 => self.core.quotas.set_note(QuotaNote::None),
            highest => self.core.quotas.go_on_after(highest),
        }
        Ok(())
    }

    /// Counts the use of all quotas anew. Nothing else may run.
    async fn count_quotas(&self) -> Result<()> {
        let quotas = &self.core.quotas;
        for (id, _) in quotas.all() {
            quotas.change(id, |quota| quota.used = QuotaUse::default());
        }
        self.each_inode(|inode| {
            let d = inode.d.borrow();
            quotas.count_inode(d.quota, d.quota_use(), true);
        })
        .await
    }

    /// Reads all inodes that are in use.
    async fn each_inode(&self, f: impl Fn(&Inode)) -> Result<()> {
        let view = self.layout.views().scrub;
        let end = view.ok_or(FsError::NotSupported("quotas on this layout"))?.numbers_end();
        for ino in ROOT_INO..end {
            let inode = match self.files.any_inode(ino).await {
                Ok(inode) => inode,
                // An inode that cannot be read takes part in nothing, and a repair will count again.
                Err(FsError::NotFound | FsError::Corrupt { .. }) => continue,
                Err(error) => return Err(error),
            };
            f(&inode);
        }
        Ok(())
    }

    /// Writes the quotas and their use, before the volume is closed.
    pub(crate) async fn end_quotas(&self) -> Result<()> {
        let quotas = &self.core.quotas;
        if !quotas.is_open() || self.core.settings.read_only {
            return Ok(());
        }
        match self.store_quotas().await {
            Ok(()) => quotas.set_note(QuotaNote::Counted),
            // A volume without room is closed all the same, and the next start counts.
            Err(FsError::NoSpace | FsError::NoInodes) => quotas.set_note(QuotaNote::Uncounted),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn store_quotas(&self) -> Result<()> {
        let root = self.files.inode(ROOT_INO).await?;
        let _alone = root.lock.write().await;
        let mut attributes = self.attributes(&root).await?;
        let table = self.core.quotas.encode();
        if attributes.get(TABLE_NAME) == Some(&table) {
            return Ok(());
        }
        attributes.insert(TABLE_NAME.to_vec(), table);
        // Clients see no change of the root.
        self.store_attributes(&root, &attributes, &|| Ok(())).await
    }

    /// The quota of a directory, or the list of all, as text.
    pub(super) async fn get_quota(&self, ino: Ino, name: &[u8]) -> Result<Reply> {
        let inode = self.files.inode(ino).await?;
        if name == QUOTAS_ATTRIBUTE && inode.ino == ROOT_INO {
            return Ok(Reply::Bytes(self.list_quotas().await?.into_bytes().into()));
        }
        match self.core.quotas.of_root(inode.ino) {
            Some((_, quota)) if name == QUOTA_ATTRIBUTE => {
                Ok(Reply::Bytes(quota.describe().into_bytes().into()))
            }
            _ => Err(FsError::NoAttribute),
        }
    }

    /// One quota a line: the directory, a tab, what [`get_quota`](Self::get_quota) gives. Directories whose
    /// paths make the list too long go by their inode numbers.
    async fn list_quotas(&self) -> Result<String> {
        let mut list = String::new();
        let all = self.core.quotas.all();
        let each = LIST_MAX / all.len().max(1);
        for (_, quota) in all {
            let line = quota.describe();
            let path = self.path_of(quota.root).await?;
            let path = path.filter(|path| path.len() + line.len() + 2 <= each);
            let path = path.unwrap_or_else(|| format!("#{}", quota.root));
            let _ = writeln!(list, "{path}\t{line}");
        }
        Ok(list)
    }

    /// The path of a directory, if it has one in UTF-8 without tabs and line ends.
    async fn path_of(&self, ino: Ino) -> Result<Option<String>> {
        let mut names = Vec::new();
        let mut at = match self.dirs.directory(ino).await {
            Ok(dir) => dir,
            Err(FsError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        while at.ino != ROOT_INO {
            let Some(up) = self.dirs.find(&at, b"..").await? else { return Ok(None) };
            let dir = self.dirs.directory(up.ino).await?;
            match self.name_of(&dir, at.ino).await? {
                Some(name) => names.push(name),
                None => return Ok(None),
            }
            at = dir;
        }
        names.reverse();
        Ok(Some(names.join("/")))
    }

    /// The name of a directory in its parent, if it is in UTF-8 without tabs and line ends.
    async fn name_of(&self, parent: &Rc<Inode>, ino: Ino) -> Result<Option<String>> {
        let _shared = parent.lock.read().await;
        for lbn in 0..self.dirs.dir_blocks(parent) {
            let entries = self.names_in_block(parent, lbn).await?;
            let is_it = |name: &[u8]| !matches!(name, b"." | b"..");
            if let Some(found) = entries.iter().find(|e| e.ino == ino && is_it(&e.name)) {
                let name = String::from_utf8(found.name.to_vec()).ok();
                return Ok(name.filter(|name| !name.contains(['\t', '\n'])));
            }
        }
        Ok(None)
    }

    /// Makes the quota of a directory or changes its limits.
    pub(super) async fn set_quota(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
        cred: &Cred,
    ) -> Result<Reply> {
        let dir = self.quota_root(ino, name, cred).await?;
        let limits = QuotaLimits::parse(value)?;
        if self.layout.views().scrub.is_none() {
            return Err(FsError::NotSupported("this layout has no quotas"));
        }
        let quotas = &self.core.quotas;
        let _alone = self.quota_lock.write().await;
        let before = quotas.of_root(dir.ino);
        match (before.is_some(), how) {
            (true, XattrMode::Create) => return Err(FsError::Exists),
            (false, XattrMode::Replace) => return Err(FsError::NoAttribute),
            _ => {}
        }
        let id = quotas.set(dir.ino, limits)?;
        if let Err(error) = self.store_quotas().await {
            match before {
                Some((_, before)) => quotas.change(id, |quota| quota.limits = before.limits),
                None => quotas.remove(id),
            }
            return Err(error);
        }
        if before.is_none() {
            // From here on each start looks for quotas. The number is durable before an inode has it, so it
            // is never given twice.
            quotas.set_note(QuotaNote::Uncounted);
            self.layout.sync(&self.core, SyncScope::Checkpoint).await?;
        }
        if !before.is_some_and(|(_, before)| before.complete) {
            self.count_whole_tree(&dir, id).await?;
        }
        Ok(Reply::Done)
    }

    /// Lets a tree count for a quota, and notes then that it does.
    async fn count_whole_tree(&self, top: &Rc<Inode>, id: QuotaId) -> Result<()> {
        self.count_tree_for(top, id).await?;
        // The table says that everything counts when that is durable.
        self.layout.sync(&self.core, SyncScope::Volume).await?;
        self.core.quotas.change(id, |quota| quota.complete = true);
        self.store_quotas().await?;
        self.layout.sync(&self.core, SyncScope::Volume).await
    }

    /// Ends the quota of a directory.
    pub(super) async fn remove_quota(&self, ino: Ino, name: &[u8], cred: &Cred) -> Result<Reply> {
        let dir = self.quota_root(ino, name, cred).await?;
        let _alone = self.quota_lock.write().await;
        let quotas = &self.core.quotas;
        let (id, quota) = quotas.of_root(dir.ino).ok_or(FsError::NoAttribute)?;
        let outer = match self.dirs.find(&dir, b"..").await? {
            Some(up) => self.core.quota_of(&*self.dirs.directory(up.ino).await?),
            None => 0,
        };
        let around = quotas.get(outer);
        quotas.remove(id);
        // Until all of it counts for the quota around it, that says so.
        quotas.change(outer, |quota| quota.complete = false);
        if let Err(error) = self.store_quotas().await {
            quotas.put(id, quota);
            quotas.change(outer, |quota| quota.complete = around.is_some_and(|it| it.complete));
            return Err(error);
        }
        if outer != 0 {
            self.layout.sync(&self.core, SyncScope::Volume).await?;
            self.count_whole_tree(&dir, outer).await?;
        }
        Ok(Reply::Done)
    }

    /// The directory of a quota that is to be changed.
    async fn quota_root(&self, ino: Ino, name: &[u8], cred: &Cred) -> Result<Rc<Inode>> {
        let dir = self.files.inode(ino).await?;
        if name != QUOTA_ATTRIBUTE || cred.uid != 0 {
            return Err(FsError::NotPermitted);
        }
        if !dir.d.borrow().is_dir() {
            return Err(FsError::NotDirectory);
        }
        if dir.ino == ROOT_INO {
            return Err(FsError::Invalid("the root has no quota: its limit is the volume's size"));
        }
        Ok(dir)
    }

    /// Lets a directory and everything below it count for a quota, up to directories that have one of
    /// their own. What is made meanwhile counts from its making: a directory counts before its names are
    /// read, and nothing is moved into it from where it is not counted yet.
    async fn count_tree_for(&self, root: &Rc<Inode>, id: QuotaId) -> Result<()> {
        let mut dirs = vec![root.ino];
        while let Some(ino) = dirs.pop() {
            let dir = match self.files.inode(ino).await {
                Ok(dir) => dir,
                Err(FsError::NotFound) => continue,
                Err(error) => return Err(error),
            };
            {
                let _room = self.files.admit_small(Need::Shrink).await?;
                self.count_for(&dir, id).await?;
            }
            let mut lbn = 0;
            while lbn < self.dirs.dir_blocks(&dir) {
                self.count_block_for(&dir, lbn, id, &mut dirs).await?;
                lbn += 1;
            }
        }
        Ok(())
    }

    /// Lets what a block of a directory names count for a quota; of directories only notes the numbers.
    async fn count_block_for(
        &self,
        dir: &Rc<Inode>,
        lbn: u64,
        id: QuotaId,
        dirs: &mut Vec<Ino>,
    ) -> Result<()> {
        // Nothing leaves the directory meanwhile. As everywhere the lock comes before the admission: whoever
        // has the one may wait for the other.
        let _shared = dir.lock.read().await;
        if lbn >= self.dirs.dir_blocks(dir) {
            return Ok(());
        }
        let entries = self.names_in_block(dir, lbn).await?;
        // Each inode becomes dirty, perhaps with a hidden file.
        let bytes = 2 * entries.len() as u64 * u64::from(self.core.geometry.inode_size);
        let _room = self.files.admit(bytes, Need::Shrink).await?;
        for entry in entries {
            if matches!(&*entry.name, b"." | b"..") {
                continue;
            }
            let inode = self.files.inode(entry.ino).await?;
            let is_dir = inode.d.borrow().is_dir();
            match is_dir {
                true if self.core.quotas.of_root(inode.ino).is_some() => {}
                true => dirs.push(inode.ino),
                false => self.count_for(&inode, id).await?,
            }
        }
        Ok(())
    }

    /// Lets an inode, and its hidden files, count for a quota.
    async fn count_for(&self, inode: &Rc<Inode>, id: QuotaId) -> Result<()> {
        loop {
            let hidden = || {
                let d = inode.d.borrow();
                [d.index_ino, d.xattr_ino]
            };
            let before = hidden();
            let mut files = vec![Rc::clone(inode)];
            for ino in before.into_iter().filter(|&ino| ino != 0) {
                match self.files.any_inode(ino).await {
                    Ok(file) => files.push(file),
                    // It has been exchanged for another one.
                    Err(FsError::NotFound) if hidden() != before => {}
                    Err(error) => return Err(error),
                }
            }
            // From here on nothing waits, so they count together.
            if hidden() == before {
                files.iter().for_each(|file| self.move_count(file, id));
                return Ok(());
            }
        }
    }

    fn move_count(&self, inode: &Rc<Inode>, id: QuotaId) {
        let quotas = &self.core.quotas;
        {
            let mut d = inode.d.borrow_mut();
            let is_device = d.flags & HIDDEN == 0 && matches!(d.kind(), mode::CHAR | mode::BLOCK);
            let gone = d.nlink == 0;
            if d.quota == id || is_device || gone {
                return;
            }
            let taken = d.quota_use();
            quotas.count_inode(d.quota, taken, false);
            quotas.count_inode(id, taken, true);
            d.quota = id;
        }
        self.core.mark_inode_dirty(inode);
        self.core.note_change();
    }
}

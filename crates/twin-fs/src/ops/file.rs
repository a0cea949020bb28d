//! Operations on file content: open, read, write, fsync, fallocate, seek.

use std::rc::Rc;

use super::Operations;
use crate::data::WriteAt;
use crate::data::read::read;
use crate::data::seek::seek;
use crate::inodes::Inode;
use crate::layout::SyncScope;
use crate::{Cred, Data, Fallocate, FsError, Ino, Reply, Result, SeekFor, mode, perm};

impl Operations {
    pub(crate) async fn op_open(
        &self,
        ino: Ino,
        read: bool,
        write: bool,
        truncate: bool,
        cred: &Cred,
        id: u64,
    ) -> Result<Reply> {
        let inode = self.files.inode(ino).await?;
        perm::may_open(&self.guarded(&inode, cred).await?, cred, read, write, truncate)?;
        // The open counts from here on, so that the inode is not freed while a truncation waits.
        self.core.change_refs(ino, |refs| refs.opens += 1);
        if truncate && inode.d.borrow().kind() == mode::REGULAR {
            let result = self.truncate_on_open(&inode, cred, id).await;
            if let Err(error) = result {
                return self.take_back_open(ino, error).await;
            }
        }
        if self.core.settings.file_types {
            let opened = self.open_as_type(&inode, read && !write).await;
            if let Err(error) = opened {
                return self.take_back_open(ino, error).await;
            }
        }
        Ok(Reply::Done)
    }

    /// Takes back an open that failed on its way. While it waited the inode may have lost its last
    /// name and all other users; then nobody else would free it.
    async fn take_back_open(&self, ino: Ino, error: FsError) -> Result<Reply> {
        self.core.change_refs(ino, |refs| refs.opens = refs.opens.saturating_sub(1));
        // The error of the open is the one to report: see `op_release`.
        let _ = self.orphans.reap(ino).await;
        Err(error)
    }

    /// What the attributes of a file say is done when it is opened.
    async fn open_as_type(&self, inode: &Rc<Inode>, reads: bool) -> Result<()> {
        let profile = self.profile(inode).await?;
        self.core.set_replacement(inode, &profile);
        match profile.rate_bytes_per_s.filter(|_| reads) {
            Some(rate) => self.streams.open(&self.core, inode, rate).await,
            None => Ok(()),
        }
    }

    async fn truncate_on_open(&self, inode: &Rc<Inode>, cred: &Cred, id: u64) -> Result<()> {
        let _alone = inode.lock.write().await;
        self.files.set_size(inode, 0, id, &|| self.note_write(inode, cred)).await
    }

    /// Updates the times and set-id bits of a file whose content changes.
    fn note_write(&self, inode: &Rc<Inode>, cred: &Cred) -> Result<()> {
        let mut attr = inode.attr();
        perm::after_write(&mut attr, cred, self.core.now());
        self.core.set_attributes(inode, &attr);
        Ok(())
    }

    pub(crate) async fn op_release(&self, ino: Ino) -> Result<Reply> {
        let refs = self.core.change_refs(ino, |refs| refs.opens = refs.opens.saturating_sub(1));
        self.streams.released(&self.core, ino, refs.opens);
        // The open is dropped even if the inode cannot be freed: see `op_forget`.
        let _ = self.orphans.reap(ino).await;
        Ok(Reply::Done)
    }

    /// The inode with this number, which must be a regular file.
    async fn regular(&self, ino: Ino) -> Result<Rc<Inode>> {
        let inode = self.files.inode(ino).await?;
        let kind = inode.d.borrow().kind();
        match kind {
            mode::REGULAR => Ok(inode),
            mode::DIRECTORY => Err(FsError::IsDirectory),
            _ => Err(FsError::Invalid("only a regular file has data")),
        }
    }

    pub(crate) async fn op_read(&self, ino: Ino, off: u64, len: u32) -> Result<Reply> {
        let inode = self.regular(ino).await?;
        let stream = self.streams.of(ino, off, self.core.geometry.block_size);
        if let Some(stream) = &stream {
            stream.begins(&self.core, off, off.saturating_add(len.into()));
        }
        let data = read(&self.core, &inode, off, len).await?;
        if let Some(stream) = &stream {
            let got: u64 = data.iter().map(|block| block.len() as u64).sum();
            stream.has_read(&self.core, off, off + got);
        }
        Ok(Reply::Data(data))
    }

    pub(crate) async fn op_write(
        &self,
        ino: Ino,
        place: WriteAt,
        data: &Data,
        by: Option<&Cred>,
        id: u64,
    ) -> Result<Reply> {
        let inode = self.regular(ino).await?;
        let written = match self.core.reading.is_some() {
            true => self.files.write_by_block(&inode, place, data, id, by).await?,
            false => self.files.write(&inode, place, data, id, by).await?,
        };
        Ok(Reply::Written(written))
    }

    pub(crate) async fn op_fsync(&self, ino: Ino, data_only: bool) -> Result<Reply> {
        let inode = self.files.inode(ino).await?;
        if self.core.settings.read_only {
            return Ok(Reply::Done);
        }
        self.core.check_writable()?;
        self.layout.sync(&self.core, SyncScope::File { inode: &inode, data_only }).await?;
        Ok(Reply::Done)
    }

    pub(crate) async fn op_fallocate(
        &self,
        ino: Ino,
        off: u64,
        len: u64,
        what: Fallocate,
        cred: &Cred,
        id: u64,
    ) -> Result<Reply> {
        let inode = self.regular(ino).await?;
        if len == 0 {
            return Err(FsError::Invalid("the length of a fallocate is zero"));
        }
        let _alone = inode.lock.write().await;
        self.files.fallocate(&inode, off, len, what, id, &|| self.note_write(&inode, cred)).await?;
        Ok(Reply::Done)
    }

    pub(crate) async fn op_seek(&self, ino: Ino, off: u64, what: SeekFor) -> Result<Reply> {
        let inode = self.regular(ino).await?;
        Ok(Reply::Offset(seek(&self.core, &inode, off, what).await?))
    }
}

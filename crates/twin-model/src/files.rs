//! The operations on the content of regular files.

use super::content::{Content, Grain};
use super::{Body, Call, Inode, ModelFs};
use twin_fs::{Data, Fallocate, FsError, Ino, Reply, Result, SeekFor, perm};

impl ModelFs {
    /// How the content of a file is changed by a call.
    pub(super) fn grain(&self, call: &Call<'_>, ino: Ino) -> Grain {
        Grain {
            block_size: u64::from(self.settings.block_size),
            inline_max: self.settings.inline_max,
            data: self.settings.data,
            ino,
            version: call.request.id,
        }
    }

    fn file(&self, ino: Ino) -> Result<(&Inode, &Content)> {
        let inode = self.inode(ino)?;
        match &inode.body {
            Body::File(content) => Ok((inode, content)),
            Body::Dir(_) => Err(FsError::IsDirectory),
            _ => Err(FsError::Invalid("not a regular file")),
        }
    }

    /// The end of a range, which must lie in what a file can be.
    fn range_end(&self, off: u64, len: u64) -> Result<u64> {
        let end = off.checked_add(len).filter(|end| *end <= self.settings.file_size_max);
        end.ok_or(FsError::FileTooBig)
    }

    pub(super) fn read(&self, ino: Ino, off: u64, len: u32) -> Result<Reply> {
        let (inode, content) = self.file(ino)?;
        let end = off.saturating_add(u64::from(len)).min(inode.attr.size);
        let block_size = u64::from(self.settings.block_size);
        Ok(Reply::Data(content.read(block_size, off, end)))
    }

    /// Changes a file's content, then its size and space, and if the change is made `now`, its
    /// times and set-id bits.
    fn change(
        &mut self,
        call: &Call<'_>,
        ino: Ino,
        now: bool,
        size: impl FnOnce(u64) -> u64,
        f: impl FnOnce(&mut Content, &Grain, u64),
    ) {
        let grain = self.grain(call, ino);
        let inode = self.edit(ino);
        let Body::File(content) = &mut inode.body else {
            unreachable!("inode {ino} was just seen to be a file")
        };
        f(content, &grain, inode.attr.size);
        inode.attr.size = size(inode.attr.size);
        inode.attr.blocks = content.sectors(&grain);
        if now {
            perm::after_write(&mut inode.attr, &call.request.cred, call.now);
        }
    }

    pub(super) fn write(
        &mut self,
        call: &Call<'_>,
        ino: Ino,
        off: u64,
        data: &Data,
        now: bool,
    ) -> Result<Reply> {
        self.file(ino)?;
        if data.is_empty() {
            return Ok(Reply::Written(0));
        }
        let end = self.range_end(off, data.len())?;
        self.change(
            call,
            ino,
            now,
            |size| size.max(end),
            |content, grain, size| {
                content.write(grain, size, off, data);
            },
        );
        Ok(Reply::Written(data.len()))
    }

    pub(super) fn fallocate(
        &mut self,
        call: &Call<'_>,
        ino: Ino,
        off: u64,
        len: u64,
        how: Fallocate,
    ) -> Result<Reply> {
        self.file(ino)?;
        if len == 0 {
            return Err(FsError::Invalid("an empty range"));
        }
        let end = self.range_end(off, len)?;
        let keep_size = match how {
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => keep_size,
            Fallocate::PunchHole => true,
        };
        let new_size = |size: u64| if keep_size { size } else { size.max(end) };
        if how != Fallocate::PunchHole && keep_size && end > self.inode(ino)?.attr.size {
            return Err(FsError::NotSupported("blocks beyond the end of a file"));
        }
        let fill = self.settings.promised_is_data && how != Fallocate::PunchHole;
        self.change(call, ino, true, new_size, |content, grain, size| {
            match how {
                Fallocate::Allocate { .. } => {}
                Fallocate::ZeroRange { .. } if fill => content.clear(grain, size, off, end),
                _ => content.zero(grain, size, off, end),
            }
            content.set_size(grain, size, new_size(size));
            if fill {
                content.fill(grain, off, end.min(new_size(size)));
            }
        });
        Ok(Reply::Done)
    }

    pub(super) fn seek(&self, ino: Ino, off: u64, what: SeekFor) -> Result<Reply> {
        let (inode, content) = self.file(ino)?;
        let size = inode.attr.size;
        if off >= size {
            return Err(FsError::NoSuchOffset);
        }
        let block_size = u64::from(self.settings.block_size);
        let found = match what {
            SeekFor::Data => content.next_data(block_size, off).filter(|at| *at < size),
            SeekFor::Hole => Some(content.next_hole(block_size, off).min(size)),
        };
        found.map(Reply::Offset).ok_or(FsError::NoSuchOffset)
    }
}

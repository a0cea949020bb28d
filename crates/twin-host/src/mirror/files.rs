//! Operations on the data of files.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use twin_disk::{Block, Buf, Stamp};
use twin_fs::{Data, Fallocate, Ino, Reply, Result, SeekFor};

use super::Mirror;

impl Mirror {
    pub(super) fn open_file(
        &self,
        ino: Ino,
        read: bool,
        write: bool,
        truncate: bool,
    ) -> Result<Reply, Errno> {
        if self.nodes.borrow().is_dir(ino)? {
            // Only to check the permission; the directory is read through another descriptor.
            self.reopen(ino, OFlags::RDONLY | OFlags::DIRECTORY)?;
        } else {
            self.open_data(ino, read, write, truncate)?;
        }
        self.nodes.borrow_mut().count_open(ino);
        Ok(Reply::Done)
    }

    fn open_data(&self, ino: Ino, read: bool, write: bool, truncate: bool) -> Result<(), Errno> {
        let mut files = self.nodes.borrow().files(ino)?;
        let extra = if truncate { OFlags::TRUNC } else { OFlags::empty() };
        // Opened anew each time, because the permission of each client counts.
        match (read, write) {
            (_, true) => match self.reopen(ino, OFlags::RDWR | extra) {
                Ok(file) => {
                    let file = Rc::new(file);
                    (files.read, files.write) = (Some(Rc::clone(&file)), Some(file));
                }
                Err(Errno::ACCESS) if !read => {
                    files.write = Some(Rc::new(self.reopen(ino, OFlags::WRONLY | extra)?));
                }
                Err(errno) => return Err(errno),
            },
            (_, false) => {
                let file = Rc::new(self.reopen(ino, OFlags::RDONLY | extra)?);
                files.read.get_or_insert(file);
            }
        }
        self.nodes.borrow_mut().keep_files(ino, files);
        Ok(())
    }

    fn reader(&self, ino: Ino) -> Result<Rc<OwnedFd>, Errno> {
        let mut files = self.nodes.borrow().files(ino)?;
        if let Some(file) = &files.read {
            return Ok(Rc::clone(file));
        }
        let file = Rc::new(self.reopen(ino, OFlags::RDONLY)?);
        files.read = Some(Rc::clone(&file));
        self.nodes.borrow_mut().keep_files(ino, files);
        Ok(file)
    }

    fn writer(&self, ino: Ino) -> Result<Rc<OwnedFd>, Errno> {
        let mut files = self.nodes.borrow().files(ino)?;
        if let Some(file) = &files.write {
            return Ok(Rc::clone(file));
        }
        let file = Rc::new(self.reopen(ino, OFlags::WRONLY)?);
        files.write = Some(Rc::clone(&file));
        self.nodes.borrow_mut().keep_files(ino, files);
        Ok(file)
    }

    pub(super) fn read(&self, ino: Ino, off: u64, len: usize) -> Result<Reply, Errno> {
        let file = self.reader(ino)?;
        let mut buf = Buf::zeroed(len);
        let mut done = 0;
        while done < len {
            match rustix::io::pread(&*file, &mut buf[done..], off + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        buf.truncate(done);
        Ok(Reply::Data(vec![Block::Bytes(buf.freeze())]))
    }

    /// Writes at an offset, or behind the end that the file has at that moment, whoever changes it.
    pub(super) fn write(
        &self,
        id: u64,
        ino: Ino,
        off: Option<u64>,
        data: &Data,
    ) -> Result<Reply, Errno> {
        let file = self.writer(ino)?;
        let bytes = match data {
            Data::Bytes(bytes) => bytes.clone(),
            // The data that the trace's client wrote was not zeros.
            Data::Synthetic(len) => {
                let stamp = Stamp { ino, lbn: 0, version: id, off: 0, len: *len as u32 };
                Block::Stamp(stamp).to_bytes()
            }
        };
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let written = match off {
                Some(off) => rustix::io::pwrite(&*file, rest, off + done as u64),
                None => {
                    let pieces = [IoSlice::new(rest)];
                    rustix::io::pwritev2(&*file, &pieces, 0, ReadWriteFlags::APPEND)
                }
            };
            match written {
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                // A partial write is a success.
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(Reply::Written(done as u64))
    }

    /// A descriptor of a file's data, or of a directory, that can be synced.
    fn to_sync(&self, ino: Ino) -> Result<Rc<OwnedFd>, Errno> {
        let files = self.nodes.borrow().files(ino)?;
        Ok(match (files.write, files.read) {
            (Some(file), _) | (None, Some(file)) => file,
            (None, None) => Rc::new(self.reopen(ino, OFlags::RDONLY)?),
        })
    }

    /// A descriptor of one's own for a file's data, or for a directory, to sync it on another thread.
    ///
    /// # Errors
    /// If the inode is not known, or the host refuses.
    pub fn descriptor(&self, ino: Ino) -> std::io::Result<OwnedFd> {
        Ok(rustix::io::dup(&*self.to_sync(ino)?)?)
    }

    pub(super) fn fsync(&self, ino: Ino, data_only: bool) -> Result<Reply, Errno> {
        let file = self.to_sync(ino)?;
        if data_only { rustix::fs::fdatasync(&*file) } else { rustix::fs::fsync(&*file) }?;
        Ok(Reply::Done)
    }

    pub(super) fn fallocate(
        &self,
        ino: Ino,
        off: u64,
        len: u64,
        mode: Fallocate,
    ) -> Result<Reply, Errno> {
        let keep = |keep_size| {
            if keep_size { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() }
        };
        let flags = match mode {
            Fallocate::Allocate { keep_size } => keep(keep_size),
            Fallocate::PunchHole => FallocateFlags::PUNCH_HOLE | keep(true),
            Fallocate::ZeroRange { keep_size } => FallocateFlags::ZERO_RANGE | keep(keep_size),
        };
        rustix::fs::fallocate(&*self.writer(ino)?, flags, off, len)?;
        Ok(Reply::Done)
    }

    pub(super) fn seek(&self, ino: Ino, off: u64, what: SeekFor) -> Result<Reply, Errno> {
        let from = match what {
            SeekFor::Data => SeekFrom::Data(off),
            SeekFor::Hole => SeekFrom::Hole(off),
        };
        Ok(Reply::Offset(rustix::fs::seek(&*self.reader(ino)?, from)?))
    }
}

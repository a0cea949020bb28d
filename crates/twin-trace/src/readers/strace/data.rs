//! Calls that read, write, allocate and make durable.
//!
//! Contract: a read has the length that the text tells, and the file is as long as it shows; a write is where
//! the file was, or at its end with O_APPEND. Long transfers are made in pieces of a MiB, as a kernel does.

use twin_fs::{Fallocate, Ino, Op};

use super::args::{field, unsigned};
use super::call::Call;
use super::maker::Maker;
use super::table::OpenFile;
use super::world::{FARTHEST, Step, Stop};
use crate::record::Outcome;

/// The longest read or write.
const PIECE: u64 = 1 << 20;
/// The most bytes that a call of Linux moves.
const MOST_MOVED: u64 = 1 << 31;
/// The most bytes of a clone that are written.
const MOST_CLONED: u64 = 1 << 36;

/// The place in a file at which a transfer happens.
#[derive(Clone, Copy)]
enum Place {
    /// The transfer happens at the position of the open file.
    Here,
    At(u64),
}

impl Maker {
    /// Calls that move data or change where it is; `None` for others.
    pub(super) fn of_data(&mut self, call: &Call, pid: u32) -> Option<Step<()>> {
        Some(match call.name.as_str() {
            "read" => self.reads(call, pid, call.number(2), Place::Here),
            "readv" => self.reads(call, pid, call.vector_bytes(1), Place::Here),
            "pread64" | "pread" => self.reads(call, pid, call.number(2), place(call, 3)),
            "preadv" | "preadv2" => self.reads(call, pid, call.vector_bytes(1), place(call, 3)),
            "write" | "writev" => self.writes(call, pid, Place::Here, false),
            "pwrite64" | "pwrite" | "pwritev" => self.writes(call, pid, place(call, 3), false),
            "pwritev2" => {
                let appends = call.has(4, "RWF_APPEND", 0x10);
                self.writes(call, pid, place(call, 3), appends)
            }
            "sendfile" | "sendfile64" => {
                self.transfer(call, pid, (1, place(call, 2)), (0, Place::Here))
            }
            "copy_file_range" => self.transfer(call, pid, (0, place(call, 1)), (2, place(call, 3))),
            "splice" => self.transfer(call, pid, (0, place(call, 1)), (2, place(call, 3))),
            "io_submit" => self.submit(call, pid),
            "ioctl" => return self.ioctl(call, pid),
            "lseek" | "_llseek" | "llseek" => self.seek(call, pid),
            "fsync" | "fdatasync" => {
                let data_only = call.name == "fdatasync";
                let ino = self.file(call, pid, 0).map(|(_, file)| file.ino);
                ino.and_then(|ino| self.sync(call, pid, Op::Fsync { ino, data_only }))
            }
            "sync" | "syncfs" => self.sync(call, pid, Op::Sync),
            "ftruncate" | "ftruncate64" => self.truncates(call, pid),
            "fallocate" => self.allocates(call, pid),
            "getdents" | "getdents64" => self.lists(call, pid),
            _ => return None,
        })
    }

    fn reads(&mut self, call: &Call, pid: u32, wanted: Option<u64>, place: Place) -> Step<()> {
        let (at, file) = self.file(call, pid, 0)?;
        let got = got(call)?;
        self.read(at, file, place, wanted, got)
    }

    /// Reads `got` of the bytes that were wanted.
    fn read(
        &mut self,
        at: usize,
        file: OpenFile,
        place: Place,
        wanted: Option<u64>,
        got: u64,
    ) -> Step<()> {
        let ino = file.ino;
        let off = match place {
            Place::At(off) => off,
            Place::Here => file.at.unwrap_or(0),
        };
        let end = end_of(off, got)?;
        if let (Place::Here, Some(file)) = (place, self.processes.file(at)) {
            file.at = Some(end);
        }
        match wanted {
            // Fewer bytes than were wanted: the file ends there.
            Some(wanted) if got < wanted && got > 0 => self.world.has_size(ino, end),
            Some(wanted) if got < wanted && self.world.tree.inode(ino).size > off => {
                self.world.has_size(ino, off);
            }
            _ if got > 0 => self.world.has_at_least(ino, end),
            _ => {}
        }
        let mut off = off;
        // A read at the end is a read, too; of how many bytes is not known to matter.
        loop {
            let len = (end - off).min(PIECE);
            let op = Op::Read { ino, off, len: len.max(1) as u32 };
            self.world.tree.op(op, Outcome::Data(len));
            off += len;
            if off == end {
                return Ok(());
            }
        }
    }

    fn writes(&mut self, call: &Call, pid: u32, place: Place, appends: bool) -> Step<()> {
        let (at, file) = self.file(call, pid, 0)?;
        let put = got(call)?;
        let file = OpenFile { appends: file.appends || appends, ..file };
        self.write(at, file, place, put)
    }

    fn write(&mut self, at: usize, file: OpenFile, place: Place, put: u64) -> Step<()> {
        let OpenFile { ino, appends, at: here, .. } = file;
        let size = self.world.tree.inode(ino).size;
        let off = match (place, here) {
            // Linux appends even where a place is given.
            _ if appends => size,
            (Place::At(off), _) | (Place::Here, Some(off)) => off,
            (Place::Here, None) => size,
        };
        let end = end_of(off, put)?;
        if let (Place::Here, Some(file)) = (place, self.processes.file(at)) {
            file.at = Some(end);
        }
        if appends {
            let inode = self.world.tree.inode_mut(ino);
            inode.appended = inode.appended.saturating_add(put);
        }
        self.write_at(ino, off, end);
        Ok(())
    }

    fn write_at(&mut self, ino: Ino, mut off: u64, end: u64) {
        while off < end {
            let len = (end - off).min(PIECE);
            self.world.tree.write(ino, off, len);
            off += len;
        }
    }

    /// Moves data between two descriptors, of which one may be no file.
    fn transfer(
        &mut self,
        call: &Call,
        pid: u32,
        (from, from_place): (usize, Place),
        (to, to_place): (usize, Place),
    ) -> Step<()> {
        let moved = got(call)?;
        // If nothing was moved, the source has ended.
        let wanted = (moved == 0 && call.name != "splice").then_some(1);
        let source = self.file(call, pid, from);
        let read = source.and_then(|(at, file)| self.read(at, file, from_place, wanted, moved));
        let target = self.file(call, pid, to);
        let written = target.and_then(|(at, file)| self.write(at, file, to_place, moved));
        match (read, written) {
            (Err(why @ Stop::Left(_)), _) | (_, Err(why @ Stop::Left(_))) => Err(why),
            (Ok(()), _) | (_, Ok(())) => Ok(()),
            (no, _) => no,
        }
    }

    /// Asynchronous reads and writes, which the text tells when they are asked for.
    fn submit(&mut self, call: &Call, pid: u32) -> Step<()> {
        let count = usize::try_from(got(call)?).unwrap_or(0);
        self.world
            .reading
            .assume("asynchronous reads and writes (io_submit) were done as they were asked for");
        let mut done = Err(Stop::NoFile);
        for block in call.arg(2).split("{aio_").skip(1).take(count) {
            let part = format!("aio_{block}");
            let number = |name| field(&part, name).and_then(unsigned);
            let (Some(fd), Some(bytes)) = (field(&part, "aio_fildes"), number("aio_nbytes")) else {
                return Err(Stop::Left("calls that cannot be read"));
            };
            if bytes > MOST_MOVED {
                return Err(Stop::Left("calls that moved more than a call can"));
            }
            let place = Place::At(number("aio_offset").unwrap_or(0));
            let (fd, path) = super::args::descriptor(fd).ok_or(Stop::NoFile)?;
            let found = self.file_of(pid, fd, path);
            let command = field(&part, "aio_lio_opcode").unwrap_or_default();
            let step = found.and_then(|(at, file)| {
                if command.starts_with("IOCB_CMD_PREAD") {
                    self.read(at, file, place, None, bytes)
                } else if command.starts_with("IOCB_CMD_PWRITE") {
                    self.write(at, file, place, bytes)
                } else {
                    Err(Stop::Left("calls of a kind that is not known"))
                }
            });
            match step {
                Ok(()) if done == Err(Stop::NoFile) => done = Ok(()),
                Err(why @ Stop::Left(_)) => done = Err(why),
                _ => {}
            }
        }
        done
    }

    /// Clones share the data of another file, which a trace cannot express: it is written.
    fn ioctl(&mut self, call: &Call, pid: u32) -> Option<Step<()>> {
        let command = call.arg(1);
        let is_range =
            command.contains("FICLONERANGE") || command.contains("BTRFS_IOC_CLONE_RANGE");
        if is_range || command.contains("FICLONE") || command.contains("BTRFS_IOC_CLONE") {
            return Some(self.clones(call, pid, is_range));
        }
        let changes =
            ["FS_IOC_", "EXT4_IOC_", "BTRFS_IOC_", "XFS_IOC_", "FIDEDUPERANGE", "F2FS_IOC_"];
        let asks = ["_GET", "FIEMAP", "FSGETXATTR", "SPACE_INFO", "FS_INFO", "SEARCH"];
        let is_change = changes.iter().any(|name| command.contains(name))
            && !asks.iter().any(|name| command.contains(name));
        if call.result.is_some() && is_change {
            return Some(Err(Stop::Left(
                "calls that change a file system in a way that is not known",
            )));
        }
        Some(Err(Stop::NoFile))
    }

    fn clones(&mut self, call: &Call, pid: u32, is_range: bool) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let (_, to) = self.file(call, pid, 0)?;
        let number = |name| call.field(name).and_then(unsigned).unwrap_or(0);
        let from = match is_range {
            true => super::args::descriptor(call.field("src_fd").unwrap_or_default()),
            false => call.descriptor(2),
        };
        let (fd, path) = from.ok_or(Stop::Left("calls that cannot be read"))?;
        let (_, source) = self.file_of(pid, fd, path)?;
        let size = self.world.tree.inode(source.ino).size;
        let (from, off) = (number("src_offset"), number("dest_offset"));
        let len = match number("src_length") {
            0 => size.saturating_sub(from),
            len => len,
        };
        let end = end_of(off, len)?;
        if len > MOST_CLONED {
            return Err(Stop::Left("calls that clone more than 64 GiB"));
        }
        self.world
            .reading
            .assume_of(1, "clones of files (FICLONE) are written out, as nothing is shared");
        self.write_at(to.ino, off, end);
        Ok(())
    }

    fn seek(&mut self, call: &Call, pid: u32) -> Step<()> {
        let result = call.result.ok_or(Stop::Failed)?;
        let to = match call.name.as_str() {
            "lseek" => u64::try_from(result).map_err(|_| Stop::Failed)?,
            _ => call.number(2).ok_or(Stop::Left("calls that cannot be read"))?,
        };
        // A place in what is not known changes no file.
        let (at, file) = self.file(call, pid, 0).map_err(|_| Stop::NoFile)?;
        let whence = if call.name == "lseek" { 2 } else { 3 };
        if let Some(off) = call.number(1).filter(|_| call.has(whence, "SEEK_END", 2))
            && let Some(size) = to.checked_sub(off)
        {
            self.world.has_size(file.ino, size);
        }
        if let Some(file) = self.processes.file(at) {
            file.at = Some(to);
        }
        Ok(())
    }

    fn truncates(&mut self, call: &Call, pid: u32) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let (_, file) = self.file(call, pid, 0)?;
        let size = call.number(1).ok_or(Stop::Left("calls that cannot be read"))?;
        self.truncate(file.ino, size)
    }

    pub(super) fn truncate(&mut self, ino: Ino, size: u64) -> Step<()> {
        end_of(0, size)?;
        self.world.is_cut(ino, size);
        self.world.resize(ino, size);
        Ok(())
    }

    fn allocates(&mut self, call: &Call, pid: u32) -> Step<()> {
        call.result.ok_or(Stop::Failed)?;
        let (_, OpenFile { ino, .. }) = self.file(call, pid, 0)?;
        let bad = Stop::Left("calls that cannot be read");
        let (off, len) = (call.number(2).ok_or(bad)?, call.number(3).ok_or(bad)?);
        let end = end_of(off, len)?;
        let has = |name, bits| call.has(1, name, bits);
        let keep_size = has("FALLOC_FL_KEEP_SIZE", 1);
        let size = self.world.tree.inode(ino).size;
        if has("FALLOC_FL_COLLAPSE_RANGE", 8) || has("FALLOC_FL_INSERT_RANGE", 0x20) {
            let what =
                "ranges were taken out of files or put into them: only the lengths change here";
            self.world.reading.assume_of(1, what);
            let size = match has("FALLOC_FL_COLLAPSE_RANGE", 8) {
                true => size.saturating_sub(len),
                false => size.saturating_add(len),
            };
            return self.truncate(ino, size);
        }
        let mode = if has("FALLOC_FL_PUNCH_HOLE", 2) {
            Fallocate::PunchHole
        } else if has("FALLOC_FL_ZERO_RANGE", 0x10) {
            Fallocate::ZeroRange { keep_size }
        } else {
            Fallocate::Allocate { keep_size }
        };
        if !keep_size && mode != Fallocate::PunchHole && end > size {
            self.world.tree.set_size(ino, end);
        }
        self.world.tree.op(Op::Fallocate { ino, off, len, mode }, Outcome::Done);
        Ok(())
    }

    fn lists(&mut self, call: &Call, pid: u32) -> Step<()> {
        if call.result.ok_or(Stop::Failed)? == 0 {
            return Err(Stop::Failed);
        }
        let (_, file) = self.file(call, pid, 0)?;
        if !self.world.is_kind(file.ino, twin_fs::mode::DIRECTORY) {
            return Err(Stop::Left("calls on what is no directory"));
        }
        self.world.tree.list(file.ino);
        Ok(())
    }
}

/// The place that an argument gives: none, or -1, is where the file is.
fn place(call: &Call, arg: usize) -> Place {
    call.number(arg).map_or(Place::Here, Place::At)
}

/// The bytes that a call moved.
fn got(call: &Call) -> Step<u64> {
    let got = u64::try_from(call.result.ok_or(Stop::Failed)?).map_err(|_| Stop::Failed)?;
    match got {
        0..=MOST_MOVED => Ok(got),
        _ => Err(Stop::Left("calls that moved more than a call can")),
    }
}

fn end_of(off: u64, len: u64) -> Step<u64> {
    let end = off.checked_add(len).filter(|end| *end <= FARTHEST);
    end.ok_or(Stop::Left("calls beyond a PiB"))
}

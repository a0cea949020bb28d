//! Bytes to records. The input may be damaged: each function returns a reason instead of panicking,
//! and allocates no more memory than the frame has bytes (except for values of extended attributes
//! that were not kept, at most [`MAX_VALUE`] zeros).

use twin_disk::Bytes;
use twin_fs::{
    Cred, Data, Fallocate, Ino, Name, Op, RenameMode, Request, SeekFor, SetAttr, SetTime,
    Timestamp, XattrMode,
};
use twin_rt::Nanos;

use super::{
    APPEND, ClientCred, Context, MAX_GROUPS, MAX_NAME, MAX_VALUE, MAX_WHO, MAX_WRITE, column,
    outcome, tag,
};
use crate::record::{DirOutcome, ErrorCode, Node, NodeAttr, Outcome, Verb};
use crate::varint::{Bad, Cursor};

type Result<T> = std::result::Result<T, Bad>;

/// Decodes the records of one frame at a time.
pub(crate) struct Decoder {
    payload: Vec<u8>,
    columns: [Cursor; column::COUNT],
    context: Context,
    table: Vec<ClientCred>,
}

impl Decoder {
    pub(crate) fn new() -> Decoder {
        Decoder {
            payload: Vec::new(),
            columns: Default::default(),
            context: Context::new(),
            table: Vec::new(),
        }
    }

    /// The buffer for the payload of the next frame, to be filled before [`start`](Self::start).
    pub(crate) fn payload_mut(&mut self) -> &mut Vec<u8> {
        &mut self.payload
    }

    /// Starts a frame whose columns have these lengths, one after the other.
    pub(crate) fn start(&mut self, lens: &[u32; column::COUNT], at_ns: Nanos, request: u64) {
        let mut pos = 0usize;
        for (cursor, &len) in self.columns.iter_mut().zip(lens) {
            let end = (pos + len as usize).min(self.payload.len());
            *cursor = Cursor::new(pos, end);
            pos = end;
        }
        self.context.start(at_ns, request);
        self.table.clear();
    }

    /// The number of the last request.
    pub(crate) fn request_number(&self) -> u64 {
        self.context.request
    }

    /// The code and flags of the next record; `None` at the end of the frame.
    pub(crate) fn next_tag(&mut self) -> Result<Option<(u8, u8)>> {
        if self.columns[column::TAG].left() == 0 {
            return Ok(None);
        }
        let byte = self.columns[column::TAG].byte(&self.payload)?;
        Ok(Some((byte & ((1 << tag::FLAG_SHIFT) - 1), byte >> tag::FLAG_SHIFT)))
    }

    /// Checks that nothing is left over at the end of a frame.
    pub(crate) fn finish(&self) -> Result<()> {
        let left = self.columns.iter().any(|cursor| cursor.left() > 0);
        if left { Err("a column is longer than its records") } else { Ok(()) }
    }

    fn get(&mut self, column: usize) -> Result<u64> {
        self.columns[column].number(&self.payload)
    }

    fn get32(&mut self, column: usize) -> Result<u32> {
        self.columns[column].number32(&self.payload)
    }

    fn get_delta(&mut self, column: usize, base: u64) -> Result<u64> {
        self.columns[column].delta(&self.payload, base)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        self.get(column::NUMBER)
    }

    pub(crate) fn signed(&mut self) -> Result<i64> {
        self.get_delta(column::NUMBER, 0).map(|value| value as i64)
    }

    pub(crate) fn number32(&mut self) -> Result<u32> {
        self.get32(column::NUMBER)
    }

    pub(crate) fn reply_number(&mut self) -> Result<u64> {
        self.get(column::REPLY)
    }

    pub(crate) fn time(&mut self) -> Result<Nanos> {
        let delta = self.get(column::TIME)?;
        let at_ns = self.context.at_ns.checked_add(delta).ok_or("a time past the end of time")?;
        self.context.at_ns = at_ns;
        Ok(at_ns)
    }

    pub(crate) fn content(&mut self, len: u64) -> Result<&[u8]> {
        self.columns[column::CONTENT].bytes(&self.payload, len)
    }

    fn name(&mut self) -> Result<Name> {
        let len = self.get(column::NAME)?;
        if len > MAX_NAME {
            return Err("a name that is too long");
        }
        Ok(self.columns[column::NAME].bytes(&self.payload, len)?.into())
    }

    fn ino(&mut self) -> Result<Ino> {
        self.context.ino = self.get_delta(column::INO, self.context.ino)?;
        Ok(self.context.ino)
    }

    fn dir(&mut self) -> Result<Ino> {
        self.context.dir = self.get_delta(column::INO, self.context.dir)?;
        Ok(self.context.dir)
    }

    fn entry(&mut self) -> Result<Ino> {
        let ino = self.get_delta(column::INO, self.context.entry)?;
        (self.context.entry, self.context.ino) = (ino, ino);
        Ok(ino)
    }

    /// The request whose tag was read, with its time.
    #[inline]
    pub(crate) fn request(&mut self, code: u8, flags: u8) -> Result<(Nanos, Request)> {
        let verb = Verb::from_code(code).ok_or("a record of an unknown kind")?;
        self.context.request = self.context.request.wrapping_add(1);
        let op = self.op(verb, flags)?;
        let at_ns = self.time()?;
        let index = self.who()?;
        let ClientCred { client, cred } = &self.table[index];
        let (client, cred) = (*client, cred.clone());
        Ok((at_ns, Request { id: self.context.request, client, cred, op }))
    }

    /// The request whose tag was read, with its own number.
    pub(crate) fn arrival(&mut self, code: u8, flags: u8) -> Result<Request> {
        let before = self.context.request;
        let (_, mut request) = self.request(code, flags)?;
        request.id = self.get_delta(column::REPLY, before)?;
        self.context.request = request.id;
        Ok(request)
    }

    /// The number of a completed device request.
    pub(crate) fn io(&mut self) -> Result<u64> {
        self.context.io = self.get_delta(column::REPLY, self.context.io)?;
        Ok(self.context.io)
    }

    /// A text, which must be valid UTF-8.
    pub(crate) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.name()?.into()).map_err(|_| "a text that is not UTF-8")
    }

    /// Bytes left in the column of numbers: an upper bound of how many numbers follow.
    pub(crate) fn numbers_left(&self) -> u64 {
        self.columns[column::NUMBER].left() as u64
    }

    /// The client of a request: a place in the table.
    fn who(&mut self) -> Result<usize> {
        let index = match self.get(column::WHO)? {
            0 => self.context.who,
            n if n - 1 < self.table.len() as u64 => (n - 1) as usize,
            n if n - 1 == self.table.len() as u64 && self.table.len() < MAX_WHO => {
                let who = self.new_who()?;
                self.table.push(who);
                self.table.len() - 1
            }
            _ => return Err("a client out of its turn"),
        };
        if index >= self.table.len() {
            return Err("the first request has no client");
        }
        self.context.who = index;
        Ok(index)
    }

    fn new_who(&mut self) -> Result<ClientCred> {
        let before = self.table.last().map_or(0, |who| who.client);
        let client = self.get_delta(column::WHO, u64::from(before))?;
        let client = u32::try_from(client).map_err(|_| "a client of more than 32 bits")?;
        let (uid, gid) = (self.get32(column::WHO)?, self.get32(column::WHO)?);
        let count = self.get(column::WHO)?;
        let checked = count & 1 == 1;
        // Each group takes at least one byte, so a false count cannot request much memory.
        if count >> 1 > MAX_GROUPS.min(self.columns[column::WHO].left() as u64) {
            return Err("too many groups");
        }
        let groups: Result<Box<[u32]>> = (0..count >> 1).map(|_| self.get32(column::WHO)).collect();
        Ok(ClientCred { client, cred: Cred { uid, gid, groups: groups?, checked } })
    }

    fn op(&mut self, verb: Verb, flags: u8) -> Result<Op> {
        Ok(match verb {
            Verb::Lookup => Op::Lookup { dir: self.dir()?, name: self.name()? },
            Verb::MakeNode => {
                let (dir, name, mode) = self.make()?;
                Op::MakeNode { dir, name, mode, rdev: self.number()? }
            }
            Verb::MakeDir => {
                let (dir, name, mode) = self.make()?;
                Op::MakeDir { dir, name, mode }
            }
            Verb::Symlink => {
                Op::Symlink { dir: self.dir()?, name: self.name()?, target: self.name()? }
            }
            Verb::Create => {
                let (dir, name, mode) = self.make()?;
                Op::Create { dir, name, mode, exclusive: flags & 1 == 1 }
            }
            Verb::Unlink => Op::Unlink { dir: self.dir()?, name: self.name()? },
            Verb::RemoveDir => Op::RemoveDir { dir: self.dir()?, name: self.name()? },
            Verb::Rename => {
                let (dir, name) = (self.dir()?, self.name()?);
                let (to_dir, to_name) = (self.dir()?, self.name()?);
                Op::Rename { dir, name, to_dir, to_name, mode: rename_mode(flags)? }
            }
            Verb::Link => Op::Link { ino: self.ino()?, dir: self.dir()?, name: self.name()? },
            _ => return self.inode_op(verb, flags),
        })
    }

    /// The operations that name an inode but no name in a directory, and those that name neither.
    fn inode_op(&mut self, verb: Verb, flags: u8) -> Result<Op> {
        let flag = |bit: u32| flags >> bit & 1 == 1;
        Ok(match verb {
            Verb::Forget => Op::Forget { ino: self.ino()?, count: self.number()? },
            Verb::GetAttr => Op::GetAttr { ino: self.ino()? },
            Verb::SetAttr => Op::SetAttr { ino: self.ino()?, set: self.set_attr()? },
            Verb::ReadLink => Op::ReadLink { ino: self.ino()? },
            Verb::Open => {
                let (read, write, truncate) = (flag(0), flag(1), flag(2));
                Op::Open { ino: self.ino()?, read, write, truncate }
            }
            Verb::Release => Op::Release { ino: self.ino()? },
            Verb::Read => {
                let (ino, off, len) = self.access(flag(0))?;
                let len = u32::try_from(len).map_err(|_| "a read of more than 32 bits")?;
                Op::Read { ino, off, len }
            }
            Verb::Write => {
                let (ino, off, len) = self.access(flag(0))?;
                let data = self.data(len, flag(1))?;
                match (flag(2), off) {
                    (false, _) => Op::Write { ino, off, data },
                    (true, APPEND) => {
                        let off = self.get(column::OFFSET)?;
                        self.context.accessed(ino, off, len);
                        Op::Append { ino, off, data }
                    }
                    (true, _) => Op::WriteBack { ino, off, data },
                }
            }
            Verb::Fsync => Op::Fsync { ino: self.ino()?, data_only: flag(0) },
            Verb::ReadDir => {
                let dir = self.dir()?;
                let from = self.context.cookie;
                let cookie = if flag(1) { 0 } else { self.get_delta(column::OFFSET, from)? };
                Op::ReadDir { dir, cookie, max_bytes: self.number32()?, plus: flag(0) }
            }
            Verb::StatFs => Op::StatFs,
            Verb::Access => Op::Access { ino: self.ino()?, mask: self.number32()? },
            Verb::SetXattr => self.set_xattr(flags)?,
            Verb::GetXattr => Op::GetXattr { ino: self.ino()?, name: self.name()? },
            Verb::ListXattr => Op::ListXattr { ino: self.ino()? },
            Verb::RemoveXattr => Op::RemoveXattr { ino: self.ino()?, name: self.name()? },
            Verb::Fallocate => {
                let (ino, off, len) = (self.ino()?, self.get(column::OFFSET)?, self.number()?);
                let keep_size = flag(0);
                let mode = match flags >> 1 {
                    0 => Fallocate::Allocate { keep_size },
                    1 => Fallocate::ZeroRange { keep_size },
                    _ => Fallocate::PunchHole,
                };
                Op::Fallocate { ino, off, len, mode }
            }
            Verb::Seek => {
                let what = if flag(0) { SeekFor::Hole } else { SeekFor::Data };
                Op::Seek { ino: self.ino()?, off: self.get(column::OFFSET)?, what }
            }
            Verb::Sync => Op::Sync,
            Verb::Lookup
            | Verb::MakeNode
            | Verb::MakeDir
            | Verb::Symlink
            | Verb::Create
            | Verb::Unlink
            | Verb::RemoveDir
            | Verb::Rename
            | Verb::Link => unreachable!("dealt with by the caller"),
        })
    }

    fn make(&mut self) -> Result<(Ino, Name, u32)> {
        Ok((self.dir()?, self.name()?, self.number32()?))
    }

    fn access(&mut self, predicted: bool) -> Result<(Ino, u64, u64)> {
        let ino = self.ino()?;
        let guess = self.context.predicted(ino);
        let off = if predicted { guess } else { self.get_delta(column::OFFSET, guess)? };
        let len = self.number()?;
        self.context.accessed(ino, off, len);
        Ok((ino, off, len))
    }

    fn data(&mut self, len: u64, kept: bool) -> Result<Data> {
        if kept {
            return Ok(Data::Bytes(Bytes::copy_of(self.content(len)?)));
        }
        if len > MAX_WRITE {
            return Err("a write that is too long");
        }
        Ok(Data::Synthetic(len))
    }

    fn set_xattr(&mut self, flags: u8) -> Result<Op> {
        let (ino, name, len) = (self.ino()?, self.name()?, self.number()?);
        if len > MAX_VALUE {
            return Err("an attribute value that is too long");
        }
        let kept = flags >> 2 & 1 == 1;
        let value = if kept { self.content(len)?.into() } else { vec![0; len as usize].into() };
        let mode = match flags & 3 {
            0 => XattrMode::Any,
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => return Err("an unknown mode of setting an attribute"),
        };
        Ok(Op::SetXattr { ino, name, value, mode })
    }

    fn set_attr(&mut self) -> Result<SetAttr> {
        let mask = self.number()?;
        let has = |bit: u32| mask >> bit & 1 == 1;
        let mut set = SetAttr::default();
        for (bit, field) in [&mut set.mode, &mut set.uid, &mut set.gid].into_iter().enumerate() {
            if has(bit as u32) {
                *field = Some(self.number32()?);
            }
        }
        if has(3) {
            set.size = Some(self.number()?);
        }
        set.atime = self.set_time(has(4), has(7))?;
        set.mtime = self.set_time(has(5), has(8))?;
        if has(6) {
            set.ctime = Some(self.timestamp()?);
        }
        Ok(set)
    }

    fn set_time(&mut self, there: bool, now: bool) -> Result<Option<SetTime>> {
        Ok(match (there, now) {
            (false, _) => None,
            (true, true) => Some(SetTime::Now),
            (true, false) => Some(SetTime::At(self.timestamp()?)),
        })
    }

    fn timestamp(&mut self) -> Result<Timestamp> {
        let secs = self.get_delta(column::NUMBER, 0)? as i64;
        let nanos = self.number32()?;
        if nanos >= 1_000_000_000 {
            return Err("a timestamp with a second of nanoseconds or more");
        }
        Ok(Timestamp { secs, nanos })
    }

    /// The node whose tag was read.
    pub(crate) fn node(&mut self, flags: u8) -> Result<Node> {
        let (dir, name, ino) = (self.dir()?, self.name()?, self.entry()?);
        let mode = self.number32()?;
        let attr = match flags & 3 {
            0 => None,
            1 | 3 => {
                let (nlink, uid, gid) = (self.number32()?, self.number32()?, self.number32()?);
                let (rdev, size) = (self.number()?, self.number()?);
                let allocated = if flags & 2 != 0 { self.number()? } else { size };
                Some(NodeAttr { nlink, uid, gid, rdev, size, allocated })
            }
            _ => return Err("an unknown kind of node"),
        };
        Ok(Node { dir, name, ino, mode, attr })
    }

    /// The answer whose tag was read: its time, the number of the request, and the outcome.
    pub(crate) fn reply(&mut self, flags: u8) -> Result<(Nanos, u64, Outcome)> {
        let at_ns = self.time()?;
        let back = if flags & 1 == 1 { 0 } else { self.reply_number()? };
        // Requests are numbered from 1, so an answer to request 0 or before belongs to no request.
        let id = self.context.request.checked_sub(back).filter(|&id| id > 0);
        let id = id.ok_or("an answer to no request")?;
        let code = self.columns[column::REPLY].byte(&self.payload)?;
        let asked = self.context.len;
        let outcome = match code {
            outcome::DONE => Outcome::Done,
            outcome::ENTRY => Outcome::Entry(self.entry()?),
            outcome::ATTR => Outcome::Attr,
            outcome::DATA => Outcome::Data(self.get_delta(column::REPLY, asked)?),
            outcome::BYTES => Outcome::Bytes(self.reply_number()?),
            outcome::WRITTEN => Outcome::Written(self.get_delta(column::REPLY, asked)?),
            outcome::DIR => Outcome::Dir(self.dir_outcome()?),
            outcome::OFFSET => Outcome::Offset(self.get(column::OFFSET)?),
            _ => {
                let error = code.checked_sub(outcome::FAILED).and_then(ErrorCode::from_code);
                Outcome::Failed(error.ok_or("an unknown kind of answer")?)
            }
        };
        Ok((at_ns, id, outcome))
    }

    fn dir_outcome(&mut self) -> Result<DirOutcome> {
        let entries = self.get32(column::REPLY)?;
        let count = self.get(column::REPLY)?;
        if count > self.columns[column::INO].left() as u64 {
            return Err("a listing longer than its column");
        }
        let next = self.get_delta(column::OFFSET, self.context.cookie)?;
        self.context.cookie = next;
        let mut referenced = Vec::with_capacity(count as usize);
        for _ in 0..count {
            self.context.entry = self.get_delta(column::INO, self.context.entry)?;
            referenced.push(self.context.entry);
        }
        Ok(DirOutcome { entries, next, referenced })
    }
}

fn rename_mode(flags: u8) -> Result<RenameMode> {
    match flags {
        0 => Ok(RenameMode::Replace),
        1 => Ok(RenameMode::NoReplace),
        2 => Ok(RenameMode::Exchange),
        3 => Ok(RenameMode::Whiteout),
        4 => Ok(RenameMode::WhiteoutNoReplace),
        _ => Err("an unknown mode of renaming"),
    }
}

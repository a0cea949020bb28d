//! Encodes records: each field goes to its column, relative to what the context predicts.

use twin_fs::{
    Data, Fallocate, Ino, Op, RenameMode, Request, SeekFor, SetAttr, SetTime, XattrMode,
};
use twin_rt::{FixedMap, Nanos};

use super::{
    APPEND, ClientCred, Context, MAX_GROUPS, MAX_NAME, MAX_VALUE, MAX_WHO, MAX_WRITE, column,
    outcome, tag,
};
use crate::record::{Node, Outcome, Verb};
use crate::varint::{put, put_delta};

/// Encodes the records of one frame at a time.
pub(crate) struct Encoder {
    /// The frame so far.
    pub(crate) columns: [Vec<u8>; column::COUNT],
    context: Context,
    contents: bool,
    table: Vec<ClientCred>,
    /// For each client, user and group: the latest place in `table`.
    places: FixedMap<(u32, u32, u32), usize>,
}

/// A record cannot be written because a field of this many bytes is longer than the format allows.
pub(crate) struct TooBig(pub(crate) u64);

/// The flag of a write from write-back.
const LATE: u8 = 4;

impl Encoder {
    /// An encoder that keeps file contents if `contents` is set.
    pub(crate) fn new(contents: bool) -> Encoder {
        let mut encoder = Encoder {
            columns: Default::default(),
            context: Context::new(),
            contents,
            table: Vec::new(),
            places: FixedMap::default(),
        };
        encoder.start(0, 0);
        encoder
    }

    /// Starts a frame after this time and this request.
    pub(crate) fn start(&mut self, at_ns: Nanos, request: u64) {
        self.columns.iter_mut().for_each(Vec::clear);
        self.context.start(at_ns, request);
        self.table.clear();
        self.places.clear();
    }

    /// The time of the last record.
    pub(crate) fn at_ns(&self) -> Nanos {
        self.context.at_ns
    }

    /// The number of the last request.
    pub(crate) fn request_number(&self) -> u64 {
        self.context.request
    }

    /// Bytes in the frame so far.
    pub(crate) fn len(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// True if the frame cannot take another client.
    pub(crate) fn is_full(&self) -> bool {
        self.table.len() >= MAX_WHO
    }

    pub(crate) fn tag(&mut self, code: u8, flags: u8) {
        self.columns[column::TAG].push(code | flags << tag::FLAG_SHIFT);
    }

    /// Adds a time; a time before the last one counts as equal to it.
    pub(crate) fn time(&mut self, at_ns: Nanos) {
        let at_ns = at_ns.max(self.context.at_ns);
        put(&mut self.columns[column::TIME], at_ns - self.context.at_ns);
        self.context.at_ns = at_ns;
    }

    pub(crate) fn number(&mut self, value: u64) {
        put(&mut self.columns[column::NUMBER], value);
    }

    pub(crate) fn signed(&mut self, value: i64) {
        put_delta(&mut self.columns[column::NUMBER], value as u64, 0);
    }

    pub(crate) fn reply_number(&mut self, value: u64) {
        put(&mut self.columns[column::REPLY], value);
    }

    pub(crate) fn content(&mut self, bytes: &[u8]) {
        self.columns[column::CONTENT].extend_from_slice(bytes);
    }

    fn name(&mut self, name: &[u8]) {
        put(&mut self.columns[column::NAME], name.len() as u64);
        self.columns[column::NAME].extend_from_slice(name);
    }

    fn ino(&mut self, ino: Ino) {
        put_delta(&mut self.columns[column::INO], ino, self.context.ino);
        self.context.ino = ino;
    }

    fn dir(&mut self, dir: Ino) {
        put_delta(&mut self.columns[column::INO], dir, self.context.dir);
        self.context.dir = dir;
    }

    fn entry(&mut self, ino: Ino) {
        put_delta(&mut self.columns[column::INO], ino, self.context.entry);
        (self.context.entry, self.context.ino) = (ino, ino);
    }

    /// Adds a request with its own number, at the time of the last record. Adds nothing if the
    /// request is too big.
    pub(crate) fn arrival(&mut self, request: &Request) -> Result<(), TooBig> {
        let before = self.context.request;
        self.context.request = request.id.wrapping_sub(1);
        let added = self.request(self.context.at_ns, request);
        match added {
            Ok(()) => put_delta(&mut self.columns[column::REPLY], request.id, before),
            Err(_) => self.context.request = before,
        }
        added
    }

    /// Adds the number of a completed device request.
    pub(crate) fn io(&mut self, io: u64) {
        put_delta(&mut self.columns[column::REPLY], io, self.context.io);
        self.context.io = io;
    }

    /// Adds a text as a name: its length, then its bytes.
    pub(crate) fn text(&mut self, text: &str) {
        self.name(text.as_bytes());
    }

    /// Adds a request with its time. Adds nothing if the request is too big.
    pub(crate) fn request(&mut self, at_ns: Nanos, request: &Request) -> Result<(), TooBig> {
        check(&request.op, self.contents)?;
        self.context.request = self.context.request.wrapping_add(1);
        self.op(&request.op);
        self.time(at_ns);
        self.who(request);
        Ok(())
    }

    fn who(&mut self, request: &Request) {
        let (client, cred) = (request.client, &request.cred);
        let same = |who: &ClientCred| who.client == client && who.cred == *cred;
        if self.table.get(self.context.who).is_some_and(same) {
            return put(&mut self.columns[column::WHO], 0);
        }
        let key = (client, cred.uid, cred.gid);
        let place = self.places.get(&key).copied().filter(|&place| same(&self.table[place]));
        let index = place.unwrap_or(self.table.len());
        let out = &mut self.columns[column::WHO];
        put(out, index as u64 + 1);
        if place.is_none() {
            let before = self.table.last().map_or(0, |who| who.client);
            put_delta(out, u64::from(client), u64::from(before));
            put(out, u64::from(cred.uid));
            put(out, u64::from(cred.gid));
            let groups = &cred.groups[..cred.groups.len().min(MAX_GROUPS as usize)];
            put(out, (groups.len() as u64) << 1 | u64::from(cred.checked));
            groups.iter().for_each(|&group| put(out, u64::from(group)));
            self.table.push(ClientCred { client, cred: cred.clone() });
            self.places.insert(key, index);
        }
        self.context.who = index;
    }

    fn op(&mut self, op: &Op) {
        let code = Verb::of(op) as u8;
        match op {
            Op::Lookup { dir, name } | Op::Unlink { dir, name } | Op::RemoveDir { dir, name } => {
                self.tag(code, 0);
                self.dir(*dir);
                self.name(name);
            }
            Op::MakeNode { dir, name, mode, rdev } => {
                self.make(code, 0, *dir, name, *mode);
                self.number(*rdev);
            }
            Op::MakeDir { dir, name, mode } => self.make(code, 0, *dir, name, *mode),
            Op::Symlink { dir, name, target } => {
                self.tag(code, 0);
                self.dir(*dir);
                self.name(name);
                self.name(target);
            }
            Op::Create { dir, name, mode, exclusive } => {
                self.make(code, u8::from(*exclusive), *dir, name, *mode);
            }
            Op::Rename { dir, name, to_dir, to_name, mode } => {
                self.tag(code, rename_code(*mode));
                self.dir(*dir);
                self.name(name);
                self.dir(*to_dir);
                self.name(to_name);
            }
            Op::Link { ino, dir, name } => {
                self.tag(code, 0);
                self.ino(*ino);
                self.dir(*dir);
                self.name(name);
            }
            _ => self.inode_op(code, op),
        }
    }

    /// The operations that name an inode but no name in a directory, and those that name neither.
    fn inode_op(&mut self, code: u8, op: &Op) {
        match op {
            Op::Forget { ino, count } => self.ino_and_number(code, 0, *ino, *count),
            Op::GetAttr { ino }
            | Op::ReadLink { ino }
            | Op::Release { ino }
            | Op::ListXattr { ino } => {
                self.tag(code, 0);
                self.ino(*ino);
            }
            Op::SetAttr { ino, set } => self.set_attr(code, *ino, set),
            Op::Open { ino, read, write, truncate } => {
                let flags = u8::from(*read) | u8::from(*write) << 1 | u8::from(*truncate) << 2;
                self.tag(code, flags);
                self.ino(*ino);
            }
            Op::Read { ino, off, len } => self.access(code, 0, *ino, *off, u64::from(*len)),
            Op::Write { .. } | Op::WriteBack { .. } | Op::Append { .. } => self.written(code, op),
            Op::Fsync { ino, data_only } => {
                self.tag(code, u8::from(*data_only));
                self.ino(*ino);
            }
            Op::ReadDir { dir, cookie, max_bytes, plus } => {
                self.read_dir(code, *dir, *cookie, *max_bytes, *plus);
            }
            Op::StatFs | Op::Sync => self.tag(code, 0),
            Op::Access { ino, mask } => self.ino_and_number(code, 0, *ino, u64::from(*mask)),
            Op::SetXattr { ino, name, value, mode } => {
                let kept = self.contents || decides(name);
                self.tag(code, xattr_code(*mode) | u8::from(kept) << 2);
                self.ino(*ino);
                self.name(name);
                self.number(value.len() as u64);
                if kept {
                    self.content(value);
                }
            }
            Op::GetXattr { ino, name } | Op::RemoveXattr { ino, name } => {
                self.tag(code, 0);
                self.ino(*ino);
                self.name(name);
            }
            Op::Fallocate { ino, off, len, mode } => {
                let flags = match mode {
                    Fallocate::Allocate { keep_size } => u8::from(*keep_size),
                    Fallocate::ZeroRange { keep_size } => 2 | u8::from(*keep_size),
                    Fallocate::PunchHole => 4,
                };
                self.tag(code, flags);
                self.ino(*ino);
                put(&mut self.columns[column::OFFSET], *off);
                self.number(*len);
            }
            Op::Seek { ino, off, what } => {
                self.tag(code, u8::from(*what == SeekFor::Hole));
                self.ino(*ino);
                put(&mut self.columns[column::OFFSET], *off);
            }
            Op::Lookup { .. }
            | Op::Unlink { .. }
            | Op::RemoveDir { .. }
            | Op::MakeNode { .. }
            | Op::MakeDir { .. }
            | Op::Symlink { .. }
            | Op::Create { .. }
            | Op::Rename { .. }
            | Op::Link { .. } => unreachable!("dealt with by the caller"),
        }
    }

    fn read_dir(&mut self, code: u8, dir: Ino, cookie: u64, max_bytes: u32, plus: bool) {
        self.tag(code, u8::from(plus) | u8::from(cookie == 0) << 1);
        self.dir(dir);
        if cookie != 0 {
            put_delta(&mut self.columns[column::OFFSET], cookie, self.context.cookie);
        }
        self.number(u64::from(max_bytes));
    }

    fn ino_and_number(&mut self, code: u8, flags: u8, ino: Ino, number: u64) {
        self.tag(code, flags);
        self.ino(ino);
        self.number(number);
    }

    fn make(&mut self, code: u8, flags: u8, dir: Ino, name: &[u8], mode: u32) {
        self.tag(code, flags);
        self.dir(dir);
        self.name(name);
        self.number(u64::from(mode));
    }

    fn access(&mut self, code: u8, flags: u8, ino: Ino, off: u64, len: u64) {
        let predicted = self.context.predicted(ino);
        self.tag(code, flags | u8::from(off == predicted));
        self.ino(ino);
        if off != predicted {
            put_delta(&mut self.columns[column::OFFSET], off, predicted);
        }
        self.number(len);
        self.context.accessed(ino, off, len);
    }

    fn written(&mut self, code: u8, op: &Op) {
        let Some((ino, off, data)) = op.written() else { return };
        match op {
            Op::WriteBack { .. } => self.write(code, LATE, ino, off, data),
            Op::Append { .. } => {
                self.write(code, LATE, ino, APPEND, data);
                put(&mut self.columns[column::OFFSET], off);
                self.context.accessed(ino, off, data.len());
            }
            _ => self.write(code, 0, ino, off, data),
        }
    }

    fn write(&mut self, code: u8, late: u8, ino: Ino, off: u64, data: &Data) {
        match data {
            Data::Bytes(bytes) if self.contents => {
                self.access(code, late | 2, ino, off, bytes.len() as u64);
                self.content(bytes);
            }
            _ => self.access(code, late, ino, off, data.len()),
        }
    }

    fn set_attr(&mut self, code: u8, ino: Ino, set: &SetAttr) {
        self.tag(code, 0);
        self.ino(ino);
        let bit = |there: bool, bit: u32| u64::from(there) << bit;
        let now = |time: Option<SetTime>, b: u32| bit(time == Some(SetTime::Now), b);
        let mask = bit(set.mode.is_some(), 0)
            | bit(set.uid.is_some(), 1)
            | bit(set.gid.is_some(), 2)
            | bit(set.size.is_some(), 3)
            | bit(set.atime.is_some(), 4)
            | bit(set.mtime.is_some(), 5)
            | bit(set.ctime.is_some(), 6)
            | now(set.atime, 7)
            | now(set.mtime, 8);
        self.number(mask);
        let numbers = [set.mode, set.uid, set.gid].into_iter().flatten().map(u64::from);
        numbers.chain(set.size).for_each(|number| self.number(number));
        let at = |time: Option<SetTime>| match time {
            Some(SetTime::At(stamp)) => Some(stamp),
            _ => None,
        };
        for stamp in [at(set.atime), at(set.mtime), set.ctime].into_iter().flatten() {
            put_delta(&mut self.columns[column::NUMBER], stamp.secs as u64, 0);
            self.number(u64::from(stamp.nanos));
        }
    }

    /// Adds a node: a file that existed before the trace began.
    pub(crate) fn node(&mut self, node: &Node) -> Result<(), TooBig> {
        limit(node.name.len() as u64, MAX_NAME)?;
        let attr = node.attr.unwrap_or_default();
        let sparse = node.attr.is_some() && attr.allocated != attr.size;
        self.tag(tag::NODE, u8::from(node.attr.is_some()) | u8::from(sparse) << 1);
        self.dir(node.dir);
        self.name(&node.name);
        self.entry(node.ino);
        self.number(u64::from(node.mode));
        if node.attr.is_some() {
            let numbers = [u64::from(attr.nlink), attr.uid.into(), attr.gid.into(), attr.rdev];
            numbers.into_iter().for_each(|number| self.number(number));
            self.number(attr.size);
        }
        if sparse {
            self.number(attr.allocated);
        }
        Ok(())
    }

    /// Adds an answer. A request number that has not been assigned yet counts as the last one.
    pub(crate) fn reply(&mut self, at_ns: Nanos, id: u64, outcome: &Outcome) {
        let back = self.context.request.saturating_sub(id);
        self.tag(tag::REPLY, u8::from(back == 0));
        self.time(at_ns);
        if back != 0 {
            self.reply_number(back);
        }
        self.columns[column::REPLY].push(outcome_code(outcome));
        match outcome {
            Outcome::Failed(_) | Outcome::Done | Outcome::Attr => {}
            Outcome::Entry(ino) => self.entry(*ino),
            Outcome::Data(len) | Outcome::Written(len) => {
                put_delta(&mut self.columns[column::REPLY], *len, self.context.len);
            }
            Outcome::Bytes(len) => self.reply_number(*len),
            Outcome::Offset(off) => put(&mut self.columns[column::OFFSET], *off),
            Outcome::Dir(dir) => {
                self.reply_number(u64::from(dir.entries));
                self.reply_number(dir.referenced.len() as u64);
                put_delta(&mut self.columns[column::OFFSET], dir.next, self.context.cookie);
                self.context.cookie = dir.next;
                for &ino in &dir.referenced {
                    put_delta(&mut self.columns[column::INO], ino, self.context.entry);
                    self.context.entry = ino;
                }
            }
        }
    }
}

fn rename_code(mode: RenameMode) -> u8 {
    match mode {
        RenameMode::Replace => 0,
        RenameMode::NoReplace => 1,
        RenameMode::Exchange => 2,
        RenameMode::Whiteout => 3,
        RenameMode::WhiteoutNoReplace => 4,
    }
}

fn xattr_code(mode: XattrMode) -> u8 {
    match mode {
        XattrMode::Any => 0,
        XattrMode::Create => 1,
        XattrMode::Replace => 2,
    }
}

fn outcome_code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Failed(code) => outcome::FAILED + *code as u8,
        Outcome::Done => outcome::DONE,
        Outcome::Entry(_) => outcome::ENTRY,
        Outcome::Attr => outcome::ATTR,
        Outcome::Data(_) => outcome::DATA,
        Outcome::Bytes(_) => outcome::BYTES,
        Outcome::Written(_) => outcome::WRITTEN,
        Outcome::Dir(_) => outcome::DIR,
        Outcome::Offset(_) => outcome::OFFSET,
    }
}

fn limit(len: u64, max: u64) -> Result<(), TooBig> {
    if len > max { Err(TooBig(len)) } else { Ok(()) }
}

/// True for attributes whose values decide what other operations do, so that they are kept although contents
/// are not: types of files, ACLs, quotas.
fn decides(name: &[u8]) -> bool {
    twin_fs::file_type::is_ours(name)
        || twin_fs::acl::Which::named(name).is_some()
        || name == twin_fs::quota::QUOTA_ATTRIBUTE
}

/// Refuses an operation that the format cannot represent.
fn check(op: &Op, contents: bool) -> Result<(), TooBig> {
    match op {
        Op::Lookup { name, .. }
        | Op::MakeNode { name, .. }
        | Op::MakeDir { name, .. }
        | Op::Create { name, .. }
        | Op::Unlink { name, .. }
        | Op::RemoveDir { name, .. }
        | Op::Link { name, .. }
        | Op::GetXattr { name, .. }
        | Op::RemoveXattr { name, .. } => limit(name.len() as u64, MAX_NAME),
        Op::Symlink { name, target: other, .. } | Op::Rename { name, to_name: other, .. } => {
            limit(name.len().max(other.len()) as u64, MAX_NAME)
        }
        Op::SetXattr { name, value, .. } => {
            limit(name.len() as u64, MAX_NAME)?;
            limit(value.len() as u64, MAX_VALUE)
        }
        Op::Write { data: Data::Bytes(bytes), .. }
        | Op::WriteBack { data: Data::Bytes(bytes), .. }
        | Op::Append { data: Data::Bytes(bytes), .. }
            if contents =>
        {
            limit(bytes.len() as u64, crate::frame::MAX_RAW as u64 / 2)
        }
        Op::Write { data, .. } | Op::WriteBack { data, .. } | Op::Append { data, .. } => {
            limit(data.len(), MAX_WRITE)
        }
        _ => Ok(()),
    }
}

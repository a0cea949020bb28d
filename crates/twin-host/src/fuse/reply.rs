//! Encodes a reply of the core into the bytes that the kernel expects.
//!
//! An [`Answer`] is one packet: a head in a reused buffer, and for file data the blocks themselves,
//! without a copy.

use rustix::io::Errno;
use twin_disk::Block;
use twin_fs::snapshots::{is_below, is_volatile};
use twin_fs::{
    Attr, DirEntry, Ino, LookupEntry, Op, Reply, Timestamp, VolumeStat, number_on_volume,
};
use twin_rt::{Nanos, SECS};
use zerocopy::IntoBytes;

use super::abi::{self, OutHeader, fopen};
use super::blanks::Blanks;
use super::options::SessionOptions;
use super::translate::{Expect, OWN_HANDLE, PRIME_NODE, node};

/// A packet under construction. Its header is filled in when it is sent.
#[derive(Default)]
pub(super) struct Answer {
    /// Space for the header, then the bytes before the data.
    pub(super) head: Vec<u8>,
    /// The file data behind the head.
    pub(super) data: Vec<Block>,
}

impl Answer {
    /// An empty answer that uses this buffer.
    pub(super) fn new(mut buffer: Vec<u8>) -> Answer {
        buffer.clear();
        buffer.resize(size_of::<OutHeader>(), 0);
        Answer { head: buffer, data: Vec::new() }
    }

    pub(super) fn push<T: IntoBytes + zerocopy::Immutable>(&mut self, part: &T) {
        self.head.extend_from_slice(part.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    /// Writes the header, which completes the packet.
    pub(super) fn finish(&mut self, unique: u64, errno: Option<Errno>) {
        if errno.is_some() {
            self.head.truncate(size_of::<OutHeader>());
            self.data.clear();
        }
        let len = self.head.len() + self.data.iter().map(Block::len).sum::<usize>();
        let error = errno.map_or(0, |errno| -errno.raw_os_error());
        let header = OutHeader { len: len as u32, error, unique };
        self.head[..size_of::<OutHeader>()].copy_from_slice(header.as_bytes());
    }
}

impl Answer {
    /// Writes the header of a notice, which answers no request.
    pub(super) fn finish_notice(&mut self, code: i32) {
        let header = OutHeader { len: self.head.len() as u32, error: code, unique: 0 };
        self.head[..size_of::<OutHeader>()].copy_from_slice(header.as_bytes());
    }
}

/// How long the kernel may keep names and attributes of replies.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) options: &'a SessionOptions,
    pub(super) blanks: &'a Blanks,
}

impl Terms<'_> {
    fn attr_span(&self, attr: &Attr) -> (u64, u32) {
        // The kernel asks before each write to a file of a kept state, since it keeps no attributes of it, and is
        // refused: if opens are no requests, nothing else would stop it from collecting writes.
        let follows = self.options.follows && attr.is_dir();
        match self.blanks.is_once(attr) || is_below(attr.ino) || follows {
            true => (0, 0),
            false => span(self.options.attr_timeout_ns),
        }
    }

    fn entry_span(&self, attr: &Attr) -> (u64, u32) {
        match is_volatile(attr.ino) {
            true => (0, 0),
            false => span(self.options.entry_timeout_ns),
        }
    }
}

/// The reply does not belong to the operation, which is a bug of the core.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrongKind;

/// Adds a reply to an answer. File data is moved out of the reply.
///
/// # Errors
/// The inner error is for the client (a value larger than its buffer). The outer one says that the
/// core gave a reply of another kind than the operation has.
pub(super) fn encode(
    answer: &mut Answer,
    expect: Expect,
    reply: &mut Reply,
    terms: Terms<'_>,
) -> Result<Result<(), Errno>, WrongKind> {
    let options = terms.options;
    match (expect, reply) {
        (Expect::Done | Expect::Silence | Expect::Allocated { .. }, Reply::Done) => {}
        (Expect::Ioctl, Reply::Done) => answer.push(&abi::IoctlOut::default()),
        (Expect::Lookup | Expect::Entry, Reply::Entry(entry)) => {
            answer.push(&entry_out(entry, terms));
        }
        (Expect::Create { .. }, Reply::Entry(entry)) => {
            answer.push(&entry_out(entry, terms));
            answer.push(&open_out(false, options));
        }
        (Expect::Open { dir }, Reply::Done) => answer.push(&open_out(dir, options)),
        (Expect::Attr | Expect::Gate | Expect::Changed, Reply::Attr(attr)) => {
            answer.push(&attr_out(attr, terms))
        }
        (Expect::Statx, Reply::Attr(attr)) => answer.push(&statx_out(attr, terms)),
        (Expect::Data, Reply::Data(blocks)) => answer.data = std::mem::take(blocks),
        (Expect::Written { .. }, Reply::Written(bytes)) => {
            answer.push(&abi::WriteOut { size: *bytes as u32, padding: 0 });
        }
        (Expect::Bytes, Reply::Bytes(bytes)) => answer.bytes(bytes),
        (Expect::Sized(room), Reply::Bytes(bytes)) => return Ok(sized(answer, room, bytes)),
        (Expect::Dir { plus }, Reply::Dir(entries)) => {
            entries.iter().for_each(|entry| dir_entry(answer, entry, plus, terms));
        }
        (Expect::Stat(_), Reply::Stat(stat)) => answer.push(&statfs_out(stat)),
        (Expect::Offset, Reply::Offset(offset)) => answer.push(&abi::LseekOut { offset: *offset }),
        _ => return Err(WrongKind),
    }
    Ok(Ok(()))
}

/// Adds a value to an answer, or only its length if the client's buffer has size zero.
fn sized(answer: &mut Answer, room: u32, bytes: &[u8]) -> Result<(), Errno> {
    if room == 0 {
        answer.push(&abi::GetxattrOut { size: bytes.len() as u32, padding: 0 });
    } else if bytes.len() > room as usize {
        return Err(Errno::RANGE);
    } else {
        answer.bytes(bytes);
    }
    Ok(())
}

/// The entry for a name that does not exist, with the time for which that may be trusted.
pub(super) fn negative_entry(options: &SessionOptions) -> abi::EntryOut {
    let (entry_valid, entry_valid_nsec) = span(options.negative_timeout_ns);
    abi::EntryOut { entry_valid, entry_valid_nsec, ..abi::EntryOut::default() }
}

/// The entry of our own file. The file is a hole as large as can be, everybody may read it, and its
/// name expires at once.
pub(super) fn prime_entry() -> abi::EntryOut {
    abi::EntryOut {
        nodeid: PRIME_NODE,
        attr_valid: 60,
        attr: own_attributes(),
        ..abi::EntryOut::default()
    }
}

/// The attributes of our own file.
pub(super) fn own_attr() -> abi::AttrOut {
    abi::AttrOut { attr_valid: 60, attr: own_attributes(), ..abi::AttrOut::default() }
}

fn own_attributes() -> abi::Attr {
    let (mode, size) = (0o100_444, 1 << 62);
    abi::Attr { ino: PRIME_NODE, mode, size, nlink: 1, ..abi::Attr::default() }
}

/// The answer to an open of the deputy.
pub(super) fn own_open(dir: bool, options: &SessionOptions) -> abi::OpenOut {
    let open_flags = if dir { open_out(dir, options).open_flags } else { fopen::KEEP_CACHE };
    abi::OpenOut { fh: OWN_HANDLE, open_flags, backing_id: 0 }
}

fn span(span_ns: Nanos) -> (u64, u32) {
    (span_ns / SECS, (span_ns % SECS) as u32)
}

fn entry_out(entry: &LookupEntry, terms: Terms<'_>) -> abi::EntryOut {
    let (entry_valid, entry_valid_nsec) = terms.entry_span(&entry.attr);
    let (attr_valid, attr_valid_nsec) = terms.attr_span(&entry.attr);
    abi::EntryOut {
        nodeid: node(entry.attr.ino),
        generation: u64::from(entry.generation),
        entry_valid,
        attr_valid,
        entry_valid_nsec,
        attr_valid_nsec,
        attr: attributes(&entry.attr, terms),
    }
}

fn attr_out(attr: &Attr, terms: Terms<'_>) -> abi::AttrOut {
    let (attr_valid, attr_valid_nsec) = terms.attr_span(attr);
    abi::AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: attributes(attr, terms) }
}

fn open_out(dir: bool, options: &SessionOptions) -> abi::OpenOut {
    let open_flags = match (options.exclusive, dir) {
        (false, _) => 0,
        (true, true) if options.follows => 0,
        (true, false) => fopen::KEEP_CACHE,
        (true, true) => fopen::KEEP_CACHE | fopen::CACHE_DIR,
    };
    abi::OpenOut { fh: 0, open_flags, backing_id: 0 }
}

/// The number of an inode that programs are shown.
fn shown(ino: Ino, terms: Terms<'_>) -> Ino {
    if terms.options.follows { number_on_volume(ino) } else { ino }
}

fn attributes(attr: &Attr, terms: Terms<'_>) -> abi::Attr {
    abi::Attr {
        ino: shown(attr.ino, terms),
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.secs as u64,
        mtime: attr.mtime.secs as u64,
        ctime: attr.ctime.secs as u64,
        atimensec: attr.atime.nanos,
        mtimensec: attr.mtime.nanos,
        ctimensec: attr.ctime.nanos,
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev as u32,
        // Zero lets the kernel choose its default, a page.
        blksize: 0,
        flags: 0,
    }
}

fn statx_out(attr: &Attr, terms: Terms<'_>) -> abi::StatxOut {
    const BASIC_AND_BIRTH: u32 = 0xfff;
    let (attr_valid, attr_valid_nsec) = terms.attr_span(attr);
    let time = |t: Timestamp| abi::SxTime { secs: t.secs, nanos: t.nanos, reserved: 0 };
    let stat = abi::Statx {
        mask: BASIC_AND_BIRTH,
        blksize: 4096,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode as u16,
        ino: shown(attr.ino, terms),
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        btime: time(attr.btime),
        ctime: time(attr.ctime),
        mtime: time(attr.mtime),
        rdev_major: libc::major(attr.rdev),
        rdev_minor: libc::minor(attr.rdev),
        ..abi::Statx::default()
    };
    abi::StatxOut { attr_valid, attr_valid_nsec, stat, ..abi::StatxOut::default() }
}

fn statfs_out(stat: &VolumeStat) -> abi::StatfsOut {
    abi::StatfsOut {
        blocks: stat.blocks,
        bfree: stat.free,
        bavail: stat.free,
        files: stat.inodes,
        ffree: stat.free_inodes,
        bsize: stat.io_size,
        namelen: twin_fs::NAME_MAX as u32,
        frsize: stat.block_size,
        ..abi::StatfsOut::default()
    }
}

fn dir_entry(answer: &mut Answer, entry: &DirEntry, plus: bool, terms: Terms<'_>) {
    if plus {
        // If an entry has no inode, the kernel uses only the name.
        let none = abi::EntryOut::default();
        answer.push(&entry.entry.as_ref().map_or(none, |e| entry_out(e, terms)));
    }
    answer.push(&abi::Dirent {
        ino: shown(entry.ino, terms),
        off: entry.next,
        namelen: entry.name.len() as u32,
        kind: entry.kind >> 12,
    });
    answer.bytes(&entry.name);
    let padding = entry.name.len().next_multiple_of(abi::DIRENT_ALIGN) - entry.name.len();
    answer.bytes(&[0; abi::DIRENT_ALIGN][..padding]);
}

/// The references and opens to give back if the kernel does not take this reply.
pub(super) fn debts(expect: Expect, reply: &Reply) -> Vec<Op> {
    let forget = |entry: &LookupEntry| Op::Forget { ino: entry.attr.ino, count: 1 };
    match (expect, reply) {
        (Expect::Create { opened: true, .. }, Reply::Entry(entry)) => {
            vec![Op::Release { ino: entry.attr.ino }, forget(entry)]
        }
        (_, Reply::Entry(entry)) => vec![forget(entry)],
        (_, Reply::Dir(entries)) => {
            entries.iter().filter_map(|e| e.entry.as_deref()).map(forget).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_fs::mode;
    use zerocopy::FromBytes;

    macro_rules! terms {
        () => {
            Terms { options: &SessionOptions::default(), blanks: &Blanks::default() }
        };
    }

    fn encoded(expect: Expect, mut reply: Reply) -> Vec<u8> {
        let mut answer = Answer::new(Vec::new());
        encode(&mut answer, expect, &mut reply, terms!()).unwrap().unwrap();
        answer.finish(5, None);
        answer.head
    }

    fn entry(ino: u64) -> LookupEntry {
        let attr = Attr { ino, mode: mode::REGULAR | 0o644, size: 10, ..Attr::default() };
        LookupEntry { attr, generation: 3 }
    }

    #[test]
    fn an_error_carries_nothing_but_its_number() {
        let mut answer = Answer::new(Vec::new());
        answer.push(&abi::WriteOut::default());
        answer.data.push(Block::Zero(100));
        answer.finish(5, Some(Errno::NOENT));
        let header = OutHeader::read_from_bytes(&answer.head).unwrap();
        assert_eq!((header.len, header.error, header.unique), (16, -2, 5));
        assert!(answer.data.is_empty());
    }

    #[test]
    fn the_length_covers_data_that_is_not_copied() {
        let mut answer = Answer::new(Vec::new());
        let mut reply = Reply::Data(vec![Block::Zero(100), Block::Zero(28)]);
        encode(&mut answer, Expect::Data, &mut reply, terms!()).unwrap().unwrap();
        answer.finish(1, None);
        assert_eq!(OutHeader::read_from_bytes(&answer.head).unwrap().len, 16 + 128);
    }

    #[test]
    fn directory_entries_cost_what_the_core_counts() {
        for (name, plus, cost) in
            [(&b"a"[..], false, 32), (b"12345678", false, 32), (b"123456789", true, 168)]
        {
            let entry = DirEntry {
                name: name.into(),
                ino: 9,
                kind: mode::REGULAR,
                next: 4,
                entry: plus.then(|| Box::new(entry(9))),
            };
            let packet = encoded(Expect::Dir { plus }, Reply::Dir(vec![entry]));
            assert_eq!(packet.len() - 16, cost);
        }
    }

    #[test]
    fn an_entry_names_its_node_and_generation() {
        let packet = encoded(Expect::Entry, Reply::Entry(entry(2)));
        let out = abi::EntryOut::read_from_bytes(&packet[16..]).unwrap();
        assert_eq!((out.nodeid, out.attr.ino, out.generation, out.attr.size), (1, 2, 3, 10));
    }

    /// Of a [`twin_fs::Following`] the kernel keeps files, and nothing about names and directories.
    #[test]
    fn what_follows_is_kept_by_the_kernel_if_it_is_no_directory_and_has_the_number_on_the_volume() {
        let options = SessionOptions::default().following();
        let terms = Terms { options: &options, blanks: &Blanks::default() };
        let number = 3 << 32 | 17;
        for (kind, is_kept) in [(mode::REGULAR, true), (mode::DIRECTORY, false)] {
            let attr = Attr { ino: number, mode: kind, size: 10, blocks: 8, ..Attr::default() };
            let out = entry_out(&LookupEntry { attr, generation: 1 }, terms);
            assert_eq!((out.nodeid, out.attr.ino), (number, 17));
            assert_eq!((out.entry_valid, out.attr_valid > 0), (0, is_kept));
            let open = open_out(!is_kept, &options);
            assert_eq!(open.open_flags, if is_kept { fopen::KEEP_CACHE } else { 0 });
        }
    }

    #[test]
    fn a_value_larger_than_its_room_is_out_of_range() {
        let mut answer = Answer::new(Vec::new());
        assert_eq!(sized(&mut answer, 3, b"four"), Err(Errno::RANGE));
        assert_eq!(sized(&mut answer, 0, b"four"), Ok(()));
        assert_eq!(answer.head[16..20], 4u32.to_ne_bytes());
    }

    #[test]
    fn a_reply_of_another_kind_is_noticed() {
        let mut answer = Answer::new(Vec::new());
        let encoded = encode(&mut answer, Expect::Entry, &mut Reply::Done, terms!());
        assert_eq!(encoded, Err(WrongKind));
    }
}

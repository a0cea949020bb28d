//! Inodes: found through the inode map, shown field by field.

use twin_fs::dinode::{Dinode, HIDDEN, INLINE, TRUNCATING};
use twin_fs::shape::Ptr;
use twin_fs::{FsError, Ino, Result, mode};

use super::{Column, DumpError, Dumper, Fields, File, Problem, Value, number, text};
use crate::format::{IMAP_ENTRY_BYTES, ImapEntry};
use crate::lfs::IFILE_INO;

const INODES: [Column; 9] = [
    number("ino", 9),
    number("generation", 10),
    text("kind", 9),
    number("mode", 8),
    number("nlink", 6),
    number("size", 14),
    number("allocated", 14),
    number("at", 14),
    text("marks", 10),
];

const POINTERS: [Column; 6] = [
    number("pointer", 7),
    number("lbn", 12),
    number("level", 5),
    number("at", 14),
    number("bytes", 6),
    number("crc", 10),
];

/// What an inode is.
pub(super) fn kind_name(d: &Dinode) -> &'static str {
    match d.kind() {
        _ if d.flags & HIDDEN != 0 => "hidden",
        mode::REGULAR => "file",
        mode::DIRECTORY => "directory",
        mode::SYMLINK => "link",
        mode::CHAR => "char",
        mode::BLOCK => "block",
        mode::FIFO => "fifo",
        mode::SOCKET => "socket",
        _ => "?",
    }
}

fn flag_names(flags: u16) -> String {
    let names = [(INLINE, "inline"), (HIDDEN, "hidden"), (TRUNCATING, "truncating")];
    let set = names.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| name);
    set.collect::<Vec<_>>().join(" ")
}

impl Dumper<'_> {
    /// Inode numbers that the map has entries for.
    fn map_len(&self) -> u64 {
        let blocks = self.view.sb.shape.blocks_for(self.view.standing.ifile.size);
        blocks.saturating_sub(self.view.sb.usage_blocks()) * self.view.map_entries()
    }

    /// The inode map's entry of a number.
    pub(super) async fn map_entry(&self, ino: Ino) -> Result<ImapEntry> {
        self.ifile_inode()?;
        if ino >= self.map_len() {
            let what = format!("the inode map ends before inode {ino}");
            return Err(FsError::inconsistent(what));
        }
        let lbn = self.view.sb.usage_blocks() + ino / self.view.map_entries();
        let raw = self.ifile_block(lbn).await?;
        let at = (ino % self.view.map_entries()) as usize * IMAP_ENTRY_BYTES;
        Ok(ImapEntry::decode(&raw[at..at + IMAP_ENTRY_BYTES]))
    }

    /// An inode and the byte where it lies. Of the ifile's that is 0: it is in the checkpoint.
    pub(super) async fn read_inode(&self, ino: Ino) -> Result<(u64, Dinode)> {
        if ino == IFILE_INO {
            return Ok((0, self.ifile_inode()?));
        }
        match self.map_entry(ino).await? {
            ImapEntry::Free { .. } => {
                Err(FsError::inconsistent(format!("inode {ino} is free: see `inodes`")))
            }
            ImapEntry::Used { at, crc, generation, .. } => {
                self.placed_inode(ino, at, crc, generation).await
            }
        }
    }

    async fn placed_inode(
        &self,
        ino: Ino,
        place: u64,
        crc: u32,
        generation: u32,
    ) -> Result<(u64, Dinode)> {
        let at = place.checked_mul(self.view.sb.shape.inode_size.into());
        let at = at.filter(|&at| at > 0).ok_or_else(|| {
            FsError::inconsistent(format!("the map leads inode {ino} to the impossible {place}"))
        })?;
        let raw = self.view.raw_inode(at).await?;
        Ok((at, self.view.inode_in(&raw, at, ino, generation, crc)?))
    }

    /// The inode number that is meant.
    pub(super) async fn resolve(&mut self, file: &File) -> Result<Ino, DumpError> {
        match file {
            File::Ino(ino) if *ino > IFILE_INO && *ino >= self.map_len() => {
                let last = self.map_len().saturating_sub(1);
                let what = format!("there is no inode {ino}: the inode map ends with {last}");
                Err(DumpError::NoSuch(what))
            }
            File::Ino(ino) => Ok(*ino),
            File::Path(path) => self.lookup_path(path).await,
        }
    }

    pub(super) async fn inodes(&mut self) {
        self.sink.begin("inodes", "all that are in use; dump one by its number", &INODES);
        let mut first = 0;
        while first < self.map_len() {
            let lbn = self.view.sb.usage_blocks() + first / self.view.map_entries();
            let next = first + self.view.map_entries();
            match self.ifile_block(lbn).await {
                Ok(raw) => {
                    let entries = raw.chunks_exact(IMAP_ENTRY_BYTES).map(ImapEntry::decode);
                    for (ino, entry) in (first..).zip(entries) {
                        if let ImapEntry::Used { at, crc, generation, orphan } = entry {
                            let read = self.placed_inode(ino, at, crc, generation).await;
                            self.inode_line(ino, generation, orphan, read);
                        }
                    }
                }
                Err(error) => {
                    self.problem(&format!("the inode map, inodes {first} to {}", next - 1), error);
                }
            }
            first = next;
        }
        self.sink.end();
        if let Err(error) = self.ifile_inode() {
            self.problem("the inode map", error);
        }
    }

    fn inode_line(&mut self, ino: Ino, generation: u32, orphan: bool, read: Result<(u64, Dinode)>) {
        let mark = if orphan { "orphan" } else { "" };
        let (at, d) = match read {
            Ok(found) => found,
            Err(error) => return self.problem(&format!("inode {ino}"), error),
        };
        let marks = [mark, &flag_names(d.flags)].join(" ");
        self.sink.row(vec![
            Value::Number(ino),
            Value::Number(generation.into()),
            Value::Text(kind_name(&d).into()),
            Value::Octal(d.mode),
            Value::Number(d.nlink.into()),
            Value::Number(d.size),
            Value::Number(d.allocated),
            Value::Number(at),
            Value::Text(marks.trim().into()),
        ]);
    }

    /// One inode: its map entry first, so that something is seen even if it cannot be read.
    pub(super) async fn inode(&mut self, file: &File) -> Result<(), DumpError> {
        let ino = self.resolve(file).await?;
        if ino != IFILE_INO {
            let entry = match self.map_entry(ino).await {
                Ok(entry) => entry,
                Err(error) => {
                    self.problem(&format!("the inode map, inode {ino}"), error);
                    return Ok(());
                }
            };
            self.show_entry(ino, entry);
            if matches!(entry, ImapEntry::Free { .. }) {
                return Ok(());
            }
        }
        match self.read_inode(ino).await {
            Ok((at, d)) => self.show_inode(at, &d).await,
            Err(error) => self.problem(&format!("inode {ino}"), error),
        }
        Ok(())
    }

    fn show_entry(&mut self, ino: Ino, entry: ImapEntry) {
        let fields: Fields = match entry {
            ImapEntry::Free { next, generation } => vec![
                ("ino", Value::Number(ino)),
                ("free", Value::Flag(true)),
                ("next_free", Value::Number(next)),
                ("generation", Value::Number(generation.into())),
            ],
            ImapEntry::Used { at, crc, generation, orphan } => vec![
                ("ino", Value::Number(ino)),
                ("free", Value::Flag(false)),
                ("place", Value::Number(at)),
                ("crc", Value::Hex(crc.into())),
                ("generation", Value::Number(generation.into())),
                ("orphan", Value::Flag(orphan)),
            ],
        };
        self.sink.fields("map_entry", "what the inode map says", fields);
    }

    pub(super) async fn show_inode(&mut self, at: u64, d: &Dinode) {
        let wide = self.view.is_wide();
        let (place, about) = match d.ino {
            IFILE_INO => (Value::None, "in the checkpoint"),
            _ => (Value::Number(at), ""),
        };
        let mut fields = vec![
            ("ino", Value::Number(d.ino)),
            ("at", place),
            ("segment", self.segment_of(at)),
            ("kind", Value::Text(kind_name(d).into())),
            ("generation", Value::Number(d.generation.into())),
            ("mode", Value::Octal(d.mode)),
            ("nlink", Value::Number(d.nlink.into())),
            ("uid", Value::Number(d.uid.into())),
            ("gid", Value::Number(d.gid.into())),
            ("flags", Value::Text(flag_names(d.flags))),
            ("size", Value::Number(d.size)),
            ("allocated", Value::Number(d.allocated)),
        ];
        match d.kind() {
            mode::DIRECTORY if wide => fields.push(("entries", Value::Number(d.entries))),
            mode::CHAR | mode::BLOCK => fields.push(("rdev", Value::Hex(d.rdev))),
            _ => {}
        }
        let times = [("atime", d.atime), ("mtime", d.mtime), ("ctime", d.ctime)];
        fields.extend(times.map(|(name, time)| (name, Value::Time(time))));
        if wide {
            fields.push(("btime", Value::Time(d.btime)));
            fields.push(("index_ino", Value::Number(d.index_ino)));
            fields.push(("xattr_ino", Value::Number(d.xattr_ino)));
        }
        if d.is_inline() {
            let name = if d.kind() == mode::SYMLINK { "target" } else { "inline" };
            fields.push((name, Value::Name(d.inline.clone())));
        }
        self.sink.fields("inode", about, fields);
        self.pointers(d);
        self.attributes(d).await;
    }

    /// The pointers of an inode that are no holes.
    fn pointers(&mut self, d: &Dinode) {
        if d.ptrs.iter().all(Ptr::is_hole) {
            return;
        }
        let shape = self.view.sb.shape.clone();
        self.sink.begin("pointers", "those in the inode that are no holes", &POINTERS);
        for (slot, ptr) in d.ptrs.iter().enumerate().filter(|(_, ptr)| !ptr.is_hole()) {
            let lbn = shape.inode_child(slot);
            let level = if lbn < 0 { shape.indirect(lbn).0 as u64 } else { 0 };
            let [at, bytes, crc] = self.ptr_values(*ptr);
            let [slot, level] = [slot as u64, level].map(Value::Number);
            self.sink.row(vec![slot, Value::Signed(lbn), level, at, bytes, crc]);
        }
        self.sink.end();
    }

    /// Where a pointer leads: byte, length, checksum.
    pub(super) fn ptr_values(&self, ptr: Ptr) -> [Value; 3] {
        let at = match ptr.is_on_disk() {
            true => Value::Number(ptr.addr.saturating_mul(self.view.sb.shape.frag_size.into())),
            false => Value::Text("in memory".into()),
        };
        let crc = if self.view.is_wide() { Value::Hex(ptr.crc.into()) } else { Value::None };
        [at, Value::Number(ptr.len.into()), crc]
    }

    async fn attributes(&mut self, d: &Dinode) {
        if d.xattr_ino == 0 && d.xattrs.is_empty() {
            return;
        }
        let list = match d.xattr_ino {
            0 => Ok(d.xattrs.clone()),
            hidden => self.hidden_list(hidden).await,
        };
        let list = match list {
            Ok(list) => list,
            Err(error) => return self.problem("the extended attributes", error),
        };
        const COLUMNS: [Column; 3] = [text("name", 24), number("bytes", 6), text("value", 40)];
        self.sink.begin("attributes", "extended attributes", &COLUMNS);
        let mut rest = &list[..];
        while !rest.is_empty() {
            let Some((name, value, after)) = first_attribute(rest) else {
                let what =
                    format!("the extended attributes: cut off {} bytes from the end", rest.len());
                self.sink.problem(Problem { at: None, what });
                break;
            };
            self.sink.row(vec![
                Value::Name(name.to_vec()),
                Value::Number(value.len() as u64),
                Value::Name(value[..value.len().min(64)].to_vec()),
            ]);
            rest = after;
        }
        self.sink.end();
    }

    /// The list of attributes in a hidden file.
    async fn hidden_list(&self, hidden: Ino) -> Result<Vec<u8>> {
        let (_, d) = self.read_inode(hidden).await?;
        let content = self.small_content(&d).await?;
        let len = content.first_chunk::<4>().map_or(0, |n| u32::from_le_bytes(*n) as usize);
        let list = content.get(4..).and_then(|list| list.get(..len));
        list.map(<[u8]>::to_vec)
            .ok_or_else(|| FsError::inconsistent(format!("the hidden file {hidden} is too short")))
    }
}

/// The first attribute of a list: name, value, and what follows.
fn first_attribute(raw: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (head, rest) = raw.split_at_checked(6)?;
    let name_len = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let value_len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
    let (name, rest) = rest.split_at_checked(name_len)?;
    let (value, rest) = rest.split_at_checked(value_len)?;
    Some((name, value, rest))
}

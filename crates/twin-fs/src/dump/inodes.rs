//! The dump of inodes of any layout, field by field.

use super::on_disk::InUse;
use super::walk::{FileDump, kind_name};
use super::{Column, DumpError, File, Problem, Value, number, text};
use crate::dinode::{DAMAGED, Dinode, HIDDEN, INLINE, TRUNCATING};
use crate::geometry::Ptr;
use crate::{FsError, Ino, Result, mode, xattr_list};

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

fn flag_names(flags: u16) -> String {
    let names =
        [(INLINE, "inline"), (HIDDEN, "hidden"), (TRUNCATING, "truncating"), (DAMAGED, "damaged")];
    let set = names.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| name);
    set.collect::<Vec<_>>().join(" ")
}

impl FileDump<'_> {
    /// Dumps all inodes in use, one line for each.
    pub async fn inodes(&mut self) {
        self.sink.begin("inodes", "all that are in use; dump one by its number", &INODES);
        let mut first = 0;
        while first < self.volume.numbers() {
            let (next, found) = self.volume.inodes_from(first).await;
            match found {
                Ok(found) => found.into_iter().for_each(|found| self.inode_line(found)),
                Err(error) => {
                    self.problem(&format!("the map of inodes {first} to {}", next - 1), error);
                }
            }
            first = next.max(first + 1);
        }
        self.sink.end();
    }

    fn inode_line(&mut self, found: InUse) {
        let InUse { ino, generation, mark, read } = found;
        let (at, d) = match read {
            Ok(found) => found,
            Err(error) => return self.problem(&format!("inode {ino}"), error),
        };
        let marks = [mark, &flag_names(d.flags)].join(" ");
        self.sink.row(vec![
            Value::Number(ino),
            Value::Number(generation.unwrap_or(d.generation).into()),
            Value::Text(kind_name(&d).into()),
            Value::Octal(d.mode),
            Value::Number(d.nlink.into()),
            Value::Number(d.size),
            Value::Number(d.allocated),
            Value::Number(at),
            Value::Text(marks.trim().into()),
        ]);
    }

    /// Dumps one inode. Its entry in the layout's maps comes first, so that something is shown even
    /// if the inode cannot be read.
    pub async fn inode(&mut self, file: &File) -> Result<(), DumpError> {
        let ino = self.resolve(file).await?;
        match self.volume.map_entry(ino).await {
            Ok(Some((about, fields))) => {
                let is_free = fields.contains(&("free", Value::Flag(true)));
                self.sink.fields("map_entry", about, fields);
                if is_free {
                    return Ok(());
                }
            }
            Ok(None) => {}
            Err(error) => {
                self.problem(&format!("the map of inode {ino}"), error);
                return Ok(());
            }
        }
        match self.volume.inode(ino).await {
            Ok((at, d)) => self.show_inode(at, &d).await,
            Err(error) => self.problem(&format!("inode {ino}"), error),
        }
        Ok(())
    }

    /// Dumps an inode, its pointers and its extended attributes. `at` is its byte offset on the
    /// device; `None` if it has no place of its own.
    pub async fn show_inode(&mut self, at: Option<u64>, d: &Dinode) {
        let features = self.volume.features().clone();
        let (place, region) = match at {
            Some(at) => (Value::Number(at), self.region_of(at)),
            None => (Value::None, Value::None),
        };
        let mut fields = vec![
            ("ino", Value::Number(d.ino)),
            ("at", place),
            (self.volume.region(), region),
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
            mode::DIRECTORY if features.indexed_directories => {
                fields.push(("entries", Value::Number(d.entries)))
            }
            mode::CHAR | mode::BLOCK => fields.push(("rdev", Value::Hex(d.rdev))),
            _ => {}
        }
        let times = [("atime", d.atime), ("mtime", d.mtime), ("ctime", d.ctime)];
        fields.extend(times.map(|(name, time)| (name, Value::Time(time))));
        if features.birth_time {
            fields.push(("btime", Value::Time(d.btime)));
        }
        if features.extended_attributes {
            fields.push(("index_ino", Value::Number(d.index_ino)));
            fields.push(("xattr_ino", Value::Number(d.xattr_ino)));
        }
        if d.is_inline() {
            let name = if d.kind() == mode::SYMLINK { "target" } else { "inline" };
            fields.push((name, Value::Name(d.inline.clone())));
        }
        self.sink.fields("inode", "", fields);
        self.pointers(d);
        self.attributes(d).await;
    }

    /// Dumps the pointers of an inode that are not holes.
    fn pointers(&mut self, d: &Dinode) {
        if d.ptrs.iter().all(Ptr::is_hole) {
            return;
        }
        let geometry = self.volume.geometry().clone();
        self.sink.begin("pointers", "those in the inode that are no holes", &POINTERS);
        for (slot, ptr) in d.ptrs.iter().enumerate().filter(|(_, ptr)| !ptr.is_hole()) {
            let lbn = geometry.inode_child(slot);
            let level = if lbn < 0 { geometry.indirect(lbn).0 as u64 } else { 0 };
            let [at, bytes, crc] = self.ptr_values(*ptr);
            let [slot, level] = [slot as u64, level].map(Value::Number);
            self.sink.row(vec![slot, Value::Signed(lbn), level, at, bytes, crc]);
        }
        self.sink.end();
    }

    /// The values of a pointer: byte offset on the device, length in bytes, checksum.
    pub fn ptr_values(&self, ptr: Ptr) -> [Value; 3] {
        let at = match ptr.is_on_disk() {
            true => Value::Number(ptr.addr.saturating_mul(self.volume.geometry().frag_size.into())),
            false => Value::Text("in memory".into()),
        };
        let crc = if self.volume.features().checksummed_pointers {
            Value::Hex(ptr.crc.into())
        } else {
            Value::None
        };
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
            let Some((name, value, after)) = xattr_list::first(rest) else {
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

    /// The encoded list of attributes in a hidden file.
    async fn hidden_list(&self, hidden: Ino) -> Result<Vec<u8>> {
        let (_, d) = self.volume.inode(hidden).await?;
        let content = self.small_content(&d).await?;
        let len = content.first_chunk::<4>().map_or(0, |n| u32::from_le_bytes(*n) as usize);
        let list = content.get(4..).and_then(|list| list.get(..len));
        list.map(<[u8]>::to_vec)
            .ok_or_else(|| FsError::inconsistent(format!("the hidden file {hidden} is too short")))
    }
}

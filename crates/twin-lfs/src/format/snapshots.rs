//! The snapshots' file: a slot with the name of the head, then one for each snapshot and branch.
//!
//! The file is inode 0, which no name, map entry or list can lead to; its inode is in the checkpoint, beside
//! the ifile's. It is there once the volume has a snapshot, or a head with another name than `main`.

use twin_fs::dinode::{Dinode, FieldReader, FieldWriter};
use twin_fs::{FsError, Ino, Result};
use twin_rt::Time;

use super::superblock::Superblock;

/// Bytes of a slot.
pub const SNAPSHOT_SLOT_BYTES: usize = 1024;
/// The most snapshots and branches that a volume can have.
pub const SNAPSHOTS_MAX: usize = 16_383;
/// The most bytes of the file.
pub(crate) const SNAPSHOTS_MAX_BYTES: u64 =
    ((SNAPSHOTS_MAX + 1) * SNAPSHOT_SLOT_BYTES) as u64 + (64 << 10);
/// The longest name, in bytes.
pub const SNAPSHOT_NAME_MAX: usize = 128;
/// The name of the head of a volume whose heads have never been named.
pub const FIRST_HEAD: &str = "main";

const MAGIC: u64 = u64::from_le_bytes(*b"twinsnps");
const VERSION: u32 = 1;
const NAME_AT: usize = 128;
const INODE_AT: usize = 256;

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A state that is kept as it was.
    Snapshot,
    /// A state that may become the head, and go on.
    Branch,
}

/// A state of the volume that is kept: what a checkpoint says of it, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// The name.
    pub name: String,
    /// Whether it may go on.
    pub kind: RecordKind,
    /// Tells records apart: each is one more than all before.
    pub id: u64,
    /// Partial segments of this state have smaller serial numbers.
    pub serial: u64,
    /// When the state was the head's.
    pub time: Time,
    /// First free inode number; 0 for none.
    pub free_head: Ino,
    /// Free inode numbers on the list.
    pub free_inodes: u64,
    /// Inodes that the map marks as in need of work after a crash.
    pub orphans: u64,
    /// Inode numbers off the list that no inode uses.
    pub picked: u32,
    /// Live bytes, as its own usage table counts them.
    pub live_bytes: u64,
    /// The inode of its ifile.
    pub ifile: Dinode,
}

/// The content of the snapshots' file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotsFile {
    /// The name of the head.
    pub head: String,
    /// The id that the next record gets.
    pub next_id: u64,
    /// The records, in no order.
    pub records: Vec<SnapshotRecord>,
}

impl Default for SnapshotsFile {
    fn default() -> SnapshotsFile {
        SnapshotsFile { head: FIRST_HEAD.into(), next_id: 1, records: Vec::new() }
    }
}

/// True if a snapshot or branch may have this name: it is a name for a directory that does not look like an option.
pub fn is_snapshot_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= SNAPSHOT_NAME_MAX
        && name != "."
        && name != ".."
        && !name.starts_with('-')
        && !name.chars().any(|c| c == '/' || c.is_control())
}

impl SnapshotsFile {
    /// True if nothing has to be stored.
    pub fn is_default(&self) -> bool {
        self.records.is_empty() && self.head == FIRST_HEAD
    }

    /// The content as whole blocks; none if nothing has to be stored.
    pub fn encode(&self, sb: &Superblock) -> Vec<u8> {
        if self.is_default() {
            return Vec::new();
        }
        let slots = self.records.len() + 1;
        let block = sb.geometry.block_size as usize;
        let mut raw = vec![0; (slots * SNAPSHOT_SLOT_BYTES).next_multiple_of(block)];
        let (head, rest) = raw.split_at_mut(SNAPSHOT_SLOT_BYTES);
        let mut w = FieldWriter { raw: head, at: 0 };
        w.u64(MAGIC);
        w.u32(VERSION);
        w.u32(self.records.len() as u32);
        w.u64(self.next_id);
        w.u32(self.head.len() as u32);
        put_name(head, &self.head);
        for (record, raw) in self.records.iter().zip(rest.chunks_exact_mut(SNAPSHOT_SLOT_BYTES)) {
            record.encode(sb, raw);
        }
        raw
    }

    /// Reads the content of the file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(sb: &Superblock, raw: &[u8]) -> Result<SnapshotsFile> {
        let bad = |what: &str| FsError::inconsistent(format!("the snapshots' file: {what}"));
        let mut slots = raw.chunks_exact(SNAPSHOT_SLOT_BYTES);
        let Some(head) = slots.next() else { return Err(bad("it is too short")) };
        let mut r = FieldReader { raw: head, at: 0 };
        if (r.u64(), r.u32()) != (MAGIC, VERSION) {
            return Err(bad("it does not begin as it must"));
        }
        let (count, next_id, name_len) = (r.u32() as usize, r.u64(), r.u32());
        if count > SNAPSHOTS_MAX || slots.len() < count {
            return Err(bad("it is shorter than its records"));
        }
        let head = name_in(head, name_len).ok_or_else(|| bad("the head's name is none"))?;
        let records = slots.take(count).map(|raw| SnapshotRecord::decode(sb, raw));
        let records: Vec<_> = records.collect::<Result<_, _>>().map_err(bad)?;
        let mut names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
        names.push(&head);
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(bad("two states have the same name"));
        }
        if records.iter().any(|record| record.id >= next_id) {
            return Err(bad("a record has an id that was not given yet"));
        }
        Ok(SnapshotsFile { head, next_id, records })
    }
}

impl SnapshotRecord {
    /// Writes the record into its slot.
    fn encode(&self, sb: &Superblock, raw: &mut [u8]) {
        let mut w = FieldWriter { raw, at: 0 };
        w.u32(match self.kind {
            RecordKind::Snapshot => 1,
            RecordKind::Branch => 2,
        });
        w.u32(self.name.len() as u32);
        for n in [self.id, self.serial, self.time.0, self.free_head, self.free_inodes, self.orphans]
        {
            w.u64(n);
        }
        w.u32(self.picked);
        w.u32(0);
        w.u64(self.live_bytes);
        put_name(raw, &self.name);
        let size = sb.geometry.inode_size as usize;
        self.ifile.encode(&sb.geometry, &mut raw[INODE_AT..INODE_AT + size]);
    }

    fn decode(sb: &Superblock, raw: &[u8]) -> Result<SnapshotRecord, &'static str> {
        let mut r = FieldReader { raw, at: 0 };
        let kind = match r.u32() {
            1 => RecordKind::Snapshot,
            2 => RecordKind::Branch,
            _ => return Err("a record is neither of a snapshot nor of a branch"),
        };
        let name_len = r.u32();
        let [id, serial, time, free_head, free_inodes, orphans] = std::array::from_fn(|_| r.u64());
        let picked = r.u32();
        r.u32();
        let live_bytes = r.u64();
        let name = name_in(raw, name_len).ok_or("a name is none")?;
        let inode = &raw[INODE_AT..INODE_AT + sb.geometry.inode_size as usize];
        let frags = sb.size() / u64::from(sb.geometry.frag_size);
        let ifile = Dinode::decode(&sb.geometry, inode, frags)?;
        if ifile.size > sb.size() {
            return Err("an ifile is longer than the volume");
        }
        let time = Time(time);
        Ok(SnapshotRecord {
            name,
            kind,
            id,
            serial,
            time,
            free_head,
            free_inodes,
            orphans,
            picked,
            live_bytes,
            ifile,
        })
    }
}

fn put_name(slot: &mut [u8], name: &str) {
    slot[NAME_AT..NAME_AT + name.len()].copy_from_slice(name.as_bytes());
}

fn name_in(slot: &[u8], len: u32) -> Option<String> {
    let raw = slot[NAME_AT..INODE_AT].get(..len as usize)?;
    let name = std::str::from_utf8(raw).ok()?;
    is_snapshot_name(name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{IFILE_INO, Profile};
    use twin_fs::geometry::Geometry;
    use twin_rt::Rng;

    fn samples() -> Vec<(Superblock, SnapshotsFile)> {
        let profiles = [
            (Profile::Classic, Geometry::classic(4096, 1024)),
            (Profile::Modern, Geometry::modern(4096, 512)),
        ];
        let sample = |(profile, geometry)| {
            let sb = Superblock::plan([1; 16], profile, geometry, 1 << 20, 64 << 20, 2).unwrap();
            let ifile = Dinode::new(&sb.geometry, IFILE_INO, 0, 0, Default::default());
            let ifile = Dinode { flags: twin_fs::dinode::HIDDEN, ..ifile };
            let record = |id: u64| SnapshotRecord {
                name: format!("before change {id}"),
                kind: if id == 3 { RecordKind::Branch } else { RecordKind::Snapshot },
                id,
                serial: 77 + id,
                time: Time(99),
                free_head: 12,
                free_inodes: 3,
                orphans: 1,
                picked: 2,
                live_bytes: 1 << 40,
                ifile: ifile.clone(),
            };
            let records = (1..6).map(record).collect();
            (sb, SnapshotsFile { head: "work".into(), next_id: 6, records })
        };
        profiles.map(sample).into()
    }

    #[test]
    fn records_survive_the_disk() {
        for (sb, file) in samples() {
            let raw = file.encode(&sb);
            assert_eq!(raw.len() % sb.geometry.block_size as usize, 0);
            assert_eq!(SnapshotsFile::decode(&sb, &raw), Ok(file));
        }
    }

    #[test]
    fn a_volume_without_snapshots_stores_nothing() {
        let (sb, _) = &samples()[0];
        assert!(SnapshotsFile::default().encode(sb).is_empty());
    }

    #[test]
    fn names_are_those_of_directories() {
        for name in ["a", "2026-11-27 before", "größer"] {
            assert!(is_snapshot_name(name), "{name}");
        }
        let long = "x".repeat(SNAPSHOT_NAME_MAX + 1);
        for name in ["", ".", "..", "a/b", "-x", "a\nb", &long] {
            assert!(!is_snapshot_name(name), "{name}");
        }
    }

    #[test]
    fn two_states_cannot_have_one_name() {
        let (sb, mut file) = samples().remove(0);
        file.records[1].name = file.head.clone();
        assert!(SnapshotsFile::decode(&sb, &file.encode(&sb)).is_err());
    }

    #[test]
    fn mutations_are_refused_or_read_and_never_panic() {
        let mut rng = Rng::new(1);
        for (sb, file) in samples() {
            let raw = file.encode(&sb);
            for _ in 0..20_000 {
                let mut bad = raw.clone();
                for _ in 0..rng.range(1, 4) {
                    bad[rng.below(raw.len() as u64) as usize] ^= 1 << rng.below(8);
                }
                bad.truncate(rng.below(raw.len() as u64 + 1) as usize);
                let _ = SnapshotsFile::decode(&sb, &bad);
            }
        }
    }
}

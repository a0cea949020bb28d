//! Checkpoints: where the log stood and where the ifile was. Two slots, written in turn.

use twin_fs::dinode::{Dinode, FieldReader, FieldWriter};
use twin_fs::quota::QuotaNote;
use twin_fs::{FsError, Ino, Result};
use twin_rt::Time;

use super::snapshots::SNAPSHOTS_MAX_BYTES;
use super::superblock::{CHECKPOINT_BYTES, Superblock};

/// The most streams that a log can have.
pub const STREAMS_MAX: usize = 8;
/// The most picked inode numbers that a checkpoint notes.
pub const PICKED_MAX: usize = 128;
const MAGIC: u64 = u64::from_le_bytes(*b"twinckp1");
const HEAD: usize = 16;

/// Where a stream of the log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadPos {
    /// The segment being filled.
    pub segment: u32,
    /// Bytes of it that are filled.
    pub offset: u32,
    /// The segment after it.
    pub next: u32,
}

/// The state of the log at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counts checkpoints; the higher is the newer.
    pub number: u64,
    /// The serial number of the next partial segment.
    pub serial: u64,
    /// When it was made.
    pub time: Time,
    /// The volume was closed properly: nothing follows this checkpoint.
    pub closed: bool,
    /// First free inode number; 0 for none.
    pub free_head: Ino,
    /// Free inode numbers on the list.
    pub free_inodes: u64,
    /// Inodes whose map entry is marked as in need of work after a crash.
    pub orphans: u64,
    /// Where the log goes on, for each stream.
    pub heads: Vec<HeadPos>,
    /// Inode numbers taken off the free list but not in use yet.
    pub picked: Vec<Ino>,
    /// The inode of the ifile, from which all other inodes are found.
    pub ifile: Dinode,
    /// The inode of the snapshots' file, on a volume that has one.
    pub snapshots: Option<Dinode>,
    /// Whether there are quotas of directories.
    pub quotas: QuotaNote,
}

impl Checkpoint {
    /// The checkpoint as bytes.
    pub fn encode(&self, sb: &Superblock) -> Vec<u8> {
        let mut raw = vec![0; CHECKPOINT_BYTES as usize];
        let mut w = FieldWriter { raw: &mut raw, at: HEAD };
        w.u32(sb.tag());
        w.u32(u32::from(self.closed));
        for n in [self.number, self.serial, self.time.0, self.free_head, self.free_inodes] {
            w.u64(n);
        }
        w.u64(self.orphans);
        w.u32(self.heads.len() as u32);
        w.u32(self.picked.len() as u32);
        for head in &self.heads {
            w.u32(head.segment);
            w.u32(head.offset);
            w.u32(head.next);
        }
        for &ino in &self.picked {
            w.u64(ino);
        }
        let (at, size) = (w.at, sb.geometry.inode_size as usize);
        self.ifile.encode(&sb.geometry, &mut raw[at..at + size]);
        if let Some(snapshots) = &self.snapshots {
            snapshots.encode(&sb.geometry, &mut raw[at + size..at + 2 * size]);
        }
        let at = at + 2 * size;
        raw[at..at + 4].copy_from_slice(&self.quotas.code().to_le_bytes());
        let crc = crc32c::crc32c(&raw[HEAD..]);
        raw[..8].copy_from_slice(&MAGIC.to_le_bytes());
        raw[8..12].copy_from_slice(&crc.to_le_bytes());
        raw
    }

    /// Reads a checkpoint from its bytes, found at byte `at` of the device.
    pub fn decode(sb: &Superblock, raw: &[u8], at: u64) -> Result<Checkpoint> {
        let bad = |what: &str| FsError::corrupt(at, format!("checkpoint: {what}"));
        if raw.len() < CHECKPOINT_BYTES as usize {
            return Err(bad("too short"));
        }
        let raw = &raw[..CHECKPOINT_BYTES as usize];
        let mut r = FieldReader { raw, at: 0 };
        if r.u64() != MAGIC {
            return Err(bad("there is none here"));
        }
        if r.u32() != crc32c::crc32c(&raw[HEAD..]) {
            return Err(bad("its checksum does not match"));
        }
        r.at = HEAD;
        if r.u32() != sb.tag() {
            return Err(bad("it is another volume's"));
        }
        let closed = r.u32() != 0;
        let [number, serial, time, free_head, free_inodes, orphans] =
            std::array::from_fn(|_| r.u64());
        let (streams, picked) = (r.u32() as usize, r.u32() as usize);
        if streams == 0 || streams > STREAMS_MAX || picked > PICKED_MAX {
            return Err(bad("impossible counts"));
        }
        let heads: Vec<HeadPos> = (0..streams)
            .map(|_| HeadPos { segment: r.u32(), offset: r.u32(), next: r.u32() })
            .collect();
        let inside = |h: &HeadPos| {
            h.segment < sb.segments()
                && h.next < sb.segments()
                && h.offset <= sb.segment_size
                && h.offset.is_multiple_of(sb.align)
        };
        if !heads.iter().all(inside) {
            return Err(bad("the log's position is outside the volume"));
        }
        let picked = (0..picked).map(|_| r.u64()).collect();
        let size = sb.geometry.inode_size as usize;
        let inode = &raw[r.at..r.at + size];
        let frags = sb.size() / u64::from(sb.geometry.frag_size);
        let ifile = Dinode::decode(&sb.geometry, inode, frags).map_err(&bad)?;
        if ifile.size > sb.size() {
            return Err(bad("its ifile is longer than the volume"));
        }
        let inode = &raw[r.at + size..r.at + 2 * size];
        let snapshots = match inode.iter().any(|&byte| byte != 0) {
            true => Some(Dinode::decode(&sb.geometry, inode, frags).map_err(&bad)?),
            false => None,
        };
        if snapshots.as_ref().is_some_and(|file| file.size > SNAPSHOTS_MAX_BYTES) {
            return Err(bad("its snapshots' file is longer than one can be"));
        }
        let quotas = QuotaNote::from_code(FieldReader { raw, at: r.at + 2 * size }.u32());
        let time = Time(time);
        Ok(Checkpoint {
            number,
            serial,
            time,
            closed,
            free_head,
            free_inodes,
            orphans,
            heads,
            picked,
            ifile,
            snapshots,
            quotas,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Profile;
    use twin_fs::geometry::Geometry;

    #[test]
    fn a_checkpoint_survives_the_disk() {
        for (profile, geometry) in [
            (Profile::Classic, Geometry::classic(4096, 1024)),
            (Profile::Modern, Geometry::modern(4096, 512)),
        ] {
            let ifile = Dinode::new(&geometry, 1, 0, 0, Default::default());
            let ifile = Dinode { flags: twin_fs::dinode::HIDDEN, ..ifile };
            let sb = Superblock::plan([1; 16], profile, geometry, 1 << 20, 64 << 20, 2).unwrap();
            let checkpoint = Checkpoint {
                number: 5,
                serial: 77,
                time: Time(99),
                closed: true,
                free_head: 12,
                free_inodes: 3,
                orphans: 1,
                heads: vec![HeadPos { segment: 1, offset: 8192, next: 2 }; STREAMS_MAX],
                picked: vec![9; PICKED_MAX],
                snapshots: Some(Dinode { ino: 0, size: 4096, ..ifile.clone() }),
                ifile,
                quotas: QuotaNote::Counted,
            };
            let raw = checkpoint.encode(&sb);
            assert_eq!(Checkpoint::decode(&sb, &raw, 0), Ok(checkpoint));
        }
    }
}

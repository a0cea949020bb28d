//! Snapshots: the map of a volume as a file. `docs/snapshot-format.md` describes every byte.
//!
//! Contract: a snapshot read is the map written, without names unless they were asked for. Any
//! other bytes give an error that says what is wrong and where; none makes a reader take more
//! memory than sixteen times what [`MOST_BYTES`] allows.

use std::fmt;
use std::ops::Range;

use twin_trace::varint::{self, Cursor};

use crate::map::{FileKind, FileMap, NameOf, Run, VolumeMap};

/// The first bytes of a snapshot.
pub const MAGIC: &[u8; 8] = b"twinsnap";
/// The version of the format.
pub const VERSION: u16 = 1;
/// The most bytes of a snapshot before compression.
pub const MOST_BYTES: u64 = 4 << 30;

const HEADER: usize = 24;
const TRAILER: usize = 4;
/// zstd's level: its default.
const LEVEL: i32 = 3;
/// Flag: names were kept.
const NAMES: u16 = 1;
/// Flag: the free ranges are known.
const FREE: u16 = 2;

/// Why a snapshot cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// The file does not begin as a snapshot does.
    NotASnapshot,
    /// A newer program wrote it.
    Version(u16),
    /// The file ends too early: it has this many bytes.
    Cut(usize),
    /// The bytes were changed since they were written.
    Checksum,
    /// A value is impossible, though the checksum is right: what, and at which byte of the content.
    Field(&'static str, usize),
    /// The expanded content is larger than [`MOST_BYTES`].
    TooLarge(u64),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::NotASnapshot => {
                f.write_str("this is no snapshot of twinfs (`twinfs snapshot` makes one)")
            }
            SnapshotError::Version(version) => write!(
                f,
                "the snapshot has version {version} of the format, and this program reads version \
                 {VERSION}: use a newer twinfs"
            ),
            SnapshotError::Cut(len) => {
                write!(f, "the snapshot is cut off after {len} bytes: take it again, or use a copy")
            }
            SnapshotError::Checksum => {
                f.write_str("the snapshot is damaged: it does not match its checksum")
            }
            SnapshotError::Field(what, at) => {
                write!(f, "the snapshot is damaged: {what} (byte {at} of its content)")
            }
            SnapshotError::TooLarge(bytes) => {
                write!(f, "the snapshot would have {bytes} bytes, and {MOST_BYTES} are possible")
            }
        }
    }
}

impl std::error::Error for SnapshotError {}

/// Writes a map as a snapshot, with names only if `names` is true.
pub fn encode(map: &VolumeMap, names: bool) -> Result<Vec<u8>, SnapshotError> {
    let raw = content(map, names);
    if raw.len() as u64 > MOST_BYTES {
        return Err(SnapshotError::TooLarge(raw.len() as u64));
    }
    let packed = zstd::bulk::compress(&raw, LEVEL);
    let packed = packed.map_err(|_| SnapshotError::TooLarge(raw.len() as u64))?;
    let flag = |on: bool, bit: u16| if on { bit } else { 0 };
    let flags = flag(names, NAMES) | flag(map.free.is_some(), FREE);
    let mut out = Vec::with_capacity(HEADER + packed.len() + TRAILER);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    out.extend_from_slice(&(raw.len() as u64).to_le_bytes());
    out.extend_from_slice(&packed);
    out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
    Ok(out)
}

/// True if a file that begins with these bytes is a snapshot.
pub fn is_snapshot(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC)
}

/// Reads a snapshot.
///
/// # Errors
/// See [`SnapshotError`].
pub fn decode(bytes: &[u8]) -> Result<VolumeMap, SnapshotError> {
    if !is_snapshot(bytes) {
        return Err(SnapshotError::NotASnapshot);
    }
    if bytes.len() < HEADER + TRAILER {
        return Err(SnapshotError::Cut(bytes.len()));
    }
    let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    if word(8) != VERSION {
        return Err(SnapshotError::Version(word(8)));
    }
    let (body, end) = bytes.split_at(bytes.len() - TRAILER);
    let packed_len = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    let expected = HEADER as u64 + u64::from(packed_len) + TRAILER as u64;
    if (bytes.len() as u64) < expected {
        return Err(SnapshotError::Cut(bytes.len()));
    }
    if crc32c::crc32c(body).to_le_bytes() != end || bytes.len() as u64 != expected {
        return Err(SnapshotError::Checksum);
    }
    let raw_len = body[16..HEADER].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    if raw_len > MOST_BYTES {
        return Err(SnapshotError::TooLarge(raw_len));
    }
    let raw = zstd::bulk::decompress(&body[HEADER..], raw_len as usize);
    let raw = raw.map_err(|_| SnapshotError::Field("it cannot be expanded", 0))?;
    Content { raw: &raw, cursor: Cursor::new(0, raw.len()) }.map(word(10))
}

fn content(map: &VolumeMap, names: bool) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, map.system.as_bytes());
    put_bytes(&mut out, map.region.as_bytes());
    varint::put(&mut out, map.block_size.into());
    varint::put(&mut out, map.size);
    varint::put_delta(&mut out, map.taken_s as u64, 0);
    put_ranges(&mut out, &map.areas);
    put_ranges(&mut out, map.free.as_deref().unwrap_or_default());
    varint::put(&mut out, map.files.len() as u64);
    let mut at = 0;
    let (mut ino, mut mtime) = (0, 0);
    for file in &map.files {
        varint::put_delta(&mut out, file.ino, ino);
        varint::put(&mut out, file.kind as u64);
        varint::put(&mut out, file.size);
        varint::put_delta(&mut out, file.mtime_s as u64, mtime);
        varint::put(&mut out, file.runs.len() as u64);
        (ino, mtime) = (file.ino, file.mtime_s as u64);
        let mut lbn = 0;
        for run in &file.runs {
            varint::put_delta(&mut out, run.lbn as u64, lbn);
            varint::put(&mut out, run.blocks);
            varint::put_delta(&mut out, run.at, at);
            // Whole blocks, and the bytes that the last one lacks.
            let whole = run.blocks.wrapping_mul(map.block_size.into());
            varint::put_delta(&mut out, whole, run.bytes);
            lbn = (run.lbn as u64).wrapping_add(run.blocks);
            at = run.end();
        }
    }
    varint::put(&mut out, map.names.len() as u64);
    let (mut dir, mut ino) = (0, 0);
    for name in &map.names {
        varint::put_delta(&mut out, name.dir, dir);
        varint::put_delta(&mut out, name.ino, ino);
        (dir, ino) = (name.dir, name.ino);
        if names {
            put_bytes(&mut out, &name.name);
        }
    }
    varint::put(&mut out, map.problems.len() as u64);
    map.problems.iter().for_each(|problem| put_bytes(&mut out, problem.as_bytes()));
    out
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_ranges(out: &mut Vec<u8>, ranges: &[Range<u64>]) {
    varint::put(out, ranges.len() as u64);
    let mut at = 0;
    for range in ranges {
        varint::put_delta(out, range.start, at);
        varint::put(out, range.end - range.start);
        at = range.end;
    }
}

struct Content<'a> {
    raw: &'a [u8],
    cursor: Cursor,
}

type Read<T> = Result<T, SnapshotError>;

impl Content<'_> {
    fn bad(&self, what: &'static str) -> SnapshotError {
        SnapshotError::Field(what, self.raw.len() - self.cursor.left())
    }

    fn number(&mut self) -> Read<u64> {
        self.cursor.number(self.raw).map_err(|what| self.bad(what))
    }

    fn delta(&mut self, base: u64) -> Read<u64> {
        self.cursor.delta(self.raw, base).map_err(|what| self.bad(what))
    }

    /// A number of items, each of which takes at least this many bytes.
    fn count(&mut self, least: usize) -> Read<usize> {
        let count = self.number()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.cursor.left() / least => Ok(count),
            _ => Err(self.bad("a list is longer than the snapshot")),
        }
    }

    fn bytes(&mut self) -> Read<Vec<u8>> {
        let len = self.number()?;
        let found = self.cursor.bytes(self.raw, len).map(<[u8]>::to_vec);
        found.map_err(|what| self.bad(what))
    }

    fn text(&mut self) -> Read<String> {
        String::from_utf8(self.bytes()?).map_err(|_| self.bad("a text is not UTF-8"))
    }

    fn ranges(&mut self) -> Read<Vec<Range<u64>>> {
        let count = self.count(2)?;
        let mut ranges = Vec::with_capacity(count);
        let mut at = 0;
        for _ in 0..count {
            let start = self.delta(at)?;
            let end = start.checked_add(self.number()?);
            let end = end.filter(|_| start >= at).ok_or(self.bad("ranges are out of order"))?;
            ranges.push(start..end);
            at = end;
        }
        Ok(ranges)
    }

    fn map(mut self, flags: u16) -> Read<VolumeMap> {
        let (system, region) = (self.text()?, self.text()?);
        let block_size = u32::try_from(self.number()?);
        let block_size = block_size.map_err(|_| self.bad("the block size is impossible"))?;
        let (size, taken_s) = (self.number()?, self.delta(0)? as i64);
        let (areas, free) = (self.ranges()?, self.ranges()?);
        let files = self.files(block_size)?;
        let names = self.names(flags & NAMES != 0)?;
        let count = self.count(1)?;
        let problems = (0..count).map(|_| self.text()).collect::<Read<_>>()?;
        if self.cursor.left() > 0 {
            return Err(self.bad("bytes follow its end"));
        }
        let free = (flags & FREE != 0).then_some(free);
        Ok(VolumeMap {
            system,
            block_size,
            size,
            taken_s,
            region,
            areas,
            free,
            files,
            names,
            problems,
        })
    }

    fn files(&mut self, block_size: u32) -> Read<Vec<FileMap>> {
        let count = self.count(5)?;
        let mut files = Vec::with_capacity(count);
        let (mut ino, mut mtime, mut at) = (0, 0, 0);
        for _ in 0..count {
            ino = self.delta(ino)?;
            let kind = match self.number()? {
                0 => FileKind::File,
                1 => FileKind::Directory,
                2 => FileKind::Other,
                _ => return Err(self.bad("there is no such kind of file")),
            };
            let size = self.number()?;
            mtime = self.delta(mtime)?;
            let runs = self.runs(block_size, &mut at)?;
            files.push(FileMap { ino, kind, size, mtime_s: mtime as i64, runs });
        }
        Ok(files)
    }

    fn runs(&mut self, block_size: u32, at: &mut u64) -> Read<Vec<Run>> {
        let count = self.count(4)?;
        let mut runs = Vec::with_capacity(count);
        let mut lbn = 0;
        for _ in 0..count {
            let first = self.delta(lbn)?;
            let blocks = self.number()?;
            let place = self.delta(*at)?;
            let whole = blocks.checked_mul(block_size.into());
            let impossible = self.bad("a run of blocks is impossible");
            let whole = whole.filter(|_| blocks > 0).ok_or(impossible.clone())?;
            // The bytes that the last block lacks were written as a difference to all of them.
            let missing = self.delta(0)?;
            let bytes = whole.checked_sub(missing).ok_or(impossible.clone())?;
            let run = Run { lbn: first as i64, blocks, at: place, bytes };
            *at = place.checked_add(bytes).ok_or(impossible)?;
            lbn = first.wrapping_add(blocks);
            runs.push(run);
        }
        Ok(runs)
    }

    fn names(&mut self, kept: bool) -> Read<Vec<NameOf>> {
        let count = self.count(2 + usize::from(kept))?;
        let mut names = Vec::with_capacity(count);
        let (mut dir, mut ino) = (0, 0);
        for _ in 0..count {
            (dir, ino) = (self.delta(dir)?, self.delta(ino)?);
            let name = if kept { self.bytes()? } else { Vec::new() };
            names.push(NameOf { dir, ino, name });
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::Rng;

    fn sample() -> VolumeMap {
        let run = |lbn, blocks, at, bytes| Run { lbn, blocks, at, bytes };
        let runs = vec![run(0, 12, 8192, 49_152), run(-12, 1, 4096, 4096), run(12, 2, 99, 5000)];
        let file = FileMap { ino: 7, kind: FileKind::File, size: 54_000, mtime_s: -5, runs };
        let dir = FileMap { ino: 2, kind: FileKind::Directory, runs: vec![], ..file.clone() };
        VolumeMap {
            system: "ffs".into(),
            block_size: 4096,
            size: 1 << 30,
            taken_s: 1_700_000_000,
            region: "group".into(),
            areas: vec![0..1000, 1000..2000],
            free: Some(vec![5..6, 6..9]),
            files: vec![dir, file],
            names: vec![NameOf { dir: 2, ino: 7, name: b"secret\xff".to_vec() }],
            problems: vec!["inode 9: ä".into()],
        }
    }

    #[test]
    fn a_snapshot_read_is_the_map_written_and_has_names_only_if_asked() {
        let map = sample();
        assert_eq!(decode(&encode(&map, true).unwrap()), Ok(map.clone()));
        let bytes = encode(&map, false).unwrap();
        let mut nameless = map;
        nameless.names[0].name.clear();
        assert_eq!(decode(&bytes), Ok(nameless));
        let raw = zstd::bulk::decompress(&bytes[HEADER..bytes.len() - TRAILER], 1 << 20).unwrap();
        assert!(!raw.windows(6).any(|window| window == b"secret"));
        let unknown = VolumeMap { free: None, ..VolumeMap::default() };
        assert_eq!(decode(&encode(&unknown, true).unwrap()), Ok(unknown));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let bytes = encode(&sample(), true).unwrap();
        for len in 0..bytes.len() {
            let expected =
                if len < 8 { SnapshotError::NotASnapshot } else { SnapshotError::Cut(len) };
            assert_eq!(decode(&bytes[..len]), Err(expected), "cut to {len}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert!(decode(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn content_that_was_made_wrong_on_purpose_gives_errors_and_no_panic() {
        let raw = content(&sample(), true);
        let mut rng = Rng::new(1);
        for _ in 0..5000 {
            let mut changed = raw.clone();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(changed.len() as u64) as usize;
                changed[at] = rng.next_u64() as u8;
            }
            let cursor = Cursor::new(0, changed.len());
            let _ = Content { raw: &changed, cursor }.map(NAMES | FREE);
        }
    }
}

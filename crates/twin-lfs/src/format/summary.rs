//! Partial segments: the summary in front of each, and what it says of the blocks behind it.
//!
//! This is the one place that builds and parses them; roll-forward, the cleaner, the checker and
//! the dump all use it.
//!
//! A partial segment is a header, a list of entries, and the blocks in the order of the entries,
//! without gaps, padded to the volume's alignment. Wide summaries (modern profile) are as long as
//! they need to be and carry a checksum for each block; narrow ones (classic) have 512 bytes as in
//! 4.4BSD and one checksum over those of all blocks.

use twin_cache::Lbn;
use twin_fs::Ino;
use twin_fs::dinode::{FieldReader, FieldWriter};
use twin_rt::Time;

use super::superblock::{Profile, Superblock};

/// Flag: the last partial segment of its log write, which counts only with it.
pub const LOG_WRITE_LAST: u32 = 1;
/// Flag: the log write contains the ifile; a checkpoint follows.
pub const LOG_WRITE_CHECKPOINT: u32 = 2;
/// Flag: the log write moves blocks and changes nothing else.
pub const LOG_WRITE_CLEANER: u32 = 4;

const MAGIC: u32 = u32::from_le_bytes(*b"tseg");
const HEADER_BYTES: usize = 80;
const NARROW_BYTES: usize = 512;
/// Where the header says how long the summary is.
const SUMMARY_BYTES_AT: usize = 52;
const KIND_FILE: u32 = 1;
const KIND_INODES: u32 = 2;
const KIND_FREED: u32 = 3;
const KIND_FORWARDED: u32 = 4;
/// The longest summary that is read: a partial segment of 512-byte blocks in a segment of 16 MiB
/// needs less.
pub const MOST_SUMMARY_BYTES: usize = 1 << 20;

/// What holds a pointer to a block (an inode, an indirect block), as it lies on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderVersion {
    /// Its place: of an indirect block, its first fragment; of an inode, in units
    /// of its size.
    pub at: u64,
    /// The checksum of the block.
    pub crc: u32,
}

/// A block of a file in a partial segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Its number in the file.
    pub lbn: Lbn,
    /// The length of the block on disk.
    pub len: u32,
    /// CRC-32C of these bytes (wide only).
    pub crc: u32,
    /// The block was moved, and what holds the pointer to it stayed as it is: in this form
    /// (wide only).
    pub holder: Option<HolderVersion>,
}

/// An inode in a partial segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeInfo {
    /// Its number (wide only: narrow summaries leave it to the inode).
    pub ino: Ino,
    /// CRC-32C of the inode (wide only).
    pub crc: u32,
}

/// What a summary says of consecutive blocks, or of no block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SummaryEntry {
    /// Blocks of one file; all are forwarded, or none.
    File {
        /// The inode number of the file.
        ino: Ino,
        /// The generation of the inode.
        generation: u32,
        /// Its blocks, in order.
        blocks: Vec<BlockInfo>,
    },
    /// Inodes, one after the other, padded to a fragment.
    Inodes(Vec<InodeInfo>),
    /// An inode number became free. No block.
    Freed {
        /// The inode number that was freed.
        ino: Ino,
        /// The life that ended.
        generation: u32,
    },
}

/// The fixed part of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Numbers partial segments in the order in which they were built.
    pub serial: u64,
    /// The serial number of the first partial segment of its log write.
    pub group: u64,
    /// `LOG_WRITE_*`.
    pub flags: u32,
    /// The stream of the log that it belongs to.
    pub stream: u32,
    /// The segment that this stream fills after the present one.
    pub next_segment: u32,
    /// Bytes of the whole partial segment, padding included.
    pub total_bytes: u32,
    /// Bytes of the summary.
    pub summary_bytes: u32,
    /// When it was built.
    pub time: Time,
}

/// A summary that was read from the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The fixed part of the summary.
    pub header: Header,
    /// What the partial segment contains, in the order of its places.
    pub entries: Vec<SummaryEntry>,
    /// Narrow only: the checksum over the checksums of all blocks.
    data_crc: u32,
}

/// A summary that is being put together: how long would it be with one more?
#[derive(Clone, Debug)]
pub struct SummaryDraft {
    profile: Profile,
    frag: usize,
    bytes: usize,
    /// The file whose blocks come last, the length of its last block, and whether they are
    /// forwarded.
    open: Option<(Ino, u32, bool)>,
    open_inodes: bool,
    block: u32,
}

impl SummaryDraft {
    /// An empty summary for a volume of this format.
    pub fn new(sb: &Superblock) -> SummaryDraft {
        SummaryDraft {
            profile: sb.profile,
            frag: sb.geometry.frag_size as usize,
            bytes: HEADER_BYTES,
            open: None,
            open_inodes: false,
            block: sb.geometry.block_size,
        }
    }

    /// Bytes that the summary takes on disk.
    pub fn len(&self) -> usize {
        match self.profile {
            Profile::Classic => NARROW_BYTES,
            Profile::Modern => self.bytes,
        }
        .next_multiple_of(self.frag)
    }

    /// True if nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.bytes == HEADER_BYTES
    }

    /// Adds a block of a file, in the order of the blocks; false if the summary is full.
    pub fn add_block(&mut self, ino: Ino, len: u32, is_forwarded: bool) -> bool {
        // A narrow entry says the length of its last block only.
        let goes_on = match (self.profile, self.open) {
            (Profile::Modern, Some((open, _, kind))) => (open, kind) == (ino, is_forwarded),
            (Profile::Classic, Some((open, last, _))) => open == ino && last == self.block,
            (_, None) => false,
        };
        let (head, block) = match self.profile {
            Profile::Modern => (24, if is_forwarded { 32 } else { 16 }),
            Profile::Classic => (16, 4),
        };
        if !self.take(if goes_on { block } else { head + block }) {
            return false;
        }
        (self.open, self.open_inodes) = (Some((ino, len, is_forwarded)), false);
        true
    }

    /// Adds an inode block with this many inodes; false if the summary is full.
    pub fn add_inodes(&mut self, count: usize) -> bool {
        let bytes = match self.profile {
            Profile::Modern => 8 + 16 * count,
            Profile::Classic => 8,
        };
        self.open = None;
        self.take(bytes)
    }

    /// Adds a freed inode number; false if the summary is full.
    pub fn add_freed(&mut self) -> bool {
        self.open = None;
        self.take(16)
    }

    fn take(&mut self, bytes: usize) -> bool {
        let most = match self.profile {
            Profile::Classic => NARROW_BYTES,
            Profile::Modern => MOST_SUMMARY_BYTES,
        };
        if self.bytes + bytes > most {
            return false;
        }
        self.bytes += bytes;
        true
    }
}

/// Appends little-endian numbers to a growing list.
struct ByteWriter(Vec<u8>);

impl ByteWriter {
    fn u32(&mut self, n: u32) {
        self.0.extend(n.to_le_bytes());
    }
    fn u64(&mut self, n: u64) {
        self.0.extend(n.to_le_bytes());
    }
}

impl Summary {
    /// A summary to be written. `crcs` are the checksums of all blocks in order (an inode block
    /// is one block).
    pub fn new(header: Header, entries: Vec<SummaryEntry>, crcs: &[u32]) -> Summary {
        Summary { header, entries, data_crc: crc_of_crcs(crcs) }
    }

    /// The summary as bytes.
    pub fn encode(&self, sb: &Superblock) -> Vec<u8> {
        let mut out = ByteWriter(Vec::with_capacity(self.header.summary_bytes as usize));
        out.0.resize(HEADER_BYTES, 0);
        for entry in &self.entries {
            match sb.profile {
                Profile::Modern => encode_wide(entry, &mut out),
                Profile::Classic => encode_narrow(entry, &mut out),
            }
        }
        let used = out.0.len() as u32;
        assert!(used <= self.header.summary_bytes, "a draft said too little");
        let mut raw = out.0;
        raw.resize(self.header.summary_bytes as usize, 0);
        let h = &self.header;
        let mut w = FieldWriter { raw: &mut raw, at: 8 };
        w.u32(sb.tag());
        w.u32(h.flags);
        w.u64(h.serial);
        w.u64(h.group);
        w.u64(h.time.0);
        for n in [h.stream, h.next_segment, h.total_bytes, h.summary_bytes] {
            w.u32(n);
        }
        w.u32(self.entries.len() as u32);
        w.u32(used);
        w.u32(self.data_crc);
        let crc = crc32c::crc32c(&raw[8..]);
        raw[..4].copy_from_slice(&MAGIC.to_le_bytes());
        raw[4..8].copy_from_slice(&crc.to_le_bytes());
        raw
    }

    /// The length of the summary that begins with these bytes, if one may.
    pub fn len_of(raw: &[u8]) -> Option<usize> {
        let mut r = FieldReader { raw: raw.get(..HEADER_BYTES)?, at: 0 };
        if r.u32() != MAGIC {
            return None;
        }
        r.at = SUMMARY_BYTES_AT;
        let len = r.u32() as usize;
        (HEADER_BYTES..=MOST_SUMMARY_BYTES).contains(&len).then_some(len)
    }

    /// Reads the summary at the start of `raw`; `room` is what is left of the segment from there,
    /// in bytes. None if there is no whole and sound summary of this volume.
    pub fn decode(sb: &Superblock, raw: &[u8], room: u32) -> Option<Summary> {
        if raw.len() < HEADER_BYTES {
            return None;
        }
        let mut r = FieldReader { raw, at: 0 };
        let (magic, crc, tag) = (r.u32(), r.u32(), r.u32());
        if magic != MAGIC || tag != sb.tag() {
            return None;
        }
        let flags = r.u32();
        let (serial, group, time) = (r.u64(), r.u64(), Time(r.u64()));
        let [stream, next_segment, total_bytes, summary_bytes, count, used, data_crc] =
            std::array::from_fn(|_| r.u32());
        let len = summary_bytes as usize;
        if len < HEADER_BYTES
            || len > raw.len().min(MOST_SUMMARY_BYTES)
            || used as usize > len
            || (used as usize) < HEADER_BYTES
            || total_bytes > room
            || total_bytes < summary_bytes
            || next_segment >= sb.segments()
            || crc != crc32c::crc32c(&raw[8..len])
        {
            return None;
        }
        let header =
            Header { serial, group, flags, stream, next_segment, total_bytes, summary_bytes, time };
        let entries = decode_entries(sb, &raw[HEADER_BYTES..used as usize], count)?;
        let summary = Summary { header, entries, data_crc };
        let blocks: u64 = summary.blocks(sb).iter().map(|b| u64::from(b.len)).sum();
        (u64::from(summary_bytes) + blocks <= u64::from(total_bytes)).then_some(summary)
    }

    /// The blocks behind the summary, in order, with their place in the partial segment.
    pub fn blocks(&self, sb: &Superblock) -> Vec<PlacedBlock<'_>> {
        let mut out = Vec::new();
        let mut at = self.header.summary_bytes;
        for entry in &self.entries {
            match entry {
                SummaryEntry::File { ino, generation, blocks } => {
                    for block in blocks {
                        let what = BlockContents::Block {
                            ino: *ino,
                            generation: *generation,
                            block: *block,
                        };
                        out.push(PlacedBlock { at, len: block.len, what });
                        at = at.saturating_add(block.len);
                    }
                }
                SummaryEntry::Inodes(inodes) => {
                    let len = inode_block_len(sb, inodes.len());
                    out.push(PlacedBlock { at, len, what: BlockContents::Inodes(inodes) });
                    at = at.saturating_add(len);
                }
                SummaryEntry::Freed { .. } => {}
            }
        }
        out
    }

    /// Checks the blocks behind the summary: `raw` is the whole partial segment.
    pub fn verify(&self, sb: &Superblock, mut crc_at: impl FnMut(u32, u32) -> u32) -> bool {
        let mut crcs = Vec::new();
        for placed in self.blocks(sb) {
            match (&placed.what, sb.profile) {
                (BlockContents::Block { block, .. }, Profile::Modern) => {
                    if crc_at(placed.at, placed.len) != block.crc {
                        return false;
                    }
                }
                (BlockContents::Inodes(inodes), Profile::Modern) => {
                    let size = sb.geometry.inode_size;
                    for (i, inode) in inodes.iter().enumerate() {
                        if crc_at(placed.at + i as u32 * size, size) != inode.crc {
                            return false;
                        }
                    }
                }
                (_, Profile::Classic) => crcs.push(crc_at(placed.at, placed.len)),
            }
        }
        sb.profile == Profile::Modern || crc_of_crcs(&crcs) == self.data_crc
    }
}

/// Bytes of a block with this many inodes: whole fragments.
pub(crate) fn inode_block_len(sb: &Superblock, inodes: usize) -> u32 {
    (inodes as u32 * sb.geometry.inode_size).next_multiple_of(sb.geometry.frag_size)
}

/// What a block of a partial segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockContents<'a> {
    /// A block of a file.
    Block {
        /// The inode number of the file.
        ino: Ino,
        /// The generation of the inode.
        generation: u32,
        /// The block, and its length.
        block: BlockInfo,
    },
    /// A block of inodes.
    Inodes(&'a [InodeInfo]),
}

/// A block of a partial segment and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBlock<'a> {
    /// First byte, counted from the start of the partial segment.
    pub at: u32,
    /// The length of the block on disk.
    pub len: u32,
    /// What the block contains.
    pub what: BlockContents<'a>,
}

fn crc_of_crcs(crcs: &[u32]) -> u32 {
    crcs.iter().fold(0, |sum, crc| crc32c::crc32c_append(sum, &crc.to_le_bytes()))
}

fn encode_wide(entry: &SummaryEntry, out: &mut ByteWriter) {
    match entry {
        SummaryEntry::File { ino, generation, blocks } => {
            let is_forwarded = blocks.first().is_some_and(|b| b.holder.is_some());
            out.u32(if is_forwarded { KIND_FORWARDED } else { KIND_FILE });
            out.u32(blocks.len() as u32);
            out.u64(*ino);
            out.u32(*generation);
            out.u32(0);
            for block in blocks {
                out.u64(block.lbn as u64);
                out.u32(block.len);
                out.u32(block.crc);
                if let Some(holder) = block.holder {
                    out.u64(holder.at);
                    out.u32(holder.crc);
                    out.u32(0);
                }
            }
        }
        SummaryEntry::Inodes(inodes) => {
            out.u32(KIND_INODES);
            out.u32(inodes.len() as u32);
            for inode in inodes {
                out.u64(inode.ino);
                out.u32(inode.crc);
                out.u32(0);
            }
        }
        SummaryEntry::Freed { ino, generation } => {
            out.u32(KIND_FREED);
            out.u32(*generation);
            out.u64(*ino);
        }
    }
}

fn encode_narrow(entry: &SummaryEntry, out: &mut ByteWriter) {
    match entry {
        SummaryEntry::File { ino, generation, blocks } => {
            out.u32(KIND_FILE << 24 | blocks.len() as u32);
            out.u32(*ino as u32);
            out.u32(*generation);
            out.u32(blocks.last().map_or(0, |b| b.len));
            for block in blocks {
                out.u32(block.lbn as i32 as u32);
            }
        }
        SummaryEntry::Inodes(inodes) => {
            out.u32(KIND_INODES << 24 | inodes.len() as u32);
            out.u32(0);
        }
        SummaryEntry::Freed { ino, generation } => {
            out.u32(KIND_FREED << 24);
            out.u32(*ino as u32);
            out.u32(*generation);
            out.u32(0);
        }
    }
}

fn decode_entries(sb: &Superblock, raw: &[u8], count: u32) -> Option<Vec<SummaryEntry>> {
    let mut r = FieldReader { raw, at: 0 };
    let decode = match sb.profile {
        Profile::Modern => decode_modern,
        Profile::Classic => decode_classic,
    };
    (0..count).map(|_| decode(sb, &mut r)).collect()
}

/// True if at least this many bytes are left.
fn has(r: &FieldReader<'_>, bytes: usize) -> Option<()> {
    (r.raw.len() - r.at >= bytes).then_some(())
}

/// Whether a block of a file can be what an entry says.
fn is_possible(sb: &Superblock, block: &BlockInfo) -> bool {
    let (geometry, len) = (&sb.geometry, block.len);
    let len_fits = len > 0 && len <= geometry.block_size && len.is_multiple_of(geometry.frag_size);
    len_fits && geometry.is_valid_lbn(block.lbn)
}

fn decode_modern(sb: &Superblock, r: &mut FieldReader<'_>) -> Option<SummaryEntry> {
    has(r, 8)?;
    let (kind, n) = (r.u32(), r.u32());
    let count = n as usize;
    match kind {
        KIND_FILE | KIND_FORWARDED => {
            has(r, 16)?;
            let (ino, generation, _) = (r.u64(), r.u32(), r.u32());
            let is_forwarded = kind == KIND_FORWARDED;
            has(r, count.checked_mul(if is_forwarded { 32 } else { 16 })?)?;
            let block = |_| {
                let (lbn, len, crc) = (r.u64() as Lbn, r.u32(), r.u32());
                let holder = is_forwarded.then(|| {
                    let form = HolderVersion { at: r.u64(), crc: r.u32() };
                    r.u32();
                    form
                });
                let block = BlockInfo { lbn, len, crc, holder };
                is_possible(sb, &block).then_some(block)
            };
            let blocks = (0..count).map(block).collect::<Option<Vec<_>>>()?;
            Some(SummaryEntry::File { ino, generation, blocks })
        }
        KIND_INODES => {
            has(r, count.checked_mul(16)?)?;
            let inode = |_| {
                let info = InodeInfo { ino: r.u64(), crc: r.u32() };
                r.u32();
                info
            };
            Some(SummaryEntry::Inodes((0..count).map(inode).collect()))
        }
        KIND_FREED => {
            has(r, 8)?;
            Some(SummaryEntry::Freed { generation: n, ino: r.u64() })
        }
        _ => None,
    }
}

fn decode_classic(sb: &Superblock, r: &mut FieldReader<'_>) -> Option<SummaryEntry> {
    has(r, 8)?;
    let word = r.u32();
    let (kind, count) = (word >> 24, (word & 0xff_ffff) as usize);
    match kind {
        KIND_FILE => {
            has(r, 12)?;
            let (ino, generation, last) = (Ino::from(r.u32()), r.u32(), r.u32());
            has(r, count.checked_mul(4)?)?;
            let block = |i| {
                let len = if i + 1 == count { last } else { sb.geometry.block_size };
                let block = BlockInfo { lbn: Lbn::from(r.u32() as i32), len, crc: 0, holder: None };
                is_possible(sb, &block).then_some(block)
            };
            let blocks = (0..count).map(block).collect::<Option<Vec<_>>>()?;
            Some(SummaryEntry::File { ino, generation, blocks })
        }
        KIND_INODES => {
            r.u32();
            let fits = count <= (sb.geometry.block_size / sb.geometry.inode_size) as usize;
            fits.then(|| SummaryEntry::Inodes(vec![InodeInfo { ino: 0, crc: 0 }; count]))
        }
        KIND_FREED => {
            has(r, 12)?;
            let entry = SummaryEntry::Freed { ino: r.u32().into(), generation: r.u32() };
            r.u32();
            Some(entry)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_fs::geometry::Geometry;
    use twin_rt::Rng;

    fn volume(profile: Profile) -> Superblock {
        let geometry = match profile {
            Profile::Classic => Geometry::classic(4096, 1024),
            Profile::Modern => Geometry::modern(4096, 512),
        };
        Superblock::plan([3; 16], profile, geometry, 1 << 20, 64 << 20, 2).unwrap()
    }

    fn sample(sb: &Superblock) -> Summary {
        let wide = sb.profile == Profile::Modern;
        let crc = |n| if wide { n } else { 0 };
        let block = |lbn, len, n| BlockInfo { lbn, len, crc: crc(n), holder: None };
        let mut entries = vec![
            SummaryEntry::File {
                ino: 9,
                generation: 2,
                blocks: vec![block(0, 4096, 11), block(-12, 4096, 12), block(1, 1024, 13)],
            },
            SummaryEntry::Freed { ino: 44, generation: 1 },
            SummaryEntry::Inodes(vec![InodeInfo { ino: crc(9).into(), crc: crc(14) }; 3]),
        ];
        let mut draft = SummaryDraft::new(sb);
        for len in [4096, 4096, 1024] {
            assert!(draft.add_block(9, len, false));
        }
        assert!(draft.add_freed());
        assert!(draft.add_inodes(3));
        let mut crcs = vec![11, 12, 13, 14];
        if wide {
            let holder = Some(HolderVersion { at: 77, crc: 15 });
            let blocks = vec![BlockInfo { holder, ..block(-12, 4096, 16) }];
            entries.push(SummaryEntry::File { ino: 9, generation: 2, blocks });
            assert!(draft.add_block(9, 4096, true));
            crcs.push(16);
        }
        let header = Header {
            serial: 5,
            group: 4,
            flags: LOG_WRITE_LAST,
            stream: 0,
            next_segment: 8,
            total_bytes: 20480,
            summary_bytes: draft.len() as u32,
            time: Time(123),
        };
        Summary::new(header, entries, &crcs)
    }

    #[test]
    fn a_summary_survives_the_disk() {
        for profile in [Profile::Classic, Profile::Modern] {
            let sb = volume(profile);
            let summary = sample(&sb);
            let mut raw = summary.encode(&sb);
            raw.resize(1 << 20, 0);
            assert_eq!(Summary::decode(&sb, &raw, 1 << 20), Some(summary));
        }
    }

    #[test]
    fn a_draft_knows_the_length() {
        for profile in [Profile::Classic, Profile::Modern] {
            let sb = volume(profile);
            let raw = sample(&sb).encode(&sb);
            assert_eq!(raw.len() % sb.geometry.frag_size as usize, 0);
        }
    }

    #[test]
    fn a_narrow_summary_fills_up() {
        let sb = volume(Profile::Classic);
        let mut draft = SummaryDraft::new(&sb);
        let files = (0..).take_while(|&ino| draft.add_block(ino, 1024, false)).count();
        assert_eq!(files, (512 - HEADER_BYTES) / 20);
    }

    #[test]
    fn mutations_are_refused_and_never_panic() {
        let mut rng = Rng::new(1);
        for profile in [Profile::Classic, Profile::Modern] {
            let sb = volume(profile);
            let mut raw = sample(&sb).encode(&sb);
            raw.resize(65536, 0);
            let len = sample(&sb).header.summary_bytes as usize;
            for _ in 0..10_000 {
                let mut bad = raw.clone();
                for _ in 0..rng.range(1, 4) {
                    bad[rng.below(len as u64) as usize] ^= 1 << rng.below(8);
                }
                if rng.chance(0.5) {
                    // A forger who knows the checksum still cannot make it panic.
                    let crc = crc32c::crc32c(&bad[8..len]).to_le_bytes();
                    bad[4..8].copy_from_slice(&crc);
                }
                if let Some(summary) = Summary::decode(&sb, &bad, 65536) {
                    summary.verify(&sb, |_, _| 0);
                }
            }
        }
    }
}

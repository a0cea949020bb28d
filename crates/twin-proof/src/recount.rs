//! The accounts of a volume, counted anew from what lies on its disk.
//!
//! Contract: reads a platter that was left by a checkpoint with nothing behind it (a closed
//! volume, or one that was just opened), and nothing of the layout's own state. Every block of
//! every file must lie in a segment, no two in one place (forwarded blocks are found by the
//! document's rules, with code of its own); what is live in each segment must be
//! what the usage table says; the free numbers must all be on the free list.

use std::collections::{BTreeMap, BTreeSet};

use twin_disk::gather;
use twin_fs::Ino;
use twin_fs::dinode::{Dinode, HIDDEN};
use twin_fs::geometry::Ptr;
use twin_lfs::IFILE_INO;
use twin_lfs::format::{
    BlockContents, CHECKPOINT_BYTES, Checkpoint, HolderVersion, IMAP_ENTRY_BYTES, ImapEntry,
    SEG_ENTRY_BYTES, SUPERBLOCK_BYTES, SegEntry, Summary, Superblock,
};

use twin_sim::Platter;

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Recount {
    /// Live bytes.
    pub live_bytes: u64,
    /// Inodes in use, with what they are.
    pub inodes: BTreeMap<Ino, Dinode>,
    /// The volume was closed.
    pub closed: bool,
}

/// Where blocks are that their holders on the platter do not know of: by file, block, and the
/// holder's place and checksum.
type Moved = BTreeMap<(Ino, i64, u64, u32), Ptr>;

struct Counter<'a> {
    platter: &'a Platter,
    sb: Superblock,
    moved: Moved,
    /// First byte and length of everything that is live.
    places: Vec<(u64, u32, String)>,
}

/// Counts anew, and compares with what the volume says.
///
/// # Errors
/// The first contradiction, in words.
pub fn recount(platter: &Platter) -> Result<Recount, String> {
    count(platter).map(|(recount, _)| recount)
}

/// Everything on a volume that is live and belongs to a file or is an inode: first byte and length.
pub(super) fn live_places(platter: &Platter) -> Result<Vec<(u64, u32)>, String> {
    count(platter).map(|(_, places)| places)
}

fn count(platter: &Platter) -> Result<(Recount, Vec<(u64, u32)>), String> {
    let sb = superblock(platter)?;
    let checkpoint = checkpoint(platter, &sb)?;
    let mut counter = Counter { platter, sb, moved: Moved::new(), places: Vec::new() };
    let ifile = counter.file(&checkpoint.ifile, None)?;
    let mut segments = Vec::new();
    let mut map = Vec::new();
    let second_part = counter.sb.second_table_part();
    let second_part = ifile.keys().copied().filter(|lbn| *lbn >= second_part);
    for lbn in (0..counter.sb.geometry.blocks_for(checkpoint.ifile.size)).chain(second_part) {
        let Some(ptr) = ifile.get(&lbn) else { return Err(format!("ifile block {lbn}: a hole")) };
        let raw = platter.read_bytes(counter.sb.geometry.byte_of(ptr.addr), ptr.len.into());
        if counter.sb.table_block_at(lbn).is_some() {
            segments.extend(raw.chunks_exact(SEG_ENTRY_BYTES).map(SegEntry::decode));
        } else {
            map.extend(raw.chunks_exact(IMAP_ENTRY_BYTES).map(ImapEntry::decode));
        }
    }
    segments.truncate(counter.sb.segments() as usize);
    counter.find_moved(&segments, checkpoint.serial);
    let mut inodes = BTreeMap::new();
    for (ino, entry) in (0..).zip(&map) {
        if let ImapEntry::Used { at, crc, generation, orphan } = *entry {
            let d = counter.inode(ino, at, crc)?;
            if d.ino != ino || d.generation != generation {
                return Err(format!(
                    "inode {ino}, life {generation}, is {}, {}",
                    d.ino, d.generation
                ));
            }
            if orphan != (d.nlink == 0) {
                return Err(format!("inode {ino} has {} links; orphan: {orphan}", d.nlink));
            }
            counter.file(&d, Some((at, crc)))?;
            inodes.insert(ino, d);
        }
    }
    check_free_list(&checkpoint, &map)?;
    let live_bytes = counter.compare(&segments)?;
    check_hidden(&inodes)?;
    let places = counter.places.into_iter().map(|(at, len, _)| (at, len)).collect();
    Ok((Recount { live_bytes, inodes, closed: checkpoint.closed }, places))
}

fn superblock(platter: &Platter) -> Result<Superblock, String> {
    let size = platter.size();
    let tried = Superblock::places(size, 2).into_iter().map(|at| {
        let raw = platter.read_bytes(at, SUPERBLOCK_BYTES);
        Superblock::decode(&raw, at, size).map_err(|error| error.to_string())
    });
    tried.reduce(Result::or).unwrap_or(Err("no superblock".into()))
}

fn checkpoint(platter: &Platter, sb: &Superblock) -> Result<Checkpoint, String> {
    let places = [0, 1].into_iter().flat_map(|slot| sb.checkpoint_places(slot));
    let found = places.filter_map(|at| {
        Checkpoint::decode(sb, &platter.read_bytes(at, CHECKPOINT_BYTES), at).ok()
    });
    found.max_by_key(|c| c.number).ok_or("no checkpoint".into())
}

impl Counter<'_> {
    fn inode(&mut self, ino: Ino, at: u64, crc: u32) -> Result<Dinode, String> {
        let size = self.sb.geometry.inode_size;
        let byte = at * u64::from(size);
        let raw = self.platter.read_bytes(byte, size.into());
        let wide = self.sb.geometry.has_checksums();
        if wide && crc32c::crc32c(&raw) != crc {
            return Err(format!("inode {ino} at byte {byte} is not the one that the map means"));
        }
        self.places.push((byte, size, format!("inode {ino}")));
        let frags = self.platter.size() / u64::from(self.sb.geometry.frag_size);
        Dinode::decode(&self.sb.geometry, &raw, frags).map_err(|e| format!("inode {ino}: {e}"))
    }

    /// What the summaries of marked segments say of forwarded blocks. Later ones replace earlier
    /// ones.
    fn find_moved(&mut self, segments: &[SegEntry], serial: u64) {
        let mut found = BTreeMap::new();
        for (segment, entry) in (0..).zip(segments) {
            if !entry.forwards || entry.live_bytes == 0 {
                continue;
            }
            let start = self.sb.segment_start(segment);
            let (mut offset, mut last) = (0, 0);
            while offset < self.sb.segment_size {
                let left = self.sb.segment_size - offset;
                let raw = self.platter.read_bytes(start + u64::from(offset), left.into());
                let Some(summary) = Summary::decode(&self.sb, &raw, left) else { break };
                if summary.header.serial <= last || summary.header.serial >= serial {
                    break;
                }
                last = summary.header.serial;
                for placed in summary.blocks(&self.sb) {
                    let BlockContents::Block { ino, block, .. } = placed.what else { continue };
                    let Some(HolderVersion { at, crc }) = block.holder else { continue };
                    let byte = start + u64::from(offset + placed.at);
                    let addr = byte / u64::from(self.sb.geometry.frag_size);
                    let ptr = Ptr { addr, len: block.len, crc: block.crc };
                    found.insert((last, byte), ((ino, block.lbn, at, crc), ptr));
                }
                offset += summary.header.total_bytes;
            }
        }
        self.moved.extend(found.into_values());
    }

    /// A file's blocks, which are counted with its indirect blocks. `form` is the place and
    /// checksum of the inode, which the ifile's has not.
    fn file(&mut self, d: &Dinode, form: Option<(u64, u32)>) -> Result<BTreeMap<u64, Ptr>, String> {
        let mut data = BTreeMap::new();
        let mut left: Vec<(i64, Ptr)> = Vec::new();
        for (slot, ptr) in d.ptrs.iter().enumerate() {
            let lbn = self.sb.geometry.inode_child(slot);
            let moved = form.and_then(|(at, crc)| self.moved.get(&(d.ino, lbn, at, crc)));
            left.push((lbn, *moved.unwrap_or(ptr)));
        }
        let mut bytes = 0;
        while let Some((lbn, ptr)) = left.pop() {
            if ptr.is_hole() {
                continue;
            }
            let what = format!("block {lbn} of inode {}", d.ino);
            let len = self.sb.geometry.len_on_disk(lbn, d.size);
            if !ptr.is_on_disk() || ptr.len != len {
                return Err(format!("{what}: {ptr:?}, should have {len} bytes"));
            }
            bytes += u64::from(len);
            let byte = self.sb.geometry.byte_of(ptr.addr);
            self.places.push((byte, len, what.clone()));
            let content = gather(&self.platter.read(byte, len.into()), 0, len as usize);
            let wide = self.sb.geometry.has_checksums();
            if wide && content.crc32c() != ptr.crc {
                return Err(format!("{what}: the content does not match its checksum"));
            }
            if lbn >= 0 {
                data.insert(lbn as u64, ptr);
                continue;
            }
            let raw = content.to_bytes();
            for index in 0..self.sb.geometry.per_block() as usize {
                let child = self.sb.geometry.child(lbn, index);
                let moved = self.moved.get(&(d.ino, child, ptr.addr, ptr.crc)).copied();
                left.push((child, moved.unwrap_or(self.sb.geometry.get_ptr(&raw, index))));
            }
        }
        if bytes != d.allocated {
            return Err(format!("inode {} has {bytes} bytes and says {}", d.ino, d.allocated));
        }
        Ok(data)
    }

    /// Everything lies in a segment, nothing overlaps, and the table is right.
    fn compare(&mut self, segments: &[SegEntry]) -> Result<u64, String> {
        self.places.sort();
        for pair in self.places.windows(2) {
            let ((at, len, what), (next, _, other)) = (&pair[0], &pair[1]);
            if at + u64::from(*len) > *next {
                return Err(format!("{what} at byte {at} overlaps {other} at byte {next}"));
            }
        }
        let mut live = vec![0u64; segments.len()];
        for (at, len, what) in &self.places {
            let end = at + u64::from(*len) - 1;
            match (self.sb.segment_of(*at), self.sb.segment_of(end)) {
                (Some(a), Some(b)) if a == b => live[a as usize] += u64::from(*len),
                _ => return Err(format!("{what} at byte {at} is not in a segment")),
            }
        }
        for (segment, (counted, entry)) in live.iter().zip(segments).enumerate() {
            if *counted != u64::from(entry.live_bytes) {
                let says = entry.live_bytes;
                return Err(format!(
                    "segment {segment} has {counted} live bytes, the table says {says}"
                ));
            }
        }
        Ok(live.iter().sum())
    }
}

/// The free list holds every free number once.
fn check_free_list(checkpoint: &Checkpoint, map: &[ImapEntry]) -> Result<(), String> {
    let mut listed: BTreeSet<Ino> = BTreeSet::new();
    let mut at = checkpoint.free_head;
    while at != 0 {
        let Some(ImapEntry::Free { next, .. }) = map.get(at as usize) else {
            return Err(format!("the free list leads to inode {at}, which is in use"));
        };
        if !listed.insert(at) {
            return Err(format!("the free list comes back to inode {at}"));
        }
        at = *next;
    }
    let free = (IFILE_INO + 2..).zip(map.iter().skip(IFILE_INO as usize + 2));
    let free: BTreeSet<Ino> =
        free.filter(|(_, e)| matches!(e, ImapEntry::Free { .. })).map(|(ino, _)| ino).collect();
    let mut expected = free;
    expected.retain(|ino| !checkpoint.picked.contains(ino));
    if listed.len() as u64 != checkpoint.free_inodes {
        let says = checkpoint.free_inodes;
        return Err(format!("{} numbers are on the free list, {says} counted", listed.len()));
    }
    match expected.symmetric_difference(&listed).next() {
        Some(ino) => Err(format!("inode {ino} is either free or on the free list, not both")),
        None => Ok(()),
    }
}

/// Every hidden file belongs to one inode.
fn check_hidden(inodes: &BTreeMap<Ino, Dinode>) -> Result<(), String> {
    let mut owned = BTreeMap::new();
    for d in inodes.values() {
        for hidden in [d.index_ino, d.xattr_ino].into_iter().filter(|ino| *ino != 0) {
            if let Some(other) = owned.insert(hidden, d.ino) {
                return Err(format!("inodes {other} and {} both own {hidden}", d.ino));
            }
        }
    }
    for d in inodes.values() {
        let hidden = d.flags & HIDDEN != 0 && d.nlink > 0;
        if hidden != owned.contains_key(&d.ino) {
            let owner = owned.get(&d.ino);
            return Err(format!("inode {} is hidden: {hidden}; its owner: {owner:?}", d.ino));
        }
    }
    match owned.keys().find(|ino| !inodes.contains_key(ino)) {
        Some(ino) => Err(format!("inode {ino} is owned and does not exist")),
        None => Ok(()),
    }
}

impl Recount {
    /// Compares with the tree: an inode without a name must be held by a client, and after closing or
    /// recovery no client holds anything.
    ///
    /// # Errors
    /// The first inode that is lost.
    pub fn compare(&self, tree: &twin_model::Dump) -> Result<(), String> {
        let named: BTreeSet<Ino> = tree.nodes.values().map(|node| node.attr.ino).collect();
        let visible = self.inodes.values().filter(|d| d.flags & HIDDEN == 0).map(|d| d.ino);
        let visible: BTreeSet<Ino> = visible.collect();
        match named.symmetric_difference(&visible).next() {
            Some(ino) => Err(format!("inode {ino} is in the map or in the tree, not in both")),
            None => Ok(()),
        }
    }
}

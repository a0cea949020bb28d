//! Random damage: never a panic, never a run without end, never "clean" where something live was
//! hit, and never a complaint where nothing was.

use std::collections::BTreeMap;

use twin_fs::dinode::Dinode;
use twin_fs::geometry::{Parent, Ptr};
use twin_rt::Rng;

use super::rich::Rich;
use super::*;
use crate::format::IFILE_INO;
use crate::format::{Checkpoint, IMAP_ENTRY_BYTES, ImapEntry, Profile, SummaryEntry, Superblock};
use crate::volume_reader::LogState;

const SIZE: u64 = 3 << 20;

/// The parts of a closed volume whose every byte matters, found by the checker on the sound
/// volume: superblocks, checkpoints, everything claimed, and the summaries that lead to it.
pub(super) struct Live {
    /// First byte and end of each part.
    parts: BTreeMap<u64, u64>,
}

impl Live {
    pub(super) fn of(bytes: &[u8]) -> Live {
        let rt = Rt::new(ClockOnly::default(), 1);
        let device: Rc<dyn BlockDevice> = Rc::new(MemDisk::from_bytes(bytes.to_vec()));
        let mut report = Report::default();
        let (view, _) = rt.block_on(start::open(&rt, device, &mut report)).unwrap().unwrap();
        let sb = view.sb.clone();
        let mut image = LfsImage::new(view, CheckOptions { data: true });
        let ignore = &mut |_| {};
        let checking = twin_check::check(&mut image, &mut report, ignore);
        rt.block_on(checking).unwrap().unwrap();
        assert!(report.is_clean(), "{report}");
        let mut parts = BTreeMap::new();
        let heads = Superblock::places(sb.size(), sb.copies).into_iter();
        for at in heads.chain((0..2).flat_map(|slot| sb.checkpoint_places(slot))) {
            parts.insert(at, at + 4096);
        }
        for segment in 0..sb.segments() {
            live_of_segment(&sb, bytes, image.claims.segment(segment), segment, &mut parts);
        }
        Live { parts }
    }

    fn has(&self, at: u64) -> bool {
        self.parts.range(..=at).next_back().is_some_and(|(_, end)| at < *end)
    }

    /// A byte of it.
    fn pick(&self, rng: &mut Rng) -> u64 {
        let nth = rng.below(self.parts.len() as u64) as usize;
        let (first, end) = self.parts.iter().nth(nth).unwrap();
        rng.range(*first, *end)
    }
}

fn live_of_segment(
    sb: &Superblock,
    bytes: &[u8],
    account: &claims::Account,
    segment: u32,
    parts: &mut BTreeMap<u64, u64>,
) {
    let (start, frag) = (sb.segment_start(segment), sb.geometry.frag_size);
    let claimed = (0..sb.segment_size / frag).filter(|&nth| account.is_claimed(nth));
    let mut add = |nth: u32| {
        let at = start + u64::from(nth * frag);
        parts.insert(at, at + u64::from(frag));
    };
    claimed.clone().for_each(&mut add);
    let Some(last) = claimed.clone().next_back() else { return };
    let mut offset = 0;
    while offset < last * frag {
        let raw = &bytes[(start + u64::from(offset)) as usize..];
        let summary = crate::format::Summary::decode(sb, raw, sb.segment_size - offset).unwrap();
        let frags = |from: u32, len: u32| (offset + from) / frag..(offset + from + len) / frag;
        frags(0, summary.header.summary_bytes).for_each(&mut add);
        let mut own = frags(0, summary.header.total_bytes);
        if sb.profile == Profile::Classic && own.any(|nth| account.is_claimed(nth)) {
            // One checksum covers all blocks of a partial segment, dead ones too.
            let blocks = summary.blocks(sb).into_iter();
            blocks.flat_map(|block| frags(block.at, block.len)).for_each(&mut add);
        }
        offset += summary.header.total_bytes;
    }
}

/// Changes some bytes: flips bits, overwrites, moves sectors about. Mostly of what is live.
pub(super) fn mutate(bytes: &mut [u8], live: &Live, rng: &mut Rng) {
    let len = bytes.len() as u64;
    let place = |rng: &mut Rng| if rng.chance(0.7) { live.pick(rng) } else { rng.below(len) };
    for _ in 0..rng.range(1, 4) {
        let at = place(rng) as usize;
        let sector = at / 512 * 512;
        match rng.below(8) {
            0..=3 => bytes[at] ^= 1 << rng.below(8),
            4 => bytes[at] = rng.next_u64() as u8,
            5 => bytes[sector..sector + 512].fill(0),
            6 => bytes[sector..sector + 512].fill_with(|| rng.next_u64() as u8),
            _ => {
                let from = place(rng) as usize / 512 * 512;
                bytes.copy_within(from..from + 512, sector);
            }
        }
    }
}

/// True if a live byte differs.
fn is_hit(good: &[u8], bad: &[u8], live: &Live) -> bool {
    let sectors = good.chunks(512).zip(bad.chunks(512)).enumerate().filter(|(_, (a, b))| a != b);
    sectors
        .flat_map(|(nth, (a, b))| {
            let differ = a.iter().zip(b).enumerate().filter(|(_, (x, y))| x != y);
            differ.map(move |(offset, _)| (nth * 512 + offset) as u64)
        })
        .any(|at| live.has(at))
}

fn mutations(options: &MkfsOptions, seed: u64, count: u64) {
    let good = Rich::new(options, SIZE).w.close().to_bytes();
    let live = Live::of(&good);
    let mut rng = Rng::stream(seed, "mutations");
    let (mut hits, mut misses) = (0, 0);
    for round in 0..count {
        let mut bad = good.clone();
        mutate(&mut bad, &live, &mut rng);
        let hit = is_hit(&good, &bad, &live);
        let report = try_check(bad, true);
        let clean = report.as_ref().is_ok_and(Report::is_clean);
        // Without its last checkpoint a closed volume looks like one whose power failed just then:
        // roll-forward from the one before loses nothing.
        let recovered = report.is_ok_and(|report| report.was_open);
        let right = clean != hit || (clean && recovered);
        assert!(right, "seed {seed} round {round} {:?}: hit {hit}, clean {clean}", options.profile);
        (hits, misses) = (hits + u64::from(hit), misses + u64::from(!hit));
    }
    assert!(hits > count / 2 && misses > count / 50, "{hits} hits, {misses} misses");
}

#[test]
fn no_mutation_of_a_modern_volume_goes_unnoticed() {
    mutations(&MkfsOptions::modern([1; 16]), 1, 10_000);
}

#[test]
fn no_mutation_of_a_classic_volume_goes_unnoticed() {
    mutations(&MkfsOptions::classic([1; 16]), 2, 5000);
}

/// Without checksums every structure meets whatever the disk says.
#[test]
fn mutations_of_a_classic_volume_meet_no_panic_without_checksums() {
    let good = Rich::new(&MkfsOptions::classic([1; 16]), SIZE).w.close().to_bytes();
    let live = Live::of(&good);
    let mut rng = Rng::stream(3, "mutations");
    for _ in 0..5000 {
        let mut bad = good.clone();
        mutate(&mut bad, &live, &mut rng);
        let _ = try_check(bad, false);
    }
}

#[test]
fn mutations_of_crashed_volumes_meet_no_panic_and_clean_ones_mount() {
    for options in profiles() {
        let closed = Rich::new(&options, SIZE).w.close().to_bytes();
        let live = Live::of(&closed);
        let mut w = World::mount(Rc::new(MemDisk::from_bytes(closed)), LfsSettings::default());
        w.run("metadata", WorkloadParams { users: false, ..WorkloadParams::default() }, 4, 150);
        w.op(Op::Sync);
        let good = w.crash().to_bytes();
        assert_clean(&Rc::new(MemDisk::from_bytes(good.clone())), "crashed");
        let mut rng = Rng::stream(4, "mutations");
        for round in 0..400 {
            let mut bad = good.clone();
            mutate(&mut bad, &live, &mut rng);
            let Ok(report) = try_check(bad.clone(), true) else { continue };
            if report.is_clean() {
                let w = World::mount(Rc::new(MemDisk::from_bytes(bad)), LfsSettings::default());
                assert_clean(&w.close(), &format!("round {round} {:?}", options.profile));
            }
        }
    }
}

/// Changes a structure of a modern volume and makes all checksums above it right again, as a
/// forger or a bug would.
pub(super) struct Forger {
    pub(super) bytes: Vec<u8>,
    sb: Superblock,
    newest: Checkpoint,
}

/// A block of a file, where it is, and where its pointer is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) ino: Ino,
    pub(super) lbn: i64,
    at: u64,
    len: u32,
}

impl Forger {
    pub(super) fn new(bytes: Vec<u8>) -> Forger {
        let sb = Superblock::decode(&bytes, 0, bytes.len() as u64).unwrap();
        let read = |at: u64| Checkpoint::decode(&sb, &bytes[at as usize..], at).unwrap();
        let slots = [0, 1].map(|slot| read(sb.checkpoint_places(slot)[0]));
        let newest = slots.into_iter().max_by_key(|c| c.number).unwrap();
        Forger { bytes, sb, newest }
    }

    fn dinode(&self, ino: Ino) -> Dinode {
        if ino == IFILE_INO {
            return self.newest.ifile.clone();
        }
        let at = self.inode_at(ino) as usize;
        let frags = self.sb.size() / u64::from(self.sb.geometry.frag_size);
        Dinode::decode(&self.sb.geometry, &self.bytes[at..at + 512], frags).unwrap()
    }

    /// Where the map entry of an inode is: the map's block, and the first byte of the entry.
    fn entry_at(&self, ino: Ino) -> (Place, u64) {
        let per_block = u64::from(self.sb.geometry.block_size) / IMAP_ENTRY_BYTES as u64;
        let block = self.place(IFILE_INO, (self.sb.usage_blocks() + ino / per_block) as i64);
        (block, block.at + ino % per_block * IMAP_ENTRY_BYTES as u64)
    }

    fn entry(&self, ino: Ino) -> ImapEntry {
        let at = self.entry_at(ino).1 as usize;
        ImapEntry::decode(&self.bytes[at..at + IMAP_ENTRY_BYTES])
    }

    fn inode_at(&self, ino: Ino) -> u64 {
        match self.entry(ino) {
            ImapEntry::Used { at, .. } => at * 512,
            free => panic!("{free:?}"),
        }
    }

    fn ptr(&self, ino: Ino, lbn: i64) -> Ptr {
        match self.sb.geometry.parent(lbn) {
            Parent::Inode(slot) => self.dinode(ino).ptrs[slot],
            Parent::Indirect(up, index) => {
                let up = self.place(ino, up);
                let content = &self.bytes[up.at as usize..(up.at + u64::from(up.len)) as usize];
                self.sb.geometry.get_ptr(content, index)
            }
        }
    }

    fn place(&self, ino: Ino, lbn: i64) -> Place {
        let ptr = self.ptr(ino, lbn);
        assert!(ptr.is_on_disk(), "block {lbn} of inode {ino}");
        Place { ino, lbn, at: self.sb.geometry.byte_of(ptr.addr), len: ptr.len }
    }

    /// All blocks of a file.
    fn blocks(&self, ino: Ino) -> Vec<Place> {
        let geometry = &self.sb.geometry;
        let mut list: Vec<(i64, Ptr)> = (0..geometry.inode_pointers())
            .map(|s| (geometry.inode_child(s), self.dinode(ino).ptrs[s]))
            .collect();
        let mut all = Vec::new();
        while let Some((lbn, ptr)) = list.pop() {
            if ptr.is_hole() {
                continue;
            }
            let at = geometry.byte_of(ptr.addr);
            all.push(Place { ino, lbn, at, len: ptr.len });
            for index in 0..if lbn < 0 { geometry.per_block() as usize } else { 0 } {
                let content = &self.bytes[at as usize..at as usize + 4096];
                list.push((geometry.child(lbn, index), geometry.get_ptr(content, index)));
            }
        }
        all
    }

    /// What has to be sealed after a change of a block, from it up to its inode.
    fn way_up(&self, ino: Ino, lbn: i64) -> Vec<Place> {
        let mut way = vec![self.place(ino, lbn)];
        let mut at = lbn;
        while let Parent::Indirect(up, _) = self.sb.geometry.parent(at) {
            way.push(self.place(ino, up));
            at = up;
        }
        way
    }

    fn put(&mut self, at: u64, raw: &[u8]) {
        self.bytes[at as usize..at as usize + raw.len()].copy_from_slice(raw);
    }

    fn crc(&self, at: u64, len: u32) -> u32 {
        crc32c::crc32c(&self.bytes[at as usize..at as usize + len as usize])
    }

    /// Makes a summary's checksum of what lies at a place right.
    fn seal_summary(&mut self, at: u64, crc: u32) {
        let Some(segment) = self.sb.segment_of(at) else { return };
        let start = self.sb.segment_start(segment);
        let mut offset = 0;
        loop {
            let raw = &self.bytes[(start + u64::from(offset)) as usize..];
            let room = self.sb.segment_size - offset;
            let Some(mut summary) = crate::format::Summary::decode(&self.sb, raw, room) else {
                return;
            };
            let mut here = start + u64::from(offset + summary.header.summary_bytes);
            let mut found = false;
            for entry in &mut summary.entries {
                match entry {
                    SummaryEntry::File { blocks, .. } => {
                        for block in blocks {
                            if here == at {
                                (block.crc, found) = (crc, true);
                            }
                            here += u64::from(block.len);
                        }
                    }
                    SummaryEntry::Inodes(list) => {
                        for inode in list {
                            if here == at {
                                (inode.crc, found) = (crc, true);
                            }
                            here += 512;
                        }
                    }
                    SummaryEntry::Freed { .. } => {}
                }
            }
            if found {
                let raw = summary.encode(&self.sb);
                return self.put(start + u64::from(offset), &raw);
            }
            offset += summary.header.total_bytes;
        }
    }

    /// Changes bytes of a block and makes the checksums above it right.
    pub(super) fn forge_block(&mut self, ino: Ino, lbn: i64, change: impl FnOnce(&mut [u8])) {
        let way = self.way_up(ino, lbn);
        let (at, len) = (way[0].at as usize, way[0].len as usize);
        let inode =
            if ino == IFILE_INO { None } else { Some((self.inode_at(ino), self.entry_at(ino))) };
        let map_way = inode.map(|(_, (map, _))| self.way_up(IFILE_INO, map.lbn));
        change(&mut self.bytes[at..at + len]);
        self.seal_way(&way, inode.map(|(at, _)| at));
        if let (Some((inode_at, (_, entry_at))), Some(map_way)) = (inode, map_way) {
            self.seal_inode(inode_at, entry_at, &map_way);
        }
    }

    /// Changes bytes of an inode and makes the checksums above it right.
    pub(super) fn forge_inode(&mut self, ino: Ino, change: impl FnOnce(&mut [u8])) {
        let (at, (map, entry_at)) = (self.inode_at(ino), self.entry_at(ino));
        let map_way = self.way_up(IFILE_INO, map.lbn);
        change(&mut self.bytes[at as usize..at as usize + 512]);
        self.seal_inode(at, entry_at, &map_way);
    }

    fn seal_inode(&mut self, at: u64, entry_at: u64, map_way: &[Place]) {
        let crc = self.crc(at + 4, 508).to_le_bytes();
        self.put(at, &crc);
        let crc = self.crc(at, 512);
        self.put(entry_at + 8, &crc.to_le_bytes());
        self.seal_summary(at, crc);
        self.seal_way(map_way, None);
    }

    /// Seals blocks from the lowest up, and the pointer in the inode at `inode_at`; none for the
    /// ifile, whose inode is in the checkpoint.
    fn seal_way(&mut self, way: &[Place], inode_at: Option<u64>) {
        for (nth, place) in way.iter().enumerate() {
            let crc = self.crc(place.at, place.len);
            self.seal_summary(place.at, crc);
            match (self.sb.geometry.parent(place.lbn), inode_at) {
                (Parent::Indirect(_, index), _) => {
                    let up = way[nth + 1].at;
                    self.put(up + index as u64 * 16 + 12, &crc.to_le_bytes());
                }
                (Parent::Inode(slot), Some(at)) => {
                    self.put(at + 128 + slot as u64 * 16 + 12, &crc.to_le_bytes());
                }
                (Parent::Inode(slot), None) => {
                    self.newest.ifile.ptrs[slot].crc = crc;
                    self.seal_checkpoint();
                }
            }
        }
    }

    fn seal_checkpoint(&mut self) {
        let raw = self.newest.encode(&self.sb);
        for at in self.sb.checkpoint_places(self.newest.number % 2) {
            self.put(at, &raw);
        }
    }
}

/// Changes one to four bytes, mostly by little.
pub(super) fn scramble(raw: &mut [u8], rng: &mut Rng) {
    for _ in 0..rng.range(1, 5) {
        // The beginning of a block says most.
        let near = if rng.chance(0.5) { raw.len().min(128) } else { raw.len() };
        let at = rng.below(near as u64) as usize;
        raw[at] = match rng.below(4) {
            0 => rng.next_u64() as u8,
            1 => 0xff,
            2 => 0,
            _ => raw[at] ^ 1 << rng.below(8),
        };
    }
}

#[test]
fn a_forger_changes_nothing_by_doing_nothing() {
    let rich = Rich::new(&MkfsOptions::modern([1; 16]), SIZE);
    let (dir, big) = (rich.dir, rich.big);
    let good = rich.w.close().to_bytes();
    let mut forger = Forger::new(good.clone());
    forger.forge_block(big, -12, |_| {});
    forger.forge_block(dir, 1, |_| {});
    forger.forge_inode(big, |_| {});
    assert!(forger.bytes == good);
    // And a change of a time stays unnoticed.
    forger.forge_inode(big, |raw| raw[72] ^= 1);
    assert_clean(&Rc::new(MemDisk::from_bytes(forger.bytes)), "forged");
}

/// A sound volume, and the inodes and blocks of metadata on it that can be forged.
pub(super) fn forgeable(size: u64) -> (Vec<u8>, Vec<Ino>, Vec<Place>) {
    let rich = Rich::new(&MkfsOptions::modern([1; 16]), size);
    let meta = [rich.dir, rich.inner, rich.innermost, rich.big, IFILE_INO];
    let (dir, xattrs, big) = (rich.dir, rich.xattrs, rich.big);
    let good = rich.w.close().to_bytes();
    let forger = Forger::new(good.clone());
    let hidden = [forger.dinode(dir).index_ino, forger.dinode(xattrs).xattr_ino];
    let used = |ino: &Ino| matches!(forger.entry(*ino), ImapEntry::Used { .. });
    let inos: Vec<Ino> = (2..30).filter(used).collect();
    let mut blocks: Vec<Place> = Vec::new();
    for ino in meta.into_iter().chain(hidden) {
        // File data is nobody's business.
        blocks.extend(forger.blocks(ino).into_iter().filter(|b| b.ino != big || b.lbn < 0));
    }
    (good, inos, blocks)
}

#[test]
fn forged_structures_meet_no_panic() {
    let (good, inos, blocks) = forgeable(SIZE);
    let mut rng = Rng::stream(5, "forgeries");
    let mut noticed = 0;
    for round in 0..3000 {
        let mut forger = Forger::new(good.clone());
        match rng.below(4) {
            0 => forger.forge_inode(*rng.pick(&inos), |raw| scramble(raw, &mut rng)),
            _ => {
                let place = *rng.pick(&blocks);
                forger.forge_block(place.ino, place.lbn, |raw| scramble(raw, &mut rng));
            }
        }
        let report = try_check(forger.bytes, round % 10 == 0);
        noticed += u64::from(!report.is_ok_and(|report| report.is_clean()));
    }
    assert!(noticed > 1500, "{noticed} of 3000");
}

/// What roll-forward made is read in place of what is on the device.
#[test]
fn the_state_of_a_crashed_volume_is_that_after_roll_forward() {
    for options in profiles() {
        let mut rich = Rich::new(&options, SIZE);
        let big = rich.big;
        rich.w.write(big, 12 << 20, 5000);
        rich.w.op(Op::Fsync { ino: big, data_only: false });
        let bytes = rich.w.crash().to_bytes();
        let rt = Rt::new(ClockOnly::default(), 1);
        let device: Rc<dyn BlockDevice> = Rc::new(MemDisk::from_bytes(bytes));
        let state = rt.block_on(LogState::rolled_forward(&rt, &device)).unwrap().unwrap();
        // The indirect blocks above the new data were not in the log.
        let geometry = &rt.block_on(crate::read_superblock(&*device)).unwrap().unwrap().geometry;
        let twin_fs::geometry::Parent::Indirect(up, _) = geometry.parent((12 << 20) / 4096) else {
            panic!()
        };
        let Parent::Indirect(top, _) = geometry.parent(up) else { panic!() };
        assert!(state.0.overlays(big, top), "{:?}", options.profile);
    }
}

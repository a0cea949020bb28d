//! What is known of a clustered volume while it is checked: the maps of its groups, and which
//! fragments are in use. Inodes are read from their tables, several at once.

use twin_cache::Lbn;
use twin_check::{Finding, FindingKind, FoundInode, Report, Severity};
use twin_fs::dinode::Dinode;
use twin_fs::geometry::Ptr;
use twin_fs::quota::QuotaNote;
use twin_fs::{FsError, Ino, ROOT_INO, Result};
use twin_rt::join_all;

use super::volume_image::VolumeImage;
use crate::bits::Bits;
use crate::format::{CgImage, VolumeState};

/// The largest number of concurrent reads of inode tables.
const READS_AT_ONCE: usize = 16;

/// A clustered volume as the checker of files and names sees it.
pub(super) struct FfsImage {
    pub(super) view: VolumeImage,
    /// True if the volume was left open. Orphans are then no damage.
    pub(super) was_open: bool,
    /// It was closed with a note that the use of its quotas is right.
    pub(super) quotas_are_counted: bool,
    /// The maps of the groups as they are on the device; `None` for those that cannot be read.
    pub(super) maps: Vec<Option<CgImage>>,
    /// Fragments in use, by group.
    pub(super) used: Vec<Bits>,
    /// Group and fragment at which the search for a free place continues.
    pub(super) free_from: (u32, u32),
    /// The data of files is compared with its checksums.
    pub(super) compares_data: bool,
    /// The blocks of data of files, if it is.
    pub(super) data: Vec<(Ino, Lbn, Ptr)>,
}

impl FfsImage {
    pub(super) fn new(view: VolumeImage, state: &VolumeState) -> FfsImage {
        FfsImage {
            view,
            was_open: !state.closed,
            quotas_are_counted: state.closed && state.quotas == QuotaNote::Counted,
            maps: Vec::new(),
            used: Vec::new(),
            free_from: (0, 0),
            compares_data: false,
            data: Vec::new(),
        }
    }

    /// Reads inodes; `None` stands for one that is free.
    pub(super) async fn read_inodes(&self, some: &[Ino]) -> Vec<Result<Option<FoundInode>>> {
        let mut found = Vec::with_capacity(some.len());
        for runs in self.runs(some).chunks(READS_AT_ONCE) {
            let reads: Vec<_> = runs.iter().map(|run| self.read_run(run)).collect();
            found.extend(join_all(reads).await.into_iter().flatten());
        }
        found
    }

    /// Divides inodes into runs in adjoining blocks, each no longer than the largest request of the
    /// device.
    fn runs<'a>(&self, some: &'a [Ino]) -> Vec<&'a [Ino]> {
        let sb = &self.view.sb;
        let at_once = (self.view.device.info().max_io / sb.geometry.block_size).max(1);
        let most = u64::from(at_once * sb.frags_per_block());
        let mut runs = Vec::new();
        let mut rest = some;
        while let Some(&first) = rest.first() {
            let start = sb.inode_place(first).0;
            let near = |ino: &&Ino| {
                let there = sb.inode_place(**ino).0;
                (start..start + most).contains(&there)
            };
            let adjoins = |pair: &[Ino]| pair[1] == pair[0] + 1 && near(&&pair[1]);
            let len = 1 + rest.windows(2).take_while(|pair| adjoins(pair)).count();
            let (run, after) = rest.split_at(len);
            runs.push(run);
            rest = after;
        }
        runs
    }

    pub(super) async fn read_run(&self, run: &[Ino]) -> Vec<Result<Option<FoundInode>>> {
        let sb = &self.view.sb;
        let (first, last) = (run[0], run[run.len() - 1]);
        let start = sb.inode_place(first).0;
        let frags = sb.inode_place(last).0 - start;
        let len = sb.geometry.byte_of(frags) as u32 + sb.geometry.block_size;
        match self.view.get(start, len).await {
            Ok(raw) => run.iter().map(|&ino| self.decode(ino, start, &raw)).collect(),
            Err(_) if run.len() > 1 => {
                // One of several blocks may be bad.
                let mut all = Vec::with_capacity(run.len());
                for &ino in run {
                    let addr = sb.inode_place(ino).0;
                    let raw = self.view.get(addr, sb.geometry.block_size).await;
                    all.push(raw.and_then(|raw| self.decode(ino, addr, &raw)));
                }
                all
            }
            Err(error) => run.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Decodes an inode out of blocks of its table that begin at `start`.
    fn decode(&self, ino: Ino, start: u64, raw: &[u8]) -> Result<Option<FoundInode>> {
        let sb = &self.view.sb;
        let (addr, off) = sb.inode_place(ino);
        let at = sb.geometry.byte_of(addr) + off as u64;
        let from = (at - sb.geometry.byte_of(start)) as usize;
        let raw = &raw[from..from + sb.geometry.inode_size as usize];
        // Blocks of a table are zero before they are first used.
        if raw.iter().all(|&b| b == 0) || Dinode::free_generation(&sb.geometry, raw).is_some() {
            return Ok(None);
        }
        let frags = sb.size / u64::from(sb.geometry.frag_size);
        let decoded = match self.is_marked(ino) {
            true => Dinode::decode_unplaced(&sb.geometry, raw, frags),
            false => Dinode::decode(&sb.geometry, raw, frags),
        };
        let decoded = decoded.map_err(String::from);
        let decoded = decoded.and_then(|d| match d.ino == ino {
            true => Ok(d),
            false => Err(format!("it says that it is inode {}", d.ino)),
        });
        match decoded {
            Ok(d) => Ok(Some(FoundInode { at, d })),
            // Blocks of the table that were never written may hold garbage.
            Err(_) if !self.is_marked(ino) && ino != ROOT_INO => Ok(None),
            Err(what) => Err(FsError::corrupt(at, what)),
        }
    }

    /// True if the map of a group says that an inode is in use.
    fn is_marked(&self, ino: Ino) -> bool {
        let per = Ino::from(self.view.sb.group_inodes);
        let image = self.maps.get((ino / per) as usize).and_then(Option::as_ref);
        let index = (ino % per) as usize;
        image.is_some_and(|image| image.inodes[index / 8] >> (index % 8) & 1 != 0)
    }

    /// Compares the data of files with its checksums.
    pub(super) async fn compare_data(&mut self, report: &mut Report) {
        let block = u64::from(self.view.sb.geometry.block_size);
        for (ino, lbn, ptr) in std::mem::take(&mut self.data) {
            report.counts.compared_bytes += u64::from(ptr.len);
            if let Err(error) = self.view.get(ptr.addr, ptr.len).await {
                let first = lbn as u64 * block;
                let last = first + u64::from(ptr.len) - 1;
                let what = format!("block {lbn} (bytes {first} to {last}): the data");
                let kind = FindingKind::Data;
                report.add(Finding::from_error(kind, Severity::Serious, &error, &what).of(ino));
            }
        }
    }

    /// Takes the next run of free fragments within a block.
    pub(super) fn take_place(&mut self, frags: u32) -> Option<u64> {
        let per = self.view.sb.frags_per_block();
        let first = self.free_from;
        for group in first.0..self.view.sb.groups {
            let used = &mut self.used[group as usize];
            let end = self.view.sb.frags_of(group);
            let start = self.view.sb.group_data_start();
            let start = if group == first.0 { start.max(first.1) } else { start };
            let fits = |&at: &u32| at % per + frags <= per && at + frags <= end;
            let free = |&at: &u32| (at..at + frags).all(|i| !used.get(i));
            if let Some(at) = (start..end).filter(fits).find(free) {
                (at..at + frags).for_each(|i| used.set(i, true));
                self.free_from = (group, at + frags);
                return Some(self.view.sb.group_start(group) + u64::from(at));
            }
        }
        None
    }
}

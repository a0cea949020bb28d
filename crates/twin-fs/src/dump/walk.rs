//! Reading the blocks of files, directories and paths on a volume that may be damaged.

use twin_cache::Lbn;
use twin_disk::Bytes;

use super::on_disk::OnDisk;
use super::{DumpError, File, Problem, Sink, Value};
use crate::block_walk::BlockWalk;
pub use crate::block_walk::Step;
use crate::dinode::{Dinode, HIDDEN};
use crate::geometry::{Parent, Ptr};
use crate::{FsError, Ino, ROOT_INO, Result, mode};

/// The length in bytes of the longest file that is read as a whole: that of the longest list of
/// attributes.
const SMALL: u64 = 264 << 10;

/// Dumps files: see [`files`](super::files).
pub struct FileDump<'a> {
    /// The volume to read.
    pub volume: &'a dyn OnDisk,
    /// The receiver of the dump.
    pub sink: &'a mut dyn Sink,
}

/// The word for the kind of an inode.
pub(super) fn kind_name(d: &Dinode) -> &'static str {
    match d.kind() {
        _ if d.flags & HIDDEN != 0 => "hidden",
        kind => type_name(kind),
    }
}

/// The word for the type bits of a mode.
pub(super) fn type_name(kind: u32) -> &'static str {
    match kind {
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

/// A walk over the blocks of a file that are not holes: data blocks in ascending order, an indirect
/// block before the blocks below it. It ends even if pointers form a circle.
pub struct Walk {
    ino: Ino,
    size: u64,
    blocks: BlockWalk,
    /// The number of blocks that may still follow.
    left: u64,
    /// The data blocks below the indirect block of the last step, if that could not be read.
    lost: Option<std::ops::Range<i64>>,
}

impl Walk {
    fn new(volume: &dyn OnDisk, d: &Dinode) -> Walk {
        // A file cannot have more blocks than the volume has fragments. The limit ends the walk if
        // damaged pointers form a circle.
        let left = volume.frags();
        Walk { ino: d.ino, size: d.size, blocks: BlockWalk::new(d), left, lost: None }
    }

    /// Takes the range of data blocks below the indirect block of the last step, if that could not
    /// be read.
    pub(super) fn take_lost(&mut self) -> Option<std::ops::Range<i64>> {
        self.lost.take()
    }

    /// The next block that is not a hole.
    fn next(&mut self, volume: &dyn OnDisk) -> Option<Step> {
        let Step { lbn, ptr } = self.blocks.next(volume.geometry())?;
        Some(Step { lbn, ptr: sized(volume, lbn, ptr, self.size) })
    }
}

/// A pointer with the length of its block, which formats without checksums do not store.
fn sized(volume: &dyn OnDisk, lbn: Lbn, ptr: Ptr, size: u64) -> Ptr {
    match volume.features().checksummed_pointers {
        true => ptr,
        false => Ptr { len: volume.geometry().len_on_disk(lbn, size), ..ptr },
    }
}

impl FileDump<'_> {
    /// Begins a walk at the first block of a file.
    pub fn walk(&self, d: &Dinode) -> Walk {
        Walk::new(self.volume, d)
    }

    /// The next block of a file. Blocks that cannot be read are reported to the sink; the walk
    /// continues after them.
    pub async fn next_step(&mut self, walk: &mut Walk) -> Option<Step> {
        let ino = walk.ino;
        loop {
            let step = walk.next(self.volume)?;
            if walk.left == 0 {
                let what =
                    format!("inode {ino}: more blocks than the volume has; the rest is not shown");
                self.sink.problem(Problem { at: None, what });
                return None;
            }
            walk.left -= 1;
            let overlaid = self.volume.is_in_memory(ino, step.lbn);
            if !overlaid && let Err(what) = self.volume.check_ptr(step.ptr) {
                let what = format!("inode {ino}, block {}: {what}", step.lbn);
                self.sink.problem(Problem { at: None, what });
                continue;
            }
            if step.lbn < 0 {
                match self.volume.indirect(ino, step.lbn, step.ptr).await {
                    Ok(content) => walk.blocks.descend(step.lbn, content),
                    Err(error) => {
                        let geometry = self.volume.geometry();
                        let first = geometry.first_data(step.lbn) as i64;
                        walk.lost = Some(first..first + geometry.span(step.lbn) as i64);
                        let what = format!("inode {ino}, all below indirect block {}", step.lbn);
                        self.problem(&what, error);
                    }
                }
            }
            return Some(step);
        }
    }

    /// The content of a short file.
    pub(super) async fn small_content(&self, d: &Dinode) -> Result<Vec<u8>> {
        if d.size > SMALL {
            return Err(FsError::inconsistent(format!("the hidden file {} is too long", d.ino)));
        }
        let mut content = Vec::new();
        for lbn in 0..self.volume.geometry().blocks_for(d.size) {
            let ptr = self.ptr(d, lbn as i64).await?;
            content.extend_from_slice(&self.volume.block(d.ino, lbn as i64, ptr).await?);
        }
        Ok(content)
    }

    /// The pointer to a block of a file; a hole if there is none.
    pub(super) async fn ptr(&self, d: &Dinode, lbn: Lbn) -> Result<Ptr> {
        let geometry = self.volume.geometry();
        let (mut way, mut at) = (Vec::new(), lbn);
        let mut ptr = loop {
            match geometry.parent(at) {
                Parent::Inode(slot) => break d.ptrs.get(slot).copied().unwrap_or(Ptr::HOLE),
                Parent::Indirect(up, index) => {
                    way.push((up, index));
                    at = up;
                }
            }
        };
        for (up, index) in way.into_iter().rev() {
            if ptr.is_hole() {
                return Ok(Ptr::HOLE);
            }
            let content =
                self.volume.indirect(d.ino, up, sized(self.volume, up, ptr, d.size)).await?;
            ptr = geometry.get_ptr(&content, index);
        }
        Ok(if ptr.is_hole() { ptr } else { sized(self.volume, lbn, ptr, d.size) })
    }

    /// The blocks of a directory that can be read, each cut to the part within the directory's
    /// size.
    pub(super) async fn dir_blocks(&mut self, d: &Dinode) -> Vec<(u64, Bytes)> {
        let block = u64::from(self.volume.geometry().block_size);
        let blocks = self.volume.geometry().blocks_for(d.size);
        let mut steps = self.walk(d);
        let mut out = Vec::new();
        let mut expected = 0;
        while let Some(step) = self.next_step(&mut steps).await {
            let lbn = step.lbn;
            if lbn < 0 || lbn as u64 >= blocks {
                continue;
            }
            self.tell_gap(d.ino, expected, lbn as u64);
            expected = lbn as u64 + 1;
            match self.volume.block(d.ino, lbn, step.ptr).await {
                Ok(bytes) => {
                    let len = (d.size - lbn as u64 * block).min(bytes.len() as u64) as usize;
                    out.push((lbn as u64, bytes.slice(0, len)));
                }
                Err(error) => self.problem(&format!("directory {}, block {lbn}", d.ino), error),
            }
        }
        self.tell_gap(d.ino, expected, blocks);
        out
    }

    fn tell_gap(&mut self, ino: Ino, first: u64, end: u64) {
        if first < end {
            let what = format!("directory {ino} lacks its blocks {first} to {}", end - 1);
            self.sink.problem(Problem { at: None, what });
        }
    }

    /// Follows a path from the root. It searches all blocks of each directory and does not use
    /// indexes, which may be damaged.
    pub(super) async fn lookup_path(&mut self, path: &[u8]) -> Result<Ino, DumpError> {
        let mut at = ROOT_INO;
        for name in path.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
            let (_, d) = self.volume.inode(at).await?;
            let format = self.volume.features().directories;
            let blocks = match d.is_dir() {
                true => self.dir_blocks(&d).await,
                false => Vec::new(),
            };
            let found = blocks.iter().find_map(|(_, bytes)| format.find(bytes, name));
            let name = String::from_utf8_lossy(name);
            let missing = || match d.is_dir() {
                true => format!("there is no {name:?} in directory {at}"),
                false => {
                    format!("{name:?} of this path would be in inode {at}, a {}", kind_name(&d))
                }
            };
            at = found.ok_or_else(|| DumpError::NoSuch(missing()))?.ino;
        }
        Ok(at)
    }

    /// The inode number of the selected file.
    pub(super) async fn resolve(&mut self, file: &File) -> Result<Ino, DumpError> {
        match file {
            File::Ino(ino) if *ino >= self.volume.numbers() => {
                let last = self.volume.numbers().saturating_sub(1);
                let what = format!("there is no inode {ino}: the numbers end with {last}");
                Err(DumpError::NoSuch(what))
            }
            File::Ino(ino) => Ok(*ino),
            File::Path(path) => self.lookup_path(path).await,
        }
    }

    /// Reports to the sink that `what` cannot be read.
    pub fn problem(&mut self, what: &str, error: FsError) {
        self.sink.problem(Problem::with(what, error));
    }

    /// The part of the device that contains a byte.
    pub(super) fn region_of(&self, at: u64) -> Value {
        self.volume.region_of(at).map_or(Value::None, Value::Number)
    }
}

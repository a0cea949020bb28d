//! The paths that differ between two states of a volume.
//!
//! The tree of names is walked in both states at once. What both states have in the same place is not read: blocks of
//! the inode map to which both ifiles point, inodes to which both maps point, and blocks of files. In the modern
//! profile what moved is recognized by its checksum.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::Origin;
use twin_fs::dinode::Dinode;
use twin_fs::geometry::Ptr;
use twin_fs::snapshots::{Change, Difference, Shared};
use twin_fs::{FsError, Ino, Inode, Op, ROOT_INO, Reply, Request, Result, Volume, mode};
use twin_rt::BoxFuture;

use crate::format::ImapEntry;
use crate::lfs::Lfs;

/// Bytes of names that are read at a time.
const NAMES_BYTES: u32 = 64 << 10;

/// A state that is compared.
struct Side<'a> {
    volume: &'a Volume,
    lfs: &'a Lfs,
}

/// The names of a directory, with the numbers that they lead to.
type Names = BTreeMap<Vec<u8>, Ino>;

/// What is left to compare: a path, and where it leads in each state.
struct Pair {
    path: Vec<u8>,
    inos: [Option<Ino>; 2],
}

/// The paths that differ, in the order of their names.
///
/// # Errors
/// If one of the states cannot be read.
pub(crate) async fn differences(from: &Volume, to: &Volume) -> Result<Vec<Difference>> {
    let side = |volume| Side::of(volume).ok_or(FsError::NotSupported("this is no state of a log"));
    let sides = [side(from)?, side(to)?];
    let mut found = Vec::new();
    if maps_are_one(&sides).await? {
        return Ok(found);
    }
    let mut left = vec![Pair { path: Vec::new(), inos: [Some(ROOT_INO); 2] }];
    while let Some(Pair { path, inos }) = left.pop() {
        compare(&sides, path, inos, &mut left, &mut found).await?;
    }
    found.sort();
    Ok(found)
}

/// Compares what a path leads to, and leaves to be compared what is below it.
async fn compare(
    sides: &[Side<'_>; 2],
    path: Vec<u8>,
    inos: [Option<Ino>; 2],
    left: &mut Vec<Pair>,
    found: &mut Vec<Difference>,
) -> Result<()> {
    let unchanged = match inos {
        [Some(a), Some(b)] if a == b => is_same_inode(sides, a).await?,
        _ => false,
    };
    let mut inodes = [None, None];
    for ((side, ino), inode) in sides.iter().zip(inos).zip(&mut inodes) {
        if let Some(ino) = ino {
            *inode = Some(side.inode(ino).await?);
        }
    }
    let is_dir = |inode: &Option<Rc<Inode>>| {
        inode.as_ref().is_some_and(|inode| inode.d.borrow().kind() == mode::DIRECTORY)
    };
    let kind = |inode: &Rc<Inode>| inode.d.borrow().kind();
    let change = match &inodes {
        [Some(_), None] => Some(Change::Removed),
        [None, Some(_)] => Some(Change::Added),
        [Some(a), Some(b)] if kind(a) != kind(b) => {
            // What was there is gone, and something else has its name.
            found.push(Difference { path: path.clone(), change: Change::Removed });
            left.push(Pair { path: path.clone(), inos: [None, inos[1]] });
            if is_dir(&inodes[0]) {
                let names = sides[0].names(inos[0].unwrap_or(ROOT_INO)).await?;
                left.extend(names.into_iter().map(|(name, ino)| Pair {
                    path: below(&path, &name),
                    inos: [Some(ino), None],
                }));
            }
            return Ok(());
        }
        [Some(a), Some(b)] if !unchanged && !is_same(sides, a, b).await? => Some(Change::Changed),
        _ => None,
    };
    if let Some(change) = change.filter(|_| !path.is_empty()) {
        found.push(Difference { path: path.clone(), change });
    }
    if !inodes.iter().any(is_dir) {
        return Ok(());
    }
    let mut names: BTreeMap<Vec<u8>, [Option<Ino>; 2]> = BTreeMap::new();
    for (nth, (side, ino)) in sides.iter().zip(inos).enumerate() {
        let Some(ino) = ino else { continue };
        if unchanged && nth == 1 {
            // Both have the same names, which have been read.
            names.values_mut().for_each(|inos| inos[1] = inos[0]);
            continue;
        }
        for (name, ino) in side.names(ino).await? {
            names.entry(name).or_default()[nth] = Some(ino);
        }
    }
    left.extend(names.into_iter().map(|(name, inos)| Pair { path: below(&path, &name), inos }));
    Ok(())
}

fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    [path, b"/", name].concat()
}

/// True if both states have the same inode map, so that nothing differs.
async fn maps_are_one(sides: &[Side<'_>; 2]) -> Result<bool> {
    let [a, b] = sides;
    if a.lfs.ifile.map_len() != b.lfs.ifile.map_len() {
        return Ok(false);
    }
    for ino in (0..a.lfs.ifile.map_len()).step_by(a.lfs.ifile.numbers_per_block() as usize) {
        if !is_one_map_block(sides, ino).await? {
            return Ok(false);
        }
    }
    let is_clean = |side: &Side<'_>| side.volume.core().cache.dirty_bytes() == 0;
    Ok(sides.iter().all(is_clean)
        && sides.iter().all(|side| side.volume.core().dirty_inode_count() == 0))
}

/// True if both states have their map entry of a number in the same place.
async fn is_one_map_block(sides: &[Side<'_>; 2], ino: Ino) -> Result<bool> {
    let mut ptrs = [Ptr::HOLE; 2];
    for (side, ptr) in sides.iter().zip(&mut ptrs) {
        let (core, ifile) = (side.volume.core(), &side.lfs.ifile);
        let lbn = ifile.map_lbn(ino) as Lbn;
        if ino >= ifile.map_len()
            || core.cache.peek(&ifile.inode.frames, lbn).is_some_and(|f| f.is_dirty())
        {
            return Ok(false);
        }
        *ptr = core.ptr(&ifile.inode, lbn).await?;
    }
    Ok(ptrs[0].is_on_disk() && ptrs[0].addr == ptrs[1].addr)
}

/// True if a number leads to the same inode in both states, with the same content.
async fn is_same_inode(sides: &[Side<'_>; 2], ino: Ino) -> Result<bool> {
    if sides.iter().any(|side| side.is_changed_in_memory(ino)) {
        return Ok(false);
    }
    if is_one_map_block(sides, ino).await? {
        return Ok(true);
    }
    let wide = sides[0].lfs.sb.geometry.has_checksums();
    let entries = [sides[0].entry(ino).await?, sides[1].entry(ino).await?];
    Ok(match entries {
        [
            Some(ImapEntry::Used { at: a, crc: crc_a, generation: life_a, .. }),
            Some(ImapEntry::Used { at: b, crc: crc_b, generation: life_b, .. }),
        ] => life_a == life_b && (a == b || (wide && crc_a == crc_b)),
        _ => false,
    })
}

/// True if two inodes of the same kind have the same content and attributes. Times of directories do not count, nor
/// does the time of an access.
async fn is_same(sides: &[Side<'_>; 2], a: &Rc<Inode>, b: &Rc<Inode>) -> Result<bool> {
    let (da, db) = (a.d.borrow().clone(), b.d.borrow().clone());
    let attributes = |d: &Dinode| (d.mode, d.uid, d.gid, d.rdev, d.flags);
    let is_dir = da.kind() == mode::DIRECTORY;
    if attributes(&da) != attributes(&db) || da.xattrs != db.xattrs {
        return Ok(false);
    }
    match (da.xattr_ino, db.xattr_ino) {
        (0, 0) => {}
        (0, _) | (_, 0) => return Ok(false),
        (x, y) => {
            let (x, y) = (sides[0].inode(x).await?, sides[1].inode(y).await?);
            if !has_same_content(sides, &x, &y).await? {
                return Ok(false);
            }
        }
    }
    if is_dir {
        return Ok(true);
    }
    Ok(da.size == db.size && da.mtime == db.mtime && has_same_content(sides, a, b).await?)
}

async fn has_same_content(sides: &[Side<'_>; 2], a: &Rc<Inode>, b: &Rc<Inode>) -> Result<bool> {
    let (da, db) = (a.d.borrow().clone(), b.d.borrow().clone());
    if da.size != db.size || da.inline != db.inline {
        return Ok(false);
    }
    if da.is_inline() && db.is_inline() {
        return Ok(true);
    }
    let geometry = &sides[0].lfs.sb.geometry;
    for lbn in 0..geometry.blocks_for(da.size) as Lbn {
        if !is_same_block(sides, [a, b], lbn).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn is_same_block(sides: &[Side<'_>; 2], inodes: [&Rc<Inode>; 2], lbn: Lbn) -> Result<bool> {
    let mut ptrs = [Ptr::HOLE; 2];
    let mut dirty = false;
    for ((side, inode), ptr) in sides.iter().zip(inodes).zip(&mut ptrs) {
        let core = side.volume.core();
        *ptr = core.ptr(inode, lbn).await?;
        dirty |= core.cache.peek(&inode.frames, lbn).is_some_and(|frame| frame.is_dirty());
    }
    let [a, b] = ptrs;
    if !dirty {
        if a.addr == b.addr {
            return Ok(true);
        }
        if sides[0].lfs.sb.geometry.has_checksums() && a.is_on_disk() && b.is_on_disk() {
            return Ok((a.len, a.crc) == (b.len, b.crc));
        }
    }
    let mut contents = [None, None];
    for ((side, inode), content) in sides.iter().zip(inodes).zip(&mut contents) {
        let frame = side.volume.core().block(inode, lbn, Origin::User).await?;
        *content = frame.map(|frame| frame.block().to_bytes());
    }
    let is_zero = |content: &Option<twin_disk::Bytes>| {
        content.as_ref().is_none_or(|bytes| bytes.iter().all(|&byte| byte == 0))
    };
    Ok(match &contents {
        [Some(a), Some(b)] => **a == **b,
        [a, b] => is_zero(a) && is_zero(b),
    })
}

/// What two states have in common; `None` if one is none of a log.
pub(crate) fn shared<'a>(from: &'a Volume, to: &'a Volume) -> Option<Box<dyn Shared + 'a>> {
    Some(Box::new(Both([Side::of(from)?, Side::of(to)?])))
}

/// Two states whose parts are compared on request.
struct Both<'a>([Side<'a>; 2]);

impl Shared for Both<'_> {
    fn is_same_inode<'a>(&'a self, ino: Ino) -> BoxFuture<'a, Result<bool>> {
        Box::pin(is_same_inode(&self.0, ino))
    }

    fn is_same_block<'a>(&'a self, ino: Ino, lbn: u64) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let [from, to] = &self.0;
            let inodes = [from.inode(ino).await?, to.inode(ino).await?];
            let held = inodes.each_ref().map(|inode| inode.d.borrow().clone());
            if held.iter().any(Dinode::is_inline) {
                return Ok(held[0].inline == held[1].inline && held[0].size == held[1].size);
            }
            is_same_block(&self.0, [&inodes[0], &inodes[1]], lbn as Lbn).await
        })
    }

    fn block_size(&self) -> u64 {
        u64::from(self.0[1].lfs.sb.geometry.block_size)
    }
}

impl<'a> Side<'a> {
    fn of(volume: &'a Volume) -> Option<Side<'a>> {
        Some(Side { volume, lfs: volume.layout_as()? })
    }

    /// True if memory has another form of an inode or its blocks than the device.
    fn is_changed_in_memory(&self, ino: Ino) -> bool {
        let inode = self.volume.core().cached_inode(ino);
        inode.is_some_and(|inode| inode.is_dirty() || !inode.frames.dirty_frames().is_empty())
    }

    /// The map's entry of a number.
    async fn entry(&self, ino: Ino) -> Result<Option<ImapEntry>> {
        if ino >= self.lfs.ifile.map_len() {
            return Ok(None);
        }
        let frame = self.lfs.ifile.map_block(self.volume.core(), ino).await?;
        Ok(Some(self.lfs.ifile.entry(&frame, ino)))
    }

    async fn inode(&self, ino: Ino) -> Result<Rc<Inode>> {
        match self.volume.core().cached_inode(ino) {
            Some(inode) => Ok(inode),
            None => self.lfs.read_inode(self.volume.core(), ino).await,
        }
    }

    /// The names of a directory, without `.` and `..`.
    async fn names(&self, dir: Ino) -> Result<Names> {
        let mut names = Names::new();
        let mut cookie = 0;
        loop {
            let read = Op::ReadDir { dir, cookie, max_bytes: NAMES_BYTES, plus: false };
            let Reply::Dir(entries) = self.volume.execute(Request::root(1, read)).await? else {
                return Err(FsError::inconsistent("a directory does not answer"));
            };
            let Some(last) = entries.last() else { return Ok(names) };
            cookie = last.next;
            let real = entries.iter().filter(|entry| !matches!(&*entry.name, b"." | b".."));
            names.extend(real.map(|entry| (entry.name.to_vec(), entry.ino)));
        }
    }
}

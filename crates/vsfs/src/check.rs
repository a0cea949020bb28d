//! The check: what contradicts itself on a volume, and the repair of it.
//!
//! Contract: the check goes over a volume once and mends in memory all that it finds ([`Disk`]); the repair
//! writes that. Afterwards the bitmaps say what the inodes say, every name leads to an inode in use, and
//! every inode in use has as many names as it says. The repair can be interrupted and begun again: the
//! volume counts as unmounted only after it.
//!
//! The order is that of `fsck` (McKusick and Kowalski, 1986; OSTEP tells it in "FSCK and Journaling"): inodes
//! and the blocks that they claim, directories and their names, the tree of directories, counts of names,
//! bitmaps. Inodes are believed before bitmaps. Of two files that claim a block, a directory keeps it that has
//! names there, or else the file that changed first: what was synced and not touched since is older than
//! anything that a crash can have left half-written.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::BlockDevice;
use twin_fs::dinode::{Dinode, TRUNCATING};
use twin_fs::dir::block::{CHUNK, Format};
use twin_fs::shape::Ptr;
use twin_fs::{CheckReport, Cpu, FsError, Ino, ROOT_INO, Result, Settings, Timestamp, mode};
use twin_rt::Rt;

use crate::bitmap::Bitmap;
use crate::disk::Disk;
use crate::format::{CLEAN, IN_USE, INODE_BYTES, POINTERS, POINTERS_AT, Superblock};
use crate::layout::Vsfs;

/// The most findings that are listed.
const FINDINGS_MAX: usize = 1000;
/// The least that a device writes whole, in bytes.
const SECTOR: usize = 512;
const DIRS: Format = Format::Classic;

/// Looks at the volume on a device; mends it too, if asked to.
///
/// # Errors
/// If there is no volume, or the device fails.
pub(crate) async fn check(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    repair: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport> {
    let (sb, state) = Superblock::read(&*device).await?;
    let disk = Disk::new(Rc::clone(&device), sb.clone());
    let mut check = Check::new(disk);
    if state != CLEAN {
        check.report.notes.push("not unmounted".into());
    }
    check.read_inodes(progress).await?;
    check.find_names().await?;
    check.claim_blocks().await?;
    check.make_root();
    check.read_directories().await?;
    check.choose_parents().await?;
    check.break_circles().await?;
    check.count_names();
    check.put_inodes().await?;
    check.compare_bitmaps().await?;
    if !repair {
        return Ok(check.report);
    }
    let Check { mut disk, lost, mut report, .. } = check;
    sb.write(&*device, IN_USE).await?;
    disk.write().await?;
    if lost.is_empty() {
        sb.write(&*device, CLEAN).await?;
        return Ok(report);
    }
    // All is in order but for files without a name: the volume's own code gives them one.
    let settings = Settings::default();
    let volume = Vsfs::open_sound(rt, device, Cpu::none(), settings, sb).await?;
    for ino in lost {
        match volume.adopt(ino).await {
            Ok(()) => report.rescued += 1,
            // On a full volume the rest waits for a later repair.
            Err(FsError::NoSpace | FsError::NoInodes) => break,
            Err(error) => return Err(error),
        }
    }
    volume.close().await?;
    Ok(report)
}

/// An inode in use.
struct Node {
    d: Dinode,
    /// Names that lead to it.
    names: u32,
    /// Of a directory: its entries but for the dots, and which of them are directories.
    entries: u32,
    subdirs: u32,
    /// Of a directory: where its entry `..` leads, and later the directory that has its name.
    parent: Ino,
}

/// A name of a directory.
#[derive(Clone, Copy)]
struct Name {
    dir: Ino,
    /// Its block, and how many bytes of that belong to the directory.
    place: u64,
    len: usize,
    offset: usize,
}

struct Check {
    disk: Disk,
    nodes: BTreeMap<Ino, Node>,
    /// Which inode has each data block; 0: none.
    owners: Vec<Ino>,
    /// Blocks with names, and the directories that lead to them.
    of_names: BTreeMap<u64, Ino>,
    /// The names of each directory.
    dir_names: BTreeMap<Ino, Vec<Name>>,
    /// Inodes that must be written, or freed if they are no longer among the nodes.
    changed: BTreeMap<Ino, u32>,
    /// Inodes that need a name.
    lost: Vec<Ino>,
    report: CheckReport,
}

impl Check {
    fn new(disk: Disk) -> Check {
        Check {
            owners: vec![0; disk.sb.data_blocks() as usize],
            disk,
            nodes: BTreeMap::new(),
            of_names: BTreeMap::new(),
            dir_names: BTreeMap::new(),
            changed: BTreeMap::new(),
            lost: Vec::new(),
            report: CheckReport::default(),
        }
    }

    fn found(&mut self, what: String) {
        match self.report.findings.len() < FINDINGS_MAX {
            true => self.report.findings.push(what),
            false => self.report.more_findings += 1,
        }
    }

    /// Something is wrong with an inode: it will be written anew.
    fn wrong(&mut self, ino: Ino, what: String) {
        let generation = self.nodes.get(&ino).map_or(0, |node| node.d.generation);
        self.changed.insert(ino, generation);
        self.found(format!("inode {ino}: {what}"));
    }

    /// Reads the table. What cannot be an inode is freed.
    async fn read_inodes(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let (sb, shape) = (self.disk.sb.clone(), self.disk.shape.clone());
        let per_block = u64::from(sb.block_size / INODE_BYTES);
        let table_blocks = u64::from(sb.inodes) / per_block;
        for index in 0..table_blocks {
            progress(index, table_blocks);
            let raw = self.disk.block(u64::from(sb.inode_table) + index).await?;
            for (ino, raw) in (index * per_block..).zip(raw.chunks_exact(INODE_BYTES as usize)) {
                if Dinode::free_generation(&shape, raw).is_some() {
                    continue;
                }
                let mut raw = raw.to_vec();
                let bad = clear_bad_pointers(&sb, &mut raw);
                match Dinode::decode(&shape, &raw, sb.blocks.into()) {
                    Ok(d) if d.ino == ino && ino >= ROOT_INO && (ino > ROOT_INO || d.is_dir()) => {
                        let node = Node { names: 0, entries: 0, subdirs: 0, parent: 0, d };
                        self.nodes.insert(ino, node);
                    }
                    Ok(_) => self.wrong(ino, "it is none that this number can have".into()),
                    Err(what) => self.wrong(ino, format!("{what}; it is freed")),
                }
                if bad > 0 {
                    self.wrong(ino, format!("{bad} of its pointers lead out of the data"));
                }
            }
        }
        progress(table_blocks, table_blocks);
        Ok(())
    }

    /// Finds the blocks that are clearly a directory's.
    async fn find_names(&mut self) -> Result<()> {
        for d in self.directories() {
            for lbn in 0..self.disk.shape.blocks_for(d.size) {
                let place = self.disk.place_of(&d, lbn as Lbn).await?.addr;
                if place == 0 {
                    break;
                }
                let raw = self.disk.block(place).await?;
                let len = self.len_of(&d, lbn);
                let own = (lbn == 0).then_some(d.ino);
                if raw[..len].chunks_exact(CHUNK).any(|chunk| DIRS.validate(chunk, own).is_ok()) {
                    self.of_names.entry(place).or_insert(d.ino);
                }
            }
        }
        Ok(())
    }

    fn directories(&self) -> Vec<Dinode> {
        self.nodes.values().filter(|node| node.d.is_dir()).map(|node| node.d.clone()).collect()
    }

    /// Bytes of a block that belong to a file.
    fn len_of(&self, d: &Dinode, lbn: u64) -> usize {
        let block = u64::from(self.disk.sb.block_size);
        block.min(d.size - lbn * block) as usize
    }

    /// Gives each block to the file that leads to it. Pointers that lead nowhere, past the end of
    /// their file, or to a block that another file has, are cleared.
    async fn claim_blocks(&mut self) -> Result<()> {
        let age = |node: &Node| (node.d.nlink == 0, node.d.ctime.secs, node.d.ctime.nanos);
        let mut order: Vec<_> = self.nodes.iter().map(|(&ino, node)| (age(node), ino)).collect();
        order.sort_unstable();
        for (_, ino) in order {
            let Some(mut node) = self.nodes.remove(&ino) else { continue };
            let before = node.d.clone();
            self.claim_file(&mut node.d).await?;
            let (is_dir, is_link) = (node.d.is_dir(), node.d.kind() == mode::SYMLINK);
            if is_dir {
                self.cut_directory(&mut node.d).await?;
            }
            let changed = node.d != before;
            let empty = node.d.size == 0 || is_link && node.d.ptrs[0].is_hole();
            if (is_dir && ino != ROOT_INO || is_link) && empty {
                // Its blocks, if it still has some, are nobody's from here on.
                self.changed.insert(ino, node.d.generation);
                self.found(format!("inode {ino}: a directory or link without its first block"));
                continue;
            }
            self.nodes.insert(ino, node);
            if changed {
                self.wrong(ino, "its blocks or their number were wrong".into());
            }
        }
        Ok(())
    }

    async fn claim_file(&mut self, d: &mut Dinode) -> Result<()> {
        let shape = self.disk.shape.clone();
        let (mut blocks, mut indirect) = (0, Vec::new());
        for slot in 0..d.ptrs.len() {
            let lbn = shape.inode_child(slot);
            if self.claim(d, lbn, d.ptrs[slot]) {
                blocks += 1;
                indirect.extend((lbn < 0).then_some((lbn, d.ptrs[slot].addr)));
            } else {
                d.ptrs[slot] = Ptr::HOLE;
            }
        }
        while let Some((up, place)) = indirect.pop() {
            let mut raw = self.disk.block(place).await?;
            let garbage = clear_garbage(&self.disk.sb, &mut raw);
            let mut changed = garbage > 0;
            if changed {
                let what =
                    format!("{garbage} sectors of its indirect block {place} hold no pointers");
                self.found(format!("inode {}: {what}", d.ino));
            }
            for index in 0..shape.per_block() as usize {
                let (lbn, ptr) = (shape.child(up, index), shape.get_ptr(&raw, index));
                if self.claim(d, lbn, ptr) {
                    blocks += 1;
                    indirect.extend((lbn < 0).then_some((lbn, ptr.addr)));
                } else if !ptr.is_hole() {
                    shape.set_ptr(&mut raw, index, Ptr::HOLE);
                    changed = true;
                }
            }
            if changed {
                self.disk.put(place, raw);
            }
        }
        d.flags &= !TRUNCATING;
        d.allocated = blocks * u64::from(shape.block_size);
        Ok(())
    }

    /// True if a file may have this block. It has it from then on.
    fn claim(&mut self, d: &Dinode, lbn: Lbn, ptr: Ptr) -> bool {
        if ptr.is_hole() {
            return false;
        }
        let sb = &self.disk.sb;
        let at = || ptr.addr as usize - sb.data as usize;
        let why = if self.disk.shape.first_data(lbn) >= self.disk.shape.blocks_for(d.size) {
            "which lies past its end"
        } else if self.owners[at()] != 0
            || self.of_names.get(&ptr.addr).is_some_and(|&i| i != d.ino)
        {
            "which another file has"
        } else {
            let at = at();
            self.owners[at] = d.ino;
            return true;
        };
        self.found(format!("inode {}: block {lbn} is block {}, {why}", d.ino, ptr.addr));
        false
    }

    /// A directory ends before the first block that it lacks.
    async fn cut_directory(&mut self, d: &mut Dinode) -> Result<()> {
        let block = u64::from(self.disk.sb.block_size);
        for lbn in 0..self.disk.shape.blocks_for(d.size) {
            if self.disk.place_of(d, lbn as Lbn).await?.is_hole() {
                d.size = lbn * block;
                // What lies behind is past the end now.
                for owner in self.owners.iter_mut().filter(|owner| **owner == d.ino) {
                    *owner = 0;
                }
                return self.claim_file(d).await;
            }
        }
        Ok(())
    }

    /// A root directory, if there is none: files that had their names in it go to `lost+found`.
    fn make_root(&mut self) {
        if self.nodes.get(&ROOT_INO).is_some_and(|root| root.d.size > 0) {
            return;
        }
        let Some(free) = self.owners.iter().position(|&owner| owner == 0) else { return };
        self.owners[free] = ROOT_INO;
        let place = u64::from(self.disk.sb.data) + free as u64;
        let mut raw = vec![0; self.disk.sb.block_size as usize];
        DIRS.init_first(&mut raw, ROOT_INO, ROOT_INO);
        let (len, now) = (raw.len() as u32, Timestamp::default());
        let mut d = Dinode::new(&self.disk.shape, ROOT_INO, 1, mode::DIRECTORY | 0o755, now);
        (d.size, d.allocated, d.nlink) = (len.into(), len.into(), 2);
        d.ptrs[0] = Ptr { addr: place, len, crc: 0 };
        self.disk.put(place, raw);
        let root = Node { names: 0, entries: 0, subdirs: 0, parent: 0, d };
        self.nodes.insert(ROOT_INO, root);
        self.wrong(ROOT_INO, "there is no root directory: it is made anew".into());
    }

    /// Goes over the names of all directories. Those that lead nowhere are removed.
    async fn read_directories(&mut self) -> Result<()> {
        for d in self.directories() {
            let mut seen = BTreeSet::new();
            for lbn in 0..self.disk.shape.blocks_for(d.size) {
                let place = self.disk.place_of(&d, lbn as Lbn).await?.addr;
                let name = Name { dir: d.ino, place, len: self.len_of(&d, lbn), offset: 0 };
                self.read_directory_block(name, lbn == 0, &mut seen).await?;
            }
        }
        Ok(())
    }

    async fn read_directory_block(
        &mut self,
        block: Name,
        is_first: bool,
        seen: &mut BTreeSet<Vec<u8>>,
    ) -> Result<()> {
        let Name { dir, place, len, .. } = block;
        let mut raw = self.disk.block(place).await?;
        let names = &mut raw[..len];
        let mut changed = false;
        for (index, chunk) in names.chunks_exact_mut(CHUNK).enumerate() {
            let own = (is_first && index == 0).then_some(dir);
            let Err(error) = DIRS.validate(chunk, own) else { continue };
            self.found(format!("inode {dir}: chunk {index} of block {place}: {}", error.what));
            match own {
                Some(dir) => DIRS.init_first(chunk, dir, ROOT_INO),
                None => DIRS.init(chunk),
            }
            changed = true;
        }
        let items: Vec<_> =
            DIRS.items(names, 0).map(|i| (i.offset, i.ino, i.kind, i.name.to_vec())).collect();
        for (offset, ino, kind, name) in items {
            if is_first && name == b".." {
                self.nodes.entry(dir).and_modify(|node| node.parent = ino);
            }
            if matches!(&name[..], b"." | b"..") {
                continue;
            }
            let text = String::from_utf8_lossy(&name).into_owned();
            let known = self.nodes.get(&ino).filter(|_| ino > ROOT_INO).map(|node| node.d.kind());
            let fixed = match known {
                Some(known) if seen.insert(name) => {
                    self.count_entry(Name { offset, ..block }, ino);
                    if known == kind {
                        continue;
                    }
                    DIRS.set_ino(names, offset, ino, known)
                }
                _ => DIRS.remove(names, offset),
            };
            self.found(format!("inode {dir}: its name {text:?} leads to {ino}, which is wrong"));
            changed |= fixed.is_ok();
        }
        if changed {
            self.disk.put(place, raw);
        }
        Ok(())
    }

    fn count_entry(&mut self, name: Name, ino: Ino) {
        let is_dir = self.nodes.get(&ino).is_some_and(|node| node.d.is_dir());
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.names += 1;
        }
        if let Some(dir) = self.nodes.get_mut(&name.dir) {
            dir.entries += 1;
            dir.subdirs += u32::from(is_dir);
        }
        if is_dir {
            self.dir_names.entry(ino).or_default().push(name);
        }
    }

    /// Every directory has one name, and its entry `..` leads to where that is. Of several names the one
    /// counts that `..` agrees with.
    async fn choose_parents(&mut self) -> Result<()> {
        for (ino, mut names) in std::mem::take(&mut self.dir_names) {
            let up = self.nodes.get(&ino).map_or(0, |node| node.parent);
            names.sort_by_key(|name| name.dir != up);
            for name in names.drain(1..) {
                self.remove_name(ino, name).await?;
            }
            let parent = names[0].dir;
            if parent != up {
                self.set_parent(ino, parent).await?;
            }
            self.dir_names.insert(ino, names);
        }
        let up = self.nodes.get(&ROOT_INO).map(|root| root.parent);
        if up.is_some_and(|up| up != ROOT_INO) {
            self.set_parent(ROOT_INO, ROOT_INO).await?;
        }
        Ok(())
    }

    async fn remove_name(&mut self, ino: Ino, name: Name) -> Result<()> {
        self.found(format!("inode {ino}: a directory with a second name, in inode {}", name.dir));
        let mut raw = self.disk.block(name.place).await?;
        if DIRS.remove(&mut raw[..name.len], name.offset).is_ok() {
            self.disk.put(name.place, raw);
        }
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.names -= 1;
        }
        if let Some(dir) = self.nodes.get_mut(&name.dir) {
            (dir.entries, dir.subdirs) = (dir.entries - 1, dir.subdirs - 1);
        }
        Ok(())
    }

    async fn set_parent(&mut self, ino: Ino, parent: Ino) -> Result<()> {
        self.found(format!("inode {ino}: its name is in inode {parent}, its `..` leads elsewhere"));
        let Some(node) = self.nodes.get_mut(&ino) else { return Ok(()) };
        node.parent = parent;
        let (place, len) = (node.d.ptrs[0].addr, node.d.size.min(self.disk.sb.block_size.into()));
        let mut raw = self.disk.block(place).await?;
        let names = &mut raw[..len as usize];
        if let Some(up) = DIRS.find(names, b"..")
            && DIRS.set_ino(names, up.offset, parent, mode::DIRECTORY).is_ok()
        {
            self.disk.put(place, raw);
        }
        Ok(())
    }

    /// Directories in a circle have a name each, and yet no path leads to them: one of the names goes.
    async fn break_circles(&mut self) -> Result<()> {
        let mut reached = BTreeSet::from([ROOT_INO]);
        for start in self.dir_names.keys().copied().collect::<Vec<_>>() {
            let (mut way, mut at) = (BTreeSet::new(), start);
            while !reached.contains(&at) && way.insert(at) {
                // A directory without a name is where lost ones begin.
                let Some(name) = self.dir_names.get(&at) else { break };
                at = name[0].dir;
            }
            if !reached.contains(&at)
                && let Some(name) = self.dir_names.get(&at).map(|names| names[0])
            {
                self.dir_names.remove(&at);
                self.remove_name(at, name).await?;
            }
            reached.extend(way);
        }
        Ok(())
    }

    /// Every inode has as many names as it says. One without any gets one, unless it had been removed and
    /// was only open still.
    fn count_names(&mut self) {
        let mut wrong = Vec::new();
        let (mut files, mut dirs) = (0, 0);
        for (&ino, node) in &mut self.nodes {
            let is_dir = node.d.is_dir();
            let nlink = if is_dir { 2 + node.subdirs } else { node.names.max(1) };
            let nameless = node.names == 0 && ino != ROOT_INO;
            if nameless && node.d.nlink == 0 && node.entries == 0 {
                wrong.push((ino, None));
                continue;
            }
            if nameless {
                self.lost.push(ino);
            }
            if nameless || node.d.nlink != nlink {
                wrong.push((ino, Some((nameless, node.names, node.d.nlink))));
                node.d.nlink = nlink;
            }
            (files, dirs) = (files + u64::from(!is_dir), dirs + u64::from(is_dir));
        }
        for (ino, counts) in wrong {
            match counts {
                Some((true, ..)) => self.wrong(ino, "it has no name".into()),
                Some((_, names, nlink)) => {
                    self.wrong(ino, format!("{names} names, and it says {nlink}"))
                }
                None => {
                    self.wrong(ino, "it was removed; it is freed".into());
                    self.nodes.remove(&ino);
                }
            }
        }
        self.report
            .notes
            .push(format!("{files} files, links and special files, {dirs} directories"));
    }

    /// Puts inodes that were changed into the table.
    async fn put_inodes(&mut self) -> Result<()> {
        for (ino, generation) in std::mem::take(&mut self.changed) {
            let (place, at) = self.disk.sb.inode_place(ino);
            let mut block = self.disk.block(place).await?;
            let raw = &mut block[at..at + INODE_BYTES as usize];
            match self.nodes.get(&ino) {
                Some(node) => node.d.encode(&self.disk.shape, raw),
                None if ino < ROOT_INO => raw.fill(0),
                None => Dinode::encode_free(&self.disk.shape, ino, generation, raw),
            }
            self.disk.put(place, block);
        }
        Ok(())
    }

    /// Holds the bitmaps against what inodes and their blocks say.
    async fn compare_bitmaps(&mut self) -> Result<()> {
        let sb = self.disk.sb.clone();
        let mut inodes = Bitmap::empty(&sb, sb.inode_bitmap, sb.inodes);
        (0..ROOT_INO as u32).for_each(|number| inodes.set(number, true));
        self.nodes.keys().for_each(|&ino| inodes.set(ino as u32, true));
        let mut data = Bitmap::empty(&sb, sb.data_bitmap, sb.data_blocks());
        for (block, owner) in (0..).zip(&self.owners) {
            data.set(block, self.nodes.contains_key(owner));
        }
        for (what, bitmap) in [("inode", inodes), ("data", data)] {
            let mut wrong = 0;
            for (place, right) in bitmap.blocks() {
                let there = self.disk.block(place).await?;
                let differ = there.iter().zip(&right).map(|(a, b)| (a ^ b).count_ones());
                let bits = differ.sum::<u32>();
                if bits > 0 {
                    self.disk.put(place, right);
                }
                wrong += bits;
            }
            if wrong > 0 {
                self.found(format!("the {what} bitmap is wrong about {wrong} numbers"));
            }
            let (used, all) = (bitmap.used(), bitmap.len());
            self.report.notes.push(format!("{used} of {all} bits of the {what} bitmap are set"));
        }
        Ok(())
    }
}

/// Clears the sectors of an indirect block that hold a pointer which cannot be. A crash leaves each sector old or new:
/// it never was the block's, and its other pointers would take blocks from other files. Gives how many.
fn clear_garbage(sb: &Superblock, raw: &mut [u8]) -> usize {
    let is_garbage = |sector: &&mut [u8]| bad_pointers(sb, sector).next().is_some();
    raw.chunks_exact_mut(SECTOR).filter(is_garbage).map(|sector| sector.fill(0)).count()
}

/// Where there are pointers that lead to no data block.
fn bad_pointers<'a>(sb: &'a Superblock, raw: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let place = |raw: &[u8]| u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
    let bad = move |raw: &[u8]| place(raw) != 0 && !sb.is_data(place(raw).into());
    raw.chunks_exact(4).enumerate().filter(move |(_, raw)| bad(raw)).map(|(index, _)| index * 4)
}

/// Clears those pointers of an inode's bytes that lead to no data block, so that the rest of the file is not lost
/// with them. Gives how many there were.
fn clear_bad_pointers(sb: &Superblock, raw: &mut [u8]) -> usize {
    let kind = u32::from(u16::from_le_bytes([raw[0], raw[1]])) & mode::TYPE;
    if !matches!(kind, mode::REGULAR | mode::DIRECTORY | mode::SYMLINK) {
        return 0;
    }
    let pointers = &mut raw[POINTERS_AT..POINTERS_AT + 4 * POINTERS];
    let bad: Vec<usize> = bad_pointers(sb, pointers).collect();
    bad.iter().for_each(|&at| pointers[at..at + 4].fill(0));
    bad.len()
}

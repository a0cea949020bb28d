//! Checks and repairs directories: their blocks, their entries, and the inodes that these lead to.

use twin_disk::Bytes;
use twin_fs::dinode::Dinode;
use twin_fs::dir::block::Item;
use twin_fs::dir::name_hash;
use twin_fs::geometry::Ptr;
use twin_fs::{FsError, Ino, ROOT_INO, Result, mode};

use crate::{
    Checker, Child, Dir, Finding, FindingKind, FoundInode, Node, NumberState, Phase, Progress,
    Step, Walk,
};

/// Number of inodes of directories that are read together.
const BATCH: usize = 512;
/// Two different keys. During a check two hashes stand for a name, one with each key.
const KEYS: [[u64; 2]; 2] = [[0x7477_696e, 1], [0x6c66_7321, 2]];
/// The largest number of lost blocks that a repair replaces in a directory. A directory that lacks
/// more is cut before them.
const FILL_MAX: u64 = 1024;

/// A name of a directory: its hash and where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NameAt {
    hash: u64,
    lbn: u32,
    offset: u32,
}

/// What one pass over a directory has gathered.
struct Contents {
    own: Dir,
    /// The hash and the place of each name.
    names: Vec<NameAt>,
    /// The key of the directory's index, and by it each name's hash, with its block.
    key: Option<[u64; 2]>,
    slots: Vec<(u32, u32)>,
    /// Runs of blocks that are missing or unreadable: first block and end of each.
    missing: Vec<(u64, u64)>,
    /// True if every block was read, so that all names are known.
    whole: bool,
}

/// What a repair does to a wrong entry: removes it, or corrects its type.
enum Fix {
    Remove,
    Type(u32),
}

impl Checker<'_> {
    /// Checks all directories, many inodes at a time.
    pub(crate) async fn check_dirs(&mut self) -> Result<()> {
        let order = std::mem::take(&mut self.dir_order);
        self.wanted.extend(self.report.inodes());
        let total = order.len() as u64;
        for (nth, some) in order.chunks(BATCH).enumerate() {
            let done = (nth * BATCH) as u64;
            (self.progress)(Progress { phase: Phase::Directories, done, total });
            let read = self.image.inodes(some).await;
            for found in read.into_iter().filter_map(|found| found.ok().flatten()) {
                self.check_dir(found).await?;
            }
        }
        (self.progress)(Progress { phase: Phase::Directories, done: total, total });
        self.dirs.sort_unstable_by_key(|dir| dir.ino);
        Ok(())
    }

    /// Checks a directory: its blocks, entries, count and index.
    async fn check_dir(&mut self, found: FoundInode) -> Result<()> {
        let FoundInode { at, mut d } = found;
        let index = match d.index_ino {
            0 => None,
            _ => self.assign_index(&mut d).await?,
        };
        let key = match &index {
            Some(index) => self.index_key(index).await,
            None => None,
        };
        let mut contents = Contents {
            own: Dir { ino: d.ino, up: 0, subdirs: 0 },
            names: Vec::new(),
            key,
            slots: Vec::new(),
            missing: Vec::new(),
            whole: true,
        };
        self.read_dir(&mut d, &mut contents).await?;
        self.check_unique(&d, &mut contents).await?;
        let names = contents.names.len() as u64;
        self.report.counts.names += names;
        self.dirs.push(contents.own);
        if self.how.fixes && !contents.missing.is_empty() {
            return self.fill(&mut d, &contents.missing).await;
        }
        if self.features.indexed_directories && contents.whole && d.entries != names {
            let what = format!("{} entries are counted, there are {names}", d.entries);
            self.wrong(Finding::serious(FindingKind::EntryCount, what).at(at).of(d.ino));
            d.entries = names;
            if self.how.fixes {
                self.image.put_inode(&d).await?;
            }
        }
        if d.nlink == 0 && names > 0 && !self.how.fixes {
            let what = format!("the directory has been removed but has {names} entries");
            self.wrong(Finding::serious(FindingKind::DirEntry, what).at(at).of(d.ino));
        }
        if let Some(index) = index {
            contents.slots.sort_unstable();
            let slots = (contents.whole && key.is_some()).then_some(&*contents.slots);
            self.check_index(&mut d, &index, slots).await?;
        }
        Ok(())
    }

    async fn read_dir(&mut self, d: &mut Dinode, contents: &mut Contents) -> Result<()> {
        let blocks = self.geometry.blocks_for(d.size);
        let mut walk = Walk::new(d);
        let mut next = 0;
        while let Some(step) = walk.next(&self.geometry) {
            let Step { lbn, ptr } = step;
            if self.usable(d, lbn, ptr).is_hole() || lbn < 0 && walk.has_met(ptr.addr) {
                continue;
            }
            let read = self.image.block(d.ino, lbn, ptr).await;
            match (u64::try_from(lbn), read) {
                (Err(_), Ok(content)) => walk.descend(step, content),
                // The check of the inode has reported the indirect block already.
                (Err(_), Err(_)) => {}
                (Ok(lbn), _) if lbn >= blocks => {}
                (Ok(lbn), read) => {
                    self.note_missing(d.ino, next, lbn, contents);
                    next = lbn + 1;
                    match read {
                        Ok(bytes) => self.check_dir_block(d, step, &bytes, contents).await?,
                        Err(error) => {
                            let what = format!("block {lbn} of the directory");
                            self.wrong_error(FindingKind::DirBlock, d.ino, error, &what)?;
                            contents.missing.push((lbn, lbn + 1));
                            contents.whole = false;
                        }
                    }
                }
            }
        }
        self.note_missing(d.ino, next, blocks, contents);
        if blocks == 0 && d.nlink > 0 {
            contents.missing.push((0, 1));
        }
        Ok(())
    }

    fn note_missing(&mut self, ino: Ino, first: u64, end: u64, contents: &mut Contents) {
        if first < end {
            contents.whole = false;
            contents.missing.push((first, end));
            let what = format!("the directory lacks its blocks {first} to {}", end - 1);
            self.wrong(Finding::serious(FindingKind::DirBlock, what).of(ino));
        }
    }

    /// Gives a directory empty blocks in place of those that it lacks. If the volume has no room
    /// for them, or if they are too many, the directory is cut before them. A directory without a
    /// first block is freed.
    async fn fill(&mut self, d: &mut Dinode, missing: &[(u64, u64)]) -> Result<()> {
        self.changed = true;
        d.size = d.size.max(self.geometry.dir_unit() as u64);
        let many = missing.iter().map(|(first, end)| end - first).sum::<u64>() > FILL_MAX;
        for &(first, end) in missing {
            for lbn in first..end {
                if many && lbn > 0 {
                    return self.cut_dir(d, lbn).await;
                }
                match self.fill_block(d, lbn).await {
                    Err(FsError::NoSpace) => return self.cut_dir(d, lbn).await,
                    filled => filled?,
                }
            }
        }
        self.image.put_inode(d).await
    }

    async fn fill_block(&mut self, d: &mut Dinode, lbn: u64) -> Result<()> {
        let number = lbn as i64;
        let there = self.ptr(d, number).await?;
        let len = self.geometry.len_on_disk(number, d.size);
        let mut content = vec![0; len as usize];
        let end = self.bytes_in(d, lbn, &content);
        self.repair_block(d, lbn, &mut content[..end]);
        let there = if there.is_hole() { Ptr { len, ..Ptr::HOLE } } else { there };
        let ptr = self.image.put_block(d.ino, number, there, content).await?;
        self.set_ptr(d, number, ptr).await
    }

    async fn cut_dir(&mut self, d: &mut Dinode, lbn: u64) -> Result<()> {
        if lbn == 0 {
            self.report.add_loss(d.ino, "the directory is lost");
            return self.free(d.ino).await;
        }
        d.size = lbn * u64::from(self.geometry.block_size);
        // The next round removes the blocks that now lie past the end.
        self.image.put_inode(d).await
    }

    async fn check_dir_block(
        &mut self,
        d: &Dinode,
        step: Step,
        bytes: &Bytes,
        contents: &mut Contents,
    ) -> Result<()> {
        let format = self.features.directories;
        let lbn = step.lbn as u64;
        let len = self.bytes_in(d, lbn, bytes);
        let base = if step.ptr.is_on_disk() { self.geometry.byte_of(step.ptr.addr) } else { 0 };
        if let Err(error) = format.validate(&bytes[..len], (lbn == 0).then_some(d.ino)) {
            contents.whole = false;
            let what = format!("block {lbn} of the directory: {}", error.what);
            let at = base + error.offset as u64;
            self.wrong(Finding::serious(FindingKind::DirBlock, what).at(at).of(d.ino));
            if self.how.fixes {
                let mut raw = bytes.to_vec();
                self.repair_block(d, lbn, &mut raw[..len]);
                self.image.put_block(d.ino, step.lbn, step.ptr, raw).await?;
                return Ok(());
            }
        }
        let mut fixes = Vec::new();
        for item in format.items(&bytes[..len], 0) {
            match item.name {
                b"." => {}
                b".." => contents.own.up = item.ino,
                name => {
                    let (lbn, offset) = (lbn as u32, item.offset as u32);
                    let hash = |key| u64::from(name_hash(key, name));
                    let hashes = hash(KEYS[0]) << 32 | hash(KEYS[1]);
                    contents.names.push(NameAt { hash: hashes, lbn, offset });
                    if let Some(key) = contents.key {
                        contents.slots.push((name_hash(key, name), lbn));
                    }
                    self.note_name(d.ino, item.ino, name);
                    let Some((fix, why)) = self.check_entry(d.ino, lbn, &item) else { continue };
                    let what = format!("the name {:?} {why}", String::from_utf8_lossy(name));
                    let at = base + item.offset as u64;
                    self.wrong(Finding::serious(FindingKind::DirEntry, what).at(at).of(d.ino));
                    fixes.push((item.offset, item.ino, fix));
                }
            }
        }
        if !self.how.fixes || fixes.is_empty() {
            return Ok(());
        }
        contents.whole = false;
        let mut raw = bytes.to_vec();
        for (offset, ino, fix) in fixes {
            // This cannot fail: the entry was found in the same bytes.
            let _ = match fix {
                Fix::Remove => format.remove(&mut raw[..len], offset).map(drop),
                Fix::Type(kind) => format.set_ino(&mut raw[..len], offset, ino, kind),
            };
        }
        self.image.put_block(d.ino, step.lbn, step.ptr, raw).await.map(drop)
    }

    /// Checks that an entry leads to an inode in use, of the type that the entry says.
    fn check_entry(&mut self, dir: Ino, lbn: u32, item: &Item<'_>) -> Option<(Fix, String)> {
        let (ino, fixes) = (item.ino, self.how.fixes);
        let remove = |why: &str| Some((Fix::Remove, format!("leads to inode {ino}{why}")));
        if ino <= ROOT_INO {
            return remove("");
        }
        let removed = !fixes && self.image.may_revive();
        let Some(node) = self.node_mut(ino) else {
            return remove(", past the inode map");
        };
        let Node { state, kind, nlink, .. } = *node;
        match state {
            NumberState::Free => return remove(", which is free"),
            NumberState::Read => {}
            // The check of inodes has reported the inode already.
            _ => {
                node.names = node.names.saturating_add(1);
                return None;
            }
        }
        if nlink == 0 && removed {
            return remove(", which was removed");
        }
        if kind == 0 {
            return remove(", a hidden file");
        }
        node.names = node.names.saturating_add(1);
        let known = u32::from(kind) << 12;
        if known == mode::DIRECTORY {
            let (dir, offset) = (dir, item.offset as u32);
            self.children.push(Child { ino, dir, lbn, offset });
        }
        (known != item.kind).then(|| {
            let why = format!("says type {:o}, inode {ino} has type {known:o}", item.kind);
            (Fix::Type(known), why)
        })
    }

    /// Checks that no name stands twice in a directory. Two hashes tell names apart; only where
    /// both are equal are the names themselves compared.
    async fn check_unique(&mut self, d: &Dinode, contents: &mut Contents) -> Result<()> {
        contents.names.sort_unstable();
        let pairs = contents.names.windows(2).filter(|pair| pair[0].hash == pair[1].hash);
        let pairs: Vec<[NameAt; 2]> = pairs.map(|pair| [pair[0], pair[1]]).collect();
        // From the last to the first: removing an entry may make the entry before it longer.
        for [first, second] in pairs.into_iter().rev() {
            let (a, b) = (self.name_at(d, first).await?, self.name_at(d, second).await?);
            if a.is_none() || a != b {
                continue;
            }
            let what = format!(
                "the name {:?} is there twice, in blocks {} and {}",
                String::from_utf8_lossy(&a.unwrap_or_default()),
                first.lbn,
                second.lbn
            );
            self.wrong(Finding::serious(FindingKind::DuplicateName, what).of(d.ino));
            if self.how.fixes {
                contents.whole = false;
                self.remove_entry(d, second.lbn, second.offset).await?;
            }
        }
        Ok(())
    }

    async fn name_at(&self, d: &Dinode, place: NameAt) -> Result<Option<Vec<u8>>> {
        let ptr = self.ptr(d, place.lbn.into()).await?;
        if ptr.is_hole() {
            return Ok(None);
        }
        let bytes = self.image.block(d.ino, place.lbn.into(), ptr).await?;
        let item = self.features.directories.entry_at(&bytes, place.offset as usize);
        Ok(item.map(|item| item.name.to_vec()))
    }
}

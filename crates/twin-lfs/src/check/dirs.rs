//! Directories: their blocks, their entries, and where these lead.

use twin_disk::Bytes;
use twin_fs::dinode::Dinode;
use twin_fs::dir::block::{Format, Item};
use twin_fs::dir::name_hash;
use twin_fs::shape::PointerFormat;
use twin_fs::{Ino, ROOT_INO, mode};

use super::tree::Tree;
use super::{Checker, Dir, Finding, Kind, Severity, State};
use crate::view::Step;

/// Keys of the hashes that stand for names within one check: any two that differ.
const KEYS: [[u64; 2]; 2] = [[0x7477_696e, 1], [0x6c66_7321, 2]];

/// A name of a directory: its hash and where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NameAt {
    hash: u64,
    lbn: u32,
    offset: u32,
}

/// What is gathered of a directory.
struct Contents {
    own: Dir,
    /// Each name's hash and place.
    names: Vec<NameAt>,
    /// The key of the directory's index, and by it each name's hash, with its block.
    key: Option<[u64; 2]>,
    slots: Vec<(u32, u32)>,
    /// Every block of it could be read.
    whole: bool,
    /// It has been removed, but is held.
    is_removed: bool,
}

impl Checker<'_> {
    /// Checks a directory: its tree, blocks, entries, count and index.
    pub(super) async fn check_dir(&mut self, at: u64, d: &Dinode) {
        let index = match d.index_ino {
            0 => None,
            ino => self.adopt(d.ino, ino).await.map(|(_, index)| index),
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
            whole: true,
            is_removed: d.nlink == 0,
        };
        self.read_dir(d, &mut contents).await;
        self.check_unique(d, &mut contents).await;
        let names = contents.names.len() as u64;
        self.report.counts.names += names;
        if self.view.is_wide() && contents.whole && d.entries != names {
            let what = format!("{} entries are counted, there are {names}", d.entries);
            self.add(Finding::new(Kind::EntryCount, Severity::Serious, what).at(at).of(d.ino));
        }
        if contents.is_removed && names > 0 {
            let what = format!("the directory has been removed but has {names} entries");
            self.add(Finding::new(Kind::DirEntry, Severity::Serious, what).at(at).of(d.ino));
        }
        if let Some(index) = index {
            contents.slots.sort_unstable();
            let slots = (contents.whole && key.is_some()).then_some(&*contents.slots);
            self.check_index(d.ino, &index, slots).await;
        }
        self.dirs.push(contents.own);
    }

    async fn read_dir(&mut self, d: &Dinode, contents: &mut Contents) {
        let blocks = self.view.sb.shape.blocks_for(d.size);
        let mut tree = Tree::new(d);
        let mut next = 0;
        while let Some(step) = self.next_data(&mut tree).await {
            let lbn = step.lbn as u64;
            if lbn >= blocks {
                continue;
            }
            self.add_dir_hole(d.ino, next, lbn, contents);
            next = lbn + 1;
            match self.view.block(d.ino, step.lbn, step.ptr).await {
                Ok(bytes) => self.check_dir_block(d, step, &bytes, contents),
                Err(error) => {
                    contents.whole = false;
                    let what = format!("block {lbn} of the directory");
                    self.add_error(Kind::DirBlock, Severity::Serious, d.ino, error, &what);
                }
            }
        }
        self.add_dir_hole(d.ino, next, blocks, contents);
        self.compare_allocated(d, tree.allocated);
    }

    fn add_dir_hole(&mut self, ino: Ino, first: u64, end: u64, contents: &mut Contents) {
        if first < end {
            contents.whole = false;
            let what = format!("the directory lacks its blocks {first} to {}", end - 1);
            self.add(Finding::new(Kind::DirBlock, Severity::Serious, what).of(ino));
        }
    }

    fn dir_format(&self) -> Format {
        match self.view.sb.shape.pointer {
            PointerFormat::Narrow => Format::Classic,
            PointerFormat::Long | PointerFormat::Wide => Format::Modern,
        }
    }

    fn check_dir_block(&mut self, d: &Dinode, step: Step, bytes: &Bytes, contents: &mut Contents) {
        let block = u64::from(self.view.sb.shape.block_size);
        let lbn = step.lbn as u64;
        let len = d.size.saturating_sub(lbn * block).min(bytes.len() as u64) as usize;
        let bytes = &bytes[..len];
        let format = self.dir_format();
        let at = |offset: usize| self.view.sb.shape.byte_of(step.ptr.addr) + offset as u64;
        if let Err(error) = format.validate(bytes, (lbn == 0).then_some(d.ino)) {
            contents.whole = false;
            let what = format!("block {lbn} of the directory: {}", error.what);
            let finding = Finding::new(Kind::DirBlock, Severity::Serious, what);
            let finding = finding.at(at(error.offset)).of(d.ino);
            self.add(finding);
        }
        for item in format.items(bytes, 0) {
            match item.name {
                b"." => {}
                b".." => contents.own.up = item.ino,
                name => {
                    let hash = |key| u64::from(name_hash(key, name));
                    contents.names.push(NameAt {
                        hash: hash(KEYS[0]) << 32 | hash(KEYS[1]),
                        lbn: lbn as u32,
                        offset: item.offset as u32,
                    });
                    if let Some(key) = contents.key {
                        contents.slots.push((name_hash(key, name), lbn as u32));
                    }
                    let place = self.view.sb.shape.byte_of(step.ptr.addr) + item.offset as u64;
                    self.check_entry(&item, place, contents);
                }
            }
        }
    }

    /// An entry leads to an inode in use, of the type that it says.
    fn check_entry(&mut self, item: &Item<'_>, at: u64, contents: &mut Contents) {
        let dir = contents.own.ino;
        let is_dir = item.kind == mode::DIRECTORY;
        let wrong = match self.node_mut(item.ino) {
            _ if item.ino <= ROOT_INO => Some(format!("leads to inode {}", item.ino)),
            None => Some(format!("leads to inode {}, past the inode map", item.ino)),
            Some(node) => {
                node.names = node.names.saturating_add(1);
                let known = u32::from(node.kind) << 12;
                match node.state {
                    State::Free => Some(format!("leads to inode {}, which is free", item.ino)),
                    State::Read if node.kind == 0 => {
                        Some(format!("leads to inode {}, a hidden file", item.ino))
                    }
                    State::Read if known != item.kind => Some(format!(
                        "says type {:o}, inode {} has type {known:o}",
                        item.kind, item.ino
                    )),
                    State::Read if is_dir && node.link != 0 => Some(format!(
                        "leads to directory {}, which has a name in directory {}",
                        item.ino, node.link
                    )),
                    State::Read if is_dir => {
                        node.link = dir;
                        contents.own.subdirs += 1;
                        None
                    }
                    _ => None,
                }
            }
        };
        if let Some(wrong) = wrong {
            let what = format!("the name {:?} {wrong}", String::from_utf8_lossy(item.name));
            self.add(Finding::new(Kind::DirEntry, Severity::Serious, what).at(at).of(dir));
        }
    }

    /// No name is there twice. Names are told apart by two hashes; where both meet, the names
    /// themselves are compared.
    async fn check_unique(&mut self, d: &Dinode, contents: &mut Contents) {
        contents.names.sort_unstable();
        let pairs = contents.names.windows(2).filter(|pair| pair[0].hash == pair[1].hash);
        let pairs: Vec<[NameAt; 2]> = pairs.map(|pair| [pair[0], pair[1]]).collect();
        for [first, second] in pairs {
            let (a, b) = (self.name_at(d, first).await, self.name_at(d, second).await);
            if a.is_some() && a == b {
                let name = a.unwrap_or_default();
                let what = format!(
                    "the name {:?} is there twice, in blocks {} and {}",
                    String::from_utf8_lossy(&name),
                    first.lbn,
                    second.lbn
                );
                self.add(Finding::new(Kind::DuplicateName, Severity::Serious, what).of(d.ino));
            }
        }
    }

    async fn name_at(&self, d: &Dinode, place: NameAt) -> Option<Vec<u8>> {
        let ptr = self.view.ptr(d, place.lbn.into()).await.ok()?;
        let bytes = self.view.block(d.ino, place.lbn.into(), ptr).await.ok()?;
        let item = self.dir_format().entry_at(&bytes, place.offset as usize)?;
        Some(item.name.to_vec())
    }
}

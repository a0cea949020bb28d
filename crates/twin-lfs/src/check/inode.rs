//! All inodes, in the order of their places: what the map says of them, their fields, the trees
//! of all but directories and hidden files, and their attributes.

use twin_disk::Bytes;
use twin_fs::dinode::{Dinode, HIDDEN, TRUNCATING};
use twin_fs::shape::PointerFormat;
use twin_fs::{FsError, Ino, ROOT_INO, mode};

use super::claims::identity;
use super::tree::Tree;
use super::{Checker, Finding, Kind, Node, Phase, Severity, State};
use crate::format::Profile;

/// Inodes that lie closer than this are read at once, in bytes.
const GAP_MAX: u64 = 16 << 10;
/// The most that is read at once, in bytes.
const RUN_MAX: u64 = 256 << 10;

/// What stands for an inode at a place in the log. Narrow summaries do not say which inodes they
/// name, so there nothing does.
pub(super) fn inode_identity(profile: Profile, ino: Ino, at: u64, crc: u32) -> u64 {
    match profile {
        Profile::Modern => identity(&[ino, u64::MAX, at, crc.into()]),
        Profile::Classic => 0,
    }
}

/// What inodes are read for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    All,
    Dirs,
}

impl Checker<'_> {
    pub(super) async fn check_inodes(&mut self) {
        let size = u64::from(self.view.sb.shape.inode_size);
        let profile = self.view.sb.profile;
        let mut list = self.places(|node| node.state == State::Used);
        list.retain(|&(at, ino)| {
            let node = self.nodes[ino as usize];
            if node.at == 0 {
                let what = "in use by the inode map, but never written";
                self.add(Finding::new(Kind::MapEntry, Severity::Serious, what).of(ino));
            } else {
                let id = inode_identity(profile, ino, at, node.crc);
                match at.checked_add(size) {
                    None => {
                        let what = "the inode map leads out of the volume";
                        self.add(Finding::new(Kind::MapEntry, Severity::Serious, what).of(ino));
                    }
                    Some(_) => match self.claims.inode(at, id) {
                        Ok(()) => return true,
                        Err(refused) => self.add_refused(refused, at, "the inode itself", ino),
                    },
                }
            }
            self.nodes[ino as usize].state = State::Broken;
            false
        });
        self.read_inodes(&list, Pass::All).await;
    }

    /// Reads directories' inodes again and checks what is in them.
    pub(super) async fn check_dirs(&mut self) {
        let is_dir = |node: &Node| {
            node.state == State::Read && u32::from(node.kind) << 12 == mode::DIRECTORY
        };
        let list = self.places(is_dir);
        self.read_inodes(&list, Pass::Dirs).await;
    }

    /// The inodes that are asked for, with the bytes where they lie, in this order.
    fn places(&self, wanted: impl Fn(&Node) -> bool) -> Vec<(u64, Ino)> {
        let size = u64::from(self.view.sb.shape.inode_size);
        let all = self.nodes.iter().zip(0..).filter(|(node, _)| wanted(node));
        let mut list: Vec<(u64, Ino)> =
            all.map(|(node, ino)| (node.at.saturating_mul(size), ino)).collect();
        list.sort_unstable();
        list
    }

    async fn read_inodes(&mut self, list: &[(u64, Ino)], pass: Pass) {
        let size = u64::from(self.view.sb.shape.inode_size);
        let phase = if pass == Pass::All { Phase::Inodes } else { Phase::Directories };
        let mut done = 0;
        while done < list.len() {
            self.progress(phase, done as u64, list.len() as u64);
            let (start, mut end, mut count) = (list[done].0, list[done].0 + size, 1);
            while let Some(&(at, _)) = list.get(done + count)
                && at < end + GAP_MAX
                && at + size - start <= RUN_MAX
            {
                (end, count) = (at + size, count + 1);
            }
            let run = self.view.read(start, end - start).await.map(|block| block.to_bytes());
            for &(at, ino) in &list[done..done + count] {
                let raw = match &run {
                    Ok(bytes) => Ok(bytes.slice((at - start) as usize, size as usize)),
                    // The device fails somewhere in the run: find out where.
                    Err(_) => self.view.raw_inode(at).await,
                };
                let d = raw.and_then(|raw| self.identify(ino, at, &raw));
                match d {
                    Ok(d) if pass == Pass::All => self.check_inode(at, &d).await,
                    Ok(d) => self.check_dir(at, &d).await,
                    Err(error) if pass == Pass::All => {
                        self.nodes[ino as usize].state = State::Broken;
                        let what = "the inode cannot be read";
                        self.add_error(Kind::Inode, Severity::Serious, ino, error, what);
                    }
                    Err(_) => {}
                }
            }
            done += count;
        }
        self.progress(phase, done as u64, list.len() as u64);
    }

    /// The inode in these bytes, if it is the one that the map leads to; or the one that
    /// roll-forward made of it.
    fn identify(&self, ino: Ino, at: u64, raw: &Bytes) -> Result<Dinode, FsError> {
        let node = &self.nodes[ino as usize];
        self.view.inode_in(raw, at, ino, node.generation, node.crc)
    }

    /// An inode, read for itself.
    pub(super) async fn read_inode(&self, ino: Ino) -> Result<(u64, Dinode), FsError> {
        let size = u64::from(self.view.sb.shape.inode_size);
        let used = |node: &&Node| matches!(node.state, State::Used | State::Read);
        let node = self.node(ino).filter(used).ok_or(FsError::NotFound)?;
        let at = node.at.saturating_mul(size);
        let raw = self.view.raw_inode(at).await?;
        Ok((at, self.identify(ino, at, &raw)?))
    }

    async fn check_inode(&mut self, at: u64, d: &Dinode) {
        let hidden = d.flags & HIDDEN != 0;
        if let Some(node) = self.node_mut(d.ino) {
            node.state = State::Read;
            node.nlink = d.nlink;
            node.kind = if hidden { 0 } else { (d.kind() >> 12) as u8 };
        }
        self.count_inode(d);
        self.check_fields(at, d);
        self.check_mark(at, d);
        if !hidden && !d.is_dir() {
            let mut tree = Tree::new(d);
            self.walk_all(&mut tree).await;
            self.compare_allocated(d, tree.allocated);
        }
        self.check_xattrs(at, d).await;
    }

    fn count_inode(&mut self, d: &Dinode) {
        let counts = &mut self.report.counts;
        if d.flags & HIDDEN != 0 {
            counts.hidden += 1;
            return;
        }
        match d.kind() {
            mode::REGULAR => {
                counts.files += 1;
                counts.file_bytes += d.size;
            }
            mode::DIRECTORY => counts.dirs += 1,
            mode::SYMLINK => counts.symlinks += 1,
            _ => counts.special += 1,
        }
    }

    /// What an inode's own fields must have in common, beyond what is asked of every inode that is
    /// read.
    fn check_fields(&mut self, at: u64, d: &Dinode) {
        let hidden = d.flags & HIDDEN != 0;
        let has_blocks = d.ptrs.iter().any(|ptr| !ptr.is_hole());
        let special = mode::KINDS.contains(&d.kind())
            && !matches!(d.kind(), mode::REGULAR | mode::DIRECTORY | mode::SYMLINK);
        let wrong = [
            (hidden && d.nlink > 1, Kind::InodeField, "a hidden file with several names"),
            (d.ino == ROOT_INO && !d.is_dir(), Kind::InodeField, "the root is not a directory"),
            (
                d.index_ino != 0 && !d.is_dir(),
                Kind::InodeField,
                "an index, but it is not a directory",
            ),
            (d.is_dir() && d.size == 0 && d.nlink > 0, Kind::Size, "a directory without a block"),
            (d.kind() == mode::SYMLINK && d.size == 0, Kind::Size, "a link that leads nowhere"),
            (special && has_blocks, Kind::InodeField, "a special file with data"),
        ];
        for (_, kind, what) in wrong.into_iter().filter(|(is_wrong, ..)| *is_wrong) {
            self.add(Finding::new(kind, Severity::Serious, what).at(at).of(d.ino));
        }
    }

    /// The map marks exactly those inodes that a crash would leave work for.
    fn check_mark(&mut self, at: u64, d: &Dinode) {
        let marked = self.node(d.ino).is_some_and(|node| node.marked);
        let needs = d.nlink == 0 || d.flags & TRUNCATING != 0;
        if marked {
            self.report.counts.orphans += 1;
        }
        let what = match (marked, needs) {
            (true, false) => "marked as in need of work after a crash, but is not",
            (false, true) => "has no names or is being cut, but is not marked as in need of work",
            _ => return,
        };
        self.add(Finding::new(Kind::OrphanMark, Severity::Minor, what).at(at).of(d.ino));
    }

    /// Compares an inode's count of bytes with what its tree has.
    pub(super) fn compare_allocated(&mut self, d: &Dinode, found: u64) {
        // The narrow form counts in 32 bits of 512 bytes.
        let same = match self.view.sb.shape.pointer {
            PointerFormat::Long | PointerFormat::Wide => d.allocated == found,
            PointerFormat::Narrow => (d.allocated / 512) as u32 == (found / 512) as u32,
        };
        if !same {
            let what = format!("{} bytes of blocks are counted, there are {found}", d.allocated);
            self.add(Finding::new(Kind::Allocated, Severity::Minor, what).of(d.ino));
        }
    }
}

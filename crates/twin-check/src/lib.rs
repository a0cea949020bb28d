//! The checker and repair of names, links, trees of blocks, indexes and attributes, for every layout.
//!
//! Main types: [`Image`] (a volume as it lies on a device, which a layout shows), [`Report`] (what a check found and a
//! repair lost, as [`Finding`]s), [`Walk`] (the blocks of a file, one [`Step`] after the other). Start at [`Image`], then
//! [`check`] and [`repair`]; the smallest layout that uses them is vsfs (`crates/vsfs/src/check.rs`).
//!
//! Contract: a layout implements [`Image`], which says where inodes and blocks are and which places
//! are in use. The checker does everything that is the same for all layouts; the layout checks its
//! own maps in [`Image::begin`] and [`Image::end`]. Structures are read from the device and not
//! through the code of the volume, so that an error which the volume would hide is found. [`check`]
//! changes nothing. [`repair`] goes over the volume in rounds until nothing is wrong, and returns
//! the inodes that need a name in `lost+found`. It makes all its changes through `Image`; the
//! layout decides when and how they reach the device. Memory: some 24 bytes for each inode number,
//! 32 for each directory, and 16 for each name of the largest directory.
//!
//! The order is that of `fsck` (McKusick and Kowalski, "Fsck - The UNIX File System Check Program",
//! 1986): inodes and their blocks (`inodes`), places that several files use (`duplicates`), the
//! root (`root`), directories with their indexes (`dirs`, `index`), where their names lead
//! (`tree`), and counts of names and hidden files (`counts`).

mod counts;
mod dir_blocks;
mod dirs;
mod duplicates;
mod finding;
mod index;
mod inodes;
mod names;
mod quotas;
mod removed;
mod root;
mod tree;
mod walk;
mod xattrs;

use std::collections::{BTreeMap, BTreeSet};

use twin_cache::Lbn;
use twin_disk::Bytes;
use twin_fs::dinode::{DAMAGED, Dinode};
use twin_fs::geometry::{Geometry, Parent, Ptr};
use twin_fs::quota::{QuotaId, QuotaUse};
use twin_fs::{Features, FsError, Ino, Result, mode};
use twin_rt::BoxFuture;

pub use finding::{
    Counts, FINDINGS_MAX, Finding, FindingKind, Loss, NAMED_MAX, Phase, Progress, Report, Severity,
};
use names::Names;
pub use twin_fs::Step;
pub use walk::Walk;

/// The largest number of rounds of a repair.
const ROUNDS: usize = 12;

/// A volume as it lies on a device. A layout implements this for its checker; see the crate.
pub trait Image {
    /// Sizes and pointers of files.
    fn geometry(&self) -> &Geometry;

    /// What files can do.
    fn features(&self) -> Features {
        Features::of(self.geometry())
    }

    /// Begins a round: forgets the claims of the round before, reads the layout's own maps and
    /// claims their places. Gives the inode numbers of the volume. Reports what is wrong with the
    /// maps.
    fn begin<'a>(&'a mut self, report: &'a mut Report) -> BoxFuture<'a, Result<Numbers>>;

    /// Reads inodes, with the changes that a repair has made so far. The answer for each is the
    /// inode, `None` if it is free, or the reason why it cannot be read.
    fn inodes<'a>(&'a self, some: &'a [Ino]) -> BoxFuture<'a, Vec<Result<Option<FoundInode>>>>;

    /// The content of a block of a file, with the changes that a repair has made so far. An
    /// indirect block is given whole. The caller has checked the place with
    /// [`check_place`](Self::check_place), or that the block [`is_in_memory`](Self::is_in_memory).
    fn block<'a>(&'a self, ino: Ino, lbn: Lbn, ptr: Ptr) -> BoxFuture<'a, Result<Bytes>>;

    /// Checks that a block can be at this place.
    ///
    /// # Errors
    /// The reason why none can be there, in words such as "leads out of the volume".
    fn check_place(&self, ptr: Ptr) -> std::result::Result<(), &'static str>;

    /// True if the block has no place yet, because it is known from a log or a journal only.
    fn is_in_memory(&self, _ino: Ino, _lbn: Lbn) -> bool {
        false
    }

    /// Claims the place of a block for a file. The caller has checked the place with
    /// [`check_place`](Self::check_place).
    fn claim(&mut self, d: &Dinode, step: Step) -> Claim;

    /// The block of a file for which the layout wrote what lies at a byte of the device, if the
    /// layout keeps a record of it.
    fn owner(&self, _at: u64) -> BoxFuture<'_, Option<(Ino, Lbn)>> {
        Box::pin(std::future::ready(None))
    }

    /// Called for each inode in use: counts it if it is an orphan, and reports in what the layout's
    /// maps contradict it.
    fn note(&mut self, found: &FoundInode, report: &mut Report);

    /// True if the volume was closed with a note that the use of its quotas is right.
    fn quotas_are_counted(&self) -> bool {
        false
    }

    /// True if an inode that counts no names may have one all the same, because its change can
    /// reach the device before that of the directory.
    fn may_revive(&self) -> bool {
        false
    }

    /// True if, of two files that use a place, the one that changed last keeps it; otherwise the
    /// one that changed first does.
    fn newest_keeps(&self) -> bool {
        true
    }

    /// Replaces an inode.
    fn put_inode<'a>(&'a mut self, d: &'a Dinode) -> BoxFuture<'a, Result<()>>;

    /// Frees an inode.
    fn free_inode(&mut self, ino: Ino) -> BoxFuture<'_, Result<()>>;

    /// Replaces the content of a block; if `ptr` is a hole, finds a place for the block first.
    /// Gives the pointer to it.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if there is no place for it.
    fn put_block(
        &mut self,
        ino: Ino,
        lbn: Lbn,
        ptr: Ptr,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<Ptr>>;

    /// Ends a round: compares the layout's own maps with what the round found and claimed. If
    /// `fixes`, the layout may now write its maps and all changes.
    fn end<'a>(
        &'a mut self,
        nodes: &'a [Node],
        fixes: bool,
        report: &'a mut Report,
        progress: &'a mut dyn FnMut(Progress),
    ) -> BoxFuture<'a, Result<()>>;
}

/// The inode numbers of a volume.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// What the maps say of each number, from 0 on.
    pub states: Vec<NumberState>,
    /// Those that may be in use, in the order in which they are read fastest.
    pub order: Vec<Ino>,
}

/// An inode that was read.
#[derive(Clone, Debug)]
pub struct FoundInode {
    /// First byte of it on the device.
    pub at: u64,
    /// The inode as the image has it.
    pub d: Dinode,
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The place was free.
    Free,
    /// Another file, or another block of this one, has the place.
    Taken,
    /// A structure of the layout is there.
    Reserved,
}

/// What is known of an inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberState {
    /// The number is free.
    #[default]
    Free,
    /// In use by the maps.
    Used,
    /// The maps do not say.
    Unknown,
    /// In use, but it cannot be read.
    Broken,
    /// In use, and read: the other fields of its node are valid.
    Read,
}

/// What is known of an inode number and of the inode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node {
    /// Of a directory, the one that has its name; of a hidden file, its owner.
    pub owner: Ino,
    /// Number of names that the inode counts.
    pub nlink: u32,
    /// Number of names that were found.
    pub names: u32,
    /// What is known of the number.
    pub state: NumberState,
    /// Type bits of the mode, shifted right by 12; 0 for a hidden file.
    pub kind: u8,
}

impl Node {
    /// True for an inode that was read and has this type; type 0 for a hidden file.
    pub fn is(&self, kind: u32) -> bool {
        self.state == NumberState::Read && u32::from(self.kind) << 12 == kind
    }
}

/// What is known of a directory beyond its node.
struct Dir {
    ino: Ino,
    /// Where its entry for its parent leads; 0 if there is none.
    up: Ino,
    /// Number of directories whose name is in this one.
    subdirs: u32,
}

/// A name that leads to a directory, and its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Child {
    ino: Ino,
    dir: Ino,
    lbn: u32,
    offset: u32,
}

/// What a round may change.
#[derive(Clone, Copy, Debug, Default)]
struct How {
    fixes: bool,
    /// A lost root directory is made anew.
    makes_root: bool,
}

struct Checker<'a> {
    image: &'a mut dyn Image,
    geometry: Geometry,
    features: Features,
    how: How,
    nodes: Vec<Node>,
    dirs: Vec<Dir>,
    children: Vec<Child>,
    /// Directories, in the order in which their inodes are read fastest.
    dir_order: Vec<Ino>,
    /// Fragments that were claimed when a file had them.
    twice: BTreeSet<u64>,
    /// Indirect blocks with an impossible pointer, by file: they may hold something else.
    doubtful: BTreeSet<(Ino, Lbn)>,
    /// Inodes that need a name in lost+found.
    lost: BTreeSet<Ino>,
    /// Inodes without names, which a repair frees when the round has ended: until then they have their
    /// places, and the layout's maps are right about them.
    removed: Vec<(Dinode, Node)>,
    /// Inodes whose names are looked for, because the report tells of them.
    wanted: BTreeSet<Ino>,
    /// Of these, the directory and the name in it.
    names: Names,
    /// What all inodes that count for a quota take.
    quota_use: BTreeMap<QuotaId, QuotaUse>,
    /// True if something other than the layout's maps was changed, so that another round is needed.
    changed: bool,
    report: Report,
    progress: &'a mut dyn FnMut(Progress),
}

/// Checks a volume and adds what is wrong to the report.
pub fn check<'a>(
    image: &'a mut dyn Image,
    report: &'a mut Report,
    progress: &'a mut dyn FnMut(Progress),
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        let mut checker = Checker::new(image, How::default(), progress);
        checker.wanted = report.inodes();
        let done = checker.round(true).await;
        checker.name_inodes().await;
        report.take_over(checker.report);
        done
    })
}

/// Repairs a volume and adds what was wrong to the report. Returns the inodes that need a name,
/// which only the open volume can give them. Unless `makes_root`, a volume without a root directory
/// is refused.
///
/// # Errors
/// If the repair cannot go on, does not come to an end, or the device fails.
pub fn repair<'a>(
    image: &'a mut dyn Image,
    makes_root: bool,
    report: &'a mut Report,
    progress: &'a mut dyn FnMut(Progress),
) -> BoxFuture<'a, Result<BTreeSet<Ino>>> {
    Box::pin(async move {
        // A later round does not see the names that an earlier one removed.
        let mut names = Names::new();
        for round in 0..ROUNDS {
            let how = How { fixes: true, makes_root };
            let mut checker = Checker::new(&mut *image, how, &mut *progress);
            (checker.wanted, checker.names) = (report.inodes(), names);
            let done = checker.round(round == 0).await;
            let (changed, lost) = (checker.changed, std::mem::take(&mut checker.lost));
            if !changed && done.is_ok() {
                checker.name_inodes().await;
            }
            names = std::mem::take(&mut checker.names);
            report.take_over(checker.report);
            done?;
            // Only the last round counts: an inode without a name may have been freed since.
            if !changed {
                return Ok(lost);
            }
        }
        Err(FsError::inconsistent("the repair does not come to an end"))
    })
}

/// Removes blocks of a file that are known to be bad from elsewhere, such as a checksum, and marks
/// the file as damaged, so that reading them stays an error. Adds what is lost to the report.
pub fn cut<'a>(
    image: &'a mut dyn Image,
    mut d: Dinode,
    lbns: Vec<Lbn>,
    report: &'a mut Report,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        let mut nobody = |_| {};
        let mut checker = Checker::new(image, How { fixes: true, makes_root: false }, &mut nobody);
        let done = checker.cut(&mut d, lbns).await;
        let losses = std::mem::take(&mut checker.report.losses);
        losses.into_iter().for_each(|loss| report.add_loss(loss.ino, loss.what));
        done
    })
}

impl Report {
    /// Adds the findings of a round; its counts replace those of the round before.
    fn take_over(&mut self, round: Report) {
        round.findings.into_iter().for_each(|finding| self.add(finding));
        round.losses.into_iter().for_each(|loss| self.add_loss(loss.ino, loss.what));
        self.damaged = round.damaged;
        self.paths.extend(round.paths);
        self.more_findings += round.more_findings;
        self.counts = round.counts;
    }
}

impl<'a> Checker<'a> {
    fn new(
        image: &'a mut dyn Image,
        how: How,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Checker<'a> {
        Checker {
            geometry: image.geometry().clone(),
            features: image.features(),
            image,
            how,
            nodes: Vec::new(),
            dirs: Vec::new(),
            children: Vec::new(),
            dir_order: Vec::new(),
            twice: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            lost: BTreeSet::new(),
            removed: Vec::new(),
            wanted: BTreeSet::new(),
            names: Names::new(),
            quota_use: BTreeMap::new(),
            changed: false,
            report: Report::default(),
            progress,
        }
    }

    /// Goes over the volume once. Differences from the layout's maps count in the first round only:
    /// later ones are the repair's own doing.
    async fn round(&mut self, is_first: bool) -> Result<()> {
        (self.progress)(Progress { phase: Phase::Volume, done: 0, total: 1 });
        let numbers = self.image.begin(&mut self.report).await?;
        if !is_first {
            self.report = Report::default();
        }
        let node = |&state: &NumberState| Node { state, ..Node::default() };
        self.nodes = numbers.states.iter().map(node).collect();
        self.check_inodes(&numbers.order).await?;
        self.check_duplicates().await?;
        self.check_root().await?;
        self.check_dirs().await?;
        self.check_tree().await?;
        self.check_counts().await?;
        if is_first {
            self.check_quotas().await?;
        }
        let (known, more) = (self.report.findings.len(), self.report.more_findings);
        let fixes = self.how.fixes;
        self.claim_removed().await;
        self.image.end(&self.nodes, fixes, &mut self.report, self.progress).await?;
        for (d, _) in std::mem::take(&mut self.removed) {
            self.free(d.ino).await?;
        }
        if !is_first {
            self.report.findings.truncate(known);
            self.report.more_findings = more;
        }
        Ok(())
    }

    /// Adds a finding whose repair changes files and not the layout's maps alone.
    fn wrong(&mut self, finding: Finding) {
        self.changed |= self.how.fixes;
        self.report.add(finding);
    }

    /// Adds a finding made of an error. A repair ends if the device fails, because what it cannot
    /// read is not known to be lost.
    fn wrong_error(
        &mut self,
        kind: FindingKind,
        ino: Ino,
        error: FsError,
        what: &str,
    ) -> Result<()> {
        let finding = Finding::from_error(kind, Severity::Serious, &error, what).of(ino);
        match error {
            FsError::Io(_) if self.how.fixes => Err(error),
            _ => {
                self.wrong(finding);
                Ok(())
            }
        }
    }

    fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(usize::try_from(ino).ok()?)
    }

    fn node_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        self.nodes.get_mut(usize::try_from(ino).ok()?)
    }

    /// An inode that is in use.
    async fn read(&self, ino: Ino) -> Result<Option<FoundInode>> {
        match self.node(ino).map(|node| node.state) {
            Some(NumberState::Used | NumberState::Read) => {
                let mut read = self.image.inodes(&[ino]).await;
                read.pop().unwrap_or(Ok(None))
            }
            _ => Ok(None),
        }
    }

    /// The same, but `None` for an inode that cannot be read; the check of inodes reports it.
    async fn dinode(&self, ino: Ino) -> Result<Option<Dinode>> {
        match self.read(ino).await {
            Err(FsError::Io(error)) if self.how.fixes => Err(FsError::Io(error)),
            found => Ok(found.ok().flatten().map(|found| found.d)),
        }
    }

    async fn free(&mut self, ino: Ino) -> Result<()> {
        self.changed = true;
        if let Some(node) = self.node_mut(ino) {
            *node = Node::default();
        }
        self.image.free_inode(ino).await
    }

    /// The pointer to a block of a file; a hole if there is none or an impossible one.
    async fn ptr(&self, d: &Dinode, lbn: Lbn) -> Result<Ptr> {
        let mut way = Vec::new();
        let mut at = lbn;
        let mut ptr = loop {
            match self.geometry.parent(at) {
                Parent::Inode(slot) => break d.ptrs.get(slot).copied().unwrap_or(Ptr::HOLE),
                Parent::Indirect(up, index) => {
                    way.push((up, index));
                    at = up;
                }
            }
        };
        for (up, index) in way.into_iter().rev() {
            let there = self.usable(d, up, ptr);
            if there.is_hole() {
                return Ok(Ptr::HOLE);
            }
            let content = self.image.block(d.ino, up, there).await?;
            ptr = self.geometry.get_ptr(&content, index);
        }
        Ok(self.usable(d, lbn, ptr))
    }

    /// A pointer with its length; a hole if it leads to no possible place.
    fn usable(&self, d: &Dinode, lbn: Lbn, ptr: Ptr) -> Ptr {
        let ptr = walk::with_length(&self.geometry, lbn, d.size, ptr);
        let has_place = ptr.is_on_disk() && self.image.check_place(ptr).is_ok();
        match has_place || self.image.is_in_memory(d.ino, lbn) {
            true => ptr,
            false => Ptr::HOLE,
        }
    }

    /// Changes the pointer to a block of a file, in the inode `d` or in an indirect block that the
    /// file has.
    async fn set_ptr(&mut self, d: &mut Dinode, lbn: Lbn, ptr: Ptr) -> Result<()> {
        match self.geometry.parent(lbn) {
            Parent::Inode(slot) => d.ptrs[slot] = ptr,
            Parent::Indirect(up, index) => {
                let there = self.ptr(d, up).await?;
                if there.is_hole() {
                    return if ptr.is_hole() { Ok(()) } else { Err(FsError::NoSpace) };
                }
                let mut content = self.image.block(d.ino, up, there).await?.to_vec();
                self.geometry.set_ptr(&mut content, index, ptr);
                self.image.put_block(d.ino, up, there, content).await?;
            }
        }
        Ok(())
    }

    /// Removes pointers of a file, reports what is lost with them, and replaces the inode. A file
    /// that lost content is marked as damaged: what is lost must not read as zeros.
    async fn cut(&mut self, d: &mut Dinode, lbns: impl IntoIterator<Item = Lbn>) -> Result<()> {
        self.changed = true;
        for lbn in lbns {
            self.set_ptr(d, lbn, Ptr::HOLE).await?;
            let block = u64::from(self.geometry.block_size);
            let first = self.geometry.first_data(lbn) * block;
            let end = first.saturating_add(self.geometry.span(lbn).saturating_mul(block));
            if first < d.size && matches!(d.kind(), mode::REGULAR | mode::SYMLINK) {
                let end = end.min(d.size);
                d.flags |= DAMAGED;
                let what = format!("bytes {first} to {} are lost", end - 1);
                self.report.add_loss(d.ino, what);
            }
        }
        self.image.put_inode(d).await
    }
}

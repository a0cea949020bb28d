//! The checker: is everything on a volume as the format says?
//!
//! Contract: nothing is written. Structures are read from the device, not through the volume's
//! code, so an error that the volume would hide is seen; if the volume was not closed, its state
//! after roll-forward is what is checked. Memory: one bit for each fragment of segments in use,
//! some 50 bytes for each inode number, and 16 for each name of the largest directory.
//!
//! The order: superblocks and checkpoints (`start`), the ifile with usage table and inode map and
//! the list of free numbers (`map`), all inodes with their trees of blocks in the order of their
//! places (`inode`, `tree`), directories and their indexes (`dirs`, `index`), what only the whole
//! shows (`names`), and last the log itself, segment by segment (`log`).
//!
//! ```
//! # use std::rc::Rc;
//! # use twin_disk::MemDisk;
//! # use twin_lfs::{Lfs, MkfsOptions, check};
//! # use twin_rt::{ClockOnly, Rt};
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(32 << 20)));
//! rt.block_on(Lfs::mkfs(&rt, Rc::clone(&disk) as _, &MkfsOptions::modern([7; 16]))).unwrap()?;
//! let options = check::CheckOptions { data: true };
//! let report = rt.block_on(check::check(&rt, disk, &options, &mut |_| {})).unwrap()?;
//! assert!(report.is_clean(), "{report}");
//! # Ok::<(), twin_fs::FsError>(())
//! ```

mod claims;
mod dirs;
mod finding;
mod index;
mod inode;
mod log;
mod map;
mod names;
pub(crate) mod start;
#[cfg(test)]
mod tests;
mod tree;
mod xattrs;

use std::rc::Rc;

use twin_disk::BlockDevice;
use twin_fs::{FsError, Ino, Result};
use twin_rt::{BoxFuture, Rt};

use crate::format::SegEntry;
use crate::view::View;
use claims::Claims;
pub use finding::{Counts, FINDINGS_MAX, Finding, Kind, Report, Severity};

/// What to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Read everything that is live and compare checksums: file data, and in the classic profile,
    /// whose pointers carry none, metadata too. Otherwise file data is not read.
    pub data: bool,
}

/// What the check is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Superblocks, checkpoints, roll-forward, the tables of the volume.
    Volume,
    /// Inodes and the blocks of files; counted in inodes.
    Inodes,
    /// Directories; counted in directories.
    Directories,
    /// The log; counted in segments.
    Log,
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is busy with.
    pub phase: Phase,
    /// Units of the phase that are done.
    pub done: u64,
    /// All units of the phase.
    pub total: u64,
}

/// Checks the volume on a device. Damage is in the report; `progress` is told of each step.
///
/// # Errors
/// If there is no volume on the device that could be checked.
pub fn check<'a>(
    rt: &'a Rt,
    device: Rc<dyn BlockDevice>,
    options: &'a CheckOptions,
    progress: &'a mut dyn FnMut(Progress),
) -> BoxFuture<'a, Result<Report>> {
    Box::pin(whole(rt, device, options, progress))
}

async fn whole(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report> {
    progress(Progress { phase: Phase::Volume, done: 0, total: 1 });
    let mut report = Report::default();
    let Some(view) = start::open(rt, device, &mut report).await? else { return Ok(report) };
    let mut checker = Checker {
        claims: Claims::new(&view.sb),
        table: Vec::new(),
        nodes: Vec::new(),
        dirs: Vec::new(),
        doubles: Vec::new(),
        options: *options,
        report,
        progress,
        view,
    };
    checker.run().await;
    Ok(checker.report)
}

/// What is known of an inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The map lacks its block, or it cannot be read.
    Unknown,
    /// Free by the map.
    Free,
    /// In use by the map.
    Used,
    /// In use, but the inode cannot be read.
    Broken,
    /// Read: the other fields hold.
    Read,
}

/// An inode number.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Place of the inode, in units of its size.
    at: u64,
    /// Of a free number, the next one; of a directory, the one that has its name; of a hidden
    /// file, its owner.
    link: Ino,
    crc: u32,
    generation: u32,
    nlink: u32,
    /// Names found.
    names: u32,
    state: State,
    /// Type bits of the mode, shifted right by 12; 0 for a hidden file.
    kind: u8,
    /// Marked in the map as in need of work after a crash.
    marked: bool,
    /// On the list of free numbers.
    listed: bool,
}

/// What is known of a directory beyond its node.
struct Dir {
    ino: Ino,
    /// Where its entry for its parent leads; 0 if there is none.
    up: Ino,
    /// Directories that it has names of.
    subdirs: u32,
}

/// A place that was claimed twice: by what, the second time.
struct Double {
    at: u64,
    finding: usize,
}

struct Checker<'a> {
    view: View,
    claims: Claims,
    /// The segment usage table.
    table: Vec<SegEntry>,
    /// All inode numbers.
    nodes: Vec<Node>,
    dirs: Vec<Dir>,
    doubles: Vec<Double>,
    options: CheckOptions,
    report: Report,
    progress: &'a mut dyn FnMut(Progress),
}

impl Checker<'_> {
    async fn run(&mut self) {
        self.read_ifile().await;
        self.check_free_list();
        self.check_inodes().await;
        self.check_dirs().await;
        self.check_hidden().await;
        self.check_names();
        self.check_usage();
        self.check_log().await;
    }

    fn progress(&mut self, phase: Phase, done: u64, total: u64) {
        (self.progress)(Progress { phase, done, total });
    }

    fn add(&mut self, finding: Finding) {
        self.report.add(finding);
    }

    /// Adds what an error says.
    fn add_error(&mut self, kind: Kind, severity: Severity, ino: Ino, error: FsError, what: &str) {
        let finding = Finding::from_error(kind, severity, error, what);
        self.add(finding.of(ino));
    }

    /// The node of an inode number that the map has.
    fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(usize::try_from(ino).ok()?)
    }

    fn node_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        self.nodes.get_mut(usize::try_from(ino).ok()?)
    }
}

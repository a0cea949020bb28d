//! The checker: is everything on a volume as the format says, and if not, can it be made so?
//!
//! Contract: structures are read from the device, not through the volume's code, so an error that
//! the volume would hide is seen. [`check`] writes nothing; a journal is replayed in memory.
//! [`repair`] goes over the volume until nothing is wrong but the maps, writes those anew, marks
//! the volume as closed, and last gives inodes without a name one in `lost+found`. Whatever is
//! interrupted on the way can be repaired again: the volume counts as closed only at the end.
//! Memory: one bit a fragment, some 40 bytes an inode number, and the names of a directory.
//!
//! The order is that of `fsck` (McKusick and Kowalski, "Fsck - The UNIX File System Check
//! Program", 1986): inodes and their blocks (`inodes`), directories and where their names lead
//! (`dirs`), counts of names and hidden files (`counts`), and the maps (`maps`).
//!
//! ```
//! # use std::rc::Rc;
//! # use twin_disk::MemDisk;
//! # use twin_ffs::{Ffs, MkfsOptions, check};
//! # use twin_rt::{ClockOnly, Rt};
//! let (rt, disk) = (Rt::new(ClockOnly::default(), 1), Rc::new(MemDisk::new(32 << 20)));
//! rt.block_on(Ffs::mkfs(&rt, Rc::clone(&disk) as _, &MkfsOptions::modern([7; 16]))).unwrap()?;
//! let report = rt.block_on(check::check(disk, &mut |_| {})).unwrap()?;
//! assert!(report.is_clean(), "{report}");
//! # Ok::<(), twin_fs::FsError>(())
//! ```

mod counts;
mod dirs;
mod finding;
mod index;
mod inodes;
mod maps;
mod root;
pub(crate) mod view;

use std::collections::BTreeSet;
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin};
use twin_fs::dir::block::Format;
use twin_fs::{Cpu, FsError, Ino, Result, Settings};
use twin_rt::{BoxFuture, Rt};

use crate::bits::Bits;
use crate::ffs::Ffs;
use crate::format::{
    CgImage, JournalHeader, State as VolumeState, Superblock, find_replica, header_io, read_state,
    read_superblock, state_io,
};
use crate::open::Found;
use crate::replay::read_journal;
use crate::settings::{FfsSettings, Sabotage};
pub use finding::{Counts, FINDINGS_MAX, Finding, Kind, Report, Severity};
use view::View;

/// Times that a repair goes over a volume before it gives up.
const ROUNDS: usize = 12;

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Groups whose inodes have been looked at.
    pub done: u64,
    /// All groups.
    pub total: u64,
}

/// What is known of an inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Free,
    Used,
}

/// An inode number.
#[derive(Clone, Copy, Debug)]
struct Node {
    life: Life,
    /// Type bits of the mode, shifted right by 12; 0 for a hidden file.
    kind: u8,
    nlink: u32,
    /// Names found.
    names: u32,
    /// Of a directory, the one that has its name; of a hidden file, its owner.
    owner: Ino,
}

struct Checker<'a> {
    view: View,
    /// Changes what is wrong.
    fixes: bool,
    /// May make a new root directory.
    makes_root: bool,
    /// The volume was left open: what that leaves is no damage.
    was_open: bool,
    /// Inodes that the journal says are in need of work.
    orphans: BTreeSet<Ino>,
    maps: Vec<Option<CgImage>>,
    nodes: Vec<Node>,
    /// Fragments in use, by group.
    used: Vec<Bits>,
    /// Inodes that need a name in lost+found.
    lost: BTreeSet<Ino>,
    /// Addresses of fragments that are used twice.
    twice: BTreeSet<u64>,
    /// Indirect blocks that were found to hold something else, by file: a pointer in them could not
    /// be.
    doubtful: BTreeSet<(Ino, Lbn)>,
    dirs: Vec<dirs::Dir>,
    /// Something other than the maps was changed: it must be looked at again.
    changed: bool,
    report: Report,
    progress: &'a mut dyn FnMut(Progress),
}

/// Checks the volume on a device. Damage is in the report; `progress` is told of each step.
///
/// # Errors
/// If there is no volume on the device that could be checked.
pub fn check(
    device: Rc<dyn BlockDevice>,
    progress: &mut dyn FnMut(Progress),
) -> BoxFuture<'_, Result<Report>> {
    Box::pin(look(device, progress))
}

async fn look(device: Rc<dyn BlockDevice>, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let (sb, found) = superblock(&*device).await?;
    let state = read_state(&*device, &sb).await?;
    let mut checker = Checker::new(View::new(Rc::clone(&device), sb), false, progress);
    checker.was_open = !state.closed;
    checker.report.was_open = !state.closed;
    found.into_iter().for_each(|finding| checker.add(finding));
    if !state.closed && checker.view.sb.journal_bytes > 0 {
        match read_journal(&*device, &checker.view.sb, Sabotage::None).await {
            Ok(replay) => {
                checker.report.records = replay.records;
                for (addr, block) in replay.blocks {
                    checker.view.put(addr, block.to_bytes().to_vec());
                }
                checker.orphans = replay.orphans.into_iter().collect();
            }
            Err(error) => {
                let finding = Finding::from_error(Kind::Journal, &error, "the journal");
                checker.add(finding);
            }
        }
    }
    checker.round().await?;
    Ok(checker.report)
}

/// Repairs the volume on a device and marks it as closed. The report says what was wrong.
///
/// # Errors
/// If there is no volume on the device that could be repaired, or the device fails.
pub fn repair<'a>(
    rt: &'a Rt,
    device: Rc<dyn BlockDevice>,
    progress: &'a mut dyn FnMut(Progress),
) -> BoxFuture<'a, Result<Report>> {
    Box::pin(mend(rt, device, progress, true))
}

/// The same for a volume that is about to be mounted: what must not be decided by itself, a new
/// root directory, is refused.
///
/// # Errors
/// As above, and if there is no root directory.
pub(crate) fn repair_unattended(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
) -> BoxFuture<'_, Result<Report>> {
    Box::pin(async move { mend(rt, device, &mut |_| {}, false).await })
}

async fn mend(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    progress: &mut dyn FnMut(Progress),
    attended: bool,
) -> Result<Report> {
    let (sb, found) = superblock(&*device).await?;
    sb.check_writable()?;
    if found.is_some() {
        let raw = Block::Bytes(Buf::copy_of(&sb.encode(0)).freeze());
        device.submit(Io::write(0, vec![raw], Class::Meta, Origin::Recovery)).await?;
    }
    let state = read_state(&*device, &sb).await?;
    let mut report = Report { was_open: !state.closed, ..Report::default() };
    found.into_iter().for_each(|finding| report.add(finding));
    if sb.journal_bytes > 0 && !state.closed {
        replay_journal(&*device, &sb, &mut report).await?;
    }
    let (mut left, mut lost) = (false, BTreeSet::new());
    for _ in 0..ROUNDS {
        let view = View::new(Rc::clone(&device), sb.clone());
        let mut checker = Checker::new(view, true, progress);
        checker.was_open = !state.closed;
        checker.makes_root = attended;
        checker.round().await?;
        if checker.view.is_changed() {
            checker.view.write().await?;
        }
        report.counts = checker.report.counts;
        report.more_findings += checker.report.more_findings;
        // What had no name in an earlier round may be free by now.
        lost = std::mem::take(&mut checker.lost);
        checker.report.findings.into_iter().for_each(|finding| report.add(finding));
        left = checker.changed;
        if !left {
            break;
        }
    }
    if left {
        return Err(FsError::inconsistent("the repair does not come to an end"));
    }
    // While files are given names the volume counts as left open, and so does one that was closed.
    let state = VolumeState { closed: lost.is_empty(), ..state };
    device.submit(state_io(&sb, &state, device.info().sector)).await?;
    device.submit(Io::flush(Origin::Recovery)).await?;
    if !lost.is_empty() {
        report.rescued = rescue(rt, device, lost, attended).await?;
    }
    Ok(report)
}

/// Gives inodes without a name one in lost+found, through the volume's own code. On a full volume
/// there may be no room for names: a mount then leaves the rest to a later `check --repair`, for
/// nothing would be gained by refusing what can be read.
async fn rescue(
    rt: &Rt,
    device: Rc<dyn BlockDevice>,
    lost: BTreeSet<Ino>,
    attended: bool,
) -> Result<u64> {
    let (all, settings) = (Settings::default(), FfsSettings::default());
    let found = Found { rescuing: true, ..Found::on(&*device).await? };
    let opening = Ffs::open_sound(rt, device, Cpu::none(), all, settings, found);
    // The future of opening holds that of repairing.
    let (volume, _) = Box::pin(opening).await?;
    let mut rescued = 0;
    for ino in lost {
        match volume.adopt(ino).await {
            Ok(()) => rescued += 1,
            // It was freed after all, or is a hidden file.
            Err(FsError::NotFound) => {}
            Err(FsError::NoSpace | FsError::NoInodes) if !attended => break,
            Err(error) => return Err(error),
        }
    }
    volume.close().await?;
    Ok(rescued)
}

/// Replays a journal for good, so that what is repaired after it stays so.
async fn replay_journal(
    device: &dyn BlockDevice,
    sb: &Superblock,
    report: &mut Report,
) -> Result<()> {
    let header = match read_journal(device, sb, Sabotage::None).await {
        Ok(replay) => {
            replay.write(device, sb).await?;
            report.records = replay.records;
            let blocks =
                sb.journal_bytes / u64::from(sb.shape.block_size) - crate::format::JOURNAL_HEADERS;
            let tail = (replay.last.at + replay.last.len) % blocks;
            let first_record = replay.last.number + 1;
            JournalHeader { number: replay.header + 1, first_record, tail }
        }
        Err(error) => {
            report.add(Finding::from_error(Kind::Journal, &error, "the journal"));
            JournalHeader { number: 1, first_record: 1, tail: 0 }
        }
    };
    device.submit(header_io(sb, &header, device.info().sector)).await?;
    device.submit(Io::flush(Origin::Recovery)).await?;
    Ok(())
}

/// The superblock, or a replica with what is wrong with the first one.
async fn superblock(device: &dyn BlockDevice) -> Result<(Superblock, Option<Finding>)> {
    match read_superblock(device).await {
        Ok(sb) => Ok((sb, None)),
        Err(error) => match find_replica(device).await {
            Ok(sb) => {
                let what = "the first superblock";
                Ok((sb, Some(Finding::from_error(Kind::Superblock, &error, what))))
            }
            Err(_) => Err(error),
        },
    }
}

impl<'a> Checker<'a> {
    fn new(view: View, fixes: bool, progress: &'a mut dyn FnMut(Progress)) -> Checker<'a> {
        let sb = &view.sb;
        let free = Node { life: Life::Free, kind: 0, nlink: 0, names: 0, owner: 0 };
        Checker {
            fixes,
            makes_root: false,
            was_open: false,
            orphans: BTreeSet::new(),
            maps: Vec::new(),
            nodes: vec![free; sb.inodes() as usize],
            used: (0..sb.groups).map(|g| Bits::new(sb.frags_of(g))).collect(),
            lost: BTreeSet::new(),
            twice: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            dirs: Vec::new(),
            changed: false,
            report: Report::default(),
            progress,
            view,
        }
    }

    /// Goes over the volume once.
    async fn round(&mut self) -> Result<()> {
        self.check_inodes().await?;
        self.settle_doubles().await?;
        self.check_root().await?;
        self.check_dirs().await?;
        self.check_counts().await?;
        self.check_maps();
        Ok(())
    }

    /// How the volume's directories are written.
    pub(super) fn dir_format(&self) -> Format {
        match self.view.sb.shape.pointer.is_modern() {
            true => Format::Sectored,
            false => Format::Classic,
        }
    }

    fn add(&mut self, finding: Finding) {
        self.report.add(finding);
    }

    /// Adds a finding whose repair changes more than the maps.
    fn wrong(&mut self, finding: Finding) {
        self.changed |= self.fixes;
        self.add(finding);
    }

    fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(usize::try_from(ino).ok()?)
    }
}

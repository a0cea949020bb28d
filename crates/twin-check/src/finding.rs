//! What a check finds, and its report: the same for every layout.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use twin_fs::{FsError, Ino};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Counts or spare copies are wrong; no file has lost anything.
    Minor,
    /// Names, attributes or data are lost or wrong, or would be after further use of the volume.
    Serious,
    /// The volume cannot be opened, or the check could not go on.
    Fatal,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident, $name:literal, $remedy:literal;)*) => {
        /// What a finding is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingKind {
            $($(#[$doc])* $kind,)*
        }

        impl FindingKind {
            /// Its name, for people and scripts.
            pub fn name(self) -> &'static str {
                match self {
                    $(FindingKind::$kind => $name,)*
                }
            }

            /// What a repair does about it.
            pub fn remedy(self) -> &'static str {
                match self {
                    $(FindingKind::$kind => $remedy,)*
                }
            }
        }
    };
}

kinds! {
    /// A copy of the superblock.
    Superblock, "superblock", "repair writes it again from another copy";
    /// The note whether the volume was closed.
    State, "state", "repair writes it anew";
    /// The checksums of a volume, or metadata that does not match them.
    Checksums, "checksums", "repair computes them anew; file data that does not match stays an error";
    /// A checkpoint or a copy of one.
    Checkpoint, "checkpoint", "repair makes a new one and writes all copies again";
    /// The log behind the last checkpoint cannot be read.
    Recovery, "recovery", "repair goes on from the last checkpoint, without the log after it";
    /// The place where the log goes on.
    LogHead, "log-head", "repair lets the log go on in empty segments";
    /// The file with the tables of a log.
    Ifile, "ifile", "repair makes the tables anew, with what the log says of lost inodes";
    /// The journal, or a record in it, is damaged.
    Journal, "journal", "repair goes on without the journal's records";
    /// An entry of the inode map.
    MapEntry, "map-entry", "repair frees the number, for its inode cannot be found";
    /// The list of free inode numbers.
    FreeList, "free-list", "repair makes the list anew";
    /// The block with a group's maps, or its counts.
    GroupMaps, "group-maps", "repair makes the maps anew from the inodes";
    /// The map of inodes in use.
    InodeMap, "inode-map", "repair makes the maps anew from the inodes";
    /// The map of free space.
    FragmentMap, "fragment-map", "repair makes the maps anew from the inodes";
    /// The root directory is missing or is none.
    Root, "root", "repair makes an empty one; files without a name go to lost+found";
    /// An inode that cannot be read, or is not the one that the map says.
    Inode, "inode", "repair frees the inode";
    /// A field of an inode that contradicts its type.
    InodeField, "inode-field", "repair corrects the field, or frees the inode";
    /// A file's length, or blocks past its end.
    Size, "size", "repair cuts what is too much";
    /// What the quota of a directory says is in use.
    Quota, "quota", "repair lets the next mount count";
    /// The count of bytes that an inode takes.
    Allocated, "allocated", "repair counts again";
    /// A pointer that leads to no possible block.
    Pointer, "pointer", "repair removes the pointer: reading that part of the file stays an error";
    /// A place that two things use.
    DoubleUse, "double-use", "repair leaves the block to the file that the log wrote it for, else to the directory whose names it has, or to the file without garbage in its indirect blocks, or that changed last";
    /// An indirect block that cannot be read.
    IndirectBlock, "indirect-block", "repair removes the pointer: reading what was behind it stays an error";
    /// A block of a directory has entries that contradict each other.
    DirBlock, "directory-block", "repair empties the part that is not sound; files without a name go to lost+found";
    /// An entry of a directory.
    DirEntry, "directory-entry", "repair removes the name, or corrects its type";
    /// A name that a directory has twice.
    DuplicateName, "duplicate-name", "repair removes the second one";
    /// A directory's entry for its parent.
    Parent, "parent", "repair corrects it";
    /// The count of entries in a directory's inode.
    EntryCount, "entry-count", "repair corrects it";
    /// An inode's count of names.
    LinkCount, "link-count", "repair corrects it";
    /// An inode without a name.
    LostInode, "lost-inode", "repair gives it a name in lost+found, or frees it if it is empty";
    /// A directory that cannot be reached from the root.
    Unreachable, "unreachable", "repair cuts the circle; the directory goes to lost+found";
    /// The index of a directory does not agree with its entries.
    Index, "index", "repair removes the index; it is made again";
    /// A hidden file and its owner.
    HiddenFile, "hidden-file", "repair removes the file, or what leads to it";
    /// The extended attributes of a file cannot be read.
    Xattrs, "extended-attributes", "repair removes the file's attributes: set them again";
    /// The mark of inodes that a crash would leave work for.
    OrphanMark, "orphan-mark", "repair finishes what was begun and corrects the mark";
    /// An entry of the segment usage table.
    Usage, "usage-table", "repair counts again";
    /// The log's own description of what lies in it.
    Summary, "summary", "repair moves what is in use there to another segment";
    /// A snapshot or branch, or the file with all of them.
    Snapshot, "snapshot", "repair deletes a snapshot whose tables cannot be read, and says which";
    /// The content of a file.
    Data, "data", "repair with --data removes the block: reading it stays an error";
    /// The device could not read a structure.
    Device, "device", "copy the device with a tool that skips bad places, then check the copy";
}

/// Something wrong on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing is wrong.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// First byte of it on the device, if it has a place.
    pub at: Option<u64>,
    /// The inode that it is about.
    pub ino: Option<Ino>,
    /// The description, in words.
    pub what: String,
}

impl Finding {
    /// A finding without a place or an inode.
    pub fn new(kind: FindingKind, severity: Severity, what: impl Into<String>) -> Finding {
        Finding { kind, severity, at: None, ino: None, what: what.into() }
    }

    /// A finding that costs no data.
    pub fn minor(kind: FindingKind, what: impl Into<String>) -> Finding {
        Finding::new(kind, Severity::Minor, what)
    }

    /// A finding that may cost data.
    pub fn serious(kind: FindingKind, what: impl Into<String>) -> Finding {
        Finding::new(kind, Severity::Serious, what)
    }

    /// Adds the place: a byte of the device.
    #[must_use]
    pub fn at(mut self, at: u64) -> Finding {
        self.at = Some(at);
        self
    }

    /// Adds the inode that the finding is about.
    #[must_use]
    pub fn of(mut self, ino: Ino) -> Finding {
        self.ino = Some(ino);
        self
    }

    /// Makes a finding of an error. If the error has a place, the finding gets it.
    pub fn from_error(
        kind: FindingKind,
        severity: Severity,
        error: &FsError,
        what: &str,
    ) -> Finding {
        let finding = |why: &dyn fmt::Display| format!("{what}: {why}");
        match error {
            FsError::Corrupt { at, what: why } => {
                Finding { at: *at, ..Finding::new(kind, severity, finding(why)) }
            }
            FsError::Io(io) => Finding::new(FindingKind::Device, severity, finding(io)).at(io.at),
            other => Finding::new(kind, severity, finding(other)),
        }
    }

    /// What a repair does about it.
    pub fn remedy(&self) -> &'static str {
        self.kind.remedy()
    }
}

impl Finding {
    /// It in words, with the path of its inode if that is known.
    fn in_words(&self, paths: &BTreeMap<Ino, String>) -> String {
        let severity = match self.severity {
            Severity::Minor => "minor",
            Severity::Serious => "serious",
            Severity::Fatal => "fatal",
        };
        let inode = self.ino.map_or(String::new(), |ino| named(ino, paths) + ": ");
        let place = self.at.map_or(String::new(), |at| format!(" (byte {at})"));
        format!("{severity}: {}: {inode}{}{place}", self.kind.name(), self.what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(&BTreeMap::new()))
    }
}

/// What a repair had to give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The inode that lost it, if it is known.
    pub ino: Option<Ino>,
    /// What it was, in words.
    pub what: String,
}

impl Loss {
    /// It in words, with the path of its inode if that is known.
    fn in_words(&self, paths: &BTreeMap<Ino, String>) -> String {
        match self.ino {
            Some(ino) => format!("{}: {}", named(ino, paths), self.what),
            None => self.what.clone(),
        }
    }
}

/// An inode for people: its number, and its path if that is known.
fn named(ino: Ino, paths: &BTreeMap<Ino, String>) -> String {
    match paths.get(&ino) {
        Some(path) => format!("inode {ino} ({path})"),
        None => format!("inode {ino}"),
    }
}

/// What a check has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of regular files.
    pub files: u64,
    /// The number of directories.
    pub dirs: u64,
    /// The number of symbolic links.
    pub symlinks: u64,
    /// Devices, sockets and FIFOs.
    pub special: u64,
    /// Hidden files: indexes and lists of attributes.
    pub hidden: u64,
    /// Inodes that were open without a name or being cut: the next mount finishes them.
    pub orphans: u64,
    /// Names, the dots left out.
    pub names: u64,
    /// Bytes that regular files have by their lengths.
    pub file_bytes: u64,
    /// Bytes of blocks in use.
    pub used_bytes: u64,
    /// Bytes of free blocks, if the layout keeps a map of them.
    pub free_bytes: u64,
    /// Bytes whose checksums were compared, of layouts that have checksums of data.
    pub compared_bytes: u64,
}

/// The most findings that a report keeps in words; the others are counted. Of losses likewise.
pub const FINDINGS_MAX: usize = 10_000;

/// The most inodes whose paths are looked for.
pub const NAMED_MAX: usize = 1000;

/// The result of a check or a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, or was, in the order in which it was found.
    pub findings: Vec<Finding>,
    /// The number of findings that [`FINDINGS_MAX`] kept out of the list.
    pub more_findings: u64,
    /// The numbers of files and bytes on the volume.
    pub counts: Counts,
    /// The volume was not closed.
    pub was_open: bool,
    /// Notes of the layout, a line each.
    pub notes: Vec<String>,
    /// What a repair had to give up.
    pub losses: Vec<Loss>,
    /// Files of which an earlier repair gave up parts, [`NAMED_MAX`] at most.
    pub damaged: Vec<Ino>,
    /// The paths of inodes of which the report tells, as far as they have one.
    pub paths: BTreeMap<Ino, String>,
    /// The contents of files were not read.
    pub skipped_data: bool,
    /// Inodes that got a name in `lost+found`.
    pub rescued: u64,
}

impl Report {
    /// Adds a finding, or counts it if the list is full.
    pub fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }

    /// Adds what a repair gave up.
    pub fn add_loss(&mut self, ino: impl Into<Option<Ino>>, what: impl Into<String>) {
        if self.losses.len() < FINDINGS_MAX {
            self.losses.push(Loss { ino: ino.into(), what: what.into() });
        }
    }

    /// The inodes of which it tells, the first ones: of losses, of findings, and damaged files.
    pub fn inodes(&self) -> BTreeSet<Ino> {
        let lost = self.losses.iter().filter_map(|loss| loss.ino);
        let found = self.findings.iter().filter_map(|finding| finding.ino);
        lost.chain(found).chain(self.damaged.iter().copied()).take(NAMED_MAX).collect()
    }

    /// What a repair gave up, now and earlier, a line each.
    fn losses_in_words(&self) -> Vec<String> {
        let lost = self.losses.iter().map(|loss| loss.in_words(&self.paths));
        // Of files that this repair has damaged, the losses tell.
        let is_listed = |ino: &&Ino| self.losses.iter().any(|loss| loss.ino == Some(**ino));
        let earlier = self.damaged.iter().filter(|ino| !is_listed(ino)).map(|&ino| {
            let name = named(ino, &self.paths);
            format!("{name}: parts were lost in an earlier repair; reading them is an error")
        });
        lost.chain(earlier).collect()
    }

    /// True if nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.more_findings == 0
    }

    /// The worst severity that was found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// True if there is a finding of this kind.
    pub fn has(&self, kind: FindingKind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{}\n    {}", finding.in_words(&self.paths), finding.remedy())?;
        }
        if self.more_findings > 0 {
            writeln!(f, "and {} more findings", self.more_findings)?;
        }
        for line in self.losses_in_words().iter().chain(&self.notes) {
            writeln!(f, "{line}")?;
        }
        let c = &self.counts;
        writeln!(
            f,
            "{} files, {} directories, {} symbolic links, {} special files, {} orphans",
            c.files, c.dirs, c.symlinks, c.special, c.orphans
        )?;
        let clean = if self.is_clean() { "clean" } else { "NOT CLEAN" };
        write!(f, "{} bytes used; {clean}", c.used_bytes)
    }
}

/// The phases of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Superblocks, maps and tables of the volume.
    Volume,
    /// Inodes and the blocks of files; counted in inodes.
    Inodes,
    /// Directories; counted in directories.
    Directories,
    /// Structures that only this layout has, such as the segments of a log.
    Layout,
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part of the check that runs.
    pub phase: Phase,
    /// Units of the phase that are done.
    pub done: u64,
    /// All units of the phase.
    pub total: u64,
}

impl From<Finding> for twin_fs::dump::Problem {
    fn from(finding: Finding) -> Self {
        let what = format!("{}: {}", finding.kind.name(), finding.what);
        twin_fs::dump::Problem { at: finding.at, what }
    }
}

impl From<Report> for twin_fs::CheckReport {
    /// Puts the report into words: losses first, then the notes and the counts.
    fn from(report: Report) -> Self {
        let c = report.counts;
        let mut notes = report.losses_in_words();
        notes.extend(report.notes);
        notes.push(format!(
            "{} files, {} directories, {} links and special files",
            c.files,
            c.dirs,
            c.symlinks + c.special,
        ));
        let findings = report.findings.iter().map(|f| f.in_words(&report.paths)).collect();
        let Report { more_findings, rescued, skipped_data, .. } = report;
        twin_fs::CheckReport { findings, more_findings, notes, rescued, skipped_data }
    }
}

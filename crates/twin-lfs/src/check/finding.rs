//! What a check finds, and its report.

use std::fmt;

use twin_fs::{FsError, Ino};

use crate::recover::Recovered;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Accounts or spare copies are wrong; every file is whole.
    Minor,
    /// Names, attributes or data are lost or wrong, or would be if the volume were used.
    Serious,
    /// The volume cannot be opened, or the check could not go on.
    Fatal,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A copy of the superblock.
    Superblock,
    /// A checkpoint or a copy of one.
    Checkpoint,
    /// Roll-forward fails.
    Recovery,
    /// The place where the log goes on.
    LogHead,
    /// The file with the tables of the volume.
    Ifile,
    /// An entry of the inode map.
    MapEntry,
    /// The list of free inode numbers.
    FreeList,
    /// An inode that cannot be read, or is not the one that the map says.
    Inode,
    /// A field of an inode that contradicts its type.
    InodeField,
    /// A file's length.
    Size,
    /// The count of bytes that an inode takes.
    Allocated,
    /// A pointer that leads to no possible block.
    Pointer,
    /// A place that two things use.
    DoubleUse,
    /// An indirect block that cannot be read.
    IndirectBlock,
    /// A directory's block.
    DirBlock,
    /// An entry of a directory.
    DirEntry,
    /// A name that a directory has twice.
    DuplicateName,
    /// A directory's entry for its parent.
    Parent,
    /// The count of entries in a directory's inode.
    EntryCount,
    /// An inode's count of names.
    LinkCount,
    /// An inode without a name.
    LostInode,
    /// A directory that cannot be reached from the root.
    Unreachable,
    /// A directory's index.
    Index,
    /// A hidden file and its owner.
    HiddenFile,
    /// Extended attributes.
    Xattrs,
    /// The mark of inodes that a crash would leave work for.
    OrphanMark,
    /// An entry of the segment usage table.
    Usage,
    /// The log's own description of what lies in it.
    Summary,
    /// The content of a file.
    Data,
    /// The device failed.
    Device,
}

impl Kind {
    /// Its name, for people and scripts.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Superblock => "superblock",
            Kind::Checkpoint => "checkpoint",
            Kind::Recovery => "recovery",
            Kind::LogHead => "log-head",
            Kind::Ifile => "ifile",
            Kind::MapEntry => "map-entry",
            Kind::FreeList => "free-list",
            Kind::Inode => "inode",
            Kind::InodeField => "inode-field",
            Kind::Size => "size",
            Kind::Allocated => "allocated",
            Kind::Pointer => "pointer",
            Kind::DoubleUse => "double-use",
            Kind::IndirectBlock => "indirect-block",
            Kind::DirBlock => "directory-block",
            Kind::DirEntry => "directory-entry",
            Kind::DuplicateName => "duplicate-name",
            Kind::Parent => "parent",
            Kind::EntryCount => "entry-count",
            Kind::LinkCount => "link-count",
            Kind::LostInode => "lost-inode",
            Kind::Unreachable => "unreachable",
            Kind::Index => "index",
            Kind::HiddenFile => "hidden-file",
            Kind::Xattrs => "extended-attributes",
            Kind::OrphanMark => "orphan-mark",
            Kind::Usage => "usage-table",
            Kind::Summary => "summary",
            Kind::Data => "data",
            Kind::Device => "device",
        }
    }

    /// What can be done about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Kind::Superblock => "keep an image of the volume; the other copy serves",
            Kind::Checkpoint => "mount and unmount the volume: both slots are written again",
            Kind::Recovery | Kind::Ifile => {
                "keep an image of the volume and copy out what can be read before changing it"
            }
            Kind::LogHead | Kind::DoubleUse => {
                "do not mount for writing: the log could overwrite data; copy the files out"
            }
            Kind::MapEntry | Kind::Inode | Kind::IndirectBlock | Kind::Pointer => {
                "restore the file from a backup; mount read-only to copy out the others"
            }
            Kind::FreeList => "harmless but for inode numbers that are never used again",
            Kind::InodeField | Kind::Size | Kind::Allocated => "copy the file and remove this one",
            Kind::DirBlock | Kind::DirEntry | Kind::DuplicateName | Kind::Index => {
                "copy the directory's files to a new directory and remove this one"
            }
            Kind::Parent | Kind::EntryCount | Kind::Unreachable => {
                "copy the directory's files to a new directory"
            }
            Kind::LinkCount | Kind::LostInode | Kind::OrphanMark | Kind::HiddenFile => {
                "copy the files to a new volume: the space is not given back here"
            }
            Kind::Xattrs => "set the file's extended attributes again",
            Kind::Usage => "do not mount for writing: a segment may count as empty that is not",
            Kind::Summary => "copy the files out: the cleaner cannot move what lies there",
            Kind::Data => "restore the file from a backup",
            Kind::Device => {
                "copy the device with a tool that skips bad places, then check the copy"
            }
        }
    }
}

/// Something wrong on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// How bad it is.
    pub severity: Severity,
    /// First byte of it on the device, if it has a place.
    pub at: Option<u64>,
    /// The inode that it is about.
    pub ino: Option<Ino>,
    /// The rest, in words.
    pub what: String,
}

impl Finding {
    /// A finding without a place or an inode.
    pub(super) fn new(kind: Kind, severity: Severity, what: impl Into<String>) -> Finding {
        Finding { kind, severity, at: None, ino: None, what: what.into() }
    }

    /// The same with a place.
    pub(super) fn at(mut self, at: u64) -> Finding {
        self.at = Some(at);
        self
    }

    /// The same about an inode.
    pub(super) fn of(mut self, ino: Ino) -> Finding {
        self.ino = Some(ino);
        self
    }

    /// What an error says; its place wins.
    pub(super) fn from_error(
        kind: Kind,
        severity: Severity,
        error: FsError,
        what: &str,
    ) -> Finding {
        let finding = |why: &dyn fmt::Display| format!("{what}: {why}");
        match &error {
            FsError::Corrupt { at, what: why } => {
                Finding { at: *at, ..Finding::new(kind, severity, finding(why)) }
            }
            FsError::Io(io) => Finding::new(Kind::Device, severity, finding(io)).at(io.at),
            other => Finding::new(kind, severity, finding(other)),
        }
    }

    /// What can be done about it.
    pub fn remedy(&self) -> &'static str {
        self.kind.remedy()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Minor => "minor",
            Severity::Serious => "serious",
            Severity::Fatal => "fatal",
        };
        write!(f, "{severity}: {}: ", self.kind.name())?;
        if let Some(ino) = self.ino {
            write!(f, "inode {ino}: ")?;
        }
        f.write_str(&self.what)?;
        match self.at {
            Some(at) => write!(f, " (byte {at})"),
            None => Ok(()),
        }
    }
}

/// What was counted on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Symbolic links.
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
    /// Bytes of blocks and inodes that are in use.
    pub live_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Of these, with something in use.
    pub used_segments: u64,
    /// Partial segments that were read.
    pub partial_segments: u64,
    /// Bytes whose checksums were compared in the log.
    pub compared_bytes: u64,
}

/// The most findings that a report keeps in words; the others are counted.
pub const FINDINGS_MAX: usize = 10_000;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, in the order in which it was found.
    pub findings: Vec<Finding>,
    /// Findings past [`FINDINGS_MAX`].
    pub more_findings: u64,
    /// What there is.
    pub counts: Counts,
    /// The volume was not closed: what roll-forward did, in memory only.
    pub recovered: Option<Recovered>,
}

impl Report {
    pub(super) fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
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
    pub fn has(&self, kind: Kind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}\n    {}", finding.remedy())?;
        }
        if self.more_findings > 0 {
            writeln!(f, "and {} more findings", self.more_findings)?;
        }
        if let Some(done) = &self.recovered {
            writeln!(f, "not closed: {} log writes would be recovered", done.groups)?;
        }
        let c = &self.counts;
        writeln!(
            f,
            "{} files, {} directories, {} symbolic links, {} special files, {} orphans",
            c.files, c.dirs, c.symlinks, c.special, c.orphans
        )?;
        write!(
            f,
            "{} bytes live in {} of {} segments; {}",
            c.live_bytes,
            c.used_segments,
            c.segments,
            if self.is_clean() { "clean" } else { "NOT CLEAN" }
        )
    }
}

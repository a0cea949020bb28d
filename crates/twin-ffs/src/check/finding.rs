//! What a check finds, and its report.

use std::fmt;

use twin_fs::{FsError, Ino};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Accounts or spare copies are wrong; every file is whole.
    Minor,
    /// Names, attributes or data are lost or wrong, or would be if the volume were used.
    Serious,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The superblock or a replica of it.
    Superblock,
    /// The journal.
    Journal,
    /// The block with a group's maps, or its counts.
    GroupMaps,
    /// The map of inodes in use.
    InodeMap,
    /// The map of free fragments.
    FragmentMap,
    /// The root directory.
    Root,
    /// An inode that cannot be what it is.
    Inode,
    /// The count of bytes that an inode takes, or blocks past the end of its file.
    Size,
    /// A pointer that leads to no possible block.
    Pointer,
    /// A place that two files use.
    DoubleUse,
    /// A directory's block.
    DirBlock,
    /// An entry of a directory.
    DirEntry,
    /// A directory's entry for its parent.
    Parent,
    /// An inode's count of names, or a directory's of entries.
    Count,
    /// An inode without a name.
    LostInode,
    /// A directory's index.
    Index,
    /// A hidden file and its owner, or extended attributes.
    HiddenFile,
    /// The device failed.
    Device,
}

impl Kind {
    /// Its name, for people and scripts.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Superblock => "superblock",
            Kind::Journal => "journal",
            Kind::GroupMaps => "group-maps",
            Kind::InodeMap => "inode-map",
            Kind::FragmentMap => "fragment-map",
            Kind::Root => "root",
            Kind::Inode => "inode",
            Kind::Size => "size",
            Kind::Pointer => "pointer",
            Kind::DoubleUse => "double-use",
            Kind::DirBlock => "directory-block",
            Kind::DirEntry => "directory-entry",
            Kind::Parent => "parent",
            Kind::Count => "count",
            Kind::LostInode => "lost-inode",
            Kind::Index => "index",
            Kind::HiddenFile => "hidden-file",
            Kind::Device => "device",
        }
    }

    /// What a repair does about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Kind::Superblock => "repair writes it again from a replica",
            Kind::Journal => "repair goes on without the journal's records",
            Kind::GroupMaps | Kind::InodeMap | Kind::FragmentMap => {
                "repair makes the maps anew from the inodes"
            }
            Kind::Root => "repair makes an empty one; files without a name go to lost+found",
            Kind::Inode => "repair frees the inode",
            Kind::Size => "repair cuts what is too much and counts again",
            Kind::Pointer => "repair removes the pointer: the file has a hole there",
            Kind::DoubleUse => {
                "repair leaves the block to the directory whose names it has, or to the file without garbage in its indirect blocks, or that changed last"
            }
            Kind::DirBlock => "repair empties the block; files without a name go to lost+found",
            Kind::DirEntry => "repair removes the name",
            Kind::Parent | Kind::Count => "repair corrects it",
            Kind::LostInode => "repair gives it a name in lost+found, or frees it if it is empty",
            Kind::Index => "repair removes the index; it is made again",
            Kind::HiddenFile => "repair removes the file, and attributes that cannot be read",
            Kind::Device => "copy the device with a tool that skips bad places, then the copy",
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
    pub(super) fn minor(kind: Kind, what: impl Into<String>) -> Finding {
        Finding { kind, severity: Severity::Minor, at: None, ino: None, what: what.into() }
    }

    pub(super) fn serious(kind: Kind, what: impl Into<String>) -> Finding {
        Finding { severity: Severity::Serious, ..Finding::minor(kind, what) }
    }

    pub(super) fn at(mut self, at: u64) -> Finding {
        self.at = Some(at);
        self
    }

    pub(super) fn of(mut self, ino: Ino) -> Finding {
        self.ino = Some(ino);
        self
    }

    /// What an error says of something.
    pub(super) fn from_error(kind: Kind, error: &FsError, what: &str) -> Finding {
        match error {
            FsError::Corrupt { at, what: why } => {
                Finding { at: *at, ..Finding::serious(kind, format!("{what}: {why}")) }
            }
            FsError::Io(io) => Finding::serious(Kind::Device, format!("{what}: {io}")).at(io.at),
            other => Finding::serious(kind, format!("{what}: {other}")),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Minor => "minor",
            Severity::Serious => "serious",
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
    /// Inodes without a name that were open, or that were being cut, when the volume was left.
    pub orphans: u64,
    /// Names, the dots left out.
    pub names: u64,
    /// Bytes that regular files have by their lengths.
    pub file_bytes: u64,
    /// Bytes of blocks in use.
    pub used_bytes: u64,
    /// Bytes of blocks free.
    pub free_bytes: u64,
}

/// The most findings that a report keeps in words; the others are counted.
pub const FINDINGS_MAX: usize = 10_000;

/// The result of a check or a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, or was, in the order in which it was found.
    pub findings: Vec<Finding>,
    /// Findings past [`FINDINGS_MAX`].
    pub more_findings: u64,
    /// What there is.
    pub counts: Counts,
    /// The volume was not closed.
    pub was_open: bool,
    /// Records of the journal that were replayed, by a check in memory only.
    pub records: u64,
    /// Inodes that got a name in lost+found.
    pub rescued: u64,
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
            writeln!(f, "{finding}\n    {}", finding.kind.remedy())?;
        }
        if self.more_findings > 0 {
            writeln!(f, "and {} more findings", self.more_findings)?;
        }
        if self.was_open {
            writeln!(f, "not closed: {} records of the journal", self.records)?;
        }
        let c = &self.counts;
        writeln!(
            f,
            "{} files, {} directories, {} symbolic links, {} special files, {} orphans",
            c.files, c.dirs, c.symlinks, c.special, c.orphans
        )?;
        let clean = if self.is_clean() { "clean" } else { "NOT CLEAN" };
        write!(f, "{} bytes used, {} free; {clean}", c.used_bytes, c.free_bytes)
    }
}

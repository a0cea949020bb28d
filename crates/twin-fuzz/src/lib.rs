//! Fuzz targets: every place where twinfs reads bytes that somebody else may have made.
//!
//! Main type: [`Target`]; start at [`TARGETS`]. A target is one function from bytes to whether they were
//! understood. It panics if a promise is broken: that no bytes make a parser panic, that what was read and is
//! written again reads the same, that what a structure points to lies inside its volume. The fuzzer in `fuzz/`
//! and the tests of this crate call the same functions, the tests with the corpora in `fuzz/corpus`.
//!
//! Checksums would keep a fuzzer out. So a target reads its input as it is, and then once more with
//! magic numbers, tags and checksums put right, as an attacker would.
//!
//! ```
//! let target = twin_fuzz::by_name("dir_block").unwrap();
//! assert!((target.seeds)().iter().all(|seed| (target.run)(seed)));
//! assert!(!(target.run)(b"no directory block"));
//! ```

mod bytes;
mod capture;
mod dirs;
mod ffs;
mod foreign;
mod front;
mod images;
mod inodes;
mod journal;
mod lfs;
mod nfs;
mod packets;
mod send;
mod settings;
mod traces;

/// Something that reads foreign bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// What is read, in a line.
    pub about: &'static str,
    /// Reads an input: true if it was understood, so that there was something behind the parser.
    ///
    /// Panics if a promise is broken.
    pub run: fn(&[u8]) -> bool,
    /// Inputs that are understood, made by the encoders.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    packets::PACKET,
    packets::REQUESTS,
    nfs::CALLS,
    nfs::STREAM,
    front::FRONT,
    traces::TRACE,
    traces::FLIGHT,
    capture::CAPTURE,
    capture::NFSDUMP,
    foreign::FOREIGN,
    foreign::XZ,
    settings::SETTINGS,
    send::STREAM,
    lfs::SUPERBLOCK,
    lfs::CHECKPOINT,
    lfs::SUMMARY,
    ffs::SUPERBLOCK,
    ffs::GROUP,
    ffs::JOURNAL,
    journal::JOURNAL,
    inodes::INODE,
    dirs::BLOCK,
    dirs::INDEX,
    images::LFS,
    images::FFS,
];

/// The target of this name.
pub fn by_name(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Reads an input with the target of this name, for the fuzzer.
///
/// # Panics
/// If a promise is broken, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    let target = by_name(name).unwrap_or_else(|| panic!("there is no target {name:?}"));
    (target.run)(data);
}

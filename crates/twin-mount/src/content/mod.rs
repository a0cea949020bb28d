//! What a file or block device holds: a volume of ours, another file system's, nothing, or something
//! unknown.
//!
//! Contract: nothing is written, and what is looked at is bounded however large the device is.
//! "Blank" is said only of what reads as zeros wherever it was looked at: the first and the last
//! mebibyte, every place where a known format has its signature, and the data between them, all of
//! it up to `ALL_BYTES`, evenly spread samples beyond. Holes of sparse files are skipped.

mod signatures;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use rustix::fs::{SeekFrom, seek};

use twin_disk::journaled::{JournalId, id_text, mark_of};
use twin_fs::LayoutKind;
use twin_lab::layouts::LAYOUTS;

pub use signatures::CAPTURE;
use signatures::SIGNATURES;

/// Superblocks and their copies stand on multiples of this, those of every layout.
const SUPERBLOCK_BYTES: u64 = 4096;
/// Copies of superblocks that may stand anywhere are looked for up to here.
const COPY_SEARCH_BYTES: u64 = 1 << 30;
/// The ends, which are read in full.
const EDGE_BYTES: u64 = 1 << 20;
/// Up to so many bytes of data are read in full.
const ALL_BYTES: u64 = 64 << 20;
/// Of more, so many samples of so many bytes are read.
const SAMPLES: u64 = 2048;
const SAMPLE_BYTES: u64 = 16 << 10;
/// The most pieces of a sparse file that are told apart.
const MOST_PIECES: usize = 4096;

/// What something holds.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// A volume of ours, sound or not, of this layout.
    Volume(&'static dyn LayoutKind),
    /// A volume of this layout whose newest content is in the journal of this identity.
    Journaled(&'static dyn LayoutKind, JournalId),
    /// Something known, with its article.
    Known(&'static str),
    /// Text of some kind.
    Text,
    /// Zeros.
    Blank,
    /// No byte at all.
    Empty,
    /// Something else; the first byte that was seen not to be zero.
    Unknown(u64),
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        match (self, other) {
            (Content::Volume(one), Content::Volume(other)) => one.name() == other.name(),
            (Content::Journaled(one, id), Content::Journaled(other, its)) => {
                one.name() == other.name() && id == its
            }
            (Content::Known(one), Content::Known(other)) => one == other,
            (Content::Unknown(one), Content::Unknown(other)) => one == other,
            (Content::Text, Content::Text)
            | (Content::Blank, Content::Blank)
            | (Content::Empty, Content::Empty) => true,
            _ => false,
        }
    }
}

impl Eq for Content {}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Content::Volume(layout) => f.write_str(layout.noun()),
            Content::Journaled(layout, id) => {
                let (noun, id) = (layout.noun(), id_text(id));
                write!(f, "{noun} whose newest content is in the journal {id}")
            }
            Content::Known(name) => f.write_str(name),
            Content::Text => f.write_str("a text file"),
            Content::Blank => f.write_str("blank"),
            Content::Empty => f.write_str("empty"),
            Content::Unknown(at) => {
                write!(f, "data that twinfs does not know (byte {at} is not zero)")
            }
        }
    }
}

/// What a regular file or block device holds; `None` if it is neither, or may not be read. The
/// code that opens it reports why.
pub fn of(path: &Path) -> Option<Content> {
    let meta = std::fs::metadata(path).ok()?;
    let is_device = meta.file_type().is_block_device();
    if !meta.is_file() && !is_device {
        return None;
    }
    let source = Source::new(File::open(path).ok()?, is_device).ok()?;
    source.content().ok()
}

/// Refuses what is not blank. The file or device is open and locked, so nobody else changes it.
///
/// # Errors
/// Says what it holds.
pub fn must_be_blank(image: &Path) -> Result<(), String> {
    let path = image.display();
    match of(image) {
        Some(Content::Blank | Content::Empty) => Ok(()),
        Some(holds) => Err(format!(
            "{path} is not blank: it holds {holds}. Nothing was written; --force overwrites it"
        )),
        None => Err(format!(
            "{path} cannot be read, so it is not known what it holds; --force overwrites it"
        )),
    }
}

/// Where signatures of others stand, copies included, and the copy of a superblock of our own, in
/// ascending order: what would still be taken for what it was after a volume was made over it.
pub fn marks(path: &Path) -> io::Result<Vec<u64>> {
    let file = File::open(path)?;
    let is_device = file.metadata()?.file_type().is_block_device();
    let source = Source::new(file, is_device)?;
    let read = |at, len| source.read(at, len);
    let mut marks: Vec<u64> =
        SIGNATURES.iter().flat_map(|signature| signature.found(&read, source.size)).collect();
    marks.extend(source.end_places().filter(|&at| source.own_at(at).is_some()));
    marks.sort_unstable();
    marks.dedup();
    Ok(marks)
}

/// Something to look at.
struct Source {
    file: File,
    size: u64,
    is_device: bool,
}

impl Source {
    fn new(file: File, is_device: bool) -> io::Result<Source> {
        let size = seek(&file, SeekFrom::End(0))?;
        Ok(Source { file, size, is_device })
    }

    /// Up to `len` bytes at `at`: fewer at the end, none where the medium fails.
    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            match self.file.read_at(&mut bytes[done..], at + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        bytes.truncate(done);
        bytes
    }

    fn content(&self) -> io::Result<Content> {
        if self.size == 0 {
            return Ok(Content::Empty);
        }
        if let Some(own) = self.own_at(0) {
            return Ok(own);
        }
        // Before copies of our own superblocks: others overwrite the front of a volume and leave
        // the copy at its end.
        let read = |at, len| self.read(at, len);
        if let Some(known) = SIGNATURES.iter().find(|s| s.found(&read, self.size).next().is_some())
        {
            return Ok(Content::Known(known.name));
        }
        if let Some(own) = self.own_at_end() {
            return Ok(own);
        }
        let Some(at) = self.not_zero()? else { return Ok(Content::Blank) };
        if let Some(own) = self.own_anywhere()? {
            return Ok(own);
        }
        Ok(if is_text(&self.read(0, 512)) { Content::Text } else { Content::Unknown(at) })
    }

    /// Our own superblock, if one begins there.
    fn own_at(&self, at: u64) -> Option<Content> {
        own(&self.read(at, 512))
    }

    /// The copy of a superblock at the end of the device.
    fn own_at_end(&self) -> Option<Content> {
        self.end_places().find_map(|at| self.own_at(at))
    }

    /// Where that copy can be: the end is cut to sectors of one size or another.
    fn end_places(&self) -> impl Iterator<Item = u64> {
        let ends = [512, 4096].map(|sector| self.size / sector * sector);
        let places = ends.into_iter().filter_map(|end| end.checked_sub(SUPERBLOCK_BYTES));
        places.map(|at| at / SUPERBLOCK_BYTES * SUPERBLOCK_BYTES)
    }

    /// A copy of a superblock within the device.
    fn own_anywhere(&self) -> io::Result<Option<Content>> {
        for (from, len) in self.pieces()? {
            let mut at = from / SUPERBLOCK_BYTES * SUPERBLOCK_BYTES;
            let end = (from + len).min(COPY_SEARCH_BYTES);
            while at < end {
                let bytes = self.read(at, EDGE_BYTES.min(end - at) as usize);
                let found = bytes.chunks(SUPERBLOCK_BYTES as usize).find_map(own);
                if found.is_some() {
                    return Ok(found);
                }
                at += EDGE_BYTES;
            }
        }
        Ok(None)
    }

    /// A byte that is not zero, if one is found.
    fn not_zero(&self) -> io::Result<Option<u64>> {
        let edge = EDGE_BYTES.min(self.size);
        let edges = [(0, edge), (self.size - edge, edge)];
        if let Some(at) = edges.iter().find_map(|&(at, len)| self.not_zero_in(at, len)) {
            return Ok(Some(at));
        }
        let pieces = self.pieces()?;
        let data: u64 = pieces.iter().map(|(_, len)| len).sum();
        if data <= ALL_BYTES {
            return Ok(pieces.iter().find_map(|&(at, len)| self.not_zero_in(at, len)));
        }
        // Samples at equal distances of the data, pieces taken one behind the other.
        let distance = data / SAMPLES;
        let mut before = 0;
        let mut next = 0;
        for (at, len) in pieces {
            while next < before + len {
                let from = at + (next - before);
                let len = SAMPLE_BYTES.min(at + len - from);
                if let Some(found) = self.not_zero_in(from, len) {
                    return Ok(Some(found));
                }
                next += distance;
            }
            before += len;
        }
        Ok(None)
    }

    fn not_zero_in(&self, at: u64, len: u64) -> Option<u64> {
        let end = at + len;
        let mut at = at;
        while at < end {
            let want = EDGE_BYTES.min(end - at) as usize;
            let bytes = self.read(at, want);
            if let Some(place) = bytes.iter().position(|&byte| byte != 0) {
                return Some(at + place as u64);
            }
            if bytes.len() < want {
                // A medium that cannot be read there is not known to be blank.
                return Some(at + bytes.len() as u64);
            }
            at += want as u64;
        }
        None
    }

    /// Where there is data, as places and lengths. All of a device, and of a file on a file system
    /// that cannot tell.
    fn pieces(&self) -> io::Result<Vec<(u64, u64)>> {
        // There is a hole in every file, at its end if nowhere else.
        if self.is_device || seek(&self.file, SeekFrom::Hole(0)).is_err() {
            return Ok(vec![(0, self.size)]);
        }
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < self.size {
            if pieces.len() == MOST_PIECES {
                pieces.push((at, self.size - at));
                break;
            }
            // Behind the last data there is none.
            let Ok(from) = seek(&self.file, SeekFrom::Data(at)) else { break };
            at = seek(&self.file, SeekFrom::Hole(from))?;
            pieces.push((from, at - from));
        }
        Ok(pieces)
    }
}

/// The volume of ours that these bytes are the superblock of.
fn own(bytes: &[u8]) -> Option<Content> {
    let of = |bytes: &[u8]| LAYOUTS.iter().copied().find(|kind| bytes.starts_with(kind.magic()));
    match mark_of(bytes) {
        Some((id, magic)) => Some(Content::Journaled(of(&magic)?, id)),
        None => of(bytes).map(Content::Volume),
    }
}

/// True if these bytes are text: printable, in UTF-8, but for a character that is cut at the end.
fn is_text(bytes: &[u8]) -> bool {
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\x0c');
    !valid.is_empty() && valid.chars().all(plain)
}

#[cfg(test)]
mod tests;

//! Contents that identify themselves, so that a block of another file, or of pointers, is
//! recognized.
//!
//! Contract: every sector of a content names its file, the version of the file and its own position
//! in it; the remaining bytes follow from these. So a content can be compared with the written one
//! ([`Stamp::differs`]), and one of unknown version can still be searched for bytes that were never
//! the file's ([`foreign`]).

use super::rng::Rng;

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;
/// The first bytes of a sector.
const MAGIC: u64 = u64::from_le_bytes(*b"stamped!");
/// Bytes of the header of a sector; the others follow from it.
const HEAD: usize = 32;

/// The identity of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) file: u64,
    pub(crate) version: u64,
    pub(crate) len: usize,
}

impl Stamp {
    /// The bytes of the content.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let sectors = self.len.div_ceil(SECTOR);
        let mut bytes = Vec::with_capacity(sectors * SECTOR);
        for nth in 0..sectors as u64 {
            bytes.extend_from_slice(&sector(self.file, self.version, nth));
        }
        bytes.truncate(self.len);
        bytes
    }

    /// A description of the first difference from this content; `None` if there is none.
    pub(crate) fn differs(&self, is: &[u8]) -> Option<String> {
        let want = self.bytes();
        if want == is {
            return None;
        }
        let at = want.iter().zip(is).position(|(a, b)| a != b);
        let at = at.unwrap_or(want.len().min(is.len())) / SECTOR * SECTOR;
        let there = describe(&is[at.min(is.len())..]);
        Some(format!("{} of {} bytes are there, from byte {at} on: {there}", is.len(), want.len()))
    }
}

/// The first part of a file that it never had in any version: neither its own sectors nor zeros,
/// which a hole reads as, and which may follow the end of a version. `None` if there is no such
/// part.
pub(crate) fn foreign(file: u64, is: &[u8]) -> Option<String> {
    for (nth, found) in is.chunks(SECTOR).enumerate() {
        let own = match head(found) {
            Some([MAGIC, whose, version, place]) if whose == file && place == nth as u64 => {
                let own = sector(file, version, place);
                let same = own.iter().zip(found).take_while(|(own, found)| own == found).count();
                found[same..].iter().all(|byte| *byte == 0)
            }
            // Too short for a header: the end of a file.
            None => true,
            _ => {
                // A version may have ended within the header.
                let end = found.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                end <= 8 && MAGIC.to_le_bytes().starts_with(&found[..end])
            }
        };
        if !own {
            return Some(format!("byte {} on: {}", nth * SECTOR, describe(found)));
        }
    }
    None
}

fn sector(file: u64, version: u64, nth: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    let mut rng = Rng::new(file ^ version.rotate_left(24) ^ nth.rotate_left(48));
    for (at, word) in bytes.chunks_mut(8).enumerate() {
        let value = match at {
            0 => MAGIC,
            1 => file,
            2 => version,
            3 => nth,
            _ => rng.next(),
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

fn head(sector: &[u8]) -> Option<[u64; 4]> {
    let raw = sector.get(..HEAD)?;
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(raw.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// A description of a sector for messages.
fn describe(found: &[u8]) -> String {
    let words = match head(found) {
        None => return format!("{} bytes", found.len()),
        Some([MAGIC, file, version, place]) => {
            return format!("file {file}, version {version}, sector {place}");
        }
        Some(words) => words,
    };
    match words {
        [0, 0, 0, 0] => "zeros".into(),
        _ if words.iter().all(|word| *word < 1 << 32) => format!("as of pointers: {words:?}"),
        _ => format!("{words:x?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_told_from_all_others() {
        let stamp = Stamp { file: 7, version: 3, len: 5000 };
        let good = stamp.bytes();
        assert_eq!((stamp.differs(&good), foreign(7, &good)), (None, None));
        let other = Stamp { version: 4, ..stamp };
        assert!(other.differs(&good).is_some(), "another version");
        assert!(stamp.differs(&good[..4096]).is_some(), "too short");
        assert!(foreign(8, &good).is_some_and(|what| what.contains("file 7, version 3")));
        let mut holes = good.clone();
        holes[512..1024].fill(0);
        assert!(stamp.differs(&holes).is_some_and(|what| what.contains("zeros")));
        assert_eq!(foreign(7, &holes), None);
        holes[1500..2048].fill(0);
        assert_eq!(foreign(7, &holes), None, "a version that ended there");
        let mut pointers = good.clone();
        for (nth, word) in pointers[1024..1536].chunks_mut(8).enumerate() {
            word.copy_from_slice(&(4096 + 8 * nth as u64).to_le_bytes());
        }
        for what in [stamp.differs(&pointers), foreign(7, &pointers)] {
            assert!(what.is_some_and(|what| what.contains("byte 1024") && what.contains("point")));
        }
        let mut moved = good.clone();
        moved.copy_within(0..512, 512);
        assert!(foreign(7, &moved).is_some(), "the right file, the wrong place");
    }
}

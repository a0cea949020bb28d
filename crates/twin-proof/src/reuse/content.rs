//! Contents that say whose they are, as those of `cargo xtask e2e rewrite`.
//!
//! Contract: each sector names its file, the file's version and its own place; the rest follows
//! from these. So what lies in a file is told from blocks of pointers, of directories and of other
//! files.

const SECTOR: usize = 512;
const MAGIC: u64 = u64::from_le_bytes(*b"itsown!\n");

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) file: u64,
    pub(super) version: u64,
    pub(super) len: usize,
}

impl Content {
    /// Its bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len.next_multiple_of(SECTOR));
        for nth in 0..self.len.div_ceil(SECTOR) as u64 {
            bytes.extend_from_slice(&sector(self.file, self.version, nth));
        }
        bytes.truncate(self.len);
        bytes
    }

    /// How what is there differs, in words.
    pub(super) fn differs(&self, is: &[u8]) -> Option<String> {
        let want = self.bytes();
        if want == is {
            return None;
        }
        let at = want.iter().zip(is).position(|(a, b)| a != b);
        let at = at.unwrap_or(want.len().min(is.len())) / SECTOR * SECTOR;
        let there = describe(&is[at.min(is.len())..]);
        Some(format!("{} of {} bytes are there, from {at} on {there}", is.len(), want.len()))
    }
}

/// What a file has that was never its own: neither a sector of any version nor zeros, which may
/// follow where a version ended.
pub(super) fn foreign(file: u64, is: &[u8]) -> Option<String> {
    let mut sectors = is.chunks(SECTOR).enumerate();
    let (nth, found) = sectors.find(|(nth, found)| match head(found) {
        // The end of a file may be too short to say whose it is.
        None => false,
        Some([MAGIC, whose, version, place]) if whose == file && place == *nth as u64 => {
            let own = sector(file, version, place);
            let differs = || own.iter().zip(*found).position(|(own, found)| own != found);
            own[..] != **found
                && found[differs().unwrap_or(found.len())..].iter().any(|byte| *byte != 0)
        }
        Some([_, _, version, _]) => {
            // A version may have ended within the words that say whose it is.
            let end = found.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let own = [MAGIC, file, version, *nth as u64];
            let mut own = own.iter().flat_map(|word| word.to_le_bytes());
            end > 32 || !found[..end].iter().all(|byte| own.next() == Some(*byte))
        }
    })?;
    Some(format!("from {} on it has {}", nth * SECTOR, describe(found)))
}

fn sector(file: u64, version: u64, nth: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    let mut word = file.rotate_left(40) ^ version.rotate_left(20) ^ nth;
    for (at, place) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let value = match [MAGIC, file, version, nth].get(at) {
            Some(value) => *value,
            None => {
                // The multiplier of Knuth's MMIX generator.
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                word | 1 << 63
            }
        };
        *place = value.to_le_bytes();
    }
    bytes
}

fn head(sector: &[u8]) -> Option<[u64; 4]> {
    let mut words = [0; 4];
    for (word, raw) in words.iter_mut().zip(sector.get(..32)?.chunks_exact(8)) {
        *word = u64::from_le_bytes(raw.try_into().ok()?);
    }
    Some(words)
}

fn describe(found: &[u8]) -> String {
    match head(found) {
        None => format!("{} bytes", found.len()),
        Some([0, 0, 0, 0]) => "zeros".into(),
        Some([MAGIC, file, version, place]) => {
            format!("file {file}, version {version}, sector {place}")
        }
        Some(words) if words.iter().all(|word| *word < 1 << 32) => {
            format!("what may be pointers: {words:?}")
        }
        Some(words) => format!("{words:x?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_others_and_from_pointers() {
        let content = Content { file: 7, version: 2, len: 3000 };
        let good = content.bytes();
        assert_eq!((content.differs(&good), foreign(7, &good)), (None, None));
        assert!(foreign(8, &good).is_some() && content.differs(&good[..2999]).is_some());
        let mut bad = good.clone();
        bad[512..1024].fill(0);
        assert!(content.differs(&bad).is_some() && foreign(7, &bad).is_none(), "a hole");
        bad[1024 + 100..1536].fill(0);
        assert_eq!(foreign(7, &bad), None, "where a version ended");
        for end in [4, 8, 12, 16, 20, 24, 25, 32] {
            let mut cut = good.clone();
            cut[2 * 512 + end..].fill(0);
            assert_eq!(foreign(7, &cut), None, "a version that ended at {end} of a sector");
            cut[2 * 512 + 6] ^= 1;
            assert!(foreign(7, &cut).is_some(), "other bytes, up to {end} of a sector");
        }
        bad[512..520].copy_from_slice(&800u64.to_le_bytes());
        assert!(foreign(7, &bad).is_some_and(|what| what.contains("pointers")));
    }
}

//! Which places are in use: one bit for each fragment, and totals for each segment.
//!
//! Contract: a place is claimed once; a second claim is refused. For each segment there is also a
//! sum over the identities of everything claimed in it (which block of which file, where, with
//! which checksum). With it the summaries of a segment can be compared with the pointers of files
//! without keeping either in memory.

use crate::format::Superblock;

/// Why a claim is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The place is in no segment.
    Outside,
    /// The place extends over the end of a segment.
    Across,
    /// A file's block is there.
    Taken,
    /// An inode or a block of the ifile is there.
    Own,
}

impl Refused {
    pub(super) fn words(self) -> &'static str {
        match self {
            Refused::Outside => "lies in no segment",
            Refused::Across => "lies across the end of a segment",
            Refused::Taken => "lies where something else lies",
            Refused::Own => "lies where an inode or a table of the volume lies",
        }
    }
}

/// What was claimed in a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) live_bytes: u64,
    /// The sum of the identities of what was claimed.
    pub(super) sum: u64,
    /// A bit for each fragment.
    bits: Option<Box<[u64]>>,
    /// The bits of inodes and the ifile alone, once all of these are claimed.
    own: Option<Box<[u64]>>,
}

impl Account {
    /// True if the fragment `nth` of the segment is claimed.
    pub(super) fn is_claimed(&self, nth: u32) -> bool {
        is_set(self.bits.as_deref(), nth)
    }

    /// Number of fragments that are claimed.
    #[cfg(test)]
    fn claimed(&self) -> u32 {
        self.bits.as_deref().unwrap_or_default().iter().map(|word| word.count_ones()).sum()
    }
}

fn is_set(bits: Option<&[u64]>, nth: u32) -> bool {
    let word = bits.unwrap_or_default().get(nth as usize / 64);
    word.is_some_and(|word| word >> (nth % 64) & 1 == 1)
}

/// The claims of all structures, by place.
pub(super) struct Claims {
    sb: Superblock,
    frag: u64,
    segments: Vec<Account>,
    /// The fragment of the inode claimed last: its neighbours may share it.
    inode_frag: Option<u64>,
}

impl Claims {
    pub(super) fn new(sb: &Superblock) -> Claims {
        let segments = vec![Account::default(); sb.segments() as usize];
        let frag = u64::from(sb.geometry.frag_size);
        Claims { sb: sb.clone(), frag, segments, inode_frag: None }
    }

    pub(super) fn segment(&self, segment: u32) -> &Account {
        &self.segments[segment as usize]
    }

    /// Live bytes of all segments.
    pub(super) fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|account| account.live_bytes).sum()
    }

    /// Segments in which nothing is claimed.
    pub(super) fn empty_segments(&self) -> u32 {
        self.segments.iter().filter(|account| account.live_bytes == 0).count() as u32
    }

    /// Marks everything that is claimed so far, inodes and the ifile, as the volume's own.
    pub(super) fn reserve(&mut self) {
        for account in &mut self.segments {
            account.own = account.bits.clone();
        }
    }

    pub(super) fn block(&mut self, at: u64, len: u32, identity: u64) -> Result<(), Refused> {
        let (segment, offset) = self.locate(at, len)?;
        let frags = len.div_ceil(self.frag as u32);
        let first = (offset / self.frag) as u32;
        let account = &mut self.segments[segment as usize];
        if (first..first + frags).any(|nth| is_set(account.own.as_deref(), nth)) {
            return Err(Refused::Own);
        }
        if (first..first + frags).any(|nth| account.is_claimed(nth)) {
            return Err(Refused::Taken);
        }
        for nth in first..first + frags {
            Self::set(account, &self.sb, nth);
        }
        Self::count(account, len, identity);
        Ok(())
    }

    /// Claims an inode. The caller claims inodes in the order of their places, and before any block
    /// but those of the ifile. So if a fragment is taken already, its other occupants are inodes
    /// too.
    pub(super) fn inode(&mut self, at: u64, identity: u64) -> Result<(), Refused> {
        let len = self.sb.geometry.inode_size;
        let (segment, offset) = self.locate(at, len)?;
        let (nth, frag) = ((offset / self.frag) as u32, at / self.frag);
        let account = &mut self.segments[segment as usize];
        if account.is_claimed(nth) && self.inode_frag != Some(frag) {
            return Err(Refused::Taken);
        }
        self.inode_frag = Some(frag);
        Self::set(account, &self.sb, nth);
        Self::count(account, len, identity);
        Ok(())
    }

    /// The segment of a place, and the byte offset in it.
    pub(super) fn locate(&self, at: u64, len: u32) -> Result<(u32, u64), Refused> {
        let segment = self.sb.segment_of(at).ok_or(Refused::Outside)?;
        let offset = at - self.sb.segment_start(segment);
        match offset + u64::from(len) <= u64::from(self.sb.segment_size) {
            true => Ok((segment, offset)),
            false => Err(Refused::Across),
        }
    }

    fn set(account: &mut Account, sb: &Superblock, nth: u32) {
        let words = (sb.segment_size / sb.geometry.frag_size).div_ceil(64) as usize;
        let bits = account.bits.get_or_insert_with(|| vec![0; words].into_boxed_slice());
        bits[nth as usize / 64] |= 1 << (nth % 64);
    }

    fn count(account: &mut Account, len: u32, identity: u64) {
        account.live_bytes += u64::from(len);
        account.sum = account.sum.wrapping_add(identity);
    }
}

/// A number that stands for what lies at a place.
pub(super) fn identity(words: &[u64]) -> u64 {
    let mix = |hash: u64, word: &u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(27)
    };
    words.iter().fold(0x5eed, mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Profile;
    use twin_fs::geometry::Geometry;

    fn claims() -> (Claims, u64) {
        let geometry = Geometry::classic(4096, 1024);
        let sb =
            Superblock::plan([0; 16], Profile::Classic, geometry, 1 << 20, 32 << 20, 1).unwrap();
        let start = sb.segment_start(3);
        (Claims::new(&sb), start)
    }

    #[test]
    fn a_place_is_given_once() {
        let (mut claims, at) = claims();
        assert_eq!(claims.block(at, 4096, 1), Ok(()));
        assert_eq!(claims.block(at + 3072, 1024, 1), Err(Refused::Taken));
        assert_eq!(claims.block(at + 4096, 1024, 1), Ok(()));
        assert_eq!((claims.segment(3).live_bytes, claims.segment(3).claimed()), (5120, 5));
    }

    #[test]
    fn inodes_share_a_fragment_with_inodes_only() {
        let (mut claims, at) = claims();
        claims.block(at, 1024, 1).unwrap();
        assert_eq!(claims.inode(at + 128, 1), Err(Refused::Taken));
        assert_eq!(claims.inode(at + 1024, 1), Ok(()));
        assert_eq!(claims.inode(at + 1024 + 128, 1), Ok(()));
        assert_eq!(claims.block(at + 1024, 1024, 1), Err(Refused::Taken));
        assert_eq!(claims.segment(3).live_bytes, 1024 + 256);
    }

    #[test]
    fn places_outside_and_across_are_refused() {
        let (mut claims, at) = claims();
        assert_eq!(claims.block(0, 1024, 1), Err(Refused::Outside));
        assert_eq!(claims.block(at - 1024, 4096, 1), Err(Refused::Across));
    }

    #[test]
    fn identities_of_swapped_things_differ() {
        let whole = |a: &[u64], b: &[u64]| identity(a).wrapping_add(identity(b));
        assert_ne!(whole(&[1, 10], &[2, 20]), whole(&[1, 20], &[2, 10]));
    }
}

//! Objects in frames: the form of what is compressed or encrypted in a bucket.
//!
//! Contract: an object's bytes are cut at the same places whatever they are, each piece becomes a *frame*, and what
//! stands before the frames says how long each is, so a range is read without the rest. The first frame is short: it
//! has what opening a volume reads of a pack. Nothing here is believed before its checksum, and lengths never before they
//! are compared with what they can be.

use std::ops::Range;

use crate::pack::SEAL_BYTES;
use twin_disk::fields::{Malformed, Reader, Writer};

const MAGIC: &[u8; 8] = b"twbfram1";
/// Bytes before the lengths of the frames.
const FIXED: u32 = 60;
/// Bytes for each frame.
const ENTRY: u32 = 8;
/// Bytes of an object in its first frame, and up to the end of each other one a multiple of [`FRAME`].
const FIRST: u64 = 4096;
/// Bytes of an object in a frame.
pub(crate) const FRAME: u64 = 64 << 10;
/// Most frames of an object: 4 GiB.
const MOST_FRAMES: u64 = 1 << 16;
/// Most bytes by which a frame is longer than what is in it.
const MOST_MORE: u64 = 64;
/// Set in a frame's length if it is compressed.
const COMPRESSED: u32 = 1 << 31;
/// Objects up to this length are not compressed, so each seal has the same length.
pub(crate) const UNCOMPRESSED: u64 = 256;

/// How the objects of a volume are coded: one way for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coding {
    /// The number of the compression; 0 is none.
    pub compression: u32,
    /// The number of the encryption; 0 is none.
    pub encryption: u32,
    /// Random bytes of the volume: with the same key, no two volumes read each other's objects.
    pub salt: [u8; 16],
}

/// Where a frame is in the stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: u64,
    len: u32,
    crc: u32,
    is_compressed: bool,
}

/// What stands before the frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) coding: Coding,
    pub(crate) nonce: [u8; 12],
    /// Bytes of the object.
    pub(crate) len: u64,
    entries: Vec<Entry>,
}

/// A frame as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<B> {
    /// Its bytes.
    pub bytes: B,
    /// Whether they are compressed, below the encryption.
    pub is_compressed: bool,
}

/// The number of frames of an object of `len` bytes.
const fn frames_of(len: u64) -> u64 {
    len.div_ceil(FRAME) + (len > FIRST) as u64
}

/// The first byte of a frame in its object.
pub(crate) fn start_of(frame: u64) -> u64 {
    match frame {
        0 => 0,
        1 => FIRST,
        frame => (frame - 1) * FRAME,
    }
}

/// The frame that has a byte.
fn frame_at(at: u64) -> u64 {
    match at {
        0..FIRST => 0,
        at => at / FRAME + 1,
    }
}

/// Bytes of what stands before the frames of an object of `len` bytes.
pub(crate) const fn front_len(len: u64) -> u64 {
    FIXED as u64 + frames_of(len) * ENTRY as u64
}

/// The end of the frame with the byte before `end`, which is not 0, as far as the object goes.
pub(crate) fn end_of_frame(end: u64) -> u64 {
    start_of(frame_at(end - 1) + 1)
}

/// Cuts an object of `len` bytes: the first byte of each frame, and its length.
pub(crate) fn cuts(len: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..frames_of(len)).map(move |frame| {
        let start = start_of(frame);
        (start, len.min(start_of(frame + 1)) - start)
    })
}

/// Whether an object of these lengths in and out would be taken for a seal by its length in the bucket.
pub(crate) fn looks_like_a_seal(coding: Coding, len: u64, stored: u64) -> bool {
    len != SEAL_BYTES && stored == stored_seal(coding)
}

/// Bytes of a seal in the bucket. Only a tag of the encryption makes it longer than what is in it.
pub(crate) fn stored_seal(coding: Coding) -> u64 {
    let tag = if coding.encryption == 0 { 0 } else { TAG };
    front_len(SEAL_BYTES) + SEAL_BYTES + tag
}

/// Bytes that every encryption adds to a frame.
pub const TAG: u64 = 16;

impl Front {
    /// Of an object of `len` bytes, which these frames have.
    pub(crate) fn of<B: AsRef<[u8]>>(
        coding: Coding,
        nonce: [u8; 12],
        len: u64,
        frames: &[Frame<B>],
    ) -> Front {
        let mut at = front_len(len);
        let entries = frames.iter().map(|frame| {
            let bytes = frame.bytes.as_ref();
            let (len, crc) = (bytes.len() as u32, crc32c::crc32c(bytes));
            let entry = Entry { at, len, crc, is_compressed: frame.is_compressed };
            at += u64::from(len);
            entry
        });
        let entries = entries.collect();
        Front { coding, nonce, len, entries }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(MAGIC);
        out.u32(front_len(self.len) as u32);
        out.u32(self.coding.compression);
        out.u32(self.coding.encryption);
        out.u64(self.len);
        out.bytes(&self.coding.salt);
        out.bytes(&self.nonce);
        for entry in &self.entries {
            out.u32(entry.len | if entry.is_compressed { COMPRESSED } else { 0 });
            out.u32(entry.crc);
        }
        out.end()
    }

    /// Whether an object begins like one in frames.
    pub(crate) fn is_in(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Bytes of the front that begins with these. Nothing is checked but that they are possible.
    pub(crate) fn len_in(bytes: &[u8]) -> Result<u64, Malformed> {
        if !Front::is_in(bytes) {
            return Err("it is not in frames, as this volume's objects are");
        }
        let field = bytes.get(12..16).and_then(|field| field.try_into().ok());
        let len = u32::from_le_bytes(field.ok_or("it is too short")?);
        if len < FIXED || u64::from((len - FIXED) / ENTRY) > MOST_FRAMES {
            return Err("what stands before its frames has an impossible length");
        }
        Ok(len.into())
    }

    /// Reads a front of exactly these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Front, Malformed> {
        let mut fields = Reader::new(MAGIC, bytes)?;
        let (front, compression, encryption) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let len = fields.u64()?;
        let too_long = frames_of(len.min(u64::MAX / 2)) > MOST_FRAMES;
        if too_long || u64::from(front) != front_len(len) || front as usize != bytes.len() {
            return Err("what stands before its frames has an impossible length");
        }
        let salt = fields.id()?;
        let mut nonce = [0; 12];
        nonce.copy_from_slice(fields.bytes(12)?);
        let mut at = front_len(len);
        let mut entries = Vec::with_capacity(frames_of(len) as usize);
        for (_, plain) in cuts(len) {
            let (word, crc) = (fields.u32()?, fields.u32()?);
            let (len, is_compressed) = (word & !COMPRESSED, word & COMPRESSED != 0);
            if u64::from(len) > plain + MOST_MORE {
                return Err("a frame in it has an impossible length");
            }
            entries.push(Entry { at, len, crc, is_compressed });
            at += u64::from(len);
        }
        let coding = Coding { compression, encryption, salt };
        Ok(Front { coding, nonce, len, entries })
    }

    /// The number of frames.
    pub(crate) fn frames(&self) -> usize {
        self.entries.len()
    }

    /// The frames that have the bytes `at..end`, which are not none and inside: the first one, and where all of them
    /// are in the stored object.
    pub(crate) fn holding(&self, at: u64, end: u64) -> (u64, Range<u64>) {
        let (first, last) = (frame_at(at), frame_at(end - 1));
        let from = self.entries[first as usize].at;
        let last = &self.entries[last as usize];
        (first, from..last.at + u64::from(last.len))
    }

    /// Where the frames from `first` on are in these stored bytes, of which frame `first` is the beginning and some frame the end.
    pub(crate) fn split(
        &self,
        first: u64,
        bytes: &[u8],
    ) -> Result<Vec<Frame<Range<usize>>>, Malformed> {
        let mut frames = Vec::new();
        let mut at = 0;
        for entry in &self.entries[first as usize..] {
            if at == bytes.len() && entry.len > 0 {
                break;
            }
            let range = at..at + entry.len as usize;
            let frame = bytes.get(range.clone()).ok_or("it ends in the middle of a frame")?;
            if crc32c::crc32c(frame) != entry.crc {
                return Err("a checksum in it is wrong");
            }
            at = range.end;
            frames.push(Frame { bytes: range, is_compressed: entry.is_compressed });
        }
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODING: Coding = Coding { compression: 3, encryption: 0, salt: [5; 16] };

    fn raw(len: u64) -> Vec<Frame<Vec<u8>>> {
        let frame = |(at, len): (u64, u64)| Frame {
            bytes: vec![at as u8; len as usize],
            is_compressed: at == FIRST,
        };
        cuts(len).map(frame).collect()
    }

    #[test]
    fn frames_cover_each_object_once() {
        for len in [0, 1, FIRST - 1, FIRST, FIRST + 1, FRAME, FRAME + 1, 3 * FRAME - 1, 9 * FRAME] {
            let mut at = 0;
            for (frame, (start, bytes)) in cuts(len).enumerate() {
                assert_eq!((start, start_of(frame as u64)), (at, at), "{len}");
                assert!(bytes > 0 && bytes <= FRAME, "{len}");
                for inside in [at, at + bytes - 1] {
                    assert_eq!(frame_at(inside), frame as u64, "{len}");
                }
                at += bytes;
            }
            assert_eq!(at, len);
        }
        for (end, of_frame) in
            [(1, FIRST), (FIRST, FIRST), (FIRST + 1, FRAME), (FRAME + 1, 2 * FRAME)]
        {
            assert_eq!(end_of_frame(end), of_frame);
        }
    }

    #[test]
    fn a_front_is_read_as_it_was_written_and_no_other_is() {
        let len = 2 * FRAME + 100;
        let frames = raw(len);
        let front = Front::of(CODING, [7; 12], len, &frames);
        let bytes = front.encode();
        assert_eq!(Front::len_in(&bytes), Ok(bytes.len() as u64));
        assert_eq!(Front::decode(&bytes), Ok(front.clone()));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(Front::decode(&bad).is_err(), "byte {at}");
            assert!(Front::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_range_is_in_the_frames_that_hold_it_and_damage_is_seen() {
        let len = 3 * FRAME;
        let frames = raw(len);
        let front = Front::of(CODING, [7; 12], len, &frames);
        let mut stored = front.encode();
        frames.iter().for_each(|frame| stored.extend(&frame.bytes));
        let (first, range) = front.holding(FRAME + 5, 2 * FRAME + 1);
        assert_eq!(first, 2);
        let part = stored[range.start as usize..range.end as usize].to_vec();
        let found = front.split(first, &part).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(part[found[0].bytes.clone()], frames[2].bytes);
        assert!(!found[0].is_compressed);
        let mut bad = part.clone();
        bad[70_000] ^= 1;
        assert!(front.split(first, &bad).is_err());
        assert!(front.split(first, &part[..70_000]).is_err());
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let front = Front::of(CODING, [7; 12], 100, &raw(100));
        let long = Front { len: u64::MAX, ..front.clone() };
        assert!(Front::decode(&long.encode()).is_err());
        let mut entries = front.entries.clone();
        entries[0].len = 100 + MOST_MORE as u32 + 1;
        assert!(Front::decode(&Front { entries, ..front }.encode()).is_err());
    }
}

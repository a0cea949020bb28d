//! Packs: the objects that hold what was written, in order.
//!
//! Contract: a pack is written once, under a name that is never used again, and only if there is no object of that
//! name. It begins with a header, which says what the bytes behind it are; a pack without extents is a *seal*, with
//! which a new writer ends the sequence of the one before it.

use twin_disk::{Block, checksum, gather, total};

use crate::Identity;
use twin_disk::fields::{Malformed, Reader, Writer};

const MAGIC: &[u8; 8] = b"twbpack1";

/// Bytes of a header without extents.
pub(crate) const HEADER_LEN: u32 = 68;
/// Bytes of a seal, the only objects of this length below `data/`.
pub const SEAL_BYTES: u64 = HEADER_LEN as u64;
/// Bytes of a header for each extent.
const EXTENT_LEN: u32 = 20;

/// Most extents of a pack: a header stays below 1.4 MB.
pub(crate) const MOST_EXTENTS: usize = 65_536;

/// Where packs are.
pub(crate) const PREFIX: &str = "data/";

/// Which pack: the writer's epoch, and the place in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PackId {
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
}

impl PackId {
    /// The name of its object.
    pub(crate) fn name(self) -> String {
        format!("{PREFIX}{:012x}-{:012x}", self.epoch, self.seq)
    }

    /// The pack of that name.
    pub(crate) fn of_name(name: &str) -> Option<PackId> {
        let (epoch, seq) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let id = PackId { epoch: number(epoch)?, seq: number(seq)? };
        (id.name() == name).then_some(id)
    }
}

/// What a pack says of a part of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first byte on the device.
    pub(crate) at: u64,
    /// The number of bytes, not 0.
    pub(crate) len: u32,
    /// Whether these bytes follow in the pack; if not, there are zeros now.
    pub(crate) has_data: bool,
    /// The CRC-32C of the bytes.
    pub(crate) crc: u32,
}

/// What stands before the bytes of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) volume: Identity,
    /// Who wrote it: a number that no other writer has.
    pub(crate) writer: Identity,
    pub(crate) id: PackId,
    pub(crate) extents: Vec<Extent>,
}

impl Header {
    /// Bytes of the header of `extents` extents.
    pub(crate) fn len_of(extents: usize) -> u32 {
        HEADER_LEN + EXTENT_LEN * extents as u32
    }

    pub(crate) fn is_seal(&self) -> bool {
        self.extents.is_empty()
    }

    /// Bytes that follow the header.
    pub(crate) fn data_len(&self) -> u64 {
        self.extents.iter().filter(|e| e.has_data).map(|e| u64::from(e.len)).sum()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(MAGIC);
        out.u32(Header::len_of(self.extents.len()));
        out.u32(self.extents.len() as u32);
        out.bytes(&self.volume.0);
        out.bytes(&self.writer.0);
        out.u64(self.id.epoch);
        out.u64(self.id.seq);
        for extent in &self.extents {
            out.u64(extent.at);
            out.u32(extent.len);
            out.u32(u32::from(extent.has_data));
            out.u32(extent.crc);
        }
        out.end()
    }

    /// Bytes of the header that begins with these: at least [`HEADER_LEN`] are needed to tell. Nothing is checked.
    pub(crate) fn len_in(front: &[u8]) -> Result<u32, Malformed> {
        let field = |at: usize| Some(u32::from_le_bytes(front.get(at..at + 4)?.try_into().ok()?));
        let (len, extents) = field(12).zip(field(16)).ok_or("it is too short")?;
        if extents as usize > MOST_EXTENTS || len != Header::len_of(extents as usize) {
            return Err("its header has an impossible length");
        }
        Ok(len)
    }

    /// Reads a header of exactly these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, Malformed> {
        let mut fields = Reader::new(MAGIC, bytes)?;
        let (len, count) = (fields.u32()?, fields.u32()?);
        if len as usize != bytes.len() || Header::len_in(bytes)? != len {
            return Err("its header has an impossible length");
        }
        let (volume, writer) = (Identity(fields.id()?), Identity(fields.id()?));
        let id = PackId { epoch: fields.u64()?, seq: fields.u64()? };
        let mut extents = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let (at, len, kind, crc) = (fields.u64()?, fields.u32()?, fields.u32()?, fields.u32()?);
            if len == 0 || kind > 1 || at.checked_add(u64::from(len)).is_none() {
                return Err("an extent in it is impossible");
            }
            extents.push(Extent { at, len, has_data: kind == 1, crc });
        }
        Ok(Header { volume, writer, id, extents })
    }
}

/// What will be the next pack.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) extents: Vec<Extent>,
    /// The bytes that follow the header.
    pub(crate) data: Vec<Block>,
    /// How many they are.
    pub(crate) len: u32,
}

impl Draft {
    /// Whether it takes an extent of `len` bytes more, if a pack has at most `most`. An empty one takes all.
    pub(crate) fn has_room(&self, len: u32, most: u32) -> bool {
        let fits = self.len.checked_add(len).is_some_and(|all| all <= most);
        self.extents.is_empty() || (fits && self.extents.len() < MOST_EXTENTS)
    }

    /// Adds what was written at `at`. Returns the place of its first byte behind the header.
    pub(crate) fn add(&mut self, at: u64, blocks: Vec<Block>, len: u32) -> u32 {
        let offset = self.len;
        let crc = checksum(&blocks);
        self.extents.push(Extent { at, len, has_data: true, crc });
        self.data.extend(blocks);
        self.len += len;
        offset
    }

    /// Adds that there are zeros at `at`.
    pub(crate) fn add_zeros(&mut self, at: u64, len: u32) {
        self.extents.push(Extent { at, len, has_data: false, crc: 0 });
    }
}

/// The first bytes of blocks, at most `most`, as bytes.
pub(crate) fn front(blocks: &[Block], most: u64) -> Vec<u8> {
    let all = total(blocks);
    gather(blocks, 0, all.min(most) as usize).to_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(extents: Vec<Extent>) -> Header {
        let id = PackId { epoch: 3, seq: 77 };
        Header { volume: Identity([1; 16]), writer: Identity([2; 16]), id, extents }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_no_other_is() {
        let extent = |at, has_data| Extent { at, len: 512, has_data, crc: 9 };
        let whole = header(vec![extent(0, true), extent(1 << 40, false)]);
        let bytes = whole.encode();
        assert_eq!(Header::len_in(&bytes), Ok(bytes.len() as u32));
        assert_eq!(Header::decode(&bytes), Ok(whole.clone()));
        assert_eq!((whole.data_len(), whole.is_seal()), (512, false));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(Header::decode(&bad).is_err(), "byte {at}");
        }
        let seal = header(Vec::new()).encode();
        assert_eq!(seal.len() as u32, HEADER_LEN);
        assert!(Header::decode(&seal).unwrap().is_seal());
    }

    #[test]
    fn an_extent_beyond_all_addresses_is_refused() {
        let extent = Extent { at: u64::MAX - 5, len: 512, has_data: true, crc: 0 };
        assert!(Header::decode(&header(vec![extent]).encode()).is_err());
    }

    #[test]
    fn names_lead_back_to_their_packs() {
        let id = PackId { epoch: 3, seq: 77 };
        assert_eq!(PackId::of_name(&id.name()), Some(id));
        for bad in ["data/3-4d", "head", "data/", "data/00000000000g-000000000001"] {
            assert_eq!(PackId::of_name(bad), None, "{bad}");
        }
        assert!(id.name() < PackId { epoch: 3, seq: 0x100 }.name());
    }
}

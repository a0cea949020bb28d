//! The head, the one object that changes, and the maps that it refers to.
//!
//! Contract: the head is written only on condition that it is still the one that its writer knows. It names the
//! epoch of its writer; the map, which says where each part of the device was in the packs before `base`; and that
//! place in the epoch's sequence. What came after is in the packs from there on. Each head has a larger `count` than
//! the one before it, so no two have the same content, and the same version means the same head.

use crate::pack::{HEADER_LEN, PackId};
use crate::{Identity, Shape};
use twin_disk::fields::{Malformed, Reader, Writer};

const HEAD_MAGIC: &[u8; 8] = b"twbhead1";
const MAP_MAGIC: &[u8; 8] = b"twbmap01";
const FORMAT: u32 = 1;

/// The name of the head's object.
pub(crate) const NAME: &str = "head";
/// Where maps are.
pub(crate) const MAPS: &str = "map/";
/// Bytes of a piece in a map.
pub(crate) const PIECE_BYTES: u64 = 20;
/// Most bytes of a head.
pub(crate) const MOST: u64 = 4096;

/// What is in the object `head`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) volume: Identity,
    pub(crate) shape: Shape,
    /// Counts heads.
    pub(crate) count: u64,
    /// Counts writers.
    pub(crate) epoch: u64,
    /// The number of the writer.
    pub(crate) writer: Identity,
    /// The first pack of this epoch that the map does not know.
    pub(crate) base: u64,
    /// Whether the writer has ended, and nothing follows `base`.
    pub(crate) is_closed: bool,
    /// Who the writer is, for people.
    pub(crate) owner: String,
    /// The name of the map's object.
    pub(crate) map: String,
}

impl Head {
    /// The name of a map that this head's writer makes, which nobody else uses.
    pub(crate) fn map_name(&self) -> String {
        let writer: String = self.writer.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{MAPS}{:012x}-{:012x}-{writer}", self.epoch, self.count)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(HEAD_MAGIC);
        out.u32(FORMAT);
        out.bytes(&self.volume.0);
        out.u64(self.shape.size);
        out.u32(self.shape.sector);
        out.u32(self.shape.pack_bytes);
        out.u64(self.count);
        out.u64(self.epoch);
        out.bytes(&self.writer.0);
        out.u64(self.base);
        out.u32(u32::from(self.is_closed));
        let owner = self.owner.floor_char_boundary(1024);
        out.text(&self.owner[..owner]);
        out.text(&self.map);
        out.end()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Head, Malformed> {
        let mut fields = Reader::new(HEAD_MAGIC, bytes)?;
        if fields.u32()? != FORMAT {
            return Err("it has a format that this program does not know");
        }
        let volume = Identity(fields.id()?);
        let (size, sector, pack_bytes) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let shape = Shape { size, sector, pack_bytes };
        shape.check()?;
        Ok(Head {
            volume,
            shape,
            count: fields.u64()?,
            epoch: fields.u64()?,
            writer: Identity(fields.id()?),
            base: fields.u64()?,
            is_closed: fields.u32()? != 0,
            owner: fields.text()?,
            map: fields.text()?,
        })
    }
}

/// A pack that a map knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedPack {
    pub(crate) id: PackId,
    pub(crate) header_len: u32,
    pub(crate) data_len: u32,
}

/// A part of the device in a map: `len` bytes at `at`, in the pack of that index, `offset` bytes behind its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedPiece {
    pub(crate) at: u64,
    pub(crate) len: u32,
    pub(crate) pack: u32,
    pub(crate) offset: u32,
}

/// What is in a map's object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapObject {
    pub(crate) packs: Vec<MappedPack>,
    /// By place, without overlaps.
    pub(crate) pieces: Vec<MappedPiece>,
}

impl MapObject {
    pub(crate) fn encode(&self, volume: Identity) -> Vec<u8> {
        let mut out = Writer::new(MAP_MAGIC);
        out.bytes(&volume.0);
        out.u32(self.packs.len() as u32);
        out.u32(self.pieces.len() as u32);
        for pack in &self.packs {
            out.u64(pack.id.epoch);
            out.u64(pack.id.seq);
            out.u32(pack.header_len);
            out.u32(pack.data_len);
        }
        for piece in &self.pieces {
            out.u64(piece.at);
            out.u32(piece.len);
            out.u32(piece.pack);
            out.u32(piece.offset);
        }
        out.end()
    }

    /// Reads the map of a device of `size` bytes.
    pub(crate) fn decode(
        bytes: &[u8],
        volume: Identity,
        size: u64,
    ) -> Result<MapObject, Malformed> {
        let mut fields = Reader::new(MAP_MAGIC, bytes)?;
        if fields.id()? != volume.0 {
            return Err("it belongs to another volume");
        }
        let (packs, pieces) = (fields.u32()?, fields.u32()?);
        let mut map = MapObject::default();
        for _ in 0..packs {
            let id = PackId { epoch: fields.u64()?, seq: fields.u64()? };
            let (header_len, data_len) = (fields.u32()?, fields.u32()?);
            if header_len < HEADER_LEN {
                return Err("a pack in it has an impossible header");
            }
            map.packs.push(MappedPack { id, header_len, data_len });
        }
        let mut end = 0;
        for _ in 0..pieces {
            let (at, len, pack, offset) =
                (fields.u64()?, fields.u32()?, fields.u32()?, fields.u32()?);
            let behind = map.packs.get(pack as usize).map(|pack| pack.data_len);
            let inside = offset.checked_add(len).zip(behind).is_some_and(|(end, all)| end <= all);
            if len == 0 || at < end || !inside {
                return Err("a piece in it is impossible");
            }
            end = at
                .checked_add(u64::from(len))
                .filter(|end| *end <= size)
                .ok_or("a piece in it is outside")?;
            map.pieces.push(MappedPiece { at, len, pack, offset });
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            volume: Identity([1; 16]),
            shape: Shape { size: 1 << 20, sector: 512, pack_bytes: 1 << 16 },
            count: 4,
            epoch: 2,
            writer: Identity([0xab; 16]),
            base: 9,
            is_closed: false,
            owner: "ö".repeat(600),
            map: "map/x".into(),
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written_but_for_an_owner_with_too_long_a_name() {
        let bytes = head().encode();
        let read = Head::decode(&bytes).unwrap();
        assert_eq!(read, Head { owner: "ö".repeat(512), ..head() });
        assert!(bytes.len() as u64 <= MOST);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(Head::decode(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn maps_with_pieces_that_overlap_or_lie_outside_are_refused() {
        let volume = Identity([1; 16]);
        let id = PackId { epoch: 1, seq: 0 };
        let pack = MappedPack { id, header_len: HEADER_LEN, data_len: 2048 };
        let piece = |at, offset| MappedPiece { at, len: 1024, pack: 0, offset };
        let read = |pieces: &[MappedPiece]| {
            let map = MapObject { packs: vec![pack], pieces: pieces.to_vec() };
            MapObject::decode(&map.encode(volume), volume, 4096).map(|read| read == map)
        };
        assert_eq!(read(&[piece(0, 1024), piece(3072, 0)]), Ok(true));
        for bad in [
            &[piece(0, 0), piece(512, 0)][..],
            &[piece(3584, 0)],
            &[piece(0, 1025)],
            &[MappedPiece { pack: 1, ..piece(0, 0) }],
            &[MappedPiece { len: 0, ..piece(0, 0) }],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}

//! Which pack has each part of the device, and what is left of each pack.
//!
//! Contract: pieces never overlap; a byte that no piece has is zero. The live bytes of a pack are the sum of its
//! pieces. A pack is known until it is dropped, and it can be dropped when it has no piece and its object is
//! durable: before that the sequence needs it.

use std::collections::{BTreeMap, BTreeSet};

use twin_disk::Block;

use crate::head::{MapObject, MappedPack, MappedPiece};
use crate::pack::PackId;

/// The number of a pack in memory.
pub(crate) type Slot = u32;

/// A part of the device that a pack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    len: u32,
    slot: Slot,
    offset: u32,
}

/// A pack in memory.
#[derive(Clone, Debug)]
pub(crate) struct Pack {
    pub(crate) id: PackId,
    pub(crate) header_len: u32,
    pub(crate) data_len: u32,
    /// Bytes that pieces refer to.
    live: u64,
    /// What follows the header, as long as the object is not durable.
    pub(crate) data: Option<Vec<Block>>,
}

/// A part of what was looked up: in a pack at that offset, or zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) len: u32,
    pub(crate) place: Option<(Slot, u32)>,
}

/// The whole device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    pieces: BTreeMap<u64, Piece>,
    packs: BTreeMap<Slot, Pack>,
    next: Slot,
    /// Packs without a piece whose objects are durable, to be deleted.
    dead: Vec<PackId>,
}

impl Extents {
    /// A device as a map describes it.
    pub(crate) fn of_map(map: &MapObject) -> Extents {
        let mut all = Extents::default();
        let slots: Vec<Slot> = map.packs.iter().map(|pack| all.add_pack(*pack, None)).collect();
        for piece in &map.pieces {
            all.insert(piece.at, piece.len, Some((slots[piece.pack as usize], piece.offset)));
        }
        slots.into_iter().for_each(|slot| all.bury(slot));
        all
    }

    /// The map of the device. All packs with pieces must be durable by the time that a head refers to it.
    pub(crate) fn to_map(&self) -> MapObject {
        let mut map = MapObject::default();
        let mut index = BTreeMap::new();
        for (&at, piece) in &self.pieces {
            let pack = *index.entry(piece.slot).or_insert_with(|| {
                let Pack { id, header_len, data_len, .. } = self.packs[&piece.slot];
                map.packs.push(MappedPack { id, header_len, data_len });
                map.packs.len() as u32 - 1
            });
            map.pieces.push(MappedPiece { at, len: piece.len, pack, offset: piece.offset });
        }
        map
    }

    /// Makes a pack known. With its data it is not durable yet.
    pub(crate) fn add_pack(&mut self, pack: MappedPack, data: Option<Vec<Block>>) -> Slot {
        let MappedPack { id, header_len, data_len } = pack;
        let slot = self.next;
        self.next += 1;
        self.packs.insert(slot, Pack { id, header_len, data_len, live: 0, data });
        slot
    }

    pub(crate) fn pack(&self, slot: Slot) -> Option<&Pack> {
        self.packs.get(&slot)
    }

    /// Gives a pack that was a draft its final size and data.
    pub(crate) fn complete(
        &mut self,
        slot: Slot,
        header_len: u32,
        data_len: u32,
        data: Vec<Block>,
    ) {
        if let Some(pack) = self.packs.get_mut(&slot) {
            (pack.header_len, pack.data_len, pack.data) = (header_len, data_len, Some(data));
        }
    }

    /// The pack's object is durable: its bytes are read from there.
    pub(crate) fn is_durable(&mut self, slot: Slot) {
        if let Some(pack) = self.packs.get_mut(&slot) {
            pack.data = None;
        }
        self.bury(slot);
    }

    /// The bytes at `at` are now in that pack, or zeros.
    pub(crate) fn insert(&mut self, at: u64, len: u32, place: Option<(Slot, u32)>) {
        self.remove(at, len);
        let Some((slot, offset)) = place else { return };
        if let Some(pack) = self.packs.get_mut(&slot) {
            pack.live += u64::from(len);
            self.pieces.insert(at, Piece { len, slot, offset });
        }
    }

    /// The device from `at` on, `len` bytes of it, in order.
    pub(crate) fn look_up(&self, at: u64, len: u64) -> Vec<Found> {
        let end = at + len;
        let first = self.pieces.range(..=at).next_back().map_or(at, |(&start, _)| start);
        let mut found = Vec::new();
        let mut pos = at;
        let zeros = |from: u64, to: u64, found: &mut Vec<Found>| {
            let mut left = to - from;
            while left > 0 {
                let len = left.min(1 << 30) as u32;
                found.push(Found { len, place: None });
                left -= u64::from(len);
            }
        };
        for (&start, piece) in self.pieces.range(first..end) {
            let stop = (start + u64::from(piece.len)).min(end);
            if stop <= pos {
                continue;
            }
            let from = start.max(pos);
            zeros(pos, from, &mut found);
            let offset = piece.offset + (from - start) as u32;
            found.push(Found { len: (stop - from) as u32, place: Some((piece.slot, offset)) });
            pos = stop;
        }
        zeros(pos, end, &mut found);
        found
    }

    /// Takes what is to be deleted once no head refers to it.
    pub(crate) fn take_dead(&mut self) -> Vec<PackId> {
        std::mem::take(&mut self.dead)
    }

    /// All packs that have a piece, or are not durable yet.
    pub(crate) fn live_ids(&self) -> BTreeSet<PackId> {
        self.packs.values().map(|pack| pack.id).collect()
    }

    /// Bytes of the objects of all packs that are known.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.packs.values().map(|pack| u64::from(pack.header_len) + u64::from(pack.data_len)).sum()
    }

    /// All packs that are known: those, and what is to be deleted.
    pub(crate) fn ids(&self) -> BTreeSet<PackId> {
        self.packs.values().map(|pack| pack.id).chain(self.dead.iter().copied()).collect()
    }

    /// The number after the last pack of an epoch, for the planted fault of a writer that goes on in it.
    pub(crate) fn next_after(&self, epoch: u64) -> u64 {
        let last = self.ids().into_iter().filter(|id| id.epoch == epoch).max();
        last.map_or(0, |id| id.seq + 1)
    }

    /// The number of pieces.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn remove(&mut self, at: u64, len: u32) {
        let end = at + u64::from(len);
        let first = self.pieces.range(..at).next_back().map_or(at, |(&start, _)| start);
        let touched: Vec<(u64, Piece)> =
            self.pieces.range(first..end).map(|(&s, &p)| (s, p)).collect();
        for (start, piece) in touched {
            let stop = start + u64::from(piece.len);
            if stop <= at {
                continue;
            }
            self.pieces.remove(&start);
            let (keep_front, keep_back) =
                (at.saturating_sub(start) as u32, stop.saturating_sub(end) as u32);
            if keep_front > 0 {
                self.pieces.insert(start, Piece { len: keep_front, ..piece });
            }
            if keep_back > 0 {
                let offset = piece.offset + (piece.len - keep_back);
                self.pieces.insert(end, Piece { len: keep_back, offset, ..piece });
            }
            let gone = u64::from(piece.len - keep_front - keep_back);
            if let Some(pack) = self.packs.get_mut(&piece.slot) {
                assert!(
                    pack.live >= gone,
                    "{:?} has {} live bytes and loses {gone}",
                    pack.id,
                    pack.live
                );
                pack.live -= gone;
            }
            self.bury(piece.slot);
        }
    }

    /// Forgets a pack that is durable and has no piece.
    fn bury(&mut self, slot: Slot) {
        if self.packs.get(&slot).is_some_and(|pack| pack.live == 0 && pack.data.is_none())
            && let Some(pack) = self.packs.remove(&slot)
        {
            self.dead.push(pack.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::Rng;

    fn pack(seq: u64) -> MappedPack {
        MappedPack { id: PackId { epoch: 1, seq }, header_len: 100, data_len: 1 << 20 }
    }

    #[test]
    fn random_writes_are_found_where_an_array_has_them() {
        const SIZE: u64 = 64;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut extents = Extents::default();
            let mut array = vec![None; SIZE as usize];
            for seq in 0..30 {
                let slot = extents.add_pack(pack(seq), None);
                let at = rng.below(SIZE);
                let len = 1 + rng.below(SIZE - at).min(12) as u32;
                let place = rng.chance(0.8).then_some((slot, seq as u32 * 100));
                extents.insert(at, len, place);
                for n in 0..u64::from(len) {
                    array[(at + n) as usize] =
                        place.map(|(slot, offset)| (slot, offset + n as u32));
                }
                if place.is_none() {
                    extents.bury(slot);
                }
                let from = rng.below(SIZE);
                let found = extents.look_up(from, SIZE - from);
                let bytes: Vec<_> = found
                    .iter()
                    .flat_map(|f| (0..f.len).map(|n| f.place.map(|(slot, off)| (slot, off + n))))
                    .collect();
                assert_eq!(bytes, array[from as usize..], "seed {seed}");
                let live: u64 = extents.packs.values().map(|pack| pack.live).sum();
                assert_eq!(live, array.iter().flatten().count() as u64);
                assert!(extents.packs.len() <= extents.pieces());
            }
            let map = extents.to_map();
            let again = Extents::of_map(&map);
            assert_eq!(again.to_map(), map);
        }
    }

    #[test]
    fn a_pack_dies_when_it_is_durable_and_nothing_of_it_is_left() {
        let mut extents = Extents::default();
        let slot = extents.add_pack(pack(0), Some(Vec::new()));
        extents.insert(0, 512, Some((slot, 0)));
        extents.insert(0, 512, None);
        assert!(extents.take_dead().is_empty(), "the sequence still needs it");
        extents.is_durable(slot);
        assert_eq!(extents.take_dead(), [PackId { epoch: 1, seq: 0 }]);
        assert!(extents.pack(slot).is_none());
    }
}

//! The mark on a device whose newest content is in a journal.
//!
//! Contract: the mark is in the first sector, so it is there as a whole or not at all. It takes the place of the magic with
//! which a volume begins, so that nobody reads or repairs the volume without the journal, and keeps that magic, so that
//! it is known what the volume is. Between bytes 448 and 476 a volume's first sector must be zero, as it is in all layouts.

/// With which a marked device begins.
const MARK: &[u8; 8] = b"twinjrnl";
/// Where the rest of the mark is: the journal's identity, the volume's magic, a CRC-32C of both.
const AT: usize = 448;
const LEN: usize = 16 + 8 + 4;
/// The bytes that must be zero without a mark.
pub(super) const ROOM: std::ops::Range<usize> = AT..AT + LEN;

/// The identity of a journal on a device.
pub type JournalId = [u8; 16];

/// The identity as text.
pub fn id_text(id: &JournalId) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a device that begins with these bytes (a sector) is: the identity of its journal, and the magic of the volume on it.
/// `None` if it has no mark.
pub fn mark_of(first: &[u8]) -> Option<(JournalId, [u8; 8])> {
    let rest = first.get(ROOM)?;
    let (fields, crc) = rest.split_at(LEN - 4);
    if first[..8] != *MARK || crc != crc32c::crc32c(fields).to_le_bytes() {
        return None;
    }
    let (id, magic) = fields.split_at(16);
    Some((id.try_into().ok()?, magic.try_into().ok()?))
}

/// Puts the mark on a first sector. False if there is no room for it.
pub(super) fn set(first: &mut [u8], id: &JournalId) -> bool {
    let Some(rest) = first.get(ROOM) else { return false };
    if rest.iter().any(|byte| *byte != 0) {
        return false;
    }
    let mut fields = id.to_vec();
    fields.extend(&first[..8]);
    let crc = crc32c::crc32c(&fields);
    fields.extend(crc.to_le_bytes());
    first[ROOM].copy_from_slice(&fields);
    first[..8].copy_from_slice(MARK);
    true
}

/// Takes the mark away, if it is there.
pub(super) fn clear(first: &mut [u8]) {
    if let Some((_, magic)) = mark_of(first) {
        first[..8].copy_from_slice(&magic);
        first[ROOM].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_and_leaves_nothing_behind() {
        let mut sector = vec![0; 512];
        sector[..20].copy_from_slice(b"twinlfs1 and so on..");
        let before = sector.clone();
        assert_eq!(mark_of(&sector), None);
        assert!(set(&mut sector, &[7; 16]));
        assert_eq!(mark_of(&sector), Some(([7; 16], *b"twinlfs1")));
        clear(&mut sector);
        assert_eq!(sector, before);
    }

    #[test]
    fn a_sector_without_room_stays_as_it_is() {
        let mut sector = vec![1; 512];
        assert!(!set(&mut sector, &[7; 16]));
        assert_eq!(sector, vec![1; 512]);
        assert!(!set(&mut vec![0; 256], &[7; 16]));
    }
}

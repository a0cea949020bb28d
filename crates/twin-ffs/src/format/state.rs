//! The state of a volume that changes: whether it was closed. It is one sector, so that it is
//! written whole or not at all.

use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin, gather};
use twin_fs::dinode::{FieldReader, FieldWriter};
use twin_fs::quota::QuotaNote;
use twin_fs::{FsError, Result};

use super::Superblock;

/// First byte of the state on the device.
pub const STATE_AT: u64 = super::SUPERBLOCK_BYTES;
/// Bytes of the state.
pub const STATE_BYTES: usize = 512;
const MAGIC: u64 = u64::from_le_bytes(*b"ffsstate");

/// The state of a volume as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// True if the volume is not in use and every block is in its place.
    pub closed: bool,
    /// The number of times that it was opened for writing.
    pub opened: u64,
    /// Whether there are quotas of directories.
    pub quotas: QuotaNote,
}

impl VolumeState {
    /// The state of a volume whose state cannot be read.
    pub const UNREADABLE: VolumeState =
        VolumeState { closed: false, opened: 0, quotas: QuotaNote::Uncounted };

    /// The bytes of the state on the device.
    pub fn encode(&self, sb: &Superblock) -> Vec<u8> {
        let mut raw = vec![0; STATE_BYTES];
        let mut w = FieldWriter { raw: &mut raw, at: 0 };
        w.u64(MAGIC);
        w.u32(0);
        w.u32(sb.tag());
        w.u32(u32::from(self.closed));
        w.u32(self.quotas.code());
        w.u64(self.opened);
        let crc = crc32c::crc32c(&raw[12..]);
        raw[8..12].copy_from_slice(&crc.to_le_bytes());
        raw
    }

    /// Reads it.
    ///
    /// # Errors
    /// A description of what is wrong. Such a volume is treated as not closed.
    pub fn decode(sb: &Superblock, raw: &[u8]) -> Result<VolumeState> {
        let bad = |what: &str| Err(FsError::corrupt(STATE_AT, what));
        if raw.len() < STATE_BYTES {
            return bad("too short for the volume's state");
        }
        let raw = &raw[..STATE_BYTES];
        let mut r = FieldReader { raw, at: 0 };
        if r.u64() != MAGIC || r.u32() != crc32c::crc32c(&raw[12..]) || r.u32() != sb.tag() {
            return bad("the volume's state is not readable");
        }
        let closed = r.u32();
        let quotas = QuotaNote::from_code(r.u32());
        Ok(VolumeState { closed: closed == 1, opened: r.u64(), quotas })
    }
}

/// The request that writes the volume's state.
pub(crate) fn state_io(sb: &Superblock, state: &VolumeState, sector: u32) -> Io {
    let mut blocks = vec![Block::Bytes(Buf::copy_of(&state.encode(sb)).freeze())];
    let padding = (sector as usize).saturating_sub(STATE_BYTES);
    if padding > 0 {
        blocks.push(Block::Zero(padding as u32));
    }
    Io::write(STATE_AT, blocks, Class::Meta, Origin::Checkpoint)
}

/// Reads the volume's state. If it cannot be read, the volume is treated as not closed.
pub async fn read_state(device: &dyn BlockDevice, sb: &Superblock) -> Result<VolumeState> {
    let len = (STATE_BYTES as u64).max(device.info().sector.into());
    let blocks = device.submit(Io::read(STATE_AT, len, Class::Meta, Origin::Recovery)).await?;
    let raw = gather(&blocks, 0, STATE_BYTES).to_bytes();
    Ok(VolumeState::decode(sb, &raw).unwrap_or(VolumeState::UNREADABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_survives_the_disk_and_no_change_of_it_passes() {
        let sb = crate::format::superblock::tests::sample(64 << 20);
        let state = VolumeState { closed: true, opened: 3, quotas: QuotaNote::Counted };
        let raw = state.encode(&sb);
        assert_eq!(VolumeState::decode(&sb, &raw), Ok(state));
        for bit in 0..STATE_BYTES * 8 {
            let mut bad = raw.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(VolumeState::decode(&sb, &bad).is_err());
        }
    }
}

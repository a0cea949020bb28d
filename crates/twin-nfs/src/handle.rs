//! File handles: what a client sends to name a file.
//!
//! Contract: a handle names a volume, an export, an inode and the inode's generation, and is signed
//! with a key of the volume, so that a client can use only what the server gave it. It depends on
//! nothing that a restart forgets. `docs/decisions` explains where the key comes from.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use twin_fs::Ino;

/// Bytes of a handle.
pub const HANDLE_LEN: usize = 32;
/// The most bytes of a handle that the protocol allows (NFS3_FHSIZE).
pub(crate) const HANDLE_MAX: usize = 64;

/// The key of a volume's handles, and the number that tells the volume from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    key: [u8; 16],
    /// The number of the volume in handles and attributes. It does not reveal the key.
    pub volume: u64,
}

/// A file handle, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The number of the volume among those of the server.
    pub volume: u64,
    /// The number of the export through which the client came.
    pub export: u32,
    /// The inode number of the file on that volume.
    pub ino: Ino,
    /// The generation of the inode number.
    pub generation: u32,
}

impl Keys {
    /// The keys of the volume with this identity, which nobody knows who cannot read the volume.
    pub fn of(uuid: [u8; 16]) -> Keys {
        let derive = |purpose: &[u8]| keyed(&uuid, purpose);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&derive(b"twinfs: handles, first half").to_le_bytes());
        key[8..].copy_from_slice(&derive(b"twinfs: handles, second half").to_le_bytes());
        Keys { key, volume: derive(b"twinfs: number of the volume") }
    }

    /// The bytes of a handle on this volume.
    pub fn seal(&self, handle: &Handle) -> [u8; HANDLE_LEN] {
        let mut bytes = [0; HANDLE_LEN];
        bytes[..8].copy_from_slice(&handle.volume.to_le_bytes());
        bytes[8..16].copy_from_slice(&handle.ino.to_le_bytes());
        bytes[16..20].copy_from_slice(&handle.generation.to_le_bytes());
        bytes[20..24].copy_from_slice(&handle.export.to_le_bytes());
        let sign = keyed(&self.key, &bytes[..24]);
        bytes[24..].copy_from_slice(&sign.to_le_bytes());
        bytes
    }

    /// True if these bytes are a handle that [`seal`](Self::seal) made with the same keys.
    pub fn verify(&self, bytes: &[u8; HANDLE_LEN]) -> bool {
        keyed(&self.key, &bytes[..24]).to_le_bytes() == bytes[24..]
    }
}

/// The fields of a handle that may be forged: see [`Keys::verify`].
pub(crate) fn parse(bytes: &[u8; HANDLE_LEN]) -> Handle {
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let short = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    Handle { volume: long(0), ino: long(8), generation: short(16), export: short(20) }
}

/// A keyed hash (SipHash-2-4, Aumasson and Bernstein 2012).
pub(crate) fn keyed(key: &[u8; 16], bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: Handle = Handle { volume: 1, export: 2, ino: 3, generation: 4 };

    #[test]
    fn no_bit_of_a_handle_can_be_changed() {
        let keys = Keys::of([7; 16]);
        let bytes = keys.seal(&HANDLE);
        assert!(keys.verify(&bytes));
        assert_eq!(parse(&bytes), HANDLE);
        for bit in 0..8 * HANDLE_LEN {
            let mut forged = bytes;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!keys.verify(&forged), "bit {bit}");
        }
    }

    #[test]
    fn volumes_have_keys_of_their_own_and_keep_them() {
        assert!(!Keys::of([8; 16]).verify(&Keys::of([7; 16]).seal(&HANDLE)));
        assert_eq!(Keys::of([7; 16]), Keys::of([7; 16]));
        assert_ne!(Keys::of([7; 16]).volume, Keys::of([8; 16]).volume);
    }
}

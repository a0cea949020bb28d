//! The hash of file names: SipHash-1-3 with a key.
//!
//! The hash has a key because users choose the names: a user who does not know the key cannot make
//! names that all fall into one bucket. SipHash is by Aumasson and Bernstein, 2012, section 2; it
//! is used with one compression round and three finalization rounds, as in the standard library's
//! tables. The result is part of the on-disk format.

/// The hash of a name with the key of an index: the low 32 bits of SipHash-1-3.
pub fn name_hash(key: [u64; 2], name: &[u8]) -> u32 {
    siphash::<1, 3>(key, name) as u32
}

fn siphash<const COMPRESS: usize, const FINISH: usize>(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0u8; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    for word in words.iter().chain([&last]) {
        let word = u64::from_le_bytes(*word);
        v[3] ^= word;
        for _ in 0..COMPRESS {
            round(&mut v);
        }
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for _ in 0..FINISH {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_papers_test_vector() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash::<2, 4>(key, &message), 0xa129_ca61_49be_45e5);
    }

    /// The standard library's deprecated hasher is SipHash-2-4, an independent implementation.
    #[test]
    #[allow(deprecated)]
    fn it_agrees_with_another_implementation_on_every_length() {
        use std::hash::Hasher;
        let bytes: Vec<u8> = (0..=255).collect();
        for len in 0..=255 {
            let mut other = std::hash::SipHasher::new_with_keys(3, 4);
            other.write(&bytes[..len]);
            assert_eq!(siphash::<2, 4>([3, 4], &bytes[..len]), other.finish(), "{len} bytes");
        }
    }

    #[test]
    fn keys_give_different_hashes() {
        assert_ne!(name_hash([1, 2], b"name"), name_hash([1, 3], b"name"));
    }
}

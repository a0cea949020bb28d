//! The compressions and the encryption of objects in buckets.
//!
//! Contract: their numbers are in the objects and never change their meaning. Each frame is compressed alone, if it becomes
//! shorter, and then encrypted with AES-256-GCM-SIV (RFC 8452): the key is derived from the user's and the volume's salt
//! (HKDF-SHA256, RFC 5869), the nonce is the object's and the frame's number, and the tag covers the object's name and length
//! and the frame's number besides its bytes. Work on more than a frame is done on another thread.

use std::rc::Rc;
use std::sync::Arc;

use aes_gcm_siv::aead::{Aead, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use hkdf::Hkdf;
use sha2::Sha256;
use twin_bucket::{Codec, Codecs, Coding, Frame, Object, Worked};
use twin_disk::Bytes;
use twin_host::{Host, offload, random_bytes};
use twin_mount::media::Compression;

use crate::key::Key;

/// The only encryption.
const AES_256_GCM_SIV: u32 = 1;
/// What keys are derived for.
const PURPOSE: &[u8] = b"twinfs objects in a bucket, 1";
/// zstd's fastest ordinary level: a volume waits for it.
const ZSTD_LEVEL: i32 = 1;
/// Whoever gives a key expects to need it.
const NOT_ENCRYPTED: &str =
    "the volume is not encrypted, and a key is given: if that is right, leave the key away";
/// Bytes that are worked on without another thread.
const INLINE: usize = 64 << 10;

/// The compressions by number.
const COMPRESSIONS: [Option<Compression>; 3] =
    [None, Some(Compression::Zstd), Some(Compression::Lz4)];

fn number(compression: Option<Compression>) -> u32 {
    COMPRESSIONS.iter().position(|known| *known == compression).unwrap_or_default() as u32
}

/// A new volume's coding; `None` if it is not coded.
pub(crate) fn of_new(
    compression: Option<Compression>,
    is_secret: bool,
) -> Result<Option<Coding>, String> {
    if compression.is_none() && !is_secret {
        return Ok(None);
    }
    let encryption = if is_secret { AES_256_GCM_SIV } else { 0 };
    Ok(Some(Coding { compression: number(compression), encryption, salt: random_bytes()? }))
}

/// The codecs of whoever has this key, or none.
pub(crate) struct Codings {
    pub(crate) host: Host,
    pub(crate) key: Option<Key>,
}

impl Codecs for Codings {
    fn codec(&self, coding: Coding) -> Result<Rc<dyn Codec>, String> {
        let newer =
            "its objects are coded in a way that this program does not know: a newer one made it";
        let compression = *COMPRESSIONS.get(coding.compression as usize).ok_or(newer)?;
        let cipher = match (coding.encryption, &self.key) {
            (0, None) => None,
            (0, Some(_)) => return Err(NOT_ENCRYPTED.into()),
            (AES_256_GCM_SIV, Some(key)) => Some(cipher(key, &coding)?),
            (AES_256_GCM_SIV, None) => {
                return Err(
                    "the volume is encrypted: give its key (--key-file, --key-command, or \
                            TWINFS_KEY_FILE and TWINFS_KEY_COMMAND in the environment)"
                        .into(),
                );
            }
            _ => return Err(newer.into()),
        };
        let work = Arc::new(Work { compression, cipher });
        Ok(Rc::new(Coder { host: self.host.clone(), work }))
    }

    fn uncoded(&self) -> Result<(), String> {
        match self.key {
            Some(_) => Err(NOT_ENCRYPTED.into()),
            None => Ok(()),
        }
    }
}

fn cipher(key: &Key, coding: &Coding) -> Result<Aes256GcmSiv, String> {
    let mut derived = [0; 32];
    let expanded = Hkdf::<Sha256>::new(Some(&coding.salt), &key.0).expand(PURPOSE, &mut derived);
    expanded.map_err(|error| error.to_string())?;
    Ok(Aes256GcmSiv::new(&derived.into()))
}

struct Coder {
    host: Host,
    work: Arc<Work>,
}

impl Coder {
    /// Does some work, on this thread if it is little.
    fn work<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Work) -> Result<T, String> + Send + 'static,
    ) -> Worked<T> {
        let shared = Arc::clone(&self.work);
        if bytes <= INLINE {
            return Box::pin(std::future::ready(work(&shared)));
        }
        let begun = offload(&self.host, move || work(&shared));
        Box::pin(async move {
            begun.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())?
        })
    }
}

impl Codec for Coder {
    fn nonce(&self) -> Result<[u8; 12], String> {
        random_bytes()
    }

    fn encode(
        &self,
        object: Object,
        frames: Vec<Bytes>,
        packed: bool,
    ) -> Worked<Vec<Frame<Vec<u8>>>> {
        let bytes = frames.iter().map(|frame| frame.len()).sum();
        self.work(bytes, move |work| {
            let frames = (0..).zip(&frames);
            frames.map(|(number, frame)| work.encode(&object, number, frame, packed)).collect()
        })
    }

    fn decode(
        &self,
        object: Object,
        first: u64,
        frames: Vec<(Frame<Bytes>, u64)>,
    ) -> Worked<Vec<Vec<u8>>> {
        let bytes = frames.iter().map(|(_, len)| *len as usize).sum();
        self.work(bytes, move |work| {
            let frames = (first..).zip(&frames);
            let decode = |(number, (frame, len)): (u64, &(Frame<Bytes>, u64))| {
                work.decode(&object, number, frame, *len as usize)
            };
            frames.map(decode).collect()
        })
    }
}

struct Work {
    compression: Option<Compression>,
    cipher: Option<Aes256GcmSiv>,
}

impl Work {
    fn encode(
        &self,
        object: &Object,
        number: u64,
        frame: &[u8],
        packed: bool,
    ) -> Result<Frame<Vec<u8>>, String> {
        let shorter = match self.compression {
            Some(Compression::Zstd) if packed => {
                Some(zstd::bulk::compress(frame, ZSTD_LEVEL).map_err(|error| error.to_string())?)
            }
            Some(Compression::Lz4) if packed => Some(lz4_flex::block::compress(frame)),
            _ => None,
        };
        // What gains less than a sixteenth is not worth its decompression.
        let shorter = shorter.filter(|bytes| bytes.len() + frame.len() / 16 < frame.len());
        let is_compressed = shorter.is_some();
        let bytes = shorter.unwrap_or_else(|| frame.to_vec());
        let Some(cipher) = &self.cipher else { return Ok(Frame { bytes, is_compressed }) };
        let aad = about(object, number, is_compressed);
        let payload = Payload { msg: &bytes, aad: &aad };
        let bytes = cipher.encrypt(&nonce(object, number), payload);
        let bytes = bytes.map_err(|_| "an object could not be encrypted")?;
        Ok(Frame { bytes, is_compressed })
    }

    fn decode(
        &self,
        object: &Object,
        number: u64,
        frame: &Frame<Bytes>,
        len: usize,
    ) -> Result<Vec<u8>, String> {
        let bytes = match &self.cipher {
            None => frame.bytes.to_vec(),
            Some(cipher) => {
                let aad = about(object, number, frame.is_compressed);
                let payload = Payload { msg: &frame.bytes, aad: &aad };
                let opened = cipher.decrypt(&nonce(object, number), payload);
                opened.map_err(
                    |_| "the key is not the one of this volume, or somebody has changed the object",
                )?
            }
        };
        if !frame.is_compressed {
            return Ok(bytes);
        }
        match self.compression {
            Some(Compression::Zstd) => {
                zstd::bulk::decompress(&bytes, len).map_err(|e| e.to_string())
            }
            Some(Compression::Lz4) => {
                lz4_flex::block::decompress(&bytes, len).map_err(|e| e.to_string())
            }
            None => Err("a frame in it is compressed, and the volume is not".into()),
        }
    }
}

/// What the tag of a frame covers besides its bytes.
fn about(object: &Object, number: u64, is_compressed: bool) -> Vec<u8> {
    let mut about = object.name.as_bytes().to_vec();
    // No name has a zero byte.
    about.push(0);
    about.extend(object.len.to_le_bytes());
    about.extend(number.to_le_bytes());
    about.push(u8::from(is_compressed));
    about
}

/// The object's nonce, in which the frame's number is mixed: no frame of an object has another one's.
fn nonce(object: &Object, number: u64) -> Nonce {
    let mut nonce = object.nonce;
    for (byte, number) in nonce[4..].iter_mut().zip(number.to_le_bytes()) {
        *byte ^= number;
    }
    nonce.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_host::HostOptions;

    fn work(compression: Option<Compression>, key: Option<[u8; 32]>) -> Work {
        let coding = Coding { compression: number(compression), encryption: 1, salt: [4; 16] };
        let cipher = key.map(|key| cipher(&Key(key), &coding).unwrap());
        Work { compression, cipher }
    }

    fn object(name: &str) -> Object {
        Object { name: name.into(), nonce: [6; 12], len: 9000 }
    }

    fn bytes(bytes: &[u8]) -> Bytes {
        twin_disk::Buf::copy_of(bytes).freeze()
    }

    fn coded(work: &Work, plain: &[u8]) -> Frame<Bytes> {
        let Frame { bytes: frame, is_compressed } =
            work.encode(&object("a"), 3, plain, true).unwrap();
        Frame { bytes: bytes(&frame), is_compressed }
    }

    #[test]
    fn frames_come_back_whatever_they_hold() {
        let noise: Vec<u8> = random_bytes::<4096>().unwrap().to_vec();
        let even: Vec<u8> = (0..65_536u32).map(|n| (n / 300) as u8).collect();
        for compression in COMPRESSIONS {
            for key in [None, Some([7; 32])] {
                let work = work(compression, key);
                for plain in [&noise, &even, &vec![0; 4096], &vec![1]] {
                    let frame = coded(&work, plain);
                    let back = work.decode(&object("a"), 3, &frame, plain.len()).unwrap();
                    assert!(back == *plain, "{compression:?}");
                    assert!(frame.bytes.len() <= plain.len() + 16);
                }
                let is_short = coded(&work, &even).bytes.len() < even.len() / 4;
                assert_eq!(is_short, compression.is_some());
                assert!(!coded(&work, &noise).is_compressed, "it would not be shorter");
            }
        }
    }

    #[test]
    fn a_frame_is_read_with_its_key_in_its_place_unchanged_and_not_otherwise() {
        let plain = vec![9; 4096];
        let secret = work(Some(Compression::Zstd), Some([7; 32]));
        let frame = coded(&secret, &plain);
        let read = |work: &Work, object: &Object, number, frame: &Frame<Bytes>| {
            work.decode(object, number, frame, plain.len()).is_ok()
        };
        assert!(read(&secret, &object("a"), 3, &frame));
        assert!(!read(&work(Some(Compression::Zstd), Some([8; 32])), &object("a"), 3, &frame));
        assert!(!read(&secret, &object("b"), 3, &frame));
        assert!(!read(&secret, &object("a"), 4, &frame));
        assert!(!read(&secret, &Object { len: 9001, ..object("a") }, 3, &frame));
        assert!(!read(&secret, &Object { nonce: [5; 12], ..object("a") }, 3, &frame));
        let raw = Frame { is_compressed: false, ..frame.clone() };
        assert!(!read(&secret, &object("a"), 3, &raw));
        for at in 0..frame.bytes.len() {
            let mut bad = frame.bytes.to_vec();
            bad[at] ^= 1;
            let bad = Frame { bytes: bytes(&bad), ..frame.clone() };
            assert!(!read(&secret, &object("a"), 3, &bad), "byte {at}");
        }
    }

    /// RFC 8452, appendix C.2: the first vector of AES-256-GCM-SIV with 8 bytes.
    #[test]
    fn the_cipher_is_that_of_the_rfc() {
        let mut key = [0; 32];
        key[0] = 1;
        let mut nonce = [0; 12];
        nonce[0] = 3;
        let cipher = Aes256GcmSiv::new(&key.into());
        let mut plain = [0; 8];
        plain[0] = 1;
        let out = cipher.encrypt(&nonce.into(), plain.as_slice()).unwrap();
        let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "c2ef328e5c71c83b843122130f7364b761e0b97427e3df28");
    }

    #[test]
    fn damage_below_the_compression_is_an_error_and_no_panic() {
        for (_, compression) in Compression::ALL {
            let work = work(Some(compression), None);
            let frame = coded(&work, &vec![9; 4096]);
            for at in 0..frame.bytes.len() {
                let mut bad = frame.bytes.to_vec();
                bad[at] ^= 0x55;
                let bad = Frame { bytes: bytes(&bad), ..frame.clone() };
                // Which lengths may come out is for the store to judge.
                let _ = work.decode(&object("a"), 3, &bad, 4096);
                let short = Frame { bytes: bytes(&frame.bytes[..at]), ..frame.clone() };
                let _ = work.decode(&object("a"), 3, &short, 4096);
            }
        }
    }

    #[test]
    fn a_volume_tells_who_needs_a_key_and_who_has_one_too_many() {
        let host = Host::start(HostOptions::default()).unwrap();
        let with = |key: Option<[u8; 32]>| Codings { host: host.clone(), key: key.map(Key) };
        let plain = of_new(Some(Compression::Zstd), false).unwrap().unwrap();
        let secret = of_new(None, true).unwrap().unwrap();
        assert!(of_new(None, false).unwrap().is_none());
        assert!(with(None).codec(plain).is_ok() && with(None).uncoded().is_ok());
        assert!(with(Some([1; 32])).codec(secret).is_ok());
        assert!(with(None).codec(secret).err().unwrap().contains("--key-file"));
        assert!(with(Some([1; 32])).codec(plain).is_err());
        assert!(with(Some([1; 32])).uncoded().is_err());
        assert!(with(None).codec(Coding { compression: 9, ..plain }).is_err());
    }
}

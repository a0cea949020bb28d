//! The file with the journal of an image.

use std::rc::Rc;

use twin_disk::journaled::{Journaled, LEAST_JOURNAL, mark_of};
use twin_disk::local::UNIT;
use twin_disk::ring::Found;
use twin_disk::{Block, BlockDevice, Buf, Class, Io, MemDisk, Origin};
use twin_rt::{ClockOnly, Rt};

use crate::Target;
use crate::bytes::{seal, sized, trimmed};

/// A journal that belongs to an image. What it has goes to the image or is refused, and the image is whole afterwards or as
/// it was.
pub(crate) const JOURNAL: Target = Target {
    name: "device_journal",
    about: "the journal of an image",
    run: |data| open(data) | open(&righted(data)),
    seeds: || vec![seed()],
};

const IMAGE: usize = 1 << 20;
const OWN: [u8; 16] = [7; 16];

fn rt() -> Rt {
    Rt::new(ClockOnly::default(), 1)
}

/// Opens an image with this journal; true if the journal had something for it.
fn open(data: &[u8]) -> bool {
    let local = Rc::new(MemDisk::from_bytes(sized(data, LEAST_JOURNAL as usize)));
    let rt = rt();
    let Ok(found) = rt.block_on(Found::read(local.clone())).expect("memory answers") else {
        return false;
    };
    let before = image_of(found.owner().unwrap_or_default());
    let image = Rc::new(MemDisk::from_bytes(before.clone()));
    let opening = Journaled::open(&rt, image.clone(), local, OWN);
    let (device, replayed) = match rt.block_on(opening).expect("memory answers") {
        Ok(opened) => opened,
        Err(error) => {
            let same = image.to_bytes() == before;
            assert!(same, "a journal that is refused changes nothing: {error}");
            return false;
        }
    };
    rt.block_on(device.close()).expect("memory answers").expect("memory does not fail");
    assert_eq!(mark_of(&image.to_bytes()), None);
    replayed.records > 0
}

/// An image that is marked for the journal of this owner.
fn image_of(owner: &str) -> Vec<u8> {
    let mut bytes = vec![0; IMAGE];
    let digits =
        |n: usize| owner.get(2 * n..2 * n + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let id: Option<Vec<u8>> = (0..16).map(digits).collect();
    if let Some(id) = id.filter(|_| owner.len() == 32) {
        bytes[..8].copy_from_slice(b"twinjrnl");
        bytes[448..464].copy_from_slice(&id);
        bytes[464..472].copy_from_slice(b"twinlfs1");
        let crc = crc32c::crc32c(&bytes[448..472]);
        bytes[472..476].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// The journal with right magic numbers and checksums in every unit that could begin a start or a record.
fn righted(data: &[u8]) -> Vec<u8> {
    let mut out = data.to_vec();
    let all = data.len();
    for at in (0..all).step_by(UNIT as usize) {
        let (magic, is_record) =
            if at < 2 * UNIT as usize { (b"twbjrnl1", false) } else { (b"twbjrec1", true) };
        let Some(len) = out[at..].first_chunk().map(|len| u32::from_le_bytes(*len) as usize) else {
            break;
        };
        if !(12..UNIT as usize - 4).contains(&len) || at + 4 + len > all {
            continue;
        }
        let content = at + UNIT as usize;
        if is_record && len >= 40 && content < all {
            let word =
                out[at + 32..at + 40].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            let most = (word as usize).min(all - content);
            let crc = crc32c::crc32c(&out[content..content + most]);
            out[at + 40..at + 44].copy_from_slice(&crc.to_le_bytes());
        }
        let frame = &mut out[at + 4..at + 4 + len];
        frame[..8].copy_from_slice(magic);
        seal(frame, 8, 12);
    }
    out
}

/// The journal that a kill leaves.
fn seed() -> Vec<u8> {
    let (image, local) =
        (Rc::new(MemDisk::new(IMAGE as u64)), Rc::new(MemDisk::new(LEAST_JOURNAL)));
    let rt = rt();
    let opening = Journaled::open(&rt, image, local.clone(), OWN);
    let (device, _) = rt.block_on(opening).expect("memory answers").expect("it is empty");
    for (at, byte) in [(8192, 1), (12288, 2), (8192, 3)] {
        let block = Block::Bytes(Buf::taking(vec![byte; 512]).freeze());
        let written = device.submit(Io::write(at, vec![block], Class::Mixed, Origin::User));
        rt.block_on(written).expect("memory answers").expect("memory does not fail");
    }
    rt.crash();
    trimmed(local.to_bytes())
}

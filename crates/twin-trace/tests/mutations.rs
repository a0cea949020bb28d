//! 10,000 random mutations of a valid trace: each leads to an error, a clean cut or (where it
//! changes bytes that no checksum covers) other records, never to a panic, a hang or a huge
//! allocation.
//!
//! Half of the mutations change the file as it is; the other half change the records and then
//! correct the checksums, so that the mutations reach the decoder.

use crate::common::{read_all, records, trace};
use twin_rt::Rng;
use twin_trace::{Reader, Source};

fn mutate(bytes: &mut Vec<u8>, from: usize, rng: &mut Rng) {
    for _ in 0..rng.range(1, 4) {
        let len = bytes.len();
        if len <= from {
            return;
        }
        let at = from + rng.below((len - from) as u64) as usize;
        match rng.below(6) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.next_u64() as u8,
            2 => bytes.truncate(at),
            3 => {
                let end = (at + rng.below(40) as usize).min(len);
                bytes[at..end].fill(if rng.chance(0.5) { 0 } else { 0xff });
            }
            4 => {
                let end = (at + rng.below(100) as usize).min(len);
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + rng.below(100) as usize).min(len);
                let copy = bytes[at..end].to_vec();
                let to = from + rng.below((len - from) as u64) as usize;
                bytes.splice(to..to, copy);
            }
        }
    }
}

/// Reads as much as possible; returns the number of records.
fn survive(bytes: &[u8]) -> usize {
    let Ok(mut reader) = Reader::new(bytes) else { return 0 };
    let mut count = 0;
    while let Ok(Some(_)) = reader.next_record() {
        count += 1;
    }
    let Ok(mut reader) = Reader::new(bytes) else { return 0 };
    while let Ok(Some(_)) = reader.next_node() {}
    count
}

#[test]
fn five_thousand_mutations_of_the_file_do_no_harm() {
    let mut noticed = 0;
    for seed in 0..5000 {
        let mut rng = Rng::new(seed);
        let expected = records(&mut rng, 60, seed % 2 == 0);
        let whole = trace(&expected, seed % 2 == 0, 20);
        let mut mutated = whole.clone();
        mutate(&mut mutated, 0, &mut rng);
        if mutated == whole {
            continue;
        }
        survive(&mutated);
        // Records that are read without an error are a part of the written ones.
        if let Ok(mut reader) = Reader::new(&mutated[..]) {
            match read_all(&mut reader) {
                Ok(got) => assert_eq!(got, expected[..got.len()], "seed {seed}"),
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    noticed += 1;
                }
            }
        } else {
            noticed += 1;
        }
    }
    assert!(noticed > 2500, "only {noticed} were noticed as damage");
}

const FRAME_HEADER: usize = 52;
const COLUMNS: usize = 9;

/// The file with the columns of its only frame stored uncompressed.
fn plain(whole: &[u8]) -> (Vec<u8>, usize) {
    let frame = whole.windows(4).position(|w| w == b"TWfr").unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().unwrap()) as usize;
    let directory = frame + FRAME_HEADER;
    let mut from = directory + COLUMNS * 8;
    let (mut sizes, mut columns) = (Vec::new(), Vec::new());
    for i in 0..COLUMNS {
        let (raw, stored) = (u32_at(directory + i * 8), u32_at(directory + i * 8 + 4));
        let bytes = &whole[from..from + stored];
        from += stored;
        match raw == stored {
            true => columns.extend_from_slice(bytes),
            false => columns.extend(zstd::bulk::decompress(bytes, raw).unwrap()),
        }
        sizes.extend_from_slice(&[raw as u32, raw as u32].map(u32::to_le_bytes).concat());
    }
    let out = [&whole[..directory], &sizes, &columns].concat();
    (out, frame)
}

/// Corrects the lengths and checksums of the only frame.
fn repair(bytes: &mut [u8], frame: usize) {
    let stored = bytes.len() - frame - FRAME_HEADER;
    let crc = crc32c::crc32c(&bytes[frame + FRAME_HEADER..]);
    bytes[frame + 20..frame + 24].copy_from_slice(&(stored as u32).to_le_bytes());
    bytes[frame + 24..frame + 28].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[frame..frame + 48]);
    bytes[frame + 48..frame + 52].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn five_thousand_mutations_behind_the_checksums_do_no_harm() {
    let (mut partly, mut wholly) = (0, 0);
    for seed in 0..5000 {
        let mut rng = Rng::new(seed);
        let expected = records(&mut rng, 100, seed % 2 == 0);
        let (mut bytes, frame) = plain(&trace(&expected, seed % 2 == 0, 100));
        repair(&mut bytes, frame);
        if seed % 100 == 0 {
            let got = read_all(&mut Reader::new(&bytes[..]).unwrap()).unwrap();
            assert_eq!(got, expected, "the unharmed trace, seed {seed}");
        }
        let directory = frame + FRAME_HEADER;
        // Mostly changes the columns, so that their lengths still match the directory.
        if rng.chance(0.8) {
            let from = directory + COLUMNS * 8;
            for _ in 0..rng.range(1, 4) {
                let at = from + rng.below((bytes.len() - from) as u64) as usize;
                bytes[at] = if rng.chance(0.5) { rng.next_u64() as u8 } else { 0xff };
            }
        } else {
            mutate(&mut bytes, directory, &mut rng);
        }
        repair(&mut bytes, frame);
        match survive(&bytes) {
            100 => wholly += 1,
            n if n > 0 => partly += 1,
            _ => {}
        }
    }
    assert!(partly > 500 && wholly > 500, "{partly} gave some records, {wholly} gave all");
}

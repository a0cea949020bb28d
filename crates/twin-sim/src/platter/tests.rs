use twin_disk::{Block, Bytes, Stamp, gather};
use twin_rt::Rng;

use super::Platter;

const KIB: u64 = 1024;

fn stamp(ino: u64, lbn: u64, version: u64, len: u32) -> Block {
    Block::Stamp(Stamp { ino, lbn, version, off: 0, len })
}

/// Blocks of a random write of `len` bytes: runs of stamps, bytes, zeros, in odd pieces.
fn random_blocks(rng: &mut Rng, len: u64, version: u64) -> Vec<Block> {
    let mut out = Vec::new();
    let mut left = len;
    while left > 0 {
        let unit = *rng.pick(&[100u64, 512, 1024, 4096]);
        let count = rng.range(1, 6);
        let (ino, first, kind) = (rng.below(3), rng.below(8), rng.below(4));
        let step = rng.below(2);
        for i in 0..count {
            let n = unit.min(left);
            if n == 0 {
                break;
            }
            out.push(match kind {
                0 => Block::Zero(n as u32),
                1 => Block::Bytes(Bytes::copy_of(
                    &(0..n).map(|_| rng.below(255) as u8 + 1).collect::<Vec<_>>(),
                )),
                _ => stamp(ino, first + i, version + i * step, n as u32),
            });
            left -= n;
        }
    }
    out
}

fn expand(blocks: &[Block]) -> Vec<u8> {
    blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect()
}

#[test]
fn it_holds_what_a_plain_array_holds() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        // Small devices collide often, large ones grow deep trees.
        let size = *rng.pick(&[64 * KIB, 1024 * KIB]);
        let (mut platter, mut array) = (Platter::new(size), vec![0u8; size as usize]);
        let mut snapshots: Vec<(Platter, Vec<u8>)> = Vec::new();
        for step in 0..600 {
            let len = (1 << rng.below(8)) * 512;
            let at = rng.below((size - len) / 512 + 1) * 512;
            let range = at as usize..(at + len) as usize;
            match rng.below(10) {
                0 => {
                    platter.discard(at, len);
                    array[range].fill(0);
                }
                1..=6 => {
                    let blocks = random_blocks(&mut rng, len, step * 10);
                    platter.write(at, &blocks);
                    array[range].copy_from_slice(&expand(&blocks));
                }
                _ => {
                    let read = platter.read(at, len);
                    assert_eq!(read.iter().map(|b| b.len() as u64).sum::<u64>(), len);
                    assert!(expand(&read) == array[range], "seed {seed}, step {step}, at {at}");
                }
            }
            if step % 150 == 0 {
                snapshots.push((platter.clone(), array.clone()));
            }
        }
        snapshots.push((platter, array));
        for (platter, array) in &snapshots {
            assert!(platter.read_bytes(0, size) == *array, "seed {seed}");
        }
    }
}

#[test]
fn it_gives_back_the_stamps_that_were_written() {
    let mut platter = Platter::new(1 << 20);
    let blocks: Vec<_> = (0..64).map(|i| stamp(5, i, 9, 4096)).collect();
    platter.write(8192, &blocks);
    assert_eq!(platter.read(8192, 64 * 4096), blocks);
    assert_eq!(platter.read(8192 + 4096, 4096), blocks[1..2]);
}

#[test]
fn a_stamp_overwritten_in_part_comes_back_as_cuts() {
    let mut platter = Platter::new(1 << 20);
    let (old, new) = (stamp(1, 0, 1, 4096), stamp(1, 0, 2, 4096));
    platter.write(0, std::slice::from_ref(&old));
    platter.write_part(512, std::slice::from_ref(&new), 512, 512);
    let read = platter.read(0, 4096);
    assert_eq!(read, [old.slice(0, 512), new.slice(512, 512), old.slice(1024, 3072)]);
    platter.write_part(512, std::slice::from_ref(&old), 512, 512);
    assert_eq!(gather(&platter.read(0, 4096), 0, 4096), old);
}

#[test]
fn a_snapshot_does_not_see_later_writes() {
    let mut platter = Platter::new(1 << 20);
    platter.write(0, &[stamp(1, 0, 1, 4096)]);
    let before = platter.clone();
    platter.write(0, &[stamp(1, 0, 2, 4096)]);
    assert_eq!(before.read(0, 4096), [stamp(1, 0, 1, 4096)]);
    assert_eq!(platter.read(0, 4096), [stamp(1, 0, 2, 4096)]);
}

#[test]
fn a_terabyte_of_sequential_data_needs_megabytes() {
    let size = 1u64 << 40;
    let mut platter = Platter::new(size);
    // Requests of 1 GiB: one stamp a MiB, because the version of every request differs.
    for request in 0..1024 {
        let (file, first) = (request / 64, request % 64 * 1024);
        let blocks = (0..1024).map(|i| stamp(file, first + i, request, 1 << 20));
        platter.write(request << 30, &blocks.collect::<Vec<_>>());
    }
    assert!(platter.heap_bytes() < 1 << 20, "{} bytes", platter.heap_bytes());
    // And a tenth of a million random blocks on top of it.
    let mut rng = Rng::new(1);
    for i in 0..100_000 {
        let at = rng.below(size / 4096) * 4096;
        platter.write(at, &[stamp(1000, rng.below(1 << 30), i, 4096)]);
    }
    assert!(platter.heap_bytes() < 32 << 20, "{} bytes", platter.heap_bytes());
}

#[test]
fn the_digest_is_of_the_content_not_of_its_pieces() {
    let (mut a, mut b) = (Platter::new(1 << 20), Platter::new(1 << 20));
    let blocks: Vec<_> = (0..8).map(|i| stamp(1, i, 3, 4096)).collect();
    a.write(0, &blocks);
    for (i, block) in blocks.iter().enumerate().rev() {
        b.write_part(i as u64 * 4096 + 2048, std::slice::from_ref(block), 2048, 2048);
        b.write_part(i as u64 * 4096, std::slice::from_ref(block), 0, 2048);
    }
    assert_eq!(a.digest(), b.digest());
    b.write(512, &[Block::Bytes(Bytes::copy_of(&[1; 512]))]);
    assert_ne!(a.digest(), b.digest());
}

#[test]
fn writing_in_order_makes_one_extent() {
    let mut platter = Platter::new(1 << 30);
    for i in 0..10_000 {
        platter.write(i * 4096, &[stamp(1, i, 100 + i, 4096)]);
    }
    assert_eq!(platter.extents(), 1);
}

//! The orders in which a log write takes what is dirty: what is read back and recovered is the same, and
//! where files lie is what the order says.

use crate::common::{World, both_profiles};
use twin_disk::{BlockDevice, Class, Io, Origin};
use twin_fs::{Ino, Op, Settings};
use twin_lfs::{Gathering, LfsSettings, MkfsOptions};

const SIZE: u64 = 24 << 20;
const FILES: u8 = 60;
/// More blocks than a segment of the classic profile has room for.
const BLOCKS: usize = 300;

fn orders() -> impl Iterator<Item = Gathering> {
    let order = |newest_first, inodes_with_files| Gathering { newest_first, inodes_with_files };
    [order(false, false), order(true, false), order(false, true), order(true, true)].into_iter()
}

fn world(options: &MkfsOptions, gathering: Gathering) -> World {
    let lfs = LfsSettings { gathering, eager_indirect: true, ..LfsSettings::default() };
    World::with(options, SIZE, Settings::default(), lfs)
}

/// The content of block `nth` of file `file`, and whole files of them.
fn block(file: u8, nth: usize) -> Vec<u8> {
    let mut block = vec![file; 4096];
    block[..8].copy_from_slice(&[0xA5, file, nth as u8, (nth >> 8) as u8, 0x5A, file, 1, 2]);
    block
}

fn content(file: u8, blocks: usize) -> Vec<u8> {
    let mut content: Vec<u8> = (0..blocks).flat_map(|nth| block(file, nth)).collect();
    content.truncate(content.len() - 700);
    content
}

/// Makes files in the order of their numbers, the last of them long, and puts them into one log write.
fn fill(world: &mut World) -> Vec<(Ino, Vec<u8>)> {
    let mut files = Vec::new();
    for file in 1..=FILES {
        let ino = world.create(&format!("f{file}"));
        let blocks = if file == FILES { BLOCKS } else { 1 + usize::from(file) % 3 };
        let content = content(file, blocks);
        world.write(ino, 0, &content);
        files.push((ino, content));
    }
    world.op(Op::Sync);
    files
}

/// The sector of the device at which a block begins.
fn place(world: &World, wanted: &[u8]) -> usize {
    let blocks = world.disk.submit(Io::read(0, SIZE, Class::Data, Origin::User));
    let blocks = world.rt.block_on(blocks).unwrap().unwrap();
    let bytes: Vec<u8> = blocks.iter().flat_map(|b| b.to_bytes().to_vec()).collect();
    bytes.chunks(512).position(|sector| sector.starts_with(&wanted[..8])).unwrap()
}

#[test]
fn every_order_is_recovered_and_clean() {
    both_profiles(|options| {
        for order in orders() {
            let mut before = world(&options, order);
            let files = fill(&mut before);
            let mut after = before.crash();
            for (ino, content) in &files {
                let found = after.read(*ino, 0, content.len() as u32);
                assert!(found == *content, "{order:?}");
            }
            for (nth, (ino, _)) in files.iter().enumerate() {
                after.write(*ino, 5000, &block(nth as u8, 9));
            }
            after.reopen().assert_clean();
        }
    });
}

#[test]
fn the_newest_file_lies_first_and_so_does_the_end_of_a_long_one() {
    let options = MkfsOptions::classic([1; 16]);
    for order in orders() {
        let mut world = world(&options, order);
        fill(&mut world);
        let (first, last) = (place(&world, &block(1, 0)), place(&world, &block(FILES - 1, 0)));
        assert_eq!(first > last, order.newest_first, "{order:?}");
        let (start, end) =
            (place(&world, &block(FILES, 0)), place(&world, &block(FILES, BLOCKS - 1)));
        assert_eq!(start > end, order.newest_first, "{order:?}");
        let next = place(&world, &block(FILES, 1));
        assert!(next > start, "within a partial segment blocks lie in order: {order:?}");
    }
}

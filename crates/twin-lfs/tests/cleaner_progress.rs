//! The cleaner always makes progress: volumes filled to the limit are overwritten at random, far
//! more often than they have clean segments, with files that make cleaning as hard as can be.

use crate::common::World;
use twin_fs::{Data, FsError, Ino, Op, ROOT_INO, Reply};
use twin_lfs::MkfsOptions;
use twin_rt::Rng;

/// A volume of files with one block each, at this offset, filled until there is no room.
struct Crowded {
    w: World,
    offset: u64,
    /// Files, with the seed of what is in them.
    files: Vec<(Ino, u64)>,
    rng: Rng,
}

fn content(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..512).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

impl Crowded {
    fn fill(size: u64, offset: u64) -> Crowded {
        let w = World::new(&MkfsOptions::modern([1; 16]), size);
        let mut crowded = Crowded { w, offset, files: Vec::new(), rng: Rng::new(7) };
        loop {
            let name = format!("f{}", crowded.files.len()).into_bytes();
            let op = Op::Create { dir: ROOT_INO, name: name.into(), mode: 0o644, exclusive: true };
            let ino = match crowded.w.try_op(op) {
                Ok(Reply::Entry(entry)) => entry.attr.ino,
                Err(FsError::NoSpace | FsError::NoInodes) => return crowded,
                other => panic!("{other:?}"),
            };
            match crowded.write(ino, ino) {
                Ok(_) => crowded.files.push((ino, ino)),
                Err(FsError::NoSpace) => return crowded,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn write(&mut self, ino: Ino, seed: u64) -> Result<Reply, FsError> {
        let data = Data::Bytes(twin_disk::Bytes::copy_of(&content(seed)));
        self.w.try_op(Op::Write { ino, off: self.offset, data })
    }

    /// Overwrites random files, so many times as there are files.
    fn overwrite(&mut self, times: usize) {
        for _ in 0..times * self.files.len() {
            let nth = self.rng.below(self.files.len() as u64) as usize;
            let (ino, seed) = (self.files[nth].0, self.rng.next_u64());
            self.write(ino, seed).unwrap();
            self.files[nth].1 = seed;
        }
    }

    fn compare(&mut self) {
        for (ino, seed) in self.files.clone() {
            assert!(self.w.read(ino, self.offset, 4096) == content(seed), "inode {ino}");
        }
    }

    /// Share of the log that is live.
    fn live(&self) -> f64 {
        let sb = self.w.volume.layout.superblock();
        let all = u64::from(sb.segments()) * u64::from(sb.segment_size);
        self.w.volume.layout.space().0 as f64 / all as f64
    }
}

fn story(size: u64, offset: u64) {
    let mut c = Crowded::fill(size, offset);
    let live = c.live();
    let before = c.w.volume.layout.stats();
    c.overwrite(2);
    c.w.op(Op::Sync);
    let stats = c.w.volume.layout.stats().since(&before);
    println!(
        "{} MB, block at {offset}: {} files, {:.1}% live, write cost {:.1}, {} segments cleaned, \
         {} forwarded",
        size >> 20,
        c.files.len(),
        live * 100.0,
        stats.write_cost().unwrap(),
        stats.cleaned_segments,
        c.w.volume.layout.forwarded_pointers(),
    );
    c.compare();
    c.w = c.w.crash();
    c.w.assert_clean();
    c.compare();
    c.overwrite(1);
    c.w = c.w.reopen();
    c.compare();
    c.w.rt.block_on(c.w.volume.close()).unwrap().unwrap();
    c.w.assert_clean();
    c.w = c.w.crash();
    for nth in 0..c.files.len() {
        let name = format!("f{nth}").into_bytes().into();
        c.w.op(Op::Unlink { dir: ROOT_INO, name });
    }
}

#[test]
fn each_block_directly_in_an_inode_of_its_own() {
    story(12 << 20, 0);
}

#[test]
fn each_block_behind_an_indirect_block_of_its_own() {
    story(12 << 20, 12 * 4096);
}

#[test]
fn each_block_behind_two_indirect_blocks_of_its_own() {
    story(12 << 20, (12 + 256) * 4096);
}

//! The cleaner's worst case: a volume as full as it may be, each live block of a file of its own
//! and behind indirect blocks of its own, so that whatever moves drags its parents along.

mod common;

use common::World;
use twin_fs::{FsError, Ino, Op, ROOT_INO, Settings};
use twin_lfs::{LfsSettings, MkfsOptions};

const BLOCK: u64 = 4096;

/// Deterministic noise.
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((self.0 >> 33) % n as u64) as usize
    }
}

fn content(ino: Ino, version: u32) -> Vec<u8> {
    let mut bytes = vec![0u8; BLOCK as usize];
    bytes[..8].copy_from_slice(&ino.to_le_bytes());
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes
}

type Named = Vec<(Ino, String)>;

/// Makes files until there is no room: inodes with versions, and directories with names.
fn fill(world: &mut World, lbn: u64) -> (Vec<(Ino, u32)>, Named) {
    let (mut files, mut names) = (Vec::new(), Vec::new());
    let mut dir = 0;
    let mut made = ROOT_INO;
    loop {
        if files.len() % 500 == 0 {
            dir += 1;
            let name = format!("d{dir}").into_bytes().into();
            match world.try_op(Op::MakeDir { dir: ROOT_INO, name, mode: 0o755 }) {
                Ok(twin_fs::Reply::Entry(entry)) => made = entry.attr.ino,
                Err(FsError::NoSpace | FsError::NoInodes) => return (files, names),
                other => panic!("{other:?}"),
            }
        }
        let name = format!("f{}", files.len());
        let bytes = name.clone().into_bytes().into();
        let create = Op::Create { dir: made, name: bytes, mode: 0o644, exclusive: true };
        let ino = match world.try_op(create) {
            Ok(twin_fs::Reply::Entry(entry)) => entry.attr.ino,
            Err(FsError::NoSpace | FsError::NoInodes) => return (files, names),
            other => panic!("{other:?}"),
        };
        let data = twin_fs::Data::Bytes(twin_disk::Bytes::copy_of(&content(ino, 0)));
        match world.try_op(Op::Write { ino, off: lbn * BLOCK, data }) {
            Ok(_) => {
                files.push((ino, 0));
                names.push((made, name));
            }
            Err(FsError::NoSpace | FsError::NoInodes) => return (files, names),
            Err(other) => panic!("{other}"),
        }
    }
}

/// A volume full of files of one block each, at `lbn`.
struct Full {
    world: World,
    /// Inode, and what it was written with last.
    files: Vec<(Ino, u32)>,
    names: Vec<(Ino, String)>,
    lbn: u64,
    noise: Noise,
}

impl Full {
    fn new(options: &MkfsOptions, size: u64, lbn: u64) -> Full {
        let settings = Settings { cache_bytes: 8 << 20, ..Settings::default() };
        let mut world = World::with(options, size, settings, LfsSettings::default());
        let (files, names) = fill(&mut world, lbn);
        let (used, limit) = world.volume.layout.space();
        assert!(used > limit / 100 * 98, "{used} of {limit} used");
        Full { world, files, names, lbn, noise: Noise(7) }
    }

    /// Overwrites as many blocks at random as there are. Gives how many were written before the
    /// volume said that it is full.
    fn overwrite_all(&mut self) -> Result<(), usize> {
        for round in 1..=self.files.len() {
            let i = self.noise.below(self.files.len());
            let (ino, version) = &mut self.files[i];
            let bytes = content(*ino, round as u32);
            let data = twin_fs::Data::Bytes(twin_disk::Bytes::copy_of(&bytes));
            match self.world.try_op(Op::Write { ino: *ino, off: self.lbn * BLOCK, data }) {
                Ok(_) => *version = round as u32,
                Err(FsError::NoSpace) => return Err(round - 1),
                Err(other) => panic!("{other}"),
            }
        }
        Ok(())
    }

    /// Removes the last files until no more than this percentage of the space is used.
    fn remove_down_to(&mut self, percent: u64) {
        loop {
            let (used, limit) = self.world.volume.layout.space();
            if used * 100 <= limit * percent {
                return;
            }
            let ((ino, _), (dir, name)) = (self.files.pop().unwrap(), self.names.pop().unwrap());
            self.world.op(Op::Unlink { dir, name: name.into_bytes().into() });
            self.world.op(Op::Forget { ino, count: 1 });
        }
    }

    /// Closes, opens and reads everything.
    fn verify(self) {
        let stats = self.world.volume.layout.stats();
        println!(
            "{} files, write cost {:.1}, {} segments cleaned, {} checkpoints, {} waits",
            self.files.len(),
            stats.write_cost(),
            stats.cleaned_segments,
            stats.checkpoints,
            stats.space_waits
        );
        let mut world = self.world.reopen();
        for &(ino, version) in &self.files {
            assert_eq!(world.read(ino, self.lbn * BLOCK, BLOCK as u32), content(ino, version));
        }
    }
}

#[test]
fn a_full_volume_of_small_files_is_overwritten_without_end() {
    let mut full = Full::new(&MkfsOptions::modern([1; 16]), 12 << 20, 0);
    assert_eq!(full.overwrite_all(), Ok(()));
    full.verify();
}

/// Overwriting moves an indirect block with every block. Where dead bytes are too few and too
/// thinly spread for that, the volume says that it is full in bounded time, gives way to deletion,
/// and goes on.
fn behind_indirect_blocks(options: &MkfsOptions, lbn: u64) {
    let mut full = Full::new(options, 16 << 20, lbn);
    println!("full: {:?} of {}", full.overwrite_all(), full.files.len());
    full.remove_down_to(50);
    assert_eq!(full.overwrite_all(), Ok(()));
    full.verify();
}

#[test]
fn a_full_volume_of_blocks_behind_an_indirect_block_each_never_hangs() {
    behind_indirect_blocks(&MkfsOptions::modern([1; 16]), 100);
}

#[test]
fn a_full_volume_of_blocks_behind_two_indirect_blocks_each_never_hangs() {
    behind_indirect_blocks(&MkfsOptions::modern([1; 16]), 5000);
}

#[test]
fn a_full_volume_of_the_classic_profile_never_hangs() {
    let options = MkfsOptions { segment_size: Some(64 << 10), ..MkfsOptions::classic([1; 16]) };
    behind_indirect_blocks(&options, 100);
}

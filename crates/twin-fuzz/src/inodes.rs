//! Inodes, of every shape that a layout gives them.

use twin_fs::dinode::Dinode;
use twin_fs::shape::Shape;
use twin_fs::{Timestamp, mode};

use crate::Target;
use crate::bytes::{Input, seal, sized, trimmed};

/// An inode.
pub(crate) const INODE: Target =
    Target { name: "inode", about: "an inode, classic and modern", run, seeds };

fn shapes() -> [Shape; 3] {
    [Shape::modern(4096, 512), Shape::classic(4096, 1024), Shape::modern_in_place(8192, 1024)]
}

/// Fragments of the volume that the inode is said to lie on.
const FRAGS: u64 = 1 << 20;

fn run(data: &[u8]) -> bool {
    let mut input = Input(data);
    let shape = &shapes()[usize::from(input.u8() % 3)];
    let mut raw = sized(input.0, shape.inode_size as usize);
    let _ = (Dinode::decode(shape, &raw, FRAGS), Dinode::free_generation(shape, &raw));
    if shape.pointer.is_modern() {
        seal(&mut raw, 0, 4);
    }
    let Ok(inode) = Dinode::decode(shape, &raw, FRAGS) else { return false };
    let _ = inode.attr();
    let mut again = vec![0; raw.len()];
    inode.encode(shape, &mut again);
    assert_eq!(Dinode::decode(shape, &again, FRAGS).as_ref(), Ok(&inode));
    true
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (which, shape) in (0u8..).zip(shapes()) {
        for kind in [mode::REGULAR, mode::DIRECTORY, mode::SYMLINK, mode::CHAR] {
            let inode = Dinode::new(&shape, 9, 1, kind | 0o644, Timestamp::default());
            let mut raw = vec![0; shape.inode_size as usize];
            inode.encode(&shape, &mut raw);
            seeds.push([vec![which], trimmed(raw)].concat());
        }
    }
    seeds
}

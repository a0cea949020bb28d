//! Inodes, of every geometry that a layout gives them.

use twin_fs::dinode::Dinode;
use twin_fs::geometry::Geometry;
use twin_fs::{Timestamp, mode};

use crate::Target;
use crate::bytes::{Input, seal, sized, trimmed};

/// An inode.
pub(crate) const INODE: Target =
    Target { name: "inode", about: "an inode, classic and modern", run, seeds };

fn geometries() -> [Geometry; 3] {
    [
        Geometry::modern(4096, 512),
        Geometry::classic(4096, 1024),
        Geometry::modern_in_place(8192, 1024),
    ]
}

/// Fragments of the volume that the inode is said to lie on.
const FRAGS: u64 = 1 << 20;

fn run(data: &[u8]) -> bool {
    let mut input = Input(data);
    let geometry = &geometries()[usize::from(input.u8() % 3)];
    let mut raw = sized(input.0, geometry.inode_size as usize);
    let _ = (Dinode::decode(geometry, &raw, FRAGS), Dinode::free_generation(geometry, &raw));
    if geometry.is_modern() {
        seal(&mut raw, 0, 4);
    }
    let Ok(inode) = Dinode::decode(geometry, &raw, FRAGS) else { return false };
    let _ = inode.attr();
    let mut again = vec![0; raw.len()];
    inode.encode(geometry, &mut again);
    assert_eq!(Dinode::decode(geometry, &again, FRAGS).as_ref(), Ok(&inode));
    true
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (which, geometry) in (0u8..).zip(geometries()) {
        for kind in [mode::REGULAR, mode::DIRECTORY, mode::SYMLINK, mode::CHAR] {
            let inode = Dinode::new(&geometry, 9, 1, kind | 0o644, Timestamp::default());
            let mut raw = vec![0; geometry.inode_size as usize];
            inode.encode(&geometry, &mut raw);
            seeds.push([vec![which], trimmed(raw)].concat());
        }
    }
    seeds
}

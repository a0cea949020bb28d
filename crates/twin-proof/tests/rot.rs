//! Bit rot on a small volume with something of every kind: see `twin_proof::rot`. By day one block of a few,
//! by night all.

use std::io::Write as _;

use twin_proof::{RotBounds, Rotted, Rotting, at_night, rot};

fn rots(rotting: Rotting) -> Rotted {
    let bounds = match at_night() {
        true => RotBounds { one_in: 1, bits: 12 },
        false => RotBounds { one_in: 3, bits: 2 },
    };
    let rotted = rot(rotting, bounds).unwrap_or_else(|what| panic!("{what}"));
    let _ = writeln!(std::io::stderr(), "{}: {rotted}", rotting.kind.name());
    rotted
}

#[test]
fn every_fault_of_a_log_is_found_by_readers_check_and_scrub() {
    let (kind, settings) = (twin_lfs::LFS, &[("segment", "64K")][..]);
    rots(Rotting { kind, settings, size: 4 << 20, has_data_checksums: true, block: 4096 });
}

#[test]
fn every_fault_of_a_clustered_volume_is_found_by_readers_check_and_scrub() {
    let (kind, settings) = (twin_ffs::FFS, &[][..]);
    rots(Rotting { kind, settings, size: 8 << 20, has_data_checksums: false, block: 8192 });
}

#[test]
fn every_fault_of_a_clustered_volume_with_checksums_is_found_by_readers_check_and_scrub() {
    let (kind, settings) = (twin_ffs::FFS, &[("data-checksums", "yes")][..]);
    rots(Rotting { kind, settings, size: 8 << 20, has_data_checksums: true, block: 8192 });
}

use super::*;
use crate::format::{DiskGeometry, Tuning};

fn sample(cpc: u32) -> (Superblock, Group) {
    let options = crate::MkfsOptions::classic([7; 16]);
    let tuning = Tuning { cpc, ..options.tuning };
    let disk_geometry = DiskGeometry { rpm: 5400, sectors_per_track: 57, tracks_per_cylinder: 14 };
    let options = crate::MkfsOptions { tuning, disk_geometry, ..options };
    let sb = options.superblock(64 << 20, 512).unwrap();
    let group = Group::empty(&sb, 1);
    (sb, group)
}

#[test]
fn a_preferred_block_is_taken_if_it_is_free() {
    let (sb, mut group) = sample(0);
    let at = sb.group_data_start() + 40;
    assert_eq!(group.alloc_block(&sb, Some(at)), Some((at, FoundBy::Preferred)));
    assert_eq!(group.alloc_block(&sb, Some(at)), Some((at + 8, FoundBy::Next)));
    // Without a preference the search goes on where the last one ended.
    assert_eq!(group.alloc_block(&sb, None), Some((at + 16, FoundBy::Next)));
}

#[test]
fn with_positions_the_block_that_comes_under_the_head_next_is_taken() {
    let (sb, mut group) = sample(1);
    let at = sb.group_data_start() + 80;
    group.alloc_block(&sb, Some(at)).unwrap();
    let (near, found) = group.alloc_block(&sb, Some(at)).unwrap();
    assert_eq!(found, FoundBy::RotationallyNear);
    let start = sb.group_start(1);
    let position = |frag: u32| (start + u64::from(frag)) * 2 % 57 * 8 / 57;
    assert_eq!(position(near), position(at));
    let cylinder = |frag: u32| (start + u64::from(frag)) * 2 / (57 * 14);
    assert_eq!(cylinder(near), cylinder(at));
}

#[test]
fn fragments_fill_the_run_that_fits_best() {
    let (sb, mut group) = sample(0);
    let first = group.alloc_frags(&sb, None, 3).unwrap();
    // The rest of the block has 5: pieces of 2 and of 3 go there, one of 4 does not fit any more.
    assert_eq!(group.alloc_frags(&sb, None, 2), Some(first + 3));
    assert_eq!(group.alloc_frags(&sb, None, 4), Some(first + 8));
    assert_eq!(group.alloc_frags(&sb, None, 3), Some(first + 5));
}

#[test]
fn a_piece_grows_where_it_is_if_what_follows_is_free() {
    let (sb, mut group) = sample(0);
    let at = group.alloc_frags(&sb, None, 2).unwrap();
    assert!(group.extend(at, 2, 4));
    assert_eq!(group.alloc_frags(&sb, None, 1), Some(at + 4));
    assert!(!group.extend(at, 4, 5));
}

#[test]
fn a_cluster_is_found_past_the_holes() {
    let (sb, mut group) = sample(0);
    let start = sb.group_data_start();
    for block in [1, 4, 9] {
        group.alloc_block(&sb, Some(start + block * 8)).unwrap();
    }
    assert_eq!(group.find_cluster(Some(start), 4), Some(start + 5 * 8));
    assert_eq!(group.find_cluster(Some(start), 5), Some(start + 10 * 8));
    assert_eq!(group.find_cluster(Some(start + 16), 2), Some(start + 16));
    assert_eq!(group.find_cluster(None, 100_000), None);
}

#[test]
fn counts_follow_the_maps_through_anything() {
    let (sb, mut group) = sample(0);
    let mut rng = twin_rt::Rng::new(3);
    let mut held: Vec<(u32, u32)> = Vec::new();
    for _ in 0..20_000 {
        let n = rng.range(1, 8) as u32;
        match rng.below(3) {
            0 if !held.is_empty() => {
                let (at, n) = held.swap_remove(rng.below(held.len() as u64) as usize);
                group.mark_free(at, n);
            }
            1 => held.extend(group.alloc_block(&sb, None).map(|(at, _)| (at, 8))),
            _ if n < 8 => held.extend(group.alloc_frags(&sb, None, n).map(|at| (at, n))),
            _ => {}
        }
    }
    let again = group.recounted(&sb);
    assert_eq!((again.counts, again.frag_runs), (group.counts, group.frag_runs));
    assert_eq!(again.free_blocks, group.free_blocks);
    for (at, n) in held {
        group.mark_free(at, n);
    }
    assert_eq!(group.counts, Group::empty(&sb, 1).counts);
}

#[test]
fn a_group_survives_the_disk() {
    let (sb, mut group) = sample(0);
    group.alloc_block(&sb, None);
    group.alloc_frags(&sb, None, 3);
    group.alloc_inode(None);
    let raw = group.to_image(&[], &[]).encode(&sb);
    let image = CgImage::decode(&sb, 1, &raw).unwrap();
    let back = Group::from_image(&sb, &image, None);
    assert_eq!((back.counts, back.free, back.inodes), (group.counts, group.free, group.inodes));
    assert!(CgImage::decode(&sb, 0, &raw).is_err());
}

/// Found by the fuzzer (`ffs_image`). Our runs with damaged images are built without these checks: they go on with
/// counts that have wrapped around, and only look whether everything ends. The fuzzer is built with them.
#[test]
fn what_a_damaged_volume_frees_twice_is_free_and_counted_once() {
    let (sb, mut group) = sample(0);
    let fresh = group.counts;
    let (at, _) = group.alloc_block(&sb, None).unwrap();
    let ino = group.alloc_inode(None).unwrap();
    for _ in 0..2 {
        group.mark_free(at, 8);
        group.free_inode(ino, true);
    }
    assert_eq!(group.counts, fresh, "no directory was counted, so none is taken off");
}

#[test]
fn groups_that_share_their_maps_are_those_that_do_not() {
    let (sb, _) = sample(0);
    let mut groups = Group::all_empty(&sb);
    assert_eq!(groups.len(), sb.groups as usize);
    let same = |a: &Group, b: &Group| format!("{a:?}") == format!("{b:?}");
    for (index, group) in (0..).zip(&groups) {
        assert!(same(group, &Group::empty(&sb, index)), "group {index}");
    }
    // One that changes leaves its neighbours as they are, and a later one may be like it.
    let at = groups[1].alloc_block(&sb, None).unwrap().0;
    assert!(!groups[1].is_free(at, 1) && groups[0].is_free(at, 1));
    for (like, changed) in [(0, 1), (1, 1), (0, 0)] {
        let image = groups[changed].to_image(&[], &[]);
        let alone = Group::from_image(&sb, &image, None);
        assert!(same(&Group::from_image(&sb, &image, Some(&groups[like])), &alone));
    }
}

//! Copies what is in use from one volume to another, without the files: a new volume then has the free
//! space of an old one and nothing else.
//!
//! Contract: both volumes are closed and were made with the same options on devices of the same size. A
//! fragment that is used on either of them is used on the second one afterwards; its own files, if it has
//! any, stay. The volume works, but a check finds fragments that are in use without a file. This is how
//! Smith and Seltzer 1994 (section 5.1) put the free maps of their servers on a test machine.

use twin_disk::{BlockDevice, Io, Origin};
use twin_fs::{FsError, Result};

use crate::format::read_superblock;
use crate::open::{read_groups, write_map};
use crate::sums::Summed;

/// Marks as used on the volume `to` what is used on the volume `from`.
///
/// # Errors
/// If a volume is damaged, they are not alike, or a device fails.
pub(crate) async fn copy_used(from: &dyn BlockDevice, to: &dyn BlockDevice) -> Result<()> {
    let sb = read_superblock(to).await?;
    let old_sb = read_superblock(from).await?;
    let same = (sb.groups, sb.group_inodes) == (old_sb.groups, old_sb.group_inodes)
        && (0..sb.groups).all(|group| sb.frags_of(group) == old_sb.frags_of(group));
    if !same || sb.geometry.frag_size != old_sb.geometry.frag_size {
        return Err(FsError::Invalid("the volumes are not alike"));
    }
    let old = read_groups(from, &old_sb).await?;
    for (mut group, old) in read_groups(to, &sb).await?.into_iter().zip(old) {
        for at in 0..group.frags() {
            if group.is_free(at, 1) && !old.is_free(at, 1) {
                group.mark_used(at, 1);
            }
        }
        write_map(to, &sb, &group).await?;
    }
    if sb.data_checksums {
        // The maps were written past the checksums.
        Summed::doubt_all(to, &sb).await?;
    }
    to.submit(Io::flush(Origin::Checkpoint)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use twin_disk::MemDisk;
    use twin_fs::{Cpu, Op, ROOT_INO, Request, Settings};
    use twin_rt::{ClockOnly, Rt};

    use super::*;
    use crate::{Ffs, FfsSettings, MkfsOptions};

    async fn make_dirs(rt: &Rt, disk: &Rc<MemDisk>, names: std::ops::Range<u64>) {
        let opening = Ffs::open(
            rt,
            Rc::clone(disk) as _,
            Cpu::none(),
            Settings::default(),
            FfsSettings::default(),
        );
        let (volume, _) = opening.await.unwrap();
        for name in names {
            let bytes = format!("d{name}").into_bytes();
            let make = Op::MakeDir { dir: ROOT_INO, name: bytes.into(), mode: 0o755 };
            volume.execute(Request::root(1, make)).await.unwrap();
        }
        volume.close().await.unwrap();
    }

    #[test]
    fn a_fragment_is_free_afterwards_if_it_was_free_on_both_and_the_volume_works() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let work = async {
            let options = MkfsOptions::classic([7; 16]);
            let disks = [64, 64].map(|mib: u64| Rc::new(MemDisk::new(mib << 20)));
            for disk in &disks {
                Ffs::mkfs(&rt, Rc::clone(disk) as _, &options).await.unwrap();
            }
            let [from, to] = &disks;
            make_dirs(&rt, from, 0..100).await;
            let sb = read_superblock(&**to).await.unwrap();
            let before = read_groups(&**to, &sb).await.unwrap();
            let old = read_groups(&**from, &sb).await.unwrap();
            copy_used(&**from, &**to).await.unwrap();
            let after = read_groups(&**to, &sb).await.unwrap();
            let mut taken = 0;
            for ((after, before), old) in after.iter().zip(&before).zip(&old) {
                for at in 0..after.frags() {
                    let free = before.is_free(at, 1) && old.is_free(at, 1);
                    assert_eq!(after.is_free(at, 1), free, "group {}, {at}", after.index);
                    taken += u32::from(before.is_free(at, 1) && !free);
                }
            }
            assert!(taken >= 100, "{taken} fragments of directories");
            make_dirs(&rt, to, 0..100).await;
        };
        rt.block_on(work).unwrap();
    }

    #[test]
    fn volumes_of_different_sizes_are_refused() {
        let rt = Rt::new(ClockOnly::default(), 1);
        let work = async {
            let disks = [64, 128].map(|mib: u64| Rc::new(MemDisk::new(mib << 20)));
            for disk in &disks {
                let options = MkfsOptions::classic([7; 16]);
                Ffs::mkfs(&rt, Rc::clone(disk) as _, &options).await.unwrap();
            }
            copy_used(&*disks[0], &*disks[1]).await
        };
        assert!(matches!(rt.block_on(work).unwrap(), Err(FsError::Invalid(_))));
    }
}

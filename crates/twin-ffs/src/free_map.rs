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

/// Marks as used on the volume `to` what is used on the volume `from`.
///
/// # Errors
/// If a volume is damaged, they are not alike, or a device fails.
pub async fn copy_used(from: &dyn BlockDevice, to: &dyn BlockDevice) -> Result<()> {
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
    to.submit(Io::flush(Origin::Checkpoint)).await?;
    Ok(())
}

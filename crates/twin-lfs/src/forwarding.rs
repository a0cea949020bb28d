//! Forwarding a block: whether what points to it can stay as it is, and noting where the block
//! went. What forwarding is for, and the rules of it, stand in `forwards`.

use twin_fs::geometry::Ptr;
use twin_fs::{Core, Ino, Inode};

use crate::format::{HolderVersion, ImapEntry};
use crate::forwards::Holder;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;

impl Lfs {
    /// The form in which what holds the pointer to a block lies on the device, if that is its
    /// present form and the format can say it.
    pub(crate) fn clean_holder(
        &self,
        core: &Core,
        inode: &Inode,
        lbn: i64,
    ) -> Option<HolderVersion> {
        if !core.features.checksummed_pointers {
            return None;
        }
        match Holder::of(&self.sb.geometry, lbn).0 {
            Holder::Indirect(up) => {
                let frame = core.cache.peek(&inode.frames, up)?;
                let ptr = core.resident_ptr(inode, up).filter(Ptr::is_on_disk)?;
                (!frame.is_dirty()).then_some(HolderVersion { at: ptr.addr, crc: ptr.crc })
            }
            Holder::Inode => {
                let map_block = InodeState::of(inode).map_block()?;
                match self.ifile.entry(&map_block, inode.ino) {
                    ImapEntry::Used { at, crc, .. } if at != 0 && !inode.is_dirty() => {
                        Some(HolderVersion { at, crc })
                    }
                    _ => None,
                }
            }
        }
    }

    /// Notes that a block has gone to where `ptr` says and that its holder stays in this form.
    pub(crate) fn forward(&self, ino: Ino, lbn: i64, form: HolderVersion, ptr: Ptr) {
        let (holder, index) = Holder::of(&self.sb.geometry, lbn);
        self.forwards.add(ino, holder, form, index, ptr);
        self.usage.note_forwards(self.sb.geometry.byte_of(ptr.addr));
    }
}

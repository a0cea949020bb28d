//! The layout seam: implements what twin-fs requires of a layout with the parts of this one.
//!
//! Everything about names, directories, permissions and file data is above this seam: see
//! [`twin_fs::Layout`]. This file is all that remains, and each method has one line or little more.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Io, Origin};
use twin_fs::geometry::{Parent, Ptr, UNWRITTEN};
use twin_fs::{
    Chosen, Core, Dirty, FsError, Ino, Inode, Layout, Need, Picked, Result, Room, SpaceMap,
    VolumeStat, Written,
};

use crate::format::{CLEAN, Superblock};
use crate::inodes::Inodes;
use crate::space::Space;
use crate::write_back::WriteBack;

/// An open volume's layout.
pub struct Vsfs {
    pub(crate) sb: Superblock,
    pub(crate) space: Space,
    pub(crate) inodes: Inodes,
    write_back: WriteBack,
}

impl Vsfs {
    pub(crate) fn new(sb: Superblock, space: Space, inodes: Inodes) -> Vsfs {
        Vsfs { sb, space, inodes, write_back: WriteBack::default() }
    }

    /// The superblock of the volume.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    async fn write_all(&self, core: &Rc<Core>) -> Result<()> {
        self.write_back.write(core, &self.inodes, &self.space, None).await
    }

    /// The block that precedes another one in its file, if there is one: data follows data, and an
    /// indirect block follows the last data block that needs none.
    fn previous(&self, core: &Core, inode: &Inode, lbn: Lbn) -> u64 {
        let before = match core.geometry.parent(lbn) {
            _ if lbn > 0 => lbn - 1,
            Parent::Inode(slot) if slot > 0 => core.geometry.direct as Lbn - 1,
            _ => return 0,
        };
        let ptr = core.resident_ptr(inode, before).filter(Ptr::is_on_disk);
        ptr.map_or(0, |ptr| ptr.addr)
    }
}

impl Layout for Vsfs {
    /// Admission needs no state, because reservations are enough.
    type AdmissionGuard = ();

    async fn load_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>> {
        self.inodes.load(core, ino).await
    }

    async fn pick_inode(&self, core: &Rc<Core>, _near: Ino, _mode: u32) -> Result<Picked> {
        self.inodes.pick(core).await
    }

    fn unpick(&self, _core: &Core, picked: Picked) {
        self.inodes.unpick(picked.ino);
    }

    fn inode_created(&self, _core: &Core, inode: &Rc<Inode>) {
        self.inodes.inode_created(inode);
    }

    fn free_inode(&self, core: &Core, inode: &Rc<Inode>) {
        self.inodes.free(core, inode);
    }

    fn set_orphan(&self, _core: &Core, _inode: &Inode, _orphan: bool) {
        // After a crash, the check examines all inodes and finds those without names.
    }

    fn reserve(&self, _core: &Core, bytes: u64) -> Result<()> {
        self.space.reserve(bytes)
    }

    fn unreserve(&self, _core: &Core, bytes: u64) {
        self.space.unreserve(bytes);
    }

    fn inode_bytes(&self) -> u64 {
        // The table has its space from the start.
        0
    }

    fn place(&self, core: &Core, inode: &Inode, lbn: Lbn, old: Ptr, len: u32) -> Ptr {
        if old.is_on_disk() {
            return old;
        }
        match self.space.take(self.previous(core, inode, lbn)) {
            Some(addr) => Ptr { addr, len, crc: 0 },
            None => {
                core.poison(FsError::inconsistent("space that was reserved is not there"));
                Ptr { addr: UNWRITTEN, len, crc: 0 }
            }
        }
    }

    fn free_block(&self, core: &Core, inode: &Inode, ptr: Ptr, len: u32) {
        self.space.unreserve(len.into());
        if ptr.is_on_disk() && !self.space.free(ptr.addr) {
            let what = format!("inode {} had block {}, which is free", inode.ino, ptr.addr);
            core.poison(FsError::inconsistent(what));
        }
    }

    fn has_dirty(&self, core: &Core) -> bool {
        self.write_back.has_dirty(core, &self.inodes, &self.space)
    }

    async fn admit(&self, core: &Rc<Core>, _bytes: u64, _need: Need) -> Result<()> {
        core.check_writable()
    }

    fn dirty(&self, core: &Core) -> Dirty {
        let inode_bytes = core.dirty_inode_count() as u64 * u64::from(core.geometry.inode_size);
        Dirty {
            bytes: core.cache.dirty_bytes() + inode_bytes,
            any: self.has_dirty(core),
            unit_bytes: 1 << 20,
        }
    }

    async fn write_back(&self, core: &Rc<Core>) -> Result<()> {
        self.write_all(core).await
    }

    async fn write_some(&self, core: &Rc<Core>, chosen: Vec<Chosen>) -> Result<()> {
        self.write_back.write(core, &self.inodes, &self.space, Some(&chosen)).await
    }

    async fn settle(&self, core: &Rc<Core>, durable: bool) -> Result<()> {
        // Write-back has waited for the device.
        if durable {
            core.device.submit(Io::flush(Origin::WriteBack)).await.map_err(FsError::Io)?;
        }
        core.check_writable()
    }

    async fn fsync(&self, core: &Rc<Core>, _inode: &Rc<Inode>, _data_only: bool) -> Result<()> {
        // The names that lead to the file, the bitmaps and the inodes may be in any block, so all
        // are written.
        self.sync(core).await
    }

    async fn sync(&self, core: &Rc<Core>) -> Result<()> {
        self.write_all(core).await?;
        if let Err(error) = core.device.submit(Io::flush(Origin::User)).await {
            core.poison(FsError::Io(error));
        }
        core.check_writable()
    }

    async fn close(&self, core: &Rc<Core>) -> Result<()> {
        while self.has_dirty(core) {
            self.write_all(core).await?;
        }
        self.sync(core).await?;
        // The state is written last: only a volume whose blocks are all on the disk needs no check.
        self.sb.write(&*core.device, CLEAN).await
    }

    fn room(&self, _core: &Core) -> Room {
        self.space.room()
    }

    fn written(&self) -> Written {
        self.write_back.written()
    }

    fn space_map(&self, _core: &Core) -> SpaceMap {
        SpaceMap::settled("ranges of blocks", self.space.used_by_range().into_iter())
    }

    fn stat(&self, _core: &Core) -> VolumeStat {
        let Room { free_bytes, limit_bytes } = self.space.room();
        let block = u64::from(self.sb.block_size);
        let (inodes, free_inodes) = self.inodes.counts();
        VolumeStat {
            block_size: self.sb.block_size,
            io_size: self.sb.block_size,
            blocks: limit_bytes / block,
            free: free_bytes / block,
            inodes,
            free_inodes,
        }
    }
}

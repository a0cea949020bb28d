//! The layout seam: implements what twin-fs requires of a layout with the parts of this one.
//!
//! Everything about names, directories, permissions and file data is above this seam: see
//! [`twin_fs::Layout`]. This file is all that remains, and each method has one line or little more.

use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Io, Origin};
use twin_fs::geometry::{Parent, Ptr, UNWRITTEN};
use twin_fs::{
    Admission, AdmissionGuard, Answer, Chosen, Core, Dirty, Figures, FsError, Ino, Inode,
    InodeEvent, Layout, Need, Picked, Result, Room, SpaceMap, SyncScope, VolumeStat,
};
use twin_rt::BoxFuture;

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
    admission: Admission,
}

impl Vsfs {
    pub(crate) fn new(sb: Superblock, space: Space, inodes: Inodes) -> Vsfs {
        Vsfs {
            sb,
            space,
            inodes,
            write_back: WriteBack::default(),
            admission: Admission::default(),
        }
    }

    /// Bytes used, and the most that this may become.
    pub fn used_bytes(&self) -> (u64, u64) {
        let Room { free_bytes, limit_bytes } = self.space.room();
        (limit_bytes - free_bytes, limit_bytes)
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

    async fn sync_all(&self, core: &Rc<Core>) -> Result<()> {
        self.write_all(core).await?;
        if let Err(error) = core.device.submit(Io::flush(Origin::User)).await {
            core.poison(FsError::Io(error));
        }
        core.check_writable()
    }

    async fn close(&self, core: &Rc<Core>) -> Result<()> {
        while self.dirty(core).any {
            self.write_all(core).await?;
        }
        self.sync_all(core).await?;
        // The state is written last: only a volume whose blocks are all on the disk needs no check.
        self.sb.write(&*core.device, CLEAN).await
    }
}

impl Layout for Vsfs {
    fn load_inode<'a>(&'a self, core: &'a Rc<Core>, ino: Ino) -> BoxFuture<'a, Result<Rc<Inode>>> {
        Box::pin(self.inodes.load(core, ino))
    }

    fn pick_inode<'a>(
        &'a self,
        core: &'a Rc<Core>,
        _near: Ino,
        _mode: u32,
    ) -> BoxFuture<'a, Result<Picked>> {
        Box::pin(self.inodes.pick(core))
    }

    fn inode_event(&self, core: &Core, event: InodeEvent<'_>) {
        match event {
            InodeEvent::Unpicked(picked) => self.inodes.unpick(picked.ino),
            InodeEvent::Created(inode) => self.inodes.inode_created(inode),
            // After a crash, the check examines all inodes and finds those without names.
            InodeEvent::Orphaned(_) | InodeEvent::Adopted(_) => {}
            InodeEvent::Freed(inode) => self.inodes.free(core, inode),
        }
    }

    fn admit<'a>(
        &'a self,
        core: &'a Rc<Core>,
        bytes: u64,
        _need: Need,
    ) -> Answer<'a, Result<AdmissionGuard>> {
        // No operation waits, because reservations are enough.
        Answer::ready(core.check_writable().map(|()| self.admission.admit(bytes)))
    }

    fn reserve(&self, _core: &Core, bytes: u64) -> Result<()> {
        self.space.reserve(bytes)
    }

    fn release(&self, core: &Core, bytes: u64) {
        if let Err(error) = self.space.release(bytes) {
            core.poison(error);
        }
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
        self.release(core, len.into());
        if ptr.is_on_disk() && !self.space.free(ptr.addr) {
            let what = format!("inode {} had block {}, which is free", inode.ino, ptr.addr);
            core.poison(FsError::inconsistent(what));
        }
    }

    fn dirty(&self, core: &Core) -> Dirty {
        let inode_bytes = core.dirty_inode_count() as u64 * u64::from(core.geometry.inode_size);
        let any = self.write_back.has_dirty(core, &self.inodes, &self.space);
        let bytes = core.cache.dirty_bytes() + inode_bytes;
        Dirty { bytes, any, wakes_flusher: any, unit_bytes: 1 << 20 }
    }

    fn write_back<'a>(
        &'a self,
        core: &'a Rc<Core>,
        chosen: Option<Vec<Chosen>>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let chosen = chosen.as_deref();
            self.write_back.write(core, &self.inodes, &self.space, chosen).await
        })
    }

    fn drain<'a>(&'a self, core: &'a Rc<Core>, durable: bool) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            // Write-back has waited for the device.
            if durable {
                core.device.submit(Io::flush(Origin::WriteBack)).await.map_err(FsError::Io)?;
            }
            core.check_writable()
        })
    }

    fn sync<'a>(&'a self, core: &'a Rc<Core>, scope: SyncScope<'a>) -> BoxFuture<'a, Result<()>> {
        match scope {
            // The names that lead to a file, the bitmaps and the inodes may be in any block, so all
            // are written.
            SyncScope::File { .. } | SyncScope::Volume | SyncScope::Checkpoint => {
                Box::pin(self.sync_all(core))
            }
            SyncScope::Close => Box::pin(self.close(core)),
        }
    }

    fn room(&self, _core: &Core) -> Room {
        self.space.room()
    }

    fn figures(&self, _core: &Core) -> Figures {
        let Room { free_bytes, limit_bytes } = self.space.room();
        let block = u64::from(self.sb.block_size);
        let (inodes, free_inodes) = self.inodes.counts();
        let stat = VolumeStat {
            block_size: self.sb.block_size,
            io_size: self.sb.block_size,
            blocks: limit_bytes / block,
            free: free_bytes / block,
            inodes,
            free_inodes,
        };
        Figures { stat, written: self.write_back.written() }
    }

    fn space_map(&self, _core: &Core) -> SpaceMap {
        SpaceMap::of("ranges of blocks", self.space.used_by_range().into_iter())
    }
}

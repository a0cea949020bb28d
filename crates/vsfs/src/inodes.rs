//! Inodes: their table on the disk, and their free numbers.
//!
//! Contract: blocks of the table go through the cache, as if they were a file. An inode in memory
//! holds its block of the table (its anchor), so that it can be stored there without waiting. A
//! picked number is in use in the bitmap at once; the inode follows when it is created.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::{FileFrames, Frame, FrameRequest, load};
use twin_disk::{BlockDevice, Class, Origin};
use twin_fs::dinode::Dinode;
use twin_fs::geometry::Ptr;
use twin_fs::{Core, FsError, Ino, Inode, Picked, ROOT_INO, Result};

use crate::bitmap::Bitmap;
use crate::format::{INODE_BYTES, Superblock};

/// The inodes of a volume. See the module.
pub(crate) struct Inodes {
    sb: Superblock,
    bitmap: RefCell<Bitmap>,
    /// Blocks of the table in memory, by their number on the device.
    table: Rc<FileFrames>,
    /// Numbers that were picked for inodes which are not created yet, each with its block of the
    /// table.
    picked: RefCell<BTreeMap<Ino, Rc<Frame>>>,
}

/// The block of the inode table that contains an inode. It stays in memory with the inode, so that
/// the inode can be stored there without waiting.
fn table_block(inode: &Inode) -> &RefCell<Option<Rc<Frame>>> {
    inode.layout_state()
}

impl Inodes {
    fn new(sb: &Superblock, bitmap: Bitmap) -> Inodes {
        let bitmap = RefCell::new(bitmap);
        Inodes {
            sb: sb.clone(),
            bitmap,
            table: FileFrames::of_layout(),
            picked: RefCell::default(),
        }
    }

    /// The inodes of a new volume. Number 0 means "no inode" and 1 is not used, so that the root
    /// has number 2, as in all UNIX file systems since the first.
    pub(crate) fn empty(sb: &Superblock) -> Inodes {
        let mut bitmap = Bitmap::empty(sb, sb.inode_bitmap, sb.inodes);
        (0..ROOT_INO as u32).for_each(|number| bitmap.set(number, true));
        Inodes::new(sb, bitmap)
    }

    /// Reads the inode bitmap.
    pub(crate) async fn read(device: &dyn BlockDevice, sb: &Superblock) -> Result<Inodes> {
        let bitmap = Bitmap::read(device, sb, sb.inode_bitmap, sb.inodes).await?;
        Ok(Inodes::new(sb, bitmap))
    }

    /// The block of the table that contains an inode, read if it is not in memory.
    async fn block_of(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Frame>> {
        let block = self.sb.inode_place(ino).0;
        loop {
            if let Some(frame) = core.cache.get(&self.table, block as i64) {
                frame.wait().await?;
                if frame.is_attached() {
                    return Ok(frame);
                }
                continue;
            }
            let frame = core.cache.insert(&self.table, block as i64, None);
            let len = self.sb.block_size;
            let wanted = vec![FrameRequest { frame, len, crc: None }];
            let (at, device) = (self.sb.byte_of(block), &*core.device);
            let (class, origin) = (Class::Meta, Origin::User);
            load(&core.cache, &self.table, device, at, wanted, len as usize, class, origin).await?;
        }
    }

    fn with_raw<T>(&self, frame: &Frame, ino: Ino, f: impl FnOnce(&[u8]) -> T) -> T {
        let at = self.sb.inode_place(ino).1;
        frame.with(|block| f(&block.slice(at, INODE_BYTES as usize).to_bytes()))
    }

    /// Stores the bytes of an inode in its block of the table.
    fn put_raw(&self, core: &Core, frame: &Rc<Frame>, ino: Ino, raw: &[u8]) {
        let at = self.sb.inode_place(ino).1;
        frame.change(|block| block.bytes_mut()[at..at + raw.len()].copy_from_slice(raw));
        core.cache.mark_dirty(&self.table, frame);
    }

    /// Reads an inode that is not in memory.
    pub(crate) async fn load(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>> {
        let is_used = u32::try_from(ino).is_ok_and(|ino| self.bitmap.borrow().get(ino));
        if ino < ROOT_INO || !is_used {
            return Err(FsError::NotFound);
        }
        let frame = self.block_of(core, ino).await?;
        // Another operation may have loaded it while this one waited for the disk.
        if let Some(there) = core.cached_inode(ino) {
            return Ok(there);
        }
        let (block, offset) = self.sb.inode_place(ino);
        let wrong = |what: &str| FsError::corrupt(self.sb.byte_of(block) + offset as u64, what);
        let d =
            self.with_raw(&frame, ino, |raw| match Dinode::free_generation(&core.geometry, raw) {
                Some(_) => Err(FsError::NotFound),
                None => Dinode::decode(&core.geometry, raw, core.frags()).map_err(wrong),
            })?;
        let is_sound = |ptr: &Ptr| ptr.is_hole() || self.sb.is_data(ptr.addr);
        if d.ino != ino || !d.ptrs.iter().all(is_sound) {
            return Err(wrong(
                "the inode has another's number, or blocks that are none of its own",
            ));
        }
        let inode = Inode::new(d);
        *table_block(&inode).borrow_mut() = Some(frame);
        Ok(core.add_inode(inode))
    }

    /// Takes the first free number.
    pub(crate) async fn pick(&self, core: &Rc<Core>) -> Result<Picked> {
        let number = self.bitmap.borrow_mut().take(0).ok_or(FsError::NoInodes)?;
        let ino = Ino::from(number);
        let frame = match self.block_of(core, ino).await {
            Ok(frame) => frame,
            Err(error) => {
                self.bitmap.borrow_mut().set(number, false);
                return Err(error);
            }
        };
        // A free inode keeps the generation of its last use, so that an old handle of a client does
        // not lead to the new file.
        let last = self.with_raw(&frame, ino, |raw| Dinode::free_generation(&core.geometry, raw));
        let Some(last) = last else {
            let what = format!("inode {ino} is free by the bitmap but in use");
            return Err(FsError::inconsistent(what));
        };
        self.picked.borrow_mut().insert(ino, frame);
        Ok(Picked { ino, generation: last.wrapping_add(1) })
    }

    /// Returns a picked number unused.
    pub(crate) fn unpick(&self, ino: Ino) {
        if self.picked.borrow_mut().remove(&ino).is_some() {
            self.bitmap.borrow_mut().set(ino as u32, false);
        }
    }

    /// Called when the inode of a picked number exists.
    pub(crate) fn inode_created(&self, inode: &Inode) {
        let frame = self.picked.borrow_mut().remove(&inode.ino);
        *table_block(inode).borrow_mut() = frame;
    }

    /// Frees the number of an inode that has no names, users or blocks.
    pub(crate) fn free(&self, core: &Core, inode: &Rc<Inode>) {
        if let Some(frame) = table_block(inode).take() {
            let mut raw = vec![0; INODE_BYTES as usize];
            let generation = inode.d.borrow().generation;
            Dinode::encode_free(&core.geometry, inode.ino, generation, &mut raw);
            self.put_raw(core, &frame, inode.ino, &raw);
        }
        self.bitmap.borrow_mut().set(inode.ino as u32, false);
        core.drop_inode(inode);
    }

    /// Stores an inode as it is now in its block of the table.
    pub(crate) fn put(&self, core: &Core, inode: &Rc<Inode>) {
        let anchor = table_block(inode).borrow().clone();
        let Some(frame) = anchor else { panic!("inode {} has no block in the table", inode.ino) };
        let mut raw = vec![0; INODE_BYTES as usize];
        inode.d.borrow().encode(&core.geometry, &mut raw);
        self.put_raw(core, &frame, inode.ino, &raw);
    }

    /// The number of all inodes, and of the free ones.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let bitmap = self.bitmap.borrow();
        (bitmap.len().into(), (bitmap.len() - bitmap.used()).into())
    }

    /// True if the disk has another bitmap.
    pub(crate) fn is_dirty(&self) -> bool {
        self.bitmap.borrow().is_dirty()
    }

    /// Blocks of the bitmap that the disk lacks.
    pub(crate) fn take_dirty(&self) -> Vec<(u64, Vec<u8>)> {
        self.bitmap.borrow_mut().take_dirty()
    }

    /// The superblock, with the places of this volume.
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// The blocks of the table, as a file.
    pub(crate) fn table(&self) -> &Rc<FileFrames> {
        &self.table
    }
}

//! The content of a device with changes over it, read without the code of the volume.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::{Block, BlockDevice, Buf, Bytes, Class, Io, IoErrorKind, Origin, gather};
use twin_fs::dinode::Dinode;
use twin_fs::geometry::Ptr;
use twin_fs::{FsError, Ino, Result};

use crate::format::Superblock;
use crate::sums::Summed;

/// The blocks of a volume, with the changes of a repair over them.
pub(crate) struct VolumeImage {
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) sb: Superblock,
    /// The bytes that a repair changed, by their address.
    over: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// What compares what is read, if the volume has checksums and the device does not.
    sums: Option<Rc<Summed>>,
}

impl VolumeImage {
    pub(crate) fn new(device: Rc<dyn BlockDevice>, sb: Superblock) -> VolumeImage {
        VolumeImage { device, sb, over: RefCell::default(), sums: None }
    }

    /// The same, read through its checksums, if it has some.
    ///
    /// # Errors
    /// If they are not on the device, or it fails.
    pub(crate) async fn compared(
        device: Rc<dyn BlockDevice>,
        sb: Superblock,
    ) -> Result<VolumeImage> {
        let sums = match sb.data_checksums {
            true => Some(Summed::reading(Rc::clone(&device), &sb).await?),
            false => None,
        };
        Ok(VolumeImage { sums, ..VolumeImage::new(device, sb) })
    }

    /// The checksums of the volume, if it has some.
    pub(crate) fn sums(&self) -> Option<&Rc<Summed>> {
        self.sums.as_ref()
    }

    async fn read(&self, io: Io) -> Result<Vec<Block>> {
        let Some(sums) = &self.sums else { return Ok(self.device.submit(io).await?) };
        sums.read(io).await.map_err(|error| match error.kind {
            IoErrorKind::Other(what) => FsError::corrupt(error.at, what),
            _ => FsError::Io(error),
        })
    }

    /// Replaces bytes from an address on, in memory.
    pub(crate) fn put(&self, addr: u64, bytes: Vec<u8>) {
        self.over.borrow_mut().insert(addr, bytes);
    }

    /// Reads `len` bytes at an address. What no change covers is not copied: a repair reads whole
    /// tables of inodes, and to copy these takes longer than to read them.
    pub(crate) async fn get(&self, addr: u64, len: u32) -> Result<Bytes> {
        if let Some(bytes) = self.over.borrow().get(&addr)
            && bytes.len() >= len as usize
        {
            return Ok(Bytes::copy_of(&bytes[..len as usize]));
        }
        let at = self.sb.geometry.byte_of(addr);
        if at + u64::from(len) > self.sb.size {
            return Err(FsError::corrupt(at, "a place outside the volume"));
        }
        let io = Io::read(at, len.into(), Class::Meta, Origin::Recovery);
        let blocks = self.read(io).await?;
        let mut bytes = gather(&blocks, 0, len as usize).to_bytes();
        let frags = u64::from(len) / u64::from(self.sb.geometry.frag_size);
        let frag = u64::from(self.sb.geometry.frag_size);
        let block = u64::from(self.sb.frags_per_block());
        let over = self.over.borrow();
        for (&start, change) in over.range(addr.saturating_sub(block)..addr + frags.max(1)) {
            let from = (start.max(addr) - addr) * frag;
            let skip = (start.max(addr) - start) * frag;
            let rest = change.get(skip as usize..).unwrap_or_default();
            let n = rest.len().min(bytes.len().saturating_sub(from as usize));
            if n > 0 {
                let changed = &mut bytes.make_mut()[from as usize..from as usize + n];
                changed.copy_from_slice(&rest[..n]);
            }
        }
        Ok(bytes)
    }

    /// True if there are changes.
    pub(super) fn is_changed(&self) -> bool {
        !self.over.borrow().is_empty()
    }

    /// Writes all changes and flushes the device.
    pub(super) async fn write(&self) -> Result<()> {
        let over = self.over.take();
        for (addr, bytes) in over {
            let block = Block::Bytes(Buf::copy_of(&bytes).freeze());
            let at = self.sb.geometry.byte_of(addr);
            let io = Io::write(at, vec![block], Class::Meta, Origin::Recovery);
            self.device.submit(io).await?;
        }
        self.device.submit(Io::flush(Origin::Recovery)).await?;
        Ok(())
    }

    /// Replaces an inode, in memory.
    pub(super) async fn put_inode(&self, d: &Dinode) -> Result<()> {
        let mut raw = vec![0; self.sb.geometry.inode_size as usize];
        d.encode(&self.sb.geometry, &mut raw);
        self.put_raw_inode(d.ino, &raw).await
    }

    /// Frees an inode, in memory.
    pub(super) async fn free_inode(&self, ino: Ino, generation: u32) -> Result<()> {
        let mut raw = vec![0; self.sb.geometry.inode_size as usize];
        Dinode::encode_free(&self.sb.geometry, ino, generation, &mut raw);
        self.put_raw_inode(ino, &raw).await
    }

    async fn put_raw_inode(&self, ino: Ino, raw: &[u8]) -> Result<()> {
        let (addr, off) = self.sb.inode_place(ino);
        let mut block = self.get(addr, self.sb.geometry.block_size).await?.to_vec();
        block[off..off + raw.len()].copy_from_slice(raw);
        self.put(addr, block);
        Ok(())
    }

    /// The reason why a pointer is impossible, if it is.
    pub(super) fn wrong(&self, ptr: Ptr) -> Option<&'static str> {
        let frags = ptr.len / self.sb.geometry.frag_size;
        let per_block = self.sb.frags_per_block();
        match self.sb.locate(ptr.addr) {
            None => Some("leads out of the volume"),
            Some((_, within)) if within < self.sb.group_data_start() => {
                Some("leads to a group's own structures")
            }
            Some((group, within)) if within + frags > self.sb.frags_of(group) => {
                Some("leads over the end of a group")
            }
            Some((_, within)) if within % per_block + frags > per_block => {
                Some("crosses a block's end")
            }
            Some(_) => None,
        }
    }
}

//! A volume as it lies on a device, read past the volume's own code, with changes laid over it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use twin_cache::Lbn;
use twin_disk::{Block, BlockDevice, Buf, Class, Io, Origin, gather};
use twin_fs::dinode::Dinode;
use twin_fs::shape::{Parent, Ptr};
use twin_fs::{FsError, Ino, Result};

use crate::format::Superblock;

/// A mapped block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) lbn: Lbn,
    /// With the length that the file's size asks for.
    pub(super) ptr: Ptr,
    /// Why it cannot be, if so; what lies behind it is then not looked at.
    pub(super) wrong: Option<&'static str>,
}

/// See the module.
pub(crate) struct View {
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) sb: Superblock,
    /// Changes, by address.
    over: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl View {
    pub(crate) fn new(device: Rc<dyn BlockDevice>, sb: Superblock) -> View {
        View { device, sb, over: RefCell::default() }
    }

    /// Lays bytes over those of the device, from an address on.
    pub(crate) fn put(&self, addr: u64, bytes: Vec<u8>) {
        self.over.borrow_mut().insert(addr, bytes);
    }

    /// Reads `len` bytes at an address.
    pub(crate) async fn get(&self, addr: u64, len: u32) -> Result<Vec<u8>> {
        if let Some(bytes) = self.over.borrow().get(&addr)
            && bytes.len() >= len as usize
        {
            return Ok(bytes[..len as usize].to_vec());
        }
        let at = self.sb.shape.byte_of(addr);
        if at + u64::from(len) > self.sb.size {
            return Err(FsError::corrupt(at, "a place outside the volume"));
        }
        let io = Io::read(at, len.into(), Class::Meta, Origin::Recovery);
        let blocks = self.device.submit(io).await?;
        let mut bytes = gather(&blocks, 0, len as usize).to_bytes().to_vec();
        let frags = u64::from(len) / u64::from(self.sb.shape.frag_size);
        let frag = u64::from(self.sb.shape.frag_size);
        let block = u64::from(self.sb.frags_per_block());
        let over = self.over.borrow();
        for (&start, change) in over.range(addr.saturating_sub(block)..addr + frags.max(1)) {
            let from = (start.max(addr) - addr) * frag;
            let skip = (start.max(addr) - start) * frag;
            let rest = change.get(skip as usize..).unwrap_or_default();
            let n = rest.len().min(bytes.len().saturating_sub(from as usize));
            if n > 0 {
                bytes[from as usize..from as usize + n].copy_from_slice(&rest[..n]);
            }
        }
        Ok(bytes)
    }

    /// True if anything was laid over.
    pub(super) fn is_changed(&self) -> bool {
        !self.over.borrow().is_empty()
    }

    /// Writes what was laid over, durably.
    pub(super) async fn write(&self) -> Result<()> {
        let over = self.over.take();
        for (addr, bytes) in over {
            let block = Block::Bytes(Buf::copy_of(&bytes).freeze());
            let at = self.sb.shape.byte_of(addr);
            let io = Io::write(at, vec![block], Class::Meta, Origin::Recovery);
            self.device.submit(io).await?;
        }
        self.device.submit(Io::flush(Origin::Recovery)).await?;
        Ok(())
    }

    /// Writes an inode.
    pub(super) async fn put_inode(&self, d: &Dinode) -> Result<()> {
        let mut raw = vec![0; self.sb.shape.inode_size as usize];
        d.encode(&self.sb.shape, &mut raw);
        self.put_raw_inode(d.ino, &raw).await
    }

    /// Frees an inode.
    pub(super) async fn free_inode(&self, ino: Ino, generation: u32) -> Result<()> {
        let mut raw = vec![0; self.sb.shape.inode_size as usize];
        Dinode::encode_free(&self.sb.shape, ino, generation, &mut raw);
        self.put_raw_inode(ino, &raw).await
    }

    async fn put_raw_inode(&self, ino: Ino, raw: &[u8]) -> Result<()> {
        let (addr, off) = self.sb.inode_place(ino);
        let mut block = self.get(addr, self.sb.shape.block_size).await?;
        block[off..off + raw.len()].copy_from_slice(raw);
        self.put(addr, block);
        Ok(())
    }

    /// What is wrong with a pointer to a block of `len` bytes.
    fn wrong(&self, ptr: Ptr, len: u32) -> Option<&'static str> {
        let frags = len / self.sb.shape.frag_size;
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

    /// All mapped blocks of a file, an indirect block before what it maps. What an indirect block maps
    /// is looked at once: garbage that leads to itself would otherwise be a billion blocks.
    pub(super) async fn steps(&self, d: &Dinode) -> Result<Vec<Step>> {
        let shape = &self.sb.shape;
        let mut steps = Vec::new();
        let top = d.ptrs.iter().enumerate();
        let mut rest: Vec<(Lbn, Ptr)> = top.map(|(i, p)| (shape.inode_child(i), *p)).collect();
        rest.reverse();
        let mut met = BTreeSet::new();
        while let Some((lbn, ptr)) = rest.pop() {
            if ptr.is_hole() {
                continue;
            }
            let len = shape.len_on_disk(lbn, d.size);
            let mut wrong = self.wrong(ptr, len);
            if lbn < 0 && wrong.is_none() && !met.insert(ptr.addr) {
                wrong = Some("is that of an indirect block of this file already");
            }
            steps.push(Step { lbn, ptr: Ptr { len, ..ptr }, wrong });
            if lbn < 0 && wrong.is_none() {
                let content = self.get(ptr.addr, shape.block_size).await?;
                let children = (0..shape.per_block() as usize).rev();
                rest.extend(children.map(|i| (shape.child(lbn, i), shape.get_ptr(&content, i))));
            }
        }
        Ok(steps)
    }

    /// Removes pointers of a file, and writes its inode.
    pub(super) async fn cut(&self, d: &mut Dinode, lbns: &[Lbn]) -> Result<()> {
        for &lbn in lbns {
            match self.sb.shape.parent(lbn) {
                Parent::Inode(slot) => d.ptrs[slot] = Ptr::HOLE,
                Parent::Indirect(up, index) => {
                    let ptr = self.ptr(d, up).await?;
                    if ptr.is_hole() {
                        continue;
                    }
                    let mut content = self.get(ptr.addr, self.sb.shape.block_size).await?;
                    self.sb.shape.set_ptr(&mut content, index, Ptr::HOLE);
                    self.put(ptr.addr, content);
                }
            }
        }
        self.put_inode(d).await
    }

    /// The pointer to a block of a file; a hole if there is none, or none that could be.
    pub(super) async fn ptr(&self, d: &Dinode, lbn: Lbn) -> Result<Ptr> {
        let mut way = Vec::new();
        let mut at = lbn;
        let mut ptr = loop {
            match self.sb.shape.parent(at) {
                Parent::Inode(slot) => break d.ptrs.get(slot).copied().unwrap_or(Ptr::HOLE),
                Parent::Indirect(up, index) => {
                    way.push(index);
                    at = up;
                }
            }
        };
        let block = self.sb.shape.block_size;
        for index in way.into_iter().rev() {
            if ptr.is_hole() || self.wrong(ptr, block).is_some() {
                return Ok(Ptr::HOLE);
            }
            let content = self.get(ptr.addr, block).await?;
            ptr = self.sb.shape.get_ptr(&content, index);
        }
        let len = self.sb.shape.len_on_disk(lbn, d.size);
        let good = !ptr.is_hole() && self.wrong(ptr, len).is_none();
        Ok(if good { Ptr { len, ..ptr } } else { Ptr::HOLE })
    }

    /// A block of a file, as long as the file has it; `None` for a hole.
    pub(super) async fn block(&self, d: &Dinode, lbn: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let ptr = self.ptr(d, lbn as Lbn).await?;
        if ptr.is_hole() {
            return Ok(None);
        }
        Ok(Some((ptr.addr, self.get(ptr.addr, ptr.len).await?)))
    }
}

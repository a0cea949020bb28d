//! The inode map: from inode numbers to inodes, and the list of free numbers.
//!
//! Map blocks are blocks of the ifile and go through the cache. An inode in memory holds its map
//! block (its anchor), so that its entry can be changed without waiting.

use std::rc::Rc;

use twin_cache::{Frame, Lbn};
use twin_disk::{Block, Buf, Class, Io, Origin, gather};
use twin_fs::dinode::Dinode;
use twin_fs::{Core, FsError, Ino, Inode, Picked, Result, dirty_parents};

use crate::format::HolderVersion;
use crate::format::IFILE_INO;
use crate::format::{IMAP_ENTRY_BYTES, ImapEntry};
use crate::forwards::Holder;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;

impl Lfs {
    pub(crate) fn imap_per_block(&self) -> u64 {
        u64::from(self.sb.geometry.block_size) / IMAP_ENTRY_BYTES as u64
    }

    /// The ifile's block with the entry of an inode number.
    pub(crate) fn imap_lbn(&self, ino: Ino) -> u64 {
        self.sb.usage_blocks() + ino / self.imap_per_block()
    }

    /// Inode numbers that the map has entries for.
    pub(crate) fn imap_len(&self) -> u64 {
        let blocks = self.sb.geometry.blocks_for(self.ifile.d.borrow().size);
        blocks.saturating_sub(self.sb.usage_blocks()) * self.imap_per_block()
    }

    /// An entry, in its map block.
    pub(crate) fn entry_in(&self, frame: &Frame, ino: Ino) -> ImapEntry {
        let at = (ino % self.imap_per_block()) as usize * IMAP_ENTRY_BYTES;
        frame.with(|block| match block {
            Block::Bytes(bytes) => ImapEntry::decode(&bytes[at..at + IMAP_ENTRY_BYTES]),
            _ => ImapEntry::Free { next: 0, generation: 0 },
        })
    }

    /// Changes an entry in its map block, which is in memory.
    pub(crate) fn set_entry(&self, core: &Core, frame: &Rc<Frame>, ino: Ino, entry: ImapEntry) {
        let at = (ino % self.imap_per_block()) as usize * IMAP_ENTRY_BYTES;
        frame.change(|block| entry.encode(&mut block.bytes_mut()[at..at + IMAP_ENTRY_BYTES]));
        self.dirty_ifile_block(core, frame);
    }

    /// Marks a block of the ifile dirty, and its indirect blocks, which are always in memory.
    pub(crate) fn dirty_ifile_block(&self, core: &Core, frame: &Rc<Frame>) {
        if core.cache.mark_dirty(&self.ifile.frames, frame) {
            dirty_parents(core, &self.ifile, frame.lbn());
            // The ifile's inode is written with every checkpoint, and only then.
            core.mark_inode_clean(&self.ifile);
        }
    }

    /// The map block of an inode number.
    pub(crate) async fn imap_block(&self, core: &Core, ino: Ino) -> Result<Rc<Frame>> {
        let lbn = self.imap_lbn(ino);
        if ino >= self.imap_len() {
            return Err(FsError::NotFound);
        }
        let frame = core.block(&self.ifile, lbn as Lbn, Origin::User).await?;
        frame.ok_or_else(|| {
            FsError::inconsistent(format!("the inode map has a hole at block {lbn}"))
        })
    }

    /// Reads an inode that is not in memory.
    pub(crate) async fn read_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>> {
        if ino <= IFILE_INO {
            return Err(FsError::NotFound);
        }
        loop {
            let anchor = self.imap_block(core, ino).await?;
            let entry = self.entry_in(&anchor, ino);
            let ImapEntry::Used { at, crc, generation, .. } = entry else {
                return Err(FsError::NotFound);
            };
            if let Some(there) = core.cached_inode(ino) {
                return Ok(there);
            }
            if at == 0 {
                let what = format!("inode {ino} is in use but was never written");
                return Err(FsError::inconsistent(what));
            }
            // Whatever the map says becomes a place, which is looked at when it is read.
            let byte = at.saturating_mul(self.sb.geometry.inode_size.into());
            let d = self.read_dinode(core, byte, crc).await;
            if self.entry_in(&anchor, ino) != entry {
                // It moved while it was read; what was read may be anything.
                continue;
            }
            if let Some(there) = core.cached_inode(ino) {
                return Ok(there);
            }
            let mut d = d?;
            if d.ino != ino || d.generation != generation {
                let what = format!(
                    "the inode map says inode {ino} (life {generation}), there is {} (life {})",
                    d.ino, d.generation
                );
                return Err(FsError::corrupt(byte, what));
            }
            let form = HolderVersion { at, crc };
            self.forwards.apply(ino, Holder::Inode, form, |slot, ptr| d.set_ptr(slot, ptr));
            let inode = Inode::new(d);
            InodeState::of(&inode).set_map_block(anchor);
            // Its last change may be in any log write so far.
            InodeState::of(&inode).set_written_in(self.progress.last());
            InodeState::of(&inode).set_links_on_disk(&inode.d.borrow());
            return Ok(core.add_inode(inode));
        }
    }

    /// Reads the inode at a byte of the device; `crc` is its checksum (wide only).
    async fn read_dinode(&self, core: &Core, byte: u64, crc: u32) -> Result<Dinode> {
        let geometry = &self.sb.geometry;
        let size = geometry.inode_size as usize;
        if byte.saturating_add(size as u64) > self.sb.size {
            return Err(FsError::corrupt(byte, "an inode outside the volume"));
        }
        let raw = match self.inode_blocks.get(byte, size) {
            Some(raw) => raw,
            None => {
                let unit = self.inode_blocks.unit().max(u64::from(core.info.sector));
                let start = byte / unit * unit;
                let ticket = self.inode_blocks.ticket();
                let _pass = core.reads.enter();
                let len = unit.min(self.sb.size - start);
                let io = Io::read(start, len, Class::Mixed, Origin::User);
                let blocks = core.device.submit(io).await?;
                self.inode_blocks.keep(ticket, start, &blocks);
                gather(&blocks, (byte - start) as usize, size).to_bytes()
            }
        };
        if geometry.has_checksums() && crc32c::crc32c(&raw) != crc {
            return Err(FsError::corrupt(byte, "the inode is not the one that the map means"));
        }
        let decoded = Dinode::decode(geometry, &raw, core.frags);
        decoded.map_err(|what| FsError::corrupt(byte, what))
    }

    /// Takes a number off the free list, making the map longer if it is empty.
    pub(crate) async fn pick(&self, core: &Rc<Core>) -> Result<Picked> {
        loop {
            let head = self.numbers.free_head();
            if head == 0 {
                self.extend_imap(core)?;
                continue;
            }
            let frame = self.imap_block(core, head).await?;
            if self.numbers.free_head() != head {
                continue;
            }
            let ImapEntry::Free { next, generation } = self.entry_in(&frame, head) else {
                let what = format!("inode {head} is on the free list but in use");
                return Err(FsError::inconsistent(what));
            };
            if next >= self.imap_len() {
                let what = format!("the free list leads from {head} to inode {next}, past the map");
                return Err(FsError::inconsistent(what));
            }
            self.numbers.pick_first(next, frame);
            return Ok(Picked { ino: head, generation });
        }
    }

    /// Gives a picked number back to the free list.
    pub(crate) fn unpick(&self, core: &Core, picked: Picked) {
        let Some(frame) = self.numbers.take_picked(picked.ino) else { return };
        let next = self.numbers.put_back(picked.ino);
        let entry = ImapEntry::Free { next, generation: picked.generation };
        self.set_entry(core, &frame, picked.ino, entry);
    }

    /// Adds a block of free numbers to the map.
    fn extend_imap(&self, core: &Rc<Core>) -> Result<()> {
        let block = u64::from(self.sb.geometry.block_size);
        let lbn = self.sb.geometry.blocks_for(self.ifile.d.borrow().size);
        // The block, and as many indirect blocks as could be missing.
        let most = block * (1 + self.sb.geometry.levels as u64);
        self.reservations.reserve(most).map_err(|_| FsError::NoInodes)?;
        let before = self.ifile.d.borrow().allocated;
        let first = (lbn - self.sb.usage_blocks()) * self.imap_per_block();
        let mut buf = Buf::zeroed(block as usize);
        // Numbers 0 to 2 are never free: none, the ifile, the root.
        let numbers: Vec<Ino> = (first..first + self.imap_per_block()).filter(|&i| i > 2).collect();
        for (i, &ino) in numbers.iter().enumerate() {
            let next = numbers.get(i + 1).copied().unwrap_or(0);
            let at = (ino - first) as usize * IMAP_ENTRY_BYTES;
            let entry = ImapEntry::Free { next, generation: 0 };
            entry.encode(&mut buf[at..at + IMAP_ENTRY_BYTES]);
        }
        self.add_ifile_block(core, lbn, Block::Bytes(buf.freeze()));
        let taken = self.ifile.d.borrow().allocated - before;
        self.reservations.release(most - taken)?;
        self.numbers.extend_list(numbers[0], numbers.len() as u64);
        Ok(())
    }

    /// Appends a block to the ifile. The space is reserved.
    pub(crate) fn add_ifile_block(&self, core: &Core, lbn: u64, content: Block) -> Rc<Frame> {
        let geometry = &self.sb.geometry;
        self.make_ifile_parents(core, lbn as Lbn);
        let frame = core.cache.insert(&self.ifile.frames, lbn as Lbn, Some(content));
        let unwritten = twin_fs::geometry::Ptr {
            addr: twin_fs::geometry::UNWRITTEN,
            len: geometry.block_size,
            crc: 0,
        };
        core.set_ptr(&self.ifile, lbn as Lbn, unwritten);
        {
            let mut d = self.ifile.d.borrow_mut();
            d.allocated += u64::from(geometry.block_size);
            d.size = (lbn + 1) * u64::from(geometry.block_size);
        }
        self.dirty_ifile_block(core, &frame);
        frame
    }

    fn make_ifile_parents(&self, core: &Core, lbn: Lbn) {
        let geometry = &self.sb.geometry;
        let twin_fs::geometry::Parent::Indirect(up, _) = geometry.parent(lbn) else { return };
        if core.resident_ptr(&self.ifile, up).is_some_and(|p| !p.is_hole()) {
            return;
        }
        self.make_ifile_parents(core, up);
        let zeros = Block::Bytes(Buf::zeroed(geometry.block_size as usize).freeze());
        let frame = core.cache.insert(&self.ifile.frames, up, Some(zeros));
        let (addr, len) = (twin_fs::geometry::UNWRITTEN, geometry.block_size);
        core.set_ptr(&self.ifile, up, twin_fs::geometry::Ptr { addr, len, crc: 0 });
        self.ifile.d.borrow_mut().allocated += u64::from(len);
        self.dirty_ifile_block(core, &frame);
        self.pin([frame]);
    }
}

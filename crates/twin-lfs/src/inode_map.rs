//! The inode map: from inode numbers to inodes, and the list of free numbers.
//!
//! Contract: entries lie in blocks of the [ifile](crate::ifile); which numbers are free and picked is in
//! [`inode_numbers`](crate::inode_numbers). Here an inode is found by its entry, and a number is picked.

use std::rc::Rc;

use twin_disk::{Block, Buf, Class, Io, Origin, gather};
use twin_fs::dinode::Dinode;
use twin_fs::{Core, FsError, Ino, Inode, Picked, Result};

use crate::format::HolderVersion;
use crate::format::IFILE_INO;
use crate::format::{IMAP_ENTRY_BYTES, ImapEntry};
use crate::forwards::Holder;
use crate::inode_state::InodeState;
use crate::lfs::Lfs;

impl Lfs {
    /// Reads an inode that is not in memory.
    pub(crate) async fn read_inode(&self, core: &Rc<Core>, ino: Ino) -> Result<Rc<Inode>> {
        if ino <= IFILE_INO {
            return Err(FsError::NotFound);
        }
        loop {
            let anchor = self.ifile.map_block(core, ino).await?;
            let entry = self.ifile.entry(&anchor, ino);
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
            if self.ifile.entry(&anchor, ino) != entry {
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
        if byte.saturating_add(size as u64) > self.sb.size() {
            return Err(FsError::corrupt(byte, "an inode outside the volume"));
        }
        let raw = match self.inode_blocks.get(byte, size) {
            Some(raw) => raw,
            None => {
                let unit = self.inode_blocks.unit().max(u64::from(core.info.sector));
                let start = byte / unit * unit;
                let ticket = self.inode_blocks.ticket();
                let _pass = core.reads.enter();
                let len = unit.min(self.sb.size() - start);
                let io = Io::read(start, len, Class::Mixed, Origin::User);
                let blocks = core.device.submit(io).await?;
                self.inode_blocks.keep(ticket, start, &blocks);
                gather(&blocks, (byte - start) as usize, size).to_bytes()
            }
        };
        if geometry.has_checksums() && crc32c::crc32c(&raw) != crc {
            return Err(FsError::corrupt(byte, "the inode is not the one that the map means"));
        }
        let decoded = Dinode::decode(geometry, &raw, core.frags());
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
            let frame = self.ifile.map_block(core, head).await?;
            if self.numbers.free_head() != head {
                continue;
            }
            let ImapEntry::Free { next, generation } = self.ifile.entry(&frame, head) else {
                let what = format!("inode {head} is on the free list but in use");
                return Err(FsError::inconsistent(what));
            };
            if next >= self.ifile.map_len() {
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
        self.ifile.set_entry(core, &frame, picked.ino, entry);
    }

    /// Adds a block of free numbers to the map.
    fn extend_imap(&self, core: &Rc<Core>) -> Result<()> {
        let block = u64::from(self.sb.geometry.block_size);
        let lbn = self.ifile.next_map_block().ok_or(FsError::NoInodes)?;
        // The block, and as many indirect blocks as could be missing.
        let most = block * (1 + self.sb.geometry.levels as u64);
        self.reservations.reserve(most, self.usage.held_bytes()).map_err(|_| FsError::NoInodes)?;
        let before = self.ifile.inode.d.borrow().allocated;
        let first = self.ifile.map_len();
        let mut buf = Buf::zeroed(block as usize);
        // Numbers 0 to 2 are never free: none, the ifile, the root.
        let numbers: Vec<Ino> =
            (first..first + self.ifile.numbers_per_block()).filter(|&i| i > 2).collect();
        for (i, &ino) in numbers.iter().enumerate() {
            let next = numbers.get(i + 1).copied().unwrap_or(0);
            let at = (ino - first) as usize * IMAP_ENTRY_BYTES;
            let entry = ImapEntry::Free { next, generation: 0 };
            entry.encode(&mut buf[at..at + IMAP_ENTRY_BYTES]);
        }
        self.ifile.append(core, lbn, Block::Bytes(buf.freeze()));
        let taken = self.ifile.inode.d.borrow().allocated - before;
        self.reservations.release(most - taken)?;
        self.numbers.extend_list(numbers[0], numbers.len() as u64);
        Ok(())
    }
}

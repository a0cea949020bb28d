//! From logical blocks to addresses, and the loading of blocks.
//!
//! Contract: indirect blocks in memory are the truth; those that are not are read as needed.
//! Between the answer of [`Core::ptr`] and the use of its address there is no `.await`, and reads
//! hold a pass of the [`ReadGate`](crate::ReadGate), so an address does not change its
//! meaning under a reader.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::{Frame, Lbn, Wanted, load};
use twin_disk::Origin;
use twin_rt::{Category, join_all};

use crate::core::Core;
use crate::inodes::Inode;
use crate::shape::{Parent, Ptr};
use crate::{FsError, Result};

/// What is known of a block's address without waiting.
enum Known {
    Is(Ptr),
    /// This indirect block, at this address, has to be loaded first.
    Needs(Lbn, Ptr),
}

impl Core {
    fn known_ptr(&self, inode: &Inode, lbn: Lbn) -> Known {
        match self.shape.parent(lbn) {
            Parent::Inode(slot) => Known::Is(inode.d.borrow().ptrs[slot]),
            Parent::Indirect(up, index) => {
                if let Some(frame) = self.cache.peek(&inode.frames, up)
                    && frame.is_valid()
                {
                    return Known::Is(self.ptr_in(&frame, index));
                }
                match self.known_ptr(inode, up) {
                    Known::Is(ptr) if ptr.is_hole() => Known::Is(Ptr::HOLE),
                    Known::Is(ptr) => Known::Needs(up, ptr),
                    needs => needs,
                }
            }
        }
    }

    /// Pointer `index` of an indirect block in memory.
    pub fn ptr_in(&self, frame: &Frame, index: usize) -> Ptr {
        frame.with(|block| match block {
            twin_disk::Block::Bytes(bytes) => self.shape.get_ptr(bytes, index),
            _ => Ptr::HOLE,
        })
    }

    /// The pointer to a block, if that is known without reading.
    pub fn resident_ptr(&self, inode: &Inode, lbn: Lbn) -> Option<Ptr> {
        match self.known_ptr(inode, lbn) {
            Known::Is(ptr) => Some(ptr),
            Known::Needs(..) => None,
        }
    }

    /// True if the file has no such block. Its indirect blocks are in memory.
    pub(crate) fn is_hole(&self, inode: &Inode, lbn: Lbn) -> bool {
        self.resident_ptr(inode, lbn).is_none_or(|ptr| ptr.is_hole())
    }

    /// The pointer to a block; a hole if there is none. Reads indirect blocks as needed.
    pub async fn ptr(&self, inode: &Inode, lbn: Lbn) -> Result<Ptr> {
        loop {
            match self.known_ptr(inode, lbn) {
                Known::Is(ptr) => return Ok(ptr),
                Known::Needs(up, ptr) => self.load_block(inode, up, ptr, Origin::User).await?,
            }
        }
    }

    /// Holds the indirect blocks that lead to a block, as far as they exist, so that a change can
    /// be made without waiting.
    pub async fn hold_parents(
        &self,
        inode: &Inode,
        lbn: Lbn,
        pins: &mut Vec<Rc<Frame>>,
    ) -> Result<()> {
        let mut at = lbn;
        while let Parent::Indirect(up, _) = self.shape.parent(at) {
            // Upper ones may have left memory while lower ones stayed.
            pins.extend(self.block(inode, up, Origin::User).await?);
            at = up;
        }
        Ok(())
    }

    /// Changes the pointer to a block. Its parent must be in memory and marked dirty by the
    /// caller.
    pub fn set_ptr(&self, inode: &Inode, lbn: Lbn, ptr: Ptr) {
        match self.shape.parent(lbn) {
            Parent::Inode(slot) => inode.d.borrow_mut().ptrs[slot] = ptr,
            Parent::Indirect(up, index) => {
                let frame = self.cache.peek(&inode.frames, up);
                let Some(frame) = frame.filter(|f| f.is_valid()) else {
                    panic!("indirect block {up} of inode {} is not in memory", inode.ino)
                };
                frame.change(|block| self.shape.set_ptr(block.bytes_mut(), index, ptr));
            }
        }
    }

    /// Loads one block whose address is known, unless another task has or does.
    async fn load_block(&self, inode: &Inode, lbn: Lbn, ptr: Ptr, origin: Origin) -> Result<()> {
        if let Some(frame) = self.cache.peek(&inode.frames, lbn) {
            return Ok(frame.wait().await?);
        }
        let held = self.cache.insert(&inode.frames, lbn, None);
        self.load_runs(inode, vec![(Rc::clone(&held), ptr)], origin).await?;
        if lbn < 0
            && let Err(what) = self.check_indirect(&held)
        {
            self.cache.remove(&inode.frames, lbn);
            return Err(FsError::corrupt(self.shape.byte_of(ptr.addr), what));
        }
        if lbn < 0
            && let Some(hook) = self.block_map_hook()
        {
            hook.loaded(self, inode, &held, ptr);
        }
        self.rt.maybe_yield().await;
        Ok(())
    }

    /// Every pointer of an indirect block that comes from the disk must lead into the volume, and so
    /// those of one that goes there.
    ///
    /// # Errors
    /// What is wrong with the first that does not.
    pub fn check_indirect(&self, frame: &Frame) -> Result<(), &'static str> {
        (0..self.shape.per_block() as usize)
            .try_for_each(|i| self.shape.check_ptr(self.ptr_in(frame, i), self.frags))
    }

    /// Fills frames inserted for loading, neighbours on the device with one request.
    /// The requests run side by side.
    async fn load_runs(
        &self,
        inode: &Inode,
        wants: Vec<(Rc<Frame>, Ptr)>,
        origin: Origin,
    ) -> Result<()> {
        let _pass = self.reads.enter();
        let frag = u64::from(self.shape.frag_size);
        let block = self.shape.block_size as usize;
        let most = match self.settings.cluster_bytes {
            0 => self.info.max_io,
            bytes => bytes.min(self.info.max_io),
        };
        let most = u64::from(most);
        let checked = self.settings.check_data && self.features.checksummed_pointers;
        let mut runs: Vec<(u64, u64, Vec<Wanted>)> = Vec::new();
        for (frame, ptr) in wants {
            let want = Wanted { frame, len: ptr.len, crc: checked.then_some(ptr.crc) };
            let frags = u64::from(ptr.len) / frag;
            match runs.last_mut() {
                Some((start, end, wanted))
                    if *end == ptr.addr && (*end + frags - *start) * frag <= most =>
                {
                    *end += frags;
                    wanted.push(want);
                }
                _ => runs.push((ptr.addr, ptr.addr + frags, vec![want])),
            }
        }
        self.rt.log(Category::Cache, "miss", || {
            let frames = runs.iter().map(|(_, _, wanted)| wanted.len() as u64).sum();
            [("ino", inode.ino), ("frames", frames), ("requests", runs.len() as u64)]
        });
        let one = |(start, _, wanted): (u64, u64, Vec<Wanted>)| {
            let class = inode.class(wanted[0].frame.lbn());
            let at = self.shape.byte_of(start);
            let device = &*self.device;
            load(&self.cache, &inode.frames, device, at, wanted, block, class, origin)
        };
        if runs.len() == 1
            && let Some(run) = runs.pop()
        {
            return Ok(one(run).await?);
        }
        for result in join_all(runs.into_iter().map(one)).await {
            result?;
        }
        Ok(())
    }

    /// A block of a file in memory, read if need be; `None` for a hole.
    pub async fn block(
        &self,
        inode: &Inode,
        lbn: Lbn,
        origin: Origin,
    ) -> Result<Option<Rc<Frame>>> {
        loop {
            if let Some(frame) = self.cache.get(&inode.frames, lbn) {
                frame.wait().await?;
                if frame.is_attached() {
                    return Ok(Some(frame));
                }
                continue;
            }
            let ptr = self.ptr(inode, lbn).await?;
            if self.cache.peek(&inode.frames, lbn).is_some() {
                continue;
            }
            if ptr.is_hole() {
                return Ok(None);
            }
            if !ptr.is_on_disk() {
                let what = format!("block {lbn} of inode {} is promised but nowhere", inode.ino);
                return Err(FsError::inconsistent(what));
            }
            self.load_block(inode, lbn, ptr, origin).await?;
        }
    }

    /// The data blocks `first..end` of a file in memory, read if need be; holes left out.
    /// Held by the caller, so that they stay.
    pub async fn blocks(
        &self,
        inode: &Inode,
        first: u64,
        end: u64,
        origin: Origin,
    ) -> Result<Vec<Rc<Frame>>> {
        let (first, end) = (first as Lbn, end as Lbn);
        // Hold what is there, so that reading the rest does not push it out.
        let mut held: BTreeMap<Lbn, Rc<Frame>> = (first..end)
            .filter_map(|lbn| Some((lbn, self.cache.get(&inode.frames, lbn)?)))
            .collect();
        if held.len() < (end - first) as usize {
            let mut pins = Vec::new();
            let mut lbn = first;
            while lbn < end {
                self.hold_parents(inode, lbn, &mut pins).await?;
                lbn = match self.shape.parent(lbn) {
                    Parent::Inode(_) => lbn + 1,
                    Parent::Indirect(up, _) => {
                        (self.shape.first_data(up) + self.shape.span(up)) as Lbn
                    }
                };
            }
            // What others brought in meanwhile has to be held too, before room is made.
            let missing = |lbn: &Lbn| !held.contains_key(lbn);
            let missing: Vec<Lbn> = (first..end).filter(missing).collect();
            held.extend(
                missing.iter().filter_map(|&l| Some((l, self.cache.peek(&inode.frames, l)?))),
            );
            let mut wants = Vec::new();
            for lbn in missing {
                let ptr = self.resident_ptr(inode, lbn).unwrap_or(Ptr::HOLE);
                if !held.contains_key(&lbn) && ptr.is_on_disk() {
                    let frame = self.cache.insert(&inode.frames, lbn, None);
                    held.insert(lbn, Rc::clone(&frame));
                    wants.push((frame, ptr));
                }
            }
            if !wants.is_empty() {
                self.load_runs(inode, wants, origin).await?;
            }
        }
        // One that another task failed to load has left the file, but is no hole.
        let frames: Vec<_> = held.into_values().collect();
        for frame in &frames {
            frame.wait().await?;
        }
        Ok(frames)
    }
}

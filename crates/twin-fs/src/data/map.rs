//! The block map: finding the address of a logical block, and loading blocks.
//!
//! Contract: an indirect block in memory is always up to date; one that is not in memory is read
//! when it is needed. There is no `.await` between the answer of [`Core::ptr`] and the use of its
//! address, and reads hold a pass of the [`ReadGate`](crate::ReadGate). Therefore the space at an
//! address is not reused while a reader uses the address.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_cache::{Frame, FrameRequest, Lbn, load};
use twin_disk::{Origin, Purpose};
use twin_rt::{Category, Time, join_all};

use crate::core::Core;
use crate::file_type::admission::PARENTS_PART_OF_TIME;
use crate::geometry::{Parent, Ptr};
use crate::inodes::Inode;
use crate::{FsError, Result};

/// The result of looking up a pointer without waiting.
enum PtrLookup {
    Is(Ptr),
    /// The indirect block with this number must be loaded first, from this address.
    Needs(Lbn, Ptr),
}

impl Core {
    fn known_ptr(&self, inode: &Inode, lbn: Lbn) -> PtrLookup {
        match self.geometry.parent(lbn) {
            Parent::Inode(slot) => PtrLookup::Is(inode.d.borrow().ptrs[slot]),
            Parent::Indirect(up, index) => {
                if let Some(frame) = self.cache.peek(&inode.frames, up)
                    && frame.is_valid()
                {
                    return PtrLookup::Is(self.ptr_in(&frame, index));
                }
                match self.known_ptr(inode, up) {
                    PtrLookup::Is(ptr) if ptr.is_hole() => PtrLookup::Is(Ptr::HOLE),
                    PtrLookup::Is(ptr) => PtrLookup::Needs(up, ptr),
                    needs => needs,
                }
            }
        }
    }

    /// Pointer `index` of an indirect block that is in memory.
    pub fn ptr_in(&self, frame: &Frame, index: usize) -> Ptr {
        frame.with(|block| match block {
            twin_disk::Block::Bytes(bytes) => self.geometry.get_ptr(bytes, index),
            _ => Ptr::HOLE,
        })
    }

    /// The pointer to a block; `None` if an indirect block would have to be read for it.
    pub fn resident_ptr(&self, inode: &Inode, lbn: Lbn) -> Option<Ptr> {
        match self.known_ptr(inode, lbn) {
            PtrLookup::Is(ptr) => Some(ptr),
            PtrLookup::Needs(..) => None,
        }
    }

    /// True if the file has no such block. The caller holds the indirect blocks above it.
    pub(crate) fn is_hole(&self, inode: &Inode, lbn: Lbn) -> bool {
        self.resident_ptr(inode, lbn).is_none_or(|ptr| ptr.is_hole())
    }

    /// The pointer to a block; a hole if there is none. Reads indirect blocks as needed.
    pub async fn ptr(&self, inode: &Inode, lbn: Lbn) -> Result<Ptr> {
        self.ptr_by(inode, lbn, None).await
    }

    /// As [`ptr`](Self::ptr), where indirect blocks are needed by a certain time.
    async fn ptr_by(&self, inode: &Inode, lbn: Lbn, deadline: Option<Time>) -> Result<Ptr> {
        let purpose = Purpose { origin: Origin::User, deadline };
        loop {
            match self.known_ptr(inode, lbn) {
                PtrLookup::Is(ptr) => return Ok(ptr),
                PtrLookup::Needs(up, ptr) => self.load_block(inode, up, ptr, purpose).await?,
            }
        }
    }

    /// Adds the existing indirect blocks above a block to `pins`, which keeps them in memory, so
    /// that a change can be made without waiting.
    pub async fn pin_parents(
        &self,
        inode: &Inode,
        lbn: Lbn,
        pins: &mut Vec<Rc<Frame>>,
    ) -> Result<()> {
        self.pin_parents_by(inode, lbn, pins, None).await
    }

    /// As [`pin_parents`](Self::pin_parents), where they are needed by a certain time.
    async fn pin_parents_by(
        &self,
        inode: &Inode,
        lbn: Lbn,
        pins: &mut Vec<Rc<Frame>>,
        deadline: Option<Time>,
    ) -> Result<()> {
        let purpose = Purpose { origin: Origin::User, deadline };
        let mut at = lbn;
        while let Parent::Indirect(up, _) = self.geometry.parent(at) {
            // An upper block may have left memory while a lower one stayed, so each is looked up.
            pins.extend(self.block(inode, up, purpose).await?);
            at = up;
        }
        Ok(())
    }

    /// Changes the pointer to a block. The caller holds the parent and marks it dirty.
    ///
    /// # Panics
    /// If the parent is an indirect block that is not in memory.
    pub fn set_ptr(&self, inode: &Inode, lbn: Lbn, ptr: Ptr) {
        match self.geometry.parent(lbn) {
            Parent::Inode(slot) => inode.d.borrow_mut().ptrs[slot] = ptr,
            Parent::Indirect(up, index) => {
                let frame = self.cache.peek(&inode.frames, up);
                let Some(frame) = frame.filter(|f| f.is_valid()) else {
                    panic!("indirect block {up} of inode {} is not in memory", inode.ino)
                };
                frame.change(|block| self.geometry.set_ptr(block.bytes_mut(), index, ptr));
            }
        }
    }

    /// Loads one block whose address is known. If another task is loading it, waits for that task.
    async fn load_block(&self, inode: &Inode, lbn: Lbn, ptr: Ptr, purpose: Purpose) -> Result<()> {
        if let Some(frame) = self.cache.peek(&inode.frames, lbn) {
            return Ok(frame.wait().await?);
        }
        let held = self.cache.insert(&inode.frames, lbn, None);
        self.load_runs(inode, vec![(Rc::clone(&held), ptr)], purpose).await?;
        if lbn < 0
            && let Err(what) = self.check_indirect(&held)
        {
            self.cache.remove(&inode.frames, lbn);
            return Err(FsError::corrupt(self.geometry.byte_of(ptr.addr), what));
        }
        if lbn < 0
            && let Some(hook) = self.block_map_hook()
        {
            hook.loaded(self, inode, &held, ptr);
        }
        self.rt.maybe_yield().await;
        Ok(())
    }

    /// Checks that every pointer of an indirect block leads into the volume. It is called for
    /// blocks that were read from the device, and for blocks before they are written.
    pub fn check_indirect(&self, frame: &Frame) -> Result<(), &'static str> {
        (0..self.geometry.per_block() as usize)
            .try_for_each(|i| self.geometry.check_ptr(self.ptr_in(frame, i), self.frags()))
    }

    /// Reads the contents of frames that were inserted without contents. Blocks that are adjacent
    /// on the device are read with one request, and all requests run at the same time.
    async fn load_runs(
        &self,
        inode: &Inode,
        wants: Vec<(Rc<Frame>, Ptr)>,
        purpose: Purpose,
    ) -> Result<()> {
        // No await lies between the lookup of the pointers and this pass, so the space that they
        // name is not reused before the data is here.
        let _pass = self.reads.enter();
        let frag = u64::from(self.geometry.frag_size);
        let block = self.geometry.block_size as usize;
        let most = match self.settings.cluster_bytes {
            0 => self.info.max_io,
            bytes => bytes.min(self.info.max_io),
        };
        let most = u64::from(most);
        let checked = self.settings.check_data && self.features.checksummed_pointers;
        let mut runs: Vec<(u64, u64, Vec<FrameRequest>)> = Vec::new();
        for (frame, ptr) in wants {
            let want = FrameRequest { frame, len: ptr.len, crc: checked.then_some(ptr.crc) };
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
        let one = |(start, _, wanted): (u64, u64, Vec<FrameRequest>)| {
            let class = inode.class(wanted[0].frame.lbn());
            let at = self.geometry.byte_of(start);
            let device = &*self.device;
            load(&self.cache, &inode.frames, device, at, wanted, block, class, purpose)
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

    /// The frame of a block, which is read if it is not in memory; `None` for a hole.
    pub async fn block(
        &self,
        inode: &Inode,
        lbn: Lbn,
        purpose: impl Into<Purpose>,
    ) -> Result<Option<Rc<Frame>>> {
        let purpose = purpose.into();
        loop {
            if let Some(frame) = self.cache.get(&inode.frames, lbn) {
                frame.wait().await?;
                // The block may have been freed during the wait: then it is looked up again.
                if frame.is_attached() {
                    return Ok(Some(frame));
                }
                continue;
            }
            let ptr = self.ptr_by(inode, lbn, purpose.deadline).await?;
            // Another task may have inserted the block during the await.
            if self.cache.peek(&inode.frames, lbn).is_some() {
                continue;
            }
            if ptr.is_hole() {
                return Ok(None);
            }
            if !ptr.is_on_disk() {
                let what = format!("block {lbn} of inode {} has no place", inode.ino);
                return Err(FsError::inconsistent(what));
            }
            self.load_block(inode, lbn, ptr, purpose).await?;
        }
    }

    /// The frames of the data blocks `first..end`, without those that are holes. Blocks that are
    /// not in memory are read. While the caller holds the frames they stay in memory.
    pub async fn blocks(
        &self,
        inode: &Inode,
        first: u64,
        end: u64,
        purpose: impl Into<Purpose>,
    ) -> Result<Vec<Rc<Frame>>> {
        let purpose = purpose.into();
        let (first, end) = (first as Lbn, end as Lbn);
        // Blocks in memory are held, so that reading the others does not evict them.
        let mut held: BTreeMap<Lbn, Rc<Frame>> = (first..end)
            .filter_map(|lbn| Some((lbn, self.cache.get(&inode.frames, lbn)?)))
            .collect();
        if held.len() < (end - first) as usize {
            // The data is requested when the indirect blocks are here, so these are needed sooner.
            let now = self.rt.now();
            let parents_by = purpose.deadline.map(|by| now + by.since(now) / PARENTS_PART_OF_TIME);
            let mut pins = Vec::new();
            let mut lbn = first;
            while lbn < end {
                self.pin_parents_by(inode, lbn, &mut pins, parents_by).await?;
                lbn = match self.geometry.parent(lbn) {
                    Parent::Inode(_) => lbn + 1,
                    Parent::Indirect(up, _) => {
                        (self.geometry.first_data(up) + self.geometry.span(up)) as Lbn
                    }
                };
            }
            // Blocks that other tasks brought in during the awaits are held as well, before the
            // insertions below evict anything. From here to `load_runs` nothing waits, so the
            // pointers stay valid.
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
                self.load_runs(inode, wants, purpose).await?;
            }
        }
        // A frame that another task failed to load is not a hole, although it has left the file:
        // its wait returns the error.
        let frames: Vec<_> = held.into_values().collect();
        for frame in &frames {
            frame.wait().await?;
        }
        Ok(frames)
    }
}

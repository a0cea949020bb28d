//! The memory that all files of a volume share.
//!
//! Contract: the cache's table contains and counts every frame of every [`FileFrames`]. The
//! replacement policy ranks the clean frames, but not those that are dirty or being written. Before
//! an insertion, clean frames that no task holds are evicted until the new one fits the capacity. If
//! there is no such frame the cache grows beyond its capacity; write-back bounds the dirty bytes, not
//! the cache.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

use twin_disk::Block;
use twin_rt::{Event, Rt, Time};
use twin_settings::RegistryEntry;

use crate::dirty::DirtyFrames;
use crate::flush::Death;
use crate::memory::{Memory, Sharer};
use crate::replacement::Divided;
use crate::{Capacity, FileFrames, Frame, Item, Lbn, Policy, Removal, Replacement};

/// Counters of the cache since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Lookups that found a frame.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Frames that were evicted.
    pub evictions: u64,
    /// Bytes that became dirty.
    pub dirtied_bytes: u64,
    /// Of `dirtied_bytes`, those in frames that were dropped before they were written.
    pub absorbed_bytes: u64,
}

#[derive(Default)]
struct FrameTable {
    slots: Vec<Option<(Rc<Frame>, Weak<FileFrames>)>>,
    free: Vec<u32>,
}

/// A dirty frame, as [`Cache::for_dirty_data`] shows it.
pub struct DirtyFrame<'a> {
    /// The frame of the block.
    pub frame: &'a Rc<Frame>,
}

impl DirtyFrame<'_> {
    /// When it became dirty.
    pub fn since(&self) -> Time {
        self.frame.life.since.get()
    }

    /// When its content last changed.
    pub fn changed(&self) -> Time {
        self.frame.life.changed.get().unwrap_or(self.since())
    }

    /// How long the version before this one lived, if there was one in memory.
    pub fn last_life_ns(&self) -> Option<twin_rt::Nanos> {
        self.frame.life.last_life_ns.get()
    }
}

/// The cache of one volume.
pub struct Cache {
    capacity_bytes: Cell<u64>,
    /// The memory that it shares with the caches of other volumes, and its number there.
    memory: OnceCell<(Rc<Memory>, usize)>,
    frame_bytes: u64,
    table: RefCell<FrameTable>,
    policy: RefCell<Box<dyn Replacement>>,
    /// The same policy, if files have policies of their own beside it.
    divided: OnceCell<Divided>,
    resident: Cell<u64>,
    dirty: Cell<u64>,
    /// The part of them that is in indirect blocks.
    dirty_indirect: Cell<u64>,
    /// Notified when bytes become clean.
    cleaned: Event,
    /// Notified when dirty bytes pass `alarm_bytes`.
    alarm: Event,
    alarm_bytes: Cell<u64>,
    /// The counters, but hits and misses: each lookup counts, and would copy all of them.
    stats: Cell<CacheStats>,
    hits: Cell<u64>,
    misses: Cell<u64>,
    /// The clock, for the ages of dirty frames.
    clock: OnceCell<Rt>,
    dirty_frames: DirtyFrames,
    /// Deaths that no flush policy has heard of; `None` if none wants to hear of them.
    deaths: RefCell<Option<Vec<Death>>>,
    /// Blocks that changed since an observer last asked; `None` if none asks.
    changes: RefCell<Option<BTreeSet<(u64, Lbn)>>>,
}

impl Cache {
    /// A cache of `capacity_bytes` in frames of `frame_bytes`.
    pub fn new(capacity_bytes: u64, frame_bytes: u64, policy: Box<dyn Replacement>) -> Cache {
        Cache {
            capacity_bytes: Cell::new(capacity_bytes),
            memory: OnceCell::new(),
            frame_bytes,
            table: RefCell::default(),
            policy: RefCell::new(policy),
            divided: OnceCell::new(),
            resident: Cell::new(0),
            dirty: Cell::new(0),
            dirty_indirect: Cell::new(0),
            cleaned: Event::new(),
            alarm: Event::new(),
            alarm_bytes: Cell::new(u64::MAX),
            stats: Cell::default(),
            hits: Cell::new(0),
            misses: Cell::new(0),
            clock: OnceCell::new(),
            dirty_frames: DirtyFrames::default(),
            deaths: RefCell::new(None),
            changes: RefCell::new(None),
        }
    }

    /// Gives the cache a clock. Without one every frame became dirty at time 0.
    pub fn set_clock(&self, rt: &Rt) {
        // A second call gives the clock of the same runtime.
        let _ = self.clock.set(rt.clone());
    }

    fn now(&self) -> Time {
        self.clock.get().map_or(Time(0), Rt::now)
    }

    /// Begins to collect the deaths of versions of blocks, for [`take_deaths`](Self::take_deaths).
    pub fn watch_deaths(&self) {
        self.deaths.borrow_mut().get_or_insert_default();
    }

    /// The versions of blocks that died since the last call.
    pub fn take_deaths(&self) -> Vec<Death> {
        self.deaths.borrow_mut().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Begins to collect the blocks that change, for [`take_changes`](Self::take_changes).
    pub fn watch_changes(&self) {
        self.changes.borrow_mut().get_or_insert_default();
    }

    /// The blocks that changed in memory since the last call: inode number and block.
    pub fn take_changes(&self) -> BTreeSet<(u64, Lbn)> {
        self.changes.borrow_mut().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Calls `f` for the dirty frames of clients' data, not of indirect blocks and the layout's own
    /// structures, from the one that became dirty first, until it returns false.
    pub fn for_dirty_data(&self, mut f: impl FnMut(&DirtyFrame<'_>) -> bool) {
        let table = self.table.borrow();
        self.dirty_frames.each_of_data(|slot| match &table.slots[slot as usize] {
            Some((frame, _)) => f(&DirtyFrame { frame }),
            None => true,
        });
    }

    /// Notes that the version of a block in a frame is dead, because the block was overwritten or
    /// removed.
    fn note_death(&self, frame: &Frame, now: Time) {
        let Some(born) = frame.life.changed.get().filter(|born| *born != now) else { return };
        if let Some(deaths) = self.deaths.borrow_mut().as_mut() {
            let last_life_ns = frame.life.last_life_ns.get();
            let (ino, lbn) = (frame.ino(), frame.lbn());
            deaths.push(Death {
                ino,
                lbn,
                born,
                last_life_ns,
                at: now,
                unwritten: frame.is_dirty(),
            });
        }
        frame.life.last_life_ns.set(Some(now - born));
    }

    /// The bytes that the cache may hold; of a shared memory, what it could get: all but the dirty
    /// bytes of the others. Dirty and held frames can take it beyond that.
    pub fn capacity_bytes(&self) -> u64 {
        match self.memory.get() {
            Some((memory, number)) => {
                memory.bound_bytes().saturating_sub(memory.dirty_of_others(*number))
            }
            None => self.capacity_bytes.get(),
        }
    }

    /// Gets more of a shared memory, if it needs it and there is some.
    fn get_more(&self) {
        let Some((memory, number)) = self.memory.get() else { return };
        if self.resident.get() + self.frame_bytes > self.capacity_bytes.get() {
            let more = memory.more(*number, self.resident.get());
            if more > 0 {
                self.resize(self.capacity_bytes.get() + more);
            }
        }
    }

    /// Sets the number of bytes that the cache may hold from now on.
    fn resize(&self, bytes: u64) {
        self.capacity_bytes.set(bytes);
        self.policy.borrow_mut().resized(self.capacity());
    }

    fn capacity(&self) -> Capacity {
        Capacity::frames(self.capacity_bytes.get() / self.frame_bytes)
    }

    /// Has the blocks of a file replaced by a policy of this name, beside that of the volume, or by that
    /// of the volume. All files with a policy of a name have one instance of it, within the same
    /// capacity. Blocks in memory move with the file.
    pub fn set_policy(&self, file: &FileFrames, own: Option<&'static RegistryEntry<Policy>>) {
        if own.is_none() && self.divided.get().is_none() {
            return;
        }
        let divided = self.divided.get_or_init(|| self.divide());
        let part = own.map_or(0, |own| divided.part(own.name, || own.make(self.capacity())));
        if file.part.replace(part) != part {
            for frame in file.frames.borrow().values() {
                divided.moves(frame.slot.get(), Item::frame((file.ino, frame.lbn())), part);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn divided(&self) -> Option<&Divided> {
        self.divided.get()
    }

    /// Makes the volume's policy one of several.
    fn divide(&self) -> Divided {
        let is_ranked = |frame: &Frame| !frame.is_dirty() && frame.sent.get() == 0;
        let table = self.table.borrow();
        let frames = table.slots.iter().flatten();
        let ranked =
            frames.filter(|(frame, _)| is_ranked(frame)).map(|(frame, _)| frame.slot.get());
        Divided::over(&mut self.policy.borrow_mut(), ranked)
    }

    /// The bytes in memory, in whole frames.
    pub fn resident_bytes(&self) -> u64 {
        self.resident.get()
    }

    /// The dirty bytes, in whole frames.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.get()
    }

    /// The dirty bytes of data blocks, in whole frames.
    pub fn dirty_data_bytes(&self) -> u64 {
        self.dirty.get() - self.dirty_indirect.get()
    }

    /// Bytes of a frame.
    pub fn frame_bytes(&self) -> u64 {
        self.frame_bytes
    }

    /// Counts a frame that has become dirty.
    fn add_dirty(&self, frame: &Frame) {
        self.dirty.set(self.dirty.get() + self.frame_bytes);
        if frame.lbn() < 0 {
            self.dirty_indirect.set(self.dirty_indirect.get() + self.frame_bytes);
        }
    }

    /// Counts a frame that is dirty no longer.
    fn take_dirty(&self, frame: &Frame) {
        self.dirty.set(self.dirty.get() - self.frame_bytes);
        if frame.lbn() < 0 {
            self.dirty_indirect.set(self.dirty_indirect.get() - self.frame_bytes);
        }
    }

    /// An event that is notified whenever dirty frames become clean or are dropped.
    pub fn cleaned(&self) -> &Event {
        &self.cleaned
    }

    /// Waits until there are more than `bytes` dirty bytes. Only one task may wait at a time.
    pub async fn wait_dirty_above(&self, bytes: u64) {
        self.alarm_bytes.set(bytes);
        self.alarm.wait_until(|| self.dirty.get() > bytes).await;
    }

    /// The counters so far.
    pub fn stats(&self) -> CacheStats {
        CacheStats { hits: self.hits.get(), misses: self.misses.get(), ..self.stats.get() }
    }

    fn count(&self, f: impl FnOnce(&mut CacheStats)) {
        let mut stats = self.stats.get();
        f(&mut stats);
        self.stats.set(stats);
    }

    /// The frame of a block, which may still be loading; `None` if the block is not in memory. The
    /// lookup counts as a use.
    pub fn get(&self, file: &FileFrames, lbn: Lbn) -> Option<Rc<Frame>> {
        let frame = file.frames.borrow().get(lbn).cloned();
        if let Some((memory, number)) = self.memory.get() {
            memory.looked(*number);
        }
        match &frame {
            Some(frame) => {
                if !file.apart.get() {
                    self.hits.set(self.hits.get() + 1);
                }
                frame.drop_behind.set(false);
                if !frame.dirty.get() && frame.sent.get() == 0 {
                    self.policy.borrow_mut().touched(frame.slot.get());
                    // A frame that stays while its neighbours are evicted must not keep the buffer
                    // that they were read into together.
                    let full = self.resident.get() + self.frame_bytes > self.capacity_bytes.get();
                    if frame.used.replace(true) && full {
                        frame.compact();
                    }
                }
            }
            None if file.apart.get() => {}
            None => self.misses.set(self.misses.get() + 1),
        }
        frame
    }

    /// As [`get`](Self::get), but the lookup does not count as a use.
    #[inline]
    pub fn peek(&self, file: &FileFrames, lbn: Lbn) -> Option<Rc<Frame>> {
        file.frames.borrow().get(lbn).cloned()
    }

    /// Adds a frame with its content, or without content if it is to be loaded. This may evict
    /// other frames.
    ///
    /// # Panics
    /// If the block is in memory already.
    pub fn insert(&self, file: &Rc<FileFrames>, lbn: Lbn, block: Option<Block>) -> Rc<Frame> {
        self.get_more();
        let item = Item::frame((file.ino, lbn));
        if let Some(divided) = self.divided.get() {
            divided.next_is_of(file.part.get());
        }
        self.policy.borrow_mut().missed(item);
        self.make_room();
        let frame = Frame::new(file.ino, lbn, block);
        let old = file.frames.borrow_mut().insert(lbn, Rc::clone(&frame));
        assert!(old.is_none(), "block {lbn} of inode {} is in the cache twice", file.ino);
        let slot = {
            let mut table = self.table.borrow_mut();
            let entry = Some((Rc::clone(&frame), Rc::downgrade(file)));
            match table.free.pop() {
                Some(slot) => {
                    table.slots[slot as usize] = entry;
                    slot
                }
                None => {
                    table.slots.push(entry);
                    table.slots.len() as u32 - 1
                }
            }
        };
        frame.slot.set(slot);
        self.policy.borrow_mut().inserted(slot, item);
        self.resident.set(self.resident.get() + self.frame_bytes);
        frame
    }

    /// Evicts until there is room for a frame.
    fn make_room(&self) {
        let is_full = || self.resident.get() + self.frame_bytes > self.capacity_bytes.get();
        while is_full() && self.evict_one() {}
    }

    fn evict_to_fit(&self) {
        while self.resident.get() > self.capacity_bytes.get() && self.evict_one() {}
    }

    /// Evicts a frame. Returns false if there is none that can be evicted.
    fn evict_one(&self) -> bool {
        let victim = {
            let table = self.table.borrow();
            // The table and the file have one reference each; a third one is a task's hold.
            let mut usable = |slot: u32| {
                table.slots[slot as usize]
                    .as_ref()
                    .is_some_and(|(frame, _)| Rc::strong_count(frame) == 2 && !frame.is_loading())
            };
            self.policy.borrow_mut().victim(&mut usable)
        };
        let Some(slot) = victim else { return false };
        self.count(|s| s.evictions += 1);
        self.remove_slot(slot, Removal::Evicted);
        true
    }

    fn remove_slot(&self, slot: u32, why: Removal) {
        let entry = {
            let mut table = self.table.borrow_mut();
            let entry = table.slots[slot as usize].take();
            table.free.push(slot);
            entry
        };
        let Some((frame, file)) = entry else { return };
        let was_dirty = self.detach(&frame, why);
        if let Some(file) = file.upgrade() {
            file.frames.borrow_mut().remove(frame.lbn());
            if was_dirty {
                file.dirty.borrow_mut().remove(frame.lbn());
            }
        }
    }

    /// Updates the counts for a frame that has left the table and leaves its file. Returns true if
    /// it was dirty.
    fn detach(&self, frame: &Frame, why: Removal) -> bool {
        // The policy hears of dirty frames too: it may remember where they belong.
        self.policy.borrow_mut().removed(frame.slot.get(), why);
        frame.attached.set(false);
        frame.slot.set(u32::MAX);
        self.resident.set(self.resident.get() - self.frame_bytes);
        let was_dirty = frame.dirty.replace(false);
        if was_dirty {
            self.dirty_frames.remove(frame);
            self.take_dirty(frame);
            self.count(|s| s.absorbed_bytes += self.frame_bytes);
            self.cleaned.notify();
        }
        was_dirty
    }

    /// Marks a frame dirty. Returns true if it was clean before.
    pub fn mark_dirty(&self, file: &FileFrames, frame: &Rc<Frame>) -> bool {
        if !frame.is_attached() {
            return false;
        }
        let now = self.now();
        self.note_death(frame, now);
        frame.life.changed.set(Some(now));
        if let Some(changes) = self.changes.borrow_mut().as_mut() {
            changes.insert((frame.ino(), frame.lbn()));
        }
        if frame.is_dirty() {
            return false;
        }
        self.withdraw(frame);
        frame.set_dirty();
        self.dirty_frames.add(frame, file.of_layout.get(), now);
        file.dirty.borrow_mut().insert(frame.lbn());
        self.add_dirty(frame);
        self.count(|s| s.dirtied_bytes += self.frame_bytes);
        if self.dirty.get() > self.alarm_bytes.get() {
            self.alarm_bytes.set(u64::MAX);
            self.alarm.notify();
        }
        true
    }

    /// Marks a frame clean whose content need not be written.
    pub fn mark_clean(&self, file: &FileFrames, frame: &Rc<Frame>) {
        self.mark_sent(file, frame);
        self.mark_written(frame);
    }

    /// Marks a frame clean because a write of its content begins. The frame stays in memory until
    /// [`mark_written`](Self::mark_written), because a read before the end of the write would
    /// return the old content of the device.
    pub fn mark_sent(&self, file: &FileFrames, frame: &Rc<Frame>) {
        self.withdraw(frame);
        frame.sent.set(frame.sent.get() + 1);
        if !frame.is_attached() || !frame.dirty.replace(false) {
            return;
        }
        self.dirty_frames.remove(frame);
        file.dirty.borrow_mut().remove(frame.lbn());
        self.take_dirty(frame);
        self.cleaned.notify();
    }

    /// Called when a write that [`mark_sent`](Self::mark_sent) announced has ended. If the frame is
    /// clean it may be evicted again; it is dropped at once if it was marked with
    /// [`set_drop_behind`](Frame::set_drop_behind) and no other task holds it.
    #[inline]
    pub fn mark_written(&self, frame: &Rc<Frame>) {
        frame.sent.set(frame.sent.get() - 1);
        if frame.sent.get() == 0 && frame.is_attached() && !frame.is_dirty() {
            let slot = frame.slot.get();
            self.policy.borrow_mut().cleaned(slot, Item::frame((frame.ino(), frame.lbn())));
            // The table, the file and the caller have one reference each.
            if frame.drop_behind.get() && Rc::strong_count(frame) == 3 {
                self.remove_slot(slot, Removal::Dropped);
            }
        }
    }

    /// Tells the policy not to rank a frame, if it does.
    fn withdraw(&self, frame: &Frame) {
        if frame.is_attached() && !frame.is_dirty() && frame.sent.get() == 0 {
            self.policy.borrow_mut().removed(frame.slot.get(), Removal::Dirtied);
        }
    }

    /// Drops the frame of a block, dirty or not.
    pub fn remove(&self, file: &FileFrames, lbn: Lbn) {
        let frame = file.frames.borrow().get(lbn).cloned();
        if let Some(frame) = frame {
            self.note_death(&frame, self.now());
            self.remove_slot(frame.slot.get(), Removal::Dropped);
        }
    }

    /// Drops the frames of a range of blocks, dirty or not.
    pub fn remove_range(&self, file: &FileFrames, range: std::ops::Range<Lbn>) {
        file.dirty.borrow_mut().remove_range(&range);
        let frames = file.frames.borrow_mut().take_range(range);
        let now = self.now();
        frames.iter().for_each(|frame| self.note_death(frame, now));
        self.drop_taken(frames);
    }

    /// Drops the frames of a range that were read from the device, have not changed since, and are
    /// held by no task.
    pub fn drop_read(&self, file: &FileFrames, range: std::ops::Range<Lbn>) {
        let droppable = |frame: &Rc<Frame>| {
            let (clean, loading) = (!frame.is_dirty() && frame.sent.get() == 0, frame.is_loading());
            frame.read.get() && clean && !loading && Rc::strong_count(frame) == 2
        };
        let mut frames = file.frames.borrow_mut();
        let all = frames.range(range.clone()).all(|(_, frame)| droppable(frame));
        let taken: Vec<_> = if all {
            frames.take_range(range)
        } else {
            let some = frames.range(range).filter(|(_, frame)| droppable(frame));
            let some: Vec<Lbn> = some.map(|(lbn, _)| lbn).collect();
            some.into_iter().filter_map(|lbn| frames.remove(lbn)).collect()
        };
        drop(frames);
        self.drop_taken(taken);
    }

    /// Drops frames that are no longer in their file's map.
    fn drop_taken(&self, frames: Vec<Rc<Frame>>) {
        {
            let mut table = self.table.borrow_mut();
            for frame in &frames {
                let slot = frame.slot.get();
                table.slots[slot as usize] = None;
                table.free.push(slot);
            }
        }
        for frame in frames {
            self.detach(&frame, Removal::Dropped);
        }
    }

    /// Drops all clean frames of a file that no task holds, for `drop_caches` and the eviction of
    /// an inode. Returns true if no frame is left.
    pub fn release(&self, file: &FileFrames) -> bool {
        let slots: Vec<u32> = (file.frames.borrow().values())
            .filter(|f| Rc::strong_count(f) == 2 && !f.is_dirty() && !f.is_loading())
            .map(|f| f.slot.get())
            .collect();
        for slot in slots {
            self.remove_slot(slot, Removal::Dropped);
        }
        file.frames.borrow().is_empty()
    }
}

impl Sharer for Cache {
    fn joined(&self, memory: &Rc<Memory>, number: usize, share_bytes: u64) {
        let joined = self.memory.set((Rc::clone(memory), number));
        assert!(joined.is_ok(), "a cache is in one memory only");
        self.resize(share_bytes);
        self.evict_to_fit();
    }

    fn resident_bytes(&self) -> u64 {
        self.resident.get()
    }

    fn dirty_bytes(&self) -> u64 {
        self.dirty.get()
    }

    fn share_bytes(&self) -> u64 {
        self.capacity_bytes.get()
    }

    fn frame_bytes(&self) -> u64 {
        self.frame_bytes
    }

    fn gives(&self, bytes: u64) -> u64 {
        let share = self.capacity_bytes.get();
        let floor = share.saturating_sub(bytes).max(self.frame_bytes);
        while self.resident.get() > floor && self.evict_one() {}
        let kept = self.resident.get().clamp(floor, share.max(floor));
        if kept != share {
            self.resize(kept);
        }
        share.saturating_sub(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capacity, replacement};
    use twin_disk::Buf;

    fn cache(frames: u64) -> (Cache, Rc<FileFrames>) {
        let policy = replacement::REGISTRY.default_entry().make(Capacity::frames(frames));
        (Cache::new(frames * 4096, 4096, policy), FileFrames::new(7))
    }

    fn put(cache: &Cache, file: &Rc<FileFrames>, lbn: Lbn) -> Rc<Frame> {
        cache.insert(file, lbn, Some(Block::Zero(4096)))
    }

    #[test]
    fn the_least_recently_used_frame_goes() {
        let (cache, file) = cache(2);
        put(&cache, &file, 0);
        put(&cache, &file, 1);
        cache.get(&file, 0);
        put(&cache, &file, 2);
        assert!(cache.peek(&file, 1).is_none());
        assert!(cache.peek(&file, 0).is_some());
    }

    #[test]
    fn a_held_frame_stays() {
        let (cache, file) = cache(1);
        let held = put(&cache, &file, 0);
        put(&cache, &file, 1);
        put(&cache, &file, 2);
        assert!(held.is_attached());
    }

    #[test]
    fn a_dirty_frame_stays_until_it_is_clean() {
        let (cache, file) = cache(1);
        let frame = put(&cache, &file, 0);
        cache.mark_dirty(&file, &frame);
        drop(frame);
        put(&cache, &file, 1);
        let frame = cache.peek(&file, 0).unwrap();
        assert_eq!(cache.dirty_bytes(), 4096);
        cache.mark_clean(&file, &frame);
        drop(frame);
        put(&cache, &file, 2);
        assert!(cache.peek(&file, 0).is_none());
        assert_eq!(cache.dirty_bytes(), 0);
    }

    /// Writes a frame that is to be dropped behind; `then` runs during the write.
    fn pass(cache: &Cache, file: &Rc<FileFrames>, lbn: Lbn, then: impl FnOnce()) {
        let frame = put(cache, file, lbn);
        frame.set_drop_behind();
        cache.mark_sent(file, &frame);
        then();
        cache.mark_written(&frame);
    }

    #[test]
    fn a_drop_behind_frame_leaves_when_it_is_written() {
        let (cache, file) = cache(4);
        pass(&cache, &file, 0, || ());
        assert!(cache.peek(&file, 0).is_none());
        assert_eq!(cache.resident_bytes(), 0);
    }

    #[test]
    fn a_drop_behind_frame_that_somebody_asks_for_or_holds_or_changes_stays() {
        let (cache, file) = cache(4);
        pass(&cache, &file, 0, || drop(cache.get(&file, 0)));
        let mut held = None;
        pass(&cache, &file, 1, || held = cache.peek(&file, 1));
        pass(&cache, &file, 2, || {
            let frame = cache.peek(&file, 2).unwrap();
            cache.mark_dirty(&file, &frame);
        });
        assert!((0..3).all(|lbn| cache.peek(&file, lbn).is_some()));
    }

    #[test]
    fn a_sent_frame_stays_until_it_is_written() {
        let (cache, file) = cache(1);
        let frame = put(&cache, &file, 0);
        cache.mark_dirty(&file, &frame);
        cache.mark_sent(&file, &frame);
        cache.mark_dirty(&file, &frame);
        cache.mark_sent(&file, &frame);
        cache.mark_written(&frame);
        drop(frame);
        put(&cache, &file, 1);
        let frame = cache.peek(&file, 0).unwrap();
        cache.mark_written(&frame);
        drop(frame);
        put(&cache, &file, 2);
        assert!(cache.peek(&file, 0).is_none());
    }

    #[test]
    fn a_frame_that_stays_alone_does_not_keep_a_whole_buffer() {
        let (cache, file) = cache(64);
        let fill = |from: Lbn| {
            let large = Buf::zeroed(32 * 4096).freeze();
            (0..32).for_each(|i| {
                cache.insert(
                    &file,
                    from + i,
                    Some(Block::Bytes(large.slice(i as usize * 4096, 4096))),
                );
            });
            large
        };
        let held = |frame: &Frame| {
            frame.with(|b| match b {
                Block::Bytes(bytes) => bytes.buffer_len(),
                _ => 0,
            })
        };
        let (large, mut from) = (fill(0), 32);
        let frame = cache.get(&file, 7).unwrap();
        assert_eq!(held(&frame), large.buffer_len());
        drop((frame, large));
        fill(1000);
        for _ in 0..3 {
            let frame = cache.get(&file, 7).expect("it is used again and again");
            assert_eq!(held(&frame), 4096);
            drop(frame);
            fill(from);
            from += 32;
        }
    }

    #[test]
    fn what_was_read_can_be_dropped_and_nothing_else() {
        let (cache, file) = cache(16);
        let read = |lbn| {
            let frame = cache.insert(&file, lbn, None);
            frame.fill(Block::Zero(4096));
            frame
        };
        let (_made, _changed, held) = (put(&cache, &file, 0), read(1), read(2));
        cache.mark_dirty(&file, &_changed);
        cache.mark_clean(&file, &_changed);
        let _loading = cache.insert(&file, 3, None);
        (4..8).for_each(|lbn| drop(read(lbn)));
        cache.drop_read(&file, 0..7);
        assert_eq!(
            file.resident(0..20).iter().map(|f| f.lbn()).collect::<Vec<_>>(),
            [0, 1, 2, 3, 7]
        );
        assert_eq!(cache.resident_bytes(), 5 * 4096);
        drop(held);
        cache.drop_read(&file, 2..3);
        cache.drop_read(&file, 7..100);
        assert_eq!(cache.resident_bytes(), 3 * 4096);
    }

    #[test]
    fn a_removed_dirty_frame_counts_as_absorbed() {
        let (cache, file) = cache(4);
        let frame = put(&cache, &file, 0);
        cache.mark_dirty(&file, &frame);
        cache.remove_range(&file, 0..10);
        assert!(!frame.is_attached());
        assert_eq!((cache.dirty_bytes(), cache.stats().absorbed_bytes), (0, 4096));
        assert_eq!(cache.resident_bytes(), 0);
    }
}
